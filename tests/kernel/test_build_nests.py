"""Random loop nests over scalars: every loop program gives what the replay gives."""

import numpy as np
import pytest

from tests.kernel.lowered import agree
from tests.kernel.nests import Nest, program


@pytest.mark.parametrize("seed", range(60))
def test_a_random_nest(seed):
    function, text = program(seed)
    rng = np.random.default_rng(seed)
    try:
        agree(function, *[(rng.uniform(0.3, 0.9, Nest.SIZE),) for _ in range(2)], rtol=1e-11)
    except BaseException:
        print(text)
        raise
