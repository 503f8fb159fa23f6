"""GradBench's messages: JSON, one a line.

=========================================================  =================================================
message                                                    answer
=========================================================  =================================================
``{"id", "kind": "start"}``                                ``{"id", "tool": "tapegrad"}``
``{"id", "kind": "define", "module"}``                     ``{"id", "success"}``
``{"id", "kind": "evaluate", "module", "function",         ``{"id", "success": true, "output", "timings"}``,
"input"}``                                                 or ``{"id", "success": false, "error"}``
anything else                                              ``{"id"}``
=========================================================  =================================================

A module is a file of `modules` with a table ``FUNCTIONS``: the name of each
function to a *preparation*, which is given the input and returns two callables:
the work, which is timed, and the conversion of its result to JSON, which is not.
The work is done at least ``min_runs`` times (once, if that is not given) and for at least
``min_seconds`` seconds in all, every run timed for itself.

Every answer is JSON as its standard has it, which knows no NaN and no infinity: an output that
has one is an error.  In messages they are understood.  Whatever comes, the process goes on to the next line.
"""

from __future__ import annotations

import importlib
import json
import math
import pkgutil
import time
import traceback
from collections.abc import Callable, Iterable
from typing import Any, TextIO

from . import modules
from .given import number, shown


def names() -> list[str]:
    """The modules that there are."""
    return sorted(found.name for found in pkgutil.iter_modules(modules.__path__))


def module(name: str) -> Any:
    """Import a module of the suite.

    Raises
    ------
    LookupError
        If there is none of that name.
    """
    if name not in names():
        raise LookupError(f"there is no module {name!r}; there are {', '.join(names())}")
    return importlib.import_module(f"{modules.__name__}.{name}")


def evaluate(name: str, function: str, given: Any) -> dict[str, Any]:
    """Run one function of a module; returns the output and the timings.

    Raises
    ------
    LookupError
        If there is no such module or function.
    ValueError
        If ``min_runs`` or ``min_seconds`` is no finite number.
    """
    functions: dict[str, Callable] = module(name).FUNCTIONS
    if function not in functions:
        raise LookupError(f"module {name!r} has no function {function!r}; it has {', '.join(functions)}")
    options = given if isinstance(given, dict) else {}
    runs, seconds = (_finite(options.get(key, 0), key) for key in ("min_runs", "min_seconds"))
    work, convert = functions[function](given)
    taken: list[int] = []
    left = 1e9 * seconds
    while not taken or len(taken) < runs or left > 0:
        start = time.perf_counter_ns()
        result = work()
        taken.append(time.perf_counter_ns() - start)
        left -= taken[-1]
    timings = [{"name": "evaluate", "nanoseconds": nanoseconds} for nanoseconds in taken]
    return {"output": convert(result), "timings": timings}


def _finite(value: Any, key: str) -> float:
    if not math.isfinite(number(value, key)):
        raise ValueError(f"{key} is {shown(value)}: it must be finite")
    return value


def answer(message: Any) -> dict[str, Any]:
    """The answer to one message; never raises for what a message asks."""
    if not isinstance(message, dict):
        return {"id": None}
    reply: dict[str, Any] = {"id": message.get("id")}
    kind = message.get("kind")
    if kind == "start":
        reply["tool"] = "tapegrad"
    elif kind == "define":
        try:
            module(str(message.get("module")))
            reply["success"] = True
        except (Exception, SystemExit) as error:
            reply.update(success=False, error=_line(error))
    elif kind == "evaluate":
        try:
            found = evaluate(str(message.get("module")), str(message.get("function")), message.get("input"))
            reply.update(success=True, **found)
        except (Exception, SystemExit) as error:
            reply.update(success=False, error=_line(error))
    return reply


def _line(error: BaseException) -> str:
    """What went wrong, and where."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} (line {last.lineno} of {last.name})"


def _text(reply: dict[str, Any]) -> str:
    """An answer as a line of JSON; an error where it cannot be one."""
    try:
        return json.dumps(reply, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        try:
            mark = json.dumps(reply.get("id"), allow_nan=False)
        except (TypeError, ValueError, RecursionError):
            mark = "null"
        why = json.dumps(f"the output cannot be written as JSON (NaN and infinity cannot): {error}")
        return f'{{"id": {mark}, "success": false, "error": {why}}}'


def serve(lines: Iterable[str], out: TextIO) -> None:
    """Answer every line, until there are no more."""
    for line in lines:
        if not line.strip():
            continue
        try:
            message = json.loads(line)
        except (ValueError, RecursionError) as error:
            reply: dict[str, Any] = {"id": None, "success": False, "error": _line(error)}
        else:
            reply = answer(message)
        out.write(_text(reply) + "\n")
        out.flush()
