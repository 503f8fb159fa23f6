"""The array API standard: every name of version 2024.12 in `tapegrad.numpy`, with NumPy's values and with derivatives."""

from operator import attrgetter

import numpy as np
import pytest

import tapegrad as tg
import tapegrad.numpy as xp
from tapegrad.numpy_api.refused import REFUSED
from tests.every import every

V = np.array([0.31, -0.72, 1.13, 0.55])
W = np.array([0.8, 0.35, -0.6, 1.7])
U = np.array([0.31, 0.72, 0.13, 0.55])
A = np.array([[0.4, 1.3, -0.2], [0.9, -0.5, 0.7]])
S = np.array([[4.0, 1.0, 0.5], [1.0, 3.0, 0.2], [0.5, 0.2, 2.0]])
B = np.array([1.0, 2.0, 0.5])
MASK = np.array([True, False, True, True])


def parts(z):
    return z.real, z.imag


def symmetric(f):
    """Of a matrix of which one triangle is read."""
    return lambda xp, a: f(xp, (a + a.T) / 2.0)


def oriented(vectors):
    """Eigenvectors, or singular ones, as what does not depend on their signs."""
    return vectors**2


#: Name -> calls that have a derivative, as a function of a namespace and of points, and the points.
DIFFERENTIATED = {
    # element by element
    **{name: [(lambda xp, x, name=name: getattr(xp, name)(x), V)] for name in (
        "abs asinh atan ceil conj cos cosh exp expm1 floor imag negative positive real reciprocal round sign sin sinh square tan tanh trunc".split()
    )},
    **{name: [(lambda xp, x, name=name: getattr(xp, name)(x), U)] for name in "acos asin atanh log log10 log1p log2 sqrt".split()},
    "acosh": [(lambda xp, x: xp.acosh(x), U + 1.5)],
    **{name: [(lambda xp, x, y, name=name: getattr(xp, name)(x, y), V, W), (lambda xp, x, name=name: getattr(xp, name)(x, W), V)] for name in (
        "add atan2 copysign divide floor_divide hypot logaddexp maximum minimum multiply remainder subtract".split()
    )},
    "pow": [(lambda xp, x, y: xp.pow(x, y), U, W), (lambda xp, x: xp.pow(x, 3.0), V)],
    "clip": [(lambda xp, x: xp.clip(x, -0.5, 0.6), V), (lambda xp, x: xp.clip(x, max=0.6), V), (lambda xp, x, low: xp.clip(x, min=low), V, W)],
    # made
    "asarray": [(lambda xp, x: xp.asarray(x) * 2.0, V), (lambda xp, x: xp.asarray(x, dtype=xp.float64, copy=True), V)],
    "astype": [(lambda xp, x: xp.astype(x, xp.float64, copy=False) ** 2, V)],
    "full": [(lambda xp, x: xp.full((2, 3), x), 0.7)], "full_like": [(lambda xp, x: xp.full_like(A, x), 0.7)],
    "linspace": [(lambda xp, a, b: xp.linspace(a, b, 5), 0.3, 1.7), (lambda xp, a: xp.linspace(a, 2.0, 4, endpoint=False), 0.3)],
    "meshgrid": [(lambda xp, x, y: xp.meshgrid(x, y, indexing="ij"), V, B)],
    "tril": [(lambda xp, a: xp.tril(a, k=1), A)], "triu": [(lambda xp, a: xp.triu(a), A)],
    # taken and arranged
    "take": [(lambda xp, a: xp.take(a, np.array([2, 0, 2]), axis=1), A)],
    "take_along_axis": [(lambda xp, a: xp.take_along_axis(a, np.array([[2, 0], [1, 1]]), axis=1), A)],
    "broadcast_arrays": [(lambda xp, x, y: xp.broadcast_arrays(x, y), B, A)], "broadcast_to": [(lambda xp, x: xp.broadcast_to(x, (2, 3)), B)],
    "concat": [(lambda xp, x, y: xp.concat([x, y]), V, B), (lambda xp, a: xp.concat((a, a), axis=None), A)],
    "expand_dims": [(lambda xp, x: xp.expand_dims(x, axis=1), V)], "flip": [(lambda xp, a: xp.flip(a, axis=1), A)],
    "moveaxis": [(lambda xp, a: xp.moveaxis(a, 0, 1), A)], "permute_dims": [(lambda xp, a: xp.permute_dims(a, (1, 0)), A)],
    "repeat": [(lambda xp, a: xp.repeat(a, 2, axis=0), A)], "reshape": [(lambda xp, a: xp.reshape(a, (3, 2)), A), (lambda xp, a: xp.reshape(a, (-1,), copy=True), A)],
    "roll": [(lambda xp, a: xp.roll(a, 1, axis=1), A)], "squeeze": [(lambda xp, x: xp.squeeze(x[None], axis=0), V)],
    "stack": [(lambda xp, x, y: xp.stack([x, y], axis=1), V, W)], "tile": [(lambda xp, x: xp.tile(x, (2, 1)), V)],
    "unstack": [(lambda xp, a: xp.unstack(a, axis=1), A)], "matrix_transpose": [(lambda xp, a: xp.matrix_transpose(a), A)],
    "where": [(lambda xp, x, y: xp.where(MASK, x, y), V, W), (lambda xp, x: xp.where(x > 0.0, x, 0.5), V)],
    "sort": [(lambda xp, x: xp.sort(x), V), (lambda xp, a: xp.sort(a, axis=0, stable=True), A)],
    # reduced
    **{name: [(lambda xp, a, name=name: getattr(xp, name)(a), A), (lambda xp, a, name=name: getattr(xp, name)(a, axis=1, keepdims=True), A)] for name in (
        "max mean min prod sum".split()
    )},
    **{name: [(lambda xp, a, name=name: getattr(xp, name)(a, axis=0, correction=1), A)] for name in ("std", "var")},
    **{name: [(lambda xp, a, name=name: getattr(xp, name)(a, axis=1, include_initial=True), A)] for name in ("cumulative_prod", "cumulative_sum")},
    "diff": [(lambda xp, a: xp.diff(a, axis=1, n=2), A), (lambda xp, x: xp.diff(x, prepend=x[:1], append=x[:2]), V)],
    # products
    **{name: [(lambda xp, a, b, name=name: attrgetter(name)(xp)(a, b), A, S)] for name in ("matmul", "linalg.matmul")},
    **{name: [(lambda xp, a, b, name=name: attrgetter(name)(xp)(a, b, axes=1), A, S)] for name in ("tensordot", "linalg.tensordot")},
    **{name: [(lambda xp, a, b, name=name: attrgetter(name)(xp)(a, b, axis=-1), A, B)] for name in ("vecdot", "linalg.vecdot")},
    "linalg.cross": [(lambda xp, x, y: xp.linalg.cross(x, y), S, B)], "linalg.outer": [(lambda xp, x, y: xp.linalg.outer(x, y), V, B)],
    # linear algebra
    "linalg.cholesky": [(symmetric(lambda xp, a: xp.linalg.cholesky(a)), S), (symmetric(lambda xp, a: xp.linalg.cholesky(a, upper=True)), S)],
    "linalg.det": [(lambda xp, a: xp.linalg.det(a), S)], "linalg.inv": [(lambda xp, a: xp.linalg.inv(a), S)],
    "linalg.diagonal": [(lambda xp, a: xp.linalg.diagonal(a, offset=1), S)], "linalg.trace": [(lambda xp, a: xp.linalg.trace(a), S)],
    "linalg.eigh": [(symmetric(lambda xp, a: xp.linalg.eigh(a).eigenvalues), S), (symmetric(lambda xp, a: oriented(xp.linalg.eigh(a).eigenvectors)), S)],
    "linalg.eigvalsh": [(symmetric(lambda xp, a: xp.linalg.eigvalsh(a)), S)],
    "linalg.matrix_norm": [(lambda xp, a, order=order: xp.linalg.matrix_norm(a, ord=order), A) for order in ("fro", "nuc", 1, 2, np.inf)],
    "linalg.vector_norm": [(lambda xp, a, order=order: xp.linalg.vector_norm(a, axis=1, ord=order), A) for order in (1, 2, 3, np.inf)],
    "linalg.matrix_power": [(lambda xp, a, n=n: xp.linalg.matrix_power(a, n), S) for n in (3, -2)],
    "linalg.matrix_transpose": [(lambda xp, a: xp.linalg.matrix_transpose(a), A)],
    "linalg.pinv": [(lambda xp, a: xp.linalg.pinv(a, rtol=1e-12), A)], "linalg.solve": [(lambda xp, a, b: xp.linalg.solve(a, b), S, B)],
    "linalg.qr": [(lambda xp, a: tuple(xp.linalg.qr(a, mode="reduced")), S)], "linalg.slogdet": [(lambda xp, a: xp.linalg.slogdet(a).logabsdet, S)],
    "linalg.svd": [(lambda xp, a: (xp.linalg.svd(a, full_matrices=False).S, oriented(xp.linalg.svd(a, full_matrices=False).U)), A)],
    "linalg.svdvals": [(lambda xp, a: xp.linalg.svdvals(a), A)],
    # Fourier transforms
    **{f"fft.{name}": [(lambda xp, a, name=name: parts(getattr(xp.fft, name)(a)), A), (lambda xp, a, name=name: parts(getattr(xp.fft, name)(a, norm="ortho")), A)]
       for name in "fft ifft fftn ifftn rfft rfftn ihfft".split()},
    **{f"fft.{name}": [(lambda xp, a, name=name: getattr(xp.fft, name)(a), A), (lambda xp, a, b, name=name: getattr(xp.fft, name)(a + 1j * b), A, A[::-1] * 0.5)]
       for name in "irfft irfftn hfft".split()},
    **{f"fft.{name}": [(lambda xp, a, name=name: getattr(xp.fft, name)(a, axes=1), A)] for name in ("fftshift", "ifftshift")},
}  # fmt: skip

