"""Element-wise functions, one for each element-wise row, under all their names; and `power`, `where`, `clip`, and copies: `clone`, `astype`."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from ...common.errors import DtypeError
from ...common.host_functions import host_function
from ...common.registry import registry
from ...interpreter.fields import record_choice
from ...rules import BY_NAME
from ..differentiable import Differentiable
from ..record import apply, record_aux, record_nondiff, trace_of
from ..typing import DTypeLike, TensorLike
from .arguments import lift, named

if TYPE_CHECKING:
    from ..dual import Dual
    from ..tensor import Tensor

#: Names in this namespace -> element-wise row, where they differ from the row's own.
_ALIASES = {
    "subtract": "subtract", "sub": "subtract", "mul": "multiply", "div": "divide", "true_divide": "divide",
    "neg": "negative", "negate": "negative", "abs": "absolute", "asin": "arcsin", "acos": "arccos", "atan": "arctan", "atan2": "arctan2",
    "asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh", "gammaln": "lgamma", "mod": "remainder",
    "expit": "sigmoid", "round": "rint",
}  # fmt: skip


def _elementwise(name, row):
    # Of tensors NumPy's function takes the short way (`interpreter.numbers`).
    ufunc = next((f for f in row.numpy if isinstance(f, np.ufunc)), None)

    def one(x: TensorLike) -> Tensor:
        """{doc}, element-wise.

        Parameters
        ----------
        x : Tensor or array-like
            Float64 or float32; broadcast as NumPy does.

        Returns
        -------
        Tensor

        Examples
        --------
        >>> import tapegrad as tg
        >>> tg.value_and_grad(tg.{name}{by})({at})
        ({results})
        """
        return apply(row, (x,)) if ufunc is None or x.__class__ is not registry.Tensor else ufunc(x)

    def two(x: TensorLike, y: TensorLike) -> Tensor:
        """{doc}, element-wise.

        Parameters
        ----------
        x, y : Tensor or array-like
            Float64 or float32; broadcast as NumPy does.

        Returns
        -------
        Tensor

        Examples
        --------
        >>> import tapegrad as tg
        >>> tg.value_and_grad(tg.{name}{by})({at})
        ({results})
        """
        return apply(row, (x, y)) if ufunc is None or x.__class__ is not registry.Tensor and y.__class__ is not registry.Tensor else ufunc(x, y)

    at, _, results = row.example.partition(" -> ")
    by = {(0,): "", (1,): ", 1"}.get(row.slots(row.arity), ", (0, 1)")
    function = named(one if row.arity == 1 else two, name, doc=row.doc, by=by, at=at, results=results)
    if not row.example:  # of no public function
        function.__doc__ = function.__doc__ and function.__doc__.partition("Examples\n")[0]
    return function


ELEMENTWISE = {
    name: _elementwise(name, BY_NAME[_ALIASES.get(name, name)])
    for name in [
        *_ALIASES,
        *(row.name for row in BY_NAME.values() if row.elementwise and row.arity <= 2 and row.name != "power2"),
    ]
    if name not in ("power", "polygamma", "clone") and not name.startswith("complex_")
}
globals().update(ELEMENTWISE)
#: Name of a row -> these functions of it.
OF_ROW: dict[str, list] = {}
for _name, _function in ELEMENTWISE.items():
    OF_ROW.setdefault(_ALIASES.get(_name, _name), []).append(_function)

if TYPE_CHECKING:
    # The same names, for type checkers; a test keeps the two equal.
    @overload
    def _unary(x: Dual) -> Dual: ...
    @overload
    def _unary(x: TensorLike) -> Tensor: ...
    def _unary(x: Any) -> Any: ...
    @overload
    def _binary(x: Dual, y: TensorLike) -> Dual: ...
    @overload
    def _binary(x: TensorLike, y: Dual) -> Dual: ...
    @overload
    def _binary(x: TensorLike, y: TensorLike) -> Tensor: ...
    def _binary(x: Any, y: Any) -> Any: ...

    abs = absolute = acos = acosh = arccos = arccosh = arcsin = arcsinh = arctan = arctanh = asin = asinh = atan = atanh = \
        cbrt = ceil = cos = cosh = deg2rad = digamma = entr = erf = erfc = erfcinv = erfcx = erfinv = exp = exp2 = \
        expit = expm1 = floor = gamma = gammasgn = gammaln = i0 = i0e = i1 = i1e = is_nan = j0 = j1 = lgamma = log = log10 = log1p = \
        log2 = log_expit = log_ndtr = logit = ndtr = ndtri = ndtri_exp = neg = negate = negative = rad2deg = reciprocal = relu = rgamma = rint = \
        round = sigmoid = sign = sin = sinc = sinh = softplus = sqrt = square = tan = tanh = trunc = y0 = y1 = _unary
    absolute_product = add = arctan2 = atan2 = beta = betaln = copysign = div = divide = floor_divide = fmax = fmin = \
        fmod = gammainc = gammainc_da = gammaincc = gammainccinv = gammaincinv = heaviside = hypot = if_false = \
        if_true = is_equal = is_less = is_less_equal = iv = \
        ive = jv = kl_div = ldexp = logaddexp = logaddexp2 = maximum = minimum = mod = mul = multiply = owens_t = rel_entr = \
        remainder = stdtr = stdtr_ddf = stdtrit = sub = subtract = true_divide = xlog1py = xlogy = yv = _binary


def power(x: TensorLike, y: TensorLike) -> Tensor:
    """``x ** y``, element-wise; the derivative in `y` is 0 where ``x ** y`` is 0.

    Parameters
    ----------
    x : Tensor or array-like
    y : Tensor or array-like
        Broadcast with `x`.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.power(tg.tensor([2.0, 3.0]), 2)
    tensor([4., 9.])
    """
    # Not `x**y`: of a tensor's own operator the caller would be this file.
    return apply("power2", (x,)) if isinstance(x, Differentiable) and type(y) in (int, float) and y == 2 else apply("power", (x, y))


@host_function
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

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.where([True, False], tg.tensor([1.0, 2.0]), 0.0)
    tensor([1., 0.])
    """
    if getattr(getattr(condition, "dtype", None), "char", "") != "?":
        condition = record_aux(_truth(), condition)
    if getattr(condition, "_t", None) is None and getattr(condition, "ndim", 1) == 0 and all(getattr(b, "_v", b).__class__ is float for b in (x, y)):
        # A choice between numbers has a record of its own.
        condition = bool(condition)
    short = chosen(condition, x, y)
    return apply("where", (condition, x, y)) if short is None else short


