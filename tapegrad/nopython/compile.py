"""Compile a user's function for dual numbers, and explain what cannot be compiled.
"""

import linecache
import os
import re
import types as python_types
import weakref
from functools import cache
from pathlib import Path
from uuid import uuid4

import numba
from numba.extending import is_jitted

from ..codegen.numba_inside import INNER, call_of, ir, meaning, nopython_passes, part
from ..common.errors import UnsupportedInNumbaError
from . import algebra  # noqa: F401  (it registers operations)
from .key import content
from .request import UninterruptedCompiler
from .reverse.statements import Refused
from .rewrite import VARIANT, dual_pass


def compiler(*passes):
    """A compiler of a part of a derivative, with these passes."""

    class CompilerWithPasses(part(UninterruptedCompiler)):
        def define_pipelines(self):
            return nopython_passes(self.state, *passes)

    return CompilerWithPasses


@cache
def _pipeline(lanes, returns):
    return compiler(dual_pass(lanes, returns, dual_dispatcher))


_VARIANTS = weakref.WeakKeyDictionary()


def renewed(function, suffix="", scope=None, cells=None):
    """A copy of a Python function, which may have other globals and cells, and a suffix in its name."""
    copy = python_types.FunctionType(
        function.__code__, scope or function.__globals__, function.__name__, function.__defaults__, cells or function.__closure__
    )
    copy.__kwdefaults__, copy.__module__, copy.__qualname__ = function.__kwdefaults__, function.__module__, function.__qualname__ + suffix
    return copy


def dual_dispatcher(function, lanes, returns):
    """The dispatcher that compiles a user's function for dual numbers.

    Parameters
    ----------
    function : function or numba Dispatcher
    lanes : int
    returns : bool
        Whether the caller makes something active of the result (see `rewrite`).
    """
    source = function.py_func if is_jitted(function) else function
    # (A function whose globals have changed since is another one.)
    variants, key = _VARIANTS.setdefault(source, {}), (lanes, returns, content(function))
    if key not in variants:
        # Symbols are named after the function: the name is unique, so that code
        # that was loaded and code compiled now cannot be taken for one another.
        copy = renewed(source, f"_dual{lanes}{'r' * returns}_{uuid4().hex}")
        setattr(copy, VARIANT, True)
        variants[key] = numba.njit(**INNER | {"pipeline_class": _pipeline(lanes, returns)}, **meaning(function))(copy)
    return variants[key]


def compiled(dispatcher, argument_types, function):
    """Compile for these types now; the signature.

    Raises
    ------
    UnsupportedInNumbaError
        If that is not possible, with the user's line.
    """
    try:
        return call_of(dispatcher, argument_types)[1]
    except (UnsupportedInNumbaError, MemoryError):
        raise
    except Exception as error:
        raise UnsupportedInNumbaError(explain_failure(error, function)) from error


# ---- explaining failures ----------------------------------------------------------------
_PLACE = re.compile(r'File "([^"]+)", line (\d+)')
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")

#: Advice by a pattern in Numba's message; the first match counts.
_ADVICE = (
    (r"Function\(u?int(8|16|32|64)\)", "a conversion to integers would cut the derivative; int, math.floor and round return integers "
     "and have derivative 0"),
    (r"Function\(float(16|32)\)", "leave np.float32 out: a differentiated number is a float64; arrays of float32 may be arguments"),
    (r"Function\(<class 'complex'>\)|complex(64|128)", "write complex arithmetic in real and imaginary parts"),
    (r"setitem\W+(readonly )?array\((float|int)|Cannot (cast|store) dual|asarray|cannot unify.*array\((float|int)",
     "the array cannot hold differentiated values; make it inside, as float64, with np.zeros or np.empty_like(x), or pass one of floats, not read-only"),
    (r"(?i)cannot unify|can't unify", "give the variable one type on all paths"),
    (r"<function (solve|inv|pinv|det|slogdet|eig|svd|qr|cholesky|lstsq|interp|matrix_power)",
     "write this step out in loops, or take its derivative outside of Numba, with tg.tensor"),
)


def _places(trace):
    """Places that Numba was typing when it failed, innermost first, as (file, line)."""
    places = []
    while trace is not None:
        loc = trace.tb_frame.f_locals.get("loc")
        if isinstance(loc, ir.Loc):
            places.insert(0, (loc.filename, loc.line))
        trace = trace.tb_next
    return places


def explain_failure(error, function):
    """One message from Numba's or a refusal of reverse mode, with the user's line, the operation and what to do."""
    own = function.py_func if is_jitted(function) else function
    if isinstance(error, Refused):
        where, line, refused = error.loc.filename, error.loc.line, f"{error.reason[:1].upper()}{error.reason[1:]}."
        if where.startswith("<string>") or not line:
            where, line = own.__code__.co_filename, own.__code__.co_firstlineno
        return _message(where, line, own, "reverse mode", refused, error.advice)
    # Numba reports most of what it cannot do by a NumbaError, and the rest by any exception of its internals.
    text = str(error) if isinstance(error, numba.NumbaError) else f"{type(error).__name__} {error}"
    text, places = _COLOURS.sub("", text), _places(error.__traceback__)
    package, numba_folder = str(Path(__file__).parents[1]), str(Path(numba.__file__).parent)
    where, line = own.__code__.co_filename, own.__code__.co_firstlineno
    # Numba names the innermost place first.
    for name, number in [*_PLACE.findall(text), *places]:
        path = _full_path(name, own)
        if not path.startswith((package, numba_folder)) and path.endswith((".py", ">")):
            where, line = path, int(number)
            break
    said = [part.strip() for part in text.splitlines()]
    said = [part for part in said if part and not part.startswith(("Failed in", "During:", "File ", "<source", "^"))]
    reason = " ".join(said[:3])
    advice = next((words for pattern, words in _ADVICE if re.search(pattern, reason)), None)
    advice = advice or "use an operation that docs/inside_numba.md lists, or write it out in loops"
    return _message(where, line, own, "nopython code", f"Numba says: {reason}", advice)


def _message(where, line, function, mode, reason, advice):
    source = linecache.getline(where, line).strip() or function.__name__
    return f"{where}:{line}: this cannot be differentiated in {mode}: {source}\n  {reason}\n  What to do: {advice}."


def _full_path(path, function):
    """Numba shortens paths; the user's own file is known by its end."""
    full = function.__code__.co_filename
    if os.path.basename(path) == os.path.basename(full):
        return full
    return path if path.startswith("<") else os.path.abspath(path)
