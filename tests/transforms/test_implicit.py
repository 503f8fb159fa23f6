"""Implicit differentiation beside closed forms, iterations that are differentiated, and differences."""

import numpy as np
import pytest
import scipy.optimize

import tapegrad as tg

A = np.array([[4.0, 1.0, 0.5], [1.0, 3.0, 0.2], [0.5, 0.2, 2.0]])
B = np.array([1.0, -2.0, 0.5])


def system(x, a, b):
    return A @ x + a * x ** 3 - b


def solved(a, b, **options):
    return tg.implicit.root(system, np.zeros(3), a, b, **options)


def by_newton(a, b):
    """The same, by iterations that can be differentiated."""
    x = np.zeros(3)
    for _ in range(30):
        x = x - np.linalg.solve(A + np.diag(np.ones(3)) * (3.0 * a * x ** 2), system(x, a, b))
    return x


def difference(f, x, step=1e-5):
    return (f(x + step) - f(x - step)) / (2 * step)


@pytest.mark.parametrize("linear", ["dense", "gmres", "bicgstab"])
@pytest.mark.parametrize("mode", [tg.jacfwd, tg.jacrev])
def test_first_derivatives_in_both_modes(mode, linear):
    for argnums, point in ((0, (0.7, B)), (1, (0.7, B))):
        found = mode(lambda a, b: solved(a, b, linear=linear), argnums)(*point)
        np.testing.assert_allclose(found, mode(by_newton, argnums)(*point), rtol=1e-9, atol=1e-12)


def test_beside_the_theorem_and_differences():
    x = solved(0.7, B)
    np.testing.assert_allclose(system(x, 0.7, B), 0.0, atol=1e-12)
    jacobian = A + np.diag(3 * 0.7 * x**2)
    np.testing.assert_allclose(tg.jacobian(lambda b: solved(0.7, b))(B), np.linalg.inv(jacobian), rtol=1e-11)
    np.testing.assert_allclose(tg.jacobian(lambda a: solved(a, B))(0.7), np.linalg.solve(jacobian, -(x**3)), rtol=1e-11)
    np.testing.assert_allclose(difference(lambda a: solved(a, B), 0.7), np.linalg.solve(jacobian, -(x**3)), rtol=1e-8)


@pytest.mark.parametrize("linear", ["dense", "gmres"])
@pytest.mark.parametrize("outer", [tg.grad, tg.derivative])
@pytest.mark.parametrize("inner", [tg.grad, tg.derivative])
def test_second_derivatives_in_every_nesting(outer, inner, linear):
    f = lambda a: np.sum(solved(a, B, linear=linear) ** 2)  # noqa: E731
    found = outer(inner(f))(0.7)
    assert isinstance(found, float)
    g = lambda a: np.sum(by_newton(a, B) ** 2)  # noqa: E731
    np.testing.assert_allclose(found, tg.grad(tg.grad(g))(0.7), rtol=1e-8)


def root_of(a):
    return tg.implicit.root(lambda x, a: x * x - a, 1.0, a)


def test_the_fourth_derivative_of_a_square_root():
    f, value = root_of, 3.0
    for k, factor in enumerate((0.5, -0.25, 3 / 8, -15 / 16), 1):
        f = tg.grad(f)
        np.testing.assert_allclose(f(value), factor * value ** (0.5 - k), rtol=1e-9)


def test_a_hessian_and_products():
    f = lambda b: np.sum(solved(0.7, b) ** 2)  # noqa: E731
    g = lambda b: np.sum(by_newton(0.7, b) ** 2)  # noqa: E731
    np.testing.assert_allclose(tg.hessian(f)(B), tg.hessian(g)(B), rtol=1e-9)
    np.testing.assert_allclose(tg.hvp(f)(B, np.ones(3)), tg.hessian(g)(B) @ np.ones(3), rtol=1e-9)


def test_replays_solve_again_at_the_new_point():
    f = tg.jit(tg.value_and_grad(lambda a: np.sum(solved(a, B))))
    for a in (0.1, 0.5, 0.9, 1.3, 1.7):
        value, slope = f(a)
        np.testing.assert_allclose(value, np.sum(by_newton(a, B)), rtol=1e-11)
        np.testing.assert_allclose(slope, tg.grad(lambda a: np.sum(by_newton(a, B)))(a), rtol=1e-9)
    assert f.stats().replays == 4 and f.stats().runs == 0


