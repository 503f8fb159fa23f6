"""What is written down while a function is recorded."""

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.program.trace import Trace
from tapegrad.rules import BY_NAME
from tapegrad.transforms.replay.function import Replayed


def recorded(function, *args):
    """The finished tape of `function`, and how many instructions were written for it."""
    seen = []

    def noting(*given):
        result = function(*given)
        seen.append(given[0]._t.length)
        return result

    tape = Replayed(noting, (0,)).tape(args, {})
    return tape, seen[0]


def differences(x):
    total = 0.0
    for i in range(len(x) - 1):
        total = total + (x[i + 1] - x[i] * x[i]) ** 2
    return total


def test_an_element_is_read_once():
    n = 10
    tape, written = recorded(differences, np.linspace(0.1, 1.0, n))
    # An unused slot, the argument, its elements, and four operations in each iteration.
    assert written == 2 + n + 4 * (n - 1)
    assert [position for _, position, _ in tape.elements] == [1, 0, *range(2, n)]


def test_reading_again_gives_the_same_tape(monkeypatch):
    x = np.random.default_rng(0).normal(size=(3, 4))

    def function(x):
        y = tg.zeros(5) + x[0, 0]
        y[2] = x[1, -1] * x[-2, 3]
        before = y[2]
        y[2] = before * x[1, 3]
        return y[2] * before + y[-3] * y[1] - x[2, 1]

    one, fewer = recorded(function, x)

    class Nothing(dict):
        def __setitem__(self, key, slot):
            pass

    old = Trace.__init__

    def forgetting(self, *args, **kwargs):
        old(self, *args, **kwargs)
        self.read = Nothing()

    monkeypatch.setattr(Trace, "__init__", forgetting)
    two, more = recorded(function, x)
    # x[1, 3] twice in other words, y[2] as it is after the second write.
    assert more == fewer + 3
    assert str(one).replace("noting", "") == str(two).replace("noting", "")
    assert np.array_equal(one.records["op"], two.records["op"]) and one.elements == two.elements


def test_a_written_element_is_read_anew():
    def function(x):
        y = x * 1.0
        first = y[1]
        y[1] = first * first
        return y[1] * first

    g = tg.grad(function)
    x = np.array([2.0, 3.0])
    assert g(x).tolist() == [0.0, 27.0] and g(2 * x).tolist() == [0.0, 108.0]


def test_positions_outside_of_the_array_are_refused_though_their_offset_was_read():
    def function(x):
        return x[1, 0] + x[0, 3]

    with pytest.raises(IndexError):
        tg.grad(function)(np.ones((2, 3)))


def test_without_derivatives_an_element_is_another_one():
    def function(x):
        kept = x[0]
        with tg.no_grad():
            constant = x[0]
        return kept * constant + x[0]

    assert tg.grad(function)(np.array([3.0])).tolist() == [4.0]


@pytest.mark.parametrize("exponent", [2, 2.0, np.float64(2.0), 3, 0.5, True])
def test_powers(exponent):
    """A square has a way of its own, the same on and off the short way of a number on the tape."""
    x = tg.tensor(1.5, requires_grad=True)
    y = x * 1.0
    z = y**exponent
    z.backward()
    assert z.item() == pytest.approx(1.5**exponent, rel=1e-15) and x.grad == pytest.approx(exponent * 1.5 ** (exponent - 1.0))
    tape = Replayed(lambda x: (x * 1.0) ** exponent, (0,)).tape((1.5,), {})
    assert ("power2" in str(tape)) == (type(exponent) is not bool and exponent == 2)
    # A leaf is not on a tape yet: its power goes the long way.
    z = tg.tensor(1.5, requires_grad=True) ** exponent
    assert (z._t.records()["op"][z._i] == BY_NAME["power2"].opcode) == ("power2" in str(tape))


def test_numbers_of_numpy_beside_arrays_of_float32():
    x = tg.tensor(np.ones(2, np.float32), requires_grad=True)
    assert (x ** np.float64(2.0)).dtype == (np.ones(2, np.float32) ** np.float64(2.0)).dtype == np.float64
    assert (x**2.0).dtype == np.float32
    tape = Replayed(lambda x: (x * 1.0) * np.float64(2.0), (0,)).tape((1.5,), {})
    assert [line.split()[1:4] for line in str(tape).splitlines()][3] == ["multiply", "%2,", "2"]


def test_squares_at_the_ends_of_the_numbers():
    g = tg.value_and_grad(lambda x: (x * 1.0) ** 2)
    for x, value in (1e200, np.inf), (-np.inf, np.inf), (-0.0, 0.0), (1e-200, 0.0):
        assert g(x)[0] == value
    assert np.isnan(g(np.nan)[0])


def test_many_squares_grow_the_tape():
    def function(x):
        for _ in range(5000):
            x = (0.5 * x) ** 2 + 0.25
        return x

    assert tg.grad(function)(0.3) == pytest.approx(tg.derivative(function)(0.3), rel=1e-12)
