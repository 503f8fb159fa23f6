"""Special functions: rows whose values come from `scipy.special`; Bessel functions of any order come last.

SciPy is imported when such a function is first used, not before.  Derivatives:
NIST Digital Library of Mathematical Functions (DLMF), 5.2, 5.15, 7, 8.8 and 10.

The order of a Bessel function is a constant: there is no closed derivative in it.  DLMF 10.6.1, 10.29.1.
"""

import math

import numpy as np

from ..common.registry import registry
from ..common.uninterrupted import imported
from . import lang as L
from .table import BY_NAME, elementwise, structural, zero

TWO_OVER_SQRT_PI = 2.0 / math.sqrt(math.pi)


def scipy_special(name):
    """A function that calls ``scipy.special.<name>``, importing it when called; its attribute `of_scipy` is the name."""

    def call(*args):
        return getattr(imported("scipy.special"), name)(*args)

    call.__name__ = call.of_scipy = name
    return call


def polygamma_value(n, x):
    """``scipy.special.polygamma`` for a positive order `n` that may be an array."""
    values = imported("scipy.special").polygamma(n, x)
    return values.astype(np.float32) if getattr(x, "dtype", None) == np.float32 else values


elementwise(
    "erf", scipy_special("erf"), L.erf, (lambda x, z: TWO_OVER_SQRT_PI * L.exp(-(x * x)),),
    scalar=math.erf, node="Erf", doc="error function", example="0.5 -> 0.5204..., 0.8787...",
)
elementwise(
    "lgamma", scipy_special("gammaln"), L.lgamma, (lambda x, z: L.digamma(x),),
    node="Lgamma", doc="log(abs(gamma(x)))", calls_scipy=True, example="2.5 -> 0.2846..., 0.7031...",
)


def _trigamma(x, z):
    # SciPy's zeta is for positive x; the reflection formula (DLMF 5.15.6) does the rest.
    sine = L.sin((x - L.rint(x)) * math.pi)
    return L.select(x > 0.0, L.polygamma(1.0, x), math.pi**2 / (sine * sine) - L.polygamma(1.0, 1.0 - x))


elementwise(
    "digamma", scipy_special("psi"), L.digamma, (_trigamma,),
    node="Digamma", doc="derivative of log gamma", calls_scipy=True, example="2.5 -> 0.7031..., 0.4903...",
)
elementwise(
    "polygamma", polygamma_value, L.polygamma, (None, lambda n, x, z: L.polygamma(n + 1.0, x)),
    node="Polygamma", doc="n-th derivative of digamma; the order n is a constant", calls_scipy=True,
    refused={0: "the order is an integer"},
)


# ---- error functions and the normal distribution ---------------------------------------
ROOT_PI = math.sqrt(math.pi)
ROOT_2PI = math.sqrt(2.0 * math.pi)


def scipy_row(name, partials, doc, **attributes):
    """A row whose value is SciPy's ufunc `name`; so is the function of that name in the language."""
    elementwise(
        name, scipy_special(name), getattr(L, name), partials, node=name.title().replace("_", ""), doc=doc, calls_scipy=True, **attributes
    )


def _erfcx_dx(x, z):
    # 2xz - 2/sqrt(pi) cancels far out: there the asymptotic series (DLMF 7.12.1), differentiated.
    u = 0.5 / (x * x)
    series = u * 0.0
    for n in range(16, 0, -1):
        series = (series + 1.0) * u * -(2.0 * n + 1.0)
    return L.select(x > 10.0, (series + 1.0) * u * (-2.0 / ROOT_PI), 2.0 * x * z - TWO_OVER_SQRT_PI)


