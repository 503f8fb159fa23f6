"""Reductions and scans: sums, extrema, moments, norms, cumulative sums.

Ties of ``max``/``min`` share the derivative evenly; ``norm`` and ``std`` have
derivative 0 where their value is 0; ``prod`` is exact at zeros (products of the
other factors, by scans, not by division).
"""

import math

import numpy as np

from . import lang as L
from . import shapes as S
from .shapes import axes_of, of_one
from .table import structural


def spread(g, x, axis, keepdims):
    """`g`, the adjoint of a reduction of `x`, with the reduced axes put back (extent 1)."""
    if keepdims or axis is None and g.ndim == 0 and x.ndim == 0:
        return g
    axes = axes_of(x, axis)
    return g.expand_dims(axes) if axes else g


def count_of(x, axis):
    """The number of elements that a reduction over `axis` combines."""
    return math.prod(x.shape[a] for a in axes_of(x, axis))


def _float_shape(x, axis=None, keepdims=False, ddof=0):
    return S.reduced(x, axis, keepdims), S.floating(x)


def inverse(count):
    """``1 / count``; NaN for nothing to divide by, as NumPy's moments of too few elements."""
    return 1.0 / count if count > 0 else math.nan


structural(
    "sum", 1, lambda x, axis=None, keepdims=False: np.add.reduce(x, axis, keepdims=keepdims),
    lambda g, x, z, axis=None, keepdims=False: (spread(g, x, axis, keepdims).broadcast_to(x.shape),),
    jvp=of_one(lambda t, x, z, axis=None, keepdims=False: t.sum(axis, keepdims)), linear=True, node="Sum", doc="sum over axes",
    shape=lambda x, axis=None, keepdims=False: (S.reduced(x, axis, keepdims), S.reduced_char(np.add, x.char)), effect="reduce",
)


def _mean_value(x, axis=None, keepdims=False):
    # What np.mean does for floats, without its overhead.
    x = np.asarray(x)
    if x.dtype.kind != "f" or x.size == 0:
        return np.mean(x, axis=axis, keepdims=keepdims)
    return np.add.reduce(x, axis, keepdims=keepdims) / count_of(x, axis)


structural(
    "mean", 1, _mean_value,
    lambda g, x, z, axis=None, keepdims=False: (spread(g * inverse(count_of(x, axis)), x, axis, keepdims).broadcast_to(x.shape),),
    jvp=of_one(lambda t, x, z, axis=None, keepdims=False: t.sum(axis, keepdims) * inverse(count_of(x, axis))),
    forward=lambda x, axis=None, keepdims=False: x.sum(axis, keepdims) / float(count_of(x, axis)),
    node="Mean", doc="arithmetic mean over axes", shape=_float_shape, effect="reduce",
)


def _hits(x, z, axis, keepdims):
    """Where `x` takes its extremum, and how often."""
    # A result that is NaN comes from the elements that are NaN.
    hit = L.eq(x, spread(z, x, axis, keepdims)) | L.isnan(x)
    return hit, L.select(hit, 1.0, 0.0).sum(axis=axis, keepdims=True)


def _extremum_vjp(g, x, z, axis=None, keepdims=False):
    hit, count = _hits(x, z, axis, keepdims)
    return (L.select(hit, spread(g, x, axis, keepdims) / count, 0.0),)


def _extremum_jvp(t, x, z, axis=None, keepdims=False):
    hit, count = _hits(x, z, axis, keepdims)
    return L.select(hit, t / count, 0.0).sum(axis, keepdims)


for _name, _ufunc, _other in (("max", np.maximum, "largest"), ("min", np.minimum, "smallest")):
    structural(
        _name, 1, lambda x, axis=None, keepdims=False, ufunc=_ufunc: ufunc.reduce(x, axis, keepdims=keepdims), _extremum_vjp,
        jvp=of_one(_extremum_jvp), forward=lambda x, axis=None, keepdims=False, name=_name: x.reduce(name, axis, keepdims),
        node=_name.capitalize(), doc=f"{_name}imum over axes; ties share the derivative evenly", silent=f"another element is the {_other}",
        shape=lambda x, axis=None, keepdims=False: (S.reduced(x, axis, keepdims), x.char), effect="reduce",
    )


def weighted(name, value, slope, *, doc, shape, forward):
    """Register a reduction whose tangent is the sum of the tangents times ``slope(x, z, **attrs)``."""

    def vjp(g, x, z, axis=None, keepdims=False, **attrs):
        return (L.times(spread(g, x, axis, keepdims), slope(x, z, axis=axis, keepdims=keepdims, **attrs)),)

    def jvp(t, x, z, axis=None, keepdims=False, **attrs):
        return L.times(t, slope(x, z, axis=axis, keepdims=keepdims, **attrs)).sum(axis, keepdims)

    structural(name, 1, value, vjp, jvp=of_one(jvp), forward=forward, node=name.capitalize(), doc=doc, shape=shape, effect="reduce")


def _other_factors(x, z, axis, keepdims):
    """The product of all factors but each one."""
    axes = axes_of(x, axis)
    rest = [k for k in range(x.ndim) if k not in axes]
    order = (*rest, *axes)
    front = [x.shape[k] for k in rest]
    lines = x.transpose(order).reshape((*front, count_of(x, axis)))
    others = lines.scan(-1, "mul", exclusive=True) * lines.scan(-1, "mul", reverse=True, exclusive=True)
    return others.reshape([x.shape[k] for k in order]).transpose(np.argsort(order).tolist())


