"""Programs in autograd's manner, by autograd and, with only their imports changed, by `tapegrad.hips`: the same numbers."""

import importlib
from types import SimpleNamespace

import numpy as onp
import pytest

import tapegrad.hips
from tapegrad.errors import MissingRuleError, OptionError
from tests.every import every
from tests.numpy.test_hips import ALONE, CALLS, loss_of

pytest.importorskip("autograd")


def library(name):
    """The modules of one of the two, as programs import them."""
    at = lambda module: importlib.import_module(f"{name}.{module}" if module else name)  # noqa: E731
    modules = {
        "ag": "", "np": "numpy", "npr": "numpy.random", "special": "scipy.special", "norm": "scipy.stats.norm", "mvn": "scipy.stats.multivariate_normal",
        "t": "scipy.stats.t", "signal": "scipy.signal", "linalg": "scipy.linalg", "integrate": "scipy.integrate", "extend": "extend", "builtins": "builtins",
        "flatten": "misc.flatten", "optimizers": "misc.optimizers", "fixed_points": "misc.fixed_points", "test_util": "test_util", "util": "util",
        "operators": "differential_operators", "tracer": "tracer", "boxes": "numpy.numpy_boxes", "stats": "scipy.stats", "core": "core", "wrap_util": "wrap_util",
    }  # fmt: skip
    return SimpleNamespace(**{short: at(module) for short, module in modules.items()})


X, V = onp.array([0.3, -0.7, 1.2]), onp.array([0.5, 1.0, -2.0])


def logistic_regression(a):
    np, inputs, targets = a.np, onp.array([[0.52, 1.12, 0.77], [0.88, -1.08, 0.15], [0.52, 0.06, -1.30], [0.74, -2.49, 1.39]]), onp.array([1, 1, 0, 1])

    def loss(w):
        p = 0.5 * (np.tanh(np.dot(inputs, w)) + 1)
        label = p * targets + (1 - p) * (1 - targets)
        return -np.sum(np.log(label))

    w, slope = np.array([0.0, 0.0, 0.0]), a.ag.grad(loss)
    for _ in range(20):
        w = w - slope(w) * 0.1
    return w, loss(w)


def network(a):
    np, rs = a.np, onp.random.RandomState(0)
    params = [{"W": rs.randn(m, n) * 0.5, "b": onp.zeros(n)} for m, n in ((2, 4), (4, 1))]
    inputs, targets = rs.randn(10, 2), rs.randn(10, 1)

    def predict(params, x):
        for layer in params:
            x = np.tanh(np.dot(x, layer["W"]) + layer["b"])
        return x

    def objective(params, i):
        log_prior = -0.01 * np.dot(*2 * [a.flatten.flatten(params)[0]])
        return np.mean((predict(params, inputs) - targets) ** 2) - log_prior

    seen = []
    slope = a.ag.grad(objective)
    found = [opt(slope, params, callback=lambda p, i, g: seen.append(objective(p, i)), num_iters=5) for opt in (a.optimizers.adam, a.optimizers.sgd, a.optimizers.rmsprop)]
    return found, seen


def mixture(a):
    np, data = a.np, onp.random.RandomState(1).randn(20, 2)

    def log_likelihood(params):
        weights = params["logits"] - a.special.logsumexp(params["logits"])
        parts = [w + a.mvn.logpdf(data, mean, np.dot(root.T, root) + np.eye(2)) for w, mean, root in zip(weights, params["means"], params["roots"])]
        return np.sum(a.special.logsumexp(np.vstack(parts), axis=0))

    params = {"logits": onp.zeros(2), "means": onp.array([[0.1, 0.2], [1.0, -1.0]]), "roots": onp.array([onp.eye(2), 2 * onp.eye(2)])}
    vector, unflatten = a.flatten.flatten(params)
    return a.ag.value_and_grad(log_likelihood)(params), a.ag.hessian_vector_product(lambda v: log_likelihood(unflatten(v)))(vector, onp.ones(len(vector)))


