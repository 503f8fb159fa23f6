"""Arrays of dual numbers: element-wise expressions, reductions, products.

Element-wise expressions need typing only: Numba's own rewrite fuses them into one loop
over the scalar operations of `scalars`.  Reductions and products are loops.  What only
moves elements (indexing, slices, reshaping, sorting, copies) is Numba's own and works
for any element type.
"""

from __future__ import annotations

import inspect
import math
import operator

import numpy as np
from numba.core import types
from numba.core.imputils import lower_builtin
from numba.core.typing.templates import AbstractTemplate, AttributeTemplate, infer_getattr, signature
from numba.extending import overload

from .builtins import as_dual
from .scalars import COMPARISONS, IN_PLACE, OPERATORS, UFUNCS, template
from .types import Token, common_dual, is_dual_array, is_real


def element(ty):
    """Element type of an array; a scalar's own type."""
    return ty.dtype if isinstance(ty, types.Array) else ty


def _mixed_dual(*tys):
    """The dual type of an operation on arrays and scalars; None unless there are an array and a dual number."""
    if not any(isinstance(ty, types.Array) for ty in tys):
        return None
    return common_dual(*map(element, tys))


# ---- element-wise -----------------------------------------------------------------------
class _Elementwise(AbstractTemplate):
    arity = 1
    result = None

    def generic(self, args, kws):
        if len(args) != self.arity or kws:
            return None
        dual = _mixed_dual(*args)
        if dual is None:
            return None
        arrays = [a for a in args if isinstance(a, types.Array)]
        layout = "F" if all(a.layout == "F" for a in arrays) else "C"
        ndim = max(a.ndim for a in arrays)
        return signature(types.Array(self.result or dual, ndim, layout), *args)


class _Unary(_Elementwise):
    arity = 1


class _Binary(_Elementwise):
    arity = 2


class _Comparison(_Binary):
    result = types.boolean


def _register_elementwise():
    for function in (*OPERATORS, *UFUNCS):
        if function is not abs and function is not operator.pos:
            template(function, _Unary if _takes_one(function) else _Binary)
    for function in COMPARISONS:
        template(function, _Comparison)


def _takes_one(function):
    return function.nin == 1 if isinstance(function, np.ufunc) else function is operator.neg


_register_elementwise()


@overload(abs, target="cpu")
def _abs(a):
    if is_dual_array(a):
        return lambda a: np.abs(a)


_SYMBOLS = {
    operator.iadd: "+", operator.isub: "-", operator.imul: "*", operator.itruediv: "/", operator.ifloordiv: "//",
    operator.imod: "%", operator.ipow: "**",
}  # fmt: skip


def _in_place(function):
    # Written with the operator's symbol, for Numba fuses only those.  The result is made
    # before anything is stored, as operands may overlap; loops compile faster than `a[...] = `.
    names = {"np": np, "__name__": __name__}
    symbol = _SYMBOLS[function]
    exec(
        f"""
def vector(a, b):
    made = a {symbol} b
    if made.shape != a.shape:
        raise ValueError("the operand of an in-place operation has another shape")
    for i in range(a.shape[0]):
        a[i] = made[i]
    return a

def array(a, b):
    made = a {symbol} b
    if made.shape != a.shape:
        raise ValueError("the operand of an in-place operation has another shape")
    for i in np.ndindex(a.shape):
        a[i] = made[i]
    return a

def scalar(a, b):
    for i in np.ndindex(a.shape):
        a[i] = a[i] {symbol} b
    return a
""",
        names,
    )

    @overload(function, target="cpu")
    def update(a, b):
        if is_dual_array(a) and (is_real(element(b)) or element(b) == a.dtype):
            return names["scalar" if not isinstance(b, types.Array) else "vector" if a.ndim == 1 else "array"]


for _function in IN_PLACE:
    _in_place(_function)


# ---- reductions -------------------------------------------------------------------------
def _absent(ty):
    return ty is None or isinstance(ty, (types.NoneType, types.Omitted))


class _Methods(AttributeTemplate):
    """Methods of arrays of dual numbers; other arrays keep Numba's."""

    key = types.Array
    metadata = {"target": "cpu"}


