"""What calls under `jit` hold: of arrays only what is needed later, and that from one call to the next."""

import sys

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.common import config, waiting
from tapegrad.kernel import ir
from tapegrad.kernel.adjoint import adjoint
from tapegrad.kernel.cut import buffers
from tapegrad.kernel.kernel import lower
from tapegrad.transforms.replay import kernels
from tests.kernel.lowered import agree_with_adjoint, tape_of

STEPS, N = 20, 10_000
NOISE = np.random.default_rng(0).standard_normal((STEPS, N))
AT = np.array([100.0, 0.2, 0.03, 100.0])


def price(p, noise=NOISE):
    start, volatility, rate, strike = p
    s, total = start * np.ones(noise.shape[1]), 0.0
    for row in noise:
        s = s * np.exp((rate - 0.5 * volatility**2) / STEPS + volatility / STEPS**0.5 * row)
        total = total + s
    return np.exp(-rate) * np.mean(np.maximum(total / STEPS - strike, 0.0))


def workspace_of(function, *args):
    g = tg.jit(tg.value_and_grad(function), kernel="never")
    for _ in range(3):
        answer = g(*args)
    value, slope = tg.value_and_grad(function)(*args)
    np.testing.assert_allclose(answer[0], value, rtol=1e-13)
    np.testing.assert_allclose(answer[1], slope, rtol=1e-10)
    (kind,) = g._replayed.kinds.values()
    return kind.tapes[0].tape.kept.take()


def test_a_sweep_holds_what_its_way_back_reads():
    # Of the five arrays of a step, s and its exponential.
    assert (2 * STEPS + 1) * 8 * N <= workspace_of(price, AT).nbytes < (2 * STEPS + 8) * 8 * N


def test_tapes_of_other_sizes_let_their_memory_go(monkeypatch):
    """Each shape and each path has a tape, and each tape would hold the memory of its sweep."""
    monkeypatch.setattr(kernels, "ALL", 24 * N)
    monkeypatch.setattr(kernels, "LARGE", 8 * N)
    f = lambda x: np.sum(np.sin(x) * x) if x[0] > 0.0 else np.sum(np.cos(x) * x)  # noqa: E731
    g = tg.jit(tg.value_and_grad(f), kernel="never")
    for _ in range(2):
        for size in (N, N + 1, N + 2):
            for sign in (1.0, -1.0):
                x = sign * np.linspace(0.1, 0.9, size)
                for _ in range(3):
                    value, slope = g(x)
                assert value == pytest.approx(f(x), rel=1e-13)
                np.testing.assert_allclose(slope, tg.grad(f)(x), rtol=1e-13)
    tapes = [kept.tape for kind in g._replayed.kinds.values() for kept in kind.tapes]
    assert [len(tapes), sum(bool(tape.kept) for tape in tapes), g.stats().records] == [6, kernels.NEWEST, 6]
    small = tg.jit(tg.value_and_grad(f), kernel="never")
    for _ in range(3):
        small(np.ones(3))
    (kind,) = small._replayed.kinds.values()
    assert kind.recent.site is not None and not kind.recent.large


def test_a_sweep_that_finds_out_that_the_path_is_another_one_takes_memory_that_counts(monkeypatch):
    for name, value in (("ALL", 24 * N), ("LARGE", 8 * N), ("NEWEST", 1)):
        monkeypatch.setattr(kernels, name, value)

    def f(x):
        if x[0] > 0.0:
            return np.sum(np.sin(x) * x)
        return np.sum(np.exp(x) * x) if x[1] > 0.0 else np.sum(np.cos(x) * x)

    g = tg.jit(tg.value_and_grad(f), kernel="never")
    ends = np.array([(1.0, 1.0), (-1.0, 1.0), (-1.0, -1.0)])
    for k in np.random.default_rng(0).integers(0, 3, 30):
        g(np.concatenate([ends[k], np.ones(N)]))
        (kind,) = g._replayed.kinds.values()
        held = sum(workspace.nbytes for kept in kind.tapes for workspace in kept.tape.kept)
        assert held == sum(kernels.CachedTape._HOLDING.get(kept, 0) for kept in kind.tapes)


