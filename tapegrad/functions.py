"""The functions of the library's namespace, which are also tensor methods.

Each is a thin call of `tapegrad.record.apply`: it sorts out arguments (NumPy's
``axis``/``keepdims`` and PyTorch's ``dim``/``keepdim`` mean the same) and names
the row.  `install` puts them on the `Traced` class; NumPy's own functions reach
the same rows through `tapegrad.numpy_dispatch`.
"""

from __future__ import annotations

import math
from builtins import abs as builtin_abs
from collections.abc import Iterable, Sequence
from math import inf
from operator import index as as_index
from typing import TYPE_CHECKING, Any, Literal, Protocol, overload

import numpy as np

from . import docstrings
from .errors import DtypeError
from .recomputed import recomputed
from .record import apply, apply_one, as_operand, derived, observed, plain
from .rules import BY_NAME
from .tape.meta import c_strides
from .traced import Traced
from .typing import ArrayLike, Axis, DTypeLike, TensorLike
from .views import note_view

if TYPE_CHECKING:
    from .dual import Dual
    from .tensor import Tensor

    class Reduction(Protocol):
        def __call__(
            self, x: TensorLike, axis: Axis = None, keepdims: bool = False, *, dim: Axis = None, keepdim: bool = False
        ) -> Tensor: ...

    class Moment(Protocol):
        def __call__(
            self, x: TensorLike, axis: Axis = None, ddof: int = 0, keepdims: bool = False, *, dim: Axis = None, keepdim: bool = False
        ) -> Tensor: ...

    class Along(Protocol):
        def __call__(self, x: TensorLike, axis: int = -1, *, dim: int | None = None) -> Tensor: ...

#: Names in this namespace -> element-wise row, where they differ from the row's own.
_ALIASES = {
    "subtract": "subtract", "sub": "subtract", "mul": "multiply", "div": "divide", "true_divide": "divide",
    "neg": "negative", "negate": "negative", "abs": "absolute", "asin": "arcsin", "acos": "arccos", "atan": "arctan", "atan2": "arctan2",
    "asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh", "gammaln": "lgamma", "mod": "remainder",
    "expit": "sigmoid", "round": "rint",
}  # fmt: skip


def lift(x: Any) -> Any:
    """`x` as a tensor."""
    if x is True or x is False:
        # Promotes as a boolean does, not as a float.
        return plain(np.asarray(x))
    return x if isinstance(x, Traced) else plain(as_operand(x))


