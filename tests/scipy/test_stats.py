"""`tapegrad.scipy.stats` against SciPy."""

import warnings

import numpy as np
import pytest
import scipy.integrate
import scipy.stats

import tapegrad as tg
import tapegrad.scipy.stats as mirrored
from tapegrad.scipy.mirrors import MIRRORS
from tests.every import every
from tests.rules.checker import check, generator, gradient, leaf, plain
from tests.scipy.mirrored import check_mirror, check_unmodified

rng = generator(29)
LOC, SCALE = rng.uniform(-0.3, 0.3, 3), rng.uniform(0.8, 1.6, (2, 1))


def draws(low, high):
    return rng.uniform(low, high, (2, 3))


#: Distribution -> (points in standard form, parameters of the shape).
CONTINUOUS = {
    "norm": (draws(-2, 2), ()),
    "lognorm": (draws(0.4, 3), (0.7,)),
    "expon": (draws(0.1, 3), ()),
    "gamma": (draws(0.2, 4), (np.array([0.8, 2.0, 3.3]),)),
    "beta": (draws(0.1, 0.9), (np.array([0.8, 2.0, 3.3]), np.array([[1.5], [0.6]]))),
    "t": (draws(-3, 3), (np.array([1.5, 4.0, 40.0]),)),
    "uniform": (draws(0.1, 0.9), ()),
    "laplace": (draws(0.1, 2) * np.array([1, -1, 1]), ()),
    "cauchy": (draws(-3, 3), ()),
    "chi2": (draws(0.2, 6), (np.array([1.0, 2.5, 7.0]),)),
    "invgamma": (draws(0.3, 4), (np.array([0.8, 2.0, 3.3]),)),
    "weibull_min": (draws(0.2, 3), (np.array([0.7, 1.0, 2.4]),)),
    "truncnorm": (draws(0.3, 0.9), (np.array([-1.0, 0.1, -2.0]), np.array([[1.2], [3.0]]))),
    "halfnorm": (draws(0.1, 3), ()),
    "logistic": (draws(-3, 3), ()),
    "gumbel_r": (draws(-1, 3), ()),
    "gumbel_l": (draws(-3, 1), ()),
    "pareto": (draws(1.1, 4), (np.array([0.8, 2.0, 3.3]),)),
    "rayleigh": (draws(0.2, 3), ()),
    "skewnorm": (draws(-1, 2), (np.array([-2.0, 0.5, 3.3]),)),
    "vonmises": (draws(-0.9, 0.9), (np.array([0.4, 2.0, 9.0]),)),
}
TAILS = ("cdf", "logcdf", "sf", "logsf")


def methods(name):
    density = ("logpdf", "pdf") if name in CONTINUOUS else ("logpmf", "pmf")
    return density + TAILS


METHODS = [(name, how) for name in CONTINUOUS for how in methods(name)]


@pytest.mark.parametrize("name, how", METHODS)
def test_continuous(name, how):
    y, shapes = CONTINUOUS[name]
    x = y * SCALE + LOC
    check_mirror(
        "scipy.stats",
        name,
        lambda m, x, *args: getattr(getattr(m, name), how)(x, *args),
        (x, *shapes, LOC, SCALE),
        atol=1e-11,
    )
    check_mirror(
        "scipy.stats", name, lambda m, x, *args: getattr(getattr(m, name), how)(x, *args), (y, *shapes), atol=1e-11
    )
    scalars = [float(np.ravel(s)[1 % np.size(s)]) for s in shapes]
    check_mirror(
        "scipy.stats", name, lambda m, x, loc, scale: getattr(getattr(m, name), how)(x, *scalars, scale=scale, loc=loc),
        (float(y[0, 1] * 1.1 - 0.02), -0.02, 1.1), atol=1e-11,
    )  # fmt: skip


#: Distribution -> (integers, parameters of the shape that are real, those that are integers).
COUNTS = np.array([[0, 1, 3], [2, 5, 1]])
PROBABILITIES = np.array([0.2, 0.5, 0.9])
DISCRETE = {
    "poisson": (COUNTS, lambda m: (m,), (np.array([0.7, 2.0, 5.5]),)),
    "binom": (COUNTS, lambda p: (6, p), (PROBABILITIES,)),
    "bernoulli": (COUNTS % 2, lambda p: (p,), (PROBABILITIES,)),
    "nbinom": (COUNTS, lambda n, p: (n, p), (np.array([[1.5], [4.0]]), PROBABILITIES)),
    "geom": (COUNTS + 1, lambda p: (p,), (PROBABILITIES,)),
    "betabinom": (COUNTS, lambda a, b: (6, a, b), (np.array([[1.5], [4.0]]), np.array([0.8, 2.0, 3.3]))),
}
MASSES = [(name, how) for name in DISCRETE for how in methods(name)]


