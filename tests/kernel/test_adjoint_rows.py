"""Every row of the table: its adjoint as instructions against the sweep's."""

import numpy as np
import pytest

from tapegrad.array.record import apply
from tapegrad.rules import BY_NAME
from tests.kernel.agreement import check
from tests.rules.examples_of_rows import DOMAINS, ELEMENTWISE, drawn, numbered
from tests.transforms.replay.rows import moved, weighted

#: Rows whose adjoint sums, solves systems or multiplies matrices in another order than the sweep's.
LOOSE = {
    "binary_cross_entropy_with_logits", "inv", "solve", "det", "logabsdet", "cofactors", "cholesky", "eigh", "svd", "qr", "pinv", "solve_triangular", "matmul",
}  # fmt: skip

#: Rows whose slope is a difference of larger numbers: some of the last bits of vectorised and of single logarithms are left of it.
CANCELLING = {"stdtr_ddf"}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("example", numbered(few=3))
def test_row(example):
    function, args = weighted(example)
    if function is None:
        return
    row = example.row
    check(function, *args, at=[moved(args)], ulps=256 if row.name in LOOSE else 16 if row.name in CANCELLING else 4)


#: Scalar rows of two operands that need an adjoint in both.
BINARY = [name for name in ELEMENTWISE if len(DOMAINS[name]) == 2 and None not in DOMAINS[name]]


@pytest.mark.parametrize("name", BINARY)
def test_constants_on_either_side_of_scalars(name):
    row, (first, second) = BY_NAME[name], DOMAINS[name]
    x, y = (float(drawn(np.random.default_rng(7), d, (), name)) for d in (first, second))
    numbers = [1.0, 2.0, 3.0, 0.75] + ([0.0, -1.0, -2.0] if second[0] < 0 else [])
    numbers = numbers if second[1] > 1.0 else [0.25, 0.75]
    # One tape with all of them: instructions of one row that fall into several templates.
    check(lambda x: sum(apply(row, (x, c)) * (k + 1.0) for k, c in enumerate(numbers)), x, at=[(x * 1.01,)])
    numbers = [1.0, 2.0, 0.75] + ([-1.0] if first[0] < 0 and name != "power" else [])
    check(lambda y: sum(apply(row, (c, y)) * (k + 1.0) for k, c in enumerate(numbers)), y, at=[(y * 1.01,)])
