"""Random acyclic graphs, and what operations on them must give, by enumeration of paths.

``python -m tests.automata.random_graphs 10000 0`` tries so many, from this seed on; the suite tries the first 200.
"""

import sys

import numpy as np

import tapegrad as tg
from tapegrad import automata

EPS = automata.epsilon


def random_graph(rng, transducer=True, silent=0.25):
    """Up to five nodes, numbered at random, with parallel arcs, nodes that nothing reaches, several ends or none."""
    nodes = int(rng.integers(1, 6))
    g, names = automata.Graph(), rng.permutation(nodes)
    for _ in range(nodes):
        g.add_node(start=rng.random() < 0.4, accept=rng.random() < 0.4)
    for _ in range(int(rng.integers(0, 8)) if nodes > 1 else 0):
        a, b = sorted(rng.choice(nodes, 2, replace=False))
        labels = [EPS if rng.random() < silent else int(rng.integers(0, 2)) for _ in range(2)]
        g.add_arc(names[a], names[b], labels[0], labels[1] if transducer else labels[0], float(rng.normal()))
    return g


def paths(g):
    """All paths from start to accept, as lists of arcs."""
    arcs, found, waiting = list(g), [], [(s, []) for s in g.start()]
    while waiting:
        node, path = waiting.pop()
        if node in g.accept():
            found.append(path)
        waiting += [(arc.target, [*path, k]) for k, arc in enumerate(arcs) if arc.source == node]
    return found


def weight(g, path, weights=None):
    weights = g.values if weights is None else weights
    return float(sum(weights[a] for a in path))


def word(g, path, side):
    labels = g.labels_to_list(side == 0)
    return tuple(labels[a] for a in path if labels[a] != EPS)


def words(g):
    """What each path reads and writes, and weighs."""
    return sorted((word(g, p, 0), word(g, p, 1), weight(g, p)) for p in paths(g))


def same_words(found, expected):
    assert [w[:2] for w in found] == [w[:2] for w in expected]
    np.testing.assert_allclose([w[2] for w in found], [w[2] for w in expected], rtol=1e-12, atol=1e-12)


def log_sum(weights):
    return float(np.logaddexp.reduce(weights)) if len(weights) else -np.inf


def posteriors(g, weights=None):
    """The share of the paths through each arc."""
    found = paths(g)
    shares = np.array([weight(g, p, weights) for p in found])
    shares = np.exp(shares - log_sum(shares)) if len(shares) else shares
    total = np.zeros(g.num_arcs())
    for path, share in zip(found, shares):
        total[path] += share
    return total


def covariance(g):
    """The second derivative of the score: how arcs occur together on a path, beside how they do each alone."""
    found, single = paths(g), posteriors(g)
    shares = np.array([weight(g, p) for p in found])
    both = np.zeros((g.num_arcs(), g.num_arcs()))
    for path, share in zip(found, np.exp(shares - log_sum(shares)) if len(shares) else ()):
        both[np.ix_(path, path)] += share
    return both - np.outer(single, single)


def with_weights(g, weights):
    """The same arcs with other weights."""
    other = automata.Graph()
    for s, a in zip(g.topology.start, g.topology.accept):
        other.add_node(s, a)
    for arc in g:
        other.add_arc(*arc[:4])
    other.set_weights(weights)
    return other


def score(g):
    """The log score as a function of the weights."""
    return lambda w: automata.forward_score(with_weights(g, w)).weights()[0]


def check_scores(g, rng):
    found, w = paths(g), g.values
    result = automata.forward_score(g)
    np.testing.assert_allclose(result.item(), log_sum([weight(g, p) for p in found]), rtol=1e-12, atol=1e-12)
    result.backward()
    np.testing.assert_allclose(g.grad().values, posteriors(g), rtol=1e-11, atol=1e-12)
    best = max((weight(g, p) for p in found), default=-np.inf)
    np.testing.assert_allclose(automata.viterbi_score(g).item(), best, rtol=1e-12, atol=1e-12)
    path = automata.viterbi_path(g)
    if found:
        assert path.num_nodes() == path.num_arcs() + 1
        np.testing.assert_allclose(path.values.sum(), best, rtol=1e-12, atol=1e-12)
        chosen = [tuple(arc)[2:] for arc in path]
        assert any([tuple(list(g)[a])[2:] for a in p] == chosen for p in found)
    else:
        assert path.num_nodes() == 0
    if g.num_arcs():
        v = rng.normal(size=len(w))
        np.testing.assert_allclose(tg.jvp(score(g), (w,), (v,))[1], posteriors(g) @ v, rtol=1e-10, atol=1e-11)
        np.testing.assert_allclose(tg.hvp(score(g))(w, v), covariance(g) @ v, rtol=1e-9, atol=1e-11)


