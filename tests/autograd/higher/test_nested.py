"""Functional derivatives inside of others: every nesting is right, replays, and confuses nothing."""

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.common.errors import DtypeError, NonScalarOutputError, SeedShapeError, StructureError
from tapegrad.tape.store import thread_state
from tests.every import every
from tests.rules.checker import leaf, plain
from tests.transforms.replay.agreement import Log

X = np.array([0.5, 1.5])
#: A constant inside of the closures, at which the derivative inside is taken.
Z = np.array([0.7, -1.1])
D, F = tg.grad, tg.derivative


def cube(x):
    return np.sum(x**3)


#: Functions of an array with a derivative inside, that give an array or a number.
INSIDE = {
    "grad": lambda x: tg.grad(cube)(x),
    "value_and_grad": lambda x: tg.value_and_grad(cube)(x)[0] * tg.value_and_grad(cube)(x)[1],
    "elementwise_grad": lambda x: tg.elementwise_grad(np.sin)(x),
    "jacobian": lambda x: tg.jacobian(lambda x: np.sin(x) * x[0])(x),
    "jacrev": lambda x: tg.jacrev(lambda x: np.sin(x) * x[0])(x),
    "jacfwd": lambda x: tg.jacfwd(lambda x: np.sin(x) * x[0])(x),
    "vjp": lambda x: tg.vjp(np.sin, x)[1](Z)[0] * tg.vjp(np.sin, x)[0],
    "vjp, in its cotangent": lambda x: tg.vjp(np.sin, Z)[1](x)[0],
    "linearize": lambda x: tg.linearize(np.sin, x)[1](Z) + tg.linearize(np.sin, Z)[1](x),
    "jvp": lambda x: tg.jvp(np.sin, (x,), (Z,))[1],
    "hvp": lambda x: tg.hvp(lambda x: np.sum(x**4))(x, Z) + tg.hvp(lambda x: np.sum(x**4))(Z, x),
    "several hvp": lambda x: tg.hvp(lambda x: np.sum(x) ** 4)(x, np.eye(2)),
    "hessian": lambda x: tg.hessian(lambda x: np.sum(x) ** 4 + x[0] ** 3)(x),
    "hessian_diag": lambda x: tg.hessian_diag(lambda x: np.sum(x) ** 4 + x[0] ** 3)(x),
    "laplacian": lambda x: tg.laplacian(lambda x: np.sum(x) ** 4 + x[0] ** 3)(x),
    "closure": lambda x: tg.grad(lambda z: np.sum(z * x * x) ** 2)(Z),
    "closure, beside": lambda x: x * tg.grad(lambda z: np.sum(z * x))(x),
    "closure, as an argument that is not differentiated": lambda x: tg.grad(lambda z, w: np.sum(z * w) ** 2)(Z, x),
    "closure, alone": lambda x: tg.grad(lambda z: x[0] * 1.0)(2.0) + x,
    "closure, compared": lambda x: x * tg.grad(lambda z: np.where(z < x[1], z, 2.0 * z))(1.2),
    "closure, jacobian": lambda x: tg.jacobian(lambda z: z * x**2)(Z),
    "closure, vjp": lambda x: tg.vjp(lambda z: z * x**2, Z)[1](Z)[0],
    "closure, hvp": lambda x: tg.hvp(lambda z: np.sum(z**3 * x**2))(Z, Z),
    "constant inside": lambda x: x**2 * tg.grad(lambda z: z**3)(2.0),
    "three deep": lambda x: tg.grad(lambda x: np.sum(tg.grad(lambda x: np.sum(np.exp(x) * x[0]))(x) ** 2))(x),
}
NAMES = list(INSIDE)


def differenced(f, x, h=1e-6):
    columns = []
    for k in range(x.size):
        d = np.zeros_like(x)
        d[k] = h
        columns.append((np.asarray(plain_of(f(x + d))) - np.asarray(plain_of(f(x - d)))) / (2 * h))
    return np.stack(columns, -1)


def plain_of(thing):
    return plain(thing) if isinstance(thing, tg.Differentiable) else thing


