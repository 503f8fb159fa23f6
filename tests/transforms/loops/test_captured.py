"""What a body takes from outside: numbers, arrays, tensors, containers, objects, by any way that Python has; with derivatives."""

import functools
from functools import partial

import numpy as np
import pytest

import tapegrad as tg
from tests.counting import calls_of
from tests.every import every, pairs
from tests.transforms.loops import plainly

XS = np.array([0.5, -1.0, 2.0, 0.25])
TABLE = np.linspace(0.1, 0.9, 4)


class Model:
    def __init__(self, weight):
        self.weight = weight
        self.parts = {"bias": weight * 2.0}

    def step(self, y, x):
        return np.sin(y * self.weight) + self.parts["bias"] * x, y

    def __call__(self, y, x):
        return self.step(y, x)


def by_default(ops, t):
    def body(y, x, scale=t, shift=t * t):
        return y * scale + shift * x, y

    return ops.scan(body, 0.3, XS)


def by_two_functions(ops, t):
    inner = lambda y: y * t
    outer = lambda y, x: inner(inner(y)) + x
    return ops.scan(lambda y, x: (outer(y, x), inner(x)), t, XS)


def by_partial(ops, t):
    return ops.scan(functools.partial(lambda scale, y, x: (y * scale + x, scale * y), t), 0.3, XS)


def number_and_array_beside_tensor(ops, t):
    number, array = 1.7, np.arange(3.0)
    return ops.scan(lambda y, x: (np.sum(array * y) * 0.1 + number * x * t, array * y), t, XS)


def captured_twice_and_by_the_carry(ops, t):
    u = np.sin(t)
    return ops.scan(lambda c, x: ((c[0] * u + t, c[1] * x + u), u), (u, t), XS)


def captured_by_condition_and_body(ops, t):
    limit, rate = t * 8.0, 1.0 + t
    return ops.while_loop(lambda y: y < limit, lambda y: y * rate, t)


def captured_by_branches(ops, t):
    u, v = np.sin(t), np.cos(t)
    return ops.cond(t > 0.5, lambda y: y * u, lambda y: y * v, t), ops.switch(1, [lambda: u, lambda: v, lambda: t])


def index_of_a_captured_array(ops, t):
    array = t * TABLE
    return ops.fori_loop(0, 4, lambda i, y: y * 0.5 + array[i] * TABLE[i], 0.1)


def by_two_levels(ops, t):
    u = t * t

    def outer(c, x):
        v = c * u
        inner, _ = ops.scan(lambda d, z: (d * t + v * z + u, None), v, XS)
        return inner * 0.1 + x, v

    return ops.scan(outer, t, XS)


def created_in_the_body(ops, t):
    return ops.scan(lambda c, x: (c + np.sum(np.ones(2) * t) * x, np.zeros(3) + c), np.zeros(3), XS)


FUNCTIONS = (
    by_default, by_two_functions, by_partial, number_and_array_beside_tensor, captured_twice_and_by_the_carry, captured_by_condition_and_body,
    captured_by_branches, index_of_a_captured_array, by_two_levels, created_in_the_body,
    lambda ops, t: ops.scan(Model(t).step, 0.3, XS), lambda ops, t: ops.scan(Model(t), 0.3, XS),
)  # fmt: skip


def summed(thing):
    return sum((k + 1.0) * np.sum(leaf) for k, leaf in enumerate(plainly.leaves_of(thing)))


@pytest.mark.parametrize("function", FUNCTIONS, ids=[*(f.__name__ for f in FUNCTIONS[:-2]), "method", "object"])
def test_captured(function):
    f, plain = (lambda t, ops=ops: summed(function(ops, t)) for ops in (tg, plainly))
    recorded = [tg.jit(tg.value_and_grad(f), kernel=kernel) for kernel in ("never", "always")]
    for t in (0.7, 0.4, 0.7):
        slope = tg.grad(plain)(t)
        assert slope == pytest.approx((plain(t + 1e-6) - plain(t - 1e-6)) / 2e-6, rel=1e-6)
        assert tg.grad(f)(t) == pytest.approx(slope, rel=1e-12) and tg.derivative(f)(t) == pytest.approx(slope, rel=1e-12)
        for g in recorded:
            assert g(t) == (pytest.approx(plain(t), rel=1e-12), pytest.approx(slope, rel=1e-12))


