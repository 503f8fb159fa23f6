"""Reductions, products and scans: sums, extrema, moments, norms, softmax; products with an absolute zero and of matrices; cumulative sums and
products, first-order linear recurrences.

Ties of ``max``/``min`` share the derivative evenly; ``norm`` and ``std`` have
derivative 0 where their value is 0; ``prod`` is exact at zeros (products of the
other factors, by scans, not by division).

Softmax and cross-entropy are single nodes, in stable forms: Blanchard, Higham & Higham, "Accurately computing the log-sum-exp
and softmax functions", IMA J. Numer. Anal. 41 (2021).

Products of matrices are those of NumPy, with its rules for vectors and stacks; others are made of it (`array.functions.reductions`).
In a rule ``a @ b`` is the product of derivatives, in which zero is absolute (``docs/numerics.md``), and ``a.product(b)`` is
NumPy's.  The first is a row of its own, so that a derivative that is recorded keeps its zeros where it is replayed.

The derivative of a cumulative product is a linear recurrence, and that of a linear
recurrence another one, run the other way: O(n) for each line, without a division,
so exact where factors are zero.  ``b.recur(f, axis)`` is the recurrence
``y[k] = b[k] + f[k] * y[k - 1]`` of the rules' language; see `RuleArray.recur` for its
options.
"""

import math

import numpy as np

from ..common.errors import require
from . import lang as L
from . import shapes as S
from .elementwise import floats
from .shapes import added, axes_of
from .table import elementwise, structural


def spread(g, x, axis, keepdims):
    """`g`, the adjoint of a reduction of `x`, with the reduced axes put back (extent 1), where it would not broadcast without."""
    axes = axes_of(x, axis)
    return g if keepdims or not g.ndim or not axes else g.expand_dims(axes)


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
    jvp=lambda t, x, z, axis=None, keepdims=False: t.sum(axis, keepdims), linear=True, node="Sum", doc="sum over axes",
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
    jvp=lambda t, x, z, axis=None, keepdims=False: t.sum(axis, keepdims) * inverse(count_of(x, axis)),
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
        jvp=_extremum_jvp, forward=lambda x, axis=None, keepdims=False, name=_name: x.reduce(name, axis, keepdims),
        node=_name.capitalize(), doc=f"{_name}imum over axes; ties share the derivative evenly", silent=f"another element is the {_other}",
        shape=lambda x, axis=None, keepdims=False: (S.reduced(x, axis, keepdims), x.char), effect="reduce",
    )


def weighted(name, value, slope, *, doc, shape, forward):
    """Register a reduction whose tangent is the sum of the tangents times ``slope(x, z, **attrs)``."""

    def vjp(g, x, z, axis=None, keepdims=False, **attrs):
        return (L.times(spread(g, x, axis, keepdims), slope(x, z, axis=axis, keepdims=keepdims, **attrs)),)

    def jvp(t, x, z, axis=None, keepdims=False, **attrs):
        return L.times(t, slope(x, z, axis=axis, keepdims=keepdims, **attrs)).sum(axis, keepdims)

    structural(name, 1, value, vjp, jvp=jvp, forward=forward, node=name.capitalize(), doc=doc, shape=shape, effect="reduce")


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


def _std_slope(x, z, axis, keepdims, ddof=0):
    scale = L.select(L.eq(z, 0.0), 0.0, inverse(count_of(x, axis) - ddof) / z)
    return _centred(x, axis) * spread(scale, x, axis, keepdims)


weighted(
    "std", lambda x, axis=None, ddof=0, keepdims=False: np.std(x, axis=axis, ddof=ddof, keepdims=keepdims), _std_slope,
    forward=lambda x, axis=None, ddof=0, keepdims=False: L.sqrt(_var_forward(x, axis, ddof, keepdims)),
    doc="standard deviation over axes with `ddof`; derivative 0 where it is 0", shape=_float_shape,
)


def _without(x, axis, keepdims):
    """`x`, a result with its reduced axes kept, in the shape NumPy would give it."""
    return x if keepdims else x.reshape(S.reduced(x, axis))


def _norm_value(x, axis=None, keepdims=False):
    x = np.asarray(x)
    scale = np.maximum.reduce(np.abs(x), axis, keepdims=True, initial=0.0)
    safe = np.where((scale > 0) & np.isfinite(scale), scale, 1.0)
    root = safe * np.sqrt(np.add.reduce(np.square(x / safe), axis, keepdims=True))
    return _without(root, axis, keepdims)[()]


