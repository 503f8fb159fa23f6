"""Sparse matrices whose values carry a derivative, beside dense ones."""

import numpy as np
import pytest
import scipy.sparse

import tapegrad as tg
from tapegrad.errors import ShapeError, UnsupportedFunctionError
from tapegrad.scipy import sparse as mirrored
from tapegrad.scipy.sparse.linalg import logdet, splu, spsolve
from tests.every import every
from tests.rules.checker import check

N = 6
RNG = np.random.default_rng(0)
CSR = (scipy.sparse.random(N, N, density=0.35, random_state=0, format="csr") + 3.0 * scipy.sparse.eye(N, format="csr")).tocsr()
COO = CSR.tocoo()
PLACES = COO.row * N + COO.col
FULL, FREE = CSR.toarray(), np.array([5, 0, 1, 3])
V, B, M = np.array(COO.data), RNG.normal(size=N), RNG.normal(size=(N, 2))
#: How a matrix is made of values, with the places of `COO`.
MADE = {
    "coo": lambda v: mirrored.coo_array((v, (COO.row, COO.col)), shape=(N, N)), "csr": lambda v: mirrored.csr_matrix((v, CSR.indices, CSR.indptr), shape=(N, N)),
    "csc": lambda v: mirrored.csc_array((v, (COO.row, COO.col)), shape=(N, N)), "transposed": lambda v: mirrored.csr_array((v, (COO.col, COO.row)), shape=(N, N)).T,
}  # fmt: skip


def dense(v):
    return tg.reshape(tg.segment_sum(v, PLACES, N * N), (N, N)) if isinstance(v, tg.Tensor) else np.bincount(PLACES, v, N * N).reshape(N, N)


#: What is computed with a matrix made of values, and with the dense one.
COMPUTED = {
    "product": (lambda A, v, b, m: A(v) @ b, lambda D, v, b, m: D(v) @ b),
    "products": (lambda A, v, b, m: A(v) @ m, lambda D, v, b, m: D(v) @ m),
    "from the left": (lambda A, v, b, m: b @ A(v), lambda D, v, b, m: b @ D(v)),
    "both sides": (lambda A, v, b, m: m.T @ A(v) @ m, lambda D, v, b, m: m.T @ D(v) @ m),
    "sum": (lambda A, v, b, m: (2.0 * A(v) - A(v * v)) @ b, lambda D, v, b, m: (2.0 * D(v) - D(v * v)) @ b),
    "and a constant": (lambda A, v, b, m: (A(v) + scipy.sparse.eye_array(N)) @ b, lambda D, v, b, m: (D(v) + np.eye(N)) @ b),
    "from a constant": (lambda A, v, b, m: (scipy.sparse.eye_array(N) - A(v) / b[0]) @ b, lambda D, v, b, m: (np.eye(N) - D(v) / b[0]) @ b),
    "sparse products": (lambda A, v, b, m: (CSR.T @ (A(v).tocsc() @ A(v * v)) @ COO) @ b, lambda D, v, b, m: FULL.T @ (D(v) @ (D(v * v) @ (FULL @ b)))),
    "part": (lambda A, v, b, m: (A(v) + A(v))[FREE][:, FREE] @ b[FREE] * A(v)[1, 1], lambda D, v, b, m: 2.0 * (D(v)[FREE][:, FREE] @ b[FREE]) * D(v)[1, 1]),
    "diagonal": (lambda A, v, b, m: (A(v) + A(v)).diagonal() * b, lambda D, v, b, m: 2.0 * np.diagonal(D(v)) * b),
    "factors": (lambda A, v, b, m: splu(A(v).tocsc()).solve(m, "T"), lambda D, v, b, m: np.linalg.solve(D(v).T, m)),
    "solution": (lambda A, v, b, m: spsolve(A(v), b), lambda D, v, b, m: np.linalg.solve(D(v), b)),
    "solutions": (lambda A, v, b, m: spsolve(A(v), m), lambda D, v, b, m: np.linalg.solve(D(v), m)),
    "dense": (lambda A, v, b, m: A(v).toarray() * b, lambda D, v, b, m: D(v) * b),
    "determinant": (lambda A, v, b, m: logdet(A(v)) * b[0], lambda D, v, b, m: np.linalg.slogdet(D(v))[1] * b[0]),
}


