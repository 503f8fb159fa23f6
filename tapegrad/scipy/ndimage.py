"""Filters of `scipy.ndimage` on tensors; every other name is SciPy's own."""

from __future__ import annotations

from operator import index

from ..common.public import only_public
from ..common.uninterrupted import Lazily
from .mirrors import MIRRORS, along, array, mirror, own_names

__all__ = list(MIRRORS["scipy.ndimage"])
__dir__ = only_public(__name__)
__getattr__ = own_names("scipy.ndimage")
_ndimage = Lazily("scipy.ndimage")


def _without_out(output, name):
    if output is not None:
        raise TypeError(f"{name} of tensors has no output=")


@mirror("scipy.ndimage")
def gaussian_filter1d(input, sigma, axis=-1, order=0, output=None, mode="reflect", cval=0.0, truncate=4.0, *, radius=None):
    """A Gaussian filter along an axis: SciPy's weights, as a constant sparse matrix."""
    _without_out(output, "gaussian_filter1d")
    return along(array(input), axis, lambda x: _ndimage.gaussian_filter1d(x, sigma, 0, order, None, mode, cval, truncate, radius=radius))


@mirror("scipy.ndimage")
def gaussian_filter(input, sigma, order=0, output=None, mode="reflect", cval=0.0, truncate=4.0, *, radius=None, axes=None):
    """A Gaussian filter along all axes or some, one after the other."""
    _without_out(output, "gaussian_filter")
    x = array(input)
    axes = range(x.ndim) if axes is None else [index(axis) % x.ndim for axis in (axes if isinstance(axes, (tuple, list)) else [axes])]

    def each(option):
        return option if isinstance(option, (tuple, list)) else [option] * len(axes)

    for axis, width, degree, how, reach in zip(axes, each(sigma), each(order), each(mode), each(radius), strict=True):
        if width > 1e-15:
            x = gaussian_filter1d(x, width, axis, degree, None, how, cval, truncate, radius=reach)
    return x
