"""What one call of a function under `tg.jit` takes, by kind of argument and by transformation.

The function is small (two numbers, a handful of operations) and captures only modules, so a call is what getting in and out takes.
Arrays by position are the commonest kind; every other kind may take some microseconds, and a little more for each number or
array in a container and for each name that the function captures.
"""

from __future__ import annotations

import dataclasses
import time
import warnings
from collections import namedtuple
from collections.abc import Callable, Iterator

import numpy as np

import tapegrad as tg

from .programs import RATES, lotka_volterra
from .registry import Row, benchmark, check_agreement
from .timing import measure, of

#: Microseconds promised for one array by position, and for everything else ...
ARRAY, OTHER = 1.5, 4.0
#: ... and what is added for a leaf of a container, and for a captured name.
LEAF, NAME = 0.3, 0.03
#: Calls in a row that are timed together.
CALLS = 1000

Pair = namedtuple("Pair", "a b")


@dataclasses.dataclass
class Point:
    a: float
    b: float


class Model:
    """A function with a parameter in `self`."""

    def __init__(self) -> None:
        self.weight = 1.5

    def value(self, x):
        return self.weight * x[0] * x[1] + np.sin(x[0])


def value(x):
    return x[0] * x[1] + np.sin(x[0])


def of_two(a, b):
    return a * b + np.sin(a)


def of_dict(p):
    return of_two(p["a"], p["b"])


def of_fields(p):
    return of_two(p.a, p.b)


def squares(parts):
    return sum(np.sum(part * part) for part in parts)


def scaled(x, kind="plain", power=2, option=None):
    return value(x) ** power if kind == "plain" else value(x)


def picked(x, which):
    return value(x[which])


def both(x):
    return value(x), {"more": x + 1.0}


def two(x):
    return np.stack([value(x), x[0] - x[1]])


def capturing(count: int) -> Callable:
    """`value` with as many captured numbers."""
    names = [f"n{k}" for k in range(count)]
    scope = {"np": np, **{name: 0.5 + k for k, name in enumerate(names)}}
    exec(f"def f(x):\n    return x[0] * x[1] + np.sin(x[0]) * ({' + '.join(names)})", scope)
    return scope["f"]


def cases() -> Iterator[tuple]:
    """What, the transformation without jit, arguments, keywords, microseconds promised."""
    x, long = np.array([0.7, 1.3]), np.linspace(0.5, 1.5, 4)
    whole = tg.value_and_grad(value)
    yield "one array of 2 by position", whole, (x,), {}, ARRAY
    yield "an array that is not contiguous", whole, (long[::2],), {}, OTHER
    plane = np.arange(6.0).reshape(2, 3)
    yield "an array in Fortran order", tg.value_and_grad(np.sum), (np.asfortranarray(plane),), {}, OTHER
    yield "float32", whole, (x.astype(np.float32),), {}, OTHER
    yield "a keyword", tg.value_and_grad(lambda a, x: a * value(x)), (0.7,), {"x": x}, OTHER
    yield "two floats", tg.value_and_grad(of_two, (0, 1)), (0.7, 1.3), {}, OTHER
    yield "two of np.float64", tg.value_and_grad(of_two, (0, 1)), (np.float64(0.7), np.float64(1.3)), {}, OTHER
    for what, function, point in (
        ("a list", value, [0.7, 1.3]), ("a tuple", value, (0.7, 1.3)), ("a dict", of_dict, {"a": 0.7, "b": 1.3}),
        ("a named tuple", of_fields, Pair(0.7, 1.3)), ("a dataclass", of_fields, Point(0.7, 1.3)),
    ):  # fmt: skip
        yield f"{what} of 2 floats", tg.value_and_grad(function), (point,), {}, OTHER + 2 * LEAF
    for count, leaf in ((20, 0.5), (10, x)):
        what = f"a list of {count} {'floats' if leaf is not x else 'arrays'}"
        yield what, tg.value_and_grad(squares), ([leaf + k for k in range(count)],), {}, OTHER + count * LEAF
    yield "an int that is differentiated", tg.value_and_grad(of_two), (3, 1.3), {}, OTHER
    yield "a string, an int and None beside", tg.value_and_grad(scaled), (x, "plain", 3, None), {}, OTHER
    yield "an array of integers beside", tg.value_and_grad(picked), (long, np.array([2, 0])), {}, OTHER
    yield "several results", tg.value_and_grad(both, has_aux=True), (x,), {}, OTHER + 2 * LEAF
    yield "a method", tg.value_and_grad(Model().value), (x,), {}, OTHER + NAME
    yield "20 captured names", tg.value_and_grad(capturing(20)), (x,), {}, OTHER + 20 * NAME
    yield "the function itself", value, (x,), {}, OTHER
    for make in (tg.grad, tg.elementwise_grad, tg.hessian, tg.sparse_hessian, tg.hessian_diag, tg.laplacian):
        yield f"tg.{make.__name__}", make(value), (x,), {}, OTHER
    yield "tg.hvp", tg.hvp(value), (x, np.ones(2)), {}, OTHER
    for make in (tg.jacobian, tg.jacrev, tg.sparse_jacobian):
        yield f"tg.{make.__name__}", make(two), (x,), {}, OTHER


def numbers(thing) -> np.ndarray:
    """All numbers of a result, in order."""
    if hasattr(thing, "toarray"):
        thing = thing.toarray()
    if dataclasses.is_dataclass(thing):
        thing = dataclasses.astuple(thing)
    if isinstance(thing, dict):
        thing = list(thing.values())
    if isinstance(thing, (list, tuple)):
        return np.concatenate([numbers(part) for part in thing])
    return np.ravel(np.asarray(thing, float))


def seconds_each(call, args, kwargs, budget: float):
    """The time of one call, by `CALLS` of them in a row."""
    taken, end = [], time.perf_counter() + budget
    while len(taken) < 5 or time.perf_counter() < end:
        start = time.perf_counter()
        for _ in range(CALLS):
            call(*args, **kwargs)
        taken.append((time.perf_counter() - start) / CALLS)
    return of(taken)


@benchmark(name="jit_calls")
def jit_calls(quick: bool) -> Iterator[Row]:
    """One call under jit, for every kind of argument and every transformation; and a long function without it."""
    for what, plain, args, kwargs, limit in cases():
        jitted = tg.jit(plain, kernel="always")
        for _ in range(3):
            found = jitted(*args, **kwargs)
        check_agreement(what, {"under jit": numbers(found), "plainly": numbers(plain(*args, **kwargs))}, rtol=1e-5)
        each = seconds_each(jitted, args, kwargs, 0.1 if quick else 1.0)
        stats = jitted.stats()
        detail = {"median": f"{each.median * 1e6:.3g} us", "records": stats.records, "by kernel": stats.kernel_calls > 0}
        yield Row(f"value and gradient under jit: {what}", f"at most {limit:.3g} us", each.minimum * 1e6, limit, "us", detail)

    plain, point = tg.value_and_grad(lotka_volterra(1000, 0.02)), np.array(RATES)
    warnings.simplefilter("ignore", tg.PerformanceWarning)
    calls = {"plain": lambda: plain(point), "jit": lambda: jitted(point)}
    jitted = tg.jit(plain, kernel="always")
    check_agreement("RK4", {name: numbers(call()) for name, call in calls.items()}, rtol=1e-9)
    times = measure(calls, budget=1.0 if quick else 5.0)
    yield Row(
        "RK4 of 1 000 steps, a plain call over one under jit", measured=times["plain"].minimum / times["jit"].minimum,
        detail={name: str(taken) for name, taken in times.items()},
    )  # fmt: skip