def test_leaves_that_only_the_body_knows():
    weight = tg.tensor([0.3, -0.7], requires_grad=True)
    bias = tg.tensor(0.2, requires_grad=True)
    h, ys = tg.scan(lambda h, x: (np.tanh(weight * x + h + bias), h[0]), np.zeros(2), XS)
    (np.sum(h) + np.sum(ys)).backward()

    def plain(w, b):
        h, ys = plainly.scan(lambda h, x: (np.tanh(w * x + h + b), h[0]), np.zeros(2), XS)
        return np.sum(h) + np.sum(ys)

    expected = tg.grad(plain, (0, 1))(weight.detach().numpy(), 0.2)
    np.testing.assert_allclose(weight.grad.numpy(), expected[0], rtol=1e-12)
    assert bias.grad.item() == pytest.approx(expected[1], rel=1e-12)


def test_captured_dual_numbers():
    """Of a derivative around: by themselves, beside what is differentiated, and of two levels."""

    def looped(ops, a, b):
        return ops.scan(lambda y, x: (np.sin(y) * a + b * x, None), 0.5, XS)[0]

    for ops in (tg, plainly):
        one, two = tg.Dual(0.8, 1.0), tg.Dual(tg.Dual(0.8, 1.0, level=1), 1.0, level=2)
        found = [looped(ops, one, 0.3), tg.grad(lambda b: looped(ops, one, b))(0.3), looped(ops, two, 0.3), tg.jvp(lambda b: looped(ops, one, b), (0.3,), (1.0,))[1]]
        numbers = [found[0].tangent, found[1].value, found[1].tangent, found[2].tangent.tangent, found[3].tangent]
        if ops is tg:
            expected = numbers
    np.testing.assert_allclose(expected, numbers, rtol=1e-12)
    slopes = [tg.grad(lambda b: looped(plainly, a, b))(0.3) for a in (0.8 - 1e-5, 0.8 + 1e-5)]
    np.testing.assert_allclose(numbers[2], (slopes[1] - slopes[0]) / 2e-5, rtol=1e-6)


def test_a_captured_array_that_changes_between_calls_is_read_anew():
    array = np.array([1.0, 2.0])
    f = lambda t: np.sum(tg.scan(lambda y, x: (y * array + t * x, None), t * np.ones(2), XS)[0])
    plain = lambda t: np.sum(plainly.scan(lambda y, x: (y * array + t * x, None), t * np.ones(2), XS)[0])
    for value in (1.0, 0.5, 2.0):
        array[0] = value
        assert tg.grad(f)(0.3) == pytest.approx(tg.grad(plain)(0.3), rel=1e-12)
        assert tg.derivative(f)(0.3) == pytest.approx(tg.grad(plain)(0.3), rel=1e-12)


def test_data_and_what_is_differentiated_change_from_call_to_call():
    def f(t, xs, scale):
        return tg.scan(lambda y, x: (y * t + x * scale, None), t, xs)[0]

    g = tg.jit(tg.grad(f))
    plain = tg.grad(lambda t, xs, scale: plainly.scan(lambda y, x: (y * t + x * scale, None), t, xs)[0])
    for k in range(5):
        arguments = 0.3 + 0.1 * k, XS * (k + 1.0), 0.5 - k
        assert g(*arguments) == pytest.approx(plain(*arguments), rel=1e-12)
    assert g.stats().records == 1