@pytest.mark.parametrize("name, how", MASSES)
def test_discrete(name, how):
    k, shapes, arrays = DISCRETE[name]
    if name == "bernoulli" and how == "logsf":
        k = k * 0

    def call(m, *args):
        return getattr(getattr(m, name), how)(k + 2, *shapes(*args), loc=2)

    with np.errstate(divide="ignore"):
        check_mirror("scipy.stats", name, call, arrays, atol=1e-11)


@pytest.mark.parametrize("how", ["ppf", "isf"])
@pytest.mark.parametrize("name", CONTINUOUS)
def test_quantiles(name, how):
    shapes = CONTINUOUS[name][1]
    q = np.array([[0.15, 0.4, 0.95], [0.02, 0.6, 0.7]])
    check_mirror("scipy.stats", name, lambda m, q, *args: getattr(getattr(m, name), how)(q, *args), (q, *shapes, LOC, SCALE))
    ours, theirs = getattr(getattr(mirrored, name), how), getattr(getattr(scipy.stats, name), how)
    points = np.array([-0.1, 0.0, 1e-3, 0.999, 1.0, 1.1, np.nan])
    first = [float(np.ravel(s)[0]) for s in shapes]
    leaf_of_points = leaf(points)
    found = ours(leaf_of_points, *first, 0.5, 2.0)
    np.testing.assert_allclose(plain(found), theirs(points, *first, 0.5, 2.0), rtol=1e-10)
    found[np.isfinite(plain(found))].sum().backward()
    assert np.isfinite(plain(leaf_of_points.grad)).all()
    # The derivative is the reciprocal of the density, further out, too.
    inside = points[2:4]
    slopes = gradient(lambda q: ours(q, *first), inside)
    density = getattr(scipy.stats, name).pdf(theirs(inside, *first), *first)
    np.testing.assert_allclose(np.abs(slopes), 1.0 / density, rtol=1e-8)
    assert np.isnan(plain(ours(0.5, *first, 0.0, leaf(-1.0))))


@pytest.mark.parametrize("name", ["gamma", "beta", "t", "norm", "truncnorm", "skewnorm", "vonmises"])
def test_quantiles_in_every_mode(name):
    shapes = [float(np.ravel(s)[-1]) for s in CONTINUOUS[name][1]]

    def f(q, scale):
        return getattr(mirrored, name).ppf(q, *shapes, 0.5, scale)

    tg.check(f, np.array([0.2, 0.7]), 1.5, order=2, rtol=1e-6)
    for shape in range(len(shapes)):

        def of_shape(a, shape=shape):
            return np.sum(getattr(mirrored, name).cdf(getattr(mirrored, name).ppf(np.array([0.2, 0.7]), *shapes[:shape], a, *shapes[shape + 1 :]), *shapes))

        tg.check(of_shape, shapes[shape] + 0.01, rtol=1e-5)


@pytest.mark.parametrize("name", DISCRETE)
def test_quantiles_of_integers_are_integers(name):
    _, shapes, arrays = DISCRETE[name]
    p = [float(np.ravel(a)[0]) for a in arrays]
    q = np.array([0.2, 0.5, 0.99])
    for how in ("ppf", "isf"):
        found = getattr(getattr(mirrored, name), how)(leaf(q), *shapes(*map(leaf, p)), loc=2)
        np.testing.assert_array_equal(plain(found), getattr(getattr(scipy.stats, name), how)(q, *shapes(*p), loc=2))
        assert not found.requires_grad


MEAN, ROOT = rng.standard_normal(3), rng.standard_normal((3, 3))
#: Of rank 2.
HALF = np.array([[1.0, 2.0], [0.5, -1.0], [1.5, 1.0]])


def covariance(root):
    return root @ root.T + np.eye(3)


SIMPLEX = rng.dirichlet([2.0, 3.0, 4.0], 5).T
DIAGONAL = np.array([0.5, 1.0, 2.0])


def normal(how):
    def call(m, x, mean, root):
        return getattr(m.multivariate_normal, how)(x, mean, covariance(root))

    return call


