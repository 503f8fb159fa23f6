"""What a function learns by an exception of NumPy is part of its path."""

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.rules import ROWS
from tapegrad.scipy.linalg import solve_triangular
from tests.transforms.replay.impure_programs import KINDS, programs, run

GOOD, BAD = np.array([1.0, 2.0, 3.0]), np.array([1.0, -2.0, 3.0])


def recorded(function, kernel):
    """Value and gradient of `function`, replayed."""
    return tg.jit(tg.value_and_grad(function), kernel=kernel)


def positive(x):
    """Diagonal; singular where one is negative."""
    return np.eye(3) * np.where(x > 0.0, x, 0.0)


def known(x):
    """A symmetric matrix, with what is not a number where one is negative."""
    return np.outer(x, x) * np.where(x > 0.0, 1.0, np.nan) + np.eye(3) * x


#: What fails at BAD, for each row that may.
FAILING = {
    "inv": lambda x: np.sum(np.linalg.inv(positive(x))),
    "solve": lambda x: np.sum(np.linalg.solve(positive(x), np.ones(3))),
    "cholesky": lambda x: np.sum(np.log(np.diagonal(np.linalg.cholesky(np.eye(3) * x)))),
    "eigh": lambda x: np.sum(np.linalg.eigvalsh(known(x)) ** 2),
    "complex_eig": lambda x: np.sum(np.abs(np.linalg.eigvals(known(x)))),
    "svd": lambda x: np.sum(np.linalg.svd(known(x), compute_uv=False)),
    "pinv": lambda x: np.sum(np.linalg.pinv(known(x))),
    "solve_triangular": lambda x: np.sum(solve_triangular(positive(x), np.ones(3))),
}


def test_every_row_that_may_raise_is_looked_at():
    assert {row.name for row in ROWS if row.raises} == set(FAILING)


def check(function, g, x):
    value, gradient = g(x)
    with tg.no_grad():
        np.testing.assert_allclose(value, function(x), rtol=1e-12)
    expected = [(function(x + h) - function(x - h)) / 2e-6 for h in 1e-6 * np.eye(3)]
    np.testing.assert_allclose(gradient, expected, atol=1e-4, rtol=1e-5)


@pytest.mark.parametrize("kernel", ["never", "always"])
@pytest.mark.parametrize("first, second", [(GOOD, BAD), (BAD, GOOD)], ids=["good first", "bad first"])
@pytest.mark.parametrize("unused", [False, True], ids=["", "no result of it used"])
@pytest.mark.parametrize("name", FAILING)
def test_a_failure_that_is_caught_is_another_path(name, unused, first, second, kernel):
    tried = FAILING[name]

    def function(x):
        try:
            y = tried(x)
            return np.sum(x * x) if unused else y
        except np.linalg.LinAlgError:
            return np.sum(3.0 * np.sin(x))

    g = recorded(function, kernel)
    for n in range(12):
        check(function, g, (first, second)[n // 4 % 2] + 0.01 * n)
    stats = g.stats()
    assert not stats.fallback and stats.tapes == 2
    assert bool(stats.kernel_calls) == (kernel == "always")


@pytest.mark.parametrize("kernel", ["never", "always"])
@pytest.mark.parametrize("name", FAILING)
def test_a_failure_that_is_not_caught_is_raised(name, kernel):
    g = recorded(FAILING[name], kernel)
    for n in range(5):
        check(FAILING[name], g, GOOD + 0.01 * n)
    for _ in range(2):
        with pytest.raises(np.linalg.LinAlgError):
            g(BAD)
    check(FAILING[name], g, GOOD)
    assert g.stats().tapes == 1


@pytest.mark.parametrize("kernel", ["never", "always"])
def test_more_jitter_until_it_succeeds(kernel):
    def function(x):
        jitter = 0.0
        while True:
            try:
                factor = np.linalg.cholesky(np.outer(x, x) - np.eye(3) + jitter * np.eye(3))
                return np.sum(np.log(np.diagonal(factor))) + 0.1 * jitter
            except np.linalg.LinAlgError:
                jitter += 0.7

    g = recorded(function, kernel)
    for n in range(10):
        check(function, g, GOOD * (1.0 + 0.05 * n))


@pytest.mark.parametrize("kernel", ["never", "always"])
def test_what_is_no_number_to_begin_with_is_no_failure(kernel):
    def function(x):
        try:
            return np.sum(np.linalg.solve(np.eye(3) * np.array([1.0, 2.0, 4.0]), x))
        except np.linalg.LinAlgError:
            return x[0]

    g = recorded(function, kernel)
    for x in (GOOD, GOOD * np.nan, GOOD, GOOD * np.inf, GOOD, GOOD * np.nan):
        np.testing.assert_allclose(g(x)[0], function(x))
    assert g.stats().tapes == 1


@pytest.mark.parametrize("kernel", ["never", "always"])
def test_the_first_failure_counts(kernel):
    def function(x):
        y = 0.0
        for k in range(3):
            try:
                y = y + (k + 1) * np.linalg.solve(np.reshape(x[k : k + 1], (1, 1)), np.ones(1))[0]
            except np.linalg.LinAlgError:
                y = y + np.sum(x * x)
            if y > 100.0:
                return y * 2.0
        return y

    g = recorded(function, kernel)
    for zeros in ([], [1], [0], [2], [0, 1], [], [1], [1, 2], [0], [2]):
        x = GOOD.copy()
        x[zeros] = 0.0
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(g(x)[0], function(x))
    assert g.stats().tapes == 6


@pytest.mark.parametrize("kernel", ["never", "always"])
def test_a_failing_factor_in_machine_code(kernel):
    def function(x):
        try:
            return np.sum(np.linalg.cholesky(np.eye(3) * x))
        except np.linalg.LinAlgError:
            return np.sum(np.linalg.cholesky(np.eye(3) * x * x))

    g = recorded(function, kernel)
    for n in range(6):
        check(function, g, BAD - 0.01 * n)
    assert g.stats().tapes == 1 and bool(g.stats().kernel_calls) == (kernel == "always")


def test_an_error_of_a_function_without_derivative():
    def function(x):
        try:
            return np.sum(x) * np.digitize(2.5, x)
        except ValueError:
            return x[0]

    g = recorded(function, "never")
    for x in (GOOD, GOOD + 0.1, BAD, GOOD, BAD):
        with tg.no_grad():
            assert g(x)[0] == function(x)


def test_generated_programs_with_exceptions():
    kinds = [name for name in KINDS if name.endswith((", good first", ", bad first"))]
    assert len(kinds) >= 20
    for program in programs(0, 3 * len(kinds), kinds):
        outcome = run(program)
        assert outcome.verdict == "right", f"{outcome.text}\n{program.source}"


@pytest.mark.parametrize("first, second", [(1.0, 3.0), (3.0, 1.0)])
def test_an_error_of_a_primitive_is_a_decision(first, second):
    @tg.primitive
    def squared(x):
        if x[0] > 2.0:
            raise ValueError("too large")
        return x * x

    @squared.defvjp
    def _(g, result, x):
        return 2.0 * x * g

    def function(x):
        try:
            return np.sum(squared(x))
        except ValueError:
            return x[1]

    g = recorded(function, "never")
    for start in (first, first, second, second, first, second, first):
        x = np.array([start, 5.0, 0.0])
        assert g(x)[0] == function(x)
