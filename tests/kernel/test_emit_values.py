"""Functions that kernels compute otherwise than the sweeps: extrema without branches."""

import numpy as np
import pytest

from tapegrad.kernel import ir
from tapegrad.kernel.kernel import Kernel
from tapegrad.rules import lang as L
from tests.kernel.compare import call


def elementwise(expr_of, *inputs, char="d"):
    """An expression in every element of arrays, by machine code."""
    loop, n = ir.Loop(len(inputs[0])), len(inputs[0])
    buffers, out = [ir.Buffer(ir.INPUT, n, char, k) for k in range(len(inputs))], ir.Buffer(ir.OUTPUT, n, char)
    at = ir.Index(0, ((loop, 1),))
    loads = [ir.Load(b, at) for b in buffers]
    value = ir.Let(expr_of(*map(L.arg, loads)), char)
    loop.body = [*loads, value, ir.Store(out, at, value)]
    found = np.zeros(n, char)
    call(Kernel(ir.LoopProgram(buffers, [out], [loop])), inputs, [found])
    return found


@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_extrema_give_nan_where_an_operand_is(name):
    x = np.array([1.0, np.nan, 2.0, np.nan, -np.inf, 3.0] * 3)
    y = np.array([2.0, 1.0, np.nan, np.nan, 0.0, np.inf] * 3)
    np.testing.assert_array_equal(elementwise(lambda a, b: L.Expr(name, (a, b)), x, y), getattr(np, name)(x, y))
