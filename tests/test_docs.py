"""Every Python block in docs/ runs, and prints what the page says."""

import doctest
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs").glob("*.md"))
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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_blocks_run_and_print_what_is_shown(page):
    flags = doctest.NORMALIZE_WHITESPACE | doctest.IGNORE_EXCEPTION_DETAIL * 0
    test = doctest.DocTestParser().get_doctest(without_fences(page), {}, page.name, str(page), 0)
    if not test.examples:
        assert page.name == "index.md", "a page without examples"
        return
    output = []
    doctest.DocTestRunner(optionflags=flags, verbose=False).run(test, out=output.append)
    assert not output, "".join(output)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_blocks_show_only_examples(page):
    for block in BLOCK.findall(page.read_text(encoding="utf-8")):
        assert block.startswith(">>>"), "a block that would not be run"


@pytest.mark.parametrize("page", [*PAGES, ROOT / "README.md", ROOT / "CONTRIBUTING.md"], ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_every_class_of_errors_is_explained():
    from tapegrad import errors

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
