"""Complex numbers: two real tensors, with NumPy's protocols around them.

The tape is real.  A `ComplexTensor` holds the real and the imaginary part, each a tensor or a dual number; what is computed with it
is computed with these, so every mode, order and kernel has what it has of real numbers.  A part that is known to be zero is None
until it is read: ``np.exp(1j * t)`` is a cosine and a sine.

Functions of complex numbers stand in `UFUNCS`, as formulas on pairs; `tapegrad.numpy_api.complex` adds those that move, reduce and multiply
arrays.  Where real tensors meet complex data, `record.as_operand` raises `ComplexOperandError`, and who has called it comes here
(`at_door`).  As arguments and results of functions complex numbers are containers of two leaves (`common.tree`).
"""

from __future__ import annotations

import inspect
import math
import operator
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..common.errors import ComplexOperandError, LeaveTapeError, UnsupportedFunctionError
from ..common.registry import registry
from ..common.tree import is_table
from .differentiable import Differentiable, in_sparse_product
from .record import apply, normalise, plain, tracked


def _part_property(own, other):
    """The part in the slot `own`, made of zeros when it is first read; what is assigned is written to it."""

    def get(self):
        if getattr(self, own) is None:
            setattr(self, own, _zeros(getattr(self, other)))
        return getattr(self, own)

    def put(self, value):
        get(self)[...] = value

    return property(get, put)


