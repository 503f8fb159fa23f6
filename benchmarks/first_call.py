"""How long a user waits for the first gradient, on a fresh machine and later.

Each measurement is a fresh process with a cache directory of its own (the
environment variable ``TAPEGRAD_CACHE_DIR``): empty for the first call on a
machine, filled by that call for the later ones.  What is counted runs from
before ``import tapegrad`` to after ``backward()``, the start of Python itself
is not in it.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator

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