def chosen(condition, x, y):
    """`where` by the native short way; None where it has to be the general one."""
    if condition.__class__ is registry.Tensor and condition._t is None:
        condition = condition._v
    values = [b._v if b.__class__ is registry.Tensor else float(b) if b.__class__ is int and abs(b) <= 2**53 else b for b in (x, y)]
    arrays = [v for v in values if v.__class__ is np.ndarray and v.dtype.char == "d"]
    if sum([v.__class__ is float for v in values]) + len(arrays) < 2:
        return None
    truth = condition.__class__ is bool or condition.__class__ in (np.ndarray, np.bool) and condition.dtype.char == "?"
    if truth and condition.__class__ is np.ndarray and condition.ndim:
        return record_choice(_WHERE, condition, x, y, np.where(condition, *values))
    if arrays or not truth or trace_of((x, y)) is not None:
        return None
    return record_choice(_WHERE, bool(condition), x, y, values[not condition])


_WHERE = BY_NAME["where"]


def clip(x: TensorLike, min: TensorLike | None = None, max: TensorLike | None = None) -> Tensor:
    """`x` limited to ``[min, max]``; either bound may be None.  The derivative is 1 at the bounds themselves.

    Parameters
    ----------
    x : Tensor or array-like
    min : Tensor or array-like, optional
    max : Tensor or array-like, optional

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.clip(tg.tensor([-1.0, 0.5, 2.0]), 0.0, 1.0)
    tensor([0.0000, 0.5000, 1.0000])
    """
    if min is None and max is None:
        return lift(x)
    if (min is None or max is None) and getattr(x, "dtype", np.dtype(float)).kind in "iu":
        # Integers have no infinity.
        return apply("minimum" if min is None else "maximum", (x, max if min is None else min))
    min = -inf if min is None else min
    max = inf if max is None else max
    return apply("clip", (x, min, max))


def clone(x: TensorLike) -> Tensor:
    """A copy that is recorded: the gradient passes through.

    Parameters
    ----------
    x : Tensor or array-like

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.clone(tg.tensor([1.0, 2.0]))
    tensor([1., 2.])
    """
    x = lift(x)
    if x.dtype.char == "?":  # NumPy has no positive truth values
        return record_nondiff(_cast("?"), (x,), x._v.copy())
    return apply("clone", (x,))


@host_function
def _cast(x, dtype):
    return np.asarray(x).astype(dtype)


def astype(x: TensorLike, dtype: DTypeLike, order: Any = "K", casting: Any = "unsafe", subok: bool = True, copy: bool = True) -> Tensor:
    """Convert `x` to another float dtype; the gradient comes back in the dtype of `x`.

    Parameters
    ----------
    x : Tensor or array-like
    dtype : dtype
        float32, float64, complex64 or complex128; of what requires no gradient, any.
    order, subok
        As in NumPy, without effect here.
    casting : str
        Which conversions raise, as in NumPy.
    copy : bool
        If False, return `x` itself where it already has that dtype.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.astype(tg.tensor([1.0, 2.0]), "float32").dtype
    dtype('float32')
    """
    x, dtype = lift(x), np.dtype(dtype)
    if (order, casting) != ("K", "unsafe"):
        # NumPy raises what it would.
        np.empty(0, x.dtype).astype(dtype, order, casting)
    if not copy and dtype == x.dtype:
        return x
    if dtype.kind == "c":
        return registry.objects.lifted(x).astype(dtype)
    if dtype.kind != "f":
        if x.requires_grad and x.dtype.kind == "f" and not registry.engine.changes_in_jumps(x):
            raise DtypeError(
                f"a value that requires a gradient (shape {tuple(x.shape)}) would be rounded in a conversion to {dtype}, which has no "
                f"derivative; use a float dtype, .detach() first, or np.floor(x).astype({dtype})"
            )
        return record_nondiff(_cast(dtype.str), (x,), np.asarray(x._v).astype(dtype))
    if dtype.char not in "df":
        raise DtypeError(f"tensors that require a gradient are float64 or float32, not {dtype}")
    return apply("astype", (x,), (("dtype", dtype.char),))
