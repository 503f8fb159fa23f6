"""Where iterations begin."""

import numpy as np

from tapegrad.kernel.roll import Repeat, find
from tests.kernel.roll.nests import order_of


def chain(iterations, before=(), after=()):
    """A loop whose iterations (1 2 3 1) pass on only their last value; its code, operands, and where it begins."""
    code, operands = list(before), [(-1, -1)] * len(before)
    carried = len(code) - 1
    for _ in range(iterations):
        at = len(code)
        code += [1, 2, 3, 1]
        operands += [(carried, -1), (at, carried), (at, at + 1), (at + 1, at + 2)]
        carried = at + 3
    return code + list(after), operands + [(-1, -1)] * len(after), len(before)


def begin(structure):
    (loop,) = [node for node in structure.nodes if isinstance(node, Repeat)]
    return int(loop.body[0].members[0]), loop.extent


def test_values_that_cross_decide():
    """Instructions before and after that happen to fit do not move the beginning of iterations."""
    for before in ((), (9,), (1,), (3, 1), (2, 3, 1), (9, 1)):
        for after in ((), (1,), (1, 2), (9,)):
            code, operands, at = chain(200, before, after)
            assert begin(find(code, operands)) == (at, 200)


def test_without_operands_the_first_phase_is_taken():
    code, _, at = chain(200, (9,), (9,))
    assert begin(find(code)) == (at, 200)


def test_one_phase_for_all_executions_of_a_loop():
    """The inner loop begins alike in every iteration of the outer one though what precedes it differs once."""
    code = [3, 1] + [2, 3, 1] * 30
    for _ in range(60):
        code += [7, 8] + [2, 3, 1] * 30
    structure = find(code, lines=0)
    (outer,) = [node for node in structure.nodes if isinstance(node, Repeat) and node.extent >= 60]
    (inner,) = [node for node in outer.body if isinstance(node, Repeat)]
    assert len(outer.body) == 3
    assert inner.extent == 30 and len(inner.body) == 3


def test_an_odd_first_iteration_is_peeled_rather_than_making_a_table():
    """Rows of 40 after a first row of 50: the inner extent is a number."""
    code = [7] + [1, 2, 3] * 50
    for _ in range(100):
        code += [7] + [1, 2, 3] * 40
    structure = find(code, lines=0)
    (outer,) = [node for node in structure.nodes if isinstance(node, Repeat) and len(node.body) == 2]
    assert outer.extent >= 99
    assert [node.extent for node in outer.body if isinstance(node, Repeat)] == [40]
    assert np.array_equal(order_of(structure), np.arange(len(code)))
