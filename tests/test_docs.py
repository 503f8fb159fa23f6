"""Every Python block in docs/ runs, and prints what the page says."""

import doctest
import inspect
import re
import traceback
from pathlib import Path

import pytest

import tapegrad as tg
from tapegrad.__main__ import _parser
from tapegrad.array.functions import ELEMENTWISE
from tests.every import every

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs").glob("*.md"))
LONG = ("modes.md", "differential_equations.md")
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def without_fences(page):
    """The page with everything but its Python blocks blanked out, so that line numbers stay."""
    text = page.read_text(encoding="utf-8")
    kept = [""] * len(text.splitlines())
    for block in BLOCK.finditer(text):
        first = text[: block.start(1)].count("\n")
        for k, line in enumerate(block.group(1).splitlines()):
            kept[first + k] = line
    return "\n".join(kept) + "\n"


@pytest.fixture
def notes_behind_messages(monkeypatch):
    """`doctest` of early Python 3.11 looks only at the last line of an exception, which is a note where there are notes."""
    lines = traceback.format_exception_only
    monkeypatch.setattr(traceback, "format_exception_only", lambda *exception: ["".join(lines(*exception))])


@pytest.mark.usefixtures("notes_behind_messages")
@pytest.mark.parametrize("page", [pytest.param(page, marks=[pytest.mark.long] if page.name in LONG else []) for page in PAGES], ids=lambda page: page.name)
def test_blocks_run_and_print_what_is_shown(page):
    for library in {"tables.md": ["pandas"], "interop.md": ["torch", "jax"]}.get(page.name, []):
        pytest.importorskip(library)
    test = doctest.DocTestParser().get_doctest(without_fences(page), {}, page.name, str(page), 0)
    if not test.examples:
        assert page.name == "index.md", "a page without examples"
        return
    # Docstrings leave out digits and ends of messages.
    assert shown_otherwise(test, doctest.ELLIPSIS if page.name == "reference.md" else 0) == ""


def shown_otherwise(test, flags):
    """What of a test's examples does not print what it shows; empty if all do."""
    output = []
    doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | flags, verbose=False).run(test, out=output.append)
    return "".join(output)


@every("name", [name for name in tg.__all__ if name in ELEMENTWISE])
def test_an_example_of_an_element_wise_function_gives_what_it_shows(name):
    """(Those of other functions and classes stand on the page `reference.md`; `tests/test_namespace.py` holds that each has one.)"""
    test = doctest.DocTestParser().get_doctest(inspect.getdoc(getattr(tg, name)), {}, name, None, 0)
    assert len(test.examples) == 2 and f"tg.{name}" in test.examples[1].source
    assert shown_otherwise(test, doctest.ELLIPSIS) == ""


@every("page", PAGES)
def test_every_block_is_python_that_is_run_and_shows_something(page):
    text = page.read_text(encoding="utf-8")
    assert set(re.findall(r"^```(.*)$", text, re.MULTILINE)) <= {"python", ""}, "a block in another language would not be run"
    assert len(re.findall(r"^```", text, re.MULTILINE)) == 2 * len(BLOCK.findall(text)), "a block that would not be run"
    for number, block in enumerate(BLOCK.findall(text)):
        assert block.startswith(">>>"), "a block that would not be run"
        examples = doctest.DocTestParser().get_examples(block)
        # The first block of a page may do no more than import and define.
        assert number == 0 or any(e.want for e in examples), f"a block that compares nothing:\n{block}"


def headings(page):
    """The anchors of a page, as they are made from its headings."""
    found = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for text in found}


TEXTS = [*PAGES, ROOT / "README.md", ROOT / "CONTRIBUTING.md"]


@every("page", TEXTS)
def test_links_lead_somewhere(page):
    for target, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", page.read_text(encoding="utf-8")):
        other = page.parent / target if target else page
        assert other.exists(), f"{page.name} links to {target}"
        assert not anchor or anchor in headings(other), f"{page.name} links to {target}#{anchor}"


@every("page", TEXTS)
def test_commands_exist(page):
    text = page.read_text(encoding="utf-8")
    commands = next(a.choices for a in _parser()._actions if isinstance(a.choices, dict))
    assert set(re.findall(r"python -m tapegrad (\w+)", text)) <= set(commands)
    for name in re.findall(r"python -m benchmarks[. ]([a-z_]+)", text):
        assert any((ROOT / "benchmarks" / path).exists() for path in (f"{name}.py", f"{name}/__init__.py")), name


def test_every_class_of_errors_is_explained():
    from tapegrad.common import errors

    text = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    explained = set(re.findall(r"^### (\w+)$", text, re.MULTILINE))
    classes = {name for name, thing in vars(errors).items() if isinstance(thing, type) and issubclass(thing, errors.TapegradError)}
    assert explained == classes - {"TapegradError"}
    for part in re.split(r"^### ", text, flags=re.MULTILINE)[1:]:
        name = part.split("\n")[0]
        assert f"errors.{name}: " in part and "Right: " in part, f"{name}: a program that raises it, and one that does not"


def test_the_index_names_every_page():
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    assert [page.name for page in PAGES if page.name != "index.md" and f"]({page.name})" not in index] == []
