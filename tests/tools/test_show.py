"""`tg.show`: at every step of a sweep the page's numbers are the tape's, and going back restores each."""

import json
import pathlib
import shutil
import subprocess

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.errors import NonScalarOutputError, OptionError, SeedShapeError, StructureError
from tapegrad.tools.showing import program as programs
from tapegrad.tools.showing.page import Page

WALK = pathlib.Path(programs.__file__).with_name("walk.js")
#: Steps on to the end, one step back and on again at each; prints the snapshots, and whether each was restored.
STEPS = """
const { Walk, regions } = require(process.argv[1]);
const given = JSON.parse(require("fs").readFileSync(0, "utf-8"));
const { data } = given;
const shot = (w) => JSON.stringify([w.values, w.tangents, w.adjoints, w.cleared, w.counts, w.row, w.operand, w.said]);
const walk = new Walk(data, given.view, given.retain);
if (given.fast) {
  walk.seek(walk.length);
  const last = walk.adjoints[0];
  walk.seek(0);
  const empty = walk.values.every((v) => v === null) && walk.adjoints.every((a) => a === null);
  console.log(JSON.stringify({ length: walk.length, last, empty }));
  process.exit(0);
}
const shots = [shot(walk)];
let restored = true;
while (walk.next()) {
  const here = shot(walk);
  walk.back();
  restored = restored && shot(walk) === shots[shots.length - 1];
  walk.next();
  restored = restored && shot(walk) === here;
  shots.push(here);
}
for (let k = walk.length; k >= 0; k -= 7) { walk.seek(k); restored = restored && shot(walk) === shots[k]; }
walk.seek(walk.length);
console.log(JSON.stringify({ restored, length: walk.length, shots: given.all ? shots.map((s) => JSON.parse(s)) : [JSON.parse(shot(walk))], rows: data.rows, regions: regions(data.rows) }));
"""


def walked(page, view, retain=False, every=False, fast=False):
    """What `walk.js` knows after each step (or after the last)."""
    node = shutil.which("node")
    given = json.dumps({"data": page.data, "view": view, "retain": retain, "all": every, "fast": fast})
    if node is not None:
        ended = subprocess.run([node, "-e", STEPS, str(WALK)], input=given, capture_output=True, text=True)
        assert ended.returncode == 0, ended.stderr
        return json.loads(ended.stdout)
    quickjs = pytest.importorskip("quickjs")
    context, printed = quickjs.Context(), []
    context.add_callable("print_", printed.append)
    context.eval("var module = {}; var process = {argv: [0, 0]}; var console = {log: print_};" + WALK.read_text() + "; function require(name) { return name === 'fs' ? {readFileSync: () => given} : module.exports; }")
    context.set("given", given)
    context.eval("(function () {" + STEPS.replace("const { Walk, regions } = require(process.argv[1]);", "") + "})()")
    return json.loads(printed[0])


def branch(x, y):
    a = np.sin(x) * y
    if a > 0.5:
        a = a * x
    return a + x


def rolled(x):
    y = 1.0
    for _ in range(9):
        y = y - 0.1 * x * y
    return y


def in_place(x):
    y = tg.zeros(3)
    y[0] = x
    y[1] = y[0] * x
    y += x
    return np.sum(y * y)


def scanned(x):
    return tg.scan(lambda c, k: (c * x + k, None), 1.0, np.arange(4.0))[0]


def network(w, x):
    return np.sum(np.tanh(w @ x) ** 2)


PROGRAMS = {
    "branch": (branch, 0.7, 2.0), "rolled": (rolled, 1.5), "in place": (in_place, 0.5), "scan": (scanned, 0.5), "arrays": (network, np.arange(6.0).reshape(2, 3) / 10.0, np.ones(3)),
    "second derivative": (tg.grad(lambda x: x**3 * np.sin(x)), 0.5), "product with a Hessian": (lambda x: np.sum(tg.grad(lambda x: np.sum(np.sin(x) * x))(x) * np.array([1.0, 2.0])), np.array([0.3, 0.4])),
    "where": (lambda x: np.where(x > 1.0, x * x, 3.0 * x), 0.4), "the same operand twice": (lambda x: x * x * x, 1.3), "large arrays": (lambda x: np.sum(np.sin(x) * x), np.linspace(0.1, 1.0, 30)),
}  # fmt: skip


