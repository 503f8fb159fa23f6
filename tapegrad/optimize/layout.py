"""Where an optimiser starts: numbers, arrays or containers of them, as one vector.

SciPy's methods and our loops see a flat vector of float64; the user's function and
the result have the containers, shapes and dtypes of `x0`.  Bounds are two such vectors (`as_bounds`).
"""

import itertools
import numbers

import numpy as np

from ..array.differentiable import Differentiable
from ..common.errors import DtypeError, OptimizationError, StructureError
from ..common.tree import array_of, flatten, labelled_as, leaf_names, unflatten


class Layout:
    """How the leaves of `x0` lie in a vector.

    Parameters
    ----------
    x0 : float, array_like, or containers of them
        A list or tuple of plain numbers is an array, as in SciPy.

    Attributes
    ----------
    vector : ndarray of float64
        The start.
    shapes : list of tuple or None
        Of every leaf; None for a Python number.
    dtypes : list of dtype
        Of every leaf: float64 or float32.
    offsets : list of int
        Where each leaf begins; one more for the end.
    is_vector : bool
        Whether `x0` is a vector already.

    Raises
    ------
    DtypeError
        For an array of integers.
    OptimizationError
        For a start that is empty, infinite or not a number.
    StructureError
        For a leaf that is no number or array.
    """

    def __init__(self, x0, name="x0"):
        x0 = _array_like(x0, name)
        self.starts, self.structure = flatten(x0)
        # With a place for each None.
        places, self._places = flatten(x0, none=True)
        self._there = [place is not None for place in places]
        leaves = [array_of(leaf) for leaf in self.starts]
        self.names = [f"{name}{rest}" for rest in leaf_names(self.structure)]
        parts = [_floats(leaf, n) for leaf, n in zip(leaves, self.names)]
        self.shapes = [None if isinstance(leaf, numbers.Number) else np.shape(p) for leaf, p in zip(leaves, parts)]
        self.dtypes = [p.dtype for p in parts]
        self.offsets = [0, *np.cumsum([p.size for p in parts]).tolist()]
        if not self.offsets[-1]:
            raise OptimizationError(f"{name} has no numbers: there is nothing to optimise")
        self.vector = np.concatenate([p.reshape(-1) for p in parts], dtype=np.float64)
        self.is_vector = self.structure.kind is None and self.shapes[0] is not None and len(self.shapes[0]) == 1
        bad = np.flatnonzero(~np.isfinite(self.vector))
        if len(bad):
            raise OptimizationError(f"{self.name_of(bad[0])} is {self.vector[bad[0]]}; start from finite numbers")

    size = property(lambda self: self.offsets[-1])

    @property
    def double(self):
        """Whether all is float64."""
        return all(dtype == np.float64 for dtype in self.dtypes)

    def leaves(self, x, number=float):
        """The parts of vector `x`: views of it, or float32 copies, and Python floats."""
        spans = zip(self.shapes, self.dtypes, self.offsets, self.offsets[1:])
        return [
            number(x[a]) if shape is None else x[a:b].reshape(shape) if dtype == x.dtype else x[a:b].reshape(shape).astype(dtype)
            for shape, dtype, a, b in spans
        ]

    def container(self, x):
        """Vector `x` in the containers of the start (views of it, and floats)."""
        return unflatten(self.structure, self.leaves(x))

    def labelled(self, x):
        """`container` with the labels of the start."""
        return unflatten(self.structure, [labelled_as(start, leaf) for start, leaf in zip(self.starts, self.leaves(x))])

    def traced(self, x):
        """`container` for a vector that may be a tensor: its parts are too, and of an array they are NumPy's numbers."""
        return unflatten(self.structure, self.leaves(x, lambda value: value))

    def name_of(self, k):
        """How element `k` of the vector is called in the containers of the start."""
        leaf = int(np.searchsorted(self.offsets, k, side="right")) - 1
        shape = self.shapes[leaf]
        if not shape:
            return self.names[leaf]
        at = np.unravel_index(k - self.offsets[leaf], shape)
        return f"{self.names[leaf]}[{', '.join(str(int(i)) for i in at)}]"

    def spread(self, values, what):
        """A vector from something for each leaf: numbers, arrays that broadcast to it, or None.

        `values` has the containers of the start (or is one thing for all).
        """
        parts, structure = flatten(_array_like(values, what), none=True)
        if structure == self._places:
            parts = list(itertools.compress(parts, self._there))
        elif structure != self.structure:
            if len(parts) != 1:
                raise OptimizationError(f"{what} is {structure}, but the start is {self.structure}; give them the same containers")
            parts = parts * len(self.shapes)
        pieces = []
        for part, shape, name in zip(parts, self.shapes, self.names):
            value = np.asarray(np.nan if part is None else part, np.float64)
            try:
                pieces.append(np.broadcast_to(value, shape or ()).reshape(-1))
            except ValueError:
                raise OptimizationError(f"{what} has the shape {value.shape}, which does not fit {name} of shape {shape}") from None
        return np.concatenate(pieces)


