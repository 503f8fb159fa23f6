"""Derivatives at kinks, ties, poles and far out; comparison with PyTorch for a handful."""

from pathlib import Path

import numpy as np
import pytest
import scipy.special as special

import tapegrad as tg
import tapegrad.scipy.special as mirrored
from tests.every import every
from tests.rules.checker import check, generator, gradient, leaf, plain

INF, NAN = np.inf, np.nan


def both(function, x):
    """The gradient on arrays, after a check that scalars agree with it."""
    x = np.asarray(x, float)
    found = gradient(function, x)
    with np.errstate(all="ignore"):
        scalars = [gradient(function, float(v)) for v in x]
    np.testing.assert_allclose(scalars, found, rtol=1e-13)
    return found


@pytest.mark.parametrize(
    "function, x, expected",
    [
        (np.abs, [0.0, -0.0, 2.0, -2.0], [0, 0, 1, -1]),
        (tg.relu, [0.0, -1.0, 1.0], [0, 0, 1]),
        (np.sign, [0.0, 3.0], [0, 0]),
        (lambda x: np.clip(x, -1, 1), [-1.0, 1.0, 0.0, 2.0, -2.0], [1, 1, 1, 0, 0]),
        (lambda x: np.clip(x, None, 1.0), [1.0, 0.0, 2.0], [1, 1, 0]),
        (lambda x: np.clip(x, 0.0, None), [0.0, 1.0, -2.0], [1, 1, 0]),
        (lambda x: x**0, [0.0, 2.0, -1.0], [0, 0, 0]),
        (lambda x: x**0.0, [0.0, 2.0, -1.0], [0, 0, 0]),
        (lambda x: x**1, [0.0, 2.0, -1.0], [1, 1, 1]),
        (lambda x: x**2, [0.0, 2.0, -1.0], [0, 4, -2]),
        (lambda x: x**2.0, [0.0, 2.0, -1.0], [0, 4, -2]),
        (lambda x: x**3, [0.0, 2.0, -1.0], [0, 12, 3]),
        (lambda x: x**-1, [2.0, -1.0], [-0.25, -1]),
        (lambda x: 0.0**x, [1.0, 2.0, 0.5], [0, 0, 0]),
        (lambda x: 2**x, [0.0, 1.0], [np.log(2), 2 * np.log(2)]),
        (np.square, [0.0, 3.0], [0, 6]),
        (lambda x: np.maximum(x, 1.0), [1.0, 0.0, 2.0], [0.5, 0, 1]),
        (lambda x: np.minimum(1.0, x), [1.0, 0.0, 2.0], [0.5, 1, 0]),
        (lambda x: np.maximum(x, x), [1.0, -2.0], [1, 1]),
        (lambda x: np.hypot(x, 0.0), [0.0, -2.0], [0, -1]),
        (lambda x: np.copysign(x, -1.0), [2.0, -2.0], [-1, 1]),
        (lambda x: np.where(x > 0, np.log(x), 0.0), [0.0, -1.0, 2.0], [0, 0, 0.5]),
        (lambda x: np.where(x > 0, np.sqrt(x), 1.0), [0.0, -1.0, 4.0], [0, 0, 0.25]),
        (lambda x: np.where(x != 0, np.sin(x) / x, 1.0), [0.0], [0]),
        (lambda x: np.where(x > 0, x**0.5, 0.0 * x), [0.0, 4.0], [0, 0.25]),
        (lambda x: np.where(x < 700, np.exp(x), x), [1000.0], [1]),
        (tg.sigmoid, [1000.0, -1000.0, 0.0], [0, 0, 0.25]),
        (tg.softplus, [1000.0, -1000.0, 0.0], [1, 0, 0.5]),
        (np.tanh, [1000.0, -1000.0, 0.0], [0, 0, 1]),
        (lambda x: np.logaddexp(x, 0.0), [1000.0, -1000.0, 0.0], [1, 0, 0.5]),
        (lambda x: np.logaddexp(0.0, x), [1000.0, -1000.0, 0.0], [1, 0, 0.5]),
        (lambda x: np.arctan2(x, 1e200), [1e200], [0.5e-200]),
        (lambda x: np.arctan2(1e-200, x), [1e-200], [-0.5e200]),
        (np.sqrt, [0.0], [INF]),
        (np.cbrt, [0.0], [INF]),
        (np.log, [0.0], [INF]),
        (lambda x: np.remainder(x, 0.1), [1.0], [1]),
        (lambda x: np.remainder(1.0, x), [0.1, -0.3], [-9, 4]),
        (lambda x: np.fmod(1.0, x), [0.1, -0.3], [-9, 3]),
        (lambda x: x % 3.0, [-4.0, 4.0], [1, 1]),
        (tg.norm, [0.0, -2.0], [0, -1]),
    ],
)
def test_scalar_kinks(function, x, expected):
    with np.errstate(all="ignore"):
        if function is tg.norm:
            found = [gradient(function, v) for v in x]
        else:
            found = both(function, x)
    np.testing.assert_allclose(found, expected, rtol=1e-13, atol=0)


