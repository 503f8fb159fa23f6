"""Products of small matrices: against NumPy's, in every order of memory, and nothing written beside the result."""

import ctypes

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.kernel import ir
from tapegrad.native import products
from tapegrad.native.ufuncs import inner_loop

LOOP = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4)
here = pytest.mark.skipif(not products.serves(8, 8, 8), reason="this processor has no vectors of eight float64")


def multiply(a, b, c):
    """Write ``a @ b`` to `c`; all with a batch axis, `c` with columns next to each other."""
    pointers = np.array([x.ctypes.data for x in (a, b, c)], np.int64)
    dims = np.array([len(c), *a.shape[1:], b.shape[2]], np.int64)
    batch = [x.strides[0] if len(x) == len(c) else 0 for x in (a, b, c)]
    steps = np.array(batch + [s for x in (a, b, c) for s in x.strides[1:]], np.int64)
    LOOP(products.small_product())(pointers.ctypes.data, dims.ctypes.data, steps.ctypes.data, None)
    return c


def laid_out(x, how):
    """The same numbers in another order of memory."""
    if how == "rows":
        return x
    if how == "columns":
        return np.ascontiguousarray(x.swapaxes(1, 2)).swapaxes(1, 2)
    if how == "backwards":
        return np.ascontiguousarray(x[:, ::-1, ::-1])[:, ::-1, ::-1]
    wide = np.full((len(x), 2 * x.shape[1], 3 * x.shape[2]), np.nan)
    wide[:, ::2, ::3] = x
    return wide[:, ::2, ::3]


ORDERS = ("rows", "columns", "backwards", "gaps")
#: Every number of columns up to three panels with rows of whole tiles and left over, and the greatest depth.
EXTENTS = [(m, 1 + (m * n) % 9, n) for n in range(1, 75) for m in (8 * (n % 3), 1 + n % 13) if m]
EXTENTS += [(5, products.DEPTH, 33), (64, 128, 64)]


@here
@pytest.mark.parametrize("second", ORDERS)
@pytest.mark.parametrize("first", ORDERS)
def test_same_as_numpy(first, second):
    draw = np.random.default_rng(0)
    for m, k, n in EXTENTS:
        a, b = draw.normal(size=(1, m, k)), draw.normal(size=(1, k, n))
        around = np.full((1, m + 2, n + 9), 7.0)
        found = multiply(laid_out(a, first), laid_out(b, second), around[:, 1:-1, :n])
        np.testing.assert_allclose(found, a @ b, rtol=1e-13, atol=1e-13, err_msg=f"{m} {k} {n}")
        around[:, 1:-1, :n] = 7.0
        assert (around == 7.0).all()


@here
def test_bits_do_not_depend_on_the_order_of_memory_or_on_the_other_columns():
    draw = np.random.default_rng(1)
    a, b = draw.normal(size=(1, 21, 50)), draw.normal(size=(1, 50, 43))
    whole = multiply(a, b, np.empty((1, 21, 43)))
    for order in ORDERS:
        np.testing.assert_array_equal(multiply(laid_out(a, order), laid_out(b, order), np.empty((1, 21, 43))), whole)
    for n in (1, 8, 10, 40):
        np.testing.assert_array_equal(multiply(a, b[:, :, :n], np.empty((1, 21, n))), whole[:, :, :n])
    for m in (1, 5):
        np.testing.assert_array_equal(multiply(a[:, :m], b, np.empty((1, m, 43))), whole[:, :m])


@here
def test_batches_and_a_factor_for_all_of_them():
    draw = np.random.default_rng(2)
    a, b = draw.normal(size=(6, 9, 12)), draw.normal(size=(6, 12, 18))
    np.testing.assert_allclose(multiply(a, b, np.empty((6, 9, 18))), a @ b, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(multiply(a[:1], b, np.empty((6, 9, 18))), a[0] @ b, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(multiply(a, b[2:3], np.empty((6, 9, 18))), a @ b[2], rtol=1e-13, atol=1e-13)


@here
def test_nan_and_infinity_stay_in_their_row_and_column():
    a, b = np.ones((1, 10, 9)), np.ones((1, 9, 37))
    a[0, 3, 4], b[0, 2, 35] = np.nan, np.inf
    expected = np.full((10, 37), 9.0)
    expected[:, 35], expected[3] = np.inf, np.nan
    np.testing.assert_array_equal(multiply(a, b, np.empty((1, 10, 37)))[0], expected)


def loops_of(function, *args):
    """Extents of the matrix products of a gradient's kernel, and whether each is a small one."""
    program = tg.grad(function).kernel(*args).program
    runs = [s for s in ir.walk(program.body) if isinstance(s, ir.Run)]
    return [(s.product, s.program[2] != inner_loop(np.matmul, "dd->d")[0]) for s in runs]


def layer(w, x):
    return np.sum(np.tanh(x @ w))


@here
def test_a_layer_is_small_and_a_large_one_is_not():
    draw = np.random.default_rng(3)
    x, w = draw.normal(size=(128, 64)), draw.normal(size=(64, 48))
    assert loops_of(layer, w, x) == [((128, 64, 48), True), ((64, 128, 48), True)]
    x = draw.normal(size=(products.DEPTH + 1, 64))
    assert loops_of(layer, w, x) == [((products.DEPTH + 1, 64, 48), True), ((64, products.DEPTH + 1, 48), False)]
    x, w = draw.normal(size=(200, 200)), draw.normal(size=(200, 200))
    assert [small for _, small in loops_of(layer, w, x)] == [False, False]


def test_other_processors_and_types_multiply_by_numpy(monkeypatch):
    draw = np.random.default_rng(4)
    x, w = draw.normal(size=(30, 20)), draw.normal(size=(20, 10))
    runs = [s for s in ir.walk(tg.grad(layer).kernel(w.astype("f"), x.astype("f")).program.body) if isinstance(s, ir.Run)]
    assert len(runs) == 2 and all(s.program[2] == inner_loop(np.matmul, "ff->f")[0] for s in runs)
    monkeypatch.setattr(products, "wide", lambda: False)
    assert [small for _, small in loops_of(layer, w, x)] == [False, False]


@here
def test_a_gradient_of_a_network_by_small_products():
    draw = np.random.default_rng(5)
    x, first, second = draw.normal(size=(33, 20)), draw.normal(size=(20, 17)) / 5.0, draw.normal(size=(17, 10)) / 4.0

    def loss(first, second):
        return np.mean(np.tanh(np.tanh(x @ first) @ second) ** 2)

    g = tg.grad(loss, (0, 1), kernel="always")
    for _ in range(9):
        found = g(first, second)
    assert g.stats().kernel_calls and all(small for _, small in loops_of(loss, first, second))
    swept = tg.grad(loss, (0, 1), kernel="never")(first, second)
    for one, other in zip(found, swept):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-14)