OUTSIDE = {
    "reverse": lambda f: tg.jacobian(f, mode="reverse"),
    "forward sweep": lambda f: tg.jacobian(f, mode="forward"),
    "dual numbers": lambda f: lambda x: np.stack([tg.jvp(f, (x,), (d,))[1] for d in np.eye(x.size)], -1),
    "lanes": tg.jacfwd,
    "vjp": lambda f: lambda x: np.reshape(
        np.stack([tg.vjp(f, x)[1](u)[0] for u in units(np.shape(f(x)))]), (*np.shape(f(x)), x.size)
    ),
}


def units(shape):
    size = int(np.prod(shape))
    return [u.reshape(shape) if shape else float(u[0]) for u in np.eye(size)]


def plainly(made):
    return made


@pytest.mark.parametrize("name", NAMES)
def test_nested(name):
    f = INSIDE[name]
    at = [(x, differenced(f, x)) for x in (X, X + 0.25, X + 0.5, X - 0.125)]

    @every("outer", OUTSIDE)
    @every("wrap", [plainly, tg.jit])
    def agrees(outer, wrap):
        g = wrap(OUTSIDE[outer](f))
        for x, expected in at:
            np.testing.assert_allclose(g(x), expected, rtol=2e-7, atol=2e-8)
        if hasattr(g, "stats"):
            assert (g.stats().replays >= 1) == (wrap is tg.jit) and not g.stats().fallback

    agrees()


def test_linear_functions_of_dual_numbers_are_recorded():
    """What is pushed and pulled behind the evaluation reads values that the recording has to keep."""

    def pushed(x):
        _, push = tg.linearize(lambda x: np.sin(x) * x[0], x)
        return push(np.ones_like(x)) + push(x)

    def pulled(x):
        _, pull = tg.vjp(lambda x: np.sin(x) * x[0], x)
        return pull(np.ones(2))[0] + pull(x * 1.0)[0]

    for f in (pushed, pulled):
        first = tg.jacfwd(f)
        np.testing.assert_allclose(first(X), differenced(f, X), rtol=1e-8)
        expected = differenced(first, X)
        for second in (tg.jacfwd(first), tg.jacobian(first)):
            recorded = tg.jit(second)
            for found in (second(X), recorded(X), recorded(X)):
                np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-8)
            assert recorded.stats().tapes == 1 and not recorded.stats().fallback


@pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith("closure") or "beside" in name])
def test_inside_of_define_by_run(name):
    """Called with a tensor on the user's tape, the result is a tensor there."""
    f = INSIDE[name]
    x = leaf(X)
    y = f(x)
    weights = np.arange(1.0, 1.0 + np.size(plain(y))).reshape(np.shape(y))
    (g,) = tg.autograd.grad(np.sum(y * weights), x)
    expected = np.tensordot(weights, differenced(f, X), np.ndim(weights)) if np.ndim(weights) else differenced(f, X)
    np.testing.assert_allclose(plain(g), expected, rtol=2e-7, atol=1e-7)


CONFUSION = {
    "D(x -> x * D(y -> x + y, 1), 1)": (lambda o, i: o(lambda x: x * i(lambda y: x + y)(1.0))(1.0), 1.0),
    "D(x -> x * D(y -> x * y, x), 3)": (lambda o, i: o(lambda x: x * i(lambda y: x * y)(x))(3.0), 6.0),
    "D(x -> D(y -> x * y * y, x), 3)": (lambda o, i: o(lambda x: i(lambda y: x * y * y)(x))(3.0), 12.0),
    "D(x -> x * D(y -> x, x), 3)": (lambda o, i: o(lambda x: x * i(lambda y: x * 1.0)(x))(3.0), 0.0),
    "D(x -> D(y -> D(z -> x * y * z * z, y), x), 2)": (
        lambda o, i: o(lambda x: i(lambda y: o(lambda z: x * y * z * z)(y))(x))(2.0), 16.0
    ),
    "a constant of the outer one": (lambda o, i: o(lambda x: i(lambda y: y * y)(1.0) * x)(5.0), 2.0),
}


