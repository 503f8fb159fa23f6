"""What it costs to record one operation, beside NumPy alone and PyTorch.

The operands are tracked, so the operation is computed and recorded; its
result is dropped, and what dropping costs is part of the time.  These rows
promise nothing: they show what a single line of a user's program costs.

Then what it costs under `jit`: the first call of a new function without a kernel, over the instructions of the tape that it
leaves. Under a second derivative most of these are what the derivative inside has recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import process_time

import numpy as np

import tapegrad as tg

from .registry import Missing, Row, benchmark, check_agreement, torch_pinned
from .timing import measure

SIZES = (4, 10_000)
CALLS = 100  # of the operation, in one timed call


def operations(exp: Callable, total: Callable) -> dict[str, Callable]:
    """The operations measured, as functions of two operands and a square matrix."""
    return {
        "add": lambda a, b, m: a + b,
        "mul": lambda a, b, m: a * b,
        "exp": lambda a, b, m: exp(a),
        "sum": lambda a, b, m: total(a),
        "matmul-vector": lambda a, b, m: m @ a,
    }


def repeated(operation: Callable, *operands) -> Callable[[], None]:
    def call() -> None:
        for _ in range(CALLS):
            operation(*operands)

    return call


def plain(value) -> np.ndarray:
    """A result of any of the libraries as an array."""
    return np.asarray(value.detach().numpy() if hasattr(value, "detach") else value)


VECTOR = np.linspace(0.1, 1.0, 14)


def function() -> Callable:
    """A new function of a vector."""

    def f(x):
        y = x
        for _ in range(100):
            y = np.sin(y) * x + 0.5 * y
            y = y - x / (1.0 + y * y)
            y = np.exp(-y) * np.sqrt(y * y + 1.0)
        return np.sum(y)

    return f


def of_gradient() -> Callable:
    """A new function, of the gradient of such a one."""
    f = function()
    return lambda x: np.sum(tg.grad(f)(x) ** 2)


def microseconds(make: Callable[[], Callable], repeats: int) -> tuple[float, int]:
    """For each instruction of the tape, the least of several first calls; and how many there are."""
    times = []
    for _ in range(repeats):
        g = tg.jit(make(), kernel="never")
        start = process_time()
        g(VECTOR)
        times.append(process_time() - start)
    count = len(g.tape(VECTOR))
    return min(times) / count * 1e6, count


@benchmark(name="per_op")
def per_op(quick: bool) -> Iterator[Row]:
    """Microseconds per recorded operation on arrays of 4 and of 10^4 elements."""
    try:
        torch = torch_pinned()
    except Missing:
        torch = None
    rng = np.random.default_rng(0)
    for size in SIZES:
        # The matrix has `size` columns and few rows, so that it fits the cache.
        arrays = [rng.random(size), rng.random(size), rng.random((4, size))]
        tensors = [tg.tensor(array, requires_grad=True) for array in arrays]
        tables = {
            "tapegrad": (operations(np.exp, np.sum), tensors),
            "NumPy": (operations(np.exp, np.sum), arrays),
        }
        if torch is not None:
            theirs = [torch.tensor(array, requires_grad=True) for array in arrays]
            tables["PyTorch"] = (operations(torch.exp, torch.sum), theirs)
        for name in tables["tapegrad"][0]:
            values = {library: table[name](*operands) for library, (table, operands) in tables.items()}
            check_agreement(f"{name}, {size} elements", {library: plain(value) for library, value in values.items()})
            calls = {
                library: repeated(table[name], *operands)
                for library, (table, operands) in tables.items()
            }
            times = measure(calls, budget=0.1 if quick else 1.0)
            each = {library: time.per(CALLS) for library, time in times.items()}
            # NumPy alone computes the value and records nothing: it is no competitor.
            detail = {"NumPy alone": str(each.pop("NumPy"))} | ({"PyTorch": "not installed"} if torch is None else {})
            yield Row(f"{name}, {size} elements", measured=each["tapegrad"].minimum * 1e6, unit="us", detail=detail, times=each)
    for what, make, limit in (("an array operation", function, 8.0), ("an array operation under a second derivative", of_gradient, 15.0)):
        taken, count = microseconds(make, 5 if quick else 30)
        yield Row(f"recording {what}, vectors of 14", f"at most {limit:g} us", taken, limit, "us", {"instructions": count})
