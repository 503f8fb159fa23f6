"""SciPy's special functions on tensors, by their own names and through `tapegrad.scipy`."""

import numpy as np
import pytest
import scipy.special as sp

import tapegrad as tg
import tapegrad.scipy.special as mirrored
from tests.every import every
from tests.rules.checker import check, generator, gradient, leaf, plain

rng = generator(41)
POSITIVE = rng.uniform(0.2, 4.0, (2, 3))
UNIT = rng.uniform(0.05, 0.95, (2, 3))
ANY = rng.uniform(-2.5, 2.5, (2, 3))
SIGNED_UNIT = rng.uniform(-0.9, 0.9, (2, 3))
INF = np.inf

UNARY = {
    **dict.fromkeys("erf erfc erfcx expit log_expit i0 i1 i0e i1e j0 j1 log_ndtr ndtr exp2 expm1 cbrt".split(), ANY),
    **dict.fromkeys("gamma gammaln digamma psi entr log1p".split(), POSITIVE),
    **dict.fromkeys("logit ndtri".split(), UNIT),
    "erfinv": SIGNED_UNIT,
}
BINARY = {
    **dict.fromkeys("beta betaln xlogy xlog1py rel_entr kl_div".split(), (POSITIVE, POSITIVE[::-1])),
}


@pytest.mark.parametrize("name", UNARY)
def test_unary(name):
    function, x = getattr(sp, name), UNARY[name]
    check(function, x)
    check(function, x.T)
    check(function, x[:, ::2])
    check(function, float(x[0, 0]))
    check(function, np.array(x[0, 0]))
    check(function, np.zeros((0, 2)) + 0.5)
    check(function, x.astype("f"))


@pytest.mark.parametrize("name", BINARY)
def test_binary(name):
    function, (x, y) = getattr(sp, name), BINARY[name]
    check(function, x, y)
    check(function, float(x[0, 0]), y)
    check(function, x[:, :1], y[:1])
    check(function, float(x[0, 0]), 1.5)
    check(lambda t: function(t, 2.0), x)
    check(lambda t: function(2.0, t), y.T)
    check(function, x.astype("f"), y.astype("f"))


#: (a, x, derivative of gammainc in a), to 40 digits by mpmath.
INCOMPLETE_GAMMA = [
    (0.001, 0.01, -4.023271651801227),
    (0.001, 0.0005, -6.976645916427911),
    (0.001, 0.001, -6.2932038249004245),
    (0.001, 1.101, -0.18609535441822367),
    (0.001, 1.002, -0.21909759135980955),
    (0.5, 0.01, -0.522514337797483),
    (0.5, 0.25, -0.797947316783223),
    (0.5, 0.5, -0.6472003523777539),
    (0.5, 1.6, -0.20708287663628427),
    (0.5, 2.0, -0.13561933520399724),
    (2.5, 0.01, -1.7056647497778207e-05),
    (2.5, 1.25, -0.2226634715441981),
    (2.5, 2.5, -0.26084496236866944),
    (2.5, 3.6, -0.17908863104220502),
    (2.5, 6.0, -0.04392923998836797),
    (19.9, 0.01, -6.649914429005406e-58),
    (19.9, 9.95, -0.00266581137227797),
    (19.9, 19.9, -0.08980588211804806),
    (19.9, 21.0, -0.08488544924623274),
    (19.9, 40.8, -8.246394893687873e-05),
    (25.0, 0.01, -5.008549994281058e-75),
    (25.0, 12.5, -0.0008874137557253627),
    (25.0, 25.0, -0.08005517592178234),
    (25.0, 26.1, -0.07652339405787109),
    (25.0, 51.0, -1.5433634490471925e-05),
    (100.0, 50.0, -2.2638123183014524e-10),
    (100.0, 100.0, -0.03992749785778605),
    (100.0, 101.1, -0.03947171365712322),
    (100.0, 201.0, -7.883910695524481e-16),
    (10000.0, 10000.0, -0.003989456049453668),
    (10000.0, 10001.1, -0.003988995321640424),
]