@pytest.mark.parametrize("inner", [D, F], ids=["reverse", "forward"])
@pytest.mark.parametrize("outer", [D, F], ids=["reverse", "forward"])
@pytest.mark.parametrize("name", CONFUSION)
def test_perturbations_are_not_confused(name, outer, inner):
    program, expected = CONFUSION[name]
    assert program(outer, inner) == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize("inner", [D, F], ids=["reverse", "forward"])
@pytest.mark.parametrize("outer", [D, F], ids=["reverse", "forward"])
def test_loop_of_unknown_length(outer, inner):
    """Newton's iteration for ``y ** 3 = x``, with its slope by a derivative inside."""

    def root(x):
        y = 1.0 + 0.0 * x
        while abs(y**3 - x) > 1e-13:
            y = y - (y**3 - x) / inner(lambda y: y**3 - x)(y)
        return y

    slope = outer(root)
    for x in (2.0, 2.5, 8.0, 2.0, 30.0, 2.5, 8.0):
        assert slope(x) == pytest.approx(x ** (-2.0 / 3.0) / 3.0, rel=1e-9)


@pytest.mark.parametrize("outer", [D, F], ids=["reverse", "forward"])
def test_inside_of_another_optimisation(outer):
    """The minimum of ``p y**4 / 4 + y**2 / 2 - y`` by Newton's method on `tg.grad` and `tg.hessian`, differentiated in p."""

    def energy(y, p):
        return p * y**4 / 4.0 + y**2 / 2.0 - y

    def minimiser(p):
        y = 0.5 * p / p
        g = tg.grad(energy)(y, p)
        while abs(g) > 1e-13:
            y = y - g / tg.hessian(energy)(y, p)
            g = tg.grad(energy)(y, p)
        return y

    g = outer(minimiser)
    for p in (1.0, 2.0, 1.5, 5.0, 2.0):
        y = minimiser(p)
        assert g(p) == pytest.approx(-(y**3) / (3.0 * p * y**2 + 1.0), rel=1e-8)


def test_guards_inside_hold_outside():
    """A branch inside is checked by the replay outside, whichever number decides it."""
    calls = Log()

    def f(x, y):
        calls.append(1)
        return x * y**2 if y > 1.0 else x * x * y

    g = tg.jit(tg.grad(lambda x: tg.grad(f, 1)(x, x)))
    expected = lambda x: 4.0 * x if x > 1.0 else 2.0 * x  # noqa: E731
    for x in (2.0, 0.5, 3.0, 0.25, 4.0, 0.75):
        assert g(x) == expected(x)
    before = len(calls)
    assert [g(x) for x in (5.0, 0.125, 6.0)] == [20.0, 0.25, 24.0]
    assert len(calls) <= before + 1
    assert g.stats().tapes == 2


def test_repeated_calls_are_replays():
    """No Python of the function runs, whatever the nesting."""
    calls = Log()

    def f(x):
        calls.append(1)
        return np.sum(np.exp(x) * x[::-1])

    twice = tg.grad(lambda x: np.sum(tg.grad(f)(x) ** 2))
    for g, args in ((twice, ()), (tg.hessian(f), ()), (tg.hvp(f), (Z,)), (tg.hessian_diag(f), ()), (tg.laplacian(f), ())):
        g = tg.jit(g)
        g(X, *args)
        before = len(calls)
        for k in range(7):
            g(X - k, *args)
        assert len(calls) == before and g.stats().replays == 7


def test_scalar_functions_to_any_order():
    f, g = np.sin, np.sin
    for k, expected in enumerate((np.cos, lambda x: -np.sin(x), lambda x: -np.cos(x), np.sin)):
        f = tg.grad(f)
        g = tg.derivative(g) if k % 2 else tg.grad(g)
        for x in (0.3, 1.1, -2.0, 0.5):
            assert f(x) == pytest.approx(expected(x), rel=1e-13)
            assert g(x) == pytest.approx(expected(x), rel=1e-13)


