"""Zeros that are overwritten."""

import pytest

from tapegrad.kernel import ir
from tapegrad.kernel.passes.filling import narrow
from tests.kernel.passes.generated import unchanged
from tests.kernel.programs import Writer, a

N = 12


def windows(*parts, read=None):
    """An output filled with a number, then windows ``(first, size)`` of it copied from the input; perhaps read before."""
    w = Writer()
    x, y, z = w.input(N), w.output(N), w.output(1)
    number = w.let(0.25)
    with w.loop(N) as i:
        w.store(number, y, 0, (i, 1))
    if read is not None:
        w.store(w.load(y, read), z)
    else:
        w.store(number, z)
    for first, size in parts:
        with w.loop(size) as i:
            w.store(w.let(2.0 * a(w.load(x, 0, (i, 1)))), y, first, (i, 1))
    return w.program()


@pytest.mark.parametrize(
    "parts, loops", [([(0, N)], 1), ([(1, N - 1)], 1), ([(2, 3), (5, N - 6)], 2), ([(3, 4)], 2), ([], 1), ([(0, N - 6)], 2)]
)
def test_only_the_rest_is_filled(parts, loops):
    program = unchanged(windows(*parts), narrow)
    assert sum(isinstance(statement, ir.Loop) for statement in program.body) == loops


def test_what_is_read_before_stays():
    program = unchanged(windows((0, N), read=3), narrow)
    assert sum(isinstance(statement, ir.Loop) for statement in program.body) == 2


def test_what_else_a_loop_writes_keeps_its_order():
    w = Writer()
    x, y = w.input(N), w.output(N)
    one, two = w.let(0.25), w.let(0.5)
    with w.loop(N) as i:
        w.store(one, y, 0, (i, 1))
        w.store(two, y, 0)
    with w.loop(N - 1) as i:
        w.store(w.load(x, 0, (i, 1)), y, 1, (i, 1))
    unchanged(w.program(), narrow)
