"""Functions of `scipy.special` that are not ufuncs; every other name is SciPy's own."""

import math
import operator

import numpy as np

from ..array import functions as F
from ..array.record import apply, guard_on, record_aux
from .mirrors import constant, mirror, names_of

__all__, __dir__, __getattr__ = names_of(__name__)


def _top(a, b, axes):
    """The largest entries whose factor is not zero."""
    return np.max(np.where(b != 0, a, -np.inf), axis=axes, keepdims=True, initial=-np.inf)


def _shift(a, b, axes):
    shift = _top(a, b, axes)
    return np.where(np.isfinite(shift), shift, 0.0).astype(a.dtype)


def _shares(a, b, result, axes):
    """The shares of the entries in a result that is infinite as they are; 0 elsewhere."""
    top = _top(a, b, axes)
    hits = np.where(np.isinf(top) & (result == top) & (a == top), b, 0.0)
    total = np.sum(hits, axis=axes, keepdims=True)
    return np.where(total == 0, 0.0, hits / np.where(total == 0, 1.0, total)).astype(a.dtype)


@mirror
def logsumexp(a, axis=None, b=None, keepdims=False, return_sign=False):
    """Log of the sum of exponentials, ``log(sum(b * exp(a)))``, without overflow.

    Parameters
    ----------
    a : Tensor or array-like
    axis : int or tuple of int, optional
        Axes to reduce; all by default.
    b : Tensor or array-like, optional
        Factors of the exponentials; they may be negative or zero.
    keepdims : bool
        Keep reduced axes with extent 1.
    return_sign : bool
        Also return the sign of the sum; the result is then the log of its absolute value.

    Returns
    -------
    Tensor, or a tuple of two; NumPy's for plain arguments
    """
    a = F.lift(a)
    if b is None:
        result = F.logsumexp(a, axis=axis, keepdims=keepdims)
        return (result, F.where(result == -np.inf, 0.0, np.ones_like(result))) if return_sign else result
    b = F.lift(b)
    shape = np.broadcast_shapes(a.shape, b.shape)
    a = F.broadcast_to(a, shape) if a.shape != shape else a
    axes = F.chosen_axes(a, axis, None)
    # Any shift gives the same value and derivative; terms with a zero factor do not count.
    shift = record_aux(lambda a, b: _shift(a, b, axes), a, b)
    # A factor of zero takes its term away, however large, or if it is NaN: the exponential must stay finite.
    top = 80.0 if a.dtype == np.float32 else 700.0
    terms = F.exp(F.where(record_aux(lambda b: b != 0, b), a - shift, np.fmin(a - shift, top)))
    total = F.sum(b * terms, axis=axis, keepdims=True)
    result = F.log(F.absolute(total) if return_sign else total) + shift
    if guard_on(lambda a, b: bool(np.isinf(_top(a, b, axes)).any()), a, b):
        shares = record_aux(lambda a, b, result: _shares(a, b, result, axes), a, b, result)
        shared = F.sum(F.where(record_aux(lambda s: s != 0, shares), a, 0.0) * shares, axis=axis, keepdims=True)
        result = F.where(record_aux(lambda s: np.any(s != 0, axis=axes, keepdims=True), shares), shared, result)
    if not keepdims:
        kept = np.sum(np.empty(shape), axis=axes).shape
        result, total = F.reshape(result, kept), F.reshape(total, kept)
    return (result, F.sign(total)) if return_sign else result


def _over_axes(row, x, axis):
    x = F.lift(x)
    if axis is None:
        return F.reshape(row(F.reshape(x, (-1,))), tuple(x.shape))
    if np.ndim(axis) == 0:
        return row(x, axis=axis)
    return None


@mirror
def softmax(x, axis=None):
    """Exponentials normalised to sum 1 over `axis` (an int, a tuple; all axes by default)."""
    result = _over_axes(F.softmax, x, axis)
    return F.exp(log_softmax(x, axis)) if result is None else result


@mirror
def log_softmax(x, axis=None):
    """Logarithm of `softmax`, accurate where that underflows."""
    result = _over_axes(F.log_softmax, x, axis)
    return x - F.logsumexp(x, axis=axis, keepdims=True) if result is None else result


@mirror
def polygamma(n, x):
    """The `n`-th derivative of digamma at positive `x`.

    Parameters
    ----------
    n : int or array-like of int
        Order, a constant; 0 is digamma itself.
    x : Tensor or array-like
    """
    n = constant(n, "polygamma", "n", "the order is an integer")
    if np.any(n < 0) or np.any(n != np.rint(n)):
        raise ValueError("polygamma() takes orders that are non-negative integers")
    if not n.any():
        x = F.lift(x)
        return F.digamma(F.broadcast_to(x, np.broadcast_shapes(n.shape, x.shape)) if n.ndim else x)
    if not n.all():
        return F.where(n == 0, F.digamma(x), polygamma(np.where(n == 0, 1, n), x))
    return apply("polygamma", (n.astype(float) if n.ndim else float(n), x))


@mirror
def multigammaln(a, d):
    """Log of the multivariate gamma function of dimension `d`, an int."""
    d = operator.index(d)
    if d < 1:
        raise ValueError("multigammaln() takes a positive dimension d")
    if np.any(a <= 0.5 * (d - 1)):
        raise ValueError(f"multigammaln() of dimension {d} takes numbers above {0.5 * (d - 1)}")
    return d * (d - 1) * 0.25 * math.log(math.pi) + sum(F.lgamma(a - 0.5 * j) for j in range(d))
