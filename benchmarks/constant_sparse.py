"""Derivatives of products with a constant sparse matrix, beside the same written by hand with SciPy's products.

A product is recorded as a gather, a multiplication and a sum by rows, of which a kernel makes two loops, without a call of SciPy.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy.sparse

import tapegrad as tg

from .registry import Row, benchmark, check_agreement, ratio
from .timing import measure

#: Rows and columns, and elements of a row on average.
SIZE, ELEMENTS = 20_000, 5


@benchmark(name="constant_sparse")
def constant_sparse(quick: bool) -> Iterator[Row]:
    """The gradient of a sum of squares of a sparse product, replayed and run at each call, beside two products of SciPy's."""
    rng = np.random.default_rng(0)
    a = scipy.sparse.random_array((SIZE, SIZE), density=ELEMENTS / SIZE, format="csr", rng=rng)
    x, back = rng.standard_normal(SIZE), a.T.tocsr()

    def by_hand():
        return back @ (2.0 * (a @ x))

    plain = tg.grad(lambda x: np.sum((a @ x) ** 2))
    replayed = tg.jit(plain, kernel="always")
    check_agreement("gradient", {"SciPy": by_hand(), "tapegrad": replayed(x), "run at each call": plain(x)}, rtol=1e-12)
    budget = 0.3 if quick else 2.0
    times = measure({"tapegrad": lambda: replayed(x), "SciPy by hand": by_hand}, budget=budget)
    yield ratio("gradient through a sparse product, replayed, beside SciPy by hand", "at most 1.2 times", 1.2, times, "SciPy by hand")
    times = measure({"tapegrad": lambda: plain(x), "SciPy by hand": by_hand}, budget=budget)
    yield ratio("the same, run at each call", "", None, times, "SciPy by hand")
