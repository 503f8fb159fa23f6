"""`tg.compile`: the value and gradient of a function, called from users' nopython code."""

import os
import subprocess
import sys

import numba
import numpy as np
import pytest

import tapegrad as tg
from tapegrad.common.errors import DtypeError, GradientError, GuardError, ShapeError, UnsupportedFunctionError
from tests.threads import in_threads


def rosenbrock(x):
    total = 0.0
    for i in range(len(x) - 1):
        total = total + 100.0 * (x[i + 1] - x[i] * x[i]) ** 2 + (1.0 - x[i]) ** 2
    return total


def mixed(x):
    """Scalars and arrays, a view, an assignment."""
    y = np.exp(-x) * x[::-1]
    y[1] = x[0] * x[2]
    return np.sum(y * y) / (1.0 + x[0] ** 2)


def branching(x):
    total = 0.0
    for k in range(len(x)):
        if x[k] > 0.0:
            total = total + x[k] * x[k]
        else:
            total = total - x[k]
    return total


@numba.njit
def once(c, x, g):
    return c(x, g)


def by_differences(f, x, h=1e-6):
    return np.array([(f(x + h * e) - f(x - h * e)) / (2 * h) for e in np.eye(len(x))])


@pytest.mark.parametrize("f", [rosenbrock, mixed])
def test_value_and_gradient_from_both_sides(f):
    c = tg.compile(f, np.array([0.5, 0.4, 0.3, 0.2]))
    for x in np.random.default_rng(1).normal(size=(5, 4)):
        g, h = np.full(4, np.nan), np.full(4, np.nan)
        assert c(x, g) == once(c, x, h) == pytest.approx(f(x), rel=1e-14)
        assert np.array_equal(g, h)
        np.testing.assert_allclose(g, by_differences(f, x), rtol=2e-6, atol=1e-6)


def test_arguments_with_several_dimensions():
    c = tg.compile(lambda a: np.sum(a @ a), np.eye(2))
    a, g = np.array([[1.0, 2.0], [3.0, 4.0]]), np.empty((2, 2))
    assert once(c, a, g) == np.sum(a @ a)
    ones = np.ones((2, 2))
    np.testing.assert_allclose(g, ones @ a.T + a.T @ ones, rtol=1e-14)


def test_a_value_that_does_not_depend_on_the_argument():
    c = tg.compile(lambda x: 3.0, np.ones(2))
    g = np.ones(2)
    assert once(c, np.ones(2), g) == 3.0 and g.tolist() == [0.0, 0.0]


def test_gradient_descent_in_one_function():
    @numba.njit
    def descend(c, x, steps):
        g = np.empty_like(x)
        for _ in range(steps):
            c(x, g)
            x -= 0.001 * g
        return c(x, g)

    c = tg.compile(rosenbrock, np.zeros(3))
    x, y, g = np.zeros(3), np.zeros(3), np.empty(3)
    for _ in range(300):
        c(y, g)
        y -= 0.001 * g
    assert descend(c, x, 300) == c(y, g) < rosenbrock(np.zeros(3))
    assert np.array_equal(x, y)


@numba.njit(parallel=True)
def many(c, points, gradients, values):
    for i in numba.prange(len(points)):
        values[i] = c(points[i], gradients[i])


@pytest.mark.parametrize("workspaces", [1, 3])
def test_under_prange_the_bits_are_those_of_one_thread(workspaces):
    c = tg.compile(mixed, np.ones(5), workspaces)
    points = np.random.default_rng(2).normal(size=(2000, 5))
    gradients, values, g = np.empty((2000, 5)), np.empty(2000), np.empty(5)
    many(c, points, gradients, values)
    c.check()
    for x, value, gradient in zip(points, values, gradients):
        assert c(x, g) == value and np.array_equal(g, gradient)


