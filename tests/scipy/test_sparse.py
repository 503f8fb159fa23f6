"""Products and solutions with constant sparse matrices."""

import numpy as np
import pytest
import scipy.sparse as sparse
import scipy.sparse.linalg

import tapegrad as tg
import tapegrad.scipy.sparse.linalg as mirrored
from tapegrad.scipy.mirrors import MIRRORS
from tapegrad.scipy.sparse import csr_array
from tests.numpy_api.complex_checks import array, compare
from tests.rules.checker import check, generator, gradient, leaf, plain

rng = generator(53)
#: With an empty row and an empty column.
DENSE = np.array([[1.0, 0.0, 2.0, 0.0], [0.0, 3.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0], [4.0, 0.0, 0.0, 0.0], [0.0, -1.0, 5.0, 0.0]])
SQUARE = np.diag([3.0, 4.0, 5.0]) + np.array([[0.0, 1.0, 0.0], [0.0, 0.0, -2.0], [0.5, 0.0, 0.0]])
KINDS = [getattr(sparse, f"{name}_{kind}") for name in ("csr", "csc", "coo", "dia", "lil", "dok", "bsr") for kind in ("array", "matrix")]
VECTOR, MATRIX = rng.standard_normal(4), rng.standard_normal((4, 2))


@pytest.mark.parametrize("kind", KINDS)
def test_products(kind):
    a = kind(DENSE)
    for x in (VECTOR, MATRIX):
        check(lambda t: a @ t, x, reference=lambda x: DENSE @ x)
    check(lambda t: a.astype("f") @ t, VECTOR.astype("f"), reference=lambda x: DENSE.astype("f") @ x)
    assert (a @ leaf(VECTOR.astype("f"))).dtype == np.float64
    if "coo" in kind.__name__:
        with pytest.raises(tg.errors.LeaveTapeError, match="A @ t"):
            a.dot(leaf(VECTOR))
    else:
        check(lambda t: a.dot(t), VECTOR, reference=lambda x: DENSE @ x)
    for x in (rng.standard_normal(5), rng.standard_normal((2, 5))):
        check(lambda t: t @ a, x, reference=lambda x: x @ DENSE)
    check(lambda t: a.T @ t, rng.standard_normal(5), reference=lambda x: DENSE.T @ x)
    if "matrix" in kind.__name__:
        check(lambda t: a * t, VECTOR, reference=lambda x: DENSE @ x)
        check(lambda t: t * a, rng.standard_normal(5), reference=lambda x: x @ DENSE)
    constant = a @ tg.tensor(VECTOR)
    assert isinstance(constant, tg.Tensor) and not constant.requires_grad
    np.testing.assert_allclose(plain(constant), DENSE @ VECTOR, rtol=1e-15)
    np.testing.assert_array_equal(a @ VECTOR, DENSE @ VECTOR)


def energy(a):
    return lambda x: np.sum(np.sin(a @ x) ** 2 * np.arange(5.0))


def test_products_in_every_mode():
    a = sparse.csr_array(DENSE)
    assert tg.check(energy(a), VECTOR, order=2).passed
    assert tg.check(lambda x: np.sum(np.sin(x @ a.T) ** 2 * np.arange(5.0)), VECTOR, order=2).passed
    g, expected = tg.jit(tg.grad(energy(a)), kernel="always"), tg.grad(energy(DENSE))
    for x in (VECTOR, VECTOR + 0.5, VECTOR):
        np.testing.assert_allclose(g(x), expected(x), rtol=1e-13)
    assert not g.stats().not_lowered and g.stats().kernels == 1
    np.testing.assert_allclose(tg.jit(tg.hessian(energy(a)))(VECTOR), tg.hessian(energy(DENSE))(VECTOR), rtol=1e-12, atol=1e-14)
    pattern = tg.sparsity(lambda x: a @ x)(VECTOR).toarray()
    np.testing.assert_array_equal(pattern, DENSE != 0.0)


def test_saved(tmp_path):
    a = sparse.csr_array(DENSE)
    tape = tg.value_and_grad(energy(a)).tape(VECTOR)
    tape.save(tmp_path / "tape.npz")
    np.testing.assert_allclose(tg.load_tape(tmp_path / "tape.npz")(VECTOR + 1.0), energy(DENSE)(VECTOR + 1.0), rtol=1e-13)