VECTORS = [
    ("multivariate_normal", normal("logpdf"), (rng.standard_normal((4, 3)), MEAN, ROOT)),
    ("multivariate_normal", normal("logpdf"), (rng.standard_normal((2, 4, 3)), MEAN, ROOT)),
    ("multivariate_normal", normal("pdf"), (rng.standard_normal(3), MEAN, ROOT)),
    (
        "multivariate_normal",
        lambda m, x, mean, c: m.multivariate_normal.logpdf(x, mean, c),
        (rng.standard_normal((2, 4, 3)), MEAN, DIAGONAL),
    ),
    (
        "multivariate_normal",
        lambda m, x, mean, c: m.multivariate_normal.logpdf(x, mean, c),
        (rng.standard_normal((4, 3)), MEAN, 0.7),
    ),
    ("multivariate_normal", lambda m, x, c: m.multivariate_normal.logpdf(x, cov=c), (rng.standard_normal(5), 0.7)),
    (
        "multivariate_normal",
        lambda m, t, shift: m.multivariate_normal.logpdf(MEAN + t @ HALF.T + HALF @ shift, MEAN, HALF @ HALF.T, allow_singular=True),
        (rng.standard_normal((4, 2)), rng.standard_normal(2)),
    ),
    ("multivariate_normal", lambda m, x: m.multivariate_normal(MEAN, covariance(ROOT)).logpdf(x), (MEAN + 0.3,)),
    ("multivariate_normal", lambda m, root: m.multivariate_normal.entropy(MEAN, covariance(root)), (ROOT,)),
    ("multivariate_normal", lambda m, c: m.multivariate_normal.entropy(MEAN, c), (DIAGONAL,)),
    # Derivatives along the simplex: the last coordinate is left out.
    ("dirichlet", lambda m, x, a: m.dirichlet.logpdf(x, a), (SIMPLEX[:2], np.array([0.7, 1.0, 3.5]))),
    ("dirichlet", lambda m, x, a: m.dirichlet.pdf(x, a), (SIMPLEX[:2, 0], np.array([2.0, 1.0, 3.5]))),
    ("multinomial", lambda m, z: m.multinomial.logpmf([[3, 0, 2], [1, 1, 3]], 5, np.exp(z) / np.sum(np.exp(z))), (MEAN,)),
    ("multinomial", lambda m, p: m.multinomial.pmf([3, 0, 2], 5, np.append(p, 1.0 - np.sum(p))), (np.array([0.2, 0.5]),)),
    ("wishart", lambda m, r, df, s: m.wishart.logpdf(covariance(r), df, covariance(s)), (ROOT, 4.5, ROOT.T)),
    ("wishart", lambda m, r, df: m.wishart.pdf(np.stack([covariance(r), covariance(0.5 * r)], -1), df, DIAGONAL), (ROOT, 4.5)),
    ("wishart", lambda m, x, df, s: m.wishart.logpdf(x, df, s), (np.array([0.7, 1.5]), 2.5, 1.3)),
    ("gaussian_kde", lambda m, data, x: m.gaussian_kde(data)(x), (rng.standard_normal((2, 6)), rng.standard_normal((2, 3)))),
    ("gaussian_kde", lambda m, data, w: m.gaussian_kde(data, "silverman", w).logpdf([0.3, 1.0]), (rng.standard_normal(6), np.arange(1.0, 7.0))),
    ("gaussian_kde", lambda m, data, width, x: m.gaussian_kde(data, width).pdf(x), (rng.standard_normal(6), 0.4, np.array([0.1, 0.8]))),
    ("dirichlet", lambda m, a: m.dirichlet.logpdf(SIMPLEX, a), (np.array([2.0, 1.0, 3.5]),)),
]


@pytest.mark.parametrize("name, call, arrays", VECTORS)
def test_multivariate(name, call, arrays):
    check_mirror("scipy.stats", name, call, arrays, atol=1e-11)


def test_every_mirrored_name_is_tested():
    tested = {*CONTINUOUS, *DISCRETE, *(name for name, _, _ in VECTORS)}
    assert tested == set(MIRRORS["scipy.stats"]) == set(mirrored.__all__)


#: Distribution -> points at, beyond, and inside the ends of the support, and shape.
ENDS = {
    "lognorm": ([-1.0, 0.0, 1.0], (0.7,)),
    "expon": ([-1.0, 0.0, 1.0], ()),
    "gamma": ([-1.0, 0.0, 1.0], (1.0,)),
    "chi2": ([-1.0, 0.0, 1.0], (2.0,)),
    "invgamma": ([-1.0, 0.0, 1.0], (2.0,)),
    "beta": ([-0.5, 0.0, 0.5, 1.0, 1.5], (1.0, 1.0)),
    "uniform": ([-0.5, 0.0, 0.5, 1.0, 1.5], ()),
    "weibull_min": ([-1.0, 0.0, 1.0], (1.0,)),
    "truncnorm": ([-2.0, -1.0, 0.5, 2.0, 2.5], (-1.0, 2.0)),
    "halfnorm": ([-1.0, 0.0, 1.0], ()),
}


