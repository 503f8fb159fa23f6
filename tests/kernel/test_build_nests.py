"""Random loop nests over scalars: every loop program gives what the replay gives."""

import numpy as np
import pytest

from tests.every import every
from tests.kernel.lowered import agree, agree_with_adjoint
from tests.kernel.nests import ArrayNest, Nest, program


@every("seed", range(40))
def test_a_random_nest(seed):
    function, text = program(seed)
    rng = np.random.default_rng(seed)
    try:
        agree(function, *[(rng.uniform(0.3, 0.9, Nest.SIZE),) for _ in range(2)], rtol=1e-11)
    except BaseException:
        print(text)
        raise


@pytest.mark.parametrize("seed", [5, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2, 18))])
def test_a_random_nest_with_arrays_and_its_adjoint(seed):
    function, text = program(seed, ArrayNest)
    rng = np.random.default_rng(seed)
    try:
        agree_with_adjoint(function, *[(rng.uniform(0.3, 0.9, Nest.SIZE),) for _ in range(2)], rtol=1e-8, atol=1e-9)
    except BaseException:
        print(text)
        raise