def test_with_tensors():
    a = tg.tensor(0.7, requires_grad=True)
    x = solved(a, B)
    np.sum(x * x).backward()
    np.testing.assert_allclose(a.grad.item(), tg.grad(lambda a: np.sum(by_newton(a, B) ** 2))(0.7), rtol=1e-10)


def test_containers_of_unknowns_and_parameters():
    def equations(x, p):
        return {"u": x["u"] * p["scale"] - np.array([1.0, 2.0]), "v": [x["v"][0] ** 2 - p["target"]]}

    def f(p):
        x = tg.implicit.root(equations, {"u": np.ones(2), "v": [1.0]}, p)
        return np.sum(x["u"]) * x["v"][0]

    value, slopes = tg.value_and_grad(f)({"scale": 2.0, "target": 9.0})
    np.testing.assert_allclose(value, 4.5)
    np.testing.assert_allclose([slopes["scale"], slopes["target"]], [-2.25, 0.25], rtol=1e-10)


def newton(fun, x):
    for _ in range(50):
        x = x - fun(x) / ((fun(x + 1e-6) - fun(x - 1e-6)) / 2e-6)
    return x


@pytest.mark.parametrize("solver", ["hybr", "lm", newton, lambda fun, x: scipy.optimize.root(fun, x, tol=1e-13)])
def test_any_solver(solver):
    f = lambda a: tg.implicit.root(lambda x, a: x ** 3 - a, 1.5, a, solver=solver)  # noqa: E731
    slope = tg.grad(lambda a: np.sum(f(a)))(8.0)
    np.testing.assert_allclose(slope, 1.0 / 12.0, rtol=1e-8)


def kepler(e, m, **options):
    return tg.implicit.fixed_point(lambda x, e, m: m + e * np.sin(x), 0.5, e, m, **options)


def test_fixed_points():
    x = kepler(0.3, 1.0)
    for mode in (tg.grad, tg.derivative):
        np.testing.assert_allclose(mode(lambda e: kepler(e, 1.0))(0.3), np.sin(x) / (1 - 0.3 * np.cos(x)), rtol=1e-12)
        np.testing.assert_allclose(mode(lambda m: kepler(0.3, m))(1.0), 1 / (1 - 0.3 * np.cos(x)), rtol=1e-12)
    second = tg.grad(tg.grad(lambda m: kepler(0.3, m)))(1.0)
    np.testing.assert_allclose(second, -0.3 * np.sin(x) / (1 - 0.3 * np.cos(x)) ** 3, rtol=1e-11)
    other = kepler(0.3, 1.0, solver=lambda g, x: scipy.optimize.fixed_point(g, x, xtol=1e-14))
    np.testing.assert_allclose(other, x, rtol=1e-13)


@pytest.mark.parametrize("linear", ["dense", "cg"])
def test_a_minimum(linear):
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((20, 3)), rng.standard_normal(20)

    def ridge(w):
        return tg.implicit.argmin(lambda c, w: np.sum((x @ c - y) ** 2) + w * np.sum(c**2), np.zeros(3), w, linear=linear)

    closed = lambda w: np.linalg.solve(x.T @ x + w * np.eye(3), x.T @ y)  # noqa: E731
    np.testing.assert_allclose(ridge(0.5), closed(0.5), rtol=1e-10)
    for mode in (tg.jacfwd, tg.jacrev):
        np.testing.assert_allclose(mode(ridge)(0.5), tg.jacobian(closed)(0.5), rtol=1e-9)
    outer = lambda f: tg.grad(tg.grad(lambda w: np.sum(f(w) ** 2)))(0.5)  # noqa: E731
    np.testing.assert_allclose(outer(ridge), outer(closed), rtol=1e-8)


def test_a_minimum_that_is_no_root_of_a_linear_map():
    def best(p):
        return tg.implicit.argmin(lambda x, p: (x[0] - p) ** 2 + (x[1] - x[0] ** 2) ** 2 + np.cosh(x[0]), np.zeros(2), p)

    np.testing.assert_allclose(tg.jacobian(best)(0.8), difference(best, 0.8, 1e-4), rtol=1e-6)


def test_a_large_system_without_a_matrix():
    n, counted = 400, []

    def laplace(x, s):
        counted.append(np.shape(x))
        padded = np.concatenate([np.zeros(1), x, np.zeros(1)])
        return 2.5 * x - padded[2:] - padded[:-2] + 0.1 * x ** 3 - s

    f = lambda s: np.sum(tg.implicit.root(laplace, np.zeros(n), s * np.ones(n), solver="krylov", linear="gmres", tol=1e-5))  # noqa: E731
    slope = tg.grad(f)(1.0)
    np.testing.assert_allclose(slope, difference(f, 1.0, 1e-2), rtol=1e-3)
    # Never a batch of directions: no Jacobian was formed.
    assert set(counted) == {(n,)}


