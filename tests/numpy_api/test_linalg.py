"""``np.linalg`` on tensors: values, gradients, degenerate cases, and PyTorch's opinion."""


import numpy as np
import pytest

import tapegrad as tg
from tapegrad.array.record import apply
from tests.counting import calls
from tests.rules.checker import check, generator, gradient, leaf, plain

RNG = generator(30)
LinAlgError = np.linalg.LinAlgError


def array(*shape):
    return RNG.uniform(-1.0, 1.0, shape)


def regular(*shape):
    """Matrices with well separated eigenvalues and singular values."""
    return array(*shape) + 2.0 * np.diag(np.arange(1.0, shape[-1] + 1.0))


def mt(x):
    return np.swapaxes(x, -1, -2)


def positive(x):
    return x @ mt(x) + np.eye(x.shape[-2], dtype=x.dtype)


def fixed(vectors):
    """Eigenvectors or singular vectors (columns) without the freedom of their signs."""
    return vectors * vectors[..., :1, :]


A, B, R = regular(3, 3), regular(2, 3, 3), array(3, 2)
TALL, WIDE = array(4, 2), array(2, 4)
TALLS, WIDES = array(2, 4, 3), array(2, 3, 4)
NONE = np.zeros((0, 0))

CASES = {
    "inv": [(np.linalg.inv, (x,)) for x in (A, B, A.T, B[::-1, ::-1], np.asfortranarray(A), array(1, 1) + 2.0, NONE, np.zeros((0, 2, 2)))]
    + [(lambda a: np.linalg.inv(a) @ a[..., 0], (A,)), (lambda a: np.linalg.tensorinv(a, ind=1), (array(6, 2, 3),)), (np.linalg.tensorinv, (array(2, 3, 6, 1),)),
       (lambda a: np.linalg.matrix_power(a, -1), (A,)), (lambda a: np.linalg.matrix_power(a, -3), (B,))],
    "solve": [(np.linalg.solve, p) for p in [(A, array(3)), (A, R), (B, array(2, 3, 2)), (B, R), (A, array(2, 3, 2)), (B, array(3)), (A.T, R[::-1]), (array(2, 1, 3, 3) + 3 * np.eye(3), array(5, 3, 1)), (NONE, np.zeros((0, 2))), (A, np.zeros((3, 0)))]]
    + [(lambda a: np.linalg.solve(a, R), (A,)), (lambda b: np.linalg.solve(A, b), (R,)), (lambda b: np.linalg.solve(B, b), (array(3),)), (lambda a: np.linalg.solve(a, a), (A,)), (lambda a: np.linalg.solve(a, np.arange(3)), (A,)),
       (np.linalg.tensorsolve, (array(2, 3, 6), array(2, 3))), (lambda a, b: np.linalg.tensorsolve(a, b, axes=(0,)), (array(6, 2, 3), array(2, 3)))],
    "det": [(np.linalg.det, (x,)) for x in (A, B, A.T, array(1, 1), array(2, 2), array(2, 3, 4, 4), NONE, np.zeros((0, 2, 2)), np.ones((3, 3)), np.zeros((2, 2)), np.array([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [0.5, 0.0, 1.0]]))],
    "logabsdet": [(lambda a: np.linalg.slogdet(a)[1], (x,)) for x in (A, B, -A, A[::-1], NONE)] + [(lambda a: np.linalg.slogdet(a).sign * np.exp(np.linalg.slogdet(a).logabsdet), (B,))],
    "cholesky": [(lambda a: np.linalg.cholesky(positive(a)), (x,)) for x in (A, B, array(1, 1), TALL, WIDES)] + [(lambda a: np.linalg.cholesky(positive(a), upper=True), (x,)) for x in (A, B)] + [(lambda a: np.linalg.cholesky(a), (NONE,))],
    "eigh": [(lambda a, u=u: np.linalg.eigh(a + mt(a), u)[0], (x,)) for x in (A, B) for u in "LU"] + [(lambda a, u=u: fixed(np.linalg.eigh(a + mt(a), UPLO=u).eigenvectors), (x,)) for x in (A, B) for u in "lU"]
    + [(lambda a: np.linalg.eigvalsh(a + mt(a)), (B,)), (lambda a: np.linalg.eigvalsh(a + mt(a), "U"), (A,)), (lambda a: np.linalg.eigvalsh(a), (NONE,)),
       (lambda a: (lambda w, v: (v * np.exp(w)[..., None, :]) @ mt(v))(*np.linalg.eigh(a + mt(a))), (B,))],
    "svd": [(lambda a: np.linalg.svd(a, compute_uv=False), (x,)) for x in (A, B, TALL, WIDE, TALLS, WIDES, NONE, np.zeros((0, 3)))] + [(np.linalg.svdvals, (TALL,)), (lambda a: np.linalg.svd(a, False, False), (WIDES,))]
    + [(lambda a: fixed(np.linalg.svd(a, full_matrices=False)[0]), (x,)) for x in (A, TALL, WIDE, TALLS, WIDES)] + [(lambda a: fixed(mt(np.linalg.svd(a, full_matrices=False).Vh)), (x,)) for x in (A, TALL, WIDE, TALLS, WIDES)]
    + [(lambda a: (lambda u, s, vh: (u * s[..., None, :] ** 2) @ vh)(*np.linalg.svd(a, full_matrices=False)), (x,)) for x in (B, TALLS, WIDES)] + [(lambda a: np.linalg.svd(a)[1], (A,))]
    + [(lambda a: np.linalg.svd(a + mt(a) - 4.0 * np.eye(3), compute_uv=False, hermitian=True), (B,)), (lambda a: (lambda u, s, vh: (u * s[..., None, :] ** 2) @ vh)(*np.linalg.svd(a + mt(a) - 5.0 * np.eye(3), hermitian=True)), (B,))],
    "qr": [(lambda a, k=k: np.linalg.qr(a)[k], (x,)) for x in (A, B, TALL, TALLS, WIDE, WIDES, array(3, 1)) for k in (0, 1)] + [(lambda a: np.linalg.qr(a, mode="r"), (x,)) for x in (TALL, WIDE)]
    + [(lambda a: np.linalg.qr(a).Q @ np.linalg.qr(a).R, (TALLS,))],
    "pinv": [(np.linalg.pinv, (x,)) for x in (A, B, TALL, WIDE, TALLS, WIDES, np.zeros((0, 3)))] + [(lambda a: np.linalg.pinv(a, 1e-10), (TALL,)), (lambda a: np.linalg.pinv(a, rtol=None), (WIDE,)), (lambda a: np.linalg.pinv(a, rtol=1e-9), (WIDE,)),
                                                                                                                   (lambda a: np.linalg.pinv(a + mt(a), hermitian=True), (B,)), (lambda u, v: np.linalg.pinv(np.outer(u, v), 1e-9), (array(4), array(3)))],
    "lstsq": [(lambda a, b, k=k, r=r: np.linalg.lstsq(a, b, rcond=r)[k], (x, y)) for k in (0, 1) for r in (None, -1, 1e-9) for x, y in ((TALL, array(4)), (TALL, array(4, 3)))]
    + [(lambda a, b: np.linalg.lstsq(a, b)[0], p) for p in ((WIDE, array(2)), (A, R))] + [(lambda a: np.linalg.lstsq(a, np.ones(4))[3], (TALL,)), (lambda b: np.linalg.lstsq(TALL, b)[0], (array(4),))],
    "shapes": [(lambda a: np.linalg.diagonal(a, offset=1), (B,)), (lambda a: np.linalg.trace(a, offset=-1), (B,)), (np.linalg.matrix_transpose, (B,)), (np.matrix_transpose, (B,))],
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_value_and_gradient(name):
    for number, (function, operands) in enumerate(CASES[name]):
        try:
            check(function, *operands, atol=1e-11)
        except Exception as error:
            error.add_note(f"case {number} of {name}")
            raise


@pytest.mark.parametrize("name", CASES)
def test_float32(name):
    function, operands = CASES[name][0]
    operands = [np.asarray(o, "f") for o in operands]
    check(function, *operands, atol=1e-4)


@pytest.mark.parametrize("name", sorted(CASES.keys() - {"lstsq", "shapes"}))
def test_gradient_in_float32_is_near_that_in_float64(name):
    for function, operands in CASES[name]:
        if name == "pinv" and len(operands) == 2 or not operands[0].size or np.min(np.linalg.matrix_rank(operands[0])) < min(operands[0].shape[-2:]):
            continue
        wide = gradient(function, *operands)
        narrow = gradient(function, *[np.asarray(o, "f") for o in operands])
        for w, n in zip(wide, narrow) if len(operands) > 1 else [(wide, narrow)]:
            assert n.dtype == np.float32
            np.testing.assert_allclose(n, w, rtol=2e-2, atol=2e-3 * (1.0 + np.abs(w).max(initial=0.0)))


# ---- nodes: the rules on plain arrays -----------------------------------------------------


DIRECT = {
    "inv": (np.linalg.inv, (B,)), "solve": (np.linalg.solve, (B, R)), "det": (np.linalg.det, (B,)), "slogdet": (lambda a: np.linalg.slogdet(a)[1], (B,)), "cholesky": (np.linalg.cholesky, (positive(B),)),
    "upper": (lambda a: np.linalg.cholesky(a, upper=True), (positive(B),)), "pinv": (np.linalg.pinv, (TALLS,)),
    "eigh": (lambda a: apply("eigh", (a,), (("UPLO", "L"),)), (positive(B),)), "svd": (lambda a: apply("svd", (a,)), (WIDES,)), "tall svd": (lambda a: apply("svd", (a,)), (TALLS,)),
    "qr": (lambda a: apply("qr", (a,)), (TALLS,)),
}  # fmt: skip


@pytest.mark.parametrize("name", DIRECT)
def test_nodes_agree_with_backward(name):
    function, operands = DIRECT[name]
    leaves = [leaf(x) for x in operands]
    result = function(*leaves)
    seed = array(*result.shape)
    found = result.grad_fn(seed)
    result.backward(seed)
    for g, t in zip(found if isinstance(found, tuple) else (found,), leaves):
        g = plain(g)
        if g.shape != t.shape:
            g = g.sum(axis=tuple(range(g.ndim - t.ndim)))
        np.testing.assert_allclose(g, plain(t.grad), rtol=1e-11, atol=1e-12)


# ---- other libraries ------------------------------------------------------------------------


TORCH = {
    "inv": lambda m, a: m.linalg.inv(a), "solve": lambda m, a: m.linalg.solve(a, a * a), "det": lambda m, a: m.linalg.det(a), "slogdet": lambda m, a: m.linalg.slogdet(a)[1],
    "cholesky": lambda m, a: m.linalg.cholesky(a @ a.mT), "cholesky symmetric": lambda m, a: m.linalg.cholesky(a @ a.mT) ** 2, "eigvalsh": lambda m, a: m.linalg.eigvalsh(a @ a.mT),
    "eigh": lambda m, a: m.linalg.eigh(a @ a.mT)[1] ** 2, "svd": lambda m, a: m.linalg.svd(a, full_matrices=False)[0] ** 2, "vh": lambda m, a: m.linalg.svd(a, full_matrices=False)[2] ** 2, "qr": lambda m, a: m.linalg.qr(a)[0] ** 2,
    "r": lambda m, a: m.linalg.qr(a)[1] ** 2, "pinv": lambda m, a: m.linalg.pinv(a), "matrix_power": lambda m, a: m.linalg.matrix_power(a, 5), "multi_dot": lambda m, a: m.linalg.multi_dot([a[0], a[1], a[0]]),
    "einsum": lambda m, a: m.einsum("bij,bjk,bkl->bil", a, a, a), "einsum diagonal": lambda m, a: m.einsum("bii,...i->b...", a, a),
}  # fmt: skip


@pytest.mark.parametrize("name", TORCH)
def test_gradients_are_those_of_torch(name):
    torch = pytest.importorskip("torch")
    ours, theirs = leaf(B), torch.tensor(B, requires_grad=True)
    result, other = TORCH[name](np, ours), TORCH[name](torch, theirs)
    np.testing.assert_allclose(plain(result), other.detach().numpy(), rtol=1e-10, atol=1e-11)
    seed = array(*result.shape)
    result.backward(seed)
    other.backward(torch.tensor(seed))
    np.testing.assert_allclose(plain(ours.grad), theirs.grad.numpy(), rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("shape", [(2, 4, 3), (2, 3, 4), (3, 3)])
def test_rectangular_factorisations_are_those_of_torch(shape):
    torch = pytest.importorskip("torch")
    x = array(*shape)
    for function in (lambda m, a: m.linalg.svd(a, full_matrices=False)[0] ** 2, lambda m, a: m.linalg.svd(a, full_matrices=False)[2] ** 2, lambda m, a: m.linalg.qr(a)[0] ** 2, lambda m, a: m.linalg.pinv(a)):
        ours, theirs = leaf(x), torch.tensor(x, requires_grad=True)
        result, other = function(np, ours), function(torch, theirs)
        seed = array(*result.shape)
        result.backward(seed)
        other.backward(torch.tensor(seed))
        np.testing.assert_allclose(plain(ours.grad), theirs.grad.numpy(), rtol=1e-8, atol=1e-9)


def test_direct_adjoints_of_symmetric_functions_are_those_of_torch():
    torch = pytest.importorskip("torch")
    s = positive(B)
    for function in (lambda m, a: m.linalg.cholesky(a), lambda m, a: m.linalg.eigh(a)[0]):
        ours, theirs = leaf(s), torch.tensor(s, requires_grad=True)
        result, other = function(np, ours), function(torch, theirs)
        seed = array(*result.shape)
        result.backward(seed)
        other.backward(torch.tensor(seed))
        np.testing.assert_allclose(plain(ours.grad), theirs.grad.numpy(), rtol=1e-9, atol=1e-10)
        np.testing.assert_allclose(plain(ours.grad), mt(plain(ours.grad)))


# ---- degenerate cases --------------------------------------------------------------------------


def test_singular_matrices_raise_as_in_numpy():
    singular = leaf(np.ones((2, 2)))
    for f in (lambda: np.linalg.inv(singular), lambda: np.linalg.solve(singular, np.ones(2)), lambda: np.linalg.cholesky(-singular), lambda: np.linalg.inv(leaf(R)), lambda: np.linalg.det(leaf(R)), lambda: np.linalg.inv(leaf(2.0)),
              lambda: np.linalg.eigh(leaf(R)), lambda: np.linalg.svd(leaf(2.0), full_matrices=False), lambda: np.linalg.qr(leaf(np.ones(3))), lambda: np.linalg.matrix_power(singular, -1), lambda: np.linalg.slogdet(leaf(R))):  # fmt: skip
        with pytest.raises(LinAlgError):
            f()
    for f in (lambda: np.linalg.solve(leaf(A), np.ones(2)), lambda: np.linalg.solve(leaf(A), np.ones((2, 2))), lambda: np.linalg.eigh(leaf(A), "X"), lambda: np.linalg.pinv(leaf(A), 1e-9, rtol=1e-9)):
        with pytest.raises(ValueError):
            f()
    # Nothing was recorded that a later pass stumbles over.
    (np.linalg.det(singular) * 1.0).backward()
    np.testing.assert_allclose(plain(singular.grad), [[1.0, -1.0], [-1.0, 1.0]], atol=1e-12)


def test_slogdet_of_a_singular_matrix_has_no_derivative():
    x = leaf(np.zeros((2, 2)))
    sign, logarithm = np.linalg.slogdet(x)
    assert float(plain(sign)) == 0.0 and float(plain(logarithm)) == -np.inf
    logarithm.backward()
    assert np.isnan(plain(x.grad)).all()


def test_repeated_eigenvalues():
    """The terms 1/(a-b) of equal eigenvalues are 0: functions of the matrix keep their derivative."""
    x = leaf(2.0 * np.eye(3))
    np.sum(np.linalg.eigvalsh(x)).backward()
    np.testing.assert_allclose(plain(x.grad), np.eye(3), atol=1e-14)
    x = leaf(2.0 * np.eye(3))
    w, v = np.linalg.eigh(x)
    np.sum(v).backward()
    assert np.isfinite(plain(x.grad)).all()
    x = leaf(np.eye(3))
    np.sum(np.linalg.svd(x, compute_uv=False)).backward()
    np.testing.assert_allclose(plain(x.grad), np.eye(3), atol=1e-14)
    for z in (np.zeros((3, 2)), np.ones((2, 3))):
        x = leaf(z)
        u, s, vh = np.linalg.svd(x, full_matrices=False)
        (np.sum(u) + np.sum(s) + np.sum(vh)).backward()
        assert np.isfinite(plain(x.grad)).all()


# ---- refusals and plain values --------------------------------------------------------------------


REFUSED = {
    "svd full": lambda t: np.linalg.svd(t), "qr complete": lambda t: np.linalg.qr(t, mode="complete"), "qr raw": lambda t: np.linalg.qr(t, "raw"), "pinv cutoffs": lambda t: np.linalg.pinv(t, np.array([1e-9])),
    "multi_dot out": lambda t: np.linalg.multi_dot([t, t.T], out=np.empty((3, 3))),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_a_reason(name):
    with pytest.raises(tg.errors.UnsupportedFunctionError):
        REFUSED[name](leaf(R))


def test_constants_give_plain_values():
    x = tg.tensor(R)
    for f in (lambda a: np.linalg.svd(a), lambda a: np.linalg.qr(a, "complete"), lambda a: np.linalg.qr(a), lambda a: (np.linalg.svd(a, compute_uv=False),), lambda a: (np.linalg.eigvalsh(a[:2]),), lambda a: (np.linalg.pinv(a),),
              lambda a: (np.linalg.qr(a, "r"),), lambda a: np.linalg.qr(a, "raw")):  # fmt: skip
        for ours, theirs in zip(f(x), f(R), strict=True):
            assert not ours.requires_grad
            np.testing.assert_allclose(plain(ours), theirs, atol=1e-14)
    assert np.linalg.matrix_rank(leaf(R)) == 2
    assert np.linalg.lstsq(leaf(R), np.ones(3))[2] == 2


def test_named_tuples():
    a = leaf(A)
    assert np.linalg.svd(a).S is not None and np.linalg.qr(a).Q is not None
    assert np.linalg.eigh(a).eigenvalues is not None and np.linalg.slogdet(a).sign is not None


# ---- the sweep ------------------------------------------------------------------------------------


def test_the_sweep_calls_no_python_for_an_instruction():
    def counted(count):
        x = leaf(A)
        y = x
        for _ in range(count):
            y = np.linalg.solve(positive(y), np.linalg.cholesky(positive(y))) + np.linalg.eigh(positive(y))[1] + np.linalg.svd(y)[0] + np.linalg.det(y) * 0.01
            y = y + np.linalg.qr(y)[0] + np.linalg.slogdet(y)[1] + np.linalg.pinv(y)
        return calls(np.sum(y).backward)

    # Now and then one cleans up behind others, by a handful of calls; three rounds more are some forty instructions.
    few, many = (min(counted(count) for _ in range(4)) for count in (1, 4))
    assert many - few < 20


@pytest.mark.parametrize("order", [2, -2, "nuc"])
def test_norms_of_singular_values(order):
    check(lambda x: np.linalg.norm(x, order), TALL)
    cube = generator(7).normal(size=(2, 3, 4))
    for axes in ((2, 0), (0, 2), (-2, -1)):
        for keepdims in (False, True):
            check(lambda x: np.linalg.norm(x, order, axis=axes, keepdims=keepdims), cube)


@pytest.mark.parametrize("order", [None, 2, -2, 1, -1, np.inf, -np.inf, "fro", "nuc"])
def test_cond(order):
    check(lambda x: np.linalg.cond(x, order), A)
    check(lambda x: np.linalg.cond(x, order), np.stack([A, A.T * 2.0]))
    if order in (None, 2, -2):
        check(lambda x: np.linalg.cond(x, order), TALL)
    g = tg.jit(tg.grad(lambda x: np.linalg.cond(x, order)))
    for x in (A, A + 0.1 * np.eye(len(A)), 2.0 * A.T):
        differences = [(np.linalg.cond(x + h, order) - np.linalg.cond(x - h, order)) / 2e-6 for h in 1e-6 * np.eye(A.size).reshape(-1, *A.shape)]
        np.testing.assert_allclose(g(x).ravel(), differences, rtol=1e-5, atol=1e-6)


def test_cond_of_what_has_none():
    for x in (np.ones(3), np.ones((0, 0))):
        with pytest.raises(np.linalg.LinAlgError):
            np.linalg.cond(leaf(x))


@pytest.mark.parametrize(("shape", "axis"), [((0, 3), 1), ((3, 0), 1), ((2, 3), -1), ((2, 3), None), ((2, 3, 4), (0, 2)), ((2, 3, 4), (2, 0))])
def test_norms_of_several_axes_and_of_nothing(shape, axis):
    """The numbers of the axes are one vector, whatever their order."""
    x = np.random.default_rng(4).normal(size=shape)
    axes = tuple(range(x.ndim)) if axis is None else np.atleast_1d(axis) % x.ndim
    for order in (None, 1, 2, 3.0):
        p = order or 2.0
        expected = np.sum(np.abs(x) ** p, axis=tuple(axes)) ** (1.0 / p)
        found = tg.norm(tg.tensor(x), order, axis=axis)
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-13)
        assert tg.norm(tg.tensor(x), order, axis=axis, keepdims=True).shape == tuple(1 if k in axes else n for k, n in enumerate(shape))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (2, 0, 3)])
def test_norms_of_nothing_are_zero_as_in_numpy_2_4(shape, dtype):
    x = np.zeros(shape, dtype)
    orders = [(np.inf, None), (1, None), (2, None)] if x.ndim < 3 else [(2, (0, 1)), (1, (1, 2))]
    for order, axis in [*orders, *((np.inf, k) for k in range(x.ndim) if not x.shape[k])]:
        for keepdims in (False, True):
            norm, pull = tg.vjp(lambda x: np.linalg.norm(x, order, axis, keepdims), x)  # noqa: B023
            full = np.linalg.norm(np.ones([n or 1 for n in shape]), order, axis, keepdims)
            assert (np.shape(norm), np.asarray(norm).dtype) == (full.shape, dtype) and not np.any(norm)
            assert pull(norm)[0].shape == shape
    with pytest.raises(ValueError, match="zero-size"):
        np.linalg.norm(leaf(x), -np.inf, shape.index(0))
