"""An outermost loop whose iterations do not all fit into the memory that is allowed: it goes back segment by segment.

The forward sweep of the loop is cut where its frames, shadows and arrays have taken half of the memory.  What came since the
last cut is forgotten then, and kept is only what the loop was in before: a *checkpoint*, which has the variables that the loop
carries and the contents of the arrays that it stores into.  The frames of the last segment stay.  When the reverse sweep is
through with a segment, it takes the checkpoint before, puts everything back, goes through the iterations of that segment once
more by the code of the forward sweep, which ends where the next segment began, and goes on.  So the forward sweep is run twice,
less the last segment.

Checkpoints lie on the stack below the frames of the segment::

    ... before the loop | checkpoint | checkpoint | frames of one segment

Where a segment ends depends on what its iterations keep, not on their number, so inner loops and arrays of any size are counted.

An iteration is repeatable if each of its statements is, from the same variables and contents of arrays; others are refused
(`_repeats`). An array that the loop makes and carries to its next iteration has a shadow that cannot stay where shadows are
forgotten: at a cut it gets one of its own, and what that has received is added, after the second run, to the shadow with which
the segment before ended.
"""

import operator

import numba
import numpy as np
from numba import types

from ...codegen.numba_inside import INNER, RAISES, ir
from ...common.reached import reached
from . import runtime
from .adjoints import add_into
from .program import PURE_OPS
from .rows import Refused, is_expr, is_phi, reads

_NEVER = 1 << 62
ADVICE = "leave memory= out, or write the loop so that its iterations store into arrays that are made before it"


@numba.njit(**INNER)
def bytes_of(a):
    return a.nbytes


@numba.njit(**INNER)
def overwrite(a, b):
    a[...] = b


def outermost(program):
    return [loop for loop in program.loops if program.chain[loop.header] == [loop]]


def arrays_of(program, loop):
    """Names of the arrays that a loop reads or makes."""
    statements = [s for label in loop.body for s in program.blocks[label].body]
    names = {n for s in statements for n in [*reads(s), *([s.target.name] if isinstance(s, ir.Assign) else [])]}
    return {n for n in names if isinstance(program.type_of(n), types.Array)}


