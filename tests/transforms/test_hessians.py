"""Hessians that are recorded inside of `jit`, `vmap` and other derivatives, where directions of few neighbours are joined."""

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.autograd import adjoint
from tapegrad.program import evaluation
from tapegrad.transforms.replay.running import WINDOW

RNG = np.random.default_rng(7)
X = RNG.normal(size=10)


def rosenbrock(x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def of_rosenbrock(x):
    """Its Hessian by hand."""
    diagonal, beside = np.zeros(10), -400.0 * x[:-1]
    diagonal[:-1] += 1200.0 * x[:-1] ** 2 - 400.0 * x[1:] + 2.0
    diagonal[1:] += 200.0
    return np.diag(diagonal) + np.diag(beside, 1) + np.diag(beside, -1)


def chained(x, order):
    """Which elements interact is said from outside."""
    return np.sum(x[order] * x[1:] ** 2)


def by_number(x, order):
    """The Hessian of `chained`, term by term."""
    whole = np.zeros((len(x), len(x)))
    for j, i in enumerate(order, 1):
        # Of x[i] * x[j] ** 2.
        if i == j:
            whole[j, j] += 6.0 * x[j]
        else:
            whole[j, j] += 2.0 * x[i]
            whole[i, j] += 2.0 * x[j]
            whole[j, i] += 2.0 * x[j]
    return whole


def answers(g, *args):
    """By the recording, by the interpreter, by the kernel."""
    return [g(*args) for _ in range(3)]


def test_of_a_band_by_three_directions():
    g = tg.jit(lambda x: tg.hessian(rosenbrock)(x))
    for found in answers(g, X):
        np.testing.assert_allclose(found, of_rosenbrock(X), rtol=1e-13, atol=1e-12)
        np.testing.assert_array_equal(found, found.T)
    for found in answers(g, X[::-1].copy()):
        np.testing.assert_allclose(found, of_rosenbrock(X[::-1]), rtol=1e-13, atol=1e-12)
    shapes = {meta.shape for meta in g.tape(X).metas if meta is not None}
    assert (3, 10) in shapes and (10, 9) not in shapes


def test_one_where_each_element_meets_all_has_all_directions():
    f = lambda x: np.sum(np.sin(x)) ** 2
    expected = 2.0 * np.outer(np.cos(X), np.cos(X)) - np.diag(2.0 * np.sum(np.sin(X)) * np.sin(X))
    for found in answers(tg.jit(lambda x: tg.hessian(f)(x)), X):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)


ORDERS = [np.arange(9), np.arange(9)[::-1].copy(), np.zeros(9, int), RNG.integers(0, 10, 9)]


def test_elements_that_interact_as_an_argument_says():
    g = tg.jit(lambda x, order: tg.hessian(lambda x: chained(x, order))(x))
    for order in ORDERS:
        for found in answers(g, X, order):
            np.testing.assert_allclose(found, by_number(X, order), rtol=1e-13, atol=1e-13)
    lanes = tg.jit(tg.vmap(lambda x, order: tg.hessian(lambda x: chained(x, order))(x)))
    points = RNG.normal(size=(len(ORDERS), 10))
    for found in answers(lanes, points, np.stack(ORDERS)):
        np.testing.assert_allclose(found, [by_number(x, order) for x, order in zip(points, ORDERS)], rtol=1e-13, atol=1e-13)


def test_elements_that_interact_as_an_array_says_that_changes():
    order = np.arange(9)
    g = tg.jit(lambda x: tg.hessian(lambda x: chained(x, order))(x))
    answers(g, X)
    order[:] = ORDERS[-1]
    np.testing.assert_allclose(g(X), by_number(X, order), rtol=1e-13, atol=1e-13)


def test_of_another_path_another_pattern():
    f = lambda x: rosenbrock(x) if x[0] > 0.0 else chained(x, np.zeros(9, int))
    g = tg.jit(lambda x: tg.hessian(f)(x))
    above, below = np.abs(X), -np.abs(X)
    for _ in range(3):
        np.testing.assert_allclose(g(above), of_rosenbrock(above), rtol=1e-13, atol=1e-12)
        np.testing.assert_allclose(g(below), by_number(below, np.zeros(9, int)), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("argnums", [1, (0, 1), (1, 0)])
def test_of_several_arguments(argnums):
    f = lambda a, b: np.sum(a**3 * b) + np.sum(b[1:] ** 2 * b[:-1])
    a, b = RNG.normal(size=(2, 9))
    between = np.diag(2.0 * b[1:], 1) + np.diag(2.0 * b[1:], -1)
    between += np.diag(np.append(0.0, 2.0 * b[:-1]))
    blocks = [[np.diag(6.0 * a * b), np.diag(3.0 * a**2)], [np.diag(3.0 * a**2), between]]
    for found in answers(tg.jit(lambda a, b: tg.hessian(f, argnums)(a, b)), a, b):
        if argnums == 1:
            np.testing.assert_allclose(found, between, rtol=1e-13, atol=1e-13)
        else:
            for i, row in zip(argnums, found):
                for j, block in zip(argnums, row):
                    np.testing.assert_allclose(block, blocks[i][j], rtol=1e-13, atol=1e-13)


def test_of_single_precision_and_of_matrices():
    g = tg.jit(lambda x: tg.hessian(rosenbrock)(x))
    for found in answers(g, X.astype(np.float32)):
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, of_rosenbrock(X), rtol=1e-4, atol=1e-2)
    g = tg.jit(lambda x: tg.hessian(lambda x: rosenbrock(np.reshape(x, -1)))(x))
    for found in answers(g, X.reshape(2, 5)):
        np.testing.assert_allclose(found, of_rosenbrock(X).reshape(2, 5, 2, 5), rtol=1e-13, atol=1e-12)