class ComplexTensor:
    """A complex number or array that carries derivatives: its parts are two real tensors.

    Parameters
    ----------
    real, imag : Tensor, Dual, array-like or None
        Broadcast to one shape; None is zero.

    Attributes
    ----------
    dtype : complex64 for parts of float32, else complex128
    grad : ComplexTensor or None
        ``dL/dRe + i dL/dIm``, as in PyTorch: ``z - rate * z.grad`` descends.

    Examples
    --------
    >>> import numpy as np
    >>> import tapegrad as tg
    >>> z = tg.tensor(1.0 + 2.0j, requires_grad=True)
    >>> abs(z * z).backward()
    >>> z.grad
    tensor(2.+4.j)
    """

    __slots__ = ("_re", "_im", "__weakref__")
    __array_priority__ = 1001.0
    __pandas_priority__ = 5001

    def __init__(self, real: Any, imag: Any = None) -> None:
        if real is None and imag is None:
            real = 0.0
        shapes = [p.shape if isinstance(p, Differentiable) else np.shape(p) for p in (real, imag) if p is not None]
        shape = shapes[0] if shapes[0] == shapes[-1] else np.broadcast_shapes(*shapes)
        self._re, self._im = _part(real, imag, shape), _part(imag, real, shape)

    # -- parts ------------------------------------------------------------------------
    real, imag = _part_property("_re", "_im"), _part_property("_im", "_re")

    @property
    def _any(self):
        return self._im if self._re is None else self._re

    @property
    def _v(self):
        return of_parts(self.real._v, self.imag._v)

    shape = property(lambda self: self._any.shape)
    ndim = property(lambda self: len(self.shape))
    size = property(lambda self: self._any.size)

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.result_type(*(p.dtype for p in (self._re, self._im) if p is not None), np.complex64)

    requires_grad = property(lambda self: any(p is not None and p.requires_grad for p in (self._re, self._im)))
    is_leaf = property(lambda self: all(p is None or p.is_leaf for p in (self._re, self._im)))

    @property
    def grad(self) -> ComplexTensor | None:
        parts = [None if p is None else p.grad for p in (self._re, self._im)]
        return None if parts == [None, None] else ComplexTensor(*parts)

    @grad.setter
    def grad(self, value: Any) -> None:
        self.real.grad, self.imag.grad = (None, None) if value is None else _both(value)

    def requires_grad_(self, requires_grad: bool = True) -> ComplexTensor:
        """Set `requires_grad` of both parts; returns self."""
        for p in (self.real, self.imag):
            p.requires_grad_(requires_grad)
        return self

    def retain_grad(self) -> None:
        """Keep ``.grad`` of a computed number."""
        for p in (self.real, self.imag):
            if tracked(p):
                p.retain_grad()

    def backward(self, gradient: Any, **options: Any) -> None:
        """The backward pass for ``gradient``, the derivative ``dL/dRe + i dL/dIm`` of a loss by this number.

        A complex number is no loss: take ``.real`` or ``abs()`` of it, or say by `gradient` what the derivative by it is.
        """
        re, im = parts_of(gradient)
        total = [p * (0.0 if g is None else g) for p, g in ((self.real, re), (self.imag, im))]
        np.sum(total[0] + total[1]).backward(**options)

    # -- leaving the tape ---------------------------------------------------------------
    def detach(self) -> ComplexTensor:
        """The same value as a constant."""
        return ComplexTensor(*(None if p is None else p.detach() for p in (self._re, self._im)))

    def item(self) -> complex:
        """The only element as a Python number; leaves the tape."""
        return complex(self.real.item(), self.imag.item())

    def numpy(self) -> Any:
        """The values as a new array; leaves the tape."""
        return of_parts(np.asarray(self.real.numpy()), np.asarray(self.imag.numpy()))

    def tolist(self) -> Any:
        """The values as nested lists of Python numbers; leaves the tape."""
        return self.numpy().tolist()

    def __complex__(self) -> complex:
        return complex(float(self.real), float(self.imag))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        if in_sparse_product(sys._getframe(1)):
            return np.array(None)
        if self.requires_grad:
            # An array of objects takes what is in it for real: its .imag is 0, its norm that of the squares.
            raise LeaveTapeError(
                "conversion to an ndarray of a complex tensor that requires a gradient would silently cut the derivative: write tg.array([z, ...]) "
                "for a list of complex numbers, as in np.array([z, ...]), or import tapegrad.numpy as np; leave np.asarray out, and call "
                "functions of NumPy on the tensor as it is; to leave the tape on purpose use .detach()"
            )
        return np.array(of_parts(self.real._as_array(), self.imag._as_array()), dtype=dtype)

    def __hash__(self) -> int:
        return hash((self.real, self.imag) if self.requires_grad or self.shape else self.item())

    def __repr__(self) -> str:
        text = np.array2string(np.asarray(self._v), precision=4, separator=", ", prefix="tensor(")
        return f"tensor({text}{', requires_grad=True' * bool(self.requires_grad)})"

    def __format__(self, spec: str) -> str:
        return format(complex(self._v), spec) if spec else repr(self)

    def __reduce__(self):
        return ComplexTensor, (self.real, self.imag)

    def __bool__(self) -> bool:
        return bool(self.real != 0) or bool(self.imag != 0)

    def __len__(self) -> int:
        return len(self._any)

    def __iter__(self) -> Iterator[ComplexTensor]:
        if not self.shape:
            raise TypeError("iteration over a 0-d tensor")
        return (self[k] for k in range(len(self)))

    def __getitem__(self, index: Any) -> ComplexTensor:
        return ComplexTensor(self.real[index], self.imag[index])

    def __setitem__(self, index: Any, value: Any) -> None:
        re, im = parts_of(value)
        self.real[index] = 0.0 if re is None else re
        self.imag[index] = 0.0 if im is None else im

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **kwargs: Any) -> Any:
        return _ufunc(ufunc, method, inputs, kwargs, out)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return called(function, args, kwargs)


def refused(name, why=""):
    """The error for a function that has no rule for complex numbers."""
    return UnsupportedFunctionError(
        f"{name} has no rule for complex numbers in tapegrad{why}: write it in the parts z.real and z.imag, which are real tensors, and join "
        "them by x + 1j * y; or leave the tape on purpose with .detach().numpy()"
    )


_OF_REDUCTIONS = {"axis", "keepdims", "initial", "where"}


