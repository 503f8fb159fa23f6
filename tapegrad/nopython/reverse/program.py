"""A function as the program that is differentiated: typed statements in SSA form, blocks, loops.

`Program` brings what Numba's front end leaves into few forms.  Iteration over arrays, tuples, `enumerate` and `zip` becomes
iteration over a range; ``a += b`` of arrays, a store; tuples are followed to their elements, through loops too; copies are followed to
their origin, constants move to the entry, equal expressions of one block are computed once, and every loop gets one preheader and
one latch (a block on its only back edge).
"""

from __future__ import annotations

import operator
import types as python_types

import numba
import numpy as np
from numba.core import ir, types
from numba.core.analysis import compute_cfg_from_blocks
from numba.core.ir_utils import replace_vars_stmt

from . import runtime
from .refusal import Refused
from .statements import details, is_expr, reads

#: Expressions that may be left out or repeated, apart from memory that they read.
PURE_OPS = {"binop", "unary", "getattr", "build_tuple", "static_getitem", "cast", "getitem", "exhaust_iter",
            "inplace_binop", "pair_first", "pair_second", "phi"}  # fmt: skip
PURE_CALLS = {len, slice, bool, float, int, abs, min, max, range, round}
_STATEMENTS = (ir.Assign, ir.SetItem, ir.StaticSetItem, ir.Jump, ir.Branch, ir.Return, ir.Raise, ir.StaticRaise, ir.Del, ir.Print)


class Loop:
    """A natural loop with one preheader and one latch."""

    def __init__(self, header, body, preheader, latch):
        self.header, self.body, self.preheader, self.latch = header, body, preheader, latch
        #: name of a variable: how many back edges were taken; in the reverse sweep the turn it is in
        self.count = f"trips.{header}"
        self.range = self.item = None  # names of start, stop, step, and of the iterator's pair, if it is `for ... in range(...)`
        self.step = None  # the constant step
        self.leaves_early = False
        self.frame = []  # names that are pushed on the back edge

    @property
    def counted(self):
        """Whether the number of turns follows from the range."""
        return self.step is not None and not self.leaves_early

    def exits(self, program):
        """Edges that leave the loop, but for those to an exception."""
        return [(b, s) for b in sorted(self.body) for s in program.succs[b] if s not in self.body and s in program.live]


