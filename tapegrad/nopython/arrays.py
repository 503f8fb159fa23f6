"""Arrays of dual numbers: reductions, products, choices.

Element-wise expressions need typing only (`scalars`): Numba's own rewrite fuses them into one loop
over the scalar operations.  Reductions and products are written here in plain Python, of which Numba makes
loops over dual numbers.  What only moves elements (indexing, slices, reshaping, sorting, copies) is Numba's own
and works for any element type.

`compile` hands what constructors return, and the floats of lists, to `promoted`; types are known there: integers and
booleans stay what they are.  What holds dual numbers from the start is here, too.
"""

import inspect
import math
import operator

import numpy as np
from numba import NumbaError, types
from numba.extending import infer_getattr, lower_builtin, overload, register_jitable

from ..codegen.numba_inside import AbstractTemplate, AttributeTemplate, call_of
from ..rules.table import BY_NAME
from .scalars import IN_PLACE, OPERATORS, as_dual, extremum_of, primal
from .types import DualType, Token, common_dual, compiled_only, contains_dual, defined, dual_of_arrays, element, is_dual_array
from .vectorized import of_dual_arrays

# ---- constructors, which make float64 ------------------------------------------------------------
#: Constructors of arrays of which no element comes from an argument.
EMPTY = (np.zeros, np.empty, np.ones, np.zeros_like, np.empty_like, np.ones_like, np.eye, np.identity)
#: Constructors that take their dtype from an array, if they are not given one.
LIKE = (np.zeros_like, np.empty_like, np.ones_like)
#: Functions whose result is memory of its own, and made dual after the call.
FRESH = (*EMPTY, np.full, np.full_like, np.array, np.linspace, np.arange, np.copy)

promoted, array = compiled_only("promoted"), compiled_only("array")


@overload(promoted)
def _promoted(token, value):
    """Floats, or an array of them that nothing else refers to, as dual numbers; anything else as it is."""
    if isinstance(value, types.Float):
        return lambda token, value: as_dual(token, value)
    if not isinstance(value, types.Array) or not isinstance(value.dtype, types.Float):
        return lambda token, value: value

    def copied(token, value):
        out = np.empty_like(value, token)
        for i in np.ndindex(value.shape):
            out[i] = value[i]
        return out

    return copied


def holds_floats(dtype):
    """Whether a dtype argument stands for float64, which it does by default."""
    if dtype is None or isinstance(dtype, (types.NoneType, types.Omitted)):
        return True
    if isinstance(dtype, types.Function):
        return dtype.typing_key is float
    if isinstance(dtype, types.StringLiteral):
        return np.dtype(dtype.literal_value).kind == "f"
    return isinstance(dtype, types.DTypeSpec) and isinstance(dtype.dtype, (types.Float, DualType))


@register_jitable
def _filled(out, value):
    for i in np.ndindex(out.shape):
        out[i] = value
    return out


@overload(np.full, target="cpu")
def _full(shape, fill_value, dtype=None):
    if isinstance(fill_value, DualType) and holds_floats(dtype):
        token = Token(fill_value.lanes)
        return lambda shape, fill_value, dtype=None: _filled(np.empty(shape, token), fill_value)


@overload(np.full_like, target="cpu")
def _full_like(a, fill_value, dtype=None):
    if isinstance(a, types.Array) and isinstance(fill_value, DualType) and holds_floats(dtype):
        token = Token(fill_value.lanes)
        return lambda a, fill_value, dtype=None: _filled(np.empty_like(a, token), fill_value)


@overload(array)
def _array(object, dtype=None):
    """``np.array`` of something that may hold dual numbers."""
    if not contains_dual(object) or not holds_floats(dtype):
        return lambda object, dtype=None: np.array(object, dtype)
    if is_dual_array(object):
        return lambda object, dtype=None: object.copy()
    items = list(object) if isinstance(object, types.BaseTuple) else [object.dtype]
    if len(set(items)) > 1:
        return None
    if isinstance(items[0], DualType):
        token = Token(items[0].lanes)

        def numbers(object, dtype=None):
            out = np.empty(len(object), token)
            for i in range(len(object)):
                out[i] = object[i]
            return out

        return numbers
    if isinstance(items[0], (types.List, types.UniTuple)):
        token = Token(items[0].dtype.lanes)

        def rows(object, dtype=None):
            out = np.empty((len(object), len(object[0])), token)
            for i in range(len(object)):
                out[i] = array(object[i])
            return out

        return rows


@overload(np.asarray, target="cpu")
def _asarray(a, dtype=None):
    if is_dual_array(a) and holds_floats(dtype):
        return lambda a, dtype=None: a
    if not isinstance(a, types.Array) and contains_dual(a):
        return lambda a, dtype=None: array(a, dtype)


