"""`checkpoint`: a part of a computation that is computed again when its derivative is needed, instead of stored.

A call of a checkpointed function is one instruction, which keeps its arguments
and its result.  The function is run on a tape of its own: once for the value, once more
on the way back, where its tape is walked back and let go of.

Both runs have to compute the same.  So a call notes what the function reads besides its
arguments (`transforms.contents`), and where random generators are.  On the way back
variables are bound to what they were, in a copy of the function; what is not a binding
(elements of arrays, attributes of objects) is compared; generators, and what the function
changes itself, are put back to where they were, and after it to where they are.  What none
of this sees is found out by the value, if it is another one.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from ..array.record import trace_of, tracked
from ..array.tensor import Tensor
from ..autograd.custom.calls import unpacked
from ..autograd.custom.primitives import Primitive
from ..autograd.nested import current_trace, parts_of
from ..autograd.tape import Tape
from ..common.errors import GradientError, TapeMismatchError
from ..common.exact import Identity
from ..common.tree import flatten, leaf_names, unflatten
from ..program.evaluation import on_tensors
from ..program.sweeps import StoreWalk
from ..tape.places import function_name
from ..tape.store import thread_state
from .argnums import check_function
from .contents import OBJECTS, Contents, is_plain
from .environment import SMALL
from .loops.body import Unrecordable, restoring, state_of, value_of
from .replay.kernels import agree

#: How far the value computed again may be from the first one, relative to its largest element: rounding that depends on where
#: arrays lie in memory.
TOLERANCE = {"d": 1e-6, "f": 1e-2}

F = TypeVar("F", bound=Callable[..., Any])


class _CallLayout:
    """One call: its containers (those of the result once it has run), and what the function read besides its arguments.

    Attributes
    ----------
    arguments, result : Structure
    leaves : list
        Of the arguments; of one that is not differentiated itself, as `Identity`.
    enabled : bool
        Whether tensors that are no arguments are refused: not under ``no_grad``.
    read : Contents
    raising : dict
        What ``np.errstate`` said then, of errors that are raised or reported: the function may catch them.
    """

    __slots__ = ("arguments", "leaves", "result", "enabled", "read", "raising")

    def __init__(self, leaves, arguments):
        self.leaves, self.arguments, self.result = leaves, arguments, None
        self.enabled = thread_state().enabled
        self.read = None
        self.raising = {kind: how for kind, how in np.geterr().items() if how in ("raise", "call")}


class _Segment(Primitive):
    """The primitive behind a checkpointed function: its arguments and results are leaves."""

    replayed = False

    def __init__(self, function):
        self.checkpointed = function
        super().__init__(self._run, function_name(function))
        self.defvjp(self._pull)
        self.defjvp(self._push)

    # -- the first time -------------------------------------------------------------
    def _run(self, *leaves, layout):
        if layout.read is not None:
            # Asked again for the value of a call that has been made.
            return _packed(self._values(_as_it_was(layout), leaves, layout))
        read = Contents(self.checkpointed, OBJECTS, _objects(self.checkpointed, layout), SMALL)
        if read.iterates:
            # What an iterator gave it does not give again.
            raise Unrecordable
        try:
            values = self._values(_on_leaves(self.checkpointed, layout), leaves, layout)
        except TapeMismatchError:
            read.put_back(self.name)
            raise
        read.streams.forget()
        read.keep_own()
        layout.read = read
        return _packed(values)

    def _values(self, function, leaves, layout):
        """Run the function as on the way back; its results as plain values."""
        walk = self._recorded(function, leaves, layout)
        layout.result = walk.structure
        return [p.value for p in walk.outputs]

    def _recorded(self, function, leaves, layout):
        """A call, on a tape of its own."""
        walk = StoreWalk(function, leaves, _wanted(leaves), plain=True)
        if layout.enabled:
            walk.refuse_captured(self.checkpointed)
        return walk

    # -- again ------------------------------------------------------------------------
    def _check_values(self, values, result):
        """Raise if the values are not those of the call."""
        results = result if isinstance(result, (tuple, list)) else [result]
        pairs = [(value_of(value), value_of(before)) for value, before in zip(values, results)]
        same = len(values) == len(results) and all(np.shape(a) == np.shape(b) and agree(a, b, TOLERANCE) for a, b in pairs)
        if result is not None and not same:
            raise GradientError(
                f"{self.name!r} was run again on the way back, because it is under tg.checkpoint, and has computed something else "
                "than at its call. It depends on something that is not an argument (a file, the time, the state of an object). "
                "Pass that as an argument"
            )

    def _pull(self, adjoints, result, *leaves, layout):
        walk = self._recorded(_as_it_was(layout), leaves, layout)
        self._check_values([p.value for p in walk.outputs], result)
        adjoints = adjoints if isinstance(adjoints, tuple) else (adjoints,)
        gradients = dict(zip(_wanted(leaves), walk.pull(adjoints)))
        return tuple(gradients.get(k) for k in range(len(leaves)))

    def _cotangents(self, call, arguments, parts, result, likes, recorded=False):
        """If it is recorded, the function is run on tensors, and what that records is walked back."""
        if not recorded:
            return super()._cotangents(call, arguments, parts, result, likes)
        layout = call.static["layout"]
        wanted = [k for k, like in enumerate(likes) if like is not None]
        with on_tensors(_as_it_was(layout), arguments, wanted, {}) as e:
            self._check_values(e.walk.results, unpacked(result, call))
            gradients = dict(zip(wanted, e.pull(parts)))
        return tuple(gradients.get(k) for k in range(len(likes)))

    def _push(self, tangents, result, *leaves, layout):
        wanted = _wanted(leaves)
        with on_tensors(_as_it_was(layout), leaves, wanted, {}) as e:
            self._check_values(e.walk.results, result)
            return _packed(e.out(e.push([tangents[k] for k in wanted])))


def _on_leaves(function, layout):
    """`function` of those leaves of its arguments that are differentiated."""

    def on_leaves(*live):
        remaining = iter(live)
        leaves = [leaf.thing if leaf.__class__ is Identity else next(remaining) for leaf in layout.leaves]
        args, kwargs = unflatten(layout.arguments, leaves)
        return function(*args, **kwargs)

    return on_leaves


def _as_it_was(layout):
    """The function of the leaves with its variables bound to what they were, and generators; it raises if something else has changed."""
    when = "between the call and the backward pass: a function under tg.checkpoint is run again on the way back"

    def again(*live):
        with layout.read.own_put_back(), layout.read.streams.restored(), np.errstate(**layout.raising):
            return _on_leaves(layout.read.restored(when), layout)(*live)

    return again


def _wanted(leaves):
    """Which leaves are differentiated."""
    return tuple(k for k, leaf in enumerate(leaves) if _is_float(leaf))


def _objects(function, layout):
    """What of the arguments is not differentiated, by name: it may change inside."""
    objects = [(k, leaf.thing) for k, leaf in enumerate(layout.leaves) if leaf.__class__ is Identity]
    if not objects:
        return []
    positional, named = layout.arguments.parts
    code = getattr(function, "__code__", None)
    parameters = code.co_varnames[: code.co_argcount] if code is not None else ()
    names = [*parameters, *(f"argument {k}" for k in range(len(parameters), len(positional.parts)))]
    parts = [*zip(names, positional.parts), *zip(named.keys, named.parts)]
    paths = [path for name, part in parts for path in leaf_names(part, name)]
    return [(paths[k], thing) for k, thing in objects]


def _packed(values):
    """One result by itself (several are copied into one vector)."""
    return values[0] if len(values) == 1 else tuple(values)


def _as_given(argument):
    """An argument as one leaf, if nothing of it is differentiated."""
    return argument if any(map(tracked, flatten(argument)[0])) else Identity(argument)


def _is_float(leaf):
    kind = getattr(leaf, "dtype", None)
    return type(leaf) is float if kind is None else kind.char in "df"


def _recorded(fun, leaves, structure):
    """A call in a recording: a loop of one iteration, of which nothing is kept."""
    from .loops.running import once

    def iteration(_, element):
        args, kwargs = unflatten(structure, leaves)
        return (), fun(*args, **kwargs), False

    return once(iteration, (), function_name(fun))


def checkpoint(fun: F) -> F:
    """Make a function store nothing between its arguments and its result, and run again on the way back.

    A call is one instruction on the tape, however long `fun` is.  On the way back, `fun` runs again
    on a tape of its own.  In a function under `jit`, `fun` is recorded, and its tape runs again.

    On the way back, `fun` reads what it read at the call: its variables (closure, defaults,
    globals) are bound to their former values, and random generators that it draws from, and what it
    changes itself (a counter), are put back to their former state for that time.  Elements of arrays and
    attributes of objects that it reads must not have changed otherwise.

    Tensors that `fun` uses without having them as arguments (a layer its parameters) are differentiated,
    too.  Then `fun` is recorded at each call, as the body of a loop is, and its tape runs again on the way
    back.  If it draws random numbers or changes what it reads, it runs as it is, and everything is stored; so it is where `fun` reads
    an iterator.

    Parameters
    ----------
    fun : callable
        Takes numbers, arrays, tensors, or containers of them; returns the same.

    Returns
    -------
    callable
        Has the arguments and results of `fun`.

    Raises
    ------
    ModifiedInPlaceError
        From the backward pass: something that `fun` reads has changed since the call, and cannot be put back.
        From a call: so it is where `fun` was run to be recorded.
    GradientError
        From the backward pass: `fun` did not compute the same as at the call.
    HigherOrderError
        A derivative by forward mode is differentiated again.

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
    check_function(fun)
    segment = _Segment(fun)
    captures: list[bool] = []

    @functools.wraps(fun, updated=())
    def call(*args, **kwargs):
        leaves, structure = given = flatten((args, kwargs))
        live = [leaf for leaf in leaves if tracked(leaf)]
        tensors, state = any(isinstance(part, Tensor) and tracked(part) for leaf in live for part in parts_of(leaf)), None
        if not tensors and (live or not thread_state().enabled or is_plain(fun)):
            # Forward mode stores nothing.
            return fun(*args, **kwargs)
        if not tensors and not captures:
            # Whether it uses tensors that are no arguments is seen by its result.
            state = state_of([fun])
            with contextlib.suppress(TapeMismatchError), Tape() if current_trace() is None and not state.iterates else contextlib.nullcontext():
                result = fun(*args, **kwargs)
                if state.iterates or not any(map(tracked, flatten(result)[0])):
                    return result
            captures.append(True)
        if trace_of(live) is not None:
            with contextlib.suppress(Unrecordable):
                return _recorded(fun, *given)
        leaves, structure = flatten(([_as_given(a) for a in args], {name: _as_given(a) for name, a in kwargs.items()}))
        layout = _CallLayout([leaf if tracked(leaf) or leaf.__class__ is Identity else Identity(leaf) for leaf in leaves], structure)
        if not captures:
            try:
                result = segment(*live, layout=layout)
            except (TapeMismatchError, Unrecordable):
                captures.append(True)
            else:
                return unflatten(layout.result, result if isinstance(result, tuple) else (result,))
        # It uses tensors that are no arguments, as a layer its parameters: the body of a loop may.
        return restoring([fun], function_name(fun), lambda: _recorded(fun, *given), lambda: fun(*args, **kwargs), state)

    return call  # type: ignore[return-value]
