"""Making a user's function fit for dual numbers: a pass over Numba's IR.

Most of a function needs no change: Numba compiles it anew for dual arguments, and
types flow.  Two things do not flow.

**Arrays are typed where they are made.**  In ::

    y = np.zeros(n)
    y[0] = x[0] * 2.0

``y`` is an array of float64 however it is used later, and a dual number has no place
in it.  So what constructors return is made dual (`allocate`) where the array may come to hold
dual numbers.  Which ones is found before types are, by asking which *variables* may be active,
that is hold anything that depends on the differentiated arguments:

- an argument that holds dual numbers is active;
- what is computed from something active is active, and what something active is stored
  into (``y[i] = a``, ``y += a``, ``y.append(a)``, or ``y`` handed beside it to a helper,
  which may store there);
- names for the same memory are active together: ``b = a``, views, tuples, lists, what a
  helper is given and what it returns;
- the returned variable is active, if the caller says that it makes something active of
  the result: a helper that only returns ``np.zeros(n)`` is then compiled once for
  such callers and once for others.

The order of statements is ignored, so the set is larger than necessary at times: then an
array holds dual numbers whose tangents are zero.  It may also be too small, where memory
is shared in ways not listed: then the store of a dual number into a float64 array fails
to compile, as there is no conversion.  Neither gives a wrong derivative.

**Helpers are compiled already, without this pass.**  A call of a user's function,
compiled by ``@njit`` or not, is redirected to a dispatcher that has this pass too; functions
that are only referred to (handed to another) likewise.
"""

import types as python_types
from contextlib import suppress

import numpy as np
from numba import NumbaError
from numba.extending import is_jitted

from ..codegen.numba_inside import define_anew, ir, new_pass, raised_with, run_frontend
from .allocate import EMPTY, FRESH, array, promoted
from .builtins import primal
from .functions import is_elementwise, is_known
from .request import CALLED_AS_IS
from .reverse.statements import is_expr
from .types import Token, contains_dual
from .vectorized import fitted, is_vectorized

#: Attributes that say nothing about the elements.
_PASSIVE = ("shape", "ndim", "size", "dtype", "strides", "itemsize")
#: Expressions whose result may share memory with their operands.
_SHARING = ("getitem", "static_getitem", "build_list", "build_tuple", "getattr", "exhaust_iter", "getiter", "iternext",
            "pair_first", "cast", "phi")  # fmt: skip
#: Functions and methods whose result may be the same memory as their first operand.
_VIEWS = ("reshape", "ravel", "transpose", "swapaxes", "expand_dims", "squeeze", "ascontiguousarray", "asfortranarray",
          "atleast_1d", "atleast_2d", "moveaxis", "flip", "asarray")  # fmt: skip
#: Methods that store their arguments.
_STORING = ("append", "insert", "extend", "fill")
#: Attribute of functions that are compiled with this pass already.
VARIANT = "_tapegrad_variant"
_LIBRARIES = ("numba", "numpy", "math", "tapegrad.nopython")


def _definition(func_ir, var):
    """The one right side that a variable is bound to, or None."""
    with suppress(KeyError, NumbaError):
        return func_ir.get_definition(var)


def resolve(func_ir, var):
    """The Python object a variable is bound to, through globals, cells and attributes of modules; or None."""
    definition = _definition(func_ir, var)
    if isinstance(definition, (ir.Global, ir.FreeVar)):
        return definition.value
    if is_expr(definition, "getattr"):
        module = resolve(func_ir, definition.value)
        if isinstance(module, python_types.ModuleType):
            return getattr(module, definition.attr, None)
    return None


def is_users(function):
    """Whether `function` is a user's own, to be compiled from its source."""
    if is_jitted(function):
        if hasattr(function.py_func, VARIANT):
            return False
    elif not isinstance(function, python_types.FunctionType) or is_known(function):
        return False
    module = getattr(function, "py_func", function).__module__
    return not any(module == name or (module or "").startswith(name + ".") for name in _LIBRARIES)


def among(function, functions):
    return any(function is one for one in functions)


class DualNames:
    """The names of variables that may hold dual numbers (see the top of this file)."""

    def __init__(self, func_ir, arguments, returns):
        self.ir, self.names = func_ir, set()
        statements = [s for block in func_ir.blocks.values() for s in block.body]
        for s in statements:
            if isinstance(s, ir.Assign) and isinstance(s.value, ir.Arg) and arguments[s.value.index]:
                self.mark(s.target)
            if returns and isinstance(s, ir.Return):
                self.mark(s.value)
        before = -1
        while len(self.names) != before:
            before = len(self.names)
            for s in statements:
                self._step(s)

    def has(self, var):
        return var.name in self.names

    def mark(self, *variables):
        self.names.update(v.name for v in variables)

    def _step(self, s):
        if isinstance(s, (ir.SetItem, ir.StaticSetItem)):
            if self.has(s.value):
                self.mark(s.target)
        elif isinstance(s, ir.Assign) and isinstance(s.value, ir.Var):
            if self.has(s.value) or self.has(s.target):
                self.mark(s.value, s.target)
        elif isinstance(s, ir.Assign) and isinstance(s.value, ir.Expr):
            self._expression(s.target, s.value)

    def _expression(self, target, expr):
        if expr.op == "getattr" and expr.attr in _PASSIVE:
            return
        operands = expr.list_vars()
        active = any(map(self.has, operands))
        if expr.op == "call":
            self._call(target, expr, active)
            return
        if active:
            self.mark(target)
        if expr.op == "inplace_binop" and (active or self.has(target)):
            self.mark(expr.lhs)
        if expr.op in _SHARING and self.has(target):
            owners = [expr.value] if expr.op in ("getitem", "static_getitem") else operands
            self.mark(*[v for v in owners if resolve(self.ir, v) is None])
        if expr.op == "binop" and self.has(target):  # [0.0] * n
            self.mark(*[v for v in operands if is_expr(_definition(self.ir, v), "build_list")])

    def _call(self, target, expr, active):
        function = resolve(self.ir, expr.func)
        if among(function, (len, range, print, *EMPTY)):
            return
        if active:
            self.mark(target)
        result_active = self.has(target)
        if function is None:
            self._method(expr, active, result_active)
        elif result_active and is_users(function):  # it may store into its arguments or return one of them
            self.mark(*expr.args, *[v for _, v in expr.kws])
        elif result_active and getattr(function, "__name__", "") in _VIEWS:
            self.mark(*expr.args[:1])

    def _method(self, expr, active, result_active):
        method = _definition(self.ir, expr.func)
        if not is_expr(method, "getattr"):
            return
        if method.attr in _STORING and active:
            self.mark(method.value, *expr.args)
        if method.attr in _VIEWS and result_active:
            self.mark(method.value)


