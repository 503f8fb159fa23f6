"""Patterns: a superset of what is not zero, exact where elements are followed one by one."""

import functools

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.array.record import apply
from tests.rules.examples_of_rows import examples_of

RNG = np.random.default_rng(0)
#: Rows that are followed element by element; of others a dense pattern is right, too.
EXACT = set(
    "getitem select broadcast_to diagonal as_strided reshape squeeze expand_dims transpose t flip gather roll repeat tile "
    "concatenate stack diag setitem put place scatter add_window add_at astype sum mean cumsum matmul".split()
)


#: Of each row so many.
EXAMPLES = 2


def dense(jacobian):
    """Rows count the elements of the result, columns those of the arguments."""
    return np.concatenate([np.reshape(block, (np.size(block) // max(1, size), size)) for block, size in jacobian], axis=1)


def _program(example):
    """A function of the operands of an example that are floats, and these."""
    row = example.row
    live = [k for k in row.slots(len(example.operands)) if np.asarray(example.operands[k]).dtype.kind == "f"]

    def function(*given):
        operands = list(example.operands)
        for k, g in zip(live, given):
            operands[k] = g
        return apply(row, tuple(operands), example.attrs, integer=example.integer or 0)

    return function, [example.operands[k] for k in live]

def pattern_against_jacobian(name):
    seen = 0
    for example in examples_of(name):
        sizes = example.value.size, *map(np.size, example.operands)
        if seen == EXAMPLES or 0 in sizes or sizes[0] * sum(sizes) > 2000 or example.value.dtype.char != "d":
            continue
        function, point = _program(example)
        argnums = tuple(range(len(point)))
        point = [np.array(p) if np.ndim(p) else p for p in point]
        pattern = tg.sparsity(function, argnums)(*point).toarray()
        with np.errstate(all="ignore"):
            blocks = tg.jacrev(function, argnums)(*point)
        found = dense([(b, np.size(p)) for b, p in zip(blocks, point)])
        assert pattern.shape == found.shape
        assert not (~pattern & (found != 0)).any(), str(example)
        if name in EXACT and name != "matmul":
            np.testing.assert_array_equal(pattern, found != 0, err_msg=str(example))
        seen += 1
    assert seen


def lines(x):
    a = np.reshape(x, (4, 5))
    return np.sum(a, axis=1), np.max(a, axis=0), np.cumsum(a, axis=1), np.cumprod(a, axis=0), np.exp(a) / np.sum(np.exp(a), 1, keepdims=True)


def test_lines_are_followed_one_by_one():
    x = RNG.standard_normal(20)
    pattern = tg.sparsity(lines)(x).toarray()
    n = np.arange(20).reshape(4, 5)
    rows = n // 5
    np.testing.assert_array_equal(pattern[:4], np.arange(4)[:, None] == rows.ravel())
    np.testing.assert_array_equal(pattern[4:9], np.arange(5)[:, None] == (n % 5).ravel())
    before = (rows.ravel()[:, None] == rows.ravel()) & (n.ravel()[:, None] >= n.ravel())
    np.testing.assert_array_equal(pattern[9:29], before)
    above = ((n % 5).ravel()[:, None] == (n % 5).ravel()) & (n.ravel()[:, None] >= n.ravel())
    np.testing.assert_array_equal(pattern[29:49], above)
    np.testing.assert_array_equal(pattern[49:], rows.ravel()[:, None] == rows.ravel())


def test_a_product_of_matrices_depends_on_a_row_and_a_column():
    def product(x):
        return np.reshape(x[:6], (2, 3)) @ np.reshape(x[6:], (3, 2))

    pattern = tg.sparsity(product)(RNG.standard_normal(12)).toarray()
    expected = np.zeros((4, 12), bool)
    for i in range(2):
        for j in range(2):
            expected[2 * i + j, 3 * i : 3 * i + 3] = True
            expected[2 * i + j, [6 + j, 8 + j, 10 + j]] = True
    np.testing.assert_array_equal(pattern, expected)


def test_a_recurrence_reaches_on_only():
    def damped(x):
        y = [x[0]]
        for k in range(1, 6):
            y.append(x[k] + 0.5 * y[-1])
        return np.stack(y)

    np.testing.assert_array_equal(tg.sparsity(damped)(np.ones(6)).toarray(), np.tril(np.ones((6, 6), bool)))


def branching(x):
    if x[0] > 0.0:
        return np.stack([x[0] * x[1], x[2]])
    return np.stack([x[0], x[1] * x[2]])


def test_a_new_path_has_a_pattern_of_its_own():
    pattern, jacobian = tg.sparsity(tg.jit(branching)), tg.jit(tg.sparse_jacobian(branching))
    up, down = np.array([1.0, 2.0, 3.0]), np.array([-1.0, 2.0, 3.0])
    expected = {1.0: [[1, 1, 0], [0, 0, 1]], -1.0: [[1, 0, 0], [0, 1, 1]]}
    for _ in range(4):
        for x in (up, down):
            np.testing.assert_array_equal(pattern(x).toarray(), expected[x[0]])
            np.testing.assert_array_equal(jacobian(x).toarray(), tg.jacobian(branching)(x))
            assert jacobian(x).nnz == 3
    assert pattern.stats().tapes == jacobian.stats().tapes == 2


def test_containers_arguments_and_constants():
    def f(p, t, s):
        return {"a": p["w"] * t, "b": (s ** 2, 3.0), "c": p["w"][:1] + s}

    p, t = {"w": np.ones(3), "b": 1.0}, np.arange(3.0)
    pattern = tg.sparsity(f, (0, 2))(p, t, 2.0)
    expected = np.zeros((6, 5), bool)
    # Columns: p["w"], p["b"] in the order of the dict, then s.
    expected[[0, 1, 2], [0, 1, 2]] = True
    expected[3, 4] = True
    expected[5, [0, 4]] = True
    np.testing.assert_array_equal(pattern.toarray(), expected)
    assert pattern.dtype == bool


def test_the_pattern_of_a_hessian_is_that_of_all_results_together():
    f = lambda x: (x[0] * x[1], np.sum(x[2:] ** 2) + 3.0 * x[0])  # noqa: E731
    expected = np.diag([0, 0, 1, 1]).astype(bool)
    expected[0, 1] = expected[1, 0] = True
    np.testing.assert_array_equal(tg.sparsity(f, order=2)(np.ones(4)).toarray(), expected)


def test_a_long_scalar_tape_is_read_in_linear_time_and_memory():
    from tapegrad.program.sparsity.pattern import Elements

    def chain(x):
        y = []
        for k in range(2000):
            y.append(np.sin(x[k]) * x[(k + 1) % 2000] + 1.0)
        return np.stack(y)

    jacobian = tg.jit(tg.sparse_jacobian(chain), kernel="never")
    x = np.ones(2000)
    assert jacobian(x).nnz == 4000
    graph = Elements(next(iter(jacobian._replayed.kinds.values())).recent.tape)
    # One element for each product, two edges to it; sines and sums are what they depend on.
    assert (graph.count, len(graph.edges()[1])) == (4000, 4000)


def test_arguments_without_elements():
    assert tg.sparsity(lambda x, y: (x * 2.0, np.sum(x) + y), (0, 1))(np.zeros(0), np.ones(2)).toarray().tolist() == [[1, 0], [0, 1]]


def test_lists_and_bits_find_the_same(monkeypatch):
    from tapegrad.program.sparsity import pattern
    from tapegrad.program.sparsity.pattern import Elements

    def f(x):
        y = np.sin(x[1:]) * x[:-1]
        return np.concatenate([y, np.sum(y, keepdims=True), x[3:4] * y[5:6], np.cumsum(x)[150:]]) if x[0] > 0 else y

    jacobian = tg.jit(tg.sparse_jacobian(f))
    jacobian(RNG.uniform(0.1, 1.0, 200))
    tape = next(iter(jacobian._replayed.kinds.values())).recent.tape
    graph = Elements(tape)
    expected = sorted(zip(*(a.tolist() for a in pattern.by_bits(graph, *graph.edges()))))
    # Sums over all are long lists: there is room for them, or not.
    assert pattern.by_lists(graph, *graph.edges()) is None
    monkeypatch.setattr(pattern, "LENGTH", 200)
    assert sorted(zip(*(a.tolist() for a in pattern.by_lists(graph, *graph.edges())))) == expected
    # More columns than one pass of bits has.
    monkeypatch.setattr(pattern, "WORDS", 1)
    assert sorted(zip(*(a.tolist() for a in pattern.by_bits(graph, *graph.edges())))) == expected


def test_what_a_function_makes_of_a_new_point_is_a_replay():
    pattern, plain = tg.sparsity(tg.jit(lambda x: x[1:] * x[:-1])), tg.sparsity(lambda x: x[1:] * x[:-1])
    for k in range(9):
        pattern(np.full(5, 1.0 + k)), plain(np.full(5, 1.0 + k))
    assert (pattern.stats().records, pattern.stats().replays, plain.stats().records) == (1, 8, 9)


def test_refusals():
    with pytest.raises(ValueError, match="order=3"):
        tg.sparsity(np.sin, order=3)
    with pytest.raises(tg.errors.HigherOrderError, match="tg.sparsity"):
        tg.grad(lambda x: np.sum(x) * tg.sparsity(np.sin)(x).nnz)(np.ones(2))
    with pytest.raises(tg.errors.DtypeError, match="astype"):
        tg.sparsity(np.sin)(np.ones(2, int))

    def differentiates(x):
        y = tg.tensor(3.0, requires_grad=True)
        (y * y).backward()
        return x * y.grad.item()

    with pytest.raises(tg.errors.GradientError, match="cannot be recorded: it runs a backward pass"):
        tg.sparsity(differentiates)(np.ones(2))
    with pytest.raises(tg.errors.GradientError, match="partial.* cannot be recorded: it runs a backward pass"):
        tg.sparse_jacobian(functools.partial(differentiates)).compressed(np.ones(2))