def test_what_has_no_derivative_gets_none():
    def f(t, u):
        kept = tg.stop_gradient(t)
        return tg.scan(lambda y, x: (y * kept + x * u, None), u, XS)[0]

    dt, du = tg.grad(f, (0, 1))(0.7, 0.4)
    assert dt == 0.0
    assert du == pytest.approx(tg.grad(lambda u: plainly.scan(lambda y, x: (y * 0.7 + x * u, None), u, XS)[0])(0.4), rel=1e-12)
    x = tg.tensor(0.7, requires_grad=True)
    with tg.no_grad():
        value, _ = tg.scan(lambda y, e: (y * x + e, None), x, XS)
    assert not value.requires_grad
    assert value.detach().numpy() == pytest.approx(plainly.scan(lambda y, e: (y * 0.7 + e, None), 0.7, XS)[0], rel=1e-14)


def _through_a_view(a, c):
    b = a[None, :]
    b *= np.sin(c)
    a[0] += 0.3
    return np.sum(a) + 0.5 * np.sum(b)


def _an_element(a, c):
    a[1] = c * a[0]
    return np.sum(a * a)


def _all_of_it(a, c):
    a *= c
    return np.sum(np.sin(a))


def _before_and_after(a, c):
    first = np.sum(a) * c
    a[...] = a * c + a[::-1]
    return np.sum(a) * first


def _by_positions(a, c):
    a[[2, 0]] = [c, 2.0 * c]
    return np.sum(a * a)


CHANGES = [_through_a_view, _an_element, _all_of_it, _before_and_after, _by_positions]
BODIES = {
    "while": lambda iteration, x: tg.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, iteration(s[1])), (0, x * 1.0))[1],
    "fori": lambda iteration, x: tg.fori_loop(0, 2, lambda i, c: iteration(c) * 0.5, x * 1.0),
    "scan": lambda iteration, x: np.sum(tg.scan(lambda c, u: (iteration(c) * u, c * u), x * 1.0, np.array([0.5, 0.7]))[1]),
    "map": lambda iteration, x: np.sum(tg.map(iteration, np.stack([x, x * x]))),
    "python": lambda iteration, x: iteration(x) + iteration(x * x) + iteration(1.0 - x),
    "vmap": lambda iteration, x: np.sum(tg.vmap(iteration)(np.stack([x, x * x, 1.0 - x]))),
}


