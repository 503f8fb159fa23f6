"""Whole programs in nopython code: values against Python's, derivatives against differences and the tape."""

import math

import numpy as np
import pytest

import tapegrad as tg

numba = pytest.importorskip("numba")
AT = np.array([0.7, -0.4, 1.3])


def differences(f, x, h=1e-6):
    columns = []
    for i in range(x.size):
        step = np.zeros_like(x)
        step[i] = h
        columns.append((np.asarray(f(x + step)) - np.asarray(f(x - step))) / (2 * h))
    return np.stack(columns, axis=-1)


def check(f, x=AT):
    """Each element of the returned array: the value from the plain function, the derivatives from differences."""
    jvp = tg.njit_jvp(f)
    values, columns = zip(*[jvp(x, e) for e in np.eye(x.size)])
    assert np.allclose(values, f(x.copy()), rtol=1e-15, atol=1e-15)
    assert np.allclose(np.stack(columns, axis=-1), differences(f, x), rtol=1e-7, atol=2e-8)


@numba.njit
def decorated(a, b):
    return a * b + math.sin(a)


def plain(a):
    return np.exp(-a) if a > 0 else np.cos(a)


@numba.njit
def buffer(n):
    return np.zeros(n)


@numba.njit
def fill(target, x):
    for i in range(len(x)):
        target[i] = 2 * x[i]


@numba.njit
def recursive(x, n):
    if n == 0:
        return x
    return recursive(x * 1.5, n - 1) * x


@numba.njit
def even(x, n):
    if n <= 0:
        return x
    return odd(x * 1.5, n - 1)


@numba.njit
def odd(x, n):
    if n <= 0:
        return x * x
    return even(x + 1.0, n - 1)


def plain_recursive(x, n):
    if n <= 1:
        return x
    return plain_recursive(x, n - 1) * x + 1.0


@numba.njit
def apply(f, a):
    return f(a) * 2


@numba.njit
def cube(a):
    return a**3


@numba.njit
def generate(x):
    for v in x:
        yield v * v


def same(a):
    return a


def helpers(x):
    k = 3.0

    def inner(a):
        return a * k

    out = np.empty(10)
    out[0] = decorated(x[0], x[1]) + plain(x[0]) * plain(x[1])
    b = buffer(3)
    b[0] = x[0]
    b[1] = x[1] * b[0]
    out[1] = b[1] + b[2]
    c = np.zeros(3)
    fill(c, x)
    out[2] = c[0] * c[1] * c[2]
    out[3] = recursive(x[0], 4)
    out[4] = even(x[0], 3) + x[1]
    out[5] = plain_recursive(x[2], 3)
    out[6] = inner(x[0]) * inner(x[2])
    out[7] = apply(cube, x[2])
    total = 0.0
    for v in generate(x):
        total += v * x[0]
    out[8] = total
    matrix = same(np.zeros(4)).reshape((2, 2))
    matrix[1, 0] = x[0] * x[2]
    out[9] = np.ravel(matrix)[2] * matrix.T[0, 1]
    return out


def control(x):
    out = np.zeros(7)
    y, k = 0.0, 0
    while y < 10.0:
        y += x[k % 3] ** 2 + 0.1
        k += 1
    out[0] = y
    s = 0
    for i in range(len(x)):
        for j in range(3):
            if x[i] * x[j] < 0:
                continue
            s += x[i] * x[j] * i
            if s > 2:
                break
    out[1] = s
    best = None
    for v in x:
        if best is None or v > best:
            best = v
    out[2] = best * best
    out[3] = early(x)
    for i, (a, b) in enumerate(zip(x, x[1:])):
        out[4] += i * a * b + b
    a, b, c = x
    a, b = b, a * 2.0
    t = (a, b, 1.0)
    out[5] = t[0] * t[1] + t[2] * c
    z = x[0] if 0 < x[0] < 1 else 1
    out[6] = z * (x[1] < 0) - (-z) ** 3
    return out


def early(x):
    if x[0] > 100:
        return 0.0
    if x[1] > 100:
        return 1
    return x[0] * x[1]


def arrays(x):
    n = len(x)
    out = np.zeros(14)
    m = np.empty((n, n))
    for i in range(n):
        for j in range(n):
            m[i, j] = x[i] * x[j] if i != j else 1.0
    out[0] = (m[1][0] + m[:, 0][2]) * m[2, 2] + m.T[0, 1]
    y = np.zeros_like(x)
    y[0] = x[1]
    y[1:] = x[:-1]
    out[1] = y[0] * y[1] * y[2] + x[::-1][0]
    ones, table = np.ones(3), np.array([2, 0, 1])
    ones[1] = x[0] * x[table[1]]
    out[2] = ones[0] * ones[1]
    listed = np.array([x[0], 2.0 * x[1], 1.0])
    out[3] = listed[0] * listed[1] * listed[2]
    full = np.full(2, x[1])
    full[0] += x[0]
    full[0] *= full[1]
    out[4] = full[0] - full[1] / 3
    w = np.linspace(0.0, 1.0, 3)
    out[5] = x[2] * w[1] + w[2]
    items = [0.0] * 3
    items[1] = x[0]
    items.append(x[1] * x[1])
    out[6] = items[1] * items[3] + items[0]
    p, q = np.zeros(3), np.zeros(3)
    for _ in range(4):
        for i in range(3):
            q[i] = p[i] + x[i] * x[i]
        p, q = q, p
    out[7] = p[0] + p[2] * q[1]
    copy = x.copy()
    copy[0] = copy[0] * copy[1]
    out[8] = copy.reshape((3, 1))[0, 0] + x.size + copy[-1]
    same = copy
    same[2] = x[0]
    out[9] = copy[2] * x[2]
    out[10] = np.sort(x)[0] * 2 + x[np.argmax(x)] ** 2
    chosen = x[np.array([2, 0])]
    out[11] = chosen[0] * chosen[1] + x[x > 0][1]
    cube_ = np.zeros((2, 2, 3))
    cube_[1, 0] = x
    cube_[0, 1, :] = 2 * x
    out[12] = cube_[1, 0, 1] * cube_[0, 1, 2]
    counts = np.zeros(3, np.int64)
    counts[1] = 2
    eye = np.eye(2)
    eye[0, 1] = x[2]
    out[13] = x[counts[1]] * eye[0, 0] + eye[0, 1] ** 2
    return out


