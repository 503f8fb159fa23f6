"""The command ``python -m benchmarks``: run benchmarks, print and write the tables.

Every benchmark runs in a fresh process (``python -m benchmarks --worker``),
because caches, memory and imported libraries of one would falsify the next,
and because the number of threads can only be set before NumPy is imported.
Exit code: 0 if every promise held, 1 if one was missed, 2 if a benchmark broke
or libraries disagreed on the numbers.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path

#: One thread for everything, set before any library is imported.
ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "BLIS_NUM_THREADS": "1",
    "VECLIB_MAXIMUM_THREADS": "1",
    "NUMEXPR_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "JAX_ENABLE_X64": "1",
    "JAX_PLATFORMS": "cpu",
    "MPLBACKEND": "Agg",
}

ROOT = Path(__file__).parents[1]


def work(name: str, quick: bool, answer: Path) -> int:
    """Run one benchmark in this process and write its rows as JSON lines."""
    from .registry import Disagreement, Missing, Row, load

    bench = load(name)
    with answer.open("w", encoding="utf-8") as file:

        def say(**message: object) -> None:
            file.write(json.dumps(message) + "\n")
            file.flush()  # what was measured before a crash is kept

        say(summary=bench.summary)
        try:
            for row in bench.function(quick):
                say(row=row.as_dict())
        except Missing as missing:
            say(row=Row(name, skip=str(missing)).as_dict())
        except Disagreement as error:
            say(error=f"the libraries disagree: {error}")
        except Exception as error:
            traceback.print_exc()
            say(error=f"{type(error).__name__}: {error}".split("\n")[0])
    return 0


def run(name: str, quick: bool, results: Path):
    """Run one benchmark in a fresh process.

    Returns
    -------
    summary : str
        What the benchmark says about itself.
    rows : list of Row
    error : str
        Empty unless it broke.
    """
    from .registry import Row

    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "answer.jsonl"
        command = [sys.executable, "-m", "benchmarks", "--worker", str(answer), name]
        if quick:
            command.append("--quick")
        environment = os.environ | ONE_THREAD | {"BENCHMARK_RESULTS": str(results)}
        ended = subprocess.run(command, cwd=ROOT, env=environment, check=False)
        messages = []
        if answer.exists():
            messages = [json.loads(line) for line in answer.read_text("utf-8").splitlines()]
    summary, rows, error = "", [], ""
    for message in messages:
        summary = message.get("summary", summary)
        error = message.get("error", error)
        if "row" in message:
            rows.append(Row(**message["row"]))
    if ended.returncode != 0 and not error:
        error = f"the process ended with code {ended.returncode}"
    return summary, rows, error


def main(arguments: list[str] | None = None) -> int:
    """Parse the arguments and run what they name; return the exit code."""
    from .registry import MODULES

    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure every promise about speed and memory; exit with 1 if one is missed.",
        epilog="Benchmarks: " + ", ".join(MODULES),
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="which benchmarks (default: all)")
    parser.add_argument("--quick", action="store_true", help="small sizes and few repeats")
    parser.add_argument(
        "--output",
        type=Path,
        help="folder for RESULTS.md and plots (default: benchmarks/results; "
        "a quick or partial run writes nothing unless this is given)",
    )
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.names) - set(MODULES))
    if unknown:
        parser.error(f"no benchmark is called {', '.join(unknown)}; there are {', '.join(MODULES)}")
    if options.worker is not None:
        return work(options.names[0], options.quick, options.worker)

    from . import machine, report

    names = options.names or list(MODULES)
    output = options.output
    if output is None and not options.quick and not options.names:
        output = Path(__file__).parent / "results"
    facts = machine.facts()
    print(", ".join(f"{name} {value}" for name, value in facts.items()), flush=True)

    sections, errors = [], {}
    with tempfile.TemporaryDirectory() as scratch:
        plots = Path(scratch) if output is None else output.resolve()
        plots.mkdir(parents=True, exist_ok=True)
        for name in names:
            print(f"\n{name}", flush=True)
            summary, rows, error = run(name, options.quick, plots)
            sections.append((name, summary, rows))
            for row in rows:
                print("\n".join(report.terminal_lines(row)), flush=True)
            if error:
                errors[name] = error
                print(f"  ERROR {error}", flush=True)

    if output is not None:
        command = " ".join(
            ["python -m benchmarks", *(["--quick"] if options.quick else []), *options.names]
        )
        today = datetime.date.today().isoformat()
        page = report.markdown(sections, errors, facts, command, today)
        (output / "RESULTS.md").write_text(page, encoding="utf-8")

    rows = [row for _, _, found in sections for row in found]
    missed = [row.what for row in rows if row.status == "FAIL"]
    held = sum(row.status == "PASS" for row in rows)
    skipped = sum(row.status == "SKIP" for row in rows)
    print(f"\n{held} promises held, {len(missed)} missed, {skipped} rows skipped, ", end="")
    print(f"{len(errors)} benchmarks broken")
    for what in missed:
        print(f"  missed: {what}")
    for name, error in errors.items():
        print(f"  broken: {name}: {error}")
    return 2 if errors else 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
