"""The derivative of tanh as one function."""

import numpy as np
import pytest

from tapegrad.kernel import ir
from tapegrad.kernel.adjoint import adjoint
from tapegrad.kernel.passes.combining import combine
from tapegrad.kernel.pipeline import lower
from tapegrad.rules import lang as L
from tests.kernel.lowered import agrees, tape_of
from tests.kernel.passes.generated import unchanged
from tests.kernel.programs import Writer, a

N = 12


def functions(program):
    """Names of the elementary functions of a program, in order."""
    found = [node.op for s in ir.walk(program.body) if isinstance(s, ir.Let) for node in ir.nodes(s.expr)]
    return [op for op in found if op in ("tanh", "cosh", "sech2", "div")]


@pytest.mark.parametrize(
    "function", [lambda x: np.sum(np.tanh(x)), lambda x: np.tanh(x[0]) * x[1], lambda x: np.sum(np.tanh(np.tanh(x) * x))],
    ids=["array", "scalar", "nested"],
)  # fmt: skip
def test_gradients_with_tanh_have_no_cosh(function):
    points = [(np.linspace(-2.0, 3.0, N),), (np.linspace(-400.0, 20.0, N),)]
    tape = adjoint(tape_of(function, *points[0]))
    program = lower(tape)
    found = functions(program)
    assert "cosh" not in found and "div" not in found and found.count("sech2") == found.count("tanh") > 0
    agrees(program, tape, *points, rtol=1e-13, atol=1e-300)


@pytest.mark.parametrize(
    "of, same",
    [
        (lambda w, x: (r := w.let(1.0 / a(w.let(L.cosh(a(x)))))) and w.let(a(r) * a(r)), False),
        (lambda w, x: w.let((r := 1.0 / L.cosh(a(x))) * r), False),
        (lambda w, x: (r := w.let(2.0 / a(w.let(L.cosh(a(x)))))) and w.let(a(r) * a(r)), True),
        (lambda w, x: (r := w.let(1.0 / a(w.let(L.sinh(a(x)))))) and w.let(a(r) * a(r)), True),
        (lambda w, x: (r := w.let(1.0 / a(w.let(L.cosh(a(x)))))) and w.let(a(r) * a(x)), True),
        (lambda w, x: (r := w.let(1.0 / a(w.let(L.cosh(a(x)), "f")))) and w.let(a(r) * a(r)), True),
    ],
    ids=["values", "one expression", "another number", "another function", "no square", "another type"],
)
def test_only_the_square_of_the_reciprocal(of, same):
    w = Writer()
    x, y = w.input(N), w.output(N)
    with w.loop(N) as i:
        w.store(of(w, w.load(x, 0, (i, 1))), y, 0, (i, 1))
    changed = unchanged(w.program(), combine, rtol=1e-14)
    assert ("sech2" in functions(changed)) is not same
