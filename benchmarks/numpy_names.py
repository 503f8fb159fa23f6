"""The functions of `tapegrad.numpy` on plain numbers and arrays, beside NumPy's own.

Each looks for lists that hold tensors, and calls NumPy; those that make arrays ask whether something is being differentiated.  That is
some tenths of a microsecond, whatever the function does.  Of a list the type of each element is looked at besides, of which nothing is promised.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import attrgetter

import numpy

import tapegrad.numpy

from .registry import Row, benchmark
from .timing import measure

V = numpy.ones(5)
#: Name -> arguments.
CALLS = {
    "sin": (0.5,), "add": (0.5, 0.7), "exp": (V,), "sum": (V,), "dot": (V, V), "where": (V > 0.0, V, 0.0), "reshape": (V, (5, 1)), "concatenate": ([V, V],),
    "zeros": (3,), "array": (0.5,), "asarray": (V,), "zeros_like": (V,), "linspace": (0.0, 1.0, 5), "diag": (V,), "linalg.norm": (V,), "add.reduce": (V,),
}  # fmt: skip
LISTS = {"array of a list": ([0.5, 0.7],), "sum of a list": ([0.5] * 1000,)}
#: Calls that are timed together.
TOGETHER = 500


def several(function: Callable, args: tuple) -> Callable:
    def calls():
        for _ in range(TOGETHER):
            function(*args)

    return calls


@benchmark(name="numpy_names")
def numpy_names(quick: bool) -> Iterator[Row]:
    """What a function of tapegrad.numpy costs on plain numbers and arrays, beside NumPy's."""
    for name, args in {**CALLS, **LISTS}.items():
        find = attrgetter(name.partition(" ")[0])
        modules = {"tapegrad.numpy": tapegrad.numpy, "NumPy": numpy}
        times = measure({who: several(find(module), args) for who, module in modules.items()}, budget=0.2 if quick else 1.0)
        ours, theirs = (times[who].minimum / TOGETHER for who in modules)
        detail = {who: str(taken.per(TOGETHER)) for who, taken in times.items()}
        if name in LISTS:
            yield Row(f"np.{name}, beside NumPy's", "", ours / theirs, None, detail=detail)
        else:
            yield Row(f"np.{name}, beyond 1.2 times NumPy's", "at most 0.3 us", 1e6 * (ours - 1.2 * theirs), 0.3, "us", detail=detail)
