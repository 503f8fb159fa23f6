"""One piece of a loop program as an LLVM function.

``i1 piece(ptr inputs, ptr outputs, ptr workspace)``: whether the kernel has to end,
because an early guard failed.

Loops are tested at their end.  Counters and carried values are phis, and the
least number of the guards that failed becomes one: it is a minimum without a branch, so that
loops with guards are still vectorised.  Every buffer has a type of its own in
LLVM's type-based alias analysis, which says that no two of them overlap: within
a piece that is so (see `kernel.cut`), and memory used again is used again in
another function, to which LLVM moves nothing.
"""

import re

import numpy as np
from llvmlite import ir

from ..codegen.emit import I1, I8, I32, I64, MEMORY, REGISTER, Emitter, convert
from ..codegen.library import needs_symbols
from ..codegen.memory import spread_address
from ..codegen.symbols import define
from ..common.errors import require
from ..common.waiting import give_way
from ..interpreter.native import run_address
from . import ir as K
from .cut import CutLoop, aligned, is_number
from .ir import Let, arithmetic, nodes
from .spreading import NEUTRAL, operations_of

POINTER = ir.PointerType()


def number(value, char):
    """A constant of type `char`."""
    if char in "df":
        return ir.Constant(REGISTER[char], float(value))
    return ir.Constant(REGISTER[char], bool(value) if char == "?" else int(value))


class LetEmitter(Emitter):
    """Expressions of a `Let`.

    Parameters
    ----------
    piece : PieceEmitter
    char : str
        In what it computes: 'd', 'f' or 'q'.
    """

    def __init__(self, piece, char):
        super().__init__(piece.b, self._own, REGISTER[char])
        self.piece, self.char = piece, char

    def _own(self, value):
        register = self.piece.value(value)
        return register if value.char == "?" else convert(self.b, register, value.char, self.char)

    def flags(self, expr):
        shared = self.piece.shared
        return shared.always if id(expr) not in shared.reordered else tuple(dict.fromkeys(("reassoc", *shared.always)))


def reordered_nodes(carries):
    """Ids of the operations that make, of carries that may be reordered, what they become."""
    ids = set()
    for carry in carries:
        # Of one that goes on in an inner loop, that loop's carry has the operation.
        if carry.reorder and isinstance(carry.next, Let):
            made = [node for node in nodes(carry.next.expr) if node.op not in ("arg", "const")]
            ids.update(id(node) for node in made if any(arg.op == "arg" and arg.args[0] is carry for arg in node.args))
    return ids


PIECE = ir.FunctionType(I1, [POINTER] * 3)
CHUNK = ir.FunctionType(ir.VoidType(), [*[POINTER] * 3, I64])
#: No guard has failed; greater than any number of a guard.
NONE = ir.Constant(I32, 2**31 - 1)
#: In programs larger than `_SMALL` loops of more iterations than these are not unrolled (without, and with sums that may be
#: reordered): that halves the time of compilation.
_SMALL, _UNROLLED = 150, (8, 256)
#: Extents of loops that are unrolled once they are vectors, and operations of these. (Up to 15 LLVM would mask the last elements, and what
#: a masked store has written has to reach memory before it can be loaded.)
_SHORT, _SIMPLE = range(4, 65), K.CHEAP | {"mul0", "div"}


def const(value):
    return ir.Constant(I64, value)


def repeat(b, first, last, begins, body):
    """Emit a loop from `first` on to before `last`, which is tested at its end; the builder stands behind it then.

    ``body(counter, *carried)`` emits an iteration and gives what is carried to the next one.  Returns the branch back, and that.
    """
    before, head, after = b.block, b.function.append_basic_block("loop"), b.function.append_basic_block("after")
    b.branch(head)
    b.position_at_end(head)
    phis = [b.phi(begin.type) for begin in (first, *begins)]
    carried = body(*phis)
    following = b.add(phis[0], const(1), flags=("nuw", "nsw"))
    for phi, begin, value in zip(phis, (first, *begins), (following, *carried)):
        phi.add_incoming(begin, before)
        phi.add_incoming(value, b.block)
    again = b.cbranch(b.icmp_signed("<", following, last), head, after)
    b.position_at_end(after)
    return again, carried


