"""From a function of dual numbers to derivatives: the code around it, per types of arguments.

A `Request` says what is wanted of which function.  It is a constant of the public
function's code; `run(request, arguments)` is typed by compiling the user's function for
dual arguments and writing the loop over chunks of directions around it.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numba.core import types
from numba.core.datamodel import models, register_default
from numba.core.imputils import lower_constant
from numba.core.typing.typeof import typeof_impl
from numba.extending import overload, register_jitable

from ..common.errors import UnsupportedInNumbaError
from .builtins import as_dual, component, primal, seeded, with_tangent
from .compile import dual_dispatcher, fingerprint, result_type
from .types import DualType, Token, contains_dual, is_dual_array, is_real

#: Lanes used where the number of directions is not known when types are.
DEFAULT_LANES = 8


_NUMBERS = itertools.count()


@dataclass(frozen=True, eq=False)
class Request:
    """What is wanted: `kind` is one of value_and_grad, grad, jvp, derivative, jacobian."""

    function: object
    kind: str
    argnums: tuple
    single: bool
    lanes: int | None

    @property
    def name(self):
        return getattr(self.function, "__name__", "f")

    @cached_property
    def identity(self):
        """A text that no other request has: a number in this process, a digest of the function across processes."""
        function = getattr(self.function, "py_func", self.function)
        return f"{next(_NUMBERS)}_{fingerprint(function)}"


class RequestType(types.Opaque):
    """Numba type of one request."""

    def __init__(self, request):
        self.request = request
        super().__init__(f"request_{request.kind}_{request.name}_{request.identity}")


register_default(RequestType)(models.OpaqueModel)


@typeof_impl.register(Request)
def _typeof_request(request, context):
    return RequestType(request)


@lower_constant(RequestType)
def _constant_request(context, builder, ty, request):
    return context.get_dummy_value()


# ---- pieces of the loops ----------------------------------------------------------------
@register_jitable
def fill_seeded(token, duals, values, lane):
    """Dual numbers of an array, seeded from `lane` on."""
    flat = duals.reshape(-1)
    k = 0
    for value in values.flat:
        flat[k] = seeded(token, float(value), lane + k)
        k += 1


@register_jitable
def fill_tangent(token, duals, values, tangents):
    """Dual numbers of an array with an array of tangents."""
    if values.shape != tangents.shape:
        raise ValueError("a tangent must have the shape of its argument")
    for i in np.ndindex(values.shape):
        duals[i] = with_tangent(token, float(values[i]), float(tangents[i]))


@register_jitable
def collect(gradient, result, lane, lanes):
    """Take the components from `lane` on out of a dual number into an array of any shape."""
    flat = gradient.reshape(-1)
    for k in range(max(0, -lane), min(flat.size, lanes - lane)):
        flat[k] = component(result, lane + k)


@register_jitable
def collect_rows(jacobian, result, column, lanes):
    """Take all components of an array of dual numbers into columns of a matrix."""
    for i in range(result.shape[0]):
        for k in range(min(lanes, jacobian.shape[1] - column)):
            jacobian[i, column + k] = component(result[i], k)


def value_of(x):
    """Values of a result, without tangents."""
    raise NotImplementedError


def tangent_of(x):
    """Tangents (lane 0) of a result; zeros for what does not depend on the arguments."""
    raise NotImplementedError


def _opened(stub, scalar, real):
    @overload(stub)
    def typed(x):
        if isinstance(x, DualType):
            return lambda x: scalar(x)
        if isinstance(x, types.Array):

            def array(x):
                out = np.empty(x.shape)
                for i in np.ndindex(x.shape):
                    out[i] = stub(x[i])
                return out

            return array
        if isinstance(x, types.BaseTuple):
            items = ", ".join(f"stub(x[{k}])" for k in range(len(x))) + ","
            return _made(f"def typed(x):\n    return ({items})\n", {"stub": stub}, "typed")
        if is_real(x):
            return lambda x: real(x)


def _made(text, names, name):
    namespace = {"__name__": __name__, **names}  # Numba's cache imports the module of a function
    exec(text, namespace)
    return namespace[name]


_opened(value_of, register_jitable(lambda x: primal(x)), register_jitable(lambda x: primal(x)))
_opened(tangent_of, register_jitable(lambda x: component(x, 0)), register_jitable(lambda x: 0.0))


# ---- the loops --------------------------------------------------------------------------
def run(request, arguments):
    """What `request` wants, at these arguments (in nopython code only)."""
    raise NotImplementedError


@overload(run)
def _run(request, arguments):
    wanted = request.request
    argument_types = [types.unliteral(ty) for ty in arguments]
    if any(map(contains_dual, argument_types)):
        raise UnsupportedInNumbaError(
            f"the derivative of {wanted.name} is differentiated again: nopython code has first derivatives only. "
            "Take the outer derivative outside of Numba, on the Python function."
        )
    _check_arguments(wanted, argument_types)
    lanes = wanted.lanes or _lanes(wanted, argument_types)
    dual = DualType(lanes)
    dispatcher = dual_dispatcher(wanted.function, lanes, True)
    tys = [_dual_of(ty, dual) if k in wanted.argnums else ty for k, ty in enumerate(_primals(wanted, argument_types))]
    result = result_type(dispatcher, tys, wanted.function)
    _check_derivative(wanted, result)
    writer = {"jvp": _pushforward, "derivative": _pushforward, "jacobian": _jacobian}.get(wanted.kind, _gradient)
    text = writer(wanted, _primals(wanted, argument_types), result, lanes)
    return _made(text, {**_NAMES, "f": dispatcher, "token": Token(lanes), "LANES": lanes}, "driver")


_NAMES = {
    "np": np, "seeded": seeded, "with_tangent": with_tangent, "as_dual": as_dual, "primal": primal,
    "component": component, "fill_seeded": fill_seeded, "fill_tangent": fill_tangent, "collect": collect,
    "collect_rows": collect_rows, "value_of": value_of, "tangent_of": tangent_of,
}  # fmt: skip


def _primals(request, argument_types):
    return argument_types[: len(argument_types) - len(request.argnums)] if request.kind == "jvp" else argument_types


def _dual_of(ty, dual):
    return types.Array(dual, ty.ndim, "C") if isinstance(ty, types.Array) else dual


def _lanes(request, argument_types):
    if request.kind in ("jvp", "derivative"):
        return 1
    if any(isinstance(argument_types[k], types.Array) for k in request.argnums):
        return DEFAULT_LANES
    count = len(request.argnums)
    return min(DEFAULT_LANES, 1 << (count - 1).bit_length())


def _check_arguments(request, argument_types):
    for k in request.argnums:
        ty = argument_types[k]
        scalar = isinstance(ty, (types.Float, types.Integer))
        if request.kind == "derivative" and not scalar:
            _refuse(request, f"argument {k} is {ty}", "njit_derivative takes the derivative by a number; "
                    "use njit_grad or njit_jacobian")
        if not scalar and not (isinstance(ty, types.Array) and ty.dtype == types.float64):
            _refuse(request, f"argument {k} is {ty}", "differentiated arguments are numbers and float64 arrays; "
                    "choose others with argnums, or convert it")
        if request.kind == "jacobian" and not (isinstance(ty, types.Array) and ty.ndim == 1):
            _refuse(request, f"argument {k} is {ty}", "njit_jacobian takes a 1-d array")
    if request.kind == "jvp":
        for k, ty in zip(request.argnums, argument_types[len(argument_types) - len(request.argnums):]):
            dims = [getattr(t, "ndim", 0) for t in (argument_types[k], ty)]
            if dims[0] != dims[1] or not is_real(getattr(ty, "dtype", ty)):
                _refuse(request, f"the tangent of argument {k} is {ty}", f"give it the type of the argument, {argument_types[k]}")


def _check_derivative(request, result):
    """Refuse truth values and integers, as everywhere else (`dtypes.check_derivative`)."""
    for ty in list(result) if isinstance(result, types.BaseTuple) else [result]:
        inner = ty.dtype if isinstance(ty, types.Array) else ty
        if isinstance(inner, (types.Boolean, types.Integer)) and not isinstance(ty, types.IntegerLiteral):
            _refuse(
                request, f"it returns {ty}, which has no derivative",
                "return a float, or convert a constant with float(...) or .astype(float)",
            )  # fmt: skip


def _refuse(request, what, advice):
    raise UnsupportedInNumbaError(f"njit_{request.kind} of {request.name}: {what}; {advice}.")


def _call(request, argument_types):
    return "f(" + ", ".join(f"d{k}" if k in request.argnums else f"arguments[{k}]" for k in range(len(argument_types))) + ")"


def _gradient(request, argument_types, result, lanes):
    """Text of the driver for (value and) gradient."""
    if not isinstance(result, DualType) and not is_real(result):
        _refuse(request, f"it returns {result}", "a gradient is of one number; return r[0] of an array of one element, use "
                "njit_jacobian for a 1-d array, njit_jvp for anything else")
    start, chunk, take = ["n = 0"], [], []
    for k in request.argnums:
        start += [f"a{k} = arguments[{k}]", f"o{k} = n"]
        if isinstance(argument_types[k], types.Array):
            start += [f"n += a{k}.size", f"g{k} = np.zeros(a{k}.shape)", f"d{k} = np.empty(a{k}.shape, token)"]
            chunk += [f"fill_seeded(token, d{k}, a{k}, o{k} - c)"]
            take += [f"collect(g{k}, r, o{k} - c, LANES)"]
        else:
            start += ["n += 1", f"g{k} = 0.0"]
            chunk += [f"d{k} = seeded(token, float(a{k}), o{k} - c)"]
            take += [f"if 0 <= o{k} - c < LANES:", f"    g{k} = component(r, o{k} - c)"]
    gradients = ", ".join(f"g{k}" for k in request.argnums)
    gradients = gradients if request.single else f"({gradients},)"
    once = lanes >= len(request.argnums) and not any(isinstance(argument_types[k], types.Array) for k in request.argnums)
    body = [*chunk, f"r = as_dual(token, {_call(request, argument_types)})", *take]
    lines = [*start, "c = 0"]
    if once:
        lines += body
    else:
        lines += ["while True:", *["    " + line for line in body], "    c += LANES", "    if c >= n:", "        break"]
    lines += [f"return primal(r), {gradients}" if request.kind == "value_and_grad" else f"return {gradients}"]
    return _function(lines)


def _pushforward(request, argument_types, result, lanes):
    """Text of the driver for one direction."""
    lines = []
    for position, k in enumerate(request.argnums):
        tangent = "1.0" if request.kind == "derivative" else f"arguments[{len(argument_types) + position}]"
        if isinstance(argument_types[k], types.Array):
            lines += [f"d{k} = np.empty(arguments[{k}].shape, token)",
                      f"fill_tangent(token, d{k}, arguments[{k}], {tangent})"]
        else:
            lines += [f"d{k} = with_tangent(token, float(arguments[{k}]), float({tangent}))"]
    lines += [f"r = {_call(request, argument_types)}"]
    lines += ["return tangent_of(r)" if request.kind == "derivative" else "return value_of(r), tangent_of(r)"]
    _check_openable(request, result)
    return _function(lines)


def _check_openable(request, result):
    items = list(result) if isinstance(result, types.BaseTuple) else [result]
    for ty in items:
        inner = ty.dtype if isinstance(ty, types.Array) else ty
        if not isinstance(inner, DualType) and not is_real(inner):
            _refuse(request, f"it returns {result}", "return a number, an array or a tuple of them")


def _jacobian(request, argument_types, result, lanes):
    """Text of the driver for a Jacobian of a 1-d array by a 1-d array."""
    if not isinstance(result, types.Array) or result.ndim != 1:
        _refuse(request, f"it returns {result}", "njit_jacobian is for functions that return a 1-d array")
    k = request.argnums[0]
    take = ["collect_rows(j, r, c, LANES)"] if is_dual_array(result) else []
    lines = [
        f"a{k} = arguments[{k}]", f"n = a{k}.size", f"d{k} = np.empty(n, token)", "j = np.zeros((0, n))", "c = 0",
        "while True:", f"    fill_seeded(token, d{k}, a{k}, -c)", f"    r = {_call(request, argument_types)}",
        "    if c == 0:", "        j = np.zeros((r.shape[0], n))", *["    " + line for line in take],
        "    c += LANES", "    if c >= n:", "        break", "return j",
    ]  # fmt: skip
    return _function(lines)


def _function(lines):
    return "def driver(request, arguments):\n" + "".join(f"    {line}\n" for line in lines)
