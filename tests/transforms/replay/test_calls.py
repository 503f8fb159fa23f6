"""Calls of recorded functions with other arguments: of other shapes, dtypes, orders in memory, static ones, from many threads.

Each row is called by sweeps, by kernels, and plainly; what is replayed and what is recorded is counted.
"""

import threading

import numpy as np
import pytest
from scipy import special

import tapegrad as tg
from tests.threads import in_threads

WAYS = {
    "plainly": lambda made: made,
    "by sweeps": lambda made: tg.jit(made, kernel="never"),
    "by kernels": lambda made: tg.jit(made, kernel="always"),
}
RECORDED = ("by sweeps", "by kernels")
X = np.linspace(0.5, 2.0, 6)


@pytest.fixture(params=WAYS)
def way(request):
    return request.param


def rosenbrock(x):
    total = 0.0
    for i in range(len(x) - 1):
        total = total + 100.0 * (x[i + 1] - x[i] * x[i]) ** 2 + (1.0 - x[i]) ** 2
    return total


def rosenbrock_gradient(x):
    g = np.zeros_like(x)
    g[:-1] += -400.0 * x[:-1] * (x[1:] - x[:-1] ** 2) - 2.0 * (1.0 - x[:-1])
    g[1:] += 200.0 * (x[1:] - x[:-1] ** 2)
    return g


def warmed(made, way, *args):
    """What `tg.grad`, ... gave, in one of the ways, called some times."""
    g = WAYS[way](made)
    for _ in range(3):
        g(*args)
    return g


def ran(g):
    """How often the function has run."""
    return g.stats().records + g.stats().runs


def recorded(g, way, *args):
    """The result of a call, and whether the function was recorded for it; plainly it runs in any case."""
    before = ran(g)
    answer = g(*args)
    assert way in RECORDED or ran(g) == before + 1
    return answer, ran(g) > before


def test_a_call_like_the_last_one_is_a_replay(way):
    g = warmed(tg.value_and_grad(rosenbrock), way, np.array([1.3, 0.7, -0.2]))
    for x in (np.array([0.1, 0.2, 0.3]), np.array([2.0, -1.0, 1.0])):
        (value, gradient), again = recorded(g, way, x)
        assert value == pytest.approx(rosenbrock(x), rel=1e-14) and again == (way == "plainly")
        np.testing.assert_allclose(gradient, rosenbrock_gradient(x), rtol=1e-12)
    assert g.stats().kernels == (way == "by kernels") == bool(g.stats().kernel_calls)


def test_results_of_two_calls_do_not_share_memory(way):
    g = warmed(tg.value_and_grad(rosenbrock), way, np.ones(3))
    first = g(np.array([1.0, 2.0, 3.0]))[1]
    kept = first.copy()
    g(np.zeros(3))
    assert np.array_equal(first, kept)


@pytest.mark.parametrize(
    "other",
    [
        np.array([0.5, 1.5, 2.5], np.float32),
        np.array([0.5, 1.5]),
        np.array([[0.5, 9.0], [1.5, 9.0], [2.5, 9.0]])[:, 0],
        np.array([0.5, 1.5, 2.5], ">f8"),
        [0.5, 1.5, 2.5],
        (0.5, 1.5, 2.5),
        [np.float64(0.5), np.float64(1.5), np.float64(2.5)],
        [1, 2, 3],
    ],
    ids=["float32", "shape", "strides", "byte order", "list", "tuple", "NumPy numbers", "ints"],
)
def test_other_arguments(other, way):
    g = warmed(tg.value_and_grad(rosenbrock), way, np.ones(3))
    x = np.array(other, float)
    for k in range(3):
        (value, gradient), again = recorded(g, way, other)
        assert again == (k == 0 and not getattr(other, "dtype", np.dtype(float)).byteorder == ">" or way == "plainly")
        assert value == pytest.approx(rosenbrock(x), rel=1e-6)
        np.testing.assert_allclose(np.asarray(gradient, float), rosenbrock_gradient(x), rtol=1e-4)
    (value, _), again = recorded(g, way, np.zeros(3))
    assert value == 2.0 and again == (way == "plainly")


def test_an_array_subclass_is_refused(way):
    class Mine(np.ndarray):
        pass

    g = warmed(tg.value_and_grad(lambda x: x[0] * x[1]), way, np.ones(2))
    with pytest.raises((TypeError, tg.errors.DtypeError)):
        g(np.ones(2).view(Mine))


