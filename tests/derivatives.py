"""Where each derivative is stated: by a row of the table, or by hand; read off the package.

    python -m tests.derivatives        # for each row that @njit has a function of, where forward and reverse mode take its derivative from

On tapes there is nothing to list: each executor reads the row (`tests/test_executors.py`).  A derivative that is written by hand is one of

*primitive*: a primitive of the package with rules of its own (``defvjp``, ``defjvp``);
*adjoint*: a function whose adjoint inside of ``@njit`` is text (`nopython/reverse/rows.py`);
*tangent*: a function inside of ``@njit`` that opens dual numbers, and makes them of values and tangents;
*series*: Taylor coefficients without the rule of a row (`array/series.py`).
"""

import ast
import operator
import re

import numpy as np

from tapegrad.codegen.numba_inside import typing_context
from tapegrad.nopython import compile
from tapegrad.nopython.loops import LOOPS
from tapegrad.nopython.reverse import activity, rows
from tapegrad.nopython.scalars import FUNCTIONS, OPERATORS, UFUNCS
from tapegrad.rules import ROWS
from tests.sources import PACKAGE, tree_of

#: What opens dual numbers or makes them, in nopython code and in LLVM.
_OF_TANGENTS = {"component", "seeded", "parts", "build", "splat", "absolute_product"}
#: Where the derivative comes from a row, or where numbers come in and go out: who calls what is there states none.
_AROUND = {f"nopython/{name}.py" for name in ("types", "builtins", "scalars", "drivers", "reverse/runtime")}
#: A line of text that adds to a shadow (`SA`, `SB[i]`).
_ADDS = re.compile(r"\s*S[A-H](\[.*\])? [+-]= ")


def _files(folder=""):
    for path in sorted((PACKAGE / folder).rglob("*.py")):
        yield path.relative_to(PACKAGE).as_posix(), tree_of(path)


def _words(node):
    """Names that are read in it and not set in it."""
    names = [n for n in ast.walk(node) if isinstance(n, ast.Name)]
    own = {a.arg for n in ast.walk(node) if isinstance(n, ast.arguments) for a in n.args}
    return {n.id for n in names if isinstance(n.ctx, ast.Load)} - {n.id for n in names if not isinstance(n.ctx, ast.Load)} - own


def _named(s):
    """What a statement at the top of a file defines."""
    return getattr(s, "name", None) or next((t.id for t in getattr(s, "targets", ()) if isinstance(t, ast.Name)), ast.unparse(s).partition("(")[0])


def primitives():
    """``file: primitive`` of all that have rules of their own; the classes of users' ones are not among them."""
    found = set()
    for file, tree in _files():
        at_top = {getattr(s, "name", None) for s in tree.body}
        for top in tree.body if not file.startswith("autograd/custom/") else ():
            for node in ast.walk(top):
                if isinstance(node, ast.Attribute) and node.attr in ("defvjp", "defjvp"):
                    owner = ast.unparse(node.value)
                    found.add(f"{file}: {owner if owner in at_top else top.name}")
    return found


def adjoints():
    """Names of the functions whose adjoint is text, and the files that have such text."""
    names = {row[0][0].__name__ if row[0] else row[1] for row in rows._CALLS}
    texts = [(file, node.value) for file, tree in _files("nopython") for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    return names, {file for file, text in texts if isinstance(text, str) and _ADDS.match(text)}


def tangents():
    """``file: function`` of all inside of ``@njit`` that open dual numbers or make them, by themselves or by what they call in their file."""
    found = set()
    for file, tree in _files("nopython"):
        defined = {_named(s): _words(s) for s in tree.body if not isinstance(s, (ast.Import, ast.ImportFrom, ast.Expr))}
        words, readers = _OF_TANGENTS, None
        while readers != (readers := {name for name, read in defined.items() if read & words}):
            words = words | {name for name in readers if file not in _AROUND}
        found |= {f"{file}: {name}" for name in readers}
    return found


def series():
    """Functions of a coefficient's order that read no rule of a row."""
    (tree,) = (tree for file, tree in _files("array") if file == "array/series.py")
    (of,) = (s for s in tree.body if getattr(s, "name", "") == "series_of")
    terms = [f for f in of.body if isinstance(f, ast.FunctionDef) and [a.arg for a in f.args.args] == ["k"]]
    return {f.name for f in terms if not any(isinstance(n, ast.Attribute) and n.attr == "tangent" for n in ast.walk(f))}


# ---- by row -----------------------------------------------------------------------------------
def function_of(row):
    """The NumPy function, or the operator, that a row is inside of ``@njit``; None if there is none of its name."""
    if row.numpy:
        return row.numpy[0] if row.name != "matmul" else operator.matmul
    return getattr(np, row.name, None) or getattr(np.linalg, row.name, None)


def inside_forward(function, by_hand):
    """Where forward mode inside of ``@njit`` has the derivative of a NumPy function from; None if from nowhere."""
    for template in reversed(getattr(typing_context()._lookup_global(function), "templates", ())):
        definition = getattr(template, "_overload_func", None)
        if definition is None:
            if any(base.__module__ == "tapegrad.nopython.scalars" for base in template.__mro__):
                return "the row"
        elif definition.__qualname__.startswith("_add."):
            return "the row"
        elif definition.__module__.startswith("tapegrad.nopython."):
            name = f"{definition.__module__.removeprefix('tapegrad.').replace('.', '/')}.py: {definition.__qualname__.partition('.')[0]}"
            return f"by hand, {name}" if name in by_hand else f"dual numbers in {name}"
    return None


def inside_reverse(function):
    """The same of reverse mode."""
    places = (
        (rows._BY_FUNCTION, "by hand, nopython/reverse/rows.py"), (activity.VIEW_FUNCTIONS, "the same memory"), (rows.BLANK, "none"), (LOOPS, "the loop of nopython/loops.py"),
        (OPERATORS | UFUNCS | FUNCTIONS, "the row"),
    )  # fmt: skip
    return next((word for functions, word in places if function in functions), None)


def table():
    """For each row that is a function inside of ``@njit``: row, where forward mode has its derivative from, and where reverse mode."""
    compile.dual_dispatcher  # noqa: B018  (its module has registered what Numba is told of dual numbers)
    typing_context().refresh()
    rows, by_hand = [(row, function_of(row)) for row in ROWS], tangents()
    return [(row.name, inside_forward(f, by_hand), inside_reverse(f)) for row, f in rows if f is not None]


if __name__ == "__main__":
    for name, forward, reverse in table():
        print(f"{name:18} {forward or '-':44} {reverse or '-'}")
