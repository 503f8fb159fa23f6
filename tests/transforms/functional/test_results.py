"""What a differentiated function may return: the same for every derivative.

A number, or an array of one element where one number is wanted, of floats; nothing of truth values or integers.
"""

import numpy as np
import pytest
import scipy.optimize

import tapegrad as tg
from tapegrad.common.errors import DtypeError, NonScalarOutputError, UnsupportedInNumbaError
from tests.every import every
from tests.rules.checker import generator

X = np.array([1.5, -0.5])
V = np.ones(2)


#: Derivatives of a function of a vector that gives one number: name -> function of (f, x).
OF_NUMBERS = {
    "grad": lambda f, x: tg.grad(f)(x),
    "grad by kernel": lambda f, x: tg.jit(tg.grad(f), kernel="always")(x),
    "grad of jit": lambda f, x: tg.grad(tg.jit(f))(x),
    "value_and_grad": lambda f, x: tg.value_and_grad(f)(x),
    "has_aux": lambda f, x: tg.grad(lambda x: (f(x), "aux"), has_aux=True)(x)[0],
    "several calls": lambda f, x: [g := tg.value_and_grad(f), *(g(x + k) for k in range(5)), g(x)][-1],
    "inside of grad": lambda f, x: tg.grad(lambda x: np.sum(tg.grad(f)(x) ** 2))(x),
    "inside of jvp": lambda f, x: tg.jvp(lambda x: np.sum(tg.value_and_grad(f)(x)[1] ** 2), (x,), (V,)),
    "hessian": lambda f, x: tg.hessian(f)(x),
    "hessian_diag": lambda f, x: tg.hessian_diag(f)(x),
    "laplacian": lambda f, x: tg.laplacian(f)(x),
    "hvp": lambda f, x: tg.hvp(f)(x, V),
    "gnvp": lambda f, x: tg.gnvp(lambda x: 2.0 * x, f)(x, V),
    "sparse_hessian": lambda f, x: tg.sparse_hessian(f)(x).toarray(),
    "lbfgs": lambda f, x: tg.optimize.lbfgs(f, x).x.round(6),
    "minimize": lambda f, x: tg.optimize.minimize(f, x).x.round(6),
    "minimize by newton": lambda f, x: tg.optimize.minimize(f, x, method="trust-constr").x.round(2),
    "adam": lambda f, x: tg.optimize.adam(f, x, max_iter=5).x,
    "compile": lambda f, x: (tg.compile(f, x)(x, g := np.zeros(2)), g),
}
#: Derivatives of a function of a vector, whatever it gives.
OF_ANYTHING = {
    "jvp": lambda f, x: tg.jvp(f, (x,), (V,)),
    "vjp": lambda f, x: tg.vjp(f, x)[1](np.ones(np.shape(f(x)))),
    "linearize": lambda f, x: tg.linearize(f, x)[1](V),
    "jacfwd": lambda f, x: tg.jacfwd(f)(x),
    "jacrev": lambda f, x: tg.jacrev(f)(x),
    "jacobian": lambda f, x: tg.jacobian(f)(x),
    "derivative": lambda f, x: tg.derivative(lambda s: f(s * X))(1.5),
    "elementwise_grad": lambda f, x: tg.elementwise_grad(f)(x),
    "sparse_jacobian": lambda f, x: tg.sparse_jacobian(f)(x).toarray(),
    "jvp inside of grad": lambda f, x: tg.grad(lambda x: np.sum(tg.jvp(f, (x,), (V,))[1]))(x),
    "vjp inside of jvp": lambda f, x: tg.jvp(lambda x: tg.vjp(f, x)[1](np.ones(np.shape(f(X))))[0], (x,), (V,)),
}


def target(x):
    return np.sum(x * x * x[0] ** 2 + np.exp(x))


@every("door", OF_NUMBERS)
@every("shape", [(1,), (1, 1), (1, 1, 1)])
def test_an_array_of_one_element_is_differentiated_as_that_number(door, shape):
    expected = OF_NUMBERS[door](target, X)
    found = OF_NUMBERS[door](lambda x: np.reshape(target(x), shape), X)
    for one, other in zip(*(part if isinstance(part, tuple) else (part,) for part in (found, expected)), strict=True):
        np.testing.assert_allclose(np.ravel(one), np.ravel(other), rtol=1e-12)


