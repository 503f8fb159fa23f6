"""`grad`, `value_and_grad`, `elementwise_grad`, `jacobian`, `linearize`: replay, containers, names of HIPS autograd."""

import dataclasses
from collections import OrderedDict, namedtuple
from functools import cache

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.common.errors import DtypeError
from tests.rules.checker import generator

jax = pytest.importorskip("jax")
jax.config.update("jax_enable_x64", True)

Pair = namedtuple("Pair", "first second")


@dataclasses.dataclass
class Model:
    weights: np.ndarray
    bias: float


def counted(function):
    """`function` with a counter of its calls, which it does not see."""

    def call(*args, **kwargs):
        call.count += 1
        return function(*args, **kwargs)

    call.count = 0
    return call


FUNCTIONS = {
    "banded": lambda np: lambda x: x[1:-1] * x[2:] - np.sin(x[:-2]),
    "by elements": lambda np: lambda x: np.stack([x[i + 1] * x[i] - np.sin(x[i]) for i in range(5)]),
    "whole and by elements": lambda np: lambda x: x[2] * np.cumsum(x) + x[0] * np.sin(x) + np.exp(x[2]),
    "matrix": lambda np: lambda x: np.tanh(np.outer(x, x) @ x),
    "several": lambda np: lambda x: {"a": np.sum(x * x), "b": (x[1] * x, np.max(x))},
    "constant part": lambda np: lambda x: (x * 2.0, np.ones(3), x),
    "where": lambda np: lambda x: np.where(x > 0.5, np.log(x), x * x),
    "solve": lambda np: lambda x: np.linalg.solve(np.outer(x, x) + 3.0 * np.eye(6), x),
}


#: Where Jacobians are compared.
POINTS = [generator(seed).uniform(0.1, 0.9, 6) for seed in range(6)]


@cache
def leaves_of_jax(name):
    """The leaves of JAX's Jacobian at each of `POINTS`."""
    jacobian = jax.jit(jax.jacrev(FUNCTIONS[name](jax.numpy)))
    return [jax.tree.leaves(jacobian(x)) for x in POINTS]


