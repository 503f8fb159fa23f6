"""`tapegrad.scipy.linalg` against SciPy."""

import numpy as np
import pytest
import scipy.linalg

import tapegrad as tg
import tapegrad.scipy.linalg as mirrored
from tapegrad.scipy.mirrors import MIRRORS
from tests.every import every
from tests.rules.checker import check, generator, gradient, leaf, plain
from tests.scipy.mirrored import check_mirror, check_unmodified

rng = generator(17)
A = rng.standard_normal((4, 4)) + 3 * np.eye(4)
STACK = rng.standard_normal((2, 3, 4, 4)) + 3 * np.eye(4)
VECTOR, MATRIX = rng.standard_normal(4), rng.standard_normal((4, 2))
MATRICES = rng.standard_normal((3, 4, 2))
TALL = rng.standard_normal((5, 3))


def positive(a):
    """A positive definite matrix from any (smoothly)."""
    return a @ a.swapaxes(-1, -2) + np.eye(a.shape[-1])


def symmetric(a):
    return a + a.swapaxes(-1, -2)


def signs_fixed(v):
    """Eigenvectors (columns) without their arbitrary sign."""
    return v * v


def general(found):
    """Eigenvalues and eigenvectors, these without their sign."""
    return [np.copy(found[0]), signs_fixed(found[1])]


def parts(z):
    return np.stack([z.real, z.imag])


def complex_positive(a):
    """A positive definite complex matrix from any real one."""
    z = a + 0.3j * a.swapaxes(-1, -2)
    return z @ z.conj().T + np.eye(a.shape[-1])