def test_what_does_not_fit():
    a = sparse.csr_array(DENSE)
    for wrong in (leaf(np.ones(5)), leaf(np.ones((1, 4, 2))), leaf(1.0)):
        with pytest.raises(ValueError, match="sparse"):
            a @ wrong
    # The matrix is a constant of the tape: a change of it before the way back has no effect, if the tape or SciPy has a copy, or is noticed.
    for matrix, row in ((a, DENSE.sum(0)), (sparse.eye_array(1000, format="csr"), np.ones(1000))):
        t = leaf(np.ones(len(row)))
        y = np.sum(matrix @ t)
        matrix.data[:] = 0.0
        try:
            y.backward()
        except tg.errors.ModifiedInPlaceError:
            continue
        np.testing.assert_allclose(t.grad.numpy(), row)


@pytest.mark.parametrize("kind", [sparse.csc_array, sparse.csr_matrix, sparse.dia_array])
def test_solutions(kind):
    a = kind(SQUARE)
    for b in (VECTOR[:3], MATRIX[:3], VECTOR[:3].astype("f")):
        check(lambda b: mirrored.spsolve(a.astype(b.dtype), b), b, reference=lambda b: np.linalg.solve(SQUARE.astype(b.dtype), b))
    lu = mirrored.splu(sparse.csc_array(a))
    for trans, matrix in (("N", SQUARE), ("T", SQUARE.T), ("H", SQUARE.T)):
        check(lambda b: lu.solve(b, trans), MATRIX[:3], reference=lambda b: np.linalg.solve(matrix, b))
        assert tg.check(lambda b: np.sum(np.sin(lu.solve(b, trans))), VECTOR[:3], order=2).passed
    theirs = scipy.sparse.linalg.splu(sparse.csc_array(a))
    assert lu.shape == (3, 3) and lu.nnz == theirs.nnz
    np.testing.assert_array_equal(lu.solve(VECTOR[:3]), theirs.solve(VECTOR[:3]))
    np.testing.assert_array_equal(mirrored.spsolve(sparse.csc_array(a), VECTOR[:3]), scipy.sparse.linalg.spsolve(sparse.csc_array(a), VECTOR[:3]))
    # One column is a vector, with tensors, too.
    for one in (sparse.csc_array(a), csr_array((leaf(SQUARE[SQUARE != 0]), np.nonzero(SQUARE)))):
        found = mirrored.spsolve(one, leaf(VECTOR[:3, None]))
        np.testing.assert_allclose(plain(found), scipy.sparse.linalg.spsolve(sparse.csc_array(a), VECTOR[:3, None]), rtol=1e-12)
        assert found.shape == (3,)
    g = tg.jit(tg.grad(lambda b: np.sum(np.sin(lu.solve(b)))))
    for b in (VECTOR[:3], VECTOR[1:], VECTOR[:3]):
        np.testing.assert_allclose(g(b), gradient(lambda b: np.sum(np.sin(np.linalg.solve(SQUARE, b))), b), rtol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_complex_products(kind):
    z, t = array(3), array(3, real=True)
    for a in (kind(SQUARE * (1 + 2j)), kind(SQUARE)):
        compare(lambda z: (a @ z, z @ a, a @ z.reshape(3, 1) * z), z)
    compare(lambda t: kind(SQUARE * 1j) @ t, t)
    if issubclass(kind, sparse.spmatrix):
        compare(lambda z: a * z, z)


def test_complex_solutions():
    z, b, t = array(3), array(3, 2), array(3, real=True)
    for a in (sparse.csc_array(SQUARE * (1 + 2j) + 1j * np.eye(3)), sparse.csr_array(SQUARE)):
        for right in (z, b):
            compare(lambda b: mirrored.spsolve(a, b), right)
    compare(lambda t: mirrored.spsolve(sparse.csc_array(SQUARE * 1j), t), t)
    places = [0, 1, 2, 0, 1], [0, 1, 2, 1, 2]
    for values in (array(5) + 3.0, array(5, real=True) + 3.0):
        compare(lambda v, b: mirrored.spsolve(csr_array((v, places), shape=(3, 3)), b), values, z)
    compare(lambda v, b: mirrored.spsolve(csr_array((v, places), shape=(3, 3)), b), array(5) + 3.0, t)


def test_names():
    assert set(MIRRORS["scipy.sparse.linalg"]) == {"splu", "spsolve"} == set(mirrored.__all__) - {"logdet"}
    assert mirrored.cg is scipy.sparse.linalg.cg
