"""Distances of `scipy.spatial.distance` on tensors; every other name is SciPy's own."""

import numpy as np

from ...common.errors import UnsupportedFunctionError
from ...common.uninterrupted import imported
from ..mirrors import array, mirror, names_of

__all__, __dir__, __getattr__ = names_of(__name__)

#: By metric: the distances of differences (along the last axis). That of a point from itself has derivative 0.
_OF_DIFFERENCES = {
    "euclidean": lambda d: np.linalg.norm(d, axis=-1), "sqeuclidean": lambda d: np.sum(d * d, axis=-1),
    "cityblock": lambda d: np.sum(np.abs(d), axis=-1), "chebyshev": lambda d: np.max(np.abs(d), axis=-1),
    "minkowski": lambda d, p=2: np.linalg.norm(d, p, axis=-1),
}  # fmt: skip


def _distances(a, b, metric, out, options):
    # (A function of the user's may have such a name, too.)
    named = getattr(metric, "__name__", "")
    metric = named if metric is getattr(imported("scipy.spatial.distance"), named, None) else metric
    if out is not None:
        raise UnsupportedFunctionError("distances of tensors have no out=")
    if options.get("p") == 0:
        raise ValueError("p must not be 0")
    if metric not in _OF_DIFFERENCES or options and (metric != "minkowski" or set(options) != {"p"}):
        said = "".join(f", {name}=" for name in options)
        raise UnsupportedFunctionError(f"distances of tensors have the metrics {', '.join(_OF_DIFFERENCES)}, not {metric!r}{said}")
    return _OF_DIFFERENCES[metric](a - b, **options)


@mirror
def cdist(XA, XB, metric="euclidean", *, out=None, **kwargs):
    """The distances between two sets of points, (m, n) for points (m, k) and (n, k); differentiable in both."""
    a, b = array(XA), array(XB)
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[1]:
        raise ValueError(f"cdist takes two sets of points of one dimension, not arrays of shapes {tuple(a.shape)} and {tuple(b.shape)}")
    return _distances(np.expand_dims(a, 1), np.expand_dims(b, 0), metric, out, kwargs)


@mirror
def pdist(X, metric="euclidean", *, out=None, **kwargs):
    """The distances between the points of one set (m, k), each pair once, in the order of SciPy's."""
    x = array(X)
    if x.ndim != 2:
        raise ValueError("A 2-dimensional array must be passed.")
    first, second = np.triu_indices(x.shape[0], 1)
    return _distances(x[first], x[second], metric, out, kwargs)