def _ufunc(ufunc, method, inputs, kwargs, out):
    """The result of a ufunc, or of its method, for complex numbers."""
    if out is not None and not (len(out) == 1 and isinstance(out[0], ComplexTensor)):
        raise LeaveTapeError(f"np.{ufunc.__name__} with out= would write a tracked value into real or plain memory; write `result = a + z`")
    function = FUNCTIONS.get((ufunc, method)) or (UFUNCS.get(ufunc.__name__) if method == "__call__" else None)
    if function is None or kwargs.keys() - (_OF_REDUCTIONS if method == "reduce" else {"axis", "keepdims"}):
        raise refused(f"{ufunc.__name__}{'' if method == '__call__' else '.' + method}", f" with {', '.join(kwargs)}" if kwargs else "")
    if any(map(is_table, inputs)):
        raise ComplexOperandError("complex numbers stand beside a table of pandas; give it as .to_numpy()")
    result = function(*map(registry.objects.operand, inputs), **kwargs)
    if out is None:
        return result
    out[0][...] = result
    return out[0]


def called(function, args, kwargs):
    """The result of a function of NumPy for arguments among which there are complex numbers."""
    ours = FUNCTIONS.get(function)
    if ours is None:
        raise refused(f"{getattr(function, '__module__', 'numpy')}.{getattr(function, '__name__', function)}")
    out = kwargs.pop("out", None)
    if out is not None and not isinstance(out, ComplexTensor):
        raise refused(f"numpy.{function.__name__} with out= that is no complex tensor")
    try:
        result = ours(*args, **kwargs)
    except TypeError:
        try:
            inspect.signature(ours).bind(*args, **kwargs)
        except TypeError:
            raise refused(f"numpy.{function.__name__} with {', '.join(kwargs) or f'{len(args)} arguments'}") from None
        raise
    if out is None:
        return result
    out[...] = result
    return out


#: Functions of NumPy, and (ufunc, method) -> what stands for them on complex numbers; `numpy_api.complex` and its kin fill it.
FUNCTIONS: dict[Any, Any] = {}


def _zeros(part):
    return plain(normalise(np.zeros(part.shape, part.dtype)))


def _part(part, other, shape):
    if part is None:
        return None
    if not isinstance(part, Differentiable):
        weak = type(part) in (float, int) and other is not None and getattr(other, "dtype", None) == np.float32
        own = np.empty(shape, np.float32 if weak or getattr(part, "dtype", None) in (np.float32, np.float16) else np.float64)
        own[...] = part
        return plain(normalise(own))
    if part.dtype.kind != "f":
        part = part.astype(np.float64)
    return part if part.shape == shape else np.broadcast_to(part, shape)


def of_parts(re, im):
    """Two plain arrays or numbers as a complex one; a `ComplexTensor` if one of them is a tensor."""
    if isinstance(re, Differentiable) or isinstance(im, Differentiable):
        return ComplexTensor(re, im)
    if type(re) is float and type(im) is float:
        return complex(re, im)
    re, im = np.asarray(re), np.asarray(im)
    whole = np.empty(np.broadcast_shapes(re.shape, im.shape), np.result_type(re, im, np.complex64))
    whole.real, whole.imag = re, im
    return whole if whole.shape else whole[()]


def is_complex(thing):
    """Whether `thing` is a complex number, array or tensor."""
    kind = type(thing)
    return kind is ComplexTensor or kind is complex or isinstance(thing, (np.ndarray, np.generic)) and thing.dtype.kind == "c"


def parts_of(thing):
    """Real and imaginary part of anything; None for one that is zero."""
    if isinstance(thing, ComplexTensor):
        return thing._re, thing._im
    if isinstance(thing, (list, tuple)):
        thing = registry.objects.operand(thing)
        thing = np.asarray(thing) if isinstance(thing, (list, tuple)) else thing
        return parts_of(thing)
    if not is_complex(thing):
        return thing, None
    if isinstance(thing, np.ndarray) and thing.ndim:
        return thing.real.copy(), thing.imag.copy()
    number = thing[()] if isinstance(thing, np.ndarray) else thing
    re, im = number.real, number.imag
    return (None if re == 0.0 and math.copysign(1.0, re) > 0 else re), (None if im == 0.0 and math.copysign(1.0, im) > 0 else im)


def split(thing):
    """Real and imaginary part of a complex number, array or tensor, each there; None of anything else."""
    kind = type(thing)
    if kind is ComplexTensor or kind is complex or kind is np.complex128:
        return thing.real, thing.imag
    if kind is np.complex64 or kind is np.ndarray and thing.dtype.char in "FD":
        return np.array(thing.real), np.array(thing.imag)
    return None


