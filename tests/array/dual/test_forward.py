"""`jvp`, `derivative` and `jacfwd`: closed forms, JAX, nesting, structures and errors."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

import tapegrad as tg
from tapegrad.common.errors import DtypeError, SeedShapeError, StructureError
from tests.threads import in_threads

D = tg.derivative


# ---- perturbations are not confused --------------------------------------------------------


def test_perturbations_are_not_confused():
    assert D(lambda x: x * D(lambda y: x + y)(1.0))(1.0) == 1.0
    assert D(lambda x: x * tg.jvp(lambda y: x + y, (1.0,), (1.0,))[1])(1.0) == 1.0
    assert D(lambda x: D(lambda y: x * y)(3.0))(2.0) == 1.0
    assert D(lambda x: x * D(lambda y: x * y * y)(x))(2.0) == 24.0 / 2 * 2  # d/dx of 2 x^3 is 6 x^2
    assert D(lambda x: D(lambda y: D(lambda z: x * y * z)(x))(x))(2.0) == 4.0 / 4


def test_perturbations_are_not_confused_on_arrays():
    x = np.array([1.0, 2.0, 4.0])
    inner = lambda x: tg.jvp(lambda y: x + y, (np.ones(3),), (np.ones(3),))[1]
    np.testing.assert_array_equal(tg.jvp(lambda x: x * inner(x), (x,), (np.ones(3),))[1], np.ones(3))
    found = tg.jacfwd(lambda x: (x * tg.jacfwd(lambda y: (x * y * y).sum())(x)).sum())(x)
    np.testing.assert_allclose(found, 6.0 * x * x)


def test_a_closure_over_a_dual_number_made_by_hand():
    d = tg.Dual(3.0, 1.0)
    assert repr(D(lambda x: x * d * d)(2.0)) == "Dual(9.0, tangent=6.0)"
    assert D(lambda x: (tg.Dual(x, 1.0) ** 3).tangent)(2.0) == 12.0
    assert D(lambda x: (tg.Dual(2.0, 1.0) * x).tangent)(2.0) == 1.0
    value, tangent = tg.jvp(lambda x: tg.Dual(x, 1.0) * x, (2.0,), (1.0,))
    assert repr(value) == "Dual(4.0, tangent=2.0)" and repr(tangent) == "Dual(4.0, tangent=1.0)"


def test_in_a_loop_of_unknown_length():
    def newton(a):
        f = lambda x: x * x - a
        x = 1.0 + 0.0 * a
        while abs(f(x)) > 1e-13:
            x = x - f(x) / D(f)(x)
        return x

    assert newton(2.0) == pytest.approx(math.sqrt(2.0), rel=1e-14)
    assert D(newton)(2.0) == pytest.approx(0.5 / math.sqrt(2.0), rel=1e-9)
    t = tg.tensor(2.0, requires_grad=True)
    newton(t).backward()
    assert t.grad.item() == pytest.approx(0.5 / math.sqrt(2.0), rel=1e-9)


def test_levels_of_threads_are_apart():
    found = {}

    def work(k):
        found[k] = [D(lambda x: x * D(lambda y: x**k + y)(1.0))(float(j)) for j in range(50)]

    in_threads(work, 4)
    assert found == {k: [1.0] * 50 for k in range(4)}


def test_an_error_in_a_function_leaves_the_level_as_it_was():
    with pytest.raises(ZeroDivisionError):
        D(lambda x: 1 / 0)(1.0)
    assert tg.Dual(1.0).level == 1


# ---- higher derivatives --------------------------------------------------------------------


def test_higher_derivatives_against_closed_forms():
    f, order = np.sin, [np.sin, np.cos, lambda x: -np.sin(x), lambda x: -np.cos(x)]
    for k in range(7):
        assert f(0.7) == pytest.approx(order[k % 4](0.7), rel=1e-14)
        f = D(f)
    assert D(D(D(lambda x: x**5)))(2.0) == 240.0
    assert D(D(lambda x: np.exp(x * x)))(0.5) == pytest.approx((2 + 4 * 0.25) * np.exp(0.25), rel=1e-14)


def test_reverse_over_forward():
    x = tg.tensor(np.array([0.5, 1.5, 2.0]), requires_grad=True)
    v = np.array([1.0, -2.0, 0.5])
    value, tangent = tg.jvp(lambda x: np.sum(np.exp(x) * x[::-1]), (x,), (v,))
    assert isinstance(value, tg.Tensor) and isinstance(tangent, tg.Tensor)
    tangent.backward()
    # H[i, i] = e^x[i] x[n-1-i], plus e^x[i] and e^x[n-1-i] where i meets n-1-i.
    values = np.exp([0.5, 1.5, 2.0])
    hessian = np.diag(values * [2.0, 1.5, 0.5])
    for i in range(3):
        hessian[i, 2 - i] += values[i] + values[2 - i]
    np.testing.assert_allclose(x.grad.numpy(), hessian @ v, rtol=1e-14)


def test_the_direction_may_be_tracked():
    v = tg.tensor(2.0, requires_grad=True)
    tangent = tg.jvp(lambda x: x**3, (3.0,), (v,))[1]
    tangent.backward()
    assert v.grad.item() == 27.0
    assert D(lambda v: tg.jvp(lambda x: x**3, (3.0,), (v,))[1])(2.0) == 27.0


def test_jacobian_of_a_jacobian():
    x = np.array([1.0, 2.0, 3.0])
    found = tg.jacfwd(tg.jacfwd(lambda x: np.stack([x[0] * x[1] * x[2], (x**3).sum()])))(x)
    assert found.shape == (2, 3, 3)
    np.testing.assert_array_equal(found[0], [[0, 3, 2], [3, 0, 1], [2, 1, 0]])
    np.testing.assert_array_equal(found[1], np.diag(6 * x))
    t = tg.tensor(x, requires_grad=True)
    jacobian = tg.jacfwd(lambda x: x * x.sum())(t)
    assert isinstance(jacobian, tg.Tensor) and jacobian.shape == (3, 3)
    (jacobian**2).sum().backward()
    # J = s I + x 1^T: the derivative of its squared norm
    np.testing.assert_allclose(t.grad.numpy(), 2 * (3 * x.sum() + x.sum()) + 2 * (3 * x + x.sum()), rtol=1e-13)


# ---- JAX -------------------------------------------------------------------------------------

A = np.random.default_rng(0).uniform(0.5, 1.5, (5, 5)) + 3 * np.eye(5)
FUNCTIONS = {
    "outer": (lambda n, x: n.outer(x, x) @ x, (5,)),
    "sum": (lambda n, x: n.sum(n.sin(x) * x), (17,)),
    "matrix": (lambda n, x: n.tanh(x @ A[:3, :4].copy()), (2, 3)),
    "many lanes": (lambda n, x: n.cumsum(x**2)[::2], (40,)),
    "solve": (lambda n, x: n.linalg.solve(A, x) * x, (5,)),
    "det": (lambda n, x: n.linalg.det(x), (3, 3)),
    "reductions": (lambda n, x: n.stack([n.mean(x), n.std(x), n.max(x), n.prod(x)]), (6,)),
    "where": (lambda n, x: n.where(x > 1.0, n.sqrt(x), x**2), (9,)),
    "scalar": (lambda n, x: n.stack([n.exp(x), n.log(x), x]), ()),
    "stencil": (lambda n, x: n.concatenate([x[:1], x[2:] - 2 * x[1:-1] + x[:-2], x[-1:]]), (12,)),
    "einsum": (lambda n, x: n.einsum("ij,kj->ik", x, x), (3, 4)),
    "norm": (lambda n, x: x / n.linalg.norm(x), (4,)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_jacobians_against_jax(name):
    jax = pytest.importorskip("jax")
    jnp = jax.numpy
    f, shape = FUNCTIONS[name]
    x = np.random.default_rng(1).uniform(0.5, 1.5, shape) + (np.eye(3) if name == "det" else 0.0)
    with jax.enable_x64(True):
        expected = np.asarray(jax.jit(jax.jacfwd(lambda x: f(jnp, x)))(jnp.asarray(x, jnp.float64)))
    found = tg.jacfwd(lambda x: f(np, x))(x if shape else float(x))
    assert type(found) is np.ndarray and found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


# ---- structures and kinds ----------------------------------------------------------------------


def test_structures_of_results():
    found = D(lambda t: (t * t, [np.stack([t, 1.0]), 3.0], {"a": t**3, "b": np.ones(2)}))(2.0)
    assert found[0] == 4.0 and type(found[0]) is float and found[1][1] == 0.0 and found[2]["a"] == 12.0
    np.testing.assert_array_equal(found[1][0], [1.0, 0.0])
    np.testing.assert_array_equal(found[2]["b"], np.zeros(2))
    jacobian = tg.jacfwd(lambda x: {"s": x.sum(), "c": 1.0})(np.ones((2, 3)))
    np.testing.assert_array_equal(jacobian["s"], np.ones((2, 3)))
    np.testing.assert_array_equal(jacobian["c"], np.zeros((2, 3)))
    q, r = tg.jvp(np.linalg.qr, (A,), (np.eye(5),))[1]
    assert q.shape == r.shape == (5, 5)


def test_structures_of_arguments():
    value, tangent = tg.jvp(lambda p, y: p["w"] * y + p["b"][0], ({"w": 2.0, "b": [1.0]}, 3.0), ({"w": 1.0, "b": [5.0]}, 0.5))
    assert (value, tangent) == (7.0, 9.0)


def test_plain_in_plain_out():
    value, tangent = tg.jvp(lambda x: x * 2, (3,), (1,))
    assert type(value) is float and type(tangent) is float and (value, tangent) == (6.0, 2.0)
    value, tangent = tg.jvp(lambda x: x.sum(), (np.ones(3, "f"),), (np.ones(3, "f"),))
    assert value.dtype == tangent.dtype == np.float32 and np.ndim(value) == 0
    value, tangent = tg.jvp(lambda x: (np.floor(x), 3), (np.array([0.5, 1.5]),), (np.ones(2),))
    assert value[1] == 3 and tangent[1] == 0.0
    np.testing.assert_array_equal(tangent[0], np.zeros(2))
    x = np.ones(2)
    same = tg.jvp(lambda x: x, (x,), (x,))[0]
    assert same is not x
    constant = tg.tensor([1.0, 2.0])
    assert type(tg.jvp(lambda x: x * constant, (constant,), (np.ones(2),))[0]) is np.ndarray


def test_argnums():
    f = lambda x, y: x * y[0] + y[1]
    x, y = np.array([1.0, 2.0]), np.array([3.0, 4.0])
    np.testing.assert_array_equal(tg.jacfwd(f, 1)(x, y), [[1.0, 1.0], [2.0, 1.0]])
    both = tg.jacfwd(f, (0, -1))(x, y)
    np.testing.assert_array_equal(both[0], 3.0 * np.eye(2))
    np.testing.assert_array_equal(both[1], [[1.0, 1.0], [2.0, 1.0]])
    with pytest.raises(StructureError, match="argument 2"):
        tg.jacfwd(f, 2)(x, y)


def test_further_arguments_are_passed_on():
    assert D(lambda x, k, *, m: k * x**m)(2.0, 3.0, m=2) == 12.0


def test_several_directions_share_one_pass():
    passes = []
    tg.jacfwd(lambda x: passes.append(x.lanes) or x * x)(np.ones(35))
    assert passes == [16, 16, 4]
    passes.clear()
    tg.jacfwd(lambda x: passes.append(x.lanes) or x * x)(np.ones(6))
    assert passes == [8]


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: tg.jvp(np.sin, 1.0, (1.0,)), StructureError, "primals must be a tuple"),
        (lambda: tg.jvp(np.sin, (1.0,), 1.0), StructureError, "tangents must be a tuple"),
        (lambda: tg.jvp(np.sin, (1.0,), (1.0, 2.0)), StructureError, "tuple of 1.*tuple of 2"),
        (lambda: tg.jvp(np.sin, ({"a": 1.0},), ({"b": 1.0},)), StructureError, "keys"),
        (lambda: tg.jvp(np.sin, (1.0,), ((1.0,),)), StructureError, "tangent of primals"),
        (lambda: tg.jvp(np.sin, (1.0,), (None,)), StructureError, "tangent of primals"),
        (lambda: tg.jvp(np.sin, ("a",), (1.0,)), StructureError, "not a number"),
        (lambda: tg.jvp(np.sin, (np.ones(2),), (np.ones(3),)), SeedShapeError, r"\(3,\)"),
        (lambda: tg.jvp(np.sin, (np.ones(2),), (np.ones(2, "f"),)), DtypeError, "float32"),
        (lambda: tg.jvp(np.sin, (np.arange(2),), (np.ones(2),)), DtypeError, "astype"),
        (lambda: tg.jacfwd(np.sin)(np.arange(3)), DtypeError, "astype"),
        (lambda: D(np.sin)(1j), DtypeError, "complex"),
        (lambda: D(np.sin)(np.ones(2)), StructureError, "jacfwd"),
        (lambda: D(lambda x: None)(1.0), StructureError, "result of <lambda> is None: does the function return"),
        (lambda: D(lambda x: "text")(1.0), StructureError, "str"),
        (lambda: D(lambda x: (x, {"a": object()}))(1.0), StructureError, r"\[1\]\['a'\]"),
        (lambda: D(lambda x: np.array([1j], np.clongdouble))(1.0), DtypeError, "complex"),
    ],
)
def test_errors(call, error, words):
    with pytest.raises(error, match=words):
        call()


# ---- shapes ------------------------------------------------------------------------------------

SHAPES = npst.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5)


@settings(max_examples=60, deadline=None)
@given(SHAPES, st.integers(0, 2**32 - 1))
def test_shapes_of_jacobians(shape, seed):
    x = np.random.default_rng(seed).uniform(0.5, 1.5, shape)
    jacobian = np.asarray(tg.jacfwd(lambda x: np.exp(x))(x))
    assert jacobian.shape == (*shape, *shape)
    np.testing.assert_allclose(jacobian.reshape(x.size, x.size), np.diag(np.exp(x).ravel()), rtol=1e-14)
    total = tg.jacfwd(lambda x: np.sum(x * x))(x)
    np.testing.assert_allclose(total, 2 * x, rtol=1e-14)


@settings(max_examples=60, deadline=None)
@given(npst.mutually_broadcastable_shapes(num_shapes=2, max_dims=3, max_side=4), st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_broadcasting_with_lanes(shapes, lanes, seed):
    rng = np.random.default_rng(seed)
    (a, b), (s, t) = ([rng.uniform(0.5, 1.5, shape) for shape in shapes.input_shapes] for _ in range(2))
    moves = [rng.standard_normal((lanes, *shape)) for shape in shapes.input_shapes]
    found = tg.Dual(a, moves[0], lanes=lanes) * np.sin(tg.Dual(b, moves[1], lanes=lanes)) + s - t
    expected = moves[0].reshape((lanes, *(1,) * (found.ndim - a.ndim), *a.shape)) * np.sin(b)
    expected = expected + a * np.cos(b) * moves[1].reshape((lanes, *(1,) * (found.ndim - b.ndim), *b.shape))
    np.testing.assert_allclose(found.tangent, np.broadcast_to(expected, (lanes, *found.shape)), rtol=1e-12, atol=1e-14)


def test_a_function_may_write_into_its_argument_also_where_a_derivative_outside_is_recorded():
    def f(x):
        x[0] = x[1] * x[2]
        x *= 2.0
        return np.sum(x**3)

    x, v = np.array([0.3, 0.9, 0.5]), np.array([1.0, 2.0, -1.0])
    expected = tg.jvp(f, (x,), (v,))[1]
    assert tg.jit(lambda x: tg.jvp(f, (x,), (v,))[1])(x) == pytest.approx(expected, rel=1e-14)
    second = tg.grad(lambda x: tg.jvp(f, (x,), (v,))[1])(x)
    ahead, behind = (tg.jvp(f, (x + h * np.eye(3)[1],), (v,))[1] for h in (1e-6, -1e-6))
    assert second[1] == pytest.approx((ahead - behind) / 2e-6, rel=1e-7)
    np.testing.assert_array_equal(x, [0.3, 0.9, 0.5])


# ---- what a function writes to outside -----------------------------------------------------


@pytest.mark.parametrize("transform", [lambda f, x: tg.jvp(f, (x,), (1.0,))[1], lambda f, x: tg.derivative(f)(x), lambda f, x: tg.jacfwd(f)(x)])
def test_what_is_written_to_outside_is_no_dual_number_behind_it(transform):
    """Arrays, views of them, numbers, in another dtype, with the value of the last call; not the memory that was given out."""
    buffer, number, single = tg.zeros(3), tg.tensor(1.0), tg.zeros(2, dtype=np.float32)
    tail, apart = buffer[1:], buffer[2:]

    def function(x):
        buffer[0] = x * x
        tail[0] = x
        buffer.__imul__(x)
        number.copy_(x)
        single[0] = x
        return np.sum(buffer * buffer) + number + np.sum(single)

    for x in (2.0, 3.0):
        assert transform(function, x) == 6.0 * x**5 + 4.0 * x**3 + 2.0
        everything = (buffer, tail, apart, number, single)
        assert {type(t) for t in everything} == {tg.Tensor} and single.dtype == np.float32
        assert [t.tolist() for t in everything] == [[x**3, x**2, 0.0], [x**2, 0.0], [0.0], x, [x, 0.0]]
        buffer[1], apart[0] = 5.0, 7.0
        assert buffer.tolist() == [x**3, 5.0, 7.0] and tail.tolist() == [5.0, 7.0] and apart.tolist() == [7.0]
        assert tg.grad(lambda y: y * np.sum(buffer))(2.0) == x**3 + 12.0
        buffer[:] = 0.0

    def giving_it_out(x):
        buffer[0] = x
        return buffer

    value, tangent = tg.jvp(giving_it_out, (4.0,), (1.0,))
    buffer[0] = 1.0
    assert value.tolist() == [4.0, 0.0, 0.0] and tangent.tolist() == [1.0, 0.0, 0.0]


@pytest.mark.parametrize("outer", [lambda f: lambda x: f(tg.Dual(x, 1.0)).tangent, tg.derivative, tg.grad, tg.jacfwd], ids=["dual", "derivative", "grad", "jacfwd"])
def test_what_is_written_to_in_an_inner_derivative_is_on_the_outer_one_behind_it(outer):
    buffer = tg.zeros(2)

    def inner(y):
        buffer[1] = buffer[0] * y
        return np.sum(buffer)

    def function(x):
        buffer[0] = x**3
        return tg.derivative(inner)(x) + np.sum(buffer)

    assert outer(function)(2.0) == 24.0 + 32.0
    buffer = tg.zeros(2)
    assert tg.derivative(outer(function))(2.0) == 72.0

    def raising(x):
        buffer[0] = x
        raise KeyError

    buffer = tg.zeros(2)
    with pytest.raises(KeyError):
        tg.derivative(raising)(3.0)
    assert type(buffer) is tg.Tensor and buffer[0] == 3.0
