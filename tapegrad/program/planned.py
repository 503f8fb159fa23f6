"""What a replay of a finished tape takes in memory, before it is run (`FinishedTape.plan`).

Values have a place in the workspace.  Adjoints are there from the first contribution to them until they have been passed on; what a
row's program takes in between is seen from its steps, which are planned and dropped.  A loop keeps carries in its result, and
has as many again in between as it computes again at a time (`program.iterations`).
"""

import math
from collections import Counter
from dataclasses import dataclass

from ..codegen.memory import KEPT_BLOCK
from ..common.printing import bytes_text
from ..interpreter.plan import Steps
from ..interpreter.planner import ITEMSIZE
from ..tape.layout import meta_of
from .trace import ROW


@dataclass(frozen=True)
class LoopMemory:
    """What one loop keeps for the way back.

    Attributes
    ----------
    name : str
        Of the body.
    iterations : int or None
        None: until a condition says so.
    capacity : int
        Carries that are kept.
    stride : int
        Iterations from one that is kept to the next, in the first part of the loop (at the beginning, if the number of iterations is not known).
    dense : int
        The iteration from which all carries are kept.
    carries, again : int
        Bytes of what is kept, and of what is computed again at a time.
    """

    name: str
    iterations: int | None
    capacity: int
    stride: int
    dense: int
    carries: int
    again: int

    def __str__(self) -> str:
        if self.iterations is None:
            iterations, kept = "iterations until a condition", f"{self.capacity} carries at equal distances"
        else:
            iterations, kept = f"{self.iterations} iterations", f"{self.capacity} carries"
            if self.stride > 1:
                kept += f" (every {self.stride}th before iteration {self.dense}, then each)"
        return f"{self.name}: {iterations}, keeps {kept}, {bytes_text(self.carries)}; computed again at a time: {bytes_text(self.again)}"


@dataclass(frozen=True)
class MemoryPlan:
    """What a replay with its gradient takes in memory, in bytes, besides arguments and results.

    Attributes
    ----------
    values : int
        Values of instructions.
    loops : tuple of LoopMemory
    peak : int
        All that there is at a time.
    """

    values: int
    loops: tuple[LoopMemory, ...]
    peak: int

    def __str__(self) -> str:
        return "\n".join([f"values {bytes_text(self.values)}, peak {bytes_text(self.peak)}", *map(str, self.loops)])


class _Counted(Steps):
    """A planner that only counts what its programs take."""

    nbytes = 0

    def temporary(self, shape, char, zero=False):
        self.nbytes += math.prod(shape) * ITEMSIZE[char]
        return super().temporary(shape, char, zero)


def memory_plan(tape):
    """The `MemoryPlan` of a finished tape."""
    workspace = tape.kept.take()
    values = workspace.records.nbytes + workspace.nbytes
    # What Python computes is copied to its place.
    peak = values + max((host.target.nbytes for host in workspace.hosts), default=0)
    marks, adjoints, loops = workspace.sweep.marks, {slot: meta.nbytes for slot, meta in tape.outputs if slot}, {}
    tape.kept.give(workspace)
    taken, free = values + sum(adjoints.values()), Counter()
    for item in reversed(tape.items):
        entry, slot = item.entry, item.slot
        program = dict(entry.attrs).get("program") if entry.kind == ROW else None
        if program is not None:
            loops.setdefault(program, _loop(program))
        if entry.kind != ROW or not marks[slot]:
            continue
        between = _between(tape, item)
        # Results of iterations that are run again are written, too.
        again = loops[program].again + 8 * program.dense * program.result if program is not None else 0
        peak = max(peak, taken + between + again)
        passed_on = adjoints.pop(slot, 0)
        if passed_on >= KEPT_BLOCK:
            # It is kept, for another one of its size.
            free[passed_on] += 1
        else:
            taken -= passed_on
        for o in item.operands:
            if o > 0 and tape.active[o] and o not in adjoints:
                adjoints[o] = tape.metas[o].nbytes
                if free[adjoints[o]]:
                    free[adjoints[o]] -= 1
                else:
                    taken += adjoints[o]
    return MemoryPlan(values, tuple(loops.values())[::-1], max(peak, taken))


def _between(tape, item):
    """Bytes that the derivative of an entry takes in between, with what it gives."""
    entry, row = item.entry, item.entry.function
    if row.primitive is not None or entry.meta.char not in "df":
        return 0
    metas = [tape.metas[o] if o > 0 else meta_of(tape.constants[-1 - o]) for o in item.operands]
    plan = _Counted(metas, entry.meta)
    plan.contributions(row, [k for k in row.slots(len(metas)) if metas[k].char in "df" and k not in row.refused], row.keywords(entry.attrs, entry.integer))
    return plan.nbytes


def _loop(program):
    """What a loop keeps, and computes again at a time (as `program.iterations`)."""
    coarse = program.capacity - (program.rows - program.dense) if program.bounded else program.capacity
    stride = max(1, -(-program.dense // coarse)) if coarse > 0 else max(1, program.dense)
    room, width, again = max(2, program.room), 8 * program.carry, 0
    iterations = min(stride, program.dense) if program.bounded else room
    while iterations > 0:
        step = -(-iterations // room)
        again += -(-iterations // step) * width
        iterations = step if step > 1 else 0
    return LoopMemory(
        program.name, program.rows if program.bounded else None, program.capacity, stride, program.dense, program.capacity * width, again
    )
