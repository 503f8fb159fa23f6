"""What goes in and comes out of the public functions; callers of all kinds."""

import collections
import math
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.common.errors import UnsupportedInNumbaError
from tapegrad.nopython.compile import renewed
from tests.every import every

from .programs import differences

numba = pytest.importorskip("numba")
ROOT = Path(__file__).parents[2]


def weighted(a, x, n, b):
    return a * np.sum(x**n) + b * x[0, 0]


def test_arguments_of_several_kinds():
    x = np.arange(1.0, 13.0).reshape(3, 4).T  # not contiguous
    value, (da, dx, db) = tg.njit_value_and_grad(weighted, argnums=(0, 1, -1))(2.0, x, 2, 3.0)
    assert value == 2.0 * np.sum(x**2) + 3.0
    assert (da, db) == (np.sum(x**2), 1.0)
    expected = 4.0 * x
    expected[0, 0] += 3.0
    assert np.array_equal(dx, expected)
    assert dx.shape == (4, 3)


def many(x, scale=3.0):
    s = 0.0
    for i in range(len(x)):
        s += scale * x[i] ** 2 * (i + 1)
    return s


def test_more_directions_than_lanes_keywords_and_defaults():
    x = np.linspace(-1.0, 1.0, 19)
    gradient = tg.njit_grad(many, lanes=4)
    assert np.allclose(gradient(x), 6.0 * x * np.arange(1, 20), rtol=1e-15)
    assert np.allclose(gradient(x=x, scale=1.0), 2.0 * x * np.arange(1, 20), rtol=1e-15)
    assert gradient(np.zeros(0)).shape == (0,)


def test_integers_are_taken_for_floats():
    assert tg.njit_derivative(lambda x: x / 2 + x**2)(3) == 6.5


def scaled_sum(x):
    y = np.zeros(len(x), np.float32)
    y += x * x
    return np.sum(y * np.ones_like(x))


@pytest.mark.long
def test_float32_arrays():
    x = np.array([1.5, -2.0, 0.25], np.float32)
    value, gradient = tg.njit_value_and_grad(scaled_sum)(x)
    assert value == np.sum(x * x) and gradient.dtype == np.float32 and np.array_equal(gradient, 2.0 * x)
    value, tangent = tg.njit_jvp(scaled_sum)(x, np.ones(3, np.float32))
    assert (value, tangent) == (np.sum(x * x), np.sum(2.0 * x))
    assert np.array_equal(tg.njit_jacobian(lambda x: x * x)(x), np.diag(2.0 * x))


def test_what_stands_for_compiled_code_is_refused_in_python():
    tg.njit_derivative(lambda x: x)
    from tapegrad.nopython.arrays import promoted

    with pytest.raises(UnsupportedInNumbaError, match="promoted has a meaning in compiled code only"):
        promoted(None, 1.0)


def test_results_that_do_not_depend_on_the_arguments():
    def constant(x):
        return 3

    value, gradient = tg.njit_value_and_grad(constant)(np.ones(2))
    assert value == 3.0 and np.array_equal(gradient, [0.0, 0.0])
    assert np.array_equal(tg.njit_jacobian(lambda x: np.ones(3))(np.ones(2)), np.zeros((3, 2)))


def test_arguments_are_not_changed():
    def changes(x):
        x[0] = x[0] * x[1]
        return x[0] + x[1]

    x = np.array([2.0, 3.0])
    assert np.array_equal(tg.njit_grad(changes)(x), [3.0, 3.0])
    assert np.array_equal(x, [2.0, 3.0])


def newton(c):
    x = 1.0
    for _ in range(8):
        x = x - (x * x - c) / (2.0 * x)
    return x


def test_functions_that_differ_in_what_they_enclose():
    def scaled(table):
        return lambda x: x * table[-1]

    for last in (2.0, 5.0):
        table = np.zeros(5000)
        table[-1] = last
        assert tg.njit_derivative(scaled(table))(1.0) == last


