"""A function of ours as an operation of JAX: each transformation beside JAX's own of the same function."""

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.errors import DtypeError, GradientError
from tapegrad.interop import to_jax
from tests.every import every

jax = pytest.importorskip("jax")
jnp = jax.numpy


@pytest.fixture(autouse=True, scope="module")
def float64():
    # Callbacks come from threads of JAX's own, where a context manager does not hold.
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


A, B = np.array([0.3, -0.7, 1.2]), np.array([[0.5, -1.0, 0.2], [1.5, 0.1, -0.4]])


def function(numpy):
    def f(x, m):
        return numpy.sum((numpy.sin(m @ x) * numpy.sum(x**3)) ** 2) * numpy.sum(numpy.tanh(m) ** 2)

    return f


def vector(numpy):
    return lambda x, m: {"b": numpy.sin(m @ x), "a": (numpy.cumsum(x) * numpy.sum(m), numpy.sum(x))}


def close(found, expected):
    (ones, structure), (others, other) = jax.tree.flatten(found), jax.tree.flatten(expected)
    assert structure == other
    for one, other in zip(ones, others):
        np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-11)


X2, M3 = np.stack([A, 2.0 * A]), np.stack([B, 2.0 * B, B - 1.0])
WAYS = {
    "value": lambda f, v: (f(A, B), v(A, B)),
    "jit": lambda f, v: (jax.jit(f)(A, B), jax.jit(v)(A, B)),
    "grad": lambda f, v: jax.value_and_grad(f, argnums=(0, 1))(A, B),
    "jit of grad": lambda f, v: jax.jit(jax.grad(f, argnums=1))(A, B),
    "jacfwd and jacrev": lambda f, v: (jax.jacfwd(v, argnums=(0, 1))(A, B), jax.jacrev(v, argnums=(0, 1))(A, B)),
    "jit of hessian": lambda f, v: jax.jit(jax.hessian(f))(A, B),
    "hessian of both": lambda f, v: jax.hessian(f, argnums=(0, 1))(A, B),
    "other orders": lambda f, v: (jax.jacrev(jax.jacfwd(f))(A, B), jax.jacfwd(jax.jacfwd(f))(A, B), jax.jacrev(jax.jacrev(f))(A, B)),
    "third": lambda f, v: jax.jacfwd(jax.hessian(f))(A, B),
    "jvp and vjp": lambda f, v: (jax.jvp(v, (A, B), (np.cos(A), np.sin(B))), jax.vjp(v, A, B)[1](jax.tree.map(jnp.cos, vector(jnp)(A, B)))),
    "linearize": lambda f, v: jax.linearize(v, A, B)[1](np.cos(A), np.sin(B)),
    "vmap": lambda f, v: jax.vmap(v, in_axes=(0, None))(X2, B),
    "vmap along another axis": lambda f, v: jax.vmap(f, in_axes=(1, None))(X2.T, B),
    "vmap of grad": lambda f, v: jax.vmap(jax.grad(f, argnums=(0, 1)), in_axes=(None, 0))(A, M3),
    "jit of vmap of vmap": lambda f, v: jax.jit(jax.vmap(jax.vmap(f, in_axes=(None, 0)), in_axes=(0, None)))(X2, M3),
    "grad of vmap": lambda f, v: jax.grad(lambda x, m: jax.vmap(f, in_axes=(0, None))(x, m).sum(), argnums=1)(X2, B),
    "vmap of hessian": lambda f, v: jax.vmap(jax.hessian(f, argnums=1), in_axes=(0, None))(X2, B),
    "grad of a scan": lambda f, v: jax.grad(lambda x: jax.lax.scan(lambda c, m: (0.5 * jnp.sin(c) + f(c, m) / 9.0, None), x, M3)[0].sum())(A),
    "checkpoint": lambda f, v: jax.grad(jax.checkpoint(f))(A, B),
}


@every("way", sorted(WAYS))
def test_jaxs_transformations(way):
    close(WAYS[way](to_jax(function(np)), to_jax(vector(np))), WAYS[way](function(jnp), vector(jnp)))


