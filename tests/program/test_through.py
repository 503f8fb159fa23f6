"""Custom primitives in recordings: instructions where that can be, calls of Python where not, and right in every mode."""

import ctypes
import math

import numba
import numpy as np
import pytest

import tapegrad as tg
from tapegrad.common.errors import GuardError, HigherOrderError, MissingRuleError, UnsupportedFunctionError
from tapegrad.kernel.adjoint import adjoint
from tests.threads import in_threads

X = np.array([0.3, -1.2, 2.0])
POINTS = [X, X + 0.4, np.array([-0.5, 0.7, 1.1]), np.array([1.3, 0.2, -0.9])]


def softsign():
    f = tg.custom_vjp(lambda x: x / (1.0 + np.abs(x)), lambda g, r, x: g / (1.0 + np.abs(x)) ** 2)
    return f, lambda x: x / (1.0 + np.abs(x))


def by_jvp():
    return tg.custom_jvp(lambda x: np.sin(x) * x, lambda t, r, x: (np.cos(x) * x + np.sin(x)) * t[0]), lambda x: np.sin(x) * x


def of_the_result():
    f = tg.custom_vjp(lambda x: np.tanh(x), lambda g, r, x: g * (1.0 - r * r))
    f.defjvp(lambda t, r, x: t[0] * (1.0 - r * r))
    return f, np.tanh


def several():
    @tg.primitive
    def both(x, y, *, power):
        return x**power * y, np.sum(x * y)

    both.defvjp(lambda g, r, x, y, *, power: (power * x ** (power - 1) * y * g[0] + g[1] * y, x**power * g[0] + x * g[1]))

    def f(x):
        one, total = both(x, np.exp(-x), power=3)
        return one * total

    return f, lambda x: x**3 * np.exp(-x) * np.sum(x * np.exp(-x))


def each_other():
    sine, cosine = tg.primitive(lambda x: np.sin(x)), tg.primitive(lambda x: np.cos(x))
    sine.defvjp(lambda g, r, x: g * cosine(x))
    cosine.defvjp(lambda g, r, x: -g * sine(x))
    return lambda x: cosine(x) * sine(2.0 * x), lambda x: np.cos(x) * np.sin(2.0 * x)


def matrices():
    weights = np.linspace(-1.0, 1.0, 9).reshape(3, 3)
    f = tg.custom_vjp(lambda x, w: w @ x, lambda g, r, x, w: (w.T @ g, np.outer(g, x)))
    return lambda x: np.tanh(f(x * x, weights)), lambda x: np.tanh(weights @ (x * x))


def numbers():
    f = tg.custom_vjp(lambda a, b: a * b + a**3, lambda g, r, a, b: (g * (b + 3.0 * a**2), g * a))
    return lambda x: np.stack([f(x[0], x[1]), f(x[2], 2.0), f(x[1], x[1])]), lambda x: np.stack(
        [x[0] * x[1] + x[0] ** 3, 2.0 * x[2] + x[2] ** 3, x[1] ** 2 + x[1] ** 3]
    )


def deciding():
    @tg.primitive
    def f(x):
        return x * x if x[0] > 0.0 else x * x * x

    @f.defvjp
    def _(g, r, x):
        return 2.0 * x * g if x[0] > 0.0 else 3.0 * x * x * g

    return f, lambda x: x * x if x[0] > 0.0 else x * x * x


def deciding_in_the_rule():
    @tg.primitive
    def f(x):
        return np.abs(x) * x

    @f.defvjp
    def _(g, r, x):
        return 2.0 * x * g if x.min() > 0.0 else 2.0 * np.abs(x) * g

    return f, lambda x: np.abs(x) * x


