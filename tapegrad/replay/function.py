"""A function recorded once per kind of arguments and path, and replayed.

`Replayed` is what the transformations of `tapegrad.functional` are made of.  A
call sorts its arguments (`_sorted`): float arrays and Python floats are inputs of
the tape, everything else is static and part of the key.  Then

1. the surroundings of the function are compared (`replay.purity`);
2. the tape used last is replayed; if a guard sees something else, the tape that
   went on from there (`replay.cache`), if there is one;
3. else the function is recorded, and the tape is kept if its replay at its own
   point passes its own guards and gives the value that was recorded.

The second call and calls at exponentially growing distances are recorded again
and compared with the kept tape: a function that draws random numbers or reads a
file is found out.  It is then run define-by-run, as is one whose path changes at
nearly every call; both are said once, and in `stats`.
"""

from __future__ import annotations

import logging
import threading
import time
import warnings
from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from ..errors import DtypeError, GradientError, NonScalarOutputError
from ..modes import enable_grad
from ..record import normalise
from ..tape.tape import Tape
from ..tensor import Tensor
from ..tree import flatten, leaf_names, unflatten
from .cache import Tapes
from .finish import finish
from .purity import Surroundings
from .trace import Trace

LOG = logging.getLogger("tapegrad")

#: Tapes kept for one kind of arguments.
LIMIT = 64
#: A kind of arguments is given up when at least so many of its last calls had to be recorded ...
GIVE_UP = 24
#: ... of so many.
WINDOW = 32


class ImpureFunctionWarning(UserWarning):
    """A function gave something else when it was recorded again; it is run define-by-run."""


class PathWarning(UserWarning):
    """The path of a function changes at nearly every call; it is run define-by-run."""


@dataclass
class Stats:
    """What a replayed function has done so far.

    Attributes
    ----------
    records, replays, define_by_run : int
        Calls of the user's function that were recorded; calls answered by replay; calls of the
        user's function define-by-run.
    misses : Counter
        Guards that saw something else, by place.
    cuts : Counter
        Where the derivative was cut on purpose (``detach``), by place.
    tapes : int
    instructions, bytes : int
        Of all kept tapes.
    seconds : dict of str to float
        Spent in ``record``, ``finish``, ``replay``.
    fallback : str
        Why the function is run define-by-run; empty if it is not.
    """

    records: int = 0
    replays: int = 0
    define_by_run: int = 0
    misses: Counter = field(default_factory=Counter)
    cuts: Counter = field(default_factory=Counter)
    tapes: int = 0
    instructions: int = 0
    bytes: int = 0
    seconds: dict = field(default_factory=lambda: {"record": 0.0, "finish": 0.0, "replay": 0.0})
    fallback: str = ""

    def __str__(self):
        lines = [
            f"records {self.records}, replays {self.replays}, define-by-run {self.define_by_run}",
            f"tapes {self.tapes}: {self.instructions} instructions, {self.bytes} bytes",
            "seconds: " + ", ".join(f"{k} {v:.4f}" for k, v in self.seconds.items()),
        ]
        lines += [f"guard missed {n} times: {where}" for where, n in self.misses.most_common()]
        lines += [f"cut {n} times: {where}" for where, n in self.cuts.most_common()]
        if self.fallback:
            lines.append(f"run define-by-run: {self.fallback}")
        return "\n".join(lines)


class _Kind:
    """What is kept for one kind of arguments."""

    def __init__(self, surroundings):
        self.tapes = Tapes(LIMIT)
        self.surroundings = surroundings
        self.calls = 0
        self.check_at = 2
        self.recent = []
        self.given_up = ""


@dataclass
class Outcome:
    """The answer to one call: the values of the results, and gradients of the wanted inputs."""

    values: list
    structure: object
    gradients: list


