"""The code that is made: vector instructions, bounded functions, and its life."""

import gc
import os
import re
import weakref
from pathlib import Path

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.codegen.host import available
from tapegrad.kernel import ir
from tapegrad.kernel.emit import CompileOptions, Emission
from tapegrad.kernel.kernel import Kernel
from tapegrad.rules import lang as L
from tests.kernel.compare import agree, call
from tests.kernel.programs import Writer, a, rosenbrock, temporary
from tests.threads import in_threads

#: Vector types in optimised LLVM code.
VECTOR = re.compile(r"<\d+ x (double|float)>")


def elementwise(n, function, guards=False, char="d"):
    """``y = function(x, 1 + 0 * x)`` by way of a temporary."""
    w = Writer()
    x, y, t = w.input(n, char), w.output(n, char), temporary(n, char)
    with w.loop(n) as i:
        w.store(w.let(a(w.load(x, 0, (i, 1))) * 0.0 + 1.0, char), t, 0, (i, 1))
    with w.loop(n) as i:
        element, one = w.load(x, 0, (i, 1)), w.load(t, 0, (i, 1))
        if guards:
            w.guard(w.let(a(element) > -3.0, "?"))
        w.store(w.let(function(a(element), a(one)), char), y, 0, (i, 1))
    return w.program()


def loads_of_vectors(machine):
    return len(re.findall(r"load <\d+ x (?:double|float)>", machine.llvm()))


@pytest.mark.parametrize("char", ["f", "d"])
def test_elementwise_loops_are_vectorised_without_checks_of_overlap(char):
    machine, _ = agree(elementwise(100, lambda x, y: x * y + L.sqrt(L.abs(x)), char=char), np.linspace(-2, 2, 100).astype(char), rtol=1e-6)
    assert loads_of_vectors(machine) and "memcheck" not in machine.llvm()


@pytest.mark.parametrize("name", ["exp", "log", "sin", "erf", "pow"])
def test_functions_call_their_vector_variants(name):
    if name not in available():
        pytest.skip("this platform has no vector variant")
    function = (lambda x, y: L.pow(x, y)) if name == "pow" else lambda x, y: getattr(L, name)(x)
    machine, _ = agree(elementwise(64, function), np.linspace(0.1, 3, 64), rtol=1e-14)
    assert re.search(rf"call .*@_ZGV\w+_{name}\(", machine.llvm()) and "_ZGV" in machine.asm()


def test_short_loops_over_neighbours_are_vectors_and_llvm_warns_of_nothing(capfd):
    w = Writer()
    x, y, z = w.input(9), w.output(8), w.output(8)
    with w.loop(8) as i:
        w.store(w.load(x, 0, (i, 1)), y, 0, (i, 1))
        w.store(w.let(a(w.load(x, 1, (i, 1))) * 2.0), z, 0, (i, 1))
    machine, _ = agree(w.program(), np.linspace(-2, 2, 9))
    assert loads_of_vectors(machine)
    # (It writes to the descriptor, not to `sys.stderr`.)
    assert "vectorized" not in capfd.readouterr().err


def test_guards_do_not_keep_loops_from_being_vectorised():
    machine, _ = agree(elementwise(100, lambda x, y: x * y, guards=True), np.linspace(-2, 2, 100))
    assert re.search(r"fcmp \w+ <\d+ x double>", machine.llvm())


@pytest.mark.parametrize("reorder", [False, True])
def test_only_sums_that_may_be_reordered_are_vectorised(reorder):
    w = Writer()
    x, y = w.input(100), w.output(1)
    with w.loop(100, w.let(0.0), reorder=reorder) as i:
        i.carries[0].next = w.let(a(i.carries[0]) + a(w.load(x, 0, (i, 1))))
    w.store(i.carries[0].next, y)
    machine, _ = agree(w.program(), np.linspace(-2, 3, 100), rtol=1e-14)
    assert bool(re.search(r"fadd reassoc <\d+ x double>", machine.llvm())) == reorder