def test_after_a_prange_check_finds_a_failed_guard():
    @numba.njit
    def checked(c):
        c.check()

    c = tg.compile(branching, np.ones(3))
    points = np.ones((100, 3))
    points[50, 1] = -1.0
    for check in (c.check, lambda: checked(c)):
        try:
            many(c, points, np.empty((100, 3)), np.empty(100))
        except (GuardError, SystemError) as error:
            # Of the calling thread's part; where that is the only one, Numba says that a result came with an exception.
            assert isinstance(error, GuardError) or isinstance(error.__cause__, GuardError)
        with pytest.raises(GuardError, match=r"if x\[k\] > 0.0"):
            check()
        check()


def test_in_functions_that_numba_inlines():
    """Numba up to 0.66 does not rename what is raised, ``raise E(x)``, when it inlines."""

    @numba.njit(inline="always")
    def inlined(c, x, g):
        return c(x, g) + 1.0

    @numba.njit
    def twice(c, x, g):
        return inlined(c, x, g) + inlined(c, 2.0 * x, g)

    c, x, g = tg.compile(branching, np.ones(3)), np.array([1.0, 2.0, 3.0]), np.empty(3)
    assert twice(c, x, g) == 2.0 + 5.0 * np.sum(x * x) and g.tolist() == [4.0, 8.0, 12.0]
    with pytest.raises(GuardError, match=r"if x\[k\] > 0.0"):
        twice(c, -x, g)


def test_more_threads_than_workspaces():
    @numba.njit(nogil=True)
    def several(c, points, gradients, values):
        for i in range(len(points)):
            values[i] = c(points[i], gradients[i])

    c = tg.compile(rosenbrock, np.ones(8), workspaces=2)
    points = np.random.default_rng(3).normal(size=(500, 8))
    expected = np.empty((500, 8)), np.empty(500)
    several(c, points, *expected)
    found = [(np.empty((500, 8)), np.empty(500)) for _ in range(8)]
    in_threads(lambda k: several(c, points, *found[k]), 8)
    for gradients, values in found:
        assert np.array_equal(gradients, expected[0]) and np.array_equal(values, expected[1])


@pytest.mark.parametrize("call", [once, lambda c, x, g: c(x, g)], ids=["nopython", "python"])
def test_a_failed_guard_names_its_line(call):
    c = tg.compile(branching, np.array([1.0, 2.0, -3.0]))
    g = np.empty(3)
    assert call(c, np.array([2.0, 1.0, -1.0]), g) == 6.0 and g.tolist() == [4.0, 2.0, -1.0]
    line = branching.__code__.co_firstlineno + 3
    with pytest.raises(GuardError, match=rf"test_compiled.py:{line}: `if x\[k\] > 0.0:` went another way"):
        call(c, np.array([1.0, -2.0, -3.0]), g)
    assert np.isnan(g).all()
    # The workspace has been given back.
    assert call(c, np.array([2.0, 1.0, -1.0]), g) == 6.0


def test_wrong_arguments_are_refused():
    c = tg.compile(rosenbrock, np.ones(3))
    g = np.empty(3)
    for call in (once, c):
        with pytest.raises(ShapeError):
            call(*([c] if call is once else []), np.ones(4), np.empty(4))
        with pytest.raises(ShapeError):
            call(*([c] if call is once else []), np.ones(3), np.empty(2))
    with pytest.raises(DtypeError):
        c(np.ones(3, np.float32), g)
    with pytest.raises(DtypeError):
        c(np.ones((3, 2))[:, 0], g)
    fixed = np.ones(3)
    fixed.flags.writeable = False
    assert once(c, fixed, g) == c(fixed, g) == 0.0
    with pytest.raises(DtypeError):
        c(np.ones(3), fixed)
    for x, target in ((np.ones(3, np.float32), g), (np.ones((3, 2))[:, 0], g), (np.ones(3), fixed), (np.ones((1, 3)), g)):
        with pytest.raises(numba.TypingError, match="compiled by tapegrad"):
            once(c, x, target)
    with pytest.raises(ShapeError):
        tg.compile(lambda x: x * x, 1.0)


# ---- further arguments -------------------------------------------------------------------