def a_class():
    class Cube(tg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return 3.0 * x**2 * g

    return Cube.apply, lambda x: x**3


def with_context():
    class Swish(tg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.s = 1.0 / (1.0 + np.exp(-x))
            ctx.save_for_backward(x)
            return x * ctx.s

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * (ctx.s + x * ctx.s * (1.0 - ctx.s))

    return Swish.apply, lambda x: x / (1.0 + np.exp(-x))


def compiled():
    f = tg.primitive(numba.njit(lambda x: x * x * x))
    f.defvjp(numba.njit(lambda g, r, x: 3.0 * x * x * g))
    f.defjvp(numba.njit(lambda t, r, x: 3.0 * x * x * t[0]))
    return f, lambda x: x**3


def of_python():
    f = tg.primitive(lambda x: np.array([math.exp(-v) * v for v in x]))
    f.defvjp(lambda g, r, x: g * np.array([math.exp(-v) * (1.0 - v) for v in x]))
    return f, lambda x: np.exp(-x) * x


RECORDED = [softsign, by_jvp, of_the_result, several, each_other, matrices, numbers, deciding, deciding_in_the_rule, a_class]
CALLED = [with_context, compiled, of_python]
ALL = [*RECORDED, with_context, pytest.param(compiled, marks=pytest.mark.long), of_python]


def total(f):
    return lambda x: np.sum(f(1.1 * x) * np.cos(x)) + np.sum(f(x))


def close(one, other):
    np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("policy", ["never", "always"])
@pytest.mark.parametrize("make", ALL)
def test_every_mode(make, policy):
    f, reference = make()
    value, plain = total(f), total(reference)
    vector, other = lambda x: f(np.sin(x)) * x, lambda x: reference(np.sin(x)) * x
    transformed = [tg.jit(t, kernel=policy) for t in (tg.grad(value), value, tg.jacobian(vector), tg.jacfwd(vector), tg.jacrev(vector))]
    expected = [tg.grad(plain), plain, *[tg.jacobian(other)] * 3]
    for x in POINTS * 3:
        for one, same in zip(transformed, expected):
            close(one(x), same(x))
    for one in transformed:
        stats = one.stats()
        assert not stats.fallback and stats.records <= 4
        by_machine = make is compiled and policy == "always"
        assert bool(stats.python) is (make in CALLED and not by_machine) and all(line in str(stats) for line in stats.python)
        assert policy == "never" or stats.kernel_calls


@pytest.mark.parametrize("make", RECORDED)
def test_second_derivatives(make):
    f, reference = make()
    h, expected = tg.jit(tg.hessian(total(f)), kernel="always"), tg.hessian(total(reference))
    product, along = tg.jit(tg.hvp(total(f))), np.array([1.0, 0.5, -2.0])
    third = tg.jit(tg.grad(lambda x: np.sum(tg.grad(total(f))(x) ** 2)))
    for x in POINTS * 2:
        close(h(x), expected(x))
        close(product(x, along), expected(x) @ along)
        close(third(x), 2.0 * expected(x) @ tg.grad(total(reference))(x))
    assert not h.stats().fallback and h.stats().kernel_calls and not h.stats().python


@pytest.mark.parametrize("make", ALL)
def test_checked_against_differences(make):
    f, reference = make()
    assert tg.check(total(f), X, reference=total(reference), order=2 if make in (by_jvp, of_the_result) else 1).passed


@pytest.mark.parametrize("make", CALLED)
def test_what_calls_python_gives_first_derivatives(make):
    with pytest.raises(HigherOrderError):
        tg.jit(tg.hessian(total(make()[0])))(X)


@pytest.mark.parametrize("make", [softsign, several, deciding_in_the_rule, with_context, of_python])
def test_threads(make):
    f, reference = make()
    g, expected = tg.jit(tg.grad(total(f)), kernel="always"), tg.grad(total(reference))
    g(X)
    wanted = [expected(x) for x in POINTS]

    def work(k):
        for j in range(12):
            close(g(POINTS[(k + j) % 4]), wanted[(k + j) % 4])

    in_threads(work, 8)


@numba.njit
def use(c, x, g):
    return c(x, g)


@pytest.mark.parametrize("make", [softsign, several, each_other, a_class, with_context, of_python])
def test_in_nopython_code(make):
    f, reference = make()
    c, g = tg.compile(total(f), X), np.empty(3)
    for x in POINTS:
        close(use(c, x, g), total(reference)(x))
        close(g, tg.grad(total(reference))(x))
    with pytest.raises(UnsupportedFunctionError, match="without a kernel"):
        tg.compile(total(f), X, kernel="never")


def test_a_decision_of_a_rule_in_nopython_code():
    f, reference = deciding_in_the_rule()
    c, g = tg.compile(total(f), X), np.empty(3)
    close(use(c, X, g), total(reference)(X))
    with pytest.raises(GuardError, match=r"test_through.py:.*x.min\(\) > 0.0"):
        use(c, np.ones(3), g)


def test_machine_code_is_called_as_such():
    @numba.njit
    def value(x, y, k=1.0):
        return x * x * y * k

    @numba.njit
    def rule(g, r, x, y, k=1.0):
        return 2.0 * x * y * g * k, x * x * g * k

    f = tg.custom_vjp(tg.primitive(value), rule)
    for make in (lambda x: f(x[0], x[1], k=2.0) * f(x[1], 3.0, k=2.0) + x[2],):
        g, expected = tg.jit(tg.grad(make), kernel="always"), tg.grad(make)
        for x in POINTS:
            close(g(x), expected(x))
        assert g.stats().kernel_calls == 3 and not g.stats().python
    library = ctypes.CDLL(None)
    library.cbrt.restype, library.cbrt.argtypes = ctypes.c_double, [ctypes.c_double]
    root = tg.custom_vjp(tg.primitive(library.cbrt), lambda g, r, x: g / (3.0 * r * r))
    g = tg.jit(tg.grad(lambda x: root(x) * x), kernel="always")
    for x in (8.0, 27.0, 1.0):
        close(g(x), 4.0 / 3.0 * np.cbrt(x))
    assert g.stats().kernel_calls == 2 and not g.stats().python
    table = np.array([1.0, 2.0])
    listed = tg.custom_vjp(tg.primitive(numba.njit(lambda x, table: x * table[1])), lambda g, r, x, table: g * table[1])
    h = tg.jit(tg.grad(lambda x: listed(x, table=table)), kernel="always")
    close([h(1.0), h(2.0)], 2.0)
    assert h.stats().python


def test_a_kernel_without_calls_has_the_instructions_of_the_formula():
    f, reference = softsign()
    one, other = (tg.jit(total(function)).kernel(X) for function in (f, reference))
    assert "Python" not in str(one.program) and one.nbytes <= other.nbytes


def test_a_derivative_that_is_not_that_of_the_value():
    through = tg.custom_vjp(lambda x: np.round(x), lambda g, r, x: g)
    reverse = tg.custom_vjp(lambda x: x, lambda g, r, x: -g)
    for policy in ("never", "always"):
        g = tg.jit(tg.grad(lambda x: np.sum(through(x) ** 2)), kernel=policy)
        h = tg.jit(tg.grad(lambda x: np.sum(reverse(x) * x)), kernel=policy)
        for x in POINTS:
            close(g(x), 2.0 * np.round(x))
            close(h(x), 0.0 * x)
    sparse = tg.jit(tg.sparse_jacobian(lambda x: through(x) * x))
    close(sparse(X).toarray(), np.diag(np.round(X) + X))


def test_the_pattern_is_that_of_the_rule():
    x = np.linspace(0.1, 2.0, 40)
    own, plain = softsign()
    sparse = tg.jit(tg.sparse_jacobian(lambda x: own(x[1:] * x[:-1])))
    expected = tg.jacobian(lambda x: plain(x[1:] * x[:-1]))(x)
    for _ in range(2):
        close(sparse(x).toarray(), expected)
    assert sparse(x).nnz == 78
    dense = tg.custom_vjp(lambda x: 1.0 * x, lambda g, r, x: np.sum(g) + 0.0 * x)
    close(tg.jit(tg.sparse_jacobian(dense))(x).toarray(), np.ones((40, 40)))


def test_a_rule_that_decides_on_the_adjoint():
    @tg.primitive
    def f(x):
        return x * x

    @f.defvjp
    def _(g, r, x):
        return 2.0 * x * g if g else 0.0 * x

    @tg.primitive
    def clipped(x):
        return x * 1.0

    clipped.defvjp(lambda g, r, x: np.where(g > 1.0, 1.0, g) if np.max(g) > 1.0 else g)
    for policy in ("never", "always"):
        g = tg.jit(tg.grad(lambda x: f(x[0]) + f(x[1]) * 0.0 + np.sum(clipped(x * x) * 3.0 * x[2])), kernel=policy)
        for x in POINTS * 2:
            expected = 2.0 * x * np.minimum(3.0 * x[2], 1.0) + 2.0 * x * [1.0, 0.0, 0.0]
            expected[2] += 3.0 * np.sum(x * x)
            close(g(x), expected)


def test_what_a_rule_reads_is_watched():
    factor, table = 2.0, np.array([1.0, 2.0, 3.0])

    def rule(g, r, x):
        return factor * table * g

    f = tg.custom_vjp(lambda x: x * 1.0, rule)
    g = tg.jit(tg.grad(lambda x: np.sum(f(x))), kernel="always")
    for _ in range(2):
        close(g(X), factor * table)
    factor = 3.0
    close(g(X), factor * table)
    table[1] = 5.0
    close(g(X), factor * table)

    class Scaled(tg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1.0

        @staticmethod
        def backward(ctx, g):
            return factor * g

    h = tg.jit(tg.grad(lambda x: np.sum(Scaled.apply(x))), kernel="always")
    close(h(X), 3.0 + 0.0 * X)
    factor = 4.0
    close(h(X), 4.0 + 0.0 * X)


def test_an_element_read_inside_has_its_derivative_outside():
    f = tg.custom_vjp(lambda x: x[0] * x[1], lambda g, r, x: np.stack([g * x[1], g * x[0], 0.0 * g]))
    g = tg.jit(tg.grad(lambda x: f(x) * x[0] * x[1] + x[2]))
    for x in POINTS:
        close(g(x), [2.0 * x[0] * x[1] ** 2, 2.0 * x[0] ** 2 * x[1], 1.0])


def test_a_missing_rule_is_still_missing():
    f = tg.primitive(lambda x: x * x)
    j = tg.jit(lambda x: np.sum(f(x)))
    for x in POINTS:
        close(j(x), np.sum(x * x))
    g = tg.jit(tg.grad(lambda x: np.sum(f(x))), kernel="always")
    with pytest.raises(MissingRuleError, match="no derivative rule"):
        g(X)


def test_in_a_loop():
    for make in (softsign, deciding_in_the_rule, of_python):
        f, reference = make()
        g = tg.jit(tg.grad(lambda x, f=f: np.sum(tg.fori_loop(0, 5, lambda i, y: 0.5 * f(y) + 0.1, x * x))))
        for x in POINTS:
            close(g(x), tg.grad(lambda x, f=reference: np.sum(tg.fori_loop(0, 5, lambda i, y: 0.5 * f(y) + 0.1, x * x)))(x))


def test_implicit_solutions():
    def residual(x, p):
        return np.stack([x[0] ** 2 + x[1] - p[0], x[0] - x[1] ** 3 + p[1]])

    def f(p):
        x = tg.implicit.root(residual, np.ones(2), p)
        return np.sum(x * x * p)

    g, h = tg.jit(tg.grad(f), kernel="always"), tg.jit(tg.hessian(f), kernel="always")
    for k in range(4):
        p = np.array([2.0 + 0.1 * k, 0.3])
        close(g(p), tg.grad(f)(p))
        close(h(p), tg.hessian(f)(p))
    for stats in (g.stats(), h.stats()):
        assert stats.records == 1 and stats.kernel_calls and stats.python == stats.python[:1] and "solver" in stats.python[0]
    square = tg.jit(tg.grad(lambda p: tg.implicit.root(lambda x, p: x * x - p, 0.0, p, solver=lambda f, x: np.sqrt(abs(f(0.0))))), kernel="always")
    close(square(4.0), 0.25)
    close(square(9.0), 1.0 / 6.0)
    with pytest.raises(tg.errors.SingularJacobianError):
        square(0.0)


def test_functions_in_a_rule_that_the_value_has_are_computed_once():
    value = lambda x: x * np.tanh(np.log1p(np.exp(x)))

    def rule(g, result, x):
        grown = np.exp(x)
        slope = np.tanh(np.log1p(grown))
        return g * (slope + x * (1.0 - slope**2) * grown / (1.0 + grown))

    own, counted = tg.custom_vjp(value, rule), {}
    for name, f in ("own", own), ("in place", value):
        gradient = tg.grad(lambda x, f=f: np.sum(f(f(x))))
        np.testing.assert_allclose(gradient(X), tg.grad(lambda x: np.sum(value(value(x))))(X), rtol=1e-13)
        items = adjoint(gradient.tape(X)).items
        counted[name] = [sum(item.entry.name == function for item in items) for function in ("exp", "log1p", "tanh")]
    assert counted["own"] == counted["in place"] == [2, 2, 2]
