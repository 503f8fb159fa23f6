"""Every case that `jax.lax` takes: its values, gradients and second derivatives."""

import numpy as np
import pytest

import tapegrad as tg
from tests.transforms.loops import plainly
from tests.transforms.loops.cases import CASES, of


@pytest.fixture(scope="module")
def jax():
    library = pytest.importorskip("jax")
    with library.enable_x64(True):
        yield library


def theirs(name, jax):
    function = of(name, jax.lax, jax.numpy)
    return lambda p: function(jax.numpy.asarray(p))


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.jax])
def test_values_and_gradients(name, jax):
    # JAX has no reverse mode for `while_loop`.
    function, differentiated = theirs(name, jax), jax.grad if CASES[name].reverse else jax.jacfwd
    expected = jax.jit(lambda p: (function(p), differentiated(function)(p)))
    for p in (CASES[name].point, CASES[name].other):
        value, slope = tg.value_and_grad(of(name, tg))(p)
        their_value, their_slope = expected(p)
        np.testing.assert_allclose(value, their_value, rtol=1e-12)
        np.testing.assert_allclose(slope, their_slope, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("name", ["scan_backwards", "while_of_newton"])
def test_second_derivatives(name, jax):
    p = CASES[name].point
    expected = jax.jit(jax.jacfwd((jax.grad if CASES[name].reverse else jax.jacfwd)(theirs(name, jax))))(p)
    np.testing.assert_allclose(tg.hessian(of(name, tg))(p), expected, rtol=1e-9, atol=1e-10)


def test_results_stand_where_jax_has_them(jax):
    def f(ops, numpy, p):
        return ops.scan(lambda c, x: ({"y": c["y"] * x["u"], "n": c["n"] + 1}, (c["n"], x["v"] * c["y"])), {"y": p, "n": 0}, {"u": numpy.ones(4), "v": numpy.ones((4, 2))})

    for p in (np.array([1.0, 2.0]), np.array([0.5, 3.0])):
        (carry, ys), (theirs, their_ys) = f(tg, np, p), f(jax.lax, jax.numpy, p)
        assert [np.shape(leaf) for leaf in plainly.leaves_of((carry, ys))] == [leaf.shape for leaf in plainly.leaves_of((theirs, their_ys))]
        plainly.mapped(np.testing.assert_allclose, (carry, ys), (theirs, their_ys))