BANDS = rng.standard_normal((3, 5)) + np.array([[0.0], [4.0], [0.0]])
CASES = [
    *(
        ("solve_triangular", lambda m, a, b, k=(t, lo, u): m.solve_triangular(a, b, *k), arrays)
        for t in (0, "T", 2)
        for lo in (False, True)
        for u in (False, True)
        for arrays in ((A, VECTOR), (A, MATRIX), (STACK, MATRICES))
    ),
    ("solve_triangular", lambda m, a, b: m.solve_triangular(a, b, lower=True), (STACK, VECTOR)),
    *(
        ("cho_factor", lambda m, a, lo=lo: m.cho_factor(positive(a), lower=lo)[0], (arrays,))
        for lo in (False, True)
        for arrays in (A, STACK[0, 0])
    ),
    *(
        ("cho_solve", lambda m, c, b, lo=lo: m.cho_solve((c, lo), b), arrays)
        for lo in (False, True)
        for arrays in ((A, VECTOR), (A, MATRIX))
    ),
    ("cho_solve", lambda m, a, b: m.cho_solve(m.cho_factor(positive(a)), b), (A, MATRIX)),
    *(
        ("cholesky", lambda m, a, lo=lo: m.cholesky(positive(a), lower=lo), (x,))
        for lo in (False, True)
        for x in (A, STACK)
    ),
    *(("expm", lambda m, a, k=k: m.expm(a * k), (A,)) for k in (0.002, 0.03, 0.15, 0.4, 1.0, 3.0)),
    ("expm", lambda m, a: m.expm(a), (STACK * np.array([0.05, 1.0, 2.5])[:, None, None],)),
    ("expm", lambda m, a: m.expm(a), (np.array([[0.7]]),)),
    *(
        ("solve", lambda m, a, b, k=k: m.solve(a, b, **k), arrays)
        for k in ({}, {"transposed": True}, {"assume_a": "gen"})
        for arrays in ((A, VECTOR), (A, MATRIX), (STACK, MATRICES))
    ),
    *(
        ("solve", lambda m, a, b, k=(kind, lo): m.solve(symmetric(a), b, assume_a=k[0], lower=k[1]), (A, MATRIX))
        for kind in ("sym", "her")
        for lo in (False, True)
    ),
    *(
        ("solve", lambda m, a, b, lo=lo: m.solve(positive(a), b, assume_a="pos", lower=lo), (A, MATRIX))
        for lo in (False, True)
    ),
    *(
        ("solve", lambda m, a, b, kind=kind: m.solve(a, b, assume_a=kind), (A, MATRIX))
        for kind in ("upper triangular", "lower triangular", "diagonal", "tridiagonal")
    ),
    *(("inv", lambda m, a: m.inv(a), (x,)) for x in (A, STACK)),
    *(("det", lambda m, a: m.det(a), (x,)) for x in (A, STACK)),
    ("eigh", lambda m, a: [f(p) for f, p in zip((np.copy, signs_fixed), m.eigh(symmetric(a)), strict=True)], (A,)),
    ("eigh", lambda m, a: m.eigh(symmetric(a), lower=False, eigvals_only=True, subset_by_index=(1, 2)), (A,)),
    *(("eigvalsh", lambda m, a, lo=lo: m.eigvalsh(symmetric(a), lower=lo), (A,)) for lo in (False, True)),
    ("svd", lambda m, a: [signs_fixed(p) if p.ndim == 2 else p for p in m.svd(a, full_matrices=False)], (TALL,)),
    ("svd", lambda m, a: m.svd(a, compute_uv=False), (TALL.T,)),
    ("svdvals", lambda m, a: m.svdvals(a), (TALL,)),
    *(
        ("eigh", lambda m, a, b, lo=lo: general(m.eigh(symmetric(a), positive(b), lower=lo)), (A, STACK[0, 0]))
        for lo in (False, True)
    ),
    ("eigvalsh", lambda m, a, b: m.eigvalsh(symmetric(a), positive(b)), (A, STACK[0, 0])),
    ("qr", lambda m, a: m.qr(a, mode="economic"), (TALL,)),
    ("qr", lambda m, a: m.qr(a), (TALL.T,)),
    ("qr", lambda m, a: m.qr(a), (A,)),
    ("qr", lambda m, a: m.qr(a, mode="r"), (A,)),
    *(("pinv", lambda m, a: m.pinv(a), (x,)) for x in (TALL, TALL.T, A)),
    ("norm", lambda m, a: m.norm(a), (TALL,)),
    ("norm", lambda m, a: m.norm(a, 1, axis=0, keepdims=True), (TALL,)),
    ("norm", lambda m, a: m.norm(a, np.inf), (VECTOR,)),
    ("sqrtm", lambda m, a: m.sqrtm(positive(a)).real, (A,)),
    ("solve_sylvester", lambda m, a, b, q: m.solve_sylvester(a, b, q), (A + 4.0 * np.eye(4), A[:3, :3] + 4.0 * np.eye(3), rng.standard_normal((4, 3)))),
    ("solve_banded", lambda m, ab, b: m.solve_banded((1, 1), ab, b), (BANDS, rng.standard_normal(5))),
    ("solve_banded", lambda m, ab, b: m.solve_banded((0, 2), ab, b), (BANDS[::-1], rng.standard_normal((5, 2)))),
    ("solve_banded", lambda m, ab, b: m.solve_banded((2, 0), ab, b), (BANDS[[1, 0, 2]], rng.standard_normal((5, 2)))),
    *(
        ("solve_triangular", lambda m, a, b, k=(t, lo, u): parts(m.solve_triangular(a + 0.5j * symmetric(a), b * (1 - 2j), *k)), (A, x))
        for t in (0, "T", "C") for lo in (False, True) for u in (False, True) for x in (VECTOR, MATRIX)
    ),
    ("solve_triangular", lambda m, a, b: parts(m.solve_triangular(a, b * 1j)), (A, VECTOR)),
    ("solve_triangular", lambda m, a, b: parts(m.solve_triangular(a * 1j, b)), (A, VECTOR)),
    *(("cho_solve", lambda m, a, b, lo=lo: parts(m.cho_solve(m.cho_factor(complex_positive(a), lower=lo), b * (1 + 1j))), (A, MATRIX)) for lo in (False, True)),
    ("solve", lambda m, a, b: parts(m.solve(complex_positive(a), b, assume_a="pos")), (A, VECTOR)),
    ("eigh", lambda m, a, b: m.eigh(complex_positive(a), complex_positive(b), eigvals_only=True), (A, A.T)),
    *(
        ("solve_banded", lambda m, ab, b, k=k: parts(m.solve_banded(k, ab + 0.7j * ab[:, ::-1], b * (1 + 1j))), (BANDS, x))
        for k in ((1, 1), (2, 0), (0, 2)) for x in (rng.standard_normal(5), rng.standard_normal((5, 2)))
    ),
    ("solve_banded", lambda m, ab, b: parts(m.solve_banded((1, 1), ab, b * 1j)), (BANDS, rng.standard_normal(5))),
    ("solve_banded", lambda m, ab, b: parts(m.solve_banded((1, 1), ab * 1j, b)), (BANDS, rng.standard_normal(5))),
    ("block_diag", lambda m, a, b, c: m.block_diag(a, b, c), (A, VECTOR, 2.0)),
    ("block_diag", lambda m, a, b: m.block_diag(a, b), (TALL, MATRIX)),
    ("toeplitz", lambda m, c: m.toeplitz(c), (VECTOR,)),
    ("toeplitz", lambda m, c, r: m.toeplitz(c, r), (VECTOR, rng.standard_normal(3))),
]
IDS = [f"{name}-{k}" for k, (name, _, _) in enumerate(CASES)]


