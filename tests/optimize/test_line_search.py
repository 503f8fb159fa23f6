"""The line search on the test functions of Moré and Thuente, section 5."""

import numpy as np

from tapegrad.optimize import line_search as W
from tests.every import every


def search(phi, slope, first):
    row = np.zeros(W.WORDS)
    W.begin(row, phi(0.0), slope(0.0), first)
    asked, outcome = 0, W.GO_ON
    while outcome == W.GO_ON:
        t = float(row[W.L_STEP])
        outcome = W.advance(row, phi(t), slope(t))
        asked += 1
        assert asked < 100
    return outcome, t, asked


def rational(beta):
    return lambda a: -a / (a * a + beta), lambda a: (a * a - beta) / (a * a + beta) ** 2


def quintic(beta):
    return lambda a: (a + beta) ** 5 - 2 * (a + beta) ** 4, lambda a: 5 * (a + beta) ** 4 - 8 * (a + beta) ** 3


def wiggly(beta, count):
    def inner(a):
        if a <= 1 - beta:
            return 1 - a
        if a >= 1 + beta:
            return a - 1
        return (a - 1) ** 2 / (2 * beta) + beta / 2

    def inner_slope(a):
        return -1.0 if a <= 1 - beta else 1.0 if a >= 1 + beta else (a - 1) / beta

    factor = 2 * (1 - beta) / (count * np.pi)
    return (
        lambda a: inner(a) + factor * np.sin(count * np.pi / 2 * a),
        lambda a: inner_slope(a) + (1 - beta) * np.cos(count * np.pi / 2 * a),
    )


def yanai(beta1, beta2):
    g1, g2 = (np.sqrt(1 + b * b) - b for b in (beta1, beta2))

    def phi(a):
        return g1 * np.sqrt((1 - a) ** 2 + beta2**2) + g2 * np.sqrt(a * a + beta1**2)

    def slope(a):
        return g1 * (a - 1) / np.sqrt((1 - a) ** 2 + beta2**2) + g2 * a / np.sqrt(a * a + beta1**2)

    return phi, slope


@every("first", [1e-3, 1e-1, 1.0, 10.0, 1e3])
@every(
    "problem",
    [rational(2.0), quintic(0.004), wiggly(0.01, 39), yanai(0.001, 0.001), yanai(0.01, 0.001), yanai(0.001, 0.01)],
)
def test_both_conditions_hold_at_the_end(problem, first):
    phi, slope = problem
    outcome, t, asked = search(phi, slope, first)
    assert outcome == W.FOUND and asked <= 20
    assert phi(t) <= phi(0.0) + W.DECREASE * t * slope(0.0)
    assert abs(slope(t)) <= W.CURVATURE * abs(slope(0.0))


def test_where_there_are_no_numbers_it_steps_back():
    outcome, t, _ = search(lambda a: a - np.log(4 - a) if a < 4 else np.nan, lambda a: -1.0 + 0.5 * a if a < 4 else np.nan, 1e6)
    assert outcome in (W.FOUND, W.STUCK) and t < 4
    outcome, _, _ = search(lambda a: 0.0 if a == 0 else np.nan, lambda a: -1.0 if a == 0 else np.nan, 1.0)
    assert outcome == W.BROKEN


def test_a_line_that_goes_up_ends_at_its_beginning():
    row = np.zeros(W.WORDS)
    W.begin(row, 0.0, -1.0, 1.0)
    outcome = W.GO_ON
    while outcome == W.GO_ON:
        t = row[W.L_STEP]
        outcome = W.advance(row, t, 1.0)
    assert outcome == W.STUCK and row[W.L_X] == 0.0


def test_a_line_that_falls_for_ever_ends():
    outcome, t, _ = search(lambda a: -a, lambda a: -1.0, 1.0)
    assert outcome == W.STUCK and t > 1e10
