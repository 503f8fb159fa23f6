"""Ten programs in the manner of JAX, and the lines of each that change: what it was -> what it is with tapegrad.

Each defines `main()`, which returns values and gradients in any containers.
"""

#: Lines that change in all of them.
IMPORTS = {
    "import jax": "import tapegrad as jax",
    "import jax.numpy as jnp": "import tapegrad.numpy as jnp",
    "from jax.scipy.linalg import cho_solve, cholesky": "from tapegrad.scipy.linalg import cho_solve, cholesky",
}

REGRESSION = '''
import numpy as np
import jax
import jax.numpy as jnp

rng = np.random.default_rng(0)
X, Y = rng.normal(size=(50, 3)), rng.normal(size=50)


def loss(params, x, y):
    prediction = x @ params["w"] + params["b"]
    return jnp.mean((prediction - y) ** 2)


step = jax.jit(jax.value_and_grad(loss))


def main():
    params = {"w": jnp.zeros(3), "b": 0.0}
    losses = []
    for _ in range(20):
        value, gradient = step(params, X, Y)
        params = jax.tree.map(lambda p, g: p - 0.1 * g, params, gradient)
        losses.append(value)
    return losses, params
'''
NETWORK = '''
import numpy as np
import jax
import jax.numpy as jnp

rng = np.random.default_rng(1)
X, LABELS = rng.normal(size=(20, 4)), rng.integers(0, 3, 20)
LAYERS = [(rng.normal(size=(4, 8)), np.zeros(8)), (rng.normal(size=(8, 3)), np.zeros(3))]


def predict(layers, x):
    for w, b in layers[:-1]:
        x = jax.nn.relu(x @ w + b)
    w, b = layers[-1]
    logits = x @ w + b
    return logits - jax.nn.logsumexp(logits)


def loss(layers, x, labels):
    scores = jax.vmap(predict, in_axes=(None, 0))(layers, x)
    return -jnp.mean(scores[jnp.arange(len(labels)), labels])


def main():
    return jax.value_and_grad(loss)(LAYERS, X, LABELS)
'''
PENDULUM = '''
import numpy as np
import jax
import jax.numpy as jnp


def right(y, length):
    return jnp.array([y[1], -9.81 / length * jnp.sin(y[0])])


def step(carry, _):
    y, length, h = carry
    k1 = right(y, length)
    k2 = right(y + 0.5 * h * k1, length)
    k3 = right(y + 0.5 * h * k2, length)
    k4 = right(y + h * k3, length)
    y = y + h / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
    return (y, length, h), y[0]


def angle(length):
    (y, _, _), angles = jax.lax.scan(step, (jnp.array([1.0, 0.0]), length, 0.01), None, length=200)
    return y[0] + 0.0 * angles.sum(), angles


def main():
    (value, angles), slope = jax.value_and_grad(angle, has_aux=True)(1.3)
    return value, angles, slope, jax.jit(jax.grad(jax.grad(lambda length: angle(length)[0])))(1.3)
'''
NEWTON = '''
import numpy as np
import jax
import jax.numpy as jnp


def rosenbrock(x):
    return jnp.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


@jax.jit
def newton(x):
    return x - jnp.linalg.solve(jax.hessian(rosenbrock)(x), jax.grad(rosenbrock)(x))


def main():
    x = jnp.array([1.2, 0.9, 1.1, 1.3])
    steps = []
    for _ in range(8):
        x = newton(x)
        steps.append(x)
    return steps, jax.jacobian(newton)(jnp.array([1.2, 0.9, 1.1, 1.3]))
'''
ROOT = '''
import numpy as np
import jax
import jax.numpy as jnp
from jax import lax


def cube_root(a):
    def undone(state):
        x, before = state
        return jnp.abs(x - before) > 1e-12

    def improved(state):
        x, _ = state
        return (2.0 * x + a / x**2) / 3.0, x

    return lax.while_loop(undone, improved, (a, 2.0 * a))[0]


def main():
    value, tangent = jax.jvp(cube_root, (5.0,), (1.0,))
    return value, tangent, jax.vmap(jax.jacfwd(cube_root))(jnp.array([2.0, 3.0, 10.0]))
'''
SOFTPLUS = '''
import numpy as np
import jax
import jax.numpy as jnp


@jax.custom_vjp
def softplus(x):
    return jnp.logaddexp(x, 0.0)


def forward(x):
    return softplus(x), 1.0 / (1.0 + jnp.exp(-x))


def backward(slope, adjoint):
    return (slope * adjoint,)


softplus.defvjp(forward, backward)


@jax.custom_jvp
def safe_sqrt(x):
    return jnp.sqrt(x)


@safe_sqrt.defjvp
def safe_sqrt_jvp(primals, tangents):
    (x,), (t,) = primals, tangents
    y = safe_sqrt(x)
    return y, jnp.where(x > 0.0, t / jnp.where(x > 0.0, 2.0 * y, 1.0), 0.0)


def main():
    x = jnp.array([-800.0, -1.0, 0.0, 2.0, 900.0])
    return jax.grad(lambda x: softplus(x).sum())(x), jax.grad(lambda x: safe_sqrt(jnp.abs(x)).sum())(x)
'''
PROCESS = '''
import numpy as np
import jax
import jax.numpy as jnp
from jax.scipy.linalg import cho_solve, cholesky

X = np.linspace(0.0, 5.0, 30)
Y = np.sin(X) + 0.1 * np.cos(7.0 * X)


def kernel(theta, a, b):
    return jnp.exp(theta["amplitude"]) * jnp.exp(-0.5 * ((a - b) / jnp.exp(theta["scale"])) ** 2)


@jax.jit
def likelihood(theta, x, y):
    gram = jax.vmap(lambda a: jax.vmap(lambda b: kernel(theta, a, b))(x))(x)
    factor = cholesky(gram + jnp.exp(theta["noise"]) * jnp.eye(len(x)), lower=True)
    return -0.5 * y @ cho_solve((factor, True), y) - jnp.sum(jnp.log(jnp.diag(factor)))


def main():
    theta = {"amplitude": 0.1, "scale": -0.2, "noise": -3.0}
    return jax.value_and_grad(likelihood)(theta, X, Y)
'''
GREEKS = '''
import numpy as np
from functools import partial
import jax
import jax.numpy as jnp

NORMALS = np.random.default_rng(2).standard_normal(4000)


@partial(jax.jit, static_argnums=(4,))
def price(spot, strike, sigma, rate, call):
    final = spot * jnp.exp((rate - 0.5 * sigma**2) + sigma * NORMALS)
    payoff = final - strike if call else strike - final
    return jnp.exp(-rate) * jnp.mean(jnp.maximum(payoff, 0.0))


def main():
    greeks = jax.grad(price, argnums=(0, 2, 3))(100.0, 95.0, 0.2, 0.01, True)
    strikes = jnp.linspace(80.0, 120.0, 5)
    deltas = jax.vmap(jax.grad(price), in_axes=(None, 0, None, None, None))(100.0, strikes, 0.2, 0.01, False)
    return greeks, deltas
'''
PRODUCTS = '''
import numpy as np
import jax
import jax.numpy as jnp

A = np.random.default_rng(3).normal(size=(6, 6))


def f(x):
    return jnp.sum(jnp.tanh(A @ x) ** 2) + jnp.sum(x**4)


def hvp(f, x, v):
    return jax.jvp(jax.grad(f), (x,), (v,))[1]


def main():
    x, v = jnp.linspace(-1.0, 1.0, 6), jnp.ones(6)
    value, back = jax.vjp(f, x)
    _, along = jax.linearize(f, x)
    return value, back(2.0)[0], along(v), hvp(f, x, v), jax.jacfwd(jax.jacrev(f))(x) @ v
'''
HEAT = '''
import numpy as np
import jax
import jax.numpy as jnp
from jax import lax


def solve(conductivity):
    def step(k, u):
        u = u.at[1:-1].add(conductivity * (u[2:] - 2.0 * u[1:-1] + u[:-2]))
        return u.at[0].set(1.0)

    return lax.fori_loop(0, 50, step, jnp.zeros(12))


def main():
    def misfit(conductivity):
        return lax.cond(conductivity > 0.1, lambda c: jnp.sum((solve(c) - 0.5) ** 2), lambda c: c, conductivity)

    return solve(0.3), jax.value_and_grad(misfit)(0.3), jax.jacobian(solve)(0.2)
'''
#: Name -> program, and the lines that change besides the imports.
PROGRAMS = {
    "linear regression": (REGRESSION, {}),
    "a network, `vmap` over the batch": (
        NETWORK,
        {
            "x = jax.nn.relu(x @ w + b)": "x = jax.nn.functional.relu(x @ w + b)",
            "return logits - jax.nn.logsumexp(logits)": "return jax.nn.functional.log_softmax(logits)",
        },
    ),
    "a pendulum by `lax.scan`": (
        PENDULUM,
        {
            "(y, _, _), angles = jax.lax.scan(step, (jnp.array([1.0, 0.0]), length, 0.01), None, length=200)":
            "(y, _, _), angles = jax.scan(step, (jnp.array([1.0, 0.0]), length, 0.01), None, length=200)"
        },
    ),
    "Newton's method": (NEWTON, {}),
    "a root by `lax.while_loop`": (ROOT, {"from jax import lax": "import tapegrad as lax"}),
    "`custom_vjp` and `custom_jvp`": (SOFTPLUS, {}),
    "a Gaussian process": (PROCESS, {}),
    "Greeks with `static_argnums`": (GREEKS, {"@partial(jax.jit, static_argnums=(4,))": "@jax.jit"}),
    "Hessian-vector products": (PRODUCTS, {}),
    "the heat equation, `x.at[]`": (
        HEAT,
        {
            "from jax import lax": "import tapegrad as lax",
            "u = u.at[1:-1].add(conductivity * (u[2:] - 2.0 * u[1:-1] + u[:-2]))": "u = u.copy(); u[1:-1] += conductivity * (u[2:] - 2.0 * u[1:-1] + u[:-2])",
            "return u.at[0].set(1.0)": "u[0] = 1.0; return u",
        },
    ),
}  # fmt: skip