infer_getattr(_Methods)


class _Refused(AbstractTemplate):
    key = "tapegrad.view"

    def generic(self, args, kws):
        return None


#: A view with another dtype would show values and tangents as numbers.
_Methods.resolve_view = lambda self, array: types.BoundFunction(_Refused, array) if is_dual_array(array) else None


def _both(function, name):
    """Decorator: an overload of a function of arrays, and the method of the same name."""

    def register(implementation):
        overload(function, target="cpu")(implementation)

        def own():
            raise NotImplementedError

        own.__name__ = own.__qualname__ = f"array.{name}"
        # In Numba 0.63 NumPy's function asks for the method; so the method asks for the implementation, not for the function.
        overload(own, target="cpu")(implementation)

        def as_function(context, args, kws=()):
            return context.resolve_value_type(own), (args, dict(kws))

        class Bound(AbstractTemplate):
            key = f"tapegrad.{name}"

            def generic(self, args, kws):
                function_type, arguments = as_function(self.context, (self.this, *args), kws)
                call_type = function_type.get_call_type(self.context, *arguments)
                return call_type.replace(pysig=inspect.signature(implementation)).as_method()

        @lower_builtin(Bound.key, types.Array, types.VarArg(types.Any))
        def lower(context, builder, sig, args):
            function_type, arguments = as_function(context.typing_context, sig.args)
            compiled = context.get_function(function_type, function_type.get_call_type(context.typing_context, *arguments))
            return compiled(builder, args)

        def resolve(self, array):
            return types.BoundFunction(Bound, array) if is_dual_array(array) else None

        setattr(_Methods, f"resolve_{name}", resolve)
        return implementation

    return register


@_both(np.sum, "sum")
def _sum(a, axis=None, dtype=None):
    if not is_dual_array(a) or not _absent(dtype):
        return None
    token = Token(a.dtype.lanes)
    if _absent(axis):

        def everything(a, axis=None, dtype=None):
            total = as_dual(token, 0.0)
            for x in a.flat:
                total += x
            return total

        return everything
    if a.ndim == 2 and isinstance(types.unliteral(axis), types.Integer):

        def along(a, axis=None, dtype=None):
            if not -2 <= axis < 2:
                raise ValueError("axis out of bounds")
            rows = a if axis % 2 == 0 else a.T
            total = np.zeros(rows.shape[1], token)
            for i in range(rows.shape[0]):
                for j in range(rows.shape[1]):
                    total[j] += rows[i, j]
            return total

        return along


@_both(np.mean, "mean")
def _mean(a):
    if is_dual_array(a):
        return lambda a: np.sum(a) / a.size


@_both(np.var, "var")
def _var(a):
    if is_dual_array(a):

        token = Token(a.dtype.lanes)

        def variance(a):
            mean, total = np.mean(a), as_dual(token, 0.0)
            for x in a.flat:
                total += (x - mean) ** 2
            return total / a.size

        return variance


@_both(np.std, "std")
def _std(a):
    if is_dual_array(a):
        return lambda a: math.sqrt(np.var(a))


@_both(np.prod, "prod")
def _prod(a):
    if is_dual_array(a):
        token = Token(a.dtype.lanes)

        def product(a):
            total = as_dual(token, 1.0)
            for x in a.flat:
                total *= x
            return total

        return product


def _extremum(function, name, pair):
    @_both(function, name)
    def extremum(a):
        if not is_dual_array(a):
            return None

        def scan(a):
            if a.size == 0:
                raise ValueError("zero-size array to a reduction without identity")
            extreme = a.flat[0]
            for i, x in enumerate(a.flat):
                if i:
                    extreme = pair(extreme, x)
            return extreme

        return scan


_extremum(np.max, "max", max)
_extremum(np.min, "min", min)


@_both(np.cumsum, "cumsum")
def _cumsum(a):
    if is_dual_array(a) and a.ndim == 1:
        token = Token(a.dtype.lanes)

        def running(a):
            out = np.empty(a.shape[0], token)
            total = as_dual(token, 0.0)
            for i in range(a.shape[0]):
                total += a[i]
                out[i] = total
            return out

        return running


