"""Cutting a loop program into functions of bounded size.

LLVM takes more than linear time in the length of a function.  So a long program
becomes *pieces*, each a function that is called once where it stands; a loop whose
body is too long stays in its piece, but its body becomes pieces of its own, called in
every iteration.  A value that is used in another piece than the one that computes
it (or the counter of a loop) crosses through a word of the *frame*, a part of the
workspace: it is written where it is computed, but not inside a loop that lies
wholly in the piece; from such a loop only the last value can be used outside.

The layout of a kernel's workspace.

::

    frame       8 bytes: the least guard that failed; one word for each ragged loop and each value that
                crosses from one piece to another, and for each carry and chunk of a loop that is spread
    run         registers and scratch memory for the array programs of sweeps
    temporaries each at a multiple of 64 bytes; what is not used by the same pieces may share its place; one for each chunk
                of a loop that is spread, if every iteration has it for itself

Temporaries live from the first to the last piece that refers to them, and are
laid out in order of their first piece, each at the first place that is free during its life.  Within a piece no two
buffers overlap, which is what its code assumes.
"""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass, field

from ..interpreter.program import REGISTERS, REGISTERS_AT
from . import ir

#: Work of one statement, about in LLVM instructions.
_COST = {ir.Let: 0, ir.Load: 2, ir.Store: 2, ir.Guard: 4, ir.Run: 20, ir.Loop: 6}
#: Nodes of an expression that are not about one instruction.
_NODES = {"arg": 0, "const": 0}
#: How much longer a loop may be than straight-line code.
WHOLE = 4


@dataclass(eq=False)
class Piece:
    """One function.

    Attributes
    ----------
    items : list of Statement or CutLoop
    cost : int
    guards : bool
        Whether some guard in it is reported at the end.
    stops : bool
        Whether it may end early.
    """

    items: list = field(default_factory=list)
    cost: int = 0
    guards: bool = False
    stops: bool = False

    @property
    def body(self):
        """Its statements: of loops that are cut, these loops."""
        return [item.loop if isinstance(item, CutLoop) else item for item in self.items]


@dataclass(eq=False)
class CutLoop:
    """A loop with a body of several pieces; or one that is `spread` over threads (`kernel.spreading`), its body one piece."""

    loop: ir.Loop
    pieces: list
    spread: object = None


def costs(body):
    """Cost of each statement of `body` and of the loops in it, by id."""
    cost_of = {}
    for statement in body:
        cost = _COST[type(statement)]
        if isinstance(statement, ir.Loop):
            inner = costs(statement.body)
            cost_of.update(inner)
            cost += sum(inner[id(s)] for s in statement.body) + 2 * len(statement.carries)
        elif isinstance(statement, ir.Let):
            cost += sum(_NODES.get(node.op, 1) for node in ir.nodes(statement.expr))
        cost_of[id(statement)] = cost
    return cost_of


def cut(body, cost, limit, single_loops=False, spread=()):
    """The pieces of the body of a program or loop, in order.

    Parameters
    ----------
    cost : dict
        The `costs` of the program.
    limit : int
        Cost of a piece, at most; but a loop of up to `WHOLE` times as much stays whole.
    single_loops : bool
        A loop ends its piece: so memory can be used again by the next one.
    spread : dict
        The loops that are spread over threads (`kernel.spreading.spread`).
    """
    pieces = [Piece()]
    for statement in body:
        item, own = statement, cost[id(statement)]
        guards = [s for s in ir.walk([statement]) if isinstance(s, (ir.Guard, ir.Run))]
        if isinstance(statement, ir.Loop) and own > WHOLE * limit:
            item, own = CutLoop(statement, cut(statement.body, cost, limit)), _COST[ir.Loop]
        elif id(statement) in spread:
            item = CutLoop(statement, [Piece(statement.body, own)], spread[id(statement)])
        if pieces[-1].cost and pieces[-1].cost + own > limit:
            pieces.append(Piece())
        piece = pieces[-1]
        piece.items.append(item)
        piece.cost += own
        piece.guards |= any(isinstance(g, ir.Run) or not g.early for g in guards) and not isinstance(item, CutLoop)
        piece.stops |= any(isinstance(g, ir.Guard) and g.early for g in guards)
        if single_loops and isinstance(statement, (ir.Loop, ir.Run)):
            pieces.append(Piece())
    return [piece for piece in pieces if piece.items] or [Piece()]


def uses(statement):
    """What a statement refers to: values, and loops whose counters it reads.

    Of a loop, what its head refers to: not its body, nor what its carries become.
    """
    values = [c.init for c in statement.carries] if isinstance(statement, ir.Loop) else ir.operands(statement)
    return [*values, *(loop for index in ir.indices(statement) for loop, _ in index.steps)]


