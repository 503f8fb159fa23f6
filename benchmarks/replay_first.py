"""How long the first gradient of a function takes: recording, finishing, first replay.

Each measurement is a fresh process whose cache directory was filled by an
earlier one, with Python's own bytecode in it, as an installed package has it.
Two numbers: from the end of ``import tapegrad`` to the first gradient, which
includes loading what the library has compiled (a short function of numbers does
without, until its next call); and the same for another function once that is
loaded.  Then short functions of arrays, and the same by ``backward()``.  JAX compiles the same unrolled
loop, with the same number of operations, except that the long one is cut to
`JAX_LENGTH`, for its compiler takes far more than linear time.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator

from .registry import PEERS, Row, benchmark
from .timing import seconds

#: Instructions -> seconds promised.
PROMISED = {100: 0.02, 50_000: 0.3}
JAX_LENGTH = 2000

LOOP = """
def loop(count, sin):
    def f(x):
        y, total = x[0], 0.0
        for _ in range(count // 4):
            y = y * 1.0001 + sin(y)
            total = total + y
        return total
    return f
"""

OURS = """
import json, time
import numpy as np
import tapegrad as tg
{loop}
x = np.array([0.3, 0.2])
taken = []
for _ in range(3):
    start = time.perf_counter()
    g = tg.value_and_grad(loop({count}, np.sin))
    g(x)
    taken.append(time.perf_counter() - start)
    g(x)
print(json.dumps({{"first": taken[0], "loaded": min(taken[1:]), "instructions": g.stats().instructions}}))
"""

#: What is differentiated first in a process -> a program that does so at `x`.
ARRAYS = {
    "np.sum(np.sin(x) * x)": """
def f(x):
    return np.sum(np.sin(x) * x)
slope = tg.grad(f)(x)
""",
    "100 instructions on arrays": """
def f(x):
    y, total = x, 0.0
    for _ in range(25):
        y = y * 1.0001 + np.sin(y)
        total = total + np.sum(y)
    return total
slope = tg.grad(f)(x)
""",
    "backward() of numbers": """
t = tg.tensor(x[0], requires_grad=True)
(np.sin(t * t) + np.exp(-t) / (t + 2.0)).backward()
slope = t.grad.numpy()
""",
    "backward() of arrays": """
t = tg.tensor(x, requires_grad=True)
np.sum(np.sin(t) * t).backward()
slope = t.grad.numpy()
""",
}

SHORT = """
import json, time
import numpy as np
import tapegrad as tg
x = np.linspace(0.1, 0.9, 50)
start = time.perf_counter()
{program}
taken = time.perf_counter() - start
assert np.isfinite(slope).all() and np.any(slope)
print(json.dumps(taken))
"""

JAX = """
import json, time
import numpy as np
try:
    import jax
except ImportError:
    print(json.dumps(None))
    raise SystemExit
jax.config.update("jax_enable_x64", True)
{loop}
x = np.array([0.3, 0.2])
jax.jit(lambda x: x + 1.0)(x).block_until_ready()
start = time.perf_counter()
jax.jit(jax.value_and_grad(loop({count}, jax.numpy.sin)))(x)[1].block_until_ready()
print(json.dumps(time.perf_counter() - start))
"""


def run(program: str, cache: str):
    """Run a program in a new interpreter; what it printed."""
    environment = os.environ | {"TAPEGRAD_CACHE_DIR": cache, "PYTHONPYCACHEPREFIX": os.path.join(cache, "bytecode")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    ended = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if ended.returncode != 0:
        raise RuntimeError(ended.stderr.strip().splitlines()[-1])
    return json.loads(ended.stdout)


@benchmark(part=4, name="replay_first")
def replay_first(quick: bool) -> Iterator[Row]:
    """Time to the first gradient of a function of 100 and of 50 000 instructions."""
    with tempfile.TemporaryDirectory() as cache:
        run(OURS.format(loop=LOOP, count=100), cache)
        for count, limit in PROMISED.items():
            found = [run(OURS.format(loop=LOOP, count=count), cache) for _ in range(2 if quick else 5)]
            assert found[0]["instructions"] >= count, found[0]
            length = min(count, JAX_LENGTH if not quick else 500)
            jax = run(JAX.format(loop=LOOP, count=length), cache)
            beside = f"{seconds(jax)} for {length:,}" if jax is not None else f"{PEERS['jax']} is not installed"
            promise = f"within {limit:g} s"
            yield Row(
                f"{count:,} instructions, fresh process, bytecode and library code in the cache: from import to first gradient",
                promise,
                min(f["first"] for f in found),
                limit,
                "s",
                {"JAX compiles": beside},
            )
            yield Row(
                f"{count:,} instructions, once LLVM and the library's code are loaded",
                f"{promise}, loading left out",
                min(f["loaded"] for f in found),
                limit,
                "s",
                {"JAX compiles": beside},
            )
        limit = PROMISED[100]
        for what, program in ARRAYS.items():
            text = SHORT.format(program=program)
            run(text, cache)
            times = sorted(run(text, cache) for _ in range(2 if quick else 7))
            yield Row(
                f"{what}, fresh process, bytecode and library code in the cache: from import to first gradient",
                f"within {limit:g} s",
                times[0],
                limit,
                "s",
                {"median": seconds(times[len(times) // 2])},
            )
