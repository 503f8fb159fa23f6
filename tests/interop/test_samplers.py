"""BlackJAX's sampler with a log density of ours."""

import numpy as np
import pytest

from tapegrad.interop import to_jax

jax, blackjax = pytest.importorskip("jax"), pytest.importorskip("blackjax")


def logp(x):
    """A normal distribution of two numbers, correlated; below zero the first one is spread wider."""
    spread = 1.0 if x[0] > 0.0 else 2.0
    return -0.5 * ((x[0] / spread) ** 2 + ((x[1] - 0.5 * x[0]) / 0.5) ** 2) - np.log(1.0)


def test_blackjax_samples_a_density_of_ours():
    density = to_jax(logp)
    kernel = blackjax.nuts(density, step_size=0.4, inverse_mass_matrix=np.ones(2))
    state, step = kernel.init(jax.numpy.zeros(2)), jax.jit(kernel.step)

    def one(state, key):
        state, _ = step(key, state)
        return state, state.position

    draws = np.asarray(jax.lax.scan(one, state, jax.random.split(jax.random.key(0), 4000))[1])[200:]
    # Halves of two normal distributions, with weights like their widths: E[x] = (2 - 8) / 3 / sqrt(2 pi), E[x**2] = (1 + 8) / 3.
    assert abs(draws[:, 0].mean() + 0.7979) < 0.15
    assert abs((draws[:, 0] ** 2).mean() - 3.0) < 0.4
    assert abs((draws[:, 1] - 0.5 * draws[:, 0]).std() - 0.5) < 0.05
