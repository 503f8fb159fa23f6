"""Array instructions as statements of the loop program.

An array value is an `ArrayRef`: elements of one buffer, found by an affine map, so that
views allocate nothing.  A value of shape ``()``, of any dtype, is a `Value`.

How the builder calls this::

    arrays = Arrays(guards)                     # one for each program
    ref = arrays.constant(array)                # a constant of the tape: ArrayRef, or a Value of a 0-d one
    statements, result = arrays.emit(item, operands, target, integer, reuse, lazy)

`operands` are ArrayRefs and Values, in the order of ``item.operands``; Values have been executed,
but for those that `constant` gave, which is called once for each use.  `statements` are to be executed in order at the place of the instruction;
`result` is an ArrayRef or a Value:

* without `target`: a window on the buffer of an operand (views; no statements), or an array in a
  new TEMPORARY buffer, C-contiguous;
* with `target` (an ArrayRef of the result's shape and dtype, of size 1 for a value): the target, written.

`integer` is the dynamic attribute (the `i` of ``x[i]``): None (that of the entry), or an `Index` in
the counters of the loops around the instruction, base included.  `reuse` holds the positions of the operands whose
memory may be written over: an indexed assignment then goes into its first operand, an addition of a `Spread` into
the other operand, and that is the result.

With `lazy`, the result of a `place` or `scatter` is a `Spread`: nothing is computed until an addition takes it up (or any other
instruction, which is a waste if there are several).  So ask for it if an `add` is the only
reader; until then what the Spread reads (`buffers`) must not be written over.

Inside rolled loops, offsets of ArrayRefs and `integer` may depend on the counters of the loops around
the place; a table in them is looked up by statements of the result.  Temporaries are made for
one execution; what must outlive an iteration needs a target.
"""

from __future__ import annotations

import numpy as np

from ..recomputed import Recomputed
from ..replay.trace import HOST
from ..replay.values import ValueProgram
from ..rules import BY_NAME
from ..rules import lang as L
from ..tape.meta import Meta, c_strides
from . import ir
from .arrays_planner import HOST_FUNCTIONS, INTEGER_OPERATIONS, LoopPlanner
from .arrays_views import VIEWS, ArrayRef, Spread, c_elements, plain, view
from .reasons import NotLowered

_WRITES = (BY_NAME["setitem"], BY_NAME["put"])
_SPREADS = (BY_NAME["place"], BY_NAME["scatter"])
_ADD = BY_NAME["add"]
#: Rows whose eager operation raises where the compiled one gives NaN (a singular matrix).
_RAISING = (BY_NAME["inv"], BY_NAME["solve"])


