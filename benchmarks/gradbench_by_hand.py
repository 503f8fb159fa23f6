"""The modules of GradBench beside their gradients written by hand (`gradbench.by_hand`).

Each is called as the tool calls it, again and again on one input, under `tg.jit`; the code by hand
is compiled before, too.  `hello`, one multiplication, is not timed by the suite.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .gradbench import by_hand
from .gradbench.modules import ba, gmm, llsq, lse, ode
from .registry import Row, benchmark, check_agreement, each, ratio
from .timing import measure

LIMIT = 2.0


def mixture(d: int, k: int, n: int) -> dict:
    """A random input of the module gmm."""
    rng = np.random.default_rng(7)
    return {
        "d": d, "k": k, "n": n, "m": 0, "gamma": 1.0, "x": rng.normal(size=(n, d)), "alpha": rng.normal(size=k),
        "mu": rng.normal(size=(k, d)), "q": 0.3 * rng.normal(size=(k, d)), "l": rng.normal(size=(k, d * (d - 1) // 2)),
    }  # fmt: skip


def bundle(n: int, m: int, p: int) -> dict:
    """An input of the module ba."""
    return {
        "n": n, "m": m, "p": p, "w": 0.417022, "feat": [271.760969, 834.209256], "x": [7.203245, 0.001144, 3.023326],
        "cam": [-0.758453, -1.109613, -0.845551, 34.556073, 39.676747, 53.881673, 419.194514, 5.864426, -8.518870,
                0.087812, 0.002739],
    }  # fmt: skip


def cases(quick: bool) -> Iterator[tuple]:
    """What, our gradient, the one by hand, their arguments, and what of ours is under jit."""
    rng = np.random.default_rng(3)
    yield "llsq, m = 128, n = 1 024", llsq.gradient, by_hand.llsq, (rng.normal(size=128), 1024), [llsq.gradient]
    yield "lse, n = 40 000", lse.gradient, by_hand.lse, (rng.normal(size=40_000),), [lse.gradient]
    x = rng.uniform(0.5, 1.5, size=1000)
    yield "ode, n = 1 000, s = 10", ode.gradient, by_hand.ode, (x, 10), [ode.gradient]
    if not quick:
        yield "ode, n = 1 000, s = 100", ode.gradient, by_hand.ode, (x, 100), [ode.gradient]
    yield "gmm, d = 10, k = 5, n = 1 000", gmm.gradient, by_hand.gmm, gmm.read(mixture(10, 5, 1000)), [gmm.gradient]
    if not quick:
        yield "gmm, d = 32, k = 25, n = 1 000", gmm.gradient, by_hand.gmm, gmm.read(mixture(32, 25, 1000)), [gmm.gradient]
    bundled = ba.read(bundle(49, 7776, 31843))
    yield "ba, n = 49, m = 7 776, p = 31 843", ba.jacobian, by_hand.ba, bundled, [*ba.PARTIALS, ba.OF_WEIGHT]


def flat(result) -> np.ndarray:
    """All numbers of a result."""
    parts = result if isinstance(result, tuple) else (result,)
    return np.concatenate([np.asarray(part, float).reshape(-1) for part in parts])


def compared(quick: bool, what: str, ours, theirs, arguments, jitted) -> Iterator[Row]:
    """The row of one module."""
    found = ours(*arguments)
    slow = [function.stats() for function in jitted if not function.stats().kernels]
    if slow:
        raise RuntimeError(f"{what} does not run as a kernel:\n{slow[0]}")
    check_agreement(what, {"by hand": flat(theirs(*arguments)), "tapegrad": flat(found)}, rtol=1e-8)
    times = measure(
        {"tapegrad": lambda: ours(*arguments), "by hand": lambda: theirs(*arguments)}, budget=1.0 if quick else 3.0
    )
    yield ratio(what, "at most twice the gradient written by hand", LIMIT, times, "by hand")


@benchmark(name="gradbench_by_hand")
def gradbench_by_hand(quick: bool) -> Iterator[Row]:
    """Gradients of the modules served to GradBench, beside hand-written NumPy or Numba."""
    yield from each(*((case[0], lambda case=case: compared(quick, *case)) for case in cases(quick)))
