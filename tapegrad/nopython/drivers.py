"""From a function of dual numbers to derivatives: the code around it, per types of arguments.

A `Request` says what is wanted of which function.  `driver_of` gives a function of a tuple of arguments, for compiled code:
where that is typed, the user's function is compiled for dual arguments, and the loop over chunks of directions is written
around it, from the pieces below, which mean the same for numbers and for arrays.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numba.core import types
from numba.extending import overload, register_jitable

from ..common.errors import UnsupportedInNumbaError
from .builtins import as_dual, component, primal, seeded
from .compile import dual_dispatcher, fingerprint, result_type
from .types import DualType, Token, compiled_only, contains_dual, element, is_real

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

    def refuse(self, what, advice):
        raise UnsupportedInNumbaError(f"njit_{self.kind} of {self.name}: {what}; {advice}.")


# ---- pieces of the loops ----------------------------------------------------------------
def _piece(name):
    """Decorator: what stands under `name` in the text of a driver, by the types of its arguments."""

    def register(typed):
        stub = compiled_only(name)
        overload(stub)(typed)
        return stub

    return register


@_piece("seeds")
def seeds(token, x, lane):
    """`x` as dual numbers, seeded from `lane` on."""
    if not isinstance(x, types.Array):
        return lambda token, x, lane: seeded(token, float(x), lane, 1.0)

    def array(token, x, lane):
        out = np.empty(x.size, token)
        for k, value in enumerate(x.flat):
            out[k] = seeded(token, float(value), lane + k, 1.0)
        return out.reshape(x.shape)

    return array


@_piece("along")
def along(token, x, tangent):
    """`x` as dual numbers with these tangents."""
    if not isinstance(x, types.Array):
        return lambda token, x, tangent: seeded(token, float(x), 0, float(tangent))

    def array(token, x, tangent):
        if x.shape != tangent.shape:
            raise ValueError("a tangent must have the shape of its argument")
        out = np.empty(x.shape, token)
        for i in np.ndindex(x.shape):
            out[i] = seeded(token, float(x[i]), 0, float(tangent[i]))
        return out

    return array


@_piece("zeros")
def zeros(x):
    """A gradient by `x`, to be filled."""
    return (lambda x: np.zeros(x.shape, x.dtype)) if isinstance(x, types.Array) else (lambda x: 0.0)


@_piece("collected")
def collected(gradient, result, lane, lanes):
    """`gradient` with the components of `result` from `lane` on; of a result that is an array, a row for each element."""
    if isinstance(result, types.Array):

        def rows(gradient, result, lane, lanes):
            if gradient.shape[0] != result.shape[0]:
                gradient = np.zeros((result.shape[0], gradient.shape[1]))
            for i in range(result.shape[0]):
                collected(gradient[i], result[i], lane, lanes)
            return gradient

        return rows
    if not isinstance(gradient, types.Array):
        return lambda gradient, result, lane, lanes: component(result, lane) if 0 <= lane < lanes else gradient

    def array(gradient, result, lane, lanes):
        flat = gradient.reshape(-1)
        for k in range(max(0, -lane), min(flat.size, lanes - lane)):
            flat[k] = component(result, lane + k)
        return gradient

    return array


def _opened(name, number):
    """A piece that reads every number of a result."""
    stub = compiled_only(name)

    @overload(stub)
    def typed(x):
        if isinstance(x, types.Array):

            def array(x):
                out = np.empty(x.shape)
                for i in np.ndindex(x.shape):
                    out[i] = number(x[i])
                return out

            return array
        if isinstance(x, types.BaseTuple):
            items = ", ".join(f"stub(x[{k}])" for k in range(len(x))) + ","
            return _made(f"def typed(x):\n    return ({items})\n", {"stub": stub}, "typed")
        return lambda x: number(x)

    return stub


def _made(text, names, name):
    namespace = {"__name__": __name__, **names}  # Numba's cache imports the module of a function
    exec(text, namespace)
    return namespace[name]


values = _opened("values", primal)
tangents = _opened("tangents", register_jitable(lambda x: component(x, 0)))


# ---- the loops --------------------------------------------------------------------------
def driver_of(request):
    """A function of the tuple of arguments, of compiled code, that gives what `request` wants."""
    driver = compiled_only(request.name)

    @overload(driver)
    def typed(arguments):
        argument_types = [types.unliteral(ty) for ty in arguments]
        if any(map(contains_dual, argument_types)):
            raise UnsupportedInNumbaError(
                f"the derivative of {request.name} is differentiated again: nopython code has first derivatives only. "
                "Take the outer derivative outside of Numba, on the Python function."
            )
        count = len(argument_types) - (len(request.argnums) if request.kind == "jvp" else 0)
        _check_arguments(request, argument_types, count)
        lanes = request.lanes or _lanes(request, argument_types)
        dispatcher = dual_dispatcher(request.function, lanes, True)
        dual = DualType(lanes)
        tys = [_dual_of(ty, dual) if k in request.argnums else ty for k, ty in enumerate(argument_types[:count])]
        _check_result(request, result_type(dispatcher, tys, request.function))
        name = f"driver_{request.identity}"
        names = {**_PIECES, "f": dispatcher, "token": Token(lanes), "LANES": lanes}
        return _made(_text(request, name, len(argument_types), count), names, name)

    return driver


_PIECES = {
    "np": np, "as_dual": as_dual, "primal": primal, "seeds": seeds, "along": along, "zeros": zeros, "collected": collected,
    "values": values, "tangents": tangents,
}  # fmt: skip


def _dual_of(ty, dual):
    return types.Array(dual, ty.ndim, "C") if isinstance(ty, types.Array) else dual


def _lanes(request, argument_types):
    if request.kind in ("jvp", "derivative"):
        return 1
    if any(isinstance(argument_types[k], types.Array) for k in request.argnums):
        return DEFAULT_LANES
    return min(DEFAULT_LANES, 1 << (len(request.argnums) - 1).bit_length())


def _check_arguments(request, argument_types, count):
    for position, k in enumerate(request.argnums):
        ty, tangent = argument_types[k], argument_types[count + position] if request.kind == "jvp" else None
        scalar = isinstance(ty, (types.Float, types.Integer))
        what = f"argument {k} is {ty}"
        if request.kind == "derivative" and not scalar:
            request.refuse(what, "njit_derivative takes the derivative by a number; use njit_grad or njit_jacobian")
        if not scalar and not (isinstance(ty, types.Array) and isinstance(ty.dtype, types.Float)):
            request.refuse(what, "differentiated arguments are numbers and float64 or float32 arrays; choose others with argnums, "
                           "or convert it")
        if request.kind == "jacobian" and (scalar or ty.ndim != 1):
            request.refuse(what, "njit_jacobian takes a 1-d array")
        if tangent and (getattr(tangent, "ndim", 0) != getattr(ty, "ndim", 0) or not is_real(element(tangent))):
            request.refuse(f"the tangent of argument {k} is {tangent}", f"give it the type of the argument, {ty}")


def _check_result(request, result):
    """Refuse truth values and integers, as everywhere else (`dtypes.check_derivative`), and what the request has no form for."""
    items = list(result) if isinstance(result, types.BaseTuple) else [result]
    for ty in items:
        if isinstance(element(ty), (types.Boolean, types.Integer)) and not isinstance(ty, types.IntegerLiteral):
            request.refuse(f"it returns {ty}, which has no derivative",
                           "return a float, or convert a constant with float(...) or .astype(float)")
    if request.kind in ("grad", "value_and_grad"):
        if not isinstance(result, DualType) and not is_real(result):
            request.refuse(f"it returns {result}", "a gradient is of one number; return r[0] of an array of one element, use "
                           "njit_jacobian for a 1-d array, njit_jvp for anything else")
    elif request.kind == "jacobian":
        if not isinstance(result, types.Array) or result.ndim != 1:
            request.refuse(f"it returns {result}", "njit_jacobian is for functions that return a 1-d array")
    elif not all(isinstance(element(ty), DualType) or is_real(element(ty)) for ty in items):
        request.refuse(f"it returns {result}", "return a number, an array or a tuple of them")


def _text(request, name, given, count):
    """The source of a driver: arguments `a`, of which those that are differentiated become dual numbers `d`."""
    chosen, kind = request.argnums, request.kind
    call = "f(" + ", ".join(f"d{k}" if k in chosen else f"a{k}" for k in range(count)) + ")"
    lines = [f"{''.join(f'a{k}, ' for k in range(given))}= arguments"]
    if kind in ("jvp", "derivative"):
        directions = ["1.0"] if kind == "derivative" else [f"a{k}" for k in range(count, given)]
        lines += [f"d{k} = along(token, a{k}, {tangent})" for k, tangent in zip(chosen, directions)]
        lines += [f"r = {call}", "return tangents(r)" if kind == "derivative" else "return values(r), tangents(r)"]
    else:
        lines += ["n = 0"]
        for k in chosen:
            blank = f"np.zeros((0, a{k}.size))" if kind == "jacobian" else f"zeros(a{k})"
            lines += [f"o{k} = n", f"n += np.size(a{k})", f"g{k} = {blank}"]
        lines += [
            "c = 0", "while True:", *[f"    d{k} = seeds(token, a{k}, o{k} - c)" for k in chosen],
            f"    r = {call}" if kind == "jacobian" else f"    r = as_dual(token, {call})",
            *[f"    g{k} = collected(g{k}, r, o{k} - c, LANES)" for k in chosen],
            "    c += LANES", "    if c >= n:", "        break",
        ]  # fmt: skip
        gradients = ", ".join(f"g{k}" for k in chosen)
        gradients = gradients if request.single else f"({gradients},)"
        lines += [f"return primal(r), {gradients}" if kind == "value_and_grad" else f"return {gradients}"]
    return f"def {name}(arguments):\n" + "".join(f"    {line}\n" for line in lines)
