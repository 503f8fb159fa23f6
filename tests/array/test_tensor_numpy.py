"""NumPy's protocols both ways, operators, dtypes, creation, copies, and what is refused."""

import copy
import pickle

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.common.errors import LeaveTapeError
from tests.every import every
from tests.rules.checker import check, leaf, plain

A = np.array([[0.5, 2.0, -1.0], [1.5, 0.25, 3.0]])
SCALARS = [
    np.float64(2.5), np.float32(2.5), np.int64(2), np.int32(2), np.int8(2), np.bool_(True), 2, 2.5, True,
]  # fmt: skip
OPERATORS = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "/": lambda a, b: a / b,
    "**": lambda a, b: a**b, "%": lambda a, b: a % b,
}  # fmt: skip


@every("symbol", OPERATORS)
@every("number", SCALARS)
def test_numbers_on_both_sides(symbol, number):
    f = OPERATORS[symbol]
    c = float(number)
    for x in (1.7, A + 2.1):
        if type(number) is np.float32 and type(x) is float:
            # Whether it was a Python float, which is weak, or an element of an array, is not known: no digit is lost.
            got, want = f(leaf(x), number), f(np.float64(x), number)
            assert got.dtype == want.dtype == np.float64 and abs(got.item() - want) <= 1e-15 * abs(want)
            continue
        check(lambda t: f(t, number if isinstance(t, tg.Tensor) else c), x)
        check(lambda t: f(number if isinstance(t, tg.Tensor) else c, t), x)


@pytest.mark.parametrize("symbol", OPERATORS)
def test_arrays_on_both_sides(symbol):
    f, b = OPERATORS[symbol], np.array([1.3, 0.7, 2.2])
    for other in (b, b.astype("f"), np.array([1, 2, 3]), np.array([True, True, True]), [1.0, 2.0, 3.0], b[::-1], np.array(1.5)):
        values = np.asarray(other, float)
        rtol = dict(rtol=1e-5)
        for left in (False, True):
            t = leaf(A + 2.2)
            y = f(t, other) if left else f(other, t) if not isinstance(other, list) else f(t, other)
            expected = f(A + 2.2, values) if left or isinstance(other, list) else f(values, A + 2.2)
            assert isinstance(y, tg.Tensor) and y.requires_grad
            np.testing.assert_allclose(plain(y), expected, **rtol)
            y.sum().backward()
            assert t.grad.shape == A.shape


def test_dtypes():
    x, y = leaf(np.ones(3, "f")), leaf(np.ones(3))
    assert tg.tensor(1.0).dtype == tg.tensor([1.0]).dtype == tg.zeros(2).dtype == np.float64
    assert x.dtype == (2.0 * x).dtype == (x + 1).dtype == (x / tg.tensor(2.0)).dtype == (x**2).dtype == (x**0.5).dtype == np.float32
    assert (x * np.ones(3, "f")).dtype == (np.ones(3, "f") * x).dtype == (np.float32(2) * x).dtype == np.float32
    assert (x * y).dtype == (np.ones(3) * x).dtype == (x @ np.ones(3)).dtype == np.float64
    for f in (np.sin, np.sum, np.mean, np.std, np.max, np.cumsum, tg.norm, tg.softmax, tg.logsumexp, tg.sigmoid, tg.relu, tg.erf, tg.lgamma,
              np.sqrt, lambda t: np.clip(t, 0, 1), lambda t: np.where(np.ones(3, bool), t, 0.0), lambda t: t[0], lambda t: t[[0, 1]],
              lambda t: np.stack([t, t]), lambda t: np.maximum(t, 0), lambda t: t @ t, np.prod, np.var):  # fmt: skip
        result = f(x)
        assert result.dtype == np.float32, f
        result.sum().backward()
        assert x.grad.dtype == np.float32
    (x * y).sum().backward()
    assert x.grad.dtype == np.float32 and y.grad.dtype == np.float64
    z = x * 1.0
    z += y
    assert z.dtype == np.float32
    with pytest.raises(tg.errors.DtypeError):
        x.astype(np.float16)
    with pytest.raises(tg.errors.DtypeError, match="astype"):
        tg.tensor([1, 2], requires_grad=True)
    assert (x * 1j).dtype == np.complex64 and (y + 1j).dtype == np.complex128
    with pytest.raises(tg.errors.DtypeError):
        x.astype(int)


