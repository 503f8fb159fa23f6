"""What kinds of programs are made of whose function reads more than its arguments; `impure_programs` makes programs of them.

Each kind is a text.  ``BODY`` in it becomes lines that compute with what `read` reads, ``A`` its first value, ``B(n)`` that after
the n-th change, ``NAME`` an identifier.  The text defines ``f``, and unless nothing changes ``change(n)``; a function with static
arguments has ``arguments(call)`` too.
"""

import textwrap
from dataclasses import dataclass

#: Transformations by order of derivative, and those that look for a minimum.
FIRST = ("grad", "value_and_grad", "elementwise_grad", "jacobian")
SECOND = ("hessian", "hvp")
OPTIMISERS = ("lbfgs", "gradient_descent", "adam", "minimize")
ANY = FIRST + SECOND + OPTIMISERS


@dataclass(frozen=True)
class Kind:
    """What a function reads, and how that changes.

    Attributes
    ----------
    fault : int or None
        What it was first seen to go wrong for: 3 exceptions that are caught, 4 checkpoints, 5 an entry beside one that the function
        itself changes, 6 array operations that alternate, 7 keys that are equal, 8 order of dicts, 9 digests, 10 memory written
        before the way back, 11 frozen arrays, 12 what is not compared, 18 and 27 static arguments that are new at every call,
        21 strings that are names of globals.  None: right ever since.
    noticed : bool
        Whether a recorded function (`tg.jit`) has to notice the change.  If not, a wrong number under it is as documented.
    text, read : str
    values : tuple of str
        Which of `VALUES` it may hold.
    transformations : tuple of str
    arrays : bool
        Whether the argument has to be an array.
    points : tuple of str or None
        Expressions of arguments among which calls alternate, the first few calls at the first one.
    calls : int or None
        How many; a few if None.
    replayed : bool
        Whether a function that is recorded at all has to be replayed, too.
    """

    name: str
    fault: int | None
    noticed: bool
    text: str
    read: str = "NAME"
    values: tuple = ("float", "int", "bool", "str", "tuple", "array")
    transformations: tuple = ANY
    arrays: bool = False
    points: tuple | None = None
    calls: int | None = None
    replayed: bool = False


#: First value, value after the n-th change, and a number that depends on it.
VALUES = {
    "float": ("2.0", "2.0 + 3.0 * n", "{}"),
    "int": ("2", "2 + 3 * n", "{}"),
    "bool": ("True", "n % 2 == 0", "(2.0 if {} else 5.0)"),
    "str": ('"low"', '("high" if n % 2 else "low")', '(2.0 if {} == "low" else 5.0)'),
    "tuple": ("(1.0, 2.0)", "(1.0, 2.0 + n)", "sum({})"),
    "array": ("np.array([1.0, 2.0])", "np.array([1.0, 2.0 + n])", "float({}.sum())"),
    "True and 1": ("1", "(True if n % 2 else 1)", "(2.0 if type({}) is bool else 5.0)"),
    "1.0 and 1": ("1", "(1.0 if n % 2 else 1)", "(2.0 if type({}) is int else 5.0)"),
    "signed zero": ("0.0", "(-0.0 if n % 2 else 0.0)", "(3.0 + np.copysign(2.0, {}))"),
    "np.float64 and float": ("2.0", "(np.float64(2.0) if n % 2 else 2.0)", "(2.0 if type({}) is float else 5.0)"),
    "np.float64 of signed zero": ("np.float64(0.0)", "np.float64(-0.0 if n % 2 else 0.0)", "(3.0 + np.copysign(2.0, {}))"),
    "complex signed zero": ("0j", "complex(0.0, -0.0 if n % 2 else 0.0)", "(3.0 + np.copysign(2.0, {}.imag))"),
    "frozenset of signed zero": (
        "frozenset({0.0})",
        "frozenset({-0.0 if n % 2 else 0.0})",
        "(3.0 + float(np.copysign(2.0, next(iter({})))))",
    ),
    "Decimal": ('Decimal("1.0")', 'Decimal("1.00" if n % 2 else "1.0")', "float(len(str({})))"),
    "aware datetime": (
        "datetime(2020, 1, 1, 12, tzinfo=timezone.utc)",
        "datetime(2020, 1, 1, 12, tzinfo=timezone.utc).astimezone(timezone(timedelta(hours=n)))",
        "(0.25 * {}.hour)",
    ),
    "own __eq__": ('Named("a", 2.0)', 'Named("a", 2.0 + n)', "{}.k"),
    "keys True and 1": ("{1: 1.0}", "({True: 1.0} if n % 2 else {1: 1.0})", "(2.0 if type(next(iter({}))) is bool else 5.0)"),
    "int matrix": (
        "np.array([[1, 2], [3, 4]])",
        "(np.matrix if n % 2 else np.array)([[1, 2], [3, 4]])",
        "(0.1 * float(np.asarray({0} * {0}).sum()))",
    ),
    "field names": (
        'np.array([(1.0, 2.0)], [("a", "f8"), ("b", "f8")])',
        'np.array([(1.0, 2.0)], [("b", "f8"), ("a", "f8")] if n % 2 else [("a", "f8"), ("b", "f8")])',
        'float({}["a"][0])',
    ),
    "order of an int array": (
        "np.arange(6).reshape(2, 3)",
        "np.asarray(np.arange(6).reshape(2, 3), order='F' if n % 2 else 'C')",
        "(1.0 + float({}.ravel(order='K')[1]))",
    ),
}
PLAIN = ("float", "int", "bool", "str", "tuple", "array")
NUMBERS = ("float", "int")


def replaced(text, *pairs):
    for old, new in pairs:
        if old not in text:
            raise ValueError(f"{old!r} is not in the text")
        text = text.replace(old, new)
    return text


HEADER = """
import collections, ctypes, functools, io, itertools, os, random, types, warnings
from datetime import datetime, timedelta, timezone
from decimal import Decimal
import numpy as np
"""
NAMED = """
class Named:
    def __init__(self, name, k): self.name, self.k = name, k
    def __eq__(self, other): return self.name == other.name
    def __hash__(self): return hash(self.name)
"""


def indented(text, lines):
    """`text` with the line that is ``BODY`` replaced by `lines`, as far to the right."""
    out = []
    for line in text.strip("\n").splitlines():
        if line.strip() == "BODY":
            out += textwrap.indent("\n".join(lines), line[: line.index("BODY")]).splitlines()
        else:
            out.append(line)
    return "\n".join(out) + "\n"