TABLE = np.arange(9.0).reshape(3, 3) - 2.0


def expressions(x):
    y = x * x + 2.0 * x - np.exp(x) / 3
    z = np.zeros(3)
    z += x
    z *= 2.0
    z -= y
    z[1:] += z[:-1]
    steps = x[1:] - x[:-1] ** 2
    return np.array([
        y[0] + y[2], np.sum(steps * steps), (x * x).sum(), np.dot(x, y), (TABLE @ x)[1], np.sum(x @ TABLE),
        np.mean(x) + x.max() * x.min(), z[1] * z[2], (x.reshape((3, 1)) * x)[1, 2], np.linalg.norm(x),
        np.sum(np.where(x > 0, x, 0.5 * x)), np.outer(x, y)[0, 1], np.cumsum(x)[1], np.prod(x),
        (TABLE @ (TABLE * x))[2, 1], np.sum(TABLE * x, axis=0)[1], np.sum(np.abs(-x)), np.sum(np.maximum(x, 0.1)),
        np.std(x) + x.var(),
        np.sum(x * x[0] / (TABLE[0] + x[1])), np.sum(np.maximum(x[2], x) * (x < x[0])), (TABLE - x[1])[2, 1],
    ])  # fmt: skip


def floats(a):
    b = np.zeros(3)
    b += a
    return (
        a.sum() + np.sum(a) + a.max() + np.mean(a) + np.prod(a) + a.dot(b) + (a @ b) + np.where(a > 0, a, 0.0)[0],
        np.clip(a, 0.0, 1.0)[2] + abs(a[0]) + max(a[0], 2) + round(a[1]) + float(a[2]) + a[0] ** 2 + np.cumsum(a)[2],
        int(a[2]) + math.floor(a[1]) + a.view(np.int64)[0] * 0,
    )


def test_plain_numbers_keep_what_numba_does():
    tg.njit_derivative(lambda x: x)(1.0)
    assert np.allclose(numba.njit(floats)(AT), floats(AT), rtol=1e-15)


def test_helpers():
    check(helpers)


def test_control_flow():
    check(control)
    assert np.allclose(tg.njit_jacobian(control, lanes=2)(AT), differences(control, AT), rtol=1e-7, atol=2e-8)


@pytest.mark.long
def test_local_arrays():
    check(arrays)


@pytest.mark.long
def test_array_expressions():
    check(expressions)


def with_the_tape(x):
    y = np.sin(x) * x + 1.0 / (1.0 + x * x)
    s = 0.0
    for k in range(3):
        s = s + y[k] ** 2 * np.exp(-x[2 - k])
    return s + np.sum(y * x) + np.dot(x, y)


def test_gradient_agrees_with_reverse_mode():
    t = tg.tensor(AT, requires_grad=True)
    value = with_the_tape(t)
    value.backward()
    for lanes in (2, 16):
        found, gradient = tg.njit_value_and_grad(with_the_tape, lanes=lanes)(AT)
        assert found == pytest.approx(value.item(), rel=2e-15)
        assert np.allclose(gradient, t.grad.numpy(), rtol=4e-15, atol=1e-15)


def rk4(p, steps):
    a, b, c, d, u, v = p[0], p[1], p[2], p[3], p[4], p[5]
    h, loss = 0.05, 0.0
    for _ in range(steps):
        k1u, k1v = a * u - b * u * v, -c * v + d * u * v
        x, y = u + 0.5 * h * k1u, v + 0.5 * h * k1v
        k2u, k2v = a * x - b * x * y, -c * y + d * x * y
        u, v = u + h * k2u, v + h * k2v
        loss = loss + (u - 1.0) ** 2 + (v - 2.0) ** 2
    return loss


def test_differential_equation_agrees_with_reverse_mode():
    p = np.array([1.1, 0.4, 0.4, 0.1, 3.0, 2.0])
    t = tg.tensor(p, requires_grad=True)
    rk4(t, 40).backward()
    value, gradient = tg.njit_value_and_grad(rk4)(p, 40)
    assert value == numba.njit(rk4)(p, 40)
    assert np.allclose(gradient, t.grad.numpy(), rtol=1e-12, atol=0)
