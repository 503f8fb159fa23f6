"""`tg.compare`, `tg.compare_scaling` and the command: what they count, that they check, what they draw."""

import itertools
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.__main__ import main
from tapegrad.common import errors
from tapegrad.program.sweeps import StoreWalk
from tapegrad.tools.comparing.compare import WAYS, Way, footprint

ROOT = Path(__file__).parents[3]
NAMES = ["value", "forward, dual numbers", "forward, tangent sweep", "reverse, sweep", "reverse, kernel"]


def loss(x):
    return np.sum(np.sin(x) * x)


def curve(p):
    return np.exp(-p * np.linspace(0.0, 1.0, 1000)) * p


@pytest.mark.long
def test_reverse_mode_inside_numba_has_a_line_where_it_is_asked_for():
    def f(x, a):
        s = 0.0
        for v in x:
            s = s * 0.9 + np.sin(v * s) * a + v
        return s

    found = tg.compare(f, np.linspace(0.1, 0.9, 20), 2.0, argnums=(0, 1), budget=0.0, via="numba")
    assert [row.name for row in found.rows] == [*NAMES, "reverse, inside Numba"]
    row = found.rows[-1]
    assert (row.mode, row.passes, row.call) == ("reverse", 1, "tg.njit_grad(f)")
    assert row.disagreement < 1e-12 and row.peak > 160  # (a turn keeps a number)
    found = tg.compare(lambda x: x * x[3], np.linspace(0.1, 0.9, 5), budget=0.0, via="numba").row("reverse, inside Numba")
    assert (found.passes, found.call) == (5, 'tg.njit_jacobian(f, mode="reverse")')
    with pytest.raises(errors.OptionError, match="via='record!'"):
        tg.compare(f, 1.0, via="record!")
    with pytest.raises(errors.UnsupportedInNumbaError, match="fixed positions"):
        tg.compare(tg.sum, np.ones(2), via="numba", budget=0.0)


def test_the_table_of_a_loss():
    found = tg.compare(loss, np.linspace(0.1, 0.9, 100), budget=0.0)
    assert [row.name for row in found.rows] == NAMES
    assert (found.function, found.inputs, found.outputs, found.recommended) == ("loss", 100, 1, "reverse")
    assert [row.passes for row in found.rows] == [0, 7, 100, 1, 1]
    # sin, multiply, sum; each seed goes through 300 elements.
    assert {row.instructions for row in found.rows} == {3}
    assert [row.operations for row in found.rows[1:]] == [30000, 30000, 300, 300]
    for row in found.rows:
        assert row.seconds > 0 and row.first > 0 and row.peak > 0
        assert row.relative == pytest.approx(row.seconds / found.rows[0].seconds)
    assert all(row.disagreement < 1e-14 for row in found.rows[1:])
    text = str(found)
    for word in (*NAMES, "passes", "operations", "first call", "peak memory", "disagreement", found.reason):
        assert word in text


def test_the_table_of_a_curve():
    found = tg.compare(curve, 0.5, budget=0.0)
    assert (found.inputs, found.outputs, found.recommended) == (1, 1000, "forward")
    assert [row.passes for row in found.rows] == [0, 1, 1, 1000, 125]
    assert "1 pass up the tape for 1 input" in found.reason and "1000 passes for 1000 outputs" in found.reason


def test_without_kernel_there_is_no_line_of_it():
    cube = tg.primitive(lambda x, *others: x.__array__() ** 3)
    cube.defvjp(lambda g, ans, x, *others: (3.0 * x**2 * g, *[None] * 20))
    cube.defjvp(lambda t, ans, x, *others: 3.0 * x**2 * t[0])
    found = tg.compare(lambda x: np.sum(cube(x, *[x] * 20)), np.array([0.5, 1.0]), budget=0.0)
    assert [row.name for row in found.rows] == NAMES[:-1]


def test_two_runs_recommend_the_same_for_the_same_reason():
    first, second = (tg.compare(loss, np.linspace(0.1, 0.9, 30), budget=0.0) for _ in range(2))
    assert (first.recommended, first.reason) == (second.recommended, second.reason)
    assert first.forward_cost == second.forward_cost and first.reverse_cost == second.reverse_cost