def test_called_from_nopython_code_and_in_parallel():
    slope = tg.njit_derivative(numba.njit(newton))
    both = tg.njit_value_and_grad(many)

    @numba.njit
    def descend(x):
        for _ in range(200):
            _, g = both(x, 1.0)
            x = x - 0.05 * g
        return x

    @numba.njit(parallel=True)
    def slopes(c):
        out = np.empty_like(c)
        for i in numba.prange(len(c)):
            out[i] = slope(c[i]) + both(np.ones(3), c[i])[1][2]
        return out

    assert np.allclose(descend(np.array([1.0, -2.0])), 0.0, atol=1e-6)
    c = np.linspace(1.0, 9.0, 50)
    assert np.allclose(slopes(c), 0.5 / np.sqrt(c) + 6.0 * c, rtol=1e-12)


PROGRAM = """
import math, numba, numpy as np, tapegrad as tg

def f(x, k):
    y = np.zeros(len(x))
    for i in range(len(x)):
        y[i] = math.lgamma(x[i]) * k
    return y.sum()

slope, scaled = tg.njit_grad(f), tg.njit_grad(f, argnums=1)

@numba.njit(cache=True)
def user(x):
    return slope(x, 2.0), scaled(x, 2.0)

g, s = user(np.array([2.0, 3.0]))
print(g.tolist(), s, sum(user.stats.cache_hits.values()))
"""


