"""A transformation that a maintainer adds in one place works at once, inside of every other, under `jit`, on points and in loops.

It is one function of an `Evaluation`.  Here the Gauss-Newton matrix ``J.T @ J``, stated in two ways: by the blocks of the Jacobian, and by
pushing all unit vectors and pulling what comes out.  Values are compared with a closed form in NumPy, derivatives with its central differences.
"""

import copy

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.common.errors import StructureError
from tapegrad.transforms.transformed import RecordedWhole
from tests.every import every


def by_blocks(e):
    return sum(np.reshape(row[0], (p.size, -1)).T @ np.reshape(row[0], (p.size, -1)) for row, p in zip(e.jacobian(), e.outputs))


def by_products(e):
    n = e.inputs[0].size
    (columns,) = e.pull(e.push([np.eye(n)], n), n)
    return columns


def gauss_newton(f, argnums=0, body=by_blocks):
    return RecordedWhole(f, argnums, body)


WAYS = {"blocks": by_blocks, "products": by_products}
X = np.array([0.7, -0.4, 1.3])


def model(x):
    return np.stack([x[0] * x[1], np.sin(x[0]) * x[2], x[1] ** 2 * x[2], np.exp(x[2])])


def arrays(x):
    return np.tanh(np.outer(x, x) @ x) * x


def loop(x):
    return tg.scan(lambda c, k: (c + 0.1 * np.sin(c[::-1]) * k, c * k), x, np.arange(1.0, 4.0))


MODELS = {"numbers": model, "arrays": arrays, "loop": loop}


def matrix(f, x):
    """The closed form: of `model` from its Jacobian by hand, of others from complex steps in NumPy."""
    jacobian = np.array([
        [x[1], x[0], 0.0], [np.cos(x[0]) * x[2], 0.0, np.sin(x[0])], [0.0, 2.0 * x[1] * x[2], x[1] ** 2], [0.0, 0.0, np.exp(x[2])],
    ]) if f is model else np.stack([step(f, x, d) for d in np.eye(3)], -1)  # fmt: skip
    return jacobian.T @ jacobian


def step(f, x, d, h=1e-30):
    z = x + 1j * h * d
    if f is arrays:
        return np.imag(np.tanh(np.outer(z, z) @ z) * z) / h
    parts, c = [], z
    for k in (1.0, 2.0, 3.0):
        parts.append(c * k)
        c = c + 0.1 * np.sin(c[::-1]) * k
    return np.imag(np.concatenate([c, *parts])) / h


def differences(f, x, h):
    return np.stack([(f(x + h * d) - f(x - h * d)) / (2.0 * h) for d in np.eye(x.size)], -1)


WEIGHTS = np.arange(1.0, 10.0).reshape(3, 3) / 5.0


def of_matrix(g):
    """A number made of the matrix, in which all of its elements count."""
    return lambda x: np.sum(np.sin(g(x)) * WEIGHTS)


