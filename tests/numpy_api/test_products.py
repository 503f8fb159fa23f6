"""NumPy's products, convolutions, polynomials and differences on tensors, parameter by parameter."""

import numpy as np
import pytest

import tapegrad as tg
from tests.rules.checker import check, generator, leaf, plain

RNG = generator(20)


def array(*shape):
    return RNG.uniform(-1.0, 1.0, shape)


V, W, U = array(3), array(3), array(5)
M, N, S = array(3, 4), array(4, 2), array(3, 3)
C, D = array(2, 3, 4), array(2, 4, 3)

X7 = np.linspace(-1.0, 1.0, 7) + 0.1 * array(7)


def _joined(results):
    return np.concatenate([np.ravel(r) for r in results])


#: Name -> cases (function, operands).
CASES = {
    "dot": [(np.dot, p) for p in [(V, W), (M, N), (C, N), (C, array(2, 4, 5)), (V, D.swapaxes(1, 2)), (C, array(4)), (2.0, M), (M, 0.5), (2.0, 3.0)]],
    "matmul": [(np.matmul, (C, D)), (np.matmul, (V, M)), (np.linalg.matmul, (C, N)), (lambda a: np.matmul(a, N), (M,)), (lambda b: np.matmul(M, b), (N,))],
    "inner": [(np.inner, p) for p in [(V, W), (M, array(5, 4)), (C, array(4)), (C, array(2, 5, 4)), (2.0, V), (V, 0.5), (2.0, 3.0), (np.zeros((2, 0)), np.zeros((3, 0)))]],
    "outer": [(np.outer, (V, U)), (np.outer, (M, U)), (np.linalg.outer, (V, U)), (np.multiply.outer, (V, U))],
    "vdot": [(np.vdot, (V, W)), (np.vdot, (M, array(3, 4))), (np.vdot, (2.0, 3.0)), (np.vdot, (M, array(12)))],
    "vecdot": [(np.vecdot, (V, W)), (np.vecdot, (C, array(4))), (np.linalg.vecdot, (C, array(2, 3, 4))), (lambda a, b: np.linalg.vecdot(a, b, axis=0), (M, array(3, 4))),
               (lambda a, b: np.linalg.vecdot(a, b, axis=1), (C, array(3, 4)[None]))],
    "tensordot": [
        (np.tensordot, (C, array(3, 4))), (lambda a, b: np.tensordot(a, b, 1), (C, N)), (lambda a, b: np.tensordot(a, b, axes=0), (V, M)),
        (lambda a, b: np.tensordot(a, b, ([1, 2], [2, 1])), (C, D)), (lambda a, b: np.tensordot(a, b, axes=(0, 0)), (C, D)),
        (lambda a, b: np.tensordot(a, b, axes=((0, -1), (0, -2))), (C, D)), (lambda a, b: np.linalg.tensordot(a, b, axes=1), (C, N)),
        (lambda a, b: np.tensordot(a, b, 2), (M, array(3, 4))), (lambda a, b: np.tensordot(a, b, ((), ())), (V, W)), (lambda a, b: np.tensordot(a, b, 0), (2.0, V)),
        (lambda a, b: np.tensordot(a, b, 1), (np.zeros((2, 0)), np.zeros((0, 3)))),
    ],
    "kron": [(np.kron, p) for p in [(V, U), (M, N), (M, V), (V, M), (C, N), (2.0, M), (M, 2.0)]],
    "cross": [
        (np.cross, (V, W)), (np.cross, (array(5, 3), array(5, 3))), (np.cross, (array(4, 1, 3), array(5, 3))),
        (lambda a, b: np.cross(a, b, axis=0), (S, array(3, 3))), (lambda a, b: np.cross(a, b, axisa=0), (array(3, 5), array(5, 3))),
        (lambda a, b: np.cross(a, b, axisa=0, axisb=1, axisc=0), (array(3, 5), array(5, 3))), (lambda a, b: np.cross(a, b, 1, -2, 1), (array(4, 3, 5), array(4, 3, 5))),
        (np.linalg.cross, (V, W)), (lambda a, b: np.linalg.cross(a, b, axis=0), (M, array(3, 4))),
    ],
    "convolve": [(lambda a, v, m=m: np.convolve(a, v, m), (array(n), array(k))) for m in ("full", "same", "valid") for n, k in [(5, 3), (3, 5), (6, 4), (4, 4), (1, 3), (5, 1), (7, 2), (2, 7)]]
    + [(np.convolve, (V, U)), (lambda a, v: np.convolve(a, v, mode="same"), (U, V)), (lambda a: np.convolve(a, U), (V,)), (lambda a: np.convolve(V, a), (2.0,))],
    "correlate": [(lambda a, v, m=m: np.correlate(a, v, m), (array(n), array(k))) for m in ("full", "same", "valid") for n, k in [(5, 3), (3, 5), (6, 4), (4, 6), (4, 4), (1, 3), (5, 1), (2, 7)]]
    + [(np.correlate, (U, V)), (lambda a: np.correlate(V, a, mode="full"), (U,))],
    "polyval": [(np.polyval, (U, V)), (np.polyval, (U, M)), (np.polyval, (U, 0.7)), (lambda x: np.polyval([1, 2, 3], x), (M,)), (lambda p: np.polyval(p, 2), (U,)),
                (lambda p: np.polyval(p, [1.0, 2.0]), (U,)), (lambda x: np.polyval([], x), (V,)), (np.polyval, (array(1), V))],
    "polyfit": [
        (lambda x, y: np.polyfit(x, y, 2), (X7, array(7))), (lambda x, y: np.polyfit(x, y, 2.0), (X7, array(7, 2))),
        (lambda x, y, w: np.polyfit(x, y, 3, w=w), (X7, array(7), array(7) + 2.0)), (lambda x, y, w: np.polyfit(x, y, 1, 1e-12, w=w), (X7, array(7, 2), array(7) + 2.0)),
        (lambda x, y: _joined(np.polyfit(x, y, 2, cov=True)), (X7, array(7, 2))), (lambda x, y, w: _joined(np.polyfit(x, y, 2, w=w, cov=True)), (X7, array(7), array(7) + 2.0)),
        (lambda x, y: _joined(np.polyfit(x, y, 1, cov="unscaled")), (X7, array(7, 3))), (lambda x, y: _joined(np.polyfit(x, y, 2, full=True)[:2]), (X7, array(7))),
        (lambda y: np.polyfit(X7, y, 2), (array(7),)), (lambda x: np.polyfit(x, np.arange(7), 2), (X7,)),
    ],
    "vander": [(np.vander, (V,)), (lambda x: np.vander(x, 5), (V,)), (lambda x: np.vander(x, N=2), (V,)), (lambda x: np.vander(x, increasing=True), (np.array([0.0, 1.0, -2.0]),)),
               (lambda x: np.vander(x, 4, True), (U,))],
    "diff": [
        (np.diff, (U,)), (lambda a: np.diff(a, 2), (U,)), (lambda a: np.diff(a, n=3, axis=0), (array(5, 2),)), (lambda a: np.diff(a, axis=1), (C,)), (lambda a: np.diff(a, 1, -2), (C,)),
        (lambda a, p: np.diff(a, prepend=p), (U, 0.5)), (lambda a, p, q: np.diff(a, prepend=p, append=q), (M, array(3, 2), 0.25)), (lambda a, q: np.diff(a, axis=0, append=q), (M, array(1, 4))),
        (lambda a: np.diff(a, prepend=0), (M,)), (lambda a: np.diff(a, 9), (V,)), (lambda a: np.diff(a), (np.zeros((2, 0)),)), (lambda q: np.diff(V, append=q), (1.0,)),
    ],
    "ediff1d": [(np.ediff1d, (U,)), (np.ediff1d, (M,)), (lambda a, b, c: np.ediff1d(a, b, c), (U, array(2), 0.5)), (lambda a: np.ediff1d(a, to_begin=[1.0, 2.0]), (U,)), (np.ediff1d, (array(1),))],
    "cov": [(np.cov, p) for p in [(M,), (U,), (M, array(2, 4)), (U, array(5))]]
    + [(lambda m: np.cov(m, rowvar=False), (M,)), (lambda m, y: np.cov(m, y, rowvar=False), (M, array(3, 2))), (lambda m: np.cov(m, bias=True), (M,)), (lambda m: np.cov(m, ddof=0), (M,)),
       (lambda m: np.cov(m, ddof=2), (M,)), (lambda m, y: np.cov(m, y, False), (U, array(5))), (lambda m: np.cov(m, rowvar=False), (U,)), (lambda y: np.cov(M, y), (array(2, 4),)),
       (lambda m: np.cov(m, fweights=[1, 2, 3, 2]), (M,)), (lambda m, w: np.cov(m, aweights=w + 2.0), (M, array(4))), (lambda m: np.cov(m, dtype=np.float64), (M,))],
    "corrcoef": [(np.corrcoef, (M,)), (np.corrcoef, (U, array(5))), (lambda m: np.corrcoef(m, rowvar=False), (M,)), (lambda m, y: np.corrcoef(m, y, False), (M, array(3, 2)))],
    "multi_dot": [(lambda *a: np.linalg.multi_dot(a), p) for p in [(M, N), (V, M, N), (M, N, array(2)), (V, M, array(4)), (V, W), (array(2, 9), array(9, 3), array(3, 8), array(8, 2)), (array(6, 2), array(2, 7), array(7, 2))]],
    "matrix_power": [(lambda a, n=n: np.linalg.matrix_power(a, n), (S,)) for n in (1, 2, 3, 7)] + [(lambda a: np.linalg.matrix_power(a, 2) @ a, (array(2, 3, 3),))],
}  # fmt: skip
if np.lib.NumpyVersion(np.__version__) < "2.5.0":  # vectors in the plane are arguments of `cross` no longer
    CASES["cross"] += [
        (np.cross, (array(2), array(2))), (np.cross, (array(5, 2), array(2))), (np.cross, (array(5, 2), array(3))), (np.cross, (array(3), array(5, 2))),
    ]  # fmt: skip
