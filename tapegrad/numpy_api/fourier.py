"""``np.fft`` on tensors, real and complex: the row `fourier` between paddings, factors and shifts."""

import math
import operator
from functools import partial

import numpy as np

from ..array.complex import FUNCTIONS as COMPLEX
from ..array.complex import ComplexTensor, conjugate, lifted, parts_of
from ..array.record import apply
from .dispatch import FUNCTIONS, refuse

#: What stands for a norm where a transform is computed as one the other way.
_OTHER = {None: "forward", "backward": "forward", "ortho": "ortho", "forward": "backward"}


def _factor(count, forward, norm):
    if norm not in _OTHER:
        raise ValueError(f'Invalid norm value {norm}; should be "backward", "ortho" or "forward".')
    if norm == "ortho":
        return 1.0 / math.sqrt(count)
    return 1.0 / count if forward == (norm == "forward") else 1.0


def _row(x, axes, forward, source, target, n=0, twofold=False):
    attrs = (("axes", axes), ("forward", forward), ("source", source), ("target", target), ("n", n), ("twofold", twofold))
    return apply("fourier", (x,), attrs)


def _fitted(x, n, axis):
    """`x` with `n` elements along an axis: without the last ones, or with zeros behind."""
    if n is None or n == -1 or n == x.shape[axis]:
        return x
    n = operator.index(n)
    if n < 1:
        raise ValueError(f"Invalid number of FFT data points ({n}) specified.")
    if n < x.shape[axis]:
        return x[(slice(None),) * (axis % x.ndim) + (slice(0, n),)]
    shape = list(x.shape)
    shape[axis] = n - shape[axis]
    return np.concatenate([x, np.zeros(shape, x.real.dtype if isinstance(x, ComplexTensor) else x.dtype)], axis)


def _tensor(a):
    a = lifted(a)
    return a.real if parts_of(a)[1] is None else a


def _complex_transform(x, axes, forward, norm):
    """The transform along axes of a real or complex tensor."""
    axes = tuple(axis if axis < 0 else axis - x.ndim for axis in axes)
    count = math.prod(x.shape[axis] for axis in axes)
    whole = isinstance(x, ComplexTensor)
    packed = _row(np.stack([x.real, x.imag], -1) if whole else x, axes, forward, "complex" if whole else "real", "complex")
    return _unpacked(packed, _factor(count, forward, norm))


def _unpacked(packed, factor):
    packed = packed if factor == 1.0 else packed * factor
    return ComplexTensor(packed[..., 0], packed[..., 1])


def _half_transform(x, n, axis, norm):
    """The frequencies of a real signal that tell the others."""
    if isinstance(x, ComplexTensor):
        raise TypeError("a transform of real signals (rfft, ihfft) was called with a complex one; give its real part, or call fft")
    x = np.moveaxis(_fitted(x, n, axis), axis, -1)
    n = x.shape[-1]
    return np.moveaxis(_unpacked(_row(x, (-1,), True, "real", "half", n), _factor(n, True, norm)), -1, axis)


def _signal(x, n, axis, norm):
    """The real signal of such frequencies."""
    x = lifted(x)
    n = 2 * (x.shape[axis] - 1) if n is None else operator.index(n)
    if n < 1:
        raise ValueError(f"Invalid number of FFT data points ({n}) specified.")
    x = np.moveaxis(_fitted(x, n // 2 + 1, axis), axis, -1)
    signal = _row(np.stack([x.real, x.imag], -1), (-1,), False, "half", "real", n, True)
    factor = _factor(n, False, norm)
    return np.moveaxis(signal if factor == 1.0 else signal * factor, -1, axis)


def _axes_of(x, s, axes):
    """Extents and axes of a transform along several, as NumPy reads them."""
    if axes is None:
        axes = range(x.ndim) if s is None else range(-len(s), 0)
    axes = [operator.index(axis) for axis in axes]
    s = [None] * len(axes) if s is None else list(s)
    if len(s) != len(axes):
        raise ValueError("Shape and axes have different lengths.")
    return s, axes


def _whole(forward, a, s=None, axes=None, norm=None):
    x = _tensor(a)
    s, axes = _axes_of(x, s, axes)
    for n, axis in zip(s, axes):
        x = _fitted(x, n, axis)
    if len({axis % x.ndim for axis in axes}) < len(axes):
        for axis in reversed(axes):
            x = _complex_transform(x, (axis,), forward, norm)
        return x
    return _complex_transform(x, axes, forward, norm) if axes else lifted(x)


def _half(a, s=None, axes=None, norm=None):
    x = _tensor(a)
    s, axes = _axes_of(x, s, axes)
    return _whole(True, _half_transform(x, s[-1], axes[-1], norm), s[:-1], axes[:-1], norm)


def _real(a, s=None, axes=None, norm=None):
    x = lifted(a)
    s, axes = _axes_of(x, s, axes)
    return _signal(_whole(False, x, s[:-1], axes[:-1], norm), s[-1], axes[-1], norm)


def _in_plane(transform):
    return lambda a, s=None, axes=(-2, -1), norm=None: transform(a, s, axes, norm)


def _in_line(transform):
    return lambda a, n=None, axis=-1, norm=None: transform(a, None if n is None else (n,), (axis,), norm)


_OF_SEVERAL = {"fft": partial(_whole, True), "ifft": partial(_whole, False), "rfft": _half, "irfft": _real}
#: The functions of ``np.fft`` by name; those of ``scipy.fft`` are the same.
TRANSFORMS = {
    name + suffix: how(transform) for suffix, how in (("", _in_line), ("2", _in_plane), ("n", lambda f: f)) for name, transform in _OF_SEVERAL.items()
} | {
    "hfft": lambda a, n=None, axis=-1, norm=None: TRANSFORMS["irfft"](conjugate(a), n, axis, _OTHER[norm]),
    "ihfft": lambda a, n=None, axis=-1, norm=None: conjugate(TRANSFORMS["rfft"](a, n, axis, _OTHER[norm])),
}  # fmt: skip


def _of_numpy(function, ours):
    def call(*args, out=None, **kwargs):
        if out is not None:
            raise refuse(function, " with the argument out=")
        return ours(*args, **kwargs)

    return call


for _name, _ours in TRANSFORMS.items():
    _function = getattr(np.fft, _name)
    FUNCTIONS[_function] = COMPLEX[_function] = _of_numpy(_function, _ours)