def own_primitive(a):
    np = a.np

    @a.extend.primitive
    def logsumexp(x):
        """As in the tutorial."""
        top = np.max(x)
        return top + np.log(np.sum(np.exp(x - top)))

    a.extend.defvjp(logsumexp, lambda ans, x: lambda g: np.full(x.shape, g) * np.exp(x - np.full(x.shape, ans)))
    a.extend.defjvp(logsumexp, lambda g, ans, x: np.sum(g * np.exp(x - ans)))

    def example(y):
        return logsumexp(y**2)

    return example(X), a.ag.grad(example)(X), a.ag.hessian(example)(X), a.ag.make_jvp(example)(X)(V), logsumexp.__doc__


def rules(a):
    np = a.np

    def second_argument_of_two(x, y, scale=1.0):
        return scale * x * np.sin(y)

    f = a.extend.primitive(second_argument_of_two)
    a.extend.defvjp(f, lambda ans, x, y, scale=1.0: lambda g: g * scale * x * np.cos(y), argnums=(1,))
    g = a.extend.primitive(lambda x, y: x * y)
    a.extend.defvjp_argnum(g, lambda k, ans, args, kwargs: lambda g: g * args[1 - k])
    a.extend.defjvp_argnum(g, lambda k, t, ans, args, kwargs: t * args[1 - k])
    h = a.extend.primitive(lambda x, y: x + 2 * y)
    a.extend.defvjp_argnums(h, lambda ks, ans, args, kwargs: lambda g: [g * (1 + k) for k in ks])
    a.extend.defjvp(h, "same", lambda t, ans, x, y: 2 * t)
    linear = a.extend.primitive(lambda x, y: x * y)
    a.extend.def_linear(linear)
    none = a.extend.primitive(lambda x, y: x * np.floor(y))
    a.extend.defvjp(none, lambda ans, x, y: lambda g: g * np.floor(y), None)
    rounded = a.extend.notrace_primitive(lambda x: float(onp.floor(x)))
    return (
        a.ag.grad(f, 1)(2.0, 0.5), a.ag.grad(lambda y: f(2.0, y, scale=3.0))(0.5), a.ag.grad(g, (0, 1))(2.0, 3.0), a.ag.make_jvp(g, (0, 1))(2.0, 3.0)((1.0, 1.0)),
        a.ag.grad(h, (0, 1))(2.0, 3.0), a.ag.grad(h, 1)(2.0, 3.0), a.ag.make_jvp(h, 1)(2.0, 3.0)(1.0), a.ag.make_jvp(linear, 1)(2.0, 3.0)(1.0),
        a.ag.grad(none, (0, 1))(2.0, 3.5), a.ag.grad(lambda x: x * rounded(x))(2.5),
    )  # fmt: skip


def operators(a):
    np, ag = a.np, a.ag

    def f(x, y=2.0):
        return np.sum(np.sin(x) * x[::-1]) * y

    def vector(x, y):
        return np.outer(np.sin(x), y)[:2]

    vjp, value = ag.make_vjp(vector, 1)(X, V)
    hvp, slope = ag.make_hvp(f)(X)
    return {
        "grad": ag.grad(f)(X), "both": ag.grad(f, (0, 1))(X, 3.0), "value": ag.value_and_grad(f)(X), "jacobian": ag.jacobian(vector)(X, V), "second": ag.jacobian(vector, 1)(X, V),
        "hessian": ag.hessian(f)(X), "elementwise": ag.elementwise_grad(np.tanh)(X), "deriv": ag.deriv(lambda t: np.sin(t) * X)(0.7),
        "holomorphic": ag.holomorphic_grad(lambda z: z**2)(1.0 + 2.0j), "complex": ag.grad(lambda z: np.real(z * np.conj(z) + z**2))(1.0 + 2.0j),
        "aux": ag.grad_and_aux(lambda x: (np.sum(x**2), {"n": 3.0}))(X), "named": ag.grad_named(f, "y")(X, 3.0), "value of vjp": value, "vjp": vjp(onp.ones((2, 3))),
        "jvp": ag.make_jvp(vector)(X, V)(onp.cos(X)), "hvp": (hvp(V), slope), "product": ag.hessian_vector_product(f)(X, V), "tensor": ag.hessian_tensor_product(f)(X, V),
        "left": ag.vector_jacobian_product(vector)(X, V, onp.ones((2, 3))), "tensor left": ag.tensor_jacobian_product(vector, 1)(X, V, onp.ones((2, 3))),
        "ggnvp": ag.make_ggnvp(lambda x: np.sin(x) * x[0])(X)(V), "other loss": ag.make_ggnvp(np.tanh, lambda y: np.sum(np.exp(y)))(X)(V),
        "checkpoint": ag.grad(ag.checkpoint(f))(X),
        "nested": ag.grad(lambda x: ag.grad(lambda y: x * y**3)(x))(2.0),
        "egrad twice": ag.elementwise_grad(ag.elementwise_grad(lambda x: x**4))(X),
    }  # fmt: skip


