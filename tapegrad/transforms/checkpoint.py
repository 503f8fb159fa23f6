"""`checkpoint`: a part of a computation that is computed again when its derivative is needed, instead of stored.

A call of a checkpointed function is one instruction, which keeps its arguments
and its result.  The function has a recording of its own, which is replayed
(`tapegrad.transforms.replay`): once for the value, once more on the way back.  All calls
with the same kind of arguments share that recording and its memory.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from ..array.differentiable import Differentiable
from ..array.record import normalise
from ..autograd.custom.primitives import Primitive
from ..autograd.nested import Evaluation
from ..common.errors import StructureError
from ..common.tree import flatten, unflatten
from ..tape.places import function_name

F = TypeVar("F", bound=Callable[..., Any])


class _Layout:
    """What a call's containers looked like: those of the arguments, and, once it has run, those of the result."""

    __slots__ = ("arguments", "result")

    def __init__(self, arguments):
        self.arguments, self.result = arguments, None


class _Segment(Primitive):
    """The primitive behind a checkpointed function: its arguments and results are leaves."""

    replayed = False

    def __init__(self, function):
        self.replays = {}
        self.checkpointed = function
        super().__init__(self._run, function_name(function))
        self.defvjp(self._pull)
        self.defjvp(self._push)

    def _replayed(self, leaves, layout):
        """The recorded function of leaves, for arguments in these containers, and which leaves it is differentiated in."""
        from .replay.function import Replayed

        wanted = tuple(k for k, leaf in enumerate(leaves) if _is_float(leaf))
        key = (layout.arguments, wanted)
        replayed = self.replays.get(key)
        if replayed is None:
            function, structure = self.checkpointed, layout.arguments

            @functools.wraps(function, updated=())
            def on_leaves(*leaves):
                args, kwargs = unflatten(structure, leaves)
                return function(*args, **kwargs)

            del on_leaves.__wrapped__
            replayed = self.replays.setdefault(key, Replayed(on_leaves, wanted, scalar=False, captures=False))
        return replayed, wanted

    def _run(self, *leaves, layout):
        outcome = self._replayed(leaves, layout)[0].call(leaves, {}, backward=False)
        layout.result = outcome.structure
        return _packed(outcome.values)

    def _pull(self, adjoints, _, *leaves, layout):
        replayed, wanted = self._replayed(leaves, layout)
        adjoints = adjoints if isinstance(adjoints, tuple) else (adjoints,)
        outcome = replayed.call(leaves, {}, backward=lambda recording: recording.pull(_seeds(adjoints, recording.outputs)))
        gradients = dict(zip(wanted, outcome.gradients))
        return tuple(gradients.get(k) for k in range(len(leaves)))

    def _cotangents_recorded(self, call, arguments, parts, result, likes):
        """The function is run on tensors, and what it records is walked back."""
        structure = call.static["layout"].arguments

        def on_leaves(*leaves):
            args, kwargs = unflatten(structure, leaves)
            return self.checkpointed(*args, **kwargs)

        wanted = [k for k, like in enumerate(likes) if like is not None]
        with Evaluation(on_leaves, arguments, wanted, {}) as e:
            e.run()
            gradients = dict(zip(wanted, e.pull(*zip(*[(r, p) for r, p in zip(e.results, parts) if p is not None]))))
        return tuple(gradients.get(k) for k in range(len(likes)))

    def _push(self, tangents, _, *leaves, layout):
        replayed, wanted = self._replayed(leaves, layout)
        directions = [tangents[k] for k in wanted]
        outcome = replayed.call(leaves, {}, backward=lambda recording: recording.push(_seeds(directions, recording.inputs)))
        return _packed(outcome.gradients)


def _packed(values):
    """One result by itself (several are copied into one vector)."""
    return values[0] if len(values) == 1 else tuple(values)


def _is_float(leaf):
    kind = getattr(leaf, "dtype", None)
    return type(leaf) is float if kind is None else kind.char in "df"


def _seeds(values, ports):
    return [
        normalise(np.zeros(p.shape, p.char) if v is None else np.array(v, p.char, order="C")) for v, p in zip(values, ports)
    ]


def checkpoint(fun: F) -> F:
    """A function that stores nothing between its arguments and its result, and is computed again on the way back.

    In define-by-run the tape of a call is one instruction, whatever the length
    of `fun`; the instructions of `fun` are recorded once, apart, and replayed.
    Inside ``tg.grad(f)`` and its like, `f` is run define-by-run at every call.

    Parameters
    ----------
    fun : callable
        Of numbers, arrays, tensors, or containers of them; returns the same.  What
        is differentiated has to be an argument.

    Returns
    -------
    callable
        With the arguments and results of `fun`; its ``stats()`` is a list with
        what has been recorded and replayed for each kind of containers.

    Raises
    ------
    NestingError
        From a call: `fun` uses a number that is being differentiated and is not an argument.
    HigherOrderError
        For a derivative by forward mode that is differentiated again.

    References
    ----------
    A. Griewank, A. Walther: Algorithm 799: Revolve. ACM TOMS 26 (2000) 19-45: checkpointing in general.

    Examples
    --------
    >>> import numpy as np, tapegrad as tg
    >>> @tg.checkpoint
    ... def step(x):
    ...     for _ in range(100):
    ...         x = x + 0.01 * np.sin(x)
    ...     return x
    >>> x = tg.tensor(1.0, requires_grad=True)
    >>> with tg.Tape() as tape:
    ...     y = step(x) * 2.0
    >>> len(tape) < 10
    True
    >>> y.backward()
    """
    if not callable(fun):
        raise StructureError(f"expected a function, got {type(fun).__name__}")
    segment = _Segment(fun)

    @functools.wraps(fun, updated=())
    def call(*args, **kwargs):
        leaves, structure = flatten((args, kwargs))
        if not any(isinstance(leaf, Differentiable) for leaf in leaves):
            return fun(*args, **kwargs)
        layout = _Layout(structure)
        result = segment(*leaves, layout=layout)
        return unflatten(layout.result, result if isinstance(result, tuple) else (result,))

    call.stats = lambda: [replayed.stats for replayed in segment.replays.values()]  # type: ignore[attr-defined]
    return call  # type: ignore[return-value]
