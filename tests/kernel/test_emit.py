"""Machine code of hand-made loop programs agrees with the reference interpreter."""

import numpy as np
import pytest

from tapegrad.kernel import ir
from tapegrad.kernel.emit import CompileOptions
from tapegrad.kernel.kernel import Kernel
from tapegrad.program.values import ValueProgram
from tapegrad.rules import BY_NAME
from tapegrad.rules import lang as L
from tapegrad.tape.layout import Meta
from tests.kernel.compare import agree, call, waste
from tests.kernel.interpret import interpret
from tests.kernel.programs import Writer, a, at, constant, rosenbrock, temporary

rng = np.random.default_rng(5)


@pytest.mark.parametrize("n", [2, 3, 50])
def test_rosenbrock(n):
    x = rng.normal(size=n)
    _, (value, gradient) = agree(rosenbrock(n), x, rtol=1e-12)
    np.testing.assert_allclose(value, np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2))
    step = 1e-6 * np.eye(n)[0]
    f = lambda x: np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)  # noqa: E731
    np.testing.assert_allclose(gradient[0], (f(x + step) - f(x - step)) / 2e-6, rtol=1e-5)


def test_nested_loops_carry_values_through_one_another():
    w = Writer()
    x, y, last = w.input(12), w.output(3), w.output(2)
    total = w.let(1.0)
    with w.loop(3, total) as i:
        with w.loop(4, i.carries[0]) as j:
            element = w.load(x, 0, (i, 4), (j, 1))
            j.carries[0].next = w.let(a(j.carries[0]) * 0.5 + a(element))
        i.carries[0].next = w.let(a(j.carries[0].next) - 1.0)
        w.store(j.carries[0].next, y, 2, (i, -1))
    w.store(i.carries[0].next, last, 0)
    w.store(element, last, 1)
    agree(w.program(), rng.normal(size=12))


def test_two_values_that_change_places():
    w = Writer()
    y = w.output(2)
    with w.loop(5, w.let(1.0), w.let(2.0)) as i:
        left, right = i.carries
        left.next, right.next = right, left
    w.store(left, y, 0)
    w.store(left.next, y, 1)
    _, (found,) = agree(w.program())
    np.testing.assert_array_equal(found, [1.0, 2.0])


def test_ragged_loops_go_on_counting():
    extents = np.array([2, 1, 4, 3])
    w = Writer()
    x, y, sums = w.input(10), w.output(10), w.output(4)
    with w.loop(4) as i:
        start = w.let(0.0)
        with w.loop(extents, start, which=at(0, (i, 1))) as j:
            element = w.load(x, 0, (j, 1))
            j.carries[0].next = w.let(a(j.carries[0]) + a(element))
            w.store(j.carries[0].next, y, 9, (j, -1))
        w.store(j.carries[0].next, sums, 0, (i, 1))
    x = rng.normal(size=10)
    _, (_, found) = agree(w.program(), x)
    np.testing.assert_allclose(found, np.add.reduceat(x, [0, 2, 3, 7]))


def test_ragged_loops_in_ragged_loops():
    w = Writer()
    x, y = w.input(9), w.output(9)
    with w.loop(2) as i:
        with w.loop(np.array([1, 3]), which=at(1, (i, -1))) as j:
            with w.loop(np.array([2, 1, 2, 4]), which=at(0, (j, 1))) as k:
                w.store(w.let(a(w.load(x, 0, (k, 1))) * 2.0), y, 0, (k, 1))
    x = rng.normal(size=9)
    _, (found,) = agree(w.program(), x)
    np.testing.assert_array_equal(found, 2.0 * x)


def test_tables_of_elements():
    w = Writer()
    x, y = w.input(6), w.output(4)
    with w.loop(2) as i:
        with w.loop(2) as j:
            found = w.load(x, 0, (i, 2), (j, 1), table=[5, 0, 3, 3])
            w.store(found, y, 0, (j, 1), (i, 2), table=[3, 1, 0, 2])
    fixed = w.load(x, 2, table=[0, 0, 4])
    w.store(fixed, y, 1)
    x = rng.normal(size=6)
    _, (found,) = agree(w.program(), x)
    np.testing.assert_array_equal(found, [x[3], x[4], x[3], x[5]])