@pytest.mark.parametrize("name", ENDS)
def test_ends_of_the_support(name):
    points, shapes = ENDS[name]
    points = np.array(points)
    theirs, ours = getattr(scipy.stats, name), getattr(mirrored, name)
    for how in methods(name):
        x, loc, scale = leaf(points), leaf(0.0), leaf(np.ones(points.shape))
        with np.errstate(divide="ignore"):
            found, expected = getattr(ours, how)(x, *shapes, loc, scale), getattr(theirs, how)(points, *shapes)
        np.testing.assert_allclose(plain(found), expected, rtol=1e-13, atol=1e-15)
        low, high = theirs.support(*shapes)
        outside = (points < low) | (points > high)
        assert outside.any()
        tg.sum(found[outside]).backward()
        np.testing.assert_array_equal(plain(x.grad)[outside], 0)
        np.testing.assert_array_equal(plain(scale.grad)[outside], 0)
        assert plain(loc.grad) == 0


def test_outside_the_support_only_the_terms_inside_count():
    x = np.array([-1.0, 0.5, 2.0])
    rate = leaf(0.8)
    tg.where(x > 0, mirrored.expon.logpdf(x, scale=rate), 0.0).sum().backward()
    np.testing.assert_allclose(plain(rate.grad), -2 / 0.8 + 2.5 / 0.8**2, rtol=1e-14)


@every("name", [*CONTINUOUS, *DISCRETE])
def test_parameters_that_are_not_valid_give_nan(name):
    theirs, ours = getattr(scipy.stats, name), getattr(mirrored, name)
    if name in CONTINUOUS:
        x, shapes = 0.5, [float(np.ravel(s)[0]) for s in CONTINUOUS[name][1]]
        cases = [(x, *shapes, 0.0, -1.0), (x, *shapes, 0.0, 0.0), (np.nan, *shapes, 0.0, 1.0)]
        if shapes:
            cases.append((x, *((4.0, 3.0) if name == "truncnorm" else (-5.0, *shapes[1:])), 0.0, 1.0))
    else:
        k, shapes, arrays = DISCRETE[name]
        good = [float(np.ravel(a)[0]) for a in arrays]
        # Inside the support: beyond its end SciPy gives log cdf 0 whatever the parameters are.
        k = 0 if name == "bernoulli" else 1
        cases = [(k, *shapes(*[-0.5 for _ in good])), (np.nan, *shapes(*good))]
        if name != "poisson":
            cases.append((k, *shapes(*good[:-1], 1.5)))
    for arguments in cases:
        for method in methods(name):
            with np.errstate(all="ignore"):
                expected = getattr(theirs, method)(*arguments)
                given = [leaf(a) if k == len(arguments) - 1 else a for k, a in enumerate(arguments)]
                found = plain(getattr(ours, method)(*given))
            np.testing.assert_array_equal(np.isnan(found), np.isnan(expected), err_msg=f"{method}{arguments}")


@pytest.mark.parametrize("name", DISCRETE)
def test_numbers_that_are_not_in_the_support_of_a_discrete_distribution(name):
    _, shapes, arrays = DISCRETE[name]
    p = [float(np.ravel(a)[0]) for a in arrays]
    for k in (-1.0, 0.5, 1.5, 7.0):
        for how in methods(name):
            with np.errstate(all="ignore"):
                expected = getattr(getattr(scipy.stats, name), how)(k, *shapes(*p))
                found = getattr(getattr(mirrored, name), how)(k, *shapes(*[leaf(v) for v in p]))
            np.testing.assert_allclose(plain(found), expected, rtol=1e-12, atol=1e-15, err_msg=f"{how} at {k}")


@pytest.mark.parametrize("name, k, shapes, p, slope", [
    ("bernoulli", 1, (), 0.0, 1.0), ("bernoulli", 0, (), 1.0, -1.0), ("binom", 1, (3,), 0.0, 3.0), ("binom", 2, (3,), 1.0, -3.0),
    ("binom", 2, (3,), 0.0, 0.0), ("binom", 1, (3,), 0.4, -0.36), ("binom", 900, (2000,), 0.0, 0.0), ("poisson", 1, (), 0.0, 1.0), ("poisson", 2, (), 0.0, 0.0),
    ("geom", 2, (), 1.0, -1.0), ("nbinom", 1, (4,), 1.0, -4.0), ("nbinom", 0, (4,), 1.0, 4.0),
])  # fmt: skip
def test_what_cannot_occur_becomes_possible(name, k, shapes, p, slope):
    """A probability of 0 at the end of a parameter has a slope, also beside numbers that are not in the support."""
    for f in (tg.grad, lambda f: tg.jit(tg.grad(f)), tg.jacfwd):
        g = f(lambda p: np.sum(getattr(mirrored, name).pmf(np.array([k, -1.0, 1.5]), *shapes, p)))
        assert [float(g(p)) for _ in range(3)] == pytest.approx([slope] * 3, rel=1e-12, abs=1e-12)
    value, theirs = plain(getattr(mirrored, name).pmf(k, *shapes, leaf(p))), getattr(scipy.stats, name).pmf(k, *shapes, p)
    assert value == pytest.approx(theirs, rel=1e-12)
    if (name, k, p) == ("binom", 2, 0.0):
        assert tg.grad(tg.grad(lambda p: mirrored.binom.pmf(2, 3, p)))(0.0) == pytest.approx(6.0)


