"""Rules in JAX's form, beside JAX's own where it is installed."""

import gc
import weakref
from dataclasses import dataclass, field

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.errors import LeaveTapeError, MissingRuleError, RuleError
from tests.every import every


def programs(lib, numpy):
    """Functions with rules by `lib`, JAX or tapegrad."""

    @lib.custom_vjp
    def clip_gradient(x, bound):
        return numpy.sin(x) * bound

    clip_gradient.defvjp(
        lambda x, bound: (numpy.sin(x) * bound, (x, bound)),
        lambda residuals, g: (numpy.clip(g * numpy.cos(residuals[0]), -0.5, 0.5), numpy.sum(g * numpy.sin(residuals[0]))),
    )

    def power(x, n):
        return x**n

    power = lib.custom_vjp(power, nondiff_argnums=(1,))
    power.defvjp(lambda x, n: (x**n, x), lambda n, x, g: (g * n * x ** (n - 1),))

    @lib.custom_jvp
    def log1pexp(x):
        return numpy.log(1.0 + numpy.exp(x))

    @log1pexp.defjvp
    def _(primals, tangents):
        (x,), (t,) = primals, tangents
        return log1pexp(x), (1.0 - 1.0 / (1.0 + numpy.exp(x))) * t

    @lib.custom_jvp
    def product(x, y):
        return numpy.sin(x) * y

    product.defjvps(lambda t, result, x, y: numpy.cos(x) * t * y, lambda t, result, x, y: t * result / y)

    @lib.custom_jvp
    def network(params, x):
        return params["scale"] * numpy.sin(x) + params["rest"][0]

    @network.defjvp
    def _(primals, tangents):
        (p, x), (dp, dx) = primals, tangents
        return network(p, x), dp["scale"] * numpy.sin(x) + dp["rest"][0] + p["scale"] * numpy.cos(x) * dx

    @lib.custom_vjp
    def multiplied(pair):
        return pair[0] * pair[1]

    multiplied.defvjp(lambda pair: (pair[0] * pair[1], pair), lambda pair, g: ((g * pair[1], g * pair[0]),))
    return {
        "dict": lambda x: numpy.sum(network({"scale": x[0], "rest": [x[1]]}, x) ** 2), "pair": lambda x: numpy.sum(multiplied((x, x[::-1])) ** 2),
        "clipped": lambda x: numpy.sum(clip_gradient(x, 3.0) ** 2), "bound": lambda x: numpy.sum(clip_gradient(0.3 * x, x[0])),
        "power": lambda x: numpy.sum(power(x, 3) * x), "log": lambda x: numpy.sum(log1pexp(x) ** 2), "product": lambda x: numpy.sum(product(x, x[::-1] + 2.0)),
    }  # fmt: skip


X, V = np.array([0.3, -0.7, 1.2]), np.array([1.0, 0.5, -2.0])
OURS = programs(tg, np)


@every("name", sorted(OURS))
def test_derivatives_are_jaxs(name):
    jax = pytest.importorskip("jax")
    with jax.enable_x64(True) if hasattr(jax, "enable_x64") else jax.experimental.enable_x64():
        theirs = programs(jax, jax.numpy)[name]
        value, slope = jax.value_and_grad(theirs)(X)
        expected = {"value": value, "slope": slope}
        if name in ("log", "product", "dict"):
            expected["tangent"] = jax.jvp(theirs, (X,), (V,))[1]
            expected["hessian"] = jax.hessian(theirs)(X)
        expected = {key: np.asarray(one) for key, one in expected.items()}
    f = OURS[name]
    ways = {"value": f, "slope": tg.grad(f), "tangent": lambda x: tg.jvp(f, (x,), (V,))[1], "hessian": tg.hessian(f)}
    for key, one in expected.items():
        np.testing.assert_allclose(ways[key](X), one, rtol=1e-12, atol=1e-14)


@every("name", sorted(OURS))
def test_all_ways_agree(name):
    f = OURS[name]
    slope = tg.grad(f)(X)
    np.testing.assert_allclose(tg.jit(tg.grad(f))(X), slope, rtol=1e-13)
    np.testing.assert_allclose(tg.vmap(tg.grad(f))(np.stack([X, X])), [slope, slope], rtol=1e-13)
    if name not in ("clipped", "bound"):
        # Their rule clips the adjoint: it is not linear, and has no transpose.
        np.testing.assert_allclose(tg.jacfwd(f)(X), slope, rtol=1e-12)
    # By differences of the gradient, which the rules define.
    step = 1e-6
    np.testing.assert_allclose(tg.jacobian(tg.grad(f))(X) @ V, (tg.grad(f)(X + step * V) - tg.grad(f)(X - step * V)) / (2 * step), rtol=1e-5, atol=1e-6)


