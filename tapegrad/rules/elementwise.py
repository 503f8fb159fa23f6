"""Element-wise rows: arithmetic, powers, exponentials, trigonometry, selection, comparisons.

Conventions at kinks and poles (also in ``docs/numerics.md``): ``abs'(0) = 0``,
``relu'(0) = 0``, ties of ``maximum``/``minimum`` share evenly, ``x**0`` has
derivative 0 everywhere.  Derivatives are those of Abramowitz & Stegun,
*Handbook of Mathematical Functions* (1964), chapters 4, 6 and 7.

Comparisons and choices as numbers are used by scalar instructions where a rule says `select`.  A scalar instruction has two
operands and a number as its result, so a condition is 1.0 or 0.0 there, and ``select(c, a, b)`` is ``if_true(c, a) + if_false(c,
b)``: the branch not taken adds an exact zero, whatever its value is.  A user never calls these rows; they are rows so that a
derivative made of them can be differentiated again.
"""

import math
import operator

import numpy as np

from . import lang as L
from .lang import select
from .table import elementwise, zero

LN2 = math.log(2.0)
LN10 = math.log(10.0)


def of_numpy(name, doc, example, *partials, expr=None, **attributes):
    """A row whose value is NumPy's ufunc `name`; so are, if no others are given, the function in the language, and Python's on numbers."""
    ufunc, python = getattr(np, name), name.replace("arc", "a")
    attributes = {"scalar": getattr(math, python, None), "node": python.capitalize(), "numpy": (ufunc,), **attributes}
    elementwise(name, ufunc, expr or getattr(L, name), partials, doc=doc, example=example, **attributes)


def of_operator(name, operator, doc, example, *partials, **attributes):
    """A row whose value is NumPy's ufunc `name`, and one of Python's operators in the language and on numbers."""
    of_numpy(name, doc, example, *partials, expr=operator, scalar=operator, **attributes)


def one(*_):
    return 1.0


def minus_one(*_):
    return -1.0


# ---- arithmetic ---------------------------------------------------------------
of_operator("add", operator.add, "x + y", "2.0, 3.0 -> 5.0, (1.0, 1.0)", one, one)
of_operator("subtract", operator.sub, "x - y", "5.0, 3.0 -> 2.0, (1.0, -1.0)", one, minus_one, node="Sub")
of_operator("multiply", operator.mul, "x * y", "2.0, 3.0 -> 6.0, (3.0, 2.0)", lambda x, y, z: y, lambda x, y, z: x, node="Mul", silent="the other factor is 0")
of_operator("divide", operator.truediv, "x / y", "3.0, 4.0 -> 0.75, (0.25, -0.1875)", lambda x, y, z: 1.0 / y, lambda x, y, z: -(z / y), node="Div")
of_operator("negative", operator.neg, "-x", "2.0 -> -2.0, -1.0", minus_one, node="Neg")


def _power_dx(x, y, z):
    # Only where the product has no value: elsewhere its derivative counts at second order.
    return select(L.eq(y, 0.0) & (L.eq(x, 0.0) | L.isnan(x)), 0.0, y * L.pow(x, y - 1.0))


def _power_dy(x, y, z):
    return select(L.eq(z, 0.0), 0.0, z * L.log(x))


of_numpy(
    "power", "x ** y; derivative 0 where y = 0, and in y where x ** y = 0", "", _power_dx, _power_dy, expr=L.pow, scalar=math.pow, node="Pow",
)
elementwise(
    "power2", np.square, lambda x: x * x, (lambda x, z: 2.0 * x,),
    scalar=lambda x: x * x, node="Pow", doc="x ** 2 with a constant exponent",
)


def _remainder(x, y):
    rest = L.fmod(x, y)
    rest = select(L.ne(rest, 0.0) & L.ne(L.sign(rest), L.sign(y)), rest + y, rest)
    return select(L.eq(rest, 0.0), L.copysign(0.0, y), rest)