def test_memory_is_taken_anew_by_what_has_views_and_is_written_to():
    def f(x):
        y = np.sin(x)
        view, z = y[::2], x * 2.0
        total = 0.0
        for k in range(6):
            z = z + 1.0
            w = z * 1.0
            w[k] = 3.0
            total = total + np.sum(w[1:] * view[0]) + z[k]
        return total + np.sum(view) + np.sum(z * np.cos(z))

    workspace_of(f, np.linspace(0.1, 0.9, N))


ROWS = 120


def trajectory(p):
    x = np.zeros((ROWS, 3)) * p[0]
    x[0] = p[1:]
    for k in range(ROWS - 1):
        x[k + 1] = x[k] + 0.1 * np.sin(x[k] * p[0]) * x[k]
    return np.sum(x[-1])


def columns(p):
    x = np.zeros((3, ROWS)) * p[0]
    x[:, 0] = p[1:]
    for k in range(ROWS - 1):
        x[:, k + 1] = np.tanh(x[:, k]) * p[1:] + x[1, k] * x[:, k]
    return np.sum(x[:, -1] * x[:, 3])


def changed_again(p):
    x = np.zeros((ROWS, 3)) * p[0] + p[1:]
    for k in range(ROWS - 1):
        old = x[k]
        wave = np.sin(old)
        x[k] = wave * np.cos(old) * p[0]
        old += wave * x[k]
        x[k + 1] = x[k] * wave + 0.5 * x[k // 2]
        x[k, 1] = x[k, 0] * x[k, 2]
    return np.sum(x * x)


@pytest.mark.parametrize("function", [trajectory, columns, changed_again])
def test_an_array_written_row_by_row_is_held_once(function):
    # Besides it, a few rows of each step that the way back reads; and the adjoints of both.
    at = np.array([0.7, 0.3, -0.4, 0.6])
    assert tg.check(function, at).passed
    assert workspace_of(function, at).nbytes < 24 * 8 * 3 * ROWS
    assert sum(temporaries(lower(adjoint(tape_of(function, at))))) < 24 * 3 * ROWS
    agree_with_adjoint(function, (at,))


@pytest.mark.skipif(sys.platform != "linux", reason="page faults are counted there")
def test_sweeps_keep_their_arrays_from_call_to_call():
    import resource

    x = np.linspace(0.1, 0.9, 300_000)
    g = tg.jit(tg.grad(lambda x: np.sum(np.sin(x) * np.exp(-x) / (1.0 + x * x))), kernel="never")
    kept = [g(x) for _ in range(3)]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for k in range(10):
        kept[k % 3] = g(x)
    # Of the results some may be new.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before < 10 * 2 * x.nbytes // 4096


# -- kernels ------------------------------------------------------------------------------------
def temporaries(program):
    return sorted(buffer.size for buffer in buffers(program.body) if buffer.role == ir.TEMPORARY)


def test_of_rows_that_are_read_once_one_is_kept():
    sizes = temporaries(lower(adjoint(tape_of(price, AT))))
    assert sum(size >= (STEPS - 1) * N for size in sizes) == 2 and sum(sizes) < (2 * STEPS + 6) * N
    agree_with_adjoint(lambda p: price(p, NOISE[:, :500]), (AT,))


def test_rows_that_are_read_later_are_all_kept():
    def f(x):
        rows = [np.sin(x), np.cos(x)]
        for _ in range(STEPS):
            rows.append(rows[-1] * 0.5 + rows[-2])
        return np.sum(rows[-1])

    agree_with_adjoint(f, (np.linspace(0.1, 0.9, 500),))


def test_constants_that_lie_side_by_side_are_not_copied():
    program = lower(adjoint(tape_of(price, AT)))
    large = [b.data for b in buffers(program.body) if b.role == ir.CONSTANT and b.size > N]
    assert large and all(np.shares_memory(data, NOISE) for data in large)


def test_a_call_that_holds_gigabytes_names_the_sums_over_chunks(monkeypatch, capsys):
    monkeypatch.setattr(kernels, "HELD", 1 << 20), monkeypatch.setattr(config, "quiet", False), monkeypatch.setattr(waiting, "_SAID", set())
    g = tg.jit(tg.grad(price), kernel="never")
    g(AT), g(AT)
    said = capsys.readouterr().err
    assert said.count("mean_over") == 1 and "price" in said and "0.0 GB" in said
