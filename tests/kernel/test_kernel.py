"""Kernels called with arrays."""

import signal

import numba
import numpy as np

from tapegrad.codegen.memory import call3_int
from tapegrad.kernel.kernel import Kernel, _close
from tapegrad.program.ports import FINE, NOT_FINITE
from tapegrad.rules import lang as L
from tests.kernel.compare import called
from tests.kernel.programs import Writer, a, rosenbrock, temporary
from tests.threads import in_threads

#: As code that Numba compiles has it.
call3 = call3_int.real


def of_numbers():
    """``exp(x) * y``, for x > 0, and its derivatives, one reported if not finite."""
    w = Writer()
    x, y, value, dx, dy = w.input(1), w.input(1), w.output(1), w.output(1, finite=True), w.output(1)
    x, y = w.load(x), w.load(y)
    w.guard(w.let(a(x) > 0.0, "?"))
    e = w.let(L.exp(a(x)))
    w.store(w.let(a(e) * a(y)), value)
    w.store(w.let(a(e) * a(y)), dx)
    w.store(e, dy)
    return w.program()


def reference(x):
    t = x[1:] - x[:-1] ** 2
    gradient = np.zeros_like(x)
    gradient[1:] += 200 * t
    gradient[:-1] += -400 * x[:-1] * t - 2 * (1 - x[:-1])
    return np.sum(100 * t**2 + (1 - x[:-1]) ** 2), gradient


def test_a_kernel_is_called_with_arrays():
    x = np.linspace(-1, 1, 30)
    status, (value, gradient) = called(Kernel(rosenbrock(30)), [x])
    assert status == FINE
    np.testing.assert_allclose(value[0], reference(x)[0])
    np.testing.assert_allclose(gradient, reference(x)[1])


def test_the_status_says_what_is_wrong():
    kernel = Kernel(of_numbers())
    statuses = [called(kernel, [np.array([x]), np.array([y])])[0] for x, y in ((1.0, 2.0), (-1.0, 2.0), (1e9, 1.0), (np.nan, 1.0))]
    assert statuses == [FINE, 0, NOT_FINITE, 0]


def test_outputs_may_be_given():
    x, outputs = np.linspace(-1, 1, 5), [np.empty(1), np.empty(5)]
    status, found = called(Kernel(rosenbrock(5)), [x], outputs)
    assert status == FINE and found is outputs and outputs[0][0] == called(Kernel(rosenbrock(5)), [x])[1][0][0]


def test_kernels_show_their_stages():
    kernel = Kernel(rosenbrock(5))
    assert kernel.source() == str(kernel.program) and "for i in range(4)" in kernel.source()
    assert "define" in kernel.llvm() and "ret" in kernel.asm() and set(kernel.seconds) == {"emit", "optimise", "generate"}


@numba.njit
def descend(address, inputs, outputs, workspace, x, gradient, steps):
    for _ in range(steps):
        if call3(address, inputs, outputs, workspace) != -1:
            return False
        x -= 1e-3 * gradient
    return True


def test_compiled_code_of_users_calls_a_kernel_by_address():
    kernel, x, expected = Kernel(rosenbrock(10)), np.linspace(-1, 1, 10), np.linspace(-1, 1, 10)
    outputs, memory = [np.empty(shape, char) for shape, char in kernel.outputs], np.zeros(kernel.nbytes + 64, np.uint8)
    inputs, results = np.array([x.ctypes.data]), np.array([a.ctypes.data for a in outputs])
    workspace = memory.ctypes.data + -memory.ctypes.data % 64
    assert descend(kernel.address, inputs.ctypes.data, results.ctypes.data, workspace, x, outputs[1], 50)
    for _ in range(50):
        expected -= 1e-3 * reference(expected)[1]
    np.testing.assert_allclose(x, expected, rtol=1e-10)


def test_threads_have_workspaces_of_their_own():
    n = 30_000
    w = Writer()
    x, y, z = w.input(n), w.output(1), w.output(n)
    t = temporary(n)
    with w.loop(n) as i:
        w.store(w.let(L.exp(a(w.load(x, 0, (i, 1))))), t, 0, (i, 1))
    with w.loop(n, w.let(0.0)) as i:
        element = w.load(t, n - 1, (i, -1))
        w.store(element, z, 0, (i, 1))
        i.carries[0].next = w.let(a(i.carries[0]) + a(element))
    w.store(i.carries[0].next, y)
    arrays = [np.full(n, 0.1 * k) for k in range(4)]
    kernel, wrong = Kernel(w.program()), []

    def work(k):
        for _ in range(50):
            _, (value, found) = called(kernel, [arrays[k]])
            if not (found == found[0]).all() or abs(value[0] / n - np.exp(0.1 * k)) > 1e-9:
                wrong.append(k)

    in_threads(work, 4)
    assert not wrong


def test_ctrl_c_does_not_break_off_that_code_is_let_go():
    seen = []

    class Engine:
        def close(self):
            signal.raise_signal(signal.SIGINT)
            seen.append("closed")

    before = signal.signal(signal.SIGINT, lambda *_: seen.append("interrupted"))
    try:
        _close(Engine())
    finally:
        signal.signal(signal.SIGINT, before)
    assert seen == ["closed", "interrupted"]
