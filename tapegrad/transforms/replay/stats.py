"""What a replayed function says of itself: counts, times and warnings."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


class ImpureFunctionWarning(UserWarning):
    """A function gave something else when it was recorded again; it is run define-by-run."""


class PathWarning(UserWarning):
    """The path of a function changes at nearly every call; it is run define-by-run."""


@dataclass
class Stats:
    """What a replayed function has done so far.

    Attributes
    ----------
    records, define_by_run : int
        Calls of the user's function that were recorded, and that ran define-by-run.
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
        Why the function is run define-by-run; empty if it is not.
    promotions : list of Promotion
        Of the kept tapes: what they wait for is in `waiting`.
    """

    records: int = 0
    sweeps: int = 0
    define_by_run: int = 0
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
    promotions: list = field(default_factory=list, repr=False, compare=False)

    @property
    def waiting(self):
        """When kernels come, by themselves, of tapes that are replayed by sweep so far: a line each."""
        return [line for promotion in self.promotions for line in promotion.waiting()]

    @property
    def replays(self) -> int:
        """Calls answered by replay."""
        return self.sweeps + self.kernel_calls

    def __str__(self):
        lines = [
            f"records {self.records}, replays {self.replays}, define-by-run {self.define_by_run}",
            f"tapes {self.tapes}: {self.instructions} instructions, {self.bytes} bytes",
            f"kernels {self.kernels}: {self.kernel_calls} calls",
            "seconds: " + ", ".join(f"{k} {v:.4f}" for k, v in self.seconds.items()),
        ]
        lines += self.waiting
        lines += [f"guard missed {n} times: {where}" for where, n in self.misses.most_common()]
        lines += [f"cut {n} times: {where}" for where, n in self.cuts.most_common()]
        lines += [f"by sweep: {why}" for why in self.not_lowered]
        if self.fallback:
            lines.append(f"run define-by-run: {self.fallback}")
        return "\n".join(lines)
