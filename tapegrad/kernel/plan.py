"""The layout of a kernel's workspace.

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
from .cut import CutLoop, buffers, crossings

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
