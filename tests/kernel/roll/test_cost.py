"""The work is linear in the number of instructions."""

import numpy as np
import pytest

from tapegrad.kernel.roll.search import LINES, Search


def step(random):
    return np.tile(random.integers(0, 10, 172), 6000)


def incompressible(random):
    return random.integers(0, 20, 1_000_000)


def few_letters(random):
    return random.integers(0, 3, 1_000_000)


def ragged(random):
    rows = [np.concatenate([[5, 6], np.tile([1, 2, 2, 3], count), [7]]) for count in random.integers(1, 9, 50000)]
    return np.concatenate(rows)


def fibonacci(random):
    a, b = [0], [0, 1]
    while len(b) < 1_000_000:
        a, b = b, b + a
    return np.array(b)


def long_copies(random):
    """Long pieces that come twice at many distances."""
    piece = random.integers(0, 10, 100_000)
    return np.concatenate([np.concatenate([piece[k:], [11]]) for k in range(0, 100_000, 10_000)] * 2)


@pytest.mark.parametrize("program", [step, incompressible, few_letters, ragged, fibonacci, long_copies])
def test_steps_per_instruction(program):
    random = np.random.default_rng(0)
    code = program(random)
    search = Search(code, np.empty((0, 2), np.int32), LINES)
    structure = search.structure()
    assert structure.top.starts[0, -1] == code.size >= 1_000_000
    assert search.steps[0] < 64 * code.size


def test_compiled_parts_are_kept_on_disk():
    """Every compiled function of rolling is a function of plain numbers and arrays, made once for one signature."""
    from tapegrad.kernel.roll import folding, runs

    for module in (folding, runs):
        for thing in vars(module).values():
            if hasattr(thing, "overloads") and thing.__module__ == module.__name__:
                assert len(thing.overloads) == 1 and not thing._can_compile