@pytest.mark.parametrize("linear", ["dense", "gmres"])
def test_in_the_body_of_a_loop_under_jit(linear):
    def total(a):
        root = lambda a: tg.implicit.root(lambda x, a: x * x - a, 1.0, a, linear=linear)
        return tg.scan(lambda c, e: (c + e * root(a), None), 0.0, np.ones(2))[0] + np.sum(tg.vmap(root)(a * np.ones(2)))

    for point in (4.0, 9.0):
        assert tg.jit(tg.grad(total))(point) == pytest.approx(2.0 / np.sqrt(point))


def test_no_solution_names_the_residual():
    with pytest.raises(tg.errors.ConvergenceError, match=r"largest residual is 1, allowed is 1e-06.*give another solver"):
        tg.implicit.root(lambda x, a: x * x + a, 0.0, 1.0, solver=lambda fun, x: x)
    with pytest.raises(tg.errors.ConvergenceError, match="the solver says"):
        tg.implicit.root(lambda x, a: x * x + a, 0.5, 1.0)
    with pytest.raises(tg.errors.ConvergenceError, match="residual"):
        tg.implicit.fixed_point(lambda x, a: a * x + 1.0, 1.0, -1.0)


def test_a_singular_jacobian():
    double = lambda a: tg.implicit.root(lambda x, a: (x - a) ** 2, 1.0, a, solver=lambda fun, x: 1.0)  # noqa: E731
    assert double(1.0) == 1.0
    for mode in (tg.grad, tg.derivative):
        with pytest.raises(tg.errors.SingularJacobianError, match="singular at the solution"):
            mode(double)(1.0)


def test_what_is_wrong_is_said():
    with pytest.raises(tg.errors.StructureError, match="2 numbers for 3 unknowns"):
        tg.implicit.root(lambda x: x[:2], np.ones(3))
    with pytest.raises(tg.errors.OptionError, match="linear='lu'"):
        tg.implicit.root(lambda x: x, 1.0, linear="lu")
    with pytest.raises(tg.errors.StructureError, match="expected a function"):
        tg.implicit.fixed_point(3.0, 1.0)
    with pytest.raises(tg.errors.StructureError, match="the solver returned 1 numbers"):
        tg.implicit.root(lambda x: x, np.ones(2), solver=lambda fun, x: 0.0)
    with pytest.raises(tg.errors.OptionError, match="give a function solver"):
        tg.implicit.fixed_point(lambda x: 0.5 * x, 1.0, solver="hybr")
    with pytest.raises(tg.errors.StructureError, match="have to be the same"):
        tg.implicit.fixed_point(lambda x: x[0], np.ones(2))
    with pytest.raises(tg.errors.StructureError, match="none of its arguments"):
        # A parameter that is used without being an argument would lose its derivative.
        tg.grad(lambda a: tg.implicit.root(lambda x: x * x - a, 1.0))(4.0)
    with pytest.raises(tg.errors.StructureError, match="none of its arguments"):
        tg.jit(tg.grad(lambda a: tg.implicit.root(lambda x: x * x - a, 1.0)))(4.0)


def test_keys_in_another_order():
    def iteration(x, p):
        return {"b": 0.1 * x["b"] + p, "a": 0.5 * x["a"] + p}

    def found(p):
        return tg.implicit.fixed_point(iteration, {"a": 0.5, "b": 1.5}, p)["a"]

    def solver(fun, x0):
        return {"b": 4.0, "a": 2.0}

    for p in (1.0, 2.0, 3.0):
        assert found(p) == pytest.approx(2.0 * p)
        assert tg.grad(found)(p) == pytest.approx(2.0) == tg.derivative(found)(p) == tg.jit(tg.grad(found))(p)
    assert tg.implicit.root(lambda x: {"a": x["a"] - 2.0, "b": x["b"] - 4.0}, {"a": 1.0, "b": 1.0}, solver=solver) == {"a": 2.0, "b": 4.0}


