"""`max`, `min` and `sort` with PyTorch's `dim`."""

import numpy as np
import pytest

import tapegrad as tg

VALUES = np.array([[0.3, 2.0, -1.0, 2.0], [1.5, -0.5, 0.25, 1.0], [4.0, 4.5, 4.25, 4.75]])


def picked(library, name, x, **options):
    found = getattr(x, name)(**options)
    values, indices = found
    (values * library.arange(1.0, 1.0 + values.numel()).reshape(values.shape)).sum().backward()
    return values.detach().numpy(), np.asarray(indices), x.grad.numpy(), found


@pytest.mark.parametrize("options", [{"dim": 1}, {"dim": 0}, {"dim": -1, "keepdim": True}, {"dim": np.int64(1)}])
@pytest.mark.parametrize("name", ["max", "min"])
def test_values_and_indices(name, options):
    x = tg.tensor(VALUES, requires_grad=True)
    values, indices, gradient, found = picked(tg, name, x, **options)
    axis, keep = int(options["dim"]), options.get("keepdim", False)
    assert np.array_equal(values, getattr(np, name)(VALUES, axis=axis, keepdims=keep))
    assert np.array_equal(indices, getattr(np, f"arg{name}")(VALUES, axis=axis, keepdims=keep)) and found.values is found[0]
    # All of the derivative goes to the element at the index.
    expected = np.zeros_like(VALUES)
    places = np.expand_dims(getattr(np, f"arg{name}")(VALUES, axis=axis), axis)
    np.put_along_axis(expected, places, np.arange(1.0, 1.0 + values.size).reshape(places.shape), axis)
    assert np.array_equal(gradient, expected)


def test_numpy_s_meaning_stays():
    x = tg.tensor(VALUES, requires_grad=True)
    assert np.array_equal(x.max(axis=1).detach().numpy(), VALUES.max(axis=1)) and x.max().item() == 4.75
    assert np.array_equal(x.amax(dim=1).detach().numpy(), VALUES.max(axis=1)) and np.array_equal(tg.max(x, 1).detach().numpy(), VALUES.max(axis=1))
    assert np.array_equal(x.max(dim=(0, 1)).detach().numpy(), VALUES.max())
    x.max(axis=1).sum().backward()
    assert x.grad.numpy()[0].tolist() == [0.0, 0.5, 0.0, 0.5]


@pytest.mark.parametrize("options", [{"dim": 1}, {"dim": 0, "descending": True}, {"descending": True}])
def test_sort(options):
    x = tg.tensor(VALUES, requires_grad=True)
    values, indices, gradient, _ = picked(tg, "sort", x, **options)
    axis, sign = options.get("dim", -1), -1.0 if options.get("descending") else 1.0
    assert np.array_equal(values, sign * np.sort(sign * VALUES, axis)) and np.array_equal(np.take_along_axis(VALUES, indices, axis), values)
    expected = np.empty_like(VALUES)
    np.put_along_axis(expected, indices, np.arange(1.0, 13.0).reshape(3, 4), axis)
    assert np.array_equal(gradient, expected)
    plain = tg.tensor(VALUES)
    assert plain.sort() is None and np.array_equal(plain.numpy(), np.sort(VALUES))


def test_under_transformations():
    def loss(x):
        values, indices = x.max(dim=1)
        return (values**2).sum() + (x.sort(dim=0)[0][0] * np.arange(4.0)).sum() + 0.0 * indices.sum()

    x = VALUES + 0.01 * np.arange(12.0).reshape(3, 4)
    for gradient in (tg.grad(loss), tg.jit(tg.grad(loss)), lambda x: tg.vmap(tg.grad(loss))(x[None])[0], lambda x: tg.jacfwd(loss)(x)):
        expected = np.zeros_like(x)
        expected[np.arange(3), x.argmax(axis=1)] = 2.0 * x.max(axis=1)
        expected[x.argmin(axis=0), np.arange(4)] += np.arange(4.0)
        np.testing.assert_allclose(gradient(x), expected, rtol=1e-14)
        np.testing.assert_allclose(gradient(x[::-1].copy()), expected[::-1], rtol=1e-14)
    assert np.count_nonzero(tg.hessian(loss)(x)) == 3


def test_as_pytorch():
    torch = pytest.importorskip("torch")
    for name, options in (("max", {"dim": 1}), ("min", {"dim": 0, "keepdim": True}), ("sort", {"dim": 0}), ("sort", {"dim": -1, "descending": True})):
        distinct = VALUES + 0.01 * np.arange(12.0).reshape(3, 4)
        ours = picked(tg, name, tg.tensor(distinct, requires_grad=True), **options)
        theirs = picked(torch, name, torch.tensor(distinct, requires_grad=True), **options)
        for a, b in zip(ours[:3], theirs[:3]):
            assert np.array_equal(a, b), name