# ---- formulas ----------------------------------------------------------------------------


def _plus(a, b):
    return b if a is None else a if b is None else a + b


def _minus(a, b):
    # Not -b, whose zeros have another sign than NumPy's: ``sqrt(1 - z)`` would be that of the other side of the cut.
    return a if b is None else 0.0 - b if a is None else a - b


def bilinear(product):
    """`product` of real operands as one of complex ones."""

    def function(a, b, *args, **kwargs):
        (ar, ai), (br, bi) = parts_of(a), parts_of(b)

        def times(x, y):
            return None if x is None or y is None else product(x, y, *args, **kwargs)

        return _joined(_minus(times(ar, br), times(ai, bi)), _plus(times(ar, bi), times(ai, br)), a, b)

    return function


def _joined(re, im, *operands):
    if re is None and im is None:
        re = np.zeros(np.broadcast_shapes(*map(np.shape, operands)), real_dtype(*operands))
    return ComplexTensor(re, im)


def real_dtype(*operands):
    """The dtype of the parts of what is computed with these."""
    return np.empty(0, np.result_type(*(getattr(o, "dtype", 0.0) for o in operands))).real.dtype


def _own(part, *others):
    """A part of a new number, which may be written to: a copy, if `others` are given of one of these."""
    shared = isinstance(part, Differentiable) and part.ndim and (not others or any(part is other for other in others))
    return np.positive(part) if shared else part


def _added(combine):
    def function(a, b):
        (ar, ai), (br, bi) = parts_of(a), parts_of(b)
        return _joined(_own(combine(ar, br), ar, br), _own(combine(ai, bi), ai, bi), a, b)

    return function


def _negated(part, other):
    # Of a part that is not there, too: the sign of its zero says on which side of a cut the number is.
    return -_zeros(other if isinstance(other, Differentiable) else np.asarray(other)) if part is None else -part


def negative(z):
    re, im = parts_of(z)
    return ComplexTensor(_negated(re, im), _negated(im, re))


def conjugate(z):
    re, im = parts_of(z)
    return ComplexTensor(_own(re), _negated(im, re) if im is not None or is_complex(z) else None)


def _positive(z):
    return ComplexTensor(*map(_own, parts_of(z)))


def _divide(a, b):
    (ar, ai), (br, bi) = parts_of(a), parts_of(b)
    if bi is None:
        return ComplexTensor(None if ar is None else ar / br, None if ai is None else ai / br)
    if br is None:
        return ComplexTensor(None if ai is None else ai / bi, None if ar is None else -ar / bi)
    large, small = apply("complex_scaled_real", (br, bi)), apply("complex_scaled_imag", (br, bi))
    scale = br * large + bi * small
    # (A part that is not there is 0: the sign of a zero that is computed with it says on which side of a cut a quotient is.)
    ar, ai = 0.0 if ar is None else ar, 0.0 if ai is None else ai
    return ComplexTensor((ar * large + ai * small) / scale, (ai * large - ar * small) / scale)


def lifted(thing):
    """Anything as a complex tensor."""
    return thing if isinstance(thing, ComplexTensor) else ComplexTensor(*parts_of(thing))


def pairwise(formula):
    """A function of complex numbers from one that makes a pair of the parts."""
    return lambda z: ComplexTensor(*formula(*_both(z)))


def _both(z):
    z = lifted(z)
    return z.real, z.imag


def _exp(z):
    re, im = parts_of(z)
    if im is None:
        return ComplexTensor(np.exp(re))
    if re is None:
        return ComplexTensor(np.cos(im), np.sin(im))
    size = np.exp(re)
    return ComplexTensor(size * np.cos(im), size * np.sin(im))


def _absolute(z):
    re, im = parts_of(z)
    return np.abs(re) if im is None else np.abs(im) if re is None else np.hypot(re, im)


def _angle(z):
    return np.arctan2(lifted(z).imag, lifted(z).real)


def _log(z):
    re, im = parts_of(z)
    return ComplexTensor(np.log(_absolute(z)) if re is None or im is None else apply("complex_log_size", (re, im)), _angle(z))