def test_fastmath_contracts():
    program = elementwise(100, lambda x, y: x * y + y)
    fused = [len(re.findall("vfn?m[as][ds][ds]|fmla|fmadd", Kernel(program, CompileOptions(fastmath=f)).asm())) for f in (False, True)]
    assert fused[0] == 0 < fused[1]
    agree(program, np.linspace(-2, 2, 100), rtol=1e-12, atol=1e-15, options=CompileOptions(fastmath=True))


def straight(count):
    """A long chain without loops in which values are used long after they are computed."""
    w = Writer()
    x, y = w.input(4), w.output(2)
    values = [w.load(x, k) for k in range(4)]
    for k in range(count):
        values.append(w.let(a(values[-1]) * a(values[k % 7]) - a(values[(5 * k) // 6])))
    w.store(values[-1], y)
    w.store(values[count // 2], y, 1)
    return w.program()


def test_long_programs_are_cut_into_functions_of_bounded_length():
    lengths = {}
    for count in 1000, 8000:
        text = str(Emission(straight(count), CompileOptions()).module)
        lengths[count] = [body.count("\n") for body in re.findall(r"\ndefine [^}]*\n}", text)]
        assert max(lengths[count]) < 8 * CompileOptions().limit
    assert len(lengths[8000]) <= 8 * len(lengths[1000]) and sum(lengths[8000]) < 16 * sum(lengths[1000])
    agree(straight(300), np.array([0.3, 0.2, -0.5, 0.9]))


def long_body(count):
    """A loop with a carried value and a body of `count` instructions, some used far from where they are computed."""
    w = Writer()
    x, y = w.input(6), w.output(6)
    with w.loop(6, w.let(1.0)) as i:
        values = [i.carries[0], w.load(x, 0, (i, 1))]
        for k in range(count):
            values.append(w.let(0.5 * a(values[-1]) - a(values[k // 2])))
        w.store(values[-1], y, 5, (i, -1))
        i.carries[0].next = values[count // 2]
    return w.program()


def test_a_long_body_of_a_loop_is_cut():
    text = Kernel(long_body(3000)).llvm()
    lengths = [body.count("\n") for body in re.findall(r"\ndefine [^}]*\n}", text)]
    assert len(lengths) > 3000 / CompileOptions().limit and max(lengths) < 8 * CompileOptions().limit
    agree(long_body(100), np.linspace(-1, 1, 6), rtol=1e-10)


def test_code_and_tables_live_as_long_as_the_machine():
    w = Writer()
    x, y = w.input(3), w.output(3)
    table = np.array([2, 0, 1])
    with w.loop(3) as i:
        w.store(w.add(ir.Load(x, ir.Index(0, ((i, 1),), table))), y, 0, (i, 1))
    machine = Kernel(w.program())
    table, engine = weakref.ref(table), weakref.ref(machine._engine)
    del w, i
    gc.collect()
    found = np.zeros(3)
    assert call(machine, [np.array([1.0, 2.0, 3.0])], [found]) == -1 and found.tolist() == [3.0, 1.0, 2.0]
    assert table() is not None
    del machine
    gc.collect()
    assert engine() is None and table() is None


def test_compiling_leaves_no_memory_behind():
    statm = Path("/proc/self/statm")
    if not statm.exists():
        pytest.skip("this platform does not tell the memory of a process")

    def resident():
        gc.collect()
        return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    program = rosenbrock(20)
    for _ in range(20):
        Kernel(program)
    before = resident()
    for _ in range(60):
        Kernel(program)
    assert resident() - before < 60 * 30_000


def test_machines_are_made_and_called_in_threads():
    found = {}

    def work(k):
        x, outputs = np.linspace(-1, k, 20 + k), [np.empty(1), np.empty(20 + k)]
        machine = Kernel(rosenbrock(20 + k))
        for _ in range(20):
            assert call(machine, [x], outputs) == -1
        found[k] = outputs[0][0] / np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)

    in_threads(work, 4)
    np.testing.assert_allclose([found[k] for k in range(4)], 1.0, rtol=1e-12)


def test_the_seconds_of_each_stage_are_kept():
    seconds = Kernel(rosenbrock(5)).seconds
    assert list(seconds) == ["emit", "optimise", "generate"] and min(seconds.values()) > 0


def test_the_source_of_vector_functions_is_told():
    assert tg.info()["vector_math"].startswith("libmvec" if available() else "none")
