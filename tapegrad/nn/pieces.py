"""What rows of PyTorch's names are made of (`names`), where an expression would be too long."""

import numpy as np

from ..array import creation
from ..array import functions as F
from ..array.differentiable import Differentiable
from ..array.functions import lift
from ..array.record import trace_of
from ..array.typing import Extremes
from ..common.errors import GradientError, OptionError, ShapeError
from ..tape.store import thread_state


def with_axes(x, ndim):
    """`x` as a tensor, which has to have so many axes."""
    x = lift(x)
    if x.ndim != ndim:
        raise ShapeError(f"an array with {ndim} axes is needed here, this one has shape {tuple(x.shape)}")
    return x


def classes(index, count):
    """Numbers of classes; NumPy would count negative ones from the end."""
    if np.any(np.less(index, 0)) or np.any(np.greater_equal(index, count)):
        raise IndexError(f"a class outside 0 .. {count - 1}")
    return index


def along(x, dim, index):
    """The key of positions `index` along an axis."""
    return (slice(None),) * F.axis_index(dim, x.ndim) + (_positions(index),)


def grid(x, dim, index):
    """The key of the elements that `index`, an array with the axes of `x`, picks along `dim`."""
    index, dim = _positions(index), F.axis_index(dim, x.ndim)
    if index.ndim != x.ndim or any(n > m for k, (n, m) in enumerate(zip(index.shape, x.shape)) if k != dim):
        raise ShapeError(f"index of shape {tuple(index.shape)} picks along axis {dim} of an array of shape {tuple(x.shape)}: other axes may not be longer")
    key = list(np.ogrid[tuple([slice(n) for n in index.shape])])
    key[dim] = index
    return tuple(key)


def _positions(index):
    index = index if isinstance(index, Differentiable) else np.asarray(index)
    if np.any(np.less(index, 0)):
        raise IndexError("positions are counted from 0 here, as in PyTorch; a negative one is out of range")
    return index


def put(x, key, value, add=False):
    """A copy of `x` with a value set, or added, at `key`."""
    result = F.clone(x)
    if add:
        np.add.at(result, key, value)
    else:
        result[key] = value
    return result


def topmost(x, k, dim, largest):
    """The `k` largest or smallest elements, from the outermost on."""
    order = np.argsort(x, dim)
    indices = np.take(np.flip(order, dim) if largest else order, range(k), dim)
    return Extremes(np.take_along_axis(x, indices, dim), indices)


def to(x, *kinds, copy=False):
    """`x` in another dtype, or in that of another tensor."""
    for kind in kinds:
        if isinstance(kind, str) and kind.startswith("cuda"):
            raise OptionError("there is no GPU here; leave .to('cuda') out")
        if kind is not None and kind != "cpu":
            x = F.astype(x, kind.dtype if isinstance(kind, Differentiable) else kind, copy=False)
    return F.clone(x) if copy else x


def alike(target, input):
    """`target`, which has to have the shape of `input`."""
    if np.shape(target) != tuple(input.shape):
        raise ShapeError(f"target has shape {np.shape(target)}, input has {tuple(input.shape)}; give one target for each number")
    return target


def floored(x, least):
    """`x`, not below `least`, with the derivative of `x`: PyTorch bounds it under ``no_grad``."""
    return x + (F.clip(x, least) - x).detach()


def bounded_log(log, x, pole):
    """``log(x)``, at least -100; next to its pole with the slope 1e12, by which PyTorch pulls probabilities of 0 and 1 away."""
    x = lift(x)
    near = x - pole <= 1e-12
    return np.where(near, F.clip(log(x.detach()), -100.0) + (x - x.detach()) * 1e12, log(np.where(near, pole + 1.0, x)))


def of_rows(x, input):
    """`x`, which has the shape of `input`, or a number for each of its rows."""
    x = lift(x)
    return F.expand_dims(x, -1) if x.ndim and tuple(x.shape) == tuple(input.shape[:-1]) else x


def kept(x, p):
    """Each element with probability ``1 - p``, else 0; scaled so that the mean stays."""
    if not 0.0 <= p <= 1.0:
        raise OptionError(f"p={p!r} must be from 0 to 1")
    recordings = [tape.store.trace for tape in thread_state().tapes]
    # (Without an argument of its own in `x` a recording keeps the mask all the same; one that is used once may.)
    trace = trace_of((x,)) or next((trace for trace in reversed(recordings) if trace is not None and not trace.once), None)
    if trace is not None:
        # Recorded, it would be one mask for ever: the function is run plainly.
        trace.cannot = "dropout draws other numbers at every call"
        raise GradientError(f"{trace.cannot}, which a recording does not; call the function without tg.jit")
    mask = np.asarray(creation.rand(*x.shape)._v) >= p
    return F.where(mask, x / (1.0 - p), 0.0) if p < 1.0 else x * 0.0


def standardised(x, shape, weight, bias, eps):
    """`x` with mean 0 and variance 1 over its last axes, of `shape`; times weights, plus biases."""
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    if tuple(x.shape[x.ndim - len(shape) :]) != shape:
        raise ShapeError(f"the last axes of an array of shape {tuple(x.shape)} are not {shape}")
    axes = tuple(range(-len(shape), 0))
    result = (x - F.mean(x, axes, True)) / F.sqrt(F.var(x, axes, keepdims=True) + eps)
    result = result if weight is None else result * weight
    return result if bias is None else result + bias


def huber(d, delta):
    """The square of small differences, halved, and straight lines for large ones."""
    if delta <= 0:
        raise OptionError(f"the difference from which a Huber loss is straight must be positive, not {delta}")
    size = F.abs(d)
    return F.where(size <= delta, 0.5 * d * d, delta * (size - 0.5 * delta))


def check_reduction(reduction):
    """Raise for what is no reduction of losses."""
    if reduction not in ("mean", "sum", "none"):
        raise OptionError(f"reduction must be 'mean', 'sum' or 'none', not {reduction!r}")


def reduced(losses, reduction):
    """Losses as they are, or their sum or mean."""
    check_reduction(reduction)
    return losses if reduction == "none" else losses.sum() if reduction == "sum" else losses.mean()
