"""A function as the program that is differentiated: typed statements in SSA form, blocks, loops.

`Program` reduces what Numba's front end produces to few forms.  Iteration over arrays, tuples, `enumerate` and `zip` becomes
iteration over a range; ``a += b`` of arrays, a store; tuples are followed to their elements, through loops too; copies are
followed to their origin, constants move to the entry, equal expressions of one block are computed once, and every loop gets one
preheader and one latch (a block on its only back edge).
"""

import operator
import types as python_types

import numpy as np
from numba import types

from ...codegen.numba_inside import compute_cfg_from_blocks, ir, replace_vars_stmt
from ...common.reached import reached
from .forms import Canonicalizer
from .rows import Refused, details, is_expr, is_phi, let_come, reads

#: Expressions that may be dropped or repeated, apart from memory that they read.
PURE_OPS = {"binop", "unary", "getattr", "build_tuple", "static_getitem", "cast", "getitem", "exhaust_iter",
            "inplace_binop", "pair_first", "pair_second", "phi"}  # fmt: skip
#: Expressions that raise nothing.
_SILENT = {"getattr", "build_tuple", "build_list", "cast", "phi"}
PURE_CALLS = {len, slice, bool, float, int, abs, min, max, range, round}
#: Classes whose instances are immutable, except for iterators.
_VALUES = (tuple, np.generic, enumerate, zip, np.ndenumerate, np.ndindex, BaseException)


#: Types of values without mutable memory.
PLAIN = (types.Number, types.Boolean, types.SliceType, types.RangeType, types.RangeIteratorType, types.NoneType, types.Function, types.Module,
         types.NumberClass, types.DType, types.UnicodeType, types.Dispatcher, types.Opaque, type(types.pyobject))  # fmt: skip


def _unified(tys):
    """The type of what is returned as one of these types."""
    if isinstance(tys[0], types.BaseNamedTuple):
        return types.NamedTuple([*map(_unified, zip(*tys))], tys[0].instance_class)
    if isinstance(tys[0], types.BaseTuple):
        return types.Tuple([*map(_unified, zip(*tys))])
    return types.float64 if any(isinstance(ty, types.Float) for ty in tys) else tys[0]


class NaturalLoop:
    """A natural loop with one preheader and one latch."""

    def __init__(self, header, body, preheader, latch):
        self.header, self.body, self.preheader, self.latch = header, body, preheader, latch
        #: name of a variable: how many back edges were taken; in the reverse sweep the iteration it is in
        self.count = f"trips.{header}"
        self.range = self.item = self.loc = None  # names of start, stop, step, and of the iterator's pair, if it is `for ... in range(...)`
        self.step = None  # the constant step
        self.leaves_early = False
        self.frame = []  # names that are pushed on the back edge

    @property
    def counted(self):
        """Whether the number of iterations follows from the range."""
        return self.step is not None and not self.leaves_early

    def exits(self, program):
        """Edges that leave the loop, except those to an exception."""
        return [(b, s) for b in sorted(self.body) for s in program.succs[b] if s not in self.body and s in program.live]


