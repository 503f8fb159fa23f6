"""Adjoints of statements: what the reverse sweep does for a block.

Arrays have a second array for adjoints, their shadow, made by the same statements (views, choices between arrays), so that it
follows by itself.  Adjoints of numbers are variables ``d.name``; those that are used in one block only are not kept in any.
"""

import numba
import numpy as np
from numba import types

from ...codegen.numba_inside import INNER, ir
from ...common.reached import reached
from ...rules import lang as L
from ..types import is_real
from . import runtime
from .activity import Activity, refuse_unknown
from .rows import CHEAP, Refused, clone, elementwise, is_array, is_expr, is_float, is_phi, kernel, operands_of

_ONE = L.Expr.lift(1.0)


@numba.njit(**INNER)
def add_into(shadow, w):
    if shadow.shape != w.shape:
        raise ValueError("a seed must have the shape of its result")
    shadow += w


@numba.njit(**INNER)
def add_unit(shadow, row):
    if row < len(shadow):
        shadow[row] += 1.0


@numba.njit(**INNER)
def settle(shadow, index, total, some):
    if some:
        shadow[index] += total


class Adjoints(Activity):
    def __init__(self, program, seeds, apart, pair, duals):
        super().__init__(program, seeds, apart, duals)
        self.pair = pair
        self.stack = self.args[0] if apart else "$stack"
        #: whether elements may be left out because they are NaN
        self.chooses = any(self._chooses(s) for _, _, s in program.statements() if isinstance(s, ir.Assign))
        self.kept_by_caller = {s.target.name for s in program.blocks[program.entry].body[: program.constants]} if apart else set()
        self._find_inside()
        self._add_shadows()
        self._keep_overwritten()

    def _chooses(self, s):
        """Whether a statement takes some of what was computed, and leaves out the rest: a choice between values, or by a mask."""
        operation, e = elementwise(self.p, s), s.value
        index = self.p.type_of(e.index.name) if is_expr(e, "getitem") else None
        return operation is not None and operation.row == "where" or isinstance(index, types.Array) and isinstance(index.dtype, types.Boolean)

    # ---- array expressions ------------------------------------------------------------------
    def _find_inside(self):
        """Arrays that are intermediate in one array expression of one block, or are only stored there, with their operations."""
        p, self.inside = self.p, {}
        for label, block in p.blocks.items():
            writes = [k for k, s in enumerate(block.body) if self.changed_by(s)]
            for k, s in enumerate(block.body):
                uses = self.uses.get(s.target.name, []) if isinstance(s, ir.Assign) and is_array(p.type_of(s.target.name)) else []
                if len(uses) != 1 or uses[0][0] != label:
                    continue
                operation, (_, at, user) = elementwise(p, s), uses[0]
                if not operation or any(k < w < at for w in writes):
                    continue
                if isinstance(user, ir.SetItem):
                    # (Expensive values are kept.)
                    fits = operation.row in CHEAP or operation.row == "divide"
                else:
                    fits = isinstance(user, ir.Assign) and (elementwise(p, user) and is_array(p.type_of(user.target.name)) or self.total(user))
                if fits:
                    self.inside[s.target.name] = operation

    def total(self, s):
        """The name of the array, where a statement is the total of all its elements, or None."""
        e, rule = s.value, self.rule(s)
        if rule is None or not is_expr(e, "call") or not is_float(self.p.type_of(s.target.name)) or len(rule.operands) != 1 or rule.uses_axis:
            return None
        function = self.p.callee(e)
        return rule.operands[0] if function is np.sum or isinstance(function, tuple) and function[1] == "sum" else None

    # ---- additions to the forward sweep -------------------------------------------------------
    def _add_shadows(self):
        p, self.shadow, self.globals = self.p, {}, []
        arrays = [k for k in self.seeds if is_array(p.type_of(self.args[k]))]
        self.shadow = {self.args[k]: self.args[len(self.args) - len(arrays) + j] for j, k in enumerate(arrays)}
        handed = set(self.shadow)
        for _, _, s in p.statements():
            if isinstance(s, ir.Assign) and is_array(p.type_of(s.target.name)) and self.active(s.target.name):
                if s.target.name not in self.inside and s.target.name not in self.shadow:
                    self.shadow[s.target.name] = f"adj.{s.target.name}"
                    p.types[f"adj.{s.target.name}"] = p.type(s.target.name).copy(readonly=False)
        for label, body, s in p.rewritten():
            body.append(s)
            if isinstance(s, ir.Assign) and s.target.name in self.shadow and s.target.name not in handed:
                self._add_shadow(s, body, label)

    def _add_shadow(self, s, body, label):
        p, target, base = self.p, self.p.var(self.shadow[s.target.name]), self.base(s)
        if isinstance(s.value, (ir.Arg, ir.Global, ir.FreeVar)):
            # (The caller of a whole function can make shadows for more of its arguments.)
            work = () if self.apart or p.part else sorted({k for k, n in enumerate(self.args) if n in self.shadow} - {*self.seeds})
            raise Refused("a differentiated value is stored into an array from outside of the function", s.loc, work=work)
        if any(b not in self.shadow for b in base):
            refuse_unknown(s)
        if not base:
            if p.type(s.target.name).layout not in "CF":
                refuse_unknown(s)
            value = ir.Expr.call(p.var(self.global_(runtime.shadow_like)), [p.var(self.stack), s.target], (), p.loc)
        elif is_expr(s.value, "call") and isinstance(p.callee(s.value), tuple):
            method = p.var(p.fresh("adj.method"))
            get = ir.Expr.getattr(p.var(self.shadow[base[0]]), p.callee(s.value)[1], p.loc)
            body.append(ir.Assign(get, method, p.loc))
            p.defs[method.name] = (label, body[-1])
            p.types[method.name] = types.pyobject
            value = ir.Expr.call(method, s.value.args, s.value.kws, p.loc)
        else:
            value = clone(s.value, {b: p.var(self.shadow[b]) for b in base})
        body.append(ir.Assign(value, target, p.loc))
        p.defs[target.name] = (label, body[-1])
        for b in base:
            self.same[self.group(target.name)] = self.group(self.shadow[b])

    def _keep_overwritten(self):
        """For each store a variable for the overwritten value, used where the reverse sweep needs it."""
        p, self.before, self.overwritten = self.p, {}, set()
        for label, _, s in p.statements():
            if isinstance(s, ir.SetItem) and isinstance(p.type_of(s.target.name), types.Array):
                ty, index = p.type(s.target.name), p.type(s.index.name)
                items = tuple(index) if isinstance(index, types.BaseTuple) else (index,)
                tables = [t for t in items if isinstance(t, types.Array)]
                if tables and (len(items) > 1 or self.active(s.target.name) and not isinstance(tables[0].dtype, types.Boolean)):
                    raise Refused("a store by an array of positions, which may name one twice; write it as a loop", s.loc)
                if any(isinstance(t, types.NoneType) for t in items):
                    refuse_unknown(s)
                n = ty.ndim - sum(isinstance(t, types.Integer) for t in items) + sum(1 - t.ndim for t in tables)
                old = p.fresh("before")
                p.types[old] = types.Array(ty.dtype, n, "C") if n else ty.dtype
                get = ir.Assign(ir.Expr.getitem(s.target, s.index, p.loc), p.var(old), p.loc)
                self.before[id(s)] = (old, get)
                p.defs[old] = (label, get)
                self.overwritten.add(old)

    def global_(self, thing):
        for name, known in self.globals:
            if known is thing or not callable(thing) and type(known) is type(thing) and known == thing and str(known) == str(thing):
                return name
        name = f"$g{len(self.globals)}"
        self.globals.append((name, thing))
        return name

    # ---- pieces -------------------------------------------------------------------------------
    def put(self, value, hint="w"):
        name = self.p.fresh(hint)
        self.assign(name, value)
        return name

    def assign(self, name, value):
        self.out.append(ir.Assign(value, self.p.var(name), self.p.loc))

    def call(self, function, *names):
        return self.put(ir.Expr.call(self.p.var(self.global_(function)), [self.p.var(n) for n in names], (), self.p.loc))

    def item(self, name, k):
        return self.put(ir.Expr.static_getitem(self.p.var(name), k, None, self.p.loc))

    def begin(self, label, reader):
        self.label, self.val, self.out, self.current, self.used = label, reader, [], {}, False

    def add(self, name, expr, w, leaves):
        """``adjoint(name) += w * expr(leaves)``, the leaves by the expression's keys."""
        self.used = True
        keys = expr.leaves()
        values = [self.val(leaves[key]) for key in keys]
        if name in self.current:
            self.current[name] = self.call(runtime.contribution(expr, keys, True, self.chooses), self.current[name], w, *values)
        elif expr.is_const and expr.args[0] == 1.0:
            self.current[name] = w
        else:
            self.current[name] = self.call(runtime.contribution(expr, keys, False, self.chooses), w, *values)

    def pass_on(self, name, w):
        if self.active(name) and is_float(self.p.type_of(name)):
            self.add(name, _ONE, w, {})

    def take(self, name):
        """The adjoint of a number that is defined here, where its life ends; None if it is zero."""
        w = self.current.pop(name, None)
        if name in self.locals:
            return w
        kept = f"d.{name}"
        w = self.put(self.p.var(kept)) if w is None else self.call(runtime.plus, kept, w)
        if self.p.chain[self.label]:
            self.assign(kept, self.p.var(self.global_(0.0)))
        self.used = True
        return w

    def flush(self):
        for name, w in self.current.items():
            self.assign(f"d.{name}", self.p.var(self.call(runtime.plus, f"d.{name}", w)))
        self.current = {}

    # ---- blocks ---------------------------------------------------------------------------------
    def block(self, label, reader):
        """Adjoint statements of a block, its phis left out."""
        self.begin(label, reader)
        body = self.p.blocks[label].body
        self.plan.at = (label, len(body))
        for s in self.plan.settled.get(label, ()):
            self._settle(s)
        for k in range(len(body) - 1, -1, -1):
            s = body[k]
            self.plan.at = (label, k)
            if isinstance(s, ir.Return):
                self._seed()
            elif self.paired(s):
                self._pair(s)
            elif isinstance(s, ir.SetItem):
                self._store(s)
            elif isinstance(s, ir.Assign) and (is_expr(s.value) or isinstance(s.value, ir.Var)):
                name = s.target.name
                if self.active(name) and name not in self.inside and not name.startswith("adj.") and not is_phi(s):
                    self._adjoint(s)

    def _seed(self):
        names, self.used = self.results(), True
        if not self.apart:
            self._check_seed([self.p.type_of(name) for name in names], names == [self.p.result])
        for k, name in enumerate(names):
            if self.active(name):
                w = self.args[1] if names == [self.p.result] else self.item(self.args[1], k)
                if is_float(self.p.type_of(name)):
                    self.pass_on(name, w)
                elif self.apart:
                    raise Refused("a helper that calls itself returns an array; let it fill one that it is given", self.p.loc)
                else:
                    add = add_unit if isinstance(self.p.type_of(self.args[1]), types.Integer) else add_into
                    self.call(add, self.val(self.shadow[name]), w)

    def _check_seed(self, results, single):
        """Refuse a seed that has not the form of the result; that of a row of a Jacobian is an integer, its number."""
        given = self.p.type_of(self.args[1])
        if single and isinstance(given, types.Integer):
            return
        seeds = [given] if single else list(given) if isinstance(given, types.BaseTuple) else []
        fits = len(seeds) == len(results) and all(
            isinstance(seed, types.Array) and seed.ndim == ty.ndim and is_real(seed.dtype) if is_array(ty) else is_float(seed) or not is_float(ty)
            for ty, seed in zip(results, seeds)
        )
        if not fits:
            wanted = results[0] if single else types.Tuple(results)
            raise Refused(f"the result is {wanted}, and the seed {given}", self.p.loc, "give a seed of the form of the result; a gradient is of one number")

    def phis(self, label):
        """(adjoint, names by predecessor) of a block's active phis, after everything else of the block."""
        phis = []
        for s in self.p.blocks[label].body:
            if is_phi(s) and is_float(self.p.type_of(s.target.name)) and self.active(s.target.name):
                w = self.take(s.target.name)
                if w is not None:
                    phis.append((w, {b: v.name for b, v in zip(s.value.incoming_blocks, s.value.incoming_values)}))
        return phis

    def _adjoint(self, s):
        p, e, z = self.p, s.value, s.target.name
        whole = is_array(p.type_of(z))
        if whole and (self.base(s) or self.blank(s)):
            return
        total = self.total(s)
        operation = None if total else elementwise(p, s)
        w = self.val(self.shadow[z]) if whole else self.take(z)
        if w is None:
            return
        if isinstance(e, ir.Var):  # a copy that changes the type
            self.pass_on(e.name, w)
        elif operation and whole:
            self._tree(operation, w, p.type(z).ndim)
        elif operation:
            self._scalar(operation, z, w)
        elif total:
            self._tree(self.inside.get(total, total), w)
        elif self.rule(s) is not None:
            self._call(s, w, z)
        elif is_expr(e, "getitem") and is_array(p.type_of(e.value.name)):
            self.used = True
            if id(s) in self.plan.sums:
                total, some = self.sum_of(s)
                self.assign(total, p.var(self.call(runtime.plus, total, w)))
                self.assign(some, p.var(self.global_(True)))
                return
            shadow, index = p.var(self.val(self.shadow[e.value.name])), p.var(self.val(e.index.name))
            sum_ = self.call(runtime.plus, self.put(ir.Expr.getitem(shadow, index, p.loc)), w)
            self.out.append(ir.SetItem(shadow, index, p.var(sum_), p.loc))
        else:
            refuse_unknown(s)

    def sum_of(self, s):
        """Names of the sum of the adjoints of a load in all iterations of a loop, and of whether there was one."""
        return f"sum.{self.plan.sums[id(s)]}", f"some.{self.plan.sums[id(s)]}"

    def empty(self, s):
        """Start such a sum."""
        for name, start in zip(self.sum_of(s), (0.0, False)):
            self.assign(name, self.p.var(self.global_(start)))

    def _settle(self, s):
        self.call(settle, self.val(self.shadow[s.value.value.name]), self.val(s.value.index.name), *self.sum_of(s))
        self.empty(s)
        self.used = True

    def _scalar(self, operation, z, w):
        if operation.row == "divide":  # by the quotient itself, which is at hand
            x, y = operation.operands
            w = self.call(runtime.quotient, w, self.val(y))
            self.pass_on(x, w)
            if self.active(y):
                self.add(y, L.Expr("neg", (L.arg("z"),)), w, {"z": z})
            return
        for name, expr in zip(operation.operands, operation.exprs):
            if expr is not None and self.active(name):
                self.add(name, expr, w, {"z": z, **dict(enumerate(operation.operands))})

    def _tree(self, root, w, n=None):
        """Adjoint of an array expression of `n` dimensions, or of its sum."""
        leaves = [node for node in reached([root], lambda node: operands_of(node, self.inside)) if isinstance(node, str)]
        function, shadows, numbers = kernel(root, self.inside, leaves, [*map(self.p.type, leaves)], [*map(self.active, leaves)], n)
        self._contribute(function, w, leaves, shadows, numbers)

    def _call(self, s, w, z):
        operands = self.rule(s).operands
        made = self.rule(s).function([self.p.type(x) for x in operands], [self.active(x) for x in operands])
        if made is None:
            refuse_unknown(s)
        function, used, shadows, numbers = made
        names = [z if k < 0 else operands[k] for k in used]
        self._contribute(function, w, names, [operands[k] for k in shadows], [operands[k] for k in numbers])

    def _contribute(self, function, w, operands, shadows, numbers):
        for x in operands:
            if isinstance(self.p.type_of(x), types.Array):
                self.plan.content(x)
        sums = self.call(function, w, *map(self.val, operands), *[self.val(self.shadow[x]) for x in shadows])
        for k, name in enumerate(numbers):
            self.pass_on(name, self.item(sums, k))
        self.used = True

    def mask(self, s):
        """For each argument of a helper 0, 1 or 2: without adjoint, a number, an array."""
        return tuple(0 if not self.active(v.name) else 2 if is_array(self.p.type_of(v.name)) else 1 for v in s.value.args)

    def _pair(self, s):
        """Adjoint of a call of a helper that is compiled apart."""
        p, z, mask, args = self.p, s.target.name, self.mask(s), [v.name for v in s.value.args]
        if s.value.kws or s.value.vararg is not None or is_array(p.type_of(z)):
            refuse_unknown(s)
        w = self.take(z) if self.active(z) else None
        for n in args:
            if isinstance(p.type_of(n), types.Array):
                self.plan.content(n)
        shadows = [self.val(self.shadow[n]) for n, kind in zip(args, mask) if kind == 2]
        sums = self.call(self.pair(p.callee(s.value), mask)[1], self.stack, w or self.global_(0.0), *map(self.val, args), *shadows)
        for k, n in enumerate(n for n, kind in zip(args, mask) if kind == 1):
            self.pass_on(n, self.item(sums, k))
        self.used = True

    def _store(self, s):
        p, w = self.p, None
        if self.active(s.target.name):
            self.used = True
            shadow, index = p.var(self.val(self.shadow[s.target.name])), p.var(self.val(s.index.name))
            w = self.put(ir.Expr.getitem(shadow, index, p.loc))
            several = isinstance(p.types[self.before[id(s)][0]], types.Array)
            w = self.call(np.copy, w) if several else w
            self.out.append(ir.SetItem(shadow, index, p.var(self.global_(0.0)), p.loc))
            if not several:
                self.pass_on(s.value.name, w)
                w = None
        if self.restored(s):
            self.used = True
            target, index = p.var(self.val(s.target.name)), p.var(self.val(s.index.name))
            self.out.append(ir.SetItem(target, index, p.var(self.val(self.before[id(s)][0])), p.loc))
        if w is not None and self.active(s.value.name):
            inside = self.inside.get(s.value.name)
            if inside:
                # Its operands are read where it was computed, before the store.
                self.plan.at = self.plan.place[id(p.defs[s.value.name][1])]
            self._tree(inside or s.value.name, w, p.types[self.before[id(s)][0]].ndim)

    def restored(self, s):
        return id(s) in self.plan.put_back


