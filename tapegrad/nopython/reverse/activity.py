"""Which variables have an adjoint: those that depend on the arguments and that the result depends on.

Arrays that may be the same memory form a group, which is active as a whole; all that go into lists and objects, or come out of
them, are one group (`ELSEWHERE`).  Nothing that depends on the arguments may go where it is not followed (lists, objects,
unknown calls): its derivative would silently be zero, so such a statement is refused.
"""

import numpy as np
from numba import types
from numba.extending import is_jitted

from ...codegen.numba_inside import ir
from ...common.reached import reached
from ..loops import interval
from ..types import element
from .program import PLAIN, PURE_CALLS
from .rows import BLANK, Refused, call_of, carries, elementwise, is_array, is_expr, is_phi, reads
from .runtime import counted, trips

_BLIND = ("shape", "size", "ndim", "dtype", "strides", "itemsize", "flags")
#: Functions and methods that only read their arguments, and whose result shares no memory with them.
_READING = {np.searchsorted, np.argmax, np.argmin, np.argsort, np.sort, np.any, np.all, np.nonzero, np.flatnonzero, np.bincount, np.isnan,
            np.isfinite, np.count_nonzero, np.array_equal, np.unique, np.median, np.arange, np.array, len, print, trips, counted, interval}  # fmt: skip
#: Functions and methods whose result is the memory of their operand, in another shape; and functions of which it is that of an array in C order.
VIEW_FUNCTIONS = {np.reshape, np.transpose, np.expand_dims, np.flip, np.fliplr, np.flipud, np.swapaxes}
_VIEW_METHODS, _IF_CONTIGUOUS = {"reshape", "transpose"}, (np.ravel, np.ascontiguousarray)
_READING_METHODS = {"argmax", "argmin", "argsort", "any", "all", "nonzero", "item"}
#: Types of what depends on the arguments without a derivative.
_INACTIVE = (types.Integer, types.Boolean, types.NoneType, types.BoundFunction, types.Function, types.Module, types.NumberClass)
#: Stands for the memory of all arrays in lists, objects and iterators.
ELSEWHERE = "$elsewhere"


def is_plain(ty):
    """Whether values of a type hold nothing mutable, or are functions and methods."""
    return isinstance(ty, (*PLAIN, types.BoundFunction, type(None)))


def holds_memory(ty):
    """Whether a value of a type may hold an array, or be a part of one."""
    if isinstance(ty, types.BaseTuple):
        return any(map(holds_memory, ty))
    if isinstance(ty, (types.List, types.ListType, types.Set)):
        return holds_memory(ty.dtype)
    if isinstance(ty, types.Pair):
        return holds_memory(ty.first_type)
    return not is_plain(ty) and not isinstance(ty, types.NumpyNdIndexType)


def _items(ty):
    return tuple(ty) if isinstance(ty, types.BaseTuple) else (ty,)


def _integral(ty):
    """Whether values of a type are integers and booleans, arrays of them, or tuples of these."""
    return all(isinstance(element(item), (types.Integer, types.Boolean)) for item in _items(ty))