def test_containers_and_auxiliary_results_inside():
    def f(p):
        return p["a"] ** 2 * (np.sum(p["b"][0]) + np.sum(p["b"][1])), {"twice": 2.0 * p["a"]}

    def outer(x):
        gradient, aux = tg.grad(f, has_aux=True)({"a": x, "b": [x * X, 1.0 * X]})
        return gradient["a"] + np.sum(gradient["b"][0]) + aux["twice"] * x

    g = tg.grad(outer)
    for x in (1.0, 2.0, 0.5, 3.0):
        # 2 x (x s + s) + 2 x**2 + 2 x**2 with s the sum of X
        assert g(x) == pytest.approx(2.0 * (2.0 * x + 1.0) * np.sum(X) + 8.0 * x, rel=1e-13)


def test_results_that_depend_on_nothing_outside_are_numbers():
    kinds = []

    def outer(x):
        inside = tg.grad(lambda z: z**3)(2.0)
        kinds.append(type(inside))
        return x * inside

    assert tg.grad(outer)(3.0) == 12.0 and set(kinds) == {float}
    assert tg.derivative(outer)(3.0) == 12.0 and set(kinds) == {float}


def test_no_grad_around_the_inner_one():
    x = leaf(2.0)
    with tg.no_grad():
        g = tg.grad(lambda z: z**3)(x)
    assert not isinstance(g, tg.Tensor) or not g.requires_grad
    assert float(np.asarray(getattr(g, "_v", g))) == 12.0

    def f(x):
        with tg.no_grad():
            slope = tg.grad(lambda z: z**3)(x)
        return slope * x

    assert [tg.grad(f)(x) for x in (1.0, 2.0)] == [3.0, 12.0]


def test_conversions_inside_raise():
    import math

    with pytest.raises(tg.errors.LeaveTapeError):
        tg.grad(lambda x: tg.grad(lambda y: x * math.sin(y))(2.0))(1.0)
    with pytest.raises(tg.errors.LeaveTapeError):
        tg.grad(lambda x: tg.grad(lambda y: x * math.sin(y))(tg.stop_gradient(x)))(1.0)


def test_refusals_inside():
    with pytest.raises(NonScalarOutputError):
        tg.grad(lambda x: np.sum(tg.grad(lambda y: y * x)(x)))(X)
    with pytest.raises(StructureError):
        tg.grad(lambda x: tg.grad(lambda y: None)(x))(1.0)
    with pytest.raises(DtypeError):
        tg.grad(lambda x: np.sum(tg.grad(lambda y: np.sum(y * x))(np.arange(2))))(X)
    with pytest.raises(StructureError, match="argnums"):
        tg.grad(lambda x: tg.grad(lambda y: y, 1)(x))(1.0)
    with pytest.raises(SeedShapeError):
        tg.grad(lambda x: np.sum(tg.vjp(np.sin, x)[1](1.0)[0]))(X)


def test_autograd_grad_inside_of_a_recorded_function():
    """The function is recorded a second time, with what the inner pass reads, and replayed after."""
    calls = Log()

    def penalty(x):
        calls.append(1)
        y = np.sum(np.tanh(x) ** 2)
        (g,) = tg.autograd.grad(y, x, create_graph=True)
        return y + np.sum(g * g)

    def by_nesting(x):
        value, g = tg.value_and_grad(lambda x: np.sum(np.tanh(x) ** 2))(x)
        return value + np.sum(g * g)

    g, expected = tg.jit(tg.grad(penalty)), tg.grad(by_nesting)
    for k in range(8):
        np.testing.assert_allclose(g(X + k / 4), expected(X + k / 4), rtol=1e-12)
    before = len(calls)
    g(X), g(X - 1.0)
    assert len(calls) == before and not g.stats().fallback and g.stats().replays >= 5


def test_backward_inside_of_a_recorded_function_is_run_define_by_run():
    def f(x):
        y = tg.tensor(2.0, requires_grad=True)
        (y * y).backward()
        return x * y.grad.item()

    g = tg.grad(f)
    assert [g(x) for x in (1.0, 2.0, 3.0)] == [4.0, 4.0, 4.0]