@every("made, computed", [("csr", name) for name in COMPUTED] + [("transposed", "part"), ("coo", "sparse products")] + [(name, "solution") for name in MADE] + [("coo", "both sides"), ("transposed", "product")])
def test_all_modes_beside_a_dense_matrix(made, computed):
    ours, theirs = COMPUTED[computed]
    matrix = lambda v: MADE[made](tg.tensor(v)) if isinstance(v, np.ndarray) else MADE[made](v)
    check(lambda v, b, m: ours(matrix, v, b, m), V, B, M, reference=lambda v, b, m: theirs(dense, v, b, m), atol=1e-10)


@every("computed", ["both sides", "solution", "determinant"])
def test_second_derivatives_jit_and_vmap(computed):
    ours = COMPUTED[computed][0]

    def f(v):
        return np.sum(np.sin(ours(MADE["csr"], v, B, M)))

    assert tg.check(f, tg.tensor(V).numpy(), order=2).passed
    rows = np.stack([V, 1.1 * V])
    wanted = [tg.grad(f)(v) for v in rows]
    np.testing.assert_allclose(tg.vmap(tg.grad(f))(rows), wanted, rtol=1e-12)
    g = tg.jit(tg.grad(f))
    for _ in range(3):
        for v, slope in zip(rows, wanted):
            np.testing.assert_allclose(g(v), slope, rtol=1e-12)


def test_values_that_stand_in_one_place_are_summed():
    def f(v):
        return logdet(mirrored.csr_array((v, ([0, 1, 1, 1], [0, 1, 1, 0])), shape=(2, 2)))

    np.testing.assert_allclose(tg.grad(f)(np.array([2.0, 1.0, 3.0, 5.0])), [0.5, 0.25, 0.25, 0.0])


def test_plain_values_give_scipys_matrices():
    a = mirrored.csr_array((V, CSR.indices, CSR.indptr), shape=(N, N))
    assert type(a) is scipy.sparse.csr_array and type(mirrored.csc_matrix(CSR)) is scipy.sparse.csc_matrix
    np.testing.assert_allclose(logdet(a), np.linalg.slogdet(CSR.toarray())[1])
    np.testing.assert_allclose(spsolve(a, B), np.linalg.solve(CSR.toarray(), B))
    assert mirrored.eye_array is scipy.sparse.eye_array and "SparseTensor(6 by 6, " in repr(MADE["csr"](tg.tensor(V)))


def test_what_is_refused():
    v = tg.tensor(V, requires_grad=True)
    with pytest.raises(UnsupportedFunctionError, match=r"csr_array of tensors takes \(data, \(rows, columns\)\) or \(data, indices, indptr\)"):
        mirrored.csr_array(tg.tensor(np.eye(3), requires_grad=True))
    with pytest.raises(ShapeError, match=r"a sparse matrix of shape \(6, 6\) and a tensor of shape \(5,\)"):
        MADE["csr"](v) @ np.ones(5)
    with pytest.raises(ShapeError, match="a sum of sparse matrices of shapes"):
        MADE["csr"](v) + scipy.sparse.eye_array(5)
    with pytest.raises(UnsupportedFunctionError, match="is multiplied by numbers"):
        MADE["csr"](v) * np.ones(6)
    with pytest.raises(RuntimeError, match="singular"):
        logdet(mirrored.csr_array((tg.tensor([1.0, 1.0], requires_grad=True), ([0, 0], [0, 1])), shape=(2, 2)))