@pytest.mark.parametrize("name", ["gammainc", "gammaincc"])
def test_incomplete_gamma(name):
    function = getattr(sp, name)
    for a in (0.5, 1.0, 3.7, POSITIVE, 19.0, 25.0):
        check(lambda t, a=a: function(a, t), POSITIVE.T if np.ndim(a) == 0 else POSITIVE)
        check(lambda t, a=a: function(a, t), 2.0)
    # The density of the gamma distribution, from logarithms in extended precision where a is large.
    for a in (30.0, 400.0, 1e5):
        x = a + np.array([-2.0, -0.5, 0.0, 1.0, 3.0]) * np.sqrt(a)
        off = (x - a) / a
        exponent = a * (np.log1p(off) - off) - 1 / (12 * a) + 1 / (360 * a**3)
        exact = np.exp(exponent) * np.sqrt(a / (2 * np.pi)) / x
        np.testing.assert_allclose(np.abs(gradient(lambda t, a=a: function(a, t), x)), exact, rtol=1e-9)
    np.testing.assert_array_equal(np.abs(gradient(lambda t: function(1.0, t), np.array([0.0]))), [1])
    check(function, POSITIVE, POSITIVE[::-1])
    check(function, 2.0, 1.5)
    check(lambda a: function(a, 3.0), np.array([0.1, 2.0, 3.5, 25.0, 40.0]))


@every("a, x, exact", INCOMPLETE_GAMMA)
def test_incomplete_gamma_in_its_order(a, x, exact):
    np.testing.assert_allclose(gradient(lambda t: sp.gammainc(t, x), a), exact, rtol=2e-12)
    np.testing.assert_allclose(gradient(lambda t: sp.gammaincc(t, x), np.array([a])), [-exact], rtol=2e-12)


def test_far_out():
    x = np.array([19.9, 20.1, 50.0, 1e3, 1e8])
    # d/dx erfcx = 2 x erfcx - 2 / sqrt(pi) = -2 / sqrt(pi) * i2 with an asymptotic tail.
    u = 0.5 / x**2
    tail = 1 - 3 * u + 15 * u**2 - 105 * u**3 + 945 * u**4 - 10395 * u**5
    np.testing.assert_allclose(gradient(sp.erfcx, x), -tail / (np.sqrt(np.pi) * x**2), rtol=1e-8)
    x = np.array([-1e4, -40.0, -5.0, 0.0, 5.0, 30.0, 100.0])
    exact = np.exp(-(x**2) / 2 - np.log(np.sqrt(2 * np.pi)) - sp.log_ndtr(x))
    np.testing.assert_allclose(gradient(sp.log_ndtr, x)[1:], exact[1:], rtol=1e-12)
    np.testing.assert_allclose(gradient(sp.log_ndtr, x)[0], 1e4, rtol=1e-7)
    np.testing.assert_allclose(gradient(sp.log_expit, np.array([-800.0, 800.0])), [1, 0])


def test_poles_and_limits():
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(gradient(sp.i1, np.zeros(1)), [0.5])
        np.testing.assert_array_equal(gradient(sp.j1, 0.0), 0.5)
        np.testing.assert_array_equal(gradient(sp.i1e, np.zeros(1)), [0.5])
        np.testing.assert_array_equal(gradient(sp.entr, np.zeros(1)), [INF])
        for function, y in ((sp.xlogy, 0.0), (sp.xlog1py, -1.0)):
            dx, dy = gradient(function, np.zeros(1), np.full(1, y))
            assert dx == 0 and dy == 0
        dx, dy = gradient(sp.xlogy, np.zeros(1), np.full(1, 2.0))
        assert dx == np.log(2) and dy == 0
        dx, dy = gradient(sp.rel_entr, np.zeros(1), np.ones(1))
        assert dx == -INF and dy == 0
        dx, dy = gradient(sp.kl_div, np.zeros(1), np.ones(1))
        assert dx == -INF and dy == 1
    x = np.array([1.0, 1.0 + 1e-9])
    np.testing.assert_allclose(gradient(lambda t: sp.kl_div(t, 1.0), x), [0, 1e-9], rtol=1e-6)


def test_digamma_of_negative_numbers():
    check(sp.digamma, np.array([-0.5, -1.3, -7.75, 0.3]))
    check(sp.digamma, -2.4)
    check(sp.gamma, np.array([-0.5, -1.3]))
    check(sp.gammaln, np.array([-0.5, -1.3]))


# ---- tapegrad.scipy.special ------------------------------------------------------------------
A = rng.uniform(-3, 3, (2, 3, 4))
B = rng.uniform(0.2, 2, (2, 3, 4))
SPARSE = np.where(np.indices(B.shape).sum(axis=0) % 2, B, 0.0)


def both(name):
    ours, theirs = getattr(mirrored, name), getattr(sp, name)
    return lambda *args, **kwargs: (ours if any(isinstance(a, tg.Differentiable) for a in (*args, *kwargs.values())) else theirs)(*args, **kwargs)


logsumexp, softmax, log_softmax, polygamma = (both(n) for n in ("logsumexp", "softmax", "log_softmax", "polygamma"))


