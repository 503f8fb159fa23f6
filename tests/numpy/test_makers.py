"""What makes arrays in `tapegrad.numpy`: plain arrays outside of a differentiation, and tensors that can be filled in every mode inside of one."""

import threading

import numpy
import pytest

import tapegrad as tg
import tapegrad.numpy as np
from tests.rules.checker import plain
from tests.transforms.replay.agreement import Pair, replays_only

P = numpy.array([0.3, -0.7, 1.2])
M = numpy.array([[0.5, -0.2, 0.3], [1.5, 0.1, -0.4], [0.2, 0.9, 0.6]])


def filled(p):
    a = np.zeros(3)
    a[0] = p[0] * p[1]
    a[1] = 2.0
    a[2] = np.sin(p[2])
    return np.sum(a**3)


def added(p):
    a = np.ones((2, 3))
    a[0] += p
    a[1, 1:] *= p[:2]
    a *= p[0]
    return np.sum(a * M[:2])


def accumulated(p):
    total = np.zeros(())
    for k in range(3):
        total += p[k] * p[k - 1]
    return total * total


def of_no_axes(p):
    a, b = np.zeros(()), np.array(2.0)
    a[()] = p[0] * p[1]
    b[...] = a * p[2]
    a[...] = 3.0
    c = np.full_like(M, p)
    c[0] = a * b
    return np.sum(c * M) + a * b


def rotated(p):
    r = np.eye(3)
    c, s = np.cos(p[0]), np.sin(p[0])
    r[0, 0] = r[1, 1] = c
    r[0, 1], r[1, 0] = -s, s
    return np.sum((r @ p) ** 2 * P)


def recurrence(p):
    y = np.empty(6)
    y[0] = p[0]
    for k in range(5):
        y[k + 1] = y[k] * p[1] + np.tanh(p[2] * k)
    return np.sum(y * y)


def slices(p):
    a = np.array([1.0, 2.0, 3.0, 4.0])
    a[1:3] = p[:2]
    a[::-3] = p[2]
    a[np.array([False, True, False, False])] = p[0] * p[2]
    a[np.array([0, 2])] *= 2.0
    return np.sum(a * a * np.arange(1.0, 5.0))


def like(p):
    a, b, c = np.zeros_like(p), np.ones_like(M), np.full_like(P, 3.0)
    a[1], b[2], c[:2] = p[0], p, p[1] * p[2]
    return np.sum(a * c) + np.sum(b @ c)


def diagonals(p):
    a = np.diag(np.ones(2), 1)
    np.fill_diagonal(a, p)
    b = np.tri(3)
    b[1] = p * p
    return np.linalg.det(a + b)


def ranges(p):
    a, b = np.linspace(0.0, 1.0, 3), np.arange(3.0)
    a[1], b[0] = p[0], p[1]
    c = np.full((2, 3), p)
    c[0, 0] = p[2] * p[0]
    return np.sum(a * b * c)


def unfilled(p):
    return np.sum(np.zeros(3) + np.ones(3) * p) + np.sum(np.exp(np.linspace(0.0, 1.0, 3)) * p * p)


def copied(p):
    a = np.copy(P)
    a[0] = p[2] ** 2
    b = np.array(a)
    b[1] = p[0]
    c = np.asarray(b)
    c[2] = p[1]
    return np.sum(a * b * p)


def numpy_methods(p):
    a = np.zeros((3, 3))
    a[np.triu_indices(3)] = np.concatenate([p, p * p])
    a = a + a.T
    a.fill(0.5 * p[0]) if a.shape[0] > 3 else None
    w = a[:, 1]
    w[0] = p[2]
    return np.sum(np.tril(a) * M) + np.max(a)


FUNCTIONS = [filled, added, accumulated, of_no_axes, rotated, recurrence, slices, like, diagonals, ranges, unfilled, copied, numpy_methods]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_in_every_mode(function):
    """By a tape, dual numbers, replays, kernels, and second derivatives in each nesting."""
    assert isinstance(function(P), (float, numpy.floating, numpy.ndarray))
    assert tg.check(function, P, order=2).passed


@pytest.mark.parametrize("kernel", ["always", "never"])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_each_replay_fills_an_array_of_its_own(function, kernel):
    pair = Pair(function, kernel=kernel)
    for k in range(5):
        pair.check(P * (1.0 + 0.1 * k))
    assert replays_only(pair) and pair.calls == 1


