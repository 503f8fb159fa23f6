"""Nests of loops: in the order of memory, and nothing loaded more often than it changes."""

import numpy as np

from tapegrad.kernel import ir
from tapegrad.kernel.arrays_planner import LoopPlanner
from tapegrad.kernel.ir import ArrayRef, whole
from tapegrad.tape.layout import meta_of


def planned(expr_of, *shapes, transposed=()):
    """The statements and the result of an expression over inputs of these shapes."""
    refs = []
    for k, shape in enumerate(shapes):
        ref = whole(ir.Buffer(ir.INPUT, int(np.prod(shape)), number=k), shape)
        if k in transposed:
            ref = ArrayRef(ref.buffer, ref.offset, ref.shape[::-1], ref.strides[::-1], "d")
        refs.append(ref)
    body = []
    out = meta_of(np.zeros(np.broadcast_shapes(*(r.shape for r in refs))))
    plan = LoopPlanner(refs, out, body)
    return body, plan.deliver(expr_of(*plan.operands), None)


def steps(statement):
    return [coefficient for _, coefficient in statement.index.steps]


def test_c_order_for_c_ordered_operands():
    (outer,), result = planned(lambda x, y: x * y, (3, 5), (3, 5))
    (inner,) = outer.body
    assert (outer.extent, inner.extent) == (3, 5) and result.strides == (5, 1)
    assert [steps(s) for s in inner.body if isinstance(s, ir.Load)] == [[5, 1], [5, 1]]


def test_the_result_lies_as_the_operand_does():
    (outer,), result = planned(lambda x: x * 2.0, (3, 5), transposed=(0,))
    (inner,) = outer.body
    # The transpose is 5 by 3, and is walked as the matrix is.
    assert result.shape == (5, 3) and result.strides == (1, 5) and (outer.extent, inner.extent) == (3, 5)
    assert steps(inner.body[0]) == steps(inner.body[-1]) == [5, 1]


def test_what_does_not_change_is_loaded_outside():
    body, _ = planned(lambda x, column, one: x * column + one, (3, 5), (3, 1), (1, 1))
    *before, outer = body
    *between, inner = outer.body
    assert [s.buffer.number for s in before] == [2] and [s.buffer.number for s in between] == [1]
    assert [s.buffer.number for s in inner.body if isinstance(s, ir.Load)] == [0]


def test_unit_axes_have_no_loop():
    body, result = planned(lambda x: x * 2.0, (1, 4, 1))
    assert [s.extent for s in ir.walk(body) if isinstance(s, ir.Loop)] == [4] and result.shape == (1, 4, 1)


def test_reductions_go_along_memory():
    def carries(axis, transposed):
        body = []
        ref = whole(ir.Buffer(ir.INPUT, 15), (3, 5))
        if transposed:
            ref = ArrayRef(ref.buffer, ref.offset, (5, 3), (1, 5), "d")
        plan = LoopPlanner([ref], meta_of(np.zeros(())), body)
        plan.operands[0].sum(axis)
        return sum(len(s.carries) for s in ir.walk(body) if isinstance(s, ir.Loop))

    assert carries(1, False) == 1 and carries(0, True) == 1, "along memory: a carried value"
    assert carries(0, False) == 0 and carries(1, True) == 0, "across: rows are added up in memory"
    assert carries(None, False) == 2
