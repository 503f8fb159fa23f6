"""Whether `tg.jacobian` chooses the cheapest way, on fifty functions.

The choice is made for all of them before anything is timed, from their tapes
alone.  Then both modes, and the product at a cut where there is a narrow one, are timed as `tg.jacobian` runs them once a function
is recorded: sweeps, and bringing the result out.  ``python -m benchmarks.choice``
prints the whole table.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from time import perf_counter

import numpy as np

from tapegrad.program.choosing import NANOSECONDS, predict
from tapegrad.program.evaluation import Evaluation
from tapegrad.program.sweeps import StoreWalk

from ..registry import Row, benchmark
from .functions import FUNCTIONS

#: The chosen mode may cost so many times what the cheaper one does, and the model may have so many constants.
MOST, CONSTANTS = 1.5, 5


@dataclass(frozen=True)
class Outcome:
    """What was chosen for one function, and what the modes cost."""

    name: str
    structure: str
    inputs: int
    outputs: int
    choice: str
    #: Cost of forward mode over that of reverse mode.
    predicted: float
    measured: float
    #: What the chosen way costs over the cheapest one.
    lost: float


def by_product(recording: StoreWalk) -> object:
    """Blocks multiplied out at a cut, which is looked for."""
    return Evaluation(recording).rows(predict(recording, True).cut)


def measure(recording: StoreWalk, ways: list[str], repeats: int, budget: float) -> dict[str, float]:
    """Seconds of each way: the least of several runs that take turns, for `budget` seconds at least."""
    calls = {"forward": lambda walk: Evaluation(walk).columns(), "reverse": lambda walk: Evaluation(walk).rows(), "product": by_product}
    best = dict.fromkeys(ways, np.inf)
    for way in ways:
        calls[way](recording)
    end, turns = perf_counter() + budget, 0
    while turns < repeats or perf_counter() < end:
        for way in ways:
            # The first run of a turn finds the caches full of the others' data.
            for _ in range(3):
                start = perf_counter()
                calls[way](recording)
                best[way] = min(best[way], perf_counter() - start)
        turns += 1
    return best


def outcomes(quick: bool = False) -> list[Outcome]:
    """Choose for every function, then time both modes of each."""
    recordings = {name: StoreWalk(f, (point,), (0,)) for name, (_, f, point) in FUNCTIONS.items()}
    chosen = {name: predict(recording, True) for name, recording in recordings.items()}
    found = []
    for name, recording in recordings.items():
        prediction = chosen[name]
        ways = ["forward", "reverse", *["product"] * (prediction.product is not None)]
        taken = measure(recording, ways, 3 if quick else 10, 0.02 if quick else 0.2)
        sizes = prediction.forward.seeds, prediction.reverse.seeds
        ratio = prediction.forward.nanoseconds / prediction.reverse.nanoseconds
        measured, lost = taken["forward"] / taken["reverse"], taken[prediction.mode] / min(taken.values())
        found.append(Outcome(name, FUNCTIONS[name].structure, *sizes, prediction.mode, ratio, measured, lost))
    return found


def rows(found: list[Outcome]) -> list[Row]:
    """The promises."""
    worst = max(found, key=lambda o: o.lost)
    off = [o.name for o in found if o.lost > 1.1]
    return [
        Row(
            "the chosen mode beside the cheaper one, at worst",
            f"at most {MOST:g} times as long, on each of {len(found)} functions; chosen before timing",
            worst.lost,
            MOST,
            "x",
            {"at": worst.name, "more than 10 % slower": ", ".join(off) or "none"},
        ),
        Row("constants of the model by which a mode is chosen", f"at most {CONSTANTS}", float(len(NANOSECONDS)), CONSTANTS, ""),
    ]


@benchmark(name="choice")
def choice(quick: bool) -> Iterator[Row]:
    """Whether the mode that is chosen before timing is the cheaper one, on fifty functions."""
    yield from rows(outcomes(quick))