@pytest.mark.parametrize("function", FUNCTIONS)
def test_jacobians_and_hessians(function):
    gradient, step = tg.grad(function)(P), 1e-5
    numpy.testing.assert_allclose(gradient, [(function(P + d) - function(P - d)) / (2 * step) for d in step * numpy.eye(3)], rtol=1e-5, atol=1e-7)
    numpy.testing.assert_allclose(tg.jacfwd(function)(P), gradient, rtol=1e-10, atol=1e-12)
    numpy.testing.assert_allclose(tg.jacobian(function)(P), gradient, rtol=1e-10, atol=1e-12)
    numpy.testing.assert_allclose(tg.jit(tg.jacfwd(function))(P), gradient, rtol=1e-10, atol=1e-12)
    hessian = tg.hessian(function)(P)
    numpy.testing.assert_allclose(hessian, tg.jacfwd(tg.grad(function))(P), rtol=1e-9, atol=1e-11)
    numpy.testing.assert_allclose(hessian, tg.jit(tg.hessian(function))(P), rtol=1e-9, atol=1e-11)
    x = tg.tensor(P, requires_grad=True)
    with tg.Tape():
        function(x).backward()
    numpy.testing.assert_allclose(plain(x.grad), gradient, rtol=1e-10, atol=1e-12)


MAKERS = {
    "zeros": lambda: np.zeros(3), "ones": lambda: np.ones((2, 2), "f"), "empty": lambda: np.empty(2), "full": lambda: np.full(3, 2.0), "eye": lambda: np.eye(2), "identity": lambda: np.identity(2),
    "tri": lambda: np.tri(2), "arange": lambda: np.arange(2.0), "linspace": lambda: np.linspace(0, 1, 3), "logspace": lambda: np.logspace(0, 1, 3), "geomspace": lambda: np.geomspace(1, 2, 3),
    "array": lambda: np.array([1.0, 2.0]), "asarray": lambda: np.asarray([1.0, 2.0]), "copy": lambda: np.copy([1.0]), "zeros_like": lambda: np.zeros_like([1.0]), "ones_like": lambda: np.ones_like(P),
    "empty_like": lambda: np.empty_like(P), "full_like": lambda: np.full_like(P, 1.0), "diag": lambda: np.diag([1.0]), "diagflat": lambda: np.diagflat([1.0]), "vander": lambda: np.vander([1.0, 2.0]),
    "fromiter": lambda: np.fromiter([1.0], float), "r_": lambda: np.r_[1.0, 2.0], "c_": lambda: np.c_[[1.0], [2.0]], "number": lambda: np.array(1.0),
}  # fmt: skip
#: These stay NumPy's: no derivative could be put into them, or somebody else has the memory.
NUMPYS = {
    "integers": lambda: np.zeros(3, int), "arange": lambda: np.arange(3), "booleans": lambda: np.ones(3, bool), "half": lambda: np.zeros(2, "e"),
    "bytes swapped": lambda: np.zeros(2, ">f8"), "objects": lambda: np.array([None]), "the same": lambda: np.asarray(P), "a view": lambda: np.array(P[1:], copy=False), "read-only": lambda: np.diag(M),
    "random": lambda: np.random.randn(3), "a number": lambda: np.pi, "text": lambda: np.array(["a"]),
}  # fmt: skip


@pytest.mark.parametrize("name", MAKERS)
def test_fillable_only_while_differentiating(name):
    made = []

    def f(x):
        made.append(MAKERS[name]())
        return np.sum(x * x)

    runs = [
        lambda: tg.grad(f)(P), lambda: tg.value_and_grad(f)(P), lambda: tg.jit(f)(P), lambda: tg.jit(tg.grad(f))(P), lambda: tg.jacobian(f)(P), lambda: tg.jacfwd(f)(P),
        lambda: tg.derivative(f)(1.0), lambda: tg.jvp(f, (P,), (P,)), lambda: tg.vjp(f, P), lambda: tg.hessian(f)(P), lambda: tg.linearize(f, P), lambda: tg.hvp(f)(P, P),
        lambda: tg.grad(lambda x: tg.grad(f)(x)[0])(P), lambda: tg.checkpoint(f)(tg.tensor(P, requires_grad=True)),
    ]  # fmt: skip
    for run in runs:
        made.clear()
        run()
        assert all(isinstance(a, tg.Differentiable) and not a.requires_grad for a in made)
        assert type(MAKERS[name]()) is numpy.ndarray
    with tg.Tape():
        inside = MAKERS[name]()
        with tg.no_grad():
            assert isinstance(MAKERS[name](), tg.Tensor)
    assert isinstance(inside, tg.Tensor) and type(MAKERS[name]()) is numpy.ndarray
    if not name.startswith("empty"):
        expected = MAKERS[name]()
        assert inside.dtype == expected.dtype and numpy.asarray(inside).tobytes() == expected.tobytes()


