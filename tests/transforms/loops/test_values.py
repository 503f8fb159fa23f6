"""Every case by numbers, by tensors, recorded and as machine code, in both modes and twice: beside the plain Python loop."""

from functools import cache

import numpy as np
import pytest

import tapegrad as tg
from tests.near import near
from tests.transforms.loops import plainly
from tests.transforms.loops.cases import CASES, of

EXACT = dict(rtol=1e-12, atol=1e-12)
SECOND = dict(rtol=1e-9, atol=1e-10)

every_case = pytest.mark.parametrize("name", CASES)


def points(name):
    return CASES[name].point, CASES[name].other


def by_differences(function, p, step=1e-6):
    """Central differences: the derivative by an array, along the last axis."""
    return np.stack([(function(p + h) - function(p - h)) / (2.0 * step) for h in step * np.eye(len(p))], axis=-1)


@cache
def _gradient(name, p):
    gradient = tg.grad(of(name, plainly))(np.array(p))
    gradient.flags.writeable = False
    return gradient


def gradient(name, p):
    """That of the plain loop, which all modes are compared with."""
    return _gradient(name, tuple(p.tolist()))


@every_case
def test_numbers_are_those_of_the_plain_loop(name):
    for p in points(name):
        one, other = (CASES[name].function(ops, np, p) for ops in (tg, plainly))
        assert plainly.mapped(type, one) == plainly.mapped(type, other)
        # It joins in another order.
        equal = np.testing.assert_array_equal if not name.startswith("associative") else lambda a, b: near(a, b, ulps=8)
        plainly.mapped(equal, one, other)


@every_case
def test_the_plain_loop_has_the_derivative_that_differences_have(name):
    for p in points(name):
        np.testing.assert_allclose(gradient(name, p), by_differences(of(name, plainly), p), rtol=2e-7, atol=2e-8)


@every_case
def test_backward(name):
    f, plain = of(name, tg), of(name, plainly)
    for p in points(name):
        x = tg.tensor(p, requires_grad=True)
        value = f(x)
        value.backward()
        np.testing.assert_allclose(value.detach().numpy(), plain(p), **EXACT)
        np.testing.assert_allclose(x.grad.numpy(), gradient(name, p), **EXACT)


@pytest.mark.parametrize("kernel", ["never", "always"])
@every_case
def test_under_jit(name, kernel):
    f = tg.jit(tg.value_and_grad(of(name, tg)), kernel=kernel)
    for p in (*points(name), *points(name), *points(name)):
        value, slope = f(p)
        np.testing.assert_allclose(value, of(name, plainly)(p), **EXACT)
        np.testing.assert_allclose(slope, gradient(name, p), **EXACT)
    stats = f.stats()
    assert stats.fallback == "" and stats.runs == 0
    # Both ways were met in the first two calls.
    assert stats.records <= 2


@every_case
def test_jit_of_the_value_alone(name):
    f = tg.jit(of(name, tg))
    for p in (*points(name), *points(name)):
        np.testing.assert_allclose(f(p), of(name, plainly)(p), **EXACT)


@every_case
def test_forward_mode(name):
    f, plain = of(name, tg), of(name, plainly)
    for p in points(name):
        direction = np.cos(np.arange(len(p)))
        value, tangent = tg.jvp(f, (p,), (direction,))
        np.testing.assert_allclose(value, plain(p), **EXACT)
        np.testing.assert_allclose(tangent, gradient(name, p) @ direction, **EXACT)
        np.testing.assert_allclose(tg.jacfwd(f)(p), gradient(name, p), **EXACT)


@every_case
def test_jacobians_of_several_results(name):
    def results(ops):
        def both(p):
            value = of(name, ops)(p)
            return np.stack([value, value * p[0]])

        return both

    for p in points(name):
        expected = np.stack([tg.grad(lambda q, k=k: results(plainly)(q)[k])(p) for k in range(2)])
        for transformation in (tg.jacfwd, tg.jacrev):
            np.testing.assert_allclose(transformation(results(tg))(p), expected, **EXACT)


@every_case
def test_second_derivatives(name):
    f, plain = of(name, tg), of(name, plainly)
    p = CASES[name].point
    expected = tg.hessian(plain)(p)
    np.testing.assert_allclose(expected, by_differences(lambda q: gradient(name, q), p), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(tg.hessian(f)(p), expected, **SECOND)
    direction = np.sin(1.0 + np.arange(len(p)))
    np.testing.assert_allclose(tg.hvp(f)(p, direction), expected @ direction, **SECOND)
    np.testing.assert_allclose(tg.jvp(tg.grad(f), (p,), (direction,))[1], expected @ direction, **SECOND)
    np.testing.assert_allclose(tg.grad(lambda q: np.sum(tg.grad(f)(q) * direction))(p), expected @ direction, **SECOND)
    np.testing.assert_allclose(tg.grad(lambda q: tg.jvp(f, (q,), (direction,))[1])(p), expected @ direction, **SECOND)


@pytest.mark.parametrize("name", [name for name in CASES if "_in_" not in name and "choice" not in name and "switch" not in name])
def test_taylor_series(name):
    p = CASES[name].point
    directions = [np.cos(1.0 + np.arange(len(p))), np.sin(np.arange(len(p))), 0.0 * p]
    value, series = tg.jet(of(name, tg), (p,), (directions,))
    expected = tg.jet(of(name, plainly), (p,), (directions,))
    np.testing.assert_allclose(value, expected[0], **EXACT)
    np.testing.assert_allclose(series, expected[1], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("transformation", [tg.hessian, tg.hvp], ids=["hessian", "hvp"])
@pytest.mark.parametrize("name", ["scan_of_a_number", "scan_with_a_branch", "while_that_grows", "fori_of_a_tuple", "choice_in_scan"])
def test_second_derivatives_under_jit(name, transformation):
    f, plain = tg.jit(transformation(of(name, tg))), transformation(of(name, plainly))
    more = (np.sin(1.0 + np.arange(len(CASES[name].point))),) if transformation is tg.hvp else ()
    for p in (*points(name), *points(name)):
        np.testing.assert_allclose(f(p, *more), plain(p, *more), **SECOND)


@every_case
def test_pullback(name):
    f = of(name, tg)
    for p in points(name):
        value, pullback = tg.vjp(f, p)
        np.testing.assert_allclose(pullback(2.0)[0], 2.0 * gradient(name, p), **EXACT)
        np.testing.assert_allclose(pullback(1.0)[0], gradient(name, p), **EXACT)
