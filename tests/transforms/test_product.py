"""Jacobians multiplied out at a cut, against those of both modes."""

import itertools

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.program.choosing import predict
from tapegrad.program.sweeps import StoreWalk
from tapegrad.transforms.jacobians import JacobianFunction

RNG = np.random.default_rng(3)
X = RNG.uniform(0.1, 0.9, 12)


def leaves(jacobian):
    if isinstance(jacobian, (list, tuple)):
        return list(itertools.chain(*map(leaves, jacobian)))
    return list(itertools.chain(*map(leaves, jacobian.values()))) if isinstance(jacobian, dict) else [jacobian]


def agree(f, *args, rtol=1e-12, width=None):
    """The product, run plainly, interpreted and by a kernel, against reverse mode."""
    numbers = tuple(range(len(args)))
    cut = predict(StoreWalk(f, args, numbers), True).cut
    assert cut is not None and width in (None, cut.width)
    expected = tg.jacrev(f, numbers)(*args)
    calls = {
        "plainly": JacobianFunction(f, numbers, "product", False),
        "interpreted": tg.jit(JacobianFunction(f, numbers, "product", False), kernel="never"),
        "kernel": tg.jit(JacobianFunction(f, numbers, "product", False), kernel="always"),
    }
    for name, call in calls.items():
        for _ in range(3):
            jacobian = call(*args)
            for one, other in zip(leaves(jacobian), leaves(expected), strict=True):
                assert np.shape(one) == np.shape(other) and np.asarray(one).dtype == np.asarray(other).dtype, name
                scale = np.max(np.abs(other), initial=0.0)
                np.testing.assert_allclose(one, other, rtol=rtol, atol=rtol * scale, err_msg=name)
    stats = calls["kernel"].stats()
    assert stats.kernels == 1 and stats.kernel_calls >= 1 and not stats.not_lowered, stats


def narrow(kind, x):
    """A few numbers."""
    if kind == "number":
        return np.sum(np.sin(x) * x)
    if kind == "numbers":
        return tg.stack([np.sum(x), np.prod(x), x[0] * x[1]])
    if kind == "vector":
        return np.tanh(np.cos(np.arange(3.0 * x.size)).reshape(3, -1) @ x.reshape(-1))
    if kind == "matrix":
        return np.exp((x.reshape(-1)[:4] * x.reshape(-1)[4:8]).reshape(2, 2))
    total = 0.0
    for k in range(6):
        total = total + np.sin(x.reshape(-1)[k]) * x.reshape(-1)[k + 1]
    return total


def wide(kind, s):
    """Many numbers of them."""
    t = np.linspace(0.1, 1.0, 9)
    if kind == "array":
        return np.exp(-np.sum(s) * t) * np.sum(np.reshape(s, -1)[:1])
    if kind == "outer":
        return np.sin(np.reshape(s, (-1, 1)) * t)
    if kind == "container":
        return {"a": np.sum(s) * t, "b": (np.cumsum(t * np.prod(s)), np.sum(s * s), t)}
    numbers = np.reshape(s, -1)
    return [np.sin(numbers[0] * k) + numbers[-1] for k in range(1, 12)]


@pytest.mark.parametrize("upper", ["array", "outer", "container", "numbers"])
@pytest.mark.parametrize("lower", ["number", "numbers", "vector", "matrix", "loop"])
def test_a_waist(lower, upper):
    agree(lambda x: wide(upper, narrow(lower, x)), X)


def test_an_array_of_more_than_one_axis():
    agree(lambda x: wide("outer", narrow("vector", x)), X.reshape(3, 4))


def test_several_arguments_and_a_constant_behind_the_waist():
    agree(lambda x, y, scale: np.sum(x * y) * scale * np.linspace(0.0, 1.0, 40), X, X[::-1].copy(), 0.3)


def test_what_goes_around_the_waist_is_part_of_the_cut():
    agree(lambda x, s: np.sum(x) * np.exp(s * np.linspace(0.0, 1.0, 40)), X, 0.3, width=2)
    agree(lambda x, s: np.sum(np.sin(x)) * np.exp(np.sum(s) * np.linspace(0.0, 1.0, 40)), X, X[:3], width=2)
    agree(lambda x: (np.sin(x[:2]), np.sum(x) * np.linspace(0.0, 1.0, 40)), X, width=3)


