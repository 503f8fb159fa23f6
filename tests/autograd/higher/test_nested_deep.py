"""Derivatives inside of derivatives, three deep: right, numbers at the outermost level, and the same when replayed."""

import numpy as np
import pytest

import tapegrad as tg

#: A constant; a direction; a point.
C, U, X = np.array([0.5, -1.2]), np.array([1.0, 0.5]), np.array([0.7, 1.3])


def cube(y):
    return np.sum(y**3 * np.array([1.0, 2.0]))


def field(y):
    return y**2 * np.sum(y)


INNER = {
    "grad": lambda y: np.sum(tg.grad(cube)(y)),
    "vjp": lambda y: np.sum(tg.vjp(field, y)[1](C)[0]),
    "value of vjp": lambda y: np.sum(tg.vjp(field, y)[0]),
    "jacobian": lambda y: np.sum(tg.jacobian(field)(y)),
    "jacfwd": lambda y: np.sum(tg.jacfwd(field)(y)),
    "jvp": lambda y: np.sum(tg.jvp(field, (y,), (C,))[1]),
    "linearize": lambda y: np.sum(tg.linearize(field, y)[1](C)),
    "hessian": lambda y: np.sum(tg.hessian(cube)(y)),
    "hvp": lambda y: np.sum(tg.hvp(cube)(y, np.stack([C, U]))),
    "gnvp": lambda y: np.sum(tg.gnvp(field, lambda z: np.sum(z**4))(y, np.stack([C, U]))),
    "laplacian": lambda y: tg.laplacian(cube)(y),
}  # fmt: skip

#: How the derivative inside is used by a function of x.
USES = {
    "of a constant": lambda inner: lambda x: np.sum(x**3) * inner(C) + inner(C),
    "of the variable": lambda inner: lambda x: inner(x) * x[0],
    "seeded": lambda inner: lambda x: np.sum(tg.vjp(field, C)[1](x)[0]) * inner(C) * x[1],
    "beside a closure": lambda inner: lambda x: np.sum(tg.grad(lambda y: np.sum(y**2 * x))(C)) * inner(C) * x[0],
}

MODES = {"F": lambda f: lambda x: tg.jvp(f, (x,), (U,))[1], "R": lambda f: lambda x: np.sum(tg.grad(f)(x) * U)}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("name", INNER)
def test_every_nesting(name, use):
    f, step = USES[use](INNER[name]), 1e-5
    for chain in ("F", "R", "FR", "RF", "RR", *(["FRR"] if name in ("grad", "vjp", "jacobian") else ())):
        before = g = f
        for mode in reversed(chain):
            before, g = g, MODES[mode](g)
        expected = (before(X + step * U) - before(X - step * U)) / (2 * step)
        found = [g(X), g(X), g(X)]
        assert all(isinstance(value, (float, np.floating)) for value in found), (chain, found)
        assert found[0] == found[1] == found[2], chain
        assert abs(found[0] - expected) <= 1e-5 * (1.0 + abs(expected)), (chain, found, expected)


def test_a_derivative_of_constants_leaves_no_tensor_behind():
    """The variable of a derivative that is done counts as a constant, also where its gradient depends on a seed that is tracked."""
    f = lambda x: x * tg.vjp(lambda y: y**2, 3.0)[1](x)[0]  # noqa: E731
    for outer, expected in ((tg.derivative(tg.grad(f)), 12.0), (tg.grad(tg.derivative(f)), 12.0), (tg.grad(tg.grad(f)), 12.0)):
        for _ in range(3):
            assert type(outer(2.0)) is float and outer(2.0) == expected
