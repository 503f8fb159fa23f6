"""Whether `tg.jacobian` chooses the cheaper mode, on fifty functions.

The choice is made for all of them before anything is timed, from their tapes
alone.  Then both modes are timed as `tg.jacobian` runs them once a function is
recorded: sweeps, and bringing the result out.  ``python -m benchmarks.choice``
prints the whole table.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from tapegrad.autograd.recording import Recording
from tapegrad.tools.comparing.calibration import measure
from tapegrad.transforms.choosing.costs import nanoseconds, predict

from ..registry import Row, benchmark
from .functions import FUNCTIONS

#: Modes whose costs differ by less are a tie, and either choice is right.
TIE = 0.10
#: A predicted ratio of costs is near if it is off by no more.
NEAR = 0.25


#: Factors by which constants may be wrong on another machine.
WRONG = 1.5, 2.0
OFF = "choices that hold with every constant off by a random factor of up to {:g}"


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
    #: What both modes do, forward and reverse, in the units of `tapegrad.transforms.choosing.costs.NANOSECONDS`.
    counts: tuple[dict, dict]

    @property
    def verdict(self) -> str:
        """One of "right", "tie" and "wrong"."""
        if 1 / (1 + TIE) <= self.measured <= 1 + TIE:
            return "tie"
        return "right" if (self.measured < 1) == (self.choice == "forward") else "wrong"

    @property
    def near(self) -> bool:
        return abs(self.predicted / self.measured - 1) <= NEAR


def outcomes(quick: bool = False) -> list[Outcome]:
    """Choose for every function, then time both modes of each."""
    recordings = {name: Recording(f, (point,), (0,)) for name, (_, f, point) in FUNCTIONS.items()}
    chosen = {name: predict(recording) for name, recording in recordings.items()}
    found = []
    for name, recording in recordings.items():
        prediction = chosen[name]
        forward, reverse = measure(recording, 3 if quick else 10, 0.02 if quick else 0.2)
        sizes = prediction.forward.seeds, prediction.reverse.seeds
        ratio = prediction.forward.nanoseconds / prediction.reverse.nanoseconds
        counts = prediction.forward.counts, prediction.reverse.counts
        found.append(Outcome(name, FUNCTIONS[name].structure, *sizes, prediction.mode, ratio, forward / reverse, counts))
    return found


def with_wrong_constants(found: list[Outcome], factor: float, draws: int = 20) -> float:
    """Percent of choices that are not wrong if every constant is off by a random factor of up to `factor` either way."""
    rng = np.random.default_rng(0)
    good = 0
    for _ in range(draws):
        constants = {name: value * factor ** rng.uniform(-1.0, 1.0) for name, value in nanoseconds().items()}
        for outcome in found:
            forward, reverse = (sum(constants[name] * n for name, n in counts.items() if n) for counts in outcome.counts)
            choice = "forward" if forward < reverse else "reverse"
            good += replace(outcome, choice=choice).verdict != "wrong"
    return 100 * good / (draws * len(found))


def rows(found: list[Outcome]) -> list[Row]:
    """The two promises, and how much hangs on the constants."""
    wrong = [o.name for o in found if o.verdict == "wrong"]
    far = [o.name for o in found if not o.near]
    return [
        Row(
            "choices that are not the cheaper mode",
            f"at least 95 % of {len(found)} choices, made before timing, are the cheaper mode or a tie within 10 %",
            100 * len(wrong) / len(found),
            5.0,
            "%",
            {"ties": sum(o.verdict == "tie" for o in found), "wrong": ", ".join(wrong) or "none"},
        ),
        Row(
            "predicted ratios of costs that are more than 25 % off",
            "at least 80 % are within 25 %",
            100 * len(far) / len(found),
            20.0,
            "%",
            {"off": ", ".join(far) or "none"},
        ),
        *(Row(OFF.format(factor), measured=with_wrong_constants(found, factor), unit="%") for factor in WRONG),
    ]


@benchmark(name="choice")
def choice(quick: bool) -> Iterator[Row]:
    """Whether the mode that is chosen before timing is the cheaper one, on fifty functions."""
    yield from rows(outcomes(quick))