class Program(Canonicalizer):
    #: whether this is a part of a function, whose arrays are used afterwards
    part = False
    #: whether two arrays among the arguments may be the same memory
    shared = True

    def __init__(self, func_ir, typemap, made=0, pranges=()):
        self.ir, self.types = func_ir, dict(typemap)
        self.blocks = func_ir.blocks
        self.scope = next(iter(self.blocks.values())).scope
        self.loc = func_ir.loc
        self.made = made  # names, also of the program that this one is a part of
        #: where a `prange` is, as (file, line)
        self.pranges = {*pranges}
        #: line of a `prange` -> how it is run
        self.threads = {}
        self.entry = min(self.blocks)
        self.define()
        self._loops()
        self._check()
        self._calls()
        self._copies()
        self._edges()
        self._iterations()
        self._one_exit()
        self._tuples()
        self._copies()
        self._sweep_dead()
        self._hoist_and_share()
        self._shape_loops()
        self.result = self.blocks[self.exit].body[-1].value.name

    # ---- names ------------------------------------------------------------------------------
    def var(self, name):
        return ir.Var(self.scope, name, self.loc)

    def fresh(self, hint):
        self.made += 1
        return f"{hint.split('.r')[0]}.r{self.made}"

    def type(self, name):
        return types.unliteral(self.types[name])

    def type_of(self, name):
        """The type of a name, or None for what has none (a function that was put in)."""
        return types.unliteral(self.types[name]) if name in self.types else None

    def statements(self):
        for label, block in self.blocks.items():
            for k, s in enumerate(block.body):
                yield label, k, s

    def rewritten(self):
        """Each statement, with its block's label and a list, which takes the place of the block's statements: phis come first in it."""
        for label, block in self.blocks.items():
            body = []
            for s in block.body:
                yield label, body, s
            block.body = sorted(body, key=lambda s: not is_phi(s))

    def define(self):
        self.defs = {}
        for label, _, s in self.statements():
            if isinstance(s, ir.Assign):
                if s.target.name in self.defs:
                    raise Refused("a variable is bound in an unsupported way", s.loc)
                self.defs[s.target.name] = (label, s)

    def value_of(self, name):
        """The right side that defines a name, or what it is a copy of; or None."""
        value = self.defs[name][1].value if name in self.defs else None
        return self.value_of(value.name) if isinstance(value, ir.Var) else value

    def object_of(self, name):
        """The Python object a name stands for (a global, or an attribute of a module), or None."""
        value = self.value_of(name)
        if isinstance(value, (ir.Global, ir.FreeVar, ir.Const)):
            return value.value
        if is_expr(value, "getattr"):
            owner = self.object_of(value.value.name)
            if isinstance(owner, python_types.ModuleType):
                return getattr(owner, value.attr, None)
        return None

    def number_of(self, name):
        """The integer that a name stands for, with a sign, or None."""
        value = self.value_of(name)
        if is_expr(value, "unary") and value.fn in (operator.neg, "-"):
            number = self.object_of(value.value.name)
            return -number if isinstance(number, int) else None
        number = self.object_of(name)
        return number if isinstance(number, int) else None

    def callee(self, expr):
        """The callee: a Python object, or the pair (array's name, method's name)."""
        function = self.object_of(expr.func.name)
        value = self.value_of(expr.func.name)
        return (value.value.name, value.attr) if function is None and is_expr(value, "getattr") else function

    # ---- tidying ----------------------------------------------------------------------------
    def _copies(self):
        origin = {}
        for name, (_, s) in self.defs.items():
            value = s.value
            if is_expr(value, "cast"):
                value = value.value
            elif is_expr(value, "call") and self.object_of(value.func.name) is bool:
                value = value.args[0]
            if isinstance(value, ir.Var) and self.type_of(name) == self.type_of(value.name):
                origin[name] = value.name
        for name in origin:
            while origin[name] in origin:
                origin[name] = origin[origin[name]]
        table = {a: self.var(b) for a, b in origin.items()}
        for block in self.blocks.values():
            block.body = [s for s in block.body if not (isinstance(s, ir.Assign) and s.target.name in origin)]
            for s in block.body:
                replace_vars_stmt(s, table)
        self.define()

    def pure(self, s):
        """Whether a statement may be dropped or repeated."""
        if not isinstance(s, ir.Assign) or isinstance(s.value, ir.Arg):
            return False
        if is_expr(s.value, "call"):
            function = self.callee(s.value)
            if isinstance(function, tuple):
                return False
            return function in PURE_CALLS or isinstance(function, type) and issubclass(function, _VALUES) or getattr(function, "__module__", "") == "math"
        return not is_expr(s.value) or s.value.op in PURE_OPS

    def steady(self, s):
        """Whether a statement is repeatable: it reads no list or object, which may change meanwhile."""
        return all(isinstance(self.type_of(n), (*PLAIN, types.Array, types.BaseTuple, types.BoundFunction)) for n in reads(s) if n in self.types)

    def _sweep_dead(self):
        needed = [name for _, _, s in self.statements() if not self._removable(s) for name in reads(s)]
        alive = reached(needed, lambda name: reads(self.defs[name][1]) if name in self.defs else ())
        for block in self.blocks.values():
            block.body = [s for s in block.body if not (self._removable(s) and s.target.name not in alive)]
        self.define()

    def _removable(self, s):
        """Whether the statement is dead when its result is unused: it raises nothing."""
        if not isinstance(s, ir.Assign) or not is_expr(s.value):
            return self.pure(s)
        if s.value.op == "call":
            return self.pure(s) and isinstance(self.callee(s.value), type)
        of_tuples = s.value.op in ("static_getitem", "exhaust_iter") and isinstance(self.type_of(s.value.value.name), types.BaseTuple)
        return s.value.op in _SILENT or of_tuples

    def _key(self, s):
        """The key of a constant, or None."""
        value = s.value
        if isinstance(value, (ir.Const, ir.Global, ir.FreeVar)):
            plain = isinstance(value.value, (int, float, str, bool, type(None)))
            return (type(value.value), repr(value.value) if plain else id(value.value), str(self.types[s.target.name]))
        if is_expr(value, "getattr") and isinstance(self.object_of(value.value.name), python_types.ModuleType):
            return ("getattr", value.value.name, value.attr)
        return None

    def _hoist_and_share(self):
        """Move constants to the entry, once each; compute equal pure expressions of a block once."""
        entry, constants, rename = [], {}, {}
        for label in sorted(self.blocks):
            body, seen = [], {}
            for s in self.blocks[label].body:
                replace_vars_stmt(s, rename)
                value = getattr(s, "value", None)
                if isinstance(s, ir.SetItem) or is_expr(value) and not self.pure(s):
                    seen = {k: n for k, n in seen.items() if k[0] != "getitem"}  # memory may have changed
                if isinstance(s, ir.Assign) and not isinstance(value, (ir.Arg, ir.Var)):
                    key = self._key(s)
                    if key is not None:
                        if key in constants:
                            rename[s.target.name] = self.var(constants[key])
                        else:
                            constants[key] = s.target.name
                            entry.append(s)
                        continue
                    if self.pure(s) and self.steady(s) and value.op != "phi" and isinstance(self.type_of(s.target.name), (*PLAIN, types.BaseTuple)):
                        key = (*details(value), *reads(s), str(self.types[s.target.name]))
                        if key in seen:
                            rename[s.target.name] = self.var(seen[key])
                            continue
                        seen[key] = s.target.name
                body.append(s)
            self.blocks[label].body = body
        first = self.blocks[self.entry]
        args = [s for s in first.body if isinstance(s, ir.Assign) and isinstance(s.value, ir.Arg)]
        first.body = args + entry + [s for s in first.body if not any(s is a for a in args)]
        for block in self.blocks.values():
            for s in block.body:
                replace_vars_stmt(s, rename)
        self.define()
        self.constants = len(args) + len(entry)

    # ---- control flow -----------------------------------------------------------------------
    def _one_exit(self):
        """One block that returns."""
        ends = [b for b, block in self.blocks.items() if isinstance(block.body[-1], ir.Return)]
        if not ends:
            raise Refused("it never returns", self.loc)
        if len(ends) > 1:
            label = max(self.blocks) + 1
            block = self.blocks[label] = ir.Block(self.scope, self.loc)
            phi = let_come(ir.Expr.phi(self.loc), [(b, self.blocks[b].body[-1].value) for b in ends])
            result = self.assign(block.body, phi, _unified([self.type(v.name) for v in phi.incoming_values]), "returned")
            block.body.append(ir.Return(self.var(result), self.loc))
            for b in ends:
                self.blocks[b].body[-1] = ir.Jump(label, self.loc)
            self.define()
            ends = [label]
        self.exit = ends[0]

    def _new_block(self, target, preds):
        """A block on the edges from `preds` to `target`."""
        label = max(self.blocks) + 1
        block = self.blocks[label] = ir.Block(self.scope, self.loc)
        for s in self.blocks[target].body:
            if not is_expr(getattr(s, "value", None), "phi"):
                break
            e = s.value
            pairs = list(zip(e.incoming_blocks, e.incoming_values))
            moved = [(b, v) for b, v in pairs if b in preds]
            kept = [(b, v) for b, v in pairs if b not in preds]
            if moved:
                value = moved[0][1]
                if any(v.name != value.name for _, v in moved) or len(moved) < len(preds):
                    phi = let_come(ir.Expr.phi(self.loc), moved)
                    value = self.var(self.assign(block.body, phi, self.types[s.target.name], s.target.name))
                kept.append((label, value))
            let_come(e, kept)
        block.body.append(ir.Jump(target, self.loc))
        for b in preds:
            last = self.blocks[b].body[-1]
            if isinstance(last, ir.Jump):
                self.blocks[b].body[-1] = ir.Jump(label, last.loc)
            else:
                ends = [label if t == target else t for t in (last.truebr, last.falsebr)]
                self.blocks[b].body[-1] = ir.Branch(last.cond, *ends, last.loc)
        return label

    def _edges(self):
        cfg = compute_cfg_from_blocks(self.blocks)
        for dead in cfg.dead_nodes():
            del self.blocks[dead]
        self.succs = {b: [s for s, _ in cfg.successors(b)] for b in self.blocks}
        self.preds = {b: sorted(p for p, _ in cfg.predecessors(b)) for b in self.blocks}
        self.idom = cfg.immediate_dominators()
        self.dominators = cfg.dominators()

    def _shape_loops(self):
        self._edges()
        outer = {}
        for h in [b for b in self.blocks if any(b in self.dominators[p] for p in self.preds[b])]:
            back = [p for p in self.preds[h] if h in self.dominators[p]]
            latch = self._new_block(h, back)
            outer[h] = (self._new_block(h, [p for p in self.preds[h] if p not in back]), latch)
        self._edges()
        loops = [NaturalLoop(h, {h, *reached([latch], self.preds.get, h)}, preheader, latch) for h, (preheader, latch) in outer.items()]
        self.loops = sorted(loops, key=lambda loop: -len(loop.body))
        self.by_header = {loop.header: loop for loop in self.loops}
        self.chain = {b: [loop for loop in self.loops if b in loop.body] for b in self.blocks}
        returning = reached([self.exit], self.preds.get)
        self.live = [b for b in self.blocks if b in returning]  # from which the function returns
        self.define()
        for loop in self.loops:
            self._find_range(loop)

    def _find_range(self, loop):
        for s in self.blocks[loop.header].body:
            e = getattr(s, "value", None)
            if is_expr(e, "iternext"):
                iterator = self.value_of(e.value.name)
                numbers = self.value_of(iterator.value.name) if is_expr(iterator, "getiter") else None
                if is_expr(numbers, "call") and self.object_of(numbers.func.name) is range:
                    args = [v.name for v in numbers.args]
                    loop.range = {1: (None, *args, None), 2: (*args, None), 3: tuple(args)}[len(args)]
                    loop.step = 1 if loop.range[2] is None else self.number_of(loop.range[2]) or None
                    loop.item, loop.loc = s.target.name, s.loc
                    loop.leaves_early = any(b != loop.header for b, _ in loop.exits(self))