def test_a_class_of_no_probability_becomes_possible():
    counts = np.array([[1, 2, 1], [0, 3, 1], [2, 1, 1], [1, 2, 2]])
    jacobian = tg.jacobian(lambda p: mirrored.multinomial.pmf(counts, 4, np.stack([p, 0.4 - p, 0.6])))(0.0)
    np.testing.assert_allclose(jacobian, [12 * 0.4**2 * 0.6, -4 * 3 * 0.4**2 * 0.6, 0.0, 0.0], rtol=1e-12, atol=1e-15)


def test_ends_of_the_parameters():
    for p, k in ((0.0, 0), (1.0, 1)):
        assert plain(mirrored.bernoulli.logpmf(k, leaf(p))) == scipy.stats.bernoulli.logpmf(k, p) == 0
    assert plain(mirrored.poisson.logpmf(0, leaf(0.0))) == 0
    assert gradient(lambda mu: mirrored.poisson.logpmf(0, mu), 0.0) == -1
    check(
        lambda x: mirrored.t.logpdf(x, np.inf),
        np.array([0.3, -2.0]),
        reference=lambda x: scipy.stats.t.logpdf(x, np.inf),
    )


def test_tails_of_the_circular_normal_distribution():
    # To many digits by mpmath; SciPy has 3 to 6 of them.
    kappa, y = np.array([9.0, 0.4, 60.0, 300.0]), np.array([-2.8, -3.0, -0.5, -0.4])
    exact = np.array([7.392492389206239e-09, 0.014538585780344384, 6.552888862983186e-05, 3.0099569778433515e-12])
    np.testing.assert_allclose(plain(mirrored.vonmises.cdf(y, leaf(kappa))), exact, rtol=1e-10)
    np.testing.assert_allclose(plain(mirrored.vonmises.sf(-y, leaf(kappa))), exact, rtol=1e-10)
    np.testing.assert_allclose(gradient(lambda y: mirrored.vonmises.cdf(y, kappa), y), scipy.stats.vonmises.pdf(y, kappa), rtol=1e-10)
    np.testing.assert_allclose(plain(mirrored.vonmises.cdf(leaf([4.0, -7.0]), 2.0)), scipy.stats.vonmises.cdf([4.0, -7.0], 2.0), rtol=1e-12)
    assert plain(gradient(lambda y: mirrored.vonmises.cdf(y, 2.0), 0.0)) == pytest.approx(scipy.stats.vonmises.pdf(0.0, 2.0), rel=1e-12)


def test_frozen_parameters():
    frozen = mirrored.gamma(2.0, scale=leaf(1.5))
    assert plain(frozen.ppf(0.3)) == pytest.approx(scipy.stats.gamma(2.0, scale=1.5).ppf(0.3), rel=1e-14)
    frozen = mirrored.gamma(2.0, scale=1.5)
    assert frozen.mean() == 3.0 and frozen.rvs(size=3, random_state=0).shape == (3,) and frozen.interval(0.9)[0] < 3.0
    np.testing.assert_array_equal(mirrored.norm(2, 3).rvs(3, random_state=0), scipy.stats.norm(2, 3).rvs(3, random_state=0))
    assert mirrored.norm(2.0, 3.0).stats("mv") == (2.0, 9.0) and mirrored.norm(2.0, 3.0).expect(lambda x: x) == pytest.approx(2.0)
    np.testing.assert_array_equal(mirrored.multivariate_normal([1.0, 2.0]).mean, [1.0, 2.0])


def test_estimate_of_a_density():
    data = rng.standard_normal((2, 8))
    ours, theirs = mirrored.gaussian_kde(data), scipy.stats.gaussian_kde(data)
    np.testing.assert_array_equal(ours.factor, theirs.factor)
    check(ours.pdf, data[:, 0], reference=theirs.pdf)
    with pytest.raises(ValueError, match="scott"):
        mirrored.gaussian_kde(data, "none")(leaf(data))