def _tanh(x, y):
    # Of exp(-2 |x|): nothing is too large; |1 + exp(-2 z)|^2 is a sum of squares: nothing cancels at a pole.
    right = np.copysign(1.0, x)
    size = right * x
    small = np.exp(-2.0 * size)
    scale = np.expm1(-2.0 * size) ** 2 + 4.0 * small * np.cos(y) ** 2
    return -right * np.expm1(-4.0 * size) / scale, 2.0 * small * np.sin(2.0 * y) / scale


def _turned(function):
    """``-i f(i z)``: tangents and sines of the hyperbolic ones, and the other way around."""

    def turned(z):
        x, y = _both(z)
        w = function(ComplexTensor(-y, x))
        return ComplexTensor(w.imag, -w.real)

    return turned


_root = pairwise(lambda x, y: (apply("complex_sqrt_real", (x, y)), apply("complex_sqrt_imag", (x, y))))


def _arcsin(z):
    z = lifted(z)
    minus, plus = _root(negative(z - 1.0)), _root(1.0 + z)
    return ComplexTensor(np.arctan2(z.real, (minus * plus).real), np.arcsinh((conjugate(minus) * plus).imag))


def _arccos(z):
    minus, plus = _root(negative(lifted(z) - 1.0)), _root(1.0 + lifted(z))
    return ComplexTensor(2.0 * np.arctan2(minus.real, plus.real), np.arcsinh((conjugate(plus) * minus).imag))


def _arccosh(z):
    minus, plus = _root(lifted(z) - 1.0), _root(1.0 + lifted(z))
    return ComplexTensor(np.arcsinh((conjugate(minus) * plus).real), 2.0 * np.arctan2(minus.imag, plus.real))


_log1p = pairwise(lambda x, y: (apply("complex_log1p_size", (x, y)), np.arctan2(y, 1.0 + x)))


def _arctanh(x, y):
    # Far out it is that of 1 / z and a quarter of a turn: of the two logarithms' slopes nothing would be left there.
    far = np.logical_or(np.abs(x) > 2.0, np.abs(y) > 2.0)
    other = _divide(1.0, ComplexTensor(np.where(far, x, 1.0), np.where(far, y, 0.0)))
    w = ComplexTensor(np.where(far, other.real, x), np.where(far, other.imag, y))
    w = 0.5 * (_log1p(w) - _log1p(negative(w)))
    return w.real, np.where(far, w.imag + np.copysign(0.5 * math.pi, y), w.imag)


def _power(base, exponent):
    if isinstance(exponent, (int, float, np.integer)) and abs(exponent) <= 64 and exponent == int(exponent):
        return _whole_power(base, int(exponent))
    base, (zr, zi) = lifted(base), parts_of(exponent)
    if zi is None:
        zr = 0.0 if zr is None else zr
        size, angle = np.hypot(base.real, base.imag) ** zr, zr * _angle(base)
        return ComplexTensor(size * np.cos(angle), size * np.sin(angle))
    nothing, exponent = np.logical_and(base.real == 0.0, base.imag == 0.0), lifted(exponent)
    value = _exp(MULTIPLY(exponent, _log(ComplexTensor(np.where(nothing, 1.0, base.real), base.imag))))
    none = np.where(exponent.real > 0.0, 0.0, np.where(UFUNCS["equal"](exponent, 0.0), 1.0, np.nan)).astype(real_dtype(value))
    return ComplexTensor(np.where(nothing, none, value.real), np.where(nothing, 0.0 * none, value.imag))


def _whole_power(base, n):
    """``base ** n`` by repeated squaring."""
    if n < 0:
        return _whole_power(UFUNCS["reciprocal"](base), -n)
    result = None
    while n:
        if n & 1:
            result = base if result is None else result * base
        n >>= 1
        base = base * base if n else base
    return ComplexTensor(np.ones(np.shape(base), real_dtype(base))) if result is None else _positive(result) if result is base else result


def _of_parts(combine, function):
    """A truth value of numbers by those of the parts."""
    return lambda *operands: combine(function(*[lifted(z).real for z in operands]), function(*[lifted(z).imag for z in operands]))