def test_constants_in_memory_and_in_the_code():
    w = Writer()
    y, numbers, marks = w.output(4), constant([1.5, -2.0, 4.0]), constant(np.array([True, False, True]))
    w.store(w.load(numbers, 2), y, 3)
    with w.loop(3) as i:
        chosen = L.select(a(w.load(marks, 0, (i, 1))), a(w.load(numbers, 2, (i, -1))), 0.25)
        w.store(w.let(chosen), y, 0, (i, 1))
    _, (found,) = agree(w.program())
    np.testing.assert_array_equal(found, [4.0, 0.25, 1.5, 4.0])


def test_temporaries_share_memory_also_those_of_zeros():
    n = 5000  # large enough that memory is used again
    w = Writer()
    x, y = w.input(n), w.output(n)
    last = x
    for k in range(6):
        target = y if k == 5 else temporary(n)
        sums = temporary(n)
        w.zero(sums)
        with w.loop(n // 2) as i:
            w.store(w.load(last, 0, (i, 2)), sums, 0, (i, 2))
        with w.loop(n) as i:
            w.store(w.let(a(w.load(last, 0, (i, 1))) + 0.5 * a(w.load(sums, 0, (i, 1)))), target, 0, (i, 1))
        last = target
    machine, _ = agree(w.program(), rng.normal(size=n))
    assert machine.nbytes < 3 * 8 * n + 200


@pytest.mark.parametrize("char", ["f", "d"])
def test_arithmetic_is_done_in_the_type_of_the_let(char):
    w = Writer()
    x, y = w.input(7, char), w.output(7, char)
    with w.loop(7) as i:
        element = w.load(x, 0, (i, 1))
        w.store(w.let(a(element) * 0.1 + L.exp(-a(element)), char), y, 0, (i, 1))
    agree(w.program(), np.linspace(0.1, 3.0, 7).astype(char), rtol=2e-7 if char == "f" else 1e-14)


def test_conversions_between_types():
    w = Writer()
    f, q, t, b = w.input(4, "f"), w.input(4, "q"), w.input(4, "?"), w.input(4, "B")
    outs = {c: w.output(4, c) for c in "dfq?i"}
    with w.loop(4) as i:
        step = (i, 1)
        values = [w.load(buffer, 0, step) for buffer in (f, q, t, b)]
        for v in values:
            for _char, out in outs.items():
                w.store(v, out, 0, step)
        total = w.let(a(values[0]) + a(values[1]) + a(values[2]) + a(values[3]))
        w.store(total, outs["d"], 0, step)
        w.store(w.let(a(total), "f"), outs["f"], 0, step)
        w.store(w.let(a(values[1]) * 3.0 + a(values[3]), "q"), outs["q"], 0, step)
        w.store(w.let((a(values[1]) > 2.0) & a(values[2]), "?"), outs["?"], 0, step)
        w.store(w.let(L.abs(a(values[1])) - L.sign(a(values[1])), "i"), outs["i"], 0, step)
    inputs = np.array([0.1, 2.7, -3.5, 0.0], "f"), np.array([5, -7, 2**60, 3]), np.array([1, 0, 1, 1], "?"), np.array([255, 0, 3, 9], "B")
    agree(w.program(), *inputs)


def test_every_function_of_the_language():
    w = Writer()
    x, z = w.input(5), w.input(5)
    unary = [*L.UNARY, *L.SCIPY_UNARY]
    binary = [*L.BINARY, *L.SCIPY_BINARY, *(name for name, count in L.COMPILED.items() if count == 2)]
    y = w.output(5 * (len(unary) + len(binary)))
    with w.loop(5) as i:
        v, u = w.load(x, 0, (i, 1)), w.load(z, 0, (i, 1))
        for k, name in enumerate([*unary, *binary]):
            found = getattr(L, name)(a(v)) if k < len(unary) else getattr(L, name)(a(u) if name != "polygamma" else L.Expr.lift(2.0), a(v))
            w.store(w.let(found), y, k, (i, len(unary) + len(binary)))
    agree(w.program(), np.array([0.15, 0.4, 0.6, 0.77, 0.9]), np.array([1.0, 2.0, 1.5, 2.5, 3.0]), rtol=5e-12)


def guarded(seen=True, early=False):
    """``y = 1 / x`` where x > 0 everywhere, and all x + 1 > 0."""
    w = Writer()
    x, y = w.input(40), w.output(40)
    with w.loop(40) as i:
        element = w.load(x, 0, (i, 1))
        w.guard(w.let(a(element) + 1.0 > 0.0, "?"))
        w.guard(w.let(a(element) > 0.0, "?"), early=early)
        w.store(w.let(1.0 / a(element)), y, 0, (i, 1))
    w.guard(w.load(x, 1), np.float64(2.0).tobytes())
    return w.program()


@pytest.mark.parametrize("early", [False, True])
def test_guards_that_hold_and_fail(early):
    x = np.full(40, 2.0)
    agree(guarded(early=early), x)
    for change, wanted in ({7: -0.5}, 1), ({7: -3.0, 8: -3.0}, 1 if early else 0), ({1: 2.5}, 2), ({1: 2.5, 39: -0.5}, 1), ({39: np.nan}, 1 if early else 0):
        y = x.copy()
        for k, value in change.items():
            y[k] = value
        if not early or wanted == 2:
            agree(guarded(early=early), y, wanted=wanted)
        else:
            expected, found = waste(guarded()), waste(guarded())
            program = guarded(early=True)
            assert interpret(program, [y], expected) == call(Kernel(program), [y], found)


def test_an_early_guard_ends_the_kernel():
    w = Writer()
    x, y = w.input(3), w.output(3)
    with w.loop(3) as i:
        element = w.load(x, 0, (i, 1))
        w.guard(w.let(a(element) > 0.0, "?"), early=True)
        w.store(element, y, 0, (i, 1))
    for limit in 1, 800:
        found = np.zeros(3)
        assert call(Kernel(w.program(), CompileOptions(limit=limit)), [np.array([1.0, -1.0, 2.0])], [found]) == 0
        assert found[2] == 0.0


def test_guards_on_what_is_no_condition():
    w = Writer()
    x, k = w.input(1), w.input(1, "q")
    w.guard(w.load(k), np.int64(3).tobytes())
    w.guard(w.load(x), np.float64(-0.0).tobytes())
    w.guard(w.let(a(w.load(x)) < 1.0, "?"), np.bool_(True).tobytes())
    w.guard(w.load(k), True)
    for x, k, wanted in (-0.0, 3, -1), (0.0, 3, 1), (-0.0, 0, 0), (5.0, 3, 1):
        agree(w.program(), np.array([x]), np.array([k]), wanted=wanted)


def test_outputs_that_are_not_finite_are_reported():
    for char in "df":
        w = Writer()
        x, y, z = w.input(300, char), w.output(300, char, finite=True), w.output(300, char)
        with w.loop(300) as i:
            element = w.load(x, 0, (i, 1))
            w.store(element, y, 0, (i, 1))
            w.store(w.let(1.0 / (a(element) - 2.0), char), z, 0, (i, 1))
        x = rng.normal(size=300).astype(char)
        agree(w.program(), x)
        x[5] = 2.0
        agree(w.program(), x)
        for bad in np.inf, -np.inf, np.nan:
            x[299] = bad
            agree(w.program(), x, wanted=-2)


@pytest.mark.parametrize("char", "df")
@pytest.mark.parametrize("size", [1, 7, 40])
def test_what_is_not_finite_is_told_by_its_bits(char, size):
    w = Writer()
    x, y = w.input(size, char), w.output(size, char, finite=True)
    with w.loop(size) as i:
        w.store(w.load(x, 0, (i, 1)), y, 0, (i, 1))
    program, info = w.program(), np.finfo(char)
    finite = [0.0, -0.0, 1.0, info.max, -info.max, info.tiny, -info.smallest_subnormal]
    payload = np.array([1 | (0x7FF0 << 48 if char == "d" else 0x7F80 << 16)], "u8" if char == "d" else "u4").view(char)
    for number, wanted in [(v, -1) for v in finite] + [(v, -2) for v in (np.inf, -np.inf, np.nan, -np.nan, payload[0])]:
        for place in {0, size // 2, size - 1}:
            given = np.resize(np.array(finite), size).astype(char)
            given[place] = number
            agree(program, given, wanted=wanted)


def test_sums_that_may_be_reordered_agree():
    w = Writer()
    x, y = w.input(6 * 100), w.output(1)
    with w.loop(6, w.let(0.0), reorder=True) as i:
        with w.loop(100, i.carries[0], reorder=True) as j:
            element = w.load(x, 0, (i, 100), (j, 1))
            j.carries[0].next = w.let(a(j.carries[0]) + a(element) * a(element))
        i.carries[0].next = j.carries[0].next
    w.store(i.carries[0].next, y)
    x = rng.normal(size=600)
    machine, (found,) = agree(w.program(), x, rtol=1e-14)
    np.testing.assert_allclose(found, x @ x, rtol=1e-14)


def test_an_array_program_runs_in_a_loop():
    m, k, n, count = 3, 4, 2, 5
    metas = (Meta((m, k), (8 * k, 8), "d", 8), Meta((k, n), (8 * n, 8), "d", 8))
    planned = ValueProgram.of_row(BY_NAME["matmul"], (), metas, Meta((m, n), (8 * n, 8), "d", 8))
    w = Writer()
    x, z, y = w.input(count * m * k), w.input(k * n), w.output(count * m * n)
    t = temporary(m * n)
    with w.loop(count) as i:
        places = [(0, t, at()), (planned.registers[0], x, at(0, (i, m * k))), (planned.registers[1], z, at())]
        w.add(ir.Run(planned.words, places, reads={x, z}, writes={t}, keeps=planned, name="matmul"))
        with w.loop(m * n) as j:
            w.store(w.let(a(w.load(t, 0, (j, 1))) * 2.0), y, 0, (i, m * n), (j, 1))
    x, z = rng.normal(size=(count, m, k)), rng.normal(size=(k, n))
    _, (found,) = agree(w.program(), x, z)
    np.testing.assert_allclose(found.reshape(count, m, n), 2.0 * (x @ z), rtol=1e-13)


def test_an_array_program_at_elements_of_a_table():
    # A window of three elements that begins where a table says, copied by the program of clone.
    planned = ValueProgram.of_row(BY_NAME["clone"], (), (Meta((3,), (16,), "d", 8),), Meta((3,), (8,), "d", 8))
    w = Writer()
    x, y = w.input(12), w.output(12)
    with w.loop(4) as i:
        places = [(0, y, at(0, (i, 3))), (planned.registers[0], x, at(0, (i, 1), table=[0, 6, 1, 5]))]
        w.add(ir.Run(planned.words, places, {x}, {y}, planned, "clone"))
    x = rng.normal(size=12)
    _, (found,) = agree(w.program(), x)
    np.testing.assert_array_equal(found.reshape(4, 3), [x[k : k + 5 : 2] for k in (0, 6, 1, 5)])


def test_tanh_is_accurate_and_keeps_signs_and_limits():
    x = np.concatenate([np.linspace(-20, 20, 1001), np.geomspace(1e-300, 1, 500), [0.0, -0.0, np.inf, -np.inf, np.nan]])
    w = Writer()
    source, y = w.input(len(x)), w.output(len(x))
    with w.loop(len(x)) as i:
        w.store(w.let(L.tanh(a(w.load(source, 0, (i, 1))))), y, 0, (i, 1))
    _, (found,) = agree(w.program(), x, rtol=1e-15)
    np.testing.assert_array_equal(np.signbit(found[:-1]), np.signbit(x[:-1]))
