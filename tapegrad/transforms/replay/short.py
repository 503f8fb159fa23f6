"""Calls that are like an earlier one: which site answers them (`transforms.replay.site`).

A transformation says how its answers are made (`transforms.replay.planned`); `Replayed` then has a `Short` of each tape that
answered lately, through which the next call goes first.
"""

from __future__ import annotations

from ...program.replayed import Replay
from .miss import MISS
from .site import Site


class Short:
    """The short way to one kept tape.

    Attributes
    ----------
    kept : Kept
    site : Site or None
        None: calls that it answers go the long way.
    swept : bool
        Whether that replays; else a kernel answers.
    """

    __slots__ = ("kept", "surroundings", "made", "site", "swept", "_call")

    def __init__(self, kept, surroundings, key, planned, made):
        self.kept, self.surroundings, self.made = kept, surroundings, made
        self.site, self.swept, self._call = None, False, None
        found = planned(kept, key[0])
        if found is not None and found[0].pointer:
            executable, plan, answer = found
            self.swept = isinstance(executable, Replay)
            self.site = Site(*key, executable, answer, surroundings.same, plan)
            self._call = self.site.call

    def serves(self, surroundings, made):
        """Whether nothing has changed since; `made` counts kernels."""
        return self.surroundings is surroundings and self.made == made

    def call(self, args, kwargs, stats):
        """The answer, or `MISS`."""
        kernels = self.kept.kernels
        if self.swept and (kernels.left(True) <= 1 or kernels.get(True) is not None):
            return MISS
        answer = self._call(args, kwargs)
        if answer is MISS:
            return MISS
        if self.swept:
            stats.sweeps += 1
            kernels.visits[True] += 1
        else:
            stats.kernel_calls += 1
        return answer
