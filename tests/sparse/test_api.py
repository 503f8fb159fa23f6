"""Sparse Jacobians and Hessians beside dense ones."""

import functools

import numpy as np
import pytest
from scipy.sparse import csr_array, random_array

import tapegrad as tg
from tapegrad.program.sparsity.compressed import column_colours, star_colours

RNG = np.random.default_rng(0)


def rosenbrock(x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def by_loop(x):
    total = 0.0
    for i in range(len(x) - 1):
        total = total + 100.0 * (x[i + 1] - x[i] ** 2) ** 2 + (1.0 - x[i]) ** 2
    return total


def arrow(x):
    return np.sum(x[1:] ** 2 * x[0]) + np.exp(x[0])


def grid(x):
    a = np.reshape(x, (5, 6))
    return np.sum((a[1:] - a[:-1]) ** 4) + np.sum(np.cos(a[:, 1:] * a[:, :-1]))


def separable(x):
    return np.sum(np.sin(x)) + x[3]


def dense(x):
    return np.log(np.sum(np.exp(x)))


def affine(x):
    return np.sum(3.0 * x)


HESSIANS = {f.__name__: f for f in (rosenbrock, by_loop, arrow, grid, separable, dense, affine)}


@pytest.mark.parametrize("kernel", [None, "never", "always"])
@pytest.mark.parametrize("name", HESSIANS)
def test_hessians(name, kernel):
    f = HESSIANS[name]
    sparse, full = tg.sparse_hessian(f), tg.hessian(f)
    if kernel is not None:
        sparse = tg.jit(sparse, kernel=kernel)
    for _ in range(7):
        x = RNG.standard_normal(30)
        found = sparse(x)
        assert isinstance(found, csr_array) and found.has_canonical_format
        np.testing.assert_allclose(found.toarray(), full(x), rtol=1e-11, atol=1e-11)
        np.testing.assert_array_equal(found.toarray(), found.toarray().T)
    assert (sparse.stats().kernel_calls > 0) == (kernel == "always" and name != "affine")


@pytest.mark.parametrize("name, entries, directions", [("rosenbrock", 88, 3), ("by_loop", 88, 3), ("arrow", 88, 2), ("separable", 30, 1)])
def test_few_entries_from_few_directions(name, entries, directions):
    sparse = tg.jit(tg.sparse_hessian(HESSIANS[name]))
    assert sparse(RNG.standard_normal(30)).nnz == entries
    (kind,) = sparse._replayed.kinds.values()
    assert kind.recent.tape.compressions.symmetric.way.count == directions


def band(x):
    return np.concatenate([x[:1] ** 2, x[1:-1] * x[2:] - np.sin(x[:-2]), x[-1:] * 3.0])


def fan(x):
    """One full column, which costs a direction more; one full row would."""
    return np.concatenate([x[:-1] * x[-1], x[1:2]])


def star(x):
    return np.concatenate([x ** 2, np.sum(x, keepdims=True)])


@pytest.mark.parametrize("wrap", [lambda made: made, tg.jit], ids=["plainly", "jit"])
@pytest.mark.parametrize("mode", ["auto", "forward", "reverse"])
@pytest.mark.parametrize("f", [band, fan, star, np.cumsum, lambda x: x[:0], lambda x: np.ones(3) + 0.0 * x[0]])
def test_jacobians(f, mode, wrap):
    sparse, full = wrap(tg.sparse_jacobian(f, mode=mode)), tg.jacobian(f)
    for _ in range(5):
        x = RNG.standard_normal(20)
        np.testing.assert_allclose(sparse(x).toarray(), full(x), rtol=1e-12, atol=1e-12)
    assert sparse.stats().records == (1 if wrap is tg.jit else 5)


def test_a_full_row_goes_by_rows_and_a_full_column_by_columns():
    for f, _ in ((fan, False), (star, False), (lambda x: star(x)[:-1] * x[0], False), (band, True)):
        sparse = tg.jit(tg.sparse_jacobian(f))
        sparse(RNG.standard_normal(20))
        (kind,) = sparse._replayed.kinds.values()
        assert kind.recent.tape.compressions.better.count <= 3


def residuals(cameras, points, seen, measured):
    """A small bundle adjustment: each measurement depends on one camera and one point."""
    who, what = seen
    p = points[what] + cameras[who][:, :3]
    return (p[:, :2] / p[:, 2:] * cameras[who][:, 3:] - measured).reshape(-1)


def test_bundle_adjustment():
    cameras, points = RNG.uniform(1.0, 2.0, (4, 4)), RNG.uniform(1.0, 2.0, (9, 3))
    seen = RNG.integers(0, 4, 30), RNG.integers(0, 9, 30)
    measured = RNG.standard_normal((30, 2))
    f = functools.partial(residuals, seen=seen, measured=measured)
    sparse, full = tg.sparse_jacobian(f, (0, 1)), tg.jacobian(f, (0, 1))
    for _ in range(4):
        cameras = cameras + 0.1
        found = sparse(cameras, points)
        blocks = full(cameras, points)
        expected = np.concatenate([np.reshape(b, (60, -1)) for b in blocks], axis=1)
        np.testing.assert_allclose(found.toarray(), expected, rtol=1e-12)
        # Of the camera one translation, the depth and the scale; of the point one coordinate and the depth.
        assert found.nnz == 60 * 5
        error = lambda c, p: np.sum(f(c, p) ** 2)  # noqa: E731
    hessian = tg.sparse_hessian(error, (0, 1))(cameras, points)
    blocks = tg.hessian(error, (0, 1))(cameras, points)
    expected = np.block([[np.reshape(b, (m, n)) for b, n in zip(row, (16, 27))] for row, m in zip(blocks, (16, 27))])
    np.testing.assert_allclose(hessian.toarray(), expected, rtol=1e-9, atol=1e-9)
    assert hessian.nnz < 0.7 * 43**2


def test_random_programs():
    unary = [np.sin, np.exp, np.tanh, lambda v: v * v, lambda v: v[::-1], lambda v: np.roll(v, 2), np.cumsum]
    binary = [np.add, np.multiply, lambda a, b: a / (2.0 + b * b), lambda a, b: np.where(a > b, a, b)]
    for seed in range(8):
        rng = np.random.default_rng(seed)
        steps = [(rng.integers(len(unary)), rng.integers(len(binary)), *rng.integers(0, 4, 2)) for _ in range(4)]

        def program(x, steps=steps):
            values = [x, x[::-1] * 0.5, np.sin(x), x * x]
            for one, two, i, j in steps:
                values = [binary[two](unary[one](values[i]), values[j]), *values[:3]]
            return values[0] * 0.1

        x = 0.3 * rng.standard_normal(18)
        pattern = tg.sparsity(program)(x).toarray()
        full = tg.jacobian(program)(x)
        assert not (~pattern & (full != 0.0)).any()
        np.testing.assert_allclose(tg.sparse_jacobian(program)(x).toarray(), full, rtol=1e-10, atol=1e-12)
        total = lambda x: np.sum(program(x) ** 2)  # noqa: E731
        np.testing.assert_allclose(tg.sparse_hessian(total)(x).toarray(), tg.hessian(total)(x), rtol=1e-8, atol=1e-10)


def test_the_hessian_of_a_lagrangian():
    def constraints(x):
        return {"band": x[1:] * x[:-1], "norm": np.sum(x ** 2), "linear": x[0] * 3.0}

    lagrangian = tg.jit(tg.sparse_hessian(constraints, weights=True))
    for _ in range(5):
        x = RNG.standard_normal(12)
        w = {"band": RNG.standard_normal(11), "norm": 2.5, "linear": 1.0}
        off = np.diag(w["band"], 1)
        np.testing.assert_allclose(lagrangian(x, w).toarray(), off + off.T + 5.0 * np.eye(12), atol=1e-12)
    stats = lagrangian.stats()
    assert (stats.records, stats.replays) == (1, 4)
    with pytest.raises(tg.errors.SeedShapeError, match=r"\['band'\] have the shape \(3,\), the result has \(11,\)"):
        lagrangian(x, {"band": np.ones(3), "norm": 2.5, "linear": 1.0})
    with pytest.raises(tg.errors.StructureError, match="one weight for each result"):
        lagrangian(x, 1.0)
    # In another order they would go to other results of the same shape.
    with pytest.raises(tg.errors.StructureError, match="one weight for each result"):
        lagrangian(x, {"band": w["band"], "linear": 1.0, "norm": 2.5})
    with pytest.raises(tg.errors.StructureError, match="last, the weights"):
        lagrangian(x)


def test_a_branch_has_its_own_tape_and_pattern():
    def f(x):
        return x[0] ** 2 * x[1] if x[0] > 0.0 else x[1] ** 2 * x[2] + x[0]

    sparse = tg.jit(tg.sparse_hessian(f))
    for _ in range(6):
        for sign in (1.0, -1.0):
            x = sign * RNG.uniform(0.5, 1.0, 3)
            found = sparse(x)
            np.testing.assert_allclose(found.toarray(), tg.hessian(f)(x), atol=1e-13)
            assert found.nnz == 3
    assert sparse.stats().tapes == 2


def test_results_share_no_memory():
    sparse = tg.sparse_jacobian(band)
    first = sparse(np.ones(9))
    expected = first.toarray()
    first.data[:] = 0.0
    first.eliminate_zeros()
    first.indices[:] = 0
    np.testing.assert_array_equal(sparse(np.ones(9)).toarray(), expected)


@pytest.mark.parametrize("mode", ["auto", "forward", "reverse"])
def test_rows_and_columns_by_kernels(mode):
    """Several results and arguments, numbers among them; results that do not depend on any argument."""

    def f(x, p):
        return {"a": x["u"][1:] * x["v"] * p, "b": np.sum(x["u"]), "c": np.array(3.0), "d": np.sin(p), "e": np.ones(2)}

    x = {"u": np.arange(1.0, 9.0), "v": np.arange(2.0, 9.0)}
    sparse, swept = (tg.jit(tg.sparse_jacobian(f, (0, 1), mode), kernel=kernel) for kernel in ("always", "never"))
    for k in range(9):
        found, expected = sparse(x, 2.0 + k), swept(x, 2.0 + k)
        np.testing.assert_allclose(found.toarray(), expected.toarray(), rtol=1e-13)
        np.testing.assert_array_equal(found.indices, expected.indices)
    assert sparse.stats().kernels == 1 and sparse.stats().kernel_calls >= 2 and not sparse.stats().not_lowered
    assert swept.stats().kernels == 0
    dense = tg.jacobian(lambda u: np.concatenate([np.ravel(r) for r in f({"u": u, "v": x["v"]}, 10.0).values()]))(x["u"])
    np.testing.assert_allclose(found.toarray()[:, :8], dense, rtol=1e-13)


def test_what_is_not_finite_is_what_the_sweep_says():
    f = lambda x: np.where(x > 0.0, np.sqrt(np.abs(x)), 0.0) * 2.0  # noqa: E731
    sparse = tg.jit(tg.sparse_jacobian(f), kernel="always")
    for _ in range(6):
        sparse(np.ones(5))
    calls = sparse.stats().kernel_calls
    assert calls > 0
    # The branch not taken has an infinite derivative at 0: zero is absolute.
    x = np.array([1.0, 0.0, 4.0, -1.0, 1.0])
    np.testing.assert_array_equal(sparse(x).toarray(), np.diag([1.0, 0.0, 0.5, 0.0, 1.0]))
    assert sparse.stats().kernel_calls == calls


def test_functions_that_cannot_be_replayed_are_dense_underneath():
    cube = tg.custom_vjp(tg.primitive(lambda x: (x**3, 1)), lambda g, result, x: g[0] * 3 * x * x)
    sparse = tg.jit(tg.sparse_jacobian(lambda x: cube(x)[0] + x[0]))
    for _ in range(3):
        x = RNG.uniform(1.0, 2.0, 6)
        expected = np.diag(3 * x * x)
        expected[:, 0] += 1.0
        np.testing.assert_allclose(sparse(x).toarray(), expected)
    assert sparse.stats().fallback
    hessian = tg.sparse_hessian(lambda x: np.sum(cube(x)[0]))
    np.testing.assert_allclose(hessian(x).toarray(), np.diag(6 * x))


def test_refusals():
    x = np.ones(3)
    for call, name in ((tg.sparse_jacobian(band), "tg.jacobian"), (tg.sparse_hessian(rosenbrock), "tg.hessian")):
        with pytest.raises(tg.errors.HigherOrderError, match=name):
            tg.grad(lambda x: np.sum(x) + call(x).nnz)(x)
        with pytest.raises(tg.errors.HigherOrderError, match=name):
            call(tg.tensor(x, requires_grad=True))
    with pytest.raises(tg.errors.NonScalarOutputError):
        tg.sparse_hessian(band)(x)
    with pytest.raises(ValueError, match="mode='backward'"):
        tg.sparse_jacobian(band, mode="backward")
    with pytest.raises(tg.errors.DtypeError, match="astype"):
        tg.sparse_jacobian(band)(np.ones(4, int))
    with pytest.raises(tg.errors.StructureError, match="argument 2"):
        tg.sparse_jacobian(band, 2)(x)


def test_star_colours_leave_each_entry_a_direction_of_its_own():
    for seed in range(20):
        rng = np.random.default_rng(seed)
        half = random_array((40, 40), density=rng.uniform(0.01, 0.3), format="csr", rng=rng)
        structure = ((half + half.T) != 0).tocsr()
        structure.sort_indices()
        colour = star_colours(structure)
        matrix = structure.toarray()
        for i, j in zip(*np.nonzero(matrix)):
            straight = np.sum(matrix[i] & (colour == colour[j])) == 1
            turned = np.sum(matrix[j] & (colour == colour[i])) == 1
            assert straight or turned
        assert colour.max() <= column_colours(structure).max()
