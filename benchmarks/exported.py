"""Exported code beside `tg.jit` of the same function: both called from Python, one by `ctypes` and without the library."""

from __future__ import annotations

import ctypes
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import tapegrad as tg
from tapegrad.demo import first_guess, misfit, read_pelts

from .registry import Disagreement, Row, benchmark
from .timing import measure


def problems(quick: bool) -> dict[str, tuple[Callable, np.ndarray]]:
    """Functions of a vector, and points."""
    rng = np.random.default_rng(0)
    features, labels = rng.standard_normal((200 if quick else 2000, 20)), np.sign(rng.standard_normal(200 if quick else 2000))
    _, *pelts = read_pelts()

    def logistic(w):
        return np.mean(np.log1p(np.exp(-labels * (features @ w)))) + 0.01 * np.sum(w**2)

    def rosenbrock(x):
        return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)

    found = {"logistic loss": (logistic, rng.standard_normal(20)), "Rosenbrock, n = 1000": (rosenbrock, rng.standard_normal(1000))}
    return found if quick else found | {"misfit of hares and lynxes": (lambda theta: misfit(theta, *pelts), first_guess(*pelts))}


def by_ctypes(made: Any, x: np.ndarray) -> tuple[Callable, Callable]:
    """A call of an exported function at a point, and its last results."""
    library, value, gradient, work = ctypes.CDLL(str(made.shared)), np.empty(1), np.empty_like(x), np.empty(made.workspace, np.uint8)
    name = made.header.stem
    checksum, call = library[f"{name}_checksum"], library[f"{name}_call"]
    checksum.restype = ctypes.c_uint64
    given = (ctypes.c_void_p * 3)(*(a.ctypes.data for a in (x, value, gradient)))
    arguments = [ctypes.c_uint64(checksum()), given, ctypes.c_void_p(work.ctypes.data), ctypes.c_size_t(made.workspace)]

    def run(work=work):
        if call(*arguments):
            raise Disagreement("an exported function has left its path")

    return run, lambda: (float(value[0]), gradient)


@benchmark(name="exported")
def exported(quick: bool) -> Iterator[Row]:
    """Exported code beside `tg.jit`."""
    # A folder for all: a library that is loaded stays so, and another file could have its number.
    with tempfile.TemporaryDirectory() as folder:
        for k, (what, (f, x)) in enumerate(problems(quick).items()):
            g = tg.jit(tg.value_and_grad(f), kernel="always")
            made = tg.export(tg.value_and_grad(f), x, Path(folder) / f"f{k}")
            title, promise = f"{what}: value and gradient by exported code, over tg.jit", "at most 1.05"
            if made.shared is None:
                yield Row(title, promise, skip=made.not_linked)
                continue
            run, results = by_ctypes(made, x)
            run(), g(x)
            (one, slope), (other, expected) = results(), g(x)
            if one != other or not np.array_equal(slope, expected):
                raise Disagreement(f"{what}: {one} and {other}")
            times = measure({"tapegrad": lambda: g(x), "exported": run}, budget=0.2 if quick else 2.0)
            yield Row(title, promise, times["exported"].minimum / times["tapegrad"].minimum, 1.05, times=times)