def _quotient(x, y, z):
    # The integer by which y was multiplied; floor(x / y) may differ from it by rounding.
    return L.rint((x - z) / y)


of_numpy(
    "remainder", "x % y with the sign of y; derivative of the smooth pieces", "-7.0, 3.0 -> 2.0, (1.0, 3.0)", one, lambda x, y, z: -_quotient(x, y, z),
    expr=_remainder, scalar=operator.mod,
)
of_numpy("fmod", "x % y with the sign of x", "-7.0, 3.0 -> -1.0, (1.0, 2.0)", one, lambda x, y, z: -_quotient(x, y, z))
of_numpy("absolute", "abs(x); derivative 0 at 0", "-2.0 -> 2.0, -1.0", lambda x, z: L.sign(x), expr=L.abs, scalar=abs, node="Abs", numpy=(np.absolute, np.fabs))
of_numpy("sign", "sign of x; derivative 0", "-2.0 -> -1.0, 0.0", zero, scalar=lambda x: 1.0 if x > 0.0 else -1.0 if x < 0.0 else x + 0.0)
of_operator("square", lambda x: x * x, "x ** 2", "3.0 -> 9.0, 6.0", lambda x, z: 2.0 * x, node="Pow")
of_operator("reciprocal", lambda x: 1.0 / x, "1 / x", "4.0 -> 0.25, -0.0625", lambda x, z: -(z * z))
of_numpy("sqrt", "square root; derivative +inf at 0", "4.0 -> 2.0, 0.25", lambda x, z: 0.5 / z)
of_numpy("cbrt", "cube root; derivative +inf at 0", "8.0 -> 2.0, 0.0833...", lambda x, z: 1.0 / (3.0 * z * z))

# ---- exponentials and logarithms ----------------------------------------------
of_numpy("exp", "e ** x", "1.0 -> 2.7182..., 2.7182...", lambda x, z: z)
of_numpy("exp2", "2 ** x", "3.0 -> 8.0, 5.5451...", lambda x, z: z * LN2)
of_numpy("expm1", "e ** x - 1, accurate near 0", "0.5 -> 0.6487..., 1.6487...", lambda x, z: L.exp(x))
of_numpy("log", "natural logarithm", "2.0 -> 0.6931..., 0.5", lambda x, z: 1.0 / x)
of_numpy("log2", "logarithm to base 2", "8.0 -> 3.0, 0.1803...", lambda x, z: 1.0 / (x * LN2))
of_numpy("log10", "logarithm to base 10", "100.0 -> 2.0, 0.0043...", lambda x, z: 1.0 / (x * LN10))
of_numpy("log1p", "log(1 + x), accurate near 0", "0.5 -> 0.4054..., 0.6666...", lambda x, z: 1.0 / (1.0 + x))


def _logaddexp(x, y, exp=L.exp, log1p=L.log1p, unit=LN2):
    big = select(x > y, x, y)
    small = select(x > y, y, x)
    return select(L.eq(x, y), x + unit, big + log1p(exp(small - big)))


def _share(x, y, z, scale=1.0):
    # Equal infinities have no difference.  (Equal numbers have one, whose derivative counts at second order.)
    return select(L.eq(x, y) & L.isnan(x - y), 0.5, L.sigmoid((x - y) * scale))


of_numpy(
    "logaddexp", "log(e**x + e**y) without overflow", "1.0, 1.0 -> 1.6931..., (0.5, 0.5)", _share, lambda x, y, z: _share(y, x, z),
    expr=_logaddexp, scalar=lambda x, y: x + LN2 if x == y else max(x, y) + math.log1p(math.exp(-abs(x - y))),
)

