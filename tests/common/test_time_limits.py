"""What the handler of a signal raises, such as a time limit, reaches the caller: it is never taken for an error of what it has interrupted."""

import signal
import threading

import numba
import numpy as np
import pytest

import tapegrad as tg
from tapegrad.common import config
from tapegrad.kernel import kernel
from tapegrad.many import engines
from tapegrad.nopython import compile as numba_compile
from tapegrad.transforms.saving import recorder


class TimeLimit(Exception):
    """An error of the user's own."""


@pytest.fixture
def at_once():
    """A function in whose first call a signal comes, whose handler raises `TimeLimit`; it returns what it is given."""

    def reached(number, frame):
        raise TimeLimit

    before, free = signal.signal(signal.SIGTERM, reached), threading.Lock()  # a body that is run again does not free it

    def step(given):
        if free.acquire(blocking=False):
            signal.raise_signal(signal.SIGTERM)
        return given

    yield step
    signal.signal(signal.SIGTERM, before)


def test_while_a_kernel_is_compiled(at_once, monkeypatch):
    monkeypatch.setattr(config, "strict", False)
    made = kernel.TapeKernel.__init__
    monkeypatch.setattr(kernel.TapeKernel, "__init__", lambda self, *args: made(at_once(self), *args))
    g = tg.jit(tg.grad(lambda x: np.sin(x) * x), kernel="always")
    with pytest.raises(TimeLimit):
        g(1.0), g(1.1), g(1.2)
    assert [g(1.0), g(1.3)] == pytest.approx([np.cos(x) * x + np.sin(x) for x in (1.0, 1.3)], rel=1e-14)
    assert g.stats().kernels == 1 and not g.stats().not_lowered


def test_in_the_body_of_a_loop_that_changes_what_it_reads(at_once):
    seen = []

    def body(k, y):
        seen.append(k)
        return at_once(np.sin(y))

    with pytest.raises(TimeLimit):
        tg.grad(lambda x: tg.fori_loop(0, 3, body, x))(0.5)
    seen.clear()
    assert tg.grad(lambda x: tg.fori_loop(0, 3, body, x))(0.5) == pytest.approx(np.cos(np.sin(np.sin(0.5))) * np.cos(np.sin(0.5)) * np.cos(0.5))


def test_in_the_body_of_a_scan_without_elements(at_once):
    with pytest.raises(TimeLimit):
        tg.scan(lambda c, x: (c + x, at_once(x)), 1.0, np.zeros(0))
    carry, rows = tg.scan(lambda c, x: (c + x, at_once(x)), 1.0, np.zeros(0))
    assert carry == 1.0 and rows.shape == (0,)


def test_while_numba_compiles(at_once, monkeypatch):
    compile_call = numba_compile.call_of
    monkeypatch.setattr(numba_compile, "call_of", lambda *args: compile_call(at_once(args[0]), *args[1:]))
    new = np.random.default_rng().random()  # not compiled before, nor on disk
    g = tg.njit_grad(numba.njit(lambda x: new * x * x * x))
    with pytest.raises(TimeLimit):
        g(2.0)
    assert g(2.0) == pytest.approx(12.0 * new, rel=1e-14)


def test_while_a_tape_is_loaded(at_once, monkeypatch, tmp_path):
    path = tmp_path / "tape.npz"
    tg.value_and_grad(lambda x: np.sum(np.sin(x) * x)).tape(np.ones(3)).save(path)
    entry = recorder.Recorder._entry
    monkeypatch.setattr(recorder.Recorder, "_entry", lambda self, *args: entry(at_once(self), *args))
    with pytest.raises(TimeLimit):
        tg.load_tape(path)
    assert tg.load_tape(path)(np.ones(3)) == pytest.approx(3.0 * np.sin(1.0))


class Sent:
    """What is sent to a worker."""

    def __init__(self, step):
        self.step = step

    def __reduce__(self):
        return self.step(str), ("sent",)


def test_while_a_function_is_sent_to_workers(at_once):
    with pytest.raises(TimeLimit):
        engines._pickled(Sent(at_once))
    assert engines._pickled(Sent(at_once))
