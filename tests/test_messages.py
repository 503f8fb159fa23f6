"""What programs of new users run into, and the first sentence of what they are told: the one advice that fits."""

import math
from math import lgamma

import numba
import numpy as np
import pytest
import scipy.integrate
import scipy.linalg
import scipy.optimize
import scipy.special
import scipy.stats

import tapegrad as tg
import tapegrad.optim

SQUARE = numba.njit(lambda x: x**2)


def _assigned(t):
    a = np.eye(3)
    a[0, 1] = t
    return a.sum()


def _added(t):
    a = np.zeros(2)
    a += t * np.ones(2)
    return a.sum()


#: Program, differentiated at 1 -> how its message begins.
DIFFERENTIATED = [
    (lambda x: math.sin(x), "write np.sin(t) for math.sin(t). "),
    (lambda x: math.erf(x), "write scipy.special.erf(t) for math.erf(t). "),
    (lambda x: 0.5 + lgamma(x), "write scipy.special.gammaln(t) for lgamma(t). "),
    (lambda x: float(x) * x, "leave float out: a tensor needs none. "),
    (lambda x: len("%5.2f" % x) * x,  # noqa: UP031
     "write an f-string, or t.item() for the number in the text. "),
    (lambda x: [1.0, 2.0][x], "only integer tensors can be an index, this one has dtype float64; write int(t.item()) for its integer part"),
    (lambda k: scipy.integrate.solve_ivp(lambda t, y: -k * y, (0, 1), np.ones(1) * k).y[0, -1], "call tapegrad.scipy.integrate.solve_ivp, which takes tensors. "),
    (lambda k: scipy.stats.poisson.logpmf(3, k), "call tapegrad.scipy.stats.poisson.logpmf, which takes tensors. "),
    (lambda k: scipy.special.logsumexp(k * np.arange(3.0)), "call tapegrad.scipy.special.logsumexp, which takes tensors. "),
    (lambda k: scipy.linalg.solve_triangular(np.eye(2) * k, np.ones(2)).sum(), "call tapegrad.scipy.linalg.solve_triangular, which takes tensors. "),
    (lambda k: scipy.linalg.lu(np.eye(2) * k)[1].sum(), "write lu of scipy.linalg in functions of NumPy, or make it a primitive with a rule (tg.custom_vjp)"),
    (lambda k: scipy.optimize.brentq(lambda x: x**2 - k, 0, 3), "call tg.implicit.root(F, x0, *args) for scipy.optimize.brentq, and differentiate by args. "),
    (lambda k: scipy.optimize.fsolve(lambda x: x**2 - k, 1.0)[0], "call tg.implicit.root(F, x0, *args) for scipy.optimize.fsolve, and differentiate by args. "),
    (lambda k: scipy.optimize.root(lambda x: x**2 - k, 1.0).x[0], "call tg.implicit.root(F, x0, *args) for scipy.optimize.root, and differentiate by args. "),
    (lambda k: scipy.optimize.minimize(lambda x: ((x - k) ** 2).sum(), 1.0).x[0], "call tg.implicit.argmin(F, x0, *args) for scipy.optimize.minimize"),
    (lambda k: scipy.optimize.least_squares(lambda x: x - k, 1.0).x[0], "call tg.implicit.argmin(F, x0, *args), F half the sum of squares, for scipy.optimize.least_squares, and differentiate by args. "),
    (SQUARE, "give it to tg.njit_grad, or tg.njit_jacobian, to differentiate a function compiled by Numba"),
    (lambda x: SQUARE(x) * 2.0, "call the Python function that it was made of, f.py_func, to differentiate a function compiled by Numba"),
    (lambda x: x.sinn(), "a tensor has no attribute 'sinn'; write t.sin"),
    (lambda x: (x * np.ones(2)).at, "a tensor has no attribute 'at'; write y = x.copy(); y[i] = v"),
    (lambda x: (x * np.ones(2)).groupby([0, 1]), "a tensor has no attribute 'groupby'; write tg.segment_sum(t, groups)"),
    (_assigned, "a is a plain array, which cannot hold it: write a = tg.tensor(a) first"),
    (_added, "a is a plain array, which cannot hold it: write a = tg.tensor(a) first"),
    (lambda t: np.mean([t, t * 2]), "write np.mean(tg.array(a)): np.mean takes numbers out of an array of tensors. "),
    (lambda t: np.float64(t), "leave np.float64 out: a tensor needs none"),
    (lambda t: np.asarray(t * np.ones(2)).sum(), "leave np.asarray out: a tensor needs none"),
    (lambda t: np.fromiter((t for _ in range(3)), float).sum(), "write tg.array([t, ...]) for np.fromiter([t, ...]). "),
    (lambda t: np.ones(2).dot(t * np.ones(2)), "write np.ones(2) @ t for np.ones(2).dot(t). "),
    (lambda t: np.full(3, t * np.ones(3)).sum(), "make the array with tg.zeros(shape), or np.zeros_like(t), which can hold a tensor. "),
    (lambda t: np.exp(np.array([t, 1.0])).sum(), "write tg.array([t, 1.0]) for np.array([t, 1.0]), or import tapegrad.numpy as np: "),
    (lambda t: np.linalg.inv(np.array([[t, 1.0], [0.0, t]])).sum(), "write tg.array([t, 1.0]) for np.array([t, 1.0]), or import tapegrad.numpy as np: "),
    (lambda t: int(t) * t, "write int(t.item()) for the integer part of the value. "),
    (lambda t: len({t, t * 1.0}) * t, "write t.item() to look up its value in a set or dict"),
]