# ---- trigonometric and hyperbolic functions ------------------------------------
of_numpy("sin", "sine", "0.5 -> 0.4794..., 0.8775...", lambda x, z: L.cos(x))
of_numpy("cos", "cosine", "0.5 -> 0.8775..., -0.4794...", lambda x, z: -L.sin(x))
of_numpy("tan", "tangent", "0.5 -> 0.5463..., 1.2984...", lambda x, z: 1.0 + z * z)
of_numpy("arcsin", "inverse sine", "0.5 -> 0.5235..., 1.1547...", lambda x, z: 1.0 / L.sqrt((1.0 - x) * (1.0 + x)))
of_numpy("arccos", "inverse cosine", "0.5 -> 1.0471..., -1.1547...", lambda x, z: -1.0 / L.sqrt((1.0 - x) * (1.0 + x)))
of_numpy("arctan", "inverse tangent", "0.5 -> 0.4636..., 0.8", lambda x, z: 1.0 / (1.0 + x * x))


def over_square(a, x, y):
    """``a / (x**2 + y**2)``; nothing is squared."""
    radius = L.hypot(x, y)
    return a / radius / radius


of_numpy(
    "arctan2", "angle of the point (x, y), called as arctan2(y, x)", "3.0, 4.0 -> 0.6435..., (0.16, -0.12)",
    lambda y, x, z: over_square(x, x, y), lambda y, x, z: -over_square(y, x, y),
)
of_numpy(
    "hypot", "sqrt(x**2 + y**2); derivative 0 at the origin", "3.0, 4.0 -> 5.0, (0.6, 0.8)", lambda x, y, z: select(L.eq(z, 0.0), 0.0, x / z),
    lambda x, y, z: select(L.eq(z, 0.0), 0.0, y / z), scalar=lambda x, y: abs(complex(x, y)),
)


def _reciprocal_square(x):
    # 1 - tanh**2 cancels away from 0; this form keeps all digits and goes to 0 where cosh overflows.
    root = 1.0 / x
    return root * root


def _arcsinh_dx(x, z):
    far = L.abs(x)
    return select(far > 1e8, 1.0 / far, 1.0 / L.sqrt(x * x + 1.0))


of_numpy("sinh", "hyperbolic sine", "0.5 -> 0.5210..., 1.1276...", lambda x, z: L.cosh(x))
of_numpy("cosh", "hyperbolic cosine", "0.5 -> 1.1276..., 0.5210...", lambda x, z: L.sinh(x))
of_numpy("tanh", "hyperbolic tangent", "0.5 -> 0.4621..., 0.7864...", lambda x, z: _reciprocal_square(L.cosh(x)))
of_numpy("arcsinh", "inverse hyperbolic sine", "0.5 -> 0.4812..., 0.8944...", _arcsinh_dx)
of_numpy("arccosh", "inverse hyperbolic cosine", "2.0 -> 1.3169..., 0.5773...", lambda x, z: 1.0 / (L.sqrt(x - 1.0) * L.sqrt(x + 1.0)))
of_numpy("arctanh", "inverse hyperbolic tangent", "0.5 -> 0.5493..., 1.3333...", lambda x, z: 1.0 / ((1.0 - x) * (1.0 + x)))

# ---- selection -----------------------------------------------------------------


def _larger(a, b):
    return select(a > b, 1.0, select(L.eq(a, b), 0.5, 0.0))


def _pick(x, y, larger):
    # A result that is NaN comes from the operand that is NaN, or evenly from both.
    return select(L.isnan(x), select(L.isnan(y), 0.5, 1.0), larger)


def _max(x, y):
    return select(L.isnan(x) | (x >= y), x, y)


def _min(x, y):
    return select(L.isnan(x) | (x <= y), x, y)


def _larger_of(x, y):
    return x if x >= y or x != x else y


def _smaller_of(x, y):
    return x if x <= y or x != x else y


