"""How long the first call by a kernel takes: recording, differentiating, rolling, compiling, running.

Each measurement is a fresh process whose cache directory was filled by an earlier one,
with Python's own bytecode in it, as an installed package has it.  The time is that from
`jit` to the end of the first call that a kernel answers, the second one, for a function
that was never seen; in a process that has not used the library yet, and in one that has made a
kernel of another function before.  Kernels that are on disk are dropped before: a row of its own is about them.
JAX compiles steps of the same loop, unrolled as ours are.
Then the time of compilation against the length of the tape, of a loop and of a function that has none.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator

from . import fresh, plots
from .registry import PEERS, Row, benchmark
from .timing import seconds

OURS = """
import json, os, time
import numpy as np
import tapegrad as tg
from benchmarks import fresh, programs
def first(function, x):
    fresh.forget_kernels(os.environ["TAPEGRAD_CACHE_DIR"])
    start = time.perf_counter()
    g = tg.jit(tg.value_and_grad(function), kernel="always")
    g(x)
    if not g.stats().kernels:
        raise RuntimeError(str(g.stats()))
    g(x)
    return time.perf_counter() - start, g

f, x = {make}
x = np.asarray(x)
alone, g = first(f, x)
other = first(lambda x: 1.5 * x[0] + x[1], x)
f, _ = {make}
again, g = first(f, x)
print(json.dumps({{"fresh": alone, "loaded": again, "instructions": g.stats().instructions, "stages": g.kernel(x).seconds}}))
"""

#: From the start of the imports to the first gradient by a kernel.
WHOLE = """
import json, time
start = time.perf_counter()
import numpy as np
import tapegrad as tg
from benchmarks import programs
f, x = {make}
g = tg.jit(tg.value_and_grad(f), kernel="always")
g(np.asarray(x))
if not g.stats().kernels:
    raise RuntimeError(str(g.stats()))
print(json.dumps(time.perf_counter() - start))
"""

STAGES = """
import json
import numpy as np
import tapegrad as tg
from benchmarks import programs
f, x = {make}
kernel = tg.value_and_grad(f).kernel(np.asarray(x))
print(json.dumps([len(kernel.tape), kernel.seconds]))
"""

#: Calls while another thread compiles: the first one, the slowest and the mean of the next ones, the same without that thread.
MEANWHILE = """
import json, time
import numpy as np
import tapegrad as tg
from benchmarks import programs
f, x = {make}
x, now = np.asarray(x), time.perf_counter
def timed(g):
    start = now()
    g(x)
    return now() - start
tg.jit(tg.value_and_grad(lambda x: x[0] * x[1]))(x)
alone = tg.jit(tg.value_and_grad(f), kernel="never")
timed(alone)
swept = min(timed(alone) for _ in range(200))
g = tg.jit(tg.value_and_grad(f))
start = now()
calls = [timed(g)]
while not g.stats().kernels:
    calls.append(timed(g))