scipy_row("erfc", (lambda x, z: -TWO_OVER_SQRT_PI * L.exp(-(x * x)),), "1 - erf(x), accurate for large x", example="0.5 -> 0.4795..., -0.8787...")
scipy_row("erfinv", (lambda x, z: 0.5 * ROOT_PI * L.exp(z * z),), "inverse of erf", example="0.5 -> 0.4769..., 1.1125...")
scipy_row("erfcx", (_erfcx_dx,), "exp(x**2) * erfc(x)", example="0.5 -> 0.6156..., -0.5126...")
scipy_row("ndtr", (lambda x, z: L.exp(-0.5 * x * x) / ROOT_2PI,), "distribution function of the standard normal", example="0.5 -> 0.6914..., 0.3520...")
scipy_row("ndtri", (lambda x, z: ROOT_2PI * L.exp(0.5 * z * z),), "quantile of the standard normal, inverse of ndtr", example="0.975 -> 1.9599..., 17.1100...")
scipy_row(
    # The density over the distribution function, in a form without underflow.
    "log_ndtr", (lambda x, z: math.sqrt(2.0 / math.pi) / L.erfcx(x * -math.sqrt(0.5)),),
    "logarithm of ndtr, accurate in both tails", example="0.5 -> -0.3689..., 0.5091...",
)

# ---- logistic ----------------------------------------------------------------------------
scipy_row("logit", (lambda x, z: 1.0 / (x * (1.0 - x)),), "log(x / (1 - x)), inverse of expit", example="0.25 -> -1.0986..., 5.3333...")
scipy_row("log_expit", (lambda x, z: L.sigmoid(-x),), "log of expit, accurate for large negative x", example="0.5 -> -0.4740..., 0.3775...")

# ---- gamma and beta functions --------------------------------------------------------------
scipy_row("gamma", (lambda x, z: z * L.digamma(x),), "gamma function", example="2.5 -> 1.3293..., 0.9347...")
scipy_row("rgamma", (lambda x, z: -z * L.digamma(x),), "1 / gamma(x); the derivative at its zeros is NaN", example="2.5 -> 0.7522..., -0.5289...")
scipy_row("gammasgn", (zero,), "sign of the gamma function", example="-0.5 -> -1.0, 0.0")


def _log_beta_slope(a, b):
    return L.digamma(a) - L.digamma(a + b)


scipy_row(
    "beta", (lambda a, b, z: z * _log_beta_slope(a, b), lambda a, b, z: z * _log_beta_slope(b, a)),
    "gamma(a) * gamma(b) / gamma(a + b)", example="2.0, 3.0 -> 0.0833..., (-0.0902..., -0.0486...)",
)
scipy_row(
    "betaln", (lambda a, b, z: _log_beta_slope(a, b), lambda a, b, z: _log_beta_slope(b, a)),
    "log(abs(beta(a, b)))", example="2.0, 3.0 -> -2.4849..., (-1.0833..., -0.5833...)",
)


def _gamma_density(a, x):
    """``x**(a - 1) * exp(-x) / gamma(a)``; near a large `a` in a form whose exponents do not cancel."""
    t = 1.0 / (a * a)
    correction = (1.0 / 12.0 + t * (-1.0 / 360.0 + t * (1.0 / 1260.0 + t * (-1.0 / 1680.0 + t * (1.0 / 1188.0))))) / a
    off = (x - a) / a
    large = L.exp(a * (L.log1p(off) - off) - correction) * L.sqrt(a) / (ROOT_2PI * x)
    small = L.pow(x, a - 1.0) * L.exp(-x - L.lgamma(a))
    return L.select((a > 20.0) & (L.abs(off) < 0.7), large, small)


def _derivative_row(of, name, operand, slope, doc):
    """A row that is the derivative of another one in a parameter, compiled from Python: it has one in its last operand alone."""
    *parameters, _ = range(L.COMPILED[name])
    refused = dict.fromkeys(parameters, f"{of} has no second derivative in {operand}")
    elementwise(
        name, lambda *operands: registry.walks.on_arrays(name, *operands), getattr(L, name), (*[None] * len(parameters), slope),
        node=name.title().replace("_", ""), doc=doc, calls_scipy=True, refused=refused,
    )


def inverse_row(name, of, what, example=""):
    """A row that is the inverse of another one in its last operand."""
    *slopes, density = BY_NAME[of].partials
    parts = [lambda *operands, slope=slope: -slope(*operands[:-2], operands[-1], None) / density(*operands[:-2], operands[-1], None) for slope in slopes]
    scipy_row(name, (*parts, lambda *operands: 1.0 / density(*operands[:-2], operands[-1], None)), what, example=example)


