"""Short loops over elements that a table names."""

import numpy as np

import tapegrad as tg
from tapegrad.kernel import ir
from tapegrad.kernel.passes import run_passes
from tapegrad.kernel.passes.fusing import UNROLLED, unroll
from tapegrad.kernel.passes.simplifying import simplify
from tests.kernel.passes.generated import unchanged
from tests.kernel.programs import Writer, a


def table_of(positions, changes):
    positions = np.array(positions, np.int64).view(Table)
    positions.flags.writeable = changes
    return ir.Buffer(ir.CONSTANT, positions.size, "l", data=positions)


def picked(count, changes=False, after=False):
    """Elements of an input, in an order of a table, to where another table says; `after` uses what was moved last."""
    w = Writer()
    x, y, z = w.input(count + 1), w.output(count), w.output(1)
    sources, targets = table_of(np.arange(count)[::-1] + 1, changes), table_of(np.roll(np.arange(count), 3), changes)
    with w.loop(count) as i:
        number, other = w.load(sources, 0, (i, 1)), w.load(targets, 0, (i, 1))
        last = w.add(ir.Load(x, ir.Index(0, (), None, number)))
        w.add(ir.Store(y, ir.Index(0, (), None, other), last))
    w.store(w.let(a(last) + 1.0) if after else w.let(1.0), z)
    return w.program()


def loops_of(program):
    return sum(isinstance(statement, ir.Loop) for statement in program.body)


class Table(np.ndarray):
    """Positions of which a copy stays as it is, too."""

    def __deepcopy__(self, memo):
        return self


def unrolled(program):
    new = unroll(program)
    if new:
        simplify(program, new)
    return program


def test_few_elements_are_moved_one_by_one():
    for change in (unrolled, run_passes):
        assert loops_of(unchanged(picked(10), change)) == 0
        assert loops_of(unchanged(picked(10, after=True), change)) == 0
    assert all(s.index.plus is None for s in unrolled(picked(10)).body if isinstance(s, ir.Store))


def test_many_are_not_and_those_of_a_table_that_may_change_are_not():
    for program in (picked(UNROLLED // 4 + 1), picked(10, changes=True)):
        assert loops_of(unchanged(program, run_passes)) == 1


def test_an_array_of_positions_of_the_user_is_read_where_it_is():
    order = np.array([3, 1, 2])
    g = tg.jit(tg.value_and_grad(lambda x: np.sum(x[order] * x[:3] ** 2)), kernel="always")
    x = np.array([0.5, -1.0, 2.0, 3.0])
    expected = lambda: (np.sum(x[order] * x[:3] ** 2), np.bincount(order, x[:3] ** 2, 4) + np.append(2.0 * x[order] * x[:3], 0.0))
    for positions in ([3, 1, 2], [0, 0, 3], [2, 2, 1]):
        order[:] = positions
        for _ in range(3):
            value, slope = g(x)
            np.testing.assert_allclose(value, expected()[0], rtol=1e-14)
            np.testing.assert_allclose(slope, expected()[1], rtol=1e-14)
