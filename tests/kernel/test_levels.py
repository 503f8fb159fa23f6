"""How much LLVM does for a kernel: nothing to long straight-line code, which our passes leave it nothing of."""

import numpy as np
import pytest

import tapegrad as tg
from benchmarks import programs
from tapegrad.kernel.emit import CompileOptions
from tapegrad.kernel.kernel import TapeKernel

POINT = np.array([0.3, 0.2, 0.5, 0.7])


def kernel(f, x, **options):
    return TapeKernel(tg.grad(f).tape(x), True, CompileOptions(**options))


@pytest.mark.parametrize(
    "f, x, options, levels",
    [
        (programs.irregular(1200), POINT, {}, (0, 1)),
        # Short code may be called often; with fastmath there is something to rearrange, and an entry is to be one function.
        (programs.irregular(50), POINT, {}, (3, 3)),
        (programs.irregular(1200), POINT, {"fastmath": True}, (3, 3)),
        (programs.irregular(1200), POINT, {"entry": True}, (3, 3)),
        (lambda x: np.sum(np.sin(x) * x) + programs.irregular(1200)(x[:4]), np.linspace(0.1, 0.9, 5000), {}, (3, 3)),
    ],
)
def test_levels_and_results(f, x, options, levels):
    made = kernel(f, x, **options)
    assert made._levels == levels
    status, results = made.answer([x])
    assert results is not None, status
    np.testing.assert_allclose(results[-1], tg.grad(f)(x), rtol=1e-12)
