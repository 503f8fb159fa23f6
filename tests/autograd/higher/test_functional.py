"""Hessians, their diagonals and traces, and products with them and with Gauss-Newton matrices."""

from collections import namedtuple

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.common.errors import HigherOrderError, NonScalarOutputError, SeedShapeError, StructureError
from tapegrad.scipy.special import gammainc
from tests.rules.checker import generator

X = np.array([0.3, -0.7, 1.2, 0.4])
V = np.array([1.0, 2.0, -1.0, 0.5])


def f(x):
    return np.sum(np.exp(x[1:]) * np.sin(x[:-1])) + np.sum(x) ** 3


def rosenbrock(x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def dense(f, x, h=1e-5):
    """The Hessian by central differences of gradients."""
    g = tg.grad(f)
    columns = [(g(x + d) - g(x - d)) / (2 * h) for d in h * np.eye(x.size).reshape(-1, *x.shape)]
    return np.stack(columns, -1).reshape(*x.shape, *x.shape)


@pytest.mark.parametrize("wrap", [lambda made: made, tg.jit], ids=["plainly", "jit"])
@pytest.mark.parametrize("mode", ["auto", "forward", "reverse"])
@pytest.mark.parametrize("function", [f, rosenbrock, lambda x: np.linalg.norm(x) ** 3, lambda x: x[0] * 1.0])
def test_hessian(function, mode, wrap):
    hessian = wrap(tg.hessian(function, mode=mode))
    for k in range(5):
        x = X + 0.1 * k
        found = hessian(x)
        np.testing.assert_allclose(found, dense(function, x), rtol=1e-6, atol=1e-6)
        np.testing.assert_array_equal(found, found.T)
    assert (hessian.stats().replays >= 1) == (wrap is tg.jit)


def test_hessian_of_many_elements_is_symmetric_and_explained(capsys):
    x = generator(1).standard_normal(40)
    a = generator(2).standard_normal((40, 40))
    full, banded = tg.hessian(lambda x: np.sum(np.tanh(a @ x)) ** 2), tg.hessian(rosenbrock, explain=True)
    for _ in range(4):
        found, narrow = full(x), banded(x)
    np.testing.assert_allclose(found, dense(lambda x: np.sum(np.tanh(a @ x)) ** 2, x), rtol=1e-5, atol=1e-4)
    np.testing.assert_array_equal(found, found.T)
    np.testing.assert_array_equal(narrow, narrow.T)
    np.testing.assert_allclose(narrow, dense(rosenbrock, x), rtol=1e-5, atol=1e-3)
    assert "mode" in capsys.readouterr().out


def test_hessian_of_numbers_matrices_and_float32():
    assert tg.hessian(lambda x: x**3)(2.0) == 12.0 and type(tg.hessian(lambda x: x**3)(2.0)) is float
    assert tg.hessian(lambda x: x**3)(2) == 12.0
    matrix = X.reshape(2, 2)
    found = tg.hessian(lambda a: np.linalg.det(a) * np.sum(a))(matrix)
    assert found.shape == (2, 2, 2, 2)
    np.testing.assert_allclose(found, dense(lambda a: np.linalg.det(a) * np.sum(a), matrix), rtol=1e-6, atol=1e-6)
    assert tg.hessian(rosenbrock)(X.astype("f")).dtype == np.float32
    assert tg.hessian(lambda x: np.sum(x))(np.zeros(0)).shape == (0, 0)


def test_several_arguments_and_containers():
    def g(x, p):
        return np.sum(x) ** 2 * p["a"] ** 3 + np.sum(p["b"] * x[0])

    x, p = np.array([1.0, 2.0]), {"a": 2.0, "b": np.array([3.0])}
    (xx, xp), by_p = tg.hessian(g, (0, 1))(x, p)
    np.testing.assert_allclose(xx, 16.0 * np.ones((2, 2)))
    np.testing.assert_allclose(xp["a"], [72.0, 72.0])
    np.testing.assert_allclose(xp["b"], [[1.0], [0.0]])
    np.testing.assert_array_equal(by_p["b"][0], xp["b"].T)
    assert by_p["a"][1]["a"] == 108.0 and by_p["a"][1]["b"].shape == (1,)
    turned, _ = tg.hessian(g, (1, 0))(x, p)
    assert turned["a"][0]["a"] == 108.0
    numbers = tg.hessian(lambda p: p["u"] ** 2 * p["v"])({"u": 2.0, "v": 3.0})
    assert numbers == {"u": {"u": 6.0, "v": 4.0}, "v": {"u": 4.0, "v": 0.0}}
    product = tg.hvp(g, (0, 1))(x, p, (V[:2], {"a": 1.0, "b": np.array([2.0])}))
    np.testing.assert_allclose(product[0], xx @ V[:2] + xp["a"] + xp["b"] @ [2.0])
    assert product[1]["a"] == pytest.approx(by_p["a"][0] @ V[:2] + 108.0)
    Pair = namedtuple("Pair", "u v")
    found = tg.hvp(lambda p: p.u**2 * p.v)(Pair(2.0, 3.0), Pair(1.0, 0.0))
    assert found == Pair(6.0, 4.0)
    np.testing.assert_allclose(tg.hessian_diag(g, 1)(x, p)["a"], 108.0)


@pytest.mark.parametrize("wrap", [lambda made: made, tg.jit], ids=["plainly", "jit"])
def test_products_with_the_hessian(wrap):
    product, hessian = wrap(tg.hvp(f)), tg.hessian(f)
    for k in range(5):
        x = X + 0.2 * k
        np.testing.assert_allclose(product(x, V), hessian(x) @ V, rtol=1e-12)
    assert (product.stats().replays >= 1) == (wrap is tg.jit)
    several = np.stack([V, X, V * X])
    np.testing.assert_allclose(product(X, several), several @ hessian(X), rtol=1e-12)
    np.testing.assert_allclose(product(X, np.zeros((0, 4))), np.zeros((0, 4)))
    assert tg.hvp(lambda x: x**3)(2.0, 0.5) == 6.0
    np.testing.assert_array_equal(tg.hvp(lambda x: x**3)(2.0, np.array([1.0, 2.0])), [12.0, 24.0])
    assert tg.hvp(lambda x: x * 3.0)(2.0, 1.0) == 0.0
    np.testing.assert_array_equal(product(X, np.eye(4, dtype=int)[1]), product(X, np.eye(4)[1]))
    found, aux = tg.hvp(lambda x: (x**3, {"twice": 2.0 * x}), has_aux=True)(2.0, 1.0)
    assert found == 12.0 and aux == {"twice": 4.0}
    assert tg.hvp(lambda x, *, power: x**power)(2.0, 1.0, power=3) == 12.0


def test_several_directions_share_the_gradient():
    """Of five directions the tape is little longer than of one: what does not depend on them is there once."""
    one, five = tg.jit(tg.hvp(f)), tg.jit(tg.hvp(f))
    one(X, V)
    five(X, np.stack([V] * 5))
    assert five.stats().instructions < 1.5 * one.stats().instructions


def test_diagonal_and_laplacian():
    for function in (f, rosenbrock):
        for x in (X, np.linspace(-1.0, 1.0, 30)):
            diagonal, laplacian, hessian = tg.hessian_diag(function), tg.laplacian(function), tg.hessian(function)
            for k in range(4):
                expected = np.diagonal(hessian(x + k))
                np.testing.assert_allclose(diagonal(x + k), expected, rtol=1e-11)
                assert laplacian(x + k) == pytest.approx(np.sum(expected), rel=1e-11)
                assert type(laplacian(x)) is float
    matrix = X.reshape(2, 2)
    assert tg.hessian_diag(lambda a: np.sum(a**3))(matrix) == pytest.approx(6.0 * matrix)


@pytest.mark.parametrize("wrap", [lambda made: made, tg.jit], ids=["plainly", "jit"])
def test_gauss_newton(wrap):
    a = generator(5).standard_normal((6, 4))

    def model(x):
        return {"z": np.tanh(a @ x), "w": np.sum(x) ** 2}

    def loss(r):
        return np.sum(r["z"] ** 4) * r["w"]

    jacobian = tg.jacobian(lambda x: np.concatenate([np.tanh(a @ x), np.reshape(np.sum(x) ** 2, (1,))]))
    inner = tg.hessian(lambda r: np.sum(r[:6] ** 4) * r[6])
    product, squares = wrap(tg.gnvp(model, loss)), wrap(tg.gnvp(model))
    for k in range(4):
        x = X + 0.3 * k
        j = jacobian(x)
        r = np.append(np.tanh(a @ x), np.sum(x) ** 2)
        np.testing.assert_allclose(product(x, V), j.T @ (inner(r) @ (j @ V)), rtol=1e-11, atol=1e-12)
        np.testing.assert_allclose(squares(x, V), j.T @ (j @ V), rtol=1e-11)
    np.testing.assert_allclose(squares(x, np.eye(4)), j.T @ j, rtol=1e-10)
    assert (product.stats().replays >= 1) == (wrap is tg.jit)
    nested = tg.grad(lambda x: np.sum(squares(x, V) * V))
    np.testing.assert_allclose(nested(X), tg.grad(lambda x: np.sum(tg.jvp(model, (x,), (V,))[1]["z"] ** 2)
                               + tg.jvp(model, (x,), (V,))[1]["w"] ** 2)(X), rtol=1e-11)
    along = tg.jvp(lambda x: product(x, np.stack([V, X])), (X,), (V,))[1]
    np.testing.assert_allclose(along, (product(X + 1e-6 * V, np.stack([V, X])) - product(X - 1e-6 * V, np.stack([V, X]))) / 2e-6, rtol=1e-6)
    assert tg.jvp(lambda x: product(x, np.zeros((0, 4))), (X,), (V,))[1].shape == (0, 4)


def test_branches_inside_are_guarded():
    g = tg.hessian(lambda x: x**3 if x > 0.0 else x**2)
    assert [g(x) for x in (1.0, -1.0, 2.0, -2.0, 3.0)] == [6.0, 2.0, 12.0, 2.0, 18.0]


def test_captured_arrays_that_change():
    scale = np.array([1.0, 2.0, 3.0, 4.0])
    product = tg.hvp(lambda x: np.sum(scale * x**2))
    for _ in range(3):
        np.testing.assert_array_equal(product(X, V), 2.0 * scale * V)
    scale[:] = 1.0
    np.testing.assert_array_equal(product(X, V), 2.0 * V)


def test_refusals():
    with pytest.raises(NonScalarOutputError):
        tg.hessian(np.sin)(X)
    with pytest.raises(NonScalarOutputError):
        tg.hvp(np.sin)(X, V)
    with pytest.raises(SeedShapeError, match="direction"):
        tg.hvp(f)(X, V[:2])
    with pytest.raises(StructureError, match="direction"):
        tg.hvp(f)(X)
    with pytest.raises(StructureError):
        tg.hvp(lambda p: p["a"])({"a": 1.0, "b": 2.0}, 1.0)
    with pytest.raises(StructureError, match="argnums"):
        tg.hvp(f, 1)(X, V)
    with pytest.raises(StructureError):
        tg.hessian(3.0)
    with pytest.raises(StructureError):
        tg.gnvp(f, 3.0)
    with pytest.raises(ValueError, match="mode"):
        tg.hessian(f, mode="sideways")
    with pytest.raises(tg.errors.DtypeError):
        tg.hessian(f)(np.array([1, 2, 3]))
    with pytest.raises(HigherOrderError, match="gammainc"):
        tg.hessian(lambda x: gammainc(x, 1.5))(0.75)


@pytest.mark.parametrize("held", [1 << 24, 1 << 15])
def test_all_directions_in_one_replay_or_by_sweeps(held, monkeypatch, capsys):
    """Where the gradient works on long arrays; several arguments, containers, another dtype, and other shapes."""
    from tapegrad.transforms import hessians

    monkeypatch.setattr(hessians, "HELD", held)
    a = generator(7).standard_normal((200, 40))

    def g(p, shift):
        return np.sum(np.logaddexp(0.0, a @ np.concatenate([p["x"], p["y"]]) + shift)) * p["x"][0]

    p = {"x": np.linspace(-1.0, 1.0, 25), "y": np.linspace(0.0, 1.0, 15)}
    hessian = tg.jit(tg.hessian(g, explain=True))
    swept = tg.hessian(g, mode="reverse")
    for k in range(4):
        moved = {name: part + 0.1 * k for name, part in p.items()}
        found, expected = hessian(moved, 0.5), swept(moved, 0.5)
        for one in p:
            for other in p:
                np.testing.assert_allclose(found[one][other], expected[one][other], rtol=1e-10, atol=1e-10)
        np.testing.assert_array_equal(found["x"]["y"], found["y"]["x"].T)
    assert ("in one replay" in capsys.readouterr().out) == (held > 1 << 20)
    single = tg.hessian(lambda x: np.sum(np.tanh(a.astype("f") @ x)))
    for _ in range(3):
        found = single(np.ones(40, "f"))
    assert found.dtype == np.float32
    double = tg.hessian(lambda x: np.sum(np.tanh(a @ x)), mode="forward")(np.ones(40))
    np.testing.assert_allclose(found, double, rtol=1e-2, atol=1e-2)
    with pytest.raises(StructureError):
        tg.hessian(g)()


SECOND = {
    "hessian": (lambda: tg.hessian(f), ()), "hessian, long arrays": (lambda: tg.hessian(long), ()),
    "hvp": (lambda: tg.hvp(f), (V,)), "gnvp": (lambda: tg.gnvp(lambda x: np.tanh(x) * x[0]), (V,)),
    "hessian_diag": (lambda: tg.hessian_diag(f), ()), "laplacian": (lambda: tg.laplacian(f), ()),
    "sparse_hessian": (lambda: tg.sparse_hessian(rosenbrock), ()),
    "sparse_jacobian": (lambda: tg.sparse_jacobian(np.sin), ()),
}  # fmt: skip


A = generator(8).standard_normal((200, 40))


def long(x):
    return np.sum(np.tanh(A @ x))


@pytest.mark.parametrize("name", SECOND)
def test_when_they_become_kernels_can_be_said(name):
    make, rest = SECOND[name]
    x = np.tile(X, 10) if name == "hessian, long arrays" else X
    found = {}
    for policy in ("never", "always"):
        call = tg.jit(make(), kernel=policy)
        found[policy] = [call(x + 0.1 * k, *rest) for k in range(7)]
        stats = call.stats() if name != "hessian, long arrays" else call._rows.stats
        assert (stats.kernel_calls > 0) == (policy == "always"), stats
    for one, other in zip(*found.values()):
        if hasattr(one, "toarray"):
            one, other = one.toarray(), other.toarray()
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)
    with pytest.raises(tg.errors.OptionError, match="kernel"):
        tg.jit(make(), kernel="sometimes")


