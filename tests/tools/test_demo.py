"""The model of the demo: its derivatives, its steps, and what is published."""

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.tools import demo


@pytest.fixture(scope="module")
def pelts():
    return demo.read_pelts()


def test_the_table_is_whole(pelts):
    years, hares, lynxes = pelts
    assert list(years) == list(range(1900, 1921))
    assert hares.max() == 77.4 and lynxes.max() == 59.4


def test_a_step_conserves_what_the_equations_conserve():
    rates, (u, v) = (0.55, 0.028, 0.8, 0.024), (30.0, 4.0)

    def conserved(u, v):
        alpha, beta, gamma, delta = rates
        return delta * u - gamma * np.log(u) + beta * v - alpha * np.log(v)

    before = conserved(u, v)
    for _ in range(100):
        u, v = demo.step(u, v, rates, 0.1)
    assert conserved(u, v) == pytest.approx(before, rel=1e-5)


def test_derivatives_of_a_few_years(pelts):
    _, hares, lynxes = pelts
    tg.check(lambda theta: demo.misfit(theta, hares[:3], lynxes[:3]), demo.first_guess(hares, lynxes))


def test_the_fit_is_as_published_and_its_errors_are_those_of_differences(pelts):
    _, hares, lynxes = pelts
    result, covariance = demo.fit(hares, lynxes)
    assert result.success and demo.as_published(result)
    gradient, h = tg.grad(demo.misfit), 1e-5
    steps = [gradient(result.x + h * e, hares, lynxes) - gradient(result.x - h * e, hares, lynxes) for e in np.eye(8)]
    np.testing.assert_allclose(np.linalg.inv(covariance), np.array(steps) / (2 * h), rtol=1e-4, atol=1e-2)


def test_another_result_is_not_as_published(pelts):
    result, _ = demo.fit(*pelts[1:])
    result.x = result.x + np.log([1.5, 1, 1, 1, 1, 1, 1, 1])
    assert not demo.as_published(result)


def test_slopes_agree(pelts):
    by_tape, by_difference = demo.slopes(*pelts[1:])
    assert by_tape == pytest.approx(by_difference, rel=1e-6)
