"""PyTorch's names: what each is here, and what to write for those of its and of other libraries that are not offered, as ``docs/torch_names.md`` says it.

The page is in the package beside this file (in the repository a link to docs/). A row of its tables is a call as PyTorch has it, and the
expression that it is. What it is a row of (a function, a method of tensors and dual numbers, a schedule) is made of it when it is first asked for.
"""

from __future__ import annotations

import difflib
import math
import re
import sys
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


_TENSORS = calls_of("Tensors")
_NUMPY, _IN_PLACE, _MISSING = map(_names, ("NumPy's functions", "In place", "Not offered"))
_MISSING |= _names("Names of JAX, autograd, CasADi and pandas")


@cache
def function_of(call: str, expression: str) -> Callable[..., Any]:
    """The function that a row is; numbers and arrays are taken as tensors."""
    lifted = "".join(f"{name} = lift({name}); " for name in re.findall(r"\b(?:x[12]?|input)\b", call.partition("(")[2]))
    made: dict[str, Any] = {}
    # Of this file: what it records belongs to the line that calls it.
    exec(compile(f"def {call}: {lifted}return {expression}", __file__, "exec"), _SCOPE, made)
    (function,) = made.values()
    function.__doc__ = f"PyTorch's name of ``{expression}``."
    return function


def _in_place(name):
    return lambda x, *args, **kwargs: x.copy_(getattr(x, name[:-1])(*args, **kwargs))


#: Of tensors ("t") and modules: name -> what makes it, of what.
MADE: dict[str, dict[str, tuple[Any, ...]]] = {
    "t": {
        **{name: (method_of, name) for name, operand in _NUMPY.items() if operand == "of an array"},
        **{name: (_in_place, name) for name in _IN_PLACE},
        **{name: (function_of, *row) for name, row in _TENSORS.items()},
    },
    "tg": {
        **{name: (method_of, name) for name in _NUMPY},
        **{name: (function_of, *row) for name, row in (_TENSORS | calls_of("Functions")).items()},
        **{name: (getattr, np, meaning[3:]) for name, meaning in _names("Dtypes").items()},
    },
    "tg.nn.functional": {name: (function_of, *row) for name, row in calls_of("tg.nn.functional").items()},
}


def getter(module: str) -> Callable[[str], Any]:
    """``__getattr__`` of a module that has PyTorch's names."""

    def get(name: str) -> Any:
        if name not in MADE.get(module, ()):
            raise absent(module, name)
        maker, *row = MADE[module][name]
        return maker(*row)

    return get


class Method:
    """A method that is made when it is asked for; of one that is not offered what is raised says what to write."""

    made = staticmethod(cache(getter("t")))

    def __init__(self, name):
        self.name = name

    def __get__(self, instance, owner):
        function = self.made(self.name)
        return function if instance is None else types.MethodType(function, instance)


def absent(module: str, name: str) -> AttributeError:
    """The error for a name that a module, or a tensor ("t"), does not have."""
    what = "a tensor" if module == "t" else f"module {module.replace('tg', 'tapegrad', 1)!r}"
    known = _MISSING.get(f"{module}.{name}", "")
    if not known and name[0] != "_":
        close = difflib.get_close_matches(name, dir(sys.modules[module.replace("tg", "tapegrad", 1)]), 1, 0.8) if module != "t" else ()
        known = f"np.{name}" if module == "tg" and hasattr(np, name) else f"{module}.{close[0]}" if close else ""
    return AttributeError(f"{what} has no attribute {name!r}{f'; write {known}' if known else ''}", name=name)


_ASKED = (*MADE["t"], *(name[2:] for name in _MISSING if name[:2] == "t."))
attach(Differentiable, {name: Method(name) for name in _ASKED if not hasattr(Differentiable, name)})