@pytest.mark.parametrize("name", NUMPYS)
def test_what_stays_numpys(name):
    with tg.Tape():
        made = NUMPYS[name]()
    assert not isinstance(made, tg.Differentiable) and type(made) is type(NUMPYS[name]())
    assert name != "the same" or made is P


def test_another_thread_is_not_differentiating():
    kinds = []

    def f(x):
        thread = threading.Thread(target=lambda: kinds.append(type(np.zeros(2))))
        thread.start()
        thread.join()
        kinds.append(type(np.zeros(2)))
        return np.sum(x)

    tg.grad(f)(P)
    assert kinds == [numpy.ndarray, tg.Tensor]


def test_an_error_ends_the_differentiation():
    def fails(x):
        raise KeyError("own")

    for transformation in (tg.grad, tg.jacfwd, tg.hessian, lambda f: tg.jit(tg.grad(f))):
        with pytest.raises(KeyError, match="own"):
            transformation(fails)(P)
        assert type(np.zeros(2)) is numpy.ndarray


def test_a_constant_that_is_left_is_harmless():
    left = []

    def f(x):
        c = np.linspace(0.0, 1.0, 3)
        left.append(c)
        return np.sum(c * x)

    numpy.testing.assert_array_equal(tg.grad(f)(P), [0.0, 0.5, 1.0])
    (c,) = left
    assert float(np.sum(c)) == 1.5 and numpy.asarray(c).tolist() == [0.0, 0.5, 1.0] and f"{c[1]:.2f}" == "0.50"
    c[0] = 5.0
    for transformation in (tg.grad, tg.jacfwd, lambda f: tg.jit(tg.grad(f))):
        numpy.testing.assert_array_equal(transformation(lambda x: np.sum(c * x))(P), [5.0, 0.5, 1.0])
    g = tg.jit(tg.grad(lambda x: np.sum(c * x)))
    g(P)
    c[1] = 7.0
    numpy.testing.assert_array_equal(g(P), [5.0, 7.0, 1.0])


def test_a_filled_array_that_is_left_says_so():
    left = []

    def f(x):
        a = np.zeros(2)
        a[0] = x[0]
        left.append(a)
        return np.sum(a)

    tg.grad(f)(P)
    assert numpy.asarray(left[0].detach())[0] == P[0]
    with pytest.raises(tg.errors.TapegradError):
        np.sum(left[0] * 2.0).backward()


def test_results_are_plain_arrays():
    def f(x):
        a = np.zeros(2)
        a[0] = x[0]
        return np.sum(a), (np.ones(2), np.zeros(()))

    for run in (tg.value_and_grad(f, has_aux=True), tg.jit(tg.value_and_grad(f, has_aux=True))):
        for _ in range(3):
            (_, (ones, zero)), _ = run(P)
            assert type(ones) is numpy.ndarray and not isinstance(zero, tg.Tensor)
            assert ones.tolist() == [1.0, 1.0]
            ones[:] = 7.0  # the next call has another
    constant = tg.jit(lambda x: np.zeros(3))
    first = constant(P)
    first[0] = 5.0
    assert constant(P).tolist() == [0.0, 0.0, 0.0]
    assert tg.jacfwd(lambda x: np.zeros(2))(P).tolist() == [[0.0] * 3] * 2


def test_define_by_run_outside_of_a_tape_says_what_to_write():
    x = tg.tensor(P, requires_grad=True)
    a = np.zeros(3)
    with pytest.raises(ValueError, match="setting an array element") as raised:
        a[0] = x[0]
    assert "a = tg.zeros(shape)" in str(raised.value.__cause__)


def test_a_number_takes_only_the_index_of_a_number():
    def f(x):
        a = np.zeros(())
        with pytest.raises(IndexError, match="array is 0-dimensional"):
            a[0] = x[0]
        with pytest.raises(ValueError, match="broadcast"):
            a[()] = x
        return np.sum(x * a)

    assert tg.grad(f)(P).tolist() == [0.0] * 3


def test_user_primitives_fill_too():
    @tg.primitive
    def squares(x):
        out = np.zeros(3)
        out[0], out[1:] = x[0] ** 2, x[1:]
        return out

    @squares.defvjp
    def _(g, result, x):
        out = np.ones(3)
        out[0] = 2.0 * x[0]
        return g * out

    f = lambda x: np.sum(squares(x) * P)
    expected = P * [2.0 * P[0], 1.0, 1.0]
    numpy.testing.assert_allclose(tg.grad(f)(P), expected)
    g = tg.jit(tg.grad(f))
    for _ in range(3):
        numpy.testing.assert_allclose(g(P), expected)


