"""The measured numbers in the README and the pages of `docs/`, filled in from `benchmarks/results/results.json`.

``python -m benchmarks.in_docs`` writes them again, after ``python -m benchmarks``; a test compares, and
finds numbers that look measured and are not marked.  A mark in a page is a comment::

    <!-- measured: WHAT -->0.928 times<!-- end -->
    <!-- measured: WHAT / LIBRARY -->819 us<!-- end -->
    <!-- measured table: NAME -->
    ...
    <!-- end -->
    <!-- table: NAME -->
    ...
    <!-- end -->

WHAT is the first column of a row of the results, LIBRARY one of those whose time stands below it.  The tables
are `TABLES`; those that are not measured, `PRINTED`, are lists that the package itself works by, or what programs give that are run
for it.  The page says which command measures a number: ``python -m benchmarks``, with the name of the benchmark.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from . import plain_and_jit, report
from .registry import Row
from .timing import seconds

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "results.json"

#: Promises that docs/measurements.md shows whether they hold or not.
SHOWN = (
    "1 000 multiply-adds beside PyTorch",
    "1 000 multiply-adds beside HIPS autograd",
    "one training step beside PyTorch",
    "RK4 of Lotka-Volterra, 1 000 steps, 6 gradients, beside by hand",
    "RK4 of Lotka-Volterra, 1 000 steps, 6 gradients, beside JAX",
    "logistic regression 1 000 x 100, beside by hand",
    "Black-Scholes, 100,000 options, 5 gradients each, beside JAX",
    "one call, 2 variables, beside JAX",
    "reverse mode beside JAX's jacrev, whole arrays, n = 1000",
    "Rosenbrock as a loop, n = 1000, warm: compiled loop beside the fastest other",
    "sparse Hessian of Rosenbrock, n = 1000, beside CasADi's",
    "small network, empty cache: import and first backward",
    "import alone, later process",
)

#: What the README shows beside a neighbour: what it is, the row, and the neighbour; without one, the function itself.
SIX = (
    ("an ODE fit: 1 000 Runge-Kutta steps, 6 gradients", "RK4 of Lotka-Volterra, 1 000 steps, 6 gradients, beside JAX", "JAX"),
    ("a logistic regression, 1 000 x 100", "logistic regression 1 000 x 100, beside PyTorch", "PyTorch"),
    ("a Monte Carlo, 10 000 paths, 53 gradients", "Asian option, 50 steps x 10,000 paths, 53 gradients, beside JAX", "JAX"),
    ("a training step of a small network", "one training step beside PyTorch", "PyTorch"),
    ("an `@njit` simulation with 20 parameters", "simulation with 20 parameters", ""),
    ("a dense Hessian of 1 000 weights", "dense Hessian, logistic regression of 1000 weights, beside jax.hessian", "JAX"),
)

_MARK = re.compile(r"(<!-- (measured|measured table|table): (.+?) -->)(.*?)(<!-- end -->)", re.DOTALL)


def pages() -> list[Path]:
    """The pages that have marks or may have."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def row(results: report.Results, what: str) -> Row:
    """The row of that name.

    Raises
    ------
    LookupError
        If there is none.
    """
    for found in results.rows:
        if found.what == what:
            return found
    raise LookupError(f"no such row in the results: {what}")


def number(results: report.Results, mark: str) -> str:
    """What stands between the comments of a mark.

    Raises
    ------
    LookupError
        If the results have no such row, or the row no such library or number.
    """
    what, _, library = mark.partition(" / ")
    found = row(results, what)
    if library:
        if library not in found.times:
            raise LookupError(f"{what}: no time of {library}, only of {', '.join(found.times)}")
        return seconds(found.times[library].minimum)
    if found.measured is None:
        raise LookupError(f"{what}: not measured ({report.measured_text(found)})")
    return report.number_text(found.measured, "times" if found.unit == "x" else found.unit)


