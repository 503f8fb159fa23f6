"""Nested dual numbers on Python's numbers, and NumPy's arrays of them: what `reference` computes with.

- `Dual` is a number with partial derivatives in one level of differentiation, which its `tag` names: ``v + sum(d[i] e_i)``
  with ``e_i e_j = 0``.  Value and partials may be duals of outer levels, whose tags are smaller.  An operation
  takes apart the operands of the largest tag, and computes with what it finds inside by the same operations: so
  any order comes from first derivatives, and no two levels can be confused.
- Arrays are NumPy's, of dtype object where numbers carry derivatives, so indices, views, changes in place, `@` and sums
  are NumPy's own.  `numpy` is NumPy, but for functions that NumPy would ask each number for.

Each decision (a comparison, `abs`, `floor`) notes how near its two sides are: `Decisions.margin`.
"""

import cmath
import math

import numpy as onp

plain = (bool, int, float, complex)


class Decisions:
    """How near the nearest decision was, relative to the numbers compared; and how large the largest."""

    margin = math.inf

    @classmethod
    def note(cls, a, b=0.0):
        a, b = primal(a), primal(b)
        near = abs(a - b) / (1.0 + abs(b))
        if near < cls.margin:
            cls.margin = near


class Dual:
    """``v`` with partial derivatives ``d`` (a dict, missing ones are zero) in the level of `tag`."""

    __slots__ = ("tag", "v", "d")

    def __init__(self, tag, v, d):
        self.tag, self.v, self.d = tag, v, d

    __add__ = __radd__ = lambda a, b: add(a, b)
    __mul__ = __rmul__ = lambda a, b: mul(a, b)
    __sub__ = lambda a, b: add(a, mul(-1.0, b))
    __rsub__ = lambda a, b: add(b, mul(-1.0, a))
    __truediv__ = lambda a, b: div(a, b)
    __rtruediv__ = lambda a, b: div(b, a)
    __pow__ = lambda a, b: power(a, b)
    __rpow__ = lambda a, b: power(b, a)
    __neg__ = lambda a: mul(-1.0, a)
    __pos__ = lambda a: a
    __abs__ = lambda a: absolute(a)
    __mod__ = lambda a, b: mod(a, b)
    __floordiv__ = lambda a, b: floor(div(a, b))
    __repr__ = lambda a: f"Dual({a.tag}, {a.v!r}, {a.d!r})"
    real = property(lambda a: real(a))
    imag = property(lambda a: imag(a))
    ndim, shape, size, dtype = 0, (), 1, onp.dtype(float)

    def _compare(op):  # noqa: N805
        def compare(a, b):
            if not isinstance(b, (*plain, Dual, onp.generic)):
                return NotImplemented
            Decisions.note(a, b)
            return op(primal(a), primal(b))

        return compare

    __lt__, __le__ = _compare(lambda a, b: a < b), _compare(lambda a, b: a <= b)
    __gt__, __ge__ = _compare(lambda a, b: a > b), _compare(lambda a, b: a >= b)
    __eq__, __ne__ = _compare(lambda a, b: a == b), _compare(lambda a, b: a != b)
    __hash__ = None
    __bool__ = lambda a: a != 0.0
    sum = copy = ravel = lambda a, *args, **options: a

    def item(self):
        return primal(self)

    def conjugate(self):
        return conj(self)


def primal(a):
    while type(a) is Dual:
        a = a.v
    return a


def number(a):
    """A NumPy scalar or 0-d array as a number of Python's."""
    return a.item() if isinstance(a, (onp.generic, onp.ndarray)) else a


def split(a, tag):
    return (a.v, a.d) if type(a) is Dual and a.tag == tag else (a, None)


def operation(value, *partials):
    """An operation on numbers and duals from its value on numbers and its partial derivatives, ``partial(*operands, result)``."""

    def op(*operands):
        operands = [a if type(a) in kinds else number(a) for a in operands]
        tag = max([a.tag for a in operands if type(a) is Dual], default=0)
        if not tag:
            return value(*operands)
        values, parts = zip(*[split(a, tag) for a in operands])
        result, d = op(*values), {}
        for part, partial in zip(parts, partials):
            if part:
                slope = partial(*values, result)
                for i, s in part.items():
                    t = mul(slope, s)
                    d[i] = add(d[i], t) if i in d else t
        return Dual(tag, result, d)

    return op


kinds = (Dual, float, int, bool, complex)


