"""NumPy's element-wise functions, operators and elements on numbers of a live tape: the short ways give what the long ones give."""

import warnings
from itertools import product

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.array.differentiable import Differentiable
from tapegrad.common.errors import UnsupportedFunctionError
from tapegrad.interpreter.fields import numbers as native_numbers
from tapegrad.numpy_api.dispatch import _OF_ONE, _OF_TWO, ufunc_on_tensors
from tapegrad.rules import BY_FUNCTION
from tests.counting import calls_of
from tests.every import every

native = pytest.mark.skipif(native_numbers is None, reason="numbers are a class of Python here")
NUMBERS = [0.0, -0.0, 1.0, -1.0, 0.3, -0.7, 2.0, 2.5, 1e-300, 800.0, -800.0, 1e300, np.inf, -np.inf, np.nan]
#: (Products of matrices are of arrays only.)
OF_TWO = {ufunc: way for ufunc, way in _OF_TWO.items() if ufunc is not np.matmul}
SHORT = {**_OF_ONE, **OF_TWO}


def interior(*numbers):
    """Numbers computed on a tape."""
    leaves = tg.tensor(list(numbers), requires_grad=True)
    return leaves, [leaves[k] * 1.0 for k in range(len(numbers))]


def both_ways(ufunc, *operands):
    """What the short and the long way give for operands that are made anew each time: value, row, gradient."""
    answers = []
    for call in (ufunc, lambda *inputs: ufunc_on_tensors(next(t for t in inputs if isinstance(t, tg.Tensor)), ufunc, "__call__", *inputs)):
        leaves, tensors = interior(*[o for o in operands if type(o) is float])
        remaining = iter(tensors)
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            z = call(*[next(remaining) if type(o) is float else o() for o in operands])
            name = z.grad_fn.name()
            z.backward()
        answers.append((z.item(), name, leaves.grad.numpy()))
    return answers


@every("ufunc", SHORT)
def test_values_instructions_and_gradients_are_those_of_the_long_way(ufunc):
    for operands in product(NUMBERS, repeat=ufunc.nin):
        (value, row, gradient), (long_value, long_row, long_gradient) = both_ways(ufunc, *operands)
        np.testing.assert_array_equal(value, long_value)
        assert np.signbit(value) == np.signbit(long_value) and row == long_row
        np.testing.assert_array_equal(gradient, long_gradient)


@every("ufunc", OF_TWO)
@every("constant", [2.0, 3.0, 2, np.float64(0.5), np.array(0.5), np.float32(0.5)])
def test_constants_beside_a_number(ufunc, constant):
    for operands in ((0.7, lambda: constant), (lambda: constant, 0.7)):
        (value, row, gradient), (long_value, long_row, long_gradient) = both_ways(ufunc, *operands)
        assert (value, row, gradient.tolist()) == (long_value, long_row, long_gradient.tolist())


def test_no_ufunc_with_a_value_on_floats_goes_the_long_way():
    rows = {f: row for f, row in BY_FUNCTION.items() if isinstance(f, np.ufunc) and row.scalar is not None}
    assert set(rows) == set(SHORT)


@pytest.mark.usefixtures("fresh_store")  # a store that is full takes the general way once
@native
@every("ufunc", SHORT)
def test_the_short_way_is_taken(ufunc):
    _, numbers = interior(0.7, 0.6)
    operands = numbers[: ufunc.nin] if ufunc is not np.arccosh else [numbers[0] + 1.0]
    assert calls_of(ufunc_on_tensors, lambda: ufunc(*operands)) == 0
    if ufunc.nin == 2:
        assert calls_of(ufunc_on_tensors, lambda: (ufunc(numbers[0], 0.5), ufunc(0.5, numbers[0]), ufunc(np.float64(0.5), numbers[0]))) == 0


