"""A recorded tape in use: run by the interpreter or by its kernels; when it becomes machine code, how, and when that is right.

A kernel is used once it has given the same numbers as the interpreter at one point; a tape that cannot be lowered stays with
the interpreter.
"""

from __future__ import annotations

import logging
import math
import threading
import time
import weakref
from collections import Counter
from dataclasses import dataclass
from functools import partial

import numpy as np

from ...common import config
from ...common.errors import OptionError
from ...common.memory import TRIMMED, trim
from ...common.uninterrupted import cached_property, remade, uninterrupted
from ...common.waiting import BackgroundTask, busy, say, waiting
from ...kernel import reasons
from ...kernel.reasons import NotLowered, faults_are_reasons
from ...program.ports import FINE, NOT_FINITE, OTHER
from .answers import Outcome
from .directions import KernelWalk, ReplayWalk, Stopped, key_of

LOG = logging.getLogger("tapegrad")

POLICIES = ("auto", "always", "never")
#: Predicted seconds of a compilation above which "auto" has another thread compile while sweeps answer, and above which it does not compile.
SECONDS, MOST = 2.0, 30.0
#: A path that is not the first has another thread make its kernel when what sweeps of it took longer than a kernel would have is this
#: part of what making it is predicted to take: calls then wait for nothing, and paths that are visited often are visited on.
BEGIN = 1 / 32
#: At so many points a kernel of plain products is tried before one is made in which zero is absolute.
POINTS = 16
#: If that thread has something else to do, it is asked again after so many visits, at least.
LATER = 64
#: How much a kernel may differ from the sweep at the point of comparison, relative to the largest entry: float32 has half the digits,
#: and long sums lose more of them.
TOLERANCE = {"d": 1e-7, "f": 1e-2}
#: Bytes of a sweep of which it is said that there is another way.
HELD = 1 << 29
#: Tapes whose sweeps hold so many bytes are counted, and those that were not swept for longest let their memory go while all
#: together hold more than `ALL`; but not the `NEWEST`.
LARGE, ALL, NEWEST = 1 << 22, 1 << 28, 4


@dataclass(frozen=True)
class JitOptions:
    """How a function is recorded and compiled: the options of `tapegrad.jit`.

    Attributes
    ----------
    kernel : str
        "auto", "always" or "never".
    fastmath, symmetric : bool
        As of `kernel.emit.CompileOptions`.
    visits : int
        With "auto", calls after which the first path becomes a kernel, at the earliest; an optimiser without `jit` has more.
    """

    kernel: str = "auto"
    fastmath: bool = False
    symmetric: bool = False
    visits: int = 1


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


