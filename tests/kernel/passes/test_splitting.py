"""Which loops are written out, or cut at the ends of rows."""

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.kernel import ir
from tapegrad.kernel.passes import run_passes
from tapegrad.kernel.passes.simplifying import simplify
from tapegrad.kernel.passes.splitting import split
from tests.kernel.passes.generated import Rows, unchanged
from tests.kernel.passes.test_fusing import loops
from tests.kernel.programs import Writer, a

N = 40


def divided(program):
    """`split`, which has to find something."""
    new = split(program)
    assert new is not None
    return simplify(program, new)


def extents(program):
    return [s.extent for s in ir.walk(program.body) if isinstance(s, ir.Loop)]


def test_windows_and_nests_become_rows():
    """Three rows: filled at once, copied row by row, one of them added to."""
    w = Writer()
    x, y = w.input(N), w.output(3 * N)
    t = ir.Buffer(ir.TEMPORARY, 3 * N)
    zero = w.let(0.0)
    with w.loop(3 * N) as i:
        w.store(zero, t, 0, (i, 1))
    with w.loop(3) as i:
        with w.loop(N) as j:
            w.store(w.load(t, 0, (i, N), (j, 1)), y, 0, (i, N), (j, 1))
    with w.loop(N) as i:
        w.store(w.let(a(w.load(y, N, (i, 1))) + a(w.load(x, 0, (i, 1)))), y, N, (i, 1))
    assert extents(unchanged(w.program(), divided)) == 7 * [N]
    program = unchanged(w.program(), run_passes)
    assert extents(program) == [N]
    assert not any(s.buffer.role == ir.TEMPORARY for s in ir.walk(program.body) if isinstance(s, (ir.Load, ir.Store)))


def test_sums_go_on_from_row_to_row():
    """The carry of a loop that is cut, and what is used of it afterwards; two that change places."""
    w = Writer()
    x, y, z = w.input(3 * N), w.output(N), w.output(4)
    with w.loop(3 * N, w.let(1.0), w.let(2.0)) as i:
        one, two = i.carries
        one.next, two.next = w.let(a(two) + a(w.load(x, 0, (i, 1)))), one
    with w.loop(N) as j:
        w.store(w.let(a(one.next) * a(w.load(x, 0, (j, 1)))), y, 0, (j, 1))
    with w.loop(N) as j:
        w.store(w.let(a(w.load(y, N - 1, (j, -1)))), y, 0, (j, 1))
    for k, value in enumerate((one, two, one.next, two.next)):
        w.store(value, z, k)
    assert extents(unchanged(w.program(), divided)) == 5 * [N]


def test_short_loops_in_a_row_are_written_out():
    """A sum over three elements for each of a row, in a nest of two rows: values of an iteration are its own."""
    w = Writer()
    x, y = w.input(6 * N), w.output(2 * N)
    zero = w.let(0.0)
    with w.loop(2) as i:
        with w.loop(N) as j:
            with w.loop(3, zero) as k:
                k.carries[0].next = w.let(2.0 * a(k.carries[0]) + a(w.load(x, 0, (i, 3 * N), (j, 1), (k, N))))
            w.store(k.carries[0].next, y, 0, (i, N), (j, 1))
    with w.loop(N) as j:
        w.store(w.let(a(w.load(y, 0, (j, 1))) * 0.5), y, 0, (j, 1))
    assert extents(unchanged(w.program(), divided)) == 3 * [N]


def test_guards_are_kept_for_each_row():
    w = Writer()
    x, y = w.input(2 * N), w.output(2 * N)
    with w.loop(2 * N) as i:
        w.guard(w.let(a(w.load(x, 0, (i, 1))) < 1e9, "?"))
    for row in range(2):
        with w.loop(N) as i:
            w.store(w.load(x, row * N, (i, 1)), y, row * N, (i, 1))
    program = unchanged(w.program(), divided)
    assert extents(program) == 4 * [N] and sum(isinstance(s, ir.Guard) for s in ir.walk(program.body)) == 2


@pytest.mark.parametrize("extent, fewer", [(N + 1, 0), (17 * N, 0), (16 * N, 0)])
def test_what_stays_as_it_is(extent, fewer):
    """No multiple; too many rows; nothing else of that extent."""
    w = Writer()
    x, y = w.input(20 * N), w.output(20 * N)
    for _ in range(1 if extent == 16 * N else 3):
        with w.loop(N if _ else extent) as i:
            w.store(w.load(x, 0, (i, 1)), y, 0, (i, 1))
    assert split(w.program()) is None


def test_a_loop_over_another_array_is_no_reason():
    """Half as long, but it goes along no row of what the longer one touches."""
    w = Writer()
    x, y, z = w.input(2 * N), w.output(2 * N), w.output(2 * N)
    with w.loop(2 * N) as i:
        w.store(w.load(x, 0, (i, 1)), y, 0, (i, 1))
    for row in range(2):
        with w.loop(N) as i:
            w.store(w.let(1.0), z, row * N, (i, 1))
    assert split(w.program()) is None


def test_what_was_split_shows_what_else_is_to_be_split():
    """A fill of an array that only a nest copies, to an array of which a row is used."""
    w = Writer()
    x, y = w.input(N), w.output(3 * N)
    t = ir.Buffer(ir.TEMPORARY, 3 * N)
    with w.loop(3 * N) as i:
        w.store(w.let(0.5), t, 0, (i, 1))
    with w.loop(3) as i:
        with w.loop(N) as j:
            w.store(w.load(t, 0, (i, N), (j, 1)), y, 0, (i, N), (j, 1))
    with w.loop(N) as i:
        w.store(w.let(a(w.load(y, N, (i, 1))) * a(w.load(x, 0, (i, 1)))), y, N, (i, 1))
    assert extents(unchanged(w.program(), divided)) == 7 * [N]
    assert extents(unchanged(w.program(), run_passes)) == [N]


def test_work_is_in_proportion(monkeypatch):
    """A loop that is cut or written out does not become more than `MOST` statements."""
    from tapegrad.kernel.passes import splitting

    monkeypatch.setattr(splitting, "LONG", 4)
    for seed in range(60):
        program = Rows(seed).program
        before = sum(1 for _ in ir.walk(program.body))
        split(program)
        assert sum(1 for _ in ir.walk(program.body)) < splitting.ROWS * before


def test_the_gradient_of_rows_is_one_loop():
    """Rows of an array in formulas of their own: one loop over observations, and nothing kept between its statements."""

    def f(rows, weight):
        return np.sum(weight * (rows[0] * rows[1] + np.sin(rows[2]) / rows[3]))

    rows, weight = np.random.default_rng(0).normal(size=(4, 50)), np.ones(50)
    g = tg.grad(f, (0, 1))
    kernel = g.kernel(rows, weight)
    assert loops(kernel.program) == 1 and kernel.nbytes == 64
    expected = np.stack([rows[1], rows[0], np.cos(rows[2]) / rows[3], -np.sin(rows[2]) / rows[3] ** 2])
    np.testing.assert_allclose(g(rows, weight)[0], expected, rtol=1e-13)
