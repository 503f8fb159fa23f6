"""Methods and attributes of ndarray on tensors."""

import numpy as np
import pytest

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


def test_rounding_to_an_int_leaves_the_tape_and_raises():
    with pytest.raises(TypeError, match="derivative"):
        round(leaf(2.5))