#: Name -> calls whose results are truth values, positions or counts, or depend on shapes only: plain values, NumPy's.
VALUES = {
    **{name: [lambda xp, x, name=name: getattr(xp, name)(x)] for name in (
        "isfinite isinf isnan signbit logical_not argmax argmin argsort count_nonzero nonzero all any ones_like zeros_like".split()
    )},
    **{name: [lambda xp, x, name=name: getattr(xp, name)(x, W), lambda xp, x, name=name: getattr(xp, name)(W, x)] for name in (
        "equal greater greater_equal less less_equal not_equal logical_and logical_or logical_xor".split()
    )},
    "empty_like": [lambda xp, x: xp.empty_like(x).shape],
    "searchsorted": [lambda xp, x: xp.searchsorted(np.sort(W), x), lambda xp, x: xp.searchsorted(x, W, side="right", sorter=np.argsort(V))],
    "result_type": [lambda xp, x: xp.result_type(x, xp.float32)], "can_cast": [lambda xp, x: xp.can_cast(x.dtype, xp.float32)],
    "isdtype": [lambda xp, x: xp.isdtype(x.dtype, "real floating")], "finfo": [lambda xp, x: xp.finfo(x.dtype).eps],
    "linalg.matrix_rank": [lambda xp, x: xp.linalg.matrix_rank(x[None])],
}  # fmt: skip
#: Of integers, or of no array at all: a call of plain data.
PLAIN = {
    **{name: lambda xp, name=name: getattr(xp, name)(np.array([5, 3]), np.array([1, 2])) for name in (
        "bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor".split()
    )},
    "bitwise_invert": lambda xp: xp.bitwise_invert(np.array([5, 3])), "iinfo": lambda xp: xp.iinfo(xp.int32).max, "arange": lambda xp: xp.arange(1.0, 3.0, 0.5),
    **{name: lambda xp, name=name: getattr(xp, name)((2, 3), dtype=xp.float32) for name in ("ones", "zeros")},
    "empty": lambda xp: xp.empty((2, 3)).shape, "eye": lambda xp: xp.eye(2, 3, k=1), "from_dlpack": lambda xp: xp.from_dlpack(V),
    **{f"fft.{name}": lambda xp, name=name: getattr(xp.fft, name)(5, d=0.5) for name in ("fftfreq", "rfftfreq")},
    **{name: lambda xp, name=name: getattr(xp, name) for name in (
        "e inf newaxis pi bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 complex64 complex128".split()
    )},
    "nan": lambda xp: repr(xp.nan), "__array_namespace_info__": lambda xp: xp.__array_namespace_info__().dtypes(),
}  # fmt: skip
#: Refused where a derivative is wanted; NumPy's of plain data. Why, `REFUSED` says.
LEFT_OUT = "nextafter unique_all unique_counts unique_inverse unique_values".split()

