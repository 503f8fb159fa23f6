"""Operations on random graphs against enumeration of paths; `random_graphs` says how to try more."""

import numpy as np
import pytest

import tapegrad as tg
from tapegrad import automata
from tests.automata import random_graphs


@pytest.mark.filterwarnings("ignore:.*has spent 1 s in derivatives")
@pytest.mark.parametrize("first", range(0, 200, 20))
def test_as_enumerated(first):
    for seed in range(first, first + 20):
        random_graphs.check(seed)


@pytest.mark.parametrize("seed", range(8))
def test_derivatives_by_differences(seed):
    rng = np.random.default_rng(seed)
    a, b = random_graphs.random_graph(rng), random_graphs.random_graph(rng)
    a = a if a.num_arcs() else automata.linear_graph(3, 2)
    b.set_weights(tg.tensor(b.values))
    assert not b.calc_grad

    def score(w):
        mine = random_graphs.with_weights(a, w)
        every = [automata.compose(mine, b), automata.concat(mine, b), mine, automata.linear_graph(1, 1, calc_grad=False)]
        return automata.forward_score(automata.union(*every)).weights()[0]

    report = tg.check(score, rng.normal(size=a.num_arcs()), order=2)
    assert report.passed, report