class Shared:
    """What the pieces of one module share.

    Attributes
    ----------
    tables : dict of str to ndarray
        The arrays that the code reads, by the names that stand for their addresses in it.
    """

    def __init__(self, module, program, plan, options, size):
        self.module, self.plan, self.options, self.refusal = module, plan, options, program.guards
        self.tables, self._tags, self._addresses = {}, {}, {}
        self._root = module.add_metadata(["tapegrad kernel"])
        self.nothing = module.add_metadata([])
        self.loops = 0
        self.large = size > _SMALL
        self.always = ("contract", "reassoc") if options.fastmath else ()
        self.reordered = reordered_nodes([c for s in K.walk(program.body) if isinstance(s, K.Loop) for c in s.carries])

    def not_unrolled(self, parts):
        """Metadata of a loop that is not to be unrolled, but vectorised in so many parts."""
        return self._loop(["llvm.loop.unroll.disable"], ["llvm.loop.interleave.count", ir.Constant(I32, parts)])

    def vectorised(self):
        """Metadata of a short loop that is vectorised as a long one is."""
        then = self.module.add_metadata(["llvm.loop.unroll.full"])
        return self._loop(["llvm.loop.unroll.disable"], ["llvm.loop.vectorize.enable", I1(1)], ["llvm.loop.vectorize.followup_all", then])

    def _loop(self, *wishes):
        """Metadata of a loop; `loop_names` completes it."""
        self.loops += 1
        return self.module.add_metadata([f"loop {self.loops}", *map(self.module.add_metadata, wishes)])

    def tag(self, key):
        """Access tag for what overlaps nothing else."""
        if key not in self._tags:
            kind = self.module.add_metadata([f"m{len(self._tags)}", self._root, const(0)])
            self._tags[key] = self.module.add_metadata([kind, kind, const(0)])
        return self._tags[key]

    def address(self, array):
        """Address of a constant array, which is kept as long as the code; and the array."""
        if id(array) not in self._addresses:
            kept, name = np.ascontiguousarray(array), f"table{len(self.tables)}"
            self.tables[name] = kept
            place = ir.GlobalVariable(self.module, ir.ArrayType(I8, kept.nbytes), name)
            self._addresses[id(array)] = place, kept, array
        return self._addresses[id(array)][:2]

    def outside(self, name, address, result, arguments):
        """A function that is no part of the code."""
        define(name, address)
        return self.module.globals.get(name) or ir.Function(self.module, ir.FunctionType(result, arguments), name)

    def call(self, b, piece, stop, apart=True):
        """Call a piece, in code of its own if it stands apart; if it ends early, go on at the block `stop`."""
        function = PieceEmitter(self, piece).function
        if apart:
            function.attributes.add("noinline")
        ended = b.call(function, b.function.args)
        if piece.stops:
            on = b.function.append_basic_block("on")
            b.cbranch(ended, stop, on)
            b.position_at_end(on)


def loop_names(text, loops):
    """The text of a module in which the metadata of its loops refer to themselves, as LLVM wants it and llvmlite cannot write it."""
    text, named = re.subn(r'^!(\d+) = !\{ !"loop \d+",', r"!\1 = distinct !{ !\1,", text, flags=re.MULTILINE)
    require(named == loops, "llvmlite writes the metadata of loops in another form")
    return text


def _vectorised(loop):
    """Whether LLVM is told to make vectors of a short loop, which it must be able to: it warns of those that it cannot."""
    if loop.ragged or loop.extent not in _SHORT or not all(isinstance(s, (K.Load, K.Let, K.Store)) for s in loop.body):
        return False
    written = {s.buffer: s.index for s in loop.body if isinstance(s, K.Store)}
    for statement in loop.body:
        if isinstance(statement, K.Let):
            simple = statement.char in "df?" and _SIMPLE.issuperset(node.op for node in K.nodes(statement.expr))
        else:
            # What is written is touched in one iteration only.
            index, step = statement.index, dict(statement.index.steps).get(loop, 0)
            simple = index.table is None and index.plus is None
            simple = simple and (step == 1 and index.same(written[statement.buffer]) if statement.buffer in written else step in (0, 1))
        if not simple:
            return False
    operations = operations_of(loop)
    return operations is not None and {"add"}.issuperset(operations)


def _loads_first(body):
    """The statements of such a loop in an order in which an element that the next iteration reads, too, is loaded before anything is stored.

    LLVM carries it from iteration to iteration then, and still makes vectors.
    """
    written = {s.buffer for s in body if isinstance(s, K.Store)}
    return sorted(body, key=lambda s: not isinstance(s, K.Load) or s.buffer in written)


