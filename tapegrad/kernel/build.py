"""From a rolled tape to a `LoopProgram`.

The references (`references`) say what every operand is; here they become
values.  The tree is walked in the order of execution: a template gives one
`Let` (scalar instructions), a `Guard`, or what `arrays` makes of it; a loop gets
its `Carry` objects before its body is walked, and their `next` after.

A template whose value is read in other iterations, or in other loops, stores it
in its *spill buffer* at the position of its execution number.

A stored template has one element (an array: one row) for each execution.  Homes
that one operand reads in turn are parts of one buffer, a *pool*; what the operand
reads from outside lies before them, copied at the beginning.  Of ``a, b = u, v`` and then five times
``a, b = b, f(a)`` the operand of f reads u, v, and then what f gave two iterations ago::

    element    0    1    2     3     4     5     6          f in iteration i reads element i, and stores element i + 2
    t0         u    v    f(u)  f(v)  ...
               copied    the spill buffer of f

Without the pool its first two reads and the others would be different operands, and the loop could not be one.
`lay_out`, which comes first, lays out pools and spill buffers.
"""

import math
from itertools import pairwise

import numpy as np

from ..common.waiting import give_way
from ..interpreter.planner import contiguous
from ..program.executable import described
from ..program.trace import FAILS, GUARD, HOST, SHAPE
from ..rules import BY_NAME, by_opcode
from ..rules import lang as L
from ..tape.layout import SCALAR, meta_of
from . import ir
from .arrays import Arrays, as_seen
from .arrays_planner import expression_of
from .columns import ARGUMENT, ARRAY, ENTRIES, distinct, joined
from .ir import ArrayRef, whole, without_table
from .nest import LoopNode
from .reasons import NotLowered
from .references import Carried, Direct, Gathered, Number, Outside, Phi, References, Spilled

_WHERE = BY_NAME["where"]
#: Elements of an array of which parts are handed out as they are: fewer are copied sooner.
LARGE = 1 << 13


def build(columns, structure, views=False):
    """The loop program of a rolled tape.

    Parameters
    ----------
    columns : Columns
    structure : roll.structure.RolledStructure
    views : bool
        As of `kernel.lower`.

    Returns
    -------
    LoopProgram

    Raises
    ------
    NotLowered
        Some instruction cannot be machine code.
    """
    return Builder(columns, References(columns, structure).resolve()).run(views)


class _Block:
    """The statements of one body, and the loads made for it so far."""

    def __init__(self, body, statements):
        self.body, self.statements = body, statements
        self.known = {}