# ---- products ---------------------------------------------------------------------------
def _product(a, b):
    if not (isinstance(a, types.Array) and isinstance(b, types.Array)):
        return None
    dual = _mixed_dual(a, b)
    if dual is None:
        return None
    token = Token(dual.lanes)
    if (a.ndim, b.ndim) == (1, 1):

        def inner(a, b):
            if a.shape[0] != b.shape[0]:
                raise ValueError("incompatible array sizes for a @ b")
            total = as_dual(token, 0.0)
            for i in range(a.shape[0]):
                total += a[i] * b[i]
            return total

        return inner
    if (a.ndim, b.ndim) == (2, 1):

        def matrix_vector(a, b):
            if a.shape[1] != b.shape[0]:
                raise ValueError("incompatible array sizes for a @ b")
            out = np.empty(a.shape[0], token)
            for i in range(a.shape[0]):
                total = as_dual(token, 0.0)
                for j in range(a.shape[1]):
                    total += a[i, j] * b[j]
                out[i] = total
            return out

        return matrix_vector
    if (a.ndim, b.ndim) == (1, 2):

        def vector_matrix(a, b):
            if a.shape[0] != b.shape[0]:
                raise ValueError("incompatible array sizes for a @ b")
            out = np.zeros(b.shape[1], token)
            for i in range(b.shape[0]):
                for j in range(b.shape[1]):
                    out[j] += a[i] * b[i, j]
            return out

        return vector_matrix
    if (a.ndim, b.ndim) == (2, 2):

        def matrices(a, b):
            if a.shape[1] != b.shape[0]:
                raise ValueError("incompatible array sizes for a @ b")
            out = np.zeros((a.shape[0], b.shape[1]), token)
            for i in range(a.shape[0]):
                for k in range(a.shape[1]):
                    for j in range(b.shape[1]):
                        out[i, j] += a[i, k] * b[k, j]
            return out

        return matrices


_both(np.dot, "dot")(_product)
overload(operator.matmul, target="cpu")(_product)


@overload(np.linalg.norm, target="cpu")
def _norm(a):
    if is_dual_array(a):
        return lambda a: math.sqrt(np.sum(a * a))


@overload(np.outer, target="cpu")
def _outer(a, b):
    if is_dual_array(a) or is_dual_array(b):
        return lambda a, b: np.expand_dims(np.ravel(a), 1) * np.expand_dims(np.ravel(b), 0)


@overload(np.clip, target="cpu")
def _clip(a, a_min, a_max):
    if is_dual_array(a) and all(is_real(v) or v == a.dtype for v in (a_min, a_max)):
        token = Token(a.dtype.lanes)

        def clip(a, a_min, a_max):
            out = np.empty(a.shape, token)
            for i in np.ndindex(a.shape):
                out[i] = np.clip(a[i], a_min, a_max)
            return out

        return clip


# ---- choices ----------------------------------------------------------------------------
@overload(np.where, target="cpu")
def _where(condition, x, y):
    if not isinstance(condition, types.Array) or not is_real(condition.dtype):
        return None
    dual = common_dual(element(x), element(y))
    if dual is None or any(isinstance(v, types.Array) and v.ndim != condition.ndim for v in (x, y)):
        return None
    token = Token(dual.lanes)
    x_array, y_array = isinstance(x, types.Array), isinstance(y, types.Array)

    def choose(condition, x, y):
        if (x_array and x.shape != condition.shape) or (y_array and y.shape != condition.shape):
            raise ValueError("np.where with arrays of different shapes")
        out = np.empty(condition.shape, token)
        for i in np.ndindex(condition.shape):
            if condition[i]:
                out[i] = _at(x, i)
            else:
                out[i] = _at(y, i)
        return out

    return choose


def _at(x, i):
    """Element of an array; a scalar itself."""
    raise NotImplementedError


@overload(_at)
def _at_overload(x, i):
    if isinstance(x, types.Array):
        return lambda x, i: x[i]
    return lambda x, i: x
