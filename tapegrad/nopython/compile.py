"""Compile a user's function for dual numbers, with a pass over Numba's IR that makes it fit for these, and explain what cannot be compiled.

Most of a function needs no change: Numba compiles it anew for dual arguments, and
types flow.  Two things do not flow.

**Arrays are typed where they are made.**  In ::

    y = np.zeros(n)
    y[0] = x[0] * 2.0

``y`` is an array of float64 however it is used later, and a dual number has no place
in it.  So what constructors return is made dual (`arrays`) where the array may come to hold
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

import linecache
import os
import re
import types as python_types
import weakref
from contextlib import suppress
from functools import cache
from pathlib import Path
from uuid import uuid4

import numba
import numpy as np
from numba import NumbaError
from numba.extending import is_jitted

from ..codegen.numba_inside import INNER, call_of, define_anew, ir, meaning, new_pass, raised_with, run_frontend
from ..common.errors import UnsupportedInNumbaError
from . import loops  # noqa: F401  (it registers operations)
from .arrays import EMPTY, FRESH, array, promoted, where
from .key import content
from .request import CALLED_AS_IS, compiler
from .reverse.rows import Refused, is_expr
from .scalars import is_elementwise, is_known, primal
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
_LIBRARIES = ("numba", "numpy", "math", "scipy", "tapegrad.nopython")


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
        if function is np.where and len(expr.args) == 3:
            s.value = ir.Expr.call(bound("where", ir.Global("where", where, loc), loc), expr.args, expr.kws, loc)
        elif active and (among(function, FRESH) or is_elementwise(function) and not any(map(activity.has, expr.list_vars()))):
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


@cache
def _pipeline(lanes, returns):
    """The compiler for one number of lanes: its pass exchanges constructors, and calls of helpers for `dual_dispatcher`."""

    def run(state):
        func_ir = state.func_ir

        def variant(function, returns):
            return dual_dispatcher(function, lanes, returns)

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

    return compiler(new_pass(f"dual_pass_{lanes}_{int(returns)}", run))


# ---- the dispatcher ------------------------------------------------------------------------------
_VARIANTS = weakref.WeakKeyDictionary()


def renewed(function, suffix="", scope=None, cells=None):
    """A copy of a Python function, which may have other globals and cells, and a suffix in its name."""
    copy = python_types.FunctionType(
        function.__code__, scope or function.__globals__, function.__name__, function.__defaults__, cells or function.__closure__
    )
    copy.__kwdefaults__, copy.__module__, copy.__qualname__ = function.__kwdefaults__, function.__module__, function.__qualname__ + suffix
    return copy


def dual_dispatcher(function, lanes, returns):
    """The dispatcher that compiles a user's function for dual numbers.

    Parameters
    ----------
    function : function or numba Dispatcher
    lanes : int
    returns : bool
        Whether the caller makes something active of the result (see the top of this file).
    """
    source = function.py_func if is_jitted(function) else function
    # (A function whose globals have changed since is another one.)
    variants, key = _VARIANTS.setdefault(source, {}), (lanes, returns, content(function))
    if key not in variants:
        # Symbols are named after the function: the name is unique, so that code
        # that was loaded and code compiled now cannot be taken for one another.
        copy = renewed(source, f"_dual{lanes}{'r' * returns}_{uuid4().hex}")
        setattr(copy, VARIANT, True)
        variants[key] = numba.njit(**INNER | {"pipeline_class": _pipeline(lanes, returns)}, **meaning(function))(copy)
    return variants[key]


def compiled(dispatcher, argument_types, function):
    """Compile for these types now; the signature.

    Raises
    ------
    UnsupportedInNumbaError
        If that is not possible, with the user's line.
    """
    try:
        return call_of(dispatcher, argument_types)[1]
    except (UnsupportedInNumbaError, MemoryError):
        raise
    except Exception as error:
        raise UnsupportedInNumbaError(explain_failure(error, function)) from error


# ---- explaining failures ----------------------------------------------------------------
_PLACE = re.compile(r'File "([^"]+)", line (\d+)')
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")

#: Advice by a pattern in Numba's message; the first match counts.
_ADVICE = (
    (r"Function\(u?int(8|16|32|64)\)", "a conversion to integers would cut the derivative; int, math.floor and round return integers "
     "and have derivative 0"),
    (r"Function\(float(16|32)\)", "leave np.float32 out: a differentiated number is a float64; arrays of float32 may be arguments"),
    (r"Function\(<class 'complex'>\)|complex(64|128)", "write complex arithmetic in real and imaginary parts"),
    (r"setitem\W+(readonly )?array\((float|int)|Cannot (cast|store) dual|asarray|cannot unify.*array\((float|int)",
     "the array cannot hold differentiated values; make it inside, as float64, with np.zeros or np.empty_like(x), or pass one of floats, not read-only"),
    (r"Illegal IR, del found", "Numba has no `del` of a variable: leave it out"),
    (r"getitem>\(Array\(.*, \.\.\.\)", "Numba has no x[...] alone: write x[:]"),
    (r"(?i)cannot unify|can't unify", "give the variable one type on all paths"),
    (r"<function (solve|inv|pinv|det|slogdet|eig|svd|qr|cholesky|lstsq|interp|matrix_power)",
     "write this step out in loops, or take its derivative outside of Numba, with tg.tensor"),
)


def _places(trace):
    """Places that Numba was typing when it failed, innermost first, as (file, line)."""
    places = []
    while trace is not None:
        loc = trace.tb_frame.f_locals.get("loc")
        if isinstance(loc, ir.Loc):
            places.insert(0, (loc.filename, loc.line))
        trace = trace.tb_next
    return places


def explain_failure(error, function):
    """One message from Numba's or a refusal of reverse mode, with the user's line, the operation and what to do."""
    own = function.py_func if is_jitted(function) else function
    if isinstance(error, Refused):
        where, line, refused = error.loc.filename, error.loc.line, f"{error.reason[:1].upper()}{error.reason[1:]}."
        if where.startswith("<string>") or not line:
            where, line = own.__code__.co_filename, own.__code__.co_firstlineno
        return _message(where, line, own, "reverse mode", refused, error.advice)
    # Numba reports most of what it cannot do by a NumbaError, and the rest by any exception of its internals.
    text = str(error) if isinstance(error, numba.NumbaError) else f"{type(error).__name__} {error}"
    text, places = _COLOURS.sub("", text), _places(error.__traceback__)
    package, numba_folder = str(Path(__file__).parents[1]), str(Path(numba.__file__).parent)
    where, line = own.__code__.co_filename, own.__code__.co_firstlineno
    # Numba names the innermost place first.
    for name, number in [*_PLACE.findall(text), *places]:
        path = _full_path(name, own)
        if not path.startswith((package, numba_folder)) and path.endswith((".py", ">")):
            where, line = path, int(number)
            break
    said = [part.strip() for part in text.splitlines()]
    said = [part for part in said if part and not part.startswith(("Failed in", "During:", "File ", "<source", "^"))]
    reason = " ".join(said[:3])
    advice = next((words for pattern, words in _ADVICE if re.search(pattern, reason)), None)
    advice = advice or "use an operation that docs/inside_numba.md lists, or write it out in loops"
    return _message(where, line, own, "nopython code", f"Numba says: {reason}", advice)


def _message(where, line, function, mode, reason, advice):
    source = linecache.getline(where, line).strip() or function.__name__
    return f"{where}:{line}: this cannot be differentiated in {mode}: {source}\n  {reason}\n  What to do: {advice}."


def _full_path(path, function):
    """Numba shortens paths; the user's own file is known by its end."""
    full = function.__code__.co_filename
    if os.path.basename(path) == os.path.basename(full):
        return full
    return path if path.startswith("<") else os.path.abspath(path)