def residuals(x, a, b, s):
    return np.sum((a @ x - b) ** 2) * s + x[0] * s


A, B = np.random.default_rng(4).normal(size=(2, 5, 3)), np.random.default_rng(5).normal(size=(2, 5))


@numba.njit
def with_data(c, x, g, a, b, s):
    return c(x, g, a, b, s)


@numba.njit
def with_one(c, x, g, y):
    return c(x, g, y)


@pytest.mark.parametrize("kernel", ["always", "never"])
def test_further_arguments_are_given_to_each_call(kernel):
    c = tg.compile(residuals, np.zeros(3), kernel=kernel, data=(A[0], B[0], 1.0))
    assert (c.kernel is None) == (kernel == "never")
    x = np.array([0.3, -0.2, 0.5])
    for a, b, s in zip(A, B, (1.5, -0.25)):
        g, h = np.empty(3), np.empty(3)
        assert c(x, g, a, b, s) == with_data(c, x, h, a, b, s) == pytest.approx(residuals(x, a, b, s), rel=1e-14)
        assert np.array_equal(g, h)
        np.testing.assert_allclose(g, 2 * s * a.T @ (a @ x - b) + s * np.eye(3)[0], rtol=1e-13)


def test_a_kernel_whose_workspace_is_too_large_for_the_stack_has_further_arguments_too():
    n = 4000
    c = tg.compile(lambda x, y: np.sum(np.cumsum(np.sin(x)) * np.cumsum(np.exp(x * y))), np.ones(n), data=(np.ones(n),))
    swept = tg.compile(lambda x, y: np.sum(np.cumsum(np.sin(x)) * np.cumsum(np.exp(x * y))), np.ones(n), data=(np.ones(n),), kernel="never")
    assert c.kernel is not None and not c.kernel.entry
    x, y = np.linspace(0.0, 1.0, n), np.linspace(-1.0, 1.0, n)
    g, h = np.empty(n), np.empty(n)
    assert with_one(c, x, g, y) == pytest.approx(swept(x, h, y), rel=1e-13)
    np.testing.assert_allclose(g, h, rtol=1e-11)


def test_a_guard_on_a_further_argument_names_its_line():
    def f(x, limit):
        if x[0] > limit:
            return x[0] * limit
        return x[0]

    c, g = tg.compile(f, np.ones(1), data=(0.5,)), np.empty(1)
    assert with_one(c, np.ones(1), g, 0.25) == c(np.ones(1), g, 0.25) == 0.25 and g[0] == 0.25
    # An integer is a number, too.
    assert with_one(c, np.array([3.0]), g, 2) == c(np.array([3.0]), g, 2) == 6.0
    for call in (c, lambda *args: with_one(c, *args)):
        with pytest.raises(GuardError, match=r"if x\[0\] > limit"):
            call(np.ones(1), g, 2.0)
        assert np.isnan(g).all()


def test_mini_batches_under_prange_have_the_bits_of_one_thread():
    @numba.njit(parallel=True)
    def batches(c, x, a, b, gradients, values):
        for k in numba.prange(len(a)):
            values[k] = c(x, gradients[k], a[k], b[k], 2.0)

    c = tg.compile(residuals, np.zeros(3), data=(A[0], B[0], 1.0))
    rng = np.random.default_rng(6)
    a, b, x = rng.normal(size=(500, 5, 3)), rng.normal(size=(500, 5)), rng.normal(size=3)
    gradients, values, g = np.empty((500, 3)), np.empty(500), np.empty(3)
    batches(c, x, a, b, gradients, values)
    c.check()
    for k in range(500):
        assert c(x, g, a[k], b[k], 2.0) == values[k] and np.array_equal(g, gradients[k])


