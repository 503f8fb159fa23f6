"""Array instructions as loop nests: every row and NumPy programs, against the replay of the same tape."""

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.array.functions import frozen
from tapegrad.array.record import apply
from tapegrad.kernel import ir
from tapegrad.kernel.arrays import Arrays
from tapegrad.kernel.ir import ArrayRef, whole
from tapegrad.program.trace import FAILS
from tapegrad.program.workspace import Workspace
from tapegrad.rules import BY_NAME
from tapegrad.transforms.replay.function import Replayed
from tests.kernel.interpret import FINE, interpret
from tests.kernel.straight import straight
from tests.transforms.replay.rows import moved, unweighted


def tape_of(function, args):
    """The finished tape of a function of arrays."""
    floats = tuple(k for k, a in enumerate(args) if np.asarray(a).dtype.kind == "f")
    # Integers are arguments of a tape only as tensors.
    given = tuple(tg.tensor(a) if np.asarray(a).dtype.kind == "i" else a for a in args)
    return Replayed(function, floats, scalar=False).tape(given, {})


def computed(program, args):
    """What a loop program makes of `args`: a code and flat results."""
    results = [np.zeros(b.size, b.char) for b in program.outputs]
    return interpret(program, [np.asarray(a) for a in args], results), results


def agree(function, args, *points, rtol=1e-12):
    """The straight program of `function`, recorded at `args`, against replays there and at `points`."""
    tape = tape_of(function, args)
    program, workspace = straight(tape), Workspace(tape)
    for point in (args, *points):
        expected = workspace.run([np.ascontiguousarray(a).reshape(np.shape(a)) for a in point], False)
        code, results = computed(program, point)
        assert code == expected
        for k, found in enumerate(results if code == FINE else ()):
            wanted = np.asarray(workspace.output(k))
            assert found.dtype == wanted.dtype
            np.testing.assert_allclose(found.reshape(wanted.shape), wanted, rtol=rtol, atol=rtol)
    return program


def loops_against_replay(example):
    function, args = unweighted(example)
    if function is None:
        return
    single = any(np.asarray(a).dtype.char == "f" for a in args)
    agree(function, args, moved(args), rtol=1e-5 if single else 1e-12)


# ---- programs --------------------------------------------------------------------------------


RNG = np.random.default_rng(0)


def network(x, w1, b1, w2, b2):
    hidden = np.maximum(x @ w1 + b1, 0.0)
    scores = hidden @ w2 + b2
    return np.mean(np.log(np.sum(np.exp(scores - scores.max(1, keepdims=True)), axis=1)) - scores[:, 0])


def test_network():
    args = [RNG.standard_normal(s) for s in ((12, 9), (9, 11), (11,), (11, 3), (3,))]
    program = agree(network, args, [a * 0.5 for a in args])
    assert sum(isinstance(s, ir.Run) for s in ir.walk(program.body)) == 2


def test_products_with_vectors_are_loops():
    x, y = RNG.standard_normal((30, 20)), RNG.standard_normal(30) > 0

    def loss(w):
        z = x @ w
        return np.sum(np.logaddexp(0.0, z) - y * z) + 0.5 * (w @ w)

    program = agree(loss, [RNG.standard_normal(20)], [RNG.standard_normal(20)])
    assert not any(isinstance(s, ir.Run) for s in ir.walk(program.body))


def test_options():
    def asian(s0, sigma, noise):
        steps = np.exp(np.cumsum(sigma * noise - 0.5 * sigma**2, axis=0))
        return np.mean(np.maximum(s0 * np.mean(steps, axis=0) - 1.0, 0.0))

    agree(asian, [1.0, 0.2, RNG.standard_normal((5, 17))], [1.1, 0.3, RNG.standard_normal((5, 17))])


def test_rosenbrock():
    def f(x):
        return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)

    agree(f, [RNG.standard_normal(40)], [RNG.standard_normal(40)])


def test_views_allocate_nothing():
    def f(x):
        return np.transpose(x[::2, ::-1][None, :, 1::2][0])[:, 1]

    x = RNG.standard_normal((4, 6))
    program = agree(f, [x], [x + 1.0])
    assert {s.buffer.role for s in ir.walk(program.body) if isinstance(s, ir.Store)} == {ir.OUTPUT}


def test_writes_go_into_the_memory_of_the_array_if_nobody_else_reads_it():
    def f(x):
        y = tg.zeros(6)
        y[::2] = x * 2.0
        y[[5, 1]] = x[:2]
        return y

    program = agree(f, [RNG.standard_normal(3)], [RNG.standard_normal(3)])
    assert len({id(s.buffer) for s in ir.walk(program.body) if isinstance(s, ir.Store)}) <= 3

    def kept(x):
        y = x * 1.5
        z = y.clone() if hasattr(y, "clone") else y + 0.0
        z[1:] = x[:-1]
        return y + z

    agree(kept, [RNG.standard_normal(4)], [RNG.standard_normal(4)])


def test_positions_that_depend_on_values():
    order = np.array([2, 0, 3, 1])

    def f(x, y):
        return x[order] * y + np.where(x > y, x, 0.0) + x[:, None][order, 0]

    agree(f, [RNG.standard_normal(4), RNG.standard_normal(4)], [RNG.standard_normal(4), RNG.standard_normal(4)])


