"""The dual number as a Numba type: a float64 and a vector of tangents.

In registers the tangents are one LLVM vector ``<n x double>``, so that one
instruction serves several directions; the number of lanes is a power of two.  In
memory, arguments and results they are ``[n x double]``, which needs no alignment
and keeps vectors out of calling conventions.

The type is no `numba.types.Number`: Numba would look for a NumPy dtype of it.  Real
numbers convert to it without loss (tangent zero); nothing converts back, so that no
tangent is lost silently.
"""

from llvmlite import ir
from numba import types
from numba.extending import lower_cast, models, register_model, typeof_impl

from ..codegen.numba_inside import Conversion, cgutils, lower_constant, numbers_beside_arrays
from ..common.errors import UnsupportedInNumbaError

F64, I32, I64 = ir.DoubleType(), ir.IntType(32), ir.IntType(64)


def is_real(ty):
    """Whether values of a Numba type can become dual numbers: integers, floats, booleans."""
    return isinstance(types.unliteral(ty), (types.Integer, types.Float, types.Boolean))


class DualType(types.Type):
    """Type of a dual number with `lanes` tangents."""

    #: (Numba fuses expressions of arrays only with numbers of its own.)
    is_internal = True

    def __init__(self, lanes):
        self.lanes = lanes
        super().__init__(f"dual{lanes}")

    def unify(self, typingctx, other):
        return self if other == self or is_real(other) else None

    def can_convert_from(self, typingctx, other):
        return Conversion.safe if is_real(other) else None

    def cast_python_value(self, value):
        return float(value)


numbers_beside_arrays(DualType)


class TangentType(types.Type):
    """Type of the tangents of a dual number."""

    def __init__(self, lanes):
        self.lanes = lanes
        super().__init__(f"tangents{lanes}")


@register_model(TangentType)
class _TangentModel(models.PrimitiveModel):
    def __init__(self, manager, ty):
        super().__init__(manager, ty, ir.VectorType(F64, ty.lanes))
        self._array = ir.ArrayType(F64, ty.lanes)

    def get_data_type(self):
        return self._array

    get_argument_type = get_return_type = get_data_type

    def as_data(self, builder, value):
        packed = ir.Constant(self._array, ir.Undefined)
        for k in range(self.fe_type.lanes):
            packed = builder.insert_value(packed, builder.extract_element(value, I32(k)), k)
        return packed

    def from_data(self, builder, value):
        vector = ir.Constant(self.be_type, ir.Undefined)
        for k in range(self.fe_type.lanes):
            vector = builder.insert_element(vector, builder.extract_value(value, k), I32(k))
        return vector

    as_argument = as_return = as_data
    from_argument = from_return = from_data

    def load_from_data_pointer(self, builder, ptr, align=None):
        return builder.load(builder.bitcast(ptr, self.be_type.as_pointer()), align=8)


@register_model(DualType)
class _DualModel(models.StructModel):
    def __init__(self, manager, ty):
        super().__init__(manager, ty, [("value", types.float64), ("tangent", TangentType(ty.lanes))])


def parts(context, builder, ty, dual):
    """Value and tangent (LLVM) of a dual number."""
    proxy = cgutils.create_struct_proxy(ty)(context, builder, value=dual)
    return proxy.value, proxy.tangent


def build(context, builder, ty, value, tangent=None):
    """A dual number of an LLVM value and tangent; without one the tangent is zero."""
    proxy = cgutils.create_struct_proxy(ty)(context, builder)
    proxy.value = value
    proxy.tangent = ir.Constant(ir.VectorType(F64, ty.lanes), [0.0] * ty.lanes) if tangent is None else tangent
    return proxy._getvalue()


def _real_to_dual(context, builder, fromty, toty, value):
    ty = types.unliteral(fromty)
    if isinstance(fromty, types.Literal):
        value = context.get_constant_generic(builder, ty, fromty.literal_value)
    return build(context, builder, toty, context.cast(builder, value, ty, types.float64))


for _ty in (types.Integer, types.Float, types.Boolean, types.IntegerLiteral, types.BooleanLiteral):
    lower_cast(_ty, DualType)(_real_to_dual)


@lower_constant(DualType)
def _constant_dual(context, builder, ty, number):
    # (Numba asks for constants without a builder, too.)
    return ir.Constant(context.get_value_type(ty), [F64(float(number)), ir.Constant(ir.VectorType(F64, ty.lanes), [0.0] * ty.lanes)])


