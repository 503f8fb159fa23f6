"""Two chains of haemoglobin, aligned by a transducer that learns from them how proteins of one family differ
==========================================================================================================

The alpha and the beta chain of human haemoglobin have one ancestor.  A weighted transducer with three states reads the one and
writes the other: it copies a residue or replaces it, leaves some out, or puts some in.  How likely each of these is, three numbers, is
learned by maximum likelihood: the score of all alignments together is differentiated.  Composed once, the graph of all
alignments is replayed at each step.  Its gradient is the probability of each step of an alignment, which the picture shows.

Run it with::

    python examples/alignment.py
    python examples/alignment.py --plot alignment.png

The sequences are UniProt's P69905 and P68871, without the methionine in front.  The picture needs ``pip install .[examples]``.
"""
# sphinx_gallery_thumbnail_path = "gallery/alignment.png"

from __future__ import annotations

import argparse

import numpy as np

import tapegrad as tg
from tapegrad import automata

ALPHA = (
    "VLSPADKTNVKAAWGKVGAHAGEYGAEALERMFLSFPTTKTYFPHFDLSHGSAQVKGHGKKVADALTNAVAHVDDMPNALSALSDLHAHKLRVDPVNFKLLSHCLLVTLAAHLPAEFTPAVHASLDKFLASVSTVLTSKYR"
)
BETA = (
    "VHLTPEEKSAVTALWGKVNVDEVGGEALGRLLVVYPWTQRFFESFGDLSTPDAVMGNPKVKAHGKKVLGAFSDGLAHLDNLKGTFATLSELHCDKLHVDPENFRLLGNVLVCVLAHHFGKEFTPPVQAAYQKVVAGVANALAHKYH"
)
RESIDUES = sorted(set(ALPHA + BETA))
#: The histidines at both sides of the iron, in the alpha and in the beta chain, which are known from the structure.
HISTIDINES = {"distal": (58, 63), "proximal": (87, 92)}
#: How often each residue occurs.
SHARE = np.array([(ALPHA + BETA).count(r) for r in RESIDUES]) / len(ALPHA + BETA)


def sequence(residues):
    """A chain that reads one sequence."""
    graph = automata.Graph(calc_grad=False)
    nodes = [graph.add_node(k == 0, k == len(residues)) for k in range(len(residues) + 1)]
    for a, b, residue in zip(nodes, nodes[1:], residues):
        graph.add_arc(a, b, RESIDUES.index(residue))
    return graph


def transducer():
    """Its graph, with weights 0, and an array of what each arc does, for `weights`: states it goes from and to, what it reads and writes."""
    graph, does, count = automata.Graph(calc_grad=False), [], len(RESIDUES)
    for state in range(3):
        graph.add_node(start=state == 0, accept=True)
    nothing = automata.epsilon
    for state in range(3):
        # In state 0 both sequences go on; in state 1 the first one alone, in state 2 the second one.
        steps = [(0, x, y) for x in range(count) for y in range(count)]
        steps += [(1, x, nothing) for x in range(count) if state != 2]
        steps += [(2, nothing, y) for y in range(count) if state != 1]
        for target, x, y in steps:
            graph.add_arc(state, target, x, y)
            does.append((state, target, x, y))
    return graph, np.array(does)


def weights(theta, does):
    """Log probabilities of the arcs, of three numbers: the logits of copying, of beginning a gap and of going on with it."""
    state, target, x, y = does.T
    copies, opens, goes_on = theta
    same = (target == 0) & (x == y)
    both = tg.log(tg.sigmoid(copies)) * same + tg.log(tg.sigmoid(-copies)) * ((target == 0) & ~same)
    emits = np.where(same, np.log(SHARE[x]), np.where(target == 0, np.log(SHARE[x] * SHARE[y] / (1.0 - np.sum(SHARE**2))), np.log(SHARE[np.maximum(x, y)])))
    # Half of all gaps are in each of the sequences.
    begins = tg.log(0.5 * tg.sigmoid(opens)) * ((state == 0) & (target > 0)) + tg.log(tg.sigmoid(-opens)) * ((state == 0) & (target == 0))
    stays = tg.log(tg.sigmoid(goes_on)) * ((state > 0) & (target > 0)) + tg.log(tg.sigmoid(-goes_on)) * ((state > 0) & (target == 0))
    return both + emits + begins + stays


