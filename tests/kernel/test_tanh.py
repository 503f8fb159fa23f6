"""tanh: digits everywhere, limits, and vectors in the code of a layer."""

import re

import numpy as np
import pytest

from tapegrad.codegen.host import available
from tapegrad.kernel.kernel import Kernel, lower
from tapegrad.rules import lang as L
from tests.kernel.lowered import tape_of
from tests.kernel.test_emit_values import elementwise

LONG = np.longdouble
precise = pytest.mark.skipif(np.finfo(LONG).eps > 1e-18, reason="no longer type of numbers to compare with")


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


def test_of_float32():
    x = np.concatenate([np.linspace(-25, 25, 4001), np.geomspace(1e-30, 1.0, 999)]).astype("f")
    wanted = np.tanh(x.astype("d")).astype("f")
    assert (np.abs(elementwise(L.tanh, x, char="f") - wanted) <= np.spacing(np.abs(wanted))).all()


def test_limits():
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e308, -800.0, 5e-324] * 3)
    found = elementwise(L.tanh, x)
    np.testing.assert_array_equal(found, np.tanh(x))
    np.testing.assert_array_equal(np.signbit(found[:2]), [False, True])


@pytest.mark.skipif("tanh" not in available(), reason="no vectors of tanh in this libm")
def test_tanh_in_a_loop_becomes_vectors():
    def layer(x):
        return np.sum(np.tanh(x) * x)

    text = Kernel(lower(tape_of(layer, np.linspace(-1.0, 1.0, 1000)))).llvm()
    assert re.findall(r"call <\d+ x double> @_ZGV\w*_tanh\(", text)
