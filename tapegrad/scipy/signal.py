"""Convolutions and filters of `scipy.signal` on tensors, real and complex; every other name is SciPy's own."""

import numpy as np

from ..array.complex import is_complex, lifted, refused
from ..common.errors import UnsupportedFunctionError
from ..common.uninterrupted import imported
from ..transforms.loops.api import scan
from .mirrors import along, array, mirror, names_of

__all__, __dir__, __getattr__ = names_of(__name__)


def _cut(full, mode, one, other, axes):
    """Of a convolution, behind which may be more, what `mode` asks for, for operands of these shapes."""
    if mode not in ("full", "same", "valid"):
        raise ValueError("acceptable mode flags are 'valid', 'same', or 'full'")
    longer = [np.sign(one[axis] - other[axis]) for axis in axes]
    if mode == "valid" and min(longer) < 0 < max(longer):
        raise ValueError("For 'valid' mode, one must be at least as large as the other in every dimension")
    window = [slice(None)] * full.ndim
    for axis in range(full.ndim) if mode == "same" else axes:
        whole = one[axis] + other[axis] - 1 if axis in axes else full.shape[axis]
        n = whole if mode == "full" else one[axis] if mode == "same" else abs(one[axis] - other[axis]) + 1
        start = (whole - n) // 2
        window[axis] = slice(start, start + n)
    return full[tuple(window)]


@mirror
def fftconvolve(in1, in2, mode="full", axes=None):
    """The convolution of two arrays by Fourier transforms, along all axes or some."""
    a, b = array(in1), array(in2)
    if a.ndim != b.ndim:
        raise ValueError("in1 and in2 should have the same dimensionality")
    axes = range(a.ndim) if axes is None else [axis % a.ndim for axis in np.atleast_1d(axes).astype(int).tolist()]
    if a.ndim == 0:
        return a * b
    if not axes or len(set(axes)) < len(axes):
        raise ValueError("axes must be some, each once")
    if a.size == 0 or b.size == 0:
        return np.zeros(0)
    whole = is_complex(a) or is_complex(b)
    fast = [imported("scipy.fft").next_fast_len(a.shape[axis] + b.shape[axis] - 1, not whole) for axis in axes]
    forward, back = (np.fft.fftn, np.fft.ifftn) if whole else (np.fft.rfftn, np.fft.irfftn)
    full = back(forward(a, fast, tuple(axes)) * forward(b, fast, tuple(axes)), fast, tuple(axes))
    return _cut(full, mode, a.shape, b.shape, axes)


@mirror
def oaconvolve(in1, in2, mode="full", axes=None):
    """As `fftconvolve`."""
    return fftconvolve(in1, in2, mode, axes)


@mirror
def convolve(in1, in2, mode="full", method="auto"):
    """The convolution of two arrays; of vectors directly unless `method` is "fft", of others by `fftconvolve`."""
    a, b = array(in1), array(in2)
    if method not in ("auto", "direct", "fft"):
        raise ValueError("Acceptable method flags are 'auto', 'direct', or 'fft'.")
    if a.ndim != 1 or b.ndim != 1 or method == "fft" or a.size == 0 or b.size == 0:
        return fftconvolve(a, b, mode)
    return _cut(np.convolve(a, b), mode, a.shape, b.shape, (0,))


@mirror
def correlate(in1, in2, mode="full", method="auto"):
    """The correlation of two arrays: the convolution with the conjugate of the second one, reversed."""
    return convolve(in1, np.conjugate(array(in2)[(slice(None, None, -1),) * np.ndim(in2)]), mode, method)


@mirror
def hilbert(x, N=None, axis=-1):
    """The analytic signal ``x + i H(x)`` of a real one."""
    x = array(x)
    if is_complex(x):
        raise ValueError("x must be real.")
    n = x.shape[axis] if N is None else N
    if n <= 0:
        raise ValueError("N must be positive.")
    # Twice the frequencies below the middle, and those that are their own negative.
    weights = 1.0 + np.sign(n - 2 * np.arange(n))
    weights[0] = 1.0
    turned = np.moveaxis(np.fft.fft(x, n, axis), axis, -1) * weights.astype(np.result_type(x.dtype, np.float32))
    return np.moveaxis(np.fft.ifft(turned), -1, axis)


@mirror
def lfilter(b, a, x, axis=-1, zi=None):
    """A recursive filter: ``a[0] y[n] = b[0] x[n] + b[1] x[n - 1] + ... - a[1] y[n - 1] - ...`` along an axis; differentiable in all three."""
    if zi is not None:
        raise UnsupportedFunctionError(
            "the filters of scipy.signal have no derivative rule in tapegrad with the argument zi=: put the signal before it in front of x, and cut it off"
        )
    b, a, x = np.atleast_1d(array(b)), np.atleast_1d(array(a)), np.moveaxis(array(x), axis, 0)
    if a[0] == 0:
        raise ValueError("lfilter: the first of the coefficients a is zero")
    b, a, n = b / a[0], a / a[0], len(x)
    # Behind x: what each coefficient is a factor of.
    delayed = [x if k == 0 else np.concatenate([np.zeros((min(k, n), *x.shape[1:])), x[: max(n - k, 0)]]) for k in range(len(b))]
    driven = sum(b[k] * delayed[k] for k in range(len(b)))
    order = len(a) - 1
    if order and n:
        past = np.zeros((order, *x.shape[1:])) + 0.0 * driven[:1]

        def iteration(past, now):
            y = now - sum(a[k + 1] * past[k] for k in range(order))
            return np.concatenate([np.reshape(y, (1, *np.shape(y))), past[:-1]]), y

        driven = scan(iteration, past + 0.0 * a[1], lifted(driven) if is_complex(past + 0.0 * a[1]) else driven)[1]
    return np.moveaxis(driven, 0, axis)


@mirror
def sosfilt(sos, x, axis=-1, zi=None):
    """A recursive filter in sections of second order, one after the other; differentiable in the sections and in the signal."""
    sos, x = array(sos), array(x)
    if sos.ndim != 2 or sos.shape[1] != 6:
        raise ValueError("sos array must be shape (n_sections, 6)")
    if np.any(sos[:, 3] != 1.0):
        raise ValueError("sos[:, 3] should be all ones")
    for k in range(sos.shape[0]):
        x = lfilter(sos[k, :3], sos[k, 3:], x, axis, zi)
    return x


@mirror
def savgol_filter(x, window_length, polyorder, deriv=0, delta=1.0, axis=-1, mode="interp", cval=0.0):
    """The filter of Savitzky and Golay: polynomials through windows, SciPy's weights as a constant sparse matrix; differentiable in the signal."""
    if is_complex(x := array(x)):
        # SciPy leaves the imaginary part out, and warns.
        raise refused("savgol_filter")
    return along(x, axis, lambda x: imported("scipy.signal").savgol_filter(x, window_length, polyorder, deriv, delta, 0, mode, cval))
