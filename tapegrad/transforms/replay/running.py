"""The user's function, run: recorded for replays, or plainly; and what a transformed function says of itself: counts, times and warnings.

`Running` is the part of `transforms.replay.function.Replayed` that calls the function.  `_recorded` calls it on live tensors and
gives the finished tape; `run` answers a call without one: without `jit`, or where nothing can be recorded, which `give_up` says.
"""

from __future__ import annotations

import logging
import math
import threading
import time
import warnings
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary, ref

import numpy as np

from ...array.differentiable import clarified
from ...array.record import normalise, tracked
from ...array.tensor import Tensor
from ...autograd.backward import own_copy
from ...autograd.recording import captured_message, refuse_captured, refuse_outer
from ...autograd.tape import Tape
from ...codegen.code import COUNTS
from ...common import config
from ...common.errors import GradientError, LeaveTapeError, NestingError, PathWarning, PerformanceWarning
from ...common.printing import Printed
from ...common.tree import flatten, of_one, unflatten
from ...common.uninterrupted import remade
from ...kernel.reasons import NotLowered
from ...program.finish import finish
from ...program.listing import advice
from ...program.sweeps import StoreWalk
from ...program.through import Rules
from ...program.trace import Trace
from ...tape.modes import enable_grad
from ...tape.places import function_name, inner_frames, placed_name
from ...tape.store import thread_state
from .. import plain
from ..argnums import check_given
from .answers import Outcome, argument_name, is_input, with_inputs

