"""Numba IR of the forward and the reverse sweep, in one control-flow graph.

Variables keep their names in the reverse sweep.  What it reads of an iteration of a loop is one struct (`NaturalLoop.frame`),
pushed on the loop's back edge and popped into the same variables when the reverse sweep comes by; outside of loops nothing is
pushed.  A helper that is compiled apart (because it calls itself) is two functions that share the stack; its body is then like
that of a loop.
"""

import operator

import numpy as np
from numba import types

from ...codegen.numba_inside import compute_cfg_from_blocks, ir
from ..arrays import FRESH, LIKE, array, promoted
from ..compile import among
from ..scalars import is_elementwise
from ..types import Token
from . import runtime
from .activity import ELSEWHERE
from .adjoints import Adjoints
from .plan import RematerialisationPlan
from .program import NaturalLoop
from .rows import clone, is_array, is_expr, is_float, is_phi, reads

BOTH = ("forward", "backward")


class SweepEmitter(Adjoints):
    """Both sweeps of a program; `seeds` are the positions of differentiated arguments, whose shadows are the last arguments.

    With `lanes` they are for dual numbers, and `duals` are the positions of those among the arguments.
    """

    def __init__(self, program, seeds, apart, pair, lanes=0, duals=(), memory=None):
        self.lanes, self.token, self.memory = lanes, Token(lanes) if lanes else None, memory
        if apart:
            program.root = NaturalLoop("root", set(program.blocks), None, None)
            program.chain = {b: [program.root, *loops] for b, loops in program.chain.items()}
        super().__init__(program, seeds, apart, pair, duals)
        self.plan = None
        self.plan = RematerialisationPlan(self)

    def kept_type(self, name):
        """The type in which a frame keeps a variable: what depends on the arguments is dual where they are."""
        ty = self.p.type(name)
        where = self.p.defs[name][1].value.value.name if name in self.overwritten else name
        if self.lanes and (name.startswith("adj.") or self._depends(where)):
            return types.Array(self.token.dual, ty.ndim, ty.layout) if isinstance(ty, types.Array) else self.token.dual
        return ty

    def known(self):
        """The types of arrays and constants as they were planned: Numba lets the type of a copy, as of what a branch chooses, decide about its source's."""
        made = {s.target.name: s.value for block in self.made.values() for s in block.body if isinstance(s, ir.Assign)}
        types_of = {n: self.p.type(n) for n in self.p.types.keys() & made.keys() if not isinstance(made[n], ir.Arg)}
        return {n: self.kept_type(n) for n, ty in types_of.items() if isinstance(ty, types.Array) or isinstance(made[n], ir.Const) and is_float(ty)}

    def report(self):
        """Bytes that an iteration of each loop keeps, and how each `prange` is run, by the line of the loop."""
        p = self.p
        kept = {p.blocks[loop.header].body[0].loc.line: self.plan.frame(loop)[0] for loop in p.loops if loop.frame}
        return {"bytes kept for each iteration of the loop at a line": kept, **({"prange at a line": p.threads} if p.threads else {})}

    def changed_arguments(self):
        """Positions of arguments that are arrays, or tuples of them, into which something is stored."""
        p, changed = self.p, set()
        for _, _, s in p.statements():
            changed |= {self.group(n) for n in self.changed_by(s)}
        groups = {k: ELSEWHERE if isinstance(p.type_of(n), types.BaseTuple) else n for k, n in enumerate(self.args) if n is not None}
        return {k for k, n in groups.items() if self.group(n) in changed}

    def emit(self, sweeps=BOTH):
        """The blocks of one function for these sweeps."""
        p, loc = self.p, self.p.loc
        top = max(p.blocks) + 1
        self.back = {b: top + k for k, b in enumerate(p.live)}
        self.next_label = top + len(self.back)
        self.made = {}
        numbers = sorted({n for n in p.defs if is_float(p.type_of(n)) and self.active(n) and n not in self.locals})
        if "forward" in sweeps:
            for label, old in p.blocks.items():
                self.begin(label, lambda name: name)
                self._forward(label, old)
                self._block(label)
        else:
            self.begin(p.entry, None)
            self.out = [*p.blocks[p.entry].body[: p.constants], ir.Jump(self.back[p.exit], loc)]
            self._block(p.entry)
        if "backward" in sweeps:
            for label in p.live:
                self._backward(label)
        self.begin(p.entry, None)
        if not self.apart:
            self.assign(self.stack, ir.Expr.call(p.var(self.global_(runtime.new_stack)), [p.var(self.args[0])], (), loc))
        if "backward" in sweeps:
            for n in numbers:
                self.assign(f"d.{n}", p.var(self.global_(0.0)))
            for s in sum(self.plan.settled.values(), []):
                self.empty(s)
            if "forward" not in sweeps and p.root.frame:
                self.pop(self.plan.frame(p.root), p.root.frame)
        first = self.made[p.entry].body
        count = sum(isinstance(s, ir.Assign) and isinstance(s.value, ir.Arg) for s in first)
        named = [(n, ir.Global(n, v, loc) if callable(v) or v is self.token else ir.Const(v, loc)) for n, v in self.globals]
        head = [ir.Assign(value, p.var(n), loc) for n, value in named]
        first[count:count] = head + self.out
        for dead in compute_cfg_from_blocks(self.made).dead_nodes():  # skipped
            del self.made[dead]
        return self.made

    def _block(self, label):
        block = self.made[label] = ir.Block(self.p.scope, self.p.loc)
        block.body = self.out

    def new_label(self):
        self.next_label += 1
        return self.next_label - 1

    def new_block(self, last, label=None):
        self.out.append(last)
        label = self.new_label() if label is None else label
        self._block(label)
        return label

    def push(self, frame, names, reserved=False):
        """Push variables as a frame (`runtime.frame`)."""
        size, push, _ = frame
        if not reserved:
            self.call(runtime.reserve, self.stack, self.global_(1), self.global_(size))
        self.call(push, self.stack, self.put(ir.Expr.build_tuple([self.p.var(n) for n in names], self.p.loc)))

    def pop(self, frame, names):
        """Pop them again."""
        values = self.call(frame[2], self.stack)
        for j, name in enumerate(names):
            self.assign(name, ir.Expr.static_getitem(self.p.var(values), j, None, self.p.loc))

    def step(self, function, name, amount):
        self.assign(name, ir.Expr.binop(function, self.p.var(name), self.p.var(self.global_(amount)), self.p.loc))

    # ---- forward ------------------------------------------------------------------------------
    def _forward(self, label, old):
        p, plan, loc = self.p, self.plan, self.p.loc
        loops, latches = {loop.preheader: loop for loop in p.loops}, {loop.latch: loop for loop in p.loops}
        for s in old.body[:-1]:
            if is_phi(s):
                continue
            if isinstance(s, ir.SetItem) and self.restored(s):
                name, get = self.before[id(s)]
                if getattr(p.types[name], "ndim", 0):
                    self.assign(name, p.var(self.call(np.copy, self.put(get.value))))
                else:
                    self.out.append(get)
            if self.paired(s):
                mask = self.mask(s)
                shadows = [p.var(self.shadow[v.name]) for v, kind in zip(s.value.args, mask) if kind == 2]
                function = p.var(self.global_(self.pair(p.callee(s.value), mask)[0]))
                args = [p.var(self.stack), p.var(self.global_(0.0)), *s.value.args, *shadows]
                s = ir.Assign(ir.Expr.call(function, args, (), loc), s.target, loc)
            self.out.append(self._promoted(s) if self.lanes else s)
        if label in latches:
            loop = latches[label]
            if loop.frame:
                for segments in plan.segments.values():
                    if label in segments.loop.body:
                        segments.hold(loop.frame)
                self.push(plan.frame(loop), loop.frame, plan.reserved(loop))
            if not loop.counted or loop.header in plan.segments:
                self.step(operator.add, loop.count, 1)
        if label in loops:
            loop = loops[label]
            if not loop.counted or loop.header in plan.segments:
                self.assign(loop.count, p.var(self.global_(0)))
            if loop.frame and plan.reserved(loop):
                self.call(runtime.reserve, self.stack, self.trips(loop), self.global_(plan.frame(loop)[0]))
        last = old.body[-1]
        for succ in p.succs[label]:
            if succ in plan.selected:
                self.assign(f"came.{succ}", p.var(self.global_(p.preds[succ].index(label))))
        if isinstance(last, ir.Return) and self.apart:
            if p.root.frame:
                self.push(plan.frame(p.root), p.root.frame)
        elif isinstance(last, ir.Return):
            self.call(runtime.note, self.stack)
            self.assign("$result", self._outcome())  # (the variable itself may be put back to what it was in another iteration)
            last = ir.Jump(self.back[label], loc)
        self._assign_phis(label)
        segments = plan.segments.get(last.target) if isinstance(last, ir.Jump) else None
        if segments is not None and label == segments.loop.latch:
            last = segments.turned()
        elif segments is not None:
            segments.begin()
        self.out.append(last)

    def _outcome(self):
        """The result, with copies of its arrays whose elements the reverse sweep puts back to what they were."""
        p = self.p
        changed = {self.group(n) for _, _, s in p.statements() if self.restored(s) or self.paired(s) for n in self.changed_by(s)}
        copies = {n: p.var(self.call(np.copy, n)) for n in self.results() if isinstance(p.type_of(n), types.Array) and self.group(n) in changed}
        value = p.value_of(p.result)
        return clone(value, copies) if self._packs(value) else copies.get(p.result, p.var(p.result))

    def _promoted(self, s):
        """The statement, made to create an array of dual numbers if the floats in it depend on the arguments, and of floats if not."""
        e = getattr(s, "value", None)
        called = self.p.callee(e) if is_expr(e, "call") else None
        if is_expr(e, "binop") or is_expr(e, "unary") or is_elementwise(called):
            fresh = is_array(self.p.type_of(s.target.name)) and not any(map(self._depends, reads(s)))
        else:
            fresh = among(called, FRESH)
        if not fresh:
            return s
        if not self._depends(s.target.name):
            if among(called, LIKE) and len(e.args) == 1 and not e.kws and is_float(self.p.type(s.target.name).dtype):
                e = ir.Expr.call(e.func, e.args, (*e.kws, ("dtype", self.p.var(self.global_(np.float64)))), s.loc)
            return ir.Assign(e, s.target, s.loc)
        if called is np.array:
            e = ir.Expr.call(self.p.var(self.global_(array)), e.args, e.kws, s.loc)
        made = self.put(e)
        return ir.Assign(self.p.var(self.call(promoted, self.global_(self.token), made)), s.target, s.loc)

    def _assign_phis(self, label):
        """Assign the variables of the next block's phis, all at once."""
        copies = []
        for succ in self.p.succs[label]:
            for s in self.p.blocks[succ].body:
                if is_phi(s):
                    copies += [(s.target.name, v.name) for b, v in zip(s.value.incoming_blocks, s.value.incoming_values) if b == label]
        targets = {t for t, v in copies if t != v}
        copies = [(t, self.put(self.p.var(v)) if v in targets and v != t else v) for t, v in copies]
        for t, v in copies:
            if v != t:
                self.assign(t, self.p.var(v))

    def trips(self, loop):
        start, stop, _ = loop.range
        start = self.global_(0) if start is None else self.val(start)
        return self.call(runtime.trips, start, self.val(stop), self.global_(loop.step))

    # ---- backward -----------------------------------------------------------------------------
    def iteration(self, loop):
        """The value of the loop variable in the iteration that the reverse sweep is in."""
        p, start, k = self.p, loop.range[0], self.p.var(loop.count)
        if loop.step != 1:
            k = p.var(self.put(ir.Expr.binop(operator.mul, k, p.var(self.global_(loop.step)), p.loc)))
        return k.name if start is None else self.put(ir.Expr.binop(operator.add, p.var(self.val(start)), k, p.loc))

    def materialize(self, name):
        """A variable that holds a value of the forward sweep, in the reverse of the present block."""
        p, plan, work = self.p, self.plan, [name]
        while work:
            n = work[-1]
            if n in self.memo or plan.at_hand(n, self.label):
                work.pop()
                continue
            loop = plan.items.get(n)
            needed = [m for m in (loop.range[:1] if loop else reads(p.defs[n][1])) if m is not None and m not in self.memo and not plan.at_hand(m, self.label)]
            if needed:
                work += needed
            elif loop:
                self.memo[n] = self.iteration(loop)
            else:
                s = p.defs[n][1]
                self.memo[n] = self.put(clone(s.value, {m: p.var(self.memo.get(m, m)) for m in reads(s)}), "again")
        return self.memo.get(name, name)

    def _backward(self, label):
        p, plan, loc = self.p, self.plan, self.p.loc
        self.memo = {}
        self.block(label, self.materialize)
        phis = self.phis(label)
        self.flush()
        if label == p.entry:
            self._return()
        elif label in plan.skips:
            self.out.append(ir.Jump(self.back[plan.skips[label]], loc))
        else:
            start, memo, ends = self.out, self.memo, []
            for pred in p.preds[label]:
                self.out, self.current, self.memo = [], {}, dict(memo)
                ends.append(self.new_block(self._edge(label, pred, phis)))
            self.out, self.memo = start, memo
            self._choose(label, ends)
        self._block(self.back[label])

    def _edge(self, label, pred, phis):
        """Go from a block to its predecessor; returns the jump."""
        p, loop, jump = self.p, self.p.by_header.get(label), ir.Jump(self.back[pred], self.p.loc)
        for w, incoming in phis:
            if pred in incoming:
                self.pass_on(incoming[pred], w)
        self.flush()
        if loop is not None and pred == loop.latch:
            segments, start = self.plan.segments.get(label), self.out
            self.out = [] if segments else start
            self.step(operator.sub, loop.count, 1)
            if loop.frame:
                self.pop(self.plan.frame(loop), loop.frame)
            if segments:
                rest = self.new_block(jump)
                self.out = start
                return segments.returned(rest)
        for left in p.chain[pred]:
            if left not in p.chain[label] and left.counted:
                self.assign(left.count, p.var(self.trips(left)))
        return jump

    def _return(self):
        p, loc = self.p, self.p.loc
        sums = [p.var(f"d.{self.args[k]}") for k in self.seeds if is_float(p.type_of(self.args[k]))]
        result = self.put(ir.Expr.build_tuple(sums or [p.var(self.global_(0.0))], loc))
        if not self.apart:
            result = self.put(ir.Expr.build_tuple([p.var("$result"), p.var(result)], loc))
        self.out.append(ir.Return(p.var(result), loc))

    def _choose(self, label, ends):
        """To the end of the list that the forward sweep came by."""
        p, loc = self.p, self.p.loc
        if len(ends) == 1:
            self.out.append(ir.Jump(ends[0], loc))
            return
        loop = p.by_header.get(label)
        if loop is not None:
            k = p.preds[label].index(loop.latch)
            more = self.put(ir.Expr.binop(operator.gt, p.var(loop.count), p.var(self.global_(0)), loc))
            self.out.append(ir.Branch(p.var(more), ends[k], ends[1 - k], loc))
        elif label in self.plan.conditions:
            condition, order = self.plan.conditions[label]
            self.out.append(ir.Branch(p.var(self.materialize(condition)), ends[order[0]], ends[order[1]], loc))
        else:
            came, target, start = p.var(self.materialize(f"came.{label}")), ends[0], self.out
            for k in range(1, len(ends)):
                self.out = start if k == len(ends) - 1 else []
                test = self.put(ir.Expr.binop(operator.eq, came, p.var(self.global_(k)), loc))
                branch = ir.Branch(p.var(test), ends[k], target, loc)
                if self.out is start:
                    self.out.append(branch)
                else:
                    target = self.new_block(branch)