#: Before stacks of matrices, and `inv` with options.
OLD = np.lib.NumpyVersion(scipy.__version__) < "1.17.0"


@pytest.mark.parametrize("name, call, arrays", CASES, ids=IDS)
def test_value_and_derivative(name, call, arrays):
    if OLD:
        try:
            call(scipy.linalg, *arrays)
        except ValueError as error:
            pytest.skip(f"this SciPy takes no stacks of matrices: {error}")
    check_mirror("scipy.linalg", name, call, arrays, atol=1e-11)


def test_every_mirrored_name_is_tested():
    assert {name for name, _, _ in CASES} == set(MIRRORS["scipy.linalg"]) == set(mirrored.__all__)


UNMODIFIED = {
    "solve_triangular": (A, VECTOR),
    "cho_solve": ((A, False), VECTOR),
    "solve": (A, VECTOR),
    "solve_banded": ((1, 1), BANDS, VECTOR),
    "solve_sylvester": (A, A, A),
    "block_diag": (A, A),
    "toeplitz": (VECTOR,),
    **dict.fromkeys(
        ["cho_factor", "cholesky", "det", "eigh", "eigvalsh", "expm", "inv", "norm", "pinv", "qr", "sqrtm", "svd", "svdvals"],
        (A,),
    ),
}


@pytest.mark.parametrize("name", MIRRORS["scipy.linalg"])
def test_unmodified_scipy_names_the_mirror(name):
    def call(m, *tensors):
        given = ((tensors[0], False), *tensors[1:]) if name == "cho_solve" else ((1, 1), *tensors[1:]) if name == "solve_banded" else tensors
        return getattr(m, name)(*given)

    arrays = [a[0] if isinstance(a, tuple) else a for a in UNMODIFIED[name]]
    check_unmodified("scipy.linalg", name, call, arrays)


def test_bands_are_solved_as_scipy_does():
    """To the bit, by the routine that it calls."""
    rng = np.random.default_rng(0)
    for n, low, high in np.ndindex(5, 4, 4):
        bands, b = rng.standard_normal((low + high + 1, n + 1)), rng.standard_normal((n + 1, 2))
        for dtype in (np.float64, np.float32):
            expected = scipy.linalg.solve_banded((low, high), bands.astype(dtype), b.astype(dtype))
            found = mirrored.solve_banded((low, high), leaf(bands.astype(dtype)), b.astype(dtype))
            assert plain(found).dtype == dtype
            np.testing.assert_array_equal(plain(found), expected)
    for low, high in ((1, 1), (2, 1)):
        with pytest.raises(np.linalg.LinAlgError, match="singular"):
            mirrored.solve_banded((low, high), leaf(np.zeros((low + high + 1, 4))), np.ones(4))


def test_solutions_in_every_mode():
    def sylvester(a, q):
        return np.sum(np.sin(mirrored.solve_sylvester(a + 4.0 * np.eye(3), a.T + 3.0 * np.eye(3), q)))

    def banded(ab, b):
        return np.sum(np.sin(mirrored.solve_banded((1, 1), ab, b)))

    tg.check(sylvester, A[:3, :3], A[1:, 1:], order=2)
    tg.check(banded, BANDS, BANDS[0], order=2)
    outside = gradient(banded, BANDS, BANDS[0])[0][[0, 2], [0, 4]]
    np.testing.assert_array_equal(outside, 0.0)
    with pytest.raises(ValueError, match="do not fit"):
        mirrored.solve_banded((2, 1), leaf(BANDS), BANDS[0])
    x = mirrored.solve_banded((1, 1), leaf(BANDS.astype("f")), BANDS[0].astype("f"))
    assert x.dtype == np.float32


@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("unit", [False, True])
def test_the_other_triangle_is_not_read(lower, unit):
    inside = np.tri(4, k=-1 if unit else 0, dtype=bool)
    inside = inside if lower else inside.T
    bad = np.where(inside, A, np.nan)
    da, db = gradient(lambda a, b: mirrored.solve_triangular(a, b, 0, lower, unit, check_finite=False), bad, MATRIX)
    expected = gradient(lambda a, b: mirrored.solve_triangular(a, b, 0, lower, unit), np.where(inside, A, 0.0), MATRIX)
    np.testing.assert_array_equal(da, expected[0])
    np.testing.assert_array_equal(db, expected[1])
    assert np.all(da[~inside] == 0) and np.all(da[inside] != 0)


