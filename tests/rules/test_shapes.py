"""Shapes and keys drawn at random: broadcasting, indexing, assignment, reductions."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis.extra import numpy as hnp

from tapegrad.rules.shaping import logical_view
from tests.rules.checker import check, generator

few = settings(
    max_examples=25, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)
shapes = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3)


def values(shape, seed):
    found = generator(seed).uniform(0.5, 2.0, shape)
    return float(found) if np.ndim(found) == 0 else found


@few
@given(hnp.mutually_broadcastable_shapes(num_shapes=3, max_dims=3, max_side=3))
def test_broadcasting(drawn):
    a, b, c = drawn.input_shapes
    check(lambda x, y, z: x * y / z - y, values(a, 1), values(b, 2), values(c, 3))


def _with(x, key, v):
    y = x * 1.0
    y[key] = v
    return y


@few
@given(st.data())
def test_basic_keys(data):
    shape = data.draw(hnp.array_shapes(max_dims=3, max_side=4))
    key = data.draw(hnp.basic_indices(shape, allow_newaxis=True))
    x = values(shape, 4)
    check(lambda t: t[key] * 2.0, x)
    check(lambda t, v: _with(t, key, v), x, values(np.shape(x[key]), 5))


@few
@given(st.data())
def test_integer_keys(data):
    shape = data.draw(hnp.array_shapes(max_dims=3, max_side=4))
    key = data.draw(hnp.integer_array_indices(shape))
    check(lambda t: t[key] * 2.0, values(shape, 6))


@few
@given(st.data())
def test_reductions(data):
    x = values(data.draw(hnp.array_shapes(max_dims=3, max_side=3)), 7)
    axis = data.draw(st.none() | hnp.valid_tuple_axes(x.ndim))
    keepdims = data.draw(st.booleans())
    for f in (np.sum, np.mean, np.max, np.prod, np.var):
        check(lambda t: f(t, axis=axis, keepdims=keepdims), x)


@few
@given(shapes, st.data())
def test_transposed_and_reshaped(shape, data):
    x = np.asarray(values(shape, 8))
    axes = data.draw(st.permutations(range(x.ndim)))
    check(lambda t: (np.transpose(t, axes) ** 2).reshape(-1) * 3.0, x)


@pytest.mark.parametrize("seed", range(4))
def test_a_slice_of_an_array_in_another_order_is_a_view_of_it(seed):
    """Positions are those of the C-ordered elements, wherever these are in memory."""
    rng, views = generator(seed), 0
    for _ in range(300):
        shape = [int(n) for n in rng.integers(1, 6, rng.integers(1, 5))]
        order = rng.permutation(len(shape))
        x = rng.standard_normal([shape[k] for k in order]).transpose(np.argsort(order))
        positions = np.arange(x.size).reshape(shape)
        index = [(int(rng.integers(n)), slice(None, None, -1), slice(int(rng.integers(n)), None, 2), slice(None))[rng.integers(4)] for n in shape]
        window = positions[(None, *index)]
        if not window.size:
            continue
        strides = [s // positions.itemsize for s in window.strides]
        found = logical_view(x, window.shape, strides, int(window.flat[0]))
        np.testing.assert_array_equal(found, x.reshape(-1)[window])
        views += np.shares_memory(found, x)
    assert views > 250
    square = rng.standard_normal((4, 4)).T
    np.testing.assert_array_equal(logical_view(square, (4,), (5,), 0), np.diagonal(square))
