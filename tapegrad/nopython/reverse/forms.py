"""Reduce Numba's typed IR to few forms of stores, calls, iteration and tuples."""

import functools
import operator

import numba
import numpy as np
from numba import types

from ...codegen.numba_inside import RAISES, empty_inferred, ir, raised_with, replace_vars_stmt, typed
from ..arrays import where
from ..loops import chosen
from ..scalars import primal
from ..vectorized import by_loops, converted, is_vectorized, numbers
from . import runtime
from .rows import Refused, carries, is_expr, is_phi, let_come, reads

_STATEMENTS = (ir.Assign, ir.SetItem, ir.StaticSetItem, ir.Jump, ir.Branch, ir.Return, *RAISES, ir.Del, ir.Print)


class Canonicalizer:
    """The part of a `Program` that rewrites statements into others."""

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

    def tuple_of(self, body, names, ty=None):
        """A tuple of variables: of positions, unless a type is given."""
        value = ir.Expr.build_tuple([self.var(n) for n in names], self.loc)
        return self.assign(body, value, types.UniTuple(types.int64, len(names)) if ty is None else ty)

    def _number(self, body, function, x, y):
        """An operation on two integers."""
        return self.assign(body, ir.Expr.binop(function, self.var(x), self.var(y), self.loc), types.int64)

    # ---- functions that are loops -------------------------------------------------------------
    def _loops(self):
        """Replace calls of NumPy's functions of arrays by the loops that define them (`loops`), with the line numbers of the calls."""
        work = list(self.blocks)
        while work:
            label = work.pop()
            for k, s in enumerate(self.blocks[label].body):
                found = self._loop_of(s)
                more = found and self._inline(label, k, *found)
                if more:
                    work += more
                    break

    def _loop_of(self, s):
        """(loop, operands) of a call on what may have a derivative, or None."""
        e = getattr(s, "value", None)
        if not is_expr(e, "call") or e.vararg is not None:
            return None
        function, args = self.callee(e), [v.name for v in e.args]
        if is_vectorized(function) and not e.kws:
            return self._vectorized(s, function, args)
        if isinstance(function, tuple) and isinstance(self.type_of(function[0]), types.Array):
            args, function = [function[0], *args], function[1]
        if function.__hash__ is None or not any(carries(self.type_of(v.name)) for v in s.list_vars()):
            return None
        return chosen(function, args, {k: v.name for k, v in e.kws}, self.type)

    def _vectorized(self, s, function, args):
        """(function of the operands, these): the function of numbers, or loops that fill a new array."""
        tys, ty = [self.type(n) for n in args], self.type(s.target.name)
        why = converted(function, tys) if len(args) == function.nin else "it is given an array for its result"
        if why is None and isinstance(ty, types.Array) and (ty.dtype != types.float64 or ty.layout != "C"):
            why = "a vectorized function gives an array that is not of float64 in C order"
        if why:
            raise Refused(why, s.loc)
        return by_loops(numbers(function), {f"a{k}": ty for k, ty in enumerate(tys)}, np.float64), args

    def _inline(self, label, k, loop, operands):
        """Put a loop in place of a statement; the labels of new blocks, or None if its result has another type than the call's."""
        body, s = self.blocks[label].body, self.blocks[label].body[k]
        head, end = body[:k], body[k + 1:]
        names = [operand if isinstance(operand, str) else self.constant(head, operand) for operand in operands]
        blocks, known, result = typed(loop, [self.type(n) for n in names])
        if types.unliteral(result) != self.type(s.target.name):
            return None
        offset = max(self.blocks) + 1
        rest = offset + max(blocks) + 1
        table = {n: self.fresh(n) for n in known if not n.startswith("arg.")}
        self.types.update((new, known[n]) for n, new in table.items())
        table = {n: self.var(new) for n, new in table.items()}
        for at, block in blocks.items():
            inner = []
            for q in block.body:
                replace_vars_stmt(q, table)
                e = q.value if isinstance(q, ir.Assign) else None
                if isinstance(e, ir.Arg):
                    q.value = self.var(names[e.index])
                elif is_expr(e, "phi"):
                    e.incoming_blocks = [b + offset for b in e.incoming_blocks]
                elif isinstance(q, ir.Jump):
                    q = ir.Jump(q.target + offset, s.loc)
                elif isinstance(q, ir.Branch):
                    q = ir.Branch(q.cond, q.truebr + offset, q.falsebr + offset, s.loc)
                elif isinstance(q, ir.Return):
                    inner.append(ir.Assign(q.value, s.target, s.loc))
                    q = ir.Jump(rest, s.loc)
                q.loc = s.loc
                inner.append(q)
            self.blocks[at + offset] = ir.Block(self.scope, s.loc)
            self.blocks[at + offset].body = inner
        self.blocks[rest] = ir.Block(self.scope, s.loc)
        self.blocks[label].body, self.blocks[rest].body = [*head, ir.Jump(offset + min(blocks), s.loc)], end
        for t in end[-1].get_targets():
            for q in self.blocks[t].body:
                if is_phi(q):
                    q.value.incoming_blocks = [rest if b == label else b for b in q.value.incoming_blocks]
        self.define()
        return [*(at + offset for at in blocks), rest]

    # ---- few forms --------------------------------------------------------------------------
    def _check(self):
        for _, _, s in self.statements():
            if not isinstance(s, _STATEMENTS) or isinstance(getattr(s, "value", None), ir.Yield):
                raise Refused("a statement of this kind (del, with, try, yield) is not supported", s.loc)
            e = getattr(s, "value", None)
            if is_expr(e, "phi"):  # a variable may be unbound on some paths
                let_come(e, [(b, v) for b, v in zip(e.incoming_blocks, e.incoming_values) if v is not ir.UNDEFINED and v.name in self.types])

    def _calls(self):
        """Stores and calls that have several forms."""
        for _, body, s in self.rewritten():
            e = getattr(s, "value", None)
            if isinstance(s, ir.Del):
                continue
            if isinstance(s, ir.StaticSetItem):
                s = ir.SetItem(s.target, s.index_var, s.value, s.loc)
            if isinstance(s, ir.SetItem) and isinstance(self.type(s.index.name), types.EllipsisType) and isinstance(self.type(s.target.name), types.Array):
                self._store_all(body, s.target, s.value.name, s.loc)
                continue
            elif is_expr(e, "static_getitem") and isinstance(self.type_of(e.value.name), types.Array):
                index = e.index_var or self.var(self.constant(body, e.index, types.literal(e.index)))
                s.value = ir.Expr.getitem(e.value, index, e.loc)
            elif is_expr(e, "getitem") and isinstance(self.type_of(e.value.name), types.Array) and getattr(self.type(e.index.name), "count", 0) == 1:
                index = self.assign(body, ir.Expr.static_getitem(e.index, 0, None, s.loc), self.type(e.index.name)[0])
                s.value = ir.Expr.getitem(e.value, self.var(index), e.loc)
            elif is_expr(e, "exhaust_iter") and isinstance(self.type_of(e.value.name), types.Array):
                self.call(body, runtime.counted, [e.value.name, self.constant(body, e.count)], types.int64)
                places = [self.var(self.constant(body, k)) for k in range(e.count)]
                items = [self.assign(body, ir.Expr.getitem(e.value, k, s.loc), ty) for k, ty in zip(places, self.type(s.target.name))]
                s.value = ir.Expr.build_tuple([self.var(n) for n in items], s.loc)
            elif is_expr(e, "inplace_binop") and isinstance(self.type_of(e.lhs.name), types.Array):
                operands = [ty for ty in (self.type_of(e.lhs.name), self.type_of(e.rhs.name)) if isinstance(ty, types.Array)]
                layout = "F" if all(ty.layout == "F" for ty in operands) else "C"
                ty = types.Array(operands[0].dtype, operands[0].ndim, layout)
                changed = self.assign(body, ir.Expr.binop(e.immutable_fn, e.lhs, e.rhs, s.loc), ty)
                self._store_all(body, e.lhs, changed, s.loc)
                s.value = e.lhs
            elif is_expr(e, "call") and e.vararg is None:
                self._rewrite_call(body, s, e)
            self._as_number(body, s)
            raised_with(s, functools.partial(self._said, body))
            body.append(s)
        self.define()

    def _as_number(self, body, s):
        """Let what chooses between numbers (`where`), and names for it, be a number: `np.where` gives an array without dimensions."""
        e, ty = getattr(s, "value", None), isinstance(s, ir.Assign) and self.type_of(s.target.name)
        if not isinstance(ty, types.Array) or ty.ndim or any(isinstance(self.type_of(n), types.Array) for n in reads(s)):
            return
        if is_expr(e, "call") and self.callee(e) is np.where and len(e.args) == 3:
            s.value = ir.Expr.call(self.var(self.assign(body, ir.Global("where", where, s.loc))), e.args, (), s.loc)
        if isinstance(e, ir.Var) or is_expr(e) and e.op in ("call", "cast", "phi", "inplace_binop"):
            self.types[s.target.name] = ty.dtype

    def _said(self, body, var):
        """Format a possibly dual number for an exception message."""
        return self.var(self.call(body, primal, [var.name], types.float64)) if self.type_of(var.name) == types.float64 else var

    def _store_all(self, body, target, name, loc):
        n, none = self.type(target.name).ndim, self.constant(body, None, types.none)
        everything = self.call(body, slice, [none, none], types.slice2_type)
        index = self.var(self.tuple_of(body, [everything] * n, types.UniTuple(types.slice2_type, n)))
        body.append(ir.SetItem(target, index, self.var(name), loc))

    def _rewrite_call(self, body, s, e):
        function, loc = self.callee(e), s.loc
        if isinstance(function, tuple):
            if function[1] == "fill" and e.args and isinstance(self.type_of(function[0]), types.Array):
                self._store_all(body, self.var(function[0]), e.args[0].name, loc)
                s.value = ir.Const(None, loc)
        elif function in (min, max) and len(e.args) > 2:
            name = e.args[0].name
            for operand in e.args[1:-1]:
                name = self.assign(body, ir.Expr.call(e.func, [self.var(name), operand], (), loc), self.types[s.target.name])
            s.value = ir.Expr.call(e.func, [self.var(name), e.args[-1]], (), loc)
        elif function is numba.prange:
            self.pranges.add((loc.filename, loc.line))
            s.value = ir.Expr.call(self.var(self.assign(body, ir.Global("range", range, loc))), e.args, (), loc)
        elif function is empty_inferred:  # an array that is written as a comprehension
            kind = self.var(self._kind(body, self.types[s.target.name].dtype))
            s.value = ir.Expr.call(self.var(self.assign(body, ir.Global("empty", np.empty, loc))), [*e.args, kind], (), loc)
        elif function is np.array or function is np.asarray:
            items = self._items([*e.args, *(v for _, v in e.kws)][0].name)
            if items is not None and isinstance(self.types[s.target.name].dtype, types.Float):
                s.value = self._array_of(body, items, self.types[s.target.name])
        elif function is np.clip:
            names = ("a", "a_min", "a_max")
            given = dict(zip(names, e.args)) | dict(e.kws)
            if given.keys() == {*names} and carries(self.type(given["a"].name)):
                for name, limit in (("a_min", -np.inf), ("a_max", np.inf)):
                    if isinstance(self.type(given[name].name), types.NoneType):
                        given[name] = self.var(self.constant(body, limit, types.float64))
                s.value = ir.Expr.call(e.func, [given[name] for name in names], (), loc)

    def _kind(self, body, dtype):
        """A dtype, as a variable."""
        return self.assign(body, ir.Global(str(dtype), getattr(np, str(dtype)), self.loc), types.NumberClass(dtype))

    def _items(self, name):
        """The names that a list or tuple is written of, rows of names for nested ones, or None."""
        value = self.value_of(name)
        if not (is_expr(value, "build_list") or is_expr(value, "build_tuple")):
            return None
        items = [v.name for v in value.items]
        nested = [self._items(n) if not isinstance(self.type(n), (types.Number, types.Boolean)) else n for n in items]
        return None if any(item is None for item in nested) else nested

    def _array_of(self, body, items, ty):
        rows = items if isinstance(items[0], list) else [items]
        if any(isinstance(item, list) for row in rows for item in row) or len({len(row) for row in rows}) > 1:
            raise Refused("an array is written of lists that are nested deeper than a matrix", self.loc)

        def place(i, j):
            return self.tuple_of(body, [self.constant(body, k) for k in (i, j)[2 - ty.ndim:]])

        array = self.var(self.call(body, np.empty, [place(len(rows), len(rows[0])), self._kind(body, ty.dtype)], types.Array(ty.dtype, ty.ndim, "C")))
        for i, row in enumerate(rows):
            for j, item in enumerate(row):
                body.append(ir.SetItem(array, self.var(place(i, j)), self.var(item), self.loc))
        return array

    # ---- iteration --------------------------------------------------------------------------
    def _iterations(self):
        """Iteration over arrays, tuples, `enumerate` and `zip` as iteration over a range."""
        self.arrays, in_bodies = {}, {}
        for _, body, s in self.rewritten():
            e = getattr(s, "value", None)
            if is_expr(e, "getiter") and self._spelled(e.value.name):
                source = self._as_vector(body, e.value.name)
                numbers = self.call(body, range, [self._length(body, source)], types.range_state64_type)
                self.arrays[s.target.name] = source
                s.value = ir.Expr.getiter(self.var(numbers), s.loc)
            body.append(s)
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
            raise Refused("an iterator is used in an unsupported way", loc)
        start = last.truebr
        if self.preds[start] != [label]:
            start = self._new_block(start, [label])
            self._edges()
        at = sum(is_phi(q) for q in self.blocks[start].body)
        self.blocks[start].body[at:at] = items
        for other, block in self.blocks.items():
            for q in block.body:
                if name in reads(q) and start not in self.dominators[other]:
                    raise Refused("a loop's variable is used after the loop; bind another one in the loop", loc)

    def _spelled(self, name):
        """Whether iteration over a value can be written by index."""
        ty, value = self.type(name), self.value_of(name)
        if isinstance(ty, types.Array) or isinstance(ty, types.UniTuple) and isinstance(ty.dtype, types.Float) or self._elements_of(value):
            return True
        if is_expr(value, "call") and self.object_of(value.func.name) in (enumerate, zip) and not value.kws:
            sources = value.args[:1] if self.object_of(value.func.name) is enumerate else value.args
            return all(self._spelled(v.name) or self.is_range(v.name) for v in sources)
        return False

    def _elements_of(self, value):
        """The name of the array all of whose elements an iterator gives, or None."""
        if is_expr(value, "getattr") and value.attr == "flat" or is_expr(value, "call") and self.object_of(value.func.name) is np.ndenumerate:
            name = value.value.name if value.op == "getattr" else value.args[0].name
            return name if isinstance(self.type_of(name), types.Array) else None

    def _as_vector(self, body, name):
        """The replacement of an iterable: for all elements of an array in C order, the vector."""
        value, array = self.value_of(name), self._elements_of(self.value_of(name))
        if array is None or value.op != "getattr" or self.type(array).layout != "C":
            return name
        return self.call(body, np.ravel, [array], self.type(array).copy(ndim=1))

    def _place(self, body, array, index):
        """The position of an element by its number in C order."""
        n, places = self.type(array).ndim, []
        shape = self.assign(body, ir.Expr.getattr(self.var(array), "shape", self.loc), types.UniTuple(types.int64, n))
        for k in range(n - 1, 0, -1):
            size = self.assign(body, ir.Expr.static_getitem(self.var(shape), k, None, self.loc), types.int64)
            places.insert(0, self._number(body, operator.mod, index, size))
            index = self._number(body, operator.floordiv, index, size)
        return self.tuple_of(body, [index, *places])

    def is_range(self, name):
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
        if self._elements_of(value):
            return self.assign(body, ir.Expr.getattr(self.var(self._elements_of(value)), "size", self.loc), types.intp)
        if self.is_range(name):
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
        if self._elements_of(value):
            array = self._elements_of(value)
            place = self._place(body, array, index)
            item = self.assign(body, ir.Expr.getitem(self.var(array), self.var(place), self.loc), self.type(array).dtype)
            return item if value.op == "getattr" else self.tuple_of(body, [place, item], ty)
        if self.is_range(name):
            start, _, step = self._range(body, name)
            return self._number(body, operator.add, start, self._number(body, operator.mul, index, step))
        if self.object_of(value.func.name) is enumerate:
            number = self._number(body, operator.add, index, value.args[1].name) if len(value.args) > 1 else index
            return self.tuple_of(body, [number, self._item(body, value.args[0].name, index, tuple(ty)[1])], ty)
        return self.tuple_of(body, [self._item(body, v.name, index, t) for v, t in zip(value.args, tuple(ty))], ty)

    def _as_array(self, name):
        """An array of the elements of a tuple of floats, made where the tuple is."""
        if ("array", name) not in self.arrays:
            label, s = self.defs[name]
            body, ty = [], self.type(name)
            items = [self.assign(body, ir.Expr.static_getitem(self.var(name), k, None, self.loc), ty.dtype) for k in range(len(ty))]
            array = self._array_of(body, items, types.Array(ty.dtype, 1, "C"))
            block = self.blocks[label].body
            at = max(block.index(s) + 1, sum(is_phi(q) for q in block))
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
        for _, body, s in self.rewritten():
            made = self.after.get(id(s), [])
            if is_phi(s) and isinstance(self.type(s.target.name), types.BaseTuple):
                items = [self.var(n) for n in self.elements[s.target.name]]
                s = ir.Assign(ir.Expr.build_tuple(items, s.loc), s.target, s.loc)
            body += [s, *made]
        self.define()

    def element(self, name):
        """Names of the elements of a tuple."""
        if name in self.elements:
            return self.elements[name]
        _, s = self.defs[name]
        e, tys, names = s.value, tuple(self.type(name)), None
        if isinstance(e, ir.Var):
            names = self.element(e.name)
        elif (is_expr(e, "cast") or is_expr(e, "exhaust_iter")) and isinstance(self.type(e.value.name), types.BaseTuple):
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
                    value = let_come(ir.Expr.phi(s.loc), [(b, self.var(self.element(v.name)[k])) for b, v in zip(e.incoming_blocks, e.incoming_values)])
                else:
                    value = ir.Expr.static_getitem(s.target, k, None, s.loc)
                made.append(ir.Assign(value, self.var(n), s.loc))
                self.defs[n] = (self.defs[name][0], made[-1])
            if is_expr(e, "phi") and any(isinstance(ty, types.BaseTuple) for ty in tys):
                raise Refused("a loop carries a tuple of tuples", s.loc)
        self.elements[name] = names
        return names
