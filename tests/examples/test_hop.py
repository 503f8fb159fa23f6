"""The example of optimal control with an event."""

import numpy as np
import pytest

import tapegrad as tg


@pytest.fixture(scope="module")
def example(load):
    return load("hop")


def test_the_rocket_comes_down_farther_away(example, picture):
    ends = example.main(picture)
    assert ends["after"][1] > ends["before"][1] + 2.0
    # At the best angles nothing is gained by others nearby.
    best = ends["knobs"]
    assert all(example.landing(best + d)[1] < ends["after"][1] + 1e-3 for d in 0.02 * np.vstack([np.eye(3), -np.eye(3)]))


def test_gradient_through_the_event(example):
    knobs = np.array([0.8, 0.01, -0.02])
    gradient = tg.grad(lambda k: example.landing(k)[1])(knobs)
    differences = [(example.landing(knobs + d)[1] - example.landing(knobs - d)[1]) / 2e-3 for d in 1e-3 * np.eye(3)]
    np.testing.assert_allclose(gradient, differences, rtol=1e-3)