def test_in_solvers():
    from tapegrad.scipy.integrate import solve_ivp

    def end(k):
        def slope(t, y):
            d = np.zeros(2)
            d[0], d[1] = y[1], -k * y[0]
            return d

        return solve_ivp(slope, (0.0, 1.0), np.array([1.0, 0.0]), t_eval=np.linspace(0.0, 1.0, 3), rtol=1e-8, atol=1e-10).y[0, -1]

    expected = -numpy.sin(numpy.sqrt(2.0)) / (2.0 * numpy.sqrt(2.0))
    for d in (tg.grad(end), tg.derivative(end), tg.jit(tg.grad(end))):
        numpy.testing.assert_allclose(d(2.0), expected, rtol=1e-6)

    def objective(p):
        r = np.zeros(3)
        r[:] = p - P
        return np.sum(r * r)

    numpy.testing.assert_allclose(tg.optimize.minimize(objective, numpy.zeros(3)).x, P, atol=1e-6)


def test_shapes_of_live_integers():
    def f(x, n):
        a = np.zeros((n, 2))
        a[n - 1] = x[:2]
        return np.sum(a * a) + np.sum(np.reshape(x * x, (n - 1, -1)))

    for g in (tg.grad(f), tg.jit(tg.grad(f))):
        for n in (2, 4, 2):
            numpy.testing.assert_allclose(g(P, n), 2.0 * P * [2.0, 2.0, 1.0])


def test_the_class_of_arrays():
    def f(x):
        a, b = np.ndarray((2, 3)), np.ndarray(shape=6, dtype="f8")
        a[0], a[1], b[:], b[2] = x, x[::-1] * 2.0, 1.0, x[0] * x[1]
        b.shape = 3, 2
        labels = np.ndarray(2, int)
        labels[:] = 1, 2
        return np.sum((a @ b) * labels)

    slope = [(f(P + h) - f(P - h)) / 2e-6 for h in 1e-6 * numpy.eye(3)]
    for gradient in (tg.grad(f), tg.jit(tg.grad(f)), tg.jacfwd(f), tg.jacrev(f)):
        numpy.testing.assert_allclose(gradient(P), slope, atol=1e-6)
    numpy.testing.assert_allclose(tg.jit(tg.value_and_grad(f))(P[::-1])[0], f(P[::-1]))
    plain, of_memory = numpy.ones(3), np.ndarray((2,), float, P)
    assert isinstance(plain, np.ndarray) and not isinstance(1.0, np.ndarray) and issubclass(numpy.ndarray, np.ndarray)
    assert type(plain) == np.ndarray  # noqa: E721
    assert {numpy.ndarray: 1}[np.ndarray] == 1 and type(np.ndarray(2)) is numpy.ndarray
    assert tg.grad(lambda x: np.sum(x * np.ndarray((3,), float, P)))(P).tolist() == P.tolist() and numpy.shares_memory(of_memory, P)

    class Own(np.ndarray):
        pass

    assert type(Own((2,))) is Own and isinstance(Own(2), np.ndarray) and not isinstance(plain, Own)


def test_the_shape_is_set():
    def f(x):
        a, y, truths = np.zeros(4), x[:2] * 2.0, x > 0.5
        a[0] = x[0]
        a.shape = 2, 2
        a[1, 1], y.shape, truths.shape = x[1] ** 2, (2, 1), (3, 1)
        y[0, 0] *= x[1]
        return np.sum(a @ y) + np.sum(truths * x)

    for x in (P, P[::-1].copy(), 2.0 - P):
        slope = [(f(x + h) - f(x - h)) / 2e-6 for h in 1e-6 * numpy.eye(3)]
        for gradient in (tg.grad(f), tg.jit(tg.grad(f)), tg.jacfwd(f)):
            numpy.testing.assert_allclose(gradient(x), slope, atol=1e-6)

    def of_argument(x):
        x.shape = 3, 1
        return np.sum(x)

    def of_view(x):
        y = x * 2.0
        z = y[:2]
        z.shape = 2, 1
        return np.sum(z)

    for refused in (of_argument, of_view):
        with pytest.raises(tg.errors.GradientError):
            tg.grad(refused)(P)
    with pytest.raises(tg.errors.GradientError, match="reshape"):
        tg.tensor(P, requires_grad=True).shape = 3, 1
