"""The row of triangular solutions: both modes against differences, and each other."""

import numpy as np
import pytest

from tapegrad.eager import Eager
from tapegrad.record import apply
from tapegrad.rules import BY_NAME
from tests.rules.checker import check, generator, wrap

ROW = BY_NAME["solve_triangular"]
rng = generator(11)
ATTRS = [{"trans": t, "lower": lo, "unit": u} for t in (0, 1) for lo in (False, True) for u in (False, True)]
OPERANDS = [
    (rng.standard_normal((3, 3)) + 3 * np.eye(3), rng.standard_normal((3, 2))),
    (rng.standard_normal((2, 3, 3)) + 3 * np.eye(3), rng.standard_normal((2, 3, 2))),
    (rng.standard_normal((2, 3, 3)) + 3 * np.eye(3), rng.standard_normal((3, 2))),
]


@pytest.mark.parametrize("attrs", ATTRS, ids=str)
@pytest.mark.parametrize("a, b", OPERANDS)
def test_reverse(attrs, a, b):
    given = tuple(attrs.items())
    check(
        lambda a, b: apply("solve_triangular", (a, b), given),
        a,
        b,
        reference=lambda a, b: ROW.value(a, b, **attrs),
        node=True,
    )


@pytest.mark.parametrize("attrs", ATTRS, ids=str)
@pytest.mark.parametrize("a, b", OPERANDS)
def test_forward(attrs, a, b):
    da, db = rng.standard_normal(a.shape), rng.standard_normal(b.shape)
    z = ROW.value(a, b, **attrs)
    step = 1e-6
    for ta, tb in ((da, db), (da, None), (None, db)):
        tangents = [None if t is None else Eager(t) for t in (ta, tb)]
        found = ROW.tangent(tangents, [Eager(a), Eager(b)], Eager(z), attrs).a
        moved = [
            ROW.value(a + s * (0 if ta is None else ta), b + s * (0 if tb is None else tb), **attrs)
            for s in (step, -step)
        ]
        np.testing.assert_allclose(found, (moved[0] - moved[1]) / (2 * step), rtol=1e-7, atol=1e-8)
        # <w, J v> = <J^T w, v>
        w = rng.standard_normal(z.shape)
        leaves = [wrap(a), wrap(b)]
        apply("solve_triangular", leaves, tuple(attrs.items())).backward(w)
        back = sum(np.sum(leaf.grad.numpy() * t) for leaf, t in zip(leaves, (ta, tb), strict=True) if t is not None)
        np.testing.assert_allclose(np.sum(w * found), back, rtol=1e-11)
