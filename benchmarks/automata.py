"""Automata: the score of all paths beside PyTorch's CTC, and what an arc of a composition takes.

The graph is the composition of 1 000 times of 30 labels with a CTC target of length 100: some 450 000 arcs, where PyTorch walks over a
table.  Its order is found anew for each score, as for a graph that has just been composed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import tapegrad as tg
from tapegrad import automata
from tapegrad.automata.graph import made

from .registry import Missing, Row, benchmark, check_agreement, ratio, torch_pinned
from .timing import measure


def spelling(target):
    """The graph of the ways in which CTC spells a target."""
    graph, spelt = automata.Graph(calc_grad=False), np.zeros(2 * len(target) + 1, int)
    spelt[1::2] = target
    for k, label in enumerate(spelt.tolist()):
        graph.add_node(k == 0, k >= len(spelt) - 2)
        for back in (0, 1, 2) if k % 2 and label != spelt[k - 2] else (0, 1):
            if k >= back:
                graph.add_arc(k - back, k, label)
    return graph


def fresh(graph, weights):
    """A graph of the same arcs of whose order nothing is known."""
    return made(graph.topology.replaced(), weights)


def parallel(steps, width):
    """A chain of steps of parallel arcs of one label: two of them compose to ``width ** 2`` arcs for each step."""
    t = automata.linear_graph(steps, width).topology
    return made(t.replaced(ilabel=0 * t.ilabel, olabel=0 * t.olabel), np.zeros(steps * width))


@benchmark(name="automata")
def automata_(quick: bool) -> Iterator[Row]:
    """Scores of graphs beside PyTorch's CTC, compositions by the arc."""
    times, labels, length = (100, 30, 10) if quick else (1000, 30, 100)
    rng = np.random.default_rng(0)
    scores, target = rng.normal(size=(times, labels)), rng.integers(1, labels, length)
    log_probs = scores - np.logaddexp.reduce(scores, axis=1, keepdims=True)
    emissions = automata.linear_graph(times, labels, log_probs)
    both = automata.compose(spelling(target), emissions)
    weights = both.values

    def score():
        graph = fresh(both, tg.tensor(weights, requires_grad=True))
        result = automata.forward_score(graph)
        result.backward()
        return result.item(), graph

    def loss(x):
        return automata.ctc_loss(tg.log_softmax(x, axis=-1), target)

    gradient = tg.value_and_grad(loss)
    calls: dict[str, Any] = {"tapegrad": score, "tapegrad, loss": lambda: gradient(scores)}
    try:
        torch = torch_pinned()
        x = torch.tensor(scores, requires_grad=True)

        def theirs():
            found = torch.nn.functional.ctc_loss(
                torch.log_softmax(x, -1)[:, None], torch.tensor(target)[None], torch.tensor([times]), torch.tensor([length]), reduction="sum"
            )
            (g,) = torch.autograd.grad(found, x)
            return found.item(), g.numpy()

        check_agreement("CTC", {"tapegrad": np.append(gradient(scores)[1], gradient(scores)[0]), "PyTorch": np.append(theirs()[1], theirs()[0])})
        calls["PyTorch"] = theirs
    except Missing as reason:
        yield Row("the score of a composed graph with its gradient, beside PyTorch's CTC", skip=str(reason))
    taken = measure(calls, budget=1.0 if quick else 6.0)
    if "PyTorch" in taken:
        goal = "" if quick else "at most 1.5 times"
        detail = {"arcs": both.num_arcs(), "nodes": both.num_nodes()}
        what = f"score and gradient of a graph of {times} times and a target of {length}, beside PyTorch's CTC"
        yield ratio(what, goal, None if quick else 1.5, taken, "PyTorch", **detail)
        yield ratio("the whole CTC loss with its gradient, composition and all, beside PyTorch's", "", None,
                    {"tapegrad": taken["tapegrad, loss"], "PyTorch": taken["PyTorch"]}, "PyTorch")  # fmt: skip
    small, large = (50, 500) if quick else (250, 2500)
    pairs = {steps: (parallel(steps, 20), parallel(steps, 20)) for steps in (small, large)}
    pairs["CTC"] = spelling(target), emissions
    arcs = {name: automata.compose(*pair).num_arcs() for name, pair in pairs.items()}

    def composing(first, second):
        # What is known of the operands, arcs by label, is found anew as well.
        return lambda: automata.compose(*(fresh(g, g.values) for g in (first, second)))

    taken = measure({str(name): composing(*pair) for name, pair in pairs.items()}, budget=1.0 if quick else 6.0)
    per = {name: taken[str(name)].minimum / count * 1e9 for name, count in arcs.items()}
    for name, count in arcs.items():
        promised = not quick and name == small
        what = "CTC's target with its scores" if name == "CTC" else f"{name} steps of parallel arcs"
        yield Row(f"a composition of {count:,} arcs, an arc: {what}", "at most 40 ns" if promised else "", per[name], 40.0 if promised else None, "ns")
    yield Row("an arc of a composition of ten times the size", "" if quick else "at most twice the time", per[large] / per[small], None if quick else 2.0)