def check_composition(a, b):
    both = automata.compose(a, b)
    pairs = [(p, q) for p in paths(a) for q in paths(b) if word(a, p, 1) == word(b, q, 0)]
    same_words(words(both), sorted((word(a, p, 0), word(b, q, 1), weight(a, p) + weight(b, q)) for p, q in pairs))
    on_a_path = {arc for p in paths(both) for arc in p}
    assert len(on_a_path) == both.num_arcs(), "every arc is on a path"
    automata.forward_score(both).backward()
    shares = np.array([weight(a, p) + weight(b, q) for p, q in pairs])
    expected = [np.zeros(a.num_arcs()), np.zeros(b.num_arcs())]
    for (p, q), share in zip(pairs, np.exp(shares - log_sum(shares)) if pairs else ()):
        expected[0][p] += share
        expected[1][q] += share
    for g, e in zip((a, b), expected):
        np.testing.assert_allclose(g.grad().values, e, rtol=1e-10, atol=1e-11)
        g.zero_grad()


def check_languages(a, b):
    same_words(words(automata.union(a, b)), sorted(words(a) + words(b)))
    joined = [(p[0] + q[0], p[1] + q[1], p[2] + q[2]) for p in words(a) for q in words(b)]
    same_words(words(automata.concat(a, b)), sorted(joined))
    twice = [((), (), 0.0), *words(a), *((p[0] + q[0], p[1] + q[1], p[2] + q[2]) for p in words(a) for q in words(a))]
    # The closure takes any number of rounds: those of up to two, told by an arc of label 7 that begins each.
    mark = automata.Graph(False)
    mark.add_arc(mark.add_node(start=True), mark.add_node(accept=True), 7)
    rounds = automata.closure(automata.concat(mark, a))
    any_label, count = automata.Graph(False), 3
    for k in range(count):
        any_label.add_node(k == 0, True)
        for label in (0, 1):
            any_label.add_arc(k, k, label)
        if k:
            any_label.add_arc(k - 1, k, 7)
    found = words(automata.compose(any_label, rounds))
    same_words(sorted((tuple(x for x in p[0] if x != 7), tuple(x for x in p[1] if x != 7), p[2]) for p in found), sorted(twice))


def check_removal(g, rng):
    silent = [arc.ilabel == arc.olabel == EPS for arc in g]
    g = with_weights(g, np.where(silent, 0.0, g.values) if g.num_arcs() else g.values)
    left = automata.remove(g)
    assert all((arc.ilabel, arc.olabel) != (EPS, EPS) for arc in left)
    # A path for each path, so also where silent arcs take several ways.
    heard = lambda h: sorted([tuple((x.ilabel, x.olabel, x.weight) for x in (list(h)[a] for a in p) if (x.ilabel, x.olabel) != (EPS, EPS)) for p in paths(h)])
    assert heard(left) == heard(g)
    gradients = []
    for h in (g, left):
        for score in (automata.forward_score, automata.viterbi_score):
            total = score(h)
            assert np.isclose(total.item(), {True: log_sum, False: max}[score is automata.forward_score]([weight(g, p) for p in paths(g)] or [-np.inf]))
            total.backward(retain_graph=True)
            gradients.append(np.where(silent, 0.0, g.grad().values))
            g.zero_grad()
    np.testing.assert_allclose(gradients[2], gradients[0], rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(gradients[3], gradients[1], rtol=1e-10, atol=1e-12)
    seed = rng.normal(size=left.num_arcs())
    if left.num_arcs():
        left.weights().backward(seed)
        by_arc = {}
        for arc, s in zip(left, seed):
            by_arc[arc.weight] = by_arc.get(arc.weight, 0.0) + s
        np.testing.assert_allclose(g.grad().values, [0.0 if s else by_arc.get(arc.weight, 0.0) for s, arc in zip(silent, g)], atol=1e-12)


def check(seed):
    """All checks of one case."""
    rng = np.random.default_rng(seed)
    a, b = random_graph(rng), random_graph(rng)
    check_scores(a, rng)
    a.zero_grad()
    check_composition(a, b)
    check_languages(a, b)
    check_removal(random_graph(rng, transducer=False, silent=0.5), rng)


def main(count, first):
    for seed in range(first, first + count):
        try:
            check(seed)
        except Exception:
            print(f"seed {seed}")
            raise
    print(f"{count} cases from seed {first} on: all as enumerated")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
