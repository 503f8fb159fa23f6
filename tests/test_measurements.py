"""Numbers in the README are those of the results of the benchmarks."""

from pathlib import Path

import pytest

from benchmarks import in_docs

ROOT = Path(__file__).parents[1]
RESULTS = (ROOT / "benchmarks" / "results" / "RESULTS.md").read_text(encoding="utf-8")


def test_the_readme_has_the_numbers_of_the_results():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert in_docs.replaced(readme, RESULTS) == readme, "run python -m benchmarks.in_docs"


def test_every_promise_that_was_missed_is_shown():
    missed = [line.split(" | ")[0].removeprefix("| ") for line in RESULTS.splitlines() if line.endswith("| FAIL |")]
    text = in_docs.table(RESULTS)
    assert [what for what in missed if f"| {what} | " not in text] == []
    assert text.count("**missed**") == len(missed)


def test_a_number_that_changes_changes_the_page():
    what = in_docs.SHOWN[0]
    (line,) = [line for line in RESULTS.splitlines() if line.startswith(f"| {what} |")]
    cells = line.split(" | ")
    changed = RESULTS.replace(line, " | ".join([*cells[:2], "0.5x", "FAIL |"]))
    assert f"| {what} | 0.5x | {cells[1].partition(' (')[0]} | **missed** |" in in_docs.table(changed)


def test_a_row_that_is_gone_is_named():
    with pytest.raises(LookupError, match=in_docs.SHOWN[0]):
        in_docs.table(RESULTS.replace(in_docs.SHOWN[0], "something else"))
    with pytest.raises(LookupError, match="marks"):
        in_docs.replaced("a page", RESULTS)
