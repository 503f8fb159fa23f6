"""Functions of ``@numba.vectorize`` inside of others: the user's function of numbers, or loops over it where operands are arrays."""

import functools
import weakref

import numba
import numpy as np
from numba import types

from ..codegen.numba_inside import DUFunc, meaning, of_numbers, overload_now
from ..common.errors import UnsupportedInNumbaError
from .types import Token, common_dual, compiled_only, defined, element, primal_type

_NUMBERS, _FITTED = weakref.WeakKeyDictionary(), weakref.WeakKeyDictionary()


def is_vectorized(function):
    return isinstance(function, DUFunc)


def numbers(function):
    """The user's function of numbers, which divides as NumPy does."""
    if function not in _NUMBERS:
        source = of_numbers(function)
        _NUMBERS[function] = dispatcher = numba.njit(**{"error_model": "numpy", **meaning(function)})(source)
        dispatcher.of_user = dispatcher
    return _NUMBERS[function]


def _text(dims, n):
    """Loops over the elements of `out`; an axis of length one is repeated."""
    names = [f"a{k}" for k in range(len(dims))]

    def item(name, ndim):
        if ndim is None:
            return name
        axes = [f"i{n - ndim + j}" if dims.count(None) == len(dims) - 1 else f"min(i{n - ndim + j}, {name}.shape[{j}] - 1)" for j in range(ndim)]
        return f"{name}[{', '.join(axes) or '()'}]"

    lines = [f"def loops({', '.join(['out', *names])}):"]
    lines += ["    " * (j + 1) + f"for i{j} in range(out.shape[{j}]):" for j in range(n)]
    lines.append("    " * (n + 1) + f"out[{', '.join(f'i{j}' for j in range(n))}] = f({', '.join(map(item, names, dims))})")
    return "\n".join([*lines, "    return 0"])


@functools.lru_cache(maxsize=256)
def loops(dispatcher, dims):
    """A function ``(out, operands...)`` that fills `out`, which is new; `dims` are the dimensions of each operand, None for a number."""
    scope = {"f": dispatcher, "__name__": getattr(dispatcher, "py_func", loops).__module__}
    made = numba.njit(error_model="numpy")(defined(_text(dims, max(n for n in dims if n is not None)), "loops", scope))
    made.of_user, made.flows = made, (tuple(range(1, len(dims) + 1)), (0,))
    return made


def by_loops(function, operands, dtype):
    """A function that applies one of numbers to operands of these types: to numbers, or element by element into a new array."""
    dims, given = tuple(ty.ndim if isinstance(ty, types.Array) else None for ty in operands.values()), ", ".join(operands)
    scope = {"f": function, "np": np, "dtype": dtype}
    if all(n is None for n in dims):
        lines = [f"return f({given})"]
    else:
        shapes, scope["loops"] = ", ".join(f"{name}.shape" for name, n in zip(operands, dims) if n is not None), loops(function, dims)
        lines = [f"out = np.empty(np.broadcast_shapes({shapes}), dtype)", f"loops(out, {given})", "return out"]
    return defined("\n    ".join([f"def applied({given}):", *lines]), "applied", scope)


def fitted(function, lanes, variant):
    """The replacement of a vectorized function where operands may be dual numbers; `variant` is for the function of numbers."""
    made = _FITTED.setdefault(function, {})
    if lanes not in made:
        dispatcher = numbers(function)
        helper, names = variant(dispatcher, True), [f"a{k}" for k in range(function.nin)]
        made[lanes] = stub = compiled_only(dispatcher.py_func.__name__)
        given = ", ".join(names)

        def typed(*operands):
            why = converted(function, [primal_type(ty) for ty in operands])
            if why:
                raise UnsupportedInNumbaError(why)
            return by_loops(helper, dict(zip(names, operands)), Token(lanes))

        overload_now(stub, defined(f"def by_types({given}):\n    return typed({given})", "by_types", {"typed": typed}))
    return made[lanes]


def of_dual_arrays(function, **operands):
    """The same for a function of numbers of NumPy, if an operand is an array and one is dual; or None."""
    dual = common_dual(*map(element, operands.values())) if any(isinstance(ty, types.Array) for ty in operands.values()) else None
    return None if dual is None else by_loops(function, operands, Token(dual.lanes))


def converted(function, operands):
    """Why the function of numbers cannot take the place of a vectorized one, or None: it would see operands that NumPy converts before the call."""
    chars = "".join(np.dtype(str(types.unliteral(element(ty)))).char for ty in operands)
    inputs = [signature.split("->")[0] for signature in function.types]
    taken = next((each for each in inputs if all(np.can_cast(one, other) for one, other in zip(chars, each))), chars)
    if taken == chars:
        return None
    names = [", ".join(np.dtype(char).name for char in each) for each in (chars, taken)]
    return f"the loop of {of_numbers(function).__name__} for {names[1]} converts what it is given, {names[0]}; convert that before the call"