if hasattr(np, "matvec"):  # since NumPy 2.2
    CASES["matvec"] = [(np.matvec, (M, array(4))), (np.matvec, (C, array(2, 4))), (np.matvec, (M, array(5, 4)))]
    CASES["vecmat"] = [(np.vecmat, (V, M)), (np.vecmat, (array(2, 3), C)), (np.vecmat, (array(5, 3), M))]

X6 = np.array([0.0, 0.5, 0.75, 2.0, 2.5, 3.25])
CASES["gradient"] = [
    (np.gradient, (array(6),)), (lambda f: np.gradient(f, 2.0), (array(6),)), (lambda f: np.gradient(f, X6), (array(6),)), (lambda f: np.gradient(f, np.arange(6.0)), (array(6),)),
    (lambda f: np.gradient(f, edge_order=2), (array(6),)), (lambda f: np.gradient(f, X6, edge_order=2), (array(6),)), (lambda f: np.gradient(f, 0.5, axis=0, edge_order=2), (array(6, 2),)),
    (lambda f: np.gradient(f), (array(6, 3),)), (lambda f: np.gradient(f, X6, 0.5), (array(6, 3),)), (lambda f: np.gradient(f, X6, axis=1), (array(3, 6),)),
    (lambda f: np.gradient(f, 0.5, X6, axis=(0, 1)), (array(3, 6),)), (lambda f: np.gradient(f, 2.0, axis=-1), (array(3, 6),)), (lambda f, h: np.gradient(f, h), (array(6), 0.5)),
    # Beside plain arrays.
    (lambda h: np.gradient(X6**2, h), (0.5,)), (lambda x: np.gradient(X6**2, x), (X6,)), (lambda e: np.ediff1d(X6, e), (0.5,)), (lambda w: np.polyfit(X6, X6**2, 1, w=w), (array(6),)),
    (lambda f, x: np.gradient(f, x), (array(6), X6)), (lambda f, x: np.gradient(f, x, edge_order=2), (array(6), X6)), (lambda f, x, h: np.gradient(f, x, h), (array(6, 3), X6, 0.5)),
    (np.gradient, (array(2),)), (lambda f: np.gradient(f, [0.0, 3.0]), (array(2),)), (lambda f: np.gradient(f, edge_order=2), (array(3),)), (lambda f, x: np.gradient(f, x, edge_order=2), (array(3), X6[:3])),
    (lambda f: np.gradient(f, [0, 1, 3, 4, 5, 6]), (array(6),)), (lambda f, h, k: np.gradient(f, h, k), (array(4, 3), 0.5, 2.0)),
]  # fmt: skip