class Replayed:
    """`function`, recorded and replayed.

    Parameters
    ----------
    function : callable
    argnums : tuple of int
        Positions of the arguments that are differentiated.
    """

    def __init__(self, function, argnums, has_aux=False):
        self.function, self.argnums, self.has_aux = function, argnums, has_aux
        self.kinds = {}
        self.lock = threading.RLock()
        self.stats = Stats()

    # -- arguments ----------------------------------------------------------------
    def _sorted(self, args, kwargs):
        """Inputs as arrays, and the key: (inputs, key, rebuild)."""
        leaves, structure = flatten((args, kwargs))
        inputs, static = [], []
        differentiated = self._differentiated(args, structure)
        for k, leaf in enumerate(leaves):
            want = differentiated[k]
            kind = type(leaf)
            if kind is float:
                inputs.append(np.array(leaf))
                static.append(("f", want))
            elif kind is np.ndarray and leaf.dtype.char in "df":
                inputs.append(leaf if leaf.flags.c_contiguous else np.ascontiguousarray(leaf).reshape(leaf.shape))
                static.append((leaf.shape, leaf.dtype.char, want))
            elif isinstance(leaf, Tensor):
                if leaf.requires_grad:
                    raise GradientError(
                        "a tensor that requires a gradient is an argument of a functional gradient: derivatives of "
                        "derivatives by nesting are not supported here. Pass its value (t.detach()), or compute define-by-run"
                    )
                value = np.asarray(leaf._v)
                inputs.append(np.ascontiguousarray(value).reshape(value.shape))
                static.append((value.shape, value.dtype.char, want))
            elif want:
                inputs.append(self._wanted(leaf, k, structure))
                static.append((inputs[-1].shape, inputs[-1].dtype.char, want))
            elif isinstance(leaf, (np.ndarray, np.generic)) and np.asarray(leaf).dtype.kind in "f":
                value = np.array(leaf, np.float64 if np.asarray(leaf).dtype.itemsize > 4 else np.float32)
                inputs.append(value)
                static.append((value.shape, value.dtype.char, want))
            elif isinstance(leaf, np.ndarray):
                static.append((leaf.shape, leaf.dtype.str, leaf.tobytes()))
            else:
                static.append(_static(leaf))
        key = (structure, tuple(static))
        return inputs, key, leaves

    def _differentiated(self, args, structure):
        counts = [p.count for p in structure.parts[0].parts]
        found = []
        for k, count in enumerate(counts):
            found += [k in self.argnums] * count
        return found + [False] * (structure.count - len(found))

    def _wanted(self, leaf, k, structure):
        """An argument to be differentiated that is neither a float nor a float array."""
        where = leaf_names(structure)[k][3:]
        if isinstance(leaf, (int, np.floating)) and not isinstance(leaf, bool):
            return np.array(float(leaf)) if not isinstance(leaf, np.float32) else np.array(leaf)
        if isinstance(leaf, np.ndarray) and leaf.dtype.kind in "iub":
            raise DtypeError(
                f"argument {where} is an array of {leaf.dtype}, which has no derivative; pass it as .astype(float)"
            )
        if isinstance(leaf, (np.ndarray, np.generic)):
            raise DtypeError(f"argument {where} has dtype {np.asarray(leaf).dtype}, which cannot be differentiated")
        raise TypeError(f"argument {where} is a {type(leaf).__name__}, which cannot be differentiated")

    # -- calls --------------------------------------------------------------------
    def call(self, args, kwargs, backward=True):
        """Answer a call: an `Outcome`."""
        if self.argnums and max(self.argnums) >= len(args):
            raise TypeError(
                f"argnums {self.argnums} asks for argument {max(self.argnums)}, the call has {len(args)} positional arguments"
            )
        inputs, key, leaves = self._sorted(args, kwargs)
        kind = self.kinds.get(key)
        if kind is None:
            with self.lock:
                kind = self.kinds.setdefault(key, _Kind(Surroundings(self.function)))
        if kind.given_up:
            return self._define_by_run(inputs, key, leaves, backward)
        changed = kind.surroundings.changed()
        if changed is not None:
            with self.lock:
                LOG.info("%s: %s has changed; recording again", _name(self.function), changed)
                kind.tapes = Tapes(LIMIT)
                kind.surroundings = Surroundings(self.function)
        kind.calls += 1
        if kind.calls == kind.check_at and kind.tapes.first() is not None:
            kind.check_at *= 2
            return self._checked(kind, inputs, key, leaves, backward)
        found = self._replay(kind, inputs, backward)
        return found if found is not None else self._record(kind, inputs, key, leaves, backward)

    def tape(self, args, kwargs):
        """The finished tape that answers a call with these arguments; recorded if there is none."""
        self.call(args, kwargs)
        _, key, _ = self._sorted(args, kwargs)
        kind = self.kinds[key]
        if kind.given_up:
            raise GradientError(f"{_name(self.function)} has no tape: it is run define-by-run, because {kind.given_up}")
        return kind.tapes.first().tape

    def _replay(self, kind, inputs, backward, count=True):
        kept = kind.tapes.first()
        tried = 0
        while kept is not None:
            start = time.perf_counter()
            workspace = kept.take()
            missed = workspace.run(inputs, backward)
            if missed < 0:
                outcome = self._outcome(kept.tape, workspace, backward)
                kept.give(workspace)
                self.stats.seconds["replay"] += time.perf_counter() - start
                if count:
                    self.stats.replays += 1
                    self._note(kind, False)
                if tried:
                    kind.tapes.prefer(kept)
                else:
                    kind.tapes.touch(kept)
                return outcome
            tried += 1
            if missed >= len(kept.tape.guards):
                kept.give(workspace)
                return None
            guard = kept.tape.guards[missed]
            self.stats.misses[str(guard.place)] += 1
            seen = workspace.seen_at(missed)
            kept.give(workspace)
            kept = kind.tapes.after(kept, missed, seen)
        return None

    def _outcome(self, tape, workspace, backward):
        values = [workspace.output(k) for k in range(len(tape.outputs))]
        gradients = None
        if backward:
            gradients = [None if g is None else g.copy() for g in workspace.gradients]
        return Outcome(values, tape.structure, gradients)

    # -- recording ------------------------------------------------------------------
    def _recorded(self, kind, inputs, key, leaves, backward):
        """Run the function on live tensors; returns the finished tape."""
        structure, static = key
        start = time.perf_counter()
        states = [np.random.get_state()[2]] + [_state(g) for _, g in kind.surroundings.generators]
        with Tape() as tape, enable_grad():
            trace = Trace(tape.store, kind.surroundings.arrays)
            live, remaining = [], iter(inputs)
            wanted = []
            for leaf, mark in zip(leaves, static):
                if mark[0] == "f" or len(mark) == 3 and isinstance(mark[-1], bool):
                    live.append(trace.enter(np.array(next(remaining))))
                    wanted.append(mark[-1])
                else:
                    live.append(leaf)
            args, kwargs = unflatten(structure, live)
            self.stats.records += 1
            result = self.function(*args, **kwargs)
            kind.surroundings.forgive()
            results, shape = flatten(result)
            self._check_results(results, shape, backward)
        middle = time.perf_counter()
        finished = finish(trace, results, wanted)
        finished.structure = shape
        after = [np.random.get_state()[2]] + [_state(g) for _, g in kind.surroundings.generators]
        self.stats.seconds["record"] += middle - start
        self.stats.seconds["finish"] += time.perf_counter() - middle
        for name, one, other in zip(["np.random", *(n for n, _ in kind.surroundings.generators)], states, after):
            if one != other:
                self._give_up(kind, f"it draws random numbers from {name}; make them an argument", ImpureFunctionWarning)
        for how, place in trace.cuts:
            self.stats.cuts[f"{how} at {place}"] += 1
        return finished

    def _check_results(self, results, structure, backward):
        if self.has_aux:
            if structure.kind is not tuple or len(structure.parts) != 2:
                raise TypeError("with has_aux=True the function must return a pair: what is differentiated, and anything else")
            first = structure.parts[0].count
        else:
            first = len(results)
        if backward:
            if first != 1:
                raise NonScalarOutputError(
                    f"the function must return one number to be differentiated, it returned {structure}; "
                    "use tg.jacobian for several, has_aux=True for a number and anything else"
                )
            value = results[0]._v if isinstance(results[0], Tensor) else results[0]
            if np.shape(value) != ():
                raise NonScalarOutputError(
                    f"the function must return one number to be differentiated, it returned an array of shape "
                    f"{np.shape(value)}; sum it, or use tg.jacobian"
                )

    def _record(self, kind, inputs, key, leaves, backward):
        with self.lock:
            found = self._replay(kind, inputs, backward, count=False) if kind.tapes.first() is not None else None
            if found is not None:
                return found
            LOG.info("%s: recording for a new %s", _name(self.function), "path" if kind.tapes.all else "kind of arguments")
            tape = self._recorded(kind, inputs, key, leaves, backward)
            self._note(kind, True)
            if kind.given_up:
                return self._define_by_run(inputs, key, leaves, backward)
            kept = kind.tapes.add(tape)
            workspace = kept.take()
            missed = workspace.run(inputs, backward)
            if missed >= 0:
                kind.tapes = Tapes(LIMIT)
                self._give_up(kind, "its replay at the recorded point does not pass its own guards", PathWarning)
                return self._define_by_run(inputs, key, leaves, backward)
            outcome = self._outcome(tape, workspace, backward)
            kept.give(workspace)
            self._count(kind)
            return outcome

    def _checked(self, kind, inputs, key, leaves, backward):
        """Record although there may be a tape, and compare."""
        with self.lock:
            tape = self._recorded(kind, inputs, key, leaves, backward)
            if kind.given_up:
                return self._define_by_run(inputs, key, leaves, backward)
            answer = self._replay(kind, inputs, backward, count=False)
            fresh = Tapes(1).add(tape)
            workspace = fresh.take()
            if workspace.run(inputs, backward) >= 0:
                self._give_up(kind, "its replay at the recorded point does not pass its own guards", PathWarning)
                return self._define_by_run(inputs, key, leaves, backward)
            outcome = self._outcome(tape, workspace, backward)
            if answer is None:
                kind.tapes.add(tape)
                self._count(kind)
            else:
                other = kind.tapes.first().tape
                difference = _difference(other, tape)
                if difference:
                    self._give_up(
                        kind, f"{difference}: it depends on something that is not an argument (a random number, a file, a "
                        "counter); make it an argument", ImpureFunctionWarning,
                    )
            return outcome

    def _define_by_run(self, inputs, key, leaves, backward):
        """The answer by running the function on tensors."""
        structure, static = key
        self.stats.define_by_run += 1
        with Tape(), enable_grad():
            given, remaining, wanted = [], iter(inputs), []
            for leaf, mark in zip(leaves, static):
                if mark[0] == "f" or len(mark) == 3 and isinstance(mark[-1], bool):
                    value = np.array(next(remaining))
                    t = _leaf(value, mark[-1])
                    given.append(t)
                    wanted.append(t if mark[-1] else None)
                else:
                    given.append(leaf)
            args, kwargs = unflatten(structure, given)
            results, shape = flatten(self.function(*args, **kwargs))
            self._check_results(results, shape, backward)
            gradients = None
            if backward:
                from ..autograd import grad

                asked = [t for t in wanted if t is not None]
                found = iter([None] * len(asked))
                if isinstance(results[0], Tensor) and results[0].requires_grad:
                    found = iter(grad(results[0], asked, allow_unused=True))
                gradients = []
                for t in wanted:
                    g = next(found) if t is not None else None
                    gradients.append(
                        None if t is None else np.zeros(t.shape, t.dtype) if g is None else np.array(g._v, t.dtype)
                    )
        values = [r.detach()._v if isinstance(r, Tensor) else r for r in results]
        return Outcome(values, shape, gradients)

    # -- bookkeeping --------------------------------------------------------------
    def _note(self, kind, recorded):
        recent = kind.recent
        if recorded or recent:
            recent.append(recorded)
            if len(recent) > WINDOW:
                del recent[0]
            if recorded and sum(recent) >= GIVE_UP and len(recent) == WINDOW:
                self._give_up(kind, "its path changes at nearly every call", PathWarning)

    def _give_up(self, kind, why, category):
        if not kind.given_up:
            kind.given_up = self.stats.fallback = why
            LOG.warning("%s is run define-by-run from now on: %s", _name(self.function), why)
            warnings.warn(f"{_name(self.function)} is run define-by-run from now on: {why}", category, stacklevel=6)

    def _count(self, kind):
        tapes = [k.tape for one in self.kinds.values() for k in one.tapes.all]
        self.stats.tapes = len(tapes)
        self.stats.instructions = sum(len(t) for t in tapes)
        self.stats.bytes = sum(t.nbytes for t in tapes)


