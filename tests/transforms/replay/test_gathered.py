"""Jacobians, diagonals and sparse derivatives as one call of a kernel and indexing, against the long way."""

import numpy as np
import pytest
import scipy.sparse

import tapegrad as tg
from tapegrad.common.tree import flatten, unflatten
from tapegrad.program.evaluation import Evaluation
from tapegrad.transforms.hessians import _diagonals, _symmetric
from tapegrad.transforms.replay.answers import Miss, sort_arguments
from tapegrad.transforms.replay.directions import gathered
from tapegrad.transforms.replay.site import CallSite

RNG = np.random.default_rng(11)


def swap(x):
    return x * x[::-1] + np.sin(x)


def ring(x):
    return np.sum(x[1:] * x[:-1] ** 2) + np.sum(np.sin(x))


def site_of(g, args, read):
    """A site for calls of a jitted derivative, which has been called often enough to have a kernel."""
    for _ in range(4):
        g(*args)
    _, key, _ = sort_arguments(args, {}, g._replayed.argnums)
    kernels = g._replayed.kinds[key].recent.kernels
    plan = gathered(kernels, lambda walk: read(Evaluation(walk)))
    if plan is None:
        return None
    executable, plan, answer = plan
    return CallSite(*key, executable, answer, plan=plan)


def of_jacobian(g):
    """The blocks of a Jacobian by one argument, in the containers of the results."""
    return lambda e: unflatten(e.structure, [row[0] for row in e.jacobian(g._mode)])


def agree(site, g, *points):
    for point in points:
        answer, expected = site.call((point,), {}), g(point)
        assert type(answer) is not Miss
        for a, b in zip(flatten(answer)[0], flatten(expected)[0]):
            assert type(a) is type(b) and np.shape(a) == np.shape(b) and np.asarray(a).dtype == np.asarray(b).dtype
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("mode", ["forward", "reverse"])
@pytest.mark.parametrize("n", [1, 2, 5, 19])
def test_jacobians(mode, n):
    g = tg.jacobian(tg.jit(swap), mode=mode)
    points = RNG.random((3, n))
    site = site_of(g, (points[0],), of_jacobian(g))
    agree(site, g, *points)
    x = points[1]
    expected = np.diag(x[::-1] + np.cos(x)) + np.diag(x)[:, ::-1]
    np.testing.assert_allclose(site.call((x,), {}), expected, rtol=1e-12)


def test_results_of_several_shapes_and_a_constant():
    g = tg.jacobian(tg.jit(lambda x: {"a": np.outer(x, x), "b": np.sum(x * x), "c": np.ones(2)}))
    points = RNG.random((3, 3))
    agree(site_of(g, (points[0],), of_jacobian(g)), g, *points)


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_values_that_nobody_asks_for_have_room_of_their_own(mode):
    """The kernel reads again what it wrote there: with one room for all of them its derivatives were wrong."""

    def several(x):
        y = np.exp(-x) * x[0]
        z = y[0] * x[1]
        return {"z": z, "y": [y, z], "constant": 3.0, "zero": 0.0 * np.floor(x)}

    g, swept = (tg.jit(tg.jacobian(several, mode=mode), kernel=kernel) for kernel in (None, "never"))
    points = RNG.random((3, 3))
    site = site_of(g, (points[0],), of_jacobian(g))
    for point in points:
        for a, b in zip(flatten(site.call((point,), {}))[0], flatten(swept(point))[0]):
            np.testing.assert_allclose(a, b, rtol=1e-13, atol=1e-15)


def test_float32():
    g = tg.jacobian(tg.jit(swap))
    points = RNG.random((3, 4)).astype(np.float32)
    agree(site_of(g, (points[0],), of_jacobian(g)), g, *points)


def test_numbers():
    g = tg.jacobian(tg.jit(lambda x: np.sin(x) * x))
    agree(site_of(g, (0.5,), of_jacobian(g)), g, 0.3, 2.0)


def test_hessians_are_mirrored():
    h = tg.hessian(tg.jit(lambda x: np.prod(x) * x[0] + np.sum(x**3)))
    points = RNG.random((3, 3))
    site = site_of(h, (points[0],), lambda e: _symmetric(e.jacobian())[0][0])
    agree(site, h, *points)
    index = next(value for name, value in site.call.__globals__.items() if name.startswith("index"))
    np.testing.assert_array_equal(index, index.T)


def test_diagonals():
    d = tg.hessian_diag(tg.jit(ring))
    points = RNG.random((3, 20))
    agree(site_of(d, (points[0],), lambda e: _diagonals(e)[0]), d, *points)


@pytest.mark.parametrize("symmetric", [True, False])
def test_sparse_derivatives(symmetric):
    g = tg.sparse_hessian(tg.jit(ring)) if symmetric else tg.sparse_jacobian(tg.jit(lambda x: x[1:] * x[:-1] + x[0]))
    points = RNG.random((3, 8))
    site = site_of(g, (points[0],), g.body)
    for point in points:
        answer, expected = site.call((point,), {}), g(point)
        assert type(answer) is type(expected) is scipy.sparse.csr_array and answer.shape == expected.shape
        np.testing.assert_array_equal(answer.toarray(), expected.toarray())
        assert not np.shares_memory(answer.indices, expected.indices) and answer.has_canonical_format
    answer.data[:] = answer.indices[:] = 0
    np.testing.assert_array_equal(site.call((point,), {}).toarray(), expected.toarray())
    assert (answer + answer).shape == expected.shape


def test_an_entry_that_is_not_finite_misses():
    g = tg.sparse_jacobian(tg.jit(lambda x: np.sqrt(x) * x[::-1]))
    site = site_of(g, (np.ones(8),), g.body)
    assert type(site.call((np.full(8, 4.0),), {})) is not Miss
    assert type(site.call((np.arange(8.0),), {})) is Miss


@pytest.mark.parametrize("arrange", [lambda a: a + a.T, lambda a: a * 2.0, lambda a: a - 1.0, lambda a: np.sum(a), lambda a: a.astype(int)])
def test_what_is_no_indexing_has_no_plan(arrange):
    g = tg.jacobian(tg.jit(swap))
    assert site_of(g, (np.ones(3),), lambda e: arrange(e.jacobian(g._mode)[0][0])) is None
