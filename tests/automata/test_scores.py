"""Scores: stability, ends, cycles, recordings, orders of derivatives."""

import numpy as np
import pytest

import tapegrad as tg
from tapegrad import automata
from tests.automata.random_graphs import covariance, with_weights


def lattice(seed=0):
    """Six nodes in which paths of several lengths meet."""
    rng, g = np.random.default_rng(seed), automata.Graph()
    for k in range(6):
        g.add_node(start=k < 2, accept=k in (3, 5))
    for a, b in [(0, 1), (0, 2), (1, 2), (1, 3), (2, 3), (2, 4), (3, 4), (3, 5), (4, 5), (4, 5)]:
        g.add_arc(a, b, 0, weight=rng.normal())
    return g


def score(w):
    return automata.forward_score(with_weights(lattice(), w)).weights()[0]


@pytest.mark.parametrize("shift", [1e6, -1e6])
def test_large_weights_are_as_good_as_small_ones(shift):
    w = lattice().values
    value, gradient = tg.value_and_grad(score)(w + shift)
    # The longest, or the shortest, paths alone are left.
    lengths, weights = [], []
    from tests.automata.random_graphs import paths, weight

    for p in paths(lattice()):
        lengths.append(len(p))
        weights.append(weight(lattice(), p))
    extreme = max(lengths) if shift > 0 else min(lengths)
    left = [w for w, n in zip(weights, lengths) if n == extreme]
    assert value == pytest.approx(extreme * shift + np.logaddexp.reduce(left), rel=1e-15)
    assert np.all(gradient >= 0.0) and np.all(gradient <= 1.0 + 1e-9)
    assert np.isfinite(tg.hessian(score)(w + shift)).all()
    shares = np.exp(np.array(left) - np.logaddexp.reduce(left))
    expected = np.zeros(len(w))
    for p, n in zip(paths(lattice()), lengths):
        if n == extreme:
            expected[p] += shares[0]
            shares = shares[1:]
    np.testing.assert_allclose(gradient, expected, atol=1e-8)


def test_the_hessian_is_the_covariance_of_arcs_in_every_mode():
    w = lattice().values
    for hessian in (tg.hessian(score), tg.jacfwd(tg.grad(score)), tg.jacrev(tg.grad(score))):
        np.testing.assert_allclose(hessian(w), covariance(lattice()), atol=1e-13)


def test_third_derivatives_are_symmetric_and_differences_of_second_ones():
    w, rng = lattice().values, np.random.default_rng(1)
    u, v, x = rng.normal(size=(3, len(w)))
    along = lambda f, u: lambda w: np.sum(tg.grad(f)(w) * u)
    values = [along(along(along(score, a), b), c)(w) for a, b, c in [(u, v, x), (v, x, u), (x, u, v), (x, v, u)]]
    np.testing.assert_allclose(values, values[0], rtol=1e-10)
    step, second = 1e-5, along(along(score, u), v)
    assert values[0] == pytest.approx((second(w + step * x) - second(w - step * x)) / (2 * step), rel=1e-7)
    assert values[0] == pytest.approx(tg.derivative(lambda t: second(w + t * x))(0.0), rel=1e-10)


def test_define_by_run_is_differentiated_again():
    g = lattice()
    (first,) = tg.autograd.grad(automata.forward_score(g).weights(), g.weights(), np.ones(1), create_graph=True)
    v = np.arange(10.0)
    (second,) = tg.autograd.grad(np.sum(first * v), g.weights())
    np.testing.assert_allclose(second, covariance(g) @ v, atol=1e-12)


@pytest.mark.parametrize("build", [lambda g: None, lambda g: g.add_node(start=True), lambda g: (g.add_node(accept=True), g.add_node(start=True))])
def test_without_paths_the_score_is_minus_infinity_and_depends_on_nothing(build):
    g = automata.Graph()
    build(g)
    if g.num_nodes() == 2:
        g.add_arc(0, 1, 0)
    result = automata.forward_score(g)
    assert result.item() == automata.viterbi_score(g).item() == -np.inf
    assert automata.viterbi_path(g).num_nodes() == 0
    result.backward()
    assert not g.grad().values.any() and g.grad().values.shape == (g.num_arcs(),)


def test_paths_of_weight_minus_infinity_bring_nothing():
    w = np.array([0.5, -np.inf, -np.inf, 1.0])
    f = lambda w: automata.forward_score(automata.linear_graph(2, 2, w)).weights()[0]
    value, gradient = tg.value_and_grad(f)(w)
    assert value == 1.5
    np.testing.assert_array_equal(gradient, [1.0, 0.0, 0.0, 1.0])
    assert not tg.hessian(f)(w).any()
    value, gradient = tg.value_and_grad(f)(np.full(4, -np.inf))
    assert value == -np.inf and not gradient.any()
    assert automata.viterbi_score(automata.linear_graph(2, 2, w)).item() == 1.5
    assert automata.viterbi_path(automata.linear_graph(2, 2, np.full(4, -np.inf))).num_arcs() == 2