@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2), (0, 1, 2)])
def test_logsumexp(axis):
    for keepdims in (False, True):
        check(lambda a: logsumexp(a, axis=axis, keepdims=keepdims), A)
        check(lambda a, b: logsumexp(a, axis=axis, b=b, keepdims=keepdims), A, B)
        check(lambda a: logsumexp(a, axis=axis, b=SPARSE, keepdims=keepdims), A)
        check(lambda a: logsumexp(a, axis=axis, b=B - 1, keepdims=keepdims, return_sign=True)[0], A, rtol=1e-4)
    check(lambda b: logsumexp(A if not isinstance(b, tg.Differentiable) else tg.tensor(A), axis=axis, b=b), B)
    check(lambda a: logsumexp(a, axis=axis), A.astype("f"))


def test_logsumexp_far_out():
    check(lambda a, b: logsumexp(a, b=b), np.array([1000.0, 1001.0]), np.array([1.0, 2.0]), rtol=1e-4)
    np.testing.assert_allclose(plain(mirrored.logsumexp(leaf([1000.0, -INF]), b=np.array([0.5, 1.0]))), 1000 + np.log(0.5))
    np.testing.assert_allclose(gradient(lambda a: mirrored.logsumexp(a, b=np.array([0.5, 0.0])), np.array([1.0, 5000.0])), [1, 0])
    result, sign = mirrored.logsumexp(leaf([0.0, 1.0]), b=np.array([1.0, -1.0]), return_sign=True)
    expected = sp.logsumexp([0.0, 1.0], b=[1.0, -1.0], return_sign=True)
    np.testing.assert_allclose([plain(result), plain(sign)], expected)
    assert plain(mirrored.logsumexp(leaf([0.0, 1.0]), return_sign=True)[1]) == 1


@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2)])
def test_softmax(axis):
    check(lambda x: softmax(x, axis=axis), A)
    check(lambda x: log_softmax(x, axis=axis), A)
    check(lambda x: softmax(x, axis=axis), A.astype("f"))


def test_polygamma():
    for n in (0, 1, 2, 4, np.array([1, 2, 3]), np.array([0, 1, 2])):
        check(lambda x, n=n: polygamma(n, x), POSITIVE)
    check(lambda x: polygamma(1, x), 1.5)
    for bad in (-1, 0.5):
        with pytest.raises(ValueError):
            mirrored.polygamma(bad, leaf(1.0))
    with pytest.raises(tg.errors.UnsupportedFunctionError):
        mirrored.polygamma(leaf(1.0), 1.0)


def test_multigammaln():
    check(lambda a: mirrored.multigammaln(a, 3), POSITIVE + 2, reference=lambda a: sp.multigammaln(a, 3))


def test_plain_arguments_are_scipys():
    for call in (
        lambda m: m.logsumexp(A, axis=1, b=B), lambda m: m.logsumexp([1, 2], return_sign=True), lambda m: m.softmax(A, axis=0),
        lambda m: m.log_softmax(A.astype("f"), axis=0), lambda m: m.polygamma([1, 2], 3), lambda m: m.multigammaln(4.0, 2),
    ):  # fmt: skip
        given, expected = call(mirrored), call(sp)
        assert type(given) is type(expected)
        np.testing.assert_array_equal(given, expected)


def test_other_names_are_those_of_scipy():
    assert mirrored.erf is sp.erf
    check(mirrored.erf, ANY)
    with pytest.raises(AttributeError):
        mirrored.nonsense


@pytest.mark.parametrize("name", "logsumexp softmax log_softmax".split())
def test_unmodified_scipy_names_the_mirror(name):
    with pytest.raises(tg.errors.LeaveTapeError, match=r"tapegrad\.scipy.*" + name):
        getattr(sp, name)(leaf([1.0, 2.0]))


def test_unmodified_polygamma_names_the_mirror():
    for call in (lambda x: sp.polygamma(1, x), lambda x: sp.multigammaln(x, 2)):
        with pytest.raises(tg.errors.LeaveTapeError, match=r"tapegrad\.scipy"):
            call(leaf([1.0, 2.0]))


def test_printing_of_an_operand_without_derivative():
    x = leaf(1.5)
    with tg.Tape() as tape:
        y = mirrored.polygamma(2, x)
    assert "polygamma" in str(tape).lower()
    assert y.grad_fn.next_functions[0][0].variable is x
    np.testing.assert_allclose(plain(y.grad_fn(1.0)), sp.polygamma(3, 1.5))


