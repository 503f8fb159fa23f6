"""How long the first gradient of a function takes: running it on a tape, and the sweep.

Each measurement is a fresh process whose cache directory was filled by an
earlier one, with Python's own bytecode in it, as an installed package has it.
Two numbers: from the end of ``import tapegrad`` to the first gradient, which
includes loading LLVM and what the library has compiled; and the same for another
function once that is loaded.  Then short functions of arrays, and the same by ``backward()``.  JAX compiles the same unrolled
loop, with the same number of operations, except that the long one is cut to
`JAX_LENGTH`, for its compiler takes far more than linear time.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator

from . import fresh
from .registry import PEERS, Row, benchmark
from .timing import seconds

#: Instructions -> seconds promised from the import to the first gradient, and once everything is loaded.
PROMISED = {100: (0.15, 0.02), 50_000: (0.3, 0.3)}
JAX_LENGTH = 2000

OURS = """
import json, time
import numpy as np
import tapegrad as tg
from benchmarks.programs import chain
x = np.array([0.3, 0.2])
taken = []
for _ in range(3):
    start = time.perf_counter()
    g = tg.value_and_grad(chain({count}))
    g(x)
    taken.append(time.perf_counter() - start)
print(json.dumps({{"first": taken[0], "loaded": min(taken[1:]), "instructions": len(g.tape(x))}}))
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

@benchmark(name="replay_first")
def replay_first(quick: bool) -> Iterator[Row]:
    """Time to the first gradient of a function of 100 and of 50 000 instructions."""
    with tempfile.TemporaryDirectory() as cache:
        fresh.run(OURS.format(count=100), cache)
        for count, (limit, loaded) in PROMISED.items():
            found = [fresh.run(OURS.format(count=count), cache) for _ in range(2 if quick else 5)]
            assert found[0]["instructions"] >= count, found[0]
            length = min(count, JAX_LENGTH if not quick else 500)
            jax = fresh.run(fresh.JAX.format(make=f"programs.chain({length}, jax.numpy.sin), [0.3, 0.2]"), cache)
            beside = f"{seconds(jax)} for {length:,}" if jax is not None else f"{PEERS['jax']} is not installed"
            yield Row(
                f"{count:,} instructions, fresh process, bytecode and library code in the cache: from import to first gradient",
                f"within {limit:g} s",
                min(f["first"] for f in found),
                limit,
                "s",
                {"JAX compiles": beside},
            )
            yield Row(
                f"{count:,} instructions, once LLVM and the library's code are loaded",
                f"within {loaded:g} s, loading left out",
                min(f["loaded"] for f in found),
                loaded,
                "s",
                {"JAX compiles": beside},
            )
        limit, _ = PROMISED[100]
        for what, program in ARRAYS.items():
            text = SHORT.format(program=program)
            fresh.run(text, cache)
            times = sorted(fresh.run(text, cache) for _ in range(2 if quick else 7))
            yield Row(
                f"{what}, fresh process, bytecode and library code in the cache: from import to first gradient",
                f"within {limit:g} s",
                times[0],
                limit,
                "s",
                {"median": seconds(times[len(times) // 2])},
            )