def _elementwise(name, row):
    arity = row.arity

    def one(x: TensorLike) -> Tensor:
        return apply_one(row, x) if isinstance(x, Traced) else apply(row, (x,))

    def two(x: TensorLike, y: TensorLike) -> Tensor:
        return apply(row, (x, y))

    function = one if arity == 1 else two
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""{row.doc}, element-wise.

    Parameters
    ----------
    {"x" if arity == 1 else "x, y"} : Tensor or array-like
        Float64 or float32; broadcast as NumPy does.

    Returns
    -------
    Tensor
    """
    return function


ELEMENTWISE = {
    name: _elementwise(name, BY_NAME[_ALIASES.get(name, name)])
    for name in [
        *_ALIASES,
        *(row.name for row in BY_NAME.values() if row.elementwise and row.arity <= 2 and row.name != "power2"),
    ]
    if name not in ("power", "polygamma")
}
globals().update(ELEMENTWISE)

if TYPE_CHECKING:
    # The same names, for type checkers; a test keeps the two equal.
    @overload
    def _unary(x: Dual) -> Dual: ...  # type: ignore[overload-overlap]
    @overload
    def _unary(x: TensorLike) -> Tensor: ...
    def _unary(x: Any) -> Any: ...
    @overload
    def _binary(x: Dual, y: TensorLike) -> Dual: ...  # type: ignore[overload-overlap]
    @overload
    def _binary(x: TensorLike, y: Dual) -> Dual: ...  # type: ignore[overload-overlap]
    @overload
    def _binary(x: TensorLike, y: TensorLike) -> Tensor: ...
    def _binary(x: Any, y: Any) -> Any: ...

    abs = absolute = acos = acosh = arccos = arccosh = arcsin = arcsinh = arctan = arctanh = asin = asinh = atan = atanh = \
        cbrt = ceil = cos = cosh = deg2rad = digamma = entr = erf = erfc = erfcinv = erfcx = erfinv = exp = exp2 = \
        expit = expm1 = floor = gamma = gammaln = i0 = i0e = i1 = i1e = is_nan = j0 = j1 = lgamma = log = log10 = log1p = \
        log2 = log_expit = log_ndtr = logit = ndtr = ndtri = neg = negate = negative = rad2deg = reciprocal = relu = rint = \
        round = sigmoid = sign = sin = sinc = sinh = softplus = sqrt = square = tan = tanh = trunc = y0 = y1 = _unary
    absolute_product = add = arctan2 = atan2 = beta = betaln = copysign = div = divide = floor_divide = fmax = fmin = \
        fmod = gammainc = gammaincc = heaviside = hypot = if_false = if_true = is_equal = is_less = is_less_equal = iv = \
        ive = jv = kl_div = ldexp = logaddexp = logaddexp2 = maximum = minimum = mod = mul = multiply = rel_entr = \
        remainder = sub = subtract = true_divide = xlog1py = xlogy = yv = _binary


def power(x: TensorLike, y: TensorLike) -> Tensor:
    """``x ** y``, element-wise; the derivative in `y` is 0 where ``x ** y`` is 0."""
    return x**y if isinstance(x, Traced) else apply("power", (x, y))


@recomputed
def _truth(condition):
    return condition.astype(bool)


def where(condition: TensorLike, x: TensorLike, y: TensorLike) -> Tensor:
    """`x` where `condition` holds, else `y`.

    Parameters
    ----------
    condition : bool array-like or Tensor
    x, y : Tensor or array-like

    Returns
    -------
    Tensor
        The gradient of the branch that is not taken is exactly zero.
    """
    return apply("where", (derived(_truth(), condition), x, y))


def clip(x: TensorLike, min: TensorLike | None = None, max: TensorLike | None = None) -> Tensor:
    """`x` limited to ``[min, max]``; either bound may be None.  The derivative is 1 at the bounds themselves."""
    if min is None and max is None:
        return lift(x)
    min = -inf if min is None else min
    max = inf if max is None else max
    return apply("clip", (x, min, max))


# ---- reductions ------------------------------------------------------------------


def _axis_index(axis, ndim):
    axis = as_index(axis)
    if not -ndim <= axis < ndim:
        raise np.exceptions.AxisError(axis, ndim)
    return axis % ndim


def _axis_tuple(axes, ndim):
    axes = tuple(axes) if isinstance(axes, (tuple, list)) else (axes,)
    found = tuple(_axis_index(a, ndim) for a in axes)
    if len(set(found)) != len(found):
        raise ValueError(f"an axis is repeated in {axes}")
    return found


def _axis(x: Any, axis: Any, dim: Any) -> Any:
    axis = dim if axis is None else axis
    if axis is None:
        return None
    if x.ndim == 0 and axis in (0, -1):
        # NumPy and PyTorch take these for a scalar too.
        return ()
    return tuple(sorted(_axis_tuple(axis, x.ndim)))


def _reduction(name: str, doc: str) -> Reduction:
    row = BY_NAME[name]

    def function(x: TensorLike, axis: Axis = None, keepdims: bool = False, *, dim: Axis = None, keepdim: bool = False) -> Tensor:
        x = lift(x)
        return apply(row, (x,), (("axis", _axis(x, axis, dim)), ("keepdims", bool(keepdims or keepdim))))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""{doc}

    Parameters
    ----------
    x : Tensor or array-like
    axis : int or tuple of int, optional
        Axes to reduce; all by default.  `dim` is the same.
    keepdims : bool
        Keep reduced axes with extent 1.  `keepdim` is the same.

    Returns
    -------
    Tensor
    """
    return function


sum = _reduction("sum", "Sum over axes.")
mean = _reduction("mean", "Arithmetic mean over axes.")
prod = _reduction("prod", "Product over axes; its derivative is exact where factors are zero.")
amax = max = _reduction("max", "Maximum over axes; ties share the derivative evenly.")
amin = min = _reduction("min", "Minimum over axes; ties share the derivative evenly.")
norm = _reduction("norm", "Euclidean norm over axes; its derivative at 0 is 0.")
logsumexp = _reduction("logsumexp", "log(sum(exp(x))) over axes, without overflow.")


