"""Shape and selection functions of NumPy on tensors: every parameter against NumPy, gradients against differences."""

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.common.errors import DtypeError, LeaveTapeError, UnsupportedFunctionError
from tests.every import every
from tests.rules.checker import check, generator, leaf, plain

rng = generator(20)
V = rng.uniform(0.5, 2.0, 5)
A = rng.uniform(0.5, 2.0, (2, 3))
B = rng.uniform(0.5, 2.0, (2, 3))
S = rng.uniform(0.5, 2.0, (4, 4))
C = rng.uniform(0.5, 2.0, (2, 3, 4))
E = np.zeros((0, 3))
BOOL = A > 1.2
INT = np.array([[0, 2, 1], [2, 0, 0]])
newaxis = np.newaxis
#: The last axis is the default of NumPy 2.3.
LAST_AXIS = [lambda t: np.take_along_axis(t, INT % 2)] if np.lib.NumpyVersion(np.__version__) >= "2.3.0" else []
window = np.lib.stride_tricks.sliding_window_view


def changed(write, t, *args, **kwargs):
    y = t * 1.0
    write(y, *args, **kwargs)
    return y


def assigned(t, key, v):
    y = t * 1.0
    y[key] = v
    return y


def written(y):
    """A copy, after a write to what is a view of it where it is stored by rows."""
    y.reshape(-1)[1] *= 3.0
    return y