def test_floats_and_static_arguments(way):
    def f(x, n, y, how):
        return (x * y if how == "product" else x + y) * n

    g = warmed(tg.value_and_grad(f, argnums=(0, 2)), way, 2.0, 3, 5.0, "product")
    for args, expected, new in (
        ((3.0, 3, 7.0, "product"), (63.0, (21.0, 9.0)), False),
        ((3.0, 4, 7.0, "product"), (84.0, (28.0, 12.0)), True),
        ((3.0, 3, 7.0, "sum"), (30.0, (3.0, 3.0)), True),
        ((3.0, True, 7.0, "sum"), (10.0, (1.0, 1.0)), True),
        ((4.0, 3, 7.0, "product"), (84.0, (21.0, 12.0)), False),
    ):
        answer, again = recorded(g, way, *args)
        assert answer == expected and again == (new or way == "plainly")


def test_static_arguments_that_are_equal_and_differ(way):
    """1, True and 1.0 are equal, and are not the same."""

    def f(x, n):
        return x * (2.0 if type(n) is bool else 5.0 if type(n) is int else 7.0)

    g = WAYS[way](tg.grad(f))
    for _ in range(3):
        assert [g(3.0, n) for n in (1, True, 1.0, 0, False)] == [5.0, 2.0, 7.0, 5.0, 2.0]


def test_argnums_as_a_tuple_give_a_tuple(way):
    g = warmed(tg.value_and_grad(lambda x, y: x * y, argnums=(1,)), way, 2.0, 3.0)
    assert g(4.0, 5.0) == (20.0, (4.0,))


def test_keywords_and_containers(way):
    def f(p, *, scale, names):
        return scale * np.sum(p["w"] * names[0]) + p["b"][0] * names[1]

    g = WAYS[way](tg.grad(f))
    for k in range(4):
        w, s = np.array([1.0, 2.0 + k]), 3.0 + k
        slope = g({"w": w, "b": [s]}, scale=s, names=(w + 1.0, 2.0))
        assert slope["w"].tolist() == (s * (w + 1.0)).tolist() and slope["b"] == [2.0]
    assert ran(g) == (4 if way == "plainly" else 1)


def test_a_guard_that_sees_something_else_is_answered_right(way):
    g = warmed(tg.value_and_grad(lambda x: x * x if x > 0.0 else -3.0 * x), way, 2.0)
    for x, expected in [(3.0, (9.0, 6.0)), (-1.0, (3.0, -3.0)), (-2.0, (6.0, -3.0)), (4.0, (16.0, 8.0)), (-4.0, (12.0, -3.0))]:
        assert g(x) == expected
    assert g.stats().records == (0 if way == "plainly" else 2)
    assert (sum(g.stats().misses.values()) >= 2) == (way in RECORDED)


# -- arrays of integers -----------------------------------------------------------------------
def picked(x, index):
    return np.sum(x[index] ** 2)


def expected_of(x, index):
    slope = np.zeros_like(x)
    np.add.at(slope, index, 2.0 * x[index])
    return slope


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8"])
def test_equal_integers_are_a_replay(way, dtype):
    index = np.array([0, 3, 3, 5], dtype)
    g = warmed(tg.value_and_grad(picked), way, X, index)
    for x in (X, X + 1.0):
        (value, slope), again = recorded(g, way, x, index.copy())
        assert value == pytest.approx(np.sum(x[index] ** 2)) and again == (way == "plainly")
        np.testing.assert_allclose(slope, expected_of(x, index))


def test_other_integers_are_right(way):
    index = np.array([0, 3, 3, 5])
    g = warmed(tg.grad(picked), way, X, index)
    index[1] = 4
    others = [index, np.array([0, 3, 3]), np.array([[0, 3], [3, 5]]), np.array([0, 3, 3, 5], np.int32), np.array([0, 9, 3, 9, 3, 9, 5, 9])[::2]]
    for _ in range(2):
        for other in others:
            np.testing.assert_allclose(g(X, other), expected_of(X, other))
    answer, again = recorded(g, way, X, np.array([0, 3, 3, 5]))
    np.testing.assert_allclose(answer, expected_of(X, np.array([0, 3, 3, 5])))
    assert again == (way == "plainly")


def test_masks_and_empty_arrays(way):
    mask = X > 1.0
    g = warmed(tg.grad(picked), way, X, mask)
    np.testing.assert_allclose(g(X, ~mask), np.where(mask, 0.0, 2.0 * X))
    np.testing.assert_allclose(g(X, mask.copy()), np.where(mask, 2.0 * X, 0.0))
    g = warmed(tg.grad(picked), way, X, np.zeros(0, np.int64))
    np.testing.assert_array_equal(g(X, np.zeros(0, np.int64)), np.zeros(6))
    for pick in (lambda x: x[x > 1.0], lambda x: np.extract(x > 1.0, x), lambda x: x[:, np.sum(x, axis=0) > 1.0]):
        g = warmed(tg.value_and_grad(lambda x, pick=pick: np.sum(pick(x) ** 2)), way, np.array([[1.5, 0.5, 2.0]]))
        for shape in ((0, 3), (3, 0), (0, 0)):
            value, gradient = g(np.zeros(shape))
            assert value == 0.0 and gradient.shape == shape