class Activity:
    """Groups of arrays, and which of them and of the numbers are active."""

    def __init__(self, program, seeds, apart, duals=()):
        self.p, self.apart = program, apart
        self.args = [None] * program.ir.arg_count
        for s in program.blocks[program.entry].body:
            if isinstance(s, ir.Assign) and isinstance(s.value, ir.Arg):
                self.args[s.value.index] = s.target.name
        self.seeds = seeds  # positions of arguments that are differentiated
        self.duals = {*seeds, *duals}  # and of all that depend on what is
        self.rules = {id(s): call_of(program, s) for _, _, s in program.statements() if isinstance(s, ir.Assign) and is_expr(s.value)}
        self.statements_of = [s for _, _, s in program.statements()]  # (they live as long as their ids are used)
        self.uses = {}
        for label, k, s in program.statements():
            for name in reads(s):
                self.uses.setdefault(name, []).append((label, k, s))
        self._find_groups()
        self._find_active()

    # ---- reading statements ---------------------------------------------------------------
    def rule(self, s):
        return self.rules.get(id(s))

    def operands(self, s):
        """Names whose values a statement computes with."""
        rule, names = self.rule(s), reads(s)
        if rule is not None:
            names = [*rule.operands, *names]
        elif isinstance(s, ir.Assign) and is_expr(s.value, "call") and isinstance(self.p.callee(s.value), tuple):
            names = [self.p.callee(s.value)[0], *names]
        return names

    def base(self, s):
        """Names of arrays whose memory the defined array is, if it is a view or another name of them."""
        e = s.value
        if not isinstance(self.p.type_of(s.target.name), types.Array):
            return []
        if isinstance(e, ir.Var):
            return [e.name]
        if is_phi(s):
            return [v.name for v in e.incoming_values]
        if is_expr(e, "cast") or is_expr(e, "getattr") and e.attr == "T":
            return [e.value.name] if isinstance(self.p.type_of(e.value.name), types.Array) else []
        if is_expr(e, "getitem") and isinstance(self.p.type_of(e.value.name), types.Array):
            return [] if any(isinstance(ty, types.Array) for ty in _items(self.p.type_of(e.index.name))) else [e.value.name]
        if is_expr(e, "call"):
            function = self.p.callee(e)
            owner = function[0] if isinstance(function, tuple) else e.args[0].name if e.args else None
            name, ty = function[1] if isinstance(function, tuple) else function, self.p.type_of(owner)
            if not isinstance(ty, types.Array) or name.__hash__ is None:
                return []
            views = name in _VIEW_METHODS or name in VIEW_FUNCTIONS or name is np.asarray and len(e.args) == 1
            if views or ty.layout == "C" and name in ("ravel", *_IF_CONTIGUOUS):
                return [owner]
        return []

    def aliases(self, s):
        """Names of arrays whose memory the defined array may be."""
        if self.base(s):
            return self.base(s)
        if self.rule(s) is not None or not is_expr(s.value) or self.reading(s) or elementwise(self.p, s):
            return []
        if s.target.name.startswith("adj."):  # a shadow of its own
            return []
        return [n for n in self.operands(s) if isinstance(self.p.type_of(n), types.Array)]

    def reading(self, s):
        """Whether a statement only reads memory, and makes none that it shares."""
        e = s.value
        if not is_expr(e, "call"):
            return e.op in ("binop", "unary") or not isinstance(self.p.type_of(s.target.name), types.Array)
        function = self.p.callee(e)
        if isinstance(function, tuple):
            return function[1] in _READING_METHODS and isinstance(self.p.type_of(function[0]), types.Array)
        if function.__hash__ is None:
            return False
        if function in _READING or function in BLANK or isinstance(function, np.ufunc) and len(e.args) == function.nin:
            return True
        return getattr(np, getattr(function, "__name__", ""), None) is function and self._indices(s)

    def _indices(self, s):
        """Whether the result holds integers and booleans alone, in memory that cannot be an operand's."""
        ty, dtypes = self.p.type_of(s.target.name), [element(self.p.type_of(n)) for n in reads(s)]
        return _integral(ty) and not any(isinstance(item, types.Array) and item.dtype in dtypes for item in _items(ty))

    def called_apart(self, s):
        return isinstance(s, ir.Assign) and is_expr(s.value, "call") and is_jitted(self.p.callee(s.value))

    def paired(self, s):
        """Whether a statement calls a helper of which there are two functions, for the two sweeps.

        Without anything active among its arguments too, if it has arrays: the second one puts back what the first one changed.
        """
        if not self.called_apart(s) or not hasattr(self.p.callee(s.value), "of_user"):
            return False
        return any(self.active(v.name) or isinstance(self.p.type_of(v.name), types.Array) for v in s.value.args)

    def elsewhere(self, s):
        """Arrays that a statement puts into, or takes out of, anything else: a list, an object, an iterator."""
        if isinstance(s, ir.SetItem):
            return self._beside_others([s.target.name, s.value.name])
        if not isinstance(s, ir.Assign) or is_expr(s.value, "getattr") and s.value.attr in _BLIND:
            return []
        if is_expr(s.value) and (self._known(s) or self._packs(s.value) and all(self._unpacked(user) for _, _, user in self.uses.get(s.target.name, ()))):
            return []
        return self._beside_others([*self.operands(s), s.target.name])

    def _beside_others(self, names):
        """The arrays among values, if one that is no array may hold arrays."""
        arrays = [n for n in names if isinstance(self.p.type_of(n), types.Array)]
        return arrays if any(holds_memory(self.p.type_of(n)) for n in {*names} - {*arrays}) else []

    def _known(self, s):
        """Whether an expression is known: its result is a number, new, or a view of an array, and it retains none of its operands."""
        if self.rule(s) is not None or elementwise(self.p, s) or self.base(s) or s.target.name.startswith("adj."):
            return True
        return is_expr(s.value, "call") and (self.reading(s) or self.p.callee(s.value) in PURE_CALLS)

    def repeatable_call(self, s):
        """Whether a call does the same when it runs again, from the same variables and contents of arrays."""
        return self.p.callee(s.value) is not print and (self._known(s) or self.p.pure(s))

    def changed_by(self, s):
        """Names of arrays that a statement may store into."""
        if isinstance(s, ir.SetItem):
            target = self.p.type_of(s.target.name)
            return [s.target.name] if isinstance(target, types.Array) else [ELSEWHERE] * holds_memory(target)
        if not isinstance(s, ir.Assign) or not is_expr(s.value, "call") or self._known(s):
            return []
        arrays = [n for n in self.operands(s) if isinstance(self.p.type_of(n), types.Array)]
        others = [ELSEWHERE] * any(holds_memory(self.p.type_of(n)) for n in {*self.operands(s)} - {*arrays})
        return (self.flows(s)[1] if self.called_apart(s) else arrays) + others

    def flows(self, s):
        """Arguments of a helper from which, and arrays among them into which it may store."""
        args = [v.name for v in s.value.args]
        chosen = getattr(self.p.callee(s.value), "flows", (range(len(args)),) * 2)
        sources, targets = ([args[k] for k in positions] for positions in chosen)
        return sources, [n for n in targets if isinstance(self.p.type_of(n), types.Array)]

    def blank(self, s):
        """Whether a statement makes an array whose elements depend on nothing active."""
        return is_expr(s.value, "call") and not isinstance(self.p.callee(s.value), tuple) and self.p.callee(s.value) in BLANK

    # ---- groups and activity ----------------------------------------------------------------
    def group(self, name):
        while self.same.get(name, name) != name:
            name = self.same[name]
        return name

    def _find_groups(self):
        p, self.same = self.p, {}
        pairs = [(b, s.target.name) for _, _, s in p.statements() if isinstance(s, ir.Assign) for b in self.aliases(s)]
        if self.apart and p.shared:  # the caller may hand the same memory twice
            shadows = sum(is_array(p.type_of(self.args[k])) for k in self.seeds)
            arrays = [n for n in self.args[: len(self.args) - shadows] if isinstance(p.type_of(n), types.Array)]
            pairs += [(a, b) for a in arrays for b in arrays if p.type(a).dtype == p.type(b).dtype]
            pairs += [(ELSEWHERE, n) for n in self._beside_others(self.args[2:])]
        pairs += [(ELSEWHERE, n) for _, _, s in p.statements() for n in self.elsewhere(s)]
        for a, b in pairs:
            if isinstance(p.type_of(b), types.Array) and self.group(a) != self.group(b):
                self.same[self.group(a)] = self.group(b)

    def carries(self, name):
        return carries(self.p.type_of(name))

    def active(self, name):
        return self.carries(name) and self.group(name) in self.active_groups

    def results(self):
        """Names of the numbers and arrays that are returned."""
        value = self.p.value_of(self.p.result)
        if self._packs(value):
            return [v.name for v in (value.items if value.op == "build_tuple" else value.args)]
        return [self.p.result]

    def _packs(self, value):
        return is_expr(value, "build_tuple") or is_expr(value, "call") and isinstance(self.p.callee(value), type) and issubclass(self.p.callee(value), tuple)

    def _find_active(self):
        p, flows = self.p, []
        for _, _, s in p.statements():
            if isinstance(s, ir.SetItem):
                flows.append((s.value.name, s.target.name))
            elif isinstance(s, ir.Assign) and self.carries(s.target.name):
                if not self.blank(s) and not (is_expr(s.value, "getattr") and s.value.attr in _BLIND):
                    flows += [(name, s.target.name) for name in self.operands(s)]
            if self.called_apart(s):
                sources, arrays = self.flows(s)
                flows += [(n, a) for n in sources for a in arrays]
        flows = [(self.group(a), self.group(b)) for a, b in flows if self.carries(a) and self.carries(b)]
        seeds = {self.group(self.args[k]) for k in self.seeds}
        self.varied = _closure(seeds | {self.group(self.args[k]) for k in self.duals if self.args[k] is not None}, flows)
        useful = {self.group(n) for n in self.results()}
        if self.apart or p.part:
            useful |= {self.group(n) for n in self.args if is_array(p.type_of(n))}
        self.active_groups = self.varied & _closure(useful, [(b, a) for a, b in flows]) | seeds if seeds else set()
        for _, _, s in p.statements():
            self._refuse_leak(s)
        if self.group(ELSEWHERE) in self.varied:
            for s in (s for _, _, s in p.statements() if self.elsewhere(s)):
                raise Refused("an array that depends on the arguments may be in a list or an object, which reverse mode does not track", s.loc)

    def _depends(self, name):
        return self.carries(name) and self.group(name) in self.varied

    def _refuse_leak(self, s):
        if isinstance(s, ir.SetItem):
            if self._depends(s.value.name) and not is_array(self.p.type_of(s.target.name)):
                raise Refused("a differentiated value is stored in a container that reverse mode does not track", s.loc)
            return
        if not isinstance(s, ir.Assign) or not any(map(self._depends, self.operands(s))):
            return
        e, ty = s.value, self.p.type_of(s.target.name)
        if isinstance(e, ir.Var):  # a copy, perhaps to another type
            e = ir.Expr.cast(e, s.loc)
        function = self.p.callee(e) if e.op == "call" else None
        converts = self.rule(s) is not None or isinstance(function, type) and issubclass(function, np.generic)
        if converts and not carries(ty):
            raise Refused("a conversion to integers would cut the derivative; int, math.floor and round return integers and have derivative 0", s.loc)
        if e.op == "call" and not self._known(s) and not self.called_apart(s) and not all(is_plain(self.p.type_of(n)) for n in self.operands(s)):
            raise Refused("unsupported call: it might modify or retain a differentiated array", s.loc)
        if self.carries(s.target.name) or isinstance(ty, _INACTIVE):
            return
        if _integral(ty) or e.op == "getattr" and e.attr in _BLIND:
            return
        if self._packs(e) and all(self._unpacked(user) for _, _, user in self.uses.get(s.target.name, ())):
            return
        raise Refused(f"a value of type {ty} would hold something that depends on the arguments", s.loc)

    def _unpacked(self, user):
        """Whether a statement that reads a tuple is followed."""
        return isinstance(user, ir.Return) or self.rule(user) is not None


def _closure(seed, pairs):
    after = {}
    for a, b in pairs:
        after.setdefault(a, []).append(b)
    return {*reached(seed, lambda a: after.get(a, ()))}


def refuse_unknown(s):
    raise Refused("no derivative of this operation is known in reverse mode", s.loc)