of_numpy(
    "maximum", "the larger of x and y; a tie shares the derivative evenly", "2.0, 3.0 -> 3.0, (0.0, 1.0)", lambda x, y, z: _pick(x, y, _larger(x, y)),
    lambda x, y, z: _pick(y, x, _larger(y, x)), expr=_max, scalar=_larger_of, silent="the other operand is larger",
)
of_numpy(
    "minimum", "the smaller of x and y; a tie shares the derivative evenly", "2.0, 3.0 -> 2.0, (1.0, 0.0)", lambda x, y, z: _pick(x, y, _larger(y, x)),
    lambda x, y, z: _pick(y, x, _larger(x, y)), expr=_min, scalar=_smaller_of, silent="the other operand is smaller",
)
elementwise(
    "where", lambda c, x, y: np.where(c, x, y), lambda c, x, y: select(c, x, y),
    (None, lambda c, x, y, z: select(c, 1.0, 0.0), lambda c, x, y, z: select(c, 0.0, 1.0)),
    scalar=lambda c, x, y: x if c else y, node="Where", doc="x where the condition holds, else y; the branch not taken gets a derivative of exactly 0",
    silent="the other branch of the condition is taken",
)
elementwise(
    "clip", np.clip, lambda x, lo, hi: _min(_max(x, lo), hi),
    (
        lambda x, lo, hi, z: select((x >= lo) & (x <= hi), 1.0, 0.0),
        lambda x, lo, hi, z: select((x < lo) & (lo <= hi), 1.0, 0.0),
        lambda x, lo, hi, z: select((x > hi) | ((x <= hi) & (lo > hi)), 1.0, 0.0),
    ),
    scalar=lambda x, lo, hi: _smaller_of(_larger_of(x, lo), hi),
    node="Clamp", doc="x limited to [lo, hi]; derivative 1 on the closed interval", silent="the operand is outside of the bounds",
)

# ---- functions of statistics and learning ----------------------------------------


def floats(x):
    """An array of floats; integers, whose sign and differences may wrap around, and truth values, which have none, as float64."""
    x = np.asarray(x)
    return x if x.dtype.kind == "f" else x.astype(float)


def _sigmoid_value(x):
    x = floats(x)
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1.0, e) / (1.0 + e)


def _sigmoid_scalar(x):
    e = math.exp(-abs(x))
    return (1.0 if x >= 0 else e) / (1.0 + e)


def _softplus_value(x):
    x = floats(x)
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


elementwise(
    "sigmoid", _sigmoid_value, L.sigmoid, (lambda x, z: z * L.sigmoid(-x),),
    scalar=_sigmoid_scalar, node="Sigmoid", doc="1 / (1 + e**-x) without overflow", example="0.5 -> 0.6224..., 0.2350...",
)
elementwise(
    "softplus", _softplus_value, L.softplus, (lambda x, z: L.sigmoid(x),),
    scalar=lambda x: max(x, 0.0) + math.log1p(math.exp(-abs(x))),
    node="Softplus", doc="log(1 + e**x) without overflow", example="0.5 -> 0.9740..., 0.6224...",
)
elementwise(
    "relu", lambda x: np.maximum(x, 0), lambda x: select(x > 0.0, x, select(L.isnan(x), x, 0.0)),
    (lambda x, z: select((x > 0.0) | L.isnan(x), 1.0, 0.0),), scalar=lambda x: x if x > 0.0 or x != x else 0.0,
    node="Relu", doc="max(x, 0); derivative 0 at 0", silent="the operand is not positive", example="2.0 -> 2.0, 1.0",
)
of_numpy("copysign", "abs(x) with the sign of y", "2.0, -1.0 -> -2.0, (-1.0, 0.0)", lambda x, y, z: L.sign(x) * L.sign(z), zero)
of_numpy("floor", "largest integer <= x; derivative 0", "1.7 -> 1.0, 0.0", zero, scalar=None)
of_numpy("ceil", "smallest integer >= x; derivative 0", "1.2 -> 2.0, 0.0", zero, scalar=None)
of_numpy("trunc", "x without its fraction; derivative 0", "-1.7 -> -1.0, 0.0", zero, scalar=None)
of_numpy("rint", "nearest integer; derivative 0", "1.7 -> 2.0, 0.0", zero, node="Round")


