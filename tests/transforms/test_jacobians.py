"""`vjp`, `jacrev`, `jacobian`: shapes, containers, refusals, and values beside differences, closed forms and JAX."""

import numpy as np
import pytest

import tapegrad as tg
from tests.every import every
from tests.rules.checker import generator

MODES = pytest.mark.parametrize("mode", ["forward", "reverse", "auto"])


@MODES
@every("given", [(), (3,), (2, 3), (0,), (1, 1)])
@every("made", [(), (4,), (2, 2)])
def test_shape_is_that_of_the_result_and_then_of_the_argument(mode, given, made):
    x = generator().uniform(0.5, 1.0, given)
    weights = generator(1).standard_normal((*made, *given))
    axes = tuple(range(len(made), len(made) + len(given)))

    def f(x):
        return np.sum(weights * x * x, axis=axes)

    found = tg.jacobian(f, mode=mode)(x if given else float(x))
    assert found.shape == (*made, *given) and found.dtype == np.float64
    np.testing.assert_allclose(found, 2.0 * weights * x, rtol=1e-14)


@MODES
def test_scalars_give_a_number_without_axes(mode):
    found = tg.jacobian(lambda x: x * x, mode=mode)(3.0)
    assert isinstance(found, float) and found == 6.0
    assert tg.jacobian(lambda x: x * x, mode=mode)(3) == 6.0


@MODES
def test_containers_and_several_arguments(mode):
    def f(x, y, power):
        return {"a": x * y**power, "b": [np.sum(x), (y, 7.0)], "c": np.ones(2)}

    x = np.array([1.0, 2.0])
    found = tg.jacobian(f, argnums=(1, 0), mode=mode)(x, 3.0, 2)
    to_y, to_x = found["a"]
    np.testing.assert_array_equal(to_y, 6.0 * x)
    np.testing.assert_array_equal(to_x, 9.0 * np.eye(2))
    np.testing.assert_array_equal(found["b"][0][1], np.ones(2))
    assert isinstance(found["b"][1], tuple) and found["b"][1][0][0] == 1.0
    assert found["b"][1][1][0] == 0.0 and not found["c"][1].any() and found["c"][1].shape == (2, 2)
    (only,) = tg.jacobian(lambda x, y: x * y, argnums=(-1,), mode=mode)(x, 3.0)
    np.testing.assert_array_equal(only, x)


@MODES
def test_identity_and_results_returned_twice(mode):
    x = np.array([1.0, 2.0, 3.0])

    def f(x):
        y = x * 2.0
        return x, y, y, np.sum(y)

    a, b, c, d = tg.jacobian(f, mode=mode)(x)
    np.testing.assert_array_equal(a, np.eye(3))
    np.testing.assert_array_equal(b, 2 * np.eye(3))
    np.testing.assert_array_equal(c, b)
    np.testing.assert_array_equal(d, np.full(3, 2.0))


@MODES
def test_float32_is_kept(mode):
    x = np.array([1.0, 2.0], "f")
    found = tg.jacobian(lambda x: np.sin(x) * x, mode=mode)(x)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, np.diag(np.cos(x) * x + np.sin(x)), rtol=1e-6)
    assert tg.jacobian(lambda x, y: x * y, (0, 1), mode=mode)(x, np.ones(2))[0].dtype == np.float64


@MODES
def test_does_not_touch_the_tape_or_gradients_of_the_user(mode):
    w = tg.tensor([1.0, 2.0], requires_grad=True)
    with tg.Tape() as tape:
        y = w * 3.0
        before = len(tape)
        constant = w.detach()
        found = tg.jacobian(lambda x: x * constant, mode=mode)(np.ones(2))
        assert len(tape) == before
        with tg.no_grad():
            np.testing.assert_array_equal(tg.jacobian(lambda x: x * w, mode=mode)(np.ones(2)), found)
        assert len(tape) == before
    np.testing.assert_array_equal(found, np.diag([1.0, 2.0]))
    assert w.grad is None
    y.sum().backward()
    np.testing.assert_array_equal(w.grad.numpy(), [3.0, 3.0])


