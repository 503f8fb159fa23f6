"""Views as index arithmetic, against NumPy's own views."""

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.interpreter.planner import contiguous
from tapegrad.kernel import ir
from tapegrad.kernel.arrays_planner import LoopPlanner
from tapegrad.kernel.ir import ArrayRef, added, moved, whole, without_table
from tapegrad.rules import BY_NAME
from tapegrad.tape.layout import c_strides, meta_of
from tests.every import every


def elements(ref, counters=()):
    """The flat positions that an ArrayRef names, as an array of its shape."""
    at = dict(counters)
    start = ref.offset.base + sum(c * at[id(loop)] for loop, c in ref.offset.steps)
    found = np.full(ref.shape, start)
    for axis, (n, stride) in enumerate(zip(ref.shape, ref.strides)):
        found += (np.arange(n) * stride).reshape([-1 if k == axis else 1 for k in range(ref.ndim)])
    return found


def view(row, ref, attrs):
    """The window on the memory of `ref` that the row gives, or None if that takes statements (a copy)."""
    body = []
    shape, char = row.shape(meta_of(np.empty(ref.shape)), **attrs | ({"offset": attrs["offset"].base} if row.dynamic else {}))
    out = meta_of(np.empty(shape, char))
    found = LoopPlanner([ref], out, body).row(row, attrs, None)
    if isinstance(found, ir.Load):
        assert body == [found] and shape == ()
        return ArrayRef(found.buffer, found.index, (), (), found.char)
    assert (found.buffer is ref.buffer) == (not body)
    return None if body else found


POSITIONS = np.arange(4 * 5 * 6).reshape(4, 5, 6)
#: A view of the positions, made by NumPy, and the same as an ArrayRef.
BASE = ir.Buffer(ir.TEMPORARY, POSITIONS.size)


