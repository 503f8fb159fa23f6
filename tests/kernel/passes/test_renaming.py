"""Copies that need not be made."""

import numpy as np

import tapegrad as tg
from tapegrad.kernel import ir
from tapegrad.kernel.passes.renaming import rename
from tests.kernel.passes.generated import unchanged
from tests.kernel.programs import Writer, a, temporary

N = 12


def copied(outside):
    """An input doubled into a temporary, which is copied to an output; `outside` uses what was copied last."""
    w = Writer()
    x, y, z, t = w.input(N), w.output(N), w.output(2), temporary(N)
    with w.loop(N) as i:
        w.store(w.let(2.0 * a(w.load(x, 0, (i, 1)))), t, 0, (i, 1))
    with w.loop(N) as i:
        last = w.load(t, 0, (i, 1))
        w.store(last, y, 0, (i, 1))
    if outside:
        w.store(last, z)
        w.store(w.let(a(last) + 1.0), z, 1)
    return w.program()


def test_what_is_only_copied_is_stored_where_it_is_copied_to():
    program = unchanged(copied(False), rename)
    assert sum(isinstance(statement, ir.Loop) for statement in program.body) == 1


def test_what_was_copied_last_is_still_known():
    program = unchanged(copied(True), rename)
    assert sum(isinstance(statement, ir.Loop) for statement in program.body) == 1


def test_second_derivatives_of_a_filter():
    """Its adjoint begins with the last of the adjoints that were copied."""

    def energy(x):
        y, outputs = 0.0, []
        for drive in np.sin(np.arange(17)) * x[0]:
            y = x[1] * y + drive
            outputs.append(y)
        return np.sum(np.stack(outputs) ** 2)

    h, g = tg.jit(tg.hessian(energy), kernel="always"), tg.jit(tg.hessian(energy), kernel="never")
    for k in range(4):
        x = np.array([1.0 + k, 0.5 - 0.2 * k])
        np.testing.assert_allclose(h(x), g(x), rtol=1e-12)
    assert h.stats().kernels == 1
