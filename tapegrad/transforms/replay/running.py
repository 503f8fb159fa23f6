"""The user's function, run: recorded for replays, or define-by-run.

`Running` is the part of `transforms.replay.function.Replayed` that calls the function.  `_recorded` calls it on live tensors and gives the
finished tape; `_define_by_run` is the answer where there is no tape: of a function that is not pure, or whose path changes
at nearly every call.  That this is so is found out in both files, and said by `_give_up`.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
import warnings
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from ...array.record import normalise
from ...array.tensor import Tensor, rebuilt
from ...autograd.gradients import grad
from ...autograd.recording import Recording, captured_message, check_result, differentiating, refuse_captured, refuse_outer
from ...autograd.tape import Tape
from ...common.errors import GradientError, NestingError, NonScalarOutputError, StructureError
from ...common.tree import flatten, leaf_names, of_one, unflatten
from ...program.finish import finish
from ...program.trace import ROW, Trace
from ...tape.modes import enable_grad
from ...tape.places import PACKAGE
from ...tape.store import thread_state
from .arguments import is_input, is_reordered, read_only, with_inputs
from .purity import RandomStates
from .stats import ImpureFunctionWarning

LOG = logging.getLogger("tapegrad")

#: Seconds that a thread waits for another's recording of the same function.
PATIENCE = 5.0
#: How deep in recordings this thread is (`depth`).
_RECORDING = threading.local()


@dataclass
class Outcome:
    """The answer to one call: the values of the results, and gradients of the wanted inputs."""

    values: list
    structure: object
    gradients: list
    tape: object = None


class Running:
    """What `Replayed` does with its function; attributes as there."""

    def _recorded(self, kind, inputs, key, leaves, backward):
        """Run the function on live tensors; returns the finished tape."""
        structure, static = key
        start = time.perf_counter()
        enabled = thread_state().enabled
        generators = [(f"argument {k}", leaf) for k, leaf in enumerate(leaves) if hasattr(leaf, "bit_generator")]
        states = RandomStates([*kind.surroundings.generators, *generators])
        with Tape() as tape, enable_grad():
            trace = Trace(tape.store, kind.surroundings.arrays, any(map(is_reordered, static)))
            trace.keeping = kind.keeping
            args, kwargs = unflatten(structure, with_inputs(leaves, static, inputs, lambda value, _: trace.enter(value)))
            wanted = [mark[-1] for mark in static if is_input(mark)]
            with self.lock:
                self.stats.records += 1
            try:
                result = self.function(*args, **kwargs)
            except GradientError:
                if not (trace.cannot or trace.unkept):
                    raise
            if trace.unkept and not kind.keeping:
                # It differentiates inside: once more, with the values kept that this takes.
                kind.keeping = 1
                return self._recorded(kind, inputs, key, leaves, backward)
            if trace.cannot:
                self._give_up(kind, trace.cannot, None)
                return None
            kind.surroundings.forgive()
            results, shape = flatten(result)
            self._check_results(results, shape, backward, tape.store)
            if backward is True and self.scalar and np.ndim(results[0]):
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
            if enabled or not self.captures:
                raise NestingError(kind.captures)
        middle = time.perf_counter()
        if trace.cannot:
            self._give_up(kind, trace.cannot, None)
            return None
        finished = finish(trace, results, wanted if self.adjoints else [False] * len(wanted))
        if callable(backward) and any(i.entry.kind == ROW and i.entry.function.primitive for i in finished.items):
            self._give_up(kind, "the rules of custom primitives run in Python, for one seed at a time", None)
            return None
        finished.structure = shape
        self.stats.seconds["record"] += middle - start
        self.stats.seconds["finish"] += time.perf_counter() - middle
        name = states.moved()
        if name is not None:
            self._give_up(kind, f"it draws random numbers from {name}; make them an argument", ImpureFunctionWarning)
        for how, place in trace.cuts:
            self.stats.cuts[f"{how} at {place}"] += 1
        return finished

    def _check_results(self, results, structure, backward, store):
        if self.has_aux:
            if structure.kind is not tuple or len(structure.parts) != 2:
                raise StructureError("with has_aux=True the function must return a pair: what is differentiated, and anything else")
            first = structure.parts[0].count
        else:
            first = len(results)
        for k, (result, name) in enumerate(zip(results, leaf_names(structure))):
            what = f"the result{name} of {name_of(self.function)}"
            check_result(result, store, what, differentiated=k < first, plain=backward is False)
        if backward is True and self.scalar:
            if first != 1:
                raise NonScalarOutputError(
                    f"the function must return one number to be differentiated, it returned {structure}; "
                    "use tg.jacobian for several, has_aux=True for a number and anything else"
                )
            value = results[0]._v if isinstance(results[0], Tensor) else results[0]
            if np.size(value) != 1:
                raise NonScalarOutputError(
                    f"the function must return one number to be differentiated, it returned an array of shape "
                    f"{np.shape(value)}; sum it, or use tg.jacobian"
                )

    @contextmanager
    def _turn(self):
        """Threads that need the same recording wait for the one that makes it, so that it is made once.

        Nobody waits while making a recording of another function (two functions
        that call each other would wait for ever), nor longer than `PATIENCE`
        (the function may be waiting for us): the recording is made twice then.
        """
        own = not getattr(_RECORDING, "depth", 0)
        got = self.turn.acquire(timeout=PATIENCE) if own else self.turn.acquire(blocking=False)
        _RECORDING.depth = getattr(_RECORDING, "depth", 0) + 1
        try:
            yield
        finally:
            _RECORDING.depth -= 1
            if got:
                self.turn.release()

    def _define_by_run(self, inputs, key, leaves, backward):
        """The answer by running the function on tensors."""
        structure, static = key
        self.stats.define_by_run += 1
        enabled = thread_state().enabled
        if callable(backward):
            args, kwargs = unflatten(structure, leaves)
            recording = Recording(self.function, args, tuple(sorted(set(self.argnums))), kwargs)
            if enabled:
                recording.refuse_captured(self.function)
            return Outcome([normalise(np.array(p.value)) for p in recording.outputs], recording.structure, backward(recording))
        with Tape() as tape, enable_grad():
            arguments = with_inputs(leaves, static, inputs, _leaf)
            #: For each input its tensor, None if it is not differentiated.
            variables = [t if mark[-1] else None for t, mark in zip(arguments, static) if is_input(mark)]
            args, kwargs = unflatten(structure, arguments)
            with differentiating([t for t in variables if t is not None]):
                results, shape = flatten(self.function(*args, **kwargs))
            refuse_outer(tape.store)
            if enabled:
                refuse_captured(tape.store, {tape.store.leaves.get(t._k) for t in variables if t is not None}, self.function)
            self._check_results(results, shape, backward, tape.store)
            gradients = _gradients(results[:1] if self.has_aux else results, variables) if backward else None
        values = [r.detach()._v if isinstance(r, Tensor) else r for r in results]
        return Outcome(values, shape, gradients)

    def _give_up(self, kind, why, category):
        if not kind.given_up:
            kind.given_up = self.stats.fallback = why
            text = f"{name_of(self.function)} is run define-by-run from now on: {why}"
            LOG.log(logging.WARNING if category is None else logging.INFO, text)  # what is warned of is said once
            if category is not None:
                warnings.warn(text, category, stacklevel=_outside())


def _gradients(results, variables):
    """The gradients of the sum of `results`: one for each tensor in `wanted`, zeros where nothing leads to it; None for None."""
    asked = [t for t in variables if t is not None]
    remaining = iter([None] * len(asked))
    roots = [r for r in results if isinstance(r, Tensor) and r.requires_grad]
    if roots and asked:
        ones = [_leaf(np.ones(r.shape, r.dtype), False) for r in roots]
        remaining = iter(grad(roots, asked, ones, allow_unused=True))
    gradients = []
    for t in variables:
        g = next(remaining) if t is not None else None
        gradients.append(None if t is None else np.zeros(t.shape, t.dtype) if g is None else np.array(g._v, t.dtype))
    return gradients


def _outside():
    """The `stacklevel`, for the caller, of the first frame outside tapegrad."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(PACKAGE):
        level, frame = level + 1, frame.f_back
    return level


def _leaf(value, requires):
    if value.dtype.kind in "biu":
        return read_only(value)
    return rebuilt(Tensor, normalise(value), requires, None)


def name_of(function):
    code = getattr(function, "__code__", None)
    where = f" ({code.co_filename}:{code.co_firstlineno})" if code is not None else ""
    return f"{getattr(function, '__qualname__', repr(function))}{where}"