#: name -> function of the arrays, arrays
ONE = {
    "copies": [lambda t: written(t.T.copy()), lambda t: written(t.copy("F").T), lambda t: written(np.copy(t.T, "C")), lambda t: written(np.copy(t, "F").T), lambda t: t.T.copy().ravel(),
               lambda t: written(np.array(t.T, order="C", like=t)), lambda t: written(np.asarray(t[:, ::-1].T * 1.0, None, "C", like=t))],
    "reshape": [lambda t: np.reshape(t, (3, 2)), lambda t: np.reshape(t, -1), lambda t: np.reshape(t, (3, -1), order="F"),
                lambda t: np.reshape(t, (3, 2), "A"), lambda t: np.reshape(t, [6]), lambda t: np.reshape(t.T, (2, 3), "A")],
    "ravel": [lambda t: np.ravel(t), lambda t: np.ravel(t, "F"), lambda t: np.ravel(t.T, order="K"), lambda t: np.ravel(t, "A"), lambda t: np.ravel(t[::-1].T, "K")],
    "axes": [lambda t: np.transpose(t), lambda t: np.transpose(t, axes=[1, 0]), lambda t: np.swapaxes(t, 0, -1), lambda t: np.moveaxis(t, [0], [-1]), lambda t: np.moveaxis(t, range(1), np.array([-1])),
             lambda t: np.rollaxis(t, 1), lambda t: np.rollaxis(t, 0, 2), lambda t: np.rollaxis(t, -1, -2), lambda t: np.permute_dims(t, (1, 0)) if hasattr(np, "permute_dims") else np.transpose(t)],
    "unit axes": [lambda t: np.expand_dims(t, (0, -1)), lambda t: np.squeeze(np.expand_dims(t, (0, 2)), axis=(0, 2)), lambda t: np.squeeze(t[:1]),
                  lambda t: np.squeeze(t[:1], 0), lambda t: np.atleast_1d(t), lambda t: np.atleast_2d(t[0]), lambda t: np.atleast_2d(t[0, 0]), lambda t: np.atleast_3d(t),
                  lambda t: np.atleast_3d(t[0]), lambda t: np.atleast_3d(t[0, 1]), lambda t: np.atleast_1d(t[0, 1], 2.0, t)],
    "broadcast": [lambda t: np.broadcast_to(t, (2, 2, 3)), lambda t: np.broadcast_to(t[0], shape=(4, 3)), lambda t: np.broadcast_arrays(t, t[0], 1.0)],
    "joins": [lambda t: np.concatenate([t, t[:1]]), lambda t: np.concatenate((t, A), axis=None), lambda t: np.concatenate([A, t], axis=-1, dtype=float, casting="same_kind"),
              lambda t: np.stack([t[0, 0], 1.0, t[1, 1]]), lambda t: np.stack([t, A], axis=-1), lambda t: np.stack([t, A.astype(int), [[1, 2, 3], [4, 5, 6]]], 1),
              lambda t: np.vstack([t, t[0], [1.0, 2.0, 3.0]]), lambda t: np.hstack([t, A]), lambda t: np.hstack([t[0], 1.0, t[1, 1]]), lambda t: np.dstack([t, A]), lambda t: np.dstack([t[0], t[1]]),
              lambda t: np.column_stack([t, [1.0, 2.0]]), lambda t: np.column_stack([t[0], t[1]]), lambda t: np.block([[t, A], [np.zeros((1, 3)), t[:1]]]),
              lambda t: np.block([t[0, 0], 1.0, t[0]]), lambda t: np.append(t, 3.0), lambda t: np.append(t, t[:1], axis=0), lambda t: np.append([1.0], t), lambda t: np.concatenate(t), lambda t: np.stack(t, 1)],
    "insert": [lambda t: np.insert(t, 1, 5.0), lambda t: np.insert(t, [0, 2], t[:, :1], axis=1), lambda t: np.insert(t, 1, t[0] * 2, axis=0), lambda t: np.insert(A, 0, t[0], axis=0), lambda t: np.insert(t, slice(0, 2), [1, 2], axis=1),
               lambda t: np.delete(t, 1), lambda t: np.delete(t, [0, 2], axis=1), lambda t: np.delete(t, slice(None, None, 2), 1), lambda t: np.delete(t, np.array([True, False]), 0)],
    "splits": [lambda t: np.split(t, 3, axis=1), lambda t: np.split(t, [1], 0), lambda t: np.split(t, [2, 1], 1), lambda t: np.split(t, [-1], 1), lambda t: np.array_split(t, 2, axis=1),
               lambda t: np.hsplit(t, 3), lambda t: np.hsplit(t[0], [1]), lambda t: np.vsplit(t, 2), lambda t: np.dsplit(t[None], 3), lambda t: np.array_split(t, np.array([1, 2]), axis=-1), lambda t: np.unstack(t, axis=1) if hasattr(np, "unstack") else [t]],
    "moves": [lambda t: np.tile(t, 2), lambda t: np.tile(t, (2, 1, 2)), lambda t: np.repeat(t, 2), lambda t: np.repeat(t, [1, 0, 2], axis=1), lambda t: np.flip(t), lambda t: np.flip(t, (0, 1)), lambda t: np.fliplr(t), lambda t: np.flipud(t),
              lambda t: np.rot90(t), lambda t: np.rot90(t, 2), lambda t: np.rot90(t, -1, axes=(1, 0)), lambda t: np.rot90(t, 4), lambda t: np.rot90(t, 3), lambda t: np.roll(t, 2), lambda t: np.roll(t, (1, -1), axis=(0, 1)), lambda t: np.resize(t, (4, 4)), lambda t: np.resize(t, 4),
              lambda t: window(t, 2, axis=1), lambda t: window(t, (2, 2)), lambda t: np.fft.fftshift(t), lambda t: np.fft.ifftshift(t, axes=1)],
    "pad": [lambda t: np.pad(t, 1), lambda t: np.pad(t, ((1, 0), (0, 2))), lambda t: np.pad(t, (1, 2), "constant", constant_values=3.0), lambda t: np.pad(t, 1, constant_values=((1.0, 2.0), (3.0, 4.0))),
            lambda t: np.pad(t, 1, constant_values=t[0, 1]), lambda t: np.pad(t, 1, constant_values=(t[0, 1], 2.0)), lambda t: np.pad(t, ((1, 1), (2, 0)), constant_values=[[t[0, 0], 1.0], [2.0, t[1, 1]]]),
            lambda t: np.pad(t, 2, "edge"), lambda t: np.pad(t, 1, "reflect"), lambda t: np.pad(t, 3, mode="reflect", reflect_type="even"), lambda t: np.pad(t, 2, "symmetric"), lambda t: np.pad(t, 4, "wrap"), lambda t: np.pad(t, 0)],
    "take": [lambda t: np.take(t, [0, 5, 0]), lambda t: np.take(t, 1, axis=1), lambda t: np.take(t, [[0, 2], [1, -1]], axis=1), lambda t: np.take(t, [7, -8], mode="wrap"), lambda t: np.take(t, [9, -9], axis=1, mode="clip"),
             lambda t: np.take_along_axis(t, INT, axis=1), lambda t: np.take_along_axis(t, np.array([5, 1]), axis=None), *LAST_AXIS, lambda t: np.take_along_axis(t, tg.tensor(INT), -1)],
    "choose": [lambda t: np.choose(INT % 2, [t, A]), lambda t: np.choose([0, 1, 1], t), lambda t: np.choose(INT, [t, 1.0, t[0]]), lambda t: np.choose(INT + 2, [t, A], mode="wrap"), lambda t: np.choose(INT - 1, (t, A), mode="clip"),
               lambda t: np.select([BOOL, A > 1.0], [t, 2 * t], 3.0), lambda t: np.select([BOOL[0], BOOL], [t[0], [[1.0], [2.0]]]), lambda t: np.select([BOOL], [t]),
               lambda t: np.where(BOOL, t, 0), lambda t: np.where(BOOL[:, :1], [1, 2, 3], t[0]), lambda t: np.where(t > 1.2, t, -t), lambda t: np.where(True, t, 1.0)],
    "masks": [lambda t: np.extract(BOOL, t), lambda t: np.compress([True, False, True], t, axis=1), lambda t: np.compress([False, True, True], t), lambda t: np.trim_zeros(np.pad(t[0], 2)), lambda t: np.trim_zeros(np.pad(t[0], 2), "f"),
              lambda t: np.piecewise(t, [BOOL, ~BOOL], [np.sin, lambda v: v * v]), lambda t: np.piecewise(t, [BOOL], [2.0, lambda v, c: c * v], 3.0), lambda t: np.piecewise(t[0], BOOL[0], [lambda v: v * v, np.cos]),
              lambda t: np.apply_along_axis(lambda r: r * r[0], 1, t), lambda t: np.apply_along_axis(np.sum, 0, t), lambda t: np.apply_along_axis(lambda r: np.outer(r, r), 0, t), lambda t: np.apply_over_axes(np.sum, t, [0, 1])],
    "diagonals": [lambda t: np.diag(t), lambda t: np.diag(t, k=1), lambda t: np.diag(t[0], -1), lambda t: np.diagflat(t), lambda t: np.diagflat(t[0], 1), lambda t: np.diagonal(t, offset=-1), lambda t: np.diagonal(t[None], 1, 1, 2), lambda t: np.diagonal(t, 0, 1, 0),
                  lambda t: np.tril(t), lambda t: np.tril(t, 1), lambda t: np.triu(t, k=1), lambda t: np.triu(t, -1), lambda t: np.tril(t[0]), lambda t: np.trace(t), lambda t: np.trace(t, 1), lambda t: np.trace(t[None] * t[:, None], axis1=0, axis2=1), lambda t: np.trace(t, dtype=float)],
    "grids": [lambda t: np.meshgrid(t[0], t[1, :2]), lambda t: np.meshgrid(t[0], t[1, :2], indexing="ij"), lambda t: np.meshgrid(t[0], [1.0, 2.0], t[1], sparse=True), lambda t: np.meshgrid(t[0], t[1], copy=False), lambda t: np.meshgrid(t[0]), lambda t: np.meshgrid(t[0, 0], t[1])],
    "sorts": [lambda t: np.sort(t), lambda t: np.sort(t, axis=0), lambda t: np.sort(t, axis=None), lambda t: np.sort(t, kind="stable"), lambda t: np.sort(t, 1, "heapsort"), lambda t: np.partition(t, 2, axis=1)[:, 2], lambda t: np.partition(t, 3, axis=None)[3]],
    "fills": [lambda t: np.full_like(t, t[0, 0]), lambda t: np.full_like(t, t[0], shape=(4, 3)), lambda t: np.copy(t), lambda t: np.copy(t, order="F"), lambda t: np.full((2, 3), t[0], like=t) if isinstance(t, tg.Differentiable) else np.full((2, 3), t[0]),
              lambda t: np.array([t[0, 0], 1.0, t[1, 1]], like=t) if isinstance(t, tg.Differentiable) else np.array([t[0, 0], 1.0, t[1, 1]])],
    "writes": [lambda t: changed(np.fill_diagonal, t, t[0, 1]), lambda t: changed(np.fill_diagonal, t.T, [1.0, t[0, 0]], wrap=True), lambda t: changed(np.fill_diagonal, np.tile(t, (4, 1)), 2.0, True), lambda t: changed(np.put, t, [0, 4], t[0, 1] * 2.0), lambda t: changed(np.put, t, [7, 2, 3], [1.0, 2.0], mode="wrap"),
               lambda t: changed(np.place, t, BOOL, [1.0, 2.0]), lambda t: changed(np.putmask, t, BOOL, t[0, :2] ** 2), lambda t: changed(np.putmask, t, BOOL, 2 * t), lambda t: changed(np.put_along_axis, t, INT[:, :2], t[:, :1] * 3.0, axis=1),
               lambda t: changed(np.copyto, t, t[0] * 2.0), lambda t: changed(np.copyto, t, 3.0 * t, where=BOOL)],
    "keys": [lambda t: t[..., 1], lambda t: t[None, :, newaxis, ::-1], lambda t: t[BOOL], lambda t: t[[1, 0, 1], [2, 2, 0]], lambda t: t[[True, False]], lambda t: t[:, BOOL[0]], lambda t: t[1, ..., None], lambda t: t[np.ix_([1, 0], [2, 0])],
             lambda t: t[tg.tensor([1, 0])], lambda t: t[..., [0, 0, 2]], lambda t: t[None, [0]], lambda t: t[0:0], lambda t: t[np.ix_([True, False], [0, 2])]],
    "assignments": [lambda t: assigned(t, (..., 1), t[:, 0]), lambda t: assigned(t, BOOL, 2.0 * t[BOOL]), lambda t: assigned(t, ([1, 0], [2, 2]), [1.0, 2.0]), lambda t: assigned(t, (slice(None), [2, 0]), t[:, :2]), lambda t: assigned(t, (None, 0), t[1]), lambda t: assigned(t, np.ix_([1, 0], [2, 0]), t[:, :2]),
                    lambda t: assigned(t, (slice(None), BOOL[0]), 7.0), lambda t: assigned(t, Ellipsis, t[0]), lambda t: assigned(t, (0, slice(None, None, -1)), t[1]), lambda t: assigned(t, [False, True], t[:1] ** 2)],
}  # fmt: skip
CASES = [(name, k) for name, functions in ONE.items() for k in range(len(functions))]