def gradient(f, args):
    found = tg.grad(f, argnums=tuple(range(len(args))))(*args)
    return [np.asarray(g) for g in found]


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_numbers_of_a_sweep_are_those_of_the_tape(name):
    f, *args = PROGRAMS[name]
    page = tg.show(f, *args)
    done = walked(page, "reverse")
    values, _, adjoints, cleared, *_ = done["shots"][-1]
    assert done["restored"] and np.all([(a is None) == (b is None) for a, b in zip(done["rows"], page.data["rows"])])
    # The text of a page is what the data say.
    assert [row["operation"] for row in done["rows"]] == [row["operation"] for row in page.data["rows"]]
    assert values == [row["value"] if not row["guard"] else "holds" for row in page.data["rows"]]
    leaves = [k for k, row in enumerate(page.data["rows"]) if row["name"] and " " not in row["operation"] and not row["operands"]]
    expected = gradient(f, args)
    assert len(leaves) == len(expected)
    for leaf, g in zip(sorted(leaves, key=lambda k: int(page.data["rows"][k]["name"][1:])), expected):
        if g.size <= programs.WRITTEN_OUT:
            np.testing.assert_allclose(np.reshape(adjoints[leaf], -1), g.reshape(-1), rtol=1e-13)
    assert any(cleared) and not any(walked(page, "reverse", retain=True)["shots"][-1][3])
    # Every slot's adjoint is that of the tape's own pass.
    run = programs.watched(f, args)
    entries = programs.listing.entries_of(run.store)
    found = programs.listing.adjoints_of(entries, run.store.leaf_at(), {programs._result(f, run, None)[0]: 1.0})
    rows = {int(row["name"][1:]): k for k, row in enumerate(page.data["rows"]) if row["name"]}
    for slot, g in found.items():
        if np.size(g) <= programs.WRITTEN_OUT and adjoints[rows[slot]] is not None:
            np.testing.assert_allclose(np.reshape(adjoints[rows[slot]], -1), np.reshape(g, -1), rtol=1e-13, atol=1e-300)


@pytest.mark.parametrize("name", PROGRAMS)
def test_forward_mode_carries_the_tangents_of_dual_numbers(name):
    f, *args = PROGRAMS[name]
    page = tg.show(f, *args)
    done = walked(page, "tangent")
    tangents = [np.zeros(np.shape(a)) for a in args]
    tangents[0].reshape(-1)[:1] = 1.0
    _, expected = tg.jvp(f, tuple(args), tuple(t if t.ndim else float(t) for t in tangents))
    assert done["restored"]
    np.testing.assert_allclose(done["shots"][-1][1][page.data["result"]], expected, rtol=1e-12)


def test_each_contribution_is_one_step():
    page = tg.show(lambda x: x * x, 3.0)
    shots = walked(page, "reverse", every=True)["shots"]
    said = [shot[-1] for shot in shots]
    assert said == [
        "", "x gives 3", "multiply %1, %1 gives 9", "the seed: the adjoint of the result %2 is 1", "the adjoint of %1 += 3 * 1 = 3, which makes it 3",
        "the adjoint of %1 += 3 * 1 = 3, which makes it 6", "the sweep has passed %2: what the tape kept for it is cleared",
        "the derivatives of %2: with respect to x 6",
    ]  # fmt: skip
    assert [shot[2] for shot in shots][3:6] == [[None, 1.0], [3.0, 1.0], [6.0, 1.0]]


def test_counts_show_which_mode_is_cheaper():
    many = walked(tg.show(network, np.ones((2, 3)), np.ones(3)), "both")["shots"][-1][4]
    assert many["forward"] > 3 * many["reverse"]
    page = tg.show(lambda x: np.stack([x * k for k in range(20)]), 2.0, output=3)
    few = walked(page, "both")["shots"][-1][4]
    assert page.data["n"] == 1 and page.data["m"] == 20 and few["reverse"] > few["forward"]


@pytest.mark.parametrize("name", ["branch", "rolled", "in place", "arrays", "where", "the same operand twice", "large arrays"])
def test_operations_are_counted_as_by_compare(name):
    f, *args = PROGRAMS[name]
    counts = walked(tg.show(f, *args), "both")["shots"][-1][4]
    rows = tg.compare(f, *args, argnums=tuple(range(len(args))), budget=0.0).rows
    assert counts == {row.mode: row.operations for row in rows if row.mode in counts}


def test_the_last_step_says_the_derivatives():
    page = tg.show(lambda x, y, unused: x * y, 3.0, 2.0, 1.0, direction=(1.0, 10.0, 0.0))
    said = {view: walked(page, view)["shots"][-1][-1] for view in ("forward", "reverse", "tangent", "both")}
    assert said == {
        "forward": "multiply %1, %2 gives 6", "reverse": "the derivatives of %3: with respect to x 2, with respect to y 3",
        "tangent": "the derivatives of %3: along direction= 32", "both": "the derivatives of %3: with respect to x 2, with respect to y 3, along direction= 32",
    }  # fmt: skip