def shaped(layout, x):
    """Vector `x` in the containers of the start and with its labels, sharing nothing with it."""
    return layout.labelled(np.array(x, np.float64))


class Flat:
    """A function of containers and further arguments, as a function of a vector."""

    def __init__(self, function, layout, args):
        self.function, self._layout, self._args = function, layout, args

    def __call__(self, x):
        return self.function(self._layout.traced(x), *self._args)


def flat(function, layout, args):
    """`function` as a function of the vector of `layout`; itself where it is one."""
    return function if layout.is_vector and layout.double and not args else Flat(function, layout, args)


def _array_like(x0, name):
    """Lists and tuples that hold nothing but numbers, as an array."""
    leaves, structure = flatten(x0, none=True)
    if type(x0) in (list, tuple) and leaves and all(isinstance(leaf, numbers.Real) for leaf in leaves):
        try:
            array = np.array(x0)
            return array if array.dtype.kind == "c" else array.astype(np.float64)
        except ValueError:
            raise StructureError(f"{name} is {structure}: rows of different lengths; give an array, or a dict of arrays") from None
    return x0


def _floats(leaf, name):
    if isinstance(leaf, Differentiable):
        # A recording notes that the number is used.
        leaf = leaf.detach()
        leaf = leaf.numpy() if np.shape(leaf) else leaf.item()
    if isinstance(leaf, bool) or not isinstance(leaf, (numbers.Real, np.ndarray, np.generic)):
        raise StructureError(f"{name} is of type {type(leaf).__name__}; give numbers, arrays, or containers of them")
    array = np.asarray(leaf)
    if array.dtype.kind in "iub" and not isinstance(leaf, int):
        raise DtypeError(f"{name} is an array of {array.dtype}, which cannot be optimised over; pass it as .astype(float)")
    if array.dtype.kind not in "iuf":
        raise DtypeError(f"{name} has dtype {array.dtype}; give floats (of a complex number its real and imaginary parts)")
    return np.array(array, np.float32 if array.dtype.char == "f" and array.ndim else np.float64, order="C")


def as_bounds(bounds, layout, two_sided=False):
    """Lower and upper bound of every element of the vector.

    Parameters
    ----------
    bounds : scipy.optimize.Bounds, or sequence of (low, high), or pair of containers
        A pair for each element as in SciPy (None: no bound), an object with ``lb`` and ``ub``, or
        ``(lower, upper)`` where each has the containers of the start or is one number for all.
    two_sided : bool
        Whether two things are ``(lower, upper)`` for a vector, too, as SciPy's `least_squares` takes them.

    Raises
    ------
    OptimizationError
        If they do not fit the start, or a lower bound is above the upper one.
    """
    if hasattr(bounds, "lb") and hasattr(bounds, "ub"):
        lower, upper = layout.spread(bounds.lb, "bounds.lb"), layout.spread(bounds.ub, "bounds.ub")
    elif _pairs(bounds, layout) and not (two_sided and layout.is_vector and len(bounds) == 2):
        lower, upper = np.array([list(pair) for pair in bounds], np.float64).T
    elif isinstance(bounds, (tuple, list)) and len(bounds) == 2 and (two_sided or not layout.is_vector):
        lower, upper = layout.spread(bounds[0], "the lower bound"), layout.spread(bounds[1], "the upper bound")
    else:
        count = len(bounds) if hasattr(bounds, "__len__") else type(bounds).__name__
        raise OptimizationError(
            f"bounds={_short(bounds)} ({count}) do not fit x0 of {layout.size} numbers: give one (low, high) for each, "
            "scipy.optimize.Bounds(lower, upper), or for containers a pair of containers like x0"
        )
    lower, upper = np.where(np.isnan(lower), -np.inf, lower), np.where(np.isnan(upper), np.inf, upper)
    if (lower > upper).any():
        k = int(np.flatnonzero(lower > upper)[0])
        raise OptimizationError(f"bounds of {layout.name_of(k)}: the lower one, {lower[k]}, is above the upper one, {upper[k]}")
    return lower, upper


def _pairs(bounds, layout):
    """Whether `bounds` has a (low, high) for each element of the vector."""
    if isinstance(bounds, dict) or not hasattr(bounds, "__len__") or len(bounds) != layout.size:
        return False
    return all(
        hasattr(pair, "__len__") and not isinstance(pair, (dict, str)) and len(pair) == 2 and not any(np.ndim(leaf) for leaf in flatten(list(pair))[0])
        for pair in bounds
    )


def _short(bounds):
    text = repr(bounds)
    return text if len(text) <= 60 else text[:57] + "..."