def test_values_of_scalars_follow_numpy():
    for f in (lambda x: np.floor_divide(x, 0.1), lambda x: x % 0.1, lambda x: np.floor_divide(x, -0.3), lambda x: np.fmod(x, -0.3)):
        for value in (1.0, -1.0, 0.35):
            assert plain(f(leaf(value))) == f(np.float64(value))
            assert plain(f(leaf([value]))) == f(np.array([value]))
    with np.errstate(all="ignore"):
        for f in (np.log, np.sqrt, np.reciprocal, np.arcsin, np.exp, np.sinh, lambda x: x**0.5, lambda x: 1 / x, lambda x: x**-1, lambda x: x**1000.0):
            for value in (0.0, -2.0, 800.0):
                np.testing.assert_allclose(plain(f(leaf(value))), f(np.float64(value)), rtol=1e-14)


def test_ties_share_evenly():
    np.testing.assert_allclose(gradient(np.max, np.array([1.0, 3.0, 3.0, 3.0])), [0, 1 / 3, 1 / 3, 1 / 3])
    np.testing.assert_allclose(gradient(np.min, np.array([[1.0, 1.0], [2.0, 1.0]])), [[1 / 3, 1 / 3], [0, 1 / 3]])
    found = gradient(lambda x: np.max(x, axis=0), np.array([[1.0, 2.0], [1.0, 3.0]]))
    np.testing.assert_allclose(found, [[0.5, 0], [0.5, 1]])
    a, b = gradient(np.maximum, np.array([1.0, 2.0]), np.array([1.0, 3.0]))
    np.testing.assert_array_equal([a, b], [[0.5, 0], [0.5, 1]])
    a, b = gradient(np.minimum, 1.0, 1.0)
    assert a == b == 0.5


def test_clip_shares_between_value_and_bounds():
    for wrap in (float, lambda v: np.full(3, v)):
        for x, expected in ((0.5, (1, 0, 0)), (-1.0, (0, 1, 0)), (2.0, (0, 0, 1)), (0.0, (1, 0, 0)), (1.0, (1, 0, 0))):
            found = gradient(np.clip, wrap(x), wrap(0.0), wrap(1.0))
            np.testing.assert_array_equal([np.ravel(g)[0] for g in found], expected)


def test_zero_at_the_origin():
    np.testing.assert_array_equal(gradient(tg.norm, np.zeros(3)), np.zeros(3))
    np.testing.assert_array_equal(gradient(lambda x: np.linalg.norm(x, axis=1), np.array([[0.0, 0], [3, 4]])), [[0, 0], [0.6, 0.8]])
    np.testing.assert_array_equal(gradient(np.std, np.full(3, 2.0)), np.zeros(3))
    np.testing.assert_array_equal(gradient(np.std, 2.0), 0)
    for found in (gradient(np.hypot, 0.0, 0.0), gradient(np.hypot, np.zeros(2), np.zeros(2))):
        np.testing.assert_array_equal(found, np.zeros_like(found))
    np.testing.assert_allclose(gradient(tg.norm, np.array([3e200, 4e200])), [0.6, 0.8])
    np.testing.assert_allclose(gradient(tg.norm, np.array([3e-200, 4e-200])), [0.6, 0.8])
    np.testing.assert_allclose(plain(tg.norm(leaf([3e200, 4e200]))), 5e200)