def ordinary_differential_equation(a):
    np, times = a.np, onp.linspace(0.0, 2.0, 9)

    def func(y, t, alpha, beta, gamma, delta):
        return np.array([alpha * y[0] - beta * y[0] * y[1], -delta * y[1] + gamma * y[0] * y[1]])

    def loss(theta):
        return np.sum(a.integrate.odeint(func, np.array([1.0, 0.5]), times, tuple(theta)) ** 2)

    theta = onp.array([1.0, 0.8, 0.6, 0.9])
    return loss(theta), a.ag.grad(lambda theta: np.sum(a.integrate.odeint(func, np.array([1.0, 0.5]), times, a.builtins.tuple((theta[0], theta[1], theta[2], theta[3]))) ** 2))(theta)


def variational(a):
    np, draws = a.np, onp.random.RandomState(3).randn(30, 2)

    def objective(params):
        mean, log_std = params[:2], params[2:]
        samples = draws * np.exp(log_std) + mean
        density = a.norm.logpdf(samples[:, 0], 0, np.exp(samples[:, 1])) + a.norm.logpdf(samples[:, 1], 0, 1.35) + a.t.logpdf(samples[:, 0], 4.0)
        return -np.mean(density) - np.sum(log_std) - 0.01 * np.sum(a.norm.cdf(samples)) + np.sum(a.norm.logcdf(mean)) + np.sum(a.norm.pdf(mean) + a.norm.sf(mean))

    point = onp.array([0.2, -0.3, 0.1, -0.2])
    return a.ag.value_and_grad(objective)(point), a.ag.hessian(objective)(point)


def convolutions(a):
    np, rs = a.np, onp.random.RandomState(4)
    images, filters = rs.randn(2, 3, 6, 7), rs.randn(3, 4, 3, 2)

    def layer(images, filters):
        return a.signal.convolve(images, filters, axes=([2, 3], [2, 3]), dot_axes=([1], [0]), mode="valid")

    x, y = rs.randn(5), rs.randn(3)
    convolve = a.signal.convolve
    return {
        "layer": layer(images, filters), "gradients": a.ag.grad(lambda i, f: np.sum(np.tanh(layer(i, f)) ** 2), (0, 1))(images, filters),
        "full": convolve(x, y), "valid": convolve(x, y, mode="valid"), "shorter": convolve(y, x, mode="valid"),
        "matrices": convolve(rs.randn(4, 5), rs.randn(2, 3)), "axes": convolve(rs.randn(2, 5), rs.randn(3, 4), axes=([1], [1])),
        "of full": a.ag.grad(lambda x: np.sum(convolve(x, y, axes=([0], [0])) ** 2))(x),
    }  # fmt: skip


def fixed_point(a):
    def newton(a):
        return lambda x: 0.5 * (x + a / x)

    def root(value):
        return a.fixed_points.fixed_point(newton, value, 1.0, lambda x, y: abs(x - y), 1e-8)

    return root(2.0), a.ag.grad(root)(2.0)


def recurrent(a):
    np, rs = a.np, onp.random.RandomState(5)
    params = {"change": rs.randn(8, 4), "init": rs.randn(1, 4), "predict": rs.randn(5, 3)}
    inputs = rs.rand(6, 2, 3)

    def concat_and_multiply(weights, *args):
        return np.dot(np.hstack(args + (np.ones((args[0].shape[0], 1)),)), weights)

    def predict(params):
        hiddens = np.repeat(params["init"], 2, axis=0)
        out = []
        for step in inputs:
            hiddens = np.tanh(concat_and_multiply(params["change"], step, hiddens))
            out.append(concat_and_multiply(params["predict"], hiddens))
        return np.array(out) - a.special.logsumexp(np.array(out), axis=2, keepdims=True)

    return a.ag.value_and_grad(lambda p: -np.mean(predict(p) * inputs))(params)