def test_far_out():
    x = np.array([-40.0, -10.0, 10.0, 40.0])
    for how in ("logcdf", "logsf", "logpdf"):
        for name in ("norm", "logistic", "laplace"):
            found = gradient(getattr(getattr(mirrored, name), how), x)
            assert np.isfinite(found).all()
    np.testing.assert_allclose(plain(mirrored.norm.logsf(leaf(x))), scipy.stats.norm.logsf(x), rtol=1e-14)
    # d log cdf / dx is the ratio of density and distribution function.
    ratio = np.exp(scipy.stats.norm.logpdf(x) - scipy.stats.norm.logcdf(x))
    np.testing.assert_allclose(gradient(mirrored.norm.logcdf, x), ratio, rtol=1e-10)
    # A truncation far in either tail.
    for a, b in ((20.0, 21.0), (-21.0, -20.0)):
        y = a + 0.3
        np.testing.assert_allclose(
            plain(mirrored.truncnorm.logpdf(leaf(y), a, b)), scipy.stats.truncnorm.logpdf(y, a, b), rtol=1e-12
        )
        check(lambda y, a, b: mirrored.truncnorm.logpdf(y, a, b), y, a, b, reference=scipy.stats.truncnorm.logpdf)


#: Distribution, its parameters, the number in standard form and the way for which little is left, minus the logarithm of one minus that; by mpmath.
NEARLY_CERTAIN = [
    ("expon", (), 30.0, "logcdf", 9.357622968840614e-14), ("gamma", (2.3,), 30.0, "logcdf", 6.967211269437915e-12),
    ("gamma", (2.3,), 1e-10, "logsf", 3.726563573477066e-24), ("chi2", (3.0,), 800.0, "logcdf", 4.327470814385205e-173),
    ("weibull_min", (1.7,), 30.0, "logcdf", 1.278399440350081e-141), ("beta", (2.0, 3.5), 1e-10, "logsf", 7.8749999986875e-20),
    ("t", (4.0,), 1e5, "logcdf", 2.999999998e-20), ("cauchy", (), 1e10, "logcdf", 3.1830988618885674e-11),
    ("gumbel_r", (), -5.0, "logsf", 3.507389196464623e-65), ("gumbel_l", (), 5.0, "logcdf", 3.507389196464623e-65),
    ("rayleigh", (), 9.0, "logcdf", 2.576757109154981e-18), ("halfnorm", (), 9.0, "logcdf", 2.2571768119076813e-19),
]  # fmt: skip


@every("name, shapes, y, how, exact", NEARLY_CERTAIN)
def test_logarithms_of_what_is_nearly_certain(name, shapes, y, how, exact):
    ours, theirs = getattr(mirrored, name), getattr(scipy.stats, name)
    assert plain(getattr(ours, how)(leaf(y), *shapes)) == pytest.approx(-exact, rel=1e-12, abs=0.0)
    other, sign = ("sf", 1.0) if how == "logcdf" else ("cdf", -1.0)
    slope = sign * theirs.pdf(y, *shapes) / (1.0 - getattr(theirs, other)(y, *shapes))
    for f in (tg.grad(lambda y: getattr(ours, how)(y, *shapes)), tg.jit(tg.grad(lambda y: getattr(ours, how)(y, *shapes)), kernel="always")):
        assert [f(y) for _ in range(3)] == pytest.approx([slope] * 3, rel=1e-9, abs=0.0)


@every("name", [*CONTINUOUS, *DISCRETE])
def test_tails_at_infinity(name):
    """Certain or impossible, whatever the parameters are."""
    ours, theirs = getattr(mirrored, name), getattr(scipy.stats, name)
    if name in CONTINUOUS:
        parameters = [float(np.ravel(s)[0]) for s in CONTINUOUS[name][1]] + [0.3, 1.7]
        shapes = lambda *ps: ps  # noqa: E731
    else:
        _, shapes, arrays = DISCRETE[name]
        parameters = [float(np.ravel(a)[0]) for a in arrays]
    for end in (np.inf, -np.inf):
        for how in TAILS:
            value, slopes = tg.value_and_grad(lambda ps, how=how, end=end: getattr(ours, how)(end, *shapes(*ps)))(parameters)
            assert value == getattr(theirs, how)(end, *shapes(*parameters)), (how, end)
            assert not np.any(slopes), (how, end)


def test_density_of_rayleigh_at_infinity():
    for how, expected in (("pdf", (0.0, 0.0)), ("logpdf", (-np.inf, np.inf))):
        assert tg.value_and_grad(lambda scale, how=how: getattr(mirrored.rayleigh, how)(np.inf, scale=scale))(2.0) == expected


