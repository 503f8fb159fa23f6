"""What each compiled function of tapegrad costs: seconds of processor time to type and lower it by Numba, and in LLVM.

A new process with an empty cache makes them all.  "optimise" is a part of "LLVM".  A helper has no LLVM of its own: it is linked into
what calls it.

    python -m benchmarks.compile_helpers              # of all modules
    python -m benchmarks.compile_helpers tapegrad.interpreter.steps
"""

from __future__ import annotations

import sys
import tempfile

from . import fresh

KINDS = ("reading", "typing", "lowering", "optimise", "LLVM")
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
    if name in {modules!r} or not {modules!r} and name.startswith("tapegrad."):
        part()
print(json.dumps(costs))
"""


def costs(*modules: str) -> dict[str, dict[str, float]]:
    """Seconds by function and kind, of all modules with compiled functions or of some.

    Parameters
    ----------
    *modules : str

    Returns
    -------
    dict
    """
    with tempfile.TemporaryDirectory() as cache:
        found = fresh.run(PROGRAM.format(modules=modules), cache)
    assert isinstance(found, dict)
    return found


def main(modules: list[str]) -> None:
    """Print the table, the longest first."""
    found = costs(*modules)
    found["all of them"] = {kind: sum(parts.get(kind, 0.0) for parts in found.values()) for kind in KINDS}
    totals = {name: sum(cost for kind, cost in parts.items() if kind != "optimise") for name, parts in found.items()}
    print(*(f"{kind:>9}" for kind in ("seconds", *KINDS)))
    for name in sorted(totals, key=totals.__getitem__, reverse=True):
        print(*(f"{cost:9.3f}" for cost in (totals[name], *(found[name].get(kind, 0.0) for kind in KINDS))), f" {name}")


if __name__ == "__main__":
    main(sys.argv[1:])