print(json.dumps({{"first": calls[0], "slowest": max(calls[1:]), "mean": sum(calls[1:]) / len(calls[1:]), "alone": swept, "until": now() - start}}))
"""

#: Functions and points, of which a size is to be filled in.
CHAIN = "programs.chain({}), [0.3, 0.2]"
RUNGE_KUTTA = "programs.lotka_volterra({}, 0.02), programs.RATES"
LOOP = "programs.rosenbrock_loop, np.linspace(-1.0, 1.0, {} // 8 + 2)"
NO_LOOP = "programs.irregular({}), [0.3, 0.2, 0.5, 0.7]"

#: What is promised, by (function, its size).
PROMISED = {(CHAIN, 100): ("100 instructions", 0.1), (RUNGE_KUTTA, 1000): ("RK4 of 1 000 steps", 1.0)}
#: About the instructions of a program without loops whose compilation is promised.
IRREGULAR = 5600
#: Runge-Kutta steps that JAX compiles, and seconds that it may take.
JAX_STEPS, PATIENCE = 100, 120


def jax_seconds(cache: str) -> str:
    """What JAX takes for fewer steps."""
    try:
        found = fresh.run(fresh.JAX.format(make=RUNGE_KUTTA.format(JAX_STEPS)), cache, patience=PATIENCE)
    except subprocess.TimeoutExpired:
        return f"more than {PATIENCE} s for {JAX_STEPS} steps"
    return f"{PEERS['jax']} is not installed" if found is None else f"{seconds(found)} for {JAX_STEPS} steps"


def plot(found: dict) -> str:
    """Draw seconds of compilation against lengths of tapes; see `plots.picture`."""

    def draw(axes):
        for name, points in found.items():
            axes.loglog(*zip(*((n, sum(stages.values())) for n, stages in points)), marker="o", label=name)
        axes.set(xlabel="instructions of the tape", ylabel="time from the tape to machine code [s]")
        axes.set_title("compilation of a kernel")
        axes.grid(alpha=0.3)
        axes.legend()

    return plots.picture(draw, plots.place("kernels_first.png"), (6.5, 4.2))


@benchmark(name="kernels_first")
def kernels_first(quick: bool) -> Iterator[Row]:
    """Time to the first call by a kernel, and time of compilation against the length of the tape."""
    with tempfile.TemporaryDirectory() as cache:
        fresh.run(OURS.format(make=CHAIN.format(40)), cache)
        beside = {} if quick else {"JAX compiles": jax_seconds(cache)}
        for (make, count), (what, limit) in PROMISED.items():
            times = [fresh.run(OURS.format(make=make.format(count)), cache) for _ in range(2 if quick else 5)]
            for key, words in (("loaded", "once the library is loaded"), ("fresh", "in a fresh process, after import")):
                best = min(times, key=lambda t: t[key])
                stages = {stage: seconds(taken) for stage, taken in best["stages"].items()}
                detail = {"instructions": best["instructions"], **stages, **beside}
                yield Row(f"{what}, {words}", f"within {limit:g} s", best[key], limit, "s", detail)
        for what, limit, kept in (("library code on disk", 0.6, False), ("the kernel on disk too", 0.45, True)):
            times = []
            for _ in range(2 if quick else 5):
                if not kept:
                    fresh.forget_kernels(cache)
                times.append(fresh.run(WHOLE.format(make=RUNGE_KUTTA.format(1000)), cache))
            detail = {"median": seconds(sorted(times)[len(times) // 2])}
            yield Row(f"RK4 of 1 000 steps, from import to the first gradient by a kernel, {what}", f"within {limit:g} s", min(times), limit, "s", detail)
        lengths = {"a loop": (LOOP, 10_000 if quick else 1_000_000), "no loop": (NO_LOOP, 1000 if quick else 10_000)}
        found = {}
        for name, (make, longest) in lengths.items():
            counts = [10**k for k in range(2, len(str(longest)))]
            found[name] = [fresh.run(STAGES.format(make=make.format(n)), cache) for n in counts]
        length, stages = fresh.run(STAGES.format(make=NO_LOOP.format(IRREGULAR)), cache)
        yield Row(f"compilation, no loop, {length:,} instructions", "within 2.5 s", sum(stages.values()), 2.5, "s", stages)
        meanwhile = fresh.run(MEANWHILE.format(make=NO_LOOP.format(10_000)), cache)
        taken = {name: seconds(meanwhile[name]) for name in ("until", "slowest", "mean", "alone")}
        what = "no loop, 9,056 instructions: the first call under jit, while another thread compiles"
        yield Row(what, "within 1 s", meanwhile["first"], 1.0, "s", taken)
    drawn = plot(found)
    for name, points in found.items():
        length, stages = points[-1]
        detail = {f"{n:,}": seconds(sum(stages.values())) for n, stages in points}
        each = [sum(stages.values()) / n for n, stages in points]
        yield Row(
            f"compilation, {name}, {length:,} instructions, each beside one of {points[-2][0]:,}",
            "no more than linear in the length: at most 1.5", each[-1] / each[-2], 1.5, detail={**detail, "plot": drawn},
        )  # fmt: skip
        yield Row(f"compilation, {name}, {length:,} instructions", "", sum(stages.values()), None, "s")
        if name == "a loop":
            promised = length >= 1_000_000
            promise, limit = ("about a second: rounded, one", 1.5) if promised else ("", None)
            rolled = stages["columns"] + stages["roll"]
            yield Row(f"rolling a tape of {length:,} instructions and its derivative", promise, rolled, limit, "s")
