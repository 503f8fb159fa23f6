"""The command ``python -m benchmarks``: run benchmarks, print and write the tables.

Every benchmark runs in a fresh process (``python -m benchmarks --worker``),
because caches, memory and imported libraries of one would falsify the next,
and because the number of threads can only be set before NumPy is imported.
What it measured before it broke, hung or was interrupted is kept.
Exit code: 0 if every promise held, 1 if one was missed, 2 if a benchmark broke
or libraries disagreed on the numbers, 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import signal
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
    "TAPEGRAD_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "JAX_ENABLE_X64": "1",
    "JAX_PLATFORMS": "cpu",
    "MPLBACKEND": "Agg",
}

ROOT = Path(__file__).parents[1]
#: Seconds that a benchmark may take, several times what the longest does.
PATIENCE = 3600.0


def work(name: str, quick: bool, answer: Path) -> int:
    """Run one benchmark in this process and write its rows as JSON lines."""
    from .registry import Missing, Row, load, said

    with answer.open("w", encoding="utf-8") as file:

        def say(**message: object) -> None:
            file.write(json.dumps(message) + "\n")
            file.flush()  # what was measured before a crash is kept

        try:
            bench = load(name)
            say(summary=bench.summary)
            for row in bench.function(quick):
                say(row=row.as_dict())
        except Missing as missing:
            say(row=Row(name, skip=str(missing)).as_dict())
        except Exception as error:
            traceback.print_exc()
            say(error=said(error))
    return 0


def run(name: str, quick: bool, results: Path, patience: float):
    """Run one benchmark in a fresh process.

    Returns
    -------
    section : report.Section
        Its rows; `error` is empty unless it broke.
    interrupted : bool
        By Ctrl-C.
    """
    from .registry import Row
    from .report import Section

    error, interrupted = "", False
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "answer.jsonl"
        command = [sys.executable, "-m", "benchmarks", "--worker", str(answer), name]
        if quick:
            command.append("--quick")
        environment = os.environ | ONE_THREAD | {"BENCHMARK_RESULTS": str(results)}
        # A session of its own, so that what it started can be ended with it.
        process = subprocess.Popen(command, cwd=ROOT, env=environment, start_new_session=True)
        try:
            code = process.wait(patience)
            error = f"the process ended with code {code}" if code else ""
        except subprocess.TimeoutExpired:
            error = f"not done after {patience:g} s, and stopped"
        except KeyboardInterrupt:
            error, interrupted = "interrupted", True
        finally:
            _end(process)
        messages = []
        if answer.exists():
            # The last line of a process that was stopped may be cut short.
            whole = answer.read_text("utf-8").rpartition("\n")[0]
            messages = [json.loads(line) for line in whole.splitlines()]
    summary, rows = "", []
    for message in messages:
        summary = message.get("summary", summary)
        error = message.get("error", error)
        if "row" in message:
            rows.append(Row.of_dict(message["row"]))
    return Section(name, summary, rows, error), interrupted


def _end(process: subprocess.Popen) -> None:
    """End a process and those that it started, if they are still there."""
    if process.poll() is None:
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
        process.wait()


def parser() -> argparse.ArgumentParser:
    """What the command understands."""
    from .registry import MODULES

    made = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure every promise about speed and memory beside other libraries, on one thread. "
        "Exit code: 0 if all hold, 1 if one is missed, 2 if a benchmark broke or libraries disagreed.",
        epilog=f"Benchmarks: {', '.join(MODULES)}. Libraries that are not installed are skipped: pip install .[bench] has all.",
    )
    made.add_argument("names", nargs="*", metavar="NAME", help="which benchmarks (default: all)")
    made.add_argument("--quick", action="store_true", help="small sizes and few repeats: minutes for all")
    made.add_argument(
        "--output",
        type=Path,
        metavar="FOLDER",
        help="where to write RESULTS.md, results.json and plots (default: benchmarks/results; "
        "a quick, partial or interrupted run writes nothing unless this is given)",
    )
    made.add_argument(
        "--patience", type=float, default=PATIENCE, metavar="SECONDS",
        help="stop a benchmark that takes longer, and go on with the next (default: %(default)g)",
    )  # fmt: skip
    made.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    return made


def main(arguments: list[str] | None = None) -> int:
    """Parse the arguments and run what they name; return the exit code."""
    from .registry import MODULES

    command = parser()
    options = command.parse_args(arguments)
    unknown = sorted(set(options.names) - set(MODULES))
    if unknown:
        command.error(f"no benchmark is called {', '.join(unknown)}; there are {', '.join(MODULES)}")
    if options.worker is not None:
        return work(options.names[0], options.quick, options.worker)
    if not options.patience > 0.0:
        command.error("--patience takes a number of seconds above 0")

    from . import machine, plots, report

    output = options.output
    if output is None and not options.quick and not options.names:
        output = Path(__file__).parent / "results"
    if output is not None:
        try:
            output.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=output).close()
        except OSError as error:
            command.error(f"cannot write to {output}: {error.strerror}")
    # Ended from outside, it ends what it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))

    # From a source tree the first process has no native numbers, and makes them for the others.
    subprocess.run([sys.executable, "-c", "from tapegrad.interpreter.fields import make; make()"], cwd=ROOT, check=True)
    facts = machine.facts()
    print(", ".join(f"{name} {value}" for name, value in facts.items()), flush=True)
    sections, interrupted = [], False
    with tempfile.TemporaryDirectory() as scratch:
        for name in options.names or MODULES:
            print(f"\n{name}", flush=True)
            pictures = Path(scratch) if output is None else output.resolve()
            section, interrupted = run(name, options.quick, pictures, options.patience)
            sections.append(section)
            for row in section.rows:
                print("\n".join(report.terminal_lines(row)), flush=True)
            if section.error:
                print(f"  ERROR {section.error}", flush=True)
            if interrupted:
                break

    if output is not None and interrupted and options.output is None:
        print("\ninterrupted: the results of the run before are kept")
    elif output is not None:
        words = " ".join(["python -m benchmarks", *(["--quick"] if options.quick else []), *options.names])
        picture = plots.peers(sections, output / "peers.png")
        results = report.Results(words, datetime.date.today().isoformat(), facts, sections, picture)
        (output / "RESULTS.md").write_text(report.markdown(results), encoding="utf-8")
        (output / "results.json").write_text(results.to_json(), encoding="utf-8")
    code = report.summary(sections)
    return 130 if interrupted else code


if __name__ == "__main__":
    sys.exit(main())