#: Seconds in derivatives without `jit` after which a function is named.
EAGER = 1.0
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
        """Note the calls since the last time; says once, after `EAGER`, what would be quicker."""
        seconds, self.unnoted = self.unnoted, 0.0
        if self._compiled != COUNTS["compiled"]:
            # It was the library itself that was compiled meanwhile.
            self._compiled = COUNTS["compiled"]
            return
        before = self.seconds
        self.seconds += seconds
        if before and self.seconds > EAGER:
            # Of one long call jit would save nothing.
            self.seconds = float("-inf")
            text = (
                f"{self.name} has spent {EAGER:g} s in derivatives that run it at every call. tg.jit(tg.grad(f)), or tg.jit on the "
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


LOG = logging.getLogger("tapegrad")

#: Nothing more is recorded of a function when at least so many of its last calls had to be ...
GIVE_UP = 24
#: ... of so many.  It is given up when more than that were not answered by what there is, before half as many were.
WINDOW = 32
#: So many calls pay for a recording, which takes ten times as long as the function.
EARNED = 16
#: Seconds that a thread waits for another's recording of the same function.
PATIENCE = 5.0
#: How deep in recordings this thread is (`depth`).
_RECORDING = threading.local()


class Running:
    """A function, and what of it is differentiated.

    Parameters
    ----------
    function : callable
    argnums : tuple of int
        Positions of the arguments that are differentiated.
    has_aux : bool
        Whether the function returns a pair of which only the first part is differentiated.
    scalar : bool
        Whether the gradient is that of one number; else that of the sum of all results.
    adjoints : bool
        Whether gradients will be asked for; else only values.
    jit : JitOptions, optional
        How it is recorded; without, it is not.
    stats : Stats, optional
        Where to count; without, in one of its own.
    planned : callable, optional
        ``planned(kept, structure)`` says how calls of the transformation are answered, for a kept tape and the structure of
        ``(args, kwargs)``: the executable, its plan and the answer, as `CallSite` takes them; or None, if they go the long way.

    Attributes
    ----------
    kinds : dict of tuple to Specialization
        By key.
    recent : tuple of Specialization
        Those whose calls go the short way, the last one first.
    last : int
        The last argument that is differentiated; -1: none is.
    own : (str, int)
        What the function has changed itself, and in how many recordings in a row.
    plain : str
        Why the function is not recorded any more although it is under `jit`; empty otherwise.
    environment : Environment or None
        What it reads besides its arguments, as of the last recording.
    derived : object or None
        If `function` is a derivative that is made of the tape of another function: that is its ``function``, and
        ``derived_tape(tape, structure)`` makes the tape, for arguments of this structure.
    apart : bool
        Whether a recording has copies of the arrays that the function captured, and not these themselves.
    given : tuple or None
        ``(args, kwargs)`` with which the function is called but for the arguments that are differentiated: for one call without `jit`.
    """

    def __init__(self, function, argnums, has_aux=False, scalar=True, adjoints=True, jit=None, stats=None, planned=None):
        self.function, self.argnums, self.has_aux, self.scalar = function, argnums, has_aux, scalar
        self.adjoints, self.jit, self.plain, self.planned, self.last = adjoints, jit, "", planned, max(argnums, default=-1)
        self.kinds, self.recent, self.own = {}, (), (None, 0)
        self.lock, self.iteration = remade(threading.RLock()), remade(threading.RLock())
        #: Whether to leave out the warning that the function is run plainly: the user did not ask for `jit`.
        self.silent, self.stats, self.apart = stats is not None, stats or Stats(), False
        self.spending, self.environment, self.given = EagerTime.of(function), None, None
        self.derived = function if hasattr(type(function), "derived_tape") else None
        #: Of the last calls up to the last that had to be recorded, why they had to be, "" if not; and how many were answered by then.
        self.causes, self._before, self.changed = [], self.stats.replays, ""
        #: A tensor outside that a recording has used and that required a gradient then, and what is said of it; None if there is none.
        self.captured = None
        #: While nothing more is recorded: how many calls were run since then because no tape answers them; else None.
        self.unanswered = None

    def _as_given(self, args, kwargs):
        if self.given is None:
            return args, kwargs
        given, kwargs = self.given
        return [args[k] if k in self.argnums else a for k, a in enumerate(given)], kwargs

    def _recorded(self, kind, inputs, key, leaves, backward):
        """Run the function on live tensors; returns the finished tape (or None), and the values of its outputs if it is what was run."""
        structure, static = key
        start = time.perf_counter()
        enabled = thread_state().enabled
        with Tape() as tape, enable_grad(), clarified:
            trace = Trace(tape.store, {} if self.apart else self.environment.read)
            trace.keeping, trace.once = kind.keeping, self.apart or self.given is not None
            args, kwargs = unflatten(structure, with_inputs(leaves, static, inputs, trace.enter))
            args, kwargs = self._as_given(args, kwargs)
            wanted = [mark[-1] for mark in static if is_input(mark)]
            with self.lock:
                self.stats.records += 1
            derived = self.derived
            function = self.function if derived is None else derived.function
            try:
                result = function(*args, **kwargs)
            except (GradientError, LeaveTapeError):
                if not (trace.cannot or trace.unkept):
                    raise
            if trace.unkept and not kind.keeping:
                # It differentiates inside: once more, with the values kept that this takes.
                kind.keeping = 1
                return self._recorded(kind, inputs, key, leaves, backward)
            if trace.cannot:
                self.give_up(trace.cannot)
                return None, None
            results, shape = flatten(result)
            # A constant is given out as any result is: as an array, a new one at each call.
            results = [r._v if isinstance(r, Tensor) and not tracked(r) else r for r in results]
            number = self.scalar and (backward is True or derived is not None)
            plain.checked(results, shape, self.function, tape.store, self.has_aux, number, backward is False)
            if number and np.ndim(results[0]):
                # An array of one element is differentiated as that number.
                shape = of_one(shape, np.ndim(results[0]))
                results[0] = np.reshape(results[0], ())
            if self.has_aux:
                # No derivative passes through what goes with the result.
                results[1:] = [trace.apart(r) for r in results[1:]]
        refuse_outer(tape.store)
        captured = trace.captured_leaves()
        if captured:
            kind.captures = captured_message(captured[0], self.function)
            self.captured = ref(captured[0]), kind.captures
            if enabled:
                raise NestingError(kind.captures)
        middle = time.perf_counter()
        if trace.cannot:
            self.give_up(trace.cannot)
            return None, None
        finished = finish(trace, results, wanted if self.adjoints else [False] * len(wanted))
        finished.structure = shape
        Rules.attach(finished)
        if derived is not None:
            try:
                finished = derived.derived_tape(finished, structure)
            except NotLowered:
                # A rule that is not written in instructions: then the derivative itself is run and recorded.
                self.derived = None
                return self._recorded(kind, inputs, key, leaves, backward)
        self.stats.seconds["record"] += middle - start
        self.stats.seconds["finish"] += time.perf_counter() - middle
        for how, place in trace.cuts:
            self.stats.cuts[f"{how} at {place}"] += 1
        values = [normalise(np.array(r._v if isinstance(r, Tensor) else r, order="C")) for r in results] if derived is None else None
        return finished, values

    @contextmanager
    def _iteration(self):
        """Threads that need the same recording wait for the one that makes it, so that it is made once.

        A thread does not wait while it makes a recording of another function (two functions
        that call each other would wait for ever), nor longer than `PATIENCE`
        (the function may be waiting for us): the recording is made twice then.
        """
        own = not getattr(_RECORDING, "depth", 0)
        got = self.iteration.acquire(timeout=PATIENCE) if own else self.iteration.acquire(blocking=False)
        _RECORDING.depth = getattr(_RECORDING, "depth", 0) + 1
        try:
            yield
        finally:
            _RECORDING.depth -= 1
            if got:
                self.iteration.release()

    def run(self, args, kwargs, backward):
        """The answer by running the function once: `Outcome` as of a replay."""
        self.stats.runs += 1
        if self.given is not None:
            args, kwargs = self._as_given(args, kwargs)
        if self.last >= len(args):
            check_given(self.argnums, args)
        if backward is True:
            return Outcome(*plain.value_and_gradients(self.function, args, kwargs, self.argnums, self.has_aux, self.scalar))
        if backward:
            argnums = tuple(sorted(set(self.argnums)))
            walk = StoreWalk(self.function, args, argnums, kwargs)
            if thread_state().enabled:
                walk.refuse_captured(self.function)
            return Outcome([normalise(np.array(p.value)) for p in walk.outputs], walk.structure, backward(walk))
        if not self.argnums and self.derived is None:
            # It is the function itself, run once: what it reads of a tape outside is on that tape.
            with clarified:
                results, structure = flatten(self.function(*args, **kwargs))
            if any(map(tracked, results)):
                return Outcome(results, structure, None)
            plain.checked(results, structure, self.function, thread_state().store, self.has_aux, False, True)
            return Outcome(list(map(_own, results)), structure, None)
        enabled = thread_state().enabled
        with Tape() as tape, enable_grad(), clarified:
            results, structure = flatten(self.function(*args, **kwargs))
            plain.checked(results, structure, self.function, tape.store, self.has_aux, False, True)
        refuse_outer(tape.store)
        if enabled:
            refuse_captured(tape.store, (), self.function)
        return Outcome(list(map(_own, results)), structure, None)

    # -- giving up ---------------------------------------------------------------
    def cause(self, kind, key, leaves):
        """Why a call has to be recorded, in words."""
        name, self.changed = self.changed, ""
        if name:
            return f"{name} changes; pass it as an argument"
        if kind.tapes:
            missed = kind.missed
            if missed is not None and missed.how == "index":
                return f"its path changes at {missed.place}: {advice(missed.how)}"
            return f"its path changes at {missed.place}: {missed}" if missed is not None else "its path changes"
        others = [other for other in self.kinds if other is not key and other[0] == key[0]]
        k = next((k for k, (a, b) in enumerate(zip(others[-1][1], key[1])) if a != b), None) if others else None
        if k is None:
            return "a new kind of arguments"
        if is_input(key[1][k]):
            return f"{argument_name(k, key[0])} has a new shape, dtype or order in memory; let it have the same at each call"
        example = f" (np.array({leaves[k]}), which can be a position in a tensor)" if type(leaves[k]) is int else ""
        return f"{argument_name(k, key[0])} is static and has a new value ({leaves[k]!r:.40}); pass it as a float or an array{example}"

    def note(self, cause):
        """Remember why a call had to be recorded; if nearly every call has to be, the tapes that there are have to answer calls first."""
        causes = self.causes = [*self.causes, *[""] * min(self.quiet, WINDOW), cause][-WINDOW:]
        self._before = self.stats.replays
        if len(causes) == WINDOW and sum(map(bool, causes)) >= GIVE_UP:
            self.unanswered = 0
            LOG.info("%s: nothing more is recorded until what was recorded answers calls: %s", placed_name(self.function), cause)

    def goes_on(self, cause, full):
        """Whether a call that no tape answers is recorded: paths that are met again are worth it, a function that changes at each call is not.

        `full`: whether a tape has to go for it.
        """
        earned = self.quiet >= EARNED
        if self.unanswered is not None and self.quiet >= max(WINDOW - GIVE_UP, self.unanswered / 2):
            self.record_again()
        if self.unanswered is None and full and not earned:
            self.unanswered = 0
        if self.unanswered is None:
            return True
        self.unanswered += 1
        if self.unanswered > WINDOW:
            count, since = sum(map(bool, self.causes)), self.unanswered + self.quiet
            self.give_up(f"nearly every call had to be recorded anew ({count} of {WINDOW}, then {self.unanswered} of {since}): {cause}")
        return False

    @property
    def quiet(self):
        """How many calls were answered since the last that had to be recorded."""
        return self.stats.replays - self._before

    def record_again(self):
        """Record what no tape answers, as at the beginning."""
        self.causes, self._before, self.unanswered = [], self.stats.replays, None

    def give_up(self, why):
        """Run the function plainly from now on, and say so once."""
        if not self.plain:
            self.plain = self.stats.fallback = why
            text = f"{placed_name(self.function)} was to be recorded once, but is run at every call: {why}"
            if not self.silent:
                warnings.warn(text, PathWarning, stacklevel=outside())
            self.forget()


def _own(result):
    """A result as a value that is the caller's own."""
    return own_copy(result._v if isinstance(result, Tensor) else result)