FUNCTIONS = [
    np.sin, np.positive, np.negative, np.fabs, lambda t: np.sum(t, axis=1), lambda t: np.sum(t, axis=1, keepdims=True), lambda t: np.mean(t, 0),
    lambda t: np.clip(t, -0.5, 1.7), lambda t: np.clip(t, a_min=None, a_max=1.7), lambda t: np.swapaxes(t, axis1=0, axis2=1),
    lambda t: np.moveaxis(t, source=0, destination=1), lambda t: np.repeat(t, repeats=2, axis=1),
    lambda t: np.roll(t, shift=1, axis=0), lambda t: np.reshape(t, (3, 2)), lambda t: np.reshape(t, -1), lambda t: np.take(t, [0, 2], axis=1),
    lambda t: np.cumsum(t, axis=1), lambda t: np.linalg.norm(t), lambda t: np.linalg.norm(t, axis=0, keepdims=True), lambda t: np.dot(A.T, t),
    lambda t: A.T @ t, lambda t: t @ A.T, lambda t: np.matmul(t, A.T), lambda t: np.outer(t, A[0]), lambda t: np.trace(t), lambda t: np.diag(t),
    lambda t: np.where(A > 0, t, A), lambda t: np.where(A > 0, 2.0, t), lambda t: np.concatenate((A, t), axis=0), lambda t: np.stack([t, A]),
    lambda t: np.array_split(t, 2, axis=1), lambda t: np.broadcast_to(t, (2, 2, 3)), lambda t: np.squeeze(t[:, :1]), lambda t: np.copy(t),
    lambda t: np.var(t, axis=1, ddof=1), lambda t: np.std(t, axis=0), lambda t: np.multiply.outer(t[0], t[1]) if isinstance(t, np.ndarray) else np.outer(t[0], t[1]),
    lambda t: np.add.reduce(t), lambda t: np.maximum(t, A.T[:, :1].T), lambda t: np.hypot(3.0, t), lambda t: np.full_like(A, 2.0) * t, abs, lambda t: -t,
    lambda t: +t, lambda t: np.ones_like(t) * t, lambda t: np.max(t, axis=-1), lambda t: np.expand_dims(t, axis=0), lambda t: np.transpose(t),
]  # fmt: skip


@every("number", range(len(FUNCTIONS)))
def test_numpy_functions(number):
    check(FUNCTIONS[number], A)


def test_values_without_derivative():
    t = leaf(A)
    for f in (np.argmax, np.argsort, np.isfinite, np.isnan, np.any, np.all, np.shape, np.ndim, np.size, np.count_nonzero, np.signbit, np.zeros_like, np.ones_like):
        found = f(t)
        assert not getattr(found, "requires_grad", False)
        np.testing.assert_array_equal(plain(found), f(A))
    np.testing.assert_array_equal(np.nonzero(t > 1)[0], np.nonzero(A > 1)[0])
    assert np.allclose(t, A) and np.array_equal(t, A)


def test_comparisons():
    t = leaf(A)
    for f in (np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal):
        for other in (0.5, A[0], leaf(A[::-1].copy()), np.float64(2.0)):
            found = f(t, other)
            assert found.dtype == bool and not found.requires_grad
            np.testing.assert_array_equal(plain(found), f(A, plain(other)))
    np.testing.assert_array_equal(plain(1.0 < t), 1.0 < A)
    np.testing.assert_array_equal(plain((t > 0) & (t < 2)), (A > 0) & (A < 2))
    np.testing.assert_array_equal(plain(~(t > 0) | (t > 2)), ~(A > 0) | (A > 2))
    np.testing.assert_array_equal(plain((t > 0) ^ (t > 2)), (A > 0) ^ (A > 2))
    assert leaf(2.0) > 1 and not leaf(2.0) == 3
    with pytest.raises(ValueError, match="ambiguous"):
        bool(t > 0)
    assert (t[t > 1.0] > 1.0).tolist() == [True] * 3


