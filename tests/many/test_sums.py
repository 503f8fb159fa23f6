"""Sums over data: values and derivatives beside formulas by hand, in any chunks, on any number of threads."""

import contextlib
import itertools
import os
import signal
import threading

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.many import sums
from tests.many.functions import logistic, logistic_by_hand, rows_of, with_holes
from tests.near import near

THETA = np.array([0.3, -0.7, 0.2])


@pytest.fixture
def passes(monkeypatch):
    """What was asked of each pass over the data."""
    kinds = []
    collect = sums.Threads.collect
    monkeypatch.setattr(sums.Threads, "collect", lambda self, work, *rest: (kinds.append(work.kind), collect(self, work, *rest))[1])
    return kinds


@pytest.mark.parametrize("chunk", [1, 7, 50, 100, None])
def test_value_gradient_hessian_and_products_are_those_of_the_formula(chunk):
    data = rows_of(100)
    total = tg.sum_over(logistic, data, chunk=chunk)
    value, gradient, curvature = logistic_by_hand(THETA, data)
    near(total(THETA), value, 50.0)
    found = tg.value_and_grad(total)(THETA)
    near(found[0], value, 50.0)
    near(found[1], gradient, 50.0)
    near(tg.hessian(total)(THETA), curvature, 50.0)
    near(tg.hvp(total)(THETA, np.ones(3)), curvature @ np.ones(3), 50.0)
    slope = tg.jvp(total, (THETA,), (np.ones(3),))
    near(slope[1], gradient @ np.ones(3), 50.0)


def test_each_derivative_takes_few_passes(passes):
    total = tg.sum_over(logistic, rows_of(100), chunk=30)
    for ask, kinds in (
        (lambda: total(THETA), ["value"]),
        (lambda: tg.value_and_grad(total)(THETA), ["both"]),
        (lambda: tg.grad(total)(THETA), ["both"]),
        (lambda: tg.jvp(total, (THETA,), (THETA,)), ["both"]),
        (lambda: tg.hvp(total)(THETA, THETA), ["both", "product"]),
        (lambda: tg.hessian(total)(THETA), ["both", "product", "hessian"]),
    ):
        passes.clear()
        ask()
        assert passes == kinds


def test_it_is_checked_by_differences_inside_of_other_functions():
    total = tg.mean_over(logistic, rows_of(40), chunk=16)

    def posterior(p):
        return total(np.sin(p[:3]) * p[3]) + 0.5 * np.sum(p**2)

    assert tg.check(posterior, np.array([*THETA, 1.5]), order=2).passed


def test_containers_of_parameters_and_numbers():
    x, y = rows_of(60)
    data = {"x": x, "y": y}

    def cubes(p, rows):
        return np.sum((rows["x"] @ p["w"] + p["b"] - rows["y"]) ** 3)

    p = {"w": THETA, "b": 0.4}
    residuals = x @ THETA + 0.4 - y
    value, gradient = tg.value_and_grad(tg.mean_over(cubes, data, chunk=25))(p)
    near(value, np.mean(residuals**3), 10.0)
    near(gradient["w"], x.T @ (3.0 * residuals**2) / 60.0, 10.0)
    near(gradient["b"], np.mean(3.0 * residuals**2), 10.0)
    second = tg.hessian(tg.sum_over(cubes, data, chunk=25))(p)
    near(second["w"]["b"], x.T @ (6.0 * residuals), 600.0)
    near(second["b"]["b"], np.sum(6.0 * residuals), 600.0)


def test_a_sum_under_jit_is_called_by_the_kernel(passes):
    total, data = tg.sum_over(logistic, rows_of(100), chunk=30), rows_of(100)
    both = tg.jit(tg.value_and_grad(lambda t: total(2.0 * t)), kernel="always")
    for k in range(4):
        value, gradient = both(THETA + k)
        expected = logistic_by_hand(2.0 * (THETA + k), data)
        near(value, expected[0], 500.0)
        near(gradient, 2.0 * expected[1], 500.0)
    assert both.stats().records == 1 and both.stats().kernel_calls >= 2