def settle(x):
    """A loop whose length depends on the numbers, which JAX cannot differentiate in reverse."""
    steps = 0.0
    while x > 1.0:
        x, steps = x / 2.0, steps + 1.0
    return x**2 + steps * x


def test_each_point_takes_its_path():
    points = np.array([0.5, 3.0, 9.0, 30.0])
    close(jax.jit(jax.vmap(jax.value_and_grad(to_jax(settle))))(points), (np.array([settle(x) for x in points]), np.array([tg.grad(settle)(x) for x in points])))


def rooted(x):
    if np.min(x) < 1.0:
        raise ValueError("below one")
    return np.sqrt(x - 1.0)


def test_results_of_unknown_shape():
    f = to_jax(rooted)
    with pytest.raises(GradientError, match="rooted was run at arguments made up for it.*raised ValueError.*result_shape_dtypes"):
        jax.jit(f)(np.full(2, 5.0))
    for told in (jax.ShapeDtypeStruct((2,), np.float64), lambda x: x):
        assert jax.jit(to_jax(rooted, told))(np.full(2, 5.0)).tolist() == [2.0, 2.0]
    # A call with numbers tells it, too.
    assert f(np.full(3, 2.0)).tolist() == [1.0] * 3 and jax.jit(jax.jacobian(f))(np.full(3, 5.0))[1, 1] == 0.25


def test_a_result_of_another_shape_than_jax_was_told_is_refused():
    f = jax.jit(to_jax(lambda x: x[:2] if x[0] > 2.0 else x))
    assert f(np.ones(3)).shape == (3,)
    with pytest.raises(Exception, match="where JAX was told"):
        f(np.full(3, 3.0)).block_until_ready()


def test_integers_and_float32():
    f = to_jax(lambda x, k: np.sum(x[k] ** 2))
    x = jnp.array([1.0, 2.0, 3.0], jnp.float32)
    value, slope = jax.jit(jax.value_and_grad(lambda x: f(x, np.array([0, 2]))))(x)
    assert (float(value), slope.tolist(), value.dtype, slope.dtype) == (10.0, [2.0, 0.0, 6.0], np.float32, np.float32)


def test_large_arrays_pass():
    x = np.linspace(0.0, 1.0, 1_000_000)
    close(jax.jit(jax.grad(to_jax(lambda x: np.sum(np.sin(x)))))(x), np.cos(x))


def test_arguments_that_do_not_fit_are_named():
    f = to_jax(function(np))
    with pytest.raises(DtypeError, match="argument 1 of f is complex128"):
        f(A, B + 1j)
    with pytest.raises(DtypeError, match="argument 0 of f is float16"):
        jax.jit(f)(A.astype(np.float16), B)
    with pytest.raises(ValueError, match="matmul") as caught:
        f(A[:2], B)
    assert caught.value.__notes__ == ["f was called with argument 0 of shape (2,), argument 1 of shape (2, 3)"]


def test_integers_beside_a_result_have_no_derivative():
    f = to_jax(lambda x: (np.argmax(x), np.sum(x**3), x > 0.0))
    (value, place), slope = jax.jit(jax.value_and_grad(lambda x: f(x)[1::-1], has_aux=True))(A)
    assert place == 2 and np.isclose(value, np.sum(A**3))
    close(slope, 3.0 * A**2)
    close(jax.hessian(lambda x: f(x)[1])(A), np.diag(6.0 * A))
    close(jax.vmap(jax.jacfwd(lambda x: f(x)[1]))(np.stack([A, 2.0 * A])), np.stack([3.0 * A**2, 12.0 * A**2]))
    primals, tangents = jax.jvp(f, (A,), (np.ones(3),))
    assert primals[2].tolist() == [True, False, True] and tangents[0].dtype == tangents[2].dtype == jax.dtypes.float0
    close(tangents[1], np.sum(3.0 * A**2))


def test_arguments_by_name():
    f = to_jax(lambda x, scale=2.0, exponent=3.0: scale * x**exponent)
    close(jax.grad(lambda x: f(x, exponent=2.0))(1.5), 6.0)
