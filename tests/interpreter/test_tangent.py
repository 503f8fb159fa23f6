"""The sweeps with several seeds, over one recording: against the rules on arrays, against each other, and counted."""

import sys

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import tapegrad as tg
from tapegrad.array.dual import made
from tapegrad.array.record import apply, normalise
from tapegrad.autograd.tape import Tape
from tapegrad.program.sweeps import StoreWalk
from tapegrad.rules import BY_NAME
from tapegrad.transforms.replay.function import Replayed
from tests.counting import calls
from tests.near import near
from tests.rules.checker import generator, leaf, wrap
from tests.rules.examples_of_rows import examples_of
from tests.rules.test_jvp import choices, eager, tangents_of

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the resident size is read from /proc")


def value_of(example):
    """The value to be recorded; None for an element-wise row, which computes it (of numbers with Python's functions)."""
    return None if example.row.elementwise else normalise(example.value)


def recorded(example, chosen):
    """The example on a tape of its own, its chosen operands being leaves."""
    operands = [wrap(o) if k in chosen else o for k, o in enumerate(example.operands)]
    with Tape():
        result = apply(example.row, operands, example.attrs, value_of(example), example.integer or 0)
    return [operands[k] for k in chosen], result


def by_duals(example, chosen, ways, lanes=None):
    """The tangent of the example by dual numbers, operands where they are in memory; `ways` has one entry per slot."""
    operands = list(example.operands)
    for k, way in zip(example.row.slots(len(operands)), ways):
        if k in chosen:
            operands[k] = made(normalise(operands[k]), normalise(way), lanes, 1)
    result = apply(example.row, operands, example.attrs, value_of(example), example.integer or 0)
    return np.asarray(result.tangent)


def terms(example, ways):
    """What structural rules add up: operands times directions."""
    if example.row.elementwise:
        return []
    sizes = [np.max(np.abs(o), initial=0.0) for o in example.operands]
    return [np.size(w) ** 0.5 * np.max(np.abs(w), initial=0.0) * max(1.0, *sizes) for w in ways if w is not None]


def tangents_against_every_other_way(name):
    """Of several seeds, element by element: against one dual number for each or one for all, the rule on arrays, and reverse mode."""
    compared = 0
    for example in examples_of(name):
        for chosen in choices(example):
            leaves, result = recorded(example, chosen)
            if not result.requires_grad:
                continue
            slots = example.row.slots(len(example.operands))
            seeds = [tangents_of(example, chosen, seed) for seed in range(2)]
            at_leaves = [[ways[slots.index(k)] for k in chosen] for ways in seeds]
            swept = [np.asarray(tg.autograd.jvp(result, leaves, given_ways)[0]._v) for given_ways in at_leaves]
            together = by_duals(example, chosen, [None if w[0] is None else np.stack(w) for w in zip(*seeds)], 2)
            for ways, found, lane in zip(seeds, swept, together, strict=True):
                near(found, by_duals(example, chosen, ways), *terms(example, ways), where=example)
                near(found, lane, *terms(example, ways), where=example)
                compared += found.size
            tangent = swept[0]
            assert tangent.shape == example.value.shape and tangent.dtype == np.asarray(example.value).dtype
            near(tangent, np.asarray(eager(example, seeds[0]), tangent.dtype), *terms(example, seeds[0]), where=example)
            if np.all(np.isfinite(tangent)) and tangent.size:
                agrees_with_reverse_mode(tangent, result, leaves, at_leaves[0], str(example))
    assert compared


def agrees_with_reverse_mode(tangent, result, leaves, ways, where):
    weights = generator(5).standard_normal(tangent.shape).astype(tangent.dtype)
    grads = tg.autograd.grad(result, leaves, weights, allow_unused=True)
    pairs = [(np.asarray(g._v), t) for g, t in zip(grads, ways) if g is not None]
    back = sum(float(np.sum(g * t, dtype="d")) for g, t in pairs)
    size = 1.0 + sum(float(np.sum(np.abs(g * t))) for g, t in pairs) + float(np.sum(np.abs(weights * tangent)))
    unit = 1e-4 if tangent.dtype.char == "f" or any(t.dtype.char == "f" for _, t in pairs) else 1e-11
    assert abs(float(np.sum(weights * tangent, dtype="d")) - back) <= unit * size, where


