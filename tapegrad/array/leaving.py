"""Advice where a number that carries a derivative would become a plain one, for the line of code that does it."""

from __future__ import annotations

import re
import sys
from contextlib import AbstractContextManager
from traceback import walk_tb
from typing import Any

import numpy as np

from ..common.errors import GradientError, LeaveTapeError, TapegradError, UnsupportedFunctionError
from ..common.registry import registry
from ..tape.places import PACKAGE, caller_frame, name_of, running_text

_OURS = f"{__package__.partition('.')[0]}.pandas."
#: Messages of NumPy and Python for an operand that is an array of objects; for a float, of the missing method.
_OF_OBJECTS = re.compile(r"dtype\('O'\)|no callable \w+ method|not supported for the input types|'(?:float|int)' object has no attribute '(\w+)'")
_MAKERS = ("array", "asarray", "asanyarray", "ascontiguousarray", "float64", "float32", "full", "fromiter")


def instead() -> str:
    """Advice for the expression that is running, which asks a tensor for its number."""
    frame = caller_frame(2)
    text, assigned = running_text(frame)
    package = _package(frame)
    if package == "scipy":
        return registry.later.advice()
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
    return (
        "for math.sin(t) write np.sin(t), for array[i] = t use an array made by tg.zeros, for np.array([t, ...]) write tg.array([t, ...]); "
        f"{registry.later.advice()}"
    )


def clarify(error: BaseException | None) -> None:
    """Raise an error that says what to write, if `error` is what NumPy says of arrays of tensors."""
    if not isinstance(error, (TypeError, ValueError, AttributeError)) or isinstance(error, TapegradError):
        return
    text = str(error)
    if isinstance(error.__cause__, LeaveTapeError) and text.startswith("setting an array element"):
        raise LeaveTapeError(error.__cause__.message) from error
    said, frames = _OF_OBJECTS.search(text), walk_tb(error.__traceback__)
    if said and (not said[1] or isinstance(getattr(np, said[1], None), np.ufunc) or _package([*frames][-1][0]) == "numpy"):
        raise UnsupportedFunctionError(
            "NumPy does not compute this of an array of objects, which np.array([t, 1.0]) is where t carries a derivative: write "
            f"tg.array([t, 1.0]), or import tapegrad.numpy as np. NumPy says: {text}"
        ) from error


class _Clarified(AbstractContextManager):
    """`clarify` as a context manager around a function that is differentiated."""

    def __exit__(self, kind, error, trace):
        clarify(error)


clarified = _Clarified()


def copied_first(array: str) -> str:
    """Advice for the array of this name, into which a tensor is written."""
    return f"{array} is a plain array, which cannot hold it: write {array} = tg.tensor({array}) first, a copy that can"


def into_plain(how: str, array: np.ndarray) -> LeaveTapeError:
    """The error for a tensor that is written into a plain array."""
    return LeaveTapeError(
        f"{how} would write a tensor into a plain array and cut its derivative. {copied_first(name_of(array) or 'array')}; "
        "or write `result = a + t`, or make the array with tg.zeros"
    )


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