class Token:
    """Python object for a dtype of dual numbers, e.g. in ``np.zeros(n, token)`` in nopython code."""

    def __init__(self, lanes):
        self.dual = DualType(lanes)


@typeof_impl.register(Token)
def _typeof_token(token, context):
    return types.DType(token.dual)


@lower_constant(types.DType)
def _constant_token(context, builder, ty, token):
    return context.get_dummy_value()


def compiled_only(name):
    """A function for `numba.extending.overload`: the overload defines it by types, and only compiled code can call it."""

    def stands_for_code(*args):
        raise UnsupportedInNumbaError(f"{name} has a meaning in compiled code only: call it from a function under @njit.")

    stands_for_code.__name__ = stands_for_code.__qualname__ = name
    return stands_for_code


def defined(text, name, scope):
    """The function that a text defines in a scope; in one of our modules, as Numba's cache imports that of a function."""
    scope = {"__name__": __name__, **scope}
    exec(text, scope)
    return scope[name]


def element(ty):
    """Element type of an array; a scalar's own type."""
    return ty.dtype if isinstance(ty, types.Array) else ty


def is_dual_array(ty):
    """Whether a Numba type is an array of dual numbers."""
    return isinstance(ty, types.Array) and isinstance(ty.dtype, DualType)


def common_dual(*tys):
    """The dual type of an operation on scalars of these types; None if neither operand is dual."""
    duals = {ty for ty in tys if isinstance(ty, DualType)}
    if len(duals) != 1 or not all(isinstance(ty, DualType) or is_real(ty) for ty in tys):
        return None
    return duals.pop()


def dual_of_arrays(*tys):
    """The same of arrays; None if one is none."""
    return common_dual(*map(element, tys)) if all(isinstance(ty, types.Array) for ty in tys) else None


def dual_of(ty, lanes):
    """The type of dual numbers, or of a new array of them, that a number or an array becomes."""
    return types.Array(DualType(lanes), ty.ndim, "C") if isinstance(ty, types.Array) else DualType(lanes)


def with_leaves(ty, text, exchange, names):
    """(text, type) of an argument that is exchanged, or, of a tuple, whose parts are; ``exchange(type, text)`` is the pair of one.

    The classes of named tuples get into `names`.
    """
    if not isinstance(ty, types.BaseTuple):
        return exchange(ty, text)
    items, made, maker = [with_leaves(item, f"{text}[{k}]", exchange, names) for k, item in enumerate(ty)], None, ""
    if isinstance(ty, types.BaseNamedTuple):
        made, maker = ty.instance_class, f"Tuple{len(names)}"
        names[maker] = made
    return f"{maker}({''.join(f'{item}, ' for item, _ in items)})", types.BaseTuple.from_types([item for _, item in items], made)


def arrays_in(ty, place=""):
    """Pairs (place, type) of the arrays of an argument: in tuples the place is an index, as text."""
    if isinstance(ty, types.Array):
        return [(place, ty)]
    items = enumerate(ty) if isinstance(ty, types.BaseTuple) else ()
    return [pair for k, item in items for pair in arrays_in(item, f"{place}[{k}]")]


def copied(ty, text):
    """The pair of a copy of an array, and of anything else as it is, for `with_leaves`."""
    if not isinstance(ty, types.Array):
        return text, ty
    return f"{text}.copy()", ty.copy(layout="C" if ty.layout == "A" else ty.layout, readonly=False)


def primal_type(ty):
    """A type with float64 in place of dual numbers."""
    if isinstance(ty, DualType):
        return types.float64
    if isinstance(ty, types.UniTuple):  # (the seeds of a loop on threads)
        return types.UniTuple(primal_type(ty.dtype), ty.count)
    return types.Array(types.float64, ty.ndim, ty.layout) if is_dual_array(ty) else ty


def contains_dual(ty):
    """Whether values of a Numba type hold dual numbers."""
    if isinstance(ty, DualType):
        return True
    if isinstance(ty, types.BaseTuple):
        return any(contains_dual(item) for item in ty)
    inner = getattr(ty, "dtype", None)
    return isinstance(inner, types.Type) and inner is not ty and contains_dual(inner)
