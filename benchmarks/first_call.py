"""How long a user waits for the first gradient, on a fresh machine and later.

Each measurement is a fresh process with a cache directory of its own (the
environment variable ``TAPEGRAD_CACHE_DIR``): empty for the first call on a
machine, filled by that call for the later ones.  What is counted runs from
before ``import tapegrad`` to after ``backward()``, the start of Python itself
is not in it.

Then what most people call first, each in a process of its own, whose start is in it: from a source tree with an empty cache,
with the library's code on disk and no kernel, and from an installed wheel with an empty cache.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from . import fresh
from .registry import Row, benchmark
from .timing import seconds

PROGRAMS = {
    "scalar expression": """
x = tg.tensor(0.5, requires_grad=True)
y = np.sin(x * x) + np.exp(-x) / (x + 2.0)
y.backward()
x.grad.item()
""",
    "small network": """
rng = np.random.default_rng(0)
images, labels = rng.random((32, 64)), rng.integers(0, 10, 32)
w1, b1 = tg.Parameter(rng.normal(size=(64, 64)) / 8), tg.Parameter(np.zeros(64))
w2, b2 = tg.Parameter(rng.normal(size=(64, 10)) / 8), tg.Parameter(np.zeros(10))
scores = np.tanh(images @ w1 + b1) @ w2 + b2
loss = -tg.log_softmax(scores, axis=1)[np.arange(32), labels].mean()
loss.backward()
w1.grad.numpy()
""",
}
#: Seconds promised for the first run with an empty cache.
COLD = {"scalar expression": 3.0, "small network": 8.0}
WARM = 1.0
#: What most people call first, and the seconds promised with an installed wheel.
FIRSTS = {
    "backward of arrays": ("t = tg.tensor(np.ones(5), requires_grad=True)\n(np.sin(t) * t).sum().backward()", 0.6),
    "grad of arrays": ("tg.grad(lambda x: (np.sin(x) * x).sum())(np.ones(5))", 0.6),
    "kernel": ("g = tg.jit(tg.value_and_grad(lambda x: (np.sin(x) * x).sum()))\ng(np.ones(5))\ng(np.ones(5))", 0.8),
    "lbfgs": ("from benchmarks import programs\ntg.optimize.lbfgs(programs.rosenbrock_loop, np.zeros(10))", 1.0),
    "hessian": ("tg.hessian(lambda x: (np.sin(x) * x).sum())(np.ones(5))", 1.0),
    "njit_grad": ("from benchmarks import programs\ntg.njit_grad(programs.rosenbrock_loop)(np.ones(5))", 2.0),
}
#: Promised for the sum of these with an empty cache, and with the library's code on disk.
COLD_SUM, WARM_SUM = 15.0, 4.0
IMPORT = 0.6

HARNESS = """
import json, time
start = time.perf_counter()
import tapegrad as tg
imported = time.perf_counter()
import numpy as np
{program}
print(json.dumps({{"import": imported - start, "total": time.perf_counter() - start}}))
"""


def firsts(program: str, cache: str, **options) -> float:
    """Seconds of a process that does what a row of `FIRSTS` says."""
    start = time.perf_counter()
    fresh.run(f"import numpy as np\nimport tapegrad as tg\n{program}\nprint(0)", cache, **options)
    return time.perf_counter() - start


def installed(folder: str) -> Path:
    """Where a wheel of this package, and the programs of the benchmarks, are installed in a folder."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--target", folder, str(fresh.ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    Path(folder, "benchmarks").symlink_to(fresh.ROOT / "benchmarks")
    return Path(folder)


def first_things(quick: bool) -> Iterator[Row]:
    """Rows of `FIRSTS`: the least of some runs; of an empty cache in a source tree, one."""
    repeats, cold, warm = 2 if quick else 5, {}, {}
    for name, (program, _) in FIRSTS.items():
        with tempfile.TemporaryDirectory() as cache:
            cold[name] = firsts(program, cache, bytecode=False)
            for _ in range(repeats):
                fresh.forget_kernels(cache)
                warm[name] = min(firsts(program, cache), warm.get(name, 1e9))
    for what, found, limit in (("empty cache", cold, COLD_SUM), ("library code on disk, no kernel", warm, WARM_SUM)):
        detail = {name: seconds(taken) for name, taken in found.items()}
        yield Row(f"six first calls from a source tree, {what}: sum", f"within {limit:g} s", sum(found.values()), limit, "s", detail)
    with tempfile.TemporaryDirectory() as folder:
        where = installed(folder)
        for name, (program, limit) in FIRSTS.items():
            taken = []
            for _ in range(repeats):
                with tempfile.TemporaryDirectory() as cache:
                    # pip has made the bytecode.
                    taken.append(firsts(program, cache, bytecode=False, where=where))
            yield Row(f"{name}, installed wheel, empty cache: whole process", f"within {limit:g} s", min(taken), limit, "s")


@benchmark(name="first_call")
def first_call(quick: bool) -> Iterator[Row]:
    """Import and first gradient, with cold and with warm caches."""
    repeats = 3 if quick else 7
    imports = []
    for name, program in PROGRAMS.items():
        with tempfile.TemporaryDirectory() as cache:
            text = HARNESS.format(program=program)
            cold = fresh.run(text, cache, bytecode=False)
            files = sum(len(found) for _, _, found in os.walk(cache))
            warm = [fresh.run(text, cache, bytecode=False) for _ in range(repeats)]
        yield Row(
            f"{name}, empty cache: import and first backward",
            f"within {COLD[name]:g} s",
            cold["total"],
            COLD[name],
            "s",
            {"of that import": seconds(cold["import"]), "files cached": files},
        )
        totals = sorted(run["total"] for run in warm)
        imports += [run["import"] for run in warm]
        yield Row(
            f"{name}, later process: import and first backward",
            f"within {WARM:g} s",
            totals[0],
            WARM,
            "s",
            {"median": seconds(totals[len(totals) // 2]), "repeats": repeats},
        )
    imports.sort()
    yield Row(
        "import alone, later process",
        f"within {IMPORT:g} s",
        imports[0],
        IMPORT,
        "s",
        {"median": seconds(imports[len(imports) // 2])},
    )
    yield from first_things(quick)