def containers(a):
    np = a.np
    box = []

    def f(x):
        box.append((a.builtins.isinstance(x, onp.ndarray), a.tracer.isbox(x), float(onp.sum(a.tracer.getval(x)))))
        parts = a.builtins.dict(first=x[0], rest=a.builtins.list([x[1], x[2]]))
        both = a.builtins.tuple((parts["first"] ** 2, parts["rest"][0] * parts["rest"][1]))
        return np.sum(np.stack(list(parts["rest"]))) * both[0] + both[1] + np.sum(np.array(list(both)))

    def joined(x):
        parts = {"a": 2.0 * x, "b": x[::-1]}
        sums = [np.sum(join(parts.values()) ** 2) + np.sum(join(v**2 for v in parts.values())) + np.sum(join(map(np.sin, parts.values())))
                for join in (np.concatenate, np.stack, np.vstack, np.hstack, np.column_stack)]  # fmt: skip
        return sum(sums) + np.sum(np.stack(parts.values(), axis=1)[0])

    values = [f(X), a.ag.grad(f)(X), a.ag.grad(joined)(X)]
    func, unflatten, example = a.flatten.flatten_func(lambda p: {"out": p["x"] ** 2 * p["y"]}, {"x": X, "y": 2.0})
    return values, box, func(example), unflatten(example), a.ag.jacobian(func)(example), a.util.subvals((1, 2, 3), [(1, 5)])


def what_is_left(a):
    """The names that no program above calls."""
    np, own = a.np, a.extend.primitive(lambda x, y: x * y)
    a.core.defvjp(own, lambda ans, x, y: lambda g: g * y, lambda ans, x, y: lambda g: g * x)
    a.extend.defjvp_argnums(own, lambda ks, gs, ans, args, kwargs: sum(g * args[1 - k] for k, g in zip(ks, gs)))

    @a.optimizers.unflatten_optimizer
    def halved(grad, x, callback=None, steps=3):
        for i in range(steps):
            x = x - 0.5 * grad(x, i)
        return x

    doubled = a.wrap_util.unary_to_nary(lambda f, x: 2.0 * f(x))
    images = onp.random.RandomState(6).randn(2, 5)
    return (
        a.ag.grad(own, (0, 1))(2.0, 3.0), a.ag.make_jvp(own, (0, 1))(2.0, 3.0)((1.0, 1.0)), halved(lambda p, i: {"w": p["w"]}, {"w": V}),
        doubled(np.power, 1)(2.0, 3.0), a.util.subval((1, 2, 3), 1, 5), a.operators.make_jvp_reversemode(lambda x: np.sin(x))(X)(V),
        float(a.ag.grad(lambda x: x**2 if a.builtins.type(x) is not str else x)(2.0)), a.core.make_vjp(np.sin, X)[0](V), a.core.make_jvp(np.sin, X)(V),
        a.ag.grad(lambda k: np.sum(a.signal.convolve(images, k, axes=([1], [0]), mode="full") ** 2))(V),
    )  # fmt: skip


Z = X + 1j * V


def conjugates(a):
    """Derivatives by complex numbers, which are the conjugates of tapegrad's."""
    np, ag = a.np, a.ag

    def real(z):
        return np.abs(z) ** 2 * np.real(z[0])

    def loss(z):
        return np.sum(np.abs(z) ** 3 * np.imag(z))

    vjp, value = ag.make_vjp(lambda z: z**2 * np.conj(z))(Z)
    hvp, slope = ag.make_hvp(loss)(Z)
    return {
        "jacobian": ag.jacobian(real)(Z), "elementwise": ag.elementwise_grad(np.abs)(Z), "aux": ag.grad_and_aux(lambda z: (loss(z), 1.0))(Z), "vjp": vjp(V - 1j * X), "value": value,
        "vjp of real": ag.make_vjp(real)(Z)[0](V), "vjp of complex": ag.make_vjp(lambda x: np.exp(1j * x))(X)[0](Z), "hvp": (hvp(V - 1j * X), slope),
        "ggnvp": ag.make_ggnvp(real)(Z)(V - 0.3j * X), "tensor": ag.tensor_jacobian_product(real)(Z, V), "both": ag.value_and_grad(lambda z, x: np.sum(real(z) * x), (0, 1))(Z, X),
        "containers": ag.grad(lambda d: np.sum(real(d["z"]) * d["x"][0]))({"z": Z, "x": [X]}), "jvp": ag.make_jvp(ag.grad(loss))(Z)(V - 0.2j),
        "inside": ag.grad(lambda x: np.real(np.sum(ag.grad(loss)(x + 1j * V))))(X), "twice": ag.grad(lambda z: np.sum(np.abs(ag.grad(loss)(z)) ** 2))(Z),
        "holomorphic": ag.grad(lambda z: np.abs(ag.holomorphic_grad(lambda w: w**3)(z)))(1.0 + 1.0j), "named": ag.grad_named(lambda k, z: k * loss(z), "z")(2.0, Z),
    }  # fmt: skip