def _floor_divide(x, y):
    # NumPy's and Python's way: a quotient that is rounded up beside an integer is found out.
    rest = L.fmod(x, y)
    quotient = (x - rest) / y
    quotient = select(((y < 0.0) & (rest > 0.0)) | ((y >= 0.0) & (rest < 0.0)), quotient - 1.0, quotient)
    whole = L.floor(quotient)
    whole = select(quotient - whole > 0.5, whole + 1.0, whole)
    return select(L.eq(y, 0.0), x / y, select(L.eq(quotient, 0.0), L.copysign(0.0, x / y), whole))


of_numpy("floor_divide", "x // y; derivative 0", "7.0, 2.0 -> 3.0, (0.0, 0.0)", zero, zero, expr=_floor_divide, scalar=operator.floordiv, node="FloorDivide")
elementwise("clone", np.positive, lambda x: x, (lambda x, z: 1.0,), scalar=lambda x: x, node="Clone", doc="a copy of x")

# ---- further ufuncs of NumPy ------------------------------------------------------
of_numpy(
    "logaddexp2", "log2(2**x + 2**y) without overflow", "1.0, 2.0 -> 2.5849..., (0.3333..., 0.6666...)",
    lambda x, y, z: _share(x, y, z, LN2), lambda x, y, z: _share(y, x, z, LN2),
    expr=lambda x, y: _logaddexp(x, y, L.exp2, lambda t: L.log1p(t) * (1.0 / LN2), 1.0),
)
of_numpy(
    "deg2rad", "degrees to radians", "180.0 -> 3.1415..., 0.0174...", lambda x, z: math.pi / 180.0, expr=lambda x: x * (math.pi / 180.0), node="Deg2Rad",
    numpy=(np.deg2rad, np.radians),
)
of_numpy(
    "rad2deg", "radians to degrees", "1.0 -> 57.2957..., 57.2957...", lambda x, z: 180.0 / math.pi, expr=lambda x: x * (180.0 / math.pi), node="Rad2Deg",
    numpy=(np.rad2deg, np.degrees),
)


def _sinc(x):
    angle = select(L.eq(x, 0.0), 1.0, x * math.pi)
    return select(L.eq(x, 0.0), 1.0, L.sin(angle) / angle)


#: Coefficients of the derivative of sinc over (pi**2 * x), in powers of (pi * x)**2.
_SINC_SERIES = [(-1) ** k * 2 * k / math.factorial(2 * k + 1) for k in range(1, 8)]


def _sinc_dx(x, z):
    # Near 0 the two terms of the quotient cancel.
    square = x * x * math.pi**2
    series = square * 0.0
    for c in reversed(_SINC_SERIES):
        series = series * square + c
    near = L.abs(x) < 0.15
    return select(near, series * x * math.pi**2, (L.cos(x * math.pi) - z) / x)


elementwise(
    "sinc", np.sinc, _sinc, (_sinc_dx,), node="Sinc", doc="sin(pi * x) / (pi * x), 1 at 0", example="0.5 -> 0.6366..., -1.2732...", numpy=(np.sinc,),
)


def _only_if(x, y, larger):
    # NaN counts as missing: the other operand gets all of the derivative.
    return select(L.isnan(y), select(L.isnan(x), 0.5, 1.0), larger)


