"""Rules traced into loop nests, and what NumPy computes, in loop programs.

`LoopPlanner` is the planner (`interpreter.planner`) that writes loop nests, where those of sweeps and values
(`interpreter.plan`, `program.values`) write steps: a row's rule is called with symbolic arrays, and what it does to them becomes
statements.  A register stands for a buffer and where in it an array begins, or for a
single value; windows (`Atom`) have strides in bytes, as in the sweeps.

Results lie in memory as their operands do.

=================  ========================================================================
element-wise       a nest that stores
reduction          a carried value if the innermost axis is reduced, else additions to a row in memory
scan, recurrence   a carried value along the last axis, else a row in memory
gather, scatter    a nest over the positions: elements whose number is loaded
matrix product     loops for products with vectors and of tiny matrices, else BLAS (`Run`)
inverse, ...       LAPACK (`Run`)
any other          a call of NumPy (`Run`, `interpreter.calls`)
=================  ========================================================================

A `Nest` of loops over the elements of arrays has one loop for each axis that is longer than 1.  They stand in the order of the
memory of the *leading* array, the first one given that has every axis (else in C order): so arrays that lie alike are
walked by nests that are alike, and can be fused.  (Nests are not flattened for the same reason; the passes flatten what is left.)

Loads that do not depend on the counter of a loop are hoisted out of it.

Ufuncs without derivative are written in the rules' language (other functions: `kernel.arrays`).  Products of
matrices, and steps that are run whole, are NumPy's own loops, in a `Run`.

Products with vectors are loops: they are bound by memory, and fused with what
makes or uses the vector; so are those of tiny matrices, where a call costs more than the
product.  All others go to BLAS through NumPy's loop.  An absolute product is a plain one here: a
kernel does not answer where a factor is not finite (`arrays.Arrays`), but for a path of a loop.
"""

import math
import operator
from dataclasses import replace
from functools import partial

import numpy as np

from ..array.recorded import LOGICAL
from ..codegen.of_rows import IDENTITY
from ..common.errors import require
from ..interpreter import program as P
from ..interpreter.calls import Called
from ..interpreter.planner import ITEMSIZE, Atom, Planner, Sym, aligned, call_words, contiguous, repair_words
from ..program.stream import HostStep
from ..program.values import ELEMENTARY
from ..rules import BY_FUNCTION
from ..rules import lang as L
from ..rules.loops import DRIVEN
from ..rules.shaping import distinct
from ..tape.layout import c_strides
from . import ir
from .ir import ArrayRef, added, here, moved, whole, window
from .reasons import NotLowered

#: By the names of ufuncs: what is the same for all dtypes, for truth values, for floats.
_OF_ALL = {ufunc.__name__: L.function(name) for name, ufunc in LOGICAL.items() if name != "isnan"}
_OF_TRUTH = {
    "bitwise_and": L.function("and"), "bitwise_or": L.function("or"), "invert": L.logical_not,
    "logical_xor": L.ne, "bitwise_xor": L.ne, "add": L.function("or"), "multiply": L.function("and"),
}  # fmt: skip
_OF_FLOATS = {"isnan": L.isnan, "isfinite": lambda x: L.abs(x) < math.inf, "isinf": lambda x: L.eq(L.abs(x), math.inf)}


def expression_of(ufunc, chars, out):
    """The function of expressions that is `ufunc` for operands, a set, and a result of these dtypes, or None."""
    row = BY_FUNCTION.get(ufunc)
    if chars & set("LQ"):
        # Integers are computed as signed ones of 64 bits.
        return None
    if row is not None and "?" not in chars:
        integral = out in "df" or all(map(ir.integral, L.nodes(row.expr(*map(L.arg, range(row.arity))))))
        return row.expr if integral else None
    special = _OF_TRUTH if chars == {"?"} else _OF_FLOATS if chars <= set("df") else {}
    return (_OF_ALL | special).get(ufunc.__name__)


#: Matrix products with no extent above this are loops.
TINY = 8
#: Where the program of a single matrix product has how many products there are, its extents, the strides of rows and columns of
#: both factors and the result, in bytes, and the number of outer loops.
_BATCH, _EXTENTS, _STRIDES, _OUTER = 12, slice(13, 16), slice(20, 26), 26


