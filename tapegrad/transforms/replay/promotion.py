"""When a tape that is replayed becomes machine code.

========== =====================================================================
policy
========== =====================================================================
"auto"     when replays by sweep have cost as much as the kernel will
"always"   at the first replay
"never"    by sweep only
========== =====================================================================

That is the rule of who rents until the rent paid is the price: never more than about
twice the least that could have been spent, however often the function will be called.
Both sides are counted in steps (`prediction`), nothing is timed, so two runs of a program do the same.
What a kernel costs is known once the derivative of the tape is rolled, which costs something
itself: when the sweeps have paid for that, it is done, and says when the kernel is due.

A kernel is used once it has given the same numbers as the sweep at one point; a tape that
cannot be lowered stays with the sweep.
"""

from __future__ import annotations

import logging
import math
import threading
from collections import defaultdict
from functools import cached_property

import numpy as np

from ...common import config
from ...common.errors import OptionError
from ...common.uninterrupted import remade, uninterrupted
from ...kernel import prediction
from ...kernel.reasons import NotLowered, faults_are_reasons

LOG = logging.getLogger("tapegrad")

POLICIES = ("auto", "always", "never")
#: How much a kernel may differ from the sweep at the point of comparison, relative to the largest entry.
TOLERANCE = 1e-7
#: The same in float32, which has half the digits, and of which long sums lose more.
TOLERANCE_OF_FLOAT32 = 1e-2


def checked_policy(policy):
    """`policy`, or the configured one for None.

    Raises
    ------
    OptionError
        If there is no such policy.
    """
    policy = config.kernel if policy is None else policy
    if policy not in POLICIES:
        raise OptionError(f"kernel={policy!r}: choose one of {', '.join(map(repr, POLICIES))}")
    return policy


class Promotion:
    """The kernels of one kept tape.

    There may be several, by *key*: False for its values, True for values and gradients, and
    ``(forward, lanes)`` for directional derivatives (`transforms.replay.directions`).

    Parameters
    ----------
    tape : FinishedTape
    policy : str
    options : kernel.emit.Options or None

    Attributes
    ----------
    calls, due : dict of key to int
        Replays by sweep (or directions); at how many of them the next thing happens: the derivative is
        rolled, or the kernel made.  0 once there is one: whoever counts then finds it.
    price : dict of key to int
        Steps after which a kernel is made, if that is known.
    recording : ReplayedRecording or None
        One that was swept in directions for which there are kernels now.
    least, each : int
        Replays before a kernel is made, at least; sweeps that one of them is.
    reason : str
        Why there is no kernel and will be none; empty otherwise.
    """

    least = each = 1

    def __init__(self, tape, policy, options=None):
        self.tape, self.policy, self.options = tape, policy, options
        self.reason, self.recording = "", None
        self._made, self._untried = {}, {}
        self._lock = remade(threading.Lock())
        self.calls, self.price = defaultdict(int), {}
        due = math.inf if policy == "never" else self.least
        if policy == "auto":
            due = max(self.least, prediction.calls(prediction.KERNEL + prediction.derivation(tape), self.weight))
        self.due = defaultdict(lambda: due)

    @cached_property
    def weight(self):
        """Steps of a replay, or of a direction."""
        return self.each * prediction.sweep(self.tape)

    def get(self, key):
        """The kernel for `key`, or None."""
        return self._made.get(key)

    @property
    def nbytes(self):
        """Of the workspaces of all kernels."""
        return sum(kernel.nbytes for kernel in self._made.values())

    def count(self, key, more=1):
        """Note a replay by sweep, or so many directions; whether it is time to `promote`."""
        self.calls[key] += more
        return self.calls[key] >= self.due[key]

    def waiting(self):
        """What is waited for, a line for each key that was replayed and has no kernel yet."""
        lines = []
        for key, calls in dict(self.calls).items():
            left = self.due[key] - calls
            if key not in self._made and self.policy == "auto" and left < math.inf:
                what = "directions" if isinstance(key, tuple) else "calls"
                after = f"after about {max(1, left)} more {what} by sweep"
                lines.append(f"kernel {after}" if key in self.price else f"cost of a kernel is looked at {after}")
        return lines

    def promote(self, key, answer, expected, stats, name):
        """Make a kernel.

        Parameters
        ----------
        key
        answer : callable
            Given the kernel, what it says at a point: status and results as of `Executable.answer`.
        expected : list
            What the sweep found there; the kernel has to agree.
        stats : Stats
        name : str
            Of the function, for the log.
        """
        if self._lock.acquire(blocking=False):
            try:
                if key not in self._made:
                    self._make(key, answer, expected, stats, name)
            finally:
                self._lock.release()

    def note(self, gradients, inputs, values, found, stats, name):
        """`count` a replay by sweep at `inputs`, with its results and gradients, and `promote` if it is time."""
        if self.count(gradients):
            expected = [*values, *(g for g in found or () if g is not None)]
            self.promote(gradients, lambda kernel: kernel.answer(inputs), expected, stats, name)

    def make(self, gradients):
        """The kernel of values, or of values and gradients, made now if there is none.

        Raises
        ------
        NotLowered
        """
        kernel = self._made.get(gradients)
        if kernel is None:
            with faults_are_reasons():
                kernel = self._made[gradients] = self._compiled(gradients, None)
            self.due[gradients] = 0
        return kernel

    def _compiled(self, key, limit):
        with uninterrupted:
            # These import llvmlite, which a process without kernels does not load.
            from ...kernel.emit import Options
            from ...kernel.lanes import LanesKernel
            from ...kernel.of_tape import TapeKernel

        options = self.options or Options()
        if isinstance(key, tuple):
            return LanesKernel(self.tape, *key, options, limit)
        return TapeKernel(self.tape, key, options, limit)

    def _make(self, key, answer, expected, stats, name):
        paid = None if self.policy == "always" else self.calls[key] * self.weight - prediction.derivation(self.tape)
        kernel = self._untried.pop(key, None)
        try:
            with faults_are_reasons():
                kernel = kernel or self._compiled(key, paid)
                status, results = answer(kernel)
        except NotLowered as why:
            self._drop(str(why), stats, name, why.__cause__)
            return
        except prediction.TooDear as dear:
            self.price[key] = dear.steps + prediction.derivation(self.tape)
            self.due[key] = prediction.calls(self.price[key], self.weight)
            return
        if results is None:
            # A gradient that is not finite here, or a guard at its very edge: try at another point.
            self._untried[key], self.due[key] = kernel, self.calls[key] + 1
            return
        stats.seconds["kernel"] += sum(kernel.seconds.values())
        if not all(_agree(a, b) for a, b in zip(results, expected)):
            self._drop("its kernel and the sweep disagree", stats, name)
            return
        self._made[key], self.due[key] = kernel, 0
        stats.kernels += 1
        LOG.info("%s: %s", name, kernel)

    def _drop(self, reason, stats, name, fault=None):
        self.reason, self.due = reason, defaultdict(lambda: math.inf)
        stats.not_lowered[reason] += 1
        LOG.info("%s: runs by sweep: %s", name, reason, exc_info=fault)


def _agree(one, other):
    other = np.asarray(getattr(other, "_v", other))
    if other.dtype.kind not in "biuf":
        # A constant that goes past the kernel.
        return True
    if one.dtype.kind != "f":
        return np.array_equal(one, other)
    scale = np.max(np.abs(other), initial=0.0, where=np.isfinite(other))
    tolerance = TOLERANCE if one.dtype.char == "d" else TOLERANCE_OF_FLOAT32
    return bool(np.allclose(one, other, rtol=tolerance, atol=tolerance * scale, equal_nan=True))