def test_wrong_further_arguments_are_refused():
    c, x, g = tg.compile(residuals, np.zeros(3), data=(A[0], B[0], 1.0)), np.zeros(3), np.empty(3)
    a, b = A[1], B[1]
    wrong = [
        ((a, b), ShapeError, "compiled with 3 arguments after x, got 2"), ((a, b, b), DtypeError, "argument 4 must be a number"),
        ((a, 1.0, 1.0), DtypeError, "argument 3 must be a C-contiguous float64 array of the shape"),
        ((a.astype(np.float32), b, 1.0), DtypeError, "argument 2"), ((a.T.copy().T, b, 1.0), DtypeError, "argument 2"),
        ((a[:4], b, 1.0), ShapeError, r"argument 2 has the shape \(4, 3\)"), ((a, b, None), DtypeError, "argument 4"),
    ]  # fmt: skip
    for data, error, message in wrong:
        with pytest.raises(error, match=message):
            c(x, g, *data)
    with pytest.raises(ShapeError, match="an argument and g share memory"):
        c(x, b[:3], a, b, 1.0)
    with pytest.raises(ShapeError, match="as many arguments after x and g"):
        with_one(c, x, g, a)
    with pytest.raises(ShapeError, match="numbers and arrays of the shapes"):
        with_data(c, x, g, a[:4].copy(), b, 1.0)
    one = tg.compile(lambda x, y: np.sum(x * y), np.zeros(3), data=(np.ones(3),))
    with pytest.raises(ShapeError, match="g is also an argument"):
        with_one(one, x, g, g)
    with pytest.raises(ShapeError, match="numbers and arrays of the shapes"):
        with_one(one, x, g, 1.0)
    with pytest.raises((numba.TypingError, TypeError), match="too many positional arguments"):
        with_one(tg.compile(rosenbrock, np.ones(3)), x, g, 1.0)
    with pytest.raises(ShapeError, match="compiled with 0 arguments after x, got 1"):
        tg.compile(rosenbrock, np.ones(3))(x, g, 1.0)
    with pytest.raises(numba.TypingError, match="argument 2 of a function compiled by tapegrad must be a number or"):
        with_one(one, x, g, np.ones(3, np.int64))
    for data in ((np.arange(3),), (2,), ("x",)):
        with pytest.raises(DtypeError, match=r"data\[0\] is .*let the function capture it"):
            tg.compile(lambda x, k: np.sum(x), np.zeros(3), data=data)


def test_what_needs_the_interpreter_is_refused_by_name_and_line():
    def f(x):
        order = np.argsort(x)
        return np.sum(x[order] * np.arange(3.0))

    line = f.__code__.co_firstlineno + 1
    with pytest.raises(UnsupportedFunctionError, match=rf"argsort at .*test_compiled.py:{line}.*leave kernel='never' out"):
        tg.compile(f, np.array([3.0, 1.0, 2.0]), kernel="never")
    c, g = tg.compile(f, np.array([3.0, 1.0, 2.0])), np.empty(3)
    assert once(c, np.array([0.5, 3.0, 1.0]), g) == 7.0 and g.tolist() == [0.0, 2.0, 1.0]


def test_a_random_function_is_refused():
    with pytest.raises(GradientError, match="random"):
        tg.compile(lambda x: x[0] * np.random.normal(), np.ones(1))


def test_what_was_captured_is_compared_by_calls_from_python():
    scale = 2.0
    c = tg.compile(lambda x: x[0] * scale, np.ones(1))
    g = np.empty(1)
    assert c(np.ones(1), g) == 2.0
    scale = 3.0
    with pytest.raises(GuardError, match="scale has changed"):
        c(np.ones(1), g)


def test_it_is_not_pickled():
    import pickle

    with pytest.raises(TypeError, match="addresses of this process"):
        pickle.dumps(tg.compile(rosenbrock, np.ones(2)))


CACHED = """
import json, sys, warnings
import numba, numpy as np
import tapegrad as tg
warnings.simplefilter("ignore", numba.NumbaWarning)

{padding}

c = tg.compile(lambda x: x[0] ** 2 * {factor} + x[1], np.ones(2))

@numba.njit(cache=True)
def by_argument(c, x, g):
    return c(x, g)

@numba.njit(cache=True)
def by_global(x, g):
    return c(x, g)

g, h = np.empty(2), np.empty(2)
x = np.array([3.0, 5.0])
print(json.dumps([by_argument(c, x, g), g.tolist(), by_global(x, h), h.tolist(),
                  sum(by_argument.stats.cache_hits.values()), sum(by_global.stats.cache_hits.values())]))
"""