class Segments:
    """One loop of a `SweepEmitter`, in segments; `loops` share the memory.

    Raises
    ------
    Refused
        If its iterations might not be repeatable.
    """

    def __init__(self, sweeps, loop, loops):
        self.r, self.p, self.loop, self.loops = sweeps, sweeps.p, loop, loops
        r, p = sweeps, self.p
        self.iterator = None
        for label in loop.body:
            for s in p.blocks[label].body:
                if not self._repeats(s, label == loop.header):
                    raise Refused("with memory= the iterations of a loop run twice, and this statement might not be repeatable", s.loc, ADVICE)
        used = {n for n, places in r.uses.items() if any(label in loop.body for label, _, _ in places)}
        used |= {r.shadow.get(n) for n in used}
        self.carried = [s.target.name for s in p.blocks[loop.header].body if is_phi(s) and s.target.name in used]
        written = {g for g, places in r.plan.written.items() if any(label in loop.body for label, _ in places)}
        self.made = made = {g for g, labels in r.plan.born.items() if any(label in loop.body for label in labels)}
        #: arrays that the loop makes and carries, and their shadows
        self.moved = [n for n in self.carried if isinstance(p.type_of(n), types.Array) and r.group(n) in made and not n.startswith("adj.")]
        for n in self.carried:
            if not isinstance(p.type_of(n), (types.Number, types.Boolean, types.Array)):
                raise Refused(f"with memory= a loop carries numbers and arrays, and this one a value of type {p.type(n)}", self._loc(), ADVICE)
            if r.group(n) in made & written:
                raise Refused("with memory= a loop may not store into an array that it makes in one iteration and carries to the next", self._loc(), ADVICE)
        #: arrays from before the loop that it stores into
        stored = [s.target.name for s, label, _ in r.plan.stores if label in loop.body]
        names = reached(stored, lambda n: r.aliases(p.defs[n][1]) if p.defs[n][0] in loop.body else ())
        self.stored = [n for n in names if p.defs[n][0] not in loop.body]
        volatile = [r.plan.volatile[r.group(n)] for n in arrays_of(p, loop) if r.group(n) in r.plan.volatile]
        if volatile:
            raise Refused("with memory= the iterations of a loop run twice, and this may change an array that they read", volatile[0], ADVICE)
        self.kept = [self.name(n) for n in ("start", *self.carried, *self.stored)]
        tys = [types.int64, *map(r.kept_type, self.carried), *[self._copy_type(n) for n in self.stored]]
        self.frame = runtime.frame(tuple(tys))

    def _loc(self):
        return self.p.blocks[self.loop.header].body[0].loc

    def _copy_type(self, name):
        ty = self.r.kept_type(name)
        return types.Array(ty.dtype, ty.ndim, ty.layout if ty.layout in "CF" else "C")

    def _repeats(self, s, header):
        """Whether a statement is repeatable, from the same variables and arrays."""
        p, r = self.p, self.r
        if not isinstance(s, ir.Assign):
            if isinstance(s, ir.SetItem):
                return isinstance(p.type_of(s.target.name), types.Array)
            return isinstance(s, (ir.Jump, ir.Branch, ir.Return, *RAISES))
        e = s.value
        if not is_expr(e):
            return True
        if e.op in ("getiter", "iternext"):
            iterator = s.target.name if e.op == "getiter" else e.value.name
            ranges = is_expr(p.value_of(iterator), "getiter") and p.is_range(p.value_of(iterator).value.name)
            if p.defs[iterator][0] in self.loop.body:
                return ranges
            self.iterator = iterator
            return header and ranges and self.loop.step is not None and all(n is None or p.type(n) == types.int64 for n in self.loop.range)
        if e.op in ("pair_first", "pair_second"):
            return True
        if not p.steady(s):
            return False
        return r.repeatable_call(s) if e.op == "call" else e.op in PURE_OPS

    # ---- pieces -------------------------------------------------------------------------------
    def name(self, what):
        """A variable of the segment: what it started with, or where it ends."""
        return f"segment.{self.loop.header}.{what}"

    def _set(self, what, value):
        self.r.assign(self.name(what), self.p.var(value))

    def _start(self):
        """A new segment, from what the loop carries now."""
        r = self.r
        self._set("mark", r.call(runtime.mark, r.stack))
        self._set("start", self.loop.count)
        for n in self.carried:
            self._set(n, n)
        for n in self.stored:
            self._set(n, r.call(np.copy, n))

    def _shadows(self):
        """Arrays that iterations make and carry, of which an adjoint is wanted, and their shadows."""
        return [(n, self.r.shadow[n]) for n in self.moved if n in self.r.shadow]

    def hold(self, frame):
        """Count the arrays in a frame that iterations have made."""
        for n in frame:
            if isinstance(self.p.type_of(n), types.Array) and (n in self.r.overwritten or self.r.group(n) in self.made) and not n.startswith("adj."):
                self.r.call(runtime.hold, self.r.stack, self.r.call(bytes_of, n))

    # ---- the forward sweep --------------------------------------------------------------------
    def begin(self):
        """Before the loop."""
        for what, value in (("stop", -1), ("limit", self.r.memory // (2 * self.loops)), ("checkpoints", 0)):
            self._set(what, self.r.global_(value))
        self._start()

    def turned(self):
        """After an iteration: the statement that goes on with the next one, or ends the segment."""
        r, p, loc, loop = self.r, self.p, self.p.loc, self.loop
        head, r.out = r.out, []
        usage = r.call(runtime.usage, r.stack, self.name("mark"))
        iterations = r.put(ir.Expr.binop(operator.sub, p.var(loop.count), p.var(self.name("start")), loc))
        r.call(runtime.note, r.stack)
        r.call(runtime.back_to, r.stack, self.name("mark"))
        r.push(self.frame, self.kept)
        r.step(operator.add, self.name("checkpoints"), 1)
        size = r.global_(self.frame[0])
        for n in (*self.stored, *self.moved, *[shadow for _, shadow in self._shadows()]):
            size = r.put(ir.Expr.binop(operator.add, p.var(size), p.var(r.call(bytes_of, self.name(n))), loc))
        everything = r.trips(loop) if loop.counted else r.global_(0)
        r.call(runtime.affordable, self.name("checkpoints"), size, r.global_(self.loops), r.global_(r.memory), usage, iterations, everything)
        for n, shadow in self._shadows():
            r.assign(shadow, p.var(r.call(np.zeros_like, n)))
        self._start()
        cut = r.new_block(ir.Jump(loop.header, loc))
        self.resumed, r.out = r.new_label(), []
        again = r.put(ir.Expr.binop(operator.ge, p.var(self.name("stop")), p.var(r.global_(0)), loc))
        end = r.new_block(ir.Branch(p.var(again), self.resumed, cut, loc))
        r.out = head
        usage = r.call(runtime.usage, r.stack, self.name("mark"))
        full = r.call(runtime.full, usage, self.name("limit"), loop.count, self.name("stop"))
        return ir.Branch(p.var(full), end, loop.header, loc)

    # ---- the reverse sweep --------------------------------------------------------------------
    def returned(self, rest):
        """Before an iteration is reversed: the statement that goes to `rest`, where it is; or first runs the segment that it is in once more."""
        r, p, loc, loop = self.r, self.p, self.p.loc, self.loop
        head, r.out = r.out, []
        for n, shadow in self._shadows():
            self._set(f"received.{n}", self.name(shadow))
        self._set("stop", self.name("start"))
        self._set("limit", r.global_(_NEVER))
        r.pop(self.frame, self.kept)
        r.call(runtime.back_to, r.stack, self.name("mark"))
        for n in self.carried:
            r.assign(n, p.var(self.name(n)))
        for n in self.stored:
            r.call(overwrite, n, self.name(n))
        r.assign(loop.count, p.var(self.name("start")))
        if self.iterator is not None:
            numbers = r.call(range, r.iteration(loop), r.val(loop.range[1]), r.global_(loop.step))
            r.assign(self.iterator, ir.Expr.getiter(p.var(numbers), loc))
        restored = r.new_block(ir.Jump(loop.header, loc))
        r.out = []
        r.call(runtime.note, r.stack)
        for n, shadow in self._shadows():
            r.call(add_into, shadow, self.name(f"received.{n}"))
        r.new_block(ir.Jump(rest, loc), label=self.resumed)
        r.out = head
        first = r.put(ir.Expr.binop(operator.eq, p.var(loop.count), p.var(self.name("start")), loc))
        return ir.Branch(p.var(first), restored, rest, loc)