class Kernels:
    """The kernels of one tape.

    There may be several, by *key*: False for its values, True for values and gradients, and
    ``(forward, lanes)`` for directional derivatives (`transforms.replay.directions`).

    Parameters
    ----------
    tape : FinishedTape
    options : JitOptions
    first : bool
        Whether the tape is that of a function's first path.

    Attributes
    ----------
    visits : Counter
        Calls answered by interpreter, by key.
    made : dict
        Kernels by key.
    coming : dict
        By key what another thread compiles (`BackgroundTask`).
    walk : ReplayWalk or None
        One that was asked for directions for which there are kernels now.
    pays : bool
        Whether a kernel is made only if that pays, and by another thread.
    reason : str
        Why there is no kernel and will be none, unless `make` is asked for one; empty otherwise.
    """

    def __init__(self, tape, options, first=False):
        self.tape, self.options = tape, options
        self.reason, self.walk = "", None
        self.made, self.coming, self._untried, self.visits = {}, {}, {}, Counter()
        #: Keys of kernels in which zero is absolute: that of plain products was not finite where the interpreter's answer is.
        self._absolute = set()
        #: Visits after which a kernel may be made, and, by key, after which it is: if it has to pay, its cost is known when it was looked at.
        self._soon, self._due = 1 if options.kernel == "always" else options.visits, {}
        self.pays = not first and options.kernel == "auto"
        self._lock = remade(threading.Lock())

    def directional(self, forward, count):
        """As `KernelWalk` takes it: the kernel for so many directions, and how many it carries at once."""
        key = key_of(self.tape, forward, count)
        if key not in self.made:
            raise Stopped(OTHER)
        return self.made[key], key[1]

    def left(self, key):
        """After how many more calls by interpreter a kernel is made (inf: never, or it is there, or another thread is at it)."""
        if key in self.made:
            return math.inf
        left = (self._due.get(key) or self._first_due(key)) - self.visits[key]
        if left > 1:
            return left
        coming = self.coming.get(key)
        return math.inf if self.reason or coming is not None and coming.working else max(0, left)

    def _first_due(self, key):
        if self.options.kernel == "never" or self.reason:
            self._due[key] = math.inf
        elif self.pays:
            self._paying(key)
        else:
            self._due[key] = self._soon
        return self._due[key]

    @cached_property
    def _saving(self):
        return reasons.saving(self.tape)

    def _saved(self, key):
        """Steps that a kernel saves at each visit."""
        return self._saving * (key[1] if isinstance(key, tuple) else 1)

    def _paying(self, key, steps=0):
        """Visits after which a kernel is begun, if it costs so many steps; the least that any costs, as long as it was not looked at."""
        least = reasons.KERNEL + reasons.derivation(self.tape)
        self._due[key] = due = max(self._soon, math.ceil(BEGIN * max(steps, least) / self._saved(key)))
        return due

    def visited(self, key):
        """Note a call answered by interpreter; whether it is time to `promote`."""
        self.visits[key] += 1
        return self.left(key) == 0

    def directions(self):
        """The key of the directions that were asked for last; raises `NotLowered` if none were."""
        keys = [key for key in self.visits if isinstance(key, tuple)]
        if not keys:
            raise NotLowered("it is not computed by directions through this tape")
        return keys[-1]

    def promote(self, key, answer, expected, stats, name):
        """Make a kernel, and use it if it gives at a point what the interpreter does.

        Parameters
        ----------
        key
        answer : callable
            Given the kernel, what it says at the point: status and results as of `Executable.answer`.
        expected : list
            What the interpreter says there.
        stats : Stats
        name : str
            Of the function, for the log.
        """
        if key in self.made or not self._lock.acquire(blocking=False):
            return
        fault, start, elsewhere = None, time.perf_counter(), key in self.coming
        try:
            with faults_are_reasons():
                kernel = self._untried.get(key) or self._begun(key)
                if kernel is None:
                    return
                if elsewhere and key not in self._untried:
                    stats.seconds["kernel"] += sum(kernel.seconds.values())
                self._untried[key] = kernel
                status, results = answer(kernel)
            if results is None:
                right = all(np.isfinite(each).all() for each in expected[kernel.values :])
                if status == NOT_FINITE and right and key not in self._absolute and self.visits[key] > POINTS:
                    # No start at a pole, but data, say, of which some are missing, and masked.
                    self._absolute.add(key)
                    del self._untried[key]
                # Else a gradient that is not finite here, or a guard at its very edge: try at another point.
                return
            if all(map(agree, results, expected)):
                del self._untried[key]
                self.made[key] = kernel
                stats.kernels += 1
                LOG.info("%s: %s", name, kernel)
                return
            largest = np.array([np.max(np.abs(each), initial=0.0) for each in map(np.asarray, expected) if each.dtype.kind == "f"])
            if all(agree(one, other, beside=largest) for one, other in zip(results, expected)):
                # A gradient that is nothing but rounding beside the value, at an optimum say: another point shows whether it is right.
                self._due[key] = 2 * self.visits[key]
                return
            del self._untried[key]
            self.reason = "its kernel and the sweep disagree"
        except NotLowered as why:
            self.reason, fault = str(why), why.__cause__
        except reasons.TooDear as dear:
            seconds = dear.steps / reasons.STEPS_A_SECOND
            self.reason = f"its kernel is predicted to take {seconds:.1f} s to compile; tg.jit(..., kernel='always') compiles it"
        finally:
            stats.seconds["kernel"] += time.perf_counter() - start
            self._lock.release()
        self._due = dict.fromkeys(self._due, math.inf)
        stats.not_lowered[self.reason] += 1
        LOG.info("%s: runs by sweep: %s", name, self.reason, exc_info=fault)

    def make(self, key):
        """The kernel for `key`, made now if there is none; raises `NotLowered` if there can be none."""
        if key not in self.made:
            with faults_are_reasons():
                self.made[key] = self._compiled(key, None)
        return self.made[key]

    def _begun(self, key):
        """The kernel for `key`, made now if that is quick and LLVM's lock, which is held for as long as LLVM optimises a module, is not held for long;
        or None, while another thread makes it."""
        coming = self.coming.get(key)
        if coming is not None and coming.working:
            return None
        self.coming.pop(key, None)
        try:
            kernel = None if coming is None else coming.result()
        except reasons.TooDear as dear:
            if dear.steps > MOST * reasons.STEPS_A_SECOND or not self.pays:
                raise
            if self._paying(key, dear.steps + reasons.derivation(self.tape)) > self.visits[key]:
                return None
            kernel = None
        if kernel is None and self.pays:
            # No call waits for it.  What waits for another thread does not become more: of many paths those come first that are visited most.
            if busy():
                self._due[key] = self.visits[key] + max(LATER, self.visits[key] // 8)
            else:
                paid = self.visits[key] * self._saved(key) / BEGIN
                seconds = min(MOST, paid / reasons.STEPS_A_SECOND)
                self.coming[key] = BackgroundTask(partial(self._compiled, key, self._limit(seconds)), seconds <= SECONDS)
        elif kernel is None:
            try:
                limit = self._limit(SECONDS)
                if limit is None or not busy(short=False):
                    return self._compiled(key, limit)
            except reasons.TooDear as dear:
                if dear.steps > MOST * reasons.STEPS_A_SECOND:
                    raise
            self.coming[key] = BackgroundTask(partial(self._compiled, key, self._limit(MOST)))
        return kernel

    def _compiled(self, key, limit):
        with uninterrupted:
            # These import llvmlite, which a process without kernels does not load.
            from ...kernel.emit import CompileOptions
            from ...kernel.kernel import TapeKernel

        options = CompileOptions(fastmath=self.options.fastmath, symmetric=self.options.symmetric, absolute=key in self._absolute)
        with waiting("kernel", f"compiling a kernel of {len(self.tape):,} instructions (tg.jit(..., kernel='never') does without)"):
            return TapeKernel(self.tape, key, options, limit)

    def _limit(self, seconds):
        """Steps that a compilation may take."""
        if self.options.kernel == "always":
            return None
        steps, before = seconds * reasons.STEPS_A_SECOND, reasons.derivation(self.tape)
        if before > steps:
            raise reasons.TooDear(before)
        return steps - before


def agree(one, other, tolerance=TOLERANCE, beside=0.0):
    """Whether two arrays of results are the same but for rounding: up to a `tolerance` by dtype, relative to the largest entry, also of `beside`."""
    one, beside = np.asarray(one), np.asarray(getattr(beside, "_v", beside))
    other = np.asarray(getattr(other, "_v", other))
    if other.dtype.kind not in "biuf":
        # A constant that goes past the kernel.
        return True
    if one.dtype.kind != "f":
        return np.array_equal(one, other)
    scale = max(np.max(np.abs(each), initial=0.0, where=np.isfinite(each)) for each in (other, beside))
    relative = tolerance[one.dtype.char]
    return bool(np.allclose(one, other, rtol=relative, atol=relative * scale, equal_nan=True))


class CachedTape:
    """A tape in use, with its kernels.

    Parameters
    ----------
    tape : FinishedTape
    kernels : Kernels
    name : str
        Of the function, for the log.

    Attributes
    ----------
    seen : tuple of bytes
        What its guards saw.
    site : callable or None
        Answers calls that are like an earlier one (`CallSite.call`).
    swept : bool
        Whether it runs the interpreter.
    large : bool
        Whether the interpreter's memory is too large for the site to have it for itself.
    made_for : tuple
        For which environment, and how many kernels, the site was made.
    links : dict of int to (CachedTape or None)
        Which tape the guard at which it stopped, by its number, leads to, as far as that was asked for.
    """

    def __init__(self, tape, kernels, name):
        self.tape, self.kernels, self.name, self.used = tape, kernels, name, 0
        self.site, self.swept, self.large, self.made_for = None, False, False, None
        self.links, self.seen = {}, tuple(guard.seen for guard in tape.guards)

    #: The bytes that are kept for the next sweep, by tape, the longest unused first: only large ones.
    _HOLDING: weakref.WeakKeyDictionary[CachedTape, int] = weakref.WeakKeyDictionary()
    _LOCK = remade(threading.Lock())

    def _hold(self, workspace):
        """Keep the memory of a sweep for the next one.

        Calls that change in shape or path have a tape each, and each tape would hold as much.
        """
        self.tape.kept.give(workspace)
        # (That of directions is needed for their kernels, too.)
        self.large = workspace.nbytes >= LARGE and workspace.walk is None
        if not self.large:
            return
        with self._LOCK:
            holding = self._HOLDING
            holding.pop(self, None)
            holding[self] = workspace.nbytes
            total = sum(holding.values())
            for other in list(holding)[:-NEWEST]:
                if total <= ALL:
                    break
                total -= holding.pop(other)
                other.tape.kept.clear()

    @cached_property
    def replay(self):
        """Its replay, as an executable."""
        from ...program.replayed import Replay  # loads compiled code

        return Replay(self.tape)

    def executable(self):
        """What gives values and gradients now: a kernel, or the interpreter."""
        kernel = self.kernels.made.get(True)
        self.swept = kernel is None
        return kernel or self.replay

    def otherwise(self, status):
        """What the guard has seen at which a run stopped, if the status tells; else None."""
        guards = self.tape.guards
        return bytes([not guards[status].seen[0]]) if 0 <= status < len(guards) and guards[status].how == "bool" else None

    def by_kernel(self, inputs, backward):
        """The answer of a kernel, or None, and its status; `backward` as of `Replayed.call`."""
        if callable(backward):
            if self.kernels.walk is None:
                return None, OTHER
            walk = KernelWalk(self.kernels.walk, inputs, self.kernels.directional)
            try:
                result = backward(walk)
            except Stopped as stopped:
                return None, *stopped.args
            # If nothing was asked, no kernel has looked at the guards.
            return (Outcome(None, self.tape.structure, result, self.tape), FINE) if walk.asked else (None, OTHER)
        kernel = self.kernels.made.get(backward)
        status, results = (OTHER, None) if kernel is None else kernel.answer(inputs)
        if results is None:
            return None, status
        values, gradients = kernel.results(results)
        return Outcome(values, self.tape.structure, gradients, self.tape), status

    def by_interpreter(self, inputs, backward, stats, count):
        """The answer by sweeps; or None, the number of the guard that saw something else, and what that saw (None: no guard)."""
        start, tape, workspace = time.perf_counter(), self.tape, self.tape.kept.take()
        at = workspace.run(inputs, backward is True)
        if at >= 0:
            seen = workspace.seen_at(at) if at < len(tape.guards) else None
            self._hold(workspace)
            return None, at, seen
        if workspace.nbytes > HELD:
            text = f"a call of {self.name} holds {workspace.nbytes / 1e9:.1f} GB of arrays. If it sums over rows of data, tg.sum_over or "
            say("memory", text + "tg.mean_over of the sum over some of them gives the same numbers, and holds as much as some rows need")
        values, gradients = [workspace.output(k) for k in range(len(tape.outputs))], None
        if callable(backward):
            walk = ReplayWalk.of(workspace, inputs)
            walk.asked = []
            gradients = backward(walk)
        elif backward:
            gradients = [g.copy() for g in workspace.gradients]
        outcome = Outcome(values, tape.structure, gradients, tape)
        stats.sweeps += count
        stats.seconds["replay"] += time.perf_counter() - start
        if not callable(backward) and not self.kernels.pays and self.kernels.left(backward) <= 1:
            # A kernel is made now, and has memory of its own.
            large = workspace.nbytes > TRIMMED
            workspace = None
            if large:
                trim()
        self._promote(inputs, backward, outcome, workspace, stats)
        if workspace is not None and (callable(backward) or backward not in self.kernels.made):
            self._hold(workspace)
        elif self.large:
            self.large = False
            with self._LOCK:
                self._HOLDING.pop(self, None)
        return outcome, FINE, None

    def as_recorded(self, inputs, values, stats):
        """The answer to the call that was recorded, for which nothing has to be computed again: nor planned, before there is a second call."""
        # Constants as they are: the recording made arrays of integers.
        values = [value if slot else what for value, (slot, what) in zip(values, self.tape.outputs, strict=True)]
        outcome = Outcome(values, self.tape.structure, None, self.tape)
        self._promote(inputs, False, outcome, None, stats)
        return outcome

    def _promote(self, inputs, backward, outcome, workspace, stats):
        """Note an answer of the interpreter, and make a kernel of the tape if it is time."""
        kernels = self.kernels
        if not callable(backward):
            if kernels.visited(backward):
                expected = [*outcome.values, *(outcome.gradients or ())]
                kernels.promote(backward, lambda kernel: kernel.answer(inputs), expected, stats, self.name)
        else:
            walk = kernels.walk = kernels.walk or workspace.walk
            asked, workspace.walk.asked = workspace.walk.asked, None
            for forward, directions, count, results in asked:
                key = key_of(self.tape, forward, count)
                if kernels.visited(key):

                    def answer(kernel, forward=forward, directions=directions):
                        return KernelWalk(walk, inputs, lambda *_: (kernel, kernel.lanes)).answer(forward, directions)

                    kernels.promote(key, answer, results, stats, self.name)
