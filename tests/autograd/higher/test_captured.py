"""Derivatives of functions that use a tensor, or a dual number, which somebody outside differentiates."""

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.common.errors import TapegradError

AT = np.array([0.5, 2.0])


def _f(x, y):
    """A number that depends on both."""
    return np.sum(np.sin(x * y) + x * x * y**3)


#: Each as a function of x: a derivative in y, at fixed numbers, of a function that captures x.
TRANSFORMATIONS = {
    "grad": lambda f, x: tg.grad(lambda y: f(x, y))(AT),
    "grad of a number": lambda f, x: tg.grad(lambda y: f(x, y))(2.0),
    "value_and_grad": lambda f, x: (lambda v, g: np.sum(g) * v)(*tg.value_and_grad(lambda y: f(x, y))(AT)),
    "has_aux": lambda f, x: (lambda g, aux: np.sum(g) + aux)(*tg.grad(lambda y: (f(x, y), 2.0 * x), has_aux=True)(AT)),
    "elementwise_grad": lambda f, x: tg.elementwise_grad(lambda y: np.sin(x * y) * y)(AT),
    "jacrev": lambda f, x: tg.jacrev(lambda y: np.sin(x * y))(AT),
    "jacobian forward": lambda f, x: tg.jacobian(lambda y: np.sin(x * y), mode="forward")(AT),
    "jacfwd": lambda f, x: tg.jacfwd(lambda y: np.sin(x * y))(AT),
    "derivative": lambda f, x: tg.derivative(lambda y: f(x, y))(2.0),
    "jvp": lambda f, x: tg.jvp(lambda y: f(x, y), (AT,), (np.ones(2),))[1],
    "vjp": lambda f, x: tg.vjp(lambda y: np.sin(x * y), AT)[1](np.array([1.0, 2.0]))[0],
    "linearize": lambda f, x: tg.linearize(lambda y: np.sin(x * y), AT)[1](np.array([1.0, 2.0])),
    "hessian": lambda f, x: tg.hessian(lambda y: f(x, y))(AT),
    "hessian_diag": lambda f, x: tg.hessian_diag(lambda y: f(x, y))(AT),
    "laplacian": lambda f, x: tg.laplacian(lambda y: f(x, y))(AT),
    "hvp": lambda f, x: tg.hvp(lambda y: f(x, y))(AT, np.ones(2)),
    "gnvp": lambda f, x: tg.gnvp(lambda y: np.sin(x * y))(AT, np.ones(2)),
    "jit": lambda f, x: tg.jit(lambda y: np.sin(x * y))(AT),
    "checkpoint": lambda f, x: tg.grad(lambda y: tg.checkpoint(lambda z: f(x, z))(y * y))(2.0),
    "grad of grad": lambda f, x: tg.grad(lambda y: y * tg.grad(lambda z: f(x, y * z))(1.5))(2.0),
    "custom primitive": lambda f, x: tg.grad(lambda y: np.sum(SINE(y) * x))(AT),
}
SINE = tg.primitive(lambda x: np.sin(x))
tg.custom_vjp(SINE, lambda g, result, x: (g * np.cos(x),))


def _total(f, name):
    """The transformation as a number that depends on x."""
    return lambda x: np.sum(x * np.sum(TRANSFORMATIONS[name](f, x)))


def _differences(g, x, h=1e-5):
    return (g(x + h) - g(x - h)) / (2.0 * h)


@pytest.mark.parametrize("kind", ["leaf", "computed", "array"])
@pytest.mark.parametrize("name", TRANSFORMATIONS)
def test_tensor_of_the_closure(name, kind):
    g = _total(_f, name)
    at = np.array([1.5, -0.5]) if kind == "array" else 1.5
    x = tg.tensor(at, requires_grad=True)
    for _ in range(3):
        x.grad = None
        g(2.0 * x / 2.0 if kind == "computed" else x).backward()
        # In the direction (1, 1), where it has two elements.
        np.testing.assert_allclose(np.sum(x.grad.numpy()), _differences(g, at), rtol=1e-6)


@pytest.mark.parametrize("name", TRANSFORMATIONS)
def test_dual_number_of_the_closure(name):
    g = _total(_f, name)
    try:
        found = g(tg.Dual(1.5, 1.0))
    except TapegradError:
        return
    np.testing.assert_allclose(found.tangent, _differences(g, 1.5), rtol=1e-6)


class _Holder:
    def __init__(self, x):
        self.x = x
        self.deep = {"parts": [1.0, (x,)]}

    def attribute(self, y):
        return self.x * y * y

    def container(self, y):
        return self.deep["parts"][1][0] * y * y


def _default(x):
    def f(y, factor=x):
        return factor * y * y

    return f


