"""The functions of this project's benchmarks and examples are kernels, all of them: none falls back to sweeps."""

import numpy as np
import pytest

import tapegrad as tg
from benchmarks import higher_order, jacobians, kernels, replay_sweep, scalar_chain, sparse
from benchmarks.choice.functions import FUNCTIONS
from benchmarks.gradbench.modules import ba, gmm, hello, llsq, lse, ode
from examples import asian_option, bundle_adjustment, hamiltonian, logistic, mixture, modes, train_classifier
from tapegrad.common.tree import flatten
from tapegrad.tools import demo


def as_kernel(function, args, argnums=0):
    """Value and gradients by kernel, beside those by sweep."""
    swept, promoted = (tg.value_and_grad(function, argnums, kernel=kernel) for kernel in ("never", "always"))
    for _ in range(4):
        value, gradients = promoted(*args)
    stats = promoted.stats()
    assert stats.kernels == stats.tapes == 1 and stats.kernel_calls and not stats.not_lowered and not stats.fallback, stats
    expected, wanted = swept(*args)
    np.testing.assert_allclose(value, expected, rtol=1e-10)
    for ours, theirs in zip(flatten(gradients)[0], flatten(wanted)[0], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-9 * np.max(np.abs(theirs), initial=1e-300))
    return promoted


# -- benchmarks of kernels ----------------------------------------------------------------
def of_kernels():
    rng = np.random.default_rng(0)
    yield "rosenbrock_loop", kernels.rosenbrock_loop, (rng.normal(size=1000),), 0
    yield "rosenbrock", kernels.rosenbrock, (rng.normal(size=500),), 0
    yield "lotka_volterra", kernels.lotka_volterra, (np.array([0.55, 0.028, 0.80, 0.024, 33.0, 6.0]),), 0
    y = np.where(rng.uniform(size=50) < 0.5, 1.0, -1.0)
    yield "logistic", kernels.logistic, (rng.normal(size=10), rng.normal(size=(50, 10)), y), 0
    sizes = [(6, 5), (5,), (5, 5), (5,), (5, 4), (4,)]
    parameters = tuple(0.2 * rng.normal(size=s) for s in sizes)
    yield "network", kernels.network, (*parameters, rng.normal(size=(8, 6)), rng.integers(0, 4, size=8)), tuple(range(6))
    yield "asian", kernels.asian, (100.0, 0.2, 0.05, np.zeros(5), rng.normal(size=(5, 40))), (0, 1, 2, 3)
    options = (rng.uniform(80, 120, 33), rng.uniform(80, 120, 33), rng.uniform(0.01, 0.1, 33), rng.uniform(0.1, 0.5, 33))
    yield "black_scholes", kernels.black_scholes, (*options, rng.uniform(0.2, 2.0, 33)), (0, 1, 2, 3, 4)


@pytest.mark.parametrize("case", list(of_kernels()), ids=lambda case: case[0])
def test_kernels(case):
    _, function, args, argnums = case
    promoted = as_kernel(function, args, argnums)
    if not any(np.asarray(a).dtype.kind == "i" for a in args):
        assert promoted._replayed.short.site is not None and not promoted._replayed.short.swept


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_mixed_structure(name):
    found = FUNCTIONS[name]
    (only,) = tg.check(found.function, found.point, modes="kernel").checks
    assert not only.remark, only.remark


def second_order():
    loss, point = higher_order.network(np.random.default_rng(0))
    data = np.random.default_rng(1).normal(size=(20, 5))
    yield "network", loss, point, {name: 0.5 * p for name, p in point.items()}
    yield "rosenbrock", higher_order.rosenbrock, np.linspace(-1.0, 1.0, 40), np.linspace(0.0, 1.0, 40)
    yield "logistic", higher_order.logistic(np, data), np.linspace(-1.0, 1.0, 5), np.ones(5)


@pytest.mark.parametrize("case", list(second_order()), ids=lambda case: case[0])
def test_products_with_hessians(case, monkeypatch):
    _, loss, point, direction = case
    found = {}
    for policy in ("never", "always"):
        monkeypatch.setattr(tg.config, "kernel", policy)
        product = tg.hvp(loss)
        for _ in range(4):
            found[policy] = product(point, direction)
        stats = product.stats()
        assert bool(stats.kernels) == bool(stats.kernel_calls) == (policy == "always") and not stats.not_lowered and not stats.fallback
    ours, theirs = (higher_order._flat(found[policy]) for policy in ("always", "never"))
    np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-11 * np.max(np.abs(theirs)))


def test_loops_over_numbers():
    as_kernel(scalar_chain.chain, scalar_chain.POINT, (0, 1, 2))
    for function in (replay_sweep.mixed, replay_sweep.predators):
        promoted = as_kernel(function, (np.array([0.7, 0.4]), 60))
        assert "for " in promoted.kernel(np.array([0.7, 0.4]), 60).source()