def rules_of_complex(a):
    """Rules for complex arguments, and what is made of them."""
    np, square, parts = a.np, a.extend.primitive(lambda z: onp.abs(z) ** 2), a.extend.primitive(lambda d: onp.sum(onp.abs(d["z"]) ** 2) * d["x"])
    a.extend.defvjp(square, lambda ans, z: lambda g: 2 * g * np.conj(z))
    a.extend.defvjp_argnums(parts, lambda ks, ans, args, kwargs: lambda g: [{"z": 2 * g * np.conj(args[0]["z"]) * args[0]["x"], "x": g * np.sum(np.abs(args[0]["z"]) ** 2)}])

    def loss(z):
        return np.sum(square(z**2) * np.real(z))

    return a.ag.grad(loss)(Z), a.ag.make_hvp(loss)(Z)[0](V + 0.1j), a.ag.make_vjp(square)(Z)[0](V), a.ag.grad(parts)({"z": Z, "x": 2.0}), a.ag.grad(lambda x: np.sum(square(x + 1j * V) * x))(X)


def second_derivatives(a):
    """Hessians of what returns arrays, and of a primitive that has only a VJP."""
    np, ag, cube = a.np, a.ag, a.extend.primitive(lambda x: x**3)
    a.extend.defvjp(cube, lambda ans, x: lambda g: g * 3 * x**2)

    def loss(x):
        return np.sum(cube(x) * x[::-1])

    for order in (1, 2, 3):
        a.test_util.check_grads(loss, modes=["rev"], order=order)(X)
        a.test_util.check_grads(np.tanh, modes=["fwd"], order=order)(0.3)
    return (
        ag.hessian(lambda x: np.outer(x, np.sin(x)))(X), ag.hessian(lambda x, y: x * y**3, 1)(X, V), ag.hessian(lambda x: np.array([x, x**3]))(2.0),
        ag.hessian_vector_product(loss)(X, V), ag.make_ggnvp(cube)(X)(V), ag.hessian(loss)(X),
    )  # fmt: skip


def order_of_keys(a):
    """Vectors made of dicts, which autograd sorts, and the dicts that are made of them."""
    np, tree = a.np, {"z": X, "a": {"q": onp.ones((2, 2)), "b": 2.0}, "m": [1.0, {"y": V, "x": 3.0}, ()]}
    vector, unflatten = a.flatten.flatten(tree)
    seen = list(unflatten(vector)), list(unflatten(vector)["m"][1])
    slope = a.ag.grad(lambda w: np.sum(unflatten(w)["z"] ** 2) * unflatten(w)["a"]["b"] + np.sum(unflatten(w)["m"][1]["y"]))
    single = a.flatten.flatten([onp.float32(X), 2.0])
    return vector, seen, unflatten(2 * vector), slope(vector), a.ag.grad(lambda d: np.sum(a.flatten.flatten(d)[0] * onp.arange(13.0)))(tree), str(single[1](single[0])[0].dtype)


PROGRAMS = (
    conjugates, rules_of_complex, second_derivatives, order_of_keys, logistic_regression, network, mixture, own_primitive, rules, operators, ordinary_differential_equation, variational, convolutions, fixed_point, recurrent, containers, what_is_left,
)  # fmt: skip