class Program:
    def __init__(self, func_ir, typemap):
        self.ir, self.types = func_ir, dict(typemap)
        self.blocks = func_ir.blocks
        self.scope = next(iter(self.blocks.values())).scope
        self.loc = func_ir.loc
        self.made = 0
        self.entry = min(self.blocks)
        self._check()
        self.define()
        self._calls()
        self._copies()
        self._edges()
        self._iterations()
        self._tuples()
        self._copies()
        self._sweep_dead()
        self._hoist_and_share()
        self._one_exit()
        self._shape_loops()

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

    def define(self):
        self.defs = {}
        for label, _, s in self.statements():
            if isinstance(s, ir.Assign):
                if s.target.name in self.defs:
                    raise Refused("a variable is bound in a way that is not followed", s.loc)
                self.defs[s.target.name] = (label, s)

    def value_of(self, name):
        """The right side that defines a name."""
        return self.defs[name][1].value if name in self.defs else None

    def object_of(self, name):
        """The Python object a name stands for (a global, or an attribute of a module), or None."""
        value = self.value_of(name)
        while isinstance(value, ir.Var):
            value = self.value_of(value.name)
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
        """What a call calls: a Python object, or the pair (array's name, method's name)."""
        function = self.object_of(expr.func.name)
        value = self.value_of(expr.func.name)
        if function is None and is_expr(value, "getattr"):
            return (value.value.name, value.attr)
        return function

    # ---- statements that are put in -----------------------------------------------------------
    def assign(self, body, value, ty=types.pyobject, hint="$made"):
        name = self.fresh(hint)
        self.types[name] = ty
        statement = ir.Assign(value, self.var(name), self.loc)
        body.append(statement)
        self.defs[name] = (None, statement)
        return name

    def constant(self, body, value, ty=types.int64):
        return self.assign(body, ir.Const(value, self.loc), ty)

    def call(self, body, function, names, ty):
        callee = self.assign(body, ir.Global(getattr(function, "__name__", "f"), function, self.loc))
        return self.assign(body, ir.Expr.call(self.var(callee), [self.var(n) for n in names], (), self.loc), ty)

    # ---- few forms --------------------------------------------------------------------------
    def _check(self):
        for _, _, s in self.statements():
            if not isinstance(s, _STATEMENTS) or isinstance(getattr(s, "value", None), ir.Yield):
                raise Refused("a statement of this kind (del, with, try, yield) is not followed", s.loc)
            e = getattr(s, "value", None)
            if is_expr(e, "phi"):  # a variable may have no value on some of the ways
                pairs = [(b, v) for b, v in zip(e.incoming_blocks, e.incoming_values) if v.name in self.types]
                e.incoming_blocks, e.incoming_values = [b for b, _ in pairs], [v for _, v in pairs]

    def _calls(self):
        """Stores and calls that have several forms."""
        for block in self.blocks.values():
            body = []
            for s in block.body:
                e = getattr(s, "value", None)
                if isinstance(s, ir.Del):
                    continue
                if isinstance(s, ir.StaticSetItem):
                    s = ir.SetItem(s.target, s.index_var, s.value, s.loc)
                elif is_expr(e, "static_getitem") and isinstance(self.type_of(e.value.name), types.Array):
                    index = e.index_var or self.var(self.constant(body, e.index, types.literal(e.index)))
                    s.value = ir.Expr.getitem(e.value, index, e.loc)
                elif is_expr(e, "inplace_binop") and isinstance(self.type_of(e.lhs.name), types.Array):
                    operands = [ty for ty in (self.type_of(e.lhs.name), self.type_of(e.rhs.name)) if isinstance(ty, types.Array)]
                    layout = "F" if all(ty.layout == "F" for ty in operands) else "C"
                    ty = types.Array(operands[0].dtype, operands[0].ndim, layout)
                    changed = self.assign(body, ir.Expr.binop(e.immutable_fn, e.lhs, e.rhs, s.loc), ty)
                    self._store_all(body, e.lhs, changed, s.loc)
                    s.value = e.lhs
                elif is_expr(e, "call") and not e.kws and e.vararg is None:
                    self._rewrite_call(body, s, e)
                body.append(s)
            block.body = body
        self.define()

    def _store_all(self, body, target, name, loc):
        n, none = self.type(target.name).ndim, self.constant(body, None, types.none)
        everything = self.call(body, slice, [none, none], types.slice2_type)
        index = self.assign(body, ir.Expr.build_tuple([self.var(everything)] * n, loc), types.UniTuple(types.slice2_type, n))
        body.append(ir.SetItem(target, self.var(index), self.var(name), loc))

    def _rewrite_call(self, body, s, e):
        function, loc = self.callee(e), s.loc
        if isinstance(function, tuple):
            if function[1] == "fill" and isinstance(self.type_of(function[0]), types.Array):
                self._store_all(body, self.var(function[0]), e.args[0].name, loc)
                s.value = ir.Const(None, loc)
        elif function in (min, max) and len(e.args) > 2:
            name = e.args[0].name
            for operand in e.args[1:-1]:
                name = self.assign(body, ir.Expr.call(e.func, [self.var(name), operand], (), loc), self.types[s.target.name])
            s.value = ir.Expr.call(e.func, [self.var(name), e.args[-1]], (), loc)
        elif function is numba.prange:
            s.value = ir.Expr.call(self.var(self.assign(body, ir.Global("range", range, loc))), e.args, (), loc)
        elif function is np.array and len(e.args) == 1:
            items = self._items(e.args[0].name)
            if items is not None and isinstance(self.types[s.target.name].dtype, types.Float):
                s.value = self._array_of(body, items, self.types[s.target.name])

    def _items(self, name):
        """The names that a list or tuple is written of, rows of names for nested ones, or None."""
        value = self.value_of(name)
        while isinstance(value, ir.Var):
            value = self.value_of(value.name)
        if not (is_expr(value, "build_list") or is_expr(value, "build_tuple")):
            return None
        items = [v.name for v in value.items]
        nested = [self._items(n) if not isinstance(self.type(n), (types.Number, types.Boolean)) else n for n in items]
        return None if any(item is None for item in nested) else nested

    def _array_of(self, body, items, ty):
        rows = items if isinstance(items[0], list) else [items]
        if any(isinstance(item, list) for row in rows for item in row) or len({len(row) for row in rows}) > 1:
            raise Refused("an array is written of lists that are nested deeper than a matrix", self.loc)
        sizes = [len(rows), len(rows[0])][2 - ty.ndim:]
        shape = [self.constant(body, n) for n in sizes]
        shape = self.assign(body, ir.Expr.build_tuple([self.var(n) for n in shape], self.loc), types.UniTuple(types.int64, ty.ndim))
        array = self.var(self.call(body, np.empty, [shape], types.Array(types.float64, ty.ndim, "C")))
        for i, row in enumerate(rows):
            for j, item in enumerate(row):
                index = [self.constant(body, k) for k in (i, j)[2 - ty.ndim:]]
                position = self.assign(body, ir.Expr.build_tuple([self.var(n) for n in index], self.loc),
                                       types.UniTuple(types.int64, ty.ndim))  # fmt: skip
                body.append(ir.SetItem(array, self.var(position), self.var(item), self.loc))
        return array

    # ---- iteration --------------------------------------------------------------------------
    def _iterations(self):
        """Iteration over arrays, tuples, `enumerate` and `zip` as iteration over a range."""
        self.arrays, in_bodies = {}, {}
        for label, block in list(self.blocks.items()):
            body = []
            for s in block.body:
                e = getattr(s, "value", None)
                if is_expr(e, "getiter") and self._spelled(e.value.name):
                    length = self._length(body, e.value.name)
                    numbers = self.call(body, range, [length], types.range_state64_type)
                    self.arrays[s.target.name] = e.value.name
                    s.value = ir.Expr.getiter(self.var(numbers), s.loc)
                body.append(s)
            block.body = body
        self.define()
        for label, block in list(self.blocks.items()):
            for s in block.body:
                e = getattr(s, "value", None)
                source = self.value_of(e.value.name) if is_expr(e, "pair_first") else None
                if is_expr(source, "iternext") and source.value.name in self.arrays:
                    in_bodies[s.target.name] = (s, label, self.arrays[source.value.name])
        for name, (s, label, source) in in_bodies.items():
            index, items = self.fresh("$index"), []
            item = self._item(items, source, index, self.type(name))
            items.append(ir.Assign(self.var(item), s.target, s.loc))
            s.target = self.var(index)
            self.types[index] = types.int64
            self._into_body(label, items, name, s.loc)
        self.define()

    def _into_body(self, label, items, name, loc):
        last = self.blocks[label].body[-1]
        if not isinstance(last, ir.Branch):
            raise Refused("an iterator is used in a way that is not followed", loc)
        start = last.truebr
        if self.preds[start] != [label]:
            start = self._new_block(start, [label])
            self._edges()
        at = sum(is_expr(getattr(q, "value", None), "phi") for q in self.blocks[start].body)
        self.blocks[start].body[at:at] = items
        for other, block in self.blocks.items():
            for q in block.body:
                if name in reads(q) and start not in self.dominators[other]:
                    raise Refused("a loop's variable is used after the loop; bind another one in the loop", loc)

    def _spelled(self, name):
        """Whether iteration over a value can be written by index."""
        ty, value = self.type(name), self.value_of(name)
        if isinstance(ty, types.Array) or isinstance(ty, types.UniTuple) and isinstance(ty.dtype, types.Float):
            return True
        if is_expr(value, "call") and self.object_of(value.func.name) in (enumerate, zip) and not value.kws:
            sources = value.args[:1] if self.object_of(value.func.name) is enumerate else value.args
            return all(self._spelled(v.name) or self._is_range(v.name) for v in sources)
        return False

    def _is_range(self, name):
        value = self.value_of(name)
        return is_expr(value, "call") and self.object_of(value.func.name) is range

    def _range(self, body, name):
        args = [v.name for v in self.value_of(name).args]
        start = args[0] if len(args) > 1 else self.constant(body, 0)
        return start, args[1 if len(args) > 1 else 0], args[2] if len(args) > 2 else self.constant(body, 1)

    def _length(self, body, name):
        ty, value = self.type(name), self.value_of(name)
        if isinstance(ty, types.Array):
            return self.call(body, len, [name], types.intp)
        if isinstance(ty, types.BaseTuple):
            return self.constant(body, len(ty))
        if self._is_range(name):
            return self.call(body, runtime.trips, self._range(body, name), types.int64)
        lengths = [self._length(body, v.name) for v in (value.args[:1] if self.object_of(value.func.name) is enumerate else value.args)]
        while len(lengths) > 1:
            lengths.append(self.call(body, min, [lengths.pop(), lengths.pop()], types.int64))
        return lengths[0]

    def _item(self, body, name, index, ty):
        value = self.value_of(name)
        if isinstance(self.type(name), (types.Array, types.BaseTuple)):
            source = name if isinstance(self.type(name), types.Array) else self._as_array(name)
            return self.assign(body, ir.Expr.getitem(self.var(source), self.var(index), self.loc), ty)
        if self._is_range(name):
            start, _, step = self._range(body, name)
            scaled = self.assign(body, ir.Expr.binop(operator.mul, self.var(index), self.var(step), self.loc), types.int64)
            return self.assign(body, ir.Expr.binop(operator.add, self.var(start), self.var(scaled), self.loc), types.int64)
        if self.object_of(value.func.name) is enumerate:
            number = index
            if len(value.args) > 1:
                number = self.assign(body, ir.Expr.binop(operator.add, self.var(index), value.args[1], self.loc), types.int64)
            items = [number, self._item(body, value.args[0].name, index, tuple(ty)[1])]
        else:
            items = [self._item(body, v.name, index, t) for v, t in zip(value.args, tuple(ty))]
        return self.assign(body, ir.Expr.build_tuple([self.var(n) for n in items], self.loc), ty)

    def _as_array(self, name):
        """An array of the elements of a tuple of floats, made where the tuple is."""
        if ("array", name) not in self.arrays:
            label, s = self.defs[name]
            body, ty, items = [], self.type(name), []
            for k in range(len(ty)):
                items.append(self.assign(body, ir.Expr.static_getitem(self.var(name), k, None, self.loc), ty.dtype))
            array = self._array_of(body, items, types.Array(types.float64, 1, "C"))
            block = self.blocks[label].body
            at = max(block.index(s) + 1, sum(is_expr(getattr(q, "value", None), "phi") for q in block))
            block[at:at] = body
            self.arrays["array", name] = array.name
        return self.arrays["array", name]

    # ---- tuples -----------------------------------------------------------------------------
    def _tuples(self):
        """Elements of tuples as variables of their own."""
        self.define()
        for _, _, s in list(self.statements()):
            e = getattr(s, "value", None)
            if is_expr(e, "getitem") and isinstance(self.type(e.value.name), types.UniTuple):
                if isinstance(self.type(e.value.name).dtype, types.Float):
                    s.value = ir.Expr.getitem(self.var(self._as_array(e.value.name)), e.index, s.loc)
        self.define()
        self.elements, self.after = {}, {}
        for _, _, s in list(self.statements()):
            e, index = getattr(s, "value", None), None
            if is_expr(e, "static_getitem") and isinstance(self.type(e.value.name), types.BaseTuple):
                index = e.index
            elif is_expr(e, "getattr") and isinstance(self.type_of(e.value.name), types.BaseNamedTuple) and e.attr in self.type(e.value.name).fields:
                index = self.type(e.value.name).fields.index(e.attr)
            if isinstance(index, int):
                value = self.element(e.value.name)[index]
                if value != s.target.name:
                    s.value = self.var(value)
            elif is_expr(e, "phi") and isinstance(self.type(s.target.name), types.BaseTuple):
                self.element(s.target.name)
        for block in self.blocks.values():
            phis, rest = [], []
            for s in block.body:
                made, e = self.after.get(id(s), []), getattr(s, "value", None)
                if is_expr(e, "phi"):
                    if isinstance(self.type(s.target.name), types.BaseTuple):
                        items = [self.var(n) for n in self.elements[s.target.name]]
                        rest.append(ir.Assign(ir.Expr.build_tuple(items, s.loc), s.target, s.loc))
                        phis += made
                    else:
                        phis.append(s)
                else:
                    rest += [s, *made]
            block.body = phis + rest
        self.define()

    def element(self, name):
        """Names of the elements of a tuple."""
        if name in self.elements:
            return self.elements[name]
        _, s = self.defs[name]
        e, tys, names = s.value, tuple(self.type(name)), None
        if isinstance(e, ir.Var):
            names = self.element(e.name)
        elif is_expr(e, "cast") or is_expr(e, "exhaust_iter"):
            names = self.element(e.value.name)
        elif is_expr(e, "build_tuple"):
            names = [v.name for v in e.items]
        elif is_expr(e, "call") and isinstance(self.type(name), types.BaseNamedTuple) and isinstance(self.callee(e), type) and not e.kws:
            names = [v.name for v in e.args]
        elif is_expr(e, "static_getitem") and isinstance(e.index, slice):
            names = self.element(e.value.name)[e.index]
        elif is_expr(e, "static_getitem") and isinstance(e.index, int):
            outer = self.element(e.value.name)[e.index]
            names = self.element(outer) if outer != name else None
        elif is_expr(e, "binop") and e.fn is operator.add:
            names = [*self.element(e.lhs.name), *self.element(e.rhs.name)]
        if names is None or len(names) != len(tys):
            names = self.elements[name] = [self.fresh(f"{name}.{k}") for k in range(len(tys))]
            made = self.after.setdefault(id(s), [])
            for k, (n, ty) in enumerate(zip(names, tys)):
                self.types[n] = ty
                if is_expr(e, "phi"):
                    value = ir.Expr.phi(s.loc)
                    value.incoming_blocks = list(e.incoming_blocks)
                    value.incoming_values = [self.var(self.element(v.name)[k]) for v in e.incoming_values]
                else:
                    value = ir.Expr.static_getitem(s.target, k, None, s.loc)
                made.append(ir.Assign(value, self.var(n), s.loc))
                self.defs[n] = (self.defs[name][0], made[-1])
            for n, ty in zip(names, tys):
                if isinstance(ty, types.BaseTuple) and is_expr(e, "phi"):
                    raise Refused("a loop carries a tuple of tuples", s.loc)
        self.elements[name] = names
        return names

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
        """Whether a statement may be left out or repeated."""
        if not isinstance(s, ir.Assign) or isinstance(s.value, ir.Arg):
            return False
        if is_expr(s.value, "call"):
            function = self.callee(s.value)
            if isinstance(function, tuple):
                return False
            return isinstance(function, type) and function is not list or function in PURE_CALLS or getattr(function, "__module__", "") == "math"
        return not is_expr(s.value) or s.value.op in PURE_OPS

    def _sweep_dead(self):
        alive, work = set(), []
        for _, _, s in self.statements():
            if not self._removable(s):
                work += reads(s)
        while work:
            name = work.pop()
            if name not in alive:
                alive.add(name)
                if name in self.defs:
                    work += reads(self.defs[name][1])
        for block in self.blocks.values():
            block.body = [s for s in block.body if not (self._removable(s) and s.target.name not in alive)]
        self.define()

    def _removable(self, s):
        return self.pure(s) or isinstance(s, ir.Assign) and is_expr(s.value, "build_list")

    def _key(self, s):
        """What a constant is recognised by, or None."""
        value = s.value
        if isinstance(value, (ir.Const, ir.Global, ir.FreeVar)):
            plain = isinstance(value.value, (int, float, str, bool, type(None)))
            return (type(value.value), repr(value.value) if plain else id(value.value), str(self.types[s.target.name]))
        if is_expr(value, "getattr") and isinstance(self.object_of(value.value.name), python_types.ModuleType):
            return ("getattr", value.value.name, value.attr)
        return None

    def _hoist_and_share(self):
        """Constants to the entry, once each; equal pure expressions of a block once."""
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
                    if self.pure(s) and value.op != "phi" and not isinstance(self.types[s.target.name], types.Array):
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
            values = [self.blocks[b].body[-1].value for b in ends]
            tys = [self.type(v.name) for v in values]
            label = max(self.blocks) + 1
            block = self.blocks[label] = ir.Block(self.scope, self.loc)
            if isinstance(tys[0], types.BaseTuple):
                self.elements, self.after = {}, {}
                rows = [[items[k] for items in (self.element(v.name) for v in values)] for k in range(len(tys[0]))]
                self._place_elements()
            else:
                rows = [[v.name for v in values]]
            names = []
            for row in rows:
                phi = ir.Expr.phi(self.loc)
                phi.incoming_blocks, phi.incoming_values = ends, [self.var(n) for n in row]
                kinds = [self.type(n) for n in row]
                floats = [ty for ty in kinds if isinstance(ty, types.Float)]
                names.append(self.assign(block.body, phi, types.float64 if floats else kinds[0], "returned"))
            result = names[0]
            if isinstance(tys[0], types.BaseTuple):
                result = self.assign(block.body, ir.Expr.build_tuple([self.var(n) for n in names], self.loc), tys[0])
            block.body.append(ir.Return(self.var(result), self.loc))
            for b in ends:
                self.blocks[b].body[-1] = ir.Jump(label, self.loc)
            self.define()
            ends = [label]
        self.exit = ends[0]
        self.result = self.blocks[self.exit].body[-1].value.name

    def _place_elements(self):
        for block in self.blocks.values():
            block.body = [q for s in block.body for q in (s, *self.after.get(id(s), []))]

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
                    phi = ir.Expr.phi(self.loc)
                    phi.incoming_blocks, phi.incoming_values = [b for b, _ in moved], [v for _, v in moved]
                    value = self.var(self.assign(block.body, phi, self.types[s.target.name], s.target.name))
                kept.append((label, value))
            e.incoming_blocks, e.incoming_values = [b for b, _ in kept], [v for _, v in kept]
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
        self.loops = []
        for h, (preheader, latch) in outer.items():
            body, work = {h}, [latch]
            while work:
                b = work.pop()
                if b not in body:
                    body.add(b)
                    work += self.preds[b]
            self.loops.append(Loop(h, body, preheader, latch))
        self.loops.sort(key=lambda loop: -len(loop.body))
        self.by_header = {loop.header: loop for loop in self.loops}
        self.chain = {b: [loop for loop in self.loops if b in loop.body] for b in self.blocks}
        self.live, work = {}, [self.exit]  # blocks from which the function returns
        while work:
            b = work.pop()
            if b not in self.live:
                self.live[b] = None
                work += self.preds[b]
        self.live = [b for b in self.blocks if b in self.live]
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
                    loop.item = s.target.name
                    loop.leaves_early = any(b != loop.header for b, _ in loop.exits(self))