def test_in_place_operators():
    for start in (1.5, A + 2.0):
        x = leaf(start)
        y = x * 2.0
        same = y
        y += x
        y -= 1.0
        y *= x
        y /= 3.0
        y **= 2
        y %= 50.0
        # A number is never changed: the name goes on with another one.
        assert (y is same) == (y.ndim > 0) and (y.ndim or same.item() == 3.0)
        z = plain(x) * 2.0
        z = ((((z + plain(x)) - 1.0) * plain(x)) / 3.0) ** 2 % 50.0
        np.testing.assert_allclose(plain(y), z, rtol=1e-14)
        y.backward(np.ones(y.shape))
        assert x.grad is not None
    number = leaf(2.0) * 1.0
    with tg.no_grad(), pytest.raises(tg.errors.GradientError):
        number.add_(1.0)
    constant = same = tg.tensor(2.0)
    constant += 1.0
    assert (constant.item(), same.add_(4.0).item(), same.item()) == (3.0, 6.0, 6.0)
    c = tg.zeros(3)
    memory = c.numpy()
    c += 2.0
    c *= np.array([1, 2, 3])
    assert memory.tolist() == c.tolist() == [2.0, 4.0, 6.0]
    for change in (lambda: x.__iadd__(1.0), lambda: x[:1].__imul__(2.0), lambda: x.reshape(-1).__imul__(2.0)):
        with pytest.raises(tg.errors.GradientError):
            change()
    with pytest.raises(ValueError):
        y += np.ones((4, 2, 3))
    with pytest.raises(tg.errors.LeaveTapeError):
        plain_array = np.zeros((2, 3))
        plain_array += x


# ---- assignment and views ------------------------------------------------------------


def test_assignment_in_a_loop():
    n = 20
    x = leaf(np.linspace(0.1, 1.0, n))
    y = tg.zeros(n)
    for i in range(n):
        y[i] = np.sin(x[i]) * (y[i - 1] if i else 1.0)
    s = y.sum()
    s.backward()

    def f(a):
        total, last = 0.0, 1.0
        for v in a:
            last = np.sin(v) * last
            total += last
        return total

    a = plain(x)
    steps = np.eye(n) * 1e-6
    np.testing.assert_allclose(plain(x.grad), [(f(a + h) - f(a - h)) / 2e-6 for h in steps], atol=1e-8)


def masked(x):
    number, mask = np.reshape(x[:1] * 2.0, ()), np.reshape(x[:1] > 0.5, ())
    number, other = number.copy(), np.zeros_like(number)
    number[mask] = x[1] * 3.0
    other[mask] = (x[2:] * x[2])[:1]
    other[~mask] = 7.0
    return number * other


@every("point", [np.array([1.0, 2.0, 3.0]), np.array([0.1, 2.0, 3.0])])
def test_a_number_is_assigned_to_by_a_truth_value(point):
    assert tg.check(masked, point, order=2).passed
    recorded = tg.jit(tg.grad(masked))
    for x in (point, point + 0.45, point):
        assert recorded(x).tolist() == tg.grad(masked)(x).tolist()
    t = tg.tensor(2.0)
    for key in (0, [0], np.array([True])):
        with pytest.raises(IndexError, match="array is 0-dimensional"):
            t[key] = 1.0
    assert t[np.array(True)].tolist() == [2.0] and t[np.array(False)].shape == t[tg.tensor(np.array(False))].shape == (0,)


@pytest.mark.parametrize("key", [(), ..., (...,), None, (..., None), (None, ...), True, (True,), np.True_, np.array(True)], ids=repr)
def test_a_number_takes_every_index_that_numpy_takes(key):
    def assigned(x):
        y = x * 2.0
        y[key] = 3.0 * x
        z = tg.zeros(())
        z[key] = x
        return y * z

    for value, slope in (tg.value_and_grad(assigned)(1.5), tg.jit(tg.value_and_grad(assigned))(1.5), tg.jvp(assigned, (1.5,), (1.0,))):
        assert (value, slope) == (6.75, 9.0)
    t = leaf(1.5)
    y = t * 2.0
    y[key] = 4.0
    assert (y.mul_(t).item(), tg.autograd.grad(y, t)[0].item()) == (6.0, 4.0)