def add(a, b):
    if type(a) is type(b) is float:
        return a + b
    if isinstance(b, onp.ndarray) and b.ndim:
        return NotImplemented
    a, b = number(a), number(b)
    if type(a) is not Dual and type(b) is not Dual:
        return a + b
    tag = max(a.tag if type(a) is Dual else 0, b.tag if type(b) is Dual else 0)
    (av, ad), (bv, bd) = split(a, tag), split(b, tag)
    d = dict(ad or ())
    for i, s in (bd or {}).items():
        d[i] = add(d[i], s) if i in d else s
    return Dual(tag, add(av, bv), d)


def mul(a, b):
    if type(a) is type(b) is float:
        return a * b
    if isinstance(b, onp.ndarray) and b.ndim:
        return NotImplemented
    a, b = number(a), number(b)
    ta, tb = type(a) is Dual, type(b) is Dual
    if not ta and not tb:
        return a * b
    tag = max(a.tag if ta else 0, b.tag if tb else 0)
    (av, ad), (bv, bd) = split(a, tag), split(b, tag)
    d = {i: mul(s, bv) for i, s in ad.items()} if ad else {}
    for i, s in (bd or {}).items():
        t = mul(av, s)
        d[i] = add(d[i], t) if i in d else t
    return Dual(tag, mul(av, bv), d)


def _div(a, b):
    try:
        return a / b
    except ZeroDivisionError:
        with onp.errstate(all="ignore"):
            return (onp.asarray(a, onp.result_type(type(a), float)) / b).item()


div = operation(_div, lambda a, b, r: div(1.0, b), lambda a, b, r: mul(-1.0, div(r, b)))


def power(a, b):
    b = number(b)
    if type(b) is Dual:
        return exp(mul(b, log(a)))
    return 1.0 if b == 0 else a if b == 1 else _power(b)(a)


def _power(b):
    return operation(lambda a: onp.power(a, b).item() if a == 0 else a**b, lambda a, r: mul(b, power(a, b - 1)))


def by(real_function, complex_function=None):
    """A function of numbers, real or complex, which overflows to infinity."""

    def value(a):
        try:
            return complex_function(a) if type(a) is complex else real_function(a)
        except OverflowError:
            return math.inf
        except ValueError:
            return math.nan

    return value


sin = operation(by(math.sin, cmath.sin), lambda a, r: cos(a))
cos = operation(by(math.cos, cmath.cos), lambda a, r: mul(-1.0, sin(a)))
exp = operation(by(math.exp, cmath.exp), lambda a, r: r)
log = operation(by(lambda a: math.log(a) if a else -math.inf, cmath.log), lambda a, r: div(1.0, a))
log1p = operation(by(math.log1p), lambda a, r: div(1.0, add(1.0, a)))


def _inverse_square_of_cosh(a):
    # (1 - tanh(a)**2 has no digits left far out.)
    cosh = mul(0.5, add(exp(a), exp(mul(-1.0, a))))
    return div(1.0, mul(cosh, cosh))


tanh = operation(by(math.tanh, cmath.tanh), lambda a, r: _inverse_square_of_cosh(a))
arctan = operation(by(math.atan), lambda a, r: div(1.0, add(1.0, mul(a, a))))
sqrt = operation(by(math.sqrt, cmath.sqrt), lambda a, r: div(0.5, r))
floor = operation(lambda a: (Decisions.note(a, round(a)), float(math.floor(a)))[1], lambda a, r: 0.0)


def linear(value):
    """A function that is linear over real numbers, of complex ones."""

    def op(a):
        a = number(a)
        return Dual(a.tag, op(a.v), {i: op(s) for i, s in a.d.items()}) if type(a) is Dual else value(a)

    return op


real, imag, conj = linear(lambda a: a.real), linear(lambda a: a.imag), linear(lambda a: a.conjugate())


def absolute(a):
    p = primal(a)
    if type(p) is complex:
        x, y = real(a), imag(a)
        return sqrt(add(mul(x, x), mul(y, y)))
    Decisions.note(a)
    return a if p > 0 else mul(-1.0, a) if p < 0 else mul(p, a)


def sign(a):
    Decisions.note(a)
    return float((primal(a) > 0) - (primal(a) < 0))


def mod(a, b):
    return add(a, mul(-1.0, mul(b, floor(div(a, b)))))


def maximum(a, b):
    return a if primal(a) != primal(a) or a >= b else b