def test_results_may_be_arrays_of_which_gauss_newton_products_are_one():
    x, y = rows_of(50)
    model = lambda theta, rows: np.tanh(rows[0] @ theta)
    products = tg.sum_over(lambda both, rows: tg.gnvp(lambda t: model(t, rows))(both[0], both[1]), (x, y), chunk=20)
    v = np.array([1.0, 2.0, -1.0])
    jacobian = x * (1.0 - np.tanh(x @ THETA) ** 2)[:, None]
    near(products((THETA, v)), jacobian.T @ (jacobian @ v), 100.0)
    matrix = tg.sum_over(lambda theta, rows: {"xx": rows[0].T @ rows[0], "n": float(len(rows[1]))}, (x, y), chunk=20)(0.0)
    near(matrix["xx"], x.T @ x, 100.0)
    assert matrix["n"] == 50.0


def test_the_bits_are_the_same_for_every_number_of_threads(monkeypatch):
    data = rows_of(1000)
    monkeypatch.setattr(tg.config, "threads", 4)
    found = set()
    for threads in (1, 2, 3, 4, None):
        total = tg.sum_over(logistic, data, chunk=13, threads=threads)
        value, gradient = tg.value_and_grad(total)(THETA)
        found.add((value, gradient.tobytes(), tg.hessian(total)(THETA).tobytes(), total(THETA)))
    assert len(found) == 1


def test_a_path_of_its_own_for_each_chunk_gives_the_same_bits_whatever_came_before(monkeypatch):
    def branching(theta, rows):
        if rows[0] > 5.0:
            return np.sum(np.exp(0.01 * theta * rows))
        return np.sum(np.sin(theta * rows)) if rows[0] > 2.0 else np.sum(np.cos(theta * rows))

    monkeypatch.setattr(tg.config, "threads", 3)
    data = np.arange(40.0) % 9.0
    found = set()
    for threads, start in ((1, 0.1), (3, 0.3), (1, 0.5)):
        both = tg.value_and_grad(tg.sum_over(branching, data, chunk=4, threads=threads))
        both(start)
        found.add(both(0.7))
    assert len(found) == 1


def test_chunks_run_on_several_threads(monkeypatch):
    monkeypatch.setattr(tg.config, "threads", 2)
    meeting = threading.Barrier(2, timeout=30)

    def chunks():
        yield from np.split(np.arange(8.0), 4)

    class Meeting(sums.ChunkWork):
        def of(self, *arguments):
            if self.kind == "value":
                meeting.wait()
            return super().of(*arguments)

    monkeypatch.setattr(sums, "ChunkWork", Meeting)
    assert tg.sum_over(lambda theta, x: np.sum(theta * x), chunks)(2.0) == 56.0


def test_what_is_not_a_number_is_named_by_its_chunk():
    data = np.ones(10)
    data[7] = -1.0
    with pytest.warns(RuntimeWarning, match="sum of with_holes over rows 6 to 8 of the data is not a number"):
        assert np.isnan(tg.sum_over(with_holes, data, chunk=3)(1.0))


def test_an_error_says_in_which_chunk_it_was_raised():
    def picky(theta, rows):
        if rows[0] > 5.0:
            raise ValueError("too large")
        return np.sum(theta * rows)

    with pytest.raises(ValueError, match="too large") as info:
        tg.sum_over(picky, np.arange(10.0), chunk=4, threads=1)(1.0)
    assert any("rows 8 to 9 of the data" in note for note in info.value.__notes__)


def test_a_sum_is_that_of_the_variables_at_its_call():
    """A loop binds them anew before a replay, or a second derivative, asks for another pass; a global sum reads what there is at each call."""
    data, factors, factor = np.arange(5.0), [0.0], 1.0
    outside = tg.sum_over(lambda x, r: np.sum(factor * (r - x) ** 2), data)

    def total(x):
        result = outside(x)
        for k in (1.0, 2.0):
            factors[0] = k
            for made in (tg.sum_over, tg.mean_over):
                result = result + made(lambda x, r: np.sum(k * factors[0] * (r - x) ** 2), data, chunk=2)(x)
        return result

    def closed(x):
        return (factor + 6.0) * np.sum((data - x) ** 2)

    both, second, plain = tg.jit(tg.value_and_grad(total)), tg.jit(tg.hessian(total)), tg.hessian(total)
    for factor in (1.0, 3.0):  # noqa: B007
        for x in (1.0, 2.5, 4.0):
            near(both(x), tg.value_and_grad(closed)(x))
            near([second(x), plain(x)], [tg.hessian(closed)(x)] * 2)
    x = tg.tensor(1.0, requires_grad=True)
    (slope,) = tg.autograd.grad(outside(x), x, create_graph=True)
    factor = 7.0
    near(tg.autograd.grad(slope, x)[0].item(), 30.0)