MULTIPLY = bilinear(operator.mul)
#: Ufuncs of complex numbers, by name.
UFUNCS: dict[str, Any] = {
    "add": _added(_plus), "subtract": _added(_minus), "multiply": MULTIPLY, "divide": _divide, "true_divide": _divide,
    "negative": negative, "positive": _positive, "conjugate": conjugate,
    "square": pairwise(lambda x, y: ((x - y) * (x + y), 2.0 * (x * y))), "reciprocal": lambda z: _divide(complex(1.0, -0.0), z),
    "exp": _exp, "exp2": lambda z: _exp(MULTIPLY(z, math.log(2.0))), "log": _log, "log2": lambda z: _log(z) * (1.0 / math.log(2.0)),
    "log10": lambda z: _log(z) * (1.0 / math.log(10.0)), "sqrt": _root, "power": _power,
    "float_power": lambda a, b: _power(lifted(a).astype(complex), b), "absolute": _absolute, "log1p": _log1p,
    "sin": pairwise(lambda x, y: (np.sin(x) * np.cosh(y), np.cos(x) * np.sinh(y))),
    "cos": pairwise(lambda x, y: (np.cos(x) * np.cosh(y), -np.sin(x) * np.sinh(y))),
    "sinh": pairwise(lambda x, y: (np.sinh(x) * np.cos(y), np.cosh(x) * np.sin(y))),
    "cosh": pairwise(lambda x, y: (np.cosh(x) * np.cos(y), np.sinh(x) * np.sin(y))),
    "tanh": pairwise(_tanh), "tan": _turned(pairwise(_tanh)), "arcsin": _arcsin, "arcsinh": _turned(_arcsin), "arccos": _arccos,
    "arccosh": _arccosh, "arctanh": pairwise(_arctanh), "arctan": _turned(pairwise(_arctanh)), "angle": _angle,
    "equal": _of_parts(np.logical_and, np.equal), "not_equal": _of_parts(np.logical_or, np.not_equal),
    "isfinite": _of_parts(np.logical_and, np.isfinite), "isnan": _of_parts(np.logical_or, np.isnan), "isinf": _of_parts(np.logical_or, np.isinf),
    "matmul": bilinear(np.matmul),
}  # fmt: skip


# ---- doors -----------------------------------------------------------------------------------

#: Rows whose names are not those of ufuncs.
_ROWS = {"power2": "square", "clone": "positive", "mul0": "multiply"}


def at_door(row, operands, attrs, integer):
    """The result of a row, among whose operands there are complex numbers."""
    function = UFUNCS.get(_ROWS.get(row.name, row.name))
    if function is not None and not attrs:
        return function(*operands)
    if row.name == "astype":
        return operands[0].astype(**row.keywords(attrs, integer))
    function = FUNCTIONS.get(getattr(np, row.name, None) or getattr(np.linalg, row.name, None))
    if function is not None and not row.linear:
        return function(*operands, **row.keywords(attrs, integer))
    if not (row.linear or row.name == "where") or row.effect == "write":
        raise refused(row.name, ", and none writes into a real array" if row.effect == "write" else "") from None
    slots = row.slots(len(operands))
    pairs = [_both(o) if k in slots else (o, o) for k, o in enumerate(operands)]
    return ComplexTensor(*(apply(row, part, attrs, integer=integer) for part in zip(*pairs)))


def made(data, requires_grad=False, dtype=None):
    """A complex tensor with a copy of plain data."""
    data = np.array(data, dtype if dtype is not None and np.dtype(dtype).kind == "c" else None)
    if data.dtype.char not in "FD":
        raise ComplexOperandError(f"tapegrad has complex64 and complex128, not {data.dtype}; convert with .astype(complex)")
    z = ComplexTensor(data.real.copy(), data.imag.copy())
    return z.requires_grad_() if requires_grad else z


#: Types of what `split` may take apart.
KINDS = frozenset((ComplexTensor, complex, np.complex64, np.complex128, np.ndarray))
#: Hooks for `array.objects`.
OFFERED = {
    "Complex": ComplexTensor, "COMPLEX": KINDS, "at_door": at_door, "complex_ufunc": _ufunc, "complex_function": called, "complex_tensor": made,
    "lifted": lifted, "split": split, "of_parts": of_parts,
}  # fmt: skip