N = 37
SQUARE, WIDE, LINE = generator(5).standard_normal((N, N)), generator(6).standard_normal((N, 23)), generator(7).standard_normal(N)
REGULAR = SQUARE + 6.0 * np.eye(N)
#: Functions whose tangents add many numbers, at sizes at which BLAS and NumPy's loops have blocks, ends and orders of their own.
SUMS = {
    "A @ v": (np.matmul, SQUARE, LINE), "v @ A": (np.matmul, LINE, WIDE), "A @ B": (np.matmul, SQUARE, WIDE),
    "v @ v": (np.matmul, LINE, LINE[::-1].copy()), "solve": (np.linalg.solve, REGULAR, WIDE), "solve one": (np.linalg.solve, REGULAR, LINE),
    "inv": (np.linalg.inv, REGULAR), "det": (np.linalg.det, REGULAR / 6.0), "cholesky": (np.linalg.cholesky, REGULAR @ REGULAR.T),
    "eigh": (lambda x: np.linalg.eigh(x)[1], REGULAR @ REGULAR.T), "svd": (lambda x: np.linalg.svd(x, full_matrices=False)[0], WIDE),
    "qr": (lambda x: np.linalg.qr(x)[0], WIDE), "pinv": (np.linalg.pinv, WIDE), "lstsq": (lambda a, b: np.linalg.lstsq(a, b)[0], WIDE, LINE),
    "einsum": (lambda a, b: np.einsum("ij,jk->ki", a, b), SQUARE, WIDE), "outer": (np.outer, LINE, LINE), "convolve": (np.convolve, LINE, LINE[:5]),
    "norm": (np.linalg.norm, SQUARE), "var": (lambda x: np.var(x, 0), WIDE), "prod": (lambda x: np.prod(x, 0), WIDE),
    "logsumexp": (lambda x: tg.logsumexp(x, 1), WIDE), "softmax": (lambda x: tg.softmax(x, 1), WIDE), "cumsum": (np.cumsum, WIDE),
    "cumprod": (lambda x: np.cumprod(x, 0), WIDE), "trace": (np.trace, SQUARE),
}  # fmt: skip


@pytest.mark.parametrize("dtype", "df")
@pytest.mark.parametrize("name", SUMS)
def test_sums_and_solutions_have_the_tangents_of_dual_numbers(name, dtype):
    function, *arrays = SUMS[name]
    arrays = [a.astype(dtype) for a in arrays]
    ways = [generator(8 + k).standard_normal((4, *a.shape)).astype(dtype) for k, a in enumerate(arrays)]
    swept = tg.linearize(function, *arrays)[1]
    together = function(*[tg.Dual(a, w, lanes=4) for a, w in zip(arrays, ways)]).tangent
    for lane in range(4):
        given = tuple(w[lane] for w in ways)
        found = swept(*given)
        assert np.any(found)
        for other in (tg.jvp(function, tuple(arrays), given)[1], together[lane]):
            near(found, other, N * np.max(np.abs(other)), where=name)


@pytest.mark.parametrize("name", "sum mean var std norm prod logsumexp max".split())
def test_long_sums_with_cancellation_have_the_tangents_of_dual_numbers(name):
    x, t = generator(3).standard_normal((2, 40, 33, 20))
    for a in (x, x[::2, :, ::3], x.transpose(2, 0, 1), x[::-1]):
        for axis in (None, 0, 1, 2, (0, 2), (1, 2)):
            operand = wrap(a)
            with Tape():
                result = apply(BY_NAME[name], [operand], (("axis", axis), ("keepdims", False)))
            way = t.reshape(a.shape) if a.size == t.size else t[: len(a), :, : a.shape[2]]
            (swept,) = tg.autograd.jvp(result, [operand], [way])
            dual = apply(BY_NAME[name], [tg.Dual(a, way)], (("axis", axis), ("keepdims", False)))
            # What is added: as many numbers as the result has of each.
            count = a.size // np.size(dual.tangent)
            near(np.asarray(swept._v), np.asarray(dual.tangent), count * np.max(np.abs(dual.value)), count, where=(name, axis))


# ---- whole functions ---------------------------------------------------------------------------