def test_positions_that_are_arguments():
    x, at = RNG.standard_normal((3, 4, 2)), np.array([[3, 0], [-1, 1]])
    for axis in (0, 1, None):
        index = at % 3 if axis == 0 else at
        agree(lambda x, k, axis=axis: tg.take(x, k, axis) * 2.0, [x, index], [x, index[::-1].copy()])
    program = straight(tape_of(lambda x, k: tg.take(x, k, 0), [x, at % 3]))
    assert computed(program, [x, at + 9])[0] == program.guards

    def loss(scores, labels):
        return tg.nn.functional.cross_entropy(scores, labels)

    scores, labels = RNG.standard_normal((5, 3)), np.array([0, 2, 1, 1, 0])
    program = agree(loss, [scores, labels], [scores * 2.0, labels[::-1].copy()])
    assert computed(program, [scores, labels + 3])[0] == program.guards


def test_conditions_and_signs():
    def f(x):
        sign, logarithm = np.linalg.slogdet(x)
        return sign * logarithm + np.sum(np.where(x - 1.0, x, 0.5))

    agree(f, [RNG.standard_normal((3, 3))], [RNG.standard_normal((3, 3))])


def test_guards_on_arrays():
    def f(x):
        mask = (x > 0.0).tolist()
        return x * 2.0 if mask[0] else x * 3.0

    tape = tape_of(f, [np.array([1.0, -2.0])])
    program = straight(tape)
    assert computed(program, [np.array([2.0, -1.0])])[0] == FINE
    assert computed(program, [np.array([2.0, 1.0])])[0] == 0


def test_a_singular_matrix_is_left_to_the_function():
    for function, point in (np.linalg.inv, np.ones((3, 3))), (lambda a: np.linalg.cholesky(a), -np.eye(3)):
        tape = tape_of(function, [np.eye(3)])
        # The tape has a guard that it succeeds; what a kernel finds where it computes has the number after those of all guards.
        assert [guard.how for guard in tape.guards] == [FAILS]
        assert computed(straight(tape), [point])[0] == 1


def test_host_functions_are_called():
    def f(x):
        return x[np.argsort(x)]

    program = agree(f, [np.array([3.0, 1.0, 2.0])], [np.array([3.0, 4.0, 2.0])])
    assert [s.name for s in ir.walk(program.body) if isinstance(s, ir.Run)] == ["argsort"]


def window_added(x, v, shape, strides, offset):
    return apply(BY_NAME["add_window"], (x, v), (("shape", shape), ("strides", strides)), integer=offset)


def stored(program, size):
    """How many arrays of this size are written."""
    stores = [s.buffer for s in ir.walk(program.body) if isinstance(s, ir.Store) and s.buffer.role == ir.TEMPORARY]
    return len({id(b) for b in stores if b.size == size})


@pytest.mark.parametrize("strides, offsets", [((1,), (0, 1)), ((-1,), (4, 5)), ((1,), (1, 1)), ((0,), (2, 0))])
def test_added_windows_share_one_array(strides, offsets):
    def f(x):
        total = np.zeros(6)
        for k, at in enumerate(offsets):
            total = window_added(total, x * (2.0 + k), (5,), strides, at)
        return total

    assert stored(agree(f, [RNG.standard_normal(5)], [RNG.standard_normal(5)]), 6) == 1


def test_chains_of_windows_and_positions():
    def f(x, y):
        total = y * 1.5
        for k in range(3):
            total = window_added(total, x * (1.0 + k), (4,), (3,), k)
        total = apply(BY_NAME["add_at"], (total, x[:2] + x[2:], frozen([11, 11])))
        return window_added(total, x.sum(), (), (), 7)

    args = [RNG.standard_normal(4), RNG.standard_normal((4, 3))]
    assert stored(agree(f, args, [a * 2.0 for a in args]), 12) == 1


def test_what_is_read_later_is_not_added_into():
    def f(x):
        y = x * 2.0
        z = window_added(y, y[:3], (3,), (1,), 2)
        return window_added(z * y, z[1:4], (3,), (1,), 0)

    agree(f, [RNG.standard_normal(5)], [RNG.standard_normal(5)])

    def overlapping(x):
        y = x * 2.0
        return window_added(y, y[:4], (4,), (1,), 1)

    agree(overlapping, [RNG.standard_normal(5)], [RNG.standard_normal(5)])


# ---- inside loops ------------------------------------------------------------------------------


def item_of(function, args, name):
    """The item of the row `name` on the tape of a function."""
    return next(i for i in tape_of(function, args).items if i.entry.name == name)


@pytest.mark.parametrize("table", [None, np.array([3, 0, 2])])
def test_offsets_in_the_counter_of_a_loop(table):
    """Rows of a matrix, one each iteration, evenly or by a table, doubled into rows of the result."""
    item = item_of(lambda x, y: x[1] * y, [np.ones((4, 5)), np.ones(5)], "getitem")
    double = item_of(lambda x: x * 2.0, [np.ones(5)], "multiply")
    x, out = ir.Buffer(ir.INPUT, 20, "d"), ir.Buffer(ir.OUTPUT, 15, "d")
    loop, arrays = ir.Loop(3), Arrays()
    position = ir.Index(0, ((loop, 5),)) if table is None else ir.Index(0, ((loop, 1),), 5 * table)
    first, row = arrays.emit(item, [whole(x, (4, 5))], integer=position)
    target = ArrayRef(out, ir.Index(0, ((loop, 5),)), (5,), (1,), "d")
    two = arrays.constant(2.0)
    then, result = arrays.emit(double, [row, two], target)
    assert result.buffer is out
    loop.body += [two, *first, *then]
    program = ir.LoopProgram([x], [out], [loop])
    value, found = RNG.standard_normal((4, 5)), np.zeros((3, 5))
    assert interpret(program, [value], [found]) == FINE
    np.testing.assert_array_equal(found, 2.0 * value[slice(0, 3) if table is None else table])
