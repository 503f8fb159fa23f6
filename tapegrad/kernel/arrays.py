"""Array instructions as statements of the loop program.

An array value is an `ArrayRef`: elements of one buffer, found by an affine map, so that
views allocate nothing.  A value of shape ``()``, of any dtype, is a `Value`.

How the builder calls this::

    arrays = Arrays(guards)                     # one for each program
    ref = arrays.constant(array)                # a constant of the tape: ArrayRef, or a Value of a 0-d one
    statements, result = arrays.emit(item, operands, target, integer, reuse)

`operands` are ArrayRefs and Values, in the order of ``item.operands``; Values have been executed
(the caller puts a constant's Let into its body).  `statements` are to be executed in order at the place of the instruction;
`result` is an ArrayRef or a Value:

* without `target`: a window on the buffer of an operand (views; no statements), or an array in a
  new TEMPORARY buffer, C-contiguous;
* with `target` (an ArrayRef of the result's shape and dtype, of size 1 for a value): the target, written.

`integer` is the dynamic attribute (the `i` of ``x[i]``): None (that of the entry), or an `Index` in
the counters of the loops around the instruction, base included.  `reuse` holds the positions of the operands whose
memory may be written over: an indexed assignment or addition (`setitem`, `put`, `add_window`, `add_at`) then goes
into its first operand, which is the result.  It also does if `target` is where the first operand is.

Inside rolled loops, offsets of ArrayRefs and `integer` may depend on the counters of the loops around
the place; a table in them is looked up by statements of the result.  Temporaries are made for
one execution; what must outlive an iteration needs a target.

Functions without derivative that NumPy computes when they are recorded, in the rules' language: of `common.host_functions`, and of NumPy.

A rule is called with the planner, then with what the function was called with: symbolic arrays in the place of operands, numbers and
other data as they are.  It gives None where it does not serve these: then NumPy is called, as it is for all other functions, which
takes ten times as long for small arrays.  What is cast is delivered in its own dtype.
"""

import math
from collections.abc import Hashable
from dataclasses import replace

import numpy as np

from ..common.host_functions import HostFunction
from ..interpreter.planner import Sym, contiguous
from ..program.trace import HOST, filled
from ..rules import BY_NAME
from ..rules import lang as L
from ..rules.shapes import side_by_side
from ..tape.layout import Meta
from . import ir
from .arrays_planner import LoopPlanner, expression_of
from .ir import ArrayRef, here, whole, without_table
from .reasons import NotLowered

#: Comparisons up to which kernels count the knots of a table that are below each number; beyond that NumPy searches for its place.
COUNTED = 1 << 17
#: Integers up to which floats have all of them.
_EXACT = 2.0**53


def recomputed(plan, host):
    """The result of a `program.trace.HostCall` of the operands of a planner, or None."""
    function = host.function
    if isinstance(function, HostFunction):
        rule, data = RECOMPUTED.get(function.name), function.data
    else:
        rule, data = OF_NUMPY.get(function) if isinstance(function, Hashable) else None, ()
    if rule is None:
        return None
    args, kwargs = filled(host.layout, plan.operands)
    return rule(plan, *args, *data, **kwargs)


# ---- of ours -----------------------------------------------------------------------------------


def _truth(plan, x):
    return x if x.char == "?" else L.ne(x, 0.0)


def _all_finite(plan, x):
    wrong = L.select(L.abs(x) < math.inf, 0.0, 1.0)
    return L.eq(wrong.sum() if x.ndim else wrong, 0.0)


def _at_classes(plan, target, classes):
    plan.demand((target >= 0.0) & (target < float(classes)))
    return plan.constant(np.arange(target.size) * classes, "l") + target.window().reshape((target.size,))


def _within(plan, at, extent, step):
    """The elements at which integers stand, tested to be in range and counted from the front, in steps of so many."""
    at = at if at.char == "l" else plan.compute(at, "l")
    plan.demand((at >= float(-extent)) & (at < float(extent)))
    return plan.compute(L.select(at < 0.0, at + float(extent), at) * float(step), "l")


