"""Columns of references that are copied to arrays."""

import numpy as np
import pytest

import tapegrad as tg


@pytest.mark.parametrize("n", [1, 2, 5, 40])
def test_gradients_that_are_constants_are_copied(n):
    # There are more constants than instructions.
    weights = 1.5 + np.arange(n)
    g = tg.jit(tg.value_and_grad(lambda x: sum(float(w) * x[k] for k, w in enumerate(weights))), kernel="always")
    x = np.linspace(0.2, 0.9, n)
    for _ in range(3):
        value, gradient = g(x)
        assert np.isclose(value, weights @ x, rtol=1e-14)
        assert np.array_equal(gradient, weights)
    stats = g.stats()
    assert stats.kernels == 1 and stats.kernel_calls and not stats.not_lowered


def test_columns_mix_constants_arguments_and_results():
    g = tg.jit(tg.value_and_grad(lambda x: 2.0 * x[0] + x[1] * x[2] + np.sin(x[3])), kernel="always")
    x = np.array([0.3, 0.5, 0.7, 0.9])
    for _ in range(3):
        value, gradient = g(x)
        assert np.allclose(gradient, [2.0, x[2], x[1], np.cos(x[3])], rtol=1e-15)
    assert g.stats().kernel_calls
