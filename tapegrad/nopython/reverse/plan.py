"""What the reverse sweep needs of the forward sweep: kept per iteration, computed again, or at hand.

A value that is needed at a place of the reverse sweep is

- at hand, if no loop encloses both its definition and that place: its variable still holds it;
- computed again, if that is cheap: arithmetic, views, loop variables of `range`, conditions, and loads from arrays not written in
  between (what a store overwrites is kept and put back);
- kept otherwise: values that loops carry, results of exp and the like.

Between what can be kept and what is needed, the cheapest separating set is kept (a minimum cut).
"""

from numba import types

from ...codegen.numba_inside import ir
from ...common.reached import reached
from ..types import primal_type
from . import runtime
from .activity import ELSEWHERE
from .rows import CHEAP, Refused, elementwise, is_expr, is_float, is_phi, reads
from .segments import Segments, arrays_of, outermost

ENDLESS = 1 << 40
_FIXED = ("binop", "unary", "build_tuple", "cast")
_AGAIN = ("binop", "inplace_binop", "unary", "getattr", "build_tuple", "static_getitem", "cast", "exhaust_iter")


def common(a, b):
    """How many loops two chains have in common."""
    n = 0
    while n < min(len(a), len(b)) and a[n] is b[n]:
        n += 1
    return n


