"""Filters of `scipy.ndimage` on tensors; every other name is SciPy's own."""

import numpy as np

from ..array.functions.arguments import axis_tuple
from ..array.record import guard_on
from ..common.errors import UnsupportedFunctionError
from ..common.uninterrupted import Lazily
from ..numpy_api.products import all_finite
from .mirrors import along, array, in_dtype, mirror, names_of, weighted

__all__, __dir__, __getattr__ = names_of(__name__)
_ndimage = Lazily("scipy.ndimage")


def _without_out(output, name):
    if output is not None:
        raise TypeError(f"{name} of tensors has no output=")


@mirror
def gaussian_filter1d(input, sigma, axis=-1, order=0, output=None, mode="reflect", cval=0.0, truncate=4.0, *, radius=None):
    """A Gaussian filter along an axis: SciPy's weights, as a constant sparse matrix."""
    _without_out(output, "gaussian_filter1d")
    return along(array(input), axis, lambda x: _ndimage.gaussian_filter1d(x, sigma, 0, order, None, mode, cval, truncate, radius=radius))


@mirror
def gaussian_filter(input, sigma, order=0, output=None, mode="reflect", cval=0.0, truncate=4.0, *, radius=None, axes=None):
    """A Gaussian filter along all axes or some, one after the other."""
    _without_out(output, "gaussian_filter")
    x = array(input)
    axes = range(x.ndim) if axes is None else axis_tuple(axes, x.ndim)

    def each(option):
        return option if np.ndim(option) else [option] * len(axes)

    for axis, width, degree, how, reach in zip(axes, each(sigma), each(order), each(mode), each(radius), strict=True):
        if width > 1e-15:
            x = gaussian_filter1d(x, width, axis, degree, None, how, cval, truncate, radius=reach)
    return x


#: Offsets of the neighbours that a spline of some order takes, and their weights for a distance from the first of offset 0.
_WEIGHTS = {
    0: (0, lambda t: [1.0]),
    1: (0, lambda t: [1.0 - t, t]),
    2: (-1, lambda t: [0.5 * (0.5 - t) ** 2, 0.75 - t * t, 0.5 * (0.5 + t) ** 2]),
    3: (-1, lambda t: [(1.0 - t) ** 3 / 6.0, 2.0 / 3.0 - t * t * (2.0 - t) / 2.0, 2.0 / 3.0 - (1.0 - t) ** 2 * (1.0 + t) / 2.0, t**3 / 6.0]),
}
#: By mode: the period of positions along an axis of so many elements, and the sum of a position beyond the end and its image.
_FOLDED = {
    "reflect": lambda n: (2 * n, 2 * n - 1), "grid-mirror": lambda n: (2 * n, 2 * n - 1), "mirror": lambda n: (max(2 * n - 2, 1), 2 * n - 2),
    "grid-wrap": lambda n: (n, 0),
}  # fmt: skip
_MODES = (*_FOLDED, "constant", "grid-constant", "nearest")
#: By so many elements SciPy extends an array whose edge is repeated, before it computes the coefficients of splines.
_BESIDE = 12


@mirror
def map_coordinates(input, coordinates, output=None, order=3, mode="constant", cval=0.0, prefilter=True):
    """The values of `input` at `coordinates` (one row for each of its axes), between its elements by splines of order 0 to 3.

    Differentiable in both; M. Unser (1999) has the splines.
    """
    _without_out(output, "map_coordinates")
    x, at = array(input), array(coordinates)
    samples = x
    if order not in _WEIGHTS or mode not in _MODES or mode == "grid-constant" and order > 1:
        raise UnsupportedFunctionError(
            f"map_coordinates of tensors has order 0, 1, 2 or 3, not {order!r}, and the modes {', '.join(_MODES)} (grid-constant up to order 1), not {mode!r}"
        )
    if at.ndim < 1 or at.shape[0] != x.ndim:
        raise RuntimeError("invalid shape for coordinate array")
    if not guard_on(all_finite(), at):
        raise ValueError("map_coordinates: a coordinate is infinite or not a number")
    at, outside = [at[axis] for axis in range(x.ndim)], False
    for place, size in zip(at, x.shape) if mode == "constant" else ():
        outside = np.logical_or(outside, np.logical_or(place < 0.0, place > size - 1))
    if order > 1 and prefilter:
        if mode == "nearest":
            x, at = np.pad(x, _BESIDE, mode="edge"), [place + _BESIDE for place in at]
        for axis in range(x.ndim):
            if x.shape[axis] > 1:
                x = along(x, axis, lambda units: _ndimage.spline_filter1d(units, order, 0, np.float64, mode))
    if mode == "grid-constant":
        x, at = np.pad(x, 1, constant_values=cval), [place + 1.0 for place in at]
    found = weighted(x, [_neighbours(place, size, order, mode) for place, size in zip(at, x.shape)])
    return in_dtype(np.where(outside, cval, found) if mode == "constant" else found, samples)


def _neighbours(place, size, order, mode):
    """Along one axis, for each neighbour: its position and its weight."""
    folded = _FOLDED.get("mirror" if mode == "constant" and order > 1 else mode)

    def inside(at):
        if folded is None:
            return np.clip(at, 0.0, size - 1.0)
        period, both = folded(size)
        at = np.mod(at, period)
        return np.where(at >= size, both - at, at)

    # (Halfway between two elements the nearest is one of the image inside.)
    place = place if order else inside(place)
    first = np.floor(place if order % 2 else place + 0.5)
    begin, weights = _WEIGHTS[order]
    return [(inside(first + offset).astype(int), weight) for offset, weight in enumerate(weights(place - first), begin)]