def mixed(x):
    """Scalars and arrays, views, assignments, gathers, products, a solution, branches."""
    n = len(x)
    a = np.outer(x, x[::-1]) + 4.0 * np.eye(n)
    y = np.linalg.solve(a, np.sin(x))
    total = x[0]
    for k in range(n):
        total = total * y[k] + np.cos(x[(k + 1) % n]) if x[k] > 0.5 else total - x[k] / 3.0
    buffer = tg.zeros(n) + x
    buffer[1:3] = y[:2] * total
    buffer[0] = total
    picked = buffer[[0, 2, 2, 1]]
    return np.where(x > 0.5, a @ y, buffer), total, np.concatenate([picked, np.sort(x)]), np.max(a, axis=0)


def differences(f, x, step=1e-6):
    columns = []
    for k in range(x.size):
        e = np.zeros(x.size)
        e[k] = step
        up, down = (np.concatenate([np.ravel(np.asarray(v)) for v in f(x + s)]) for s in (e, -e))
        columns.append((up - down) / (2 * step))
    return np.stack(columns, 1)


def joined(blocks, n):
    return np.concatenate([np.reshape(b, (-1, n)) for b in blocks])


@pytest.mark.parametrize("n", [3, 5, 8, 17, 33])
def test_mixed_tape_both_ways_and_by_differences(n):
    x = generator(n).uniform(0.1, 0.9, n)
    forward, reverse = (joined(tg.jacobian(mixed, mode=m)(x), n) for m in ("forward", "reverse"))
    np.testing.assert_allclose(forward, reverse, rtol=1e-11, atol=1e-11)

    def values(x):
        return [r.detach().numpy() if isinstance(r, tg.Tensor) else r for r in mixed(tg.tensor(x))]

    np.testing.assert_allclose(forward, differences(values, x), rtol=1e-6, atol=1e-6)


OPERATIONS = [
    lambda a, b: a + b, lambda a, b: a * b, lambda a, b: a - 0.5 * b, lambda a, b: a / (2.0 + b * b),
    lambda a, b: np.sin(a), lambda a, b: np.exp(-a * a), lambda a, b: np.maximum(a, b), lambda a, b: np.tanh(a) * b,
    lambda a, b: np.sum(a) * b, lambda a, b: np.where(a > b, a, b * b), lambda a, b: a[::-1] * b if np.ndim(a) else -a,
    lambda a, b: a[0] * b if np.ndim(a) else a, lambda a, b: np.cumsum(a) + b if np.ndim(a) else a * 3.0,
    lambda a, b: np.roll(a, 1) if np.ndim(a) else a,
]  # fmt: skip


@settings(max_examples=40, deadline=None, derandomize=True, database=None)
@given(
    st.lists(
        st.tuples(st.integers(0, len(OPERATIONS) - 1), st.integers(0, 30), st.integers(0, 30)), min_size=1, max_size=25
    ),
    st.integers(1, 20),
)
def test_random_programs(steps, n):
    def f(x, s):
        found = [x, s, x * s, np.sum(x)]
        for op, i, j in steps:
            found.append(OPERATIONS[op](found[i % len(found)], found[j % len(found)]))
        return found[-3:]

    x, s = generator(n).uniform(-1.0, 1.0, n), 0.7
    forward, reverse = (tg.jacobian(f, (0, 1), mode=m)(x, s) for m in ("forward", "reverse"))
    for rows in zip(forward, reverse):
        for a, b in zip(*rows):
            assert np.shape(a) == np.shape(b)
            np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10)


def test_zero_is_absolute_in_every_lane():
    def f(x):
        return x[0] * np.sqrt(x[1]), np.where(x > 0.0, np.sqrt(x), x), np.sqrt(x) * 0.0

    x = np.array([2.0, 0.0])
    for mode in ("forward", "reverse"):
        root, chosen, nothing = tg.jacobian(f, mode=mode)(x)
        assert root[0] == 0.0
        np.testing.assert_array_equal(chosen, [[0.5 / np.sqrt(2.0), 0.0], [0.0, 1.0]])
        np.testing.assert_array_equal(nothing, np.zeros((2, 2)))