SOLVED = {
    "root": lambda f, a, **how: tg.implicit.root(lambda x, a: x * x - f(a), 1.0, a, **how),
    "fixed_point": lambda f, a, **how: tg.implicit.fixed_point(lambda x, a: 0.5 * (x + f(a) / x), 1.0, a, **how),
    "argmin": lambda f, a, **how: tg.implicit.argmin(lambda x, a: (x * x - f(a)) ** 2, 1.0, a, **how),
}


@pytest.mark.parametrize("linear", ["dense", "gmres"])
@pytest.mark.parametrize("name", SOLVED)
def test_variables_are_what_they_were_at_the_call(name, linear):
    """A loop binds them anew before the derivative asks for the equation again; so does a replay, which solves it again."""

    def total(a):
        result, held = 0.0, [0.0]
        for k in (1.0, 2.0, 3.0):
            held[0] = k
            result = result + SOLVED[name](lambda a: a * k, a, linear=linear) * SOLVED[name](lambda a: a + held[0], a, linear=linear)
        return result

    def closed(a):
        return sum(np.sqrt(a * k) * np.sqrt(a + k) for k in (1.0, 2.0, 3.0))

    values, slopes = (total, tg.jit(total)), (tg.grad(total), tg.derivative(total), tg.jit(tg.grad(total)))
    for a in (2.0, 1.5, 1.2):
        np.testing.assert_allclose([value(a) for value in values], closed(a), rtol=1e-7)
        np.testing.assert_allclose([slope(a) for slope in slopes], tg.grad(closed)(a), rtol=1e-6)
    seconds = tg.grad(tg.grad(total)), tg.derivative(tg.grad(total))
    np.testing.assert_allclose([second(1.5) for second in seconds], tg.derivative(tg.grad(closed))(1.5), rtol=1e-5)


def test_what_the_equation_changes_itself_does_not_count():
    class Counting:
        def __init__(self):
            self.calls, self.seen, self.last = 0, [], None

        def equation(self, x, a, k):
            self.calls, self.last = self.calls + 1, k
            self.seen.append(k)
            return x * x - a * k

    def total(a):
        # Each solution changes what the equation of those before it counts.
        counting, result = Counting(), 0.0
        for k in (1.0, 2.0):
            result = result + np.sum(tg.implicit.root(lambda x, a: counting.equation(x, a, k), np.ones(2), a))
        return result

    a = np.array([4.0, 9.0])
    slope = (1.0 + np.sqrt(2.0)) / (2.0 * np.sqrt(a))
    np.testing.assert_allclose(tg.grad(total)(a), slope)
    np.testing.assert_allclose(tg.hessian(total)(a), np.diag(-slope / (2.0 * a)), atol=1e-9)
    counting, compiled = Counting(), tg.jit(tg.grad(lambda a: np.sum(tg.implicit.root(counting.equation, np.ones(2), a, 1.0))))
    for point in (a, 1.2 * a, a):
        np.testing.assert_allclose(compiled(point), 1.0 / (2.0 * np.sqrt(point)))


@pytest.mark.parametrize("name", ["an item beside it", "a variable of that name"])
def test_what_the_equation_does_not_change_itself_counts(name):
    table = {}

    def total(a):
        result, n = 0.0, 1.0
        table.clear()

        def counting(x):
            counting.n += 1
            return x * n

        counting.n = 0

        def beside(x):
            table["calls"] = table.get("calls", 0) + 1
            return x * table["k"]

        by = counting if name == "a variable of that name" else beside
        for k in (1.0, 2.0):
            n = table["k"] = k
            result = result + tg.implicit.root(lambda x, a: x * x - by(a), 1.0, a)
        return result

    slope = (1.0 + np.sqrt(2.0)) / (2.0 * np.sqrt(2.0))
    np.testing.assert_allclose([tg.derivative(total)(2.0), tg.grad(total)(2.0), -4.0 * tg.grad(tg.grad(total))(2.0)], slope)


def test_what_cannot_be_bound_again_is_refused():
    short = np.zeros(1)

    def total(a):
        result = 0.0
        for short[0] in (1.0, 2.0):
            result = result + tg.implicit.root(lambda x, a: x * x - a * short[0], 1.0, a)
        return result

    for derivative in (tg.grad(total), tg.jit(tg.grad(total)), tg.grad(tg.grad(total))):
        with pytest.raises(tg.errors.ModifiedInPlaceError, match="'short'"):
            derivative(2.0)
    assert tg.derivative(total)(2.0) == pytest.approx((1.0 + np.sqrt(2.0)) / (2.0 * np.sqrt(2.0)))