def test_third_derivatives_are_refused():
    total = tg.sum_over(logistic, rows_of(20), chunk=8)
    with pytest.raises(tg.errors.HigherOrderError, match="first and second derivatives"):
        tg.grad(lambda t: tg.hessian(total)(t)[0, 1])(THETA)


@pytest.mark.parametrize("threads", [0, -1, 1.5, True, "2", 10**6])
def test_numbers_of_threads_that_cannot_be(threads):
    with pytest.raises(tg.errors.OptionError, match="give a number of threads"):
        tg.sum_over(logistic, rows_of(10), threads=threads)


def test_what_is_no_function_or_has_no_number():
    with pytest.raises(tg.errors.StructureError, match="expected a function"):
        tg.sum_over(3, rows_of(10))
    with pytest.raises(tg.errors.NonScalarOutputError):
        tg.grad(tg.sum_over(lambda theta, x: theta * x, np.ones(4), chunk=2))(1.0)
    with pytest.raises(tg.errors.StructureError, match="one shape"):
        tg.sum_over(lambda theta, x: theta * x, np.ones(5), chunk=2)(1.0)


def test_optimisers_take_sums(passes):
    data = rows_of(200)
    total = tg.mean_over(logistic, data, chunk=64)
    result = tg.optimize.lbfgs(total, np.zeros(3))
    assert result.success and result.counts["records"] == 1
    np.testing.assert_allclose(logistic_by_hand(result.x, data)[1] / 200.0, 0.0, atol=1e-6)
    # One pass an evaluation, and what is run plainly beside.
    assert len(passes) <= result.counts["evaluations"] + result.counts["runs"] + 3


def test_a_function_under_jit_keeps_its_options(passes):
    total = tg.sum_over(tg.jit(logistic, fastmath=True), rows_of(64), chunk=20)
    near(tg.grad(total)(THETA), logistic_by_hand(THETA, rows_of(64))[1], 50.0)
    assert total._works["both"].program._replayed.jit.fastmath


@pytest.mark.parametrize("theta", [np.array([0.3]), 0.3, np.array([0.3, 0.4, 0.5])])
@pytest.mark.parametrize(
    "transformation",
    [tg.grad, tg.jacfwd, tg.jacrev, tg.hessian, lambda f: tg.jacfwd(tg.grad(f)), lambda f: tg.jit(tg.jacfwd(f)),
     lambda f: lambda x: tg.jvp(f, (x,), (0.0 * x + 1.0,))[1], lambda f: lambda x: tg.linearize(f, x)[1](0.0 * x + 1.0)],
)  # fmt: skip
def test_an_array_of_one_element_is_differentiated_as_that_number(transformation, theta):
    data = np.array([[0.5, -0.3, 0.8], [1.1, 0.4, -0.6]])
    total = tg.sum_over(lambda t, rows: np.reshape(np.sum(np.sin(t * rows)), (1,)), data, chunk=1)
    expected = transformation(lambda t: np.reshape(np.sum(np.sin(t * data)), (1,)))(theta)
    for f in (total, lambda t: 1.0 * total(t)):
        result = transformation(f)(theta)
        near(result, expected, 1.0)
        assert np.shape(result) == np.shape(expected)


def test_sums_in_sums_under_vmap_make_passes_for_values_only(passes):
    """Not for the derivatives of rules of rules, which no sum has."""
    data = np.array([[0.5, -0.3, 0.8], [1.1, 0.4, -0.6]])
    inner = lambda t, u: tg.sum_over(lambda s, rows: np.sum(np.sin(s * u * rows)), data, chunk=1)(t)  # noqa: E731
    outer = tg.jit(lambda t: tg.sum_over(lambda s, rows: inner(s, 0.7) * np.sum(rows), data)(t))
    near(tg.vmap(outer)(np.array([0.3, -0.5])), np.array([np.sum(np.sin(0.7 * t * data)) * np.sum(data) for t in (0.3, -0.5)]), 1.0)
    assert {"product", "hessian"}.isdisjoint(passes)