@pytest.mark.parametrize("kernel", ["never", "always"])
def test_the_value_keeps_the_shape_that_the_function_gives_it(kernel):
    for f in (lambda x: np.sum(x * x, keepdims=True), lambda x: np.array([2.0]), lambda x: np.reshape(x[0] * x[1], (1, 1))):
        functions = (f, lambda x: (f(x), 3), lambda x: {"loss": f(x)})
        g, aux, boxed = (tg.jit(tg.value_and_grad(h, has_aux=k == 1), kernel=kernel) for k, h in enumerate(functions))
        for k in range(6):
            x = X + k
            for value in (g(x)[0], aux(x)[0][0] if isinstance(aux(x)[0], tuple) else aux(x)[0], boxed(x)[0]["loss"]):
                assert isinstance(value, np.ndarray)
                np.testing.assert_array_equal(value, f(x), strict=True)
    single = tg.jit(tg.value_and_grad(lambda x: np.sum(x * x, keepdims=True)), kernel=kernel)
    assert single(X.astype("f"))[0].dtype == np.float32
    value, gradient = tg.grad(lambda x: tg.value_and_grad(lambda x: np.sum(x * x, keepdims=True))(x)[0])(X), 2 * X
    np.testing.assert_allclose(value, gradient)


def test_a_tape_of_an_array_of_one_element_is_saved(tmp_path):
    g = tg.value_and_grad(lambda x: np.sum(x**3, keepdims=True))
    tape = g.tape(X)
    tape.save(tmp_path / "tape")
    again = tg.load_tape(tmp_path / "tape")
    for found in (tape(X), again(X)):
        np.testing.assert_array_equal(np.ravel(found[0]), np.sum(X**3, keepdims=True))


def test_scipy_minimises_what_gives_an_array_of_one_element():
    f = lambda x: np.sum((x - 1.0) ** 2, keepdims=True)  # noqa: E731
    found = scipy.optimize.minimize(lambda x: list(tg.value_and_grad(f)(x)), X, jac=True)
    np.testing.assert_allclose(found.x, 1.0, atol=1e-6)


@every("door", OF_NUMBERS)
@every("f", [lambda x: x * x, lambda x: x[:0] * 1.0, lambda x: np.ones(2), lambda x: np.reshape(x, (1, 2))])
def test_anything_else_is_refused(door, f):
    if door == "compile":  # which compiles functions of any results
        return
    with pytest.raises(NonScalarOutputError, match="one number"):
        OF_NUMBERS[door](f, X)


WITHOUT_DERIVATIVE = {
    "bool": (lambda x: x[0] > 0, "bool"), "Python bool": (lambda x: bool(x[0] > 0), "bool"), "True": (lambda x: True, "bool"),
    "numpy bool": (lambda x: np.bool_(False), "bool"), "count": (lambda x: np.sum(x > 0), "int64"),
    "position": (lambda x: np.argmax(x), "int64"), "numpy int": (lambda x: np.int64(3), "int64"),
    "logic": (lambda x: np.logical_and(x[0] > 0, x[1] > 0), "bool"),
}  # fmt: skip
ARRAYS_WITHOUT = {
    "bools": (lambda x: x > 0, "bool"), "ints": (lambda x: np.arange(2), "int64"), "order": (lambda x: np.argsort(x), "int64"),
    "among others": (lambda x: (x * 2.0, x > 0), "bool"),
}  # fmt: skip


@every("door", [*OF_NUMBERS, *OF_ANYTHING])
@every("what", WITHOUT_DERIVATIVE)
def test_truth_values_and_integers_are_refused(door, what):
    f, dtype = WITHOUT_DERIVATIVE[what]
    if door == "derivative" and what == "position":
        return
    with pytest.raises(DtypeError, match=f"dtype {dtype}, which has no derivative; return a float"):
        {**OF_NUMBERS, **OF_ANYTHING}[door](f, X)