def _leaf(value, requires):
    from ..tensor import _rebuild

    return _rebuild(Tensor, normalise(value), requires, None)


def _static(leaf):
    try:
        hash(leaf)
    except TypeError:
        raise TypeError(
            f"an argument of type {type(leaf).__name__} is neither a float array nor hashable, so it can be neither an input "
            "of the tape nor part of its key; pass arrays, numbers, or containers of them"
        ) from None
    return (type(leaf), leaf)


def _state(generator):
    return str(generator.bit_generator.state) if hasattr(generator, "bit_generator") else str(generator.get_state())


def _name(function):
    code = getattr(function, "__code__", None)
    where = f" ({code.co_filename}:{code.co_firstlineno})" if code is not None else ""
    return f"{getattr(function, '__qualname__', repr(function))}{where}"


def _difference(one, other):
    """How two tapes that were recorded on the same path differ, or an empty text."""
    if len(one.records) != len(other.records) or len(one.items) != len(other.items):
        return "recorded again it took other instructions"
    for name in ("op", "a", "b"):
        if not np.array_equal(one.records[name], other.records[name]):
            slot = int(np.flatnonzero(one.records[name] != other.records[name])[0])
            return f"recorded again it took another instruction at {other.place(slot)}"
    mine, theirs = one.records["constant"], other.records["constant"]
    changed = np.flatnonzero(mine.view(np.int64) != theirs.view(np.int64)) if mine.flags.c_contiguous else np.flatnonzero(
        mine.copy().view(np.int64) != theirs.copy().view(np.int64)
    )
    if len(changed):
        return f"a constant changed between two recordings at {other.place(int(changed[0]))}"
    for a, b in zip(one.items, other.items):
        for x, y in zip(a.operands, b.operands):
            if x < 0 and not _same_constant(one.constants[-1 - x], other.constants[-1 - y]):
                return f"a constant changed between two recordings at {other.place(b.slot)}"
    return ""


def _same_constant(a, b):
    return np.array_equal(np.asarray(a), np.asarray(b), equal_nan=np.asarray(a).dtype.kind == "f")