# ---- functions and methods -----------------------------------------------------------------------
# ---- functions and methods ---------------------------------------------------------------
class _DualArrayMethods(AttributeTemplate):
    """Methods of arrays of dual numbers; other arrays keep Numba's."""

    key = types.Array
    metadata = {"target": "cpu"}


infer_getattr(_DualArrayMethods)


def _of_bytes(name):
    """Refuse what would expose the tangents, which lie beside the values in memory."""

    def resolve(self, array):
        if is_dual_array(array):
            raise NumbaError(f".{name} depends on the memory layout, which is another one with derivatives")

    setattr(_DualArrayMethods, f"resolve_{name}", resolve)


for _name in ("view", "nbytes", "itemsize", "strides", "ctypes"):
    _of_bytes(_name)


def both(function, name):
    """Decorator: an overload of a function of arrays, and the method of the same name."""

    def register(implementation):
        overload(function, target="cpu")(implementation)
        # In Numba 0.63 NumPy's function asks for the method; so the method asks for the implementation, not for the function.
        own = compiled_only(f"array.{name}")
        overload(own, target="cpu")(implementation)

        class Bound(AbstractTemplate):
            key = f"tapegrad.{name}"

            def generic(self, args, kws):
                call_type = self.context.resolve_value_type(own).get_call_type(self.context, (self.this, *args), dict(kws))
                return call_type.replace(pysig=inspect.signature(implementation)).as_method()

        @lower_builtin(Bound.key, types.Array, types.VarArg(types.Any))
        def lower(context, builder, sig, args):
            return context.get_function(*call_of(own, sig.args))(builder, args)

        def resolve(self, array):
            return types.BoundFunction(Bound, array) if is_dual_array(array) else None

        setattr(_DualArrayMethods, f"resolve_{name}", resolve)

    return register


def _absent(ty):
    return ty is None or isinstance(ty, (types.NoneType, types.Omitted))


@register_jitable
def primals(a):
    """The values of an array of numbers."""
    out = np.empty(a.shape)
    for i in np.ndindex(a.shape):
        out[i] = primal(a[i])
    return out


# ---- order: that of the values, among which Numba puts NaN last -----------------------------
def _place_of(function):
    """Let NumPy's `function`, the position of an extreme element, be that of the values."""

    @both(function, function.__name__)
    def typed(a, axis=None):
        if is_dual_array(a):
            return (lambda a, axis=None: function(primals(a))) if _absent(axis) else lambda a, axis=None: function(primals(a), axis)


_place_of(np.argmax)
_place_of(np.argmin)


_value = compiled_only("value")
overload(_value)(lambda x: (lambda x: primals(x)) if is_dual_array(x) else (lambda x: primal(x)) if isinstance(x, DualType) else lambda x: x)


def _of_values(function, parameters):
    """Let NumPy's `function` of these parameters be that of the values."""
    names = [parameter.partition("=")[0] for parameter in parameters.split(", ")]
    text = f"def known({parameters}):\n    return function({', '.join(f'value({name})' for name in names)})\n"
    known = defined(text, "known", {"function": function, "value": _value})
    text = f"def typed({parameters}):\n    return known if any(map(contains_dual, ({', '.join(names)},))) else None\n"
    overload(function, target="cpu")(defined(text, "typed", {"known": known, "contains_dual": contains_dual}))


for _function, _parameters in {
    np.isnan: "x", np.isinf: "x", np.isfinite: "x", np.signbit: "x", np.nanargmax: "a", np.nanargmin: "a", np.digitize: "x, bins, right=False",
    np.isclose: "a, b, rtol=1e-05, atol=1e-08, equal_nan=False",
}.items():  # fmt: skip
    _of_values(_function, _parameters)


@both(np.argsort, "argsort")
def _argsort(a, kind="quicksort"):
    if is_dual_array(a):
        chosen = getattr(kind, "literal_value", "quicksort")
        return lambda a, kind="quicksort": np.argsort(primals(a), kind=chosen)


@both(compiled_only("array.sort"), "sort")  # (`np.sort` calls it)
def _sort(a, kind="quicksort"):
    if is_dual_array(a):

        def sort(a, kind="quicksort"):
            for i in np.ndindex(a.shape[:-1]):
                line = a[i]
                line[:] = line[np.argsort(primals(line))]

        return sort


# ---- reductions ---------------------------------------------------------------------------
@both(np.sum, "sum")
def _sum(a, axis=None, dtype=None):
    if not is_dual_array(a) or not _absent(dtype):
        return None
    if _absent(axis):

        def everything(a, axis=None, dtype=None):
            total = 0.0
            for x in a.flat:
                total += x
            return total

        return everything
    if a.ndim == 2 and isinstance(types.unliteral(axis), types.Integer):

        def along(a, axis=None, dtype=None):
            if not -2 <= axis < 2:
                raise ValueError("axis out of bounds")
            lines = a.T if axis % 2 == 0 else a
            sums = np.empty(len(lines), a.dtype)
            for i in range(len(lines)):
                sums[i] = np.sum(lines[i])
            return sums

        return along