def test_zero_is_absolute_in_structural_rows():
    # A row that is not taken has an adjoint of exactly 0; what is not finite in it stays there.
    x = np.array([[1.0, 2.0, 4.0], [INF, 1.0, 2.0], [NAN, 1.0, 2.0], [-INF, -INF, -INF]])
    good = np.array([True, False, False, False])
    with np.errstate(all="ignore"):
        for f in (np.var, np.std, tg.norm, tg.logsumexp, np.prod, np.max, np.mean):
            found = gradient(lambda t, f=f: np.where(good, f(t, axis=1), 0.0), x)
            assert np.isfinite(found).all(), f
            assert (found[1:] == 0).all() and (found[0] != 0).any(), f
        for f in (tg.softmax, tg.log_softmax):
            found = gradient(lambda t, f=f: np.where(good[:, None], f(t), 0.0)[:, 0], x)
            assert np.isfinite(found).all() and (found[1:] == 0).all(), f


def test_far_out():
    x = np.array([1000.0, -1000.0, 0.0])
    np.testing.assert_allclose(gradient(tg.logsumexp, x), [1, 0, 0])
    np.testing.assert_allclose(gradient(tg.logsumexp, -x), [0, 1, 0])
    np.testing.assert_allclose(plain(tg.logsumexp(leaf([1000.0, 1000.0]))), 1000 + np.log(2))
    np.testing.assert_allclose(gradient(tg.logsumexp, np.array([-INF, 0.0])), [0, 1])
    check(lambda t: tg.log_softmax(t) if isinstance(t, tg.Differentiable) else special.log_softmax(t), x, rtol=1e-4)
    np.testing.assert_allclose(gradient(lambda t: tg.log_softmax(t)[1], x), [-1, 1, 0])
    bce = tg.nn.functional.binary_cross_entropy_with_logits
    t = leaf([1000.0, -1000.0, 1000.0, -1000.0])
    loss = bce(t, np.array([1.0, 0.0, 0.0, 1.0]), "none")
    np.testing.assert_allclose(plain(loss), [0, 0, 1000, 1000])
    loss.sum().backward()
    np.testing.assert_allclose(plain(t.grad), [0, 0, 1, -1])


def test_too_few_elements():
    with np.errstate(all="ignore"), pytest.warns(RuntimeWarning):
        assert np.isnan(gradient(lambda x: np.var(x, ddof=2), np.array([1.0, 2.0]))).all()
        assert gradient(np.mean, np.zeros(0)).shape == (0,)


def test_special_functions():
    x = np.array([-2.5, -0.3, 0.7, 3.0])
    np.testing.assert_allclose(gradient(tg.lgamma, x), special.psi(x), rtol=1e-12)
    np.testing.assert_allclose(gradient(tg.digamma, x[2:]), special.polygamma(1, x[2:]), rtol=1e-12)
    np.testing.assert_allclose(gradient(special.erf, x), 2 / np.sqrt(np.pi) * np.exp(-(x**2)), rtol=1e-14)
    np.testing.assert_allclose(gradient(special.gammaln, 0.7), special.psi(0.7))
    np.testing.assert_allclose(gradient(special.expit, x), special.expit(x) * special.expit(-x), rtol=1e-13)


