"""The text of a program: run by itself, beside the function that it was made of."""

import re
import types

import numpy as np
import pytest
from scipy import special

import tapegrad as tg
from tapegrad.errors import UnsupportedFunctionError
from tests.every import every
from tests.exporting.test_export import CASES, RNG

A, B = RNG.standard_normal((9, 11)), RNG.standard_normal((11, 10))
TIMES = np.arange(12) * 0.1


def products(w):
    return np.sum(np.tanh(A * w[0] @ B) ** 2) + np.sum(np.cumsum(w[:9] * A[:, 0]))


def functions(x):
    smooth = special.erf(x) + special.gammaln(2.0 + x**2) + special.digamma(3.0 + x) + special.expit(x) + np.sign(x) * np.hypot(x, 2.0)
    return np.sum(smooth + np.power(2.0, x) + np.where(x > 0.2, x, x**3) + special.i0(x) + special.beta(2.0, 3.0 + x))


def before_last(x):
    """What the loop carries is read behind it."""
    last, now = x[0], x[1]
    for k in range(30):
        last, now = now * 1.0, np.sin(now) + 0.1 * last + x[2] * k
    return last * now + last


def triangle(x):
    """A loop whose number of iterations is another each time."""
    total = 0.0 * x[0]
    for i in range(14):
        inner = x[0]
        for j in range(i + 1):
            inner = np.cos(inner + x[1] * j)
        total = total + inner * x[2]
    return total


def scanned(x):
    """A scan, and a loop inside of a loop as long as a number says."""
    def body(c, u):
        c = c * 0.9 + np.sin(c * u)
        return c, tg.fori_loop(0, 3, lambda k, d: d * 0.5 + c * x[1], c)

    c, ys = tg.scan(body, x[0], np.linspace(0.0, 1.0, 20))
    return tg.while_loop(lambda d: d > 0.1, lambda d: d * 0.7, c) + np.sum(ys * x[2])


def chosen(x):
    return sum((np.exp(-v) if v > 0.0 else v * v) for v in x)


def small(x):
    return np.sum(np.sqrt(1.0 + x * x) * np.float32(1.5))


PROGRAMS = CASES | {
    "products": (products, RNG.standard_normal(9)), "functions": (functions, np.array([-0.7, 0.3, 0.9])), "before_last": (before_last, np.array([0.3, 0.4, 0.01])),
    "triangle": (triangle, np.array([0.3, 0.2, 1.1])), "scanned": (scanned, np.array([0.3, 0.4, 0.7])), "chosen": (chosen, np.array([0.5, -0.4, 0.2])), "small": (small, np.array([0.5, 0.25, 2.0], np.float32)),
}  # fmt: skip


def run(text, *arguments):
    """What the program gives, which sees NumPy and SciPy only."""
    assert "tapegrad" not in re.sub(r'""".*?"""', "", text)
    scope = {}
    exec(text, scope)
    return scope["derivative"](*arguments)


@every("name", sorted(PROGRAMS))
def test_values_gradients_and_hessians_are_the_interpreters(name):
    f, x = PROGRAMS[name]
    other, digits = 1.01 * x, 1e-12 if x.dtype == np.float64 else 1e-6
    for g in [tg.value_and_grad(f)] + [tg.hessian(f)] * (name in ("predators", "logistic", "triangle", "scanned")):
        found = run(tg.to_python(g, x), other)
        expected = tg.jit(g, kernel="never")(other)
        for one, value in zip(found, expected) if isinstance(expected, tuple) else [(found, expected)]:
            np.testing.assert_allclose(one, value, rtol=digits, atol=digits)
            assert np.asarray(one).dtype == np.asarray(value).dtype


def test_each_line_says_of_which_it_is_and_loops_are_rolled():
    f, x = PROGRAMS["predators"]
    lines = tg.to_python(tg.value_and_grad(f), x).splitlines()
    # What computes: neither a copy of what a loop carries, nor the head of a loop.
    computing = [line for line in lines if re.match(r" {8,}\w+(\[.*\])? = .*[(*+/-]", line)]
    assert len(computing) > 15
    assert [line for line in computing if "  # " not in line] == []
    assert any("um, vm = u + 0.5 * dt * ku, v + 0.5 * dt * kv" in line for line in lines)
    assert len(lines) < 200 and sum(line.lstrip().startswith("for ") for line in lines) >= 2
    assert "last_" in tg.to_python(*PROGRAMS["before_last"])
    for f in (PROGRAMS["scanned"][0], tg.jit(PROGRAMS["scanned"][0]), tg.jit(tg.grad(PROGRAMS["scanned"][0]))):
        assert re.search(r"^ +for i in range\((19|20)\):$", tg.to_python(f, PROGRAMS["scanned"][1]), re.M)


