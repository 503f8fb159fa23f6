"""Rows of statistics and learning that are single nodes: softmax and cross-entropy.

Stable forms: Blanchard, Higham & Higham, "Accurately computing the log-sum-exp
and softmax functions", IMA J. Numer. Anal. 41 (2021).
"""

import math

import numpy as np

from ..common.errors import require
from . import lang as L
from . import shapes as S
from .reductions import inverse
from .shapes import added, of_one
from .table import structural


def _softmax_value(x, axis=-1):
    e = np.exp(x - np.maximum.reduce(x, axis, keepdims=True))
    return e / np.add.reduce(e, axis, keepdims=True)


def _log_softmax_value(x, axis=-1):
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
    jvp=of_one(_softmax_change),
    forward=_softmax_forward, node="Softmax", doc="exponentials normalised to sum 1 along an axis",
    shape=lambda x, axis=-1: (S.along(x, axis), S.floating(x)), effect="reduce",
)
structural(
    "log_softmax", 1, _log_softmax_value,
    lambda g, x, z, axis=-1: (g - L.times(g.sum(axis=axis, keepdims=True), L.exp(z)),),
    jvp=of_one(lambda t, x, z, axis=-1: t - L.times(t, L.exp(z)).sum(axis=axis, keepdims=True)), forward=_log_softmax_forward,
    node="LogSoftmax",
    doc="logarithm of softmax, accurate where softmax underflows",
    shape=lambda x, axis=-1: (S.along(x, axis), S.floating(x)), effect="reduce",
)


def _reduced(losses, reduction):
    """Losses, in NumPy or in a rule, or their sum or mean, as the attribute says."""
    total = losses if reduction == "none" else losses.sum()
    return total / float(losses.size) if reduction == "mean" else total


def _bce_value(x, y, reduction="mean"):
    loss = np.maximum(x, 0) - x * y + np.log1p(np.exp(-np.abs(x)))
    return np.mean(loss) if reduction == "mean" else _reduced(loss, reduction)


def _bce_shape(x, y, reduction="mean"):
    return np.broadcast_shapes(x.shape, y.shape) if reduction == "none" else (), S.floating(x, *(() if y.weak else (y,)))


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
    shape=_bce_shape, effect="reduce",
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
        g = g * (1.0 / index.size)
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
    "cross_entropy", 1, _cross_entropy_value, _cross_entropy_vjp, jvp=of_one(_cross_entropy_jvp),
    forward=_cross_entropy_forward,
    node="NllLoss", constants=(1,),
    doc="minus the log of the softmax of scores at the classes given, reduced by mean, sum or none",
    shape=_cross_entropy_shape, effect="reduce",
)