def _moment(name: str, doc: str) -> Moment:
    row = BY_NAME[name]

    def function(
        x: TensorLike, axis: Axis = None, ddof: int = 0, keepdims: bool = False, *, dim: Axis = None, keepdim: bool = False
    ) -> Tensor:
        x = lift(x)
        attrs = (("axis", _axis(x, axis, dim)), ("ddof", ddof), ("keepdims", bool(keepdims or keepdim)))
        return apply(row, (x,), attrs)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc + " over axes, divided by ``n - ddof``; NumPy's default ``ddof=0``."
    return function


var = _moment("var", "Variance")
std = _moment("std", "Standard deviation (derivative 0 where it is 0)")


def cumsum(x: TensorLike, axis: int | None = None, *, dim: int | None = None) -> Tensor:
    """Cumulative sum along `axis` (of the flattened array by default)."""
    x = lift(x)
    axis = dim if axis is None else axis
    if axis is None or x.ndim == 0:
        x, axis = reshape(x, (-1,)), 0
    return apply("cumsum", (x,), (("axis", _axis_index(axis, x.ndim)),))


def _along(name: str, doc: str) -> Along:
    row = BY_NAME[name]

    def function(x: TensorLike, axis: int = -1, *, dim: int | None = None) -> Tensor:
        x = lift(x)
        if x.ndim == 0:
            x = reshape(x, (1,))
            return reshape(function(x), ())
        return apply(row, (x,), (("axis", _axis_index(axis if dim is None else dim, x.ndim)),))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


softmax = _along("softmax", "Exponentials normalised to sum 1 along `axis` (default: the last).")
log_softmax = _along("log_softmax", "Logarithm of `softmax` along `axis` (default: the last).")


# ---- products ---------------------------------------------------------------------


def matmul(a: TensorLike, b: TensorLike) -> Tensor:
    """Matrix product with NumPy's rules for 1-d operands and stacks."""
    return apply("matmul", (a, b))


def dot(a: TensorLike, b: TensorLike) -> Tensor:
    """``np.dot``: products of scalars, inner products, matrix products."""
    if np.ndim(a) == 0 or np.ndim(b) == 0:
        # Numbers are arrays here, as in NumPy.
        kinds = (float if type(x) is int else None for x in (a, b))
        return apply("multiply", [x if isinstance(x, Traced) else np.asarray(x, k) for x, k in zip((a, b), kinds)])
    a, b = lift(a), lift(b)
    if b.ndim <= 2:
        return apply("matmul", (a, b))
    # Sum over the last axis of a and the second-to-last of b.
    moved = reshape(moveaxis(b, -2, 0), (b.shape[-2], -1))
    return reshape(matmul(a, moved), (*a.shape[:-1], *b.shape[:-2], b.shape[-1]))


def outer(a: TensorLike, b: TensorLike) -> Tensor:
    """Outer product of two flattened operands."""
    return apply("multiply", (reshape(a, (-1, 1)), reshape(b, (1, -1))))


