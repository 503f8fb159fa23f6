"""What second derivatives are where functions are not smooth, and that they are right where rules single out points."""

import itertools

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.array.record import apply
from tapegrad.nn import functional as learning
from tapegrad.rules import BY_NAME, ROWS
from tests.every import every

#: Function, point, second derivative: the table of docs/higher_order.md.
CONVENTIONS = {
    "abs": (np.abs, 0.0, 0.0),
    "relu": (learning.relu, 0.0, 0.0),
    "x * abs(x)": (lambda x: x * np.abs(x), 0.0, 0.0),
    "relu(x)**2": (lambda x: learning.relu(x) ** 2, 0.0, 0.0),
    "maximum(x, x**2), a tie": (lambda x: np.maximum(x, x**2), 1.0, 1.0),
    "max of three, a tie": (lambda x: np.max(np.stack([x, x**2, 2.0 * x - 1.0])), 1.0, 2.0 / 3.0),
    "clip at a bound": (lambda x: np.clip(x, -1.0, 1.0) ** 2, 1.0, 2.0),
    "clip beyond it": (lambda x: np.clip(x, -1.0, 1.0) ** 2, 2.0, 0.0),
    "where": (lambda x: np.where(x > 0.0, x**2, -(x**2)), 0.0, -2.0),
    "where with an infinite branch": (lambda x: np.where(x > 0.0, np.sqrt(x), x**2), 0.0, 2.0),
    "(x - 1)**2": (lambda x: (x - 1.0) ** 2, 1.0, 2.0),
    "norm": (lambda x: np.linalg.norm(np.stack([x, 2.0 * x])), 0.0, 0.0),
    "norm**2": (lambda x: np.linalg.norm(np.stack([x, 2.0 * x])) ** 2, 0.0, 0.0),
    "floor(x) * x": (lambda x: np.floor(x) * x, 1.5, 0.0),
    "sqrt": (np.sqrt, 0.0, -np.inf),
    "x**1.5": (lambda x: x**1.5, 0.0, np.inf),
    "prod with two zeros": (lambda x: np.prod(np.stack([x, x, x + 1.0])), 0.0, 2.0),
    "logaddexp of equal numbers": (lambda x: np.logaddexp(x, 2.0 * x), 0.0, 0.25),
    "softplus": (learning.softplus, 0.0, 0.25),
    "sinc": (np.sinc, 0.0, -np.pi**2 / 3.0),
}
NESTINGS = list(itertools.product((tg.grad, tg.derivative), repeat=2))


@pytest.mark.parametrize("name", CONVENTIONS)
def test_convention(name):
    function, x, expected = CONVENTIONS[name]
    with np.errstate(all="ignore"):
        found = [outer(inner(function))(x) for outer, inner in NESTINGS] + [tg.hessian(function)(x), tg.hvp(function)(x, 1.0)]
    np.testing.assert_allclose(found, expected, rtol=1e-13)


def gradient(row, point):
    leaves = [tg.tensor(x, requires_grad=True) for x in point]
    y = apply(row, leaves)
    if not y.requires_grad:
        return leaves, [None] * len(leaves)
    return leaves, tg.autograd.grad(y, leaves, create_graph=True, allow_unused=True)


def number(g):
    return np.nan if g is None else g.item()


#: Rows that have kinks among the points, or (with a reason) no value of a second derivative there.
KINKS = {
    "absolute": [(0.0,)], "hypot": [(0.0, 0.0)], "i0e": [(0.0,)], "arctan2": [(0.0, 0.0)], "divide": [(0.0, 0.0)],
    "complex_scaled_real": [(0.0, 0.0)], "complex_sqrt_real": [(0.0, 0.0)], "complex_sqrt_imag": [(0.0, 0.0)], "kl_div": [(0.0, 0.0)], "lgamma": [(-1.0,)], "gamma": [(-1.0,)], "rgamma": [(0.0,), (-1.0,)],
}  # fmt: skip
#: Discontinuous or constant, or ties; without a second derivative in a parameter; and beta, whose trigamma has no value at negative numbers.
LEFT_OUT = set(
    "maximum minimum fmax fmin remainder fmod copysign gammainc gammaincc gammaincinv gammainccinv "
    "betainc betaincc betaincinv betainccinv stdtr stdtrit beta betaln sign gammasgn floor ceil trunc rint "
    "floor_divide is_less is_less_equal is_equal is_nan".split()
)
POINTS = (0.0, 1.0, 0.5, 2.0, -1.0, -0.5)
SCANNED = [row.name for row in ROWS if row.elementwise and not row.constants and row.name not in LEFT_OUT]
STEP = 1e-5


@every("name", SCANNED)
def test_points_that_rules_single_out(name):
    """Zeros, ones and equal operands: where gradients are smooth, second derivatives are theirs."""
    row, compared = BY_NAME[name], 0
    with np.errstate(all="ignore"):
        for point in itertools.product(POINTS, repeat=row.arity):
            if point in KINKS.get(name, ()):
                continue
            leaves, first = gradient(row, point)
            # The gradients beside the point, along each operand: all their components at once.
            sides = [[gradient(row, [x + s * (k == j) for k, x in enumerate(point)])[1] for s in (STEP, -STEP)] for j in range(row.arity)]
            for i, j in itertools.product(range(row.arity), repeat=2):
                above, below = (number(side[i]) for side in sides[j])
                centre, measured = number(first[i]), (above - below) / (2 * STEP)
                bend = abs(above - 2.0 * centre + below) / STEP
                if not np.isfinite(measured) or not bend <= 1e-2 * (1.0 + abs(measured)):
                    continue
                found = 0.0
                if first[i].requires_grad:
                    (g,) = tg.autograd.grad(first[i], leaves[j], retain_graph=True, allow_unused=True)
                    found = 0.0 if g is None else g.item()
                assert abs(found - measured) <= 1e-4 * (1.0 + abs(measured)), (point, i, j, found, measured)
                compared += 1
    assert compared
