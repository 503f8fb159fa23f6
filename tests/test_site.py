"""The site: every page of docs/ stands on a shelf, and shelves name no page that is not there.  `.ci/run` builds it, warnings as errors."""

import ast
import importlib.util
import json
import pathlib
import re
import zlib

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


def test_every_program_has_what_the_gallery_asks_of_it():
    for path in PROGRAMS:
        source = path.read_text(encoding="utf-8")
        title, line = ast.get_docstring(ast.parse(source)).splitlines()[:2]
        assert line == "=" * len(title), path.name
        assert f'# sphinx_gallery_thumbnail_path = "gallery/{path.stem}.png"' in source
        assert '"--plot"' in source, "the option that `gallery.py` and notebooks use"


@pytest.mark.parametrize("name", ["graphs", "peak_fit"])
def test_a_notebook_runs(conf, name, tmp_path):
    nbformat, preprocessors = pytest.importorskip("nbformat"), pytest.importorskip("nbconvert.preprocessors")
    pytest.importorskip("matplotlib"), pytest.importorskip("ipykernel")
    gallery, parser = pytest.importorskip("sphinx_gallery.gen_gallery"), pytest.importorskip("sphinx_gallery.py_source_parser")
    notebook = pytest.importorskip("sphinx_gallery.notebook")
    for file in (DOCS.parent / "examples").glob("*.dat"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    _, blocks = parser.split_code_and_text_blocks(str(DOCS.parent / "examples" / f"{name}.py"))
    made = notebook.jupyter_notebook(blocks, {**gallery.DEFAULT_GALLERY_CONF, **conf.sphinx_gallery_conf}, str(tmp_path))
    preprocessors.ExecutePreprocessor(timeout=300).preprocess(nbformat.reads(json.dumps(made), 4), {"metadata": {"path": str(tmp_path)}})
    assert list(tmp_path.glob("*.png"))


# ---- names of NumPy, SciPy and Numba, and their addresses ----------------------------------------------


@pytest.fixture(scope="module")
def addresses(conf):
    """What the inventories name, each with its address."""
    made = {}
    for site, file in conf.intersphinx_mapping.values():
        first, _, _, _, body = (DOCS / file).read_bytes().split(b"\n", 4)
        assert first == b"# Sphinx inventory version 2"
        for line in zlib.decompress(body).decode().splitlines():
            name, address = re.match(r"(.+?) (?:py:\w+|std:term) -?\d+ (\S+) ", line).groups()
            made[name] = site + re.sub(r"\$$", lambda _, name=name: name, address)
    return made


@pytest.mark.parametrize(
    "name, address",
    [
        ("numpy.where", "numpy.org/doc/stable/reference/generated/numpy.where.html"),
        ("numpy.linalg.solve", "numpy.org/doc/stable/reference/generated/numpy.linalg.solve.html"),
        ("numpy.ndarray", "numpy.org/doc/stable/reference/generated/numpy.ndarray.html"),
        ("numpy.float64", "numpy.org/doc/stable/reference/arrays.scalars.html"),
        ("numpy.random.Generator", "numpy.org/doc/stable/reference/random/generator.html"),
        ("scipy.integrate.solve_ivp", "docs.scipy.org/doc/scipy/reference/generated/scipy.integrate.solve_ivp.html"),
        ("scipy.optimize.OptimizeResult", "docs.scipy.org/doc/scipy/reference/generated/scipy.optimize.OptimizeResult.html"),
        ("scipy.special.gammaln", "docs.scipy.org/doc/scipy/reference/generated/scipy.special.gammaln.html"),
        ("numba.jit", "numba.readthedocs.io/en/stable/reference/jit-compilation.html"),
    ],
)
def test_inventories_know_the_address_of(addresses, name, address):
    assert addresses[name] == f"https://{address}#{name}"


@pytest.mark.parametrize(
    "code, name",
    [
        ("np.linalg.solve", "numpy.linalg.solve"),
        ("scipy.optimize.minimize()", "scipy.optimize.minimize"),
        ("np.add.at", "numpy.ufunc.at"),
        ("np.linalg.outer", "numpy.linalg.outer"),
        ("@njit", "numba.jit"),
    ],
)
def test_code_in_a_sentence_leads_to_the_name_it_is(conf, addresses, code, name):
    assert conf.original(code) == name and name in addresses


@pytest.mark.parametrize("code", ["np.sum(x)", "tg.sum", "numpy", "x.np.sum", "njit_grad", "np.float64 | None"])
def test_other_code_stays_as_it_is(conf, code):
    assert conf.original(code) is None
