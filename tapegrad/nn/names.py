"""PyTorch's names: what each is here, and what to write for those that are not offered, as ``docs/torch_names.md`` says it.

The page is in the package beside this file (in the repository a link to docs/). A row of its tables is a call as PyTorch has it, and the
expression that it is. What it is a row of (a function, a method of tensors and dual numbers, a schedule) is made of it when it is first asked for.
"""

from __future__ import annotations

import inspect
import math
import re
import types
from bisect import bisect_right
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ..array import creation
from ..array import functions as F
from ..array.differentiable import Differentiable
from ..array.functions import lift
from ..array.tensor import Tensor
from ..common.registry import attach
from ..numpy_api.methods import method_of
from . import pieces

_PAGE = Path(__file__).with_name("torch_names.md").read_text(encoding="utf-8")
_SCOPE = {
    "tg": types.SimpleNamespace(**vars(creation) | vars(F) | {"Tensor": Tensor}), "np": np, "math": math, "bisect_right": bisect_right, "lift": lift,
    **vars(pieces),
}  # fmt: skip


def rows_of(section: str) -> list[tuple[str, str]]:
    """The rows of a table of the page."""
    body = _PAGE.split(f"\n## {section}\n")[1].split("\n## ")[0]
    return re.findall(r"^\| (.+) \| (.+) \|$", body.replace("`", ""), re.MULTILINE)[1:]


def calls_of(section: str) -> dict[str, tuple[str, str]]:
    """Name -> call and expression, of a table of functions."""
    return {call.partition("(")[0]: (call, expression) for call, expression in rows_of(section)}


def _names(section):
    return {name: meaning for names, meaning in rows_of(section) for name in names.split(", ")}


_TENSORS, _FUNCTIONS, _FUNCTIONAL = map(calls_of, ("Tensors", "Functions", "tg.nn.functional"))
_NUMPY, _IN_PLACE, _DTYPES, _MISSING = map(_names, ("NumPy's functions", "In place", "Dtypes", "Not offered"))


@cache
def function_of(call: str, expression: str) -> Callable[..., Any]:
    """The function that a row is."""
    name, _, parameters = call.partition("(")
    # Of this file: what it records belongs to the line that calls it.
    function = eval(compile(f"lambda {parameters[:-1]}: {expression}", __file__, "eval"), _SCOPE)
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"PyTorch's name of ``{expression}``."
    return function


def _in_place(name):
    return lambda x, *args, **kwargs: x.copy_(getattr(x, name[:-1])(*args, **kwargs))


#: Names of methods -> what makes them.
METHODS = {
    **{name: (method_of, name) for name, operand in _NUMPY.items() if operand == "of an array"},
    **{name: (_in_place, name) for name in _IN_PLACE},
    **{name: (function_of, *row) for name, row in _TENSORS.items()},
}


class Method:
    """A method that is made when it is first asked for; of one that is not offered what is raised says what to write."""

    def __init__(self, name):
        self.name, self.function = name, None

    def __get__(self, instance, owner):
        if self.name not in METHODS:
            raise absent("t", self.name)
        if self.function is None:
            maker, *row = METHODS[self.name]
            self.function = maker(*row)
        return self.function if instance is None else types.MethodType(self.function, instance)


def absent(module: str, name: str) -> AttributeError:
    """The error for a name that a module, or a tensor ("t"), does not have."""
    what = "a tensor" if module == "t" else f"module {module.replace('tg', 'tapegrad', 1)!r}"
    known = _MISSING.get(f"{module}.{name}") or (f"np.{name}" if module == "tg" and name[0] != "_" and hasattr(np, name) else "")
    return AttributeError(f"{what} has no attribute {name!r}{f'; write {known}' if known else ''}", name=name)


def getter(module: str) -> Callable[[str], Any]:
    """``__getattr__`` of a module that has PyTorch's names."""
    rows = {"tg": _TENSORS | _FUNCTIONS, "tg.nn.functional": _FUNCTIONAL}.get(module, {})

    def get(name: str) -> Any:
        if name in rows and name[-1] != "_" and (module != "tg" or name not in _DTYPES):
            return _lifted(*rows[name])
        if module == "tg" and name in _DTYPES:
            return getattr(np, _DTYPES[name][3:])
        if module == "tg" and name in _NUMPY:
            return method_of(name)
        raise absent(module, name)

    return get


@cache
def _lifted(call, expression):
    """The function of a row with its first operands made tensors, so that it takes numbers and arrays as well."""
    function = function_of(call, expression)
    count = len({"x", "input", "x1", "x2"}.intersection(inspect.signature(function).parameters))

    def lifted(*args, **kwargs):
        return function(*map(lift, args[:count]), *args[count:], **kwargs)

    lifted.__name__ = lifted.__qualname__ = function.__name__
    lifted.__doc__, lifted.__signature__ = function.__doc__, inspect.signature(function)
    return lifted


attach(Differentiable, {
    name: Method(name) for name in (*METHODS, *(key[2:] for key in _MISSING if key[:2] == "t.")) if not hasattr(Differentiable, name)
})  # fmt: skip
