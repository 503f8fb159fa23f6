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
    assert test.examples
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