def minimum(a, b):
    return a if primal(a) != primal(a) or a <= b else b


def is_dual(a):
    return type(a) is Dual or isinstance(a, onp.ndarray) and a.dtype == object


def each(function, usual):
    """`function` of each number where any carries a derivative, otherwise NumPy's."""

    def of_arrays(*arrays, **options):
        if not any(map(is_dual, arrays)):
            # (Of integers of 8 bits half precision, which a float64 number widens, and not a Python number.)
            found = usual(*arrays, **options)
            return onp.float64(found) if getattr(found, "dtype", None) in (onp.float16, onp.float32) else found
        if all(not isinstance(a, onp.ndarray) or a.ndim == 0 for a in arrays):
            return function(*map(number, arrays))
        parts = onp.broadcast_arrays(*[a if isinstance(a, onp.ndarray) else onp.array(a, object) for a in arrays])
        return packed([function(*map(number, row)) for row in zip(*[p.ravel().tolist() for p in parts])], parts[0].shape)

    return of_arrays


def packed(numbers, shape):
    """An array of numbers, or the number itself if the shape is (). It is one of objects, so that duals may be written to it."""
    if shape == ():
        return numbers[0]
    array = onp.empty(len(numbers), object)
    array[:] = numbers
    return array.reshape(shape)


class Numpy:
    """NumPy, where functions of single numbers take duals, too, and new arrays have room for them."""

    def __getattr__(self, name):
        return getattr(onp, name)

    for _name, _function in dict(
        sin=sin, cos=cos, exp=exp, log=log, log1p=log1p, tanh=tanh, arctan=arctan, sqrt=sqrt, floor=floor, real=real, imag=imag, conj=conj,
        abs=absolute, absolute=absolute, sign=sign, maximum=maximum, minimum=minimum, square=lambda a: mul(a, a),
        isnan=lambda a: primal(a) != primal(a), isfinite=lambda a: math.isfinite(primal(a)),
        clip=lambda a, low, high: minimum(maximum(a, low), high),
        stop=lambda a: primal(a),
    ).items():  # fmt: skip
        locals()[_name] = staticmethod(each(_function, getattr(onp, _name, lambda a: a)))

    @staticmethod
    def array(a):
        a = onp.array(a)
        return a.astype(object) if a.dtype.kind == "f" else a

    @staticmethod
    def zeros(n):
        return onp.zeros(n, object)

    @staticmethod
    def float32(a):
        return float(onp.float32(a))

    @staticmethod
    def zeros_like(a):
        return 0.0 if type(a) is Dual else onp.zeros_like(a)

    @staticmethod
    def ones_like(a):
        return 1.0 if type(a) is Dual else onp.full(onp.shape(a), 1.0)

    @staticmethod
    def mean(a, axis=None):
        return a.sum(axis) / (a.size if axis is None else a.shape[axis]) if is_dual(a) else onp.mean(a, axis)

    @staticmethod
    def where(condition, a, b):
        r = onp.where(condition, a, b)
        return r.item() if r.ndim == 0 and r.dtype == object else r


def _extremum(name, sign):
    """NumPy's, which asks complex numbers by their real parts first, and by their imaginary parts then."""

    def of(a):
        if not any(isinstance(primal(x), complex) for x in onp.asarray(a, object).ravel()):
            return getattr(onp, name)(a)
        best, *others = a
        for x in others:
            if sign * real(x) > sign * real(best) or real(x) == real(best) and sign * imag(x) > sign * imag(best):
                best = x
        return best

    return of


def _where(function):
    """A ufunc that writes where it is told to."""

    def ufunc(*operands, out=None, where=True):
        if out is None:
            return function(*operands)
        where, *operands = (onp.broadcast_to(onp.asarray(a, object), out.shape) for a in (where, *operands))
        for i in onp.ndindex(out.shape):
            if where[i]:
                out[i] = function(*[a[i] for a in operands])
        return out

    return ufunc


for _name in ("sin", "exp", "maximum", "negative", "multiply", "add"):
    setattr(Numpy, _name, staticmethod(_where(getattr(Numpy(), _name))))
for _name in ("maximum", "add"):
    getattr(Numpy, _name).at = getattr(onp, _name).at
Numpy.max, Numpy.min = staticmethod(_extremum("max", 1.0)), staticmethod(_extremum("min", -1.0))
numpy = Numpy()