@pytest.mark.long
def test_a_caller_that_is_cached_on_disk(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": str(ROOT)}
    printed = []
    for _ in range(2):
        done = subprocess.run([sys.executable, program], capture_output=True, text=True, env=env)
        assert done.returncode == 0, done.stderr
        printed.append(eval(done.stdout.replace("] ", "], ").replace(" ", ", ").replace(",,", ",")))
    for gradient, scaled, _ in printed:
        assert gradient == pytest.approx([2.0 * (1 - np.euler_gamma), 2.0 * (1.5 - np.euler_gamma)], rel=1e-14)
        assert scaled == pytest.approx(math.lgamma(3.0), rel=1e-14)
    assert [hits for _, _, hits in printed] == [0, 1]


def line_of(function, offset):
    return f"{__file__}:{function.__code__.co_firstlineno + offset}"


GIVEN = np.zeros(3)


def cuts(x):
    y = x * 2
    return np.int64(y) * x


def stores(x, given):
    given[0] = x
    return given[0]


def calls_a_helper_that_cuts(x):
    return cuts(x) + 1.0


def solves(x):
    a = np.array([[x, 1.0], [2.0, x]])
    return np.linalg.pinv(a)[0, 0]


def undefined(x):
    return x.no_such_attribute


def looks_at_memory(x):
    return np.full(2, x).view(np.float64)[0]


def rounds(x):
    return np.full(2, x).astype(np.int64)[0]


@pytest.mark.parametrize(
    "function, arguments, where, words",
    [
        (cuts, (1.0,), (cuts, 2), "math.floor"),
        (stores, (1.0, np.zeros(2, int)), (stores, 1), "pass one of floats"),
        (calls_a_helper_that_cuts, (1.0,), (cuts, 2), "math.floor"),
        (solves, (1.0,), (solves, 2), "tg.tensor"),
        (undefined, (1.0,), (undefined, 1), "no_such_attribute"),
        (looks_at_memory, (1.0,), (looks_at_memory, 1), "view"),
        (rounds, (1.0,), (rounds, 1), "int64"),
    ],
)
def test_what_cannot_be_differentiated_names_the_line(function, arguments, where, words):
    with pytest.raises(UnsupportedInNumbaError) as caught:
        tg.njit_derivative(function)(*arguments)
    message = str(caught.value)
    assert message.startswith(line_of(*where)), message
    assert words in message, message
    assert isinstance(caught.value, TypeError)


ARRAY = np.array([[0.5, 1.5, -0.7], [2.0, 0.3, 1.1]])
KEYWORDS = {
    "sum": ["axis=0", "axis=-1", "axis=1, keepdims=True", "keepdims=True", "axis=(0, 1)", "axis=None", "dtype=float", "initial=2.0", "where=a > 0.4"],
    "mean": ["axis=1", "keepdims=True", "axis=0, keepdims=True", "dtype=np.float32"],
    "var": ["axis=0", "ddof=1", "axis=1, ddof=1", "keepdims=True"], "std": ["axis=1", "ddof=1", "keepdims=True"],
    "prod": ["axis=0", "keepdims=True", "initial=2.0"], "max": ["axis=1", "axis=1, keepdims=True", "initial=9.0"],
    "min": ["axis=0", "keepdims=True", "where=a > 0.4"], "cumsum": ["axis=1", "axis=0", "dtype=float"],
}  # fmt: skip
CALLS = [
    *(f"np.{name}(a, {given})" for name, each in KEYWORDS.items() for given in each),
    *(f"a.{name}({given})" for name, each in KEYWORDS.items() for given in each[:2]),
    "a.sum(0)", "a.mean(1)", "a.cumsum(1)", "a.copy(order='C')", "np.kron(a, a)", "np.linalg.norm(a, axis=1)", "np.outer(a, a, None)",
    "np.clip(a, 0.0, None)", "np.dot(a, a.T, out=None)", "np.diff(a, axis=0)",
]  # fmt: skip


#: What is computed, by the mode that does it; all others are refused.
COMPUTED = {
    "reverse": ["np.sum(a, axis=0)", "np.sum(a, axis=-1)", "a.sum(axis=0)", "a.sum(axis=-1)", "a.sum(0)", "np.clip(a, 0.0, None)"],
    "forward": ["np.cumsum(a, axis=1)", "np.cumsum(a, axis=0)", "np.outer(a, a, None)", "np.kron(a, a)", "np.nanargmax(a) * a"],
}


def of_calls(calls):
    """The function of an array, and of a factor for each call, that adds up the results of calls."""
    sums = [f"w[{k}] * np.sum({call.replace('a.', 'b.', 1) if call[0] == 'a' else call})" for k, call in enumerate(calls)]
    scope = {"np": np}
    exec(compile(f"def f(a, w):\n    b = a * 1.0\n    return {' + '.join(sums)}\n", "<f>", "exec"), scope)
    return scope["f"]


def known(call):
    """Whether this Numba has it: older ones have no axis of `np.cumsum`, and no `np.nanargmax`."""
    try:
        numba.njit(of_calls([call]))(ARRAY, np.ones(1))
    except numba.NumbaError:
        return False
    return True


@pytest.mark.parametrize("mode", COMPUTED)
def test_a_keyword_is_computed(mode):
    calls = [call for call in COMPUTED[mode] if not {"cumsum", "nanargmax"} & {*re.findall(r"\w+", call)} or known(call)]
    f = of_calls(calls)
    derivative = tg.njit_value_and_grad(f)
    for w in np.eye(len(calls)):
        value, gradient = derivative(ARRAY, w)
        x = tg.tensor(ARRAY, requires_grad=True)
        y = f(x, w)
        y.backward()
        assert value == pytest.approx(y.item(), rel=1e-14)
        np.testing.assert_allclose(gradient, x.grad.numpy(), rtol=1e-13)
    assert next(iter(derivative.modes().values()))["mode"] == mode


@every("call", [call for call in CALLS if call not in sum(COMPUTED.values(), [])])
def test_a_keyword_is_refused_with_the_line(call):
    with pytest.raises(UnsupportedInNumbaError, match="^<f>:3: "):
        tg.njit_value_and_grad(of_calls([call]))(ARRAY, np.ones(1))


def test_the_error_comes_through_the_users_own_code():
    slope = tg.njit_derivative(cuts)

    @numba.njit
    def user(x):
        return slope(x)

    with pytest.raises(UnsupportedInNumbaError, match="int"):
        user(1.0)


def deleted(x):
    y = x * x
    del y
    return x[0]


@pytest.mark.parametrize(
    "make, arguments, words",
    [
        (lambda: tg.njit_grad(lambda x: x), (np.ones(2),), "returns array"),
        (lambda: tg.njit_grad(lambda x: x[0]), (np.ones(2, np.int64),), "float64 or float32 arrays"),
        (lambda: tg.njit_jacobian(lambda x: x[0]), (np.ones(2),), "1-d array"),
        (lambda: tg.njit_derivative(lambda x: x[0]), (np.ones(2),), "by a number"),
        (lambda: tg.njit_jvp(lambda x: x), (np.ones(2), 1.0), "tangent"),
        (lambda: tg.njit_derivative(tg.njit_derivative(lambda x: x)), (1.0,), "first derivatives"),
        (lambda: tg.njit_grad(lambda x: x, argnums=1), (), "positions"),
        (lambda: tg.njit_grad(lambda x, y: x, argnums=(0, -2)), (), "twice"),
        (lambda: tg.njit_grad(lambda *x: x[0]), (), "plain parameters"),
        (lambda: tg.njit_grad(np.sin), (), "Python function"),
        (lambda: tg.njit_grad(lambda x: x, lanes=3), (), "lanes"),
        (lambda: tg.njit_grad(lambda x: x[0]), (np.ones(2, np.float16),), "compiles no float16, as one of its arguments, number 0"),
        (lambda: tg.njit_hessian(lambda a, x: a * x[0]), (1.0, np.ones(2, ">f8")), "no type for one of its arguments, number 1; .*byte order"),
        (lambda: tg.njit_grad(lambda x: np.sum(x[...])), (np.ones(2),), r"(?s)write x\[:\]"),
        (lambda: tg.njit_grad(deleted), (np.ones(2),), "(?s)test_api.py.*leave it out"),
    ],
)
def test_wrong_use_is_named(make, arguments, words):
    with pytest.raises(UnsupportedInNumbaError, match=words):
        make()(*arguments)


def counting(x, calls):
    calls[0] += 1.0
    return calls[0] * np.sum(x**2)


State = collections.namedtuple("State", ["scale", "calls"])


def counting_inside(x, state):
    return counting(x, state[1])


def test_each_run_starts_from_the_arguments_as_they_were_passed():
    x, calls = np.linspace(-1.0, 1.0, 20), np.ones(2)
    for gradient in (tg.njit_grad(counting, mode="forward"), tg.njit_grad(counting, mode="reverse")):
        assert np.allclose(gradient(x, calls), 4.0 * x, rtol=1e-15)
    assert np.allclose(tg.njit_jacobian(lambda x, calls: x * counting(x, calls))(x, calls[::-1]), 2.0 * np.sum(x**2) * np.eye(20) + 4.0 * np.outer(x, x))
    assert np.array_equal(tg.njit_hessian(counting)(x, calls), 4.0 * np.eye(20))
    value, slope = tg.njit_jvp(counting)(x, calls, np.ones(20))
    assert np.allclose((value, slope), (2.0 * np.sum(x**2), 4.0 * np.sum(x))) and np.array_equal(calls, np.ones(2))
    for state in (State(3.0, np.ones(2)), (3.0, np.ones(4)[::2])):
        assert np.allclose(tg.njit_grad(counting_inside, mode="forward")(x, state), 4.0 * x, rtol=1e-15)
        assert np.allclose(tg.njit_grad(counting_inside, mode="reverse")(x, state), 4.0 * x, rtol=1e-15)
        assert np.array_equal(tg.njit_hessian(counting_inside)(x, state), 4.0 * np.eye(20)) and np.array_equal(state[1], np.ones(2))


def crossed(x, y):
    x[0] = y[1] * 2.0
    return np.sum(x * x * y)


def test_an_array_that_is_stored_into_is_no_other_argument():
    table = np.arange(12.0).reshape(4, 3)
    x, y = table[:, 0], table[:, 1]  # (between each other, but not the same memory)
    wanted = (np.array([0.0, *(2.0 * x * y)[1:]]), x * x + np.array([4.0 * y[1] ** 2, 8.0 * y[0] * y[1], 0.0, 0.0]))
    for mode in ("forward", "reverse"):
        both, first = tg.njit_grad(crossed, (0, 1), mode=mode), tg.njit_grad(crossed, mode=mode)
        assert all(np.array_equal(a, b) for a, b in zip(both(x, y), wanted)) and np.array_equal(first(x, y), wanted[0])
        for gradient in (both, first):
            for pair in ((x, x), (x, x[::-1]), (table[0, :2], table[0, 1:])):
                with pytest.raises(ValueError, match="may store into shares memory with another argument"):
                    gradient(*pair)
    with pytest.raises(ValueError, match="may store into shares memory with another argument"):
        tg.njit_hessian(crossed)(x, x)
    assert np.array_equal(tg.njit_grad(lambda x, y: np.sum(x * y), mode="forward")(x, x), x)


@numba.njit
def scaled(x, work, factor):
    for i in range(len(work)):
        work[i] = factor * x[i] ** 2 + work[i]


@numba.njit
def deeper(v, work, n):
    if n == 0:
        return work[0] * v
    work[n % 3] += v * work[0]
    work[0] = work[n % 3] * 0.5
    return deeper(math.sin(v), work, n - 1) + work[1]


def through_slices(x, work, data):
    """Slices, `+=`, a helper that fills what it is given, a view, and contents from before the call."""
    work[1:3] = x[:2] * work[0]
    work += data
    scaled(x, work, data[0])
    view = work[1:]
    view *= view
    work[:] = np.sin(work) * x
    return np.sum(work)


def by_swapping(x, work, data):
    """Two buffers that a loop exchanges, one of them the function's own."""
    now, after = work, np.zeros(len(work))
    for _ in range(3):
        for i in range(len(x)):
            after[i] = math.sin(now[i - 1]) * x[i] + 0.5 * now[i] + data[i]
        now, after = after, now
    return now[0] * work[1] + deeper(x[0], work, 5)


@pytest.mark.parametrize("f", [through_slices, pytest.param(by_swapping, marks=pytest.mark.long)])
def test_differentiated_values_may_be_stored_into_other_arguments(f):
    x, work, data = np.linspace(0.3, 1.2, 4), np.linspace(-0.5, 0.7, 8)[::2], np.array([0.4, -0.2, 0.9, 0.1])
    value, before = numba.njit(f)(x, work.copy(), data), work.copy()
    if f is through_slices:
        recorded = renewed(f, scope={**f.__globals__, "scaled": scaled.py_func})
        plain = tg.grad(lambda x: recorded(x, tg.tensor(work), data))(x)
    else:
        plain = differences(lambda x: numba.njit(f)(x, work.copy(), data), x)
    for mode in ("forward", "reverse"):
        both = tg.njit_value_and_grad(f, mode=mode)
        for _ in range(2):
            found, gradient = both(x, work, data)
            assert np.isclose(found, value, rtol=1e-14) and np.allclose(gradient, plain, rtol=1e-12 if f is through_slices else 1e-7)
            assert np.array_equal(work, before)
        for shared in (x, data[::-1]):
            with pytest.raises(ValueError, match="may store into shares memory with another argument"):
                both(x, shared, data)


def filled(x, out):
    for i in range(len(out)):
        out[i] = x[i] * x[i + 1] + out[i]
    return out


def squared(a, work):
    work[0] = a * work[1]
    work[1] += work[0] * a
    return work[1] ** 2


def in_a_loop(x, work):
    for _ in range(50):
        work[0] = math.sin(work[1]) * x[0]
        work[1] = 0.5 * work[0] * x[1] + math.cos(work[1])
    return work[1] * x[2]


@numba.njit(parallel=True)
def on_threads(x, work):
    s = 0.0
    for i in numba.prange(len(x)):
        work[i] += x[i] ** 2
        s += work[i] * x[i]
    return s + work[0] * work[1]


def from_a_tuple(x, state):
    state.scale[0] = x[0] * x[1]
    state.calls[1] = state.scale[0] * x[2] + state.calls[0]
    return state.calls[1] ** 2 * state.scale[1]


@pytest.mark.long
def test_every_derivative_takes_work_space():
    x, work = np.array([2.0, 3.0, 4.0]), np.array([10.0, 20.0])
    small = x / 4.0
    rows = np.array([[3.0, 2.0, 0.0], [0.0, 4.0, 3.0]])
    for mode in ("forward", "reverse"):
        assert np.array_equal(tg.njit_jacobian(filled, mode=mode)(x, work), rows)
        assert tg.njit_grad(squared, mode=mode)(2.0, work) == 16000.0
    (value, product), (seen, tangent) = tg.njit_vjp(filled)(x, work, np.array([1.0, 10.0])), tg.njit_jvp(filled)(x, work, np.ones(3))
    assert np.array_equal(value, [16.0, 32.0]) and np.array_equal(product, [1.0, 10.0] @ rows) and np.array_equal(seen, value)
    assert np.array_equal(tangent, rows @ np.ones(3)) and tg.njit_hessian(squared)(2.0, work) == 20800.0
    whole, out = tg.njit_grad(in_a_loop)(small, work), np.empty(3)
    assert np.array_equal(tg.njit_grad(in_a_loop, memory=1000)(small, work), whole)
    tg.njit_value_and_grad(in_a_loop, out=True)(small, work, out)
    assert np.array_equal(out, whole) and np.array_equal(work, [10.0, 20.0])
    with pytest.raises(ValueError, match="must not share memory"):
        tg.njit_value_and_grad(in_a_loop, out=True)(x, out[:2], out)
    for f, buffer in ((in_a_loop, work), (on_threads, np.ones(3))):
        gradient = tg.njit_grad(f, mode="reverse")
        slopes = differences(lambda x, gradient=gradient, buffer=buffer: gradient(x, buffer), small)
        assert np.allclose(gradient(small, buffer), tg.njit_grad(f, mode="forward")(small, buffer), rtol=1e-12)
        assert np.allclose(tg.njit_hessian(f)(small, buffer), slopes, rtol=1e-7, atol=1e-7 * np.abs(slopes).max())


def test_buffers_in_tuples_and_of_other_kinds():
    x, state = np.array([0.5, 1.5, 0.7]), State(np.array([0.2, 3.0]), np.array([0.4, 0.1]))
    gradient = tg.njit_grad(from_a_tuple)
    y = x[0] * x[1] * x[2] + 0.4
    assert np.allclose(gradient(x, state), 6.0 * y * (y - 0.4) / x, rtol=1e-14) and state.calls[1] == 0.1
    for shared in (State(state.calls, state.calls), State(x, state.calls)):
        with pytest.raises(ValueError, match="may store into shares memory"):
            gradient(x, shared)
    for mode in ("forward", "reverse"):
        with pytest.raises(UnsupportedInNumbaError, match="cannot hold differentiated values|does not track"):
            tg.njit_grad(squared, mode=mode)(2.0, np.array([1, 2]))


def first_squared(x, pair):
    x[0] = x[0] ** 2
    return np.sum(x * pair[0])


@numba.njit
def of_a_column(gradient, m, pair):
    return gradient(m[:, 0], pair)


def test_a_contiguous_column_is_copied_and_none_in_a_tuple_is_another_argument():
    m, pair = np.full((3, 1), 3.0), (np.array([1.0, 4.0, 5.0]), 1.0)
    for mode in ("forward", "reverse"):
        gradient = tg.njit_grad(first_squared, mode=mode)
        assert np.array_equal(of_a_column(gradient, m, pair), [6.0, 4.0, 5.0]) and np.array_equal(m, np.full((3, 1), 3.0))
        with pytest.raises(ValueError, match="may store into shares memory"):
            gradient(pair[0][::-1], pair)
