"""The tables: one for the terminal, one in Markdown."""

from __future__ import annotations

from typing import Any

from .registry import Row

STATUSES = ("PASS", "FAIL", "SKIP", "info")


def measured_text(row: Row) -> str:
    """Write the measured number, or why there is none."""
    if row.measured is None:
        return row.skip
    return number_text(row.measured, row.unit)


def limit_text(row: Row) -> str:
    """Write the limit."""
    return "" if row.limit is None else "<= " + number_text(row.limit, row.unit)


def number_text(value: float, unit: str) -> str:
    return f"{value:.3g}{unit}" if unit == "x" else f"{value:.3g} {unit}".rstrip()


def detail_text(detail: dict[str, Any]) -> str:
    """Write the numbers behind a number."""
    return ", ".join(f"{name} {value}" for name, value in detail.items())


def terminal_lines(row: Row) -> list[str]:
    """Write one row for the terminal: a line, and the details under it."""
    measured = measured_text(row)
    limit = limit_text(row)
    lines = [f"  {row.status:4}  {row.what}: {measured}" + (f"  (limit {limit})" if limit else "")]
    if row.promise:
        lines.append(f"        promise: {row.promise}")
    if row.detail:
        lines.append(f"        {detail_text(row.detail)}")
    return lines


def markdown(
    sections: list[tuple[str, str, list[Row]]],
    errors: dict[str, str],
    facts: dict[str, str],
    command: str,
    when: str,
) -> str:
    """Write everything as one Markdown page.

    Parameters
    ----------
    sections : list of (name, summary, rows)
        One entry for every benchmark that ran.
    errors : dict
        By name of the benchmark, why it broke.
    facts : dict
        About the machine.
    command, when : str
        The command that made the numbers, and the date.
    """
    rows = [row for _, _, found in sections for row in found]
    count = {status: sum(row.status == status for row in rows) for status in STATUSES}
    text = [
        "# Benchmarks",
        "",
        f"Written by `{command}` on {when}; run it again to get the numbers of your machine.",
        "Every benchmark runs in a process of its own, on one thread.  Ratios and times are of",
        "the fastest of many repeats; the libraries compared take turns.",
        "",
        ", ".join(f"{number} {status}" for status, number in count.items() if number) + ".",
        "",
    ]
    for name, summary, found in sections:
        text += [f"## {name}", "", summary, ""]
        if name in errors:
            text += [f"**Broken:** {errors[name]}", ""]
        if found:
            text += ["| what | promise | measured | |", "|---|---|---|---|"]
        for row in found:
            limit = limit_text(row)
            promise = row.promise + (f" ({limit})" if limit else "")
            cells = (row.what, promise, measured_text(row), row.status)
            text.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
        text.append("")
        text += [f"- {row.what}: {detail_text(row.detail)}" for row in found if row.detail]
        text.append("")
    text += ["## The machine", "", "| | |", "|---|---|"]
    text += [f"| {name} | {value} |" for name, value in facts.items()]
    return "\n".join(text) + "\n"
