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
"""

from dataclasses import replace

import numpy as np

from ..interpreter.windows import contiguous
from ..program.trace import HOST
from ..rules import BY_NAME
from ..rules import lang as L
from ..tape.layout import Meta
from . import ir
from .arrays_hosts import expression_of
from .arrays_planner import LoopPlanner
from .arrays_views import ArrayRef, here, whole, without_table
from .reasons import NotLowered
from .recomputed import recomputed

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