def promises(results: report.Results) -> list[str]:
    """How many promises held, and a table of some of them and of all that did not."""
    for what in SHOWN:
        row(results, what)
    promised = [found for found in results.rows if found.limit is not None and found.status != "SKIP"]
    held = sum(found.status == "PASS" for found in promised)
    lines = [f"{held} of {len(promised)} promises held at the last full run:", ""]
    lines += ["| | measured | promise | |", "|---|---|---|---|"]
    for found in promised:
        if found.what in SHOWN or found.status == "FAIL":
            verdict = "held" if found.status == "PASS" else "**missed**"
            lines.append(report.line(found.what, report.measured_text(found), found.promise, verdict))
    return lines


def by_hand(results: report.Results) -> list[str]:
    """Kernels beside gradients written by hand."""
    lines = ["| value and gradient | by a kernel | written by hand | |", "|---|---|---|---|"]
    for found in next(section.rows for section in results.sections if section.name == "kernels"):
        if "by hand" in found.times:
            ours, theirs = (seconds(found.times[name].minimum) for name in ("tapegrad", "by hand"))
            lines.append(report.line(found.what.removesuffix(", beside by hand"), ours, theirs, report.measured_text(found)))
    return lines


def six(results: report.Results) -> list[str]:
    """What a reader recognises, beside a neighbour."""
    lines = ["| value and gradient of | tapegrad | beside | takes |", "|---|---|---|---|"]
    for what, name, other in SIX:
        found = row(results, name)
        ours, theirs = (seconds(found.times[who].minimum) for who in ("tapegrad", other)) if other else (number(results, name), "1")
        lines.append(report.line(what, ours, other or "the function itself", theirs))
    return lines


TABLES: dict[str, Callable[[report.Results], list[str]]] = {
    "six": six,
    "promises": promises,
    "lost": lambda results: report.lost_lines(results.sections),
    "by hand": by_hand,
}


#: What is not measured, as tables: lists of the package, and what programs give.
PRINTED: dict[str, Callable[[], list[str]]] = {
    "noticed": lambda: [
        "| what | noticed | not noticed: what to do |", "|---|---|---|",
        *(report.line(what, change, "") for what, change in plain_and_jit.NOTICED),
        *(report.line(what, "", advice) for what, advice in plain_and_jit.UNNOTICED),
    ],
    "plain and jit": plain_and_jit.lines,
}  # fmt: skip


def replaced(page: str, results: report.Results) -> str:
    """`page` with its numbers and tables made anew.

    Raises
    ------
    LookupError
        If a mark names a row or a table that there is not.
    """

    def fill(match: re.Match[str]) -> str:
        begin, kind, name, _, end = match.groups()
        if kind == "measured":
            return begin + number(results, name) + end
        tables = PRINTED if kind == "table" else TABLES
        if name not in tables:
            raise LookupError(f"no such table: {name}; there are {', '.join(tables)}")
        lines = PRINTED[name]() if kind == "table" else TABLES[name](results)
        return "\n".join([begin, *lines, end])

    return _MARK.sub(fill, page)


def marks(page: str) -> list[tuple[bool, str]]:
    """The marks of what is measured on a page: whether of a table, and the name."""
    return [(kind == "measured table", name) for _, kind, name, _, _ in _MARK.findall(page) if kind != "table"]


def plain(page: str) -> str:
    """The prose of a page in one line, without what is marked and without code."""
    page = re.sub(r"^```.*?^```$", "", page, flags=re.DOTALL | re.MULTILINE)
    page = re.sub(r"^    .*$", "", page, flags=re.MULTILINE)
    return " ".join(re.sub(r"`[^`]*`", "`code`", _MARK.sub("", page)).split())


def main() -> None:
    """Write the numbers of all pages."""
    results = report.read(RESULTS.read_text(encoding="utf-8"))
    for path in pages():
        text = path.read_text(encoding="utf-8")
        path.write_text(replaced(text, results), encoding="utf-8")


if __name__ == "__main__":
    main()