def alignments(theta, edits, does, first=ALPHA, second=BETA):
    """The graph of all alignments of two sequences."""
    graph = automata.clone(edits)
    graph.set_weights(weights(theta, does))
    return automata.compose(automata.compose(sequence(first), graph), sequence(second))


def places(graph):
    """How much of each sequence was read before each node of a graph of alignments."""
    read = np.zeros((graph.num_nodes(), 2), int)
    t = graph.topology
    steps = np.stack([t.ilabel != automata.epsilon, t.olabel != automata.epsilon], axis=1)
    for arc in np.argsort(t.source, kind="stable"):
        read[t.target[arc]] = read[t.source[arc]] + steps[arc]
    return read


def save_plot(path, matches, best):
    """Draw the probability that two residues stand for each other, and the best alignment."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 6.0), layout="constrained")
    axes = figure.add_subplot()
    shown = axes.imshow(matches.T, origin="lower", cmap="Blues", vmin=0.0, vmax=1.0, extent=(0.5, len(ALPHA) + 0.5, 0.5, len(BETA) + 0.5))
    axes.plot(*best.T, color="#b5651d", linewidth=0.8, label="best alignment")
    for name, (a, b) in HISTIDINES.items():
        axes.plot([a], [b], "o", markerfacecolor="none", markeredgecolor="#a02020", markersize=11)
        axes.annotate(f"{name} histidine\n{a} and {b}", (a, b), xytext=(a + 9, b - 22), fontsize=9, color="#a02020",
                      arrowprops=dict(arrowstyle="-", color="#a02020", linewidth=0.8))  # fmt: skip
    figure.colorbar(shown, label="probability that they stand for each other", shrink=0.8)
    axes.set(xlabel="residue of the alpha chain", ylabel="residue of the beta chain", title="All alignments of two chains of haemoglobin")
    axes.legend(frameon=False, loc="upper left")
    figure.savefig(path, dpi=120)


def main(plot=None):
    """Learn, align, draw and check.

    Parameters
    ----------
    plot : str or Path, optional
        Where to save the picture.

    Returns
    -------
    dict
        ``theta`` (the learned logits), ``score`` (the log probability), ``identity`` (the share of the best alignment that is copied) and
        ``pairs`` (residues that stand for each other in it).

    Raises
    ------
    AssertionError
        If the histidines at the iron are not found to stand for each other, or less, or more, than published is the same.
    """
    edits, does = transducer()

    def loss(theta):
        return -automata.forward_score(alignments(theta, edits, does)).weights()[0]

    result = tg.optimize.minimize(loss, np.array([1.0, -2.0, 0.0]))
    copies, opens, goes_on = 1.0 / (1.0 + np.exp(-result.x))
    print(f"copied {copies:.3f}, a gap begins {opens:.4f}, and goes on {goes_on:.3f}; log probability {-result.fun:.2f}")

    graph = alignments(tg.tensor(result.x, requires_grad=True), edits, does)
    graph.weights().retain_grad()
    read = places(graph)
    automata.backward(automata.forward_score(graph))
    arcs = graph.topology
    match = (arcs.ilabel != automata.epsilon) & (arcs.olabel != automata.epsilon)
    matches = np.zeros((len(ALPHA), len(BETA)))
    np.add.at(matches, tuple(read[arcs.source[match]].T), graph.grad().values[match])

    path = automata.viterbi_path(graph).topology
    steps = np.stack([path.ilabel != automata.epsilon, path.olabel != automata.epsilon], axis=1)
    best = np.cumsum(steps, axis=0)
    pairs = best[steps.all(axis=1)]
    same = [ALPHA[i - 1] == BETA[j - 1] for i, j in pairs]
    identity = np.mean(same)
    print(f"best alignment: {len(pairs)} pairs, {sum(same)} the same, {100 * identity:.1f} %; {len(path.source) - len(pairs)} residues have no partner")
    for name, (i, j) in HISTIDINES.items():
        print(f"{name} histidine: {i} stands for {j} with probability {matches[i - 1, j - 1]:.3f}")
        assert (i, j) in set(map(tuple, pairs.tolist())) and matches[i - 1, j - 1] > 0.9
    # Published: 43 % of the residues are the same.
    assert 0.42 <= identity <= 0.47
    if plot:
        save_plot(plot, matches, best)
        print(f"drawn to {plot}")
    return {"theta": result.x, "score": -result.fun, "identity": identity, "pairs": pairs, "matches": matches}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--plot", metavar="FILE", help="draw the alignment")
    main(parser.parse_args().plot)