def test_decisions_of_rules_are_made_again_in_a_replay():
    """Which side of a kink a point is on is no constant of the tape: no guard, and right at other points."""
    g = tg.jit(tg.grad(tg.derivative(lambda x: np.maximum(x, 0.0) * x * x)))
    weights, ones = np.array([1.0, 2.0, 4.0]), (np.ones(3),)
    ordered = lambda y: np.sum(np.sort(np.abs(y)) * weights * y)  # noqa: E731
    h = tg.jit(tg.grad(lambda x: tg.jvp(ordered, (x,), ones)[1]))
    points = [np.array(p) for p in ([1.0, -2.0, 3.0], [-3.0, 2.5, 1.0], [2.0, 1.0, -4.0], [-1.0, -5.0, 2.0])]
    for x, p in zip((2.0, -2.0, 3.0, -1.0), points):
        assert g(x) == (6.0 * x if x > 0.0 else 0.0)
        fresh = tg.grad(lambda x: tg.jvp(ordered, (x,), ones)[1])
        np.testing.assert_allclose(h(p), fresh(p), rtol=1e-13)
    assert not g.stats().fallback and not h.stats().fallback
    assert g.stats().replays >= 1 and h.stats().replays >= 1


def test_what_python_learns_from_dual_numbers_is_guarded_outside():
    """``bool``, ``item`` and ``detach`` of a dual number inside of a recorded function."""
    truth = tg.grad(tg.derivative(lambda x: x * x * x if (x - 1.0) else x * x))
    for x in (2.0, -2.0, 1.0, 2.0, 1.0, 3.0, 1.0):
        assert truth(x) == (2.0 if x == 1.0 else 6.0 * x)

    def largest(y):
        return y[int(np.argmax(y.detach()))] ** 3

    chosen = tg.grad(lambda x: tg.jvp(largest, (x,), (np.ones(2),))[1])
    for x in ([1.0, 2.0], [3.0, 1.0], [3.0, 1.0], [1.0, 2.0], [4.0, 1.0]):
        np.testing.assert_array_equal(chosen(np.array(x)), np.where(np.array(x) == max(x), 6.0 * max(x), 0.0))
    scaled = tg.grad(tg.derivative(lambda x: x * x * x * x.item()))
    for x in (2.0, -2.0, 3.0, 2.0):
        assert scaled(x) == 6.0 * x * x
    # The derivative inside is 2 x d with d = x held fixed, also outside.
    detached = tg.grad(tg.derivative(lambda x: x * x * x.detach()))
    for x in (2.0, -2.0, 3.0, 2.0):
        assert detached(x) == 2.0 * x


def test_positions_that_depend_on_the_point_move_constant_adjoints():
    """The gradient of a sorted sum is constant but for its order, which a replay at another point finds anew."""
    weights, others = np.array([1.0, 2.0, 4.0]), np.array([8.0, 16.0, 32.0])
    inside = {
        "sort": (lambda y: np.sum(np.sort(y) * weights), lambda p: weights[np.argsort(np.argsort(p))]),
        "median": (lambda y: 2.0 * np.median(y), lambda p: np.where(p == np.median(p), 2.0, 0.0)),
        "both ways": (
            lambda y: np.sum(y[np.argsort(y)] * weights) + np.sum(y[np.argsort(-y)] * others),
            lambda p: weights[np.argsort(np.argsort(p))] + others[np.argsort(np.argsort(-p))],
        ),
    }
    for name, (f, gradient) in inside.items():
        g = tg.jit(tg.grad(lambda x: np.sum(tg.grad(f)(x) * x**2)))  # noqa: B023
        for p in ([1.0, 2.0, 3.0], [3.0, 2.0, 1.0], [2.0, 3.0, 1.0], [3.0, 1.0, 2.0], [1.0, 3.0, 2.0]):
            p = np.array(p)
            np.testing.assert_array_equal(g(p), 2.0 * p * gradient(p), err_msg=name)
        assert g.stats().replays >= 1 or name == "both ways", name
    products = tg.hessian(lambda x: np.median(x) * np.sum(np.quantile(x, [0.25, 0.75])) + np.percentile(x, 40.0))
    for p in ([1.0, 5.0, 2.0, 4.0, 3.0], [5.0, 4.0, 3.0, 2.0, 1.0], [2.0, 1.0, 3.0, 5.0, 4.0]):
        order = np.argsort(p)
        wanted = np.zeros((5, 5))
        wanted[order[2], order[[1, 3]]] = wanted[order[[1, 3]], order[2]] = 1.0
        np.testing.assert_allclose(products(np.array(p)), wanted, atol=1e-15)