def _direction(x, z, axis, keepdims):
    z = spread(z, x, axis, keepdims)
    return L.select(L.eq(z, 0.0), 0.0, x / z)


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
    x = floats(x)
    top = np.maximum.reduce(x, axis, keepdims=True, initial=-np.inf)
    shift = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        result = np.log(np.add.reduce(np.exp(x - shift), axis, keepdims=True)) + shift
    return _without(result, axis, keepdims)[()]


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
    jvp=lambda t, x, z, axis=0: t.scan(axis), linear=True, node="Cumsum", doc="cumulative sum along an axis",
    shape=lambda x, axis=0: (S.along(x, axis), S.reduced_char(np.add, x.char)), effect="scan",
)


def _softmax_value(x, axis=-1):
    x = floats(x)
    e = np.exp(x - np.maximum.reduce(x, axis, keepdims=True))
    return e / np.add.reduce(e, axis, keepdims=True)


def _log_softmax_value(x, axis=-1):
    x = floats(x)
    shifted = x - np.maximum.reduce(x, axis, keepdims=True)
    return shifted - np.log(np.add.reduce(np.exp(shifted), axis, keepdims=True))


def _softmax_change(t, x, z, axis=-1):
    # The Jacobian is symmetric: the same for tangents and adjoints.
    return L.times(t - L.times(t, z).sum(axis=axis, keepdims=True), z)


def _softmax_forward(x, axis=-1):
    e = L.exp(x - x.reduce("max", axis, True))
    return e / e.sum(axis, True)


def _log_softmax_forward(x, axis=-1):
    shifted = x - x.reduce("max", axis, True)
    return shifted - L.log(L.exp(shifted).sum(axis, True))


structural(
    "softmax", 1, _softmax_value, lambda g, x, z, axis=-1: (_softmax_change(g, x, z, axis),),
    jvp=_softmax_change,
    forward=_softmax_forward, node="Softmax", doc="exponentials normalised to sum 1 along an axis",
    shape=lambda x, axis=-1: (S.along(x, axis), S.floating(x)), effect="reduce",
)
structural(
    "log_softmax", 1, _log_softmax_value,
    lambda g, x, z, axis=-1: (g - L.times(g.sum(axis=axis, keepdims=True), L.exp(z)),),
    jvp=lambda t, x, z, axis=-1: t - L.times(t, L.exp(z)).sum(axis=axis, keepdims=True), forward=_log_softmax_forward,
    node="LogSoftmax",
    doc="logarithm of softmax, accurate where softmax underflows",
    shape=lambda x, axis=-1: (S.along(x, axis), S.floating(x)), effect="reduce",
)


def _reduced(losses, reduction):
    """Losses, in NumPy or in a rule, or their sum or mean, as the attribute says."""
    total = losses if reduction == "none" else losses.sum()
    return total / float(losses.size) if reduction == "mean" else total


def _bce_value(x, y, reduction="mean"):
    x = floats(x)
    loss = np.maximum(x, 0) - x * y + np.log1p(np.exp(-np.abs(x)))
    return np.mean(loss) if reduction == "mean" else _reduced(loss, reduction)


def _bce_forward(x, y, reduction="mean"):
    loss = L.select(x > 0.0, x, L.select(L.isnan(x), x, 0.0)) - x * y + L.log1p(L.exp(-L.abs(x)))
    return _reduced(loss, reduction)


def _bce_vjp(g, x, y, z, reduction="mean"):
    shape = np.broadcast_shapes(x.shape, y.shape)
    if reduction == "mean":
        g = g * inverse(math.prod(shape))
    return L.times(g, L.sigmoid(x) - y).broadcast_to(shape), L.times(g, -x).broadcast_to(shape)


def _bce_jvp(tangents, x, y, z, reduction="mean"):
    to_x, to_y = tangents
    loss = added(None if to_x is None else L.times(to_x, L.sigmoid(x) - y), None if to_y is None else L.times(to_y, -x))
    return _reduced(loss.broadcast_to(np.broadcast_shapes(x.shape, y.shape)), reduction)


structural(
    "binary_cross_entropy_with_logits", 2, _bce_value, _bce_vjp, jvp=_bce_jvp, forward=_bce_forward, node="BinaryCrossEntropyWithLogits",
    doc="-y log s(x) - (1 - y) log(1 - s(x)) with s the sigmoid, reduced by mean, sum or none",
    shape=lambda x, y, reduction="mean": (np.broadcast_shapes(x.shape, y.shape) if reduction == "none" else (), S.floating(x, *(() if y.weak else (y,)))),
    effect="reduce",
)