def test_containers_of_tensors():
    """A rule gets an argument's container, and returns one; what is known of the primitive is kept for each form once."""
    sums = tg.primitive(lambda pair, x: pair[0] * x + pair[1]["b"] ** 2)
    f = lambda a, b, x: np.sum(sums((a, {"b": b}), x) ** 2)  # noqa: E731
    with pytest.raises(MissingRuleError, match="has no derivative rule"):
        tg.grad(f)(2.0, 3.0, X)
    sums.defvjp(lambda g, result, pair, x: ((np.sum(g * x), {"b": np.sum(2.0 * g * pair[1]["b"])}), g * pair[0]))
    sums.defjvp(lambda t, result, pair, x: t[0][0] * x + 2.0 * pair[1]["b"] * t[0][1]["b"] + pair[0] * t[1])
    assert tg.check(f, 2.0, 3.0, X, order=2, compose=2).passed
    np.testing.assert_allclose(tg.jit(tg.hessian(f))(2.0, 3.0, X), 2.0 * np.sum(X**2), rtol=1e-12)
    np.testing.assert_allclose(tg.vmap(lambda a: f(a, 3.0, X))(V), [f(a, 3.0, X) for a in V], rtol=1e-12)
    a = tg.tensor(2.0, requires_grad=True)
    for _ in range(2):
        assert sums((a, {"b": 3.0}), X).grad_fn is not None
    none = tg.custom_vjp(lambda pair, x: pair[0] * x, lambda g, result, pair, x: (None, g * pair[0]))
    assert tg.grad(lambda a: none((a, 1.0), a))(3.0) == 3.0
    wrong = tg.custom_vjp(lambda pair: pair[0] * pair[1], lambda g, result, pair: ((g,),))
    with pytest.raises(RuleError, match=r"for argument 0, \(\*\); return a container like it, \(\*, \*\)"):
        tg.grad(lambda a: wrong((a, a)))(1.0)


def test_keywords_and_what_is_wrong():
    @tg.custom_vjp
    def f(x, scale=2.0):
        return x * scale

    f.defvjp(lambda x, scale: (x * scale, scale), lambda scale, g: (10.0 * g * scale, None))
    assert tg.grad(lambda x: f(x, scale=3.0))(1.0) == 30.0 and tg.grad(lambda x: f(x))(1.0) == 20.0 and f(2.0) == 4.0

    @tg.custom_vjp
    def g(x, y):
        return x * y

    g.defvjp(lambda x, y: (x * y, None), lambda residuals, adjoint: adjoint)
    with pytest.raises(RuleError, match="has to return a tuple of 2"):
        tg.grad(g)(1.0, 2.0)


def test_a_rule_for_a_primitive_is_still_a_decorator():
    @tg.primitive
    def cube(x):
        return x**3

    @tg.custom_vjp(cube)
    def _(g, result, x):
        return 3.0 * x**2 * g

    assert tg.grad(cube)(2.0) == 12.0


def test_a_primitive_of_containers_goes_with_what_its_rules_capture():
    def used():
        captured = np.zeros(3).view(type("Held", (np.ndarray,), {}))
        summed = tg.custom_vjp(lambda p: np.sum(p["x"]), lambda g, result, p: ({"x": g + captured},))
        assert tg.grad(lambda x: summed({"x": x}))(np.ones(3)).tolist() == [1.0, 1.0, 1.0]
        return weakref.ref(captured)

    held = used()
    gc.collect()
    assert held() is None


@dataclass
class Pair:
    a: object
    b: object
    unit: str = field(default="m", metadata={"static": True})


class Registered:
    def __init__(self, a, b):
        self.a, self.b = a, b


CONTAINERS = {
    "dict": (lambda a, b: {"a": a, "none": None, "b": [b]}, lambda t: (t["a"], t["b"][0])),
    "dataclass": (Pair, lambda t: (t.a, t.b)),
    "registered": (Registered, lambda t: (t.a, t.b)),
    "dict of a dataclass": (lambda a, b: {"in": Pair(a, {"b": b})}, lambda t: (t["in"].a, t["in"].b["b"])),
}


@pytest.mark.parametrize("name", CONTAINERS)
def test_rules_of_every_container(name):
    """The rules are not the derivative of a * b, so that it is seen which one is taken."""
    tg.tree.register(Registered, lambda t: ((t.a, t.b), None), lambda held, parts: Registered(*parts))
    make, get = CONTAINERS[name]

    def product(t, factor):
        a, b = get(t)
        return a * b * factor

    reverse, forward = tg.custom_vjp(product), tg.custom_jvp(product)
    reverse.defvjp(lambda t, factor: (product(t, factor), get(t)), lambda kept, g: (make(10.0 * g * kept[1], 20.0 * g * kept[0]), 30.0 * g))
    forward.defjvp(lambda primals, tangents: (product(*primals), 10.0 * get(tangents[0])[0] + 20.0 * get(tangents[0])[1] + 30.0 * tangents[1]))
    for a, b in (2.0, 3.0), (5.0, 7.0), (-1.0, 0.5):
        for gradient in (run := tg.grad(lambda a, b: reverse(make(a, b), 1.0), argnums=(0, 1))), tg.jit(run):
            assert gradient(a, b) == (10.0 * b, 20.0 * a)
        assert tg.grad(lambda a, b: reverse(make(a, b), a))(a, b) == 10.0 * b + 30.0
        for slope in (run := tg.derivative(lambda x: forward(make(x, 2.0 * x), x))), tg.jit(run):
            assert slope(a) == 10.0 + 40.0 + 30.0