TORCH = [
    ("softmax", lambda t: tg.softmax(t, axis=1), lambda m, t: m.softmax(t, 1)),
    ("log_softmax", lambda t: tg.log_softmax(t, axis=0), lambda m, t: m.log_softmax(t, 0)),
    ("logsumexp", lambda t: tg.logsumexp(t, axis=1), lambda m, t: m.logsumexp(t, 1)),
    ("std", lambda t: t.std(axis=1, ddof=1), lambda m, t: t.std(1)),
    ("prod", lambda t: t.prod(axis=0), lambda m, t: t.prod(0)),
    ("cumsum", lambda t: t.cumsum(axis=1), lambda m, t: t.cumsum(1)),
    ("matmul", lambda t: t @ t.T, lambda m, t: t @ t.T),
    ("norm", lambda t: t.norm(axis=0), lambda m, t: t.norm(dim=0)),
    ("lgamma", lambda t: tg.lgamma(t), lambda m, t: m.lgamma(t)),
    ("gelu", lambda t: t * 0.5 * (1 + tg.erf(t / 2**0.5)), lambda m, t: m.nn.functional.gelu(t)),
    ("amax", lambda t: tg.amax(t, axis=1), lambda m, t: t.amax(1)),
    ("index", lambda t: t[[0, 0, 2]][:, 1:], lambda m, t: t[[0, 0, 2]][:, 1:]),
]  # fmt: skip


@pytest.mark.parametrize("name, ours, theirs", TORCH, ids=[t[0] for t in TORCH])
@pytest.mark.parametrize("char", "df")
def test_as_pytorch(name, ours, theirs, char):
    torch = pytest.importorskip("torch")
    rng = generator(12)
    x = rng.uniform(0.2, 2.0, (3, 4)).astype(char)
    t, u = leaf(x), torch.tensor(x, requires_grad=True)
    y, z = ours(t), theirs(torch, u)
    seed = rng.standard_normal(y.shape).astype(char)
    y.backward(seed)
    z.backward(torch.tensor(seed))
    rtol = 1e-11 if char == "d" else 2e-4
    np.testing.assert_allclose(plain(y), z.detach().numpy(), rtol=rtol, atol=rtol)
    np.testing.assert_allclose(plain(t.grad), u.grad.numpy(), rtol=rtol, atol=rtol)
    assert t.grad.dtype == x.dtype


# ---- the table of docs/numerics.md ---------------------------------------------------

#: (function, point) of the table -> calls: a function, its operands, the derivative in each.
LOGSUMEXPS = [
    tg.logsumexp, lambda x: tg.logsumexp(x[None], axis=1, keepdims=True), mirrored.logsumexp, lambda x: mirrored.logsumexp(x, b=np.full(x.shape, 2.0)),
    lambda x: mirrored.logsumexp(x, b=np.full(x.shape, -2.0), return_sign=True)[0],
]  # fmt: skip


def reached_otherwise(function, operands):
    """The gradient by other ways than `backward`: sweep and kernel recorded at another point, columns of `jacfwd`."""
    arrays = [np.asarray(o, float) for o in operands]
    scalar = lambda *x: np.sum(function(*x))  # noqa: E731
    for kernel in ("never", "always"):
        g = tg.jit(tg.grad(scalar, tuple(range(len(arrays)))), kernel=kernel)
        g(*[np.linspace(0.2, 0.4, a.size).reshape(a.shape) for a in arrays])
        yield g(*arrays)
    yield tuple(tg.jacfwd(scalar, k)(*arrays) for k in range(len(arrays)))


