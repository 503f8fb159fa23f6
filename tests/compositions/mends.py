"""Take mends back, one by one, in a copy of the package, and find the first program at random that shows it.

    python -m tests.compositions.mends [NAME ...] [--programs 10000]

The generator has each fault in its domain as long as it is found.  Only programs whose text has the feature are run.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from .generator import program_of
from .running import outcome

ROOT = Path(__file__).resolve().parents[2]
ALL = lambda *parts: "(?s)" + "".join(f"(?=.*{part})" for part in parts)  # noqa: E731
BODY = r"def (step|each)\d+\("


class Mend:
    """Which programs may find it, and edits ``(file, text that stands there once, text)``; `said`: the error that it was, if it was one of ours."""

    def __init__(self, programs, *edits, said="$never"):
        self.programs, self.edits, self.said = programs, edits, said


MENDS = {
    "a path that is new in a loop of tangents, and a status that is dropped": Mend(ALL(BODY, " if ", "tg.jit"),
        ("transforms/loops/loop.py", "                tangent.prepared()\n", "                pass\n"),
        ("interpreter/steps.py", "                failed = P.CALL_FAILED\n", "                failed = 0\n")),
    "generalised ufuncs of integers": Mend(ALL("k @ |, k\\) @|@ k|@ np.arange|vecdot|matvec|@ np.where|\\(m\\d+ @", "tg.jit"),
        ("codegen/ufuncs.py", "isinstance(function, np.ufunc) and function.signature is None", "isinstance(function, np.ufunc)")),
    "seeds of autograd.grad": Mend(r"autograd\.grad\(y, p, s,",
        ("autograd/gradients.py", "    return any(map(tracked, _listed(grads))) and (nested.inside() or bool(thread_state().evaluating))\n", "    return False\n"),
        ("autograd/gradients.py", 'np.asarray(grad._let_out("a seed")) if', "np.asarray(grad._v) if")),
    "numbers that are arrays without axes": Mend(ALL(r"np\.mean\(m", "tg.jit"),
        ("kernel/terms.py", 'if meta is not SCALAR and meta.shape == () and meta.char == "d":', "if False:"),
        ("program/trace.py", "        value = normalise(value)\n        meta = self._described(value)", "        value = np.asarray(value)\n        meta = self._described(value)")),
    "results in half precision": Mend(ALL(r"sqrt\(np\.sign", "tg.jit", '"int8"'),
        ("program/trace.py", "        if meta.char not in ITEMSIZE:\n", "        if False:\n")),
    "float32 numbers beside float64 numbers": Mend("float32",
        ("array/record.py", "    if not any([isinstance(o, Differentiable) and o._v.__class__ is float for o in operands]):\n        return", "    if True:\n        return")),
    "sums over data in sums over data": Mend(ALL(r"tg\.sum_over.*tg\.sum_over"),
        ("many/data.py", "buffers.get((BUFFERS.depth, k))", "buffers.get((0, k))"), ("many/data.py", "buffers[BUFFERS.depth, k]", "buffers[0, k]")),
    "values of a checkpoint in two levels of tangents": Mend("checkpoint",
        ("transforms/checkpoint.py", "(value_of(value), value_of(before))", "[below(v)._v if isinstance(v, Differentiable) else v for v in (value, before)]"),
        ("transforms/checkpoint.py", "import trace_of, tracked\n", "import trace_of, tracked\nfrom ..array.differentiable import Differentiable, below\n")),
    "what is handed to a checkpoint": Mend(r"checkpoint.*, w\)",
        ("transforms/checkpoint.py", "flatten(argument)[0])) else Identity(argument)\n", "flatten(argument)[0])) else Identity(np.copy(argument))\n")),
    "what is not differentiated": Mend(r"tg\.grad\(lambda x, o",
        ("transforms/plain.py", "if k in argnums else value)", "if k in argnums else unflatten((l := flatten(value))[1], [np.copy(a) for a in l[0]]))"),
        ("transforms/plain.py", "import numpy as np\n", "import numpy as np\nfrom ..common.tree import unflatten\n")),
    "constants that are overwritten": Mend(r"zeros\(len",
        ("array/record.py", "    copy = copy_of(saved)\n    if copy is None and", "    copy = None\n    if False and"), said="ModifiedInPlaceError"),
    "constants that are overwritten, in recordings of derivatives": Mend(r"zeros\(len",
        ("program/trace.py", "v if r >= 0 else self.constants[-1 - r] for", "v for")),
    "bits of masks": Mend(r"np\.arange\(len\(v\)\) > 0\) &|\^ \(w",
        ("numpy_api/dispatch.py", " ufunc in DIRECT)) and not any_tracked((inputs, kwargs)):", " ufunc in DIRECT)) and False:"), said="bitwise"),
    "comparisons as keys": Mend(r"\{True: ",
        ("array/differentiable.py", "        if self._t is None and (self._r or", "        if True or (self._r or")),
    "arrays of objects": Mend(r"np\.array\(\[c",
        ("array/differentiable.py", "    if error is None or isinstance(error, TapegradError)", "    if True or isinstance(error, TapegradError)")),
    "no iterations": Mend(r"tg\.(scan|map)\([^\n]*\[1:\]",
        ("transforms/loops/api.py", "return init, _of_no_iterations(f, init, leaves, structure, name)", "return init, None"), said="array of objects"),
    "results without elements": Mend(r"\[:0\]",
        ("transforms/loops/running.py", "(loop.rows,)) if self.results.leaves else", "(loop.rows,)) if self.results.size else")),
    "what a body changes besides its carry": Mend(r"\[0\] \*= -0\.8",
        ("transforms/loops/body.py", "if not state.changed():\n                return", "if True:\n                return")),
    "counts of integers": Mend("count_nonzero",
        ("program/values.py", 'self.converted(operand, "?") if function is np.count_nonzero else operand', "operand")),
    "integers that are written in place": Mend(r"np\.add(\.at)?\(q",
        ("array/whole.py", "    if target.__class__ is IntTensor:\n", "    if False:\n")),
    "copies of masks": Mend(r"[<>] \S+\)\.copy\(\)",
        ("array/functions/elementwise.py", '    if x.dtype.char == "?":', "    if False:")),
}  # fmt: skip


def found(mend, count):
    """``(seed, programs run before, what it gives)`` of the first program of `count` that is right, but not in a copy without the mend."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(ROOT / "tapegrad", Path(folder, "tapegrad"), ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copytree(Path(__file__).parent, Path(folder, "tests/compositions"), ignore=shutil.ignore_patterns("__pycache__"))
        for name, old, new in mend.edits:
            path = Path(folder, "tapegrad", name)
            text = path.read_text()
            if text.count(old) != 1:
                return None, 0, f"{name} has {text.count(old)} times {old!r}: the list of mends is to be brought up to date"
            path.write_text(text.replace(old, new))
        environment = os.environ | {"PYTHONPATH": folder, "TAPEGRAD_CACHE_DIR": str(Path(folder, "cache"))}
        seed, tried = -1, -1
        while seed + 1 < count:
            first = seed + 1
            command = [sys.executable, "-m", "tests.compositions", str(first), str(count - first), "--work", "--matching", mend.programs]
            with Path(folder, "errors").open("w") as log:
                worker = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, cwd=folder, env=environment)
            says, at = "", seed
            for line in worker.stdout:
                gave = json.loads(line)
                if "done" not in gave:
                    at, tried = gave["seed"], tried + 1
                    continue
                says = str((gave["wrong"] or [""])[0]) or next((text for text in gave["refused"] if re.search(mend.said, text)), "")
                if says:
                    worker.kill()
                    break
            code, errors = worker.wait(), Path(folder, "errors").read_text()
            if not says and code == 0:
                return None, tried + 1, "not found"
            if at < first:
                return None, 0, errors[-500:]
            seed, says = at, says or f"ends with {code}: {errors[-300:]}"
            right = outcome(program_of(seed))
            if not right["wrong"] and not re.search(mend.said, str(right["refused"])):
                return seed, tried, says
    return None, tried + 1, "not found"


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.compositions.mends", description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", help="(parts of) names; by default all")
    parser.add_argument("--programs", type=int, default=10000)
    options = parser.parse_args()
    missed = 0
    for name, mend in MENDS.items():
        if any(part in name for part in options.names or [""]):
            seed, tried, says = found(mend, options.programs)
            missed += seed is None
            print(f"{name}: {'NOT FOUND' if seed is None else f'seed {seed}'}, {tried} programs before: {says[:200]}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
