"""The way from a tape to its loop program, as a whole."""

import gc

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.kernel.adjoint import adjoint
from tapegrad.kernel.ir import Loop, walk
from tapegrad.kernel.kernel import Stages, lower
from tapegrad.kernel.reasons import NotLowered
from tests.kernel.lowered import tape_of


def rosenbrock(x):
    return sum(100.0 * (x[i + 1] - x[i] * x[i]) ** 2 + (1.0 - x[i]) ** 2 for i in range(len(x) - 1))


def test_the_time_of_each_stage_is_told():
    seconds = Stages()
    lower(tape_of(rosenbrock, np.linspace(0.1, 1.0, 40)), seconds)
    assert list(seconds) == ["columns", "roll", "build", "passes"]
    assert all(time > 0.0 for time in seconds.values())


def test_a_program_is_as_long_as_its_source_whatever_the_trip_count():
    sizes = []
    for n in (200, 400):
        program = lower(adjoint(tape_of(rosenbrock, np.linspace(0.1, 1.0, n))))
        assert any(isinstance(s, Loop) for s in program.body)
        sizes.append(sum(1 for _ in walk(program.body)))
    assert sizes[0] == sizes[1]


def test_collection_goes_on_after_a_failure():
    @tg.primitive
    def many(*arrays):
        return sum(float(a[0]) for a in arrays)

    many.defvjp(lambda g, ans, *arrays: arrays)
    tape = tape_of(lambda *xs: many(*xs), *[np.ones(3)] * 20)
    assert gc.isenabled()
    with pytest.raises(NotLowered):
        lower(tape)
    assert gc.isenabled()