def ref_of(array):
    """An ArrayRef that names what a view of POSITIONS holds."""
    strides = tuple(s // array.itemsize for s in array.strides)
    return ArrayRef(BASE, ir.Index(int(array.reshape(-1)[0])), array.shape, strides, "d")


def slices_of(x, key):
    """The attributes of the row that ``x[key]`` records, from positions in C order."""
    flat = np.arange(x.size).reshape(x.shape)[key]
    return {"shape": flat.shape, "strides": tuple(s // flat.itemsize for s in flat.strides), "offset": ir.Index(int(flat.reshape(-1)[0]))}


@every("x", [POSITIONS, POSITIONS[::2, 1:], POSITIONS[:, ::-1], POSITIONS.transpose(2, 0, 1), POSITIONS[1:3, :4, ::2]])
@every("key", [np.s_[1], np.s_[:, 2], np.s_[::-1, 1:3], np.s_[..., ::2], np.s_[None, :, 1, None], np.s_[0, 1, 2], np.s_[-1:, :, -2]])
def test_windows_of_views(x, key):
    attrs = slices_of(x, key)
    found = view(BY_NAME["getitem"], ref_of(x), attrs)
    np.testing.assert_array_equal(elements(found), x[key])


def test_diagonals_of_views():
    x = POSITIONS[1, :, ::2]
    attrs = {"shape": (3,), "strides": (x.shape[1] + 1,), "offset": ir.Index(3)}
    np.testing.assert_array_equal(elements(view(BY_NAME["diagonal"], ref_of(x), attrs)), np.diagonal(x, -1))


def test_a_window_that_is_no_window_of_the_view_takes_a_copy():
    x = POSITIONS[:, ::2]
    attrs = {"shape": (4,), "strides": (5,), "offset": ir.Index(0)}
    assert view(BY_NAME["as_strided"], ref_of(x), attrs) is None


@pytest.mark.parametrize("shape", [(20, 6), (1, 4, 30), (120,)])
def test_reshapes(shape):
    found = view(BY_NAME["reshape"], ref_of(POSITIONS), {"shape": shape})
    np.testing.assert_array_equal(elements(found), POSITIONS.reshape(shape))
    assert view(BY_NAME["reshape"], ref_of(POSITIONS[:, ::2]), {"shape": (72,)}) is None
    column = view(BY_NAME["expand_dims"], ref_of(POSITIONS[:, 1, 2]), {"shape": (4, 1)})
    np.testing.assert_array_equal(elements(column), POSITIONS[:, 1, 2][:, None])


def test_flips_and_transposes():
    np.testing.assert_array_equal(elements(view(BY_NAME["flip"], ref_of(POSITIONS), {"axes": (0, 2)})), POSITIONS[::-1, :, ::-1])
    np.testing.assert_array_equal(elements(view(BY_NAME["transpose"], ref_of(POSITIONS), {"axes": (1, 2, 0)})), POSITIONS.transpose(1, 2, 0))


def test_offsets_in_counters_of_loops():
    loop, x = ir.Loop(3), POSITIONS[:, ::2]
    attrs = {"shape": (6,), "strides": (1,), "offset": ir.Index(6, ((loop, 18),))}
    found = view(BY_NAME["getitem"], ref_of(x), attrs)
    for count in range(3):
        np.testing.assert_array_equal(elements(found, {id(loop): count}), x[count, 1])
    skewed = attrs | {"offset": ir.Index(0, ((loop, 7),))}
    assert view(BY_NAME["getitem"], ref_of(x), skewed) is None


def test_sums_of_indices():
    loop, body = ir.Loop(3), []
    one, two = ir.Index(1, ((loop, 2),)), ir.Index(4, ((loop, -2),))
    total = added(one, two, body)
    assert (total.base, total.steps, body) == (5, (), [])
    loaded = without_table(ir.Index(0, ((loop, 1),), np.array([4, 1, 3])), body)
    assert loaded.table is None and body == [loaded.plus] and body[0].buffer.role == ir.CONSTANT
    both = added(moved(loaded, 2), loaded, body)
    assert both.base == 2 and body[-1] is both.plus and both.plus.char == "l"


def test_unit_axes_do_not_matter():
    assert contiguous((1, 4), (77, 1), 1) and not contiguous((2, 4), (5, 1), 1) and contiguous((0, 4), (9, 9), 1)
    assert whole(BASE, (4, 5, 6)).strides == c_strides((4, 5, 6), 1) == (30, 6, 1)


COPIED = {
    "copy of truth values": lambda x: ((m := x > 0.0), m.copy(), False),
    "astype of truth values": lambda x: ((m := x > 0.0), m.astype(bool), False),
    "copy of integers": lambda x: ((m := np.argsort(x)), m.copy(), 3),
    "positive integers": lambda x: ((m := np.argsort(x)), +m, 3),
    "astype of integers": lambda x: ((m := (x > 0.0).astype(int)), m.astype(int), 3),
    "the others": lambda x: ((m := x > 0.0), ~~m, False),
    "copy of floats": lambda x: ((m := x * 2.0), m.copy(), 3.0),
    "positive floats": lambda x: ((m := x * 2.0), +m, 3.0),
}


@pytest.mark.parametrize("name", COPIED)
def test_a_copy_stays_as_it_is_when_its_operand_is_written_to(name):
    def function(x):
        first, second, number = COPIED[name](x)
        first[0] = number
        return np.where(first, x, 5.0) * first + np.where(second, x, 7.0) * second

    x = np.array([1.0, -2.0, 3.0, 0.5])
    jitted, mapped = tg.jit(function, kernel="always"), tg.jit(tg.vmap(function), kernel="always")
    for point in (x, -x, x):
        np.testing.assert_array_equal(jitted(point), function(point))
        for call in (tg.vmap(function), mapped):
            np.testing.assert_array_equal(call(np.stack([point, -point])), [function(point), function(-point)])
    assert not jitted.stats().not_lowered
