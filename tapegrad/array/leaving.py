"""What to write where a number that carries a derivative would become a plain one: a line for the place where that happens."""

from __future__ import annotations

import re

import numpy as np

from ..common.errors import LeaveTapeError
from ..common.registry import registry
from ..tape.places import caller_frame, name_of, running_text

_MAKERS = ("array", "asarray", "asanyarray", "ascontiguousarray", "float64", "float32", "full", "fromiter")


def instead() -> str:
    """What to write in place of the expression that is running, which asks a tensor for its number."""
    frame = caller_frame(2)
    text, assigned = running_text(frame)
    package = _package(frame)
    if package == "scipy":
        return registry.advice()
    if package == "numpy" and not assigned:
        while _package(frame.f_back) == "numpy":
            frame = frame.f_back
        name = f"np.{frame.f_code.co_name.strip('_')}"
        return f"{name} takes a number out of an array of tensors; write tg.array(a) for its argument, as in {name}(tg.array(a))"
    if assigned or re.match(r"\w+\.fill\(", text):
        name = re.match(r"\w+", text) if package != "numpy" else None
        array = name.group() if name else "a"
        return f"{copied_first(array)}; or make the array with {array} = tg.zeros(shape), or np.zeros_like(t)"
    call = re.match(r"(math|np|numpy)\.([\w.]+)\(", text)
    module, called = call.groups() if call else ("", "")
    if module == "math" and hasattr(np, called):
        return f"for math.{called}(t) write np.{called}(t)"
    if called == "arange":
        return "for np.arange(t, ...) write start + step * np.arange(n), or take it from tapegrad.numpy"
    if called in _MAKERS and module != "math":
        return f"for np.{called}([t, ...], dtype=float) write tg.array([t, ...])"
    if called and module != "math":
        return f"np.{called} does not know arrays of tensors; write np.{called}(tg.array(a))"
    array = re.match(r"(\w+)\.astype\(", text)
    if array:
        return f"an array of tensors becomes a tensor by tg.array({array[1]})"
    return f"for math.sin(t) write np.sin(t), for array[i] = t use an array made by tg.zeros; {registry.advice()}"


def copied_first(array: str) -> str:
    """What to do with the array of this name before a tensor is written into it."""
    return f"{array} is a plain array, which cannot hold it: write {array} = tg.tensor({array}) first, a copy that can"


def into_plain(how: str, array: np.ndarray) -> LeaveTapeError:
    """The error for a tensor that is written into a plain array."""
    return LeaveTapeError(
        f"{how} would write a tensor into a plain array and cut its derivative. {copied_first(name_of(array) or 'array')}; "
        "or write `result = a + t`, or make the array with tg.zeros"
    )


def _package(frame):
    return "" if frame is None else str(frame.f_globals.get("__name__", "")).partition(".")[0]