def test_terms_without_weight_and_numbers_without_value():
    """A factor of zero takes away a NaN, too; nothing but infinities that cancel is zero; arguments below the domain are refused, as in SciPy."""
    for a, b in (([np.nan, 1.0], [0.0, 2.0]), ([-np.inf, -np.inf], [1.0, -1.0]), ([1.0, np.nan, -np.inf], [1.0, 0.0, 0.0])):
        found = mirrored.logsumexp(leaf(a), b=b, return_sign=True)
        for one, other in zip(found, sp.logsumexp(a, b=b, return_sign=True)):
            np.testing.assert_array_equal(plain(one), other)
    assert plain(gradient(lambda a: mirrored.logsumexp(a, b=[0.0, 2.0]), np.array([np.nan, 1.0]))).tolist() == [0.0, 1.0]
    # (Without factors SciPy 1.15 says 1, 1.17 says 0.)
    assert [plain(part) for part in mirrored.logsumexp(leaf([-np.inf, -np.inf]), return_sign=True)] == [-np.inf, 0.0]
    with pytest.raises(ValueError, match="of dimension 3 takes numbers above 1.0"):
        mirrored.multigammaln(leaf([2.0, 0.3]), 3)
    with pytest.raises(TypeError):
        mirrored.multigammaln(leaf(3.0), 2.5)


#: A function of a parameter and an array, of which there is no second derivative in the parameter; of the last ones not even a first one.
OF_PARAMETERS = {
    "gammainc": sp.gammainc, "betainc": lambda a, x: sp.betainc(a, 2.0 * a, 0.5 * x), "stdtr": sp.stdtr,
    "gammaincinv": lambda a, p: sp.gammaincinv(a, 0.5 * p), "jv": sp.jv, "ive": sp.ive,
}  # fmt: skip


def _summed(name):
    return lambda a, x: np.sum(OF_PARAMETERS[name](a, x))


@pytest.mark.parametrize("kernel", ["never", "always"])
@pytest.mark.parametrize("name", OF_PARAMETERS)
def test_a_recording_asks_for_no_derivative_that_is_missing(name, kernel):
    f, x, parameters = _summed(name), np.array([0.4, 1.3]), np.array([1.7, 2.4])
    points, wanted = np.stack([x, x + 0.1]), 1 if name in ("jv", "ive") else (0, 1)
    close = lambda one, other: tg.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-10), one, other)  # noqa: E731
    gradient = tg.grad(f, wanted)
    each = tg.tree.map(lambda *lanes: np.stack(lanes), *map(gradient, parameters, points))
    g, mapped, along = (tg.jit(h, kernel=kernel) for h in (gradient, tg.vmap(gradient), lambda a, x, t: tg.jvp(lambda x: f(a, x), (x,), (t,))[1]))
    for a in parameters:
        close(g(a, x), gradient(a, x))
        close(along(a, x, x), np.sum(tg.grad(f, 1)(a, x) * x))
    close(mapped(parameters, points), each)
    close(tg.vmap(gradient)(parameters, points), each)
    if wanted != 1:
        # The derivative in both is that of the density.
        mixed = tg.jit(lambda a, x: tg.grad(lambda x: tg.grad(f)(a, x))(x), kernel=kernel)
        close(mixed(1.7, x), tg.jacfwd(lambda a: tg.grad(f, 1)(a, x))(1.7))


@pytest.mark.parametrize("kernel", ["never", "always"])
@pytest.mark.parametrize("name", OF_PARAMETERS)
def test_a_derivative_that_is_missing_is_refused_where_it_is_asked_for(name, kernel):
    f, x, parameters = _summed(name), np.array([0.4, 1.3]), np.array([1.7, 2.4])
    df = f if name in ("jv", "ive") else lambda a, x: tg.grad(f)(a, x)
    for again in (
        lambda a: tg.jit(tg.grad(df), kernel=kernel)(a, x), lambda a: tg.jit(lambda a: tg.jvp(lambda a: df(a, x), (a,), (1.0,))[1], kernel=kernel)(a),
        lambda a: tg.jit(tg.grad(lambda a: tg.jvp(lambda x: df(a, x), (x,), (x,))[0]), kernel=kernel)(a), lambda a: tg.vmap(tg.grad(df))(parameters, np.stack([x, x])),
        lambda a: tg.jit(tg.grad(lambda b: np.sum(tg.vmap(df)(b, np.stack([x, x])))), kernel=kernel)(parameters), lambda a: tg.jit(tg.jacfwd(df), kernel=kernel)(a, x),
        lambda a: tg.grad(lambda b: np.sum(tg.vmap(df)(b, np.stack([x, x]))))(parameters), lambda a: tg.linearize(lambda a: df(a, x), a)[1](1.0),
    ):
        with pytest.raises((tg.errors.HigherOrderError, tg.errors.UnsupportedFunctionError), match="cannot be differentiated again|no derivative in its argument 1"):
            again(1.7)
