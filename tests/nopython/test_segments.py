"""`memory=`: outermost loops whose turns go back segment by segment, against differences, and the same gradient with all turns kept."""

import math
import re

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.common.errors import OptionError, UnsupportedInNumbaError

numba = pytest.importorskip("numba")
from numba.core.runtime import rtsys  # noqa: E402
from numba.core.runtime._nrt_python import memsys_enable_stats  # noqa: E402

AT = np.array([0.31, -0.7, 1.9, 0.45, -1.3, 0.8, 1.1, 0.21])
PEAK = "peak of the stack, bytes"


@numba.njit
def bend(a, b):
    t = math.sin(a) * b
    if t > 0.2:
        return t * a
    return t - 0.1


def scalars(x, n=400):
    u, v, up, flips = x[0], x[1], True, 1
    for i in range(2 * n, 0, -2):
        if up:
            u += 0.01 * bend(v, x[i % 8])
        else:
            v = v * 0.99 + 0.01 * math.exp(-u * u)
        if i % 7 == 3:
            up = not up
            flips += 1
    return u * v * flips


def in_place(x):
    y, a, b = x.copy(), x.copy(), np.zeros(len(x))
    for i in range(120):
        for j in range(1, len(y) - 1):
            y[j] = 0.5 * y[j] + 0.2 * math.tanh(y[j - 1] * b[j + 1])
            b[j] = a[j] * 0.9 + 0.1 * math.sin(a[j - 1] * x[j])
        y[2:5] = y[1:4] * 0.9
        a, b = b, a
        y[0] = y[0] * 0.9 + 0.1 * y[-1] * x[i % 8]
    return np.sum(y * y) + np.sum(b * a)


def writes_its_argument(x):
    s = 0.0
    for i in range(300):
        x[i % 8] = math.sin(x[i % 8] + 0.1 * x[(i + 1) % 8])
        s = 0.9 * s + x[i % 5]
    return s


def carried(x):
    y, previous, z = x * 1.0, x, np.zeros(len(x))
    for i in range(120):
        if i % 5 != 2:
            previous, y = y, y + 0.05 * np.sin(previous) * x
        z = z * 0.9 + y * previous
    return np.sum(y * previous) + np.sum(z)


def inner_loops(x):
    s = 1.0
    for i in range(60):
        t = x[i % 8]
        for j in range(i):
            t = t * 0.9 + math.cos(t) * 0.1
            for _ in range(j % 3):
                t = math.sin(t + x[0])
        k = 0
        while abs(t) > 0.05 and k < i % 9:
            t *= 0.6
            k += 1
        s = s * 0.95 + t
    return s


def whiles(x):
    s, k = x[0], 0
    while s < 40.0:
        s += 0.1 + 0.01 * x[k % 8] * math.sin(s)
        k += 1
        if k > 390:
            break
    return s * s


def leaving(x):
    s = 0.5
    for i in range(10_000):
        s = s * (1.0 + 0.01 * x[i % 8]) + 0.01
        if s > 8.0:
            return s * s
        if i > 700:
            s -= x[1]
            break
    else:
        s = 3.0
    return s + x[2]


def several(x):
    y, table, s = x.copy(), np.arange(8.0), 0.0
    if x[0] < 0:
        z = np.zeros(8)
    else:
        z = np.ones(8)
    for i in range(100):
        z[i % 8] = s * x[0] + 0.5 * z[i % 7]
        s = math.sin(s * 0.97 + y[i % 8] * table[i % 5])
    for k, v in enumerate(y):
        s = math.sin(s) + 0.1 * k * v
    y[:] = 7.0
    table[1:3] = -3.0
    for a in x:
        for b in y:
            s = 0.9 * math.sin(s) + a * b * 0.01
    for k in range(8):
        y[k] = s * k
    return np.sum(y) * table[1] + np.sum(x * y) + np.sum(z)


def made_in_turns(x):
    s, n = 0.0, 0
    for i in range(100):
        z = np.empty(8)
        for j in range(8):
            z[j] = math.sin(x[j] * (s + j))
        if i % 3 == 0:
            k, last = i, z * s
        s = 0.9 * s + 0.01 * np.sum(z * x) + 0.1 * last[2]
        n += k % 2
    return s * n + last[3]


#: Function -> bytes that are few for its loops: most turns go back in segments.
FEW = {whiles: 1_400, leaving: 1_000, inner_loops: 4_000, writes_its_argument: 5_000, made_in_turns: 12_000}
LONG = {in_place: 19_000, carried: 36_000, several: 6_000}


def agrees(f, memory):
    gradient, x = tg.njit_grad(f, memory=memory), AT.copy()
    found = gradient(x)
    assert np.array_equal(x, AT)
    wanted = [(f(x + h) - f(x - h)) / 2e-6 for h in 1e-6 * np.eye(len(x))]
    np.testing.assert_allclose(found, wanted, rtol=0.0, atol=1e-6 * max(1.0, np.max(np.abs(wanted))))
    assert 0 < gradient.modes(AT)[PEAK] <= memory


