"""tanh and its derivative as arithmetic: digits everywhere, limits, and vectors in the code of a layer."""

import re

import numpy as np
import pytest

from tapegrad.kernel.adjoint import adjoint
from tapegrad.kernel.machine import compile_program
from tapegrad.kernel.pipeline import lower
from tapegrad.rules import lang as L
from tests.kernel.lowered import tape_of
from tests.kernel.test_emit_values import elementwise

LONG = np.longdouble
precise = pytest.mark.skipif(np.finfo(LONG).eps > 1e-18, reason="no longer type of numbers to compare with")


def sech2(x):
    return L.Expr("sech2", (x,))


def points():
    draw = np.random.default_rng(0)
    spread = [draw.normal(size=3000) * scale for scale in (1e-300, 1e-8, 1e-3, 0.1, 0.5, 1.0, 3.0, 10.0)]
    return np.concatenate([*spread, draw.uniform(-350.0, 350.0, 3000), np.log(2.0) * np.arange(-40, 41) / 4.0])


def ulps(found, wanted):
    return float(np.max(np.abs(found - wanted) / np.spacing(np.abs(wanted).astype("d"))))


@precise
def test_digits():
    x = points()
    long = x.astype(LONG)
    assert ulps(elementwise(L.tanh, x), np.tanh(long)) <= 3.5
    small = np.exp(-2.0 * np.abs(long))
    assert ulps(elementwise(sech2, x), 4.0 * small / (1.0 + small) ** 2) <= 5.0


@pytest.mark.parametrize("function, exact", [(L.tanh, np.tanh), (sech2, lambda x: 1.0 / np.cosh(x) ** 2)])
def test_of_float32(function, exact):
    x = np.concatenate([np.linspace(-25, 25, 4001), np.geomspace(1e-30, 1.0, 999)]).astype("f")
    wanted = exact(x.astype("d")).astype("f")
    assert (np.abs(elementwise(function, x, char="f") - wanted) <= np.spacing(np.abs(wanted))).all()


def test_limits():
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e308, -800.0, 5e-324] * 3)
    found = elementwise(L.tanh, x)
    np.testing.assert_array_equal(found, np.tanh(x))
    np.testing.assert_array_equal(np.signbit(found[:2]), [False, True])
    np.testing.assert_array_equal(elementwise(sech2, x), [1.0, 1.0, 0.0, 0.0, np.nan, 0.0, 0.0, 1.0] * 3)
    # Past the smallest normal number it falls to zero without a jump.
    far = elementwise(sech2, np.linspace(350.0, 380.0, 301))
    assert (np.diff(far) <= 0.0).all() and far[0] > 1e-305 and 0.0 < far[200] < 1e-308 and far[-1] == 0.0


def test_a_layer_and_its_gradient_take_one_exponential_and_no_library():
    def layer(x):
        return np.sum(np.tanh(x) * x)

    machine = compile_program(lower(adjoint(tape_of(layer, np.linspace(-1.0, 1.0, 1000)))))
    text = machine.llvm()
    assert not re.findall(r"call [^\n]*@(?:_ZGV\w*|exp|expm1|tanh|cosh)\(", text)
    # The exponent is put together once for tanh and its derivative, in each copy of the loop; and by vectors.
    wide = re.findall(r"fdiv <(\d+) x double>", text)
    shifts = re.findall(r"shl <(\d+) x i64>", text)
    assert wide and len(shifts) == len(wide)
