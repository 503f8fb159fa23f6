"""What the interpreter's prompt and a notebook show of what the library returns."""

import base64
import pathlib
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
import zlib
from html import escape

import numpy as np
import pytest

import tapegrad as tg


def f(x):
    return np.sum(np.sin(x) * x)


def test_transformed_functions_and_their_statistics():
    g = tg.jit(tg.grad(f))
    assert repr(tg.grad(f)).startswith(f"<Grad of f ({__file__}:") and repr(g).startswith("<tg.jit of Grad of f (")
    g(np.ones(3))
    assert repr(g.stats()) == str(g.stats()) and str(g.stats()) in g.stats()._repr_html_()
    for report in (tg.check(np.sin, 1.0), tg.compare(np.sin, 1.0, budget=0.0), tg.explain_jumps(abs, 0.05), tg.explain_zero(np.floor, 1.5)):
        assert repr(report) == str(report) and escape(str(report)) in report._repr_html_()


def test_a_tensor_knows_its_tape():
    x = tg.tensor(2.0, requires_grad=True)
    y = np.sin(x) * x * x
    assert x.tape is None and tg.tensor(1.0).tape is None
    assert len(y.tape) >= 3 and "multiply" in str(y.tape)
    table = y.tape.trace(y)
    assert repr(table) == str(table) and table._repr_html_().startswith("<pre style=") and table.splitlines()[-1].endswith("1")


def test_a_drawing_of_a_result_has_its_adjoints_and_partials(tmp_path):
    x, other = tg.tensor(2.0, requires_grad=True), tg.tensor(3.0, requires_grad=True)
    with tg.Tape() as tape:
        y = np.sin(x) * x
        tape_of_other = other * 2.0
    text = tape.draw(y, tmp_path / "y.svg")
    assert (tmp_path / "y.svg").read_text() == text == text._repr_html_()
    texts = [element.text for element in ET.fromstring(text).iter("{http://www.w3.org/2000/svg}text")]
    partials = [t for t in texts if t in ("2", "0.909297", "-0.416147")]
    assert sorted(partials) == ["-0.416147", "0.909297", "2"] and not any("3, adjoint" in t for t in texts)
    assert f"2, adjoint {float(tg.grad(lambda x: np.sin(x) * x)(2.0)):.6g}" in texts
    assert "leaf other" in tape.draw() and tape_of_other is not None
    assert tape.draw(str(tmp_path / "all.svg")) == pathlib.Path(tmp_path / "all.svg").read_text() == tape.draw()


def test_pictures_of_comparisons_are_returned():
    pytest.importorskip("matplotlib")
    comparison = tg.compare(f, np.ones(4), budget=0.05)
    assert comparison.function == "f" and "so times are mostly those of a call: compare operations." in str(comparison)
    made = comparison.plot()
    assert made.get_suptitle() == "f of 4 inputs with 1 output: use reverse mode" and [axes.get_xlabel() for axes in made.axes] == ["scalar operations", "time in seconds"]
    scaling = tg.compare_scaling(lambda n: (f, (np.ones(n),)), [2, 8, 32], budget=0.05).plot(measure="operations")
    (axes,) = scaling.axes
    assert axes.get_title() == "the function: no crossover from n = 2 to 32" and [t.get_text() for t in axes.texts][0].startswith(" ~ n^")
    assert [t.get_text() for t in axes.get_xticklabels()] == ["2", "8", "32"]


def test_explanations_have_no_marks_of_tests(capsys):
    tg.errors.GuardError.explain()
    assert "doctest" not in capsys.readouterr().out


def test_lines_of_cells_are_named_as_such():
    pytest.importorskip("IPython")
    program = "from IPython.core.interactiveshell import InteractiveShell as S; s = S.instance()\n" + "".join(
        f"s.run_cell({cell!r}, store_history=True)\n"
        for cell in ("import numpy as np, tapegrad as tg", "x = tg.tensor(2.0, requires_grad=True)\ny = np.sin(x)\nprint(y.tape)", "print(tg.grad(lambda x: x))")
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "cell [2], line 2" in ended.stdout and "(cell [3], line 1)" in ended.stdout, ended.stdout + ended.stderr


def test_the_lecture_runs_and_its_pictures_are_there(tmp_path):
    nbformat, preprocessors = pytest.importorskip("nbformat"), pytest.importorskip("nbconvert.preprocessors")
    notebook = nbformat.read(pathlib.Path(__file__).parents[2] / "examples" / "lecture.ipynb", as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells)
    preprocessors.ExecutePreprocessor(timeout=300, kernel_name="python3").preprocess(notebook, {"metadata": {"path": str(tmp_path)}})
    shown = [output.data for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs if "data" in output]
    pages = [data["text/html"] for data in shown if "<iframe" in data.get("text/html", "")]
    assert len(pages) == 2 and sum("<svg" in data.get("text/html", "") for data in shown) >= 2 and sum("image/png" in data for data in shown) == 1
    assert "54" in str([data for data in shown if data.get("text/plain") == "tensor(54.)"])
    data = re.search("id=&quot;data&quot;&gt;(.+?)&lt;", pages[0])[1]
    assert b"cell [" in zlib.decompress(base64.b64decode(data))