class MatrixProducts:
    """The part of `LoopPlanner` for matrices."""

    def product(self, a, b, char, absolute):
        (m, k), n = a.shape[-2:], b.shape[-1]
        batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        vector = m == 1 or n == 1
        if 0 in (m, k, n, *batch):
            return self.sym(self.temporary((*batch, m, n), char, zero=True))
        if vector or max(m, k, n) <= TINY:
            a, b = (s.window().cast(char) for s in (a, b))
            times = L.absolute_product if absolute and self.exact else operator.mul
            products = times(a.expand_dims([a.ndim]), b.expand_dims([b.ndim - 2]))
            total = self.reduced(products, "add", (products.ndim - 2,), (*batch, m, 1, n), None if vector else True)
            return total.reshape((*batch, m, n))
        a, b, product = self.called_product(*[self.in_memory(s.cast(char)) for s in (a, b)], char)
        if absolute and self.exact:
            run = self.body[-1]
            words = repair_words(a, b, product, ((P.FIRST_SAVED, 0), (P.FIRST_SAVED + 1, 0)), 0)
            run.program, run.product = np.concatenate([run.program[:-2], [P.REPAIR, len(words), *words], run.program[-2:]]), None
        return product

    def call(self, spec, atoms, inputs, *around):
        # A program by itself: the result is in register 0, the others in registers of their own, where they begin.
        registers = [*range(P.FIRST_SAVED, P.FIRST_SAVED + len(atoms) - 1)]
        registers.insert(inputs, 0)
        words = call_words(spec.address(), spec.data(), [(register, 0) for register in registers], *around)
        program = np.array([P.CALL, len(words), *words, P.END, 0], np.int64)
        refs = [self.ref_of(atom) for atom in atoms]
        operands = [(register, ref.buffer, ref.offset) for register, ref in zip(registers, refs)]
        operands.sort(key=lambda operand: operand[0] != 0)
        reads, writes = {ref.buffer for ref in refs[:inputs]}, {ref.buffer for ref in refs[inputs:]}
        self.body.append(run := ir.Run(program, operands, reads, writes, spec, spec.name))
        if spec.name == "matmul" and program[_BATCH] == 1 and program[_OUTER] == 0:
            run.product = tuple(program[_EXTENTS].tolist())

    def called(self, function, target, name=None):
        """A call of a function of the operands, in Python."""
        operands, name = [self.ordered(s) for s in self.operands], name or getattr(function, "__name__", "NumPy")
        if len(operands) > P.FIRST_TARGET - P.FIRST_SAVED - 1:
            raise NotLowered(f"{name} is called with {len(operands)} operands")

        def fill(*arrays):
            *arrays, result = arrays
            return HostStep(function, [a.copy() for a in arrays], result, name, 0).run()

        # For those who read the program.
        fill.called = function
        machine = getattr(getattr(function, "function", None), "machine", None)
        spec = machine and machine() or Called(fill, name, [(s.shape, s.char) for s in operands], (self.out.shape, self.out.char))
        return self.deliver(self.filled_by(spec, operands, self.out.shape, self.out.char), target)


