"""The reverse sweep: counted, interrupted, and looked at from other threads."""

import gc
import math
import subprocess
import sys
import threading
import time
import weakref

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.array.record import apply
from tapegrad.rules import ROWS
from tapegrad.tape.store import TapeStore, thread_state
from tapegrad.tape.watch import owner_of
from tests.counting import calls
from tests.every import every
from tests.rules.checker import leaf

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the resident size is read from /proc")


# ---------------------------------------------------------------- Python calls


def scalar_rows(x, y, count):
    """`count` scalar instructions: every element-wise row in turn, and the sum of it all."""
    rows = [r for r in ROWS if r.elementwise and r.arity <= 2 and not r.constants]
    total = x
    for k in range(count // 2):
        row = rows[k % len(rows)]
        total = total + apply(row, (x, y)[: row.arity])
    return total


def repeat(step):
    """`count` instructions made by `step`, which takes a vector, a matrix and a counter."""

    def build(v, m, count):
        total = v.sum()
        for k in range(count // 2):
            total = total + step(v, m, k)
        return total

    return build


def elementwise_rows(v, m, count):
    rows = [r for r in ROWS if r.elementwise and r.arity <= 2 and not r.constants]
    total = v * 1.0
    for k in range(count // 2):
        row = rows[k % len(rows)]
        total = total + apply(row, (v, v)[: row.arity])
    return total.sum()


def assignments(v, m, count):
    out = tg.zeros(4) + v
    for k in range(count):
        out[k % 4] = v[(k + 1) % 4]
    return out.sum()


def assignments_by_list(v, m, count):
    out = tg.zeros(4) + v
    for _ in range(count // 2):
        out[[0, 2]] = v[1:3]
    return out.sum()


def chained_products(v, m, count):
    y = v
    for _ in range(count):
        y = m @ y
    return y.sum()


C = np.array([1.0, 2.0, 3.0, 4.0])
I = np.eye(4)
ARRAYS = {
    "every element-wise row": elementwise_rows,
    "constant arrays": repeat(lambda v, m, k: (v * C).sum()),
    "matrix times vector": chained_products,
    "matrix times matrix": repeat(lambda v, m, k: (m @ m).sum()),
    "matrix times constant": repeat(lambda v, m, k: (I @ v).sum()),
    "inner product": repeat(lambda v, m, k: v @ v),
    "outer": repeat(lambda v, m, k: tg.outer(v, v).sum()),
    "sum": repeat(lambda v, m, k: np.sum(m)),
    "sum over an axis": repeat(lambda v, m, k: np.sum(m, axis=0).sum()),
    "mean": repeat(lambda v, m, k: np.mean(m)),
    "var and std": repeat(lambda v, m, k: np.var(m) + np.std(v)),
    "max and min": repeat(lambda v, m, k: np.max(m) + np.min(v)),
    "prod": repeat(lambda v, m, k: np.prod(v)),
    "norm": repeat(lambda v, m, k: np.linalg.norm(v)),
    "cumsum": repeat(lambda v, m, k: np.cumsum(v).sum()),
    "logsumexp": repeat(lambda v, m, k: tg.logsumexp(v)),
    "softmax": repeat(lambda v, m, k: tg.softmax(v)[0] + tg.log_softmax(v)[1]),
    "element, its index varying": repeat(lambda v, m, k: v[k % 4] * m[k % 4, (k + 1) % 4]),
    "slices": repeat(lambda v, m, k: v[1:3].sum()),
    "index arrays": repeat(lambda v, m, k: v[[0, 2, 2]].sum()),
    "assignment": assignments,
    "assignment by index arrays": assignments_by_list,
    "concatenate": repeat(lambda v, m, k: tg.concatenate([v, v, v, v]).sum()),
    "stack": repeat(lambda v, m, k: tg.stack([v, v, v]).sum()),
    "shapes": repeat(lambda v, m, k: (m.T.reshape(2, 8)[None].swapaxes(0, 1) * 1.0).sum()),
    "gathers": repeat(lambda v, m, k: (tg.repeat(v, 2) + tg.tile(v, 2) + tg.roll(tg.tile(v, 2), 1)).sum()),
    "flip and diagonals": repeat(lambda v, m, k: np.flip(tg.diag(m)).sum() + np.trace(m)),
    "broadcast": repeat(lambda v, m, k: np.broadcast_to(v, (3, 4)).sum()),
    "where and clip": repeat(lambda v, m, k: np.clip(np.where(C > 2, v, m), 0.1, 0.9).sum()),
    "cross-entropy": repeat(lambda v, m, k: tg.nn.functional.binary_cross_entropy_with_logits(v, C / 5)),
    "special functions": repeat(lambda v, m, k: (tg.erf(v) + tg.lgamma(v) + tg.digamma(v) + tg.sigmoid(v)).sum()),
}


def counted(build, operands, small, large, beside=False):
    """Calls of a backward pass over few and over many instructions; with `beside`, on a tape that others use too."""
    found = []
    with np.errstate(all="ignore"):
        for count in (small, small, large):  # the first compiles
            state = thread_state()
            state.store = state.anonymous = TapeStore(state)
            other = operands[0] * 2.0 if beside else None
            loss = build(*operands, count)
            found.append(calls(loss.backward))
            loss = None
            assert beside == (other is not None)
    return found[1:]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside another"])
def test_python_calls_of_a_sweep_over_100_000_scalar_instructions(beside):
    few, many = counted(scalar_rows, (leaf(0.7), leaf(0.4)), 300, 100_000, beside)
    assert many <= few + 20
    assert many < 300


@pytest.mark.filterwarnings("ignore")
@every("name", ARRAYS)
def test_python_calls_of_a_sweep_over_array_instructions(name):
    v, m = leaf([0.1, 0.2, 0.3, 0.4]), leaf(np.arange(16.0).reshape(4, 4) / 100)
    few, many = counted(ARRAYS[name], (v, m), 400, 2_000)
    assert many <= few + 20
    assert many < 300


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside another"])
def test_python_calls_of_a_sweep_over_100_000_array_instructions(beside):
    v, m = leaf([0.1, 0.2, 0.3, 0.4]), leaf(np.arange(16.0).reshape(4, 4) / 100)

    def build(v, m, count):
        total = v.sum()
        for k in range(count // 8):
            total = total + ((m @ v) * v[k % 4]).sum() + tg.concatenate([v, tg.erf(v)]).max()
        return total

    few, many = counted(build, (v, m), 200, 100_000, beside)
    assert many <= few + 20


# ---------------------------------------------------------------- what is visited


@pytest.fixture
def walked(monkeypatch):
    """Lengths of the stretches that sweeps walk."""
    from tapegrad.interpreter import native

    found = []
    run = native.Sweep.run

    def counting(self, high, low, *rest):
        after = run(self, high, low, *rest)
        found.append(high - after)
        return after

    monkeypatch.setattr(native.Sweep, "run", counting)
    return found


@pytest.mark.parametrize("order", [1, -1])
def test_many_losses_on_one_long_tape_are_not_swept_quadratically(walked, order):
    x = leaf(1.0)
    losses = []
    for k in range(1_000):
        y = x * float(k)
        for _ in range(49):
            y = y + x
        losses.append(y)
    for k in list(range(1_000))[::order]:
        x.grad = None
        losses[k].backward()
        assert x.grad.item() == k + 49.0
    assert sum(walked) <= 2 * 50_000


def test_only_ancestors_are_visited(walked):
    x, v = leaf(1.0), leaf([1.0, 2.0])
    (x * 1.0).backward()
    walked.clear()
    before = [x * float(k) for k in range(1_000)]
    y = np.exp(x) * v
    after = [x * float(k) for k in range(1_000)]
    y.sum().backward()
    assert x.grad.item() == pytest.approx(1.0 + 3.0 * math.e, rel=1e-15)
    assert sum(walked) < 1_100  # from the sum down to exp, over the thousand between
    assert len(before) == len(after)


def test_a_chain_of_a_million_instructions():
    x = leaf(1.0)
    y = x
    for _ in range(500_000):
        y = y * 0.999999 + x
    y.backward()
    r = 0.999999
    assert x.grad.item() == pytest.approx((1 - r**500_000) / (1 - r) + r**500_000, rel=1e-9)


# ---------------------------------------------------------------- threads and memory


def test_the_sweep_releases_the_interpreter_lock():
    v = leaf(np.linspace(0.1, 0.2, 1_000_000))
    y = v
    for _ in range(30):
        y = np.sin(y)
    loss = y.sum()
    loss.backward(retain_graph=True)  # compile

    turns, stop = [0], threading.Event()

    def count():
        while not stop.is_set():
            turns[0] += 1
            time.sleep(0)  # lets the lock go

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000.0)  # nobody gets the lock who is not given it
    try:
        thread = threading.Thread(target=count)
        thread.start()
        before = turns[0]
        loss.backward(retain_graph=True)
        during = turns[0] - before
    finally:
        stop.set()
        sys.setswitchinterval(interval)
        thread.join()
    assert during > 100


@pytest.mark.parametrize("retain", [False, True])
def test_large_saved_values_are_let_go_during_the_sweep(retain):
    x = leaf(np.full(50_000, 0.5))
    saved, alive = [], []

    def look(grad):
        alive.append(sum(reference() is not None for reference in saved))

    y = x
    for k in range(40):
        y = np.exp(-y)
        saved.append(weakref.ref(owner_of(y._v)))
        if k % 10 == 5:
            y.register_hook(look)
    loss = y.sum()
    del y
    loss.backward(retain_graph=retain)
    if retain:
        assert alive == [40] * 4
    else:
        assert all(seen <= k + 2 for seen, k in zip(alive, (35, 25, 15, 5)))
        assert sum(reference() is not None for reference in saved) <= 1
    assert np.isfinite(x.grad.numpy()).all()


def test_without_the_collector_nothing_stays():
    gc.collect()
    gc.disable()
    try:
        gone = []
        x = leaf(np.ones(100))
        for _ in range(10):
            y = np.exp(x)
            gone += [weakref.ref(y), weakref.ref(y.detach().numpy())]
            y.sum().backward()
            x.grad = None
        del y
        (x * 1.0).sum().backward()
        assert [g() for g in gone] == [None] * len(gone)
    finally:
        gc.enable()


def growth(program, first, last):
    """Bytes by which a fresh process grows between two turns of a loop."""
    return growths(program, ["turn"], first, last)[0]


def growths(program, turns, first, last, timeout=600):
    """The same of several loops, one after another."""
    source = f"""
import os
import numpy as np
import tapegrad as tg

def rss():
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

{program}
for turn in ({", ".join(turns)},):
    for i in range({last}):
        turn(i)
        if i == {first}:
            start = rss()
    print(rss() - start)
"""
    ended = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=timeout)
    assert ended.returncode == 0, ended.stderr
    return [int(line) for line in ended.stdout.split()]


LEAKS = {
    "plain": "(np.tanh(x) * x).sum().backward()",
    "retained": "y = (np.tanh(x) * x).sum(); y.backward(retain_graph=True); y.backward()",
    "inputs": "(np.tanh(x) * u).sum().backward(inputs=[u])",
    "unneeded leaf": "tg.autograd.grad((np.tanh(x) * u).sum(), u)",
    "interior": "y = np.tanh(x); tg.autograd.grad((y * u).sum(), [y, x])",
    "interior alone": "y = np.tanh(x); tg.autograd.grad((y * u).sum(), y)",
    "hooks": "y = np.tanh(x); y.register_hook(lambda g: g * 2); y.retain_grad(); (y * u).sum().backward()",
    "node hooks": "y = np.tanh(x); y.grad_fn.register_hook(lambda i, o: None); (y * u).sum().backward()",
    "raising hook": """
    y = np.tanh(x)
    y.register_hook(lambda g: 1 / 0)
    try:
        (y * u + np.sin(x)).sum().backward()
    except ZeroDivisionError:
        pass""",
    "raising hook, retained": """
    y = np.tanh(x)
    y.register_hook(lambda g: 1 / 0)
    try:
        (y * u + np.sin(x)).sum().backward(retain_graph=True)
    except ZeroDivisionError:
        pass""",
    "dead leaf": "w = tg.tensor(np.ones(20000), requires_grad=True); y = (w * x).sum(); del w; y.backward()",
    "independent loss": "a = (x * x).sum(); b = np.exp(x).sum(); a.backward(); b.backward()",
    "several outputs": "tg.autograd.backward([x * x, np.exp(x)], [np.ones(20000), np.ones(20000)])",
    "dropped": "np.tanh(x) * x",
}  # fmt: skip


@linux
def test_no_buffer_is_left_behind():
    """All in one process: what one of them leaves to the allocator is less than what the next would have to forget."""
    program = """
x = tg.tensor(np.linspace(0.0, 1.0, 20000), requires_grad=True)
u = tg.tensor(np.linspace(0.0, 1.0, 20000), requires_grad=True)
"""
    for k, body in enumerate(LEAKS.values()):
        body = body.strip("\n").strip().replace("; ", "\n    ")
        program += f"""
def turn{k}(i):
    {body}
    x.grad = u.grad = None
"""
    # One forgotten buffer a turn would be 64 MB.
    grown = dict(zip(LEAKS, growths(program, [f"turn{k}" for k in range(len(LEAKS))], 100, 500), strict=True))
    assert not {name: size for name, size in grown.items() if size >= 12e6}


STEP = """
rng = np.random.default_rng(0)
images, labels = rng.random((32, 16)), rng.integers(0, 10, 32)
w1, b1 = tg.Parameter(rng.normal(size=(16, 16)) / 4), tg.Parameter(np.zeros(16))
w2, b2 = tg.Parameter(rng.normal(size=(16, 10)) / 4), tg.Parameter(np.zeros(10))

def turn(i):
    scores = np.tanh(images @ w1 + b1) @ w2 + b2
    loss = -tg.log_softmax(scores, axis=1)[np.arange(32), labels].mean()
    loss.backward()
    with tg.no_grad():
        for p in (w1, b1, w2, b2):
            p -= 0.1 * p.grad
            p.grad = None
"""


@linux
@pytest.mark.long
def test_memory_is_flat_over_training_steps():
    assert growth(STEP, 1_000, 21_000) < 5e6


@linux
@pytest.mark.long
@pytest.mark.parametrize("keep", [False, True])
def test_memory_is_flat_over_dropped_losses(keep):
    program = f"""
w = tg.tensor(np.linspace(-1.0, 1.0, 8), requires_grad=True)
kept = []

def turn(i):
    loss = np.sum(np.tanh(w) * w) * w[0] + w[1]
    if {keep} and i == 10:
        kept.append(loss)
"""
    assert growth(program, 1_000, 100_000) < 5e6


# ---------------------------------------------------------------- hooks that raise


@pytest.mark.parametrize("retain", [False, True])
@pytest.mark.parametrize("value", [3.0, [3.0, 4.0]])
def test_an_exception_in_a_hook_leaves_every_grad(retain, value):
    x, u = leaf(value), leaf(value)
    a = np.exp(x)
    b = a * u
    loss = (b * x).sum()
    x.grad = before = tg.tensor(value)
    a.retain_grad()
    handle = a.register_hook(lambda grad: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        loss.backward(retain_graph=retain)
    assert x.grad is before and before.tolist() == value
    assert u.grad is None and a.grad is None
    handle.remove()
    if not retain:
        with pytest.raises(RuntimeError, match="second time"):
            loss.backward()
        return
    loss.backward()
    v = np.array(value)
    assert np.allclose(x.grad.numpy(), v + np.exp(v) * v * (1 + v), rtol=1e-14)
    assert np.allclose(u.grad.numpy(), np.exp(v) * v, rtol=1e-14)
    assert np.allclose(a.grad.numpy(), v * v, rtol=1e-14)


def test_a_backward_pass_inside_a_hook():
    x, w = leaf(3.0), leaf(np.ones(4))
    seen = []

    def hook(grad):
        (w * w * grad.item()).sum().backward()
        seen.append(w.grad.tolist())

    a = x * x
    a.register_hook(hook)
    (a * 5.0).backward()
    assert seen == [[10.0] * 4]
    assert x.grad.item() == 30.0


def test_a_contribution_that_leaves_out_a_broadcast_axis_reaches_the_whole_operand():
    x, y = leaf(np.linspace(-1.0, 1.0, 4)[None]), leaf(np.linspace(0.1, 0.9, 12).reshape(3, 4))
    apply("binary_cross_entropy_with_logits", (x, y), (("reduction", "sum"),)).backward()
    np.testing.assert_array_equal(y.grad.numpy(), np.broadcast_to(-x.detach().numpy(), (3, 4)))


def test_a_window_inside_of_an_adjoint_is_copied():
    """The adjoint of `place` is a window at an offset into that of the result, which is not its to give away."""
    from tapegrad.array.record import apply

    x = tg.tensor([0.3, 0.7, -1.2], requires_grad=True)
    for offset in (0, 1, 2):
        for _ in range(50):
            y = apply("place", (x * 2.0,), (("shape", (5,)), ("strides", (1,))), integer=offset)
            (g,) = tg.autograd.grad(y, x, np.arange(5.0))
            np.testing.assert_array_equal(g.numpy(), 2.0 * np.arange(offset, offset + 3))


@every("transformation", [tg.grad, lambda f: tg.jit(tg.grad(f), kernel="never")])
def test_no_function_is_called_for_the_derivative_by_a_constant(transformation):
    """``log(0)``, for the exponent, would leave a flag of the processor, of which `np.vectorize` warns."""
    for f in (lambda x: x**3, lambda x: x**2.5, lambda x: np.power(x, 1.5)):
        with np.errstate(all="raise"):
            assert np.vectorize(transformation(f))(np.array([0.0, 1.0]))[0] == 0.0
