"""What each compiled function of tapegrad costs: seconds of processor time to type and lower it by Numba, and in LLVM.

A new process with an empty cache makes them all.  "optimise" is a part of "LLVM".  A helper has no LLVM of its own: it is linked into
what calls it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator

from . import fresh
from .registry import Row, benchmark
from .timing import seconds

PROGRAM = """
import json, time
from collections import defaultdict
import numba.core.event as event
from tapegrad.codegen import code, llvm

clock, costs, passes, running = time.process_time, defaultdict(lambda: defaultdict(float)), [], []

class Passes(event.Listener):
    # A pass that meets a helper waits for the passes of that.
    def on_start(self, event):
        passes.append([clock(), 0.0])

    def on_end(self, event):
        start, inner = passes.pop()
        spent = clock() - start
        if passes:
            passes[-1][1] += spent
        stage = event.data["name"]
        kind = next((kind for kind, part in (("typing", "inference"), ("lowering", "lowering")) if part in stage), "reading")
        costs[event.data["module"] + "." + event.data["qualname"]][kind] += spent - inner

def timed(module, name, kind):
    function = getattr(module, name)
    def wrapped(*args, **options):
        start = clock()
        try:
            return function(*args, **options)
        finally:
            if running:
                costs[running[-1]][kind] += clock() - start
    setattr(module, name, wrapped)

make = code.machine_code
def machine_code(key, build, symbols):
    running.append(key.split("]", 1)[-1].split()[0] if key.startswith("numba") else key.split("|")[0])
    try:
        return make(key, build, symbols)
    finally:
        running.pop()
code.machine_code = machine_code
timed(llvm, "optimise", "optimise")
timed(llvm, "object_code", "LLVM")
event.register("numba:run_pass", Passes())

from tapegrad.tools.ahead import everything
for name, part in everything():
    if name.startswith("tapegrad."):
        part()
print(json.dumps(costs))
"""


@benchmark(name="compile_helpers")
def compile_helpers(quick: bool) -> Iterator[Row]:
    """What each compiled function of tapegrad takes to compile, the longest first."""
    with tempfile.TemporaryDirectory() as cache:
        costs = fresh.run(PROGRAM, cache)
    totals = {name: sum(cost for kind, cost in parts.items() if kind != "optimise") for name, parts in costs.items()}
    kinds = ("reading", "typing", "lowering", "optimise", "LLVM")
    sums = {kind: seconds(sum(parts.get(kind, 0.0) for parts in costs.values())) for kind in kinds}
    yield Row("all of them", measured=sum(totals.values()), unit="s", detail={"functions": len(totals), **sums})
    for name in sorted(totals, key=totals.__getitem__, reverse=True):
        yield Row(name, measured=totals[name], unit="s", detail={kind: seconds(cost) for kind, cost in costs[name].items()})