class RematerialisationPlan:
    def __init__(self, sweeps):
        self.r, self.p = sweeps, sweeps.p
        p = self.p
        self.saved, self.skips, self.conditions, self.selected = set(), {}, {}, set()
        #: variables of the sweeps themselves -> block where they are bound
        self.pseudo = {loop.count: loop.preheader for loop in p.loops} | {f"came.{b}": b for b in p.blocks}
        self.items = {}
        for name, (label, s) in p.defs.items():
            if is_expr(s.value, "pair_first"):
                for loop in p.chain[label]:
                    if loop.step is not None and loop.item == s.value.value.name:
                        self.items[name] = loop
        self._locals()
        self._writes()
        self._sums()
        self.repeated = {loop: {self.r.group(n) for n in arrays_of(p, loop)} for loop in outermost(p)} if sweeps.memory else {}
        self.segments, self.put_back = {}, set()
        while True:
            self._dry_run()
            more = {id(s) for s, label, k in self.stores if self._wanted(s, label, k) or self._read_again(s, label)} - self.put_back
            if not more:
                break
            self.put_back |= more
        for group in self.read:
            if group in self.volatile:
                raise Refused("an array that a call may change is needed again by the reverse sweep", self.volatile[group])
        self._cut()
        self._frames()
        divided = [loop for loop in self.repeated if any(label in loop.body for label in self.pushing)]
        self.segments = {loop.header: Segments(sweeps, loop, len(divided)) for loop in divided}

    # ---- questions of the emitter -------------------------------------------------------------
    def where(self, name):
        return self.p.defs[name][0] if name in self.p.defs else self.pseudo.get(name)

    def at_hand(self, name, label):
        return self.outside(name, label) or name in self.saved

    def outside(self, name, label):
        """Whether no loop encloses both a definition and a place: the variable is as it was then."""
        at = self.where(name)
        return at is None or name in self.r.kept_by_caller or not common(self.p.chain[at], self.p.chain[label])

    def reserved(self, loop):
        """Whether memory for all iterations is reserved before the loop.

        Nothing else in it may use it up, no inner loop and no helper, nor may an exception end the loop before its range does.
        """
        ends = [b for block in loop.body for b in self.p.succs[block] if b not in self.p.live]
        return loop.counted and loop.header not in self.segments and not ends and not any(label in loop.body and label != loop.latch for label in self.pushing)

    def frame(self, loop):
        return runtime.frame(tuple(self.type(n) for n in loop.frame))

    def type(self, name):
        return types.int64 if name in self.pseudo else self.r.kept_type(name)

    # ---- reading ------------------------------------------------------------------------------
    def _locals(self):
        """Active numbers that are used in the block of their definition only."""
        p, r = self.p, self.r
        r.locals = {n for n in p.defs if is_float(p.type_of(n)) and r.active(n) and not isinstance(p.defs[n][1].value, ir.Arg)}
        for label, _, s in p.statements():
            r.locals -= {n for n in r.operands(s) if is_phi(s) or n in p.defs and p.defs[n][0] != label}

    def _writes(self):
        p, r = self.p, self.r
        self.stores, self.written, self.volatile, self.born = [], {}, {}, {}
        for label, k, s in p.statements():
            for name in r.changed_by(s):
                self.written.setdefault(r.group(name), []).append((label, k))
                if name is not ELSEWHERE and isinstance(s, ir.SetItem):
                    self.stores.append((s, label, k))
                elif name is ELSEWHERE or not r.paired(s):  # (the two functions of a helper put back what it changes)
                    self.volatile[r.group(name)] = s.loc
        for name, (label, s) in p.defs.items():
            if isinstance(p.type_of(name), types.Array) and not r.aliases(s):
                self.born.setdefault(r.group(name), []).append(label)
        self.place = {id(s): (label, k) for label, k, s in p.statements()}

    def _sums(self):
        """Loads in a loop of an element that is the same in each iteration, and that the loop does not store into.

        Their adjoints are summed up in a variable, and added to the shadow where the reverse sweep leaves the loop: an addition to
        memory in each iteration takes two to three times as long, since each waits for the one before.
        """
        p, r = self.p, self.r
        #: id of the load -> number of its sum; preheader of the loop -> loads
        self.sums, self.settled = {}, {}
        for label, _, s in p.statements():
            e = getattr(s, "value", None)
            if is_expr(e, "getitem") and is_float(p.type_of(s.target.name)) and isinstance(p.type_of(e.value.name), types.Array) and r.active(s.target.name):
                writes, outermost = {b for b, _ in self.written.get(r.group(e.value.name), ())}, None
                for loop in reversed(p.chain[label]):
                    if writes & loop.body or not all(self._fixed(n, loop) for n in reads(s)):
                        break
                    outermost = loop
                if outermost is not None:
                    self.sums[id(s)] = len(self.sums)
                    self.settled.setdefault(outermost.preheader, []).append(s)

    def _fixed(self, name, loop):
        """Whether a value is loop-invariant: it comes from outside of the loop, or is computed from such values by arithmetic alone."""
        label, s = self.p.defs.get(name, (None, None))
        return label not in loop.body or is_expr(s.value) and s.value.op in _FIXED and self.p.pure(s) and all(self._fixed(n, loop) for n in reads(s))

    def reach(self, starts, avoid=None):
        return reached(starts, self.p.succs.get, avoid)

    def _overwritten(self, name, at, k):
        """Whether the array that a load reads may be written between the load and a place."""
        group = self.r.group(self.p.defs[name][1].value.value.name)
        writes = self.written.get(group, [])
        if not writes:
            return False
        if group in self.volatile:
            return True
        b0, k0 = self.place[id(self.p.defs[name][1])]
        if b0 == at:
            return any(b == at and k0 < kw <= k for b, kw in writes)
        between = self.reach(self.p.succs[b0], b0)
        for b, kw in writes:
            if b == b0 and kw > k0 or b == at and kw <= k:
                return True
            if b in between and b != b0 and at in self.reach(self.p.succs[b], b0):
                return True
        return False

    def _wanted(self, s, label, k):
        """Whether an earlier load of the same array is repeated by the reverse sweep."""
        group = self.r.group(s.target.name)
        if self.r.apart and self.p.shared and any(self.r.group(a) == group for a in self.r.args):
            return True  # the caller may have read it before
        born = self.born.get(group, [])
        avoid = born[0] if len(born) == 1 else None
        return any(at == label and k > j or label in self.reach(self.p.succs[at], avoid) for at, j in self.read.get(group, ()))

    def _read_again(self, s, label):
        """Whether a store comes after a loop that runs again, and may change what it reads."""
        group = self.r.group(s.target.name)
        return any(group in groups and label not in loop.body and label in self.reach([loop.header]) for loop, groups in self.repeated.items())

    # ---- needs --------------------------------------------------------------------------------
    def _dry_run(self):
        """Run the rules of all blocks and note what they read, and where."""
        r = self.r
        self.needs, self.read, idle = set(), {}, set()
        r.plan = self
        for label in self.p.live:
            self.at = (label, -1)
            r.block(label, self._need)
            self.at = (label, -1)
            if not r.phis(label) and not r.used:
                idle.add(label)
        self._control(idle)
        self.cone, self.bad = {}, set()
        reached(sorted(self.needs, reverse=True), self._enter)

    def _need(self, name):
        self.needs.add((name, *self.at))
        return name

    def content(self, name):
        """Note that the elements of an array are read at the present place."""
        self.read.setdefault(self.r.group(name), set()).add(self.at)

    def _control(self, idle):
        """How the reverse sweep finds the way back: counts of iterations, conditions, or a note of where it came from."""
        p = self.p
        self.skips, self.conditions, self.selected = {}, {}, set()
        for b in p.live:
            if b == p.entry or b in p.by_header:
                continue
            left = [loop for pred in p.preds[b] for loop in p.chain[pred] if loop not in p.chain[b]]
            if len(p.preds[b]) < 2 and not left:
                continue
            d = p.idom[b]
            while any(loop not in p.chain[b] for loop in p.chain[d]):
                d = p.idom[d]
            if b in idle and idle.issuperset(reached(p.preds[b], p.preds.get, d)):
                self.skips[b] = d
                continue
            for loop in left:
                if loop.counted:
                    self.needs |= {(n, b, -1) for n in loop.range[:2] if n is not None}
                else:
                    self.needs.add((loop.count, b, -1))
            if len(p.preds[b]) > 1:
                condition = self._condition(b, p.idom[b])
                if condition:
                    self.conditions[b] = condition
                    self.needs.add((condition[0], b, -1))
                else:
                    self.selected.add(b)
                    self.needs.add((f"came.{b}", b, -1))

    def _condition(self, b, d):
        """(condition, order of predecessors) if a branch decides by which of two edges a block is entered."""
        p = self.p
        last = p.blocks[d].body[-1]
        if not isinstance(last, ir.Branch) or len(p.preds[b]) != 2 or last.truebr == last.falsebr or p.chain[d] != p.chain[b]:
            return None

        def side(pred):
            for k, t in enumerate((last.truebr, last.falsebr)):
                if pred == d and t == b or t != b and t in p.dominators[pred] and p.preds[t] == [d]:
                    return k
            return None

        sides = [side(q) for q in p.preds[b]]
        return (last.cond.name, (sides.index(0), sides.index(1))) if {*sides} == {0, 1} else None

    def _enter(self, need):
        """Enter a needed value into the cone; the needs of computing it again."""
        name, label, k = need
        if self.outside(name, label):
            return []
        operands = self._operands(name, label, k)
        self.cone.setdefault(name, operands)
        if operands is None:
            self.bad.add(name)
        return [(n, label, k) for n in operands or ()]

    def _operands(self, name, label, k):
        """The operands that a value is recomputed from, or None if it has to be kept."""
        p, r = self.p, self.r
        if name in self.pseudo or name in r.overwritten:
            return None
        loop = self.items.get(name)
        if loop is not None:
            return [n for n in loop.range[:1] if n is not None] if loop in p.chain[label] else None
        s = p.defs[name][1]
        e, ty = s.value, p.type_of(name)
        if isinstance(e, ir.Var):
            return reads(s)
        if not is_expr(e):
            return None if isinstance(e, ir.Arg) else []
        if not p.steady(s):
            return None
        if e.op == "getitem":
            if not isinstance(p.type_of(e.value.name), types.Array):
                return None
            if isinstance(ty, types.Array):
                return reads(s) if r.base(s) else None
            if self._overwritten(name, label, k):
                return None
            self.read.setdefault(r.group(e.value.name), set()).add((label, k))
            return reads(s)
        if r.base(s):
            return None if is_phi(s) else reads(s)
        operation = elementwise(p, s)
        if operation:
            cheap = operation.row in CHEAP or not is_float(ty) or operation.row == "power" and operation.exprs[1] is None
            return reads(s) if cheap and not isinstance(ty, types.Array) else None
        if isinstance(ty, types.Array):
            return None
        if e.op in _AGAIN:
            return reads(s)
        if e.op == "call" and not isinstance(p.callee(e), tuple):
            return reads(s) if p.pure(s) or p.callee(e) is runtime.trips else None
        return None

    # ---- choosing what to keep ----------------------------------------------------------------
    def _weight(self, name):
        """Bytes, times a guess of how many iterations the loops around make."""
        ty, iterations = primal_type(self.type(name)), 50 ** len(self.p.chain[self.where(name)])
        if isinstance(ty, types.Boolean):
            return 2 * iterations
        if isinstance(ty, (types.Float, types.Integer)):
            return 8 * iterations
        return 8 * (5 + 2 * ty.ndim) * iterations if isinstance(ty, types.Array) else ENDLESS

    def _cut(self):
        graph = {}

        def edge(a, b, capacity):
            graph.setdefault(a, {})[b] = graph.get(a, {}).get(b, 0) + capacity
            graph.setdefault(b, {}).setdefault(a, 0)

        for name, operands in self.cone.items():
            edge((name, 0), (name, 1), self._weight(name))
            if name in self.bad:
                edge("source", (name, 0), ENDLESS)
            else:
                for n in operands:
                    if n in self.cone:
                        edge((n, 1), (name, 0), ENDLESS)
        for name, label, _ in self.needs:
            if name in self.cone and not self.outside(name, label):
                edge((name, 1), "sink", ENDLESS)
        if "source" not in graph or "sink" not in graph:
            return
        while path := self._path(graph):
            flow = min(graph[a][b] for a, b in path)
            if flow >= ENDLESS:
                place = next((self.p.defs[a[0]][1].loc for a, _ in path if a[0] in self.p.defs), self.p.loc)
                raise Refused("the reverse sweep would have to keep a value that is neither a number nor an array", place)
            for a, b in path:
                graph[a][b] -= flow
                graph[b][a] += flow
        # The cut next to the needs: least is computed again.
        near = reached(["sink"], lambda b: [a for a in graph[b] if graph[a][b] > 0])
        self.saved = {n for n in self.cone if (n, 0) not in near and (n, 1) in near}

    @staticmethod
    def _path(graph):
        """The edges of a shortest way with capacity left; none if there is no way."""
        before, work = {"source": None}, ["source"]
        for a in work:  # (it grows)
            for b, capacity in graph[a].items():
                if capacity > 0 and b not in before:
                    before[b] = a
                    work.append(b)
        path, b = [], "sink"
        while before.get(b) is not None:
            path.append((before[b], b))
            b = before[b]
        return path

    def _frames(self):
        p = self.p
        loops = [*p.loops, p.root] if self.r.apart else p.loops
        wanted = {loop.header: set() for loop in loops}

        def carry(need):
            """Let the loops around it push a kept value; the needs of one that is computed again."""
            name, label = need
            if self.outside(name, label):
                return []
            if name not in self.saved:
                return [(n, label) for n in self.cone.get(name) or ()]
            for loop in reversed(p.chain[label][: common(p.chain[self.where(name)], p.chain[label])]):
                wanted[loop.header].add(name)
                if label not in self._last_iteration(loop):
                    break
            return []

        reached([(name, label) for name, label, _ in self.needs], carry)
        for loop in loops:
            loop.frame = sorted(wanted[loop.header], key=lambda n: (str(self.type(n)), n))
        self.pushing = {loop.latch for loop in loops if loop.frame} | {label for label, _, s in p.statements() if self.r.paired(s)}

    def _last_iteration(self, loop):
        """Blocks that may run in an iteration that does not end with the back edge."""
        ends = [b for b, _ in loop.exits(self.p)]
        return reached(ends, lambda b: [x for x in self.p.preds[b] if x in loop.body and b != loop.header])
