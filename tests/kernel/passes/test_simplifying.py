"""Shared values, forwarded stores, invariants."""

from tapegrad.kernel import ir
from tapegrad.kernel.passes import run_passes
from tapegrad.kernel.passes.simplifying import prune, simplify
from tapegrad.rules import lang as L
from tests.kernel.passes.generated import unchanged
from tests.kernel.programs import Writer, a, temporary

N = 10


def tidy(program):
    return prune(simplify(program))


def count(program, kind):
    return sum(isinstance(statement, kind) for statement in ir.walk(program.body))


def test_common_loads_and_expressions_are_shared():
    w = Writer()
    x, y = w.input(N), w.output(N)
    with w.loop(N) as i:
        one, two = w.load(x, 0, (i, 1)), w.load(x, 0, (i, 1))
        w.store(w.let(a(w.let(L.exp(a(one)))) * a(w.let(L.exp(a(two))))), y, 0, (i, 1))
    program = unchanged(w.program(), tidy)
    assert count(program, ir.Load) == 1 and count(program, ir.Let) == 2


def test_a_store_between_loads_counts():
    """The second load of an element sees what was stored; a store to another element is no obstacle."""
    w = Writer()
    x, y, t = w.input(N), w.output(3 * N), w.output(N + 1)
    with w.loop(N) as i:
        first = w.load(t, 0, (i, 1))
        w.store(w.load(x, 0, (i, 1)), t, 1, (i, 1))
        second = w.load(t, 0, (i, 1))
        w.store(w.let(2.0 * a(first)), t, 0, (i, 1))
        third = w.load(t, 0, (i, 1))
        for k, value in enumerate((first, second, third)):
            w.store(value, y, k, (i, 3))
    assert count(unchanged(w.program(), tidy), ir.Load) == 2


def test_invariants_leave_loops():
    w = Writer()
    x, y, t = w.input(N), w.output(N * N), temporary(1)
    w.store(w.load(x, 3), t)
    with w.loop(N) as i:
        with w.loop(N) as j:
            scale = w.let(L.exp(a(w.load(t))))
            row = w.let(a(scale) * a(w.load(x, 0, (i, 1))))
            w.store(w.let(a(row) + a(w.load(x, 0, (j, 1)))), y, 0, (i, N), (j, 1))
    program = unchanged(w.program(), tidy)
    (outer,) = [s for s in program.body if isinstance(s, ir.Loop)]
    (inner,) = [s for s in outer.body if isinstance(s, ir.Loop)]
    assert [type(s).__name__ for s in program.body] == ["Load", "Let", "Loop"]
    assert [type(s).__name__ for s in outer.body] == ["Load", "Let", "Loop"]
    assert [type(s).__name__ for s in inner.body] == ["Load", "Let", "Store"]


def test_what_a_loop_changes_stays_in_it():
    w = Writer()
    x, y, t = w.input(N), w.output(N), w.output(1)
    with w.loop(N) as i:
        total = w.let(a(w.load(t)) + a(w.load(x, 0, (i, 1))))
        w.store(total, t)
        w.store(total, y, 0, (i, 1))
    assert count(unchanged(w.program(), tidy), ir.Load) == 2


def test_addresses_that_a_guard_makes_sure_of_stay_behind_it():
    w = Writer()
    x, p, y = w.input(N), w.input(1, "q"), w.output(N)
    with w.loop(N) as i:
        position = w.load(p)
        w.guard(w.let(a(position) < float(N), "?"), True, early=True)
        element = w.add(ir.Load(x, ir.Index(0, (), None, position)))
        w.store(element, y, 0, (i, 1))
    program = tidy(w.program())
    (loop,) = [s for s in program.body if isinstance(s, ir.Loop)]
    kinds = [type(s).__name__ for s in loop.body]
    assert kinds.index("Guard") < kinds.index("Load")


def test_constants_are_written_out_where_that_is_the_same():
    """A double constant in a comparison with a float stays an operand: it decides in what is compared."""
    w = Writer()
    x, y, z = w.input(N, "f"), w.output(N, "?"), w.output(N, "f")
    tenth = w.let(0.1)
    small = w.let(0.1, "f")
    with w.loop(N) as i:
        element = w.load(x, 0, (i, 1))
        w.store(w.let(a(element) > a(tenth), "?"), y, 0, (i, 1))
        w.store(w.let(a(element) * a(small), "f"), z, 0, (i, 1))
    program = tidy(w.program())
    lets = [s for s in ir.walk(program.body) if isinstance(s, ir.Let)]
    compared, product = (next(s for s in lets if s.expr.op == op) for op in ("gt", "mul"))
    assert ir.arithmetic(compared) == "d" and tenth in compared.expr.leaves()
    assert product.expr.leaves() == [element]


def test_what_nothing_needs_goes():
    w = Writer()
    x, y, t = w.input(N), w.output(N), temporary(N)
    with w.loop(N, w.let(0.0)) as i:
        i.carries[0].next = w.let(a(i.carries[0]) + L.exp(a(w.load(x, 0, (i, 1)))))
        w.store(i.carries[0].next, t, 0, (i, 1))
    with w.loop(N) as j:
        w.store(w.load(x, 0, (j, 1)), y, 0, (j, 1))
    program = unchanged(w.program(), run_passes)
    assert count(program, ir.Loop) == 1 and count(program, ir.Let) == 0
