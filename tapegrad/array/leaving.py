"""Advice where a number that carries a derivative would become a plain one, for the line of code that does it."""

from __future__ import annotations

import difflib
import math
import re
import sys
import threading
from contextlib import AbstractContextManager
from traceback import walk_stack, walk_tb
from typing import Any

import numpy as np

from ..common.errors import GradientError, LeaveTapeError, TapegradError, UnsupportedFunctionError
from ..common.registry import registry
from ..tape.places import PACKAGE, caller_frame, name_of, running_text

_HERE = __package__.partition(".")[0]
#: Messages of NumPy and Python for an operand that is an array of objects; for a float, of the missing method.
_OF_OBJECTS = re.compile(r"dtype\('O'\)|no callable \w+ method|not supported for the input types|'(?:float|int)' object has no attribute '(\w+)'")
#: Functions of NumPy that write into an array.
_FILLERS = ("full", "full_like", "put", "copyto", "place", "putmask", "fill_diagonal")
#: Objects of NumPy that make an array when they are called or indexed, by class.
_OBJECTS = {
    "vectorize": "write tg.vmap(f)(t) for np.vectorize(f)(t), or f(t) if f takes arrays", "RClass": "write np.concatenate([[a], t]) for np.r_[a, t]",
    "CClass": "write np.column_stack([t, u]) for np.c_[t, u]", "ndenumerate": "write ((i, t[i]) for i in np.ndindex(t.shape)) for np.ndenumerate(t)",
}  # fmt: skip
_HOLDS = "make the array with tg.zeros(shape), or np.zeros_like(t), which can hold a tensor"
#: What is running, and what to write for it.
_ADVICE = (
    (r"((?!np\.|numpy\.)\w+|.*\))\.dot\(", "write {0} @ t for {0}.dot(t)"),
    (r"(?:[\w.]+|.*\bdefault_rng\(\w*\))\.(?:normal|gauss|uniform|exponential|laplace|logistic|lognormal|gamma|beta|chisquare|standard_t|poisson|binomial)\(",
     "write t + u * rng.standard_normal(n) for rng.normal(t, u), and tapegrad.scipy.stats.gamma.ppf(rng.random(n), t) for rng.gamma(t, size=n) and its like"),
    (r"(?:[\w.]+|.*\bdefault_rng\(\w*\))\.(?:choice|permutation|permuted)\(",
     "write t[rng.permutation(len(t))] for rng.permutation(t), t[rng.integers(len(t), size=n)] for rng.choice(t, n), and p=t.detach() for p=t"),
    (r"(?:[\w.]+|.*\bdefault_rng\(\w*\))\.multivariate_normal\(", "write m + np.linalg.cholesky(C) @ rng.standard_normal(n) for rng.multivariate_normal(m, C)"),
    (r"(float|complex)\(\w", "leave {} out: a tensor needs none"),
    (r"round\(", "write np.round(t) for round(t)"),
    (r"[rb]?['\"].*%", "write an f-string, or t.item() for the number in the text"),
    (r"(?:np|numpy)\.arange\(", "write start + step * np.arange(n) for np.arange(t, ...), or take it from tapegrad.numpy"),
    (r"(?:np|numpy)\.array\((?![\[(])", "write t.copy() for np.array(t), or tg.array(a) for np.array(a) of a list of tensors"),
    (r"(?:np|numpy)\.(asarray|asanyarray|ascontiguousarray|float64)\((?![\[(])",
     "leave np.{} out: a tensor needs none, and a list of tensors becomes one by tg.array"),
    (rf"(?:np|numpy)\.(?:{'|'.join(_FILLERS)})\(", _HOLDS),
    (r"(?:np|numpy)\.(array|asarray|asanyarray|ascontiguousarray|float64|float32|fromiter)\(", "write {stack}tg.array([t, ...]) for np.{0}([t, ...])"),
    (r"(?:np|numpy)\.([\w.]+)\(", "write np.{0}(tg.array(a)): np.{0} does not know arrays of tensors"),
    (r"(\w+)\.astype\(", "write tg.array({}), which makes an array of tensors one tensor"),
)  # fmt: skip
#: A statement that computes into an array in place.
_UPDATE = re.compile(r"([\w.]+)(?:\[.*\])? [^\s=]{1,2}= ")
#: Functions of `math` that NumPy does not have, and their names in `scipy.special`; names that are Python's own without ``math.``.
_SPECIAL = {name: f"scipy.special.{name}" for name in ("erf", "erfc", "gamma")} | {"lgamma": "scipy.special.gammaln"}
_BUILTIN = {"pow", "sum"}
#: The last refusal of each thread to a function of SciPy, whose compiled code may lose it and raise an error of its own: that function's frame, and
#: the message.
_LAST = threading.local()