def test_lanes_that_are_not_reached_stay_zero_from_chunk_to_chunk():
    def f(x):
        y = [x[k] * x[k] for k in range(40)]
        return y[3] * y[20], y[39], np.stack(y[:4]) * x[0]

    x = generator(2).uniform(1.0, 2.0, 40)
    for mode in ("forward", "reverse"):
        a, b, c = tg.jacobian(f, mode=mode)(x)
        expected = np.zeros(40)
        expected[3], expected[20] = 2 * x[3] * x[20] ** 2, 2 * x[20] * x[3] ** 2
        np.testing.assert_allclose(a, expected, rtol=1e-14)
        assert np.count_nonzero(b) == 1 and b[39] == 2 * x[39]
        assert np.count_nonzero(c) == 7


def test_long_tape():
    def f(x):
        y = [x[0], x[1], x[2]]
        for k in range(120_000):
            y[k % 3] = 0.5 * y[k % 3] + 0.3 * np.sin(y[(k + 1) % 3])
        return y

    x = np.array([0.3, 0.5, 0.7])
    recording = StoreWalk(f, (x,), (0,))
    assert len(recording.store) > 400_000
    forward = np.stack(list(recording.columns()), 1)[..., 0].T
    np.testing.assert_allclose(forward, recording.rows()[0], rtol=1e-10, atol=1e-300)


def test_the_number_of_python_calls_does_not_depend_on_the_length_of_the_tape():
    def counted(length):
        def f(x):
            y = x
            for _ in range(length):
                y = np.sin(y) * x + 0.1
            return y[0], y

        x = np.array([0.3, 0.4])
        recording, replayed = StoreWalk(f, (x,), (0,)), Replayed(f, (0,), scalar=False).replayed_once((x,), {})[1]
        recording.rows(), replayed.columns(), replayed.rows()
        return calls(lambda: (recording.rows(), replayed.columns(), replayed.rows()))

    assert counted(1000) == counted(10)


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


@linux
def test_buffers_of_all_lanes_are_freed():
    def f(x):
        y = np.sin(x) * np.sum(x[:10])
        return y[1:] * y[:-1], x, np.sum(y), y

    recording = StoreWalk(f, (np.linspace(0.1, 1.0, 2000),), (0,))
    short = StoreWalk(lambda x: [p[:3] if np.ndim(p) else p for p in f(x)], (np.linspace(0.1, 1.0, 40),), (0,))
    recording.pull([np.ones(p.shape) if p.shape else 1.0 for p in recording.outputs])

    def step():
        for _ in range(30):
            short.columns(), short.rows()
            recording.pull([np.ones(p.shape) if p.shape else 1.0 for p in recording.outputs])

    step()
    before = resident()
    for _ in range(20):
        step()
    # One buffer left behind in each sweep would be 600 * 16 kB.
    assert resident() - before < 4 << 20


# ---- define-by-run -------------------------------------------------------------------------------


def test_jvp_leaves_tape_and_gradients_alone():
    x, s = leaf([1.0, 2.0]), leaf(3.0)
    y = x * np.sum(x) * s
    (found,) = tg.autograd.jvp(y, x, [1.0, 0.0])
    np.testing.assert_array_equal(found.numpy(), [12.0, 6.0])
    assert x.grad is None and not found.requires_grad
    y.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [18.0, 18.0])


def test_jvp_with_respect_to_a_computed_tensor_takes_it_as_independent():
    x = leaf(0.5)
    y = x * x
    z = np.sin(y) + x
    along_y, along_both = tg.autograd.jvp(z, y, 1.0)[0], tg.autograd.jvp(z, (x, y), (1.0, 1.0))[0]
    assert along_y.item() == np.cos(0.25)
    assert along_both.item() == np.cos(0.25) + 1.0


def test_jvp_of_inputs_and_of_what_does_not_depend_on_them():
    x, y = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    z = y * 2.0
    found = tg.autograd.jvp((x, z, y), x, [5.0, 6.0])
    assert [t.tolist() for t in found] == [[5.0, 6.0], [0.0, 0.0], [0.0, 0.0]]


def test_jvp_on_a_cleared_tape_raises():
    x = leaf([1.0, 2.0])
    y = np.sin(x)
    y.sum().backward()
    with pytest.raises(tg.errors.ClearedTapeError):
        tg.autograd.jvp(y, x, [1.0, 1.0])


