"""The table of measurements in the README, made from `benchmarks/results/RESULTS.md`.

``python -m benchmarks.in_docs`` writes it again, after ``python -m benchmarks``; a test compares the
two.  It has a selection of the promises, and every one that does not hold.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
BEGIN, END = "<!-- measured: python -m benchmarks.in_docs -->\n", "<!-- measured: end -->\n"

#: Promises that are shown whether they hold or not.
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
_ROW = re.compile(r"^\| (.+?) \| (.+?) \| (.+?) \| (PASS|FAIL) \|$", re.MULTILINE)


def table(results: str) -> str:
    """What stands between the marks, from the text of RESULTS.md."""
    rows = {what: (promise, measured, verdict) for what, promise, measured, verdict in _ROW.findall(results)}
    missing = [what for what in SHOWN if what not in rows]
    if missing:
        raise LookupError(f"no such row in the results: {', '.join(missing)}")
    held = sum(verdict == "PASS" for _, _, verdict in rows.values())
    lines = [f"{held} of {len(rows)} promises held at the last full run:", "", "| | measured | promise | |", "|---|---|---|---|"]
    for what, (promise, measured, verdict) in rows.items():
        if what in SHOWN or verdict == "FAIL":
            promise = re.sub(r" \(<= .*\)$", "", promise)
            lines.append(f"| {what} | {measured} | {promise} | {'held' if verdict == 'PASS' else '**missed**'} |")
    return "\n".join([*lines, ""])


def replaced(page: str, results: str) -> str:
    """`page` with its table made anew."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise LookupError("the page has no marks for the table")
    return before + begin + table(results) + end + after


def main() -> None:
    """Write the README's table."""
    readme, results = ROOT / "README.md", ROOT / "benchmarks" / "results" / "RESULTS.md"
    readme.write_text(replaced(readme.read_text(encoding="utf-8"), results.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
