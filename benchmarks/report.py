"""What a run found, as data and as tables: one for the terminal, one in Markdown."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from .registry import Row
from .timing import seconds

STATUSES = ("PASS", "FAIL", "SKIP", "info")


@dataclass
class Section:
    """What one benchmark found; `error` says why it broke."""

    name: str
    summary: str
    rows: list[Row] = field(default_factory=list)
    error: str = ""


@dataclass
class Results:
    """A whole run: the command, the day, the machine, a section for each benchmark, and the name of `plots.peers`' picture."""

    command: str
    date: str
    facts: dict[str, str]
    sections: list[Section]
    picture: str = ""

    @property
    def rows(self) -> list[Row]:
        return [row for section in self.sections for row in section.rows]

    def to_json(self) -> str:
        """As text; `read` undoes it."""
        return json.dumps(asdict(self), indent=1) + "\n"


def read(text: str) -> Results:
    """What `Results.to_json` wrote."""
    data = json.loads(text)
    sections = [Section(**{**s, "rows": [Row.of_dict(row) for row in s["rows"]]}) for s in data["sections"]]
    return Results(**{**data, "sections": sections})


@dataclass(frozen=True)
class Lost:
    """Another library that is faster: in how many rows of a benchmark, and in which most."""

    benchmark: str
    other: str
    rows: int
    worst: Row
    ratio: float


def lost(sections: list[Section]) -> list[Lost]:
    """Where others are faster than tapegrad, one entry for each of them in each benchmark."""
    found = []
    for section in sections:
        slower: dict[str, list[tuple[float, Row]]] = {}
        for row in section.rows:
            for other, ratio in row.beside().items():
                if ratio > 1.0:
                    slower.setdefault(other, []).append((ratio, row))
        for other, rows in slower.items():
            ratio, worst = max(rows, key=lambda pair: pair[0])
            # One comparison may stand in several rows: what was measured is counted once.
            found.append(Lost(section.name, other, len({tuple(row.times.values()) for _, row in rows}), worst, ratio))
    return found


def lost_lines(sections: list[Section]) -> list[str]:
    """Lines of a table of what `lost` finds."""
    lines = ["| where another is faster | which | our time beside its |", "|---|---|---|"]
    for entry in lost(sections):
        more = f", and {entry.rows - 1} more" if entry.rows > 1 else ""
        lines.append(line(f"{entry.benchmark}: {entry.worst.what}{more}", entry.other, number_text(entry.ratio, "x")))
    return lines if len(lines) > 2 else ["No other library is faster in any row."]


def measured_text(row: Row) -> str:
    """Write the measured number, or why there is none."""
    if row.measured is None:
        return row.error or row.skip
    return number_text(row.measured, row.unit)


def limit_text(row: Row) -> str:
    """Write the limit."""
    return "" if row.limit is None else "<= " + number_text(row.limit, row.unit)


def number_text(value: float, unit: str) -> str:
    """Write a number of three digits, never as a power of ten."""
    if unit == "s":
        return seconds(value)
    text = f"{value:.3g}"
    if "e+" in text:
        text = f"{value:.0f}"
    return text + unit if unit == "x" else f"{text} {unit}".rstrip()


def detail_text(row: Row) -> str:
    """Write the numbers behind a number."""
    return ", ".join(f"{name} {value}" for name, value in (row.times | row.detail).items())


def terminal_lines(row: Row) -> list[str]:
    """Write one row for the terminal: a line, and the details under it."""
    measured = measured_text(row)
    limit = limit_text(row)
    lines = [f"  {row.status:4}  {row.what}: {measured}" + (f"  (limit {limit})" if limit else "")]
    if row.promise:
        lines.append(f"        promise: {row.promise}")
    if detail_text(row):
        lines.append(f"        {detail_text(row)}")
    return lines


def summary(sections: list[Section]) -> int:
    """Print how many promises held, which did not, and what broke; returns the exit code."""
    rows = [row for section in sections for row in section.rows]
    broken = {section.name: section.error for section in sections if section.error}
    broken |= {row.what: row.error for row in rows if row.error}
    missed = [row for row in rows if row.status == "FAIL" and not row.error]
    count = {status: sum(row.status == status for row in rows) for status in STATUSES}
    print(f"\n{count['PASS']} promises held, {len(missed)} missed, {count['SKIP']} rows skipped, {len(broken)} broken")
    for reason in dict.fromkeys(row.skip for row in rows if row.status == "SKIP"):
        print(f"  skipped: {reason}")
    for row in missed:
        print(f"  missed: {row.what}: {measured_text(row)} (limit {limit_text(row)})")
    for name, error in broken.items():
        print(f"  broken: {name}: {error}")
    return 2 if broken else 1 if missed else 0


def line(*cells: str) -> str:
    """A line of a table."""
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def markdown(results: Results) -> str:
    """Write everything as one Markdown page."""
    rows = results.rows
    count = {status: sum(row.status == status for row in rows) for status in STATUSES}
    text = [
        "# Benchmarks",
        "",
        f"Written by `{results.command}` on {results.date}; run it again to get the numbers of your machine.",
        "Every benchmark runs in a process of its own, on one thread.  Ratios and times are of",
        "the fastest of many repeats; the libraries compared take turns.  A ratio is ours over the other's: below 1x",
        "tapegrad is faster.  Rows marked info promise nothing.",
        "",
        ", ".join(f"{number} {status}" for status, number in count.items() if number) + ".",
        "",
        *lost_lines(results.sections),
        "",
        *([f"![our time beside that of others]({results.picture})", ""] if results.picture.endswith(".png") else []),
    ]
    for section in results.sections:
        text += [f"## {section.name}", "", section.summary, ""]
        if section.error:
            text += [f"**Broken:** {section.error}", ""]
        if section.rows:
            text += ["| what | promise | measured | |", "|---|---|---|---|"]
        for row in section.rows:
            limit = limit_text(row)
            promise = row.promise + (f" ({limit})" if limit else "")
            text.append(line(row.what, promise, measured_text(row), row.status))
        text.append("")
        text += [f"- {row.what}: {detail_text(row)}" for row in section.rows if detail_text(row)]
        pictures = {row.detail["plot"] for row in section.rows if str(row.detail.get("plot", "")).endswith(".png")}
        text += ["", *(f"![{section.name}]({name})" for name in sorted(pictures)), ""]
    text += ["## The machine", "", "| | |", "|---|---|"]
    text += [f"| {name} | {value} |" for name, value in results.facts.items()]
    return "\n".join(text) + "\n"


def facts_line(facts: dict[str, Any]) -> str:
    """The machine in a line, to stand under a plot."""
    packages = ", ".join(f"{name} {facts[name]}" for name in ("python", "tapegrad", "numpy", "numba"))
    return f"{facts['processor']}, {facts['system']}, one thread; {packages}"
