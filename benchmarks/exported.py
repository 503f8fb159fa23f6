"""Exported code beside `tg.jit` of the same function: both called from Python, one by `ctypes` and without the library.

Code for other processors than this one, of its kind, is not held to a time; it computes the same to 1e-13.
"""

from __future__ import annotations

import ctypes
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import tapegrad as tg
from tapegrad.codegen.host import levels_here
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

    frames, spelt = rng.standard_normal((20 if quick else 100, 4)), [0, 1, 0, 2, 0]

    def ctc(shift):
        scores = frames + shift
        scores = scores - np.log(np.sum(np.exp(scores), axis=1))[:, None]
        alpha = np.array([0.0, 0.0, -1e3, -1e3, -1e3]) + np.zeros(5) * shift[0]
        skips = np.array([-1e3, -1e3, -1e3, 0.0, -1e3])
        for k, row in enumerate(scores):
            if k:
                alpha = np.logaddexp(np.logaddexp(alpha, np.append(-1e3, alpha[:-1])), np.append([-1e3, -1e3], alpha[:-2]) + skips)
            alpha = alpha + row[spelt]
        return -np.logaddexp(alpha[-1], alpha[-2])

    found = {
        "logistic loss": (logistic, rng.standard_normal(20)), "Rosenbrock, n = 1000": (rosenbrock, rng.standard_normal(1000)),
        "CTC score, 100 frames": (ctc, rng.standard_normal(4)),
    }  # fmt: skip
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
            # By the kernel: the call that records adds up as NumPy does.
            g(x)
            value, gradient = g(x)
            scale = max(abs(value), np.max(np.abs(gradient)))
            for cpu in ("host", *levels_here()):
                made = tg.export(tg.value_and_grad(f), x, Path(folder) / f"f{k}_{cpu}".replace("-", "_"), cpu=cpu, vector_math=cpu == "host")
                here = cpu == "host"
                title = f"{what}: value and gradient by exported code{'' if here else f' for {cpu}, without libmvec'}, over tg.jit"
                promise = "at most 1.05" if here else ""
                if made.shared is None:
                    yield Row(title, promise, skip=made.not_linked)
                    continue
                run, results = by_ctypes(made, x)
                run()
                one, slope = results()
                apart = max(abs(one - value), np.max(np.abs(slope - gradient))) / scale
                if apart > (0.0 if here else 1e-13):
                    raise Disagreement(f"{title}: {one} and {value}, apart by {apart:.1e}")
                times = measure({"tapegrad": lambda: g(x), "exported": run}, budget=0.2 if quick else 2.0)
                yield Row(title, promise, times["exported"].minimum / times["tapegrad"].minimum, 1.05 if here else None, detail={"apart": apart}, times=times)
