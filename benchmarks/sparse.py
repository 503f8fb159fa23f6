"""Sparse derivatives beside CasADi's: the Hessian of Rosenbrock's function, the Jacobian of a banded map.

Both are called as their users call them: a NumPy vector in, a sparse matrix out.  CasADi's
functions are of scalar symbols (SX), their sparse derivatives formed by CasADi; the row "evaluated in place"
is CasADi without its conversion of arguments and results, by buffers, beside which there is no promise.
Warm calls, ours under `tg.jit`.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import tapegrad as tg

from .programs import rosenbrock
from .registry import Missing, Row, benchmark, check_agreement, peer, ratio
from .timing import measure


def band(x):
    """A map of which each number depends on three neighbours."""
    return np.concatenate([x[:1] ** 2, x[1:-1] * x[2:] - np.sin(x[:-2]), x[-1:] * 3.0])


def theirs(casadi, n):
    """CasADi's functions: the Hessian, and the Jacobian."""
    x = casadi.SX.sym("x", n)
    total = casadi.sum1(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)
    banded = casadi.vertcat(x[0] ** 2, x[1:-1] * x[2:] - casadi.sin(x[:-2]), x[-1] * 3.0)
    return {
        "Hessian": casadi.Function("hessian", [x], [casadi.hessian(total, x)[0]]),
        "Jacobian": casadi.Function("jacobian", [x], [casadi.jacobian(banded, x)]),
    }


def in_place(function, x):
    """A call of a CasADi function that reads and writes memory of ours."""
    buffer, evaluate = function.buffer()
    out = np.zeros(function.nnz_out(0))
    buffer.set_arg(0, memoryview(x))
    buffer.set_res(0, memoryview(out))
    # All of them have to live as long as the call.
    return lambda: (evaluate(), buffer, x, out)


@benchmark(name="sparse")
def sparse(quick: bool) -> Iterator[Row]:
    """A sparse Hessian and a sparse Jacobian beside CasADi's."""
    n, promise, limit = (200, "", None) if quick else (1000, "below it", 1.0)
    x = np.random.default_rng(0).uniform(0.5, 1.5, n)
    cases = {
        "Hessian": ("sparse Hessian of Rosenbrock", tg.jit(tg.sparse_hessian(rosenbrock), kernel="always")),
        "Jacobian": ("sparse Jacobian of a banded map", tg.jit(tg.sparse_jacobian(band), kernel="always")),
    }
    try:
        casadi = peer("casadi")
    except Missing as reason:
        for title, _ in cases.values():
            yield Row(f"{title}, n = {n}, beside CasADi's", promise, limit=limit, skip=str(reason))
        return
    functions = theirs(casadi, n)
    for kind, (title, ours) in cases.items():
        other = functions[kind]
        check_agreement(title, {"tapegrad": ours(x).toarray(), "CasADi": np.asarray(other(x))})
        values = np.empty(ours(x).nnz)
        times = measure(
            {"tapegrad": lambda: ours(x), "CasADi": lambda: other(x), "CasADi in place": in_place(other, x),
             "with out=": lambda: ours(x, out=values)},
            budget=1.0 if quick else 4.0, at_least=20,
        )  # fmt: skip
        detail = {"entries": ours(x).nnz, "kernels": ours.stats().kernels}
        title = f"{title}, n = {n}, beside CasADi's"
        yield ratio(title, promise, limit, times, "CasADi", **detail)
        yield ratio(f"{title} evaluated in place", "", None, times, "CasADi in place", **detail)
        times["tapegrad"] = times["with out="]
        goal = "" if quick else "at most 0.7 times"
        yield ratio(f"{title} evaluated in place, the values alone", goal, None if quick else 0.7, times, "CasADi in place", **detail)