def is_number(value):
    """Whether a value is the same number always, which every piece can have at once."""
    return isinstance(value, ir.Let) and value.expr.op == "const"


def crossings(pieces):
    """Values and loops (for their counters) that are used in another piece than their own, in order of use."""
    home, by_id = {}, {}

    def use(used, piece):
        if not is_number(used) and home[id(used)] is not piece:
            by_id.setdefault(id(used), used)

    def visit(item, piece):
        apart = isinstance(item, CutLoop)
        statement = item.loop if apart else item
        for used in uses(statement):
            use(used, piece)
        home[id(statement)] = piece
        if isinstance(statement, ir.Loop):
            home.update((id(c), piece) for c in statement.carries)
            for inner, its in [(i, p) for p in item.pieces for i in p.items] if apart else [(s, piece) for s in statement.body]:
                visit(inner, its)
            for carry in statement.carries:
                use(carry.next, piece)

    for piece in pieces:
        for item in piece.items:
            visit(item, piece)
    return list(by_id.values())


def buffers(body):
    """The buffers that `body` and the loops in it refer to, each once, in order."""
    referred = {}
    for statement in ir.walk(body):
        if isinstance(statement, (ir.Load, ir.Store)):
            referred[statement.buffer] = None
        elif isinstance(statement, ir.Run):
            referred.update((buffer, None) for _, buffer, _ in statement.operands)
    return list(referred)


# ---- the workspace ------------------------------------------------------------------------

ALIGNMENT = 64
#: Bytes of the scratch memory of `interpreter.steps.run` (the registers are elsewhere here).
_SCRATCH = REGISTERS_AT


@dataclass
class BufferPlan:
    """Offsets in the workspace.

    Attributes
    ----------
    nbytes : int
    slots : dict of id to int
        Of the words of crossing values, crossing counters (by loop), ragged counters (``("ragged", id)``) and of what the
        carries of loops that are spread have become in each chunk (``("sums", id)``).
    run : int
        Of the registers of array programs; `scratch` follows.
    offsets : dict of id to int
        Of the temporaries.
    """

    nbytes: int = 0
    slots: dict = field(default_factory=dict)
    run: int = 0
    scratch: int = 0
    offsets: dict = field(default_factory=dict)


def aligned(nbytes):
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


def lives(pieces):
    """Temporaries with the first and last piece that refers to them: ``{id: (buffer, first, last)}``."""
    intervals = {}
    for k, piece in enumerate(pieces):
        for buffer in buffers(piece.body):
            if buffer.role == ir.TEMPORARY:
                intervals[id(buffer)] = (buffer, intervals[id(buffer)][1] if id(buffer) in intervals else k, k)
    return intervals


def assign_offsets(intervals):
    """Offsets for ``(nbytes, first, last)`` intervals, given by increasing `first`, and the bytes used."""
    live, offsets, top = [], [], 0  # live: (offset, end, last) of what lives, by offset
    for nbytes, first, last in intervals:
        live = [other for other in live if other[2] >= first]
        at = 0
        for offset, end, _ in live:
            if at + nbytes <= offset:
                break
            at = max(at, end)
        end = at + aligned(max(nbytes, 1))
        insort(live, (at, end, last))
        offsets.append(at)
        top = max(top, end)
    return offsets, top


def plan(pieces, program):
    """The `BufferPlan` of a program cut into `pieces`."""
    layout = BufferPlan(nbytes=8)

    def word(key):
        layout.slots[key] = layout.nbytes
        layout.nbytes += 8

    for statement in ir.walk(program.body):
        if isinstance(statement, ir.Loop) and statement.ragged:
            word(("ragged", id(statement)))
    for used in crossings(pieces):
        word(id(used))
    copies = {}
    for item in [item for piece in pieces for item in piece.items if isinstance(item, CutLoop) and item.spread]:
        word(("sums", id(item.loop)))
        layout.nbytes += 8 * (item.spread.chunks * len(item.loop.carries) - 1)
        copies[item.loop] = item.spread.chunks
    if any(isinstance(s, ir.Run) for s in ir.walk(program.body)):
        layout.run = aligned(layout.nbytes)
        layout.scratch = aligned(layout.run + 8 * REGISTERS)
        layout.nbytes = layout.scratch + _SCRATCH
    base = aligned(layout.nbytes)
    alive = list(lives(pieces).values())
    sizes = [aligned(buffer.nbytes) * copies[buffer.within] if buffer.within in copies else buffer.nbytes for buffer, _, _ in alive]
    offsets, top = assign_offsets([(size, first, last) for size, (_, first, last) in zip(sizes, alive)])
    for (buffer, _, _), offset in zip(alive, offsets):
        layout.offsets[id(buffer)] = base + offset
    layout.nbytes = base + top
    return layout