def same(one, other, where=""):
    if isinstance(one, dict):
        assert set(one) == set(other), where
        for key in one:
            same(one[key], other[key], f"{where}[{key!r}]")
    elif isinstance(one, (list, tuple)):
        assert len(one) == len(other), where
        for k, (x, y) in enumerate(zip(one, other)):
            same(x, y, f"{where}[{k}]")
    elif isinstance(one, str):
        assert one == other
    else:
        onp.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-7, err_msg=where)


@pytest.mark.filterwarnings("ignore")
@every("name", sorted(CALLS))
def test_each_function_of_its_modules_is_called(name):
    """One call of each, with its gradient; `tests/numpy/test_hips.py` has the tangents, and derivatives of second order."""
    args, kwargs = CALLS[name][0]
    home, _, short = ("numpy." * (not name.startswith("scipy")) + name).rpartition(".")
    found = []
    for root in ("autograd", "tapegrad.hips"):
        np, function = importlib.import_module(f"{root}.numpy"), getattr(importlib.import_module(f"{root}.{home}"), short)
        loss, xs = loss_of(name, function, args, kwargs, np)
        found.append((loss(*xs), None if name in ALONE or not xs else importlib.import_module(root).grad(loss, tuple(range(len(xs))))(*xs)))
    same(found[1], found[0], name) if found[0][1] is not None else same(found[1][0], found[0][0], name)


@pytest.mark.filterwarnings("ignore")
@every("program", PROGRAMS)
def test_the_same_program_gives_the_same_numbers(program):
    same(program(library("tapegrad.hips")), program(library("autograd")), program.__name__)


def test_checks():
    a = library("tapegrad.hips")
    a.test_util.check_grads(lambda x, y: a.np.sin(x) * y)(0.5, 2.0)
    a.test_util.check_grads(lambda x, y: a.np.sin(x) * y, (0, 1), modes=["rev"], order=1)(X, V)
    a.test_util.check_vjp(a.np.tanh, X)
    a.test_util.check_jvp(a.np.tanh, X)
    a.test_util.check_equivalent({"a": X}, {"a": X + 1e-9})
    a.test_util.combo_check(lambda x, axis=0: a.np.sum(x, axis=axis), order=1)([onp.ones((2, 2)), onp.eye(2)], axis=[0, 1])
    # As `check_grads`, by the first argument unless others are named.
    a.test_util.combo_check(lambda x, n: a.np.sum(x**2) * onp.floor(n), [0], modes=["rev"])([X, V], [2.0, 3.5])
    with pytest.raises(AssertionError):
        a.test_util.combo_check(lambda x, n: a.np.sum(x**2) * (a.tracer.getval(n) + 0.0), (0, 1), order=1)([X], [2.0])
    a.util.quick_grad_check(lambda x: a.np.sum(x**3), X, verbose=False)
    wrong = a.extend.primitive(lambda x: x**2)
    a.extend.defvjp(wrong, lambda ans, x: lambda g: g * x)
    a.extend.defjvp(wrong, lambda g, ans, x: g * x)
    for check in (a.test_util.check_grads(wrong, order=1), lambda x: a.test_util.check_vjp(wrong, x), lambda x: a.util.quick_grad_check(wrong, x)):
        with pytest.raises(AssertionError):
            check(0.7)
    second = a.extend.primitive(lambda x: x**3)
    a.extend.defvjp(second, lambda ans, x: lambda g: g * 3 * onp.square(a.tracer.getval(x)))
    a.test_util.check_grads(second, modes=["rev"], order=1)(0.7)
    with pytest.raises(AssertionError):
        a.test_util.check_grads(second, modes=["rev"])(0.7)
    with pytest.raises(OptionError, match="modes"):
        a.test_util.check_grads(second, modes=["both"])(0.7)
    with pytest.raises(AssertionError):
        a.test_util.check_equivalent([1.0], (1.0,))
    assert a.test_util.scalar_close(1.0, 1.0 + 1e-9) and not a.test_util.scalar_close(1.0, 1.1)


def test_arrays_of_integers_are_differentiated():
    a = library("tapegrad.hips")
    same(a.ag.grad(lambda x: a.np.sum(x**2))(onp.array([1, 2, 3])), [2.0, 4.0, 6.0])
    same(a.ag.hessian(lambda x, n: a.np.sum(x**n), 0)(onp.array([1, 2]), 2), 2.0 * onp.eye(2))