TABLE = {
    ("`abs(x)`", "0"): [(np.abs, [0.0], [0])],
    ("`relu(x)`", "0"): [(tg.relu, [0.0], [0])],
    ("`sign`, `floor`, `ceil`, `trunc`, `fix`, `rint`, `round`, `x // y`, integer part of `modf`", "everywhere"): [
        (f, [v], [0]) for f in (np.sign, np.floor, np.ceil, np.trunc, np.fix, np.rint, np.round, lambda x: x // 0.7, lambda x: np.modf(x)[1]) for v in (0.0, 1.0, 1.3)
    ],
    ("`maximum(x, y)`, `minimum`, `max`, `min`, `ptp`", "ties"): [
        (np.maximum, [2.0, 2.0], [0.5, 0.5]), (np.minimum, [2.0, 2.0], [0.5, 0.5]), (np.max, [[3.0, 3.0, 1.0]], [[0.5, 0.5, 0]]),
        (np.min, [[1.0, 3.0, 1.0]], [[0.5, 0, 0.5]]), (np.ptp, [[1.0, 3.0, 3.0]], [[-1, 0.5, 0.5]]),
    ],
    ("`maximum(x, y)`, `minimum`, `max`, `min`", "where the result is NaN"): [
        *((f, [NAN, 1.0], [1, 0]) for f in (np.maximum, np.minimum)), *((f, [1.0, NAN], [0, 1]) for f in (np.maximum, np.minimum)),
        *((f, [NAN, NAN], [0.5, 0.5]) for f in (np.maximum, np.minimum)), *((f, [[1.0, NAN, 2.0]], [[0, 1, 0]]) for f in (np.max, np.min)),
        *((f, [[NAN, 5.0, NAN]], [[0.5, 0, 0.5]]) for f in (np.max, np.min)),
    ],
    ("`fmax`, `fmin`", "one is NaN"): [
        *((f, [NAN, 1.0], [0, 1]) for f in (np.fmax, np.fmin)), *((f, [1.0, NAN], [1, 0]) for f in (np.fmax, np.fmin)),
        *((f, [NAN, NAN], [0.5, 0.5]) for f in (np.fmax, np.fmin)),
    ],
    ("`clip(x, lo, hi)`", "at a bound"): [(np.clip, [0.0, 0.0, 1.0], [1, 0, 0]), (np.clip, [1.0, 0.0, 1.0], [1, 0, 0])],
    ("`x ** 0`", "everywhere, 0 too"): [(lambda x: x**0, [v], [0]) for v in (0.0, -1.0, 2.0)],
    ("`x ** y`", "where it is 0"): [(lambda y: 0.0**y, [2.0], [0])],
    ("`sqrt(x)`, `cbrt(x)`, `log(x)`", "0"): [(f, [0.0], [INF]) for f in (np.sqrt, np.cbrt, np.log)],
    ("`x ** 0.5`", "0"): [(lambda x: x**0.5, [0.0], [INF])],
    ("`norm(x)`, `hypot(x, y)`, `std(x)`", "where they are 0"): [
        (np.linalg.norm, [[0.0, 0.0]], [[0, 0]]), (np.hypot, [0.0, 0.0], [0, 0]), (np.std, [[2.0, 2.0]], [[0, 0]]), (tg.norm, [0.0], [0]),
    ],
    ("`norm(x, p)`", "where it is 0"): [(lambda x, p=p: np.linalg.norm(x, p), [[0.0, 0.0]], [[0, 0]]) for p in (1, 3, 2.5, INF)],
    ("`arctan2(y, x)`", "the origin"): [(np.arctan2, [0.0, 0.0], [NAN, NAN])],
    ("`x % y`, `fmod(x, y)`", "jumps"): [(np.remainder, [4.0, 2.0], [1, -2]), (np.fmod, [4.0, 2.0], [1, -2])],
    ("`copysign(x, y)`", "`x` is 0"): [(np.copysign, [0.0, -1.0], [0, 0]), (np.copysign, [2.0, -1.0], [-1, 0])],
    ("`heaviside(x, h)`", "everywhere"): [(np.heaviside, [0.0, 0.5], [0, 1]), (np.heaviside, [2.0, 0.5], [0, 0])],
    ("`np.where(x > 0, 1.0, 0.0)`", "everywhere"): [(lambda x: np.where(x > 0, 1.0, 0.0) + 0.0 * x, [v], [0]) for v in (0.0, 1.0)],
    ("`logaddexp(x, y)`, `logaddexp2`, `logsumexp`", "several entries are the infinity that is the result"): [
        *((f, [v, v], [0.5, 0.5]) for f in (np.logaddexp, np.logaddexp2) for v in (INF, -INF)),
        *((f, [[v, v]], [[0.5, 0.5]]) for f in LOGSUMEXPS for v in (INF, -INF, 1e300, -1e300)),
        *((f, [[INF, v, INF, -INF]], [[0.5, 0, 0.5, 0]]) for f in LOGSUMEXPS for v in (1.0, -INF)),
        *((f, [[INF, v]], [[1, 0]]) for f in LOGSUMEXPS for v in (1.0, -INF)),
        *((f, [[-INF, v]], [[0, 1]]) for f in LOGSUMEXPS for v in (1.0, INF)),
        *((lambda x: mirrored.logsumexp(x, b=[3.0, 1.0, 0.0]), [[v, v, v]], [[0.75, 0.25, 0]]) for v in (INF, -INF)),
    ],
    ("`sinc(x)`", "0"): [(np.sinc, [0.0], [0])],
    ("`nan_to_num(x)`", "what was replaced"): [(np.nan_to_num, [v], [0]) for v in (NAN, INF, -INF)],
    ("`prod`, `cumprod`", "zeros"): [
        (np.prod, [[0.0, 2.0, 3.0]], [[6, 0, 0]]), (np.prod, [[0.0, 0.0, 3.0]], [[0, 0, 0]]), (np.cumprod, [[2.0, 0.0, 3.0]], [[1, 8, 0]]),
        (np.cumprod, [[0.0, 0.0, 3.0]], [[1, 0, 0]]),
    ],
    ("`maximum.accumulate`, `minimum.accumulate`, `segment_max`, `segment_min`", "ties"): [
        *((lambda x, f=f: f.accumulate(x)[-1], [[2.0, 2.0, 2.0]], [[1, 0, 0]]) for f in (np.maximum, np.minimum)),
        *((lambda x, f=f: f(x, np.array([1, 0, 1]), 2)[1], [[2.0, 2.0, 2.0]], [[1, 0, 0]]) for f in (tg.segment_max, tg.segment_min)),
    ],
    ("`median`, `quantile`, `percentile`, `sort`", "ties"): [
        (np.median, [[2.0, 2.0, 2.0]], [[0, 1, 0]]), (lambda x: np.quantile(x, 0.5), [[2.0, 2.0, 2.0]], [[0, 1, 0]]),
        (lambda x: np.percentile(x, 50), [[2.0, 2.0, 2.0]], [[0, 1, 0]]), (lambda x: np.sort(x, kind="stable")[0], [[2.0, 2.0, 2.0]], [[1, 0, 0]]),
    ],
    ("`entr(x)`, `rel_entr(x, y)`, `kl_div(x, y)` in `x`", "0"): [
        (special.entr, [0.0], [INF]), (lambda x: special.rel_entr(x, 1.0), [0.0], [-INF]), (lambda x: special.kl_div(x, 1.0), [0.0], [-INF]),
    ],
    ("`xlogy(x, y)`, `xlog1py(x, y)`", "`x` and the argument of the logarithm are 0"): [(special.xlogy, [0.0, 0.0], [0, 0]), (special.xlog1py, [0.0, -1.0], [0, 0])],
    ("`interp(x, ...)`", "`x` is a knot"): [(lambda x: np.interp(x, [0.0, 1.0, 3.0], [0.0, 1.0, 7.0]), [v], [d]) for v, d in ((0.0, 1), (1.0, 3), (3.0, 3))],
    ("`interp(x, ...)`", "`x` beyond the knots"): [(lambda x: np.interp(x, [0.0, 1.0], [2.0, 5.0]), [v], [0]) for v in (-0.5, 1.5)],
}  # fmt: skip


def test_the_page_and_this_table_have_the_same_lines():
    page = (Path(__file__).parents[2] / "docs" / "numerics.md").read_text(encoding="utf-8")
    lines = page.partition("| function | point | derivative |\n|---|---|---|\n")[2].partition("\n\n")[0].splitlines()
    assert [tuple(line.strip("| ").split(" | ")[:2]) for line in lines] == list(TABLE)


@pytest.mark.filterwarnings("ignore")
@every("line", TABLE)
def test_line_of_the_table(line):
    for function, operands, expected in TABLE[line]:
        for wrap in (lambda v: v, np.atleast_1d):
            found = gradient(function, *[np.array(v) if isinstance(v, list) else wrap(v) for v in operands])
            for f, e in zip(found if len(operands) > 1 else [found], expected):
                np.testing.assert_array_equal(np.ravel(f), np.ravel(e), err_msg=str(operands))


@pytest.mark.filterwarnings("ignore")
def test_infinities_are_shared_in_the_same_way_however_the_derivative_is_found():
    for function, operands, expected in TABLE["`logaddexp(x, y)`, `logaddexp2`, `logsumexp`", "several entries are the infinity that is the result"]:
        for found in reached_otherwise(function, operands):
            for f, e in zip(found, expected, strict=True):
                np.testing.assert_array_equal(f, e, err_msg=str(operands))


@pytest.mark.parametrize("char", "df")
def test_zero_is_absolute_in_matrix_products(char):
    a = np.array([[1.0, 2.0], [INF, NAN], [3.0, 4.0]], char)
    used = np.array([True, False, True])
    for b in (np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], char), np.array([1.0, 2.0], char)):
        mask = used[:, None] if b.ndim == 2 else used
        with np.errstate(all="ignore"):
            of_a, of_b = gradient(lambda x, y: np.where(mask, x @ y, 0), a, b)
            stacked = gradient(lambda x, y: np.where(mask, x @ y, 0), np.stack([a, a]), b)
            from_node = (leaf(a) @ leaf(b)).grad_fn(np.where(mask, np.ones(np.shape(a @ b), char), 0).astype(char))
        clean = np.where(used[:, None], a, 0)
        expected = gradient(lambda x, y: x @ y, clean, b)
        np.testing.assert_allclose(of_b, expected[1], rtol=1e-6)
        np.testing.assert_array_equal(of_a[[0, 2]], expected[0][[0, 2]])
        np.testing.assert_array_equal(of_a[1], 0)
        np.testing.assert_allclose(stacked[1], 2 * expected[1], rtol=1e-6)
        np.testing.assert_allclose(plain(from_node[1]), expected[1], rtol=1e-6)