@every("name, k", CASES)
def test_against_numpy(name, k):
    check(ONE[name][k], A)


@every("name, k", CASES)
def test_layouts_and_float32(name, k):
    big = generator(21).uniform(0.5, 2.0, (6, 4))
    if name not in ("reshape", "ravel"):  # they look at the layout itself
        check(ONE[name][k], big[:3, 1::2].T, directions=1)
    function = ONE[name][k]
    single = A.astype("f")
    found, expected = function(leaf(single)), function(single)
    for f, e in zip(found, expected) if isinstance(expected, (list, tuple)) else [(found, expected)]:
        assert f.dtype == np.asarray(e).dtype or f.shape == ()
        np.testing.assert_allclose(plain(f), e, rtol=1e-6)


def test_three_dimensions_and_two_leaves():
    for f in (
        lambda t: np.transpose(t, (2, 0, 1)), lambda t: np.moveaxis(t, (0, 2), (1, 0)), lambda t: np.rollaxis(t, 2, 1), lambda t: np.rot90(t, 1, (1, 2)), lambda t: np.reshape(t, (4, 6), "F"),
        lambda t: np.diagonal(t, 1, 2, 0), lambda t: np.trace(t, -1, 0, 1), lambda t: np.tril(t), lambda t: np.triu(t, 2), lambda t: np.dsplit(t, 2), lambda t: np.pad(t, ((0, 0), (1, 2), (2, 1)), "wrap"),
        lambda t: np.sort(t, axis=1), lambda t: np.take(t, [[2, 0]], axis=1), lambda t: np.apply_along_axis(lambda r: r[:2] * r[2], 1, t), lambda t: np.apply_over_axes(np.sum, t, (0, 2)), lambda t: window(t, (2, 3), axis=(1, 2)), lambda t: np.ravel(np.transpose(t, (1, 2, 0)), "K"),
    ):  # fmt: skip
        check(f, C)
    for f in (
        lambda a, b: np.block([[a, b], [b, a]]), lambda a, b: np.pad(a, 1, constant_values=b[0, 0]), lambda a, b: np.insert(a, [1], b[:, :1], axis=1), lambda a, b: np.choose(INT % 2, (a, b)),
        lambda a, b: np.select([BOOL, ~BOOL], [a, b]), lambda a, b: changed(np.putmask, a, BOOL, b), lambda a, b: np.broadcast_arrays(a, b[:1]), lambda a, b: np.meshgrid(a[0], b[1]), lambda a, b: np.full_like(a, b[0]) * a,
    ):  # fmt: skip
        check(f, A, B)
    if hasattr(np, "matrix_transpose"):
        check(np.matrix_transpose, C)
        check(lambda t: np.linalg.diagonal(t, offset=1), C)
        check(lambda t: np.linalg.trace(t, offset=-1), C)