@pytest.mark.parametrize("f", FEW, ids=lambda f: f.__name__)
def test_gradients_agree_with_differences(f):
    agrees(f, FEW[f])


@pytest.mark.long
@pytest.mark.parametrize("f", LONG, ids=lambda f: f.__name__)
def test_gradients_of_functions_of_arrays_agree_with_differences(f):
    agrees(f, LONG[f])


def test_numbers_carried_give_the_same_bits_for_any_count_of_turns_from_compiled_code_too():
    few, whole = tg.njit_value_and_grad(scalars, memory=2_200), tg.njit_value_and_grad(scalars, mode="reverse")

    @numba.njit
    def called(x, n):
        return few(x, n)

    for n in (0, 1, 2, 3, 57, 400):
        expected = whole(AT, n)
        for value, gradient in (few(AT, n), called(AT, n)):
            assert value == expected[0] and np.array_equal(gradient, expected[1])
    assert few.modes(AT, 57) == {**whole.modes(AT, 57), PEAK: few.modes(AT, 57)[PEAK]}
    assert few.modes(AT, 400)[PEAK] <= 2_200 < whole.modes(AT, 400)[PEAK]


def test_the_message_says_how_much_is_enough():
    with pytest.raises(OptionError, match=r"memory=300 is too small.*give memory=\d+ or more") as error:
        tg.njit_vjp(scalars, memory=300)(AT, 400, 1.0)
    enough = int(re.search(r"give memory=(\d+)", str(error.value)).group(1))
    assert 300 < enough < 5_000
    gradient = tg.njit_vjp(scalars, memory=enough)
    assert gradient(AT, 400, 1.0)[0] == pytest.approx(scalars(AT), rel=1e-14)
    assert gradient.modes(AT, 400, 1.0)[PEAK] <= enough


def raising(x):
    y, z = x * 1.0, np.zeros(8)
    for i in range(60):
        z[i % 8] = math.sin(z[i % 8] + y[0])
        y = y + z * x
        if i > 50 and x[1] > 0.0:
            raise ValueError("too large")
    return np.sum(y)


def test_nothing_is_left_behind():
    memsys_enable_stats()
    gradient = tg.njit_grad(raising, memory=14_000)
    for turn in range(300):
        if turn == 2:
            before = rtsys.get_allocation_stats()
        gradient(AT)
        with pytest.raises(ValueError, match="too large"):
            gradient(-AT)
    after = rtsys.get_allocation_stats()
    assert after.alloc - before.alloc == after.free - before.free > 0
    assert gradient.modes(AT)[PEAK] < 60 * 200  # a turn keeps 200 bytes


@pytest.mark.parametrize("options", [{"memory": 0}, {"memory": 1.5}, {"memory": 100, "lanes": 4}, {"memory": 100, "mode": "forward"}])
def test_bad_options(options):
    with pytest.raises(OptionError, match="a number of bytes, for reverse mode"):
        tg.njit_grad(scalars, **options)


def draws(x):
    s = 0.0
    for _ in range(10):
        s = math.sin(s + x[0] * np.random.random())  # twice, repeatable
    return s


def prints(x):
    s = 0.0
    for k in range(10):
        s = math.sin(s + x[0])
        print(k)  # twice, repeatable
    return s


@numba.njit
def tree(a, k):
    return a if k == 0 else tree(math.sin(a), k - 1) * a


def recursive(x):
    s = 0.5
    for _ in range(10):
        s = math.sin(s) + tree(s * x[0], 2)  # twice, repeatable
    return s


def strides(x):
    s, n = 0.5, len(x) // 4
    for k in range(0, 10, n):  # twice, repeatable
        s = math.sin(s) + x[k % 8]
    return s


def lists(x):
    s, counts = 0.5, [0, 1]
    for k in range(10):
        s = math.sin(s) + x[counts[k % 2]]  # twice, repeatable
    counts[0] = 5
    return s


def kept_array(x):
    s, z = 0.5, x.copy()
    for k in range(10):
        if k == 3:
            z = np.zeros(8)
        z[k % 8] = s
        s = math.sin(s) + z[1] * x[0]  # an array that it makes in one iteration and carries to the next
    return s


@pytest.mark.parametrize("f", [draws, prints, recursive, strides, lists, kept_array], ids=lambda f: f.__name__)
def test_what_might_not_come_out_the_same_is_refused_with_the_line(f):
    with pytest.raises(UnsupportedInNumbaError, match="memory=") as error:
        tg.njit_grad(f, memory=1_000)(AT)
    said = str(error.value)
    line, reason = re.search(r"reverse mode: (.*)\n  (.*)\n  What to do: leave memory= out", said).groups()
    assert all(word in reason for word in line.partition("  # ")[2].split(", ") if word) or f is kept_array, said
