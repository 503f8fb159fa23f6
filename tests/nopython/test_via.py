"""`tg.grad(f, via="numba")`, and the check that compares it with the other ways."""

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.common.errors import CheckError, HigherOrderError, OptionError, UnsupportedInNumbaError

pytest.importorskip("numba")


def powers(x, k=2):
    """Sum of powers."""
    s = 0.0
    for i in range(len(x)):
        s = s + x[i] ** k
    return s


def test_gradients_with_no_recording():
    x = np.arange(1.0, 4.0)
    gradient = tg.grad(powers, via="numba")
    assert gradient.__name__ == "powers" and gradient.__doc__ == "Sum of powers."
    assert np.array_equal(gradient(x), tg.grad(powers)(x)) and np.array_equal(gradient(x, k=3), 3.0 * x**2)
    value, (dx, dk) = tg.value_and_grad(powers, argnums=(0, 1), via="numba")(x, 2.0)
    assert value == 14.0 and np.array_equal(dx, 2.0 * x) and np.isclose(dk, np.sum(x**2 * np.log(x)), rtol=1e-15)
    assert tg.grad(lambda a, b: a * b, argnum=1, via="numba")(2.0, 3.0) == 2.0
    assert {taken["mode"] for taken in gradient.modes().values()} == {"reverse"}


def test_what_it_does_not_take():
    gradient = tg.grad(powers, via="numba")
    for nested in (lambda: gradient(tg.tensor([1.0, 2.0])), lambda: tg.jacobian(gradient)(np.ones(2)), lambda: tg.jit(gradient)(np.ones(2))):
        with pytest.raises(HigherOrderError, match="first derivatives"):
            nested()
    with pytest.raises(UnsupportedInNumbaError, match="no type for one of its arguments"):
        gradient({"a": 1.0})
    with pytest.raises(UnsupportedInNumbaError, match=r"array\(int64"):
        gradient(np.arange(3))
    with pytest.raises(UnsupportedInNumbaError, match=r"(?s)test_via.py:\d+: .*conversion to integers"):
        tg.grad(lambda x: np.int64(x[0]) * x[1], via="numba")(np.ones(5))
    with pytest.raises(OptionError, match="via='tape'"):
        tg.grad(powers, via="tape")
    with pytest.raises(OptionError, match="has_aux"):
        tg.value_and_grad(powers, has_aux=True, via="numba")
    with pytest.raises(OptionError, match="one real number"):
        tg.grad(powers, holomorphic=True, via="numba")


def test_check_compares_all_ways():
    x = np.array([0.3, -1.2, 2.0])
    report = tg.check(powers, x, 3, modes=["reverse", "numba"])
    assert [c.name for c in report.checks] == ["reverse", "numba"] and report.passed
    assert tg.check(lambda a, x, n: (x * x * n, np.sum(x) * a), 0.7, x, 2, modes="numba").passed
    assert "numba" not in [c.name for c in tg.check(powers, x, order=2).checks]
    with pytest.raises(CheckError, match="gradient of argument 0 inside Numba"):
        tg.check(lambda x: x * 2.0, x, reference=lambda x: x * 3.0, modes="numba")