def trace(x: TensorLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """Sum of a diagonal of a matrix, or of each matrix of a stack."""
    return sum(diagonal(x, offset, axis1, axis2), axis=-1)


# ---- shapes -----------------------------------------------------------------------


def reshape(x: TensorLike, *shape: Any) -> Tensor:
    """The same elements in another shape; one extent may be -1."""
    x = lift(x)
    if len(shape) == 1 and isinstance(shape[0], (tuple, list)):
        shape = tuple(shape[0])
    return _reshaped("reshape", x, np.reshape(x._v, shape))


def _reshaped(row, x, value):
    if value is x._v and type(value) is not float:
        # NumPy gave the array itself (nothing to squeeze): a view of it, so that writes are seen.
        value = value[...]
    return note_view(x, apply(row, (x,), (("shape", value.shape),), value=_scalar(value)))


def _scalar(value):
    return float(value) if value.ndim == 0 and value.dtype.char == "d" else value


def ravel(x: TensorLike) -> Tensor:
    """All elements in one axis, in C order: a view if they are stored so, else a copy (as in NumPy)."""
    x = lift(x)
    if type(x._v) is float or x._v.flags.c_contiguous:
        return reshape(x, (-1,))
    return clone(reshape(x, (-1,)))


def flatten(x: TensorLike) -> Tensor:
    """`ravel` under PyTorch's name."""
    return reshape(x, (-1,))


def squeeze(x: TensorLike, axis: Axis = None, *, dim: Axis = None) -> Tensor:
    """Without axes of extent 1."""
    x = lift(x)
    return _reshaped("squeeze", x, np.squeeze(np.asarray(x._v), _axis(x, axis, dim)))


def expand_dims(x: TensorLike, axis: int) -> Tensor:
    """With a new axis of extent 1 at `axis` of the result."""
    x = lift(x)
    return _reshaped("expand_dims", x, np.expand_dims(x._v, axis))


unsqueeze = expand_dims


def transpose(x: TensorLike, *axes: Any) -> Tensor:
    """Axes permuted; reversed by default.  ``transpose(i, j)`` swaps two (PyTorch) if there are more."""
    x = lift(x)
    if len(axes) == 1 and (axes[0] is None or isinstance(axes[0], (tuple, list))):
        axes = axes[0]
    if not axes:
        axes = tuple(range(x.ndim))[::-1]
    elif len(axes) == 2 and x.ndim > 2:
        return swapaxes(x, *axes)
    return _permute("transpose", x, axes)


permute = transpose


def _permute(row, x, axes):
    if x.ndim == 0:
        return x
    axes = _axis_tuple(axes, x.ndim)
    return note_view(x, apply(row, (x,), (("axes", axes),), value=np.transpose(x._v, axes)))


def t(x: TensorLike) -> Tensor:
    """A matrix transposed (a vector or scalar as it is)."""
    x = lift(x)
    if x.ndim > 2:
        raise ValueError(f"t() expects at most 2 dimensions, this tensor has {x.ndim}; use transpose")
    return _permute("t", x, tuple(range(x.ndim))[::-1])


def swapaxes(x: TensorLike, axis1: int, axis2: int) -> Tensor:
    """Two axes exchanged."""
    x = lift(x)
    axes = list(range(x.ndim))
    i, j = _axis_index(axis1, x.ndim), _axis_index(axis2, x.ndim)
    axes[i], axes[j] = axes[j], axes[i]
    return _permute("transpose", x, axes)


def moveaxis(x: TensorLike, source: int | tuple[int, ...], destination: int | tuple[int, ...]) -> Tensor:
    """Axes moved to other positions, as ``np.moveaxis``."""
    x = lift(x)
    source, destination = _axis_tuple(source, x.ndim), _axis_tuple(destination, x.ndim)
    if len(source) != len(destination):
        raise ValueError("moveaxis() needs as many destinations as sources")
    axes = [k for k in range(x.ndim) if k not in source]
    for to, axis in sorted(zip(destination, source)):
        axes.insert(to, axis)
    return _permute("transpose", x, axes)


def flip(x: TensorLike, axis: Axis = None, *, dims: Axis = None) -> Tensor:
    """The order along `axis` (default: all) reversed."""
    x = lift(x)
    axes = _axis(x, axis, dims)
    axes = tuple(range(x.ndim)) if axes is None else axes
    return note_view(x, apply("flip", (x,), (("axes", axes),), value=np.flip(x._v, axes))) if x.ndim else x


def broadcast_to(x: TensorLike, shape: int | Sequence[int]) -> Tensor:
    """`x` repeated (as a view) to `shape`."""
    x = lift(x)
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    value = np.broadcast_to(x._v, shape)
    strides, step = [], 1
    for extent in reversed(x.shape):
        strides.append(0 if extent == 1 else step)
        step *= extent
    strides = (0,) * (len(shape) - x.ndim) + tuple(reversed(strides))
    return _view("broadcast_to", x, value, strides, 0)


def expand(x: TensorLike, *shape: Any) -> Tensor:
    """`broadcast_to` under PyTorch's name; -1 keeps an extent."""
    shape = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
    own = (1,) * (len(shape) - x.ndim) + tuple(x.shape)
    return broadcast_to(x, tuple(o if s == -1 else s for s, o in zip(shape, own)))


def _view(row, x, value, strides, offset):
    value = np.asarray(value)
    attrs = (("shape", value.shape), ("strides", tuple(strides)))
    return note_view(x, apply(row, (x,), attrs, value=_scalar(value), integer=offset))


def diagonal(x: TensorLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """Diagonal `offset` of a matrix as a vector; of a stack of matrices along the last axis."""
    x = lift(x)
    value = np.diagonal(np.asarray(x._v), offset, axis1, axis2)
    steps = c_strides(x.shape, 1)
    row, column = _axis_index(axis1, x.ndim), _axis_index(axis2, x.ndim)
    start = offset * steps[column] if offset >= 0 else -offset * steps[row]
    strides = [s for k, s in enumerate(steps) if k not in (row, column)]
    return _view("diagonal", x, value, (*strides, steps[row] + steps[column]), start if value.size else 0)


def diag(x: TensorLike, k: int = 0) -> Tensor:
    """The diagonal of a matrix, or the matrix with a vector on its diagonal."""
    x = lift(x)
    if x.ndim == 2:
        return diagonal(x, k)
    if x.ndim != 1:
        raise ValueError(f"diag() expects a vector or a matrix, got shape {tuple(x.shape)}")
    n = x.shape[0] + builtin_abs(k)
    return apply("diag", (x,), (("k", int(k)), ("shape", (n, n))))


def concatenate(tensors: Iterable[TensorLike], axis: int | None = 0, *, dim: int | None = None) -> Tensor:
    """Arrays joined along an existing axis (None: flattened first)."""
    tensors = [lift(x) for x in tensors]
    axis = dim if dim is not None else axis
    if axis is None:
        tensors, axis = [reshape(x, (-1,)) for x in tensors], 0
    if len(tensors) > JOIN:
        return concatenate([concatenate(part, axis) for part in _batches(tensors)], axis)
    ndim = tensors[0].ndim if tensors else 1
    return apply("concatenate", tensors, (("axis", _axis_index(axis, ndim) if ndim else 0),))


cat = concatenate

#: Arrays joined by one instruction.  More are joined in batches, so that the programs
#: of the sweep stay small and lists of different lengths share them.
JOIN = 32


def _batches(tensors):
    return [tensors[k : k + JOIN] for k in range(0, len(tensors), JOIN)]


def stack(tensors: Iterable[TensorLike], axis: int = 0, *, dim: int | None = None) -> Tensor:
    """Arrays of one shape joined along a new axis."""
    tensors = [lift(x) for x in tensors]
    axis = dim if dim is not None else axis
    if len(tensors) > JOIN:
        return concatenate([stack(part, axis) for part in _batches(tensors)], axis)
    ndim = tensors[0].ndim if tensors else 0
    return apply("stack", tensors, (("axis", _axis_index(axis, ndim + 1)),))


def split(x: TensorLike, indices_or_sections: int | Sequence[int], axis: int = 0) -> list[Tensor]:
    """Parts along `axis`, as ``np.split`` cuts them."""
    return _split(np.split, x, indices_or_sections, axis)


def array_split(x: TensorLike, indices_or_sections: int | Sequence[int], axis: int = 0) -> list[Tensor]:
    """Parts along `axis` of nearly equal extent, as ``np.array_split``."""
    return _split(np.array_split, x, indices_or_sections, axis)


def _split(function, x, sections, axis):
    x = lift(x)
    axis = _axis_index(axis, x.ndim)
    extent = x.shape[axis]
    if np.ndim(sections):
        cuts = [0, *(as_index(s) for s in sections), extent]
    else:
        cuts = np.cumsum([0, *map(len, function(np.empty(extent), sections))]).tolist()
    lead = (slice(None),) * axis
    return [x[lead + (slice(start, stop),)] for start, stop in zip(cuts, cuts[1:])]


def _moved(row, x, function):
    """A gather whose index map is `function` applied to the array of positions."""
    x = lift(x)
    index = np.array(function(np.arange(x.size).reshape(x.shape)), np.int64, order="C")
    index.flags.writeable = False
    return apply(row, (x, index.reshape(-1)), (("shape", index.shape),))


def frozen(positions):
    """An index map: a C-contiguous int64 array that nobody changes."""
    found = np.array(positions, np.int64, order="C")
    found.flags.writeable = False
    return found


def moved_by(row, x, function, *others):
    """As `_moved`, with an index map ``function(*values)`` that depends on values (of `others`)."""
    x = lift(x)
    index = derived(function, *others)
    return apply(row, (x, reshape(index, (-1,)) if isinstance(index, Traced) else index.reshape(-1)), (("shape", index.shape),))


def repeat(x: TensorLike, repeats: ArrayLike, axis: int | None = None) -> Tensor:
    """Elements repeated, as ``np.repeat``."""
    return _moved("repeat", x, lambda p: np.repeat(p, repeats, axis))


def tile(x: TensorLike, reps: int | tuple[int, ...]) -> Tensor:
    """The array repeated, as ``np.tile``."""
    return _moved("tile", x, lambda p: np.tile(p, reps))


def roll(x: TensorLike, shift: int | tuple[int, ...], axis: Axis = None) -> Tensor:
    """Elements rolled along axes, as ``np.roll``."""
    return _moved("roll", x, lambda p: np.roll(p, shift, axis))


def take(x: TensorLike, indices: TensorLike, axis: int | None = None, mode: Literal["raise", "wrap", "clip"] = "raise") -> Tensor:
    """Elements at integer positions, as ``np.take``; `mode` "wrap" or "clip" brings positions outside back in."""
    x = lift(x)
    return moved_by("gather", x, _taken(x.shape, None if axis is None else as_index(axis), mode), indices)


@recomputed
def _taken(at, shape, axis, mode):
    return frozen(np.take(_positions(shape), at, axis, mode=mode))


def _positions(shape):
    return np.arange(math.prod(shape)).reshape(shape)


@recomputed
def along_axis(order, shape, axis):
    """The index map of ``np.take_along_axis`` in an array of this shape."""
    return frozen(np.take_along_axis(_positions(shape), order, axis))


# ---- on and off the tape -------------------------------------------------------------


def clone(x: TensorLike) -> Tensor:
    """A copy that is recorded: the gradient passes through."""
    return apply("clone", (x,))


@recomputed
def _cast(x, dtype):
    return x.astype(dtype)


def astype(x: TensorLike, dtype: DTypeLike) -> Tensor:
    """`x` in another float dtype; the gradient comes back in the dtype of `x`."""
    x, dtype = lift(x), np.dtype(dtype)
    if dtype.kind != "f":
        if isinstance(x, Traced) and x.requires_grad and x.dtype.kind == "f":
            raise DtypeError(f"a conversion to {dtype} has no derivative; use .detach() first")
        return observed(_cast(dtype.str), (x,), np.asarray(x._v).astype(dtype))
    if dtype.char not in "df":
        raise DtypeError(f"tensors that require a gradient are float64 or float32, not {dtype}")
    return apply("astype", (x,), (("dtype", dtype.char),))


#: Names of this module that are also methods of tensors.
METHODS = [
    *(name for name in ELEMENTWISE if name not in ("where",)),
    *"clip sum mean prod max min amax amin norm logsumexp var std cumsum softmax log_softmax matmul dot outer trace "
    "reshape ravel flatten squeeze expand_dims unsqueeze transpose permute t swapaxes moveaxis flip broadcast_to "
    "expand diagonal diag split repeat tile roll take clone astype power".split(),
]


def install(cls):
    """Put the functions of this module on the tensor class."""
    for name in METHODS:
        setattr(cls, name, globals()[name])
    cls.pow = power
    cls.T = property(transpose)
    cls.mT = property(lambda self: swapaxes(self, -1, -2))
    cls.double = lambda self: astype(self, np.float64)
    cls.float = lambda self: astype(self, np.float32)
    cls.copy = clone
    cls.conj = cls.conjugate = clone


pow = power
install(Traced)
docstrings.complete(globals(), docstrings.FUNCTIONS, {"split": "list of Tensor", "array_split": "list of Tensor"})

#: Rows that only derivatives and kernels use: no functions of the namespace.
_INNER = {"absolute_product", "if_false", "if_true", "is_equal", "is_less", "is_less_equal", "is_nan"}

if not TYPE_CHECKING:  # type checkers take every name without an underscore
    __all__ = sorted({*METHODS, "array_split", "cat", "concatenate", "pow", "stack", "where"} - _INNER)