KNOTS = np.array([0.0, 1.0, 1.5, 4.0])
POINTS = np.array([-1.0, 0.25, 1.25, 3.0, 5.0, 0.75])
CASES["interp"] = [
    (lambda x, f: np.interp(x, KNOTS, f), (POINTS, array(4))), (lambda x, f: np.interp(x, KNOTS, f), (POINTS.reshape(2, 3), array(4))), (lambda x, f: np.interp(x, KNOTS, f), (0.3, array(4))),
    (lambda x, f, l, r: np.interp(x, KNOTS, f, l, r), (POINTS, array(4), -2.0, 3.0)), (lambda x: np.interp(x, KNOTS, [1, 2, 3, 4], left=0.0), (POINTS,)), (lambda f: np.interp(POINTS, KNOTS, f, right=9.0), (array(4),)),
    (lambda x, f: np.interp(x, KNOTS, f, period=5.0), (POINTS + 0.1, array(4))), (lambda x, f: np.interp(x, KNOTS[::-1], f, period=-3.0), (POINTS + 0.1, array(4))), (lambda x, f: np.interp(x, [0.5], f), (POINTS, array(1))),
    (lambda f: np.interp(KNOTS, KNOTS, f), (array(4),)), (lambda f: np.interp([1.0, 2.0], [0.0, 1.0, 1.0], f), (array(3),)),
    (np.interp, (POINTS, KNOTS, array(4))), (lambda x, p: np.interp(x, p, [1.0, 3.0, 2.0, 5.0]), (POINTS.reshape(2, 3), KNOTS)), (lambda p: np.interp(0.3, p, [1.0, 3.0, 2.0, 5.0]), (KNOTS,)),
]  # fmt: skip