class PieceEmitter:
    """Emits `piece`; the function is `function`."""

    def __init__(self, shared, piece, kind=PIECE):
        self.shared, self.piece, self.plan = shared, piece, shared.plan
        self.function = ir.Function(shared.module, kind, shared.module.get_unique_name("piece"))
        self.function.linkage = "internal"
        self.inputs, self.outputs, self.workspace = self.function.args[:3]
        self.entry = self.function.append_basic_block("entry")
        body = self.function.append_basic_block("body")
        self.b = ir.IRBuilder(body)
        self.values, self.counters, self.bases, self.pending = {}, {}, {}, []
        self.failed, self.depth, self.stop = None, 0, None
        if piece.stops:
            self.stop = self.function.append_basic_block("stop")
            ir.IRBuilder(self.stop).ret(ir.Constant(I1, 1))
        self._statements()
        ir.IRBuilder(self.entry).branch(body)

    def _statements(self):
        if self.piece.guards:
            self.failed = ir.IRBuilder(self.entry).alloca(I32)
            self._guards_from_memory()
        for item in self.piece.items:
            if not isinstance(item, CutLoop):
                self.statement(item)
            elif item.spread:
                self._spread(item)
            else:
                self.Loop(item.loop, item.pieces)
        if self.piece.guards:
            self._guards_to_memory()
        self.b.ret(ir.Constant(I1, 0))

    # -- memory -------------------------------------------------------------------
    def _load(self, address, char, tag, invariant=False):
        """A number of a dtype in memory, in a register."""
        value = self.b.load(address, typ=MEMORY[char])
        value.set_metadata("tbaa", self.shared.tag(tag))
        if invariant:
            value.set_metadata("invariant.load", self.shared.nothing)
        return self.b.icmp_unsigned("!=", value, ir.Constant(I8, 0)) if char == "?" else value

    def _store(self, value, address, tag):
        value = self.b.zext(value, I8) if value.type == I1 else value
        self.b.store(value, address).set_metadata("tbaa", self.shared.tag(tag))

    def _guards_from_memory(self):
        self.b.store(self._load(self.workspace, "i", "guards"), self.failed)

    def _guards_to_memory(self):
        self._store(self.b.load(self.failed), self.workspace, "guards")

    def _at(self, offset):
        return self.b.gep(self.workspace, [const(offset)], inbounds=True, source_etype=I8)

    def _word(self, key):
        return self._at(self.plan.slots[key])

    def base(self, buffer):
        """Where a buffer begins; loaded once, at the entry."""
        address = self.bases.get(id(buffer))
        if address is None:
            if buffer.role == K.CONSTANT:
                address = self.shared.address(buffer.data)[0]
            else:
                b = ir.IRBuilder(self.entry)
                if buffer.role == K.TEMPORARY:
                    address = b.gep(self.workspace, [const(self.plan.offsets[id(buffer)])], inbounds=True, source_etype=I8)
                else:
                    table = self.inputs if buffer.role == K.INPUT else self.outputs
                    address = b.load(b.gep(table, [const(buffer.number)], inbounds=True, source_etype=POINTER), typ=POINTER)
                    address.set_metadata("invariant.load", self.shared.nothing)
            self.bases[id(buffer)] = address
        return address

    def position(self, index):
        """The integer that an index names."""
        b, total = self.b, None
        for loop, step in index.steps:
            term = self.counter(loop)
            if step != 1:
                term = b.mul(term, const(step), flags=("nsw",))
            total = term if total is None else b.add(total, term, flags=("nsw",))
        if total is None:
            total = const(index.base)
        elif index.base:
            total = b.add(total, const(index.base), flags=("nsw",))
        if index.table is not None:
            address, kept = self.shared.address(index.table)
            if isinstance(total, ir.Constant):
                total = const(int(kept[total.constant]))
            else:
                entry = b.gep(address, [total], inbounds=True, source_etype=MEMORY[kept.dtype.char])
                total = convert(b, self._load(entry, kept.dtype.char, "tables", True), kept.dtype.char, "q")
        if index.plus is None:
            return total
        more = convert(b, self.value(index.plus), index.plus.char, "q")
        return more if isinstance(total, ir.Constant) and total.constant == 0 else b.add(total, more, flags=("nsw",))

    def element(self, buffer, index):
        return self.b.gep(self.base(buffer), [self.position(index)], inbounds=True, source_etype=MEMORY[buffer.char])

    # -- what crosses between pieces ----------------------------------------------
    def value(self, value):
        """A value in a register."""
        if id(value) not in self.values:
            there = is_number(value)
            self.values[id(value)] = number(value.expr.args[0], value.char) if there else self._load(self._word(id(value)), value.char, "words")
        return self.values[id(value)]

    def counter(self, loop):
        if id(loop) not in self.counters:
            self.counters[id(loop)] = self._load(self._word(id(loop)), "q", "words")
        return self.counters[id(loop)]

    def define(self, value, register):
        """Note a value of this piece, and write it to its word where others need it."""
        self.values[id(value)] = register
        if id(value) in self.plan.slots:
            if self.depth:
                self.pending.append(value)
            else:
                self._cross(value)

    def _cross(self, value):
        self._store(self.values[id(value)], self._word(id(value)), "words")

    # -- statements ------------------------------------------------------------------
    def statement(self, statement):
        give_way()
        getattr(self, type(statement).__name__)(statement)

    def Load(self, load):
        buffer, index = load.buffer, load.index
        if buffer.role == K.CONSTANT and not index.steps and index.plus is None and not buffer.data.flags.writeable:
            at = index.base if index.table is None else int(index.table[index.base])
            self.define(load, number(np.ravel(buffer.data)[at], buffer.char))
            return
        self.define(load, self._load(self.element(buffer, index), buffer.char, id(buffer), buffer.role in (K.INPUT, K.CONSTANT)))

    def Let(self, let):
        expr, char = let.expr, let.char
        needs_symbols(expr)
        if expr.op == "const":
            register = number(expr.args[0], char)
        elif expr.op == "arg":
            register = convert(self.b, self.value(expr.args[0]), expr.args[0].char, char)
        else:
            how = arithmetic(let)
            emitter = LetEmitter(self, how)
            register = emitter.truth(expr) if char == "?" else convert(self.b, emitter.number(expr), how, char)
        self.define(let, register)

    def Store(self, store):
        value = convert(self.b, self.value(store.value), store.value.char, store.buffer.char)
        self._store(value, self.element(store.buffer, store.index), id(store.buffer))

    def Guard(self, guard):
        b, value = self.b, self.value(guard.value)
        bad = b.not_(value) if guard.seen else value
        number = ir.Constant(I32, guard.number) if isinstance(guard.number, int) else b.trunc(self.position(guard.number), I32)
        if not guard.early:
            self._note(bad, number)
            return
        broken, on = self.function.append_basic_block("broken"), self.function.append_basic_block("on")
        b.cbranch(bad, broken, on)
        b.position_at_end(broken)
        self._store(number, self.workspace, "guards")
        b.branch(self.stop)
        b.position_at_end(on)

    def _note(self, bad, number):
        """What `failed` is if this is `bad`, too."""
        b = self.b
        failed, before = b.select(bad, number, NONE), b.load(self.failed)
        b.store(b.select(b.icmp_signed("<", failed, before), failed, before), self.failed)

    def Run(self, run):
        b, plan, shared = self.b, self.plan, self.shared
        words = np.ascontiguousarray(run.program, np.int64)
        registers, scratch = self._at(plan.run), self._at(plan.scratch)
        for register, buffer, index in run.operands:
            where = b.ptrtoint(self.element(buffer, index), I64)
            b.store(where, b.gep(registers, [const(register)], source_etype=I64))
        program, registers, scratch = (b.ptrtoint(pointer, I64) for pointer in (shared.address(words)[0], registers, scratch))
        # There are no records.
        runs = shared.outside("tapegrad_run", run_address(), I64, [I64] * 6)
        done = b.call(runs, [program, registers, *[const(0)] * 3, scratch])
        # (There may be no memory for a temporary of it: then the kernel does not answer.)
        self._note(b.icmp_signed("!=", done, const(0)), ir.Constant(I32, shared.refusal))

    # -- loops ---------------------------------------------------------------------
    def Loop(self, loop, pieces=()):
        """A loop; if its body is cut into `pieces`, each iteration calls them, and others see its counter and guards in memory."""
        b, guarded = self.b, pieces and self.piece.guards
        if guarded:
            self._guards_to_memory()
        first, last, inits = const(0), const(0 if loop.ragged else loop.extent), [self.value(c.init) for c in loop.carries]
        if loop.ragged:
            extents, kept = self.shared.address(np.asarray(loop.extent, np.int64))
            extent = self._load(b.gep(extents, [self.position(loop.which)], source_etype=I64), "q", "tables", True)
            first = self._load(self._word(("ragged", id(loop))), "q", "words")
            last = b.add(first, extent, flags=("nsw",))
        self._iterations(loop, first, last, inits, pieces)
        if loop.ragged:
            self._store(last, self._word(("ragged", id(loop))), "words")
        if guarded:
            self._guards_from_memory()
        if not self.depth:
            pending, self.pending = self.pending, []
            for value in pending:
                self._cross(value)

    def _iterations(self, loop, first, last, inits, pieces=()):
        """The iterations from `first` on to before `last`."""
        vectorised = not pieces and _vectorised(loop)

        def iteration(counter, *phis):
            self.counters[id(loop)] = counter
            if pieces and id(loop) in self.plan.slots:
                self._store(counter, self._word(id(loop)), "words")
            self.depth += not pieces
            for carry, phi in zip(loop.carries, phis):
                self.define(carry, phi)
            for piece in pieces:
                self.shared.call(self.b, piece, self.stop)
            for statement in () if pieces else _loads_first(loop.body) if vectorised else loop.body:
                self.statement(statement)
            self.depth -= not pieces
            return self._carried(loop)

        again, _ = repeat(self.b, first, last, inits, iteration)
        # A sum waits for the one before it, unless there are several.
        several = any(c.reorder for c in loop.carries)
        if vectorised:
            again.set_metadata("llvm.loop", self.shared.vectorised())
        elif self.shared.large and (loop.ragged or loop.extent > _UNROLLED[several]):
            again.set_metadata("llvm.loop", self.shared.not_unrolled(4 if several else 1))

    def _carried(self, loop):
        """What the carries of a loop have become."""
        return [convert(self.b, self.value(carry.next), carry.next.char, carry.char) for carry in loop.carries]

    def _spread(self, item):
        """A loop in chunks, each a call of a function of its own; then what they have added up is added up."""
        b, spread, carries = self.b, item.spread, item.loop.carries
        inits, arguments = [self.value(c.init) for c in carries], self.function.args
        chunk = ChunkEmitter(self.shared, item).function
        spreads = self.shared.outside("tapegrad_spread", spread_address(), ir.VoidType(), [*[POINTER] * 4, I64])
        b.call(spreads, [b.bitcast(chunk, POINTER), *arguments, const(spread.chunks)])
        if not carries:
            return

        def joined(k, *totals):
            for j, (carry, total, operation) in enumerate(zip(carries, totals, spread.operations)):
                join = b.and_ if operation == "and" else b.fadd if carry.char in "df" else b.add
                yield join(total, self._load(self._part(item, k, j), carry.char, "sums"))

        _, sums = repeat(b, const(0), const(spread.chunks), inits, lambda *phis: [*joined(*phis)])
        for carry, value in zip(carries, sums):
            self.define(carry.next, value)

    def _part(self, item, k, j):
        """Where chunk `k` writes what the `j`-th carry has become."""
        first, count = self._word(("sums", id(item.loop))), len(item.loop.carries)
        return self.b.gep(first, [self.b.add(self.b.mul(k, const(count)), const(j))], inbounds=True, source_etype=I64)