FIRST = {"grad": tg.grad, "jit of grad": lambda f: tg.jit(tg.grad(f)), "jacfwd": tg.jacfwd}
SECOND = {
    "grad of grad": lambda f: tg.grad(tg.grad(f)), "jit of grad of grad": lambda f: tg.jit(tg.grad(tg.grad(f))),
    "jacfwd of grad": lambda f: tg.jacfwd(tg.grad(f)), "hessian": tg.hessian,
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::tapegrad.errors.PerformanceWarning")
@every("loop, change, first, other, second", pairs([name for name in BODIES if name != "python"], CHANGES, FIRST, FIRST, SECOND))
def test_an_array_that_does_not_depend_on_the_carry_is_changed_in_the_body(loop, change, first, other, second):
    def f(x, loop=loop):
        p = np.stack([x, 0.5 * x, x * x])
        return BODIES[loop](lambda c: np.tanh(change(p * 1.0, c)), x)

    # (On plain numbers `vmap` hands the body tensors beside plain arrays.)
    plain, x, size = partial(f, loop=loop if loop != "vmap" else "python"), 0.465, 1e-5
    for name in {first, other}:
        np.testing.assert_allclose(FIRST[name](f)(x), (plain(x + size) - plain(x - size)) / (2 * size), rtol=1e-6, atol=1e-9, err_msg=name)
    expected = (plain(x + size) - 2 * plain(x) + plain(x - size)) / size**2
    np.testing.assert_allclose(SECOND[second](f)(x), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.filterwarnings("ignore::tapegrad.errors.PerformanceWarning")
@every("loop, change", pairs([name for name in BODIES if name != "python"], CHANGES))
def test_an_array_from_outside_is_changed_in_each_iteration(loop, change):
    """Under `jit`, which looks at nothing else, a body that does it is not recorded."""

    def f(x, loop=loop):
        p = np.stack([x, 0.5 * x, x * x])
        return BODIES[loop](lambda c: np.tanh(change(p, c)), x)

    plain, x, size = partial(f, loop=loop if loop != "vmap" else "python"), 0.465, 1e-5
    assert tg.jit(f)(x) == pytest.approx(plain(x), rel=1e-12)
    slope = (plain(x + size) - plain(x - size)) / (2 * size)
    for transformed in (tg.grad(f), tg.jacfwd(f)):
        np.testing.assert_allclose(tg.jit(transformed)(x), slope, rtol=1e-6, atol=1e-9)
    curvature = (plain(x + size) - 2 * plain(x) + plain(x - size)) / size**2
    np.testing.assert_allclose(tg.jit(tg.hessian(f))(x), curvature, rtol=1e-4, atol=1e-4)


@every("wrapped", [lambda f: f, tg.jit])
def test_what_is_constant_is_changed_in_each_iteration(wrapped):
    def f(x, loop):
        with tg.no_grad():
            p = 2.0 * x

        def body(k, c):
            with tg.no_grad():
                p.add_(0.1 * c)
            return c * np.sum(p)

        return loop(0, 3, body, x[0])

    x = np.array([0.5, -1.2, 0.8])
    found, expected = (wrapped(tg.value_and_grad(lambda x, loop=loop: f(x, loop)))(x) for loop in (tg.fori_loop, plainly.fori_loop))
    np.testing.assert_allclose(np.hstack(found), np.hstack(expected), rtol=1e-13)


def _filled(buffer, view, k, c):
    buffer[k] = c
    return c + np.sum(buffer * buffer[0])


def _by_a_view(buffer, view, k, c):
    view[0] += c
    return c * np.sum(buffer) + view[1] + buffer[1]


def _counted(buffer, view, k, c):
    buffer.add_(1.0)
    return c * np.sum(view) + k


def _anew(buffer, view, k, c):
    buffer.data = np.full(3, k)
    return c * buffer[0] + buffer[1]


def _its_own(buffer, view, k, c):
    own = tg.zeros(3)
    own[k], part = c, own[1:]
    part += buffer[0] + 1.0
    return np.sum(own * own)


@every("wrapped", [lambda f: f, tg.jit])
@every("change", [_filled, _by_a_view, _counted, _anew, _its_own])
def test_a_constant_of_ours_from_outside_is_changed_in_each_iteration(wrapped, change):
    def f(x, loop):
        buffer = tg.zeros(3)
        view = buffer[1:] if change is not _anew else np.zeros(2)
        return loop(0, 3, lambda k, c: np.tanh(change(buffer, view, k, c)), x) * np.sum(view + 1.0)

    found, expected = (wrapped(tg.value_and_grad(lambda x, loop=loop: f(x, loop)))(0.465) for loop in (tg.fori_loop, plainly.fori_loop))
    np.testing.assert_allclose(found, expected, rtol=1e-13)


def test_an_array_of_the_body_itself_does_not_make_it_a_python_loop():
    def f(x):
        return tg.fori_loop(0, 1000, lambda k, c: np.tanh(_its_own(tg.zeros(3), None, 1, c)), x)

    assert len(tg.jit(tg.grad(f)).tape(0.465)) < 20


def test_a_captured_array_without_elements_leaves_the_next_one_its_adjoint():
    k = np.array([1.0, 2.0, 3.0])

    def body(x, u):
        c, _ = tg.scan(lambda c, row: (0.5 * c, x[:0] * c), u * np.sum(x), np.zeros(0))
        return c * np.sum(x * x)

    for x in (np.array([-0.26]), np.array([0.4, 1.3])):
        for function in (lambda x: np.sum(tg.vmap(lambda u: body(x, u))(k)), lambda x: np.sum(tg.map(lambda u: body(x, u), k))):  # fmt: skip
            expected = 6.0 * (np.sum(x * x) + 2.0 * x * np.sum(x))
            for transformed in (tg.grad(function), tg.jit(tg.grad(function)), tg.jacfwd(function)):
                assert np.allclose(transformed(x), expected, rtol=1e-13)


def damped(y, rate):
    return y * np.cos(rate * y) + 0.01 * rate


def test_in_forward_mode_a_body_is_recorded_with_dual_numbers_from_outside():
    def f(t):
        rates = np.array([t, 2.0]) * t
        return tg.fori_loop(0, 50, lambda i, y: damped(y, rates[0] + rates[1] * 0.1), 1.0)

    by_python = tg.jvp(lambda t: functools.reduce(lambda y, _: damped(y, t * t + 0.2 * t), range(50), 1.0), (0.7,), (1.0,))
    for derivative in (lambda: tg.jvp(f, (0.7,), (1.0,)), lambda: (f(0.7), tg.jacfwd(f)(0.7)), lambda: (f(0.7), tg.jvp(lambda t: tg.jvp(f, (t,), (1.0,))[0], (0.7,), (1.0,))[1])):
        np.testing.assert_allclose(derivative(), by_python, rtol=1e-13)
    # Of plain numbers it is tried first.
    assert calls_of(damped, lambda: tg.jvp(f, (0.7,), (1.0,))) == 2
    slope = lambda t: tg.jvp(f, (t,), (1.0,))[1]
    np.testing.assert_allclose(tg.jvp(slope, (0.7,), (1.0,))[1], tg.grad(tg.grad(f))(0.7), rtol=1e-12)
    np.testing.assert_allclose(tg.grad(slope)(0.7), tg.grad(tg.grad(f))(0.7), rtol=1e-12)


def test_in_forward_mode_a_body_that_writes_to_dual_numbers_from_outside_is_the_python_loop():
    def f(t):
        y = np.ones(3) * t
        def body(c, x):
            y[1] = x * c
            return c + np.sum(y), None
        return tg.scan(body, 0.3, XS)[0] + y[1] if t < 1.0 else tg.scan(lambda c, x: (c + np.sum(put(y * 1.0, x)), None), 0.3, XS)[0]

    def put(z, x):
        z[0] = x
        return z

    with pytest.raises(tg.errors.ModifiedInPlaceError, match="'y'"):
        tg.jvp(f, (0.5,), (1.0,))
    np.testing.assert_allclose(tg.jvp(f, (2.0,), (1.0,))[1], 2.0 * len(XS), rtol=1e-13)


@pytest.mark.parametrize("inner", [
    lambda t, y, x: tg.grad(lambda z: np.sin(z * t * x) * y)(t * 0.5), lambda t, y, x: tg.jvp(lambda z: np.sin(z * t * x) * y, (t * 0.5,), (t,))[1],
    lambda t, y, x: np.sum(tg.hessian(lambda z: np.sum(np.sin(z * t * x) * y))(np.ones(2) * t)), lambda t, y, x: abs(np.sqrt(t + 1j * x) * y),
    lambda t, y, x: tg.checkpoint(lambda z: np.sin(z * t))(y) + x, lambda t, y, x: tg.cond(x > t, lambda: y * t, lambda: t),
])  # fmt: skip
def test_in_forward_mode_bodies_take_derivatives_of_and_by_what_they_capture(inner):
    def f(t):
        return tg.scan(lambda y, x: (0.5 * y + inner(t, y, x), t), 0.3, XS)[0]

    for derivative in (lambda f: lambda t: tg.jvp(f, (t,), (1.0,))[1], tg.jacfwd):
        assert derivative(f)(0.7) == pytest.approx(tg.grad(f)(0.7), rel=1e-12)
        assert derivative(derivative(f))(0.7) == pytest.approx(tg.grad(derivative(f))(0.7), rel=1e-10)
