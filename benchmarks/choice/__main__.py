"""The command ``python -m benchmarks.choice``: the choice for each of fifty functions, and what it cost.

Exit code: 0 if both promises hold, else 1.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys

from ..__main__ import ONE_THREAD
from ..report import terminal_lines
from . import outcomes, rows


def main() -> int:
    """Print the table; the return value is the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.choice", description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="few repeats")
    options = parser.parse_args()
    if any(os.environ.get(name) != value for name, value in ONE_THREAD.items()):
        # The number of threads can only be set before NumPy is imported.
        command = [sys.executable, "-m", "benchmarks.choice", *sys.argv[1:]]
        return subprocess.run(command, env=os.environ | ONE_THREAD, check=False).returncode
    print("Ratios are the cost of forward mode over that of reverse mode; lost is that of the choice over the cheaper mode.\n")
    print(f"{'function':27}{'structure':16}{'n':>5}{'m':>6}  {'choice':9}{'measured':>9}{'predicted':>10}{'lost':>6}")
    found = outcomes(options.quick)
    for o in found:
        print(
            f"{o.name:27}{o.structure:16}{o.inputs:5}{o.outputs:6}  {o.choice:9}{o.measured:9.3g}{o.predicted:10.3g}{o.lost:6.2f}"
        )
    print()
    promises = rows(found)
    for row in promises:
        print("\n".join(terminal_lines(row)))
    return int(any(row.status == "FAIL" for row in promises))


if __name__ == "__main__":
    sys.exit(main())