#: All names of version 2024.12, by the sections of the standard.
STANDARD = set("""
e inf nan newaxis pi
bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 complex64 complex128
astype can_cast finfo iinfo isdtype result_type
arange asarray empty empty_like eye from_dlpack full full_like linspace meshgrid ones ones_like tril triu zeros zeros_like
abs acos acosh add asin asinh atan atan2 atanh bitwise_and bitwise_left_shift bitwise_invert bitwise_or bitwise_right_shift bitwise_xor ceil clip conj copysign
cos cosh divide equal exp expm1 floor floor_divide greater greater_equal hypot imag isfinite isinf isnan less less_equal log log1p log2 log10 logaddexp
logical_and logical_not logical_or logical_xor maximum minimum multiply negative nextafter not_equal positive pow real reciprocal remainder round sign signbit
sin sinh square sqrt subtract tan tanh trunc
take take_along_axis
matmul matrix_transpose tensordot vecdot
broadcast_arrays broadcast_to concat expand_dims flip moveaxis permute_dims repeat reshape roll squeeze stack tile unstack
argmax argmin count_nonzero nonzero searchsorted where
unique_all unique_counts unique_inverse unique_values
argsort sort
cumulative_prod cumulative_sum max mean min prod std sum var
all any diff
__array_namespace_info__
linalg.cholesky linalg.cross linalg.det linalg.diagonal linalg.eigh linalg.eigvalsh linalg.inv linalg.matmul linalg.matrix_norm linalg.matrix_power
linalg.matrix_rank linalg.matrix_transpose linalg.outer linalg.pinv linalg.qr linalg.slogdet linalg.solve linalg.svd linalg.svdvals linalg.tensordot
linalg.trace linalg.vecdot linalg.vector_norm
fft.fft fft.ifft fft.fftn fft.ifftn fft.rfft fft.irfft fft.rfftn fft.irfftn fft.hfft fft.ihfft fft.fftfreq fft.rfftfreq fft.fftshift fft.ifftshift
""".split())

