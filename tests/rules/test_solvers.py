"""The rows that solvers are made of: both modes against differences, and each other."""

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.array.record import apply
from tapegrad.array.recorded import Recorded
from tapegrad.rules import BY_NAME
from tests.rules.checker import check, generator, wrap

rng = generator(11)
A, STACK = rng.standard_normal((3, 3)) + 3 * np.eye(3), rng.standard_normal((2, 3, 3)) + 3 * np.eye(3)
B, STACKED = rng.standard_normal((3, 2)), rng.standard_normal((2, 3, 2))
CASES = [
    *(
        ("solve_triangular", {"trans": trans, "lower": lower, "unit": unit}, operands)
        for trans in (0, 1)
        for lower in (False, True)
        for unit in (False, True)
        for operands in ((A, B), (STACK, STACKED), (STACK, B))
    ),
]


def tangents_of(operands):
    """Tangents of all operands, and of each alone."""
    every = [rng.standard_normal(np.shape(o)) for o in operands]
    yield every
    for k in range(len(every)):
        yield [t if j == k else None for j, t in enumerate(every)]


@pytest.mark.parametrize("name, attrs, operands", CASES)
def test_reverse(name, attrs, operands):
    row, given = BY_NAME[name], tuple(attrs.items())
    used = [k for k in range(len(operands)) if k < 2 or "factors" not in attrs or attrs["factors"][k - 2]]

    def record(*tensors):
        every = list(operands)
        for k, t in zip(used, tensors, strict=True):
            every[k] = t
        return apply(name, every, given)

    def value(*arrays):
        every = list(operands)
        for k, a in zip(used, arrays, strict=True):
            every[k] = a
        return row.value(*every, **attrs)

    node = len(used) == len(operands)
    check(record, *[operands[k] for k in used], reference=value, node=node)


@pytest.mark.parametrize("name, attrs, operands", CASES)
def test_forward(name, attrs, operands):
    row = BY_NAME[name]
    z = row.value(*operands, **attrs)
    step = 1e-6
    for tangents in tangents_of(operands):
        lifted = [None if t is None else Recorded(t) for t in tangents]
        found = row.tangent(lifted, [Recorded(o) for o in operands], Recorded(z), attrs)
        found = np.zeros(z.shape) if found is None else np.broadcast_to(found.a, z.shape)
        sides = [
            row.value(*[o + s * (0 if t is None else t) for o, t in zip(operands, tangents, strict=True)], **attrs)
            for s in (step, -step)
        ]
        np.testing.assert_allclose(found, (sides[0] - sides[1]) / (2 * step), rtol=1e-7, atol=1e-8)
        # <w, J v> = <J^T w, v>
        w = rng.standard_normal(z.shape)
        leaves = [wrap(o) for o in operands]
        apply(name, leaves, tuple(attrs.items())).backward(w)
        back = sum(
            np.sum(leaf.grad.detach().numpy() * t)
            for leaf, t in zip(leaves, tangents, strict=True)
            if t is not None and leaf.grad is not None
        )
        np.testing.assert_allclose(np.sum(w * found), back, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("change", [tg.grad, lambda f: tg.jit(tg.grad(f)), tg.jacfwd], ids=["plain", "jit", "forward"])
def test_an_infinity_ends_where_that_of_lapack_may_not(change):
    a = np.array([[58002.0, 74000.0, 90000.0], [192384.0, 192403.0, 234000.0], [243600.0, 310800.0, 378004.0]])
    of_vectors, of_determinant = change(lambda a: np.sum(np.linalg.svd(a)[0] ** 3)), change(np.linalg.det)
    of_vectors(a), of_determinant(a)
    a[1, 0] = np.inf
    with np.errstate(all="ignore"):
        with pytest.raises(np.linalg.LinAlgError, match="did not converge"):
            of_vectors(a)
        # The minors of a matrix come from its singular vectors.
        assert np.isnan(of_determinant(a)).all()