def test_a_function_kept_on_disk_holds_no_address(tmp_path):
    import json

    program = tmp_path / "program.py"
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "numba")}
    # Read from an environment variable, so that the file (and with it Numba's key) stays the same.
    text = CACHED.format(padding="import os; held = [np.empty(int(os.environ['N']))]", factor="float(os.environ['N'])")
    program.write_text(text)
    said = []
    for number in (2, 3000):
        ended = subprocess.run(
            [sys.executable, str(program)], env=environment | {"N": str(number)}, capture_output=True, text=True
        )
        assert ended.returncode == 0, ended.stderr
        said.append(json.loads(ended.stdout))
    assert said[0] == [23.0, [12.0, 1.0], 23.0, [12.0, 1.0], 0, 0]
    assert said[1] == [27005.0, [18000.0, 1.0], 27005.0, [18000.0, 1.0], 1, 0]


def test_a_result_that_is_not_float64_is_refused():
    """Compiled code reads eight bytes as a float64, whatever stands there."""
    for f in (lambda x: np.sum(x.astype(np.float32) ** 2), lambda x: 3, lambda x: np.float32(3)):
        with pytest.raises(DtypeError, match="compiled code a float64"):
            tg.compile(f, np.ones(2))
    g = np.empty(2)
    assert tg.compile(lambda x: np.sum(x.astype(np.float32) ** 2).astype(float), np.ones(2))(np.array([3.0, 4.0]), g) == 25.0
    np.testing.assert_array_equal(g, [6.0, 8.0])
    assert tg.compile(lambda x: 3.5, np.ones(2))(np.ones(2), g) == 3.5


@pytest.mark.parametrize("x0", [np.array([1.0 + 2.0j]), np.array(["2020-01-01"], "datetime64[D]"), ["a"], np.array([1, 2])])
def test_a_first_point_that_is_no_array_of_floats_is_refused(x0):
    with pytest.raises(DtypeError, match="x0: "):
        tg.compile(lambda x: np.sum(x * x), x0)


# ---- other results than one float --------------------------------------------------------------------------------
def bowl(x):
    return np.sum(np.cosh(x - 1.0)) + x[0] * x[1]


@numba.njit
def called(c, x, out):
    return c(x, out)


@numba.njit
def called_with(c, x, out, v):
    return c(x, out, v)


def test_whatever_a_function_returns_is_that_of_jit_from_python_and_from_nopython_code():
    x, v, t = np.array([0.3, 0.2, 0.1]), np.array([1.0, -2.0, 0.5]), np.linspace(0.0, 1.0, 5)
    decay = lambda p, t: p[0] * np.exp(-p[1] * t) + p[2]  # noqa: E731
    for function, shapes, args in (
        (lambda x: np.sin(x) * x[0], [(3,)], (x,)), (tg.value_and_grad(bowl), [(), (3,)], (x,)), (tg.grad(bowl), [(3,)], (x,)),
        (tg.hessian(bowl), [(3, 3)], (x,)), (tg.jit(tg.hessian(bowl)), [(3, 3)], (x,)), (tg.jacobian(decay), [(5, 3)], (x, t)), (tg.hvp(bowl), [(3,)], (x, v)),
        (lambda x, v: tg.jvp(bowl, (x,), (v,)), [(), ()], (x, v)), (lambda x, v: {"outer": np.outer(x, v), "sum": x @ v}, [(3, 3), ()], (x, v)),
        (lambda x, v: (x[:1] * v[0], v), [(1,), (3,)], (x, v)), (lambda x: np.full(4, 2.0) + 0.0 * x[0], [(4,)], (x,)),
    ):  # fmt: skip
        c = tg.compile(function, np.ones(3), data=[np.ones_like(a) for a in args[1:]])
        expected = [np.ravel(part) for part in (lambda found: found.values() if isinstance(found, dict) else found if isinstance(found, tuple) else (found,))(
            tg.jit(function)(*args)
        )]  # fmt: skip
        assert c.results == shapes and c.pattern is None and c.not_lowered == ""
        out = np.full(c.shape, np.nan)
        assert c(args[0], out, *args[1:]) is out
        np.testing.assert_allclose(np.ravel(out), np.concatenate(expected), rtol=1e-13, atol=1e-15)
        again = (called if len(args) == 1 else called_with)(c, args[0], np.empty(c.shape), *args[1:])
        assert np.array_equal(again, out)


