"""One nest of loops over the elements of arrays.

There is one loop for each axis that is longer than 1.  They stand in the order of the
memory of the *leading* array, the first one given that has every axis (else in C order): so arrays that lie alike are
walked by nests that are alike, and can be fused.  (Nests are not flattened for the same reason; the passes flatten what is left.)

What does not depend on the counter of a loop is loaded outside of it.
"""

from __future__ import annotations

from ..interpreter.symbolic import ITEMSIZE
from ..interpreter.windows import aligned, renumber
from . import ir
from .arrays_views import added, moved


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

    @classmethod
    def over(cls, plan, shape, atoms):
        """The nest in the order of memory of the first of `atoms` that has every axis."""
        return cls(plan, shape, memory_order(shape, atoms))

    def index(self, atom):
        """Where the element of a window is."""
        item = ITEMSIZE[atom.char]
        strides = aligned(atom, self.shape)
        steps = [(loop, stride // item) for loop, stride in zip(self.loops, strides) if loop is not None and stride]
        steps.sort(key=lambda step: self.chain.index(step[0]))
        return moved(self.plan.bases[atom.reg][1], atom.offset // item, steps)

    def add(self, *statements):
        """Append to the innermost body."""
        self.bodies[-1].extend(statements)

    def insert(self, depth, statement):
        """Put a statement into the body at `depth`, before the loop of the nest inside it."""
        body = self.bodies[depth]
        at = len(body)
        if depth < len(self.chain):
            at = next(k for k in range(at - 1, -1, -1) if body[k] is self.chain[depth])
        body.insert(at, statement)

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
        let = ir.Let(renumber(expr, values), char)
        self.add(let)
        return let

    def at(self, atom, positions):
        """Buffer and index of the element of the C-contiguous window `atom` at a flat position."""
        buffer, offset = self.plan.bases[atom.reg]
        number = ir.Index(plus=self.load(positions))
        return buffer, added(moved(offset, atom.offset // ITEMSIZE[atom.char]), number, self.bodies[-1])

    def store(self, atom, value):
        """Store into the element of a window."""
        self.add(ir.Store(self.plan.bases[atom.reg][0], self.index(atom), value))


def arithmetic(expr, char):
    """In which type an expression that goes to `char` is computed."""
    if expr.is_bool:
        return "?"
    return "d" if char in "df" and any(a.char == "d" for a in expr.leaves()) else char
