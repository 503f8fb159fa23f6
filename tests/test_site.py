"""The site: every page of docs/ stands on a shelf, and shelves name no page that is not there.  `.ci/run` builds it, warnings as errors."""

import ast
import importlib.util
import json
import pathlib
import re

import pytest

DOCS = pathlib.Path(__file__).resolve().parents[1] / "docs"
SHELVES = sorted((DOCS / "shelves").glob("*.md"))


def listed(text):
    """The pages that the table of contents of a shelf names."""
    return [line for block in re.findall(r"```\{toctree\}\n(.*?)```", text, re.DOTALL) for line in block.split("\n\n", 1)[1].split()]


def test_every_page_stands_on_one_shelf():
    pages = [page.removeprefix("../") for shelf in SHELVES if shelf.name != "front.md" for page in listed(shelf.read_text(encoding="utf-8"))]
    mine = [page for page in pages if not page.startswith("made/")]
    # (The reference is made into a page for each function.)
    assert sorted(mine) == sorted({path.stem for path in DOCS.glob("*.md")} - {"index", "reference"})


def test_links_of_shelves_lead_somewhere():
    for shelf in SHELVES:
        for target in re.findall(r"\]\(([^)]+)\)", shelf.read_text(encoding="utf-8")):
            assert target.startswith("../made/") or (shelf.parent / target).exists(), (shelf.name, target)


# ---- the gallery ---------------------------------------------------------------------------------------

PROGRAMS = sorted((DOCS.parent / "examples").glob("*.py"))


@pytest.fixture(scope="module")
def conf():
    """The module ``docs/conf.py``."""
    spec = importlib.util.spec_from_file_location("conf", DOCS / "conf.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_program_has_a_picture_and_a_time():
    names = [path.stem for path in PROGRAMS]
    assert sorted(path.stem for path in (DOCS / "gallery").glob("*.png")) == names
    assert sorted(json.loads((DOCS / "gallery" / "seconds.json").read_text())) == names
    assert all(path.stat().st_size < 100_000 for path in (DOCS / "gallery").glob("*.png"))


def test_a_notebook_defines_what_its_program_does(conf):
    for path in PROGRAMS:
        source = path.read_text(encoding="utf-8")
        text, defined, run = conf.notebook(path.stem, source)["cells"]
        program, cell = ast.parse(source).body, ast.parse(defined["source"]).body
        kept = [ast.dump(node) for node in program[1:] if not isinstance(node, ast.If)]
        assert [ast.dump(node) for node in cell][-len(kept) :] == kept, path.name
        ast.parse(run["source"])
        assert text["source"].startswith(ast.get_docstring(ast.parse(source)).splitlines()[0])


@pytest.mark.parametrize("name", ["graphs", "peak_fit"])
def test_a_notebook_runs(conf, name, tmp_path):
    nbformat, preprocessors = pytest.importorskip("nbformat"), pytest.importorskip("nbconvert.preprocessors")
    pytest.importorskip("matplotlib"), pytest.importorskip("ipykernel")
    for file in (DOCS.parent / "examples").glob("*.dat"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    made = nbformat.reads(json.dumps(conf.notebook(name, (DOCS.parent / "examples" / f"{name}.py").read_text(encoding="utf-8"))), 4)
    preprocessors.ExecutePreprocessor(timeout=300).preprocess(made, {"metadata": {"path": str(tmp_path)}})
    assert list(tmp_path.glob("*.png"))
