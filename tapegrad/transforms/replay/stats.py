"""What a transformed function says of itself: counts, times and warnings."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from ...codegen.code import COUNTS
from ...common import config
from ...common.errors import PerformanceWarning
from ...common.printing import Printed
from ...program.through import Rules
from ...tape.places import function_name, inner_frames

#: Seconds in derivatives without `jit` after which a function is named.
PATIENCE = 1.0
#: Paths that wait for a kernel and have a line each in print.
SINGLY = 5


@dataclass(repr=False)
class Stats(Printed):
    """What a transformed function has done so far.

    Attributes
    ----------
    records, runs : int
        Calls for which the user's function ran: to be recorded, and plainly.
    replays, sweeps, kernel_calls : int
        Calls answered by replay, all together; by sweep; and by a kernel.
    misses : Counter
        Guards that saw something else, by place.
    cuts : Counter
        Where the derivative was cut on purpose (``detach``), by place.
    tapes : int
    instructions, bytes : int
        Of all kept tapes.
    kernels : int
        Tapes that became machine code.
    not_lowered : Counter
        Why tapes are replayed by sweep only: the instruction that has no machine code, and its place.
    seconds : dict of str to float
        Spent in ``record``, ``finish``, ``replay`` (by sweep), and to compile (``kernel``).
    fallback : str
        Why the function is run plainly although it is under `jit`; empty if it is not.
    kernels_of : list of Kernels
        Of the kept tapes: what they wait for is in `waiting`.
    """

    records: int = 0
    sweeps: int = 0
    runs: int = 0
    misses: Counter[str] = field(default_factory=Counter)
    cuts: Counter[str] = field(default_factory=Counter)
    tapes: int = 0
    instructions: int = 0
    bytes: int = 0
    kernels: int = 0
    kernel_calls: int = 0
    not_lowered: Counter[str] = field(default_factory=Counter)
    seconds: dict[str, float] = field(default_factory=lambda: {"record": 0.0, "finish": 0.0, "replay": 0.0, "kernel": 0.0})
    fallback: str = ""
    kernels_of: list = field(default_factory=list, repr=False, compare=False)

    @property
    def waiting(self):
        """When kernels come of tapes that are replayed by sweep so far: a line each for the first five, and one for all others."""
        calls = [kernels.left(key) for kernels in self.kernels_of for key in list(kernels.visits)]
        coming = [coming for kernels in self.kernels_of for coming in list(kernels.coming.values()) if coming.working]
        left = sorted(max(1, n) for n in calls if n < math.inf)
        lines = [f"kernel after {n} more calls on this path" for n in left[:SINGLY]]
        if others := left[SINGLY:]:
            lines.append(f"kernels after {others[0]} to {others[-1]} more calls on each of {len(others)} further paths")
        return lines + ["kernel when another thread has compiled it"] * len(coming)

    @property
    def python(self):
        """Custom primitives, and rules of theirs, that are called in Python, and why: a line each."""
        return list(dict.fromkeys(line for kernels in self.kernels_of for line in Rules.in_python(kernels.tape)))

    @property
    def replays(self) -> int:
        """Calls answered by replay."""
        return self.sweeps + self.kernel_calls

    def __str__(self):
        lines = [
            f"records {self.records}, replays {self.replays}, runs {self.runs}",
            f"tapes {self.tapes}: {self.instructions} instructions, {self.bytes} bytes",
            f"kernels {self.kernels}: {self.kernel_calls} calls",
            "seconds: " + ", ".join(f"{k} {v:.4f}" for k, v in self.seconds.items()),
        ]
        lines += self.waiting
        lines += [f"guard missed {n} times: {where}" for where, n in self.misses.most_common()]
        lines += [f"cut {n} times: {where}" for where, n in self.cuts.most_common()]
        lines += [f"by sweep: {why}" for why in self.not_lowered]
        lines += [f"calls Python: {line}" for line in self.python]
        if self.fallback:
            lines.append(f"run at every call: {self.fallback}")
        return "\n".join(lines)


class EagerTime:
    """The time that one function has spent in derivatives without `jit`, by whatever transformations.

    Attributes
    ----------
    seconds, unnoted : float
        All of it, and what of it is still to be added, which short calls let come together.
    """

    #: By code: a lambda that is made anew at each iteration of a loop is the same function here.
    _KNOWN: WeakKeyDictionary = WeakKeyDictionary()

    def __init__(self, name):
        self.name, self.seconds, self.unnoted = name, 0.0, 0.0
        #: Parts of the library that had been compiled when a call was noted last.
        self._compiled = 0

    @classmethod
    def of(cls, function):
        """That of `function`."""
        while hasattr(function, "__wrapped__"):
            function = function.__wrapped__
        code = getattr(function, "__code__", type(function))
        known = cls._KNOWN.get(code)
        if known is None:
            known = cls._KNOWN[code] = cls(function_name(function))
        return known

    def note(self):
        """Note the calls since the last time; says once, after `PATIENCE`, what would be quicker."""
        seconds, self.unnoted = self.unnoted, 0.0
        if self._compiled != COUNTS["compiled"]:
            # It was the library itself that was compiled meanwhile.
            self._compiled = COUNTS["compiled"]
            return
        before = self.seconds
        self.seconds += seconds
        if before and self.seconds > PATIENCE:
            # Of one long call jit would save nothing.
            self.seconds = float("-inf")
            text = (
                f"{self.name} has spent {PATIENCE:g} s in derivatives that run it at every call. tg.jit(tg.grad(f)), or tg.jit on the "
                "transformation that is used, records it once and answers by machine code; see docs/functional.md for what that "
                "takes for granted (a loop that decides by its numbers has many paths: tg.njit_value_and_grad compiles it whole)"
            )
            try:
                warnings.warn(text, PerformanceWarning, stacklevel=outside())
            except PerformanceWarning:
                # How long a call takes is no reason to fail, unless the user's filters make this warning an error.
                if any(action == "error" and issubclass(kind, PerformanceWarning) for action, _, kind, *_ in warnings.filters):
                    raise
                config.logger.warning("%s", text)


def outside():
    """The `stacklevel`, for the caller, of the first frame outside tapegrad."""
    return 1 + len(list(inner_frames()))