@pytest.mark.parametrize("of", ["leaf", "constant"])
def test_jvp_after_a_change_in_place_raises(of):
    # (Of a smaller constant the tape has a copy.)
    x, c = leaf(np.ones(1000)), np.full(1000, 3.0)
    y = x * x * c
    if of == "leaf":
        with tg.no_grad():
            x += 1.0
    else:
        c += 1.0
    with pytest.raises(tg.errors.ModifiedInPlaceError):
        tg.autograd.jvp(y, x, np.ones(1000))


def test_jvp_refuses_wrong_shapes_and_untracked_tensors():
    x = leaf([1.0, 2.0])
    with pytest.raises(tg.errors.SeedShapeError):
        tg.autograd.jvp(x * 2.0, x, [1.0])
    with pytest.raises(tg.errors.GradientError):
        tg.autograd.jvp(tg.tensor(1.0), x, [1.0, 1.0])
    with pytest.raises(tg.errors.GradientError):
        tg.autograd.jvp(x * 2.0, tg.tensor([1.0, 1.0]), [1.0, 1.0])


def test_rows_that_call_scipy_are_served():
    special = pytest.importorskip("scipy.special")
    x = leaf(0.7)
    y = special.erfc(x) + special.j0(x)
    assert BY_NAME["erfc"].calls_scipy
    forward, reverse = tg.autograd.jvp(y, x, 1.0)[0].item(), tg.autograd.grad(y, x)[0].item()
    np.testing.assert_allclose(forward, reverse, rtol=1e-15)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("order", ["C", "F"])