def test_a_tensor_of_one_element_is_an_array_of_positions():
    numbers = np.arange(3.0)
    for kind in (tg.tensor, lambda k: k):
        assert numbers[kind(np.array([2]))].tolist() == [2.0] and numbers[:1][kind(np.array([True]))].tolist() == [0.0]
        assert numbers[kind(np.array(2))] == 2.0
    with pytest.raises(TypeError, match=r"shape \(1,\) is no number, which an index is; write t\.item\(\)"):
        [1.0, 2.0][tg.tensor([1], dtype=int)]
    recorded = tg.jit(lambda x, k: x * numbers[k])
    for k in (np.array([2]), np.array([1])):
        assert recorded(np.ones(1), k).tolist() == numbers[k].tolist()


def test_strides_of_a_constant_count_in_its_memory():
    values = np.arange(5.0)
    t = tg.tensor(values)
    for part in (slice(1, None), slice(None, None, -1), slice(3, 1, -1)):
        strides = (-values[part].strides[0], values[part].strides[0]) if part.start == 1 else (values[part].strides[0], 0)
        expected = np.lib.stride_tricks.as_strided(values[part], (2, 2), strides)
        assert np.lib.stride_tricks.as_strided(t[part], (2, 2), strides).tolist() == expected.tolist()
    assert not np.lib.stride_tricks.as_strided(t).flags.writeable
    with pytest.raises(tg.errors.LeaveTapeError):
        np.lib.stride_tricks.as_strided(tg.tensor(values, requires_grad=True), (2, 2), (8, 8))


def test_overwriting_and_reads_between_writes():
    x = leaf([1.0, 2.0, 3.0])
    y = tg.zeros(3)
    y[0] = x[0] * 10
    early, whole, square = y[0], y * 1.0, y[0] ** 2
    y[0] = x[1]
    y[1] = x[2]
    y[1] = 7.0
    assert early.item() == 10 and whole.tolist() == [10, 0, 0] and y.tolist() == [2, 7, 0]
    (early + whole.sum() * 100 + square * 0.5 + y.sum() * 1000).backward()
    assert x.grad.tolist() == [10 + 1000 + 100, 1000, 0]


def test_assignment_of_broadcast_values():
    check(lambda x, v: put(x, slice(None), v), A, np.array([1.0, 2.0, 3.0]))
    check(lambda x, v: put(x, (slice(None), slice(0, 2)), v), A, np.array([[1.0], [2.0]]))
    check(lambda x, v: put(x, (0, slice(None)), v), A, np.ones((1, 1, 3)))
    check(lambda x, v: put(x, Ellipsis, v), A, 2.0)
    check(lambda x, v: put(x, x > 1.0, v), A, 2.0)
    with pytest.raises(ValueError, match="broadcast"):
        put(leaf(A), 0, np.ones(2))
    with pytest.raises(IndexError):
        put(leaf(A), 5, 1.0)
    check(lambda x, v: put(x, [0, 0], v), A, 2.0)
    check(lambda x, v: put(x, [1, 0, 1, -1], v), A, np.arange(12.0).reshape(4, 3))
    check(lambda x, v: put(x, ([0, 1, 0], [2, 1, 2]), v), A, np.array([1.0, 2.0, 3.0]))
    check(lambda x, v: put(x[1], [2, 0, 2], v), A, np.array([1.0, 2.0, 3.0]))
    with pytest.raises(tg.errors.GradientError, match="leaf"):
        leaf(A)[0] = 1.0
    with pytest.raises(tg.errors.DtypeError):
        tg.arange(3)[0] = leaf(1.5)


def put(x, key, v):
    y = x * 1.0
    y[key] = v
    return y


#: Programs with views; each is run on arrays and on tensors.
def _shift(y):
    y[1:] = y[:-1]
    return y


def _augmented(y):
    y[1:] += 1.0
    y[0] *= 3.0
    y[:, 1] -= y[:, 0] * 2.0
    return y


def _rows(y):
    for i, row in enumerate(y):
        y[i] = row * (i + 2.0)
    return y


def _through_row(y):
    for row in y:
        row *= 2.0
        row[1] = row[0] * row[2]
    return y


def _view_sees_write(y):
    v, w = y[1:], y.T
    y[1, 1] = y[0, 0] * 5.0
    return v * w.T[1:]


def _view_of_view(y):
    v = y[::-1][1:, ::2]
    v[0, 1] = y[1, 1] ** 2
    v += 1.0
    return y * 1.0


def _reshaped(y):
    flat = y.reshape(-1)
    flat[2:4] = flat[0] * 3.0
    flat[[0, 5]] = 2.0
    return y * flat.reshape(2, 3)