class ChunkEmitter(PieceEmitter):
    """Emits ``void chunk(ptr inputs, ptr outputs, ptr workspace, i64 k)``: the `k`-th part of a loop that is spread."""

    def __init__(self, shared, item):
        self.item = item
        super().__init__(shared, item.pieces[0], CHUNK)

    def base(self, buffer):
        address = self.bases.get(id(buffer))
        if address is None and buffer.within is self.item.loop:
            own = ir.IRBuilder(self.entry).mul(self.function.args[3], const(aligned(buffer.nbytes)))
            whole = ir.IRBuilder(self.entry).gep(self.workspace, [const(self.plan.offsets[id(buffer)])], inbounds=True, source_etype=I8)
            address = self.bases[id(buffer)] = ir.IRBuilder(self.entry).gep(whole, [own], inbounds=True, source_etype=I8)
        return super().base(buffer) if address is None else address

    def _statements(self):
        # What is computed in a loop does not cross to other pieces.
        b, loop, spread, k, self.depth = self.b, self.item.loop, self.item.spread, self.function.args[3], 1
        first = b.mul(k, const(spread.size), flags=("nsw",))
        last = b.add(first, const(spread.size), flags=("nsw",))
        last = b.select(b.icmp_signed("<", last, const(loop.extent)), last, const(loop.extent))
        self._iterations(loop, first, last, [number(NEUTRAL[o], c.char) for o, c in zip(spread.operations, loop.carries)])
        for j, register in enumerate(self._carried(loop)):
            self._store(register, self._part(self.item, k, j), "sums")
        b.ret_void()
