"""Methods and attributes of ndarray on tensors."""

import numpy as np
import pytest

import tapegrad as tg
from tests.rules.checker import check, generator, leaf, plain

A = generator(42).normal(size=(3, 4))


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x.all(), lambda x: x.any(axis=0), lambda x: x.argmax(), lambda x: x.argmin(1), lambda x: x.argsort(0), lambda x: x.nonzero()[1],
        lambda x: x.argpartition(1), lambda x: x[0].searchsorted(0.5), lambda x: x.nbytes, lambda x: x.itemsize, lambda x: x.strides, lambda x: x.imag,
    ],
)  # fmt: skip
def test_plain_values(call):
    np.testing.assert_array_equal(plain(call(leaf(A))), call(A))


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x.cumprod(), lambda x: x.cumprod(axis=1), lambda x: x.conj(), lambda x: x.conjugate(), lambda x: x.real * 2.0,
        lambda x: x.compress([True, False, True], axis=0), lambda x: round(x[0, 0] * 3.0, 1) + x,
    ],
)  # fmt: skip
def test_values_with_derivative(call):
    check(call, A)


MASK = A > -0.5
#: With parameters of NumPy's that our functions of these names do not have.
AS_NUMPY = [
    lambda x: x.sum(0, np.float64), lambda x: x.sum(1, None, None, True), lambda x: x.sum(dtype=float), lambda x: x.sum(initial=2.0, where=MASK),
    lambda x: x.prod(axis=0, where=MASK), lambda x: x.mean(where=MASK), lambda x: x.mean(0, dtype=np.float64, keepdims=True),
    lambda x: x.std(0, None, None, 1), lambda x: x.std(ddof=1, where=MASK), lambda x: x.var(axis=1, ddof=1, keepdims=True, dtype=float),
    lambda x: x.max(0, None, True), lambda x: x.max(initial=0.5), lambda x: x.min(axis=1, initial=0.5, where=MASK), lambda x: x.cumsum(0, float),
    lambda x: x.clip(-0.5, 0.5, None), lambda x: x.clip(max=np.ones(4)), lambda x: x.trace(dtype=float), lambda x: x.round(1) + x, lambda x: x.round(decimals=2) * x,
    lambda x: x.flatten("F"), lambda x: x.flatten(order="C"), lambda x: x.reshape(4, 3, order="F"), lambda x: x.reshape((-1,), copy=True),
    lambda x: x.astype(np.float64, casting="safe"), lambda x: x.copy("F") * x.copy(order="K"), lambda x: x.astype("f", "C", "same_kind", True, False) * 1.0,
]  # fmt: skip


@pytest.mark.parametrize("call", AS_NUMPY)
def test_parameters_of_numpy(call):
    for x in (leaf(A), A):
        assert (y := call(x)).shape == call(A).shape and y.dtype == call(A).dtype
    np.testing.assert_allclose(plain(call(leaf(A))), call(A), rtol=1e-6)
    if call(A).dtype == np.float64:
        check(call, A)


def test_parameters_of_pytorch_stay():
    x = leaf(A)
    assert x.sum(0, True).shape == (1, 4) and x.std(0, 1).shape == (4,) and x.max(dim=1, keepdim=True).values.shape == (3, 1)
    assert x.sum(dim=0, keepdim=True, dtype=float).shape == (1, 4) and x.flatten(0, 1).shape == (12,)
    assert x.mean(-1, np.True_).shape == (3, 1)


def test_what_numpy_refuses():
    x = leaf(A)
    for call in (lambda x: x.astype(np.float32, casting="safe"), lambda x: x.sum(axes=0), lambda x: x.round(1, 2, 3)):
        for a in (A, x):
            with pytest.raises(TypeError):
                call(a)


def test_one_element_by_its_position():
    for x in (leaf(A), leaf(A).detach()):
        assert [x.item(5), x.item(-1), x.item(1, 2), x.item((2, -1))] == [A.item(5), A.item(-1), A.item(1, 2), A.item((2, -1))]
        for position in ((12,), (3, 0), (0, 0, 0)):
            with pytest.raises(IndexError):
                x.item(*position)
    assert leaf(2.5).item(0) == 2.5


def test_in_place():
    def sort(x):
        y = x * 1.0
        y.sort(axis=0)
        return y

    def partition(x):
        y = x * 1.0
        y.partition(2)
        return y

    def put(x):
        y = x * 1.0
        y.put([1, 2], [3.0, 4.0])
        return y

    def fill(x):
        y = x * 1.0
        y.fill(x[0, 0])
        return y

    for function in (sort, partition, put, fill):
        check(function, A)


def _flat(x):
    """Read and assigned to by one index, also where the elements lie in another order."""
    a, b = x.reshape(2, 3) * 1.0, (x.reshape(2, 3) * x[0]).T
    part = a.flat[1:3]
    part[0] = 99.0
    b.flat[2] = x[0] ** 2
    b.flat[3:5] = x[:2]
    b.flat[::3] = 0.5
    a.flat[[0, 5]] = x[1]
    a.flat[a.ravel() > 1.0] *= 2.0
    a.T.flat = x * 3.0
    weighted = sum(k * v for k, v in enumerate(b.flat))
    return weighted + a.flat[1] * a.flat[-2] + max(a.flat) * len(b.flat) + np.sum(part[1] * a)


def test_flat():
    x = np.array([0.5, -1.0, 2.0, 1.5, 0.25, 3.0])
    slopes = [(_flat(x + 1e-6 * e) - _flat(x - 1e-6 * e)) / 2e-6 for e in np.eye(6)]
    for value, gradient in (tg.value_and_grad(_flat)(x), tg.jit(tg.value_and_grad(_flat))(x), (tg.vmap(_flat)(x[None])[0], tg.jacfwd(_flat)(x))):
        assert value == pytest.approx(_flat(x))
        np.testing.assert_allclose(gradient, slopes, rtol=1e-6, atol=1e-8)


def test_rounding_to_an_int_leaves_the_tape_and_raises():
    with pytest.raises(TypeError, match="derivative"):
        round(leaf(2.5))


def test_classes_derived_from_parameters_and_dual_numbers_may_initialise_them():
    class Named(tg.Parameter):
        def __init__(self, data, requires_grad=True, name="w"):
            super().__init__(data, requires_grad)
            self.name = name

    class Moving(tg.Dual):
        def __init__(self, value, tangent):
            super().__init__(value, tangent)

    named = Named(np.ones(3), True)
    (named * named).sum().backward()
    assert named.name == "w" and named.grad.tolist() == [2.0, 2.0, 2.0]
    assert (Moving(2.0, 3.0) * 2.0).tangent == 6.0