def test_scalars_and_empty():
    for f in (np.ravel, np.atleast_1d, np.atleast_2d, np.atleast_3d, np.squeeze, np.transpose, np.copy, lambda t: np.reshape(t, (1, 1), "F"), lambda t: np.expand_dims(t, (0, 1)), lambda t: np.broadcast_to(t, 3), lambda t: np.tile(t, 3),
              lambda t: np.repeat(t, 3), lambda t: np.append(t, t), lambda t: np.stack([t, 1.0, 2 * t]), lambda t: np.hstack([t, t]), lambda t: np.diagflat(t), lambda t: np.full((2,), t, like=t) if isinstance(t, tg.Differentiable) else np.full(2, t), lambda t: np.resize(t, 3), lambda t: np.piecewise(t, [t > 0], [np.sin])):  # fmt: skip
        check(f, 1.5)
    for f in (np.ravel, np.transpose, lambda t: np.reshape(t, (3, 0), "F"), lambda t: np.concatenate([t, t]), lambda t: np.sort(t, 0), lambda t: np.flip(t), lambda t: np.tile(t, (2, 1)), lambda t: np.take(t, np.zeros(0, int), 1), lambda t: np.roll(t, 1), lambda t: np.tril(t)):  # fmt: skip
        check(f, E)
    check(lambda t: np.concatenate([np.zeros((0, 3)), t]), A)
    check(lambda t: np.pad(t[:0], ((1, 0), (0, 0)), constant_values=t[0, 0]), A)
    for x in (A, E, E.T):
        check(lambda t: np.take(t, [], axis=0), x)
        check(lambda t: np.take(t, [[]], axis=0), x)
        check(lambda t: changed(np.put, t, [], [1.0]), x)
    # No element is there twice, whatever the strides of an empty array.
    check(lambda t: changed(lambda y: y.__setitem__(0, 2.0), t), E.T)


