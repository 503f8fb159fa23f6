"""Times of repeated runs: minima for promises, medians to show how steady they were."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Time:
    """Seconds per call: the smallest and the median over all repeats."""

    minimum: float
    median: float
    repeats: int

    def per(self, count: int) -> Time:
        """Seconds per one of `count` equal parts of the call."""
        return Time(self.minimum / count, self.median / count, self.repeats)

    def __str__(self) -> str:
        return f"{seconds(self.minimum)} (median {seconds(self.median)})"


def of(values: list[float]) -> Time:
    """The time of repeats that took `values` seconds."""
    return Time(min(values), sorted(values)[len(values) // 2], len(values))


def seconds(value: float) -> str:
    """Write a time with a unit that fits it."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value / 1e-9:.3g} ns"


#: Calls of one library before it is the next one's turn.
IN_A_ROW = 5


def measure(
    calls: dict[str, Callable[[], object]],
    *,
    budget: float = 2.0,
    at_least: int = 5,
    at_most: int = 2000,
) -> dict[str, Time]:
    """Time several calls that do the same work.

    The calls take turns, so that a slow moment of the machine falls on all of
    them alike.  Each is called once beforehand, to compile and to warm up.

    Parameters
    ----------
    calls : dict
        What to call, by name.
    budget : float
        Seconds to spend on all of them together.
    at_least, at_most : int
        Bounds on the number of repeats, whatever the budget says.

    Returns
    -------
    dict of Time
    """
    for call in calls.values():
        call()
    taken: dict[str, list[float]] = {name: [] for name in calls}
    end = time.perf_counter() + budget
    repeats = 0
    while repeats < at_least or (repeats < at_most and time.perf_counter() < end):
        gc.collect(0)  # rubbish of the call before is not this one's to clear
        for name, call in calls.items():
            # The first call of a turn finds the caches full of the others' data.
            for _ in range(IN_A_ROW):
                start = time.perf_counter()
                call()
                taken[name].append(time.perf_counter() - start)
        repeats += 1
    return {name: of(values) for name, values in taken.items()}