def _taken(plan, at, shape, axis, mode):
    if mode != "raise" or 0 in shape:
        return None
    axis, shape = (0, (math.prod(shape),)) if axis is None else (axis % len(shape), shape)
    rest = range(at.ndim, at.ndim + len(shape) - axis - 1)
    starts = plan.constant(np.arange(math.prod(shape)).reshape(shape).take(0, axis), "l").expand_dims(range(axis, axis + at.ndim))
    return starts + _within(plan, at, shape[axis], math.prod(shape[axis + 1 :])).expand_dims(rest)


def _indexed(plan, *operands):
    base, *indices, extents, steps, trail = operands
    total = base
    for index, extent, step in zip(indices, extents, steps):
        total = total + _within(plan, index, extent, step).expand_dims(range(index.ndim, index.ndim + trail))
    total = plan.compute(total, "l")
    return total.reshape((total.size,))


def _repeats(plan, at, count):
    counts = plan.scattered(plan.constant(np.ones(at.size), "d"), at, (count,))
    return L.ne(plan.gather(counts, at, (at.size,)).sum(), float(at.size))


def _nonzero_along(plan, mask, axis):
    size, count = mask.size, plan.out.size
    held = _truth(plan, mask.window().reshape((size,)) if mask.ndim else mask.broadcast_to((1,)))
    ones = L.select(held, 1.0, 0.0)
    plan.demand(L.eq(ones.sum(), float(count)))
    # Each goes to the place of its rank; what is not picked goes to one place at the end.
    rank = ones.scan(0) - ones
    at = L.select(held, L.select(rank < float(count), rank, float(count)), float(count))
    target = plan.temporary((count + 1,), "l")
    plan.write_at(plan.constant(np.unravel_index(np.arange(size), mask.shape)[axis], "l"), plan.compute(at, "l"), target, False)
    return plan.sym(target).narrow(0, 0, count)


def _rank(plan, s, rcond):
    return L.select(s > s.reduce("max", 0, True) * rcond, 1.0, 0.0).sum() if s.size else None


def _piece(plan, x, knots):
    n = knots.size
    if n < 2 or x.size * n > COUNTED:
        return None
    first, second, before, last = (knots.narrow(0, k, k + 1).reshape(()) for k in (0, 1, n - 2, n - 1))
    # As many knots begin at or before it, but for the first; NaN lies on the last piece.
    below = L.select(x.expand_dims([x.ndim]) < knots.narrow(0, 1, n), 0.0, 1.0).sum((x.ndim,))
    most = L.select(L.eq(before, last), n - 1.0, n - 2.0)
    at = L.select(below < most, below, most)
    return plan.compute(L.select(L.eq(at, 0.0) & L.eq(first, second), 1.0, at), "l")


def _positions(plan, ids, width, num):
    plan.demand((ids >= 0.0) & (ids < float(num)))
    first = plan.compute(ids * float(width), "l")
    return plan.compute(first.expand_dims([1]) + plan.constant(np.arange(width), "l"), "l").reshape((ids.size * width,))


def _in_lanes(plan, positions, lanes, count):
    return plan.compute(plan.constant(np.arange(lanes)[:, None] * count, "l") + positions, "l").reshape((lanes * positions.size,))