def test_differentiated_again():
    weights = RNG.normal(size=(10, 10))
    value = lambda x: np.sum(weights * tg.hessian(rosenbrock)(x) ** 2)
    by_hand = lambda x: np.sum(weights * of_rosenbrock(x) ** 2)
    direction, h = RNG.normal(size=10), 1e-5
    slope = (by_hand(X + h * direction) - by_hand(X - h * direction)) / (2.0 * h)
    for found in answers(tg.jit(tg.grad(value)), X):
        assert found @ direction == pytest.approx(slope, rel=1e-7)
    turned = tg.jvp(value, (X,), (direction,))[1]
    assert turned == pytest.approx(slope, rel=1e-7)
    second = (tg.grad(value)(X + h * direction) - tg.grad(value)(X - h * direction)) / (2.0 * h)
    np.testing.assert_allclose(tg.jit(tg.hvp(value))(X, direction), second, rtol=1e-6, atol=1e-3)


def test_of_many_points_with_a_diagonal():
    points = RNG.normal(size=(5, 10))
    both = tg.jit(tg.vmap(lambda x: (tg.hessian(rosenbrock)(x), tg.hessian_diag(rosenbrock)(x))))
    for whole, diagonal in answers(both, points):
        np.testing.assert_allclose(whole, [of_rosenbrock(x) for x in points], rtol=1e-13, atol=1e-12)
        np.testing.assert_array_equal(diagonal, np.diagonal(whole, axis1=1, axis2=2))


def test_a_long_recording_is_not_gone_through_for_each_of_many(monkeypatch):
    sizes, so_far = [], evaluation.so_far
    monkeypatch.setattr(evaluation, "so_far", lambda trace, *rest: sizes.append(trace.store.length) or so_far(trace, *rest))

    def descent(x):
        for _ in range(60):
            x = x - 0.1 * np.linalg.solve(tg.hessian(rosenbrock)(x) + np.eye(x.size), tg.grad(rosenbrock)(x))
        return x

    at = np.linspace(0.8, 1.2, 10)
    found = tg.jit(descent, kernel="never")
    np.testing.assert_allclose([found(at), found(at)], [descent(at)] * 2, rtol=1e-12)
    assert 2 < len(sizes) < 15


def test_a_plain_product_with_one_direction_is_pulled_back(monkeypatch):
    """The Hessian is symmetric, and sweeps are compiled: no rule carries a tangent."""
    v, carried = RNG.normal(size=10), []
    monkeypatch.setattr(adjoint, "passed", lambda *a, before=adjoint.passed: carried.append(a) or before(*a))
    functions = {
        "arrays": rosenbrock, "numbers": lambda x: sum((x[k] * x[k + 1] ** 2 for k in range(9)), 0.0), "linear": np.sum,
        "nothing of it": lambda x: 3.0, "part of it": lambda x: np.exp(x[2]), "its square": lambda x: x @ x,
    }  # fmt: skip
    for name, f in functions.items():
        np.testing.assert_allclose(tg.hvp(f)(X, v), tg.hessian(f)(X) @ v, rtol=1e-12, atol=1e-12, err_msg=name)
        single = tg.hvp(f)(X.astype("f"), v.astype("f"))
        assert single.dtype == np.float32
        np.testing.assert_allclose(single, tg.hessian(f)(X) @ v, rtol=1e-4, atol=1e-3, err_msg=name)
    two = tg.hvp(lambda p: np.sum(p["a"] ** 3 * p["b"]))({"a": X, "b": 2.0}, {"a": v, "b": 1.0})
    np.testing.assert_allclose(two["a"], 12.0 * X * v + 3.0 * X**2, rtol=1e-12)
    assert two["b"] == pytest.approx(3.0 * X**2 @ v) and not carried


def test_rules_of_a_primitive_that_contradict_each_other_are_run_as_a_recording_runs_them():
    g = tg.primitive(np.sin)
    g.defvjp(lambda w, result, x: w * np.cos(x))
    g.defjvp(lambda t, result, x: 2.0 * t[0] * np.cos(x))
    product = tg.hvp(lambda x: np.sum(g(x) ** 2))
    v = np.ones(10)
    np.testing.assert_allclose(product(X, v), tg.jit(product)(X, v), rtol=1e-14)
    np.testing.assert_allclose(product(X, v), 4.0 * np.cos(X) ** 2 - 2.0 * np.sin(X) ** 2, rtol=1e-14)


@pytest.mark.parametrize("of", [np.sin, lambda x: np.asarray([np.sin(e) for e in x])], ids=["NumPy", "Python"])
def test_a_plain_product_needs_one_rule_of_a_primitive(of):
    g = tg.primitive(of)
    g.defvjp(lambda w, result, x: w * np.cos(x))
    product = tg.hvp(lambda x: np.sum(g(x) ** 2))
    for one in (product, tg.jit(product)):
        np.testing.assert_allclose(one(X, X), 2.0 * np.cos(2.0 * X) * X, rtol=1e-13)


def test_shapes_whose_rows_come_from_one_replay_are_recorded_however_many():
    """The recording that chooses so is asked once a shape: that all its calls are recorded does not say that the function changes."""
    f = lambda x: np.sum(np.exp(-((x[:, None] - x) ** 2)))  # noqa: E731
    g = tg.jit(tg.hessian(f), kernel="never")
    for size in range(32, 32 + 2 * WINDOW + 4):
        for _ in range(2):
            g(np.linspace(0.0, 1.0, size))
    assert len(g._wide) == g.stats().records == 2 * WINDOW + 4 and not g.stats().fallback
    x = np.linspace(0.0, 1.0, size)
    np.testing.assert_allclose(g(x), tg.hessian(f)(x), rtol=1e-10, atol=1e-12)