#: Attributes of arrays, and the methods of their operators.
OF_ARRAYS = (
    "dtype device mT ndim shape size T to_device __array_namespace__ __dlpack__ __dlpack_device__ "
    "__abs__ __add__ __and__ __bool__ __complex__ __eq__ __float__ __floordiv__ __ge__ __getitem__ __gt__ __index__ __int__ __invert__ __le__ __lshift__ __lt__ "
    "__matmul__ __mod__ __mul__ __ne__ __neg__ __or__ __pos__ __pow__ __rshift__ __setitem__ __sub__ __truediv__ __xor__"
).split()


def test_every_name_of_the_standard_is_tested():
    tested = [*DIFFERENTIATED, *VALUES, *PLAIN, *LEFT_OUT]
    assert set(tested) == STANDARD and len(tested) == len(STANDARD)
    of_floats = len(DIFFERENTIATED) + len(VALUES) + len(LEFT_OUT)
    assert len(LEFT_OUT) <= 0.15 * of_floats
    assert [name for name in OF_ARRAYS if not hasattr(tg.Tensor, name) or not hasattr(tg.Dual, name)] == []


@every("name, k", [(name, k) for name, calls in DIFFERENTIATED.items() for k in range(len(calls))])
def test_value_and_derivatives(name, k):
    call, *points = DIFFERENTIATED[name][k]
    assert tg.check(lambda *args: call(xp, *args), *points, reference=lambda *args: call(np, *args)).passed


def equal(ours, numpys):
    if isinstance(numpys, tuple):
        return len(ours) == len(numpys) and all(map(equal, ours, numpys))
    if isinstance(numpys, (np.ndarray, np.generic)):
        ours = ours.detach().numpy() if isinstance(ours, tg.Tensor) else ours
        return np.shape(ours) == numpys.shape and np.asarray(ours).dtype == numpys.dtype and bool(np.all(ours == numpys))
    return ours == numpys


