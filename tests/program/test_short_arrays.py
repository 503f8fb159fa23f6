"""Short arrays of numbers in a tape: what is computed element by element is computed with numbers."""

import numpy as np
import pytest

import tapegrad as tg
import tapegrad.numpy as tnp

X = np.array([0.3, -1.2, 0.7])


def rate(y, p, np):
    return np.array([-p[0] * y[0], p[0] * y[0] - p[1] * y[1] / (1.0 + y[1])])


def integral(x, np):
    y, total = np.array([10.0, 0.0]), 0.0
    for _ in range(5):
        k = rate(y, x, np)
        y = y + 0.1 * (k + 2.0 * rate(y + 0.05 * k, x, np))
        total = total + y[1] ** 2
    return total


def mixed(x, np):
    y = np.array([x[0], 2.0, x[1]]) * np.array([1.0, 0.5, -2.0]) - x[2]
    z = -(y / (x[0] + 2.0))
    return np.sum(z) * z[1] + np.sum(np.exp(y)) + np.dot(y, z)


def matrix(x, np):
    a = np.array([[x[0], 2.0], [x[1], x[2]]]) + 3.0 * np.eye(2)
    v = np.array([x[0], x[1]]) * 2.0
    return np.sum(a @ v) + np.linalg.det(a)


def written(x, np):
    y = np.array([x[0], x[1], 1.0]) * 2.0
    z = y + 1.0
    z[1] = x[2]
    return np.sum(z * y) + z[1] * y[0]


def decided(x, np):
    y = np.array([x[0] * 2.0, x[1]]) + 1.0
    return y[0] * y[1] if y[0] > 0.5 else y[0] - y[1]


def cut(x, np):
    y = np.array([x[0], x[1]]) * 3.0
    with tg.no_grad():
        weight = y * 2.0
    return np.sum(weight * y) + weight[0] * y[1]


def constant(x, np):
    y = np.array([x[0], 2.0]) * np.array([1.0, 3.0])
    return y[1] * x[1] + y[1] + np.sum(y / y[1])


def of_zero(x, np):
    y = np.array([x[0], 0.0]) / np.array([x[1], x[2] * 0.0 + 1.0])
    return y[0] + y[1]


def parts(answer):
    return answer if isinstance(answer, tuple) else (answer,)


PROGRAMS = [integral, mixed, matrix, written, decided, cut, constant, of_zero]


@pytest.mark.parametrize("kernel", ["always", "never"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_values_and_derivatives(program, kernel):
    for transformation in (tg.value_and_grad, tg.hessian, lambda f: f):
        plain = transformation(lambda x: program(x, tnp))
        replayed = tg.jit(plain, kernel=kernel)
        for point in (X, X + 0.25, -X):
            for _ in range(2):
                for one, other in zip(parts(replayed(point)), parts(plain(point))):
                    np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-13)


def test_results_that_are_short_arrays():
    def f(x):
        y = tnp.array([x[0], x[1]]) * x[2]
        return y, y[::-1] + 1.0, {"first": y[0], "twice": tnp.array([x[0], x[0], 3.0])}

    replayed = tg.jit(f)
    for point in (X, X + 1.0):
        for one, other in zip(_leaves(replayed(point)), _leaves(f(point))):
            np.testing.assert_array_equal(one, other)


def _leaves(result):
    first, second, more = result
    return first, second, more["first"], more["twice"]


def test_the_tape_is_that_of_numbers():
    """`import tapegrad.numpy as np` costs what `import numpy as np` does."""
    by_numpy, by_ours = (tg.grad(lambda x: integral(x, module)).tape(X) for module in (np, tnp))
    names = [[line.split()[1] for line in str(tape).splitlines()[1:]] for tape in (by_numpy, by_ours)]
    assert {"stack", "select"}.isdisjoint(names[1]) and abs(len(names[0]) - len(names[1])) <= 5


def test_longer_ones_stay():
    tape = tg.grad(lambda x: np.sum((tnp.array([x[k % 3] for k in range(9)]) * 2.0)[1:])).tape(X)
    assert "stack" in str(tape)


@pytest.mark.parametrize("kernel", ["never", "always"])
def test_zeros_keep_their_signs(kernel):
    def signs(x, np):
        y = np.array([x, 0.0, x]) * np.array([-0.0, -0.0, 0.0])
        z = np.array([x, -0.0, x]) + np.array([-0.0, -0.0, 0.0])
        return np.sum(np.copysign(1.0, np.concatenate([y, z]))) * x + np.sum(np.copysign(x, np.array([0.0, -0.0, x]) * 1.0))

    g = tg.jit(tg.value_and_grad(lambda x: signs(x, tnp)), kernel=kernel)
    for x in (1.5, 2.5, 3.5):
        assert g(x) == (signs(x, np), 1.0) == (x, 1.0)