def test_elements_that_are_read_and_vectors_that_are_made_of_numbers(dtype, order):
    def f(x, s):
        # Reads of an input and of a result, a number twice, constants between, parts of parts.
        y = x * s
        short = np.stack([x[0, 1], s, 2.0, x[0, 1], y[3, 4] * x[2, 0]])
        long = np.stack([x[k // 5, k % 5] * y[k % 4, k // 4] for k in range(20)] * 4)
        return short, np.sum(short * short), long[::2], long[71] * s, np.stack([y[1, 1], 1.0])

    x = np.asarray(generator(7).uniform(0.5, 2.0, (4, 5)), dtype, order=order)
    by_duals = [[np.asarray(block) for block in tg.jacfwd(f, k)(x, 1.5)] for k in (0, 1)]
    eps = np.finfo(dtype).eps
    for mode in ("forward", "reverse"):
        found = tg.jacobian(f, (0, 1), mode=mode)(x, 1.5)
        for row, *expected in zip(found, *by_duals):
            for block, other in zip(row, expected):
                np.testing.assert_allclose(block, other, rtol=8 * eps, atol=8 * eps)
    # By hand: d(short[4])/dx has s * x[2, 0] at [3, 4] and s * x[3, 4] at [2, 0].
    expected = np.zeros((4, 5))
    expected[3, 4], expected[2, 0] = 1.5 * x[2, 0], 1.5 * x[3, 4]
    np.testing.assert_allclose(tg.jacrev(f)(x, 1.5)[0][4], expected, rtol=8 * eps)


def test_a_vector_made_of_numbers_keeps_what_is_not_finite():
    def f(x):
        return np.stack([x[0], np.log(x[1]), np.sqrt(x[2])])

    with np.errstate(divide="ignore"):
        for mode in ("forward", "reverse"):
            found = tg.jacobian(f, mode=mode)(np.array([1.0, 0.0, 0.0]))
            np.testing.assert_array_equal(found, [[1.0, 0.0, 0.0], [0.0, np.inf, 0.0], [0.0, 0.0, np.inf]])


def test_tangents_of_many_inputs_are_carried_in_bounded_memory(monkeypatch):
    """Walks upwards keep the tangents of all results: so many inputs at a time as there is room for."""
    from tapegrad.program import sweeps as module

    def f(x, y):
        return np.sin(x) * y[0] + np.cumsum(x), np.sum(y)

    args = np.linspace(0.1, 0.7, 7), np.array([2.0, 3.0, 4.0])
    recording = StoreWalk(f, args, (0, 1))
    expected, pushed, walks = recording.columns(), StoreWalk._pushed_behind, []
    monkeypatch.setattr(StoreWalk, "_pushed_behind", lambda self, *how: walks.append(len(how[-1][0])) or pushed(self, *how))
    # Five results have 7 elements, for cumsum is of a vector of its own; each slot has room for a number.
    monkeypatch.setattr(module, "MOST_WORDS", 4 * (37 + recording.high))
    for one, other in zip(recording.columns(), expected):
        np.testing.assert_array_equal(one, other)
    assert walks == [4, 4, 2]
    monkeypatch.setattr(module, "MOST_WORDS", 1)
    assert all(map(np.array_equal, recording.columns(), expected)) and walks[3:] == [1] * 10


def test_rows_of_many_outputs_are_one_call_in_python(monkeypatch):
    from tapegrad.program import backward as module

    def f(x, single):
        y = np.sin(x) * x[0]
        return y, y[1], 3.0, x, np.ones(2), single * single, np.sum(y)

    args = np.linspace(0.1, 0.7, 5), np.array([0.5, 2.0], np.float32)
    recording = StoreWalk(f, args, (0, 1))
    rows = recording.rows()
    ends = np.cumsum([0, *(p.size for p in recording.outputs)])
    columns = np.concatenate([c.T for c in recording.columns()])
    for i, p in enumerate(recording.inputs):
        begin = sum(q.size for q in recording.inputs[:i])
        np.testing.assert_allclose(rows[i], columns[:, begin : begin + p.size], rtol=1e-6 if p.char == "f" else 1e-14)
        assert rows[i].dtype.char == p.char and not rows[i][ends[2]].any() and not rows[i][ends[4] : ends[5]].any()
    np.testing.assert_array_equal(rows[0][ends[3] : ends[4]], np.eye(5))
    np.testing.assert_array_equal(rows[1][ends[5] : ends[6]], np.diag(2 * args[1]))

    def counted(length):
        short = StoreWalk(lambda x: np.sin(x) * x, (np.linspace(0.1, 1.0, length),), (0,))
        short.rows()
        return calls(lambda: short.rows())

    assert counted(300) == counted(3)
    # Between two compiled calls Python may be interrupted.
    monkeypatch.setattr(module, "MOST_SLOTS", 1)
    assert all(map(np.array_equal, recording.rows(), rows))


def test_tangents_of_numbers_go_up_without_a_rule_each():
    def f(x, length=50):
        t = x[1]
        for _ in range(length):
            t = t * 0.9 + np.sin(x[0]) / x[1]
        return np.stack([t, x[0] * t])

    def counted(length):
        recording = StoreWalk(f, (np.array([0.3, 0.7]), length), (0,))
        recording.columns()
        return calls(lambda: recording.columns())

    # Of `x[0]` and `x[1]` there are more.
    elements = counted(2) - counted(1)
    assert elements < 40 and counted(51) - counted(1) == 50 * elements
    x, h = np.array([0.3, 0.7]), 1e-6
    (columns,) = StoreWalk(f, (x,), (0,)).columns()
    for k, step in enumerate(h * np.eye(2)):
        np.testing.assert_allclose(columns[k], (f(x + step) - f(x - step)) / (2 * h), rtol=1e-7)


def test_zero_is_absolute_in_tangents_of_numbers():
    def f(x):
        # A partial derivative that is infinite, and a tangent that is zero; and the other way round.
        return np.stack([np.sqrt(x[0]) * 0.0, np.sqrt(x[0]), x[1] * np.sqrt(x[0]), np.where(x[1] > 0.0, x[1], np.log(x[0]))])

    with np.errstate(all="ignore"):
        (columns,) = StoreWalk(f, (np.array([0.0, 2.0]),), (0,)).columns()
    np.testing.assert_array_equal(columns, [[0.0, np.inf, np.inf, 0.0], [0.0, 0.0, 0.0, 1.0]])


def test_tangents_start_at_numbers_in_between():
    x = tg.tensor(0.5, requires_grad=True)
    y = np.sin(x)
    z = y * x + y
    (pushed,) = tg.autograd.jvp(z, [y, x], [2.0, 3.0])
    assert pushed.item() == pytest.approx(2.0 * (0.5 + 1.0) + 3.0 * np.sin(0.5))
