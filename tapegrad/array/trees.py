"""Containers as a whole: a public module, `tapegrad.tree`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..common.errors import StructureError
from ..common.tree import flatten_result, rearranged, unflatten
from ..common.tree import register as _register
from .differentiable import Differentiable
from .typing import Pytree

__all__ = ["leaves", "map", "ravel", "register"]


def leaves(tree: Pytree) -> list[Any]:
    """List the numbers and arrays in containers, depth first.

    Parameters
    ----------
    tree : dicts, lists, tuples, namedtuples and dataclasses of numbers, arrays and tensors

    Returns
    -------
    list

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.tree.leaves({"w": [1.0, 2.0], "b": 3.0})
    [1.0, 2.0, 3.0]
    """
    return flatten_result(tree)[0]


def map(f: Callable[..., Any], tree: Pytree, *rest: Pytree) -> Pytree:
    """Apply `f` to each leaf, in the same containers; with several containers, `f` takes the leaves at the same place in each.

    Parameters
    ----------
    f : callable
        Takes as many leaves as there are containers.
    tree, *rest : containers
        All of the same form.

    Returns
    -------
    Containers of what `f` returns

    Raises
    ------
    StructureError
        The containers have different forms.

    Examples
    --------
    >>> import tapegrad as tg
    >>> params, slopes = {"w": [1.0, 2.0], "b": 3.0}, {"w": [0.5, 0.5], "b": 1.0}
    >>> tg.tree.map(lambda p, g: p - 0.1 * g, params, slopes)
    {'w': [0.95, 1.95], 'b': 2.9}
    """
    mine, structure = flatten_result(tree)
    others = []
    for one in rest:
        leaves, other = flatten_result(one)
        others.append(rearranged(leaves, other, structure))
        if others[-1] is None:
            raise StructureError(f"tree.map: {structure} and {other} are containers of different forms")
    return unflatten(structure, [f(*parts) for parts in zip(mine, *others)])


def ravel(tree: Pytree) -> tuple[Any, Callable[[Any], Pytree]]:
    """Join all numbers of containers into one vector; also return the function that turns such a vector back into the containers.

    Parameters
    ----------
    tree : containers of numbers, arrays and tensors

    Returns
    -------
    vector : ndarray or Tensor
        Has one axis, and the dtype of the joined numbers.  Dicts are joined in the order of their keys, and of
        complex numbers first the real parts, then the imaginary ones.
    unravel : callable
        Takes a vector of that length, plain or on the tape; what was float32 beside float64 is float32 again.

    Examples
    --------
    >>> import tapegrad as tg
    >>> vector, unravel = tg.tree.ravel({"w": [1.0, 2.0], "b": 3.0})
    >>> vector
    array([1., 2., 3.])
    >>> unravel(2.0 * vector)
    {'w': [2.0, 4.0], 'b': 6.0}
    """
    parts, structure = flatten_result(tree)
    shapes, vector = [np.shape(part) for part in parts], joined(tree)
    narrower = [getattr(part, "dtype", None) == np.float32 != vector.dtype for part in parts]
    ends = np.cumsum([0, *(math.prod(shape) for shape in shapes)]).tolist()

    def unravel(vector: Any) -> Pytree:
        if np.shape(vector) != (ends[-1],):
            raise StructureError(f"unravel takes a vector of {ends[-1]} numbers, got the shape {np.shape(vector)}")
        leaves = [np.reshape(vector[a:b], shape) if shape else vector[a] for a, b, shape in zip(ends, ends[1:], shapes)]
        leaves = [leaf.astype(np.float32) if single else leaf for leaf, single in zip(leaves, narrower)]
        return unflatten(structure, [float(leaf) if type(leaf) is np.float64 else leaf for leaf in leaves])

    return (vector if isinstance(vector, Differentiable) else np.array(vector)), unravel


def joined(tree):
    """The numbers of containers as one vector; of one array they are not copied."""
    parts = [np.reshape(part, (-1,)) for part in flatten_result(tree)[0]]
    return parts[0] if len(parts) == 1 else np.concatenate(parts) if parts else np.zeros(0)


def register(cls: type, flatten: Callable[[Any], tuple[Any, Any]], unflatten: Callable[[Any, Any], Any]) -> type:
    """Register a class whose instances are containers, as dicts and dataclasses are.

    Parameters
    ----------
    cls : type
    flatten : callable
        ``flatten(thing) -> (parts, held)``.  The tuple `parts` has containers, arrays or numbers; `held` is what else the instance is
        made of, and must be hashable.  Containers are of the same form if their `held` is equal.
    unflatten : callable
        ``unflatten(held, parts) -> thing``.

    Returns
    -------
    type
        `cls`.

    Raises
    ------
    StructureError
        `cls` is not a class, or its instances already are containers or numbers.

    Examples
    --------
    >>> import tapegrad as tg
    >>> class Line:
    ...     def __init__(self, slope, start, unit):
    ...         self.slope, self.start, self.unit = slope, start, unit
    >>> _ = tg.tree.register(Line, lambda l: ((l.slope, l.start), l.unit), lambda unit, parts: Line(*parts, unit))
    >>> tg.grad(lambda line: line.slope**2 + line.start)(Line(3.0, 1.0, "m")).slope
    6.0
    """
    _register(cls, flatten, unflatten)
    return cls
