"""A call of a jitted derivative with every kind of argument: what it takes to get in and out.

The functions are small, so that the time is that of the way: containers taken apart, leaves read, results put into theirs.
They capture modules only.
"""

from __future__ import annotations

import dataclasses
from collections import namedtuple
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import tapegrad as tg
from tapegrad.common.tree import flatten

from .registry import Row, benchmark, check_agreement
from .timing import measure

#: Microseconds: a call with one array by position, any other, and for each leaf of an argument after the first four.
FIRST, OTHER, LEAF = 1.5, 4.0, 0.3
#: Calls in one timed call.
CALLS = 50


@dataclasses.dataclass
class Fields:
    a: float
    b: Any


Pair = namedtuple("Pair", "a b")


def product(x):
    return x[0] * x[1]


def squares(x):
    return np.sum(x * x)


def swapped(x):
    return x * x[::-1]


def of_pair(p):
    return p[0] * np.sum(p[1])


def of_dict(p):
    return p["a"] * np.sum(p["b"])


def of_fields(p):
    return p.a * np.sum(p.b)


def of_mode(x, mode="sum", n=2, flag=None):
    return np.sum(x**n) if mode == "sum" else np.prod(x)


def of_many(p):
    total = 0.0
    for one in p:
        total = total + np.sum(one * one)
    return total


X = np.array([1.5, -0.5])
PLANE = np.arange(6.0).reshape(2, 3)
#: Name -> a function, its arguments, keywords, and leaves.
KINDS: dict[str, tuple[Callable, tuple, dict, int]] = {
    "one array of 2 by position": (product, (X,), {}, 1),
    "a Python float": (squares, (1.5,), {}, 1),
    "a Python int": (squares, (3,), {}, 1),
    "np.float64": (squares, (np.float64(1.5),), {}, 1),
    "a float32 array": (squares, (X.astype(np.float32),), {}, 1),
    "an array in Fortran order": (squares, (np.asfortranarray(PLANE),), {}, 1),
    "a strided array": (squares, (PLANE[:, ::2],), {}, 1),
    "a list": (of_pair, ([2.0, X],), {}, 2),
    "a tuple": (of_pair, ((2.0, X),), {}, 2),
    "a dict": (of_dict, ({"a": 2.0, "b": X},), {}, 2),
    "a named tuple": (of_fields, (Pair(2.0, X),), {}, 2),
    "a dataclass": (of_fields, (Fields(2.0, X),), {}, 2),
    "static text, int and None": (of_mode, (X, "sum", 3, None), {}, 4),
    "keywords": (of_mode, (X,), {"mode": "sum", "n": 3}, 3),
    "an array of integers": (lambda x, k: np.sum(x[k]), (X, np.array([0, 1, 1])), {}, 2),
    "20 floats in a list": (of_many, ([float(k) for k in range(20)],), {}, 20),
    "10 arrays in a list": (of_many, ([X + k for k in range(10)],), {}, 10),
}  # fmt: skip
#: Name -> a transformation, a function and arguments.
TRANSFORMATIONS = {
    "grad": (tg.grad, product, (X,)),
    "jit": (lambda f: f, product, (X,)),
    "jacobian, 2 to 2": (tg.jacobian, swapped, (X,)),
    "hessian of 2": (tg.hessian, product, (X,)),
    "hvp of 2": (tg.hvp, product, (X, X)),
    "hessian_diag of 2": (tg.hessian_diag, squares, (X,)),
    "sparse_hessian of 8": (tg.sparse_hessian, lambda x: np.sum(x[1:] * x[:-1] ** 2), (np.arange(8.0),)),
    "sparse_jacobian of 8": (tg.sparse_jacobian, swapped, (np.arange(8.0),)),
}


def row(what: str, call: Callable, limit: float, budget: float) -> Row:
    """The microseconds of a call."""

    def many():
        for _ in range(CALLS):
            call()

    time = measure({"tapegrad": many}, budget=budget)["tapegrad"].per(CALLS)
    return Row(what, f"at most {limit:.1f} microseconds", 1e6 * time.minimum, limit, unit="us", times={"tapegrad": time})


def plain(answer):
    """The numbers of an answer."""
    return np.concatenate([np.ravel(a) for a in flatten(answer)[0]]) if not hasattr(answer, "toarray") else answer.toarray()


@benchmark(name="kinds_of_arguments")
def kinds_of_arguments(quick: bool) -> Iterator[Row]:
    """A call of a jitted derivative, for every kind of argument and every transformation."""
    budget = 0.1 if quick else 1.0
    for number, (name, (function, args, kwargs, leaves)) in enumerate(KINDS.items()):
        call, swept = tg.value_and_grad(tg.jit(function)), tg.value_and_grad(function, kernel="never")
        for _ in range(4):
            answer = call(*args, **kwargs)
        check_agreement(name, {"kernel": plain(answer), "sweep": plain(swept(*args, **kwargs))}, rtol=1e-6)
        limit = OTHER + LEAF * max(0, leaves - 4) if number else FIRST
        yield row(f"value and gradient, {name}", lambda call=call, args=args, kwargs=kwargs: call(*args, **kwargs), limit, budget)
    for name, (transformation, function, args) in TRANSFORMATIONS.items():
        call = transformation(tg.jit(function))
        for _ in range(4):
            answer = call(*args)
        check_agreement(name, {"kernel": plain(answer), "plain": plain(transformation(function)(*args))}, rtol=1e-6)
        yield row(name, lambda call=call, args=args: call(*args), OTHER, budget)
