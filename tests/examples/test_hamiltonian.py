"""The example of a sampler: moments, and that a wrong gradient is noticed."""

import numpy as np
import pytest

import tapegrad as tg


@pytest.fixture(scope="module")
def example(load):
    return load("hamiltonian")


@pytest.mark.long
def test_moments(example, picture):
    found = example.main(picture, draws=4000)
    assert found["off"] < 5.0 and found["gaussian"].shape == (4000, 12) and found["funnel"].shape == (4000, 4)


def test_the_same_seed_gives_the_same_samples(example):
    compiled = tg.compile(example.gaussian(3)[0], np.zeros(3))
    first, _ = example.hamiltonian_monte_carlo(compiled, np.zeros(3), 50, 0.3, 4, 7)
    again, _ = example.hamiltonian_monte_carlo(compiled, np.zeros(3), 50, 0.3, 4, 7)
    other, _ = example.hamiltonian_monte_carlo(compiled, np.zeros(3), 50, 0.3, 4, 8)
    assert np.array_equal(first, again) and not np.array_equal(first, other)


def test_samples_of_another_density_are_noticed(example):
    compiled = tg.compile(lambda x: 0.5 * np.sum((x - 0.3) ** 2), np.zeros(2))
    samples, _ = example.hamiltonian_monte_carlo(compiled, np.zeros(2), 4000, 0.35, 8, 0)
    assert example.off(samples, 0.0) > 5.0 and example.off(samples, 0.3) < 5.0


def test_derivatives_of_both_densities(example):
    tg.check(example.funnel, np.array([0.5, 1.0, -2.0, 0.3]))
    tg.check(example.gaussian(4)[0], np.linspace(-1.0, 1.0, 4))
