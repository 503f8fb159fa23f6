"""The order in which loops walk several dimensions."""

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.codegen import of_rows
from tapegrad.interpreter import program as P
from tapegrad.interpreter.planner import NEAR, SHORT, longest_inside
from tapegrad.program.values import ValueProgram
from tapegrad.program.workspace import Workspace
from tapegrad.rules import BY_NAME
from tapegrad.tape.layout import meta_of
from tapegrad.transforms.replay.function import Replayed
from tests.near import near


def test_the_longest_dimension_goes_inside_of_a_short_one():
    dims, strides = longest_inside([5, 300, 4], [[9600, 32, 8], [0, 8, 0]])
    assert dims == [5, 4, 300] and strides == [[9600, 8, 32], [0, 0, 8]]


@pytest.mark.parametrize(
    "dims, strides",
    [
        ([300], [[8]]), ([], [[]]), ([300, SHORT], [[64, 8]]), ([12, 4], [[32, 8]]),
        # One row after the other, where each walk over the long dimension would come from far memory.
        ([NEAR // 32 + 1, 4], [[32, 8]]),
    ],
)  # fmt: skip
def test_others_stay(dims, strides):
    assert longest_inside(dims, strides) == (dims, strides)


def inner_loops(words):
    """Extents of the innermost loops that NumPy's steps of a program run."""
    found, at = [], 0
    while words[at] != P.END:
        if words[at] == P.CALL and words[at + 2] not in of_rows._ADDRESSES.values():
            nargs = words[at + 4]
            found.append(int(words[at + 5 + 2 * nargs + 1]))
        at += 2 + int(words[at + 1])
    return found


def test_few_calls_for_an_array_of_points():
    points, shift = np.zeros((3000, 4)), np.zeros(4)
    program = ValueProgram.of_row(BY_NAME["subtract"], (), (meta_of(points), meta_of(shift)), meta_of(points))
    assert inner_loops(program.words) == [3000]
    exponential = ValueProgram.of_row(BY_NAME["exp"], (), (meta_of(np.zeros((3000, 8))[:, :4]),), meta_of(points))
    assert inner_loops(exponential.words) == [4]
    for axis, inner in ((1, 3000), (0, 3000)):
        total = ValueProgram.of_row(
            BY_NAME["sum"], (("axis", (axis,)), ("keepdims", False)), (meta_of(points),), meta_of(np.sum(points, axis))
        )
        assert inner_loops(total.words) == [inner]


@pytest.mark.parametrize("columns", [2, 3, 4, 7])
def test_replays_have_the_values_of_numpy(columns):
    """Sums over a short axis, zeros with signs among them, and arithmetic with a row or a column."""
    rng = np.random.default_rng(columns)
    row, column = rng.normal(size=columns), rng.normal(size=(200, 1))

    def function(x):
        y = (x - row) * column / (1.0 + row * row)
        return np.sum(y, axis=1), np.prod(y, axis=1), np.sum(x, axis=1), np.sum(y * x), np.sqrt(np.abs(y))

    x = rng.normal(size=(200, columns)) * 10.0 ** rng.integers(-8, 8, size=(200, columns))
    x[:50] = np.where(rng.random((50, columns)) < 0.5, -0.0, x[:50])
    tape = Replayed(function, (0,), scalar=False).tape((x,), {})
    workspace = Workspace(tape)
    for point in x, 3.0 * x[::-1]:
        assert workspace.run([np.ascontiguousarray(point)], False) < 0
        for k, expected in enumerate(function(point)):
            near(workspace.output(k), expected, where=k)


@pytest.mark.parametrize("shape", [(500, 3), (40, 30, 2)])
def test_gradients_of_points(shape):
    rng = np.random.default_rng(0)
    x, center = rng.normal(size=shape), rng.normal(size=shape[-1])

    def energy(x, center):
        return np.sum(np.exp(-np.sum((x - center) ** 2, axis=-1))) + np.sum(np.max(x * center, axis=-1))

    gx, gc = tg.jit(tg.grad(energy, (0, 1)), kernel="never")(x, center)
    away = x - center
    weight = -2.0 * np.exp(-np.sum(away**2, axis=-1))[..., None] * away
    best = (x * center == np.max(x * center, axis=-1, keepdims=True)) * 1.0
    np.testing.assert_allclose(gx, weight + best * center, rtol=1e-12, atol=1e-14)
    axes = tuple(range(len(shape) - 1))
    np.testing.assert_allclose(gc, -weight.sum(axes) + (best * x).sum(axes), rtol=1e-12)