def _transposed(y):
    y.T[1] = y[:, 0] + 1.0
    np.swapaxes(y, 0, 1)[2, 0] = 9.0
    return y


def _whole(y):
    v = y[0]
    y *= 2.0
    return v * y


def _independent(y):
    u, w = y[0], y[1] * 1.0
    y[1] = 0.0
    return u + w + y[1]


PROGRAMS = [_shift, _augmented, _rows, _through_row, _view_sees_write, _view_of_view, _reshaped, _transposed, _whole, _independent]


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("start", ["tracked", "constant"])
def test_views(program, start):
    def run(x):
        y = x * 1.0
        if start == "constant" and isinstance(x, tg.Tensor):
            y = tg.zeros_like(x)
            y[...] = x
        return program(y)

    check(run, A)


def test_many_views_cost_no_more_than_few():
    x = leaf(np.ones((3000, 2)))
    rows = [x[i] for i in range(3000)]
    assert len(x._extras().views) == 3000
    del rows
    for i in range(100):
        x[i]
    assert len(x._extras().views) <= 1


# ---- conversions, copies, creation ------------------------------------------------------


def test_lists_iteration_and_length():
    t = leaf(A)
    assert t.tolist() == A.tolist() and len(t) == 2 and leaf(2.0).tolist() == 2.0
    assert [row.tolist() for row in t] == A.tolist() and 2.0 in t and 9.0 not in t
    first, second = t
    (first * second).sum().backward()
    np.testing.assert_array_equal(plain(t.grad), A[::-1])
    for f in (lambda: len(leaf(1.0)), lambda: list(leaf(1.0))):
        with pytest.raises(TypeError):
            f()


@pytest.mark.parametrize("copier", [copy.copy, copy.deepcopy, lambda t: pickle.loads(pickle.dumps(t))])
def test_copies_of_leaves(copier):
    for value in (2.5, A, A.astype("f")):
        for make in (leaf, tg.tensor, tg.Parameter):
            t = make(value)
            if t.requires_grad:
                (t * 2.0).sum().backward()
            u = copier(t)
            assert type(u) is type(t) and u is not t and u.requires_grad == t.requires_grad and u.dtype == t.dtype
            np.testing.assert_array_equal(plain(u), plain(t))
            if t.requires_grad:
                np.testing.assert_array_equal(plain(u.grad), plain(t.grad))
            with tg.no_grad():
                u += 1.0
            assert (plain(u) != plain(t)).all()


def test_a_copy_of_a_computed_tensor_is_on_the_tape_and_what_is_pickled_is_its_value():
    x = leaf(A)
    y = x * x
    for copied in (copy.copy(y), copy.deepcopy({"y": [y]})["y"][0]):
        x.grad = None
        (copied * 2.0).sum().backward(retain_graph=True)
        np.testing.assert_array_equal(plain(x.grad), 4.0 * A)
    sent = pickle.loads(pickle.dumps(y))
    assert type(sent) is tg.Tensor and not sent.requires_grad
    np.testing.assert_array_equal(plain(sent), A * A)
    gradient = tg.grad(lambda x: np.sum(copy.deepcopy([x * x, x])[0]))
    np.testing.assert_array_equal(gradient(A), tg.jit(gradient)(A))


def test_a_pickle_in_a_recording_is_the_value_of_each_call():
    gradient = tg.jit(tg.grad(lambda x: pickle.loads(pickle.dumps(x * x)) * x))
    assert [float(gradient(x)) for x in (3.0, 4.0, 5.0, 3.0)] == [9.0, 16.0, 25.0, 9.0]
    scaled = tg.jit(lambda x, n: x * pickle.loads(pickle.dumps(n + 1)))
    assert [float(scaled(2.0, n)) for n in (3, 4, 3, 5)] == [8.0, 10.0, 8.0, 12.0]


