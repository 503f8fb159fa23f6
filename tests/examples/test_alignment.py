"""The example of two chains of haemoglobin: learned, aligned as published, and drawn; and the pictures of the page on automata."""

import re
from pathlib import Path

import numpy as np
import pytest

from tapegrad import automata


@pytest.fixture(scope="module")
def example(load):
    return load("alignment")


def test_learn_align_and_draw(example, picture, capsys):
    found = example.main(picture)
    assert found["identity"] == pytest.approx(62 / 139)
    assert found["score"] == pytest.approx(-725.73, abs=0.01)
    # Each residue stands for one, or for none.
    assert np.all(found["matches"].sum(axis=0) < 1.0 + 1e-9) and np.all(found["matches"].sum(axis=1) < 1.0 + 1e-9)
    assert "139 pairs, 62 the same" in capsys.readouterr().out


def test_the_transducer_is_a_distribution(example):
    """The probabilities of all pairs of one residue, and of shorter ones, and the end that is not modelled, are at most 1."""
    edits, does = example.transducer()
    w = np.asarray(example.weights(np.array([0.5, -1.0, 0.2]), does))
    for state in range(3):
        assert np.exp(w[does[:, 0] == state]).sum() == pytest.approx(1.0)


def test_the_score_is_that_of_a_dense_recursion(example):
    """Of short sequences, by Needleman and Wunsch's recursion with sums."""
    edits, does = example.transducer()
    theta, a, b = np.array([0.5, -1.0, 0.2]), "VLSPA", "VHLT"
    w = dict(zip(map(tuple, does.tolist()), np.asarray(example.weights(theta, does))))
    index, nothing = example.RESIDUES.index, automata.epsilon
    table = np.full((len(a) + 1, len(b) + 1, 3), -np.inf)
    table[0, 0, 0] = 0.0
    for i in range(len(a) + 1):
        for j in range(len(b) + 1):
            for target, (di, dj) in enumerate([(1, 1), (1, 0), (0, 1)]):
                if i >= di and j >= dj and (i or j):
                    x, y = index(a[i - 1]) if di else nothing, index(b[j - 1]) if dj else nothing
                    ways = [table[i - di, j - dj, s] + w[s, target, x, y] for s in range(3) if (s, target, x, y) in w]
                    table[i, j, target] = np.logaddexp.reduce(ways)
    score = automata.forward_score(example.alignments(theta, edits, does, a, b)).item()
    assert score == pytest.approx(np.logaddexp.reduce(table[-1, -1]), rel=1e-12)


def test_the_pictures_of_the_page(load, tmp_path):
    pytest.importorskip("matplotlib")
    page = (Path(__file__).parents[2] / "docs" / "automata.md").read_text(encoding="utf-8")
    shown = set(re.findall(r"\]\((\w+\.png)\)", page)) - {"automata_alignment.png"}
    paths = load("graphs").main(tmp_path)
    assert {path.name for path in paths} == shown
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in paths)