@every("name, k", [(name, k) for name, calls in VALUES.items() for k in range(len(calls))])
def test_values_without_derivative(name, k):
    call = VALUES[name][k]
    for x in (tg.tensor(V), tg.tensor(V, requires_grad=True), tg.tensor(V, requires_grad=True) * 1.0):
        assert equal(call(xp, x), call(np, V))


@every("name", PLAIN)
def test_plain_data(name):
    assert equal(PLAIN[name](xp), PLAIN[name](np))


@every("name", LEFT_OUT)
def test_left_out_with_the_reason(name):
    arguments = (W,) if name == "nextafter" else ()
    with pytest.raises(tg.errors.UnsupportedFunctionError) as caught:
        getattr(xp, name)(tg.tensor(V, requires_grad=True), *arguments)
    assert REFUSED[f"numpy.{name}"] in str(caught.value)
    assert equal(tuple(np.atleast_1d(getattr(xp, name)(tg.tensor(V), *arguments))), tuple(np.atleast_1d(getattr(np, name)(V, *arguments))))


# ---- descending orders ----------------------------------------------------------------------


@every("a, axis", [(V, -1), (A, 0), (A, 1), (A, None), (np.array([2, 0, 2, 1], np.uint8), -1), ([0.5, 2.0, 1.0], -1)])
def test_descending(a, axis):
    expected = np.flip(np.sort(a, axis), -1 if axis is None else axis)
    assert equal(xp.sort(a, axis=axis, descending=True), expected)
    order = xp.argsort(a, axis=axis, descending=True)
    taken = np.ravel(a)[order] if axis is None else np.take_along_axis(np.asarray(a), order, axis)
    assert equal(taken, expected)


def test_descending_keeps_equal_elements_in_their_order():
    assert xp.argsort(np.array([1.0, 2.0, 1.0, 2.0]), descending=True, stable=True).tolist() == [1, 3, 0, 2]
    x = tg.tensor([1.0, 2.0, 1.0, 2.0], requires_grad=True)
    (xp.sort(x, descending=True, stable=True) * np.arange(4.0)).sum().backward()
    assert x.grad.tolist() == [2.0, 0.0, 3.0, 1.0]


@every("a, axis", [(V, -1), (A, 0), (A, None)])
def test_descending_derivatives(a, axis):
    assert tg.check(
        lambda x: xp.sort(x, axis=axis, descending=True), a, reference=lambda x: np.flip(np.sort(x, axis), -1 if axis is None else axis), order=2
    ).passed


# ---- the protocol ----------------------------------------------------------------------------


def test_namespace():
    tensors = tg.tensor(V), tg.tensor(V, requires_grad=True), tg.Dual(0.5, 1.0), tg.tensor(1j * V), tg.tensor([1, 2])
    for t in tensors:
        assert all(t.__array_namespace__(api_version=v) is xp for v in (None, "2021.12", "2022.12", "2023.12", "2024.12"))
        assert t.device == "cpu" and t.to_device("cpu") is t
    assert xp.__array_api_version__ == "2024.12"
    with pytest.raises(ValueError, match=r"'2031.12' of the array API standard is not supported; 2021.12, .* are"):
        tensors[0].__array_namespace__(api_version="2031.12")
    with pytest.raises(ValueError, match="cuda"):
        tensors[0].to_device("cuda")


def spread(x):
    """What a library computes that knows no more than the standard."""
    xp = x.__array_namespace__(api_version="2023.12")
    weights = xp.linspace(0.5, 1.0, x.shape[-1], dtype=x.dtype)
    total = xp.zeros((), dtype=x.dtype) + xp.sum(weights)
    mean = xp.vecdot(x, weights) / total
    return xp.sqrt(xp.vecdot((x - mean) ** 2, weights) / total)


def test_code_that_asks_for_the_namespace():
    assert tg.check(spread, V, order=2, compose=1).passed
    leaf = tg.tensor(V, requires_grad=True)
    spread(leaf).backward()
    assert np.allclose(leaf.grad, tg.grad(spread)(V), rtol=1e-13)
    assert spread(tg.tensor(V)) == spread(V) == spread(leaf).item()