class Arrays:
    """Lowers array instructions; one for each program.

    Parameters
    ----------
    guards : int
        Number of guards of the tape; a guard of this number says that the function itself has
        to find out whether it raises (a singular matrix).
    """

    def __init__(self, guards=0):
        self.guards = guards
        self._constants = {}
        #: Values of constants that stand in no body yet.
        self._loose = set()

    # -- constants ----------------------------------------------------------------
    def constant(self, value):
        """A constant: its ArrayRef, or the Value of a number or an array of shape ``()``."""
        array = np.asarray(value)
        if array.ndim == 0 and array.dtype.char in "df":
            return self._loosely(ir.constant(float(array), array.dtype.char))
        known = self._constants.get(id(array))
        if known is None:
            known = self._constants[id(array)] = (_constant(array), array)
        ref = known[0]
        return ref if array.ndim else self._loosely(ir.Load(ref.buffer, ref.offset))

    def _loosely(self, value):
        self._loose.add(value)
        return value

    # -- one instruction -------------------------------------------------------------
    def emit(self, item, operands, target=None, integer=None, reuse=(), lazy=False, place=""):
        """The statements of one array instruction, and where its result is.

        Parameters
        ----------
        item : replay.finish.Item
            Not a guard.
        operands : list of ArrayRef, Value or Spread
        target : ArrayRef, optional
        integer : ir.Index, optional
        reuse : collection of int
        lazy : bool
        place : object
            Where it was recorded, for errors.

        Returns
        -------
        statements : list of ir.Statement
        result : ArrayRef, Value or Spread

        Raises
        ------
        NotLowered
            NumPy itself has to be called for this instruction.
        """
        entry, body = item.entry, []
        operands = [self.ready(o, body) for o in operands]
        if entry.kind == HOST:
            operands = [LoopPlanner([], entry.meta, body).gathered(o) if isinstance(o, Spread) else o for o in operands]
        if target is not None:
            target = ArrayRef(target.buffer, plain(target.offset, body), target.shape, target.strides, target.char)
        out = entry.meta
        if entry.kind == HOST:
            result = self._host(entry, operands, target, body, place)
            return body, result
        row, attrs = entry.function, dict(entry.attrs)
        if row.primitive is not None:
            raise NotLowered(f"{row.name} at {place} is Python code")
        if row.dynamic:
            integer = ir.Index(entry.integer or 0) if integer is None else plain(integer, body)
            attrs[row.dynamic] = integer
        if row is _ADD and out.shape and any(isinstance(o, Spread) for o in operands):
            return body, self._add(operands, out, body, target, reuse)
        operands = [LoopPlanner([], out, body).gathered(o) if isinstance(o, Spread) else o for o in operands]
        if lazy and target is None and row in _SPREADS and out.shape:
            if row.dynamic:
                return body, Spread(operands[0], out.shape, attrs["strides"], attrs[row.dynamic], out.char)
            return body, Spread(operands[0], out.shape, None, operands[1], out.char)
        plan = LoopPlanner(operands, out, body)
        if row in VIEWS:
            found = view(row.name, operands[0], attrs, out)
            if found is None:
                found = view(row.name, plan.in_order(operands[0]), attrs, out)
            return body, self._viewed(plan, found, target)
        if row in _WRITES and 0 in reuse and _whole(operands[0]):
            result = plan.write_into(operands[0], row.name, operands, attrs)
            return body, result if target is None else plan.copy(result, target)
        if out.char not in "df" and row.elementwise and row.name not in INTEGER_OPERATIONS:
            raise NotLowered(f"{row.name} of {out.char} at {place} has no machine code")
        result = plan.row(row, attrs, target)
        if row in _RAISING:
            plan.demand_finite(result, self.guards)
        return body, result

    def _add(self, operands, out, body, target, reuse):
        """An addition of something `Spread`, which goes into the memory of the other operand, or of its copy."""
        plan = LoopPlanner([], out, body)
        first = next(k for k in (1, 0) if isinstance(operands[k], Spread))
        spread, other = operands[first], operands[1 - first]
        mine = 1 - first in reuse and isinstance(other, ArrayRef) and other.buffer not in spread.buffers
        if target is None and mine and _whole(other) and other.char == out.char and other.shape == out.shape:
            target = other
        elif isinstance(other, Spread):
            target = plan.gathered(other, target)
        else:
            target = plan.fresh(other, target)
        plan.spread(spread, target)
        return target

    def _viewed(self, plan, found, target):
        if target is not None:
            return plan.copy(found, target)
        if found.shape == ():
            return plan.load(found)
        return found

    def ready(self, operand, body):
        if isinstance(operand, Spread):
            return operand
        if isinstance(operand, ArrayRef):
            if operand.offset.table is None:
                return operand
            return ArrayRef(operand.buffer, plain(operand.offset, body), operand.shape, operand.strides, operand.char)
        if operand in self._loose:
            self._loose.remove(operand)
            body.append(operand)
        return operand

    def _host(self, entry, operands, target, body, place):
        ufunc, out = entry.function.ufunc, entry.meta
        plan = LoopPlanner(operands, out, body)
        if isinstance(entry.function.function, Recomputed) and entry.function.__name__ == "truth":
            return plan.deliver(L.ne(plan.operands[0], 0.0) if operands[0].char != "?" else plan.operands[0], target)
        if ufunc is not None:
            expr = HOST_FUNCTIONS.get(ufunc.__name__)
            if expr is not None and (expr.of is None or all(o.char in expr.of for o in operands)):
                return plan.deliver(expr.build(*plan.operands), target)
            metas = tuple(_meta(o) for o in operands)
            result = Meta(out.shape, c_strides(out.shape, out.itemsize), out.char, out.itemsize)
            program = ValueProgram.of_ufunc(ufunc, metas, result)
            if program is not None:
                return plan.run(program, ufunc.__name__, target)
        raise NotLowered(f"{entry.name} at {place} is computed by calling NumPy")

    # -- guards ----------------------------------------------------------------------
    def same(self, value, seen):
        """Statements that compare `value` with the bytes that a guard saw, and the Value that says so.

        Parameters
        ----------
        value : ArrayRef or Value
        seen : bytes

        Returns
        -------
        statements : list of ir.Statement
        holds : ir.Value of type '?'
        """
        body = []
        shape = value.shape if isinstance(value, ArrayRef) else ()
        before = self.constant(np.frombuffer(seen, np.dtype(value.char)).reshape(shape or (1,)))
        plan = LoopPlanner([self.ready(value, body), before], Meta((), (), "?", 1), body)
        x, y = plan.operands
        if not shape:
            y = y.reshape(())
        if 0 in shape:
            body.append(holds := ir.Let(L.Expr("lt", (L.Expr.lift(0.0), L.Expr.lift(1.0))), "?"))
            return body, holds
        differ = L.ne(x, y)
        if value.char in "df":
            # Zeros have signs, and what is not a number equals itself.
            differ = L.select(L.isnan(y), L.logical_not(L.isnan(x)), differ | L.ne(L.copysign(1.0, x), L.copysign(1.0, y)))
        count = L.select(differ, 1.0, 0.0)
        total = count.sum() if shape else count
        return body, plan.deliver(L.eq(total, 0.0), None)


def _constant(array):
    """The ArrayRef of a constant array where it lies in memory."""
    char, item = array.dtype.char, array.itemsize
    if array.flags.c_contiguous or array.size == 0:
        flat = array.reshape(-1)
        return ArrayRef(ir.Buffer(ir.CONSTANT, array.size, char, data=flat), ir.Index(), array.shape, c_elements(array.shape), char)
    if any(s % item for s in array.strides):
        return _constant(np.ascontiguousarray(array))
    strides = tuple(s // item for s in array.strides)
    low = sum(min(0, s * (n - 1)) for s, n in zip(strides, array.shape))
    high = sum(max(0, s * (n - 1)) for s, n in zip(strides, array.shape))
    corner = array[tuple(slice(-1, None) if s < 0 else slice(0, 1) for s in strides)]
    data = np.lib.stride_tricks.as_strided(corner, (high - low + 1,), (item,), writeable=False)
    return ArrayRef(ir.Buffer(ir.CONSTANT, high - low + 1, char, data=data), ir.Index(-low), array.shape, strides, char)


def _whole(ref):
    return isinstance(ref, ArrayRef) and tuple(ref.strides) == c_elements(ref.shape)


def _meta(operand):
    """The description of an operand, in bytes."""
    item = np.dtype(operand.char).itemsize
    if isinstance(operand, ArrayRef):
        return Meta(operand.shape, tuple(s * item for s in operand.strides), operand.char, item)
    return Meta((), (), operand.char, item)