class Builder:
    """Builds one program; see the module's text."""

    def __init__(self, columns, references):
        self.columns, self.references = columns, references
        self.tape, self.tables = columns.tape, references.tables
        self.arrays = Arrays(len(self.tape.guards), self.tape.failing if self.tape.of_iteration else None)
        self.slot = 0
        outputs = enumerate(map(described, self.tape.outputs))
        self.outputs = [ir.Buffer(ir.OUTPUT, math.prod(shape), char, k) for k, (shape, char) in outputs]
        for storage in references.storages:
            meta = self.meta(storage.templates[0])
            storage.array = whole(ir.Buffer(ir.TEMPORARY, meta.size, meta.char), meta.shape)
            for t in storage.templates:
                t.value = storage.array
        self.blocks = [_Block(references.root, [])]

    def run(self, views=False):
        """The program."""
        lay_out(self)
        self._fill(self.references.root)
        parts = self._views() if views else {}
        for k, (target, (slot, what)) in enumerate(zip(self.outputs, self.tape.outputs)):
            self.slot = slot
            if k in parts:
                target.size = 0
            elif slot or target.size:
                value = self._result(slot) if slot else self.arrays.constant(np.asarray(what))
                self.bring(value, whole(target, value.shape if isinstance(value, ArrayRef) else ()))
        return ir.LoopProgram(self.references.inputs, self.outputs, self.blocks[0].statements, len(self.tape.guards), parts)

    # -- the tree ---------------------------------------------------------------------
    def _fill(self, body):
        for node in body.nodes:
            for storage, what in body.copies.get(node.position, ()):
                self.bring(self.value(what), storage.array)
            if isinstance(node, LoopNode):
                self._loop(node)
                continue
            self.slot = int(self.columns.slots[node.members[0]])
            try:
                (self._scalar if self.columns.code[node.members[0]] < ENTRIES else self._entry)(node)
            except NotLowered as reason:
                raise NotLowered(reason.what, self.tape.place(self.slot)) from None
            give_way()

    def _loop(self, level):
        outer, loop = self.blocks[-1], level.loop
        if level.ragged:
            loop.which = level.parent.index(level.parent.execution_number, self.tables)
        for what in level.carries:
            level.carries[what] = ir.Carry(self._executed(self.value(what.init)))
        self.blocks.append(_Block(level.body, loop.body))
        self._fill(level.body)
        self.blocks.pop()
        for what, carry in level.carries.items():
            carry.next = what.template.value
            loop.carries.append(carry)
        outer.statements.append(loop)

    def _scalar(self, t):
        row = by_opcode(int(self.columns.code[t.members[0]]) >> 2)
        self._computed(t, row.expr(*[self.expression(what) for what in t.operands]), "d")

    def _computed(self, t, expr, char):
        t.value = self._add(ir.Let(L.Expr.lift(expr), char))
        self._keep(t)

    def _keep(self, t):
        """Bring the value of `t` to its spill buffer."""
        if t.stored:
            spot = self._row_of(t, t.body.execution_number)
            self._add(ir.Store(t.spill, t.body.index(spot, self.tables), t.value))

    def _add(self, *statements):
        """Append to the innermost block; returns the last statement."""
        for statement in ir.walk(statements):
            statement.slot = self.slot
        self.blocks[-1].statements.extend(statements)
        return statements[-1] if statements else None

    # -- entries ------------------------------------------------------------------------
    def _entry(self, t):
        item = self.item(t)
        entry = item.entry
        if entry.kind == GUARD:
            self._guard(t, item)
            return
        if type(t.operands[0]) is Gathered:
            t.value = self._target(t) or whole(ir.Buffer(ir.TEMPORARY, entry.meta.size, entry.meta.char), entry.meta.shape)
            self.copy(t.operands[0], t.value.buffer, t.value.offset.base)
            return
        operands = [self.value(what) for what in t.operands]
        expression = _expression(entry, operands)
        if expression is not None:
            self._computed(t, expression(*[self._argument(v) for v in operands]), entry.meta.char)
            return
        operands = [self._executed(value) for value in operands]
        integer = None
        if entry.kind != HOST and entry.function.dynamic:
            integer = t.body.index(t.body.fit(self.columns.integer[t.members], self.tables), self.tables)
        target, reuse = self._target(t), ()
        if t.storage is not None and t in t.storage.writes:
            operands[0], target, reuse = target, None, (0,)
        statements, t.value = self.arrays.emit(item, operands, target=target, integer=integer, reuse=reuse)
        self._add(*statements)
        if entry.meta.shape == ():
            self._keep(t)

    def item(self, t):
        """The first entry for which `t` stands."""
        return self.tape.items[self.columns.item[t.members[0]]]

    def _target(self, t):
        """The required place of the array that `t` computes, or None."""
        meta = self.meta(t)
        if t.storage is not None:
            return t.storage.array
        if not t.stored or meta.shape == ():
            return None
        return whole(t.spill, meta.shape, t.body.index(self._row_of(t, t.body.execution_number), self.tables))

    def _guard(self, t, item):
        how, columns = item.entry.function, self.columns
        if how in (SHAPE, FAILS):
            # What has machine code has one shape only; what may fail is looked at where it is computed.
            return
        value = self._executed(self.value(t.operands[0]))
        if how == "bool" and isinstance(value, ArrayRef):
            # An array of one element.
            value = self._add(ir.Load(value.buffer, without_table(value.offset, self.blocks[-1].statements)))
        numbers = t.body.fit(columns.integer[t.members], self.tables)
        number = t.body.index(numbers, self.tables) if numbers.steps else numbers.base
        if how == "bool":
            if value.char != "?":
                value = self._add(ir.Let(L.ne(L.arg(value), 0.0), "?"))
            self._add(ir.Guard(number, value, bool(item.entry.seen[0])))
            return
        seen = [self.tape.items[k].entry.seen for k in columns.item[t.members].tolist()]
        always = all(s == seen[0] for s in seen)
        if not isinstance(value, ArrayRef):
            data = self.references.constant(np.frombuffer(seen[0] if always else b"".join(seen), np.dtype(value.char)))
            before = ir.Load(data, ir.Index() if always else t.body.index(t.body.execution_number, self.tables))
            holds = ir.Let(as_seen(L.arg(value), L.arg(before), value.char), "?")
            self._add(before, holds, ir.Guard(number, holds, True))
        elif always:
            statements, holds = self.arrays.same(value, seen[0])
            self._add(*statements, ir.Guard(number, holds, True))
        else:
            raise NotLowered(f"{how}, which saw another array in each iteration")

    # -- values -------------------------------------------------------------------------
    def meta(self, t):
        """Description of the value of `t`."""
        return self.tape.metas[self.columns.slots[t.members[0]]]

    def meta_of_owner(self, number):
        """Description of what template `number` computes; below 0, of the reference from outside."""
        if number >= 0:
            return self.meta(self.references.templates[number])
        columns, k = self.columns, -1 - number
        if columns.kind[k] == ARGUMENT:
            return self.tape.inputs[columns.which[k]]
        return meta_of(self.tape.constants[columns.which[k]]) if columns.kind[k] == ARRAY else SCALAR

    def expression(self, what):
        """A described scalar as an expression."""
        return L.Expr("const", (what.value,)) if type(what) is Number else L.arg(self.value(what))

    def value(self, what):
        """A described operand as a Value or ArrayRef; loads go where they are made least often."""
        kind = type(what)
        if kind is Direct:
            return what.template.value
        if kind is Carried:
            return what.level.carries[what]
        if kind is Number:
            return ir.constant(what.value)
        if kind is Outside:
            k = -1 - what.reference
            which = int(self.columns.which[k])
            if self.columns.kind[k] == ARRAY:
                return self.arrays.constant(self.tape.constants[which])
            return whole(self.references.inputs[which], self.tape.inputs[which].shape)
        block = self.blocks[self._depth(what)]
        if what not in block.known:
            block.known[what] = self._loaded(what, block)
        return block.known[what]

    def _loaded(self, what, block):
        if type(what) is Spilled:
            t = what.template
            buffer, spot, shape = t.spill, self._row_of(t, what.spot), self.meta(t).shape
        else:
            buffer, spot, shape = what.buffer, what.spot, what.shape
        index = block.body.index(spot, self.tables)
        if shape != ():
            return whole(buffer, shape, index)
        load = ir.Load(buffer, index)
        load.slot = self.slot
        block.statements.append(load)
        return load

    def _depth(self, what):
        """The number of enclosing loops that a load depends on."""
        levels, spot = self.blocks[-1].body.levels, what.spot
        used = max((depth + 1 for depth, _ in spot.steps), default=0)
        kind = type(what)
        if kind is Spilled or kind is Phi:
            owners = [what.template] if kind is Spilled else [self.references.templates[n] for n in distinct(what.owners[what.owners >= 0])]
            for depth in range(len(levels), used, -1):
                if any(levels[depth - 1] in t.body.levels for t in owners):
                    return depth
        return used

    def _row_of(self, t, spot):
        """The element of its spill buffer at which execution number `spot` of `t` begins."""
        return spot.scaled(self.meta(t).size, t.offset, self.tables)

    def _executed(self, value):
        """`value`; a constant, which may stand nowhere yet, is executed here."""
        return self._add(ir.Let(value.expr, value.char)) if type(value) is ir.Let and value.expr.is_const else value

    def _argument(self, value):
        """A Value as part of an expression."""
        return value.expr if type(value) is ir.Let and value.expr.is_const else L.arg(self._executed(value))

    # -- copies and outputs ---------------------------------------------------------------
    def copy(self, gathered, buffer, base):
        """Copy scalars side by side to `buffer`, from element `base` on."""
        for level, what, spot in gathered:
            if level is not None:
                self.blocks.append(_Block(level.body, level.loop.body))
            index = self.blocks[-1].body.index(spot.scaled(1, base, self.tables), self.tables)
            self._add(ir.Store(buffer, index, self._executed(self.value(what))))
            if level is not None:
                self.blocks.pop()
                self._add(level.loop)

    def bring(self, value, target):
        """Copy an array or a value to an ArrayRef."""
        if isinstance(value, ArrayRef):
            self._add(*self.arrays.copied(value, target))
        else:
            self._add(ir.Store(target.buffer, target.offset, self._executed(value)))

    def _views(self):
        """Outputs that are apart in a large array which something called has written, and most of it: it is handed out as a whole."""
        called = {b for s in self.blocks[0].statements if isinstance(s, ir.Run) for b in s.writes if b.size >= LARGE}
        found = {}
        for k, (slot, _) in enumerate(self.tape.outputs):
            value = self._result(slot) if slot else None
            if isinstance(value, ArrayRef) and value.buffer in called and value.offset.same(ir.Index(value.offset.base)):
                if contiguous(value.shape, value.strides, 1):
                    found.setdefault(value.buffer, []).append((value.offset.base, value.offset.base + value.size, k, value.shape))
        parts = {}
        for buffer, places in found.items():
            places.sort()
            if all(one[1] <= other[0] for one, other in pairwise(places)) and 2 * sum(end - begin for begin, end, *_ in places) >= buffer.size:
                buffer.role, buffer.number = ir.OUTPUT, len(self.outputs)
                self.outputs.append(buffer)
                parts |= {k: (buffer.number, slice(begin, end), shape) for begin, end, k, shape in places}
        return parts

    def _result(self, slot):
        return self.value(self.references.single(int(self.columns.reference[slot])))


