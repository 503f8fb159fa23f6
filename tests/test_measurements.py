"""Measured numbers in the README and in docs/ are those of the results of the benchmarks, and all of them are marked."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import in_docs, report
from benchmarks.plain_and_jit import NOTICED, UNNOTICED
from benchmarks.registry import MODULES
from benchmarks.timing import Time
from tests.every import every

ROOT = Path(__file__).parents[1]
RESULTS = report.read(in_docs.RESULTS.read_text(encoding="utf-8"))
PAGES = in_docs.pages()

#: A number of seconds, bytes, percent or times, in digits or in words.
IN_DIGITS = r"\b\d[\d ,.]*(?:[nuµm]s|s|[kMG]i?B|x|%|percent|(?:nano|micro|milli)?seconds?|minutes?|hours?|bytes|times)(?![\w-])"
WORDS = r"(?:half|two|three|four|five|six|eight|ten|twenty|thirty|several|some|tens|dozens|hundreds?|thousands?)(?: an?| of)?"
IN_WORDS = rf"\b{WORDS} (?:(?:nano|micro|milli)?seconds?|minutes?|hours?|percent|times)\b|\b(?:two|ten|hundred|thousand)fold\b"
MEASURED = re.compile(f"{IN_DIGITS}|{IN_WORDS}", re.IGNORECASE)
#: What looks like one and is a limit that is promised, a setting, a count or a title, by page.
NOT_MEASURED = {
    "README.md": ("First [ten minutes](docs/start.md)",),
    "index.md": ("[Ten minutes](start.md)",),
    "define_by_run.md": ("a plain array above 4 KB",),
    "errors.md": ("constants of up to 4 KB",),
    "limits.md": ("constants of up to 4 KB",),
    "loops.md": ("an array above 16 MB",),
    "start.md": ("# Ten minutes",),
    "kernels.md": ("0 times infinity", "[more than two seconds](waiting.md)", "[more than two seconds](waiting.md#what-is-compiled-and-when)"),
    "optimisation.md": ("About ten times a second", "about ten times a second"),
    "reference.md": ("about 1e-10 times the third derivative", "about ten times a second", "more than two seconds"),
    "saving.md": ("(1 GiB unless you say otherwise)",),
    "tape.md": ("is 32 bytes",),
    "waiting.md": (
        "If that is more than two seconds", "more than thirty seconds", "after two seconds", "takes 32 bytes", "kept, 32 bytes", "at most 1 GiB",
    ),
}


def named(page):
    return page.name


@every("page", PAGES)
def test_pages_have_the_numbers_of_the_results(page):
    text = page.read_text(encoding="utf-8")
    assert in_docs.replaced(text, RESULTS) == text, "run python -m benchmarks.in_docs"


def looks_measured(text, allowed=()):
    text = in_docs.plain(text)
    for phrase in allowed:
        assert phrase in text, f"{phrase!r} is no longer there"
        text = text.replace(phrase, "")
    return [text[max(m.start() - 40, 0) : m.end() + 20] for m in MEASURED.finditer(text)]


@every("page", PAGES)
def test_no_number_looks_measured_and_is_not_marked(page):
    assert looks_measured(page.read_text(encoding="utf-8"), NOT_MEASURED.get(page.name, ())) == []


@pytest.mark.parametrize(
    "claim",
    [
        "takes 12 ns", "takes 1.5 us a call", "10µs", "3 ms", "about 0.3 s", "20 MB", "1.7x", "2.5 times the primal", "96 % of",
        "five percent", "a tenth, or ten times as fast", "half a minute", "some\nmilliseconds", "a hundredfold",
    ],
)  # fmt: skip
def test_such_numbers_are_found(claim):
    assert looks_measured(f"A gradient {claim}, of 200 numbers.")
    unseen = f"    A gradient {claim}\n\n`A gradient {claim}`\n<!-- measured: x -->{claim}<!-- end --> of 200"
    assert not looks_measured(unseen)


@every("page", PAGES)
def test_marks_stand_within_lines_and_beside_their_command(page):
    text = page.read_text(encoding="utf-8")
    # A comment that begins a line ends the paragraph before it.
    assert not re.search(r"^[ >*-]*<!-- measured: ", text, re.MULTILINE)
    home = {row.what: section.name for section in RESULTS.sections for row in section.rows}
    for table, name in in_docs.marks(text):
        if not table:
            command = f"`python -m benchmarks {home[name.partition(' / ')[0]]}`"
            assert command in text, f"{name}: say {command}"


def test_every_promise_that_was_missed_is_shown():
    missed = [row for row in RESULTS.rows if row.status == "FAIL"]
    text = "\n".join(in_docs.promises(RESULTS))
    assert [row.what for row in missed if f"| {row.what} | " not in text] == []
    assert text.count("**missed**") == len(missed)


def changed(row_of, **fields):
    """The results with another row."""
    other = lambda row: replace(row, **fields) if row.what == row_of else row
    return replace(RESULTS, sections=[replace(section, rows=list(map(other, section.rows))) for section in RESULTS.sections])


def test_a_number_that_changes_changes_the_page():
    what = in_docs.SHOWN[0]
    other = changed(what, measured=0.5)
    assert f"| {what} | 0.5x | at most 1/8 of PyTorch's time | **missed** |" in in_docs.promises(other)
    page = f"took <!-- measured: {what} -->9<!-- end -->"
    assert in_docs.replaced(page, other) == page.replace("9", "0.5 times")
    page = f"took <!-- measured: {what} / PyTorch -->9<!-- end -->"
    other = changed(what, times={"PyTorch": Time(0.0025, 0.1, 1)})
    assert in_docs.replaced(page, other) == page.replace("9", "2.5 ms")


def test_a_row_that_is_gone_is_named():
    with pytest.raises(LookupError, match=in_docs.SHOWN[0]):
        in_docs.promises(changed(in_docs.SHOWN[0], what="something else"))
    for mark, named in (("no such row", "no such row"), (f"{in_docs.SHOWN[0]} / NumPy", "NumPy"), ("x / y", "x")):
        with pytest.raises(LookupError, match=named):
            in_docs.replaced(f"a <!-- measured: {mark} --><!-- end -->", RESULTS)
    skipped = changed(in_docs.SHOWN[0], measured=None, skip="no PyTorch")
    with pytest.raises(LookupError, match="not measured"):
        in_docs.replaced(f"a <!-- measured: {in_docs.SHOWN[0]} --><!-- end -->", skipped)
    with pytest.raises(LookupError, match="no such table"):
        in_docs.replaced("<!-- measured table: x -->\n<!-- end -->", RESULTS)


def test_tables_that_are_not_measured_are_lists_of_the_package():
    page = in_docs.replaced("<!-- table: noticed -->\nold\n<!-- end -->", RESULTS)
    assert all(f"| {what} | {change} |  |" in page for what, change in NOTICED) and "old" not in page
    assert all(f"| {what} |  | {advice} |" in page for what, advice in UNNOTICED)
    assert not in_docs.marks(page) and not looks_measured(page)
    with pytest.raises(LookupError, match="no such table: seen; there are noticed, plain and jit"):
        in_docs.replaced("<!-- table: seen -->\n<!-- end -->", RESULTS)


# -- the results ---------------------------------------------------------------------------
def test_where_others_are_faster_is_shown():
    faster = [row for row in RESULTS.rows if any(ratio > 1.0 for ratio in row.beside().values())]
    assert faster, "then the README's sentence about it has to go"
    shown = report.lost(RESULTS.sections)
    assert {id(entry.worst) for entry in shown} <= {id(row) for row in faster}
    for section in RESULTS.sections:
        for row in section.rows:
            for other, ratio in row.beside().items():
                (entry,) = [e for e in shown if (e.benchmark, e.other) == (section.name, other)] or [None]
                assert ratio <= (entry.ratio if entry else 1.0)


def test_the_page_of_results_is_made_from_the_data():
    page = (ROOT / "benchmarks" / "results" / "RESULTS.md").read_text(encoding="utf-8")
    assert report.markdown(RESULTS) == page
    assert report.read(RESULTS.to_json()) == RESULTS
    for picture in re.findall(r"!\[.*?\]\((.*?)\)", page):
        assert (ROOT / "benchmarks" / "results" / picture).exists()


def test_the_results_are_those_of_all_benchmarks():
    assert [section.name for section in RESULTS.sections] == list(MODULES)
    assert all(section.rows for section in RESULTS.sections)