def _cross_entropy_value(x, index, reduction="mean"):
    # Classes first, so that the reductions run along memory.
    logits = x.reshape(-1, x.shape[-1]).T.copy()
    top = np.maximum.reduce(logits, 0)
    logits -= top
    losses = np.log(np.add.reduce(np.exp(logits, logits), 0))
    taken = x.take(index)
    taken -= top
    losses -= taken
    return _reduced(losses.reshape(x.shape[:-1]), reduction)


def _cross_entropy_shape(x, index, reduction="mean"):
    require(S.taken(index, index.shape) == (x.size // max(x.shape[-1], 1),), f"classes {index.shape} of {x.shape}")
    return x.shape[:-1] if reduction == "none" else (), S.floating(x)


def _cross_entropy_forward(x, index, reduction="mean"):
    logits = x.reshape((index.size, x.shape[-1])).transpose([1, 0]).own()
    top = logits.reduce("max", 0)
    losses = L.log(L.exp(logits - top).sum(0)) - (x.gather(index, index.shape) - top)
    return losses.reshape(x.shape[:-1]) if reduction == "none" else _reduced(losses, reduction)


def _exponentials(x, index):
    """Of scores minus the largest, a line for each class that is given."""
    lines = x.reshape((index.size, x.shape[-1]))
    return L.exp(lines - lines.reduce("max", -1, keepdims=True))


def _cross_entropy_vjp(g, x, index, z, reduction="mean"):
    if reduction == "mean":
        g = g * inverse(index.size)
    e = _exponentials(x, index)
    share = g if reduction != "none" else g.reshape((index.size, 1))
    probability = e * (share / e.sum(axis=-1, keepdims=True))
    taken = (-g).broadcast_to(index.shape) if reduction != "none" else -g.reshape(index.shape)
    return ((probability.reshape(x.shape), taken.scatter(index, x.shape)),)


def _cross_entropy_jvp(t, x, index, z, reduction="mean"):
    e = _exponentials(x, index)
    probability = e / e.sum(axis=-1, keepdims=True)
    losses = L.times(t.reshape(e.shape), probability).sum(-1) - t.gather(index, (index.size,))
    return losses.reshape(z.shape) if reduction == "none" else _reduced(losses, reduction)


structural(
    "cross_entropy", 1, _cross_entropy_value, _cross_entropy_vjp, jvp=_cross_entropy_jvp,
    forward=_cross_entropy_forward,
    node="NllLoss", constants=(1,),
    doc="minus the log of the softmax of scores at the classes given, reduced by mean, sum or none",
    shape=_cross_entropy_shape, effect="reduce",
)


def absolute_product_value(g, p):
    """``g * p``, zero where either factor is; who runs it ignores floating-point errors."""
    product = np.multiply(g, p)
    # Plain multiplication does it unless something is not finite: then so is the sum.
    if math.isfinite(np.add.reduce(product, None)):
        return product
    return np.where(np.equal(g, 0) | np.equal(p, 0), product.dtype.type(0), product)


elementwise(
    "absolute_product", absolute_product_value, L.absolute_product, (lambda g, p, z: p, lambda g, p, z: g),
    node="AbsoluteMul", doc="x * y, zero where either factor is zero (even beside infinity)",
)


# ---- of matrices ------------------------------------------------------------------------------


def _times_vectors(a, x):
    """Matrices times a vector each."""
    return a @ x if a.ndim == 2 else (a @ x.expand_dims([x.ndim])).reshape(a.shape[:-1])


def _matmul_vjp(g, a, b, z):
    if a.ndim == 1 and b.ndim == 1:
        return L.times(g, b), L.times(g, a)
    if a.ndim == 1:
        # (k) @ (..., k, n) -> (..., n)
        return lambda: _times_vectors(b, g), lambda: L.times(g.expand_dims([g.ndim - 1]), a.expand_dims([1]))
    if b.ndim == 1:
        # (..., m, k) @ (k) -> (..., m)
        return lambda: L.times(g.expand_dims([g.ndim]), b), lambda: _times_vectors(a.swapaxes(-1, -2), g)
    return lambda: g @ b.swapaxes(-1, -2), lambda: a.swapaxes(-1, -2) @ g


def _matmul_jvp(tangents, a, b, z):
    to_a, to_b = tangents
    return added(None if to_a is None else to_a @ b, None if to_b is None else a @ to_b)


def _product_shape(a, b):
    return S.product(a, b), S.together(a, b)


structural(
    "matmul", 2, np.matmul, _matmul_vjp, jvp=_matmul_jvp, forward=lambda a, b: a.product(b), node="Mm", numpy=(np.matmul,),
    doc="matrix product with NumPy's broadcasting", shape=_product_shape, effect="product", silent="it is multiplied by 0",
)


def absolute_matmul_value(a, b):
    """``a @ b`` in which zero times anything is zero; who runs it ignores floating-point errors."""
    product = np.matmul(a, b)
    # BLAS knows no absolute zero; a result that is not finite is computed again.
    return product if np.isfinite(product).all() else _term_by_term(a, b)


def _term_by_term(a, b):
    if a.ndim == 1:
        return _term_by_term(a[None], b)[..., 0, :] if b.ndim > 1 else _term_by_term(a[None], b[:, None])[0, 0]
    if b.ndim == 1:
        return _term_by_term(a, b[:, None])[..., 0]
    return sum(absolute_product_value(a[..., :, k, None], b[..., None, k, :]) for k in range(a.shape[-1]))


structural(
    "absolute_matmul", 2, absolute_matmul_value, _matmul_vjp, jvp=_matmul_jvp, forward=lambda a, b: a @ b, node="AbsoluteMm",
    doc="matrix product in which zero times anything is zero (even beside infinity)", shape=_product_shape, effect="product",
)


# ---- along an axis ----------------------------------------------------------------------------


def _cumprod_vjp(g, x, z, axis=0):
    # The factors before x[i], times the sum over k >= i of g[k] and the factors between i and k.
    after = g.recur(x, axis, reverse=True, lag=True)
    return (L.times(after, x.scan(axis, "mul", exclusive=True)),)


structural(
    "cumprod", 1, lambda x, axis=0: np.cumprod(x, axis=axis), _cumprod_vjp,
    jvp=lambda t, x, z, axis=0: L.times(t, x.scan(axis, "mul", exclusive=True)).recur(x, axis),
    forward=lambda x, axis=0: x.scan(axis, "mul"), node="Cumprod",
    doc="cumulative product along an axis, exact where factors are zero",
    shape=lambda x, axis=0: (S.along(x, axis), S.reduced_char(np.multiply, x.char)), effect="scan",
)


def recurrence_value(b, f, axis=0, reverse=False, lag=False, exclusive=False):
    """The recurrence on plain arrays; see `RuleArray.recur`.  Only derivatives are made of it: zero is absolute."""
    b, f = np.broadcast_arrays(b, f)
    result = np.empty(b.shape, np.result_type(b, f))
    b, f, lines = (np.moveaxis(a, axis, 0) for a in (b, f, result))
    carry = np.zeros(b.shape[1:], result.dtype)
    for k in range(len(b))[:: -1 if reverse else 1]:
        total = b[k] + (carry if lag else absolute_product_value(f[k], carry))
        lines[k] = carry if exclusive else total
        carry = absolute_product_value(f[k], total) if lag else total
    return result


def _shifted(x, axis, reverse):
    """The element before each one in the direction of the recurrence; 0 for the first."""
    return x.recur(L.select(x > 0.0, 0.0, 0.0), axis, reverse=reverse, exclusive=True)


def _recurrence_vjp(g, b, f, z, axis=0, reverse=False, lag=False):
    back = g.recur(f, axis, reverse=not reverse, lag=not lag)
    if lag:
        return back, lambda: L.times(_shifted(back, axis, not reverse), z)
    return back, lambda: L.times(back, _shifted(z, axis, reverse))


def _recurrence_jvp(tangents, b, f, z, axis=0, reverse=False, lag=False):
    of_b, of_f = tangents
    if of_f is None:
        return of_b.recur(f, axis, reverse=reverse, lag=lag)
    moved = _shifted(L.times(of_f, z), axis, reverse) if lag else L.times(of_f, _shifted(z, axis, reverse))
    return (moved if of_b is None else of_b + moved).recur(f, axis, reverse=reverse, lag=lag)


def _recurrence_shape(b, f, axis=0, reverse=False, lag=False):
    shape = np.broadcast_shapes(b.shape, f.shape)
    require(-len(shape) <= axis < len(shape), f"the axis {axis} of {len(shape)}")
    return shape, S.together(b, f)


structural(
    "recurrence", 2, recurrence_value, _recurrence_vjp, jvp=_recurrence_jvp,
    forward=lambda b, f, axis=0, reverse=False, lag=False: b.recur(f, axis, reverse=reverse, lag=lag), node="Recurrence",
    doc="y[k] = b[k] + f[k] * y[k - 1] along an axis; with `lag` the factor is f[k - 1]", shape=_recurrence_shape, effect="scan",
)
