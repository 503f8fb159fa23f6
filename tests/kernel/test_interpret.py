"""The reference interpreter, on programs whose results are known."""

import numpy as np
import pytest

from tapegrad.kernel import ir
from tapegrad.rules import lang as L
from tests.kernel.interpret import FINE, NOT_FINITE, interpret


def buffers(n_in, n_out, char="d", **marks):
    return ir.Buffer(ir.INPUT, n_in, char), ir.Buffer(ir.OUTPUT, n_out, char, **marks)


def running_sum(n):
    x, y = buffers(n, n)
    loop = ir.Loop(n)
    carry = ir.Carry(ir.constant(0.0))
    load = ir.Load(x, ir.Index(0, ((loop, 1),)))
    carry.next = ir.Let(L.arg(carry) + L.arg(load))
    loop.carries = [carry]
    loop.body = [load, carry.next, ir.Store(y, ir.Index(0, ((loop, 1),)), carry.next)]
    return ir.LoopProgram([x], [y], [carry.init, loop])


def test_a_carried_value_is_the_running_sum():
    x, y = np.arange(1.0, 6.0), np.empty(5)
    assert interpret(running_sum(5), [x], [y]) == FINE
    np.testing.assert_array_equal(y, np.cumsum(x))


def test_the_counter_of_a_ragged_loop_goes_on():
    y = ir.Buffer(ir.OUTPUT, 4)
    outer = ir.Loop(2)
    inner = ir.Loop(np.array([1, 3]), which=ir.Index(0, ((outer, 1),)))
    inner.body = [ir.constant(1.0)]
    inner.body.append(ir.Store(y, ir.Index(3, ((inner, -1),)), inner.body[0]))
    outer.body = [inner]
    found = np.zeros(4)
    assert interpret(ir.LoopProgram([], [y], [outer]), [], [found]) == FINE
    np.testing.assert_array_equal(found, 1.0)


def test_guards_and_finiteness_are_reported():
    x, y = buffers(1, 1, finite=True)
    load = ir.Load(x, ir.Index())
    condition = ir.Let(L.arg(load) > 0.0, "?")
    inverse = ir.Let(1.0 / (L.arg(load) - 1.0))
    program = ir.LoopProgram([x], [y], [load, condition, ir.Guard(3, condition, True), inverse, ir.Store(y, ir.Index(), inverse)], 4)
    found = np.zeros(1)
    assert [interpret(program, [np.array([v])], [found]) for v in (2.0, -1.0, 1.0)] == [FINE, 3, NOT_FINITE]


def test_a_value_used_before_it_exists_is_an_error():
    _, y = buffers(1, 1)
    one = ir.constant(1.0)
    with pytest.raises(KeyError):
        interpret(ir.LoopProgram([], [y], [ir.Store(y, ir.Index(), one), one]), [], [np.zeros(1)])
