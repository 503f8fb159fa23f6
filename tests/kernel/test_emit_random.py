"""Random loop programs: compiled code, cut into pieces of several sizes, agrees with the interpreter."""

import numpy as np
import pytest

from tapegrad.kernel.emit import CompileOptions
from tapegrad.kernel.kernel import Kernel
from tests.kernel.compare import call, waste
from tests.kernel.interpret import interpret
from tests.kernel.random_programs import arguments, program


def check(seed):
    """Status and outputs; returns the status."""
    made, inputs = program(seed), arguments(seed)
    expected = waste(made)
    status = interpret(made, inputs, expected)
    for limit in (2, 15, 1000):
        found = waste(made)
        assert call(Kernel(made, CompileOptions(limit=limit)), inputs, found) == status, (seed, limit)
        if status == -1:
            for one, other in zip(found, expected):
                np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6 if one.dtype.kind == "f" else 1, err_msg=f"{seed} {limit}")
    return status


@pytest.mark.parametrize("first", [0, 10])
def test_random_programs(first):
    assert {-1} <= {check(seed) for seed in range(first, first + 10)}


@pytest.mark.long
def test_many_random_programs():
    statuses = [check(seed) for seed in range(20, 200)]
    assert 50 < statuses.count(-1) < len(statuses)
