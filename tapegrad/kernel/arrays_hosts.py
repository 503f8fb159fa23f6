"""What NumPy computes without derivative, in the rules' language."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Callable

from ..rules import lang as L

#: Element-wise rows that integers may go through.
INTEGER_OPERATIONS = frozenset("add subtract multiply negative maximum minimum where clone square power2 relu clip".split())


@dataclass(frozen=True)
class HostFunction:
    """A ufunc without derivative in the rules' language; `of`: the dtypes for which that holds (None: all)."""

    build: Callable
    of: str | None = None


#: NumPy's ufuncs without derivative, by name.
HOST_FUNCTIONS = {
    "less": HostFunction(lambda x, y: x < y),
    "less_equal": HostFunction(lambda x, y: x <= y),
    "greater": HostFunction(lambda x, y: x > y),
    "greater_equal": HostFunction(lambda x, y: x >= y),
    "equal": HostFunction(L.eq),
    "not_equal": HostFunction(L.ne),
    "logical_and": HostFunction(lambda x, y: x & y),
    "logical_or": HostFunction(lambda x, y: x | y),
    "logical_not": HostFunction(lambda x: ~x),
    "bitwise_and": HostFunction(lambda x, y: x & y, "?"),
    "bitwise_or": HostFunction(lambda x, y: x | y, "?"),
    "invert": HostFunction(lambda x: ~x, "?"),
    "logical_xor": HostFunction(L.ne, "?"),
    "bitwise_xor": HostFunction(L.ne, "?"),
    "isnan": HostFunction(L.isnan, "df"),
    "isfinite": HostFunction(lambda x: L.abs(x) < math.inf, "df"),
    "isinf": HostFunction(lambda x: L.eq(L.abs(x), math.inf), "df"),
    "add": HostFunction(lambda x, y: x + y, "bBhHiIlLqQdf"),
    "subtract": HostFunction(lambda x, y: x - y, "bBhHiIlLqQdf"),
    "multiply": HostFunction(lambda x, y: x * y, "bBhHiIlLqQdf"),
    "negative": HostFunction(lambda x: -x, "bhilqdf"),
}