@every(
    "operation", [lambda x: -x, abs, lambda x: x**3, lambda x: x**-0.5, lambda x: x * np.float64(2.0), lambda x: x - np.float64(2.0), lambda x: x**2.0]
)
@every("number", NUMBERS)
def test_operators(operation, number):
    results = []
    with np.errstate(all="ignore"):
        for kind in (lambda x: x, Long):
            leaves, (x,) = interior(number)
            z = operation(kind(x))
            z.backward()
            results.append((z.item(), z.grad_fn.name(), leaves.grad.numpy()))
    np.testing.assert_array_equal(results[0][0], results[1][0])
    assert results[0][1] == results[1][1] and np.signbit(results[0][0]) == np.signbit(results[1][0])
    np.testing.assert_array_equal(results[0][2], results[1][2])


class Long:
    """A number whose operators are those of `Differentiable`, the long ways."""

    def __init__(self, x):
        self.x = x

    def __neg__(self):
        return Differentiable.__neg__(self.x)

    def __abs__(self):
        return Differentiable.__abs__(self.x)

    def __pow__(self, other):
        return Differentiable.__pow__(self.x, other)

    def __mul__(self, other):
        return Differentiable.__mul__(self.x, other)

    def __sub__(self, other):
        return Differentiable.__sub__(self.x, other)


def test_elements_of_a_vector():
    x = tg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    with tg.Tape() as tape:
        y = x * 1.0
        total = 0.0
        for _ in range(2):
            for k in (0, 1, 2, -1, -3):
                total = total + y[k] * (k + 5.0)
        for wrong in (3, -4):
            with pytest.raises(IndexError):
                y[wrong]
    assert [i.row.name for i in tape.instructions].count("select") == 10
    total.backward()
    np.testing.assert_array_equal(x.grad.numpy(), [2.0 * (5 + 2), 2.0 * 6, 2.0 * (7 + 4)])
    for k in range(3):
        # A number has no elements, a matrix has rows, and other dtypes go the long way.
        y = x[k] * 2.0
        with pytest.raises((IndexError, TypeError)):
            y[0]
    rows = tg.tensor(np.arange(6.0).reshape(2, 3), requires_grad=True) * 2.0
    assert rows[1].shape == (3,) and rows[1][2].item() == 10.0
    single = tg.tensor(np.arange(3.0, dtype="f"), requires_grad=True) * 2.0
    assert single[1].dtype == np.float32


def test_places_are_those_of_the_user():
    with tg.Tape() as tape:
        _, (x,) = interior(0.5)
        results = [np.sin(x), np.maximum(x, 0.1), np.power(x, 2.0), np.power(x, 3.0), tg.power(x, 3.0), -x, x**3]
    assert len(results) == 7
    assert all("test_numbers.py" in str(tape.store.place(instruction.slot)) for instruction in tape.instructions)


def test_without_recording_and_on_other_tapes():
    _, (x,) = interior(0.5)
    with tg.no_grad():
        for made in (np.sin(x), np.maximum(x, 1.0), -x, abs(x), x**3, tg.tensor([1.0])[0]):
            assert not made.requires_grad
    with pytest.raises(UnsupportedFunctionError, match="argument"):
        np.add(x, 1.0, dtype="f")
    with pytest.raises(UnsupportedFunctionError, match="derivative"):
        np.multiply.at(x, 0, 1.0)


def test_elements_read_without_recording_inside_of_a_recording():
    def f(x):
        with tg.no_grad():
            first = x[0]
        return first * x[1]

    for k in range(3):
        assert tg.grad(f)(np.array([2.0 + k, 3.0])).tolist() == [0.0, 2.0 + k]


@pytest.mark.parametrize("ufunc", _OF_ONE, ids=lambda ufunc: ufunc.__name__)
def test_a_ufunc_of_one_operand_has_no_other_method_with_one(ufunc):
    # The short way relies on it: it does not look at the method's name.
    t = tg.tensor(0.5, requires_grad=True) * 1.0
    before = len(t._t)
    for method in ("reduce", "accumulate", "reduceat", "outer", "at"):
        with pytest.raises((ValueError, TypeError)):
            getattr(ufunc, method)(t)
    assert len(t._t) == before