def test_a_variable_that_is_given_back_moves_as_it_was_told_to():
    assert tg.grad(lambda w: tg.linearize(lambda x: x, 2.0)[1](3.0) * w)(5.0) == 3.0
    assert tg.grad(lambda w: tg.linearize(lambda x: {"same": x, "product": x * w}, 2.0)[1](3.0)["same"] * w)(5.0) == 3.0


@pytest.mark.parametrize("of", ["numbers", "arrays"])
def test_one_call_after_another_fills_no_memory(of):
    """What a walk has recorded is forgotten before the next one begins, also where nothing else is recorded in between."""

    def f(x):
        total = np.sum(np.sin(x) * x)
        for k in range(200 if of == "numbers" else 0):
            total = total * 0.9 + np.sin(x[0] * k)
        return total

    x = X if of == "numbers" else np.linspace(0.0, 1.0, 20_000)
    # (A call records some thousand numbers, or a megabyte: a few that stay are too many.)
    for _ in range(40 if of == "numbers" else 150):
        tg.jvp(tg.grad(f), (x,), (x,))
        tg.derivative(lambda t: np.sum(tg.grad(f)(t * x)))(1.0)
        store = thread_state().store
        assert store.capacity < 50_000 and store.nbytes < 100_000_000


def test_passes_around_a_gradient_that_uses_what_they_vary():
    """Dual numbers of two passes, captured and as arguments, and of the user's own making, in a gradient inside."""
    grad, two = tg.grad, np.array([1.0, 2.0])
    cases = {
        "captured by both": (F(F(lambda t: grad(lambda y: y * t * y)(t)))(1.5), 4.0),
        "a keyword": (F(F(lambda t: grad(lambda y, b: y * b**3)(2.0 * t, b=t)))(1.5), 9.0),
        "one in another": (F(lambda t: F(lambda s: grad(lambda y: y * s * y * t)(s))(t))(1.5), 12.0),
        "gradients between": (F(lambda t: grad(lambda s: F(lambda u: grad(lambda y: y**3 * t * s)(u))(t * s))(t))(1.5), 81.0),
        "not an argument": (F(F(lambda t: grad(lambda y: y**3 * t**2)(2.0)))(1.5), 24.0),
        "columns": (tg.jacfwd(lambda x: F(lambda t: grad(lambda y: np.sum(y**3 * t * x))(x))(2.0))(two), np.diag(9.0 * two**2)),
        "part of a container": (F(lambda t: grad(lambda p: p["a"] ** 2 * p["b"] * t)({"a": t, "b": 3.0})["a"])(1.5), 18.0),
        "of hessians": (F(lambda t: tg.hessian(lambda x: np.sum(x**3) * t)(two * t)[1, 1])(1.5), 36.0),
    }
    for name, (found, expected) in cases.items():
        np.testing.assert_allclose(found, expected, rtol=1e-13, err_msg=name)
    value, slope = tg.jvp(lambda x: grad(lambda y: y * y * tg.Dual(x, 1.0))(x), (2.0,), (1.0,))
    assert repr(value) == "Dual(8.0, tangent=4.0)" and repr(slope) == "Dual(8.0, tangent=2.0)"
    assert repr(grad(lambda x: 3.0 * x)(tg.Dual(2.0, 1.0))) == "Dual(3.0, tangent=0.0)"