def test_no_grad_cuts_in_every_mode():
    def cut(x):
        with tg.no_grad():
            weight = np.exp(x)
        return weight * x

    @tg.no_grad
    def slope(x):
        return tg.grad(lambda x: x**3)(x)

    x, cubic = np.array([0.3, 0.5]), lambda x: slope(x) * x
    for transformation in (tg.jacobian, tg.jacrev, tg.jacfwd):
        for one in (transformation(cut), tg.jit(transformation(cut))):
            for _ in range(3):
                np.testing.assert_array_equal(one(x), np.diag(np.exp(x)))
        np.testing.assert_array_equal(transformation(lambda x, y: cut(x) * y, (0, 1))(x, x)[0], np.diag(np.exp(x) * x))
        assert not transformation(transformation(cut))(x).any()
    assert tg.jvp(cubic, (2.0,), (1.0,)) == (24.0, 12.0)
    assert tg.derivative(cubic)(2.0) == tg.grad(cubic)(2.0) == tg.jit(tg.derivative(cubic))(2.0) == 12.0
    with tg.no_grad():
        assert tg.derivative(cubic)(2.0) == 12.0


def test_an_array_is_as_it_was_where_no_grad_has_a_function_run_twice():
    def counted(x, count):
        count += 1
        with tg.no_grad():
            return np.exp(x) * count[0]

    count = np.zeros(1)
    assert not tg.jacfwd(counted)(np.ones(3), count).any()
    assert count[0] == 1
    assert tg.derivative(lambda x, count: x * counted(x, count))(0.0, count) == 2.0
    assert count[0] == 2


def test_is_computed_under_no_grad_too():
    with tg.no_grad():
        assert tg.jacrev(lambda x: x * x)(3.0) == 6.0
        assert not tg.is_grad_enabled()


def test_array_of_the_caller_is_not_changed():
    x = np.array([1.0, 2.0])

    def f(x):
        y = x * x
        y[0] = x[1]
        return y

    np.testing.assert_array_equal(tg.jacobian(f, mode="forward")(x), [[0.0, 1.0], [0.0, 4.0]])
    np.testing.assert_array_equal(tg.jacobian(f, mode="reverse")(x), [[0.0, 1.0], [0.0, 4.0]])
    np.testing.assert_array_equal(x, [1.0, 2.0])


def test_refusals():
    with pytest.raises(tg.errors.DtypeError):
        tg.jacobian(np.sin)(np.array([1, 2]))
    with pytest.raises(ValueError, match="mode"):
        tg.jacobian(np.sin, mode="sideways")
    with pytest.raises(ValueError, match="argnums"):
        tg.jacobian(np.sin, argnums=1)(np.ones(2))


def test_vjp_pulls_back_any_number_of_times():
    def f(x, y):
        return np.outer(x, y), np.sum(x) * y[0]

    x, y = np.array([1.0, 2.0]), np.array([3.0, 4.0, 5.0])
    value, pullback = tg.vjp(f, x, y)
    np.testing.assert_array_equal(value[0], np.outer(x, y))
    assert value[1] == 9.0 and isinstance(value[1], float)
    seed = generator().standard_normal((2, 3))
    for scale in (1.0, 2.0):
        to_x, to_y = pullback((scale * seed, 0.5))
        np.testing.assert_allclose(to_x, scale * seed @ y + 0.5 * 3.0, rtol=1e-14)
        np.testing.assert_allclose(to_y, scale * x @ seed + np.array([1.5, 0.0, 0.0]), rtol=1e-14)
    with pytest.raises(tg.errors.SeedShapeError):
        pullback((seed.T, 0.5))
    with pytest.raises(tg.errors.SeedShapeError):
        pullback(seed[0])


def test_vjp_of_a_constant_is_zero():
    value, pullback = tg.vjp(lambda x: 3.0, np.ones(2))
    assert value == 3.0
    np.testing.assert_array_equal(pullback(1.0)[0], np.zeros(2))


def test_explains_its_choice(capsys):
    tg.jacobian(lambda x: np.sum(x * x), explain=True)(np.ones(300))
    first = capsys.readouterr().out
    assert first.startswith("reverse mode is expected to be cheaper") and "300 inputs" in first
    tg.jacobian(lambda x: np.sum(x * x), explain=True)(np.ones(300))
    assert capsys.readouterr().out == first
    tg.jacobian(lambda x: x * np.ones(300), explain=True)(1.0)
    assert capsys.readouterr().out.startswith("forward mode is expected to be cheaper")