of_numpy(
    "fmax", "the larger of x and y, NaN ignored; a tie shares the derivative evenly", "2.0, 3.0 -> 3.0, (0.0, 1.0)",
    lambda x, y, z: _only_if(x, y, _larger(x, y)), lambda x, y, z: _only_if(y, x, _larger(y, x)), expr=lambda x, y: select(L.isnan(y) | (x >= y), x, y),
    scalar=lambda x, y: x if y != y or x >= y else y, silent="the other operand is larger",
)
of_numpy(
    "fmin", "the smaller of x and y, NaN ignored; a tie shares the derivative evenly", "2.0, 3.0 -> 2.0, (1.0, 0.0)",
    lambda x, y, z: _only_if(x, y, _larger(y, x)), lambda x, y, z: _only_if(y, x, _larger(x, y)), expr=lambda x, y: select(L.isnan(y) | (x <= y), x, y),
    scalar=lambda x, y: x if y != y or x <= y else y, silent="the other operand is smaller",
)
of_numpy(
    "heaviside", "step from 0 to 1 with value h at 0; derivative 0 in x, and 1 in h at x = 0", "2.0, 0.5 -> 1.0, (0.0, 0.0)",
    zero, lambda x, h, z: select(L.eq(x, 0.0), 1.0, 0.0),
    expr=lambda x, h: select(x < 0.0, 0.0, select(x > 0.0, 1.0, select(L.eq(x, 0.0), h, x))),
)


def _ldexp_value(x, i):
    exponent = np.asarray(i)
    if exponent.dtype.kind == "f":
        whole = exponent.astype(np.int64)
        if not np.array_equal(whole, exponent):
            raise TypeError("ldexp() takes integer exponents")
        exponent = whole
    return np.ldexp(x, exponent)


def _ldexp_expression(x, i):
    """The power of two is taken in four parts where it alone overflows or is 0; the last one is the only product that can be rounded."""
    power, quarter = L.exp2(i), L.trunc(i * 0.25)
    part = L.exp2(quarter)
    in_parts = x * part * part * part * L.exp2(i - 3.0 * quarter)
    # Zeros and infinities stay what they are.
    return select(L.eq(x + x, x), x, select((power > 0.0) & (power < math.inf), x * power, in_parts))


elementwise(
    "ldexp", _ldexp_value, _ldexp_expression, (lambda x, i, z: L.exp2(i), None),
    node="Ldexp", doc="x * 2**i for integer i", refused={1: "the exponent is an integer"}, example="1.5, 3 -> 12.0, 8.0",
)


def _number(condition):
    return L.select(condition, 1.0, 0.0)


def _numbers(comparison):
    def value(*operands):
        truths = comparison(*operands)
        # Numbers of Python have no dtype that counts beside that of arrays; alone they are float64.
        least = np.float32 if any(isinstance(o, (np.ndarray, np.generic)) for o in operands) else np.float64
        return np.asarray(truths).astype(np.result_type(*operands, least))

    return value


for _name, _comparison, _of, _doc in (
    ("is_less", np.less, lambda x, y: x < y, "1 where x < y, else 0; derivative 0"),
    ("is_less_equal", np.less_equal, lambda x, y: x <= y, "1 where x <= y, else 0; derivative 0"),
    ("is_equal", np.equal, L.eq, "1 where x equals y, else 0; derivative 0"),
):
    elementwise(
        _name, _numbers(_comparison), lambda x, y, of=_of: _number(of(x, y)), (zero, zero),
        node=_name.title().replace("_", ""), doc=_doc,
    )
elementwise(
    "is_nan", _numbers(np.isnan), lambda x: _number(L.isnan(x)), (zero,), node="IsNan", doc="1 where x is NaN, else 0; derivative 0",
)


def _chosen(c, x):
    return np.where(np.not_equal(c, 0), x, np.zeros((), np.result_type(x)))


elementwise(
    "if_true", _chosen, lambda c, x: L.select(L.ne(c, 0.0), x, 0.0), (zero, lambda c, x, z: _number(L.ne(c, 0.0))),
    node="IfTrue", doc="x where c is not 0, else exactly 0; derivative 0 in c",
)
elementwise(
    "if_false", lambda c, x: _chosen(np.equal(c, 0), x), lambda c, x: L.select(L.ne(c, 0.0), 0.0, x), (zero, lambda c, x, z: _number(L.eq(c, 0.0))),
    node="IfFalse", doc="x where c is 0, else exactly 0; derivative 0 in c",
)
