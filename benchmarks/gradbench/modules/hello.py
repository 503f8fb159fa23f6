"""hello: a square, and its derivative."""

from __future__ import annotations

import tapegrad as tg

from ..given import number


def square(x):
    return x * x


double = tg.jit(tg.grad(square))


def _one(function):
    def prepare(given):
        x = number(given)
        return lambda: function(x), float

    return prepare


FUNCTIONS = {"square": _one(square), "double": _one(double)}
