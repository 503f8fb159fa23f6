"""What names of `tapegrad.scipy` mean, on arrays of numbers of the reference: by their definitions, one number at a time.

What is linear in its data is the matrix that SciPy makes of unit vectors.
"""

from types import SimpleNamespace

import numpy as onp
import scipy.ndimage
import scipy.signal

from .duals import numpy


def by_matrix(function):
    """A filter, which is linear in its data."""

    def filtered(data, *args, **options):
        data = onp.asarray(data, object)
        return function(onp.eye(len(data)), *args, axis=0, **options).astype(object) @ data

    return filtered


def sosfilt(sos, data):
    return by_matrix(lambda units, axis: scipy.signal.sosfilt(onp.asarray(sos, float), units, axis=axis))(data)


def cdist(a, b, metric="euclidean"):
    found = onp.empty((len(a), len(b)), object)
    for i, one in enumerate(a):
        for j, other in enumerate(b):
            square = sum((u - v) * (u - v) for u, v in zip(one, other))
            found[i, j] = numpy.sqrt(square) if metric == "euclidean" else square
    return found


def hermite(knots, values, slopes):
    """The cubic between two knots each, with values and slopes there."""

    def at(x):
        found = onp.empty(onp.shape(x), object)
        for i, u in onp.ndenumerate(onp.asarray(x, object)):
            j = sum(bool(u >= knot) for knot in knots[1:-1])
            h = knots[j + 1] - knots[j]
            t = (u - knots[j]) / h
            found[i] = (
                values[j] * (1.0 + 2.0 * t) * (1.0 - t) ** 2 + h * slopes[j] * t * (1.0 - t) ** 2
                + values[j + 1] * t * t * (3.0 - 2.0 * t) + h * slopes[j + 1] * t * t * (t - 1.0)
            )  # fmt: skip
        return found

    return at


def pchip(knots, values):
    """Fritsch and Butland's slopes: a weighted harmonic mean inside, three points at the ends, as SciPy has them."""
    h, values = onp.diff(knots), onp.asarray(values, object)
    m = [(b - a) / step for a, b, step in zip(values, values[1:], h)]
    slopes = [0.0] * len(values)
    for k in range(1, len(values) - 1):
        if m[k - 1] * m[k] > 0.0:
            one, other = 2.0 * h[k] + h[k - 1], h[k] + 2.0 * h[k - 1]
            slopes[k] = (one + other) / (one / m[k - 1] + other / m[k])
    for end, (h0, h1, m0, m1) in ((0, (h[0], h[1], m[0], m[1])), (-1, (h[-1], h[-2], m[-1], m[-2]))):
        d = ((2.0 * h0 + h1) * m0 - h0 * m1) / (h0 + h1)
        if d * m0 <= 0.0:
            d = 0.0
        elif m0 * m1 < 0.0 and abs(d) > abs(3.0 * m0):
            d = 3.0 * m0
        slopes[end] = d
    return hermite(knots, values, slopes)


def grid_interpolator(points, values, bounds_error=True, fill_value=None):
    """Linear between the points of one axis, and beyond them."""
    (knots,) = points

    def at(where):
        found = onp.empty(len(where), object)
        for i, (u,) in enumerate(where):
            j = sum(bool(u >= knot) for knot in knots[1:-1])
            t = (u - knots[j]) / (knots[j + 1] - knots[j])
            found[i] = values[j] * (1.0 - t) + values[j + 1] * t
        return found

    return at


def map_coordinates(values, where, order):
    """Linear between elements."""
    return grid_interpolator((range(len(values)),), values)(where[0][:, None])


def bspline(t, c, k):
    """By de Boor's recursion."""

    def at(x):
        found = onp.empty(onp.shape(x), object)
        for i, u in onp.ndenumerate(onp.asarray(x, object)):
            j = k + sum(bool(u >= knot) for knot in t[k + 1 : -k - 1])
            d = list(c[j - k : j + 1])
            for r in range(1, k + 1):
                for m in range(k, r - 1, -1):
                    low, high = t[j - k + m], t[j + 1 + m - r]
                    d[m] = ((high - u) * d[m - 1] + (u - low) * d[m]) / (high - low)
            found[i] = d[k]
        return found

    return at


class Sparse:
    """A sparse matrix, as a dense one."""

    def __init__(self, parts, shape):
        data, columns, starts = parts
        self.dense = onp.zeros(shape, object)
        for i in range(shape[0]):
            for place in range(starts[i], starts[i + 1]):
                self.dense[i, columns[place]] += data[place]

    def __matmul__(self, x):
        return self.dense @ x


def spsolve(a, b):
    """By elimination without a choice of pivots: the matrices of programs have large diagonals."""
    a, b = a.dense.copy(), onp.array(b, object)
    for k in range(len(b)):
        for i in range(k + 1, len(b)):
            factor = a[i, k] / a[k, k]
            a[i], b[i] = a[i] - factor * a[k], b[i] - factor * b[k]
    for k in reversed(range(len(b))):
        b[k] = (b[k] - a[k, k + 1 :] @ b[k + 1 :]) / a[k, k]
    return b


def rosen(x):
    return sum(100.0 * (b - a * a) * (b - a * a) + (1.0 - a) * (1.0 - a) for a, b in zip(x, x[1:]))


scipy_names = SimpleNamespace(
    signal=SimpleNamespace(savgol_filter=by_matrix(scipy.signal.savgol_filter), sosfilt=sosfilt),
    ndimage=SimpleNamespace(map_coordinates=map_coordinates, gaussian_filter1d=by_matrix(scipy.ndimage.gaussian_filter1d)),
    spatial=SimpleNamespace(distance=SimpleNamespace(cdist=cdist)), optimize=SimpleNamespace(rosen=rosen),
    interpolate=SimpleNamespace(BSpline=bspline, PchipInterpolator=pchip, RegularGridInterpolator=grid_interpolator),
    sparse=SimpleNamespace(csr_array=Sparse, linalg=SimpleNamespace(spsolve=spsolve)),
)  # fmt: skip