@pytest.mark.parametrize("chunk", [1, 2])
@pytest.mark.parametrize("transformation", [lambda f: f, tg.grad, tg.hessian, lambda f: tg.jit(tg.grad(f)), lambda f: tg.jacfwd(tg.grad(f))])
def test_a_sum_in_the_function_of_a_chunk_leaves_its_rows_as_they_are(transformation, chunk):
    data = np.array([[0.5, -0.3, 0.8], [1.1, 0.4, -0.6]])
    inner = lambda t: tg.sum_over(lambda s, rows: np.sum(np.sin(s * rows)), data, chunk=1)(t)  # noqa: E731
    total = tg.sum_over(lambda t, rows: inner(t) * np.sum(rows), data, chunk=chunk)
    expected = transformation(lambda t: np.sum(np.sin(t * data)) * np.sum(data))
    for _ in range(2):
        near(transformation(total)(0.3), expected(0.3), 4.0)


def test_a_function_that_cannot_be_recorded_is_summed():
    """It was tried again and again: a checkpoint that uses the row, under a tangent, is refused in a recording, and run plainly."""

    def slope(t, row):
        part = tg.checkpoint(lambda c: 0.4 * c * c - 0.5 * np.sin(c) * row[0])
        return tg.jvp(part, (t,), (1.0,))[1]

    total = tg.sum_over(lambda t, rows: sum(slope(t, row) for row in rows), np.array([[0.5], [1.1]]), chunk=1)
    near(total(0.3), 2 * 0.8 * 0.3 - 0.5 * np.cos(0.3) * 1.6, 1.0)
    near(tg.grad(total)(0.3), 2 * 0.8 + 0.5 * np.sin(0.3) * 1.6, 1.0)


def test_integers_that_a_chunk_captures_are_those_of_each_call():
    rows = np.array([0.5, 0.3, 0.8])
    functions = [
        lambda a, k: tg.sum_over(lambda t, r: np.sum(t[k]) * np.sum(r), rows, chunk=2)(a),
        lambda a, k: tg.sum_over(lambda t, r: t[k[0]] * np.sum(r), rows)(a),
        lambda a, k: tg.sum_over(lambda t, r: np.sum(k * t[0]) * np.sum(r), rows)(a),
        lambda a, k: tg.sum_over(lambda t, r: np.sum(t * r[k % 3]), rows)(a),
        lambda a, k: tg.sum_over(lambda t, r: np.sum(t[0] * r) if k[0] else np.sum(t[1] * r), rows)(a),
        lambda a, k: tg.sum_over(lambda t, r: np.sum(np.where(k > 0, t, t * t)) * np.sum(r), rows)(a),
    ]
    a = np.array([1.5, 2.0])
    for function in functions:
        for transformed in (function, tg.grad(function), tg.value_and_grad(function)):
            compiled = tg.jit(transformed)
            for k in ([0, 1], [1, 1], [1, 0], [0, 1]):
                expected, found = transformed(a, np.array(k)), compiled(a, np.array(k))
                np.testing.assert_equal(found, expected)


def test_a_tensor_that_a_chunk_captures_is_refused_by_its_name():
    with pytest.raises(tg.errors.NestingError, match="a tensor that the function of a sum over data captures is itself being differentiated"):
        tg.grad(lambda a: tg.sum_over(lambda t, r: np.sum(a * t * r), np.arange(3.0))(2.0))(3.0)


def test_an_interruption_ends_sums_in_sums(interruptible, monkeypatch):
    calls = itertools.count(1)

    def inner(t, r):
        # It is run for each chunk.
        with contextlib.suppress(FloatingPointError):
            if next(calls) == 2:
                os.kill(os.getpid(), signal.SIGINT)
            return np.sum(t * r)

    total = tg.sum_over(lambda t, r: tg.sum_over(inner, np.array([0.5, 0.3]), chunk=1)(t) * np.sum(r), np.arange(2.0), chunk=1)
    monkeypatch.setattr(tg.config, "threads", 2)
    for function in (total, tg.grad(total)):
        calls = itertools.count(1)
        with pytest.raises(KeyboardInterrupt):
            function(1.0)
            function(1.0)
        near(function(1.0), 0.8)