def refused(message: str) -> LeaveTapeError:
    """The error for a number that would leave the tape."""
    frame = next((frame for frame, _ in walk_stack(caller_frame(2)) if package_of(frame) == "scipy"), None)
    _LAST.said = (id(frame), frame.f_code, message) if frame is not None else None
    return LeaveTapeError(message)


def instead(whole: bool = False) -> str:
    """What to write for the expression that is running, which asks a tensor for its number, or (`whole`) for its array: one advice, the one that fits."""
    frame = caller_frame(2)
    text, assigned = running_text(frame)
    package = package_of(frame)
    while package == "numpy" and not assigned and package_of(frame.f_back) == "numpy":
        frame = frame.f_back
    if package == "scipy" or package == "numpy" and not assigned and package_of(frame.f_back) == "scipy":
        return registry.later.advice()
    if package == "numpy" and not assigned:
        called = frame.f_code.co_name
        if called in _FILLERS:
            return _HOLDS
        if called[0] == "_" or not hasattr(np, called):
            return _OBJECTS.get(type(frame.f_locals.get("self")).__name__, "write it in functions of NumPy that take tensors, or import tapegrad.numpy as np")
        return f"write np.{called}(tg.array(a)): np.{called} takes numbers out of an array of tensors"
    if package != "numpy" and "site-packages" in frame.f_code.co_filename:
        return f"give {package} plain numbers: t.detach()"
    if assigned or re.match(r"\w+(\.fill\(| .=|\[.*\] .?= )", text):
        name = re.match(r"\w+", text) if package != "numpy" else None
        array = name.group() if name else "a"
        return f"{copied_first(array)}; or make the array with {array} = tg.zeros(shape), or np.zeros_like(t)"
    for pattern, advice in _ADVICE:
        if match := re.match(pattern, text):
            return advice.format(*match.groups(), stack="np.stack([t, ...]) or " if whole else "")
    call = re.match(r"((?:math\.)?(\w+))\(", text)
    if call and (call[1] != call[2] or hasattr(math, call[2]) and call[2] not in _BUILTIN):
        home = _SPECIAL.get(call[2], f"np.{call[2]}" if hasattr(np, call[2]) else "")
        return f"write {home}(t) for {call[1]}(t)" if home else f"write {call[1]}(t) in functions of NumPy"
    if whole:
        return "leave np.asarray(t) out, and write np.stack([t, u]) or tg.array([t, u]) for an array of tensors"
    return (
        "write np.sin(t) for math.sin(t), tg.array([t, ...]) for np.array([t, ...]), and make an array that is assigned to with tg.zeros; "
        "SciPy's functions that take tensors are in tapegrad.scipy"
    )


