"""How long the first call by a kernel takes: recording, differentiating, rolling, compiling, running.

Each measurement is a fresh process whose cache directory was filled by an earlier one,
with Python's own bytecode in it, as an installed package has it.  The time is that from
`value_and_grad` to the end of the first call after which there is a kernel, for a function
that was never seen; in a process that has not used the library yet, and in one that has made a
kernel of another function before.  JAX compiles steps of the same loop, unrolled as ours are.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from .registry import PEERS, Missing, Row, benchmark, peer
from .timing import seconds

FUNCTIONS = """
def chain(count, np):
    def f(x):
        y, total = x[0], 0.0
        for _ in range(count // 4):
            y = y * 1.0001 + np.sin(y)
            total = total + y
        return total
    return f, [0.3, 0.2]

def runge_kutta(steps, np):
    h = 0.02
    def f(p):
        a, b, c, d, u, v = p[0], p[1], p[2], p[3], p[4], p[5]
        def rates(u, v):
            return (a - b * v) * u, (d * u - c) * v
        for _ in range(steps):
            u1, v1 = rates(u, v)
            u2, v2 = rates(u + h / 2 * u1, v + h / 2 * v1)
            u3, v3 = rates(u + h / 2 * u2, v + h / 2 * v2)
            u4, v4 = rates(u + h * u3, v + h * v3)
            u = u + h / 6 * (u1 + 2.0 * u2 + 2.0 * u3 + u4)
            v = v + h / 6 * (v1 + 2.0 * v2 + 2.0 * v3 + v4)
        return u * u + v * v
    return f, [0.55, 0.028, 0.80, 0.024, 33.0, 6.0]

def rosenbrock(count, np):
    def f(x):
        total = 0.0
        for i in range(x.shape[0] - 1):
            total = total + 100.0 * (x[i + 1] - x[i] * x[i]) ** 2 + (1.0 - x[i]) ** 2
        return total
    return f, np.linspace(-1.0, 1.0, count // 8 + 2)

def irregular(count, np):
    def f(x):
        rng = np.random.default_rng(5)
        kinds, picks = rng.integers(0, 5, count).tolist(), rng.integers(1, 17, (count, 2)).tolist()
        values = [x[k % 4] * (1.0 + k) for k in range(16)]
        for kind, (a, b) in zip(kinds, picks):
            a, b = values[-a], values[-b]
            if kind == 0:
                a = np.sin(a)
            elif kind == 1:
                a = 0.5 * (a + b)
            elif kind == 2:
                a = a - b
            elif kind == 3:
                a = np.tanh(a * b)
            else:
                a = 0.3 * a
            values.append(a)
        return sum(values[-16:], 0.0)
    return f, [0.3, 0.2, 0.5, 0.7]
"""

OURS = """
import json, time
import numpy as np
import tapegrad as tg
{functions}
def first(function, x):
    start = time.perf_counter()
    g = tg.value_and_grad(function, kernel="always")
    while not g.stats().kernels:
        if g.stats().records > 9:
            raise RuntimeError(str(g.stats()))
        g(x)
    return time.perf_counter() - start, g

f, x = {name}({count}, np)
x = np.asarray(x)
fresh, g = first(f, x)
other = first(lambda x: 1.5 * x[0] + x[1], x)
again, g = first({name}({count}, np)[0], x)
print(json.dumps({{"fresh": fresh, "loaded": again, "instructions": g.stats().instructions, "stages": g.kernel(x).seconds}}))
"""

STAGES = """
import json
import numpy as np
import tapegrad as tg
{functions}
f, x = {name}({count}, np)
kernel = tg.value_and_grad(f).kernel(np.asarray(x))
print(json.dumps([len(kernel.tape), kernel.seconds]))
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
{functions}
f, x = {name}({count}, jax.numpy)
x = np.asarray(x)
jax.jit(lambda x: x + 1.0)(x).block_until_ready()
start = time.perf_counter()
jax.jit(jax.value_and_grad(f))(x)[1].block_until_ready()
print(json.dumps(time.perf_counter() - start))
"""

#: What is promised, by (function, its size).
PROMISED = {("chain", 100): ("100 instructions", 0.1), ("runge_kutta", 1000): ("RK4 of 1 000 steps", 1.0)}
#: Runge-Kutta steps that JAX compiles, and seconds that it may take.
JAX_STEPS, PATIENCE = 100, 120


def run(program: str, name: str, count: int, cache: str, patience=None):
    """Run a program in a new interpreter; what it printed."""
    environment = os.environ | {"TAPEGRAD_CACHE_DIR": cache, "PYTHONPYCACHEPREFIX": os.path.join(cache, "bytecode")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    text = program.format(functions=FUNCTIONS, name=name, count=count)
    ended = subprocess.run(
        [sys.executable, "-c", text], env=environment, capture_output=True, text=True, check=False, timeout=patience
    )
    if ended.returncode != 0:
        raise RuntimeError(ended.stderr.strip().splitlines()[-1])
    return json.loads(ended.stdout)


def jax_seconds(cache: str) -> str:
    """What JAX takes for fewer steps."""
    try:
        found = run(JAX, "runge_kutta", JAX_STEPS, cache, PATIENCE)
    except subprocess.TimeoutExpired:
        return f"more than {PATIENCE} s for {JAX_STEPS} steps"
    return f"{PEERS['jax']} is not installed" if found is None else f"{seconds(found)} for {JAX_STEPS} steps"


def plot(found: dict, path: Path) -> str:
    """Draw seconds of compilation against lengths of tapes; the file's name, or why there is none."""
    try:
        peer("matplotlib")
    except Missing as why:
        return str(why)
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    for name, points in found.items():
        axes.loglog(*zip(*((n, sum(stages.values())) for n, stages in points)), marker="o", label=name)
    axes.set(xlabel="instructions of the tape", ylabel="seconds from the tape to machine code")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=120)
    return path.name


@benchmark(part=5, name="kernels_first")
def kernels_first(quick: bool) -> Iterator[Row]:
    """Time to the first call by a kernel, and time of compilation against the length of the tape."""
    with tempfile.TemporaryDirectory() as cache:
        run(OURS, "chain", 40, cache)
        beside = {} if quick else {"JAX compiles": jax_seconds(cache)}
        for (name, count), (what, limit) in PROMISED.items():
            times = [run(OURS, name, count, cache) for _ in range(2 if quick else 5)]
            for key, words in (("loaded", "once the library is loaded"), ("fresh", "in a fresh process, after import")):
                best = min(times, key=lambda t: t[key])
                stages = {stage: seconds(taken) for stage, taken in best["stages"].items()}
                detail = {"instructions": best["instructions"], **stages, **beside}
                yield Row(f"{what}, {words}", f"within {limit:g} s", best[key], limit, "s", detail)
        lengths = {"rosenbrock": 10_000 if quick else 1_000_000, "irregular": 1000 if quick else 10_000}
        found = {}
        for name, longest in lengths.items():
            counts = [10**k for k in range(2, len(str(longest)))]
            found[{"rosenbrock": "a loop", "irregular": "no loop"}[name]] = [run(STAGES, name, n, cache) for n in counts]
    drawn = plot(found, Path(os.environ["BENCHMARK_RESULTS"]) / "kernels_first.png")
    for name, points in found.items():
        length = points[-1][0]
        detail = {f"{n:,}": seconds(sum(stages.values())) for n, stages in points}
        each = [sum(stages.values()) / n for n, stages in points]
        yield Row(
            f"compilation, {name}, {length:,} instructions, each beside one of {points[-2][0]:,}",
            "no more than linear in the length: at most 1.5", each[-1] / each[-2], 1.5, detail={**detail, "plot": drawn},
        )  # fmt: skip