HIDDEN = {
    "attribute": lambda x: _Holder(x).attribute,
    "container of an attribute": lambda x: _Holder(x).container,
    "list": lambda x: (lambda held: lambda y: held[0] * y * y)([x]),
    "dict": lambda x: (lambda held: lambda y: held["x"] * y * y)({"x": x}),
    "default": _default,
    "called function": lambda x: (lambda inner: lambda y: inner(y) * y)(lambda y: x * y),
    "only in a branch": lambda x: lambda y: x * y * y if y > 1.0 else y,
    "computed first": lambda x: (lambda z: lambda y: z * y * y)(x * 1.0),
    "value only": lambda x: lambda y: y * y + x,
}


@pytest.mark.parametrize("name", HIDDEN)
@pytest.mark.parametrize("kernel", ["never", "always"])
def test_tensors_that_are_hidden(name, kernel):
    def g(x):
        value, slope = tg.jit(tg.value_and_grad(HIDDEN[name](x)), kernel=kernel)(2.0)
        return x * slope + value * value

    x = tg.tensor(1.5, requires_grad=True)
    g(x).backward()
    np.testing.assert_allclose(x.grad.item(), _differences(g, 1.5), rtol=1e-6)


def test_one_derivative_for_constants_and_tensors():
    x = 1.5
    slope = tg.grad(lambda y: x * y * y)
    assert [slope(2.0) for _ in range(6)] == [6.0] * 6
    x = tg.tensor(1.5)
    assert [slope(2.0) for _ in range(6)] == [6.0] * 6
    x.requires_grad_()
    for _ in range(3):
        x.grad = None
        (x * slope(2.0)).backward()
        assert x.grad.item() == 12.0
    with tg.no_grad():
        found = [slope(2.0) for _ in range(6)]
        assert found == [6.0] * 6 and type(found[-1]) is float
    x.grad = None
    (x * slope(2.0)).backward()
    assert x.grad.item() == 12.0
    x.requires_grad_(False)
    assert [slope(2.0) for _ in range(6)] == [6.0] * 6


def test_of_a_branch_that_was_not_taken_at_first():
    x = tg.tensor(1.5, requires_grad=True)
    slope = tg.grad(lambda y: x * y * y if y > 1.0 else 3.0 * y)
    assert [slope(0.5) for _ in range(5)] == [3.0] * 5
    (x * slope(2.0)).backward()
    assert x.grad.item() == 12.0
    assert slope(0.5) == 3.0


def test_of_a_function_that_is_run_define_by_run():
    x = tg.tensor(1.5, requires_grad=True)
    numbers = np.random.default_rng(0)
    slope = tg.grad(lambda y: (x + 0.0 * numbers.random()) * y * y if y > 1.0 else y * (1.0 + 0.0 * numbers.random()))
    assert [slope(0.5) for _ in range(4)] == [1.0] * 4
    (x * slope(2.0)).backward()
    assert x.grad.item() == 12.0