def test_orders_follow_the_layout():
    for x in (A.copy(), np.asfortranarray(A), A.T, C.transpose(1, 0, 2), C.transpose(2, 0, 1)[::-1], A[:, ::-1]):
        t = tg.from_numpy(x).requires_grad_()
        for order in "CFAK":
            found = np.ravel(t, order)
            for one in (found, t.ravel(order), tg.ravel(t, order), t.flatten(order)):
                np.testing.assert_array_equal(plain(one), np.ravel(x, order))
            w = np.arange(x.size) + 0.5
            found.backward(w)
            positions = np.empty_like(x)
            positions[...] = np.arange(x.size).reshape(x.shape)
            expected = np.zeros(x.size)
            expected[np.ravel(positions, order).astype(int)] = w
            np.testing.assert_array_equal(plain(t.grad).ravel(), expected)
            t.grad = None
            for copy, reference in ((t.copy(order), x.copy(order)), (t.copy(order.lower()), x.copy(order)), (np.copy(t, order), np.copy(x, order))):
                assert copy._v.strides == reference.strides
        with pytest.raises(ValueError, match="order must be one of"):
            t.copy("Z")
        for function in (np.ascontiguousarray, np.asfortranarray):
            one, reference = function(t, like=t), function(x)
            assert one._v.strides == reference.strides and (one is t) is (reference is x)
            if order != "K":
                np.testing.assert_array_equal(plain(np.reshape(t, (2, -1), order)), np.reshape(x, (2, -1), order))


