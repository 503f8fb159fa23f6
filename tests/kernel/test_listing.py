"""Loop programs as text."""

import numpy as np

from tapegrad.kernel import ir
from tapegrad.rules import lang as L
from tapegrad.rules.lang import written
from tests.kernel.programs import Writer, a, at, constant, rosenbrock, temporary


def test_loops_indices_and_buffers():
    assert str(rosenbrock(50)) == """\
x0: float64[50]
y0: float64[1]
y1: float64[50]

a0 = 0.0
y1[49] = a0
a1 = 0.0
for i in range(49) with a2 from a1:
    a3 = x0[i]
    a4 = x0[i + 1]
    a5 = a4 - a3 * a3
    a6 = 1.0 - a3
    a7 = a2 + (100.0 * (a5 * a5) + a6 * a6)
    next a2 = a7
y0[0] = a7
for i in range(49):
    a8 = x0[-i + 48]
    a9 = x0[-i + 49]
    a10 = 200.0 * (a9 - a8 * a8)
    a11 = y1[-i + 49]
    a12 = a11 + a10
    y1[-i + 49] = a12
    a13 = -2.0 * (1.0 - a8) - 2.0 * (a8 * a10)
    y1[-i + 48] = a13"""


def test_ragged_loops_tables_guards_and_array_programs():
    w = Writer()
    x, y, t = w.input(9, "f"), w.output(9, finite=True), temporary(4)
    with w.loop(2) as i:
        with w.loop(np.array([1, 3]), which=at(0, (i, 1))) as j:
            element = w.load(x, -1, (j, 2), (i, 3), table=np.arange(9))
            w.guard(w.let(a(element) < 2.0, "?"), early=True)
    w.guard(element, np.float32(1.5).tobytes())
    w.add(ir.Run(np.zeros(2, np.int64), [(0, t, at()), (40, constant([1.0, 2.0, 3.0, 4.0, 5.0]), at(1))], name="cumsum"))
    w.store(element, y, 8)
    assert str(w.program()) == """\
x0: float32[9]
y0: float64[9], finite
c0: table[9] = [0, 1, 2, 3, ...]
c1: float32[1] = [1.5]
t0: float64[4]
c2: float64[5] = [1.0, 2.0, 3.0, 4.0, ...]

for i in range(2):
    for j in the next of 4, [1, 3][i] at a time:
        a0 = x0[c0[2*j + 3*i - 1]]
        a1: bool = a0 < 2.0
        guard 0: a1 is True (early)
a2 = c1[0]
a3: bool = select(isnan(a2), isnan(a0), a0 == a2 and copysign(1.0, a0) == copysign(1.0, a2))
guard 1: a3 is True
t0[0]... = cumsum(c2[1])
y0[8] = a0"""


def test_expressions_keep_their_order_of_operations():
    x, y = L.arg("x"), L.arg("y")
    cases = {
        "x - (y - x)": x - (y - x), "x - y - x": x - y - x, "(x + y) * x / y": (x + y) * x / y, "x / (y * x)": x / (y * x),
        "-(x + y)": -(x + y), "-x * y": -x * y,
        "select(x < 1.0 or not y > 2.0, exp(x), -1.5)": L.select((x < 1.0) | ~(y > 2.0), L.exp(x), -1.5),
    }  # fmt: skip
    assert {text: written(expr, str) for text, expr in cases.items()} == {text: text for text in cases}


def test_an_expression_may_be_deep():
    expr = L.arg(0)
    for _ in range(2000):
        expr = L.sin(expr) * L.arg(1) + 1.0
    assert written(expr, lambda k: f"a{k}").count("sin(") == 2000