def test_a_dense_hessian_by_a_kernel_multiplies_little_more_than_half():
    rows, n = 300, 120
    data, w = generator(3).standard_normal((rows, n)) / 10.0, generator(4).standard_normal(n)
    hessian = tg.hessian(tg.jit(lambda w: np.sum(np.logaddexp(0.0, data @ w)) + np.sum(w**3)))
    for k in range(4):
        x = w + 0.1 * k
        found, s = hessian(x), 1.0 / (1.0 + np.exp(-data @ x))
        np.testing.assert_allclose(found, data.T @ ((s * (1.0 - s))[:, None] * data) + np.diag(6.0 * x), rtol=1e-11, atol=1e-11)
        np.testing.assert_array_equal(found, found.T)
    assert hessian._rows.stats.kernel_calls
    products = [s.product for s in hessian._rows.kernel((w,), {}).program.body if getattr(s, "product", None)]
    assert len(products) > 1 and rows * n * n // 2 < sum(map(np.prod, products)) < 0.7 * rows * n * n


def test_products_along_several_directions_inside_of_forward_mode():
    """The tangent of a product is that by differences and by reverse mode, with the directions in one pass."""
    f, v = (lambda x: np.sum(np.sin(x) * x[::-1] ** 2)), np.array([1.0, -2.0, 0.5])
    x = np.array([0.3, 0.5, 0.9])
    for product in (
        lambda t: tg.hvp(f)(x * t, v * t),
        lambda t: tg.hvp(f)(x * t, np.eye(3) * t),
        lambda t: tg.hvp(lambda x: f(x) * t)(x, v),
        lambda t: tg.gnvp(lambda x: np.sin(x) * t, lambda y: np.sum(y**4))(x * t, np.eye(3)),
    ):
        difference = (product(1.3 + 1e-6) - product(1.3 - 1e-6)) / 2e-6
        np.testing.assert_allclose(tg.derivative(product)(1.3), difference, rtol=1e-7, atol=1e-8)
    twice = lambda x: tg.gnvp(np.sin, lambda y: np.sum(y**4))(x, np.stack([x, x * x]))  # noqa: E731
    np.testing.assert_allclose(tg.jacfwd(tg.jacfwd(twice))(x), tg.jacrev(tg.jacrev(twice))(x), rtol=1e-11, atol=1e-12)