def test_gradients_by_name():
    # autograd's own asks for a package that is gone.
    found = library("tapegrad.hips").operators.multigrad_dict(lambda x, y=3.0: onp.sum(x) * y**2)(X)
    same(found, {"x": onp.full(3, 9.0), "y": 6.0 * onp.sum(X)})


def test_a_rule_that_is_missing_is_named():
    a = library("tapegrad.hips")
    f = a.extend.primitive(lambda x, y: x * y)
    a.extend.defvjp(f, lambda ans, x, y: lambda g: g * y)
    assert a.ag.grad(f)(2.0, 3.0) == 3.0
    with pytest.raises(MissingRuleError, match="by argument 1 is not defined"):
        a.ag.grad(f, 1)(2.0, 3.0)


def test_every_public_name_of_autograd_is_there():
    """Those that its documentation and examples use; what is left out are the classes of its tracer and helpers of its rules."""
    autograd = library("autograd")
    found = {}
    for name, module in vars(library("tapegrad.hips")).items():
        theirs = vars(autograd)[name]
        public = getattr(theirs, "__all__", None) or [
            n for n in dir(theirs) if not n.startswith("_") and getattr(getattr(theirs, n), "__module__", "").startswith(theirs.__name__)
        ]
        if missing := {n for n in public if not hasattr(module, n)}:
            found[name] = missing
    assert found == LEFT_OUT


#: Derivatives and helpers of autograd's own modules, and the classes of its tracer.
LEFT_OUT = {
    name: set(names.split()) for name, names in {
        "np": "c_class custom_where r_class wrap_if_boxes_inside wrap_intdtype wrap_namespace",
        "special": "fwd_grad_logsumexp make_gammainc_vjp_arg1 make_grad_logsumexp", "mvn": "covgrad generalized_outer_product solve",
        "t": "grad_tlogpdf_df grad_tlogpdf_diff grad_tlogpdf_loc grad_tlogpdf_scale grad_tlogpdf_x",
        "signal": "compute_conv_size einsum_tensordot flipped_idxs grad_convolve parse_axes", "linalg": "grad_solve_banded grad_solve_triangular",
        "integrate": "argnums_unpack grad_odeint", "fixed_points": "fixed_point_vjp", "test_util": "make_numerical_jvp", "util": "func toposort",
        "builtins": "ContainerVSpace DictBox DictMeta DictVSpace ListMeta ListVSpace NamedTupleVSpace SequenceBox SequenceVSpace TupleMeta TupleVSpace "
        "fwd_grad_make_sequence grad_container_take grad_sequence_extend_left grad_sequence_extend_right",
        "core": "JVPNode SparseBox SparseObject VJPNode VSpace add_outgrads backward_pass deprecated_defgrad deprecated_defvjp deprecated_defvjp_is_zero "
        "identity_jvp identity_vjp primitive_with_deprecation_warnings sum_outgrads translate_jvp translate_vjp vspace",
        "wrap_util": "get_doc get_name wrap_nary_f wraps",
        "tracer": "Box Node TraceStack find_top_boxed_args new_box register_notrace trace trace_stack",
    }.items()
}  # fmt: skip


def test_the_modules_are_imported_as_autograds_are():
    scope = {}
    exec(
        "import tapegrad.hips as autograd\nimport tapegrad.hips.numpy as np\nimport tapegrad.hips.numpy.random as npr\nfrom tapegrad.hips.numpy.linalg import solve\n"
        "from tapegrad.hips import grad, jacobian as jac\nimport tapegrad.hips.scipy.stats.norm as norm\nfrom tapegrad.hips.scipy.special import expit\n"
        "from tapegrad.hips.misc.optimizers import adam\nfrom tapegrad.hips.numpy.numpy_boxes import ArrayBox\n"
        "x = grad(lambda x: solve(np.diag(x), x)[0] + np.sum(norm.logpdf(x)) + expit(x[0]))(npr.RandomState(0).rand(2))\n",
        scope,
    )
    assert scope["x"].shape == (2,) and scope["autograd"] is tapegrad.hips