def test_single_precision():
    check(lambda a, b: mirrored.solve_triangular(a, b), A.astype("f"), MATRIX.astype("f"))
    check(mirrored.expm, (0.3 * A).astype("f"), reference=scipy.linalg.expm)


def test_expm_has_the_frechet_derivative_of_scipy():
    for scale in (0.01, 1.0, 4.0):
        a, seed = scale * A, rng.standard_normal((4, 4))
        found = gradient(mirrored.expm, a, seed=seed)
        expected = scipy.linalg.expm_frechet(a.T, seed, compute_expm=False)
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12 * np.abs(expected).max())


def test_expm_of_special_matrices():
    zero = np.zeros((3, 3))
    np.testing.assert_array_equal(plain(mirrored.expm(leaf(zero))), np.eye(3))
    np.testing.assert_array_equal(gradient(mirrored.expm, zero), np.ones((3, 3)))
    nilpotent = np.diag(np.ones(3), 1)
    np.testing.assert_allclose(plain(mirrored.expm(leaf(nilpotent))), scipy.linalg.expm(nilpotent), rtol=1e-15)
    # A rotation by a large angle keeps its norm.
    turn = np.array([[0.0, 200.0], [-200.0, 0.0]])
    np.testing.assert_allclose(plain(mirrored.expm(leaf(turn))), scipy.linalg.expm(turn), atol=1e-11)


BAD = [
    ("solve_triangular", (np.ones((2, 3)), np.ones(2)), ValueError, "square"),
    ("solve_triangular", (np.eye(2), np.ones(3)), ValueError, "incompatible"),
    ("solve_triangular", (np.diag([1.0, 0.0]), np.ones(2)), np.linalg.LinAlgError, "ingular"),
    ("solve_triangular", (np.diag([1.0, np.nan]), np.ones(2)), ValueError, "infs or NaNs"),
    ("cho_factor", (np.ones((2, 3)),), ValueError, "square"),
    ("cho_factor", (-np.eye(2),), np.linalg.LinAlgError, "positive definite"),
    ("cholesky", (-np.eye(2),), np.linalg.LinAlgError, "positive definite"),
    ("cholesky", (np.ones((2, 3)),), ValueError, "square"),
    ("expm", (np.ones((2, 3)),), np.linalg.LinAlgError, "square"),
    ("expm", (np.ones(3),), np.linalg.LinAlgError, "square|two"),
    ("solve", (np.ones((2, 3)), np.ones(2)), ValueError, "square"),
    ("solve", (np.eye(2), np.ones(3)), ValueError, "shape|matrix"),
    ("solve", (np.zeros((2, 2)), np.ones(2)), np.linalg.LinAlgError, "ingular"),
    ("inv", (np.ones((2, 3)),), ValueError, "square"),
    ("inv", (np.zeros((2, 2)),), np.linalg.LinAlgError, "ingular"),
    ("det", (np.ones((2, 3)),), ValueError, "square"),
    ("eigh", (np.ones((2, 3)),), ValueError, "square"),
    ("eigvalsh", (np.full((2, 2), np.inf),), ValueError, "infs or NaNs"),
    ("eigh", (np.eye(2), -np.eye(2)), np.linalg.LinAlgError, "ositive definite"),
    ("qr", (np.full((2, 2), np.nan),), ValueError, "infs or NaNs"),
    ("pinv", (np.full((2, 2), np.nan),), ValueError, "infs or NaNs"),
    ("norm", (np.full(2, np.nan),), ValueError, "infs or NaNs"),
    ("svd", (np.ones(3),), ValueError, "shape|matrix"),
    ("svdvals", (np.full((2, 2), np.inf),), ValueError, "infs or NaNs"),
    ("cho_solve", ((np.ones((2, 3)), False), np.ones(2)), ValueError, "square"),
    ("cho_solve", ((np.eye(2), False), np.ones(3)), ValueError, "incompatible"),
]


@pytest.mark.parametrize("name, arguments, error, message", BAD, ids=[f"{b[0]}-{k}" for k, b in enumerate(BAD)])
def test_bad_input_raises_the_class_of_scipy(name, arguments, error, message):
    def tracked(thing):
        if isinstance(thing, tuple):
            return tuple(tracked(t) for t in thing)
        return leaf(thing) if isinstance(thing, np.ndarray) else thing

    if not OLD:
        with pytest.raises(error):
            getattr(scipy.linalg, name)(*arguments)
    with pytest.raises(error, match=message):
        getattr(mirrored, name)(*[tracked(a) for a in arguments])


