"""The site: every page of docs/ stands on a shelf, and shelves name no page that is not there.  `.ci/run` builds it, warnings as errors."""

import pathlib
import re

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