def test_entries_of_sparse_derivatives():
    banded = lambda x: np.concatenate([x[:1] ** 2, x[1:-1] * x[2:] - np.sin(x[:-2]), x[-1:] * 3.0])  # noqa: E731
    x, weights = np.random.default_rng(0).uniform(size=12), np.arange(12.0)
    for g, more in (
        (tg.sparse_hessian(rosenbrock), ()), (tg.sparse_jacobian(banded), ()), (tg.sparse_jacobian(banded, mode="reverse"), ()),
        (tg.jit(tg.sparse_jacobian(banded, mode="forward")), ()), (tg.sparse_hessian(banded, weights=True), (weights,)),
    ):  # fmt: skip
        c, expected = tg.compile(g, np.ones(12), data=[np.ones(12) for _ in more]), g(x, *more)
        np.testing.assert_allclose(c(x, np.empty(c.shape), *more), expected.data, rtol=1e-13, atol=1e-15)
        assert np.array_equal(c.pattern.indices, expected.indices) and np.array_equal(c.pattern.indptr, expected.indptr)


@numba.njit
def newton(both, x, steps):
    n = len(x)
    out = np.empty(n + n * n)
    for _ in range(steps):
        both(x, out)
        x = x - np.linalg.solve(out[n:].reshape(n, n), out[:n])
    return x


@numba.njit
def gauss_newton(both, p, t, y, steps):
    n, m = len(p), len(t)
    out = np.empty(m + m * n)
    for _ in range(steps):
        both(p, out, t, y)
        j = out[m:].reshape(m, n)
        p = p - np.linalg.solve(j.T @ j, j.T @ out[:m])
    return p


@numba.njit
def sequential_quadratic(all_of_it, x, steps):
    """An equality constraint: value of the gradient, constraint, its slope, and the Hessian of the Lagrangian."""
    n, multiplier = len(x), 0.0
    out, kkt, right = np.empty(n + 1 + n + n * n), np.zeros((n + 1, n + 1)), np.empty(n + 1)
    for _ in range(steps):
        all_of_it(x, out, multiplier)
        g, slope = out[:n], out[n + 1 : 2 * n + 1]
        kkt[:n, :n] = out[2 * n + 1 :].reshape(n, n)
        kkt[n, :n] = slope
        kkt[:n, n] = slope
        right[:n] = -g
        right[n] = -out[n]
        step = np.linalg.solve(kkt, right)
        x = x + step[:n]
        multiplier = step[n]
    return x