def _missing(plan, x, order, n):
    return L.select(L.isnan(x.transpose(order).reshape((x.size // n, n))), 1.0, 0.0).sum((1,))


def _lines(plan, x, order, n):
    """Of lines of `x`, in this order of axes, where each element stands in `x`, and how many stand before it in its line when that is sorted."""
    lines = plan.in_memory(plan.in_memory(x).transpose(order).reshape((x.size // n, n)))
    places = np.arange(x.size).reshape(x.shape).transpose(order).reshape(lines.shape)
    one, other = lines.expand_dims([2]), lines.expand_dims([1])
    earlier = plan.constant(np.tril(np.ones((n, n)), -1), "d")
    # NaN stands behind all numbers.
    same = L.eq(other, one) | (L.isnan(other) & L.isnan(one))
    before = (other < one) | (L.isnan(one) & L.logical_not(L.isnan(other)))
    return places, L.select(before, 1.0, L.select(same, earlier, 0.0)).sum((2,))


def _ranked(plan, x, order, n, position):
    if x.size * n > COUNTED:
        return None
    places, ranks = _lines(plan, x, order, n)
    here = L.eq(ranks, plan.constant(position[..., None], "d"))
    return plan.compute(L.select(here, plan.constant(places, "d"), 0.0).sum((2,)), "l").reshape((position.size,))


def _sorted(plan, x, axis, kind):
    n, axis = x.shape[axis], axis % x.ndim
    if not 0 < x.size * n <= COUNTED:
        return None
    places, ranks = _lines(plan, x, (*(k for k in range(x.ndim) if k != axis), axis), n)
    at = plan.constant(places[:, :1], "l") + ranks * float(math.prod(x.shape[axis + 1 :]))
    target = plan.temporary((x.size,), "l")
    plan.write_at(plan.constant(places, "l"), plan.compute(at, "l"), target, False)
    return plan.sym(target).reshape(x.shape)


def _numbers(plan, x, nan, posinf, neginf):
    if not all(isinstance(number, (int, float, type(None))) for number in (nan, posinf, neginf)):
        return None
    most = float(np.finfo(x.char).max)
    high, low = (least if given is None else float(given) for given, least in ((posinf, most), (neginf, -most)))
    return L.select(L.isnan(x), float(nan), L.select(x > most, high, L.select(x < -most, low, x)))


def _running(plan, x, axis, largest):
    # The first element, and each that is another extreme than before; what is NaN stays NaN.
    best = plan.scan(x, axis, "max" if largest else "min")
    n = x.shape[axis]
    before = side_by_side(best, x.shape, [None, best.narrow(axis, 0, n - 1)], [1, n - 1], axis)
    order = plan.constant(np.arange(n), "d").reshape((n, *[1] * (x.ndim - 1 - axis)))
    same = L.eq(best, before) | (L.isnan(best) & L.isnan(before))
    first = plan.scan(L.select(L.eq(order, 0.0) | L.logical_not(same), order, 0.0).broadcast_to(x.shape), axis, "max")
    step = math.prod(x.shape[axis + 1 :])
    starts = plan.constant(np.arange(x.size).reshape(x.shape).take([0], axis), "l")
    return plan.compute(starts + first * float(step), "l")


def _in_range(plan, x, last):
    return L.eq(L.select((x >= 0.0) & (x <= float(last)), 0.0, 1.0).sum(), 0.0)


def _has_zero(plan, x):
    return L.ne(L.select(L.eq(x, 0.0), 1.0, 0.0).sum(), 0.0)


#: Functions of `tapegrad.common.host_functions` by name: ``(planner, *operands, *data)``; None if NumPy has to be called after all,
#: as it is for the others.  What is cast is delivered in its own dtype.
RECOMPUTED = {
    "truth": _truth, "cast": lambda plan, x, *_: x, "all_finite": _all_finite, "at_classes": _at_classes, "taken": _taken,
    "indexed": _indexed, "repeats": _repeats, "nonzero_along": _nonzero_along, "piece": _piece,
    "rank": _rank, "positions": _positions, "missing": _missing, "numbers": _numbers, "running": _running, "has_zero": _has_zero,
    "ranked": _ranked, "sorted": _sorted, "in_range": _in_range, "in_lanes": _in_lanes,
}  # fmt: skip


# ---- of NumPy ----------------------------------------------------------------------------------


def _counting(of):
    """A rule for how many elements are true, of which `of` makes the result."""

    def rule(plan, x, axis=None, keepdims=False, **others):
        held, failed = (L.select(_truth(plan, x), *numbers).sum(axis, keepdims) for numbers in ((1.0, 0.0), (0.0, 1.0)))
        return None if others else of(held, failed)

    return rule


def _mean_of_truth(plan, x, axis=None, **others):
    if others or x.char != "?" or not x.size:
        return None
    total = L.select(x, 1.0, 0.0).sum(axis)
    return total / float(x.size // total.size)


def _count_up(plan, x, axis=None, **others):
    if others or x.char != "?" or axis is None and x.ndim != 1:
        return None
    return plan.compute(plan.scan(plan.compute(L.select(x, 1.0, 0.0)), (axis or 0) % x.ndim, "add"), "l")


def _extreme(how):
    """A rule for the greatest or least of integers."""

    def rule(plan, x, axis=None, **others):
        if others or x.char != "l" or not x.size:
            return None
        plan.demand((x >= -_EXACT) & (x <= _EXACT))
        return plan.compute(x, "d").reduce(how, axis)

    return rule


def _first(how):
    """A rule for where the greatest or least number stands, of equal ones the first, of NaNs the first."""

    def rule(plan, x, axis=None, **others):
        if others or x.char not in "df?" or not x.size or not x.ndim:
            return None
        x = x if x.char in "df" else L.select(x, 1.0, 0.0)
        x, axis = (x.reshape((x.size,)), 0) if axis is None else (x, axis % x.ndim)
        n = x.shape[axis]
        order = plan.constant(np.arange(n), "d").reshape((n, *[1] * (x.ndim - 1 - axis)))
        here = L.isnan(x) | L.eq(x, x.reduce(how, axis, True))
        return plan.compute(L.select(here, order, float(n)).reduce("min", axis), "l")

    return rule


def _table(plan, knots, x):
    """A table and what is looked up in it, in memory; or None."""
    knots = plan.constant(np.asarray(knots), "d") if isinstance(knots, (list, tuple)) and all(isinstance(k, (int, float)) for k in knots) else knots
    both = isinstance(knots, Sym) and isinstance(x, Sym) and {knots.char, x.char} <= set("df")
    if not both or knots.ndim != 1 or knots.size < 2 or not x.size or x.size * knots.size > COUNTED:
        return None
    return plan.in_memory(knots), x.expand_dims([x.ndim])


def _steps(plan, knots):
    """Each knot but the last, and the one behind it."""
    return knots.narrow(0, 0, knots.size - 1), knots.narrow(0, 1, knots.size)


def _searched(plan, knots, x, side="left", sorter=None):
    found = _table(plan, knots, x)
    if found is None or sorter is not None:
        return None
    knots, x = found
    before, behind = _steps(plan, knots)
    plan.demand(behind >= before)
    # NaN stands behind all numbers.
    return plan.compute(L.select(x < knots if side == "right" else x <= knots, 0.0, 1.0).sum((x.ndim - 1,)), "l")


def _digitized(plan, x, bins, right=False):
    found = _table(plan, bins, x)
    if found is None:
        return None
    knots, x = found
    before, behind = _steps(plan, knots)
    falls = (L.select(behind >= before, 0.0, 1.0).sum(), L.select(behind <= before, 0.0, 1.0).sum())
    plan.demand(L.eq(falls[0], 0.0) | L.eq(falls[1], 0.0))
    upward = L.select(x <= knots if right else x < knots, 0.0, 1.0).sum((x.ndim - 1,))
    downward = L.select(knots >= x if right else knots > x, 1.0, 0.0).sum((x.ndim - 1,))
    return plan.compute(L.select(L.eq(falls[0], 0.0), upward, downward), "l")


def _clipped(plan, x, low=None, high=None, **others):
    for bound in (low, high):
        if not (bound is None or isinstance(bound, Sym) and bound.char == "l" or type(bound) is int and abs(bound) < _EXACT):
            return None
    if others or not isinstance(x, Sym) or x.char != "l":
        return None
    x = x if low is None else L.select(x < low, low, x)
    return x if high is None else L.select(x > high, high, x)


#: Functions of NumPy, and methods of its arrays.
OF_NUMPY = {
    np.any: _counting(lambda held, failed: L.ne(held, 0.0)), np.all: _counting(lambda held, failed: L.eq(failed, 0.0)),
    np.count_nonzero: _counting(lambda held, failed: held), np.mean: _mean_of_truth, np.cumsum: _count_up,
    np.max: _extreme("max"), np.min: _extreme("min"), np.argmax: _first("max"), np.argmin: _first("min"),
    np.searchsorted: _searched, np.digitize: _digitized, np.clip: _clipped,
}
OF_NUMPY |= {getattr(np.ndarray, name): OF_NUMPY[getattr(np, name)] for name in "any all mean cumsum max min argmax argmin searchsorted clip".split()}


_ABSOLUTE, _RECURRENCE, _CLONE = BY_NAME["absolute_matmul"], BY_NAME["recurrence"], BY_NAME["clone"]


class Arrays:
    """Lowers array instructions; one for each program.

    Parameters
    ----------
    guards : int
        Number of guards of the tape; a guard of this number says that the function itself has
        to find out whether it raises (a singular matrix), or what it gives (a product in which zero is absolute).
    failing : set of int, optional
        Of a path of a loop, where nothing else can answer, the slots of rows that may raise: all else is computed, finite or not.
    """

    def __init__(self, guards=0, failing=None):
        self.guards, self.failing = guards, failing
        self._constants = {}

    # -- constants ----------------------------------------------------------------
    def constant(self, value):
        """A constant: its ArrayRef, or the Let of a number or an array of shape ``()`` (of an integer that is a double)."""
        array = np.asarray(value)
        if array.dtype.char == "e":
            raise NotLowered("a constant result is of float16, which kernels have not")
        if array.ndim == 0 and not float(array) != array.item():
            return ir.constant(float(array), array.dtype.char)
        if id(array) not in self._constants:
            self._constants[id(array)] = _constant(array), array
        return self._constants[id(array)][0]

    # -- one instruction -------------------------------------------------------------
    def emit(self, item, operands, target=None, integer=None, reuse=()):
        """The statements of one array instruction, and where its result is.

        Parameters
        ----------
        item : replay.finish.Item
            Not a guard.
        operands : list of ArrayRef or Value
        target : ArrayRef, optional
        integer : ir.Index, optional
        reuse : collection of int

        Returns
        -------
        statements : list of ir.Statement
        result : ArrayRef or Value

        Raises
        ------
        NotLowered
            NumPy itself has to be called for this instruction.
        """
        entry, body = item.entry, []
        operands, target = [self._ready(o, body) for o in operands], self._ready(target, body)
        if entry.kind == HOST:
            return body, self._host(entry, operands, target, body)
        row, attrs = entry.function, dict(entry.attrs)
        if row is _CLONE and target is None and isinstance(operands[0], ArrayRef) and operands[0].buffer.role in (ir.INPUT, ir.CONSTANT):
            # Both are read-only.
            return body, operands[0]
        if row.dynamic:
            integer = ir.Index(entry.integer or 0) if integer is None else without_table(integer, body)
            attrs[row.dynamic] = integer
        if row.effect == "view" and isinstance(operands[0], ArrayRef):
            # A window on a number repeated stays one.
            operands[0] = replace(operands[0], number=None)
        plan = LoopPlanner(operands, entry.meta, body, self.guards, self.failing is not None)
        if row is _ABSOLUTE and self.failing is None:
            # Of finite factors it is the plain product.
            for o in operands:
                if o.buffer.data is None or not np.isfinite(o.buffer.data).all():
                    plan.demand_zero(plan.sym_of(o) * 0.0)
        if row.effect == "write":
            x, value = operands[:2]
            in_place = isinstance(x, ArrayRef) and contiguous(x.shape, x.strides, 1) and (0 in reuse or here(x, target))
            plan.room = x if in_place else target
            if in_place and isinstance(value, ArrayRef) and value.buffer is x.buffer:
                plan.operands[1] = plan.compute(plan.operands[1])
        result = plan.row(row, attrs, target)
        if item.slot in self.failing if self.failing is not None else row.raises or row is _RECURRENCE:
            # For values that are not finite the eager operation raises, or (a recurrence) zero is absolute.
            z = plan.sym_of(result)
            if self.failing is None or row.raises != "finite":
                plan.demand_zero(z * 0.0)
            else:
                # It is its answer where an operand is not finite.
                wrong = L.select(L.isnan(z), 1.0, 0.0).sum()
                for x in plan.operands:
                    wrong = L.select(L.eq((x * 0.0).sum(), 0.0), wrong, 0.0)
                plan.demand_zero(wrong)
        return body, result

    def copied(self, source, target):
        """Statements that copy one array to another of its shape, which does not overlap it."""
        body = []
        if all(contiguous(one.shape, one.strides, 1) for one in (source, target)):
            # One loop, whatever the shape is.
            source, target = (replace(one, shape=(one.size,), strides=(1,)) for one in (source, target))
        plan = LoopPlanner([self._ready(source, body)], None, body, self.guards)
        plan._store(plan.operands[0], self._ready(target, body))
        return body

    def _ready(self, operand, body):
        tabled = isinstance(operand, ArrayRef) and operand.offset.table is not None
        return replace(operand, offset=without_table(operand.offset, body)) if tabled else operand

    def _host(self, entry, operands, target, body):
        ufunc, plan = entry.function.ufunc, LoopPlanner(operands, entry.meta, body, self.guards)
        sym = recomputed(plan, entry.function)
        if sym is not None:
            return plan.deliver(plan.copied(sym, target), target)
        chars, given = {o.char for o in operands}, plan.operands
        if len(chars) > 1 and "?" in chars:
            # Beside numbers truth values are 0 and 1.
            chars, given = chars - {"?"}, [L.select(o, 1.0, 0.0) if o.char == "?" else o for o in given]
        expr = ufunc and expression_of(ufunc, chars, entry.meta.char)
        return plan.deliver(plan.copied(expr(*given), target), target) if expr else plan.called(entry.function, target)

    # -- guards ----------------------------------------------------------------------
    def same(self, value, seen):
        """Statements that compare an array with the bytes that a guard saw, and the Value that says so.

        Parameters
        ----------
        value : ArrayRef
        seen : bytes

        Returns
        -------
        statements : list of ir.Statement
        holds : ir.Value of type '?'
        """
        body = []
        before = self.constant(np.frombuffer(seen, np.dtype(value.char)).reshape(value.shape))
        plan = LoopPlanner([self._ready(value, body), before], Meta((), (), "?", 1), body, self.guards)
        differ = L.select(as_seen(*plan.operands, value.char), 0.0, 1.0)
        return body, plan.deliver(L.eq(differ.sum(), 0.0), None)


def as_seen(x, y, char):
    """Whether numbers are the same: zeros have signs, and what is not a number equals itself."""
    if char not in "df":
        return L.eq(x, y)
    return L.select(L.isnan(y), L.isnan(x), L.eq(x, y) & L.eq(L.copysign(1.0, x), L.copysign(1.0, y)))


def _constant(array):
    """The ArrayRef of a constant array where it lies in memory."""
    char, item = array.dtype.char, array.itemsize
    if array.flags.c_contiguous or array.size == 0:
        return whole(ir.Buffer(ir.CONSTANT, array.size, char, data=array.reshape(-1)), array.shape)
    if any(s % item for s in array.strides):
        return _constant(np.ascontiguousarray(array))
    strides = tuple(s // item for s in array.strides)
    low = sum(min(0, s * (n - 1)) for s, n in zip(strides, array.shape))
    high = sum(max(0, s * (n - 1)) for s, n in zip(strides, array.shape))
    corner = array[tuple(slice(-1, None) if s < 0 else slice(0, 1) for s in strides)]
    data = np.lib.stride_tricks.as_strided(corner, (high - low + 1,), (item,), writeable=False)
    # One number repeated, read-only.
    number = float(array.flat[0]) if char in "df" and isinstance(array.base, np.ndarray) and array.base.ndim == 0 else None
    return ArrayRef(ir.Buffer(ir.CONSTANT, high - low + 1, char, data=data), ir.Index(-low), array.shape, strides, char, number)