EINSUMS = [
    ("ij,jk->ik", (M, N)), ("ij,jk", (M, N)), ("ij,jk->ki", (M, N)), ("ij->ji", (M,)), ("ba", (M,)), ("ij->", (M,)), ("ij->i", (M,)), ("ii", (S,)), ("ii->i", (S,)), ("ij->ij", (M,)),
    ("iij->ij", (array(3, 3, 2),)), ("iij->j", (array(3, 3, 2),)), ("iii->i", (array(3, 3, 3),)), ("i,i", (V, W)), ("i,i->i", (V, W)), ("i,j->ij", (V, U)), ("i,j->ji", (V, U)), ("i,j->", (V, U)), ("i,j->i", (V, U)),
    ("bij,bjk->bik", (C, D)), ("bij,bkj->bik", (C, array(2, 5, 4))), ("bij,jk->kbi", (C, N)), ("...ij,...jk->...ik", (C, D)), ("...ij,jk", (C, N)), ("...j,j->...", (C, array(4))), ("i...->...", (C,)), ("...", (C,)),
    ("...ii->...i", (array(2, 3, 3),)), ("...,...", (M, array(4))), ("a...,b...->ab...", (M, array(2, 4))), ("...a,...b->...ba", (array(2, 1, 3), array(5, 4))), (",ij->ij", (2.0, M)), (",", (2.0, 3.0)),
    ("ij,jk,kl->il", (M, N, array(2, 5))), ("ij,jk,k->i", (M, N, array(2))), ("i,i,i->i", (V, W, array(3))), ("i,j,k->kji", (V, U, array(2))), ("ij,ij,ij->", (M, array(3, 4), array(3, 4))), ("ij,ik,il->jkl", (M, array(3, 2), array(3, 5))),
    ("bij,bj,i->b", (C, array(2, 4), V)), ("ii,ij->j", (S, M)), ("ii,i->", (S, V)), ("i,ij,j->", (V, M, array(4))), ("ij,jk,kl,lm->im", (M, N, array(2, 3), array(3, 2))), ("ij,kj->", (M, array(2, 4))),
    ("ij,ij->i", (array(3, 1), M)), ("ij,ij", (array(3, 1), M)), ("i j , j k -> i k", (M, N)), ("ij,jk->ik", (np.zeros((2, 0)), np.zeros((0, 3)))), ("zA,Ab->bz", (M, N)),
]  # fmt: skip
CASES["einsum"] = [(lambda *a, s=s: np.einsum(s, *a), operands) for s, operands in EINSUMS] + [
    (lambda *a, o=o: np.einsum("ij,jk,kl->il", *a, optimize=o), (M, N, array(2, 5)))
    for o in (True, False, "greedy", "optimal", ["einsum_path", (1, 2), (0, 1)], ["einsum_path", (0, 1, 2)])
] + [
    (lambda a, b: np.einsum(a, [0, 1], b, [1, 2], [2, 0]), (M, N)), (lambda a, b: np.einsum(a, [0, 1], b, [1, 2]), (M, N)), (lambda a, b: np.einsum(a, [..., 1], b, [1, 2], [2, ...]), (M, N)),
    (lambda a: np.einsum("ij,jk->ik", a, N), (M,)), (lambda b: np.einsum("ij,jk->ik", M, b), (N,)), (lambda b: np.einsum("ij,jk,kl->il", np.ones((3, 4), int), b, np.ones((2, 2))), (N,)),
    (lambda a, b: np.einsum("ij,jk->ik", a, b, order="C", casting="safe", dtype=None), (M, N)), (lambda a: np.einsum("ij,kj->ik", a, a), (M,)),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:Arrays of 2-dimensional vectors:DeprecationWarning")
@pytest.mark.parametrize("name", CASES)
def test_value_and_gradient(name):
    for number, (function, operands) in enumerate(CASES[name]):
        try:
            check(function, *operands)
        except Exception as error:
            error.add_note(f"case {number} of {name}")
            raise


@pytest.mark.parametrize("name", sorted(CASES.keys() - {"cov", "corrcoef", "interp", "vander", "polyfit"}))  # these give float64, as in NumPy
def test_float32(name):
    function, operands = CASES[name][0]
    check(function, *[np.asarray(o, "f") for o in operands])


def test_layouts():
    a, b = np.asfortranarray(array(6, 4)), array(8, 6)[::2, ::-1]
    check(lambda x, y: np.einsum("ij,ji->i", x, y), a, b)
    check(np.kron, a.T, b)
    check(np.tensordot, a, b.T)
    check(lambda x, y: np.convolve(x, y), a[::2, 1], b[1])
    check(lambda x: np.cov(x), a)


def test_weak_operands_of_other_precision():
    p, x = leaf(np.array([1.0, 2.0])), leaf(np.ones(3, "f"))
    found = np.polyval(p, x)
    assert found.dtype == np.polyval(np.array([1.0, 2.0]), np.ones(3, "f")).dtype
    found.backward(np.ones(3))
    assert x.grad.dtype == np.float32 and plain(p.grad).tolist() == [3.0, 3.0]


def test_interp_computes_in_float64_as_numpy_does():
    x, f = leaf(np.array([0.25, 2.0], "f")), leaf(np.array([1.0, 3.0, 2.0, 0.5], "f"))
    found = np.interp(x, KNOTS, f)
    assert found.dtype == np.float64
    found.backward(np.ones(2))
    assert x.grad.dtype == f.grad.dtype == np.float32 and plain(x.grad).tolist() == [2.0, np.float32(-0.6)]


@pytest.mark.parametrize("knots", [KNOTS, KNOTS[::-1].copy()[::-1], np.repeat(KNOTS, 2)[::2], np.array([0.0, 1.0, 1.0]), np.array([0.0, 0.0, 1.0])], ids=str)
@pytest.mark.filterwarnings("ignore")
def test_a_table_is_one_path_wherever_the_points_lie(knots):
    values = np.linspace(1.0, -2.0, len(knots)) ** 2
    points = np.concatenate([POINTS, knots, [-0.0, np.nan, np.inf]])

    def f(x, knots=knots):
        return np.interp(x, knots, values)

    expected = np.stack([f(x) for x in points])
    slopes = np.stack([tg.grad(f)(x) for x in points])
    np.testing.assert_array_equal(tg.vmap(f)(points), expected)
    np.testing.assert_array_equal(tg.vmap(tg.grad(f))(points), slopes)
    for kernel in ("always", "never"):
        g = tg.jit(tg.value_and_grad(f), kernel=kernel)
        np.testing.assert_array_equal([g(x) for x in points], np.column_stack([expected, slopes]))
        assert g.stats().records == 1
        given = tg.jit(f, kernel=kernel)
        np.testing.assert_array_equal([given(x, knots + 0.0) for x in points], expected)
        assert given.stats().records == 1


def test_more_points_on_a_larger_table_than_kernels_count():
    knots = np.linspace(0.0, 1.0, 2000)
    points = RNG.random((5, 100))
    g = tg.jit(lambda x: np.interp(x, knots, np.sin(knots)), kernel="always")
    np.testing.assert_allclose([g(x) for x in points], np.interp(points, knots, np.sin(knots)), rtol=1e-12)
    assert g.stats().records == 1


def test_constants_that_look_at_foreign_memory():
    windows = np.lib.stride_tricks.sliding_window_view(np.arange(5.0), 3)
    check(lambda t: windows @ t, V)
    check(lambda t: np.frombuffer(np.ones(3).tobytes()) * t, V)


def test_interp_beyond_the_knots_is_constant():
    x = leaf(np.array([-1.0, 9.0, 4.0, 0.0]))
    np.interp(x, KNOTS, np.array([0.0, 1.0, 3.0, 2.0])).backward(np.ones(4))
    # At the last knot the slope is that of the last piece, at the others that of the piece to the right.
    np.testing.assert_allclose(plain(x.grad), [0.0, 0.0, -0.4, 1.0])


def test_matrix_power_zero_is_the_identity():
    np.testing.assert_array_equal(plain(np.linalg.matrix_power(leaf(array(2, 3, 3)), 0)), np.broadcast_to(np.eye(3), (2, 3, 3)))


def test_vander_of_few_columns():
    for count in (0, 1):
        np.testing.assert_array_equal(plain(np.vander(leaf(V), count)), np.vander(V, count))


@pytest.mark.parametrize("change, error", [
    (dict(x=X7[:3]), "same length"), (dict(deg=-1), "deg >= 0"), (dict(x=X7[:, None]), "1D vector for x"), (dict(y=np.ones((7, 1, 1))), "1D or 2D"),
    (dict(w=np.ones(3)), "same length"), (dict(w=np.ones((7, 1))), "1-d array for weights"), (dict(x=X7[:0], y=X7[:0]), "non-empty"), (dict(deg=6, cov=True), "must exceed order"),
])
def test_polyfit_refuses_what_numpy_refuses(change, error):
    call = {"x": X7, "y": X7 ** 2, "deg": 1, **change}
    for y in (call["y"], leaf(call["y"])):
        with pytest.raises((TypeError, ValueError), match=error):
            np.polyfit(**{**call, "y": y})


def test_polyfit_warns_as_numpy_does():
    with pytest.warns(np.exceptions.RankWarning, match="poorly conditioned") as noted:
        np.polyfit(leaf(np.ones(5)), np.arange(5.0), 2)
    assert noted[0].filename == __file__
    full = np.polyfit(leaf(X7), X7 ** 2, 2, full=True)
    assert full[2] == 3 and full[4] == np.polyfit(X7, X7 ** 2, 2, full=True)[4]


def test_corrcoef_in_another_dtype():
    t = leaf(M)
    single = np.corrcoef(t, dtype="f")
    assert single.dtype == np.float32 and np.allclose(single.detach().numpy(), np.corrcoef(M), atol=1e-6)
    (single * WEIGHTS).sum().backward()
    double = leaf(M)
    (np.corrcoef(double) * WEIGHTS).sum().backward()
    np.testing.assert_allclose(t.grad.numpy(), double.grad.numpy(), atol=1e-5)


def test_cov_warns_as_numpy_does():
    with pytest.warns(RuntimeWarning, match="Degrees of freedom"), np.errstate(all="ignore"):
        np.cov(leaf(np.ones((2, 1))))


WEIGHTS = np.array([[0.3, -1.0, 0.5], [0.2, 0.9, -0.4], [1.1, 0.6, 0.7]])
out = np.empty((3, 3))
REFUSED = {
    "einsum out": lambda t: np.einsum("ij,jk", t, t, out=out), "einsum dtype": lambda t: np.einsum("ij,jk", t, t, dtype="f"), "dot out": lambda t: np.dot(t, t, out=out),
    "outer out": lambda t: np.outer(t, t, out=out), "matmul axes": lambda t: np.matmul(t, t, axes=[(0, 1)] * 3), "matmul dtype": lambda t: np.matmul(t, t, dtype="f"),
    "multi_dot out": lambda t: np.linalg.multi_dot([t, t], out=out),
    "interp knots": lambda t: np.interp(0.5, t[0], [1, 2, 3], period=2.0),
    "vecdot axes": lambda t: np.vecdot(t, t, axes=[0, 0, ()]), "vecdot keepdims": lambda t: np.vecdot(t, t, keepdims=True), "polyval poly1d": lambda t: np.polyval(np.poly1d([1, 2]), t),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_a_reason(name):
    with pytest.raises(tg.errors.UnsupportedFunctionError):
        REFUSED[name](leaf(S))


def test_the_inner_product_with_a_vector_is_one_instruction():
    assert [len(tg.grad(f).tape(V)) for f in (lambda v: np.inner(v, W), lambda v: np.inner(v, v), lambda v: np.inner(S, v)[0])] == [1, 1, 2]


WRONG = {
    "inner": lambda t: np.inner(t, np.ones(4)), "tensordot": lambda t: np.tensordot(t, np.ones((2, 2))), "tensordot axes": lambda t: np.tensordot(t, t[:2], ([0], [0])), "cross": lambda t: np.cross(t, np.ones(4)),
    "convolve": lambda t: np.convolve(t, t), "empty": lambda t: np.convolve(t[0], []), "mode": lambda t: np.convolve(t[0], t[1], "around"), "vander": lambda t: np.vander(t), "diff": lambda t: np.diff(t, -1),
    "gradient": lambda t: np.gradient(t, [1.0, 2.0], axis=0), "edge": lambda t: np.gradient(t, edge_order=3), "interp": lambda t: np.interp(1.0, [0.0, 1.0], t[0]), "outer": lambda t: np.linalg.outer(t, t),
    "vecdot": lambda t: np.vecdot(t, np.ones(1)), "terms": lambda t: np.einsum("ij,jk", t), "dims": lambda t: np.einsum("ijk", t), "letter": lambda t: np.einsum("i1", t),
    "output": lambda t: np.einsum("ij->k", t), "twice": lambda t: np.einsum("ij->ii", t), "extents": lambda t: np.einsum("ij,j", t, np.ones(4)), "no dots": lambda t: np.einsum("...j->j", t), "no dots in lists": lambda t: np.einsum(t, [..., 0], [0]), "diagonal": lambda t: np.einsum("ii", t[:2]),
    "multi_dot": lambda t: np.linalg.multi_dot([t]), "matrix_power": lambda t: np.linalg.matrix_power(t[:2], 2), "cov": lambda t: np.cov(t[None]),
}  # fmt: skip
if hasattr(np, "matvec"):
    WRONG["matvec"] = lambda t: np.matvec(t, np.ones(2))


@pytest.mark.parametrize("name", WRONG)
def test_wrong_shapes_raise_value_errors_as_in_numpy(name):
    with pytest.raises(ValueError):
        WRONG[name](S)
    with pytest.raises(ValueError):
        WRONG[name](leaf(S))
