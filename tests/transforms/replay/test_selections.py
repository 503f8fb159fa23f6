"""What is chosen, or written, where a mask holds: one path for all masks, or for all that hold as often."""

import numpy as np
import pytest

import tapegrad as tg

W = np.arange(10.0)


def written(write):
    """A function that has `write` change a copy of its argument."""

    def f(x):
        y = x * 1.0
        write(y, x)
        return np.sum(y * y * W)

    return f


def assigned(shape, mask, value):
    def f(x):
        y = x.reshape(shape) * 1.0
        y[mask(y)] = value(x)
        return np.sum(y.reshape(-1) ** 2 * W)

    return f


def column(x):
    y = x.reshape(5, 2) * 1.0
    part = y[:, 1]
    part[part > 0] = x[3]
    return np.sum(y.reshape(-1) ** 2 * W)


def mantissas(x):
    m, e = np.frexp(x)
    return np.sum(m * e + np.ldexp(m, e))


ONCE = {
    "choose": lambda x: np.sum(np.choose((x > 0).astype(int), [x**2, np.sin(x)])), "numbers": lambda x: np.sum(np.choose((x > 0) * 1, [x, 3.0]) * x),
    "clip": lambda x: np.sum(np.choose(np.floor(x).astype(int), [x, x * x, x**3], mode="clip")), "rows": lambda x: np.sum(np.choose((x[:, None] > 0) * 1, [x, 2 * x])),
    "select": lambda x: np.sum(np.select([x > 0.5, x > 0], [x**2, np.sin(x)], x)),
    "place": written(lambda y, x: np.place(y, y > 0, [1.0, 2.0, 5.0])), "place one": written(lambda y, x: np.place(y, x > 0, 3.0)),
    "place tensors": written(lambda y, x: np.place(y, x > 0, x[:3])), "putmask": written(lambda y, x: np.putmask(y, x > 0, x**2)),
    "putmask few": written(lambda y, x: np.putmask(y, x > 0, x[:3])), "copyto": written(lambda y, x: np.copyto(y, x**2, where=x > 0)),
    "number": assigned((10,), lambda y: y > 0, lambda x: 0.0), "tensor": assigned((10,), lambda y: y > 0, lambda x: x[0]),
    "extent 1": assigned((10,), lambda y: y > 0, lambda x: x[:1]), "row": assigned((5, 2), lambda y: y[:, 0] > 0, lambda x: x[:2]),
    "matrix": assigned((5, 2), lambda y: y > 0, lambda x: x[3]), "view": column, "frexp": mantissas,
}  # fmt: skip
BY_COUNT = {
    "compress": lambda x: np.sum(np.compress(x > 0, x) ** 2), "columns": lambda x: np.sum(np.compress(x[:5] > 0, x.reshape(2, 5), axis=1) ** 2),
    "piecewise": lambda x: np.sum(np.piecewise(x, [x < 0, x >= 0], [lambda t: t**2, lambda t: np.sin(t)])), "flatnonzero": lambda x: np.sum(x[np.flatnonzero(x > 0)] ** 2),
    "one condition": lambda x: np.sum(np.piecewise(x, x > 0, [lambda t: t * t, 0.0])), "argwhere": lambda x: np.sum(x.reshape(5, 2)[tuple(np.argwhere(x.reshape(5, 2) > 0).T)] ** 2),
}  # fmt: skip


def by_differences(f, x):
    return np.array([(f(x + h) - f(x - h)) / 2e-6 for h in 1e-6 * np.eye(x.size)])


@pytest.mark.parametrize("kernel", ["always", "never"])
@pytest.mark.parametrize("name", [*ONCE, *BY_COUNT])
def test_paths(name, kernel):
    f, rng = (ONCE | BY_COUNT)[name], np.random.default_rng(len(name))
    plain, g = tg.value_and_grad(f), tg.jit(tg.value_and_grad(f), kernel=kernel)
    counts = []
    for _ in range(12):
        x = rng.normal(size=10) * 0.9
        counts.append((x[:5] > 0).sum() if name == "columns" else (x > 0).sum())
        expected = f(x), by_differences(f, x)
        for one in (plain, g, g):
            for found, of in zip(one(x), expected, strict=True):
                np.testing.assert_allclose(found, of, atol=1e-6)
    assert g.stats().records == (1 if name in ONCE else len(set(counts)))


def test_a_choice_out_of_range_is_refused():
    g = tg.jit(tg.grad(lambda x: np.sum(np.choose(np.floor(x).astype(int), [x, x * x]))))
    np.testing.assert_allclose(g(np.array([0.5, 1.5])), [1.0, 3.0])
    for wrong in (-0.5, 2.5):
        with pytest.raises(ValueError, match="invalid entry"):
            g(np.array([0.5, wrong]))
    assert g(np.array([1.5, 1.5])).tolist() == [3.0, 3.0]


def test_a_mask_of_another_shape_is_refused():
    for mask in (np.ones(3, bool), np.ones((4, 1), bool)):
        with pytest.raises(IndexError):
            tg.jit(tg.grad(lambda x, m: assigned((4,), lambda y: m, lambda x: 1.0)(x)))(np.ones(4), mask)


def test_an_array_of_others_is_no_part_of_the_recording():
    kept = tg.zeros(3)

    def f(x):
        kept[x > 0] = 2.0
        return np.sum(kept * x)

    g = tg.jit(tg.grad(f))
    for signs in ([1.0, 1.0, 1.0], [1.0, -1.0, 1.0], [-1.0, -1.0, 1.0]):
        kept[...] = 0.0
        expected = 2.0 * (np.array(signs) > 0)
        assert g(np.array(signs)).tolist() == kept.numpy().tolist() == expected.tolist()
        assert not kept.requires_grad