FUNCTIONS = {
    "banded": lambda np: lambda x: x[1:-1] * x[2:] - np.sin(x[:-2]),
    "matrix": lambda np: lambda x: np.tanh(np.outer(x, x) @ x),
    "norms": lambda np: lambda x: np.stack([np.sum(x * x), np.max(x), np.prod(x), np.mean(np.exp(x))]),
    "where": lambda np: lambda x: np.where(x > 0.5, np.log(x), x * x),
    "cumulative": lambda np: lambda x: np.cumsum(x) / (1.0 + x),
    "solve": lambda np: lambda x: np.linalg.solve(np.outer(x, x) + 3.0 * np.eye(12), x),
    "softmax": lambda np: lambda x: np.exp(x) / np.sum(np.exp(x)),
    "reshaped": lambda np: lambda x: np.reshape(x, (3, 4)).T @ np.reshape(x, (3, 4)),
    "bottleneck": lambda np: lambda x: np.sin(np.sum(x) * np.arange(1.0, 9.0)),
    "gathered": lambda np: lambda x: x[np.array([0, 3, 3, 1])] * np.concatenate([x[:2], x[:2]]),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_agrees_with_jax(name):
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    x = generator(4).uniform(0.1, 0.9, 12)
    expected = np.asarray(jax.jit(jax.jacrev(FUNCTIONS[name](jax.numpy)))(x))
    for mode in ("forward", "reverse", "auto"):
        found = tg.jacobian(FUNCTIONS[name](np), mode=mode)(x)
        np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-12)


def test_a_recorded_jacobian_of_few_inputs_comes_by_columns():
    t = np.linspace(0.0, 1.0, 40)

    def residuals(p):
        return p[0] * np.exp(-p[1] * t)

    def tall(p, by):
        return np.sum(by(residuals)(p) ** 2)

    p = np.array([1.2, 0.7])
    rows, auto = (str(tg.jit(tg.grad(lambda p, by=by: tall(p, by))).tape(p)) for by in (tg.jacrev, tg.jacobian))
    assert "40x40" in rows and "40x40" not in auto
    gradients = [tg.grad(lambda p, by=by: tall(p, by))(p) for by in (tg.jacobian, tg.jacrev, tg.jacfwd)]
    for gradient in gradients[1:]:
        np.testing.assert_allclose(gradients[0], gradient, rtol=1e-13)


def test_jacfwd_takes_the_containers_that_jacrev_takes():
    given = {"a": np.array([1.0, 2.0]), "b": (3.0, [np.ones((2, 2))])}

    def f(p, q=None):
        return {"u": p["a"] * p["b"][0] * (q or {"c": 1.0})["c"], "v": (np.sum(p["b"][1][0]) ** 2 * np.sum(p["a"]),)}

    def same(one, other):
        assert tg.tree.map(np.shape, one) == tg.tree.map(np.shape, other)
        tg.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12), one, other)

    expected = tg.jacrev(tg.jacrev(f))(given)
    for first, second in [(tg.jacfwd, tg.jacfwd), (tg.jacfwd, tg.jacrev), (tg.jacrev, tg.jacfwd)]:
        same(first(second(f))(given), expected)
    for wrapped in (lambda g: g, tg.jit, lambda g: lambda *args: tg.jvp(g, args, args)[1], lambda g: lambda *args: tg.vmap(lambda k: g(*args))(np.arange(2.0))):
        for argnums in (0, (0, 1), (1,), "q"):
            same(wrapped(tg.jacfwd(f, argnums))(given, {"c": 2.0}), wrapped(tg.jacrev(f, argnums))(given, {"c": 2.0}))


@every("wrapped", [lambda g: g, tg.jit, lambda g: lambda *args: tg.jvp(g, args, args)[1]])
@every("argnums", [0, (0,), (1, 0)])
def test_jacfwd_of_arrays_answers_as_jacrev_does(wrapped, argnums):
    """... in the containers of the results, and of complex numbers."""
    x, y = np.array([1.0, 2.0]), np.array([0.5, 1.5, 3.0])
    for f, args in (
        (lambda x, y: (x * 2.0, {"a": np.outer(x, y), "b": [np.sum(y * y)]}), (x, y)),
        (lambda x, y: (x * (2.0 + 1j), np.sum(y)), (x, y)),
        (lambda x, y: (np.abs(x), np.sum(y * y)), (x + 1j, y)),
    ):
        one, other = (wrapped(transformation(f, argnums))(*args) for transformation in (tg.jacfwd, tg.jacrev))
        assert tg.tree.map(np.shape, one) == tg.tree.map(np.shape, other)
        np.testing.assert_allclose(*[np.concatenate([np.ravel(leaf) for leaf in tg.tree.leaves(found)]) for found in (one, other)], rtol=1e-12)