@every("door", [d for d in OF_ANYTHING if d not in ("vjp", "vjp inside of jvp")])
@every("what", ARRAYS_WITHOUT)
def test_arrays_of_truth_values_and_integers_are_refused(door, what):
    f, dtype = ARRAYS_WITHOUT[what]
    with pytest.raises(DtypeError, match=f"dtype {dtype}, which has no derivative; return a float"):
        OF_ANYTHING[door](f, X)


@every("door", [d for d in (*OF_NUMBERS, *OF_ANYTHING) if d != "compile"])
@every("constant", [2.5, np.float64(2.5), np.float32(2.5), 3])
def test_a_constant_float_has_derivative_zero_and_a_python_int_counts_as_one(door, constant):
    found = {**OF_NUMBERS, **OF_ANYTHING}[door](lambda x: constant, X)
    found = found[-1] if isinstance(found, tuple) else found
    if door in ("lbfgs", "minimize", "minimize by newton", "adam"):
        found = found - X
    assert not np.any(found)


def test_auxiliary_data_and_values_by_jit_may_be_anything():
    (value, (flag, where)), gradient = tg.value_and_grad(lambda x: (np.sum(x * x), (x > 0, np.argmax(x))), has_aux=True)(X)
    assert value == 2.5 and list(gradient) == [3.0, -1.0] and list(np.asarray(flag)) == [True, False] and int(where) == 0
    assert tg.jit(lambda x: (x * 2.0, 3, np.arange(2)))(X)[1] == 3


@pytest.mark.filterwarnings("ignore::tapegrad.errors.PathWarning")
@every("kernel", ["never", "always", "recorded no more"])
@every("what", [*WITHOUT_DERIVATIVE, *ARRAYS_WITHOUT, "in containers"])
def test_jit_gives_truth_values_and_integers_as_they_are_at_each_call(kernel, what):
    f = {**WITHOUT_DERIVATIVE, **ARRAYS_WITHOUT}.get(what, [lambda x: {"least": (x.min(), np.argmin(x)), "above": [x[0] > x[1], x > 0.0]}])[0]
    counted = []
    plainly = lambda x: (counted.append(0), f(x))[1]  # noqa: E731 - appends: what reads the list is not recorded
    g = tg.jit(plainly) if kernel == "recorded no more" else tg.jit(f, kernel=kernel)
    for x in (X, -X, X, np.array([0.2, 0.4]), -X, X - 5.0):
        found, expected = tg.tree.leaves(g(x)), tg.tree.leaves(f(x))
        assert [(np.asarray(a).dtype, np.asarray(a).tolist()) for a in found] == [(np.asarray(a).dtype, np.asarray(a).tolist()) for a in expected]


@pytest.mark.parametrize("name", ["njit_grad", "njit_value_and_grad", "njit_jvp", "njit_derivative", "njit_jacobian"])
def test_compiled_derivatives_refuse_them_too(name):
    numba = pytest.importorskip("numba")
    given = (1.5,) if name == "njit_derivative" else (X, V) if name == "njit_jvp" else (X,)
    if name == "njit_derivative":
        functions = [lambda x: x > 0, lambda x: int(np.floor(2.5)), lambda x: np.arange(2)]
    else:
        functions = [lambda x: x[0] > 0, lambda x: np.argmax(np.ones(2)), lambda x: np.arange(2) > 0]
    for f in functions:
        with pytest.raises(UnsupportedInNumbaError, match="which has no derivative; return a float"):
            getattr(tg, name)(numba.njit(f))(*given)


def test_random_functions_have_the_same_gradient_in_either_shape():
    for seed in range(4):
        a = generator(seed).normal(size=(3, 2))
        f = lambda x: np.sum(np.tanh(a @ x) ** 2)  # noqa: B023, E731
        rng = generator(seed)
        one, other = tg.value_and_grad(f), tg.value_and_grad(lambda x: f(x)[None])  # noqa: B023
        for _ in range(5):
            x = rng.normal(size=2)
            (value, gradient), (array, same) = one(x), other(x)
            assert array.shape == (1,) and array[0] == value
            np.testing.assert_array_equal(gradient, same)