@pytest.mark.parametrize("kernel", [None, "never", "always"], ids=["plainly", "by sweeps", "by kernels"])
@pytest.mark.parametrize("mode", ["forward", "reverse", "auto"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_jacobians_agree_with_jax_at_every_point(name, mode, kernel):
    function = counted(FUNCTIONS[name](np))
    jacobian = tg.jacobian(function, mode=mode)
    if kernel:
        jacobian = tg.jit(jacobian, kernel=kernel)
    for x, expected in zip(POINTS, leaves_of_jax(name), strict=True):
        found = jacobian(x)
        for mine, other in zip(jax.tree.leaves(found), expected, strict=True):
            assert isinstance(mine, np.ndarray) and mine.dtype == np.float64
            np.testing.assert_allclose(mine, other, rtol=1e-11, atol=1e-12)
    stats = jacobian.stats()
    if kernel:
        # The function whose path depends on the point is recorded on each.
        assert function.count == stats.records == stats.tapes and stats.records + stats.replays >= 6 and not stats.runs
    else:
        assert function.count == stats.runs == 6 and not stats.records


def test_jacobian_takes_the_path_of_its_argument():
    jacobian = tg.jacobian(lambda x: x * x if x[0] > 0 else np.sin(x))
    for first in (1.0, -1.0, 2.0, -2.0, 3.0, -3.0):
        x = np.array([first, 0.5])
        expected = 2 * x if first > 0 else np.cos(x)
        np.testing.assert_allclose(jacobian(x), np.diag(expected), rtol=1e-14)


def test_arguments_that_are_not_differentiated_are_inputs():
    function = counted(lambda x, a, power, scale=1.0: scale * a * x**power)
    jacobian = tg.jit(tg.jacobian(function))
    x = np.array([1.0, 2.0])
    for k in range(8):
        a, scale = np.array([k, 2.0]), 1.0 + k
        np.testing.assert_allclose(jacobian(x, a, 2, scale=scale), np.diag(scale * a * 2 * x), rtol=1e-14)
    assert function.count == 1
    np.testing.assert_allclose(jacobian(x, a, 3, scale=2.0), np.diag(2.0 * a * 3 * x**2), rtol=1e-14)


def test_containers_in_and_out():
    def loss(model, pair, table):
        return np.sum(np.tanh(model.weights @ pair.first + model.bias) * pair.second) * table["s"][0] + table["s"][1][0]

    w, x, y = generator().standard_normal((2, 3)), generator(1).standard_normal(3), np.array([1.0, -2.0])
    arguments = Model(w, 0.5), Pair(x, y), {"s": [2.0, (3.0,)]}
    value, (to_model, to_pair, to_table) = tg.value_and_grad(loss, argnums=(0, 1, 2))(*arguments)
    t = np.tanh(w @ x + 0.5)
    by = 2.0 * y * (1 - t * t)
    assert value == pytest.approx(2.0 * np.sum(t * y) + 3.0, rel=1e-14) and type(value) is float
    assert type(to_model) is Model and type(to_pair) is Pair and type(to_table["s"][1]) is tuple
    np.testing.assert_allclose(to_model.weights, np.outer(by, x), rtol=1e-13)
    assert to_model.bias == pytest.approx(by.sum(), rel=1e-13) and type(to_model.bias) is float
    np.testing.assert_allclose(to_pair.first, w.T @ by, rtol=1e-13)
    np.testing.assert_allclose(to_pair.second, 2.0 * t, rtol=1e-13)
    assert to_table["s"][0] == pytest.approx(np.sum(t * y), rel=1e-13) and to_table["s"][1] == (1.0,)

    made = lambda model: Pair(model.weights * model.bias, {"b": model.bias**2})  # noqa: E731
    found = tg.jacobian(made)(Model(x, 0.5))
    assert type(found) is Pair and type(found.first) is Model
    np.testing.assert_allclose(found.first.weights, 0.5 * np.eye(3))
    np.testing.assert_allclose(found.first.bias, x)
    np.testing.assert_array_equal(found.second["b"].weights, np.zeros(3))
    assert found.second["b"].bias == 1.0

    value, tangent = tg.jvp(made, (Model(x, 0.5),), (Model(np.ones(3), 2.0),))
    np.testing.assert_allclose(tangent.first, 0.5 + 2.0 * x)
    assert type(value) is Pair and tangent.second["b"] == 2.0
    with pytest.raises(tg.errors.StructureError, match="Model"):
        tg.jvp(made, (Model(x, 0.5),), ((np.ones(3), 2.0),))

    value, pullback = tg.vjp(made, Model(x, 0.5))
    assert type(value) is Pair
    (back,) = pullback(Pair(np.ones(3), {"b": 1.0}))
    np.testing.assert_allclose(back.weights, np.full(3, 0.5))
    assert back.bias == pytest.approx(x.sum() + 1.0, rel=1e-14)


def test_a_direction_is_paired_by_keys():
    def f(p):
        return 3.0 * p["a"] ** 2 + p["b"] ** 3

    point = {"a": 1.0, "b": 2.0}
    for product in (tg.hvp(f), tg.jit(tg.hvp(f))):
        for _ in range(3):
            assert product(point, {"a": 1.0, "b": 0.0}) == product(point, {"b": 0.0, "a": 1.0}) == {"a": 6.0, "b": 0.0}
            assert product({"b": 2.0, "a": 1.0}, {"a": 0.0, "b": 1.0}) == {"b": 12.0, "a": 0.0}
        with pytest.raises(tg.errors.StructureError, match="the direction is {b"):
            product(point, {"b": 0.0, "c": 1.0})
    assert tg.jvp(f, (point,), ({"b": 0.0, "a": 1.0},)) == (11.0, 6.0)
    with pytest.raises(tg.errors.StructureError, match="OrderedDict has a partner that is a dict with the keys .'b', 'a'"):
        tg.jvp(f, (OrderedDict(point),), (OrderedDict(b=0.0, a=1.0),))


def test_what_goes_with_the_result_gets_no_derivative():
    def f(x):
        return x**2, {"tripled": x * 3.0, "name": "text", "list": np.array([1, 2])}

    for transformed in (tg.grad(f, has_aux=True), tg.grad(f, 0, True)):
        for x in (2.0, 3.0, 4.0, 5.0):
            gradient, aux = transformed(x)
            assert gradient == 2 * x and aux["tripled"] == 3 * x and type(aux["tripled"]) is float
            assert aux["name"] == "text" and aux["list"].tolist() == [1, 2]
    (value, aux), gradient = tg.value_and_grad(f, has_aux=True)(2.0)
    assert (value, aux["tripled"], gradient) == (4.0, 6.0, 4.0)


def test_names_and_order_of_hips_autograd():
    hips = pytest.importorskip("autograd")
    import autograd.numpy as anp

    make = lambda np: lambda x, y: np.sin(x) * y + x * y**2  # noqa: E731
    x, y = generator(2).uniform(0.1, 0.9, 4), generator(3).uniform(0.1, 0.9, 4)
    for argnum in (0, 1):
        for name in ("elementwise_grad", "jacobian"):
            expected = getattr(hips, name)(make(anp), argnum)(x, y)
            np.testing.assert_allclose(getattr(tg, name)(make(np), argnum)(x, y), expected, rtol=1e-14)
            np.testing.assert_allclose(getattr(tg, name)(make(np), argnum=argnum)(x, y), expected, rtol=1e-14)
        total = lambda np: lambda x, y: np.sum(make(np)(x, y))  # noqa: B023, E731
        np.testing.assert_allclose(
            tg.grad(total(np), argnum)(x, y), hips.grad(total(anp), argnum)(x, y), rtol=1e-14
        )
        value, gradient = tg.value_and_grad(total(np), argnum=argnum)(x, y)
        other = hips.value_and_grad(total(anp), argnum=argnum)(x, y)
        assert value == pytest.approx(other[0], rel=1e-14)
        np.testing.assert_allclose(gradient, other[1], rtol=1e-14)
    assert tg.egrad is tg.elementwise_grad


def test_elementwise_grad_sums_all_results_also_those_returned_twice():
    def f(x):
        y = np.sin(x)
        return y, [y, x * 2.0, 3.0]

    function = counted(f)
    derivative = tg.jit(tg.elementwise_grad(function))
    for k in range(8):
        x = generator(k).uniform(0.1, 0.9, 3)
        np.testing.assert_allclose(derivative(x), 2 * np.cos(x) + 2.0, rtol=1e-14)
    assert function.count == 1


def test_linearize_pushes_any_number_of_tangents_without_running_the_function():
    function = counted(lambda x, y: (np.outer(x, y["a"]), np.sum(x) * y["a"][0] * x[1]))
    x, y = np.array([1.0, 2.0]), {"a": np.array([3.0, 4.0, 5.0])}
    value, push = tg.linearize(function, x, y)
    assert value[1] == 18.0
    for seed in range(3):
        dx, dy = generator(seed).standard_normal(2), {"a": generator(seed + 9).standard_normal(3)}
        found = push(dx, dy)
        expected = jax.jvp(
            lambda x, y: (jax.numpy.outer(x, y["a"]), jax.numpy.sum(x) * y["a"][0] * x[1]), (x, y), (dx, dy)
        )[1]
        np.testing.assert_allclose(found[0], expected[0], rtol=1e-13)
        np.testing.assert_allclose(found[1], expected[1], rtol=1e-13)
    assert function.count == 1


def test_captured_tensor_that_changes_is_noticed():
    w = tg.tensor(2.0, requires_grad=True)
    gradient = tg.grad(lambda x: x * w)
    for expected in (2.0, 4.0, 8.0, 16.0, 32.0):
        assert [gradient(1.0) for _ in range(3)] == [expected] * 3
        with tg.no_grad():
            w.mul_(2.0)


def test_custom_primitives_keep_their_derivative():
    sine = tg.primitive(lambda x: np.sin(x))
    tg.custom_vjp(sine, lambda g, result, x: (g * np.cos(x),))
    f = lambda x, y: (sine(x) * y, np.sum(sine(y)), 1.0)  # noqa: E731
    x, y = np.array([1.0, 2.0]), np.array([3.0, 4.0])
    for mode in ("forward", "reverse", "auto"):
        found = tg.jacobian(f, (0, 1), mode=mode)(x, y)
        np.testing.assert_allclose(found[0][0], np.diag(np.cos(x) * y), rtol=1e-14)
        np.testing.assert_allclose(found[0][1], np.diag(np.sin(x)), rtol=1e-14)
        np.testing.assert_allclose(found[1][1], np.cos(y), rtol=1e-14)
        assert not found[1][0].any() and not found[2][0].any()
    _, pullback = tg.vjp(f, x, y)
    np.testing.assert_allclose(pullback((np.ones(2), 2.0, 0.0))[1], np.sin(x) + 2 * np.cos(y), rtol=1e-14)
    _, push = tg.linearize(f, x, y)
    np.testing.assert_allclose(push(x, y)[0], np.cos(x) * x * y + np.sin(x) * y, rtol=1e-14)
    with pytest.raises(tg.errors.ModifiedInPlaceError):
        tg.vjp(lambda x: _changed(x, sine), x)


def _changed(x, function):
    with tg.no_grad():
        x[0] = 1.0
    return function(x)


INACTIVE = {
    "sum of another": lambda np: lambda x, c: x * np.sum(c) + np.sum(c) * np.max(c),
    "scalars of another": lambda np: lambda x, c: np.stack([x[0] * np.sum(c), c[0] * c[1], x[1] * c[2] + np.max(c)]),
    "function of another": lambda np: lambda x, c: np.floor(np.sum(c)) * x[0] * np.sin(c[1]) + np.cumsum(c) @ c * x,
    "parts of both": lambda np: lambda x, c: (x[1] * c[1] * np.sum(x) * np.sum(c), np.sum(c), x[0], c),
}


@pytest.mark.parametrize("mode", ["forward", "reverse"])
@pytest.mark.parametrize("name", INACTIVE)
@pytest.mark.parametrize("wrap", [lambda made: made, tg.jit], ids=["plainly", "jit"])
def test_what_is_not_differentiated_stays_apart_at_every_call(name, mode, wrap):
    one = wrap(tg.jacobian(INACTIVE[name](np), 0, mode=mode))
    both = wrap(tg.jacobian(INACTIVE[name](np), (1, 0), mode=mode))
    expected = jax.jit(jax.jacrev(INACTIVE[name](jax.numpy), (0, 1)))
    for seed in range(5):
        x, c = generator(seed).uniform(0.1, 0.9, 3), generator(seed + 50).uniform(0.1, 0.9, 3)
        leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(expected(x, c))]
        for mine, other in zip(jax.tree.leaves(one(x, c)), leaves[::2], strict=True):
            np.testing.assert_allclose(mine, other, rtol=1e-12, atol=1e-13)
        found = jax.tree.leaves(both(x, c))
        for mine, other in zip(found[1::2] + found[::2], leaves[::2] + leaves[1::2], strict=True):
            np.testing.assert_allclose(mine, other, rtol=1e-12, atol=1e-13)
    assert bool(one.stats().replays) == bool(both.stats().replays) == (wrap is tg.jit)


@pytest.mark.parametrize("wrap", [lambda made: made, tg.jit], ids=["plainly", "jit"])
def test_threads_share_one_jacobian(wrap):
    from concurrent.futures import ThreadPoolExecutor

    jacobian = wrap(tg.jacobian(lambda x: np.tanh(np.outer(x, x) @ x) + x[0]))
    points = [generator(k).uniform(0.1, 0.9, 6) for k in range(64)]
    jacobian(points[0])
    alone = [jacobian(x) for x in points]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(jacobian, points))
    for a, b in zip(alone, together):
        np.testing.assert_array_equal(a, b)


def test_what_is_no_number_goes_past_a_kernel():
    f = lambda x: (np.sum(x * x), {"name": "text", "none": None, "count": 3})  # noqa: E731
    g = tg.jit(tg.value_and_grad(f, has_aux=True), kernel="always")
    for _ in range(4):
        (value, aux), gradient = g(np.ones(2))
        assert value == 2.0 and aux == {"name": "text", "none": None, "count": 3}
        np.testing.assert_array_equal(gradient, [2.0, 2.0])
    assert g.stats().kernel_calls


def test_an_integer_of_numpy_is_refused_with_the_way_out():
    with pytest.raises(DtypeError, match=r"float\("):
        tg.grad(lambda x: x * x)(np.int64(3))