def _underived_vjp(g, z, operand, result, of="", position=0):
    return g, lambda: BY_NAME[of].refuse(position)


def _underived_jvp(tangents, z, operand, result, of="", position=0):
    if tangents[1] is not None:
        BY_NAME[of].refuse(position)
    return tangents[0]


structural(
    "underived", 2, lambda z, operand, of="", position=0: np.copy(z), _underived_vjp, jvp=_underived_jvp, forward=lambda z, operand, of="", position=0: z,
    node="Underived", doc="the result z of a row in a recording, with an operand in which that has no derivative: asked for, it is an error",
    refused={1: "the function before it has none"}, shape=lambda z, operand, of="", position=0: (z.shape, z.char), effect="elementwise",
)
_derivative_row(
    "gammainc", "gammainc_da", "its order",
    lambda a, x, z: L.select(L.eq(x, 0.0) & (a > 1.0), 0.0, _gamma_density(a, x) * (L.log(x) - L.digamma(a))),
    "derivative of gammainc in its order, which is a constant here",
)
scipy_row(
    "gammainc", (lambda a, x, z: L.gammainc_da(a, x), lambda a, x, z: _gamma_density(a, x)),
    "regularised lower incomplete gamma function", example="2.0, 1.0 -> 0.2642..., (-0.2761..., 0.3678...)",
)
scipy_row(
    "gammaincc", (lambda a, x, z: -L.gammainc_da(a, x), lambda a, x, z: -_gamma_density(a, x)),
    "regularised upper incomplete gamma function", example="2.0, 1.0 -> 0.7357..., (0.2761..., -0.3678...)",
)
inverse_row("gammaincinv", "gammainc", "inverse of gammainc in its second argument", "2.0, 0.5 -> 1.6783..., (0.9932..., 3.1916...)")
inverse_row("gammainccinv", "gammaincc", "inverse of gammaincc in its second argument", "2.0, 0.5 -> 1.6783..., (0.9932..., -3.1916...)")


def _beta_density(a, b, x):
    large = L.exp(L.xlogy(a - 1.0, x) + L.xlog1py(b - 1.0, -x) - L.betaln(a, b))
    return L.select(a + b > 100.0, large, L.pow(x, a - 1.0) * L.pow(1.0 - x, b - 1.0) / L.beta(a, b))


def _beta_slopes(a, b, x):
    """The derivatives of the logarithm of the density in `a` and in `b`."""
    both = L.digamma(a + b)
    return L.log(x) - L.digamma(a) + both, L.log1p(-x) - L.digamma(b) + both


for _k, _name in enumerate("ab"):
    _derivative_row(
        "betainc", f"betainc_d{_name}", "its parameters",
        lambda a, b, x, z, k=_k: L.times(_beta_density(a, b, x), _beta_slopes(a, b, x)[k]),
        f"derivative of betainc in its {('first', 'second')[_k]} argument, which is a constant here",
    )
for _name, _sign, _what in (("betainc", 1.0, "regularised incomplete beta function"), ("betaincc", -1.0, "1 - betainc(a, b, x)")):
    scipy_row(
        _name,
        (
            lambda a, b, x, z, sign=_sign: sign * L.betainc_da(a, b, x), lambda a, b, x, z, sign=_sign: sign * L.betainc_db(a, b, x),
            lambda a, b, x, z, sign=_sign: sign * _beta_density(a, b, x),
        ),
        _what,
    )  # fmt: skip
    inverse_row(f"{_name}inv", _name, f"inverse of {_name} in its third argument")


# ---- Student's t, and others of statistics -------------------------------------------------
def _student_density(df, t):
    return L.exp(-0.5 * (df + 1.0) * L.log1p(t * t / df) - L.betaln(0.5 * df, 0.5)) / L.sqrt(df)


def _student_slope(df, t, z):
    square = t * t
    slope = L.digamma(0.5 * df + 0.5) - L.digamma(0.5 * df) - 1.0 / df - L.log1p(square / df) + (df + 1.0) * square / (df * (df + square))
    return 0.5 * _student_density(df, t) * slope


