"""What to write where a number that carries a derivative would become a plain one: a line for the place where that happens."""

from __future__ import annotations

import re
import sys
from typing import Any

import numpy as np

from ..common.errors import GradientError, LeaveTapeError
from ..common.registry import registry
from ..tape.places import PACKAGE, caller_frame, running_text

_OURS = f"{__package__.partition('.')[0]}.pandas."
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
    if assigned:
        name = re.match(r"\w+", text) if package != "numpy" else None
        array = name.group() if name else "a"
        return f"a plain array cannot hold it; make the array with {array} = tg.zeros(shape), or np.zeros_like(t)"
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


def not_in_pandas(operands: tuple[Any, ...]) -> None:
    """Raise if a method of pandas asks for this calculation with the plain array of a table: it would hold a tensor without knowing."""
    if not any([operand.__class__ is np.ndarray and operand.ndim for operand in operands]):
        return
    frame = sys._getframe(2)
    # What `tapegrad.pandas` computes is its own affair, and so is what the user's functions do that pandas calls.
    while frame.f_code.co_filename.startswith(PACKAGE) and frame.f_back is not None and not frame.f_globals.get("__name__", "").startswith(_OURS):
        frame = frame.f_back
    if _package(frame) == "pandas":
        raise LeaveTapeError(
            f"a method of pandas ({frame.f_code.co_name}) computes with a tensor and the plain array of a table, whose missing values it would "
            "not see any more; write df * t for df.mul(t), np.where(mask, s, t) for s.where(mask, t) and s.fillna(t), np.clip(s, t, None) for s.clip(t)"
        )


def not_for_pandas() -> None:
    """Raise if pandas asks for the plain number, of which it holds an array of objects."""
    if _package(caller_frame(2)) == "pandas":
        # What it would not take for a reason to try another way.
        raise GradientError(
            "pandas holds numbers on the tape as objects here, and asks for plain ones, which would cut the derivative (mean, std, median and rolling "
            "do): compute with the tensor, tg.array(s), by position; write df.to_numpy() @ v for df @ v"
        )


def _package(frame):
    return "" if frame is None else str(frame.f_globals.get("__name__", "")).partition(".")[0]