def test_orders_in_memory_of_arguments():
    """Arguments keep theirs in every mode; lanes, and elements and carries of loops, lie by rows."""
    weights = np.arange(A.size) + 0.5
    for order in "AK":
        for plainly in (lambda x: np.ravel(x, order) @ weights, lambda x: np.reshape(2.0 * x, -1, order="A") @ weights):
            for x in (A, np.asfortranarray(A), A[:, ::-1], np.repeat(A, 2, axis=1)[:, ::2]):
                value, slopes = tg.value_and_grad(plainly)(x)
                assert value == plainly(x) == tg.jit(plainly)(x) == tg.vjp(plainly, x)[0]
                np.testing.assert_allclose(np.sum(slopes * x), value, rtol=1e-14)  # they are linear
                for transformed in (tg.jit(tg.grad(plainly)), tg.elementwise_grad(plainly), tg.jacobian(plainly), tg.jacfwd(plainly)):
                    np.testing.assert_array_equal(transformed(x), slopes)
                assert not tg.hessian(plainly)(x).any()
                for within in (lambda s, x: tg.vmap(lambda a: plainly(s * a))(x[None].T.copy().T)[0],
                               lambda s, x: tg.scan(lambda c, a: (c + plainly(s * a), None), 0.0 * s, x[None].T.copy().T)[0],
                               lambda s, x: tg.fori_loop(0, 1, lambda i, c: s * plainly(c) + 0.0 * c, x)[0, 0]):  # fmt: skip
                    for call in (within, tg.jit(within), lambda s, x: tg.grad(within)(s, x), lambda s, x: tg.jvp(lambda s: within(s, x), (s,), (1.0,))[1]):
                        np.testing.assert_allclose(call(1.0, x), plainly(x.copy()), rtol=1e-14)


def test_views_of_views_of_other_layouts():
    y = np.exp(leaf(A).T)
    assert y._v.flags.f_contiguous
    np.testing.assert_array_equal(plain(np.expand_dims(y[1:], 0)[0, :1].T), np.exp(A.T)[1:][:1].T)


def test_float32_is_kept():
    t = leaf(A.astype("f"))
    for f in (lambda t: np.pad(t, 1), lambda t: np.pad(t, 1, constant_values=leaf(2.0)), lambda t: np.sort(t), lambda t: np.tril(t), lambda t: np.select([BOOL], [t]), lambda t: np.insert(t, 0, 1.0), lambda t: np.full_like(t, 2.0), lambda t: np.full_like(t, leaf(2.0)), lambda t: np.block([t, t])):  # fmt: skip
        assert f(t).dtype == np.float32
    assert np.concatenate([t, t], dtype=float).dtype == np.float64 and np.hstack([t, A]).dtype == np.float64
    assert np.full_like(t, 2, dtype=int).dtype == int and np.ones_like(t, float).dtype == np.float64 and np.zeros_like(t, shape=4).shape == (4,)
    if hasattr(np, "astype"):
        assert np.astype(t, float).dtype == np.float64 and np.astype(t, float).requires_grad


def test_ties_and_order_of_sort():
    x = np.array([2.0, 1.0, 2.0, 1.0])
    t = leaf(x)
    (np.sort(t, stable=True) if "stable" in str(np.sort.__doc__) else np.sort(t, kind="stable")).backward(np.array([1.0, 2.0, 3.0, 4.0]))
    assert t.grad.tolist() == [3.0, 1.0, 4.0, 2.0]


def test_constants_keep_integers():
    i = tg.tensor(INT)
    for f in (np.sort, np.tril, np.diag, np.ravel, np.flip, lambda t: np.pad(t, 1), lambda t: np.insert(t, 0, 5), lambda t: np.where(t > 0, t, 1), lambda t: np.take(t, [0, 1]), lambda t: np.trace(t), np.unique, np.median, lambda t: np.bincount(t.ravel())):  # fmt: skip
        found = f(i)
        expected = np.asarray(f(INT))
        assert found.dtype == expected.dtype and not getattr(found, "requires_grad", False)
        np.testing.assert_array_equal(plain(found), expected)


def test_views_stay_views():
    def broadcast(y):
        b = np.broadcast_to(y[0], (4, 3))
        y[0] = y[1] * 2.0
        return b

    def others(y):
        d, r, s, k, parts = np.diagonal(y), np.rot90(y, 2), np.fliplr(y), np.rollaxis(y, 1), np.split(y, 3, axis=1)
        y[0, 0] = y[1, 1] * 3.0
        y[1, 2] = 5.0
        return [d * 1.0, r * 1.0, s * 1.0, k * 1.0, *parts, np.atleast_3d(y), np.reshape(y, (3, 2), "F")]

    for program in (broadcast, others):
        check(lambda t: program(t * 1.0), A)
    y = np.broadcast_to(leaf(V) * 1.0, (2, 5))
    with pytest.raises(ValueError, match="read-only"):
        y[0] = 1.0
    with pytest.raises(ValueError, match="read-only"):
        y += 1.0