def test_several_arguments_and_outputs_in_containers():
    def f(x, scale, y):
        return {"a": x * scale, "b": (np.sum(y) * x[0], scale)}

    found = tg.compare(f, np.ones(3), 2.0, np.ones((2, 2)), argnums=(0, 1, 2), budget=0.0)
    assert (found.inputs, found.outputs) == (8, 5)
    assert all(row.disagreement == 0.0 for row in found.rows[1:])


def test_float32_is_compared_by_its_own_rounding():
    x = np.linspace(0, 1, 90).astype(np.float32)
    found = tg.compare(lambda x: np.cumsum(np.sin(x) * np.exp(x)) / np.sum(np.sqrt(1 + x)), x, budget=0.0)
    assert 1e-9 < max(row.disagreement for row in found.rows[1:]) < 1e-5


def test_tensors_are_compared_by_their_values():
    x = tg.tensor([1.0, 2.0], requires_grad=True)
    assert tg.compare(loss, x, budget=0.0).inputs == 2
    assert x.grad is None


def test_derivatives_that_are_not_finite_agree():
    with np.errstate(all="ignore"):
        found = tg.compare(lambda x: np.sqrt(x), np.array([0.0, 1.0]), budget=0.0)
    assert found.rows[1].disagreement == 0.0


def test_a_function_that_changes_is_found_out():
    calls = itertools.count(1.0)
    with pytest.raises(tg.errors.CheckError, match="do not agree.*random"):
        tg.compare(lambda x: x * next(calls), np.ones(2), budget=0.0)


@pytest.fixture
def one_more_way():
    """Put a way before the others, for one test."""
    yield lambda make: WAYS.insert(0, Way("mine", "reverse", "none", make, lambda recording, prediction: (3, 5.0, 7)))
    del WAYS[0]


def test_one_more_way_is_one_more_entry(one_more_way):
    one_more_way(tg.jacrev)
    row = tg.compare(loss, np.ones(2), budget=0.0).row("mine")
    assert (row.passes, row.operations, row.disagreement) == (3, 5.0, 0.0)


def test_a_way_that_is_wrong_is_named(one_more_way):
    one_more_way(lambda f, argnums: lambda *args: 2.0 * tg.jacrev(f, argnums)(*args))
    with pytest.raises(tg.errors.CheckError, match="mine: 1.0e"):
        tg.compare(loss, np.ones(2), budget=0.0)


def test_as_data(tmp_path):
    found = tg.compare(loss, np.ones(4), budget=0.0)
    data = json.loads(found.to_json(tmp_path / "found.json"))
    assert data == found.to_dict() == json.loads((tmp_path / "found.json").read_text())
    assert data["rows"][0]["operations"] is None and data["rows"][3]["operations"] == 12
    assert data["recommended"] == "reverse" and data["reason"] == found.reason


# ---- memory ---------------------------------------------------------------------------------


def test_buffers_of_a_sweep_are_counted_as_they_are_made_and_freed():
    def f(x):
        for _ in range(10):
            x = np.sin(x) * 2.0
        return np.sum(x)

    recording = StoreWalk(f, (np.ones(1000),), (0,))
    # An instruction's own and its operand's.
    assert footprint(recording) == 2 * 8000


def test_operands_that_are_read_again_stay():
    def f(x):
        a = np.sin(x)
        return np.cos(a) * a

    recording = StoreWalk(f, (np.ones(50),), (0,))
    # The product, cos and sin together.
    assert footprint(recording) == 3 * 400
    assert footprint(StoreWalk(lambda x, y: x * y, (1.0, 2.0), (0, 1))) == 0


def test_the_tape_and_the_results_are_in_the_peak():
    small, large = (tg.compare(lambda x: x * x, np.ones(n), budget=0.0).rows for n in (20, 600))
    # A Jacobian of 600 x 600 doubles, and the tangents of a chunk.
    for few, many in zip(small[1:], large[1:]):
        chunk = 0 if many.name == "reverse, kernel" else 16
        assert many.peak > 600 * 600 * 8 + chunk * 600 * 8 > 10 * few.peak


