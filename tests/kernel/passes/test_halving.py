"""Symmetric matrices of which half is computed: fewer multiplications, the same elements."""

import numpy as np
import pytest

from tapegrad.kernel import ir
from tapegrad.kernel.kernel import lower
from tapegrad.kernel.passes import halving
from tapegrad.kernel.passes.halving import halve
from tapegrad.transforms.hessians import _products_with_units
from tapegrad.transforms.replay.function import Replayed
from tapegrad.transforms.transformed import BodyProgram
from tests.kernel.lowered import agrees, tape_of

N, ROWS = 96, 40
DATA = np.random.default_rng(0).normal(size=(ROWS, N)) / np.sqrt(N)
X = np.random.default_rng(1).normal(size=N)


@pytest.fixture(autouse=True)
def small_products_are_worth_it(monkeypatch):
    monkeypatch.setattr(halving, "WORTH", 1000)


def multiplications(program):
    """Of the matrix products of a program."""
    return sum(int(np.prod(s.product)) for s in ir.walk(program.body) if isinstance(s, ir.Run))


def halved(tape, *points):
    """Multiplications before and after; what is computed is compared with replays."""
    program = lower(tape)
    before = multiplications(program)
    halve(program)
    agrees(program, tape, *points, rtol=1e-12, atol=1e-13)
    return before, multiplications(program)


def hessian(function, *args):
    numbers = tuple(range(len(args)))
    return Replayed(BodyProgram(function, numbers, False, _products_with_units), numbers, scalar=False, adjoints=False).tape(args, {}, False)


def logistic(w):
    return np.sum(np.logaddexp(0.0, DATA @ w)) + 0.5 * np.sum(w * w)


def test_the_hessian_of_a_logistic_regression_takes_little_more_than_half():
    before, after = halved(hessian(logistic, X), (X,), (2.0 * X,))
    assert before == N * ROWS * N and 0.5 * before < after < 0.7 * before


def test_blocks_of_several_arguments():
    edges = (0, 25, 60, N - 1, N)

    def function(*parts):
        z = sum(DATA[:, a:b] @ part for a, b, part in zip(edges, edges[1:], parts))
        return np.sum(np.logaddexp(0.0, z))

    parts = [X[a:b] for a, b in zip(edges, edges[1:])]
    before, after = halved(hessian(function, *parts), parts, tuple(-p for p in parts))
    assert before == N * ROWS * (N - 1) and after < 0.75 * before


def product(d):
    return DATA.T @ (d[:, None] * DATA)


@pytest.mark.parametrize(
    "function, share",
    [
        (product, 0.7),
        (lambda d: np.exp(product(d)) * 2.0, 0.7),
        (lambda d: product(d) * product(d * d), 0.7),
        (lambda d: (p := product(d)) + np.sum(p), 1.0),
        (lambda d: (p := product(d)) + p.T, 1.0),
        (lambda d: product(d)[::-1, ::-1], 1.0),
        (lambda d: product(d)[: N - 1, : N - 1], 1.0),
        (lambda d: np.cumsum(product(d).reshape(-1)), 1.0),
    ],
    ids=["product", "function of it", "two", "sum used", "transpose used", "turned", "window", "running sum"],
)
def test_products_that_go_to_the_same_elements_only(function, share):
    d = np.linspace(0.5, 1.0, ROWS)
    before, after = _counted(tape_of(function, d))
    assert before > 0 and (after == before if share == 1.0 else after < share * before)
    if share < 1.0:
        halved(tape_of(function, d), (d,), (d * d,))


def _counted(tape):
    program = lower(tape)
    before = multiplications(program)
    return before, multiplications(halve(program))


def test_a_product_that_another_one_reads_stays():
    square = np.random.default_rng(2).normal(size=(N, N))
    tape = tape_of(lambda d: (p := square * d) @ (square.T @ p), np.linspace(0.5, 1.0, N))
    before, after = _counted(tape)
    assert before == 2 * N**3 and 1.5 * N**3 < after < 1.7 * N**3


def test_small_matrices_stay():
    data = DATA[:, :60]
    before, after = _counted(tape_of(lambda d: data.T @ (d[:, None] * data), np.ones(ROWS)))
    assert before == after == 60 * ROWS * 60