def test_plain_values():
    t = leaf(A)
    for f in (np.argmax, np.argmin, np.argsort, np.argwhere, np.flatnonzero, np.nanargmax, lambda t: np.argmax(t, axis=1, keepdims=True), lambda t: np.argsort(t, axis=0, kind="stable"), lambda t: np.argpartition(t, 1),
              lambda t: np.searchsorted(np.sort(V), t, side="right"), lambda t: np.searchsorted(t[0] * 0 + [1, 2, 3], 1.5), lambda t: np.digitize(t, [1.0, 1.5]), lambda t: np.isin(t, A[0]), lambda t: np.count_nonzero(t, axis=0), lambda t: np.size(t, 1)):  # fmt: skip
        found = f(t)
        assert not getattr(found, "requires_grad", False)
        np.testing.assert_array_equal(plain(found), f(A))
    assert np.nonzero(t)[0].tolist() == np.nonzero(A)[0].tolist() == np.where(t)[0].tolist()
    with pytest.raises(UnsupportedFunctionError):
        np.argmax(t, axis=0, out=np.zeros(3, int))


REFUSED = [
    lambda t: np.pad(t, 1, lambda *a: None),
    lambda t: np.take(t, [0], out=np.zeros(1)), lambda t: np.concatenate([t, t], out=np.zeros((4, 3))), lambda t: np.stack([t, t], out=np.zeros((2, 2, 3))), lambda t: np.choose(INT, t, out=np.zeros((2, 3))), lambda t: np.compress([True], t, 0, out=np.zeros((1, 3))),
    lambda t: np.trace(t, out=np.zeros(())), lambda t: np.sort(t, order="x"), lambda t: np.unique(t), lambda t: np.put(A.copy(), [0], t[0]), lambda t: np.fill_diagonal(S.copy(), t[0]), lambda t: np.put_along_axis(A.copy(), INT[:, :1], t[:, :1], 1),
    lambda t: np.copyto(A.copy(), t), lambda t: window(t, 2, axis=0, writeable=True),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_refused(number):
    with pytest.raises((UnsupportedFunctionError, LeaveTapeError)) as error:
        REFUSED[number](leaf(A))
    assert len(str(error.value)) > 60


def test_mistakes():
    t = leaf(A)
    for f in (lambda: np.rollaxis(t, 2), lambda: np.rollaxis(t, 0, 4), lambda: np.swapaxes(t, 0, 2), lambda: np.split(t, 2, 1), lambda: np.rot90(t, 1, (0, 0)), lambda: np.fliplr(t[0]), lambda: np.vsplit(t[0], 2), lambda: np.meshgrid(t[0], indexing="x"),
              lambda: np.reshape(t, (4, 2)), lambda: np.reshape(t, 6, "X"), lambda: np.choose([5], t), lambda: np.select([], []), lambda: np.select([BOOL], [t, t]), lambda: np.pad(t, 1, constant_value=1.0), lambda: np.pad(t, 1, "no such"), lambda: np.sort(leaf(1.0)), lambda: np.insert(t, 9, 1.0)):  # fmt: skip
        with pytest.raises((ValueError, IndexError)):
            f()
    with pytest.raises(IndexError):
        np.take(t, [6])
    with pytest.raises(TypeError):
        np.concatenate([t, t], dtype=int)
    with pytest.raises(DtypeError):
        np.full_like(t, leaf(1.0), dtype=int)
    with pytest.raises(DtypeError):
        np.insert(np.arange(3), 0, leaf(1.5)) if not isinstance(np.insert(np.arange(3), 0, 1), tg.Tensor) else None


def test_sorting_constants_gives_sorted_values():
    values = np.array([[0.3, 0.1, 0.2], [2.0, 3.0, 1.0]])
    for function in (np.sort, lambda a: np.sort(a, 0), lambda a: np.sort(a, None), lambda a: np.partition(a, 1)):
        np.testing.assert_array_equal(function(tg.tensor(values)).numpy(), function(values))
