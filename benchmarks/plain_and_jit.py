"""What `jit` notices, and functions whose plain and jitted gradients differ: programs, which are run to print a table of `docs/functional.md`.

A program defines `f`, and a change is made between two calls of its gradients.  `f` is called with `x`, or with `args` if the program
defines that.  `python -m benchmarks.in_docs` prints the tables; `tests/transforms/replay/test_noticed.py` runs the programs too.
"""

from __future__ import annotations

import decimal
import os
import warnings
from functools import cache
from typing import Any
from unittest import mock

import numpy as np

import tapegrad as tg
from tapegrad.transforms.environment import ITEMS, SMALL

from . import report

HEAD = "import collections, decimal, functools, itertools, os, random, tempfile, time, types, warnings\nimport numpy as np\n"
X = 0.75

#: What is looked at, and how: a table of docs/functional.md is printed from this.
NOTICED = (
    ("the code of the function", "other code, defaults or keyword defaults"),
    ("globals, closure cells and defaults that its code names", "bound to something else"),
    ("Python functions among these, and what their code names", "as of the function itself, also methods and properties of `self`; not those of packages"),
    ("rules of custom primitives, methods of a `tg.autograd.Function`", "as functions"),
    ("numbers, strings, `None`, ranges, dtypes", "another type or value: `1`, `1.0` and `True` differ, `0.0` and `-0.0` too"),
    ("lists, tuples, named tuples and dicts", f"other items, one by one and in order, the first {ITEMS:_} of each variable"),
    (f"arrays and tensors of up to {SMALL >> 10} KB", "other bytes, shape or dtype"),
    ("larger arrays", "another address, shape, dtype or writability; not their contents"),
    ("attributes of `self` of a method, in its `__dict__` and slots; those of a `tg.nn.Module`", "as variables"),
    ("anything else", "another object; not what is inside"),
)
#: What is not looked at.
UNNOTICED = (
    ("attributes of objects other than `self`, of classes and of modules", "pass the number or the array as an argument"),
    ("contents of arrays above 64 KB, sets, objects of other classes", "pass what changes as an argument"),
    ("random numbers, the time, files, the environment", "draw or read outside, and pass the result as an argument"),
    ("what the function does besides (`print`, writing to a file)", "it happens when the function is recorded, and then not again"),
    ("`np.seterr`, warning filters, print options, decimal contexts", "no part of a replay, which neither raises nor warns"),
)

#: Of each row of `UNNOTICED` programs, with their changes; nothing but the next call, where a change is empty.
STALE = {
    "attributes of objects other than `self`, of classes and of modules": (
        ("k = types.SimpleNamespace(a=2.0)\ndef f(x): return k.a * x", "k.a = 3.0"),
        ("class C:\n    a = 2.0\n    def f(self, x): return self.a * x\nf = C().f", "C.a = 3.0"),
        ("k = types.ModuleType('k')\nk.a = 2.0\ndef f(x): return k.a * x", "k.a = 3.0"),
    ),
    "contents of arrays above 64 KB, sets, objects of other classes": (
        (f"k = np.ones({SMALL // 8 + 1})\ndef f(x): return k[-1] * x", "k[-1] = 2.0"),
        ("k = {2, 3}\ndef f(x): return len(k) * x", "k.add(4)"),
        ("k = collections.deque([2.0])\ndef f(x): return k[0] * x", "k[0] = 3.0"),
        (f"k = [1.0] * {ITEMS + 1}\ndef f(x): return k[-1] * x", "k[-1] = 2.0"),
    ),
    "random numbers, the time, files, the environment": (
        ("k = np.random.default_rng(0)\ndef f(x): return k.random() * x", ""),
        ("def f(x): return random.random() * x", ""),
        ("def f(x): return time.perf_counter_ns() * x", ""),
        ("k = tempfile.TemporaryFile('w+')\ndef f(x): return (1.0 + k.tell()) * x", "k.write('text')"),
        ("def f(x): return len(os.environ.get('NO_SUCH_NAME', '-')) * x", "os.environ['NO_SUCH_NAME'] = 'long'"),
    ),
    "what the function does besides (`print`, writing to a file)": (
        ("k = tempfile.TemporaryFile('w+')\ndef f(x): return k.write('text') * (1.0 + k.tell()) * x", ""),
        ("k = collections.deque()\ndef f(x):\n    k.append(1.0)\n    return len(k) * x", ""),
        ("k = itertools.count(1)\ndef f(x): return next(k) * x", ""),
    ),
    "`np.seterr`, warning filters, print options, decimal contexts": (
        ("def f(x): return {'warn': 2.0, 'ignore': 3.0}[np.geterr()['divide']] * x", "np.seterr(divide='ignore')"),
        ("def f(x): return (2.0 + any(w[0] == 'once' for w in warnings.filters)) * x", "warnings.simplefilter('once')"),
        ("def f(x): return np.get_printoptions()['precision'] * x", "np.set_printoptions(precision=3)"),
        ("def f(x): return decimal.getcontext().prec * x", "decimal.getcontext().prec = 5"),
    ),
}
#: Others, by why they differ.
OTHERS = {
    "under `jit` an argument that is not differentiated is a tensor, too": (
        ("def f(x, n): return x * (2.0 if isinstance(n, float) else 3.0)\nargs = 0.75, 1.0", ""),
    ),
    "text that is made of a value is not guarded: it is that of the recorded call": (
        ("def f(x): return len(f'{x}') * x", "x = 10.25"),
    ),
}


def defined(program: str) -> dict[str, Any]:
    """The namespace of a program."""
    scope: dict[str, Any] = {"tg": tg, "__name__": "program", "x": X}
    exec(HEAD + program, scope)  # noqa: S102 - the texts above
    return scope


def answers(program: str, change: str, transform: Any) -> list[float]:
    """The gradients of a program before and after its change."""
    scope = defined(program)
    gradient, numbers = transform(tg.grad(scope["f"])), []
    with warnings.catch_warnings(), np.errstate(divide="warn"), np.printoptions(), decimal.localcontext(), mock.patch.dict(os.environ):
        for text in ("", change):
            exec(text, scope)  # noqa: S102
            numbers.append(float(gradient(*scope.get("args", (scope["x"],)))))
    return numbers


def differ(program: str, change: str) -> tuple[str, str]:
    """What a program gives, plainly and under `jit`, as text.

    Raises
    ------
    LookupError
        It gives the same.
    """
    plain, again, jitted = [answers(program, change, transform) for transform in (lambda g: g, lambda g: g, tg.jit)]
    if plain == again == jitted:
        raise LookupError(f"plain and jitted calls agree: {program}")
    if plain != again:
        # What it reads is another thing in each process.
        return "another number at each call", "one number, again and again"
    return tuple([f"{before:.4g}, {after:.4g}" for before, after in (plain, jitted)])  # type: ignore[return-value]


@cache
def lines() -> list[str]:
    """The table."""
    advice = dict(UNNOTICED)
    table = ["| function | between two calls | `tg.grad(f)` | `tg.jit(tg.grad(f))` | why |", "|---|---|---|---|---|"]
    for why, programs in [*STALE.items(), *OTHERS.items()]:
        for program, change in programs:
            text = "<br>".join(f"`{line}`" for line in program.split("\n"))
            told = f"{why}: {advice[why]}" if why in advice else why
            table.append(report.line(text, f"`{change}`" if change else "", *differ(program, change), told))
    return table