def test_a_replay_stops_at_the_decision_that_comes_out_otherwise():
    page = tg.show(branch, 0.7, 2.0, replay=(0.1, 2.0))
    done = walked(page, "replay")
    values, *_, said = done["shots"][-1]
    assert values == [0.1, np.sin(0.1), 2.0, np.sin(0.1) * 2.0, "other", None, None] and said.startswith("%4 > 0.5 is True: it comes out otherwise here")
    whole = walked(tg.show(branch, 0.7, 2.0, replay=(0.8, 2.0)), "replay")["shots"][-1][0]
    assert whole[-1] == branch(0.8, 2.0)


def test_iterations_are_one_box_and_lines_are_those_of_the_source():
    page = tg.show(rolled, 1.5)
    (region,) = walked(page, "forward")["regions"]
    assert region["period"] == 3 and region["count"] >= 8
    (source,) = page.data["sources"]
    lines = dict(source["lines"])
    assert all("y = y - 0.1 * x * y" in lines[row["line"][1]] for row in page.data["rows"] if row["line"])
    scan = tg.show(lambda x: tg.scan(lambda c, k: (c * x + k, None), 1.0, np.arange(50.0))[0], 0.5)
    assert walked(scan, "forward")["regions"][0]["count"] >= 48


def test_arguments_stay_as_they_are():
    x = tg.tensor(np.ones(2), requires_grad=True)
    assert tg.show(lambda x: np.sum(x * x), x).data["title"] == "<lambda> at [1.0, 1.0]"
    assert tg.show(np.sin, np.float32(0.5)).data["rows"][-1]["value"] == float(np.sin(np.float32(0.5)))


def test_what_cannot_be_shown():
    with pytest.raises(NonScalarOutputError, match="returns 2 numbers; say which one reverse mode starts from: output=0 to 1"):
        tg.show(lambda x: np.stack([x, x * x]), 1.0)
    with pytest.raises(OptionError, match="output=2: .* returns 2 numbers; give 0 to 1"):
        tg.show(lambda x: np.stack([x, x * x]), 1.0, output=2)
    with pytest.raises(StructureError, match="no argument is a float"):
        tg.show(lambda n: n, 3)
    with pytest.raises(StructureError, match="no result of .* depends on an argument"):
        tg.show(lambda x: 3.0, 1.0)
    with pytest.raises(SeedShapeError, match=r"direction= has the shapes \(2,\)"):
        tg.show(np.sin, 1.0, direction=[1.0, 2.0])
    with pytest.raises(OptionError, match="records more than 100,000 instructions; call it with fewer iterations or data"):
        tg.show(lambda x: np.sum(np.stack([x * k for k in range(100_001)])), 1.0)


def test_the_file_needs_nothing_else(tmp_path):
    page = tg.show(lambda x: np.sin(x), 0.5, path=tmp_path / "sweep.html")
    text = (tmp_path / "sweep.html").read_text(encoding="utf-8")
    assert text == page.html and "http" not in text.replace("http://www.w3.org", "") and "<link" not in text and "src=" not in text
    assert page._repr_html_().startswith("<iframe srcdoc=") and repr(page).startswith("Page(")
    assert isinstance(page, Page) and text.count("</script>") == 3


@pytest.mark.long
def test_a_hundred_thousand_instructions_stay_below_ten_megabytes():
    def long_loop(x):
        y = 1.0
        for _ in range(33_000):
            y = y - 0.001 * x * y
        return y

    page = tg.show(long_loop, 1.5)
    assert len(page.html) < 10_000_000
    done = walked(page, "reverse", fast=True)
    assert done["length"] > 300_000 and done["empty"] and np.isclose(done["last"], tg.grad(long_loop)(1.5), rtol=1e-4)


@pytest.mark.long
def test_in_a_browser(tmp_path):
    browser = shutil.which("chromium") or shutil.which("google-chrome") or pytest.skip("there is no browser")
    for name, (f, *args) in PROGRAMS.items():
        page = tg.show(f, *args, path=tmp_path / "sweep.html")
        shots = walked(page, "reverse", every=True)["shots"]
        for step in {0, 1, len(shots) // 2, len(shots) - 1}:
            ended = subprocess.run(
                [browser, "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=2000", "--dump-dom", f"file://{tmp_path}/sweep.html#reverse,{step}"], capture_output=True, text=True, timeout=60
            )
            said = shots[step][-1] or "Step with the arrow keys, the buttons or the slider."
            assert f"step {step} of {len(shots) - 1}" in ended.stdout and said.replace(">", "&gt;").replace("<", "&lt;") in ended.stdout, (name, step)
