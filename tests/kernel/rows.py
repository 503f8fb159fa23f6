"""Rows as kernels: the adjoint of an example as instructions against the sweep's, and values and gradients by machine code."""

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.array.record import apply
from tapegrad.kernel.kernel import Kernel
from tapegrad.rules import BY_NAME
from tests.kernel.agreement import check
from tests.rules.examples_of_rows import DOMAINS, drawn
from tests.transforms.replay.rows import moved, unweighted, weighted

#: How far a kernel is optimised.
CHOSEN = Kernel._chosen
#: Rows whose adjoint sums, solves systems or multiplies matrices in another order than the sweep's.
LOOSE = {
    "binary_cross_entropy_with_logits", "inv", "solve", "det", "logabsdet", "cofactors", "cholesky", "eigh", "svd", "qr", "pinv", "solve_triangular", "matmul",
}  # fmt: skip

#: Rows whose slope is a difference of larger numbers: some of the last bits of vectorised and of single logarithms are left of it.
CANCELLING = {"stdtr_ddf"}


def adjoint_against_sweep(example):
    function, args = weighted(example)
    if function is None:
        return
    row = example.row
    check(function, *args, at=[moved(args)], ulps=256 if row.name in LOOSE else 16 if row.name in CANCELLING else 4)


def adjoint_beside_constants(name):
    """Of scalars, the row having two operands that need an adjoint."""
    row, (first, second) = BY_NAME[name], DOMAINS[name]
    x, y = (float(drawn(np.random.default_rng(7), d, (), name)) for d in (first, second))
    numbers = [1.0, 2.0, 3.0, 0.75] + ([0.0, -1.0, -2.0] if second[0] < 0 else [])
    numbers = numbers if second[1] > 1.0 else [0.25, 0.75]
    # One tape with all of them: instructions of one row that fall into several templates.
    check(lambda x: sum(apply(row, (x, c)) * (k + 1.0) for k, c in enumerate(numbers)), x, at=[(x * 1.01,)])
    numbers = [1.0, 2.0, 0.75] + ([-1.0] if first[0] < 0 and name != "power" else [])
    check(lambda y: sum(apply(row, (c, y)) * (k + 1.0) for k, c in enumerate(numbers)), y, at=[(y * 1.01,)])


def kernel_against_sweep(example):
    function, args = unweighted(example)
    if function is None:
        return
    # Optimised as users' are (`tests/conftest.py` says where others are not).
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Kernel, "_chosen", CHOSEN)
        (only,) = tg.check(function, *args, modes="kernel").checks
    # A remark would say that there is no kernel: there is none for no row.
    assert only.passed and not only.remark, only