def strides(run):
    """Strides of rows and columns of the factors and the result of a `Run` that is a matrix product, in elements."""
    item = np.dtype(run.operands[0][1].char).itemsize
    return [step // item for step in run.program[_STRIDES].tolist()]


def part(run, start, stop, columns):
    """The `Run` of the rows from `start` to `stop` and the first `columns` of a matrix product."""
    program = run.program.copy()
    program[_EXTENTS] = product = (stop - start, run.product[1], columns)
    by_row = strides(run)
    further = {0: start * by_row[4], P.FIRST_SAVED: start * by_row[0], P.FIRST_SAVED + 1: 0}
    operands = [(register, buffer, moved(index, further[register])) for register, buffer, index in run.operands]
    return replace(run, program=program, operands=operands, product=product)


def memory_order(shape, atoms):
    """Axes in the order in which the leading one of `atoms` lies in memory, outermost first."""
    for atom in atoms:
        strides = aligned(atom, shape)
        if all(s for s, n in zip(strides, shape) if n != 1):
            return sorted(range(len(shape)), key=lambda k: (-abs(strides[k]), k))
    return list(range(len(shape)))


class Nest:
    """Loops over `shape`, appended to the body of a planner.

    Parameters
    ----------
    plan : LoopPlanner
    shape : tuple of int
    order : sequence of int
        Axes, outermost first.

    Attributes
    ----------
    bodies : list of list
        Outermost first, that of the planner included.
    chain : list of ir.Loop
        Outermost first.
    loops : list of ir.Loop or None
        By axis.
    """

    def __init__(self, plan, shape, order):
        self.plan, self.shape = plan, tuple(shape)
        self.bodies, self.chain, self.loops = [plan.body], [], [None] * len(shape)
        for axis in order:
            if shape[axis] != 1:
                loop = self.loops[axis] = ir.Loop(int(shape[axis]))
                self.bodies[-1].append(loop)
                self.bodies.append(loop.body)
                self.chain.append(loop)
        self._known = {}

    def index(self, atom):
        """The place of the element of a window."""
        item = ITEMSIZE[atom.char]
        strides = aligned(atom, self.shape)
        steps = [(loop, stride // item) for loop, stride in zip(self.loops, strides) if loop is not None and stride]
        steps.sort(key=lambda step: self.chain.index(step[0]))
        return moved(self.plan.bases[atom.reg][1], atom.offset // item, steps)

    def add(self, *statements):
        """Append to the innermost body; returns the last statement."""
        self.bodies[-1].extend(statements)
        return statements[-1]

    def insert(self, depth, statement):
        """Put a statement into the body at `depth`, before the loop of the nest inside it."""
        body = self.bodies[depth]
        body.insert(body.index(self.chain[depth]) if depth < len(self.chain) else len(body), statement)

    def load(self, atom):
        """The element of a window, loaded in the outermost body that knows its counters."""
        plan = self.plan
        if plan.is_value(atom):
            return plan.bases[atom.reg]
        if atom not in self._known:
            index = self.index(atom)
            load = self._known[atom] = ir.Load(plan.bases[atom.reg][0], index)
            used = {loop for loop, _ in index.steps}
            self.insert(max((k + 1 for k, loop in enumerate(self.chain) if loop in used), default=0), load)
        return self._known[atom]

    def value(self, expr, char):
        """The Value of an expression over windows, computed in the innermost body."""
        values = {atom: self.load(atom) for atom in expr.leaves()}
        if expr.op == "arg" and values[expr.args[0]].char == char:
            return values[expr.args[0]]
        return self.add(ir.Let(L.rewritten(expr, lambda atom: L.arg(values[atom]), L.Expr), char))

    def at(self, atom, positions):
        """Buffer and index of the element of the C-contiguous window `atom` at a flat position."""
        buffer, offset = self.plan.bases[atom.reg]
        number = ir.Index(plus=self.load(positions))
        return buffer, added(moved(offset, atom.offset // ITEMSIZE[atom.char]), number, self.bodies[-1])

    def store(self, atom, value):
        """Store into the element of a window."""
        self.add(ir.Store(self.plan.bases[atom.reg][0], self.index(atom), value))


def arithmetic(expr, char):
    """The type that an expression for `char` is computed in."""
    if expr.is_bool:
        return "?"
    return "d" if char in "df" and any(a.char == "d" for a in expr.leaves()) else char


def _combined(how, total, x):
    """One more element of a reduction, as NumPy does it."""
    if how == "add":
        return total + x
    return total * x if how == "mul" else L.Expr("maximum" if how == "max" else "minimum", (total, x))


class LoopPlanner(MatrixProducts, Planner):
    """Collects the statements of one instruction.

    Parameters
    ----------
    operands : list of ArrayRef or ir.Value
    out : Meta
        The result.
    body : list of ir.Statement
        Receives the statements.
    refusal : int
        Number of the guard that says that the function itself has to answer.
    exact : bool
        Whether zero is absolute where a row says so; else these are plain products.
    """

    compiled = True

    def __init__(self, operands, out, body, refusal=0, exact=False):
        self.out, self.body, self.refusal, self.exact = out, body, refusal, exact
        self.bases = []
        self.operands = [self.sym_of(o) for o in operands]

    # -- registers ----------------------------------------------------------------
    def _base(self, base):
        self.bases.append(base)
        return len(self.bases) - 1

    def sym_of(self, operand):
        """The symbolic array of an ArrayRef or Value."""
        if not isinstance(operand, ArrayRef):
            return self.sym(Atom(self._base(operand), 0, (), (), operand.char))
        if operand.number is not None:
            return Sym(self, operand.shape, operand.char, L.Expr.lift(operand.number))
        item = ITEMSIZE[operand.char]
        reg = self._base((operand.buffer, operand.offset))
        return self.sym(Atom(reg, 0, operand.shape, [s * item for s in operand.strides], operand.char))

    def ref_of(self, atom):
        """The ArrayRef of a window in memory."""
        buffer, offset = self.bases[atom.reg]
        item = ITEMSIZE[atom.char]
        return ArrayRef(buffer, moved(offset, atom.offset // item), atom.shape, tuple(s // item for s in atom.strides), atom.char)

    def is_value(self, atom):
        return isinstance(self.bases[atom.reg], ir.Value)

    def in_memory(self, sym):
        sym = sym.window()
        return self.fresh(sym) if self.is_value(sym.atom) else sym

    def temporary(self, shape, char, zero=False, like=()):
        """A new buffer; returns its window, C-contiguous or laid out as the first of the windows `like` that has every axis."""
        buffer, order = ir.Buffer(ir.TEMPORARY, math.prod(shape), char), memory_order(shape, like)
        strides = dict(zip(order, c_strides([shape[k] for k in order], ITEMSIZE[char])))
        atom = Atom(self._base((buffer, ir.Index())), 0, shape, [strides[axis] for axis in range(len(shape))], char)
        if zero:
            self._filled(atom, 0.0)
        return atom

    def _filled(self, atom, number):
        self.loop([L.Expr.lift(number)], [atom], atom.shape, [None])

    def constant(self, array, char):
        array = np.asarray(array, char, order="C")
        return self.sym_of(whole(ir.Buffer(ir.CONSTANT, array.size, char, data=array.reshape(-1)), array.shape))

    def part(self, atom, shape, strides, offset):
        offset = offset if isinstance(offset, ir.Index) else ir.Index(offset)
        ref = window(self.ref_of(atom), shape, strides, offset, self.body)
        return ref and self.sym_of(ref).atom

    # -- nests ----------------------------------------------------------------------
    def loop(self, exprs, outputs, shape, accumulate):
        if 0 in shape:
            return
        inputs = [atom for expr in exprs for atom in expr.leaves()]
        nest = Nest(self, shape, memory_order(shape, [*outputs, *inputs]))
        for expr, output, how in zip(exprs, outputs, accumulate):
            value = nest.value(expr, arithmetic(expr, output.char))
            if how is not None:
                before = ir.Load(self.bases[output.reg][0], nest.index(output))
                value = nest.add(before, ir.Let(_combined(how, L.arg(before), L.arg(value)), output.char))
            nest.store(output, value)

    # -- what rules ask for ----------------------------------------------------------
    def compute(self, sym, char=None):
        """`sym` computed: a single value, or a buffer of its own."""
        char = char or sym.char
        if sym.size != 1:
            return self.fresh(sym, char)
        value = Nest(self, sym.shape, ()).value(sym.expr, arithmetic(sym.expr, char))
        return self._single(self._as(value, char), sym.shape)

    def _as(self, value, char):
        if value.char != char:
            self.body.append(value := ir.Let(L.arg(value), char))
        return value

    def _single(self, value, shape):
        return self.sym(Atom(self._base(value), 0, shape, (0,) * len(shape), value.char))

    def reduced(self, sym, how, axes, kept, carried=None):
        """`carried` says whether in a value, not in memory (None: if the innermost axis is reduced)."""
        shape = sym.shape
        char = sym.char if sym.char in "df" else self.out.char if self.out.char in "lqLQ" else "d"
        if char not in "df" and how not in ("add", "mul"):
            raise NotLowered(f"{how} over integers has no machine code")
        order = memory_order(shape, sym.expr.leaves())
        inner = [k for k in order if shape[k] != 1]
        if 0 not in shape and math.prod(kept) == 1:
            return self._single(self._as(self._carried(sym, how, axes, char, order, None), char), kept)
        target = self.temporary(kept, char)
        if carried is None:
            carried = bool(inner) and inner[-1] in axes and shape[inner[-1]] > 3
        if carried and 0 not in shape:
            self._carried(sym, how, axes, char, order, target)
        else:
            # The innermost axis stays: rows are added up in memory.
            self._filled(target, IDENTITY[how])
            window = Atom(target.reg, 0, shape, [0 if k in axes else s for k, s in enumerate(target.strides)], char)
            self.loop([sym.expr], [window], shape, [how])
        return self.sym(target)

    def _carried(self, sym, how, axes, char, order, target):
        """Reduce with carried values, in loops inside those of the axes that stay; store in `target`."""
        shape = sym.shape
        nest = Nest(self, shape, [k for k in order if k not in axes] + [k for k in order if k in axes])
        wide = "d" if char == "f" and how in ("add", "mul") else char
        depth = sum(1 for k, n in enumerate(shape) if n != 1 and k not in axes)
        before = ir.constant(IDENTITY[how], wide)
        nest.insert(depth, before)
        for loop in nest.chain[depth:]:
            before = ir.Carry(before, reorder=True)
            loop.carries.append(before)
        value = nest.value(sym.expr, arithmetic(sym.expr, wide))
        total = nest.add(ir.Let(_combined(how, L.arg(before), L.arg(value)), wide))
        for loop in nest.chain[depth:]:
            loop.carries[-1].next = total
        if target is not None:
            nest.bodies[depth].append(ir.Store(self.bases[target.reg][0], nest.index(target), total))
        return total

    def scanned(self, sym, axis, how):
        return self._along(sym, None, axis, IDENTITY[how], lambda before, x, _: _combined(how, before, x))

    def recurred(self, sym, factors, axis, lag):
        times = L.absolute_product if self.exact else operator.mul

        def lagging(before, x, f):
            # Carried is the factor times what came before.
            return (x + before) if f is None else times(x + before, f)

        return self._along(sym, factors, axis, 0.0, lagging if lag else lambda before, x, f: x + times(f, before), after=lag)

    def _along(self, sym, factors, axis, start, step, after=False):
        """A scan along one axis: carried in a value if that axis is the last, else in a row in memory.

        `step` makes what is carried; with `after`, what is stored is the step without its factor.
        """
        shape, char = sym.shape, sym.char
        atoms = [*sym.expr.leaves(), *(factors.expr.leaves() if factors is not None else ())]
        out = self.temporary(shape, char, like=atoms)
        if 0 in shape:
            return self.sym(out)
        order = [k for k in memory_order(shape, atoms) if shape[k] != 1]
        alone, last = shape[axis] == 1, bool(order) and order[-1] == axis
        row = None
        if not last and not alone:
            kept = [1 if k == axis else n for k, n in enumerate(shape)]
            row = self.temporary(kept, char)
            self._filled(row, start)
        nest = Nest(self, shape, order)
        if row is not None:
            before = nest.add(ir.Load(self.bases[row.reg][0], nest.index(row)))
        else:
            before = ir.constant(start, char)
            nest.insert(len(nest.chain) - last, before)
            if last:
                before = ir.Carry(before)
                nest.chain[-1].carries.append(before)
        x = L.arg(nest.value(sym.expr, char))
        f = None if factors is None else L.arg(nest.value(factors.expr, char))
        total = carried = nest.add(ir.Let(step(L.arg(before), x, None if after else f), char))
        if after:
            carried = nest.add(ir.Let(step(L.arg(before), x, f), char))
        if row is not None:
            nest.store(row, carried)
        elif last:
            before.next = carried
        nest.store(out, total)
        return self.sym(out)

    # -- positions -------------------------------------------------------------------
    def _positions(self, index, shape):
        atom = self.in_memory(index).reshape(shape).atom
        require(atom.char in "lqiLQI", f"positions are of dtype {atom.char!r}")
        return atom

    def ordered(self, sym):
        """`sym` in memory, in C order without gaps."""
        sym = self.in_memory(sym)
        return sym if sym.atom.contiguous else self.fresh(sym)

    def gather(self, sym, index, shape):
        shape = tuple(shape)
        source = self.ordered(sym).atom
        positions = self._positions(index, shape)
        single = math.prod(shape) == 1
        out = None if single else self.temporary(shape, sym.char)
        if 0 in shape:
            return self.sym(out)
        nest = Nest(self, shape, range(len(shape)))
        load = nest.add(ir.Load(*nest.at(source, positions)))
        if single:
            return self._single(load, shape)
        nest.store(out, load)
        return self.sym(out)

    def write_at(self, source, index, target, add):
        shape = source.shape if source.size == index.size else index.shape
        if 0 in shape:
            return
        positions = self._positions(index, shape)
        nest = Nest(self, shape, range(len(shape)))
        value = nest.value(source.expr, arithmetic(source.expr, target.char))
        buffer, at = nest.at(target, positions)
        if add:
            before = ir.Load(buffer, at)
            value = nest.add(before, ir.Let(L.arg(before) + L.arg(value), target.char))
        nest.add(ir.Store(buffer, at, value))

    # -- windows ----------------------------------------------------------------------
    #: The destination of a first operand that is to be changed, an ArrayRef; None: a new buffer.
    room = None

    def changed(self, sym):
        room, self.room = self.room, None
        if room is None:
            return self.fresh(sym)
        self._store(sym, room)
        return self.sym_of(room)

    def placed(self, sym, shape, strides, offset):
        if not distinct(sym.shape, strides):
            return super().placed(sym, shape, strides, offset)
        whole = self.temporary(shape, sym.char)
        for start, count in around(sym.shape, strides, offset, whole.size):
            self._filled(self.part(whole, (count,), (1,), start), 0.0)
        self.loop([sym.expr], [self.part(whole, sym.shape, strides, offset)], sym.shape, [None])
        return self.sym(whole)

    # -- the instruction ------------------------------------------------------------------
    def row(self, row, attrs, target):
        """The value of a row."""
        operands, out = self.operands, self.out
        if not row.elementwise:
            self.eager = ELEMENTARY
        elif out.char not in "df" and not all(map(ir.integral, L.nodes(row.expr(*operands).expr))):
            return self.called(partial(row.value, **attrs), target, name=row.name)
        if row.name in DRIVEN:
            return self.deliver(self.looped(row, operands, attrs["program"]), target)
        value = row.computed(operands, Sym(self, out.shape, out.char, L.Expr.lift(0.0)), attrs)
        if value is None:
            if row.dynamic:
                raise NotLowered(f"{row.name} is computed by calling NumPy")
            return self.called(partial(row.value, **attrs), target, name=row.name)
        return self.deliver(self.copied(value, target) if row.elementwise else value, target)

    def copied(self, sym, target):
        """`sym`; if it is an operand, and would be the result as it is, a copy, which stays what it is when the operand is written to."""
        alone = sym.atom is not None and target is None and self.out.shape and sym.atom.reg in [o.atom.reg for o in self.operands if o.atom is not None]
        return self.fresh(sym.broadcast_to(self.out.shape)) if alone else sym

    def deliver(self, sym, target):
        """`sym` as the result: an ArrayRef or Value, written to `target` if there is one."""
        out = self.out
        if not isinstance(sym, Sym):
            sym = Sym(self, (), out.char, L.Expr.lift(float(sym)))
        if sym.shape != out.shape:
            sym = sym.reshape(out.shape) if sym.size == 1 and sym.ndim > len(out.shape) else sym.broadcast_to(out.shape)
        if target is None and out.shape == ():
            value = self.compute(sym, out.char) if sym.char != out.char or sym.atom is None else sym
            if self.is_value(value.atom):
                return self.bases[value.atom.reg]
            ref = self.ref_of(value.atom)
            self.body.append(load := ir.Load(ref.buffer, ref.offset))
            return load
        atom = sym.atom
        if target is None:
            if atom is None or atom.char != out.char or self.is_value(atom):
                atom = self.temporary(out.shape, out.char, like=sym.expr.leaves())
                self.loop([sym.expr], [atom], out.shape, [None])
            return self.ref_of(atom)
        self._store(sym, target)
        return target

    def _store(self, sym, target):
        atom = self.sym_of(target).atom
        if 0 in target.shape or sym.atom is not None and not self.is_value(sym.atom) and here(self.ref_of(sym.atom), target):
            return
        if sym.shape != target.shape:
            # A value goes to an array of one element.
            atom = Atom(atom.reg, 0, sym.shape, (0,) * sym.ndim, atom.char)
        self.loop([sym.expr], [atom], sym.shape, [None])

    def demand(self, condition):
        """A guard that a condition holds in every element, tested before going on."""
        self.demand_zero(L.select(condition, 0.0, 1.0), True)

    def demanded(self, done):
        self.demand(L.eq(done, 1.0))

    def demand_zero(self, sym, early=False):
        """A guard that all elements add up to zero: those of ``x * 0.0``, for one, if they are finite."""
        holds = self.compute(L.eq(sym.sum(), 0.0))
        self.body.append(ir.Guard(self.refusal, self.bases[holds.atom.reg], True, early))


def around(shape, strides, at, size):
    """The elements that a window leaves out, and maybe some of its own: (first position, number)."""
    count = math.prod(shape)
    dense = contiguous(shape, strides, 1)
    if isinstance(at, ir.Index):
        dense = dense and at.plus is None and not at.steps
        at = at.base
    if not count or not dense:
        return [(0, size)] if count < size else []
    return [(start, n) for start, n in ((0, at), (at + count, size - at - count)) if n]