def dual_arguments(function, duals):
    """Positions of arguments that may come to hold dual numbers if those do for which `duals` says so."""
    func_ir = run_frontend(function)
    activity = DualNames(func_ir, duals, True)
    args = [s for s in next(iter(func_ir.blocks.values())).body if isinstance(s, ir.Assign) and isinstance(s.value, ir.Arg)]
    return {s.value.index for s in args if activity.has(s.target)}


def _edit(s, bound, promotion, func_ir, activity, variant, kept, lanes):
    """Rewrite the value of one assignment."""
    expr, loc, active = s.value, s.loc, activity.has(s.target)
    if expr.op == "build_list" and active:
        s.value = ir.Expr.build_list([bound("item", promotion(v, loc), loc) for v in expr.items], loc)
    elif expr.op in ("binop", "unary") and active and not any(map(activity.has, expr.list_vars())):
        # Of plain numbers, and something active is stored into it, or takes its place.
        s.value = promotion(bound("fresh", expr, loc), loc)
    elif expr.op == "call":
        function = resolve(func_ir, expr.func)
        if function is np.frombuffer and any(map(activity.has, expr.args)):
            raise NumbaError("np.frombuffer depends on the memory layout, which is another one with derivatives", loc)
        if active and (among(function, FRESH) or is_elementwise(function) and not any(map(activity.has, expr.list_vars()))):
            if function is np.array:
                # (Numba writes `np.array` of a list out, for dtypes that NumPy has.)
                expr = ir.Expr.call(bound("array", ir.Global("array", array, loc), loc), expr.args, expr.kws, loc)
            s.value = promotion(bound("fresh", expr, loc), loc)
        elif is_vectorized(function) and any(map(activity.has, expr.list_vars())):
            stub = bound("vectorized", ir.Global("vectorized", fitted(function, lanes, variant), loc), loc)
            s.value = ir.Expr.call(stub, expr.args, expr.kws, loc, vararg=expr.vararg)
        elif function is not None and is_users(function):
            operands = [*expr.args, *[v for _, v in expr.kws], *([expr.vararg] if expr.vararg else [])]
            if active or any(map(activity.has, operands)):
                helper = variant(function, active)
                called = bound(helper.py_func.__name__, ir.Global(helper.py_func.__name__, helper, loc), loc)
                s.value = ir.Expr.call(called, expr.args, expr.kws, loc, vararg=expr.vararg)
            elif is_jitted(function):
                kept.add(expr.func.name)
                CALLED_AS_IS.append(function)


def references(func_ir):
    """The statements that name a user's function, by a global, a cell or an attribute of a module; and the function."""
    for block in func_ir.blocks.values():
        for s in block.body:
            value = getattr(s, "value", None)
            if isinstance(value, (ir.Global, ir.FreeVar)) or is_expr(value, "getattr"):
                function = resolve(func_ir, s.target)
                if is_users(function):
                    yield s, function


def dual_pass(lanes, returns, dispatcher):
    """The pass for one number of lanes: it exchanges constructors, and calls of helpers for ``dispatcher(function, lanes, returns)``."""

    def run(state):
        func_ir = state.func_ir

        def variant(function, returns):
            return dispatcher(function, lanes, returns)

        activity = DualNames(func_ir, [contains_dual(ty) for ty in state.args], returns)
        token, kept = Token(lanes), set()
        for block in func_ir.blocks.values():
            body = []

            def bound(name, value, loc, body=body, block=block):
                var = block.scope.redefine(f"${name}", loc)
                body.append(ir.Assign(value, var, loc))
                return var

            def promotion(var, loc, bound=bound):
                names = (("promoted", promoted), ("token", token))
                function, dtype = (bound(name, ir.Global(name, thing, loc), loc) for name, thing in names)
                return ir.Expr.call(function, [dtype, var], (), loc)

            def said(var, bound=bound):
                function = ir.Global("primal", primal, var.loc)
                return bound("said", ir.Expr.call(bound("primal", function, var.loc), [var], (), var.loc), var.loc) if activity.has(var) else var

            for s in block.body:
                if isinstance(s, ir.Assign) and isinstance(s.value, ir.Expr):
                    _edit(s, bound, promotion, func_ir, activity, variant, kept, lanes)
                raised_with(s, said)
                body.append(s)
            block.body = body
        for s, function in references(func_ir):
            if s.target.name not in kept:
                helper = variant(function, False)
                s.value = ir.Global(helper.py_func.__name__, helper, s.loc)
        define_anew(func_ir)
        return True

    return new_pass(f"dual_pass_{lanes}_{int(returns)}", run)