@pytest.mark.parametrize("function", [np.ldexp, lambda x, k: special.jv(k, x), lambda x, k: special.yv(k[0], x)], ids=["ldexp", "jv", "yv"])
def test_integers_of_the_call_as_exponents_and_orders(function, way):
    x, f = np.array([0.5, 1.0, 2.0]), lambda x, k: np.sum(function(x, k) ** 2)
    g, h = warmed(tg.value_and_grad(f), way, x, np.array([1, 2, 3])), warmed(tg.jacfwd(f), way, x, np.array([1, 2, 3]))
    for k in ([0, 1, 4], [3, 3, 0]):
        k = np.array(k)
        expected = np.array([(f(x + step, k) - f(x - step, k)) / 2e-6 for step in 1e-6 * np.eye(3)])
        value, gradient = g(x, k)
        np.testing.assert_allclose(value, f(x, k), rtol=1e-12)
        np.testing.assert_allclose(gradient, expected, rtol=1e-6, atol=1e-7)
        np.testing.assert_allclose(h(x, k), expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("static", [np.array(["a", "b"]), np.array([1, None], object), np.array([1j])], ids=["text", "objects", "complex"])
def test_other_arrays(static, way):
    g = WAYS[way](tg.grad(lambda x, s: x * len(s)))
    for _ in range(4):
        assert g(2.0, static) == float(len(static))


# -- arrays in another order ------------------------------------------------------------------
ROWS = np.random.default_rng(3).normal(size=(6, 4))
VIEWS = {"transposed": ROWS.T, "every second": ROWS[::2], "a column": ROWS[:, 1], "backwards": ROWS[::-1, ::-1]}


def weighted(x, w):
    return np.sum(np.sin(x) * w)


@pytest.mark.parametrize("view", VIEWS)
def test_arrays_in_another_order(view, way):
    x = VIEWS[view]
    w = np.ascontiguousarray(x) + 1.0
    g = warmed(tg.value_and_grad(weighted, (0, 1)), way, x, w)
    for scale in (1.0, 2.5):
        # Other strides, and the axes in the same order.
        there = np.empty((*x.shape[::-1], 2))[..., 0].T if view == "transposed" else np.empty((*x.shape, 2))[..., 0]
        there[...] = scale * x
        (_, (of_x, of_w)), again = recorded(g, way, there, w)
        np.testing.assert_allclose(of_x, np.cos(there) * w, rtol=1e-13)
        np.testing.assert_allclose(of_w, np.sin(there), rtol=1e-13)
        assert again == (way == "plainly") and of_x.shape == x.shape


def test_other_orders_are_right(way):
    """What shares memory with what depends on the order, so a call in another one is not answered by this tape."""
    x, w = ROWS.T, ROWS.T.copy()
    g = warmed(tg.grad(weighted), way, x, w)
    assert recorded(g, way, x[::2], w[::2])[1] and (way == "plainly" or not recorded(g, way, x, w)[1])
    assert recorded(g, way, np.repeat(x.copy(), 2, axis=1)[:, ::2], w)[1]
    for other in ((x.copy(), w), (x, x), (x[:, :3], w[:, :3]), (x.astype("f"), w), (x, w)):
        for _ in range(2):
            np.testing.assert_allclose(g(*other), np.cos(other[0]) * other[1], rtol=1e-5)


# -- what is captured -------------------------------------------------------------------------
def test_what_the_function_captured_is_looked_at(way):
    scale, weights = 2.0, np.array([1.0, 2.0])

    def f(x):
        return (x[0] * weights[0] + x[1] * weights[1]) * scale

    x = np.array([3.0, 4.0])
    g = warmed(tg.value_and_grad(f), way, x)
    assert g(x)[0] == 22.0
    weights[1] = 5.0
    value, gradient = g(x)
    assert value == 46.0 and gradient.tolist() == [2.0, 10.0]
    for _ in range(9):
        assert g(x)[0] == 46.0
    scale = 3.0
    for _ in range(9):
        assert g(x)[0] == 69.0
    # Equal, but of another type: NumPy would compute with another dtype.
    scale = 3
    assert f.__closure__ is not None and g(x)[0] == 69.0
    assert way == "plainly" or g.stats().records == 4


# -- products with second derivatives -----------------------------------------------------------
POINT, V = np.array([0.5, -1.5, 2.0]), np.array([1.0, 2.0, -1.0])


def test_products_with_other_arguments(way):
    product = warmed(tg.hvp(lambda x: np.sum(x**3)), way, POINT, V)
    answer, again = recorded(product, way, 2.0 * POINT, V)
    np.testing.assert_allclose(answer, 12.0 * POINT * V)
    assert again == (way == "plainly")
    columns = np.stack([POINT, POINT], 1)[:, 0]
    for args in ((POINT.astype("f"), V.astype("f")), (POINT, np.eye(3)), (columns, V), (np.append(POINT, 1.0), np.append(V, 1.0))):
        np.testing.assert_allclose(product(*args), 6.0 * args[0] * args[1], rtol=1e-6)
    number = warmed(tg.hvp(lambda x: x**4), way, 2.0, 0.5)
    value = number(1.0, 0.5)
    assert value == 6.0 and type(value) is float and number(2, 1) == 48.0


def test_products_with_static_arguments(way):
    product = warmed(tg.hvp(lambda w, x, n: np.sum(w * x**n), 1), way, V, POINT, 3, V)
    np.testing.assert_allclose(product(V, POINT, 3, POINT), 6.0 * V * POINT * POINT)
    np.testing.assert_allclose(product(V, POINT, 4, POINT), 12.0 * V * POINT**2 * POINT)


def test_products_with_branches_names_and_captured_arrays(way):
    scale = np.ones(3)
    product = warmed(tg.hvp(lambda x: np.sum(scale * x**2) if x[0] > 0.0 else np.sum(x**3)), way, POINT, V)
    for _ in range(3):
        np.testing.assert_allclose(product(-POINT, V), -6.0 * POINT * V)
        np.testing.assert_allclose(product(POINT, V), 2.0 * V)
    scale[1] = 5.0
    np.testing.assert_allclose(product(POINT, V), 2.0 * scale * V)

    factor = 2.0
    by_name = warmed(tg.hvp(lambda x: factor * np.sum(x**2)), way, POINT, V)
    factor = 3.0
    np.testing.assert_allclose(by_name(POINT, V), 6.0 * V)


def test_products_inside_of_other_derivatives_and_on_tensors(way):
    product = warmed(tg.hvp(lambda x: np.sum(x**4)), way, POINT, V)
    np.testing.assert_allclose(tg.grad(lambda x: np.sum(product(x, V)))(POINT), 24.0 * POINT * V)
    np.testing.assert_allclose(tg.jvp(lambda x: product(x, V), (POINT,), (V,))[1], 24.0 * POINT * V * V)
    t = tg.tensor(POINT, requires_grad=True)
    np.sum(product(t, V)).backward()
    np.testing.assert_allclose(t.grad.numpy(), 24.0 * POINT * V)


def test_products_with_what_is_not_finite(way):
    f = lambda x: np.sum(np.where(x > 0.0, np.sqrt(x) * x, 0.0))
    product, swept = warmed(tg.hvp(f), way, np.abs(POINT), V), tg.jit(tg.hvp(f), kernel="never")
    np.testing.assert_allclose(product(np.array([0.0, 4.0, np.inf]), V), [0.0, 0.75, 0.0])
    for v in ([np.nan, np.inf, 0.0], [0.0, 0.0, -np.inf]):
        at = np.array([1.0, 0.0, np.inf])
        np.testing.assert_array_equal(product(at, np.array(v)), swept(at, np.array(v)))


# -- threads ------------------------------------------------------------------------------------
def test_threads_share_products(way):
    product = warmed(tg.hvp(lambda x: np.sum(x**3)), way, POINT, V)
    wrong = []

    def work(k):
        factor = k + 1.0
        for _ in range(100):
            if not np.allclose(product(factor * POINT, V), 6.0 * factor * POINT * V):
                wrong.append(factor)

    in_threads(work, 4)
    assert not wrong


def test_eight_threads_give_the_bits_of_one(way):
    points = np.random.default_rng(0).normal(size=(100, 6))
    g = warmed(tg.value_and_grad(rosenbrock), way, points[0])
    expected = [g(x) for x in points]
    wrong, start = [], threading.Barrier(8)

    def hammer(_):
        start.wait()
        for x, (value, gradient) in zip(points, expected):
            answer = g(x)
            if answer[0] != value or answer[1].tobytes() != gradient.tobytes():
                wrong.append(x)

    in_threads(hammer, 8)
    assert not wrong and (way == "plainly" or ran(g) == 1)