def test_adjoints_of_a_dict_in_another_order():
    @tg.custom_vjp
    def product(t):
        return t["a"] ** 2 * t["b"]

    product.defvjp(lambda t: (product(t), t), lambda t, g: ({"b": g * t["a"] ** 2, "a": 2.0 * g * t["a"] * t["b"]},))
    for gradient in tg.grad(product), tg.jit(tg.grad(product)):
        for a, b in (2.0, 3.0), (5.0, 7.0), (-1.0, 0.5):
            assert gradient({"a": a, "b": b}) == {"a": 2.0 * a * b, "b": a * a}
    product.defvjp(lambda t: (product(t), t), lambda t, g: ({"a": g, "c": g},))
    with pytest.raises(RuleError, match="argument 0.*c: .*a container like it, {a: "):
        tg.grad(product)({"a": 2.0, "b": 3.0})


def test_a_class_that_is_a_dict_and_no_container_is_refused():
    class Own(dict):
        pass

    first = tg.custom_vjp(lambda t: 2.0 * t["a"])
    first.defvjp(lambda t: (first(t), None), lambda _, g: (Own(a=2.0 * g),))
    for hidden in lambda a: Own(a=a), lambda a: {"in": Own(a=a)}:
        with pytest.raises(LeaveTapeError, match="is a Own that holds a tensor"):
            tg.grad(lambda a: first(hidden(a)))(1.0)


def _parts_with_a_vjp():
    @tg.custom_vjp
    def parts(x):
        return {"sum": np.sum(x * x), "more": (x * 2.0, [np.exp(x[0])])}

    # Twice the derivative of the first part: what the rule says counts.
    parts.defvjp(lambda x: (parts(x), x), lambda x, g: (4.0 * x * g["sum"] + 2.0 * g["more"][0] + np.exp(x[0]) * g["more"][1][0] * np.eye(len(x))[0],))
    return parts


def _parts_with_a_jvp():
    @tg.custom_jvp
    def parts(x):
        return {"sum": np.sum(x * x), "more": (x * 2.0, [np.exp(x[0])])}

    @parts.defjvp
    def rule(primals, tangents):
        (x,), (t,) = primals, tangents
        # With the keys in another order.
        return parts(x), {"more": (2.0 * t, [np.exp(x[0]) * t[0]]), "sum": 4.0 * np.sum(x * t)}

    return parts


@pytest.mark.parametrize("made", [_parts_with_a_vjp, _parts_with_a_jvp])
def test_results_in_containers(made):
    parts, x = made(), np.array([0.3, -1.2, 2.0])

    def f(x):
        p = parts(x)
        assert list(p) == ["sum", "more"] and isinstance(p["more"], tuple)
        return p["sum"] * p["more"][1][0] + np.sum(p["more"][0] ** 2)

    one = np.eye(3)[0]
    expected = np.exp(x[0]) * (4.0 * x + np.sum(x * x) * one) + 8.0 * x
    for g in (tg.grad(f), tg.jit(tg.grad(f)), lambda x: tg.vmap(tg.grad(f))(x[None])[0], tg.jacfwd(f), lambda x: tg.jvp(f, (x,), (one,))[1] * one + tg.grad(f)(x) * (1 - one)):
        for _ in range(2):
            np.testing.assert_allclose(g(x), expected, rtol=1e-12)
    jacobian = tg.jacrev(parts)(x)
    np.testing.assert_allclose(jacobian["sum"], 4.0 * x)
    np.testing.assert_allclose(jacobian["more"][0], 2.0 * np.eye(3))
    np.testing.assert_allclose(tg.hessian(lambda x: parts(x)["sum"])(x), 4.0 * np.eye(3), atol=1e-12)


def test_a_rule_that_returns_another_container():
    f = tg.custom_jvp(lambda x: {"a": x, "b": x * 2.0})
    f.defjvp(lambda primals, tangents: (f(*primals), {"a": tangents[0]}))
    with pytest.raises(RuleError, match="return a container like it"):
        tg.jvp(lambda x: f(x)["b"], (1.0,), (1.0,))
    with pytest.raises(tg.errors.ComplexOperandError, match="real and imaginary parts"):
        tg.grad(lambda x: tg.custom_jvp(lambda x: (x, x * 1j), lambda t, r, x: (t, t))(x)[0])(1.0)
