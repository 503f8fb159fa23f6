"""Numbers on the tape in NumPy's own arrays, ``np.array([[c, -s], [s, c]])``: every mode, every ufunc, every place where they meet a tensor."""

import math
import operator as operators

import numpy as np
import pytest

import tapegrad as tg
import tapegrad.scipy.integrate
from tapegrad.array import functions
from tapegrad.errors import DtypeError, LeaveTapeError
from tapegrad.rules import BY_FUNCTION
from tests.every import every
from tests.numpy_api.object_arrays import B, P, V, leaf, numbers, slopes


def joined(nested):
    """What `np.array` is compared with: the same lists, by `np.stack`; only 0-d tensors, numbers, and lists."""
    return np.stack([joined(part) for part in nested]) if isinstance(nested, list) else nested


def rotation(array, a):
    return array([[np.cos(a), -np.sin(a)], [np.sin(a), np.cos(a)]])


def chain(array, p):
    total, place = np.eye(2), np.zeros(2)
    for k in range(3):
        total = total @ rotation(array, p[k])
        place = place + total @ V
    return np.sum(place * place * V)


#: Functions of three numbers, written with the array function that they are given.
FUNCTIONS = {
    "matrix times plain vector": lambda array, p: np.sum((rotation(array, p[0]) @ V) ** 3),
    "matrix times tensor": lambda array, p: np.sum(rotation(array, p[0]) @ p[:2] * V),
    "tensor times matrix": lambda array, p: np.sum(p[:2] @ rotation(array, p[0]) * V),
    "matrix times matrix": lambda array, p: np.sum((rotation(array, p[0]) @ rotation(array, p[1]))[0] * V),
    "dot": lambda array, p: np.sum(np.dot(rotation(array, p[0]), V) ** 2 * V),
    "einsum": lambda array, p: np.einsum("ij,jk,k->", rotation(array, p[0]), rotation(array, p[1]), p[1:]),
    "einsum alone": lambda array, p: np.sum(np.einsum("ij,j->i", rotation(array, p[0]), V) * V),
    "joints": chain,
    "mixed with numbers": lambda array, p: np.sum(array([[p[0], 2.0, 3], [1, p[1], p[2] * p[0]]]) * B + p),
    "broadcast": lambda array, p: np.sum((array([[p[0]], [p[1] * 2.0]]) * p + p) ** 2),
    "on the left of a number": lambda array, p: np.sum((2.0 - array([p[0], p[1]])) / (3.0 + array([p[1], p[2]])) ** 2),
    "outer": lambda array, p: np.sum(np.outer(array([p[0], p[1]]), p) * B),
    "ufuncs": lambda array, p: np.sum(np.sin(array([p[0], p[1]])) * np.exp(array([p[1], p[2]]))),
    "reductions": lambda array, p: np.prod(array([p[0], p[1], p[2]])) + np.max(array([p[0], p[1]])) * np.sum(array([p[2], p[1]])),
    "norm": lambda array, p: np.linalg.norm(array([p[0], p[1]])) ** 3,
    "concatenated": lambda array, p: np.sum(np.concatenate([array([p[0], 1.0]), p, array([p[1] * p[2]])]) ** 3),
    "stacked rows": lambda array, p: np.linalg.det(np.stack([array([p[0], p[1]]), p[1:] * V])),
    "selected": lambda array, p: np.sum(np.where(np.array([True, False]), array([p[0], p[1]]), p[1:]) ** 2),
    "rows": lambda array, p: np.sum(array([[p[0], p[1]], [1.0, 0.0]])[1] * p[:2] + array([[p[0], p[1]], [1.0, 0.0]])[0]),
    "functions of the library": lambda array, p: tg.logsumexp(array([p[0], p[1], 1.0])) + tg.softmax(array([p[1], p[2]]))[0],
    "compared": lambda array, p: np.sum(np.where(p[:2] > array([p[1], p[0]]), p[:2], array([p[2], p[1]])) ** 2),
    "assigned": lambda array, p: _assigned(array([p[0] * p[1], p[2]]), p),
    "accumulated": lambda array, p: _accumulated(array([p[0] * p[1], p[2], 1.0]), p),
}  # fmt: skip


