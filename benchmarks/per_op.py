"""What it costs to record one operation, beside NumPy alone and PyTorch.

The operands are tracked, so the operation is computed and recorded; its
result is dropped, and what dropping costs is part of the time.  The rows
promise nothing: they show what a single line of a user's program costs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

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