def _expression(entry, operands):
    """The function of expressions that an entry is, if it is one over scalars of one floating type."""
    function, out, chars = entry.function, entry.meta.char, {v.char for v in operands}
    if entry.meta.shape != () or any(isinstance(v, ArrayRef) for v in operands):
        return None
    if entry.kind == HOST:
        return expression_of(function.ufunc, chars, out) if function.ufunc is not None and chars in ({"d"}, {"f"}) else None
    same = (chars - {"?"} if function is _WHERE else chars) == {out}
    return function.expr if function.elementwise and out in "df" and same else None


def lay_out(builder):
    """Give every stored template its spill buffer, and every `Phi` its spot.

    Parameters
    ----------
    builder : build._Builder
        Its program gets the copies of what pools hold from outside.
    """
    references = builder.references
    owned = {what: distinct(what.owners) for what in references.pooled}
    offsets, buffers = {}, {}
    for members in joined(owners.tolist() for owners in owned.values()):
        buffers |= dict.fromkeys(members, _pool(builder, members, offsets))
    for t in references.templates:
        if t.stored and t.spill is None:
            meta = builder.meta(t)
            t.spill = ir.Buffer(ir.TEMPORARY, len(t.members) * meta.size, meta.char)
    for what, owners in owned.items():
        # All of them have one description, and any may be from outside.
        meta, what.buffer = builder.meta_of_owner(int(owners[0])), buffers[int(owners[0])]
        bases = np.array([offsets[number] for number in owners.tolist()], np.int64)
        elements = bases[np.searchsorted(owners, what.owners)] + what.ranks * meta.size
        what.shape, what.spot = meta.shape, what.body.fit(elements, references.tables)


def _pool(builder, members, offsets):
    """One buffer for the templates and outside references `members`, ascending."""
    references, kind = builder.references, builder.columns.kind
    meta = builder.meta_of_owner(members[0])
    buffer = ir.Buffer(ir.TEMPORARY, 0, meta.char)
    outside = [number for number in reversed(members) if number < 0]
    arrays = [number for number in outside if kind[-1 - number] in (ARGUMENT, ARRAY)]
    scalars = [number for number in outside if kind[-1 - number] not in (ARGUMENT, ARRAY)]
    for number in scalars + arrays:
        offsets[number] = buffer.size
        buffer.size += meta.size
    for t in [references.templates[number] for number in members if number >= 0]:
        t.spill, t.offset = buffer, buffer.size
        offsets[t.number] = buffer.size
        buffer.size += len(t.members) * meta.size
    for number in arrays:
        builder.bring(builder.value(references.single(number)), whole(buffer, meta.shape, ir.Index(offsets[number])))
    if scalars:
        builder.copy(references.gathered(np.array(scalars, np.int64), references.root, 0, -1), buffer, 0)
    return buffer