# ---- scaling ----------------------------------------------------------------------------------


def layer(n, m):
    weights = np.cos(np.arange(m * n, dtype=float)).reshape(m, n)
    return lambda x: np.tanh(weights @ x), (np.linspace(0.1, 0.9, n),)


def test_scaling_along_inputs_and_outputs():
    found = tg.compare_scaling(layer, [600, 3, 200], budget=0.0)
    assert [(p.n, p.m) for p in found.points] == [(3, 200), (200, 200), (600, 200), (200, 3), (200, 600)]
    assert [(p.n, p.m) for p in found.along("n")] == [(3, 200), (200, 200), (600, 200)]
    assert [(p.n, p.m) for p in found.along("m")] == [(200, 3), (200, 200), (200, 600)]
    for axis in "nm":
        # Both modes do the same number of operations where inputs and outputs are equal in number.
        assert found.crossovers[axis]["operations"] == pytest.approx(200.0)
        assert 3 <= found.crossovers[axis]["predicted"] <= 600
    text = str(found)
    assert "Along n (m = 200), forward mode gives way to reverse mode; equal by operations at n = 200" in text
    assert "Along m (n = 200), reverse mode gives way to forward mode; equal by operations at m = 200" in text


def test_a_crossover_between_two_sizes_is_interpolated():
    def make(n):
        return layer(n, 20)

    found = tg.compare_scaling(make, [4, 100], budget=0.0)
    assert found.crossovers["n"]["operations"] == pytest.approx(20.0, rel=0.05)


def test_where_nothing_crosses():
    def make(n):
        return loss, (np.linspace(0.1, 0.9, n),)

    found = tg.compare_scaling(make, [10, 50], budget=0.0)
    assert found.crossovers["n"]["operations"] is found.crossovers["n"]["predicted"] is None
    assert "reverse mode is preferred throughout" in str(found)
    data = json.loads(found.to_json())
    assert [p["n"] for p in data["points"]] == [10, 50] and data["axes"] == ["n"]


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: 1, "takes 0"),
        (lambda n, m, k: 1, "takes 3"),
        (lambda n: loss, "must return a function and the tuple.*it returned function"),
        (lambda n: (loss, np.ones(n)), "it returned tuple"),
    ],
)
def test_what_is_no_maker(make, message):
    with pytest.raises(tg.errors.StructureError, match=message):
        tg.compare_scaling(make, [2], budget=0.0)


@pytest.mark.parametrize("sizes", [[], [0, 3]])
def test_sizes_are_positive(sizes):
    with pytest.raises(ValueError, match="positive"):
        tg.compare_scaling(layer, sizes)


# ---- pictures ------------------------------------------------------------------------------------


def test_pictures(tmp_path):
    pytest.importorskip("matplotlib")
    tg.compare(loss, np.ones(4), budget=0.0).plot(tmp_path / "one.png")
    assert (tmp_path / "one.png").read_bytes().startswith(b"\x89PNG")
    found = tg.compare_scaling(layer, [5, 40], budget=0.0)
    for measure in ("seconds", "operations"):
        found.plot(tmp_path / f"{measure}.svg", measure)
        drawn = (tmp_path / f"{measure}.svg").read_text()
        assert "<svg" in drawn
    assert "crossover" in drawn


def test_without_matplotlib_the_error_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r'pip install "tapegrad\[plot\]"') as caught:
        tg.compare(loss, np.ones(4), budget=0.0).plot(tmp_path / "one.png")
    assert isinstance(caught.value, errors.TapegradError)
    assert main(["compare", f"{ROOT / 'examples' / 'modes.py'}:many_to_one", "--plot", "x.png"]) == 2


# ---- the command -----------------------------------------------------------------------------------


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(
        "import numpy as np\n"
        "calls = [1.0]\n"
        "def plain(x):\n    return np.cumsum(x)\n"
        "def maker(n):\n    return (lambda x: x * x), (np.ones(n),)\n"
        "def random(x):\n    calls[0] += 1.0\n    return x * calls[0]\n"
        "def broken(x):\n    return x.nothing\n"
        "def leaves(x):\n    return float(x[0])\n"
    )
    return path


