"""All machine code that belongs to no user's function: what a first gradient needs, and all functions that the package compiles.

`everything` names it; calling what it yields makes the code, or loads it.  ``python -m tapegrad.tools.ahead FILE [--levels]``
writes it to a file, a part of a wheel (`tools.building`; `codegen.pack` says what is in it), for this processor or for levels of them.
"""

import itertools
import os
import re
import subprocess
import sys
import tempfile
from functools import partial
from importlib import import_module
from pathlib import Path

import numpy as np

from ..array import functions as F
from ..array.creation import tensor
from ..array.record import apply
from ..codegen import pack
from ..codegen.host import levels_here
from ..codegen.library import compiled_function
from ..codegen.memory import spread_address
from ..codegen.of_rows import reverse_switch, value_switch
from ..common.errors import require
from ..interpreter.signature import Signature
from ..program.values import ValueProgram
from ..rules import ROWS
from ..rules import lang as L

_PACKAGE = Path(__file__).parents[1]
#: A vector, a matrix and a number; by how many operands a row has, which it is given.
_ARRAYS = {"v": np.full(6, 0.75), "m": np.full((2, 6), 0.75), "n": 0.75}
_LAYOUTS = {1: ["v"], 2: ["vv", "vn", "nv", "mv", "vm"], 3: ["vvv", "vnn"]}
#: Functions of arrays that are no element-wise rows, on vectors and matrices: name -> calls.
_FUNCTIONS = {
    **{
        name: [lambda x, f=f, a=axis: f(x, axis=a) for axis in (None, 0, -1)]
        for name, f in {f.__name__: f for f in (np.sum, np.max, np.prod, np.cumsum, np.cumprod)}.items()
    },
    **{f.__name__: [partial(f, axis=0), partial(f, axis=-1)] for f in (F.logsumexp, F.softmax, F.log_softmax)},
    "norm": [np.linalg.norm, lambda x: np.linalg.norm(x, axis=-1)],
    "matmul": [lambda x: x @ x.T, lambda x: x @ x.reshape(-1)[-x.shape[-1] :], lambda x: np.outer(x, x)],
    "items": [lambda x: x[1:] * x[:-1], lambda x: x[::2] * x[::-2], lambda x: x[::-1] * x, lambda x: x[..., 0] * 2.0, lambda x: x[0] * 2.0],
    "joined": [lambda x: np.concatenate([x, x]), lambda x: np.stack([x, x], axis=-1), np.diff, lambda x: x.T * 2.0],
}
#: Row -> its constant operand, where that is not just a number.
_CONSTANTS = {"where": _ARRAYS["v"] > 0.5, "ldexp": np.array(2)}


def everything():
    """What is to be made.

    Yields
    ------
    name : str
        Of a part, for who shows how far it is.
    make : callable
        Has the code of that part made, or loads it.
    """
    for path in sorted(_PACKAGE.rglob("*.py")):
        if re.search(r"^(@compiled|_COMPILED = )", path.read_text(encoding="utf-8"), re.MULTILINE):
            module = ".".join((_PACKAGE.name, *path.relative_to(_PACKAGE).with_suffix("").parts))
            yield module, partial(import_module, module)
    for name in L.COMPILED:
        yield name, partial(compiled_function, name)
    yield "threads", spread_address
    for switch in (value_switch, reverse_switch):
        for special in (False, True):
            yield f"{switch.__name__} {special}", partial(switch, special)
    for name, calls in _FUNCTIONS.items():
        yield f"loops of {name}", partial(_functions, calls)
    for row in ROWS:
        if row.elementwise:
            yield f"loops of {row.name}", partial(_elementwise, row)


def _functions(calls):
    for call, x in itertools.product(calls, (_ARRAYS["v"], _ARRAYS["m"])):
        call(tensor(x, requires_grad=True))
    _loops()


def _elementwise(row):
    slots = row.slots(row.arity)
    for layout, tracked in itertools.product(_LAYOUTS[row.arity], itertools.product((True, False), repeat=len(slots))):
        on = dict(zip(slots, tracked))
        apply(row, [tensor(_ARRAYS[a], requires_grad=on[k]) if k in on else _CONSTANTS.get(row.name, 2.0) for k, a in enumerate(layout)])
    _loops()


def _loops():
    """The loops for what has been recorded: of sweeps, and of values where NumPy has none."""
    for row, attrs, metas, _, out in list(Signature.BY_KEY):
        ValueProgram.of_row(row, attrs, metas, out)
    Signature.ready(list(Signature.BY_KEY.values()))


def write(path, levels):
    """Write the code for levels of processors to a file (``""``: for this one); two processes work on each."""
    packs = {}
    with tempfile.TemporaryDirectory() as room:
        for level in levels:
            folder = Path(room, level or "here")
            environment = os.environ | {"TAPEGRAD_CACHE_DIR": str(folder), "OMP_NUM_THREADS": "1"} | ({"TAPEGRAD_TARGET": level} if level else {})
            command = [sys.executable, "-B", "-P", "-m", __spec__.name]
            # They meet in the middle: what one has made, the other finds.
            working = [subprocess.Popen([*command, end, folder / "level"], env=environment) for end in ("--first", "--last")]
            require(not any([process.wait() for process in working]), f"the code for {level or 'this processor'} was not made")
            packs[(folder / "level").read_text()] = {code.name.partition(".")[0]: code.read_bytes() for code in sorted(folder.glob("objects/*/*.o"))}
    pack.write(path, packs)


def main(arguments):
    """Write a pack, or be one of the processes that make what is in it."""
    first, *rest = arguments
    if first in ("--first", "--last"):
        np.seterr(all="ignore")
        for _, make in list(everything())[:: 1 if first == "--first" else -1]:
            make()
        Path(*rest).write_text(pack.level())
    else:
        write(Path(first), levels_here() if rest else [""])


if __name__ == "__main__":
    main(sys.argv[1:])