def clearer(error: BaseException | None) -> Exception | None:
    """The error that says what to write, for what NumPy, SciPy or Python say of tensors; None if there is nothing to add."""
    if isinstance(error, ImportError):
        return _not_offered(error)
    if error is None or isinstance(error, TapegradError) or not isinstance(error, Exception):
        return None
    frames = [frame for frame, _ in walk_tb(error.__traceback__)]
    text, library, said = str(error), package_of(frames[-1]) in ("numpy", "scipy"), getattr(_LAST, "said", None)
    if library and said is not None and any(id(frame) == said[0] and frame.f_code is said[1] for frame in frames):
        # Compiled code of SciPy's has its own words for whatever its callback raised, or goes on with what was in memory.
        return LeaveTapeError(said[2])
    before = error.__cause__ or error.__context__
    if isinstance(before, LeaveTapeError) and (library or isinstance(error, SystemError) or text.startswith("setting an array element")):
        # NumPy and SciPy put words of their own in front of ours.
        return LeaveTapeError(before.message)
    if isinstance(error, AttributeError) and isinstance(error.obj, (registry.Tensor, registry.Dual)) and text.startswith("'"):
        close = difflib.get_close_matches(error.name, dir(error.obj), 1)
        error.args = (f"a tensor has no attribute {error.name!r}{f'; write t.{close[0]}' if close else ''}",)
        # Without the name: Python would go on to suggest one of its own.
        error.name = ""
    elif text == "'int' object is not callable" and (number := re.match(r"(.+?)\.size\(", running_text(frames[-1])[0])):
        return TypeError(f"{number[1]}.size is a number, as NumPy has it: write {number[1]}.shape, or {number[1]}.shape[0]")
    elif package_of(frames[-1]) == "scipy" and re.search(r"\btype\b", text) and _hold_tensors(frames[-1:]):
        return LeaveTapeError(f"{registry.later.advice(frames[-1])}; of an array of tensors SciPy says: {text.strip()}")
    elif "output from dtype('O')" in text and (update := _UPDATE.match(running_text(frames[-1])[0])):
        return LeaveTapeError(f"{copied_first(update[1])}; NumPy says: {text}")
    elif isinstance(error, (TypeError, ValueError, AttributeError)) and (said := _OF_OBJECTS.search(text)):
        if (not said[1] or isinstance(getattr(np, said[1], None), np.ufunc) or library) and _hold_tensors(frames):
            return UnsupportedFunctionError(
                "write tg.array([t, 1.0]) for np.array([t, 1.0]), or import tapegrad.numpy as np: where t carries a derivative NumPy makes an array of "
                f"objects of it, and says then: {text}"
            )
    return None


def _hold_tensors(frames):
    return any(registry.objects.holds_tensors(value) for frame in frames for value in list(frame.f_locals.values()))


def _not_offered(error):
    """What a module of ours says of a name that is imported from it: Python keeps that to itself."""
    imported = re.match(r"cannot import name '(\w+)'", str(error))
    module, _, name = f"{error.name}.{imported[1]}".rpartition(".") if imported else str(error.name).rpartition(".")
    if module.partition(".")[0] == _HERE:
        try:
            getattr(sys.modules[module], name)
        except AttributeError as absent:
            return ImportError(str(absent))
    return None


def clarify(error: BaseException | None) -> None:
    """Raise the `clearer` error, if there is one."""
    better = clearer(error)
    if better is not None:
        raise better.with_traceback(error.__traceback__) from error


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
    update = _UPDATE.match(running_text(caller_frame(2))[0])
    return LeaveTapeError(
        f"{copied_first(name_of(array) or (update[1] if update else 'array'))}; or write `result = a + t`, or make the array with tg.zeros. "
        f"{how} would write a tensor into a plain array and cut its derivative"
    )


def not_in_pandas(operands: tuple[Any, ...]) -> None:
    """Raise if a method of pandas asks for this calculation with the plain array of a table: it would hold a tensor without knowing."""
    if not any([operand.__class__ is np.ndarray and operand.ndim for operand in operands]):
        return
    frame = sys._getframe(2)
    # What `tapegrad.pandas` computes is its own affair, and so is what the user's functions do that pandas calls.
    while frame.f_code.co_filename.startswith(PACKAGE) and frame.f_back is not None and not frame.f_globals.get("__name__", "").startswith(f"{_HERE}.pandas."):
        frame = frame.f_back
    if package_of(frame) == "pandas":
        raise LeaveTapeError(
            f"a method of pandas ({frame.f_code.co_name}) computes with a tensor and the plain array of a table, whose missing values it would "
            "not see any more; write df * t for df.mul(t), np.where(mask, s, t) for s.where(mask, t) and s.fillna(t), np.clip(s, t, None) for s.clip(t)"
        )


def not_for_pandas() -> None:
    """Raise if pandas asks for the plain number, of which it holds an array of objects."""
    if package_of(caller_frame(2)) == "pandas":
        # What it would not take for a reason to try another way.
        raise GradientError(
            "pandas holds numbers on the tape as objects here, and asks for plain ones, which would cut the derivative (mean, std, median and rolling "
            "do): compute with the tensor, tg.array(s), by position; write df.to_numpy() @ v for df @ v"
        )


def package_of(frame):
    """The package whose code runs in a frame; empty for None."""
    return "" if frame is None else str(frame.f_globals.get("__name__", "")).partition(".")[0]