@pytest.mark.long
def test_the_command_in_a_process_of_its_own(tmp_path):
    pytest.importorskip("matplotlib")
    plot = tmp_path / "out.png"
    command = [sys.executable, "-m", "tapegrad", "compare", "examples/modes.py:rectangle"]
    ended = subprocess.run(
        [*command, "--sizes", "2,20,100", "--plot", str(plot)], cwd=ROOT, capture_output=True, text=True
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith("rectangle\n") and "Along m (n = 20)" in ended.stdout
    assert plot.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("name", ["many_to_one", "one_to_many", "bottleneck"])
def test_the_examples_compare(name, capsys):
    target = f"{ROOT / 'examples' / 'modes.py'}:{name}"
    assert main(["compare", target, "--sizes", "3,40", "--json", "-"]) == 0
    data = json.loads(capsys.readouterr().out)
    sizes = {"many_to_one": (40, 1), "one_to_many": (1, 40), "bottleneck": (40, 40)}[name]
    assert (data["points"][1]["inputs"], data["points"][1]["outputs"]) == sizes


def test_a_function_of_one_array_and_a_single_size(program, capsys, tmp_path):
    assert main(["compare", f"{program}:plain", "--sizes", "7", "--json", str(tmp_path / "a.json")]) == 0
    assert capsys.readouterr().out.startswith("plain: 7 inputs, 7 outputs")
    assert json.loads((tmp_path / "a.json").read_text())["inputs"] == 7
    assert main(["compare", f"{program}:maker", "--sizes", "3,5"]) == 0
    assert capsys.readouterr().out.startswith("maker\n")


@pytest.mark.parametrize(
    "target, sizes, code, message",
    [
        ("program.py:random", "4", 1, "do not agree"),
        ("program.py:broken", "4", 2, "nothing"),
        ("program.py:leaves", "4", 2, "float"),
        ("program.py:absent", "4", 2, "no function absent; it has broken, leaves, maker, plain, random"),
        ("nowhere.py:f", "4", 2, "there is no file"),
        ("program.py", "4", 2, "FILE.py:FUNCTION"),
        ("program.py:plain", "4,a", 2, "whole numbers"),
        ("program.py:plain", "0", 2, "whole numbers"),
    ],
)
def test_exit_codes(program, monkeypatch, capsys, target, sizes, code, message):
    monkeypatch.chdir(program.parent)
    assert main(["compare", target, "--sizes", sizes]) == code
    assert message in capsys.readouterr().err


def test_where_there_is_a_waist_there_is_a_line_for_the_product():
    def through(x):
        return np.exp(-np.sum(x * x) * np.linspace(0.0, 1.0, len(x)))

    found = tg.compare(through, np.linspace(0.0, 0.1, 600), budget=0.0)
    assert [row.name for row in found.rows] == [*NAMES, "product at a cut"] and found.recommended == "product"
    product, sweep = found.rows[-1], found.row("reverse, sweep")
    assert product.passes == 2 and product.operations < sweep.operations and product.disagreement < 1e-12
    assert found.product_cost < min(found.forward_cost, found.reverse_cost)
    assert "Use a product at a cut (tg.jacobian): 1 pass down from it and up for 1 number of the cut" in found.reason
    # With as many numbers in the middle as there are inputs there is none.
    assert tg.compare(lambda x: x * np.sum(x), np.ones(3), budget=0.0).product_cost is None


def test_pictures_of_what_there_is_at_all_sizes(tmp_path):
    pytest.importorskip("matplotlib")
    found = tg.compare_scaling(lambda n: (lambda x: np.sum(x) * np.ones(7), (np.ones(n),)), [1, 9], budget=0.0)
    assert [len(point.comparison.rows) for point in found.points] == [5, 6]
    found.plot(tmp_path / "some.svg")
    assert "product" not in (tmp_path / "some.svg").read_text()