def test_a_node_alone_is_the_empty_path():
    g = automata.Graph()
    g.add_node(start=True, accept=True)
    assert automata.forward_score(g).item() == automata.viterbi_score(g).item() == 0.0
    path = automata.viterbi_path(g)
    assert path.num_nodes() == 1 and path.num_arcs() == 0 and path.start() == path.accept() == [0]


def test_cycles_are_named():
    g = automata.Graph()
    for k in range(4):
        g.add_node(start=k == 0, accept=k == 3)
    for a, b in [(0, 1), (1, 2), (2, 3), (3, 1)]:
        g.add_arc(a, b, 0)
    for f in (automata.forward_score, automata.viterbi_score, automata.viterbi_path):
        with pytest.raises(tg.errors.GraphError, match=r"a cycle, .*: (1 -> 2 -> 3 -> 1|2 -> 3 -> 1 -> 2|3 -> 1 -> 2 -> 3)\. "):
            f(g)
    # It says which, also in a long one.
    loop = automata.Graph()
    for k in range(5000):
        loop.add_node(k == 0, True)
        if k:
            loop.add_arc(k - 1, k, 0)
    loop.add_arc(4999, 17, 0)
    with pytest.raises(tg.errors.GraphError, match=r"17 -> 18 -> .* -> \(4971 nodes\) -> .* -> 4999 -> 17\."):
        automata.forward_score(loop)


def test_the_order_of_numbers_does_not_matter_in_a_deep_graph():
    count, g = 20_000, automata.Graph()
    for k in range(count):
        g.add_node(accept=k == 0, start=k == count - 1)
    for k in range(1, count):
        g.add_arc(k, k - 1, 0, weight=0.001)
    result = automata.forward_score(g)
    result.backward()
    assert result.item() == pytest.approx(0.001 * (count - 1), rel=1e-12)
    np.testing.assert_array_equal(g.grad().values, np.ones(count - 1))


def test_replays_give_what_calls_give():
    f = tg.jit(tg.value_and_grad(score))
    for k in range(4):
        w = np.random.default_rng(k).normal(size=10)
        value, gradient = f(w)
        expected = tg.value_and_grad(score)(w)
        assert value == pytest.approx(expected[0], rel=1e-14)
        np.testing.assert_allclose(gradient, expected[1], rtol=1e-13)
    assert f.stats().records == 1
    h, v = tg.jit(tg.hvp(score)), np.arange(10.0)
    for _ in range(2):
        np.testing.assert_allclose(h(lattice().values, v), covariance(lattice()) @ v, atol=1e-12)
    assert h.stats().records == 1


def test_a_recorded_path_is_guarded_and_a_score_is_not():
    w = np.array([1.0, 2.0, 5.0, 3.0])

    def labels(w):
        path = automata.viterbi_path(automata.linear_graph(2, 2, w))
        return path.weights().sum() + 10.0 * sum(path.labels_to_list())

    g = tg.jit(tg.value_and_grad(labels))
    for at, value, gradient in [(w, 17.0, [0, 1, 1, 0]), (w + 1.0, 19.0, [0, 1, 1, 0]), (-w, 6.0 - 10.0, [1, 0, 0, 1]), (w, 17.0, [0, 1, 1, 0])]:
        result = g(at)
        assert result[0] == pytest.approx(value if at[0] > 0 else -4.0 + 10.0)
        np.testing.assert_array_equal(result[1], gradient)
    assert g.stats().records == 2
    s = tg.jit(tg.grad(lambda w: automata.viterbi_score(automata.linear_graph(2, 2, w)).weights()[0]))
    np.testing.assert_array_equal(s(w), [0, 1, 1, 0])
    np.testing.assert_array_equal(s(-w), [1, 0, 0, 1])
    assert s.stats().records == 1


def test_of_equally_good_paths_one_is_taken():
    g = automata.linear_graph(2, 3)
    assert automata.viterbi_path(g).labels_to_list() == [0, 0]
    automata.viterbi_score(g).backward()
    assert g.grad().values.sum() == 2.0


def test_float32_weights_have_gradients_of_float32():
    w = np.arange(4, dtype=np.float32)
    gradient = tg.grad(lambda w: automata.forward_score(automata.linear_graph(2, 2, w)).weights()[0])(w)
    assert gradient.dtype == np.float32
    np.testing.assert_allclose(gradient, [0.26894142, 0.73105858] * 2, rtol=1e-6)