#: What is made of the transformation `g`, what the closed form `m` gives there, and how closely.
USES = {
    "at once": (lambda g: g, lambda m: m, 1e-13),
    "grad": (lambda g: tg.grad(of_matrix(g)), lambda m: lambda x: differences(of_matrix(m), x, 1e-6), 1e-8),
    "value_and_grad": (lambda g: lambda x: tg.value_and_grad(of_matrix(g))(x)[1], lambda m: lambda x: differences(of_matrix(m), x, 1e-6), 1e-8),
    "jacobian": (tg.jacobian, lambda m: lambda x: differences(m, x, 1e-6), 1e-8),
    "jacfwd": (tg.jacfwd, lambda m: lambda x: differences(m, x, 1e-6), 1e-8),
    "jvp": (lambda g: lambda x: tg.jvp(g, (x,), (X,))[1], lambda m: lambda x: differences(m, x, 1e-6) @ X, 1e-8),
    "vjp": (lambda g: lambda x: tg.vjp(g, x)[1](WEIGHTS)[0], lambda m: lambda x: np.tensordot(WEIGHTS, differences(m, x, 1e-6), 2), 1e-8),
    "linearize": (lambda g: lambda x: tg.linearize(g, x)[1](X), lambda m: lambda x: differences(m, x, 1e-6) @ X, 1e-8),
    "hessian": (
        lambda g: tg.hessian(of_matrix(g)), lambda m: lambda x: differences(lambda y: differences(of_matrix(m), y, 1e-4), x, 1e-4), 3e-5,
    ),
    "hvp": (
        lambda g: lambda x: tg.hvp(of_matrix(g))(x, X),
        lambda m: lambda x: differences(lambda y: differences(of_matrix(m), y, 1e-4), x, 1e-4) @ X, 3e-5,
    ),
    "vmap": (lambda g: lambda x: tg.vmap(g)(np.stack([x, 0.5 * x])), lambda m: lambda x: np.stack([m(x), m(0.5 * x)]), 1e-12),
    "grad of vmap": (
        lambda g: tg.grad(lambda x: np.sum(tg.vmap(of_matrix(g))(np.stack([x, 0.5 * x])))),
        lambda m: lambda x: differences(lambda y: of_matrix(m)(y) + of_matrix(m)(0.5 * y), x, 1e-6), 1e-7,
    ),
    "vmap of grad": (
        lambda g: lambda x: tg.vmap(tg.grad(of_matrix(g)))(np.stack([x, 0.5 * x])),
        lambda m: lambda x: np.stack([differences(of_matrix(m), y, 1e-6) for y in (x, 0.5 * x)]), 1e-7,
    ),
    "scan": (
        lambda g: tg.grad(lambda x: np.sum(tg.scan(lambda c, k: (c + 0.01 * g(c) @ c * k, c), x, np.array([1.0, 2.0]))[0])),
        lambda m: lambda x: differences(lambda y: np.sum(twice(m, y, (1.0, 2.0))), x, 1e-6), 1e-7,
    ),
    "while_loop": (
        lambda g: tg.jacfwd(lambda x: tg.while_loop(lambda s: s[1] < 2.0, lambda s: (s[0] + 0.01 * g(s[0]) @ s[0], s[1] + 1.0), (x, 0.0))[0]),
        lambda m: lambda x: differences(lambda y: twice(m, y, (1.0, 1.0)), x, 1e-6), 1e-7,
    ),
    "itself, twice": (
        lambda g: gauss_newton(lambda x: np.diagonal(g(x))),
        lambda m: lambda x: (lambda j: j.T @ j)(differences(lambda y: np.diagonal(m(y)), x, 1e-6)), 1e-7,
    ),
}  # fmt: skip


def twice(m, x, factors):
    for k in factors:
        x = x + 0.01 * m(x) @ x * k
    return x


def value(f):
    """The results of a model as one vector."""
    return f if f is not loop else lambda x: (lambda r: np.concatenate([r[0], np.ravel(r[1])]))(f(x))


#: Uses of a model that is a loop, and of the second way of stating the matrix.
SOME = ("at once", "grad", "jacfwd", "vmap", "scan", "while_loop")


@pytest.mark.parametrize("use", USES)
def test_it_works_in_every_way(use):
    make, closed, close = USES[use]
    cases = [("blocks", "numbers"), ("blocks", "arrays"), *[("products", "arrays"), ("products", "loop")] * (use in SOME)]

    @every("way, name", cases)
    @every("wrap", [lambda made: made, tg.jit])
    def agrees(way, name, wrap):
        f = MODELS[name]
        g = wrap(make(gauss_newton(value(f), body=WAYS[way])))
        for x in (X, X + 0.2):
            expected = closed(lambda y: matrix(f, y))(x)
            np.testing.assert_allclose(g(x), expected, rtol=close, atol=close * max(1.0, np.max(np.abs(expected))))

    agrees()


def test_what_every_transformation_has():
    def f(p, scale=1.0):
        return {"a": np.sin(p["x"]) * scale, "b": p["x"] ** 2}

    g = tg.jit(gauss_newton(f))
    for k in range(4):
        x = X + 0.1 * k
        diagonal = (2.0 * np.cos(x)) ** 2 + 4.0 * x**2
        np.testing.assert_allclose(g({"x": x}, scale=2.0), np.diag(diagonal), rtol=1e-13, atol=1e-15)
    assert g.stats().records == 1 and g.stats().kernels == 1 and not g.stats().fallback
    assert len(g.tape({"x": X}, scale=2.0)) > 0 and "float64" in g.kernel({"x": X}, scale=2.0).source()
    second = gauss_newton(lambda y, x: y * x, 1)
    np.testing.assert_allclose(second(2.0, X), 4.0 * np.eye(3))
    np.testing.assert_allclose(copy.deepcopy(second)(2.0, X), 4.0 * np.eye(3))
    with pytest.raises(StructureError, match="asks for argument 1"):
        second(2.0)
    with pytest.raises(StructureError, match="names an argument twice"):
        gauss_newton(model, (0, 0))
