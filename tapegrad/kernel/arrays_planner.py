"""Rules traced into loop nests.

`LoopPlanner` stands where the planners of the sweeps do (`sweep.plan`, `replay.values`):
a row's rule is called with symbolic arrays, and what it does to them becomes
statements.  A register stands for a buffer and where in it an array begins, or for a
single value; windows (`Atom`) have strides in bytes, as in the sweeps.

Nests have one loop for each axis that is longer than 1, in C order of the result
(`_coalesce` would flatten them, but only loops of the same extents can be fused; the
passes flatten what is left).  What does not depend on the counter of a loop is loaded outside.

=================  ========================================================================
element-wise       a nest that stores
reduction          a carried value if the last axis is reduced, else additions to a row in memory
scan, recurrence   a carried value along the last axis, else a row in memory
gather, scatter    a nest over the positions: elements whose number is loaded
matrix product     loops for products with vectors and of tiny matrices, else BLAS (`Run`)
inverse, ...       LAPACK through NumPy's loops (`Run`)
=================  ========================================================================
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Callable

import numpy as np

from ..native.ufuncs import core_dimensions, inner_loop
from ..replay.values import ValuePlanner
from ..rules import lang as L
from ..rules.transposed import _distinct
from ..sweep import program as P
from ..sweep.plan import Planner, _aligned, _aligned_shape, _coalesce, _renumber
from ..sweep.symbolic import ITEMSIZE, Atom, Sym
from . import ir
from .arrays_views import ArrayRef, added, c_elements, moved, whole
from .reasons import NotLowered

#: Matrix products with no extent above this are loops.
TINY = 8

#: Element-wise rows that integers may go through.
INTEGER_OPERATIONS = frozenset("add subtract multiply negative maximum minimum where clone square power2 relu clip".split())


@dataclass(frozen=True)
class HostFunction:
    """A ufunc without derivative in the rules' language; `of`: the dtypes for which that holds (None: all)."""

    build: Callable
    of: str | None = None


#: NumPy's ufuncs without derivative, by name.
HOST_FUNCTIONS = {
    "less": HostFunction(lambda x, y: x < y),
    "less_equal": HostFunction(lambda x, y: x <= y),
    "greater": HostFunction(lambda x, y: x > y),
    "greater_equal": HostFunction(lambda x, y: x >= y),
    "equal": HostFunction(L.eq),
    "not_equal": HostFunction(L.ne),
    "logical_and": HostFunction(lambda x, y: x & y),
    "logical_or": HostFunction(lambda x, y: x | y),
    "logical_not": HostFunction(lambda x: ~x),
    "bitwise_and": HostFunction(lambda x, y: x & y, "?"),
    "bitwise_or": HostFunction(lambda x, y: x | y, "?"),
    "invert": HostFunction(lambda x: ~x, "?"),
    "logical_xor": HostFunction(L.ne, "?"),
    "bitwise_xor": HostFunction(L.ne, "?"),
    "isnan": HostFunction(L.isnan, "df"),
    "isfinite": HostFunction(lambda x: L.abs(x) < math.inf, "df"),
    "isinf": HostFunction(lambda x: L.eq(L.abs(x), math.inf), "df"),
    "add": HostFunction(lambda x, y: x + y, "bBhHiIlLqQdf"),
    "subtract": HostFunction(lambda x, y: x - y, "bBhHiIlLqQdf"),
    "multiply": HostFunction(lambda x, y: x * y, "bBhHiIlLqQdf"),
    "negative": HostFunction(lambda x: -x, "bhilqdf"),
}

#: Rows that add into part of an array.
ADDITIONS = ("add_window", "add_at")

_IDENTITY = {"add": 0.0, "mul": 1.0, "max": -math.inf, "min": math.inf}


def _combined(how, total, x):
    """One more element of a reduction, as NumPy does it."""
    if how == "add":
        return total + x
    if how == "mul":
        return total * x
    return L.Expr("maximum" if how == "max" else "minimum", (total, x))