def _assigned(pair, p):
    y = p * 1.0
    y[:2] = pair
    return np.sum(y * y * P)


def _accumulated(row, p):
    y = p * 2.0
    y += row
    y *= row
    return np.sum(y * y)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_as_by_hand_in_every_mode(name):
    function = FUNCTIONS[name]

    def by_array(p):
        return function(np.array, p)

    def by_hand(p):
        return function(joined, p)

    value, gradient = tg.value_and_grad(by_hand)(P)
    np.testing.assert_allclose(gradient, slopes(lambda p: function(np.array, p), P), rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(by_array(P), value, rtol=1e-14)
    x = leaf(P)
    by_array(x).backward()
    one = {"rtol": 1e-12, "atol": 1e-13}
    np.testing.assert_allclose(x.grad.numpy(), gradient, **one)
    np.testing.assert_allclose(tg.grad(by_array)(P), gradient, **one)
    np.testing.assert_allclose(tg.jacfwd(by_array)(P), gradient, **one)
    np.testing.assert_allclose(tg.jvp(by_array, (P,), (V[0] * P,))[1], V[0] * P @ gradient, **one)
    for kernel in ("never", "always"):
        jitted = tg.jit(tg.value_and_grad(by_array), kernel=kernel)
        for _ in range(3):
            np.testing.assert_allclose(jitted(P)[1], gradient, **one)
        assert jitted.stats().records == 1 and not jitted.stats().fallback
        assert (jitted.stats().kernel_calls > 0) == (kernel == "always"), jitted.stats()
    second = tg.hessian(by_hand)(P)
    np.testing.assert_allclose(tg.hessian(by_array)(P), second, rtol=1e-10, atol=1e-11)
    np.testing.assert_allclose(tg.jacfwd(tg.grad(by_array))(P), second, rtol=1e-10, atol=1e-11)
    np.testing.assert_allclose(tg.jacfwd(tg.jacfwd(by_array))(P), second, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("name", ["joints", "mixed with numbers", "broadcast"])
def test_checked(name):
    assert tg.check(lambda p: FUNCTIONS[name](np.array, p), P, order=2).passed


#: Where the elements of a test lie in the domain of the function.
INSIDE = {np.arccosh: 1.5}
PAIR = np.array([0.3, 0.6])


def _ufuncs():
    named = {f for f in BY_FUNCTION if isinstance(f, np.ufunc) and hasattr(np, f.__name__) and f.signature is None and f.nout == 1}
    # The exponent of ldexp is an integer.
    return sorted((named | {np.power, np.conjugate, np.positive, np.float_power}) - {np.ldexp}, key=lambda f: f.__name__)


#: Ufuncs that NumPy does not compute on objects; of `floor`, `ceil` and `trunc` it asks for ints.  docs/limits.md has this list.
NOT_ON_OBJECTS = {"copysign", "float_power", "heaviside", "logaddexp", "logaddexp2", "ceil", "floor", "trunc"}


def of_elements(ufunc, p, array):
    """A ufunc of arrays made by `array`, beside a tensor: NumPy gives ints for the sign of objects, which are no result by themselves."""
    shift = INSIDE.get(ufunc, 0.0)
    return ufunc(*(array([p[0] + shift, p[1] + shift]), array([p[1] * 2.0, p[0] + 1.0]))[: ufunc.nin]) * (1.0 + p)


@every("ufunc", _ufuncs())
def test_every_ufunc(ufunc):
    array = np.array
    if ufunc.__name__ in NOT_ON_OBJECTS:
        with pytest.raises((TypeError, LeaveTapeError)):
            tg.jacobian(lambda p: of_elements(ufunc, p, np.array))(PAIR)
        array = tg.array

    def by_array(p):
        return of_elements(ufunc, p, array)

    expected = tg.jacobian(lambda p: of_elements(ufunc, p, joined))(PAIR)
    step = 1e-6 * np.eye(2)
    differences = np.stack([(of_elements(ufunc, PAIR + e, np.array) - of_elements(ufunc, PAIR - e, np.array)) / 2e-6 for e in step], 1)
    np.testing.assert_allclose(expected, differences, rtol=1e-6, atol=1e-8)
    for derivative in (tg.jacobian, tg.jacfwd, lambda f: tg.jit(tg.jacobian(f)), lambda f: tg.jit(tg.jacobian(f), kernel="always")):
        np.testing.assert_allclose(derivative(by_array)(PAIR), expected, rtol=1e-13)
    np.testing.assert_allclose(tg.jit(by_array)(PAIR), of_elements(ufunc, PAIR, np.array), rtol=1e-14)


def test_every_name_of_a_ufunc_is_a_method():
    x = leaf(0.3)
    missing = {f.__name__ for f in _ufuncs() if not hasattr(x, f.__name__)}
    assert not missing
    for name in ("degrees", "radians", "fabs", "conjugate", "isfinite", "logical_not", "rint", "cbrt"):
        assert math.isclose(getattr(x, name)().item(), getattr(np, name)(0.3), rel_tol=1e-15)
    for name in ("arctan2", "hypot", "fmod", "logical_and", "logical_xor", "maximum", "less"):
        assert math.isclose(getattr(x, name)(0.2).item(), getattr(np, name)(0.3, 0.2), rel_tol=1e-15)


# ---- tg.array ------------------------------------------------------------------------------


NESTED = {
    "numbers": lambda p: [p[0], 1.0, p[1]],
    "two levels": lambda p: [[p[0], 1], [2.0, p[1]]],
    "three levels, tuples": lambda p: (([p[0]], [p[1]]), ([p[2]], [0.0])),
    "vectors": lambda p: [p, P, [1.0, 2.0, p[0]]],
    "an array of objects": lambda p: np.array([[p[0], 1.0], [0.0, p[1]]]),
    "arrays of objects": lambda p: [np.array([p[0], 1.0]), [p[1], 2.0], np.ones(2), p[:2]],
    "one": lambda p: p[0],
    "a vector": lambda p: p,
    "matrices": lambda p: [np.outer(p, p), np.eye(3)],
}


@pytest.mark.parametrize("name", NESTED)
def test_array_takes_any_nesting(name):
    nested = NESTED[name]
    plain = np.array(nested(P))
    found = tg.array(nested(leaf(P)))
    assert isinstance(found, tg.Tensor) and found.shape == plain.shape and found.dtype == plain.dtype
    assert np.array_equal(found.detach().numpy(), plain)
    weights = np.cos(np.arange(plain.size)).reshape(plain.shape)

    def f(p):
        return np.sum(tg.array(nested(p)) ** 2 * weights)

    expected = slopes(lambda p: np.sum(np.array(nested(p)) ** 2 * weights), P)
    for gradient in (tg.grad(f), tg.jacfwd(f), tg.jit(tg.grad(f)), tg.jit(tg.grad(f), kernel="always")):
        np.testing.assert_allclose(gradient(P), expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("data", [1, 2.5, True, [1, 2], [[1.0], [2.0]], (), np.arange(3), np.ones((2, 2), np.float32), [np.ones(2), [1, 2]]], ids=str)
def test_array_of_plain_data_is_numpys(data):
    found, expected = tg.array(data), np.array(data)
    assert type(found) is np.ndarray and found.dtype == expected.dtype and np.array_equal(found, expected)
    assert not np.shares_memory(found, np.asarray(data))


def test_array_copies_and_casts():
    x = leaf(P)
    y = tg.array(x)
    y[0] = 5.0
    assert x[0].item() == P[0] and tg.array([x[0], 1.0], dtype=np.float32).dtype == np.float32
    assert tg.array([1, 2], dtype=float).dtype == float
    assert tg.array([tg.tensor(1), 2]).dtype == int and not tg.array([tg.tensor(1), 2]).requires_grad
    with pytest.raises(ValueError):
        tg.array([[x[0], 1.0], [x[1]]])


def test_single_precision_stays():
    x = leaf(np.array([0.5, 1.5], np.float32))
    single = np.array([[x[0], x[1]], [x[1], x[0]]])
    assert tg.array(single).dtype == np.float32 and (single * x).dtype == np.float32 and (x @ single).dtype == np.float32
    assert tg.array(np.array([x[0], 1.0])).dtype == np.array([np.float32(1), 1.0]).dtype == np.float64
    assert tg.array(np.array([x[0], np.float32(2), True])).dtype == np.float32
    (single @ x).sum().backward()
    assert x.grad.dtype == np.float32 and np.array_equal(x.grad.numpy(), [4.0, 4.0])


# ---- where they meet tensors -----------------------------------------------------------------


def test_one_stack_and_one_reshape():
    text = str(tg.jit(lambda a, u: np.sum(np.array([[a, 1.0], [2.0, a]]) @ u)).tape(0.3, V))
    assert text.count("stack") == 1 and text.count("reshape") == 1


@every("operator", ["add", "sub", "mul", "truediv", "pow", "mod", "floordiv", "matmul", "lt", "ge", "eq", "ne", "and", "or", "xor"])
@every("reflected", [False, True])
def test_operators_beside_a_tensor(operator, reflected):
    function = getattr(operators, operator + "_" if operator in ("and", "or") else operator)
    x, u = leaf(P), leaf(np.array([0.4, 1.1, 0.9]))
    if operator in ("and", "or", "xor"):
        # NumPy has no bits of floats.
        for left in (np.array([x[0], 0.0, x[1]]), joined([x[0], 0.0, x[1]])):
            with pytest.raises(TypeError):
                function(left, u > 0.5) if reflected else function(u > 0.5, left)
        return
    objects, stacked = np.array([x[0] + 2.0, 1.0, x[1] + 2.0]), joined([x[0] + 2.0, 1.0, x[1] + 2.0])
    found, expected = (function(u, o) if reflected else function(o, u) for o in (objects, stacked))
    assert isinstance(found, tg.Tensor) and found.dtype == expected.dtype
    assert np.array_equal(found.detach().numpy(), expected.detach().numpy())
    if found.requires_grad:
        gradients = []
        for result in (found, expected):
            x.grad = u.grad = None
            result.sum().backward()
            gradients.append((x.grad.numpy(), u.grad.numpy()))
        np.testing.assert_array_equal(*gradients)


def test_integers_of_a_recording_beside_objects():
    def f(p, n):
        a = np.array([p[0], p[1], 1.0])
        return np.sum(n * a + a ** n + np.maximum(n, a))

    n = np.array([1, 2, 3])
    expected = slopes(lambda p: f(p, n), P)
    jitted = tg.jit(tg.grad(f))
    for _ in range(2):
        np.testing.assert_allclose(jitted(P, n), expected, rtol=1e-8)
    np.testing.assert_allclose(jitted(P, n + 1), slopes(lambda p: f(p, n + 1), P), rtol=1e-8)
    assert jitted.stats().records == 1


def test_writes_into_an_array_of_objects():
    def f(p, array=np.array):
        a = array([[p[0], 1.0], [0.0, p[1]]])
        a[0, 1] = p[2] * p[0]
        a[1] = p[2]
        a += p[:2]
        a *= array([[p[1]], [2.0]])
        a[0] -= 1.5
        return np.sum(a * a * np.arange(4.0).reshape(2, 2))

    expected = slopes(lambda p: f(p), P)
    for gradient in (tg.grad(f), tg.jacfwd(f), tg.jit(tg.grad(f)), tg.jit(tg.grad(f), kernel="always"), tg.grad(lambda p: f(p, tg.array))):
        np.testing.assert_allclose(gradient(P), expected, rtol=1e-8)


def test_an_element_that_is_changed_is_no_other_number():
    def f(p, array=np.array):
        c = np.cos(p[0])
        a = array([c, c, 2.0])
        b = a.copy()
        a[0] += p[1]
        a[1] *= 3.0
        b[2] -= c
        filled = np.full(2, c)
        filled[0] /= 2.0
        return c * a[0] + a[1] * b[0] + b[2] * filled[1] ** 2 + filled[0]

    assert f(leaf(P)).item() == pytest.approx(f(P), rel=1e-14)
    with tg.no_grad():
        assert f(leaf(P)).item() == pytest.approx(f(P), rel=1e-14)
        held = np.sin(np.array([leaf(0.3), leaf(0.5)]))
        copied = held.copy()
        copied[0] += 1.0
        assert held[0].item() == math.sin(0.3)
    expected = slopes(f, P)
    for gradient in (tg.grad(f), tg.jacfwd(f), tg.jit(tg.grad(f)), tg.jit(tg.grad(f), kernel="always")):
        np.testing.assert_allclose(gradient(P), expected, rtol=1e-8, atol=1e-9)


def test_results_and_arguments_of_differentiated_functions():
    def matrix(a):
        return rotation(np.array, a)

    def by_hand(a):
        return rotation(joined, a)

    expected = tg.jacobian(by_hand)(0.3)
    np.testing.assert_array_equal(expected, [[-np.sin(0.3), -np.cos(0.3)], [np.cos(0.3), -np.sin(0.3)]])
    for jacobian in (tg.jacobian, tg.jacrev, tg.jacfwd, tg.derivative, lambda f: tg.jit(tg.jacobian(f)), lambda f: tg.jit(tg.jacobian(f), kernel="always")):
        np.testing.assert_array_equal(jacobian(matrix)(0.3), expected)
    np.testing.assert_array_equal(tg.jit(matrix)(0.3), matrix(0.3))
    value, pullback = tg.vjp(matrix, 0.3)
    assert value.dtype == float and pullback(np.ones((2, 2)))[0] == np.sum(expected)
    assert tg.jvp(lambda a: {"R": matrix(a), "n": (a, 1.0)}, (0.3,), (2.0,))[1]["R"][0, 0] == 2.0 * expected[0, 0]
    (loss, matrices), slope = tg.value_and_grad(lambda a: (np.sum(matrix(a)), matrix(a)), has_aux=True)(0.3)
    assert matrices.dtype == float and loss == np.sum(matrices) and slope == np.sum(expected)
    cubes = lambda m: np.sum(m ** 3)  # noqa: E731
    for inner in (lambda a: tg.grad(cubes)(matrix(a)), tg.checkpoint(lambda a: 3.0 * matrix(a) ** 2), lambda a: tg.jit(tg.grad(cubes))(matrix(a))):
        np.testing.assert_allclose(tg.jacobian(inner)(0.3), 6.0 * by_hand(0.3) * expected, rtol=1e-13)
    np.testing.assert_allclose(tg.sparse_jacobian(lambda p: np.array([p[0] * p[1], p[2]]))(P).toarray(), [[P[1], P[0], 0], [0, 0, 1]])
    a = leaf(0.3)
    gradient, = tg.autograd.grad(np.sum(matrix(a) @ V), [a], create_graph=True)
    np.testing.assert_allclose(tg.autograd.grad(gradient, [a])[0].item(), -np.sum(by_hand(0.3) @ V), rtol=1e-13)


@pytest.mark.parametrize("make", [lambda f: f, tg.jit], ids=["plain", "jit"])
def test_a_captured_leaf_in_a_result_is_noticed(make):
    other, grads = leaf(2.0), []
    for array in (np.array, joined):
        value, slope = make(tg.value_and_grad(lambda a, array=array: np.sum(array([a, other]) ** 2) * other))(0.3)
        (value + slope).backward()
        grads.append((other.grad.item(), value.item(), slope.item()))
        other.grad = None
    # (a^2 + o^2) o and 2 a o
    np.testing.assert_allclose(grads, [(0.09 + 3 * 4.0 + 0.6, (0.09 + 4.0) * 2.0, 1.2)] * 2, rtol=1e-14)
    with pytest.raises(tg.errors.NestingError):
        tg.sparse_jacobian(lambda a: np.array([a[0], other]))(np.ones(1))


def test_solvers_and_optimisers_take_them():
    def residuals(x):
        return np.array([x[0] - 1.0, 10.0 * (x[1] - x[0] ** 2)])

    start = np.array([-1.0, 2.0])
    np.testing.assert_allclose(tg.optimize.least_squares(residuals, start).x, [1.0, 1.0], rtol=1e-6)
    np.testing.assert_allclose(tg.optimize.root(residuals, start).x, [1.0, 1.0], rtol=1e-6)
    np.testing.assert_allclose(tg.optimize.minimize(lambda x: np.sum(residuals(x) ** 2), start).x, [1.0, 1.0], rtol=1e-4)
    root = tg.grad(lambda a: tg.implicit.root(lambda x, a: np.array([x[0] ** 2 - a, x[1] - x[0]]), np.ones(2), a)[1])(2.0)
    np.testing.assert_allclose(root, 0.5 / math.sqrt(2.0), rtol=1e-8)

    def swing(length, array):
        slope = lambda t, y: array([y[1], -np.sin(y[0]) / length])  # noqa: E731
        return tapegrad.scipy.integrate.solve_ivp(slope, (0.0, 1.0), np.array([0.5, 0.0]), rtol=1e-8, atol=1e-8).y[0, -1]

    found = [tg.grad(lambda length: swing(length, array))(2.0) for array in (np.array, joined)]
    np.testing.assert_allclose(*found, rtol=1e-12)


def test_primitives_use_their_own_rules():
    # The rule gives three times the derivative, so that it is seen whether it was used.
    tripled = tg.custom_vjp(lambda x: x * x, lambda g, result, x: np.array([6.0 * x[0] * g[0], 6.0 * x[1] * g[1]]))

    class Doubled(tg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1.0

        @staticmethod
        def backward(ctx, g):
            return 2.0 * g

    for array in (np.array, joined):
        assert tg.grad(lambda a, array=array: np.sum(tripled(array([a, 2.0]))))(3.0) == 18.0
        assert tg.grad(lambda a, array=array: np.sum(Doubled.apply(array([a, 2.0]))))(3.0) == 2.0
        assert tg.grad(lambda a, array=array: np.sum(tg.stop_gradient(array([a, 2.0])) * a))(3.0) == 5.0
    assert tg.hessian(lambda a: np.sum(tripled(np.array([a, 2.0]))))(3.0) == 6.0
    with pytest.raises(LeaveTapeError, match="argument 0 is a list that holds a tensor"):
        Doubled.apply([np.array([leaf(1.0), 2.0])])
    with pytest.raises(LeaveTapeError, match="keyword argument"):
        tripled(leaf(V), scale=np.array([leaf(1.0), 2.0]))


#: How functions are called, with an array: each takes some of these.
CALLS = [
    lambda f, a: f(a), lambda f, a: f(a, 0), lambda f, a: f(a, (2, 2)), lambda f, a: f(a, 0.5), lambda f, a: f(a, a), lambda f, a: f(a, 1, 0),
    lambda f, a: f(a, 0.1, 0.9), lambda f, a: f([a, a]), lambda f, a: f(1.0, a), lambda f, a: f([[True, False]], a, a),
]  # fmt: skip


@every("name", sorted(set(functions.__all__) - {"astype"}))
def test_functions_of_the_namespace(name):
    x, function, served = leaf(np.array([0.3, 0.6, 0.2])), getattr(tg, name), 0
    objects = np.array([[x[0], 0.5], [x[1], x[2]]])
    for call in CALLS[:4] if name == "ravel" else CALLS:
        with np.errstate(all="ignore"):
            try:
                expected = call(function, tg.array(objects))
            except Exception:  # not what this function takes
                continue
            found = call(function, objects)
        served += 1
        for one, other in zip(numbers(found), numbers(expected), strict=True):
            np.testing.assert_array_equal(one, other)
        assert getattr(found, "requires_grad", None) == getattr(expected, "requires_grad", None)
    assert served


def test_results_and_tensors_of_objects_have_float_dtypes():
    objects = np.array([leaf(2.0), 1.0])
    for make in (tg.zeros_like, tg.ones_like, tg.randn_like, lambda a: tg.full_like(a, 2.0)):
        assert make(objects).dtype == float and make(objects).shape == (2,)
    assert tg.full_like(np.ones(2), objects).requires_grad
    t = tg.tensor([1.0, 2.0])
    for refuse in (lambda: tg.from_numpy(objects), lambda: setattr(t, "data", np.array([1.0, None]))):
        with pytest.raises(DtypeError):
            refuse()
    assert t.dtype == float
    nested = tg.grad(lambda a: np.sum(a ** 3))(objects)
    np.testing.assert_array_equal(nested.detach().numpy(), [12.0, 3.0])
    assert nested.requires_grad


def test_no_grad_and_constants():
    x = leaf(P)
    with tg.no_grad():
        found = np.array([x[0], 2.0]) * x[:2]
    assert not found.requires_grad and np.array_equal(np.asarray(found), [P[0] ** 2, 2.0 * P[1]])
    assert np.array([tg.tensor(1.0), 2.0]).dtype == float