def test_tangents_of_arrays_divided_by_a_zero_are_not_finite():
    """... and raise no error of Python's: of a tape, as of dual numbers."""
    x = np.array([1.0, -2.0])
    with np.errstate(all="ignore"):
        for f in (lambda x: x / 0.0, lambda x: x / (x[0] * 0.0), lambda x: (x * 1.0) ** -1.0 / 0.0):
            forward = tg.jacobian(f, mode="forward")(x)
            assert not np.isfinite(forward).all()
            np.testing.assert_array_equal(np.diag(forward), np.diag(tg.jacfwd(f)(x)))
            assert not np.isfinite(tg.jvp(tg.grad(lambda x, f=f: np.sum(f(x) * x)), (x,), (x,))[1]).all()


def test_numbers_that_are_assigned_to_have_tangents():
    def f(y):
        t = y * 1.0
        t[()] = y * y
        line = t.reshape(-1)
        line[0] = line[-1] * y
        return line * t

    x, one = np.float32(1.3), np.float32(1.0)
    slope, curvature = 6.0 * 1.3**5, 30.0 * 1.3**4
    for found in (tg.linearize(f, x)[1](one), tg.jacobian(f, mode="forward")(x), tg.jit(lambda x: tg.jvp(f, (x,), (one,))[1])(x)):
        assert found.shape == (1,) and found.dtype == np.float32
        np.testing.assert_allclose(found, slope, rtol=1e-6)
    np.testing.assert_allclose(tg.linearize(tg.grad(lambda x: f(x)[0]), x)[1](one), curvature, rtol=1e-6)
