"""`vmap`: a function of one point as a function of many, which are the iterations of one loop (`transforms.loops`).

The elements of the arrays that are mapped are what the loop goes along, results are what its iterations give, and there is no carry: the
iterations, *lanes*, are independent.  So the function is recorded once for each path, and any derivative of the loop is such a loop.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ..array.differentiable import Differentiable
from ..array.record import tracked
from ..common.errors import StructureError
from ..common.public import answers
from ..common.tree import beside, flatten, flatten_result, leaf_names, unflatten
from ..program.finish import depends
from ..tape.places import function_name
from .argnums import check_function, is_number
from .forward import recorded
from .loops import plain
from .loops.body import restoring, state_of


@answers(in_dims="write in_axes=", out_dims="write out_axes=")
def vmap(fun: Callable[..., Any], in_axes: Any = 0, out_axes: Any = 0) -> Callable[..., Any]:
    """Map `fun` over an axis of its arguments, all elements at once: ``np.stack([fun(x) for x in xs])`` for one array.

    `fun` runs once for each path that it takes, not once per lane; the lanes form one compiled loop, which `tg.config.threads`
    threads share.  Under `jit` this is recorded once and for all.  Any function of this library may be mapped, and a mapped
    function may be differentiated, in both modes and to any order.  Calls may be nested.

    Parameters
    ----------
    fun : callable
    in_axes : int, None, or container of them
        The axis of each array along which the lanes lie; None for what all lanes share.  A tuple or list has an entry for each
        positional argument; an entry is a container like its argument, or applies to all arrays in it.  Keyword arguments are
        mapped along their first axes.
    out_axes : int, None, or container of them
        Position of the axis for the lanes in the results; None for a result that is the same in all lanes by the way it is
        computed, which is returned once.

    Returns
    -------
    callable
        Like `fun`, with arrays that have one more axis.

    Raises
    ------
    StructureError
        Lengths along the axes differ; an array has no such axis; nothing is mapped; `in_axes` or `out_axes` do not fit the
        arguments or results.
    GradientError
        The lanes take more than `tg.config.paths` paths.

    Notes
    -----
    As under `jit`, `fun` works on tensors. What loops do not record (integers beyond 2**53, arrays of half precision) runs lane by lane in Python.

    Examples
    --------
    >>> import numpy as np, tapegrad as tg
    >>> f = lambda w, x: np.tanh(w @ x)
    >>> w, xs = np.array([0.5, -1.0]), np.array([[1.0, 2.0], [0.0, 1.0], [3.0, 0.0]])
    >>> tg.vmap(f, in_axes=(None, 0))(w, xs).round(3)
    array([-0.905, -0.762,  0.905])
    >>> tg.vmap(tg.grad(f), in_axes=(None, 0))(w, xs).round(3)
    array([[0.181, 0.361],
           [0.   , 0.42 ],
           [0.542, 0.   ]])
    """
    check_function(fun, " for tg.vmap")

    @functools.wraps(fun, updated=())
    def mapped(*args: Any, **kwargs: Any) -> Any:
        return _Lanes(fun, in_axes, args, kwargs).run(out_axes)

    return recorded(mapped, fun, lambda function: vmap(function, in_axes, out_axes))


class _Lanes:
    """One call.

    Attributes
    ----------
    rows : list
        The arrays that are mapped, lanes first.
    count : int
        Of lanes.
    """

    def __init__(self, fun, in_axes, args, kwargs):
        self.fun, self.name, self.rows, self.keys = fun, f"vmap({function_name(fun)})", [], list(kwargs)
        axes = in_axes if isinstance(in_axes, (tuple, list)) else (in_axes,) * len(args)
        if len(axes) != len(args):
            raise StructureError(f"{self.name}: in_axes has {len(axes)} entries, and there are {len(args)} positional arguments")
        named = [(f"args[{k}]", thing, axis) for k, (thing, axis) in enumerate(zip(args, axes))]
        named += [(key, thing, 0) for key, thing in kwargs.items()]
        #: Whether there was a tensor among the arguments; lengths by the name of each array.
        self.live, lengths = False, {}
        self.arguments = [self._argument(*each, lengths) for each in named]
        if not lengths:
            raise StructureError(f"{self.name}: in_axes={in_axes!r} maps none of the arguments; give the axis of one at least")
        if len({length for length, _ in lengths.values()}) > 1:
            text = ", ".join(f"{name} has {length} along axis {axis}" for name, (length, axis) in lengths.items())
            raise StructureError(f"{self.name}: the arrays have different lengths along the axes that are mapped: {text}")
        self.count = len(self.rows[0])

    def _argument(self, name, thing, axes, lengths):
        """An argument as its structure, and its leaves: a number in their place where they are `rows`."""
        leaves, structure = flatten_result(thing)
        self.live = self.live or any(isinstance(leaf, Differentiable) for leaf in leaves)
        places = []
        for part, leaf, axis in zip(leaf_names(structure), leaves, _spread(axes, structure, f"{self.name}: in_axes of {name}")):
            if axis is None:
                places.append((False, leaf))
                continue
            if not isinstance(leaf, (np.ndarray, np.generic, float, int, Differentiable)):
                raise StructureError(f"{self.name}: {name}{part} is {type(leaf).__name__}, which has no axes; give None for it in in_axes")
            lengths[name + part] = np.shape(leaf)[_within(axis, np.ndim(leaf), f"{self.name}: {name}{part}")], axis
            places.append((True, len(self.rows)))
            self.rows.append(np.moveaxis(leaf, axis, 0) if axis else leaf)
        # What is not mapped is what was given, and no copy of its container.
        return (structure, places) if any(moves for moves, _ in places) else (None, thing)

    def _called(self, element):
        """`fun` of one lane."""
        things = [
            what if structure is None else unflatten(structure, [element[leaf] if moves else leaf for moves, leaf in what])
            for structure, what in self.arguments
        ]
        first = len(things) - len(self.keys)
        return self.fun(*things[:first], **dict(zip(self.keys, things[first:])))

    def run(self, out_axes):
        from .loops.running import loop

        def iteration(carry, element):
            result = self._called(element)
            self._check_common(element, result, out_axes)
            return carry, result, False

        structure, count = flatten(self.rows)[1], self.count
        # Of no lanes the results still have shapes: those of one at zero.
        rows = self.rows if count else [np.zeros((1, *np.shape(leaf)[1:]), leaf.dtype) for leaf in self.rows]
        state = None if count else state_of([self.fun])
        with np.errstate() if count else np.errstate(all="ignore"):
            leaves, structure = flatten_result(restoring(
                [self.fun], self.name,
                lambda: loop(iteration, (), (rows, structure), count or 1, False, None, self.name)[1],
                lambda: plain.scan(lambda *both: iteration(*both)[:2], (), rows, structure, count or 1, False, False, self.name, "lane")[1],
                state,
            ))
        if state is not None:
            state.put_back(self.name)
        axes = self._out_axes(out_axes, structure)
        return unflatten(structure, [self._out(*each) for each in zip(leaf_names(structure), leaves, axes)])

    def _out(self, name, leaf, axis):
        if isinstance(leaf, Differentiable) and not self.live and not tracked(leaf):
            leaf = leaf._v
        if axis is None:
            return leaf[0]
        leaf = leaf if self.count else leaf[:0]
        return np.moveaxis(leaf, 0, axis) if _within(axis, np.ndim(leaf), f"{self.name}: the result{name}") else leaf

    def _out_axes(self, out_axes, structure):
        return _spread(out_axes, structure, f"{self.name}: out_axes")

    def _check_common(self, element, result, out_axes):
        """Refuse a result for which `out_axes` has None, and which may differ from lane to lane."""
        leaves, structure = flatten_result(result)
        axes = self._out_axes(out_axes, structure)
        common = [leaf for leaf, axis in zip(leaves, axes) if axis is None]
        if not common:
            return
        trace = next((leaf._t.trace for leaf in element if isinstance(leaf, Differentiable) and leaf._t is not None), None)
        # (The elements are the first argument.)
        if trace is not None and not depends(trace, common, 0):
            return
        names = [f"the result{name}" for name, axis in zip(leaf_names(structure), axes) if axis is None]
        raise StructureError(f"{self.name}: {', '.join(names)} may differ from lane to lane, and out_axes says None; give an axis")


def _within(axis, ndim, what):
    """`axis`, if an array with so many axes has it, counted from the front."""
    if not -ndim <= axis < ndim:
        raise StructureError(f"{what} has no axis {axis}: it has {ndim} axes" if ndim else f"{what} is a number, which has no axis {axis}; give None for it")
    return axis % ndim


def _spread(axes, part, what):
    """The axis of each leaf of a structure, by a container of axes that may stand for whole parts of it."""
    if axes is None or is_number(axes) or not part.count:
        return [axes] * part.count
    inside = beside(part, axes)
    if inside is None:
        if part.kind in (None, dict) or not isinstance(axes, (list, tuple)) or len(axes) != len(part.parts):
            raise StructureError(f"{what} has {axes!r} for {part}; give one axis for all of it (an integer, or None), or a container like it")
        inside = axes
    return [axis for one, other in zip(inside, part.parts) for axis in _spread(one, other, what)]
