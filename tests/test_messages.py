"""What programs of new users run into, and the first sentence of what they are told: the one advice that fits."""

import dataclasses
import math
import traceback
from math import lgamma

import numba
import numpy as np
import pytest
import scipy.integrate
import scipy.linalg
import scipy.ndimage
import scipy.optimize
import scipy.signal
import scipy.spatial.distance
import scipy.special
import scipy.stats
from scipy.spatial.transform import Rotation

import tapegrad as tg
import tapegrad.optim
import tapegrad.scipy.integrate
from tapegrad.common import tracebacks

SQUARE = numba.njit(lambda x: x**2)


def _assigned(t):
    a = np.eye(3)
    a[0, 1] = t
    return a.sum()


def _added(t):
    a = np.zeros(2)
    a += t * np.ones(2)
    return a.sum()


def _updated(t):
    a, b = np.zeros(3), {"it": np.zeros(2)}
    b["it"] += 1.0
    a[1:] += np.array([t, 1.0])
    return a.sum()


def _updated_part(t):
    a = np.zeros(3)
    a[1:] *= t * np.ones(2)
    return a.sum()


OBJECTS = "write tg.array([t, 1.0]) for np.array([t, 1.0]), or import tapegrad.numpy as np: "


def _of_objects(function):
    return lambda t: np.sum(function(np.array([[t, 0.1], [0.2, t + 1.0]])))


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
    (lambda k: tapegrad.scipy.integrate.solve_ivp(lambda t, y: -k * y, (0, 1), np.ones(1) * k, method="LSODA").y[0, -1],
     "solve_ivp with tensors takes the methods RK45, RK23, DOP853, BDF, Radau and RK4, not 'LSODA'"),
    (lambda k: scipy.stats.poisson.logpmf(3, k), "call tapegrad.scipy.stats.poisson.logpmf, which takes tensors. "),
    (lambda k: scipy.special.logsumexp(k * np.arange(3.0)), "call tapegrad.scipy.special.logsumexp, which takes tensors. "),
    (lambda k: scipy.linalg.solve_triangular(np.eye(2) * k, np.ones(2)).sum(), "call tapegrad.scipy.linalg.solve_triangular, which takes tensors. "),
    (lambda k: scipy.linalg.lu(np.eye(2) * k)[1].sum(), "write lu of scipy.linalg in functions of NumPy, or make it a primitive with a rule (tg.custom_vjp)"),
    (lambda k: Rotation.from_rotvec(k * np.ones(3)).as_matrix().sum(), "write from_rotvec of scipy.spatial in functions of NumPy, or make it a primitive"),
    (lambda k: scipy.optimize.brentq(lambda x: x**2 - k, 0, 3), "call tg.implicit.root(F, x0, *args) for scipy.optimize.brentq, and differentiate by args. "),
    (lambda k: scipy.optimize.fsolve(lambda x: x**2 - k, 1.0)[0], "call tg.implicit.root(F, x0, *args) for scipy.optimize.fsolve, and differentiate by args. "),
    (lambda k: scipy.optimize.root(lambda x: x**2 - k, 1.0).x[0], "call tg.implicit.root(F, x0, *args) for scipy.optimize.root, and differentiate by args. "),
    (lambda k: scipy.optimize.minimize(lambda x: ((x - k) ** 2).sum(), 1.0).x[0], "call tg.implicit.argmin(F, x0, *args) for scipy.optimize.minimize"),
    (lambda k: scipy.optimize.least_squares(lambda x: x - k, 1.0).x[0], "call tg.implicit.argmin(F, x0, *args), F half the sum of squares, for scipy.optimize.least_squares, and differentiate by args. "),
    (lambda k: tg.implicit.root(lambda x, a, b: x * a - b, 1.0, (k, 2.0)), "give the arguments of <lambda>.<locals>.<lambda> one by one, not as a tuple: missing a required argument: 'b'"),
    (SQUARE, "give it to tg.njit_grad, or tg.njit_jacobian, to differentiate a function compiled by Numba"),
    (lambda x: SQUARE(x) * 2.0, "call the Python function that it was made of, f.py_func, to differentiate a function compiled by Numba"),
    (lambda x: x.sinn(), "a tensor has no attribute 'sinn'; write t.sin"),
    (lambda x: (x * np.ones(2)).at, "a tensor has no attribute 'at'; write y = x.copy(); y[i] = v"),
    (lambda x: (x * np.ones(2)).groupby([0, 1]), "a tensor has no attribute 'groupby'; write tg.segment_sum(t, groups)"),
    (lambda x: (x * np.ones(2)).rolling(2), "a tensor has no attribute 'rolling'; write np.lib.stride_tricks.sliding_window_view(t, n)"),
    (lambda x: x.size(0) * x, "x.size is a number, as NumPy has it: write x.shape, or x.shape[0]"),
    (lambda x: x.block_until_ready(), "a tensor has no attribute 'block_until_ready'; write nothing: the value is there"),
    (_assigned, "a is a plain array, which cannot hold it: write a = tg.tensor(a) first"),
    (_added, "a is a plain array, which cannot hold it: write a = tg.tensor(a) first"),
    (_updated, "a is a plain array, which cannot hold it: write a = tg.tensor(a) first"),
    (_updated_part, "a is a plain array, which cannot hold it: write a = tg.tensor(a) first"),
    (lambda k: scipy.signal.lfilter(np.array([k, 1.0]), [1.0, 0.5], np.ones(4)).sum(), "call tapegrad.scipy.signal.lfilter, which takes tensors; of an array of tensors SciPy says: "),
    (lambda k: scipy.ndimage.map_coordinates(np.eye(4), np.array([[k], [1.0]])).sum(), "call tapegrad.scipy.ndimage.map_coordinates, which takes tensors; "),
    (lambda k: scipy.spatial.distance.cdist(k * np.ones((2, 1)), np.ones((2, 1))).sum(), "call tapegrad.scipy.spatial.distance.cdist, which takes tensors. "),
    (lambda k: scipy.special.kv(1.0, k), "scipy.special.kv has no derivative rule in tapegrad"),
    (lambda x: x.tobytes(), "a tensor has no attribute 'tobytes'; write t.detach().numpy().tobytes()"),
    (lambda t: np.polynomial.chebyshev.chebval(0.3, np.stack([t, t])), "write np.polyval(c[::-1], x) for polynomials, chebvander(x, len(c) - 1) @ c for chebval(x, c): "),
    (lambda t: np.polynomial.Polynomial(np.stack([t, t])), "write np.polyval(c[::-1], x) for polynomials, "),
    (lambda t: np.mean([t, t * 2]), "write np.mean(tg.array(a)): np.mean takes numbers out of an array of tensors. "),
    (lambda t: np.array(t * np.ones(2)).sum(), "write t.copy() for np.array(t), or tg.array(a) for np.array(a) of a list of tensors. "),
    (lambda t: np.float64(t), "leave np.float64 out: a tensor needs none"),
    (lambda t: np.asarray(t * np.ones(2)).sum(), "leave np.asarray out: a tensor needs none"),
    (lambda t: np.fromiter((t for _ in range(3)), float).sum(), "write tg.array([t, ...]) for np.fromiter([t, ...]). "),
    (lambda t: np.vectorize(lambda v: v**2)(t * np.ones(2)).sum(), "write tg.vmap(f)(t) for np.vectorize(f)(t), or f(t) if f takes arrays. "),
    (lambda t: np.r_[0.0, t * np.ones(2)].sum(), "write np.concatenate([[a], t]) for np.r_[a, t]. "),
    (lambda t: t * round(t), "write np.round(t) for round(t). "),
    (lambda t: sum(v for _, v in np.ndenumerate(t * np.ones(2))), "write ((i, t[i]) for i in np.ndindex(t.shape)) for np.ndenumerate(t). "),
    (lambda t: np.frompyfunc(lambda v: v * v, 1, 1)(t), "a ufunc of np.frompyfunc (<lambda>) has no derivative rule"),
    (lambda t: np.c_[np.ones(2), t * np.ones(2)].sum(), "write np.column_stack([t, u]) for np.c_[t, u]. "),
    (lambda t: np.histogram(t * np.ones(3))[0][0] * t, "numpy.histogram has no derivative rule in tapegrad: counts do not change with the values, edges do; use .detach().numpy()"),
    (lambda t: np.ones(2).dot(t * np.ones(2)), "write np.ones(2) @ t for np.ones(2).dot(t). "),
    (lambda t: np.full(3, t * np.ones(3)).sum(), "make the array with tg.zeros(shape), or np.zeros_like(t), which can hold a tensor. "),
    *((_of_objects(f), OBJECTS) for f in (
        np.exp, np.log1p, np.sqrt, np.isnan, np.isfinite, scipy.special.expit, np.linalg.inv, np.linalg.det, np.linalg.cholesky, np.linalg.eigvalsh,
        lambda a: np.linalg.solve(a, np.ones(2)), lambda a: np.logaddexp(a, 0.0), lambda a: np.interp(a, [0.0, 1.0], [0.0, 1.0]), lambda a: np.round(a, 2),
    )),
    (_of_objects(np.std), "write np.std(tg.array(a)): np.std takes numbers out of an array of tensors. "),
    (_of_objects(np.median), "write np.median(tg.array(a)): np.median takes numbers out of an array of tensors. "),
    (_of_objects(lambda a: np.floor(a)), "write np.floor(tg.array(a)): np.floor does not know arrays of tensors. "),
    (_of_objects(lambda a: a.astype(float)), "write tg.array(a), which makes an array of tensors one tensor. "),
    (lambda t: int(t) * t, "write int(np.floor(t)) for the integer below, or int(t.item()). "),
    (lambda t: np.ones(3)[int(t * np.floor(t))] * t, "write int(np.floor(t)) for the integer below, or int(t.item()). "),
    (lambda t: len({t, t * 1.0}) * t, "write t.item() to look up its value in a set or dict"),
    (lambda t: np.sum(t * np.ma.masked_array([1.0, 2.0], [0, 1])), "multiply: an array of class MaskedArray calculates in its own way, which would be lost; give a plain array: a.filled(value)"),
    (lambda t: None, "the result of <lambda> ("),
    (lambda t: t * np.ones(2), "the function must return one number to be differentiated, it returned an array of shape (2,); sum it, or use tg.jacobian"),
]  # fmt: skip


