"""The iterations of loops, run by compiled code."""

import numpy as np
import pytest

import tapegrad as tg
from tests.transforms.loops import plainly


@pytest.mark.parametrize("iterations", [3, 4, 9])
def test_a_path_that_is_met_on_the_way_keeps_its_carry_once(iterations):
    """The way back of a loop that has met a path which was not recorded before."""

    def end(p):
        def body(carry):
            y = carry["y"] + carry["h"] * p * carry["y"]
            if y[0] > 2.0:
                return carry | {"h": carry["h"] * 0.5, "k": carry["k"] + 1.0}
            return {"y": y, "h": carry["h"], "k": carry["k"] + 1.0}

        return np.sum(tg.while_loop(lambda carry: carry["k"] < iterations, body, {"y": p * 1.0, "h": 0.3, "k": 0.0})["y"])

    p = np.array([1.0, 2.0])
    np.testing.assert_allclose(tg.grad(end)(p), tg.jacfwd(end)(p), rtol=1e-14)


@pytest.mark.parametrize("kernel", ["never", "always"])
@pytest.mark.parametrize("memory", [None, 48, 120, 264, 24 * 23])
@pytest.mark.parametrize("until", [True, False])
def test_iterations_on_one_path_between_others_keep_what_all_of_them_kept(kernel, memory, until):
    """Stretches of one to four iterations on a path, over carries that are kept side by side, every so many-th, and not at all."""

    def end(p, ops, xs):
        def body(state, x):
            k, y, last = state
            if (k * 0.37) % 1.0 < 0.6:
                return (k + 1.0, y * p[0] + x * np.sin(last), y), y
            return (k + 1.0, np.cos(y) * last * p[1], p[2] * y), last * x

        start = (0.0, p[0], p[1] * p[2])
        if until:
            return ops.while_loop(lambda state: state[0] < 23.0, lambda state: body(state, 0.3)[0], start, memory=memory)[1]
        (_, y, last), ys = ops.scan(body, start, xs, memory=memory)
        return y * last + np.sum(ys * xs)

    xs, p = np.cos(np.arange(23.0)), np.array([0.7, 1.3, 0.9])
    both = tg.jit(tg.value_and_grad(lambda p: end(p, tg, xs)), kernel=kernel)
    expected = tg.value_and_grad(lambda p: end(p, plainly, xs))(p)
    for _ in range(3):
        value, gradient = both(p)
        np.testing.assert_allclose(value, expected[0], rtol=1e-13)
        np.testing.assert_allclose(gradient, expected[1], rtol=1e-12)


@pytest.mark.parametrize("kernel", ["never", "always"])
def test_what_a_path_does_not_use_has_no_part_of_the_sum(kernel):
    """Of captured numbers each path uses other ones: what one iteration has left is not added in the next."""

    def end(p, ops):
        def body(y, x):
            if x > 0.5:
                return y * p[1], p[0] * y
            return y + p[2] * x, p[1]

        y, ys = ops.scan(body, 1.0, np.array([0.1, 0.7, 0.2, 0.3, 0.9, 0.8, 0.4]))
        return y + np.sum(ys * ys)

    p = np.array([0.7, 1.3, 0.9])
    both = tg.jit(tg.grad(lambda p: end(p, tg)), kernel=kernel)
    for _ in range(3):
        np.testing.assert_allclose(both(p), tg.grad(lambda p: end(p, plainly))(p), rtol=1e-13)


@pytest.mark.parametrize("kernel", ["never", "always"])
def test_adjoints_of_captured_values_have_room_behind_long_ones_without_any(kernel):
    """What is captured first is long, and only signs depend on it."""

    def end(p, ops):
        a, b, others = p[0], p[1], p[2:] * p[0]
        body = lambda y, x: (np.max(np.sign(others + 0.1 * y)) * y * a + x * b, None)
        return ops.scan(body, b, np.cos(np.arange(6.0)))[0]

    p = np.concatenate([[0.7, 1.3], np.sin(1.0 + np.arange(3000.0))])
    both = tg.jit(tg.grad(lambda p: end(p, tg)), kernel=kernel)
    for _ in range(3):
        np.testing.assert_allclose(both(p), tg.grad(lambda p: end(p, plainly))(p), rtol=1e-13)


def test_the_way_back_has_adjoints_of_results_alone():
    """Not of the carries that a loop keeps."""
    kernel = tg.grad(lambda x: np.sum(tg.scan(lambda y, _: (y * np.sin(x), y), x, None, length=50)[1])).kernel(0.7)
    sizes = {item.entry.function.name: np.prod(item.entry.meta.shape) for item in kernel.whole.items}
    assert sizes["loop"] > 100 and all(size <= 53 for name, size in sizes.items() if name != "loop")
