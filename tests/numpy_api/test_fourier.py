"""Fourier transforms of NumPy and SciPy, and what is computed by them."""

import numpy as np
import pytest

import tapegrad as tg
import tapegrad.scipy.fft
import tapegrad.scipy.signal as signal
from tests.numpy_api.complex_checks import array, compare, real

NORMS = ("backward", "ortho", "forward")


@pytest.mark.parametrize("n", [None, 4, 7])
@pytest.mark.parametrize("name", "fft ifft rfft irfft hfft ihfft".split())
def test_along_one_axis(name, n):
    f, norm = getattr(np.fft, name), NORMS[(n or 0) % 3]
    if name not in ("rfft", "ihfft"):
        compare(lambda z: f(z, n, norm=norm), array(6), kernel=n == 4)
        compare(lambda z: f(z, n, axis=0, norm=norm), array(6, 2), second=False)
    compare(lambda x: f(x, n, norm=norm), real(7), kernel=n == 4)
    compare(lambda x: f(x, n, axis=0, norm=norm), real(5, 2), second=False)


@pytest.mark.parametrize("name", "fft2 ifft2 fftn ifftn rfft2 irfft2 rfftn irfftn".split())
def test_along_several_axes(name):
    f, make = getattr(np.fft, name), real if name.startswith("r") else array
    compare(f, make(3, 4))
    compare(lambda z: f(z, (4, 3), axes=(0, 2), norm="ortho"), make(3, 2, 4), second=False)
    if make is array:
        compare(f, real(3, 4), second=False)


@pytest.mark.parametrize("name", tapegrad.scipy.fft.__all__)
def test_scipys_names(name):
    f = getattr(tapegrad.scipy.fft, name)
    make = real if name.startswith("r") or name == "ihfft" else array
    shape = (3, 4) if name[-1] in "2n" else (5,)
    compare(lambda z: f(z, norm="ortho"), make(*shape), second=False)
    compare(lambda z: f(z, (4, 5) if len(shape) == 2 else 7), make(*shape), second=False)


def test_shifts_frequencies_and_single_precision():
    compare(lambda z: np.fft.ifftshift(np.fft.fftshift(np.fft.fft(z)) * np.fft.fftfreq(6)), array(6))
    single = tg.tensor(array(4).astype(np.complex64), requires_grad=True)
    spectrum = np.fft.fft(single)
    assert spectrum.dtype == np.complex64
    np.abs(spectrum).sum().backward()
    assert single.grad.dtype == np.complex64
    assert np.fft.rfft(tg.tensor(np.ones(4, "f"))).dtype == np.complex64


def test_the_adjoint_is_one_transform():
    g = tg.jit(tg.grad(lambda x: np.sum(np.abs(np.fft.rfft(x)) ** 2)))
    x = real(12)
    np.testing.assert_allclose(g(x), 12.0 * x + np.sum(x) + np.sum(x * (-1.0) ** np.arange(12)) * (-1.0) ** np.arange(12), rtol=1e-12)
    assert str(g.kernel(x).source()).count("= fourier(") == 2


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("name", ["convolve", "fftconvolve", "correlate", "oaconvolve"])
def test_convolutions(name, mode):
    f = getattr(signal, name)
    compare(lambda a, b: f(a, b, mode), real(7), real(3), second=False)
    compare(lambda a, b: f(a, b, mode), array(6), real(3), second=False)
    compare(lambda a, b: f(a, b, mode), real(4, 3), array(2, 3), second=False)


def test_convolution_along_some_axes():
    compare(lambda a, b: signal.fftconvolve(a, b, axes=1), real(4, 3), real(4, 5))


def test_filters():
    compare(signal.hilbert, real(7))
    compare(lambda x: signal.hilbert(x, 6, axis=0), real(4, 3))
    compare(lambda b, a, x: signal.lfilter(b, a + np.array([2.0, 0.0, 0.0]), x), real(3), 0.3 * real(3), real(9), kernel=True)
    compare(lambda b, x: signal.lfilter(b, [1.0], x), real(3), real(2, 9))
    compare(lambda x: signal.lfilter([1.0, 2.0], [1.0, 0.3, 0.1], x, axis=0), real(5, 2))
    compare(lambda x: signal.lfilter([1.0, 2.0], [1.0, 0.3], x), array(6))


def test_wrong_input():
    z = tg.tensor(array(4), requires_grad=True)
    for call, error, words in (
        (lambda: np.fft.rfft(z), TypeError, "real signals"),
        (lambda: np.fft.fft(z, 0), ValueError, "data points"),
        (lambda: np.fft.irfft(z, 0), ValueError, "data points"),
        (lambda: np.fft.fft(z, norm="other"), ValueError, "norm"),
        (lambda: np.fft.fftn(z, (2, 2), axes=(0,)), ValueError, "different lengths"),
        (lambda: np.fft.fft(z, out=np.zeros(4, complex)), tg.errors.UnsupportedFunctionError, "out="),
        (lambda: signal.lfilter([1.0], [1.0], z, zi=np.zeros(1)), tg.errors.UnsupportedFunctionError, "zi="),
        (lambda: signal.hilbert(z), ValueError, "real"),
        (lambda: signal.convolve(z, z, "other"), ValueError, "mode"),
    ):
        with pytest.raises(error, match=words):
            call()


@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_real_frequencies_have_the_imaginary_part_that_numpy_gives_them(n):
    x = -np.abs(np.random.default_rng(n).normal(size=n))
    for f in (np.fft.fft, np.fft.ifft):
        z = f(tg.tensor(x, requires_grad=True))
        assert not np.signbit(z.imag.detach().numpy()[0]) and not np.signbit(f(x).imag[0])
        np.testing.assert_allclose(np.log(z).detach().numpy(), np.log(f(x)), rtol=1e-12, atol=1e-12)