@pytest.mark.parametrize("name, shapes", [("cauchy", ()), ("skewnorm", (1.4,)), ("vonmises", (1.4,))])
def test_quantiles_that_are_hardly_ever_exceeded(name, shapes):
    q = np.array([1e-12, 1e-20, 1e-30])
    expected, ours = getattr(scipy.stats, name).isf(q, *shapes), getattr(mirrored, name)
    np.testing.assert_allclose(plain(ours.isf(leaf(q), *shapes)), expected, rtol=1e-9)
    if name == "cauchy":
        np.testing.assert_allclose(plain(ours.ppf(leaf(q))), -expected, rtol=1e-9)
        np.testing.assert_allclose(gradient(ours.ppf, q), 1.0 / scipy.stats.cauchy.pdf(expected), rtol=1e-9)


def test_tails_of_the_skewed_normal_distribution():
    """To many digits by mpmath; SciPy has two of the fourth."""
    y, a = np.array([-9.0, -30.0, -0.5, -3.0, -30.0]), np.array([1.5, 0.3, 10.0, 10.0, -0.3])
    exact = np.array([5.454849118251662e-61, 1.0151695138159652e-216, 0.0, 1.432226292208952e-202, 9.813427854296097e-198])
    exact[2] = 2.0 * scipy.integrate.quad(lambda t: scipy.stats.norm.pdf(t) * scipy.stats.norm.cdf(10.0 * t), -np.inf, -0.5, epsabs=0.0, epsrel=1e-12)[0]
    np.testing.assert_allclose(plain(mirrored.skewnorm.cdf(leaf(y), a)), exact, rtol=1e-11)
    np.testing.assert_allclose(plain(mirrored.skewnorm.sf(-y, leaf(-a))), exact, rtol=1e-11)
    np.testing.assert_allclose(plain(mirrored.skewnorm.logcdf(leaf(y), a)), np.log(exact), rtol=1e-13)
    np.testing.assert_allclose(gradient(lambda y: mirrored.skewnorm.cdf(y, a), y), scipy.stats.skewnorm.pdf(y, a), rtol=1e-11)
    slope = -np.exp(-0.5 * y**2 * (1.0 + a**2)) / (np.pi * (1.0 + a**2))
    np.testing.assert_allclose(gradient(lambda a: mirrored.skewnorm.cdf(y, a), a), slope, rtol=1e-11)


def test_a_plain_number_at_the_end_of_the_support():
    for how, expected in (("logpdf", -np.inf), ("pdf", 0.0), ("cdf", 0.0), ("sf", 1.0)):
        value, slope = tg.value_and_grad(lambda a, how=how: getattr(mirrored.invgamma, how)(0.0, a))(2.3)
        assert (value, slope) == (expected, 0.0)


def test_single_precision_is_kept():
    x = draws(-1, 1).astype("f")
    check(lambda x, s: mirrored.norm.logpdf(x, 0.0, s), x, np.ones(3, "f"))
    q = draws(0.1, 0.9).astype("f")
    for name in ("norm", "uniform", "truncnorm", "t"):
        shapes = [np.float32(np.ravel(s)[1 % np.size(s)]) for s in CONTINUOUS[name][1]]
        assert getattr(mirrored, name).ppf(leaf(q), *shapes).dtype == np.float32, name


def test_lists_and_integers():
    mu = leaf(0.5)
    np.testing.assert_allclose(plain(mirrored.norm.logpdf([0, 1], mu)), scipy.stats.norm.logpdf([0, 1], 0.5))
    np.testing.assert_allclose(plain(mirrored.norm.logpdf([mu, 1.0], 0)), scipy.stats.norm.logpdf([0.5, 1.0]))


def test_frozen():
    loc, scale = leaf(0.5), leaf(2.0)
    found = mirrored.norm(loc, scale=scale).logpdf(np.array([1.0, 2.0]))
    np.testing.assert_allclose(plain(found), scipy.stats.norm(0.5, 2.0).logpdf([1.0, 2.0]))
    found.sum().backward()
    assert plain(loc.grad) == 0.5


UNMODIFIED = [
    *((name, "logpdf", (0.5, *(float(np.ravel(s)[0]) for s in shapes))) for name, (_, shapes) in CONTINUOUS.items()),
    *((name, "cdf", (0.5, *(float(np.ravel(s)[0]) for s in shapes))) for name, (_, shapes) in CONTINUOUS.items()),
    *(
        (name, "logpmf", (1.0, *shapes(*(float(np.ravel(a)[0]) for a in arrays))))
        for name, (_, shapes, arrays) in DISCRETE.items()
    ),
    ("multivariate_normal", "logpdf", (MEAN, MEAN, np.eye(3))),
    ("dirichlet", "logpdf", (SIMPLEX, np.ones(3))),
]


@every("name, how, arguments", UNMODIFIED)
def test_unmodified_scipy_names_the_mirror(name, how, arguments):
    check_unmodified("scipy.stats", name, lambda m, x: getattr(getattr(m, name), how)(x, *arguments[1:]), arguments[:1])
    check_unmodified(
        "scipy.stats",
        name,
        lambda m, a: getattr(getattr(m, name), how)(arguments[0], *arguments[1:-1], a),
        arguments[-1:],
    )