@pytest.mark.parametrize("program, said", DIFFERENTIATED, ids=[str(k) for k in range(len(DIFFERENTIATED))])
def test_what_cannot_be_differentiated_says_first_what_to_write(program, said):
    for transform in (tg.grad, lambda f: tg.jit(tg.grad(f))):
        with pytest.raises((TypeError, AttributeError, tg.errors.TapegradError)) as raised:
            transform(program)(1.0)
        assert str(raised.value).startswith(said), str(raised.value)
        assert not str(raised.value).count("tapegrad.scipy.") > 1


class Exponential(tg.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.exp()


def _made(text, *names):
    """The functions that a program defines."""
    scope = {"np": np, "math": math, "tg": tg}
    exec(text, scope)
    return [scope[name] for name in names]


def _leaf(size=None):
    return tg.tensor(1.0 if size is None else np.ones(size), requires_grad=True)


def _twice():
    y = _leaf() ** 2
    y.backward()
    y.backward()


def _into_leaf():
    x = _leaf(2)
    x[0] = 0.0


def _jumping(k):
    return np.where(k < 1.000001, 1.0, 2.0) * k


#: Program of define-by-run, or call -> how its message, or the note that is printed below it, begins.
AT_ONCE = [
    (lambda: math.sin(_leaf()), "write np.sin(t) for math.sin(t). "),
    (lambda: _assigned(_leaf()), "a is a plain array, which cannot hold it: write a = tg.tensor(a) first"),
    (lambda: _of_objects(np.exp)(_leaf()), OBJECTS),
    (lambda: _of_objects(np.linalg.cholesky)(_leaf()), OBJECTS),
    (lambda: np.random.normal(_leaf(), 1.0), "write t + u * rng.standard_normal(n) for rng.normal(t, u)"),
    (lambda: np.random.permutation(_leaf(3)), "write t[rng.permutation(len(t))] for rng.permutation(t)"),
    (lambda: np.random.default_rng(0).choice(_leaf(3), 2), "write t[rng.permutation(len(t))] for rng.permutation(t), t[rng.integers(len(t), size=n)] for rng.choice(t, n)"),
    (lambda: np.random.default_rng(0).multivariate_normal(_leaf(3), np.eye(3)), "write m + np.linalg.cholesky(C) @ rng.standard_normal(n) for "),
    (lambda: np.random.default_rng(0).gamma(_leaf()), "write t + u * rng.standard_normal(n) for rng.normal(t, u)"),
    (lambda: _leaf().sinn(), "a tensor has no attribute 'sinn'; write t.sin"),
    (lambda: tg.jvp(lambda x: x.sinn(), (1.0,), (1.0,)), "a tensor has no attribute 'sinn'; write t.sin"),
    (lambda: _leaf(2).size(0), "_leaf(2).size is a number, as NumPy has it: write _leaf(2).shape, or _leaf(2).shape[0]"),
    (lambda: Exponential.apply(_leaf(2)), "tapegrad: a Function is given plain arrays and floats; write x = tg.as_tensor(x) first for x.exp"),
    (_twice, "Trying to backward through the graph a second time"),
    (_into_leaf, "a leaf tensor that requires a gradient (or a view of one) is assigned to in place; assign under tg.no_grad(), or to a copy"),
    (lambda: (tg.tensor(2.0) ** 2).backward(), "element 0 of tensors does not require grad and does not have a grad_fn: nothing it was computed from requires a gradient"),
    (lambda: (_leaf(2) ** 2).backward(), "grad can be implicitly created only for scalar outputs; this output has shape (2,). "),
    (lambda: tg.grad(SQUARE.py_func, argnums=1.0)(1.0), "argnums=1.0 is not the position of an argument, or a tuple of them; the arguments are given to the function that is returned"),
    (lambda: tg.grad(_leaf() * 2.0), "expected a function to differentiate, got Tensor; write tg.autograd.grad(y, x)"),
    (lambda: tg.grad(lambda x, y: x * y)(x=1.0, y=2.0), "argnums=(0,) asks for argument 0, but the function was called with 0 positional arguments; what is"),
    (lambda: tg.check(_jumping, 1.0), "comparison (less) at "),
    (lambda: tg.njit_grad(_made("def f(x):\n    z = x * 1j\n    return (z * z).real", "f")[0])(1.0), "write complex arithmetic in real and imaginary parts."),
    (lambda: tg.njit_grad(_made("def f(x):\n    return np.float32(x) * x", "f")[0])(1.0), "leave np.float32 out: a differentiated number is a float64; "),
    (lambda: tg.njit_grad(_made("def f(x, w):\n    w[0] = x[0] * 2.0\n    return w[0]", "f")[0])(np.ones(2), np.ones(2, int)),
     "the array cannot hold differentiated values; make it inside, as float64, with np.zeros or np.empty_like(x), or pass one of floats, not read-only"),
    (lambda: exec("from tapegrad import lax"), "module 'tapegrad' has no attribute 'lax'; write if, for and while; tg.scan"),
    (lambda: exec("import tapegrad.random"), "module 'tapegrad' has no attribute 'random'; write rng = np.random.default_rng(seed)"),
    (lambda: exec("from tapegrad.misc.optimizers import adam"), "module 'tapegrad' has no attribute 'misc'; write tapegrad.hips, and the same name"),
    (lambda: exec("import tapegrad.nn.functionall"), "module 'tapegrad.nn' has no attribute 'functionall'; write tg.nn.functional"),
]  # fmt: skip


@pytest.mark.parametrize("program, said", AT_ONCE, ids=[str(k) for k in range(len(AT_ONCE))])
def test_what_is_printed_at_once(program, said):
    with pytest.raises(Exception) as raised:  # noqa: PT011
        program()
    tracebacks.shorten(raised.value)
    lines = "".join(traceback.format_exception_only(raised.value)).splitlines()
    assert any(line.split("Error: ", 1)[-1].strip().removeprefix("What to do: ").startswith(said) for line in lines), lines


def test_what_is_said_of_tables():
    pandas = pytest.importorskip("pandas")
    a, frame = pandas.Series([1.0, 2.0]), pandas.DataFrame({"x": [1.0, 2.0]})
    for program, said in [
        (lambda p: (p * a).rolling(2).mean().sum(), "write np.lib.stride_tricks.sliding_window_view(s.to_numpy(), n): .rolling of a table"),
        (lambda p: (p * frame).groupby("x").sum().sum(), "give the groups as a plain Series, .groupby(df.k): "), (lambda p: (p * frame).merge(frame).sum(), "compute with the tensor in it, s.to_numpy()"),
        (lambda p: (p * pandas.Series([1, None], dtype="Int64")).sum(), "write s.astype(float), which makes missing values NaN: "),
        (lambda p: frame.assign(z=p * frame.x).z.sum(), "keep a table that was computed from a tensor out of pandas' own (write z = p * df.x for df['z'] = p * df.x)"),
    ]:  # fmt: skip
        for transform in (tg.grad, lambda f: tg.jit(tg.grad(f))):
            with pytest.raises(tg.errors.TapegradError) as raised:
                transform(program)(1.0)
            assert str(raised.value).startswith(said), str(raised.value)


def test_an_error_without_tensors_stays_as_it_is():
    for program in (lambda: np.exp(np.array([1.0, "a"], object)), lambda: exec("import json.nothing"), lambda: exec("import tapegrad.nothing_like_it"), lambda: len(3)):
        with pytest.raises(Exception) as raised:  # noqa: PT011
            program()
        tracebacks.shorten(raised.value)
        assert not any("write" in note for note in getattr(raised.value, "__notes__", ()))


def test_stats_name_no_line_where_the_user_detaches_nothing():
    g = tg.jit(tg.grad(lambda k: tapegrad.scipy.integrate.solve_ivp(lambda t, y: -k * y, (0.0, 1.0), np.ones(1), method="Radau").y[0, -1]), kernel="never")
    assert abs(g(1.0) + math.exp(-1.0)) < 1e-3 and not g.stats().cuts and "cut" not in str(g.stats())


#: A name of another library -> the end of its message.
NAMES = {
    "tg.gradient": "; write tg.grad(f) (np.gradient takes differences of an array)", "tg.tree_map": "; write tg.tree.map", "tg.make_vjp": "tapegrad.hips.make_vjp is autograd's",
    "tg.lax": "tg.scan, tg.while_loop, tg.fori_loop, tg.cond, tg.switch, tg.map", "tg.SX": "; write a Python function of an array: there are no symbols", "tg.dual": "; write tg.Dual(x, tangent)",
    "tg.nn.softmax": "; write tg.nn.functional, and the same name", "tg.optim.adam": "tg.optimize.adam(f, x0) and lbfgs(f, x0) for functions", "tg.jacobain": "; write tg.jacobian",
    "tg.optim.AdamWW": "; write tg.optim.AdamW", "tg.no_such_thing": "has no attribute 'no_such_thing'", "tg.tree_util": "; write tg.tree", "tg.ravel_pytree": "; write tg.tree.ravel",
    "tg.make_jaxpr": "; write tg.grad(f).tape(x), and print it", "tg.eval_shape": "; write f(x).shape: functions are run", "tg.register_pytree_node": "; write tg.tree.register",
    **dict.fromkeys(("tg.pmap", "tg.device_put"), "; write nothing: there is one device; tg.config.threads, tg.sum_over and tg.distribute share work"), "tg.debug": "not under tg.jit",
    "tg.random": "; write rng = np.random.default_rng(seed), and give what it draws as an array", "tg.block_until_ready": "; write nothing: the value is there",
    "tg.optim.chain": "; write optimizer.zero_grad(), loss.backward(), optimizer.step()", "tg.nn.Embedding": "; write table = tg.nn.Parameter(tg.randn(n, width)), and table[words]",
    "tg.make_jvp": "tapegrad.hips.make_jvp is autograd's", **dict.fromkeys(("tg.make_hvp", "tg.hessian_vector_product"), "; write tg.hvp(f)(x, v)"),
    "tg.holomorphic_grad": "; write tg.grad(f, holomorphic=True)", "tg.grad_named": '; write tg.grad(f, argnums="name")', "tg.grad_and_aux": "; write tg.grad(f, has_aux=True)",
    **dict.fromkeys(("tg.multigrad_dict", "tg.misc", "tg.extend", "tg.test_util", "tg.builtins", "tg.tracer"), "; write tapegrad.hips, and the same name"),
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


def test_text_in_a_dataclass_of_parameters():
    def made(**options):
        return dataclasses.make_dataclass("Model", [("a", float, 2.0), ("name", str, dataclasses.field(default="x", **options))])()

    said = r"^argument 0\.name is of type str, which cannot be differentiated: pass it apart, or declare it in its dataclass as field\(metadata=\{'static': True\}\)"
    with pytest.raises(tg.errors.StructureError, match=said):
        tg.grad(lambda m: m.a**2)(made())
    slope = tg.grad(lambda m: m.a**2)(made(metadata={"static": True}))
    assert (slope.a, slope.name) == (4.0, "x")


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
    program = "def f(x):\n    return math.sin(x) + 1.0\ndef g(x):\n    a = np.zeros(2)\n    a[0] = x\n    return a\ndef h(x):\n    return np.asarray(x * np.ones(2)).sum()"
    for function, said in zip(_made(program, "f", "g", "h"), ("write np.sin(t) for math.sin(t). ", "a is a plain array, which cannot hold it", "leave np.asarray out: ")):
        with pytest.raises(tg.errors.LeaveTapeError) as raised:
            tg.grad(function)(1.0)
        assert str(raised.value).startswith(said), str(raised.value)
