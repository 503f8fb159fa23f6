"""The documents' programs run, and print what the documents show."""

import ast
import pathlib
import re
import runpy

import numpy as np
import pytest

import tapegrad as tg

HERE = pathlib.Path(__file__).parent

# Places in an expected output that differ from run to run.
PLACES = {
    "@ADDRESS": "0x[0-9a-f]+",
    "@LINE": "[^\n]*(?:\n[^\n]*)*?",
    "@5x3": r"tensor\((\[\[[^\]]*\](?:,\n {8}\[[^\]]*\]){4}\])\)",
    "@4x4": r"tensor\((\[\[[^\]]*\](?:,\n {8}\[[^\]]*\]){3}\])(?:, grad_fn=<\w+>)?\)",
    "@2x2": r"tensor\((\[\[[^\]]*\],\n {8}\[[^\]]*\]\])\)",
    "@3": r"tensor\((\[[^\[\]]*\])\)",
}

EXPECTED_002 = """\
Gradient function for z: <AddBackward0 object at @ADDRESS>
Gradient function for loss: <BinaryCrossEntropyWithLogitsBackward0 object at @ADDRESS>
@5x3
@3
@5x3
@3
RuntimeError: Trying to backward through the graph a second time@LINE
True
False
False
First call
tensor([[4., 2., 2., 2., 2.],
        [2., 4., 2., 2., 2.],
        [2., 2., 4., 2., 2.],
        [2., 2., 2., 4., 2.],
        [2., 2., 2., 2., 4.]])
Second call
tensor([[8., 4., 4., 4., 4.],
        [4., 8., 4., 4., 4.],
        [4., 4., 8., 4., 4.],
        [4., 4., 4., 8., 4.],
        [4., 4., 4., 4., 8.]])
Third call, after zeroing out gradients
tensor([[4., 2., 2., 2., 2.],
        [2., 4., 2., 2., 2.],
        [2., 2., 4., 2., 2.],
        [2., 2., 2., 4., 2.],
        [2., 2., 2., 2., 4.]])
"""

EXPECTED_003 = """\
tensor(7., grad_fn=<AddBackward0>) tensor(4.) tensor(1.)
RuntimeError: grad can be implicitly created only for scalar outputs@LINE
tensor(7., grad_fn=<AddBackward0>) tensor(4.) tensor(1.)
(tensor(4.),) None
@4x4
@4x4
@4x4
@4x4
tensor(3.7183, grad_fn=<AddBackward0>)
[True, True, False, False, True, False]
[<AddBackward0 object at @ADDRESS>, <ExpBackward0 object at @ADDRESS>, <MulBackward0 object at @ADDRESS>, None]
((<ExpBackward0 object at @ADDRESS>, 0), (<AccumulateGrad object at @ADDRESS>, 0))
tensor(1.3591) tensor(5.4366) tensor(1.)
None None
before backward
@2x2
after backward
@2x2
first
<AddBackward0 object at @ADDRESS>
operator hook
parameter hook
second
<AddBackward0 object at @ADDRESS>
parameter hook
"""


def run(script, expected, capsys):
    """Runs the script, compares its output, and returns the numbers of the random tensors."""
    tg.manual_seed(0)
    runpy.run_path(str(HERE / script))
    printed = capsys.readouterr().out
    pattern = re.escape(expected)
    for place, regex in PLACES.items():
        pattern = pattern.replace(re.escape(place), regex)
    found = re.fullmatch(pattern, printed)
    assert found, f"{printed}\n--- is not of the form ---\n{expected}"
    return found.groups()


def values(printed):
    return np.array(ast.literal_eval(printed))


def test_document_002_prints_what_the_notebook_shows(capsys):
    w1, b1, w2, b2 = (values(t) for t in run("seed_002.py", EXPECTED_002, capsys))
    assert np.all((b1 > 0) & (b1 < 1 / 3))  # a third of a sigmoid
    np.testing.assert_array_equal(w1, np.tile(b1, (5, 1)))
    np.testing.assert_array_equal(w2, np.tile(b2, (5, 1)))
    np.testing.assert_allclose(b2, 2 * b1, atol=2e-4)


def test_document_002_the_error_names_the_way_out(capsys):
    run("seed_002.py", EXPECTED_002.replace("@LINE", "@LINEretain_graph=True@LINE"), capsys)


@pytest.mark.filterwarnings("ignore")  # PyTorch warns where it reads C.grad
def test_document_003_prints_what_the_article_shows(capsys):
    xgrad, ygrad, xgrad_by_nodes, ygrad_by_nodes, seen, stored = run(
        "seed_003.py", EXPECTED_003, capsys
    )
    tg.manual_seed(6)
    x, y = tg.randn(4, 4), tg.randn(4, 4)
    assert f"tensor({xgrad})" == f"tensor({xgrad_by_nodes})" == str(y)
    assert f"tensor({ygrad})" == f"tensor({ygrad_by_nodes})" == str(x)
    np.testing.assert_allclose(values(stored), values(seen) / 2, atol=1e-4)