_derivative_row(
    "stdtr", "stdtr_ddf", "its degrees of freedom", _student_slope,
    "derivative of stdtr in the degrees of freedom, which are a constant here",
)
scipy_row(
    "stdtr", (lambda df, t, z: L.stdtr_ddf(df, t), lambda df, t, z: _student_density(df, t)),
    "distribution function of Student's t of df degrees of freedom", example="4.0, 1.5 -> 0.896, (0.0086..., 0.1228...)",
)
inverse_row("stdtrit", "stdtr", "quantile of Student's t, inverse of stdtr", "4.0, 0.9 -> 1.5332..., (-0.0740..., 8.4698...)")
scipy_row("ndtri_exp", (lambda y, z: math.sqrt(0.5 * math.pi) * L.erfcx(z * -math.sqrt(0.5)),), "inverse of log_ndtr", example="-1.0 -> -0.3374..., 0.9761...")
scipy_row(
    "owens_t",
    (
        lambda h, a, z: L.exp(-0.5 * h * h) * L.erf(h * a * math.sqrt(0.5)) * (-0.5 / ROOT_2PI),
        lambda h, a, z: L.exp(-0.5 * h * h * (1.0 + a * a)) / (2.0 * math.pi * (1.0 + a * a)),
    ),
    "Owen's T function", example="1.0, 0.5 -> 0.0430..., (-0.0463..., 0.0681...)",
)

# ---- Bessel functions ----------------------------------------------------------------------
scipy_row("i0", (lambda x, z: L.i1(x),), "modified Bessel function of order 0", example="1.0 -> 1.2660..., 0.5651...")
scipy_row(
    "i1", (lambda x, z: L.select(L.eq(x, 0.0), 0.5, L.i0(x) - z / x),), "modified Bessel function of order 1", example="1.0 -> 0.5651..., 0.7009...",
)


def _far_slope(order, x):
    """Derivative of ``exp(-x) * I_order(x)`` at large positive x, where its terms cancel (DLMF 10.40.1)."""
    u = 1.0 / x
    factors = [1.0]
    for k in range(1, 17):
        factors.append(factors[-1] * ((2 * k - 1) ** 2 - 4 * order**2) / (8 * k))
    series = u * 0.0
    for k in range(16, -1, -1):
        series = series * u - factors[k] * (k + 0.5)
    return series * u * L.sqrt(u) * (1.0 / ROOT_2PI)


def _i0e_dx(x, z):
    return L.select(L.abs(x) > 40.0, L.sign(x) * _far_slope(0, L.abs(x)), L.i1e(x) - L.sign(x) * z)


def _i1e_dx(x, z):
    near = L.i0e(x) - z * (L.sign(x) + 1.0 / x)
    return L.select(L.eq(x, 0.0), 0.5, L.select(L.abs(x) > 40.0, _far_slope(1, L.abs(x)), near))


scipy_row("i0e", (_i0e_dx,), "exp(-abs(x)) * i0(x)", example="1.0 -> 0.4657..., -0.2578...")
scipy_row("i1e", (_i1e_dx,), "exp(-abs(x)) * i1(x)", example="1.0 -> 0.2079..., 0.0499...")
scipy_row("j0", (lambda x, z: -L.j1(x),), "Bessel function of order 0", example="2.0 -> 0.2238..., -0.5767...")
scipy_row("j1", (lambda x, z: L.select(L.eq(x, 0.0), 0.5, L.j0(x) - z / x),), "Bessel function of order 1", example="2.0 -> 0.5767..., -0.0644...")