def test_newton_gauss_newton_and_sqp_inside_of_njit():
    both = tg.compile(lambda x: (tg.grad(bowl)(x), tg.hessian(bowl)(x)), np.zeros(3))
    np.testing.assert_allclose(tg.grad(bowl)(newton(both, np.zeros(3), 8)), 0.0, atol=1e-13)
    t = np.linspace(0.0, 3.0, 30)
    y = 2.0 * np.exp(-0.7 * t) + 0.01 * np.cos(30.0 * t)
    left = lambda p, t, y: p[0] * np.exp(-p[1] * t) - y  # noqa: E731
    both = tg.compile(lambda p, t, y: (left(p, t, y), tg.jacobian(left)(p, t, y)), np.ones(2), data=(t, y))
    theirs = tg.optimize.least_squares(left, np.ones(2), args=(t, y), xtol=1e-14, ftol=1e-14).x
    np.testing.assert_allclose(gauss_newton(both, np.ones(2), t, y, 20), theirs, rtol=1e-8)
    circle = lambda x: np.sum(x**2) - 2.0  # noqa: E731
    lagrangian = lambda x, l: bowl(x) + l * circle(x)  # noqa: E731, E741
    whole = tg.compile(lambda x, l: (tg.grad(bowl)(x), circle(x), tg.grad(circle)(x), tg.hessian(lagrangian)(x, l)), np.ones(3), data=(0.5,))  # noqa: E741
    found = tg.optimize.nlp(bowl, np.full(3, 0.7), [(circle, 0.0, 0.0)], method="trust-constr")
    np.testing.assert_allclose(sequential_quadratic(whole, np.full(3, 0.7), 15), found.x, atol=1e-5)


def test_wrong_outputs_and_arguments_are_refused():
    c, x, out = tg.compile(lambda x, a, s: (x * a * s, np.sum(x)), np.ones(3), data=(np.ones(3), 2.0)), np.ones(3), np.empty(4)
    for args, error, message in (
        ((x, np.empty(3), x, 1.0), ShapeError, r"out has the shape \(3,\)"), ((x, out, x), ShapeError, "2 arguments after x, got 1 after x and out"),
        ((x, out, x, x), DtypeError, "argument 3 must be a number"), ((x, np.empty(4, int), x, 1.0), DtypeError, "out must be a C-contiguous float64"),
        ((out[:3], out, x, 1.0), ShapeError, "x and out share memory"), ((x, out, out[1:], 1.0), ShapeError, "an argument and out share memory"),
        ((x[:2], out, x, 1.0), ShapeError, "x has the shape"), ((x, out, x[:2], 1.0), ShapeError, "argument 2 has the shape"),
    ):  # fmt: skip
        with pytest.raises(error, match=message):
            c(*args)
    one = tg.compile(lambda x: x * 2.0, np.ones(3))
    for args, error, message in (
        ((x, np.empty(2)), ShapeError, "out must have the shape"), ((x[:2].copy(), out[:3]), ShapeError, "numbers and arrays of the shapes"),
        ((x, x), ShapeError, "out is also an argument"), ((x, np.empty(3, np.float32)), numba.TypingError, "out of a function compiled by tapegrad"),
        ((x.astype(np.float32), out[:3]), numba.TypingError, "x of a function compiled by tapegrad"),
    ):  # fmt: skip
        with pytest.raises(error, match=message):
            called(one, *args)
    with pytest.raises(ShapeError, match="as many arguments after x and out"):
        called(c, x, out)


def test_outputs_off_the_path_are_nan_and_name_the_line():
    c = tg.compile(lambda x: np.stack([x[0] if x[0] > 0.0 else -x[0], x[1]]), np.ones(2))
    for call in (c, lambda x, out: called(c, x, out)):
        out = np.zeros(2)
        with pytest.raises(GuardError, match=r"(?s)test_compiled.py:\d+: .*went another way"):
            call(np.array([-1.0, 1.0]), out)
        assert np.isnan(out).all()
    with pytest.raises(GuardError, match="went another way"):
        c.check()
    c.check()
    with pytest.raises(GradientError, match="run again it gives something else"):
        tg.compile(lambda x: x * np.random.default_rng().normal(size=3), np.ones(3))


def test_a_derivative_that_only_python_can_compute_says_so():
    c = tg.compile(lambda x: np.linalg.norm(x, 3), np.ones(4))
    assert c(np.ones(4), np.empty(4)) == pytest.approx(4.0 ** (1 / 3))
    with pytest.raises(GuardError, match=r"a derivative is not finite here.* call tg\.value_and_grad"):
        c(np.zeros(4), np.empty(4))
    with pytest.raises(GuardError, match="a derivative is not finite here"):
        once(c, np.zeros(4), np.empty(4))
