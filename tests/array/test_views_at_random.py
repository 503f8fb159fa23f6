"""Random programs of views and writes: tensors must end as arrays do, and have the derivative that differences show."""

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.common.errors import TapeMismatchError
from tests.rules.checker import leaf, plain


def key(draw, shape):
    """A random basic index of an array of `shape`, never empty of meaning: integers, slices, steps, None."""
    found = []
    for n in shape:
        start = int(draw.integers(0, max(n, 1)))
        choices = [slice(None), slice(start, None), slice(None, None, -1), slice(None, None, 2)]
        found.append(choices[draw.integers(4)] if n == 0 or draw.integers(5) else start - n)
    if draw.integers(4) == 0:
        found.insert(int(draw.integers(len(found) + 1)), None)
    return tuple(found)


def view(draw, a):
    ways = [
        lambda: a[key(draw, a.shape)], lambda: a.T, lambda: np.reshape(a, -1), lambda: np.ravel(a), lambda: a[None], lambda: np.flip(a),
        lambda: np.diagonal(a) if a.ndim == 2 else a[:], lambda: np.squeeze(a), lambda: np.expand_dims(a, 0), lambda: np.moveaxis(a, 0, -1),
        lambda: np.ravel(a, "F"), lambda: np.atleast_2d(a), lambda: np.split(a, [1])[1], lambda: np.rot90(a) if a.ndim == 2 else a,
        lambda: np.sin(a), lambda: a[[0, -1]] if len(a) else a, lambda: np.broadcast_to(a, (2, *a.shape)) * 1.0,
    ]  # fmt: skip
    return ways[draw.integers(len(ways))]()


def write(draw, a, b, more):
    """Write into `a`, from numbers, itself or `b`; in `more` ways than the programs know whose values are frozen."""
    where, number = key(draw, a.shape), float(draw.normal())
    mask, first = draw.random(a.shape) < 0.4, np.reshape(b, -1)[:1]

    def set_part():
        a[where] = number

    def scale_part():
        a[where] = a[where] * 1.5

    def add_to_part():
        a[where] += number

    def set_to_element():
        a[where] = first[0] if first.size else number

    def set_elements():
        for k in range(len(a)):
            a[k] = b[0] if b.ndim == 1 and b.size else a[k] * number

    def set_all():
        a[...] = first if first.size else number

    def swap():
        if len(a) > 1:
            a[[0, 1]] = a[[1, 0]]

    def set_masked():
        a[mask] = number

    def fill_diagonal():
        if a.ndim == 2:
            np.fill_diagonal(a, number)

    def put():
        np.put(a, [0], number)

    def copy_to():
        np.copyto(a, first if first.size else number, where=mask)

    def place():
        if mask.any():
            np.place(a, mask, [number, 2.0])

    def put_mask():
        np.putmask(a, mask, number)

    def scale():
        a.__imul__(1.1)

    ways = [set_part, scale_part, add_to_part, set_all, swap, set_masked, fill_diagonal, put, copy_to, place, put_mask, scale]
    ways += [set_to_element, set_elements] if more else []
    ways[draw.integers(len(ways))]()


def run(seed, x, y, more=False):
    """The arrays, or tensors, that the random program `seed` leaves; all choices depend on shapes alone."""
    draw = np.random.default_rng(seed)
    held = [x * 1.0, y * 2.0]
    for _ in range(draw.integers(3, 14)):
        a, b = (held[draw.integers(len(held))] for _ in range(2))
        step = draw.integers(5)
        choices = np.random.default_rng(draw.integers(1 << 30))
        if step == 4 and len(held) > 3:
            held.pop(int(draw.integers(2, len(held))))
        elif step >= 2 and a.size:
            write(choices, a, b, more)
        elif a.size:
            found = view(choices, a)
            if 1 <= found.ndim < 5:
                held.append(found)
    return held


@pytest.mark.parametrize("block", range(8))
def test_tensors_do_what_arrays_do(block):
    order = "CF"[block % 2]
    refused = 0
    for seed in range(100 * block, 100 * (block + 1)):
        rng = np.random.default_rng(seed)
        x, y = np.array(rng.normal(size=[(4,), (3, 3), (2, 3), (2, 3, 2)][seed % 4]), order=order), rng.normal(size=3)
        try:
            expected = run(seed, x, y, True)
        except ValueError as error:
            # A diagonal cannot be written to in NumPy; in tapegrad it can.
            assert "read-only" in str(error)
            refused += 1
            continue
        leaves = leaf(x), leaf(y)
        found = run(seed, *leaves, True)
        assert len(found) == len(expected)
        for f, e in zip(found, expected):
            np.testing.assert_allclose(plain(f), e, rtol=1e-12, atol=1e-12, err_msg=f"program {seed}")
        weights = [rng.normal(size=e.shape) for e in expected]
        sum((w * f).sum() for w, f in zip(weights, found)).backward()
        ways = np.array(rng.normal(size=x.shape), order=order), rng.normal(size=y.shape)
        exact = sum(float(np.sum(plain(t.grad) * d)) for t, d in zip(leaves, ways) if t.grad is not None)
        ends = [sum(float(np.sum(w * e)) for w, e in zip(weights, run(seed, x + h * ways[0], y + h * ways[1], True))) for h in (1e-6, -1e-6)]
        measured = (ends[0] - ends[1]) / 2e-6
        assert abs(exact - measured) <= 1e-5 * (1 + abs(exact) + abs(measured)), f"program {seed}"
        carried = tg.jvp(lambda x, y: sum((w * f).sum() for w, f in zip(weights, run(seed, x, y, True))), (x, y), ways)[1]  # noqa: B023
        np.testing.assert_allclose(carried, exact, rtol=1e-11, atol=1e-11, err_msg=f"program {seed}")
        columns = tg.jacfwd(lambda x, y: sum((w * f).sum() for w, f in zip(weights, run(seed, x, y, True))), argnums=(0, 1))(x, y)  # noqa: B023
        for column, t in zip(columns, leaves):
            np.testing.assert_allclose(column, plain(t.grad) if t.grad is not None else np.zeros(t.shape), rtol=1e-11, atol=1e-11, err_msg=f"program {seed}")
    assert refused <= 10


