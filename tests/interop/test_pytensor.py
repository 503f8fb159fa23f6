"""A function of ours as an operation of PyTensor: derivatives beside PyTensor's own, and a model of PyMC sampled by nutpie."""

import math

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.errors import DtypeError, ShapeError, StructureError
from tapegrad.interop import to_pytensor
from tests.every import every

pytensor = pytest.importorskip("pytensor")
pt = pytensor.tensor

A, B = np.array([0.3, -0.7, 1.2]), np.array([[0.5, -1.0, 0.2], [1.5, 0.1, -0.4]])
MODES = ("FAST_COMPILE", "NUMBA")


def ours(x, m):
    return np.sum((np.sin(m @ x) * np.sum(x**3)) ** 2) * np.sum(np.tanh(m) ** 2)


def theirs(x, m):
    return pt.sum((pt.sin(m @ x) * pt.sum(x**3)) ** 2) * pt.sum(pt.tanh(m) ** 2)


def derivatives(f):
    x, m = pt.vector("x"), pt.matrix("m", shape=(2, 3))
    y = f(x, m)
    slope = pytensor.grad(y, x)
    third = pytensor.grad(pt.sum(pytensor.grad(pt.sum(slope**2), m) ** 2), x)
    return [x, m], [y, slope, pytensor.grad(y, m), pytensor.gradient.hessian(y, x), third, pytensor.gradient.Rop(y, x, pt.cos(x))]


@every("mode", MODES)
def test_derivatives(mode):
    found, expected = (pytensor.function(*derivatives(f), mode=mode)(A, B) for f in (to_pytensor(ours, A, B), theirs))
    for one, other in zip(found, expected):
        np.testing.assert_allclose(one, other, rtol=1e-10)


@every("mode", MODES)
def test_containers_and_numbers(mode):
    def f(p, scale):
        return {"sum": np.sum(p["a"] * scale), "product": (p["a"] * p["b"],)}

    a, scale = pt.vector("a", shape=(2,)), pt.scalar("scale", dtype="float32")
    out = to_pytensor(f, {"a": np.ones(2), "b": 1.0}, 1.0)({"a": a, "b": 3.0}, scale)
    loss = out["sum"] + pt.sum(out["product"][0] ** 2)
    values = pytensor.function([a, scale], [out["sum"], out["product"][0], *pytensor.grad(loss, [a, scale])], mode=mode)(np.array([1.0, 2.0]), np.float32(0.5))
    for found, expected in zip(values, (1.5, [3.0, 6.0], [18.5, 36.5], 3.0)):
        np.testing.assert_allclose(found, expected)


@every("mode", MODES)
def test_another_path_is_recorded(mode):
    def settle(x):
        steps = 0.0
        while x > 1.0:
            x, steps = x / 2.0, steps + 1.0
        return x**2 + steps * x

    x = pt.scalar("x")
    y = to_pytensor(settle, 0.5)(x)
    f = pytensor.function([x], [y, pytensor.grad(y, x)], mode=mode)
    for point in (0.3, 3.0, 9.0, 0.7, 30.0):
        np.testing.assert_allclose(f(point), tg.value_and_grad(settle)(point), rtol=1e-13)


def test_along_an_axis():
    x, xs = pt.vector("x", shape=(3,)), pt.matrix("xs", shape=(4, 3))
    y = to_pytensor(ours, A, B)(x, B)
    many = pytensor.graph.replace.vectorize_graph([y, pytensor.grad(y, x)], {x: xs})
    points = np.random.default_rng(0).standard_normal((4, 3))
    value, slope = pytensor.function([xs], many, mode="FAST_COMPILE")(points)
    for k, point in enumerate(points):
        np.testing.assert_allclose(value[k], ours(point, B))
        np.testing.assert_allclose(slope[k], tg.grad(ours)(point, B), rtol=1e-12)


def test_arguments_that_do_not_fit_are_named():
    f = to_pytensor(ours, A, B)
    with pytest.raises(ShapeError, match=r"argument 1 of ours has the shape \(2, 2\), not \(2, 3\)"):
        f(A, np.ones((2, 2)))
    with pytest.raises(ShapeError, match="argument 0 of ours"):
        f(pt.matrix(), B)
    with pytest.raises(DtypeError, match="argument 0 of ours is complex128"):
        f(pt.zvector(), B)
    with pytest.raises(StructureError, match="ours takes"):
        f(A)
    with pytest.raises(DtypeError, match="argument 0 of ours"):
        to_pytensor(ours, np.arange(3), B)
    x = pt.vector("x")
    called = pytensor.function([x], f(x, B), mode="FAST_COMPILE")
    with pytest.raises(AssertionError, match=r"argument 0 of ours must have the shape \(3,\)"):
        called(A[:2])


def test_what_cannot_be_compiled_is_computed_by_python():
    cubes = tg.custom_vjp(lambda x: np.array([math.pow(v, 3) for v in x.tolist()]), lambda g, r, x: 3.0 * x**2 * g)
    x = pt.vector("x", shape=(1,))
    y = pt.sum(to_pytensor(cubes, np.ones(1))(x))
    value, slope = pytensor.function([x], [y, pytensor.grad(y, x)], mode="NUMBA")(np.array([2.0]))
    assert (value, slope.tolist()) == (8.0, [12.0])


T = np.linspace(0.0, 4.0, 25)
NOISE = 0.05 * np.random.default_rng(3).standard_normal(25)


def decay(amplitude, rate):
    """Euler's steps in a loop, as no model of PyTensor's is written."""
    level, out = amplitude, []
    for dt in np.diff(T, prepend=T[0]):
        level = level - dt * rate * level
        out.append(level)
    return np.stack(out)


DATA = decay(2.0, 0.7) + NOISE


def test_a_model_of_pymc_is_sampled_without_python(monkeypatch):
    pm, nutpie = pytest.importorskip("pymc"), pytest.importorskip("nutpie")
    asked = []
    with pm.Model() as model:
        amplitude, rate = pm.HalfNormal("amplitude", 5.0), pm.HalfNormal("rate", 2.0)
        op = to_pytensor(lambda a, r: -0.5 * np.sum(((decay(a, r) - DATA) / 0.05) ** 2), 1.0, 1.0)
        pm.Potential("likelihood", op(amplitude, rate))
    compiled = nutpie.compile_pymc_model(model)
    from tapegrad.interop.operation import Operation

    called = Operation.__call__
    monkeypatch.setattr(Operation, "__call__", lambda self, arguments: asked.append(1) or called(self, arguments))
    idata = nutpie.sample(compiled, draws=500, tune=400, chains=2, seed=1, progress_bar=False)
    assert not asked
    assert int(idata.sample_stats.diverging.sum()) == 0
    def cost(z):
        return 0.5 * np.sum(((decay(z[0], z[1]) - DATA) / 0.05) ** 2)

    # The prior is flat beside these data: the posterior is the likelihood, close to normal.
    mode = tg.optimize.minimize(cost, np.array([1.0, 1.0])).x
    deviations = np.sqrt(np.diag(np.linalg.inv(tg.hessian(cost)(mode))))
    for k, name in enumerate(("amplitude", "rate")):
        draws = idata.posterior[name].values.ravel()
        assert abs(draws.mean() - mode[k]) < 0.3 * deviations[k]
        assert draws.std() == pytest.approx(deviations[k], rel=0.15)