REFUSED = {
    "sparse_jacobian": lambda x: tg.sparse_jacobian(lambda y: x * y * y)(AT),
    "sparse_hessian": lambda x: tg.sparse_hessian(lambda y: np.sum(x * y**3))(AT),
    "sparsity": lambda x: tg.sparsity(lambda y: x * y * y)(AT),
    "compile": lambda x: tg.compile(lambda y: np.sum(x * y * y), AT),
    "lbfgs": lambda x: tg.optimize.lbfgs(lambda y: np.sum((y - x) ** 2), AT),
    "adam": lambda x: tg.optimize.adam(lambda y: np.sum((y - x) ** 2), AT),
    "minimize": lambda x: tg.optimize.minimize(lambda y: np.sum((y - x) ** 2), AT),
    "implicit.root": lambda x: tg.implicit.root(lambda y: y * y - x, 1.0),
    "implicit.fixed_point": lambda x: tg.implicit.fixed_point(lambda y: np.cos(x * y), 1.0),
    "implicit.argmin": lambda x: tg.implicit.argmin(lambda y: np.sum((y - x) ** 2), AT),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("kind", ["leaf", "computed"])
def test_refused_where_nothing_can_carry_the_derivative(name, kind):
    x = tg.tensor(1.5, requires_grad=True)
    with pytest.raises(TapegradError):
        REFUSED[name](x if kind == "leaf" else x * 1.0)


def test_the_error_names_the_tensor():
    weight = tg.tensor(1.5, requires_grad=True)
    with pytest.raises(TapegradError, match=r"'weight'.*detach.*no_grad"):
        tg.sparse_jacobian(lambda y: weight * y)(AT)
    with tg.no_grad():
        assert tg.sparse_jacobian(lambda y: weight * y)(AT).toarray().tolist() == [[1.5, 0.0], [0.0, 1.5]]


def test_second_derivative_through_the_captured_tensor():
    x = tg.tensor(1.5, requires_grad=True)
    (first,) = tg.autograd.grad(x * tg.grad(lambda y: np.sin(x * y))(2.0), x, create_graph=True)
    (second,) = tg.autograd.grad(first, x)

    def g(x):
        return x * x * np.cos(2.0 * x)

    h = 1e-4
    np.testing.assert_allclose(second.item(), (g(1.5 + h) - 2.0 * g(1.5) + g(1.5 - h)) / h**2, rtol=1e-5)


def test_a_leaf_made_inside_counts_if_somebody_keeps_it():
    kept = []

    def f(y):
        if not kept:
            kept.append(tg.tensor(1.5, requires_grad=True))
        return kept[0] * y

    slope = tg.grad(f)
    for _ in range(3):
        found = slope(2.0)
        found.backward()
    assert kept[0].grad.item() == 3.0
    for wrap in (lambda made: made, tg.jit):
        alone = wrap(tg.grad(lambda y: y * tg.tensor(1.5, requires_grad=True)))
        assert [alone(2.0) for _ in range(5)] == [1.5] * 5 and alone.stats().replays == 4 * (wrap is tg.jit)


#: Each as a function of x, whose value it is: x itself is a result, or goes along with it.
RETURNED = {
    "value_and_grad": lambda x: tg.value_and_grad(lambda y: x)(1.0)[0],
    "grad, has_aux": lambda x: tg.grad(lambda y: (y * y, {"x": x}), has_aux=True)(1.0)[1]["x"],
    "value_and_grad, has_aux": lambda x: tg.value_and_grad(lambda y: (y * y, x), has_aux=True)(1.0)[0][1],
    "hvp, has_aux": lambda x: tg.hvp(lambda y: (y * y, x), has_aux=True)(1.0, 1.0)[1],
    "vjp": lambda x: tg.vjp(lambda y: (x, y), 1.0)[0][0],
    "linearize": lambda x: tg.linearize(lambda y: (x, y * y), 1.0)[0][0],
    "jvp": lambda x: tg.jvp(lambda y: (x, y), (1.0,), (1.0,))[0][0],
    "jet": lambda x: tg.jet(lambda y: (y * y, x), (1.0,), ((1.0, 0.0),))[0][1],
    "jit": lambda x: tg.jit(lambda y: x)(1.0),
}


@pytest.mark.parametrize("name", RETURNED)
def test_returned_as_it_is(name):
    f = RETURNED[name]
    under_jit, slopes, replayed = tg.jit(f), tg.grad(f), tg.jit(tg.grad(lambda x: f(x) ** 2))
    for x in (2.0, 3.0, 0.5, -1.0):
        assert (under_jit(x), slopes(x), replayed(x)) == (x, 1.0, 2.0 * x)
    if name != "jet":
        assert [tg.derivative(f)(x) for x in (2.0, 3.0)] == [1.0, 1.0] == tg.vmap(slopes)(AT).tolist()
    leaf = tg.tensor(2.0, requires_grad=True)
    for x, slope in (leaf, 1.0), (leaf * 3.0, 3.0):
        assert tg.autograd.grad(f(x), leaf)[0].item() == slope


@pytest.mark.parametrize("captured", [lambda leaf: leaf, lambda leaf: 1.0 * leaf], ids=["leaf", "computed"])
def test_results_on_several_tapes(captured):
    x = captured(tg.tensor(3.0, requires_grad=True))

    def numbers(tensors):
        return [tg.stop_gradient(t) * 1.0 for t in tensors]

    assert numbers(tg.linearize(lambda y: (x, y * y), 1.0)[1](1.0)) == [0.0, 2.0]
    with tg.Tape():
        assert numbers(tg.linearize(lambda y: (x * y, y * y, x), 1.0)[1](1.0)) == [3.0, 2.0, 0.0]
    for f, slopes in (lambda y: (x, y * y), [0.0, 2.0]), (lambda y: (x * y, y * y), [3.0, 2.0]), (lambda y: (y * y, x), [2.0, 0.0]):
        assert numbers([terms[0] for terms in tg.jet(f, (1.0,), ((1.0, 0.0),))[1]]) == slopes


def recorded_inside(x):
    scaled = tg.jit(lambda y: np.sin(y * x) + x)
    return tg.fori_loop(0, 2, lambda i, c: scaled(2.0) * c, x) * scaled(1.0)


def plain_inside(x):
    return (np.sin(2.0 * x) + x) ** 2 * x * (np.sin(x) + x)


@pytest.mark.parametrize(
    "transformed",
    [tg.jacfwd, tg.grad, lambda f: tg.grad(tg.jacfwd(f)), lambda f: tg.jacfwd(tg.grad(f)), lambda f: tg.jacfwd(tg.jacfwd(f)), lambda f: tg.jit(tg.jacfwd(f)),
     lambda f: lambda x: tg.vmap(f)(np.array([x, x]))[1], lambda f: lambda x: tg.vmap(tg.grad(f))(np.array([x, x]))[1],
     lambda f: lambda x: tg.jit(tg.vmap(tg.jacfwd(f)))(np.array([x, x]))[1]],
)  # fmt: skip
def test_a_function_under_jit_takes_variables_of_any_derivative_from_outside(transformed):
    found, expected = transformed(recorded_inside)(0.7), transformed(plain_inside)(0.7)
    assert type(found) is type(expected) and np.isclose(found, expected, rtol=1e-12)