def test_a_view_apart_from_a_write_stays_a_view():
    # The write may move the owner to new memory; the view of its other part has to follow.
    y = leaf([1.0, 2.0, 3.0, 4.0]) * 1.0
    part = y[::2]
    y[3] = 0.5
    y[...] = y[0]
    assert part.tolist() == [1.0, 1.0]
    part[0] = 7.0
    assert y.tolist() == [7.0, 1.0, 1.0, 1.0]


def test_squeeze_of_nothing_and_ravel_are_views_when_those_of_numpy_are():
    y = leaf([1.0, 2.0]) * 1.0
    same, flat, reversed_ = np.squeeze(y), np.ravel(y), np.ravel(y[::-1])
    y[0] = 5.0
    assert same.tolist() == flat.tolist() == [5.0, 2.0]
    assert reversed_.tolist() == [2.0, 1.0]


def _element(a, t):
    a[0] = t


def _elements(a, t):
    a[:] = t


def _part(a, t):
    a[:2] = np.array([t, 2.0 * t])


def _whole(a, v):
    a[:] = v


def _added(a, v):
    a += v


@pytest.mark.parametrize("assign", [_element, _elements, _part, np.fill_diagonal])
def test_an_element_of_a_plain_array_names_the_fix(assign):
    # NumPy puts its own ValueError in front; ours is the cause it shows.
    with pytest.raises(ValueError) as caught:
        assign(np.zeros((2, 2)) if assign is np.fill_diagonal else np.zeros(3), leaf(1.0))
    assert isinstance(caught.value.__cause__, tg.errors.LeaveTapeError) and "a = tg.zeros(shape)" in str(caught.value.__cause__)


@pytest.mark.parametrize(
    "call",
    [
        _whole, _added,
        lambda a, v: np.copyto(a, v), lambda a, v: np.put(a, [0], v[0]), lambda a, v: np.add(a, v, out=a), lambda a, v: np.full(3, v),
    ],
)  # fmt: skip
def test_a_plain_array_that_receives_a_tensor_names_the_fix(call):
    with pytest.raises(tg.errors.LeaveTapeError, match="tg.zeros"):
        call(np.zeros(3), leaf([1.0, 2.0, 3.0]))


@pytest.mark.parametrize("call", [lambda t: np.array([t, t]), lambda t: np.asarray(t), lambda t: np.sum([t, t]), lambda t: np.sin([t, t])])
def test_an_array_of_vectors_names_the_fix(call):
    with pytest.raises(tg.errors.LeaveTapeError, match=r"tg\.array"):
        call(leaf([1.0, 2.0]))


def test_dot_of_an_array_names_the_fix():
    with pytest.raises(tg.errors.LeaveTapeError, match=r"^write np\.ones\(3\) @ t"):
        np.ones(3).dot(leaf([1.0, 2.0, 3.0]))


def test_flatten_and_plus_are_copies():
    """As NumPy's: what is written into them does not change the array."""

    def function(x):
        y = x * 1.0
        flat, same = y.flatten(), +y
        flat[0] = same[1, 1] = 7.0
        return np.sum(y * flat.reshape(2, 2) * same)

    x = np.array([[1.0, -2.0], [0.5, 3.0]])
    y, flat, same = x.copy(), x.copy(), x.copy()
    flat[0, 0] = same[1, 1] = 7.0
    for value in (function(x), tg.vjp(function, x)[0], tg.jvp(function, (x,), (x,))[0], tg.jit(function)(x)):
        assert value == np.sum(y * flat * same)
    gradient = [[14.0, 12.0], [0.75, 42.0]]
    for derivative in (tg.grad, tg.jacfwd, tg.jacobian, lambda f: tg.jit(tg.grad(f))):
        np.testing.assert_allclose(derivative(function)(x), gradient)


@pytest.mark.parametrize("key", [slice(0, 2), [0, 1]])
def test_refused_assignment_changes_nothing(key):
    x = leaf(np.array([1.0, 2.0, 3.0]))
    with tg.Tape():
        other = leaf(np.array([5.0, 6.0])) * 1.0
    y = x * 2.0
    view = y[1:]
    for value in (other, other * 2.0):
        with pytest.raises(TapeMismatchError):
            y[key] = value
    assert plain(y).tolist() == [2.0, 4.0, 6.0] and plain(view).tolist() == [4.0, 6.0]
    (y * y).sum().backward()
    assert x.grad.tolist() == [8.0, 16.0, 24.0]
