"""Calls that are like an earlier one: which site answers them (`transforms.replay.site`).

A transformation says how its answers are made (`transforms.replay.planned`); `Replayed` then has a `Short` of the tape that
answered last, through which the next call goes first.
"""

from __future__ import annotations

from ...program.replayed import Replay
from .answers import Same
from .miss import MISS
from .site import Site


class Short:
    """The short way to one kept tape.

    Attributes
    ----------
    site : Site or None
        None: calls that it answers go the long way.
    swept : bool
        Whether that replays; else a kernel answers.
    """

    __slots__ = ("kind", "kept", "surroundings", "made", "site", "swept", "_call", "_held")

    def __init__(self, kind, kept, surroundings, key, planned, made):
        self.kind, self.kept, self.surroundings, self.made = kind, kept, surroundings, made
        self.site = self._held = None
        self.swept = False
        found = planned(kept, key[0])
        if found is not None and found[0].pointer:
            executable, plan, answer = found
            same = Same("same_changed() is None", {"same_changed": surroundings.changed})
            self.swept = isinstance(executable, Replay)
            self.site = Site(*key, executable, answer, same, plan)
        self._call = None if self.site is None else self.site.call

    def serves(self, kept, surroundings, made):
        """Whether nothing has changed since; `made` counts kernels."""
        return self.kept is kept and self.surroundings is surroundings and self.made == made

    def call(self, args, kwargs, stats):
        """The answer, or `MISS`."""
        kind, kernels = self.kind, self.kept.kernels
        if self._call is None or kind.calls + 1 == kind.check_at or kind.given_up:
            return MISS
        if self.swept and kernels.calls[True] + 1 >= kernels.due[True]:
            return MISS
        answer = self._call(args, kwargs)
        if answer is MISS:
            return MISS
        kind.calls += 1
        if kind.recent:
            kind.note(False)
        if self.swept:
            stats.sweeps += 1
            kernels.calls[True] += 1
        else:
            stats.kernel_calls += 1
        return answer