@pytest.mark.parametrize("program, said", DIFFERENTIATED, ids=[str(k) for k in range(len(DIFFERENTIATED))])
def test_what_cannot_be_differentiated_says_first_what_to_write(program, said):
    for transform in (tg.grad, lambda f: tg.jit(tg.grad(f))):
        with pytest.raises((TypeError, AttributeError, tg.errors.TapegradError)) as raised:
            transform(program)(1.0)
        assert str(raised.value).startswith(said), str(raised.value)
        assert not str(raised.value).count("tapegrad.scipy.") > 1


#: A name of another library -> the end of its message.
NAMES = {
    "tg.gradient": "; write tg.grad(f) (np.gradient takes differences of an array)", "tg.tree_map": "; write tg.tree.map", "tg.make_vjp": "tapegrad.hips.make_vjp is autograd's",
    "tg.lax": "tg.scan, tg.while_loop, tg.fori_loop, tg.cond, tg.switch, tg.map", "tg.SX": "; write a Python function of an array: there are no symbols", "tg.dual": "; write tg.Dual(x, tangent)",
    "tg.nn.softmax": "; write tg.nn.functional, and the same name", "tg.optim.adam": "tg.optimize.adam(f, x0) and lbfgs(f, x0) for functions", "tg.jacobain": "; write tg.jacobian",
    "tg.optim.AdamWW": "; write tg.optim.AdamW", "tg.no_such_thing": "has no attribute 'no_such_thing'",
}  # fmt: skip


def test_names_of_other_libraries_say_what_to_write():
    for name, said in NAMES.items():
        module, _, attribute = name.rpartition(".")
        with pytest.raises(AttributeError) as raised:
            getattr({"tg": tg, "tg.nn": tg.nn, "tg.optim": tapegrad.optim}[module], attribute)
        assert str(raised.value).endswith(said), str(raised.value)


def test_keywords_of_other_libraries_say_what_to_write():
    for call, said in [
        (lambda: tg.jit(abs, static_argnums=1), "jit() takes no static_argnums=; leave it out: what is no float"), (lambda: tg.jit(abs, static_argnames="n"), "jit() takes no static_argnames=; leave it out"),
        (lambda: tg.jacobian(abs, sparse=True), "jacobian() takes no sparse=; call tg.sparse_jacobian(f)"), (lambda: tg.hessian(abs, sparse=True), "hessian() takes no sparse=; call tg.sparse_hessian(f)"),
        (lambda: tg.implicit.root(lambda x, k: x - k, 1.0, args=(2.0,)), "root() takes no args=; give them one by one: root(f, x0, *args)"),
    ]:  # fmt: skip
        with pytest.raises(TypeError) as raised:
            call()
        assert str(raised.value).startswith(said)


def test_a_table_of_pandas_as_a_parameter():
    pandas = pytest.importorskip("pandas")
    with pytest.raises(tg.errors.StructureError, match=r"argument 0 is of type Series, which cannot be differentiated: give its numbers, \.to_numpy\(\)"):
        tg.grad(lambda p: (p**2).sum())(pandas.Series([1.0, 2.0]))


def test_libraries_that_draw_are_told_to_take_plain_numbers():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    x = tg.tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(tg.errors.LeaveTapeError, match=r"^give matplotlib plain numbers: t\.detach\(\)"):
        pyplot.plot(x, x**2)
    pyplot.close("all")


def test_a_class_of_errors_that_does_not_exist_suggests_one():
    from tapegrad.tools.commands.explanations import explanation

    with pytest.raises(tg.errors.OptionError, match="^'gard' is not an error class of tapegrad; did you mean GuardError"):
        explanation("gard")
    with pytest.raises(tg.errors.OptionError, match="python -m tapegrad explain lists all"):
        explanation("nosuch")


def test_without_the_source_the_bytecode_says_what_is_called():
    scope = {"np": np, "math": math, "tg": tg}
    exec("def f(x):\n    return math.sin(x) + 1.0\ndef g(x):\n    a = np.zeros(2)\n    a[0] = x\n    return a\ndef h(x):\n    return np.asarray(x * np.ones(2)).sum()", scope)
    for function, said in ((scope["f"], "write np.sin(t) for math.sin(t). "), (scope["g"], "a is a plain array, which cannot hold it"), (scope["h"], "leave np.asarray out: ")):
        with pytest.raises(tg.errors.LeaveTapeError) as raised:
            tg.grad(function)(1.0)
        assert str(raised.value).startswith(said), str(raised.value)