@pytest.mark.parametrize("function", [jacobians.on_arrays(np), jacobians.by_loop(np), sparse.band])
@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_jacobians(function, mode):
    x = np.linspace(0.0, 1.0, 30)
    swept, promoted = (tg.jacobian(function, mode=mode, kernel=kernel) for kernel in ("never", "always"))
    for _ in range(5):
        found = promoted(x)
    assert promoted.stats().kernels and promoted.stats().kernel_calls and not promoted.stats().not_lowered
    np.testing.assert_allclose(found, swept(x), rtol=1e-11)


# -- gradbench ----------------------------------------------------------------------------
def test_gmm():
    rng = np.random.default_rng(0)
    arguments = rng.normal(size=3), rng.normal(size=(3, 2)), rng.normal(size=(3, 2)), rng.normal(size=(3, 1)), rng.normal(size=(7, 2)), 1, 0.5
    as_kernel(gmm.objective, arguments, (0, 1, 2, 3))


def test_the_others():
    rng = np.random.default_rng(0)
    as_kernel(hello.square, (3.0,))
    as_kernel(llsq.objective, (rng.normal(size=4), 20))
    as_kernel(lse.objective, (rng.normal(size=20),))
    as_kernel(ode.last, (np.abs(rng.normal(size=4)), 10))


def test_bundle_adjustment():
    rng = np.random.default_rng(0)
    cameras, points, weights, features = rng.normal(size=(11, 6)), rng.normal(size=(3, 6)) + 5.0, rng.normal(size=6), rng.normal(size=(2, 6))
    for k in range(2):

        def total(camera, point, weight, feature, k=k):
            return np.sum(ba.reprojection(camera, point, weight, feature)[k])

        as_kernel(total, (cameras, points, weights, features), (0, 1, 2))
    as_kernel(lambda w: np.sum(ba.weight_error(w)), (weights,))


# -- examples -----------------------------------------------------------------------------
@pytest.mark.parametrize("make, sizes", [(modes.many_to_one, (20,)), (modes.one_to_many, (20,)), (modes.bottleneck, (20,)), (modes.rectangle, (6, 5))])
def test_modes(make, sizes):
    function, args = make(*sizes)
    for mode in ("forward", "reverse"):
        swept, promoted = (tg.jacobian(function, mode=mode, kernel=kernel) for kernel in ("never", "always"))
        for _ in range(5):
            found = promoted(*args)
        stats = promoted.stats()
        assert stats.kernels and stats.kernel_calls and not stats.not_lowered and not stats.fallback
        np.testing.assert_allclose(found, swept(*args), rtol=1e-11, atol=1e-13)


def test_asian_option():
    normals = np.random.default_rng(0).normal(size=(40, 12))
    for k in range(2):
        as_kernel(lambda market, normals, k=k: np.mean(asian_option.payoffs(market, normals)[k]), (asian_option.MARKET, normals))
    as_kernel(asian_option.closed_form, (asian_option.MARKET,))


def test_bundle_of_the_example():
    residuals, start, _ = bundle_adjustment.problem(3, 5, 0.5, np.random.default_rng(0))
    as_kernel(lambda p: np.sum(residuals(p) ** 2), (start,))
    swept, promoted = (tg.jacobian(residuals, kernel=kernel) for kernel in ("never", "always"))
    for _ in range(5):
        found = promoted(start)
    assert promoted.stats().kernels and promoted.stats().kernel_calls and not promoted.stats().not_lowered
    for ours, theirs in zip(flatten(found)[0], flatten(swept(start))[0], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-9 * np.max(np.abs(theirs)))


def test_hamiltonian():
    density, _ = hamiltonian.gaussian(6)
    for function, n in ((density, 6), (hamiltonian.funnel, 4)):
        as_kernel(function, (np.linspace(-1.0, 1.0, n),))
        assert tg.compile(function, np.zeros(n)).kernel is not None


def test_logistic():
    rng = np.random.default_rng(0)
    points, sides = rng.normal(size=(30, 4)), np.sign(rng.normal(size=30))
    as_kernel(lambda p: logistic.loss(p, points, sides), ({"weights": rng.normal(size=4), "bias": 0.3},))


def test_mixture():
    rng = np.random.default_rng(0)
    points, labels = rng.normal(size=(30, 2)), np.arange(30) % 3
    as_kernel(lambda p: mixture.negative_log_likelihood(p, points), (mixture.first_guess(points, labels),))


def test_hares_and_lynxes():
    """The demo, and the example that goes on from it."""
    _, hares, lynxes = demo.read_pelts()
    as_kernel(lambda theta: demo.misfit(theta, hares, lynxes), (demo.first_guess(hares, lynxes),))


def test_train_classifier():
    rng = np.random.default_rng(0)
    parameters = [np.asarray(p.detach().numpy()) for p in train_classifier.new_parameters(rng)]
    images, labels = rng.uniform(size=(16, 64)), rng.integers(0, 10, 16)

    def loss(*parameters):
        return train_classifier.loss_of(parameters, images, labels)

    as_kernel(loss, tuple(parameters), tuple(range(len(parameters))))