def test_another_path_raises_and_names_the_line():
    f, x = PROGRAMS["chosen"]
    with pytest.raises(ValueError, match="v > 0.0.* went another way than when it was recorded"):
        run(tg.to_python(f, x), -x)


def test_a_derivative_that_is_not_finite_raises():
    """The program multiplies plainly: where zero is absolute under `jit`, a product of zero and infinity is NaN."""
    text = tg.to_python(tg.value_and_grad(lambda x: np.sum(np.where(x > 0.0, np.log(x), x * x))), np.array([0.5, 2.0]))
    np.testing.assert_allclose(run(text, np.array([1.0, -4.0]))[1], [1.0, -8.0])
    with pytest.raises(ValueError, match="a derivative is infinite or not a number"):
        run(text, np.array([0.0, -4.0]))


def test_arguments_have_their_names_and_results_are_said():
    text = tg.to_python(tg.value_and_grad(lambda p, scale: np.sum(p["a"] * scale)), ({"a": np.ones(2), "np": 2.0}, 3.0))
    assert "def derivative(p_a, p_np, scale):" in text
    assert "value, gradient by p['a'], gradient by p['np']" in text
    value, gradient, other = run(text, np.array([1.0, 2.0]), 0.0, 3.0)
    assert (value, gradient.tolist(), other) == (9.0, [3.0, 3.0], 0.0)


@every("name", ["range", "all", "bool", "ValueError", "lambda_", "None_", "np"])
def test_arguments_with_names_that_the_program_uses_or_python_reserves(name):
    def f(x, y):
        return np.sum(x * y) if x[0] > 0.0 else 0.0

    f = types.FunctionType(f.__code__.replace(co_varnames=(name, "y")), globals())
    value, gradient = run(tg.to_python(tg.value_and_grad(f), (np.ones(3), np.ones(3))), np.array([1.0, 2.0, 3.0]), np.array([0.5, 1.0, 2.0]))
    assert (value, gradient.tolist()) == (8.5, [0.5, 1.0, 2.0])


def test_largest_and_least():
    x = np.array([0.5, -1.5, 2.0])
    for f in (lambda x: np.max(x) * np.min(x), lambda x: np.sum(tg.softmax(3.0 * x) ** 2), np.linalg.norm):
        for one, other in zip(run(tg.to_python(tg.value_and_grad(f), x), -0.7 * x), tg.value_and_grad(f)(-0.7 * x)):
            np.testing.assert_allclose(one, other, rtol=1e-13)


def test_constant_results():
    """Integers that no double holds, derivatives that depend on nothing, arrays of nothing."""
    given = (2**63 - 1, np.uint64(2**64 - 3), np.int8(-3), np.array([2**62 + 1, 5]), True, 2**63)
    assert [np.asarray(one).tolist() for one in run(tg.to_python(lambda x: (*given, x), 1.5), 2.5)] == [*(np.asarray(one).tolist() for one in given), 2.5]
    for g, x in ((tg.hessian(np.sum), np.ones(3)), (tg.jacobian(lambda x: np.ones(2)), np.ones(3)), (tg.hessian(lambda x: np.sum(x**2)), np.zeros(0))):
        np.testing.assert_array_equal(run(tg.to_python(g, x), x), g(x))


def test_what_a_library_computes_is_refused_by_name():
    with pytest.raises(UnsupportedFunctionError, match="solve is computed by compiled code of NumPy's or SciPy's: it cannot be printed"):
        tg.to_python(lambda x: np.linalg.solve(np.eye(9) * x, x), np.ones(9))
    with pytest.raises(UnsupportedFunctionError, match="it cannot be printed"):
        tg.to_python(tg.grad(lambda x: special.gammainc(x, 2.0)), 1.5)