def test_what_is_infinite_in_a_matrix_product_stays_infinite():
    a = np.array([[1.0, INF], [2.0, 3.0]])
    of_b = gradient(lambda x, y: x @ y, a, np.eye(2))[1]
    np.testing.assert_array_equal(of_b, [[3, 3], [INF, INF]])


@pytest.mark.parametrize("function", [np.std, lambda x: np.std(x, ddof=1), lambda x: np.sum(np.std(x.reshape(2, 3), axis=1)), lambda x: x.std() ** 3])
def test_second_derivatives_of_std_where_a_first_one_is_zero(function):
    # Elements that are the mean; and an adjoint that is zero, as at the solution of a fit.
    x = np.array([1.0, 2.0, 3.0, 5.0, 1.0, 3.0])
    deviation = lambda x, value=function(x): (function(x) - value) ** 2
    slope = tg.grad(function)(x)
    replayed = tg.jit(tg.hessian(deviation))
    replayed(x + np.arange(6.0) ** 2)
    by_differences = np.array([(tg.grad(function)(x + h) - tg.grad(function)(x - h)) / 2e-4 for h in 1e-4 * np.eye(6)])
    for modes in (tg.hessian, lambda f: tg.jacfwd(tg.jacfwd(f)), lambda f: tg.jacrev(tg.jacfwd(f)), lambda f: tg.jacrev(tg.grad(f))):
        np.testing.assert_allclose(modes(deviation)(x), 2.0 * np.outer(slope, slope), atol=1e-13)
        np.testing.assert_allclose(modes(function)(x), by_differences, atol=1e-6)
    np.testing.assert_allclose(replayed(x), 2.0 * np.outer(slope, slope), atol=1e-13)