class LoopPlanner(Planner):
    """Collects the statements of one instruction.

    Parameters
    ----------
    operands : list of ArrayRef or ir.Value
    out : Meta
        The result.
    body : list of ir.Statement
        Receives the statements.
    """

    def __init__(self, operands, out, body):
        super().__init__([], out)
        self.body = body
        self.bases = []
        self.operands = [self.sym_of(o) for o in operands]

    # -- registers ----------------------------------------------------------------
    def _base(self, thing):
        self.bases.append(thing)
        return len(self.bases) - 1

    def sym_of(self, operand):
        """The symbolic array of an ArrayRef or Value."""
        if not isinstance(operand, ArrayRef):
            return self._sym(Atom(self._base(operand), 0, (), (), operand.char))
        item = ITEMSIZE[operand.char]
        reg = self._base((operand.buffer, operand.offset))
        return self._sym(Atom(reg, 0, operand.shape, [s * item for s in operand.strides], operand.char))

    def ref_of(self, atom):
        """The ArrayRef of a window in memory."""
        buffer, offset = self.bases[atom.reg]
        item = ITEMSIZE[atom.char]
        return ArrayRef(buffer, moved(offset, atom.offset // item), atom.shape, tuple(s // item for s in atom.strides), atom.char)

    def _is_value(self, atom):
        return isinstance(self.bases[atom.reg], ir.Value)

    def _in_memory(self, sym):
        """`sym` as a window on a buffer."""
        sym = sym.window()
        if not self._is_value(sym.atom):
            return sym
        atom = self.temporary(sym.shape, sym.char)
        self.loop([sym.expr], [atom], sym.shape, [None])
        return self._sym(atom)

    def temporary(self, shape, char, zero=False):
        buffer = ir.Buffer(ir.TEMPORARY, int(np.prod(shape, dtype=np.int64)), char)
        item = ITEMSIZE[char]
        atom = Atom(self._base((buffer, ir.Index())), 0, shape, [s * item for s in c_elements(shape)], char)
        if zero:
            self.loop([L.Expr.lift(0.0)], [atom], shape, [None])
        return atom

    def constant(self, array, char):
        array = np.ascontiguousarray(array, char)
        return self.sym_of(whole_constant(array))

    def shifted(self, reg, itemsize):
        raise AssertionError("dynamic offsets are indices here")

    # -- nests ----------------------------------------------------------------------
    def _nest(self, shape, order=None):
        """Loops over `shape`: the bodies, outermost first, and the loop of each axis (None: it is 1 long)."""
        bodies, loops = [self.body], [None] * len(shape)
        for axis in range(len(shape)) if order is None else order:
            if shape[axis] != 1:
                loops[axis] = ir.Loop(int(shape[axis]))
                bodies[-1].append(loops[axis])
                bodies.append(loops[axis].body)
        return bodies, loops

    def _index(self, atom, shape, loops):
        """Where the element of the window `atom`, broadcast to `shape`, is."""
        item = ITEMSIZE[atom.char]
        steps = [(loop, s // item) for loop, s in zip(loops, _aligned(atom, shape)) if loop is not None and s]
        return moved(self.bases[atom.reg][1], atom.offset // item, steps)

    def _load(self, atom, shape, loops, bodies, known):
        """The element of `atom`, loaded in the outermost body that knows its counters."""
        if self._is_value(atom):
            return self.bases[atom.reg]
        if atom not in known:
            index = self._index(atom, shape, loops)
            load = known[atom] = ir.Load(self.bases[atom.reg][0], index)
            used = {loop for loop, _ in index.steps}
            depth = max((k + 1 for k, loop in enumerate(_chain(bodies)) if loop in used), default=0)
            _insert(bodies, depth, load)
        return known[atom]

    def _value(self, expr, char, shape, loops, bodies, known):
        """The Value of an expression over windows, in the innermost body."""
        values = {atom: self._load(atom, shape, loops, bodies, known) for atom in expr.leaves()}
        if expr.op == "arg" and (value := values[expr.args[0]]).char == char:
            return value
        let = ir.Let(_renumber(expr, values), char)
        bodies[-1].append(let)
        return let

    def _arithmetic(self, expr, char):
        """In which type an expression that goes to `char` is computed."""
        chars = {a.char for a in expr.leaves()}
        if expr.is_bool:
            return "?"
        return "d" if char in "df" and "d" in chars else char

    def loop(self, exprs, outputs, shape, accumulate):
        if 0 in shape:
            return
        bodies, loops = self._nest(shape)
        known = {}
        for expr, output, how in zip(exprs, outputs, accumulate):
            value = self._value(expr, self._arithmetic(expr, output.char), shape, loops, bodies, known)
            index = self._index(output, shape, loops)
            buffer = self.bases[output.reg][0]
            if how is not None:
                before = ir.Load(buffer, index)
                value = ir.Let(_combined(how, L.arg(before), L.arg(value)), output.char)
                bodies[-1] += [before, value]
            bodies[-1].append(ir.Store(buffer, index, value))

    # -- what rules ask for ----------------------------------------------------------
    def call(self, name, *args):
        expr = L.Expr(name, tuple(a.expr if isinstance(a, Sym) else L.Expr.lift(a) for a in args))
        syms = [a for a in args if isinstance(a, Sym)]
        char = "f" if {s.char for s in syms} == {"f"} else "d"
        return self.compute(Sym(self, np.broadcast_shapes(*(s.shape for s in syms)), char, expr))

    def compute(self, sym):
        return self._cast(sym, sym.char)

    def _cast(self, sym, char):
        """`sym` computed: a single value, or a buffer of its own."""
        if sym.size == 1:
            bodies, loops = self._nest(sym.shape)
            value = self._value(sym.expr, self._arithmetic(sym.expr, char), sym.shape, loops, bodies, {})
            return self._single(self._as(value, char), sym.shape)
        atom = self.temporary(sym.shape, char)
        self.loop([sym.expr], [atom], sym.shape, [None])
        return self._sym(atom)

    def _as(self, value, char):
        if value.char != char:
            value = ir.Let(L.arg(value), char)
            self.body.append(value)
        return value

    def _single(self, value, shape):
        return self._sym(Atom(self._base(value), 0, shape, (0,) * len(shape), value.char))

    def reduce(self, sym, how, axes, keepdims, carried=None):
        """Reduce over `axes`; `carried` says whether in a value, not in memory (None: if the last axis is reduced)."""
        shape, ndim = sym.shape, sym.ndim
        kept = tuple(1 if k in axes else n for k, n in enumerate(shape))
        result = kept if keepdims else tuple(n for k, n in enumerate(shape) if k not in axes)
        char = sym.char if sym.char in "df" else self.out.char if self.out.char in "lqLQ" else "d"
        if char not in "df" and how not in ("add", "mul"):
            raise NotLowered(f"{how} over integers has no machine code")
        item = ITEMSIZE[char]
        if 0 in shape:
            found = self.temporary(kept, char)
            self.loop([L.Expr.lift(_IDENTITY[how])], [found], kept, [None])
            return self._sym(Atom(found.reg, 0, result, [s * item for s in c_elements(result)], char))
        inner = [k for k in range(ndim) if shape[k] != 1]
        single = math.prod(kept) == 1
        if carried is None:
            carried = bool(inner) and inner[-1] in axes and shape[inner[-1]] > 3
        if not single and not carried:
            # The last axis stays: rows are added up in memory, in the order of memory.
            found = self.temporary(kept, char)
            self.loop([L.Expr.lift(_IDENTITY[how])], [found], kept, [None])
            window = Atom(found.reg, 0, shape, [0 if k in axes else s for k, s in enumerate(found.strides)], char)
            self.loop([sym.expr], [window], shape, [how])
            return self._sym(Atom(found.reg, 0, result, [s * item for s in c_elements(result)], char))
        total = self._carried(sym, how, axes, char, None if single else (found := self.temporary(kept, char)))
        if single:
            return self._single(self._as(total, char), result)
        return self._sym(Atom(found.reg, 0, result, [s * item for s in c_elements(result)], char))

    def _carried(self, sym, how, axes, char, found):
        """Reduce with carried values over loops inside those of the axes that stay; store in `found`."""
        shape = sym.shape
        outer = [k for k in range(len(shape)) if k not in axes]
        bodies, loops = self._nest(shape, [*outer, *sorted(axes)])
        wide = "d" if char == "f" and how in ("add", "mul") else char
        depth = sum(1 for k in outer if shape[k] != 1)
        start = ir.constant(_IDENTITY[how], wide)
        _insert(bodies, depth, start)
        carries, before = [], start
        for loop in _chain(bodies)[depth:]:
            before = ir.Carry(before, reorder=how in ("add", "mul", "max", "min"))
            loop.carries.append(before)
            carries.append(before)
        value = self._value(sym.expr, self._arithmetic(sym.expr, wide), shape, loops, bodies, {})
        total = ir.Let(_combined(how, L.arg(before), L.arg(value)), wide)
        bodies[-1].append(total)
        for carry in carries:
            carry.next = total
        if found is not None:
            kept = [None if k in axes else loop for k, loop in enumerate(loops)]
            bodies[depth].append(ir.Store(self.bases[found.reg][0], self._index(found, found.shape, kept), total))
        return total

    def scan(self, sym, axis, how, reverse, exclusive):
        if sym.char not in "df":
            sym = self._cast(sym, "d")
        axis %= sym.ndim
        if reverse:
            return self.scan(sym.flip([axis]), axis, how, False, exclusive).flip([axis])

        def step(before, x, _):
            return _combined(how, before, x)

        return self._along(sym, None, axis, _IDENTITY[how], step, exclusive, how)

    def recur(self, sym, factors, axis, reverse, lag, exclusive):
        shape = np.broadcast_shapes(sym.shape, factors.shape)
        char = "f" if sym.char == factors.char == "f" else "d"
        axis %= len(shape)
        sym, factors = (s.broadcast_to(shape) for s in (sym, factors))
        if reverse:
            back = self.recur(sym.flip([axis]), factors.flip([axis]), axis, False, lag, exclusive)
            return back.flip([axis])
        sym, factors = (s if s.char == char else self._cast(s, char) for s in (sym, factors))
        if lag:
            # Carried is the factor times what came before.
            def step(before, x, f):
                return (x + before) if f is None else (x + before) * f

            return self._along(sym, factors, axis, 0.0, step, exclusive, None, after=True)
        return self._along(sym, factors, axis, 0.0, lambda before, x, f: x + f * before, exclusive, None)

    def _along(self, sym, factors, axis, start, step, exclusive, how, after=False):
        """A scan along one axis: carried in a value if that axis is the last, else in a row in memory.

        `step` makes what is carried; with `after`, what is stored is the step without its factor.
        """
        shape, char = sym.shape, sym.char
        out = self.temporary(shape, char)
        if 0 in shape:
            return self._sym(out)
        last = all(n == 1 for n in shape[axis + 1 :])
        row = None
        if not last:
            kept = [1 if k == axis else n for k, n in enumerate(shape)]
            row = self.temporary(kept, char)
            self.loop([L.Expr.lift(start)], [row], kept, [None])
        bodies, loops = self._nest(shape)
        known = {}
        if last and loops[axis] is not None:
            depth = len(bodies) - 2
            first = ir.constant(start, char)
            _insert(bodies, depth, first)
            before = ir.Carry(first)
            loops[axis].carries.append(before)
        elif last:
            before = ir.constant(start, char)
            bodies[-1].append(before)
        else:
            at = self._index(row, shape, loops)
            before = ir.Load(self.bases[row.reg][0], at)
            bodies[-1].append(before)
        x = L.arg(self._value(sym.expr, char, shape, loops, bodies, known))
        f = None if factors is None else L.arg(self._value(factors.expr, char, shape, loops, bodies, known))
        total = ir.Let(step(L.arg(before), x, None if after else f), char)
        bodies[-1].append(total)
        carried = total
        if after:
            carried = ir.Let(step(L.arg(before), x, f), char)
            bodies[-1].append(carried)
        if last and loops[axis] is not None:
            before.next = carried
        elif not last:
            bodies[-1].append(ir.Store(self.bases[row.reg][0], at, carried))
        stored = before if exclusive else total
        bodies[-1].append(ir.Store(self.bases[out.reg][0], self._index(out, shape, loops), stored))
        return self._sym(out)

    # -- positions -------------------------------------------------------------------
    def _at(self, atom, positions, shape, loops, bodies, known):
        """The elements of the C-contiguous window `atom` at flat positions, in the innermost body of a nest."""
        buffer, offset = self.bases[atom.reg]
        number = self._load(positions, shape, loops, bodies, known)
        index = added(moved(offset, atom.offset // ITEMSIZE[atom.char]), ir.Index(plus=number), bodies[-1])
        return buffer, index

    def _positions(self, index, shape):
        atom = self._in_memory(index).reshape(shape).atom
        assert atom.char in "lqiLQI", atom
        return atom

    def _ordered(self, sym):
        """`sym` in memory, in C order without gaps."""
        sym = self._in_memory(sym)
        return sym.reshape((sym.size,))

    def gather(self, sym, index, shape):
        shape = tuple(shape)
        source = self._ordered(sym).atom
        positions = self._positions(index, shape)
        single = math.prod(shape) == 1
        out = None if single else self.temporary(shape, sym.char)
        if 0 in shape:
            return self._sym(out)
        bodies, loops = self._nest(shape)
        load = ir.Load(*self._at(source, positions, shape, loops, bodies, {}))
        bodies[-1].append(load)
        if single:
            return self._single(load, shape)
        bodies[-1].append(ir.Store(self.bases[out.reg][0], self._index(out, shape, loops), load))
        return self._sym(out)

    def scattered(self, sym, index, shape):
        target = self.temporary(shape, sym.char, zero=True)
        self._write_at(target, sym, index, True)
        return self._sym(target)

    def _write_at(self, target, sym, index, add):
        """Write `sym` (or a number) to flat positions of `target`, or add it there."""
        shape = sym.shape if isinstance(sym, Sym) and sym.size == index.size else index.shape
        if 0 in shape:
            return
        positions = self._positions(index, shape)
        bodies, loops = self._nest(shape)
        known = {}
        expr = sym.expr if isinstance(sym, Sym) else L.Expr.lift(sym)
        value = self._value(expr, self._arithmetic(expr, target.char), shape, loops, bodies, known)
        buffer, at = self._at(target, positions, shape, loops, bodies, known)
        if add:
            before = ir.Load(buffer, at)
            value = ir.Let(L.arg(before) + L.arg(value), target.char)
            bodies[-1] += [before, value]
        bodies[-1].append(ir.Store(buffer, at, value))

    def put_at(self, sym, index, value):
        atom = self._fresh(sym)
        flat = self._sym(atom).reshape((sym.size,)).atom
        self._write_at(flat, 0.0 if value is None else value, index, False)
        return self._sym(atom)

    def _fresh(self, sym):
        """A copy of `sym` in a buffer of its own."""
        atom = self.temporary(sym.shape, sym.char)
        self.loop([sym.expr], [atom], sym.shape, [None])
        return atom

    def in_order(self, operand):
        """A C-contiguous copy of an ArrayRef or Value, in memory."""
        return self.ref_of(self._fresh(self.sym_of(operand)))

    # -- windows ----------------------------------------------------------------------
    def _window(self, reg, shape, strides, offset, char):
        """A window on the buffer of a register; the offset is a number or an index."""
        buffer, start = self.bases[reg]
        if isinstance(offset, ir.Index):
            start = added(start, offset, self.body)
        else:
            start = moved(start, offset)
        return Atom(self._base((buffer, start)), 0, shape, [s * ITEMSIZE[char] for s in strides], char)

    def assemble(self, char, shape, parts):
        size = math.prod(shape)
        covered = sum(math.prod(window) for _, window, strides, _ in parts if strides is None) >= size
        target = self.temporary(shape, char, zero=not covered)
        for value, window, strides, offset in parts:
            steps = c_elements(shape) if strides is None else strides
            atom = self._window(target.reg, window, steps, offset, char)
            self.loop([value.expr if isinstance(value, Sym) else L.Expr.lift(value)], [atom], window, [None])
        return self._sym(target)

    def placed(self, sym, shape, strides, offset):
        distinct = _distinct(sym.shape, strides)
        target = self.temporary(shape, sym.char, zero=not (distinct and sym.size == math.prod(shape)))
        atom = self._window(target.reg, sym.shape, strides, offset, sym.char)
        self.loop([sym.expr], [atom], sym.shape, [None if distinct else "add"])
        return self._sym(target)

    def write_into(self, ref, name, attrs, operands):
        """An indexed assignment or addition in the memory of its first operand."""
        x, value, *rest = self.operands
        if isinstance(operands[1], ArrayRef) and operands[1].buffer is ref.buffer:
            value = self.compute(value)
        if name in ("put", "add_at"):
            flat = self._sym(self._window(x.atom.reg, (x.size,), (1,), 0, ref.char)).atom
            value = value.broadcast_to(attrs["shape"]) if name == "put" else value
            self._write_at(flat, value, rest[0], name == "add_at")
        else:
            self._write_window(x.atom.reg, value, attrs, ref.char, "add" if name == "add_window" else None)

    def _write_window(self, reg, value, attrs, char, how):
        atom = self._window(reg, attrs["shape"], attrs["strides"], attrs["offset"], char)
        self.loop([value.expr], [atom], attrs["shape"], [how])

    def added_to(self, name, attrs, target, zero):
        """An addition into part of an array that has to stay as it is; `zero` says that it is all zeros."""
        x, value, *rest = self.operands
        if target is None:
            target = whole(ir.Buffer(ir.TEMPORARY, math.prod(self.out.shape), self.out.char), self.out.shape)
        reg, size = self.sym_of(target).atom.reg, target.size
        if name == "add_at":
            self._store(x.broadcast_to(self.out.shape), target)
            self._write_at(self._window(reg, (size,), (1,), 0, target.char), value, rest[0], True)
            return target
        first = zero and _distinct(attrs["shape"], attrs["strides"])
        if first:
            for start, count in _around(attrs, size):
                self.loop([L.Expr.lift(0.0)], [self._window(reg, (count,), (1,), start, target.char)], (count,), [None])
        else:
            self._store(x.broadcast_to(self.out.shape), target)
        self._write_window(reg, value, attrs, target.char, None if first else "add")
        return target

    # -- products -----------------------------------------------------------------------
    def matmul(self, a, b):
        if a.ndim == 1:
            return self._drop(self.matmul(a.expand_dims([0]), b), -2 if b.ndim > 1 else -1)
        if b.ndim == 1:
            return self._drop(self.matmul(a, b.expand_dims([1])), -1)
        char = "d" if "d" in (a.char, b.char) or a.char not in "df" or b.char not in "df" else "f"
        (m, k), n = a.shape[-2:], b.shape[-1]
        batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        vector = m == 1 or n == 1
        if 0 in (m, k, n, *batch) or vector or max(m, k, n) <= TINY:
            return self._product(a, b, batch, char)
        a, b = (self._matrix(s, char) for s in (a, b))
        return self.gufunc(np.matmul, a, b)[0]

    def _product(self, a, b, batch, char):
        """A matrix product as a reduction of all products."""
        (m, k), n = a.shape[-2:], b.shape[-1]
        if k == 0 or 0 in (m, n, *batch):
            return self._sym(self.temporary((*batch, m, n), char, zero=True))
        a, b = (s if s.char == char else self._cast(s, char) for s in (a.window(), b.window()))
        left, right = a.atom, b.atom
        left = Atom(left.reg, left.offset, (*left.shape, 1), (*left.strides, 0), char)
        right = Atom(right.reg, right.offset, (*right.shape[:-2], 1, *right.shape[-2:]), (*right.strides[:-2], 0, *right.strides[-2:]), char)
        lead, axis = [*batch, m, k, n], len(batch) + 1
        # The sum goes along the memory of the larger factor; across it, rows are added up.
        if n == 1:
            along = abs(left.strides[-2]) <= abs(left.strides[-3])
        elif m == 1:
            along = abs(right.strides[-2]) < abs(right.strides[-1])
        else:
            along = True
        if n == 1 and m != 1 and not along:
            left, right = (Atom(x.reg, x.offset, _swapped(x.shape), _swapped(x.strides), char) for x in (left, right))
            lead, axis = _swapped(lead), axis - 1
        return self.reduce(Sym(self, lead, char, L.arg(left) * L.arg(right)), "add", (axis,), False, along)

    def gufunc(self, ufunc, *syms):
        inputs, outputs = core_dimensions(ufunc)
        char = "d" if any(s.char != "f" for s in syms) else "f"
        syms = [self._in_memory(s if s.char == char else self._cast(s, char)) for s in syms]
        extents, batches = {}, []
        for sym, names in zip(syms, inputs):
            split = sym.ndim - len(names)
            batches.append(sym.shape[:split])
            extents.update(zip(names, sym.shape[split:]))
        if "p" in (name for names in outputs for name in names):
            extents["p"] = min(extents.values())  # (m, n) -> p
        batch = np.broadcast_shapes(*batches)
        empty = 0 in batch or 0 in extents.values()
        found = [self.temporary((*batch, *(extents[name] for name in names)), char, zero=empty) for names in outputs]
        if not empty:
            loop, data = inner_loop(ufunc, f"{char * len(inputs)}->{char * len(outputs)}")
            atoms = [*(s.atom for s in syms), *found]
            splits = [len(x.shape) - len(names) for x, names in zip(atoms, (*inputs, *outputs))]
            dims, strides = _coalesce(
                batch, [_aligned_shape(x.shape[:k], x.strides[:k], batch) for x, k in zip(atoms, splits)]
            )
            *outer, count = dims or [1]
            steps = [s[-1] if s else 0 for s in strides]
            for x, k in zip(atoms, splits):
                steps += x.strides[k:]
            registers = [P.FIRST_SAVED + j for j in range(len(syms))] + [0, *range(P.FIRST_SAVED + len(syms), P.FIRST_SAVED + len(atoms) - 1)]
            words = [loop, data, len(atoms)]
            for reg in registers:
                words += [reg, 0]
            words += [1 + len(extents), count, *extents.values(), len(steps), *steps, len(outer)]
            for d, extent in enumerate(outer):
                words += [extent, *(s[d] for s in strides)]
            program = np.array([P.GUFUNC, len(words), *words, P.END, 0], np.int64)
            self._run(program, list(zip(registers, atoms)), len(syms), None, ufunc.__name__)
        return [self._sym(x) for x in found]

    def _run(self, program, places, inputs, keeps, name):
        """A Run; `places` are (register, window), what it reads first."""
        refs = [(reg, self.ref_of(atom)) for reg, atom in places]
        listed = [(reg, ref.buffer, ref.offset) for reg, ref in refs]
        listed.sort(key=lambda triple: triple[0] != 0)
        reads, writes = {ref.buffer for _, ref in refs[:inputs]}, {ref.buffer for _, ref in refs[inputs:]}
        self.body.append(ir.Run(program, listed, None, reads, writes, keeps, name))

    def run(self, program, name, target):
        """A planned value program on the operands."""
        atoms = [self._in_memory(s).atom for s in self.operands]
        out = self.temporary(self.out.shape, self.out.char)
        places = [*zip(program.registers, atoms), (0, out)]
        self._run(program.words, places, len(atoms), program, name)
        return self.deliver(self._sym(out), target)

    # -- the instruction ------------------------------------------------------------------
    def row(self, row, attrs, target):
        """The value of a row."""
        operands = self.operands
        if row.elementwise:
            found = row.expr(*operands)
            if row.name == "clone" and target is None and self.out.shape:
                # The copy stays as it is when the operand is written to.
                return self.ref_of(self._fresh(found.broadcast_to(self.out.shape)))
            return self.deliver(found, target)
        # Functions are computed once, however often the rule reads their result.
        self.eager = ValuePlanner.eager
        if row.linear:
            result = Sym(self, self.out.shape, self.out.char, L.Expr.lift(0.0))
            tangents = [operands[k] for k in row.slots(len(operands))]
            return self.deliver(row.jvp(tangents, *operands, result, **attrs), target)
        if row.forward is None:
            raise NotLowered(f"{row.name} is computed by calling NumPy")
        return self.deliver(row.forward(*operands, **attrs), target)

    def deliver(self, sym, target):
        """`sym` as the result: an ArrayRef or Value, written to `target` if there is one."""
        out = self.out
        if not isinstance(sym, Sym):
            sym = Sym(self, (), out.char, L.Expr.lift(float(sym)))
        if sym.shape != out.shape:
            sym = sym.reshape(out.shape) if sym.size == 1 and sym.ndim > len(out.shape) else sym.broadcast_to(out.shape)
        if target is None and out.shape == ():
            found = self._cast(sym, out.char) if sym.char != out.char or sym.atom is None else sym
            if self._is_value(found.atom):
                return self.bases[found.atom.reg]
            return self.load(self.ref_of(found.atom))
        atom = sym.atom
        if target is None:
            if atom is None or atom.char != out.char or self._is_value(atom):
                atom = self._fresh(Sym(self, out.shape, out.char, sym.expr))
            return self.ref_of(atom)
        self._store(sym, target)
        return target

    def _store(self, sym, target):
        if 0 in target.shape:
            return
        place = self.sym_of(target).atom
        if sym.shape != target.shape:
            # A value goes to an array of one element.
            place = Atom(place.reg, 0, sym.shape, (0,) * sym.ndim, place.char)
        self.loop([sym.expr], [place], sym.shape, [None])

    def load(self, ref):
        """The element of an ArrayRef of size 1 as a Value."""
        load = ir.Load(ref.buffer, ref.offset)
        self.body.append(load)
        return load

    def copy(self, ref, target):
        """Write `ref` to `target`."""
        self._store(self.sym_of(ref), target)
        return target

    def demand_finite(self, result, number):
        """A guard that every element of `result` is finite."""
        sym = self.sym_of(result)
        if 0 in sym.shape:
            return
        zero = sym * 0.0
        total = zero.sum() if sym.ndim else zero
        holds = self.compute(L.eq(total, 0.0))
        self.body.append(ir.Guard(number, self.bases[holds.atom.reg], True))


def whole_constant(array):
    return whole(ir.Buffer(ir.CONSTANT, array.size, array.dtype.char, data=array.reshape(-1)), array.shape)


def _around(attrs, size):
    """The elements that a window leaves out, and maybe some of its own: (first position, number)."""
    shape, strides, at = attrs["shape"], attrs["strides"], attrs["offset"]
    count = math.prod(shape)
    dense = at.plus is None and not at.steps and all(n == 1 or s == c for n, s, c in zip(shape, strides, c_elements(shape)))
    pieces = [(0, at.base), (at.base + count, size - at.base - count)] if dense else [(0, size)] if count < size else []
    return [(start, n) for start, n in pieces if n]


def _swapped(axes):
    """The last axis but two exchanged with the one after it."""
    return [*axes[:-3], axes[-2], axes[-3], axes[-1]]


def _chain(bodies):
    """The loops of a nest, outermost first."""
    found = []
    for body, inner in zip(bodies, bodies[1:]):
        found.append(next(s for s in reversed(body) if isinstance(s, ir.Loop) and s.body is inner))
    return found


def _insert(bodies, depth, statement):
    """Put a statement into the body at `depth` of a nest, before the loop of the nest inside it."""
    body = bodies[depth]
    at = len(body)
    if depth + 1 < len(bodies):
        at = next(k for k in range(at - 1, -1, -1) if isinstance(body[k], ir.Loop) and body[k].body is bodies[depth + 1])
    body.insert(at, statement)