def test_the_message_names_the_method():
    with pytest.raises(tg.errors.LeaveTapeError, match=r"^call tapegrad\.scipy\.stats\.norm\.logpdf,"):
        scipy.stats.norm.logpdf(leaf([1.0]))
    with pytest.raises(tg.errors.LeaveTapeError, match=r"tapegrad\.scipy\.stats\.norm"):
        scipy.stats.norm(leaf(1.0)).logpdf(0.5)


def test_bad_parameters():
    x = leaf(1.0)
    for call in (
        lambda m, x: m.gamma.logpdf(x), lambda m, x: m.norm.logpdf(x, 0, 1, 2), lambda m, x: m.norm.logpdf(x, sigma=2),
        lambda m, x: m.norm.logpdf(x, 0, loc=2),
    ):  # fmt: skip
        with pytest.raises(TypeError):
            call(scipy.stats, 1.0)
        with pytest.raises(TypeError, match="norm|gamma"):
            call(mirrored, x)
    with pytest.raises(ValueError):
        mirrored.norm.logpdf(leaf(np.ones(2)), np.ones(3))


def test_what_has_no_derivative():
    refusal = tg.errors.UnsupportedFunctionError
    for call in (
        lambda: mirrored.poisson.logpmf(leaf(1.0), 2.0), lambda: mirrored.binom.logpmf(1, leaf(3.0), 0.5),
        lambda: mirrored.poisson.logpmf(1, 2.0, leaf(0.0)),
    ):  # fmt: skip
        with pytest.raises(refusal, match="integer"):
            call()
    with pytest.raises(refusal, match="integer"):
        mirrored.multinomial.logpmf(leaf([1.0, 1.0]), 2, leaf([0.5, 0.5]))
    for p in ([0.2, 0.5, 0.3], [0.2, 0.5, 0.4], [0.2, 0.5, 0.3 + 1e-12], [0.7, 0.5, -0.2]):  # NaN or not: that is SciPy's version's
        with warnings.catch_warnings(action="ignore"):
            theirs = scipy.stats.multinomial.logpmf([3, 0, 2], 5, p)
        np.testing.assert_allclose(plain(mirrored.multinomial.logpmf([3, 0, 2], 5, leaf(p))), theirs, rtol=1e-14)
    assert plain(mirrored.poisson.logpmf(tg.tensor(1.0), leaf(2.0))) == scipy.stats.poisson.logpmf(1, 2.0)
    with pytest.raises(refusal, match="allow_singular"):
        mirrored.multivariate_normal.logpdf(MEAN, cov=leaf(np.eye(3)), allow_singular=True)
    beside = mirrored.multivariate_normal.logpdf(leaf(MEAN + [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]]), MEAN, HALF @ HALF.T, allow_singular=True)
    np.testing.assert_allclose(beside.detach().numpy(), [scipy.stats.multivariate_normal.logpdf(MEAN, MEAN, HALF @ HALF.T, allow_singular=True), -np.inf])


def test_bad_vectors():
    x = leaf(MEAN)
    with pytest.raises(np.linalg.LinAlgError):
        scipy.stats.multivariate_normal.logpdf(MEAN, MEAN, np.zeros((3, 3)))
    with pytest.raises(np.linalg.LinAlgError, match="positive definite"):
        mirrored.multivariate_normal.logpdf(x, MEAN, np.zeros((3, 3)))
    for mean, cov in ((np.ones(2), np.eye(3)), (np.ones(3), np.ones((2, 3)))):
        with pytest.raises(ValueError):
            scipy.stats.multivariate_normal.logpdf(MEAN, mean, cov)
        with pytest.raises(ValueError, match="cov"):
            mirrored.multivariate_normal.logpdf(x, mean, cov)
    for point, alpha in (
        (SIMPLEX * 2, np.ones(3)), (SIMPLEX, -np.ones(3)), (SIMPLEX, np.ones(5)), (SIMPLEX - 0.5, np.ones(3)),
        (np.array([0.0, 0.5, 0.5]), np.full(3, 0.5)), (SIMPLEX, np.ones((3, 1))),
    ):  # fmt: skip
        with pytest.raises(ValueError):
            scipy.stats.dirichlet.logpdf(point, alpha)
        with pytest.raises(ValueError):
            mirrored.dirichlet.logpdf(leaf(point), alpha)


def test_other_names_are_those_of_scipy():
    assert mirrored.burr is scipy.stats.burr
    assert mirrored.norm.mean() == 0 and mirrored.norm.ppf(0.5) == 0
    assert mirrored.multivariate_normal.rvs(random_state=1) is not None