def _extremum(function, pair):
    """Let NumPy's `function` of an array of dual numbers, and the method, be the extreme element; equal ones share evenly."""
    of_items = register_jitable(extremum_of(pair))

    def extremum(a):
        extreme, total, count = of_items(a.flat), 0.0, 0
        value = primal(extreme)
        for x in a.flat:
            if x == extreme or x != x:
                total += x if math.isinf(value) else x - value  # (the value stays what it is)
                count += 1
        if count == 1:
            return extreme
        return total / count if math.isinf(value) else total / count + value

    both(function, function.__name__)(lambda a: extremum if is_dual_array(a) else None)


_extremum(np.max, np.maximum)
_extremum(np.min, np.minimum)
both(compiled_only("astype"), "astype")(lambda a, dtype: (lambda a, dtype: a.copy()) if is_dual_array(a) and holds_floats(dtype) else None)


overload(abs, target="cpu")(lambda a: (lambda a: np.abs(a)) if is_dual_array(a) else None)
overload(np.linalg.norm, target="cpu")(lambda x: (lambda x: math.sqrt(np.sum(x * x))) if is_dual_array(x) else None)


# ---- products ---------------------------------------------------------------------------
@register_jitable
def inner(a, b):
    """The sum of the products of two vectors."""
    if a.shape[0] != b.shape[0]:
        raise ValueError("incompatible array sizes for a @ b")
    total = 0.0
    for i in range(a.shape[0]):
        total += a[i] * b[i]
    return total


@register_jitable
def times_vector(token, a, b):
    """The product of a matrix and a vector."""
    out = np.empty(a.shape[0], token)
    for i in range(a.shape[0]):
        out[i] = inner(a[i], b)
    return out


@register_jitable
def times_matrix(token, a, b):
    """The product of two matrices."""
    out = np.empty((a.shape[0], b.shape[1]), token)
    for j in range(b.shape[1]):
        out[:, j] = times_vector(token, a, b[:, j])
    return out


def _product(a, b):
    dual = dual_of_arrays(a, b)
    if dual is None:
        return None
    token = Token(dual.lanes)
    return {
        (1, 1): lambda a, b: inner(a, b), (2, 1): lambda a, b: times_vector(token, a, b),
        (1, 2): lambda a, b: times_vector(token, b.T, a), (2, 2): lambda a, b: times_matrix(token, a, b),
    }.get((a.ndim, b.ndim))  # fmt: skip


both(np.dot, "dot")(_product)
overload(operator.matmul, target="cpu")(_product)


@overload(np.outer, target="cpu")
def _outer(a, b):
    if is_dual_array(a) or is_dual_array(b):
        return lambda a, b: np.expand_dims(np.ravel(a), 1) * np.expand_dims(np.ravel(b), 0)


# ---- element by element -----------------------------------------------------------------
def _in_place(function, ufunc):
    """Let ``a += b`` and its like change an array of dual numbers."""

    def by_array(a, b):
        # Made before anything is stored, as operands may overlap.  Loops compile faster than `a[...] = `.
        made = ufunc(a, b)
        if made.shape != a.shape:
            raise ValueError("the operand of an in-place operation has another shape")
        for i in np.ndindex(a.shape):
            a[i] = made[i]
        return a

    def by_number(a, b):
        for i in np.ndindex(a.shape):
            a[i] = ufunc(a[i], b)
        return a

    @overload(function, target="cpu")
    def update(a, b):
        if is_dual_array(a) and common_dual(a.dtype, element(b)) is not None:
            return by_array if isinstance(b, types.Array) else by_number


for _function, _operator in IN_PLACE.items():
    _in_place(_function, BY_NAME[OPERATORS[_operator]].numpy[0])


#: `np.where`, but of numbers a number: Numba's gives an array without dimensions.
where = compiled_only("where")


@overload(where)
def _where(condition, x, y):
    if any(isinstance(ty, types.Array) for ty in (condition, x, y)):
        return lambda condition, x, y: np.where(condition, x, y)
    return lambda condition, x, y: x if condition else y


@overload(np.clip, target="cpu")
def _clip(a, a_min, a_max):
    present = [element(ty) for ty in (a, a_min, a_max) if not _absent(ty)]
    if common_dual(*present) is None or len(present) < 2:
        return None
    if _absent(a_min):
        return lambda a, a_min, a_max: np.clip(a, -np.inf, a_max)
    if _absent(a_max):
        return lambda a, a_min, a_max: np.clip(a, a_min, np.inf)
    return of_dual_arrays(np.clip, a=a, a_min=a_min, a_max=a_max)


overload(np.where, target="cpu")(lambda condition, x, y: of_dual_arrays(where, condition=condition, x=x, y=y))