weighted(
    "prod", lambda x, axis=None, keepdims=False: np.prod(x, axis=axis, keepdims=keepdims), _other_factors,
    forward=lambda x, axis=None, keepdims=False: x.reduce("mul", axis, keepdims), doc="product over axes, exact where factors are zero",
    shape=lambda x, axis=None, keepdims=False: (S.reduced(x, axis, keepdims), S.reduced_char(np.multiply, x.char)),
)


def _centred(x, axis):
    return x - x.sum(axis=axis, keepdims=True) * inverse(count_of(x, axis))


def _var_forward(x, axis=None, ddof=0, keepdims=False):
    count = count_of(x, axis)
    rest = x - x.sum(axis, True) / float(count)
    return (rest * rest).sum(axis, keepdims) / float(max(count - ddof, 0))


weighted(
    "var", lambda x, axis=None, ddof=0, keepdims=False: np.var(x, axis=axis, ddof=ddof, keepdims=keepdims),
    lambda x, z, axis, keepdims, ddof=0: _centred(x, axis) * (2.0 * inverse(count_of(x, axis) - ddof)),
    forward=_var_forward, doc="variance over axes with `ddof`", shape=_float_shape,
)


def _std_forward(x, axis=None, ddof=0, keepdims=False):
    return L.sqrt(_var_forward(x, axis, ddof, keepdims))


def _std_slope(x, z, axis, keepdims, ddof=0):
    scale = L.select(L.eq(z, 0.0), 0.0, inverse(count_of(x, axis) - ddof) / z)
    return _centred(x, axis) * spread(scale, x, axis, keepdims)


weighted(
    "std", lambda x, axis=None, ddof=0, keepdims=False: np.std(x, axis=axis, ddof=ddof, keepdims=keepdims), _std_slope,
    forward=_std_forward, doc="standard deviation over axes with `ddof`; derivative 0 where it is 0", shape=_float_shape,
)


def _reduced_value(result, x, axis, keepdims):
    """A result with its reduced axes kept, as NumPy would give it."""
    return result if keepdims else result.reshape(S.reduced(x, axis))[()]


def _norm_value(x, axis=None, keepdims=False):
    x = np.asarray(x)
    scale = np.maximum.reduce(np.abs(x), axis, keepdims=True, initial=0.0)
    safe = np.where((scale > 0) & np.isfinite(scale), scale, 1.0)
    root = safe * np.sqrt(np.add.reduce(np.square(x / safe), axis, keepdims=True))
    return _reduced_value(root, x, axis, keepdims)


def _direction(x, z, axis, keepdims):
    z = spread(z, x, axis, keepdims)
    return L.select(L.eq(z, 0.0), 0.0, x / z)


def _without(x, axis, keepdims):
    """`x`, a result with its reduced axes kept, in the shape NumPy would give it."""
    axes = axes_of(x, axis)
    return x if keepdims else x.reshape([n for k, n in enumerate(x.shape) if k not in axes])


def _norm_forward(x, axis=None, keepdims=False):
    scale = L.abs(x).reduce("max", axis, True)
    safe = L.select((scale > 0.0) & (scale < math.inf), scale, 1.0)
    part = x / safe
    return _without(safe * L.sqrt((part * part).sum(axis, True)), axis, keepdims)


weighted(
    "norm", _norm_value, _direction, forward=_norm_forward,
    doc="Euclidean norm over axes, scaled against overflow; derivative 0 at 0", shape=_float_shape,
)


def _logsumexp_value(x, axis=None, keepdims=False):
    x = np.asarray(x)
    top = np.maximum.reduce(x, axis, keepdims=True, initial=-np.inf)
    shift = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        result = np.log(np.add.reduce(np.exp(x - shift), axis, keepdims=True)) + shift
    return _reduced_value(result, x, axis, keepdims)


def _shares(x, z, axis, keepdims):
    z = spread(z, x, axis, keepdims)
    # What equals the result has all of it; it is infinite, or too large for the logarithm of their number, where several do.
    hit = L.eq(x, z)
    return L.select(hit, 1.0 / L.select(hit, 1.0, 0.0).sum(axis=axis, keepdims=True), L.exp(x - z))


def _logsumexp_forward(x, axis=None, keepdims=False):
    top = x.reduce("max", axis, True)
    shift = L.select(L.abs(top) < math.inf, top, 0.0)
    return _without(L.log(L.exp(x - shift).sum(axis, True)) + shift, axis, keepdims)


weighted(
    "logsumexp", _logsumexp_value, _shares, forward=_logsumexp_forward,
    doc="log of the sum of exponentials over axes, without overflow", shape=_float_shape,
)


structural(
    "cumsum", 1, lambda x, axis=0: np.cumsum(x, axis=axis), lambda g, x, z, axis=0: (g.scan(axis, "add", reverse=True),),
    jvp=of_one(lambda t, x, z, axis=0: t.scan(axis)), linear=True, node="Cumsum", doc="cumulative sum along an axis",
    shape=lambda x, axis=0: (S.along(x, axis), S.reduced_char(np.add, x.char)), effect="scan",
)