def test_many_numbers_behind_the_waist_are_joined():
    def f(x):
        total = np.sum(x)
        return tg.stack([np.sin(total * k) for k in range(100)])

    agree(f, X, width=1)


def test_what_is_read_around_the_waist_without_derivative():
    def f(x):
        total = np.sum(x) * (2.0 if x[3] > 0.0 else 3.0)
        return total * np.linspace(0.0, 1.0, 40) * (np.argmax(x) + 1.0) * (x > 0.5)[3]

    agree(f, X, width=1)


def test_memory_that_is_written_to():
    def f(x):
        y = x * 2.0
        y[2:5] = y[2:5] * y[:3]
        z = np.sum(y) * np.linspace(0.0, 1.0, 40)
        z[3] = z[4] * z[5]
        return z

    agree(f, X)


def test_float32():
    agree(lambda x: np.exp(-np.sum(x * x) * np.linspace(0.0, 1.0, 40, dtype=np.float32)), X.astype(np.float32), rtol=1e-5)


def test_a_result_and_an_argument_of_other_precision():
    f = lambda x, y: (np.exp(-np.sum(x * x) * np.sum(y) * np.linspace(0.0, 1.0, 40)), np.float32(1.0) * np.sum(x))  # noqa: E731
    agree(f, X.astype(np.float32), X, rtol=1e-5)


def test_where_a_factor_is_not_finite_zero_is_absolute():
    # The root has no slope at 0, but neither does the square that it is multiplied with.
    f = lambda x: np.sqrt(np.sum(x * x)) * np.linspace(0.0, 1.0, 40) * 0.0  # noqa: E731
    with np.errstate(all="ignore"):
        for call in (JacobianFunction(f, 0, "product", False), tg.jit(JacobianFunction(f, 0, "product", False), kernel="always")):
            for _ in range(3):
                np.testing.assert_array_equal(call(np.zeros(12)), tg.jacrev(f)(np.zeros(12)))


def test_random_functions_with_waists():
    for seed in range(12):
        rng = np.random.default_rng(seed)
        weights = [rng.normal(size=shape) / 3 for shape in ((5, 12), (2, 5), (6, 2), (20, 6))]
        functions = [(np.sin, np.tanh, np.exp, np.cos)[k] for k in rng.integers(4, size=4)]
        skip = rng.integers(3)

        def f(x, weights=weights, functions=functions, skip=skip):
            layers = [x]
            for matrix, function in zip(weights, functions):
                layers.append(function(matrix @ layers[-1]))
                if len(layers) == 2:
                    one = layers[1][0]
            if skip == 1:
                layers[-1] = layers[-1] * one
            if skip == 2:
                layers[-1] = layers[-1] + layers[3][1] * layers[2][1]
            return layers[-1]

        agree(f, X, width=3 if skip == 1 else 2)


def test_it_is_chosen_where_it_is_cheaper(capsys):
    f = lambda x: np.exp(-np.sum(x * x) * np.linspace(0.0, 1.0, 512))  # noqa: E731
    x = np.linspace(0.0, 0.1, 512)
    prediction = predict(StoreWalk(f, (x,), (0,)))
    assert prediction.mode == "product" and prediction.product.seeds == 1
    assert prediction.product.nanoseconds < min(prediction.forward.nanoseconds, prediction.reverse.nanoseconds)
    jacobian = tg.jacobian(f, explain=True)(x)
    assert capsys.readouterr().out.startswith("the product at a cut is expected to be cheaper: the product at a cut needs 1 pass")
    np.testing.assert_allclose(jacobian, tg.jacrev(f)(x), rtol=1e-12)
    # A small one is done by a pure mode before a cut is found.
    assert predict(StoreWalk(f, (x[:4],), (0,))).product is None


def test_the_seeds_of_a_product_go_once_through_everything():
    f = lambda x: np.ones((50, 4)) @ np.sin(np.ones((4, 30)) @ (x * 2.0))  # noqa: E731
    prediction = predict(StoreWalk(f, (np.linspace(0.0, 1.0, 30),), (0,)), True)
    assert prediction.product.operations == 4 * prediction.work.operations + 50 * 30 * 4
