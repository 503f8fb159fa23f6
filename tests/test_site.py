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



def test_every_program_has_a_picture_and_a_time():
    names = [path.stem for path in PROGRAMS]
    assert sorted(path.stem for path in (DOCS / "gallery").glob("*.png")) == names
    assert sorted(json.loads((DOCS / "gallery" / "seconds.json").read_text())) == names
    assert all(path.stat().st_size < 100_000 for path in (DOCS / "gallery").glob("*.png"))


def test_every_program_has_what_the_gallery_asks_of_it():
    for path in PROGRAMS:
        source = path.read_text(encoding="utf-8")
        title, line = ast.get_docstring(ast.parse(source)).splitlines()[:2]
        assert line == "=" * len(title), path.name
        assert f'# sphinx_gallery_thumbnail_path = "gallery/{path.stem}.png"' in source
        assert '"--plot"' in source, "the option that `gallery.py` and notebooks use"


@pytest.mark.parametrize("name", ["graphs", "peak_fit"])
def test_a_notebook_runs(name, tmp_path):
    nbformat, preprocessors = pytest.importorskip("nbformat"), pytest.importorskip("nbconvert.preprocessors")
    pytest.importorskip("matplotlib"), pytest.importorskip("ipykernel")
    gallery, parser = pytest.importorskip("sphinx_gallery.gen_gallery"), pytest.importorskip("sphinx_gallery.py_source_parser")
    notebook = pytest.importorskip("sphinx_gallery.notebook")
    spec = importlib.util.spec_from_file_location("conf", DOCS / "conf.py")
    conf = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(conf)
    for file in (DOCS.parent / "examples").glob("*.dat"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    _, blocks = parser.split_code_and_text_blocks(str(DOCS.parent / "examples" / f"{name}.py"))
    made = notebook.jupyter_notebook(blocks, {**gallery.DEFAULT_GALLERY_CONF, **conf.sphinx_gallery_conf}, str(tmp_path))
    preprocessors.ExecutePreprocessor(timeout=300).preprocess(nbformat.reads(json.dumps(made), 4), {"metadata": {"path": str(tmp_path)}})
    assert list(tmp_path.glob("*.png"))