# ---- entropies -----------------------------------------------------------------------------
scipy_row(
    "xlogy",
    (
        lambda x, y, z: L.select(L.eq(x, 0.0) & (y <= 0.0), 0.0, L.log(y)),
        lambda x, y, z: L.select(L.eq(x, 0.0) & L.eq(y, 0.0), 0.0, x / y),
    ),
    "x * log(y); value and derivative 0 where x = y = 0", example="2.0, 3.0 -> 2.1972..., (1.0986..., 0.6666...)",
)
scipy_row(
    "xlog1py",
    (
        lambda x, y, z: L.select(L.eq(x, 0.0) & (y <= -1.0), 0.0, L.log1p(y)),
        lambda x, y, z: L.select(L.eq(x, 0.0) & L.eq(y, -1.0), 0.0, x / (1.0 + y)),
    ),
    "x * log(1 + y); value and derivative 0 where x = 0 and y = -1", example="2.0, 3.0 -> 2.7725..., (1.3862..., 0.5)",
)
scipy_row("entr", (lambda x, z: -1.0 - L.log(x),), "-x * log(x); derivative +inf at 0", example="0.5 -> 0.3465..., -0.3068...")


def _log_ratio(x, y):
    near = L.abs(x - y) < 0.5 * y
    ratio = x / y
    # The ratio may leave the range of floats where its logarithm does not.
    far = (L.eq(ratio, 0.0) & (x > 0.0)) | L.eq(ratio, math.inf)
    return L.select(near, L.log1p((x - y) / y), L.select(far, L.log(x) - L.log(y), L.log(ratio)))


scipy_row(
    "rel_entr",
    (lambda x, y, z: _log_ratio(x, y) + 1.0, lambda x, y, z: L.select(L.eq(x, 0.0) & L.eq(y, 0.0), 0.0, -(x / y))),
    "x * log(x / y); derivative -inf in x at 0", example="0.5, 0.25 -> 0.3465..., (1.6931..., -2.0)",
)
scipy_row(
    "kl_div",
    (lambda x, y, z: _log_ratio(x, y), lambda x, y, z: (y - x) / y),
    "x * log(x / y) - x + y; derivative -inf in x at 0", example="0.5, 0.25 -> 0.0965..., (0.6931..., -1.0)",
)

#: scipy.special ufuncs by name -> row name (SciPy's ufuncs are found by name so
#: that scipy need not be imported to build the table).
SCIPY_UFUNCS = {
    "yn": "yv", "erf": "erf", "gammaln": "lgamma", "psi": "digamma", "digamma": "digamma", "expit": "sigmoid",
    **{name: name for name in (*L.SCIPY_UNARY, *L.SCIPY_BINARY, *L.SCIPY_TERNARY, "exp2", "expm1", "log1p", "cbrt")},
}  # fmt: skip


_ORDER = {0: "there is no closed form of the derivative in the order"}


def _neighbours(function, sign):
    """Half of ``f(v - 1, x) + sign * f(v + 1, x)``, which is the derivative of ``f(v, x)``."""
    return lambda v, x, z: (function(v - 1.0, x) + sign * function(v + 1.0, x)) * 0.5


scipy_row("y0", (lambda x, z: -L.y1(x),), "Bessel function of the second kind of order 0", example="2.0 -> 0.5103..., 0.1070...")
scipy_row("y1", (lambda x, z: L.y0(x) - z / x,), "Bessel function of the second kind of order 1", example="2.0 -> -0.1070..., 0.5638...")
scipy_row("erfcinv", (lambda x, z: -0.5 * ROOT_PI * L.exp(z * z),), "inverse of erfc", example="0.5 -> 0.4769..., -1.1125...")
scipy_row("jv", (None, _neighbours(L.jv, -1.0)), "Bessel function; the order is a constant", refused=_ORDER, example="2, 1.5 -> 0.2320..., 0.2484...")
scipy_row(
    "yv", (None, _neighbours(L.yv, -1.0)), "Bessel function of the second kind; the order is a constant",
    refused=_ORDER, example="2, 1.5 -> -0.9321..., 0.8306...",
)
scipy_row("iv", (None, _neighbours(L.iv, 1.0)), "modified Bessel function; the order is a constant", refused=_ORDER, example="2, 1.5 -> 0.3378..., 0.5312...")
scipy_row(
    "ive", (None, lambda v, x, z: _neighbours(L.ive, 1.0)(v, x, z) - L.sign(x) * z),
    "exp(-abs(x)) * iv(v, x); the order is a constant", refused=_ORDER, example="2, 1.5 -> 0.0753..., 0.0431...",
)
