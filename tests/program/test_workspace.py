"""Buffers of a replay: views and assignments share memory only where nobody can tell, and lay-out stays linear."""

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.program import workspace as W


def views_and_writes(x, seed):
    """A program of views, reads and writes chosen at random."""
    rng = np.random.default_rng(seed)
    arrays = [np.exp(-x), x * 2.0]
    total = 0.0
    for _ in range(25):
        one = arrays[rng.integers(len(arrays))]
        i, j = int(rng.integers(4)), int(rng.integers(4))
        what = rng.integers(7)
        if what == 0:
            one[i] = x[j] * one[j]
        elif what == 1:
            arrays.append(one[::-1])
        elif what == 2:
            arrays.append(one * 1.5 + x)
        elif what == 3:
            total = total + one[i] * x[j]
        elif what == 4:
            one[1:3] = x[2:4]
        elif what == 5:
            total = total + np.sum(one * one)
        else:
            one += 0.5 * x
    return total + sum(np.sum(np.sin(a)) for a in arrays)


@pytest.mark.parametrize("seed", range(40))
def test_replays_of_views_and_writes_agree_with_define_by_run(seed):
    rng = np.random.default_rng(seed)
    g = tg.value_and_grad(lambda x: views_and_writes(x, seed))
    for _ in range(6):
        x = 0.5 * rng.normal(size=4)
        t = tg.tensor(x, requires_grad=True)
        y = views_and_writes(t, seed)
        y.backward()
        value, gradient = g(x)
        assert value == y.item()
        np.testing.assert_allclose(gradient, t.grad.numpy(), rtol=1e-13, atol=1e-14)
        # Plain NumPy, no tape at all.
        assert value == pytest.approx(views_and_writes(x.copy(), seed), rel=1e-13)


def test_a_chain_of_writes_goes_into_one_buffer():
    def cumulative(x):
        y = x * 1.0
        for i in range(1, len(x)):
            y[i] = y[i - 1] + x[i]
        return np.sum(y * y)

    n = 200
    g = tg.value_and_grad(cumulative)
    x = np.linspace(0.0, 1.0, n)
    value, gradient = g(x)
    sums = np.cumsum(x)
    assert value == pytest.approx(np.sum(sums**2), rel=1e-12)
    np.testing.assert_allclose(gradient, 2.0 * np.cumsum(sums[::-1])[::-1], rtol=1e-12)
    workspace = W.Workspace(g.tape(x))
    buffers = {workspace._roots[slot] for slot, a in workspace.arrays.items() if slot > 0 and a.shape == (n,)}
    # The argument, the array that is written to, and its square.
    assert len(buffers) == 3
    assert not workspace.hosts


def test_scalar_instructions_are_one_step_of_the_stream():
    def f(x):
        total = x[0]
        for _k in range(500):
            total = total * 1.01 + x[1]
        return total

    workspace = W.Workspace(tg.grad(f).tape(np.ones(2)))
    assert len(workspace.stream) == 4  # SCALARS, first, last, END


def test_only_ancestors_of_the_result_are_swept():
    def f(x, y):
        unused = y * y + 1.0
        if unused > 0.0:
            return x[0] * x[1] * np.sum(y)
        return x[0]

    g = tg.value_and_grad(f)
    x, y = np.array([2.0, 3.0]), np.array(2.0)
    tape = g.tape(x, y)
    workspace = W.Workspace(tape)
    names = str(tape).splitlines()[1:-1]
    swept = [names[slot - 1].split()[1] for slot in np.flatnonzero(workspace.sweep.marks)]
    assert swept == ["multiply", "multiply"]
    assert g(x, y)[1].tolist() == [6.0, 4.0]