def test_creation():
    assert tg.zeros(2, 3).shape == tg.zeros((2, 3)).shape == tg.ones([2, 3]).shape == tg.rand(2, 3).shape == (2, 3)
    assert tg.full((2,), 3.0).tolist() == [3.0, 3.0] and tg.eye(2).tolist() == [[1, 0], [0, 1]]
    assert tg.arange(3).tolist() == [0, 1, 2] and tg.arange(0.0, 1.0, 0.5).tolist() == [0.0, 0.5]
    assert tg.arange(3, requires_grad=True).dtype == np.float64
    assert tg.linspace(0, 1, 3).tolist() == [0.0, 0.5, 1.0]
    assert tg.zeros(2, dtype="f", requires_grad=True).dtype == np.float32 and tg.zeros().shape == ()
    t = leaf(A.astype("f"))
    for like in (tg.zeros_like, tg.ones_like, tg.rand_like, tg.randn_like, tg.empty_like, np.zeros_like, np.ones_like):
        made = like(t)
        assert made.shape == t.shape and made.dtype == t.dtype and not made.requires_grad
    assert tg.full_like(t, 2.0).dtype == np.float32
    filled = tg.full_like(tg.tensor(A), leaf(2.0))
    assert filled.requires_grad and filled.shape == A.shape
    tg.manual_seed(3)
    first = tg.randn(4), tg.rand(2), tg.rand_like(t)
    tg.manual_seed(3)
    second = tg.randn(4), tg.rand(2), tg.rand_like(t)
    assert all(a.tolist() == b.tolist() for a, b in zip(first, second))
    assert tg.as_tensor(t) is t
    memory = np.zeros(2)
    tg.from_numpy(memory)[0] = 4.0
    assert memory[0] == 4.0


# ---- refused --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "function",
    [
        np.unique, np.sort_complex, lambda t: np.fft.fft(t, out=np.zeros(6, complex)), lambda t: np.nextafter(t, 1.0), np.fmax.accumulate, np.logaddexp2.reduce, lambda t: np.maximum.reduceat(t, [0]),
        lambda t: np.sum(t, out=np.zeros(())), lambda t: np.sum(t, dtype="i"),
        lambda t: np.dot(t, A.T, out=np.zeros((2, 2))), lambda t: np.cumsum(t, out=np.zeros(6)),
        lambda t: np.sin(t, dtype="f"),
        lambda t: np.take(t, [2], out=np.zeros(1)), lambda t: np.outer(t, t, out=np.zeros((6, 6))), np.spacing,
    ],
)  # fmt: skip
def test_unsupported_functions_are_refused(function):
    with pytest.raises((tg.errors.UnsupportedFunctionError, tg.errors.LeaveTapeError)):
        function(leaf(A))


def test_what_is_filled_with_a_tensor_has_the_dtype_that_was_asked_for():
    x = leaf(3.0)
    for filled in (tg.full_like(A.astype(np.float32), x), tg.full_like(A, x, dtype=np.float32), tg.full(A.shape, x, dtype=np.float32)):
        assert filled.dtype == np.float32 and filled.shape == A.shape
        (g,) = tg.autograd.grad(filled.sum(), x)
        assert g.item() == A.size
    assert tg.jit(tg.grad(lambda x: np.sum(tg.full((2,), x) * [1.0, 2.0])))(3.0) == 3.0


def test_out_is_refused():
    with pytest.raises(tg.errors.LeaveTapeError, match="out="):
        np.add(leaf(A), 1.0, out=np.zeros((2, 3)))
    with pytest.raises((tg.errors.LeaveTapeError, ValueError)) as caught:
        np.zeros(3)[0] = leaf(1.0)
    # NumPy may wrap what float() raised; the message that helps is then the cause.
    assert "tg.zeros" in str(caught.value) + str(caught.value.__cause__)
    with pytest.raises(tg.errors.LeaveTapeError):
        np.full_like(A, leaf(2.0))
    with pytest.raises(tg.errors.LeaveTapeError):
        np.array([leaf([1.0]), leaf([2.0])])


def test_integer_tensors_stay_integers_beside_python_ints():
    i = tg.tensor([1, 2])
    assert [(i - 1).dtype, (2 * i).dtype, (i / 2).dtype, (i + 1.5).dtype] == [np.int64, np.int64, np.float64, np.float64]
    x = tg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    assert x[i - 1].tolist() == [1.0, 2.0]


def test_a_function_that_begins_with_asarray_is_told_to_leave_it_out():
    def f(x):
        x = np.asarray(x)
        return np.sum(x**2)

    with pytest.raises(LeaveTapeError, match=r"^leave np\.asarray out: a tensor needs none"):
        tg.grad(f)(np.ones(2))