TURN = rng.standard_normal((4, 4))


def turned(v):
    """A complex matrix, of two numbers."""
    return v[0] * A + v[1] * 1j * TURN


def hermitian(v):
    return turned(v) + np.conj(turned(v).T)


COMPLEX = {
    "solve her": lambda m, v: m.solve(hermitian(v), VECTOR * (1 + 2j), assume_a="her"),
    "solve her lower": lambda m, v: m.solve(hermitian(v), VECTOR * (1 + 2j), assume_a="her", lower=True),
    "solve sym": lambda m, v: m.solve(turned(v) + turned(v).T, VECTOR * (1 + 2j), assume_a="sym"), "pinv": lambda m, v: m.pinv(turned(v)[:, :2]),
    "toeplitz": lambda m, v: m.toeplitz(turned(v)[0]), "toeplitz row": lambda m, v: m.toeplitz(turned(v)[0], turned(v)[1]),
    "sqrtm": lambda m, v: m.sqrtm(turned(v)), "root of negative": lambda m, v: m.sqrtm(-v[0] * (A @ A.T) - v[1] * np.eye(4)),
}  # fmt: skip


@every("name", sorted(COMPLEX))
def test_of_complex_matrices(name):
    def parts(m, v):
        z = COMPLEX[name](m, v)
        return np.stack([z.real, z.imag])

    check(lambda v: parts(mirrored, v), np.array([0.7, 1.2]), reference=lambda v: parts(scipy.linalg, v))


@every("name", ["sqrtm", "complex", "sylvester"])
def test_stacks_of_matrices(name):
    """Where SciPy takes one matrix in its older versions."""
    try:
        scipy.linalg.solve_sylvester(*[STACK[0]] * 3)
    except ValueError:
        pytest.skip("this SciPy takes no stacks")

    def call(m, a):
        if name == "sylvester":
            return m.solve_sylvester(a, positive(a), 2.0 * a)
        root = m.sqrtm(positive(a) if name == "sqrtm" else a - 4.0 * np.eye(4))
        return root.real + root.imag

    stack = STACK[0]
    check(lambda a: call(mirrored, a), stack, reference=lambda a: np.stack([call(scipy.linalg, one) for one in a]))


def test_what_is_refused_for_tensors():
    refusal = tg.errors.UnsupportedFunctionError
    for ours in (mirrored.eigh, mirrored.eigvalsh):
        with pytest.raises(refusal, match="type=2"):
            ours(leaf(A), np.eye(4), type=2)
    for options, message in (({"pivoting": True}, "pivoting"), ({"mode": "raw"}, "raw"), ({}, "tall")):
        with pytest.raises(refusal, match=message):
            mirrored.qr(leaf(TALL), **options)
    with pytest.raises(ValueError, match="Mode"):
        mirrored.qr(leaf(TALL), mode="thin")
    for options in ({"atol": 1e-3}, {"return_rank": True}):
        with pytest.raises(refusal, match=next(iter(options))):
            mirrored.pinv(leaf(TALL), **options)
    with pytest.raises(ValueError, match="positive"):
        mirrored.pinv(leaf(TALL), rtol=-1.0)
    small = np.diag([1.0, 1e-3])
    np.testing.assert_allclose(plain(mirrored.pinv(leaf(small), rtol=0.01)), scipy.linalg.pinv(small, rtol=0.01))
    with pytest.raises(refusal, match="subset_by_value"):
        mirrored.eigvalsh(leaf(A), subset_by_value=(0, 1))
    with pytest.raises(refusal, match="full_matrices=False"):
        mirrored.svd(leaf(TALL))
    with pytest.raises(refusal, match="assume_a"):
        mirrored.inv(leaf(A), assume_a="pos")
    with pytest.raises(ValueError, match="structure"):
        mirrored.solve(leaf(A), VECTOR, assume_a="round")
    with pytest.raises(ValueError, match="square"):
        mirrored.sqrtm(leaf(TALL))
    with pytest.raises(tg.errors.LeaveTapeError, match=r"^write lu of scipy\.linalg"):
        mirrored.lu(leaf(A))


def test_other_names_are_those_of_scipy():
    assert mirrored.lu is scipy.linalg.lu
    with pytest.raises(AttributeError):
        getattr(mirrored, "nonsense")  # noqa: B009
