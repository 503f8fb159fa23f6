"""Plain data and the names of functions, as a saved tape writes them: nothing in a file is ever executed or imported.

Python data become JSON, with tuples, dicts, slices, arrays and operands marked;
functions are names from an allow-list (`NUMPY`, and tapegrad's own `host_function`s).
"""

import numpy as np

from ...common.errors import TapeFileError
from ...common.host_functions import FUNCTIONS, HostFunction
from ...program.trace import HostOperand, ResultOf
from .archive import CHARS
from .loaded import Checked

#: Containers of results.
KINDS = {kind.__name__: kind for kind in (dict, list, tuple, np.ndarray, complex)}
#: A function has fewer operands.
OPERANDS = 1 << 16
#: NumPy functions without derivative that a file may name: they need no more memory than their operands.
NUMPY = frozenset(
    "abs absolute add all allclose any argmax argmin argpartition argsort array_equal bitwise_and bitwise_or bitwise_xor clip "
    "ceil count_nonzero divmod equal fabs flatnonzero floor floor_divide fmax fmin frexp greater greater_equal "
    "heaviside invert isclose isfinite isinf isnan isneginf isposinf isreal iscomplex less less_equal logical_and "
    "logical_not logical_or logical_xor maximum minimum mod modf multiply nanargmax nanargmin negative not_equal "
    "rint searchsorted sign signbit spacing nextafter copysign subtract trunc".split()
)


def encoded(thing, arrays):
    """`thing` as JSON; arrays are appended to `arrays`."""
    kind = type(thing)
    if thing is None or kind in (bool, int, float, str):
        return thing
    if kind is HostOperand:
        return {"operand": int(thing)}
    if kind is tuple or kind is list:
        return {kind.__name__: [encoded(part, arrays) for part in thing]}
    if kind is dict and all(type(k) in (str, int) for k in thing):
        return {"dict": [[k, encoded(v, arrays)] for k, v in thing.items()]}
    if kind is slice:
        return {"slice": [encoded(part, arrays) for part in (thing.start, thing.stop, thing.step)]}
    if isinstance(thing, (np.ndarray, np.generic)) and thing.dtype.char in CHARS:
        arrays.append(np.asarray(thing))
        return {"array": len(arrays) - 1}
    raise TapeFileError(f"{kind.__name__} cannot be written to a file; numbers, strings, arrays, and lists, tuples and dicts of them can")


def decoded(thing, arrays, limit):
    """What `encoded` wrote; integers are at most `limit`.

    Raises
    ------
    TapeFileError
    """
    if type(thing) is int and abs(thing) > limit:
        raise TapeFileError(f"the number {thing}")
    if thing is None or type(thing) in (bool, int, float, str):
        return thing
    if type(thing) is dict and len(thing) == 1:
        ((word, parts),) = thing.items()
        if word == "array" and type(parts) is int and 0 <= parts < len(arrays):
            return arrays[parts]
        if word == "operand" and type(parts) is int and 0 <= parts < OPERANDS:
            return HostOperand(parts)
        if word in ("tuple", "list") and type(parts) is list:
            found = [decoded(part, arrays, limit) for part in parts]
            return tuple(found) if word == "tuple" else found
        if word == "slice" and type(parts) is list and len(parts) == 3:
            return slice(*(decoded(part, arrays, limit) for part in parts))
        if word == "dict" and type(parts) is list and all(
            type(p) is list and len(p) == 2 and type(p[0]) in (str, int) for p in parts
        ):
            return {k: decoded(v, arrays, limit) for k, v in parts}
    raise TapeFileError("data of an unknown kind")


def encoded_function(function, arrays):
    """The name of a function without derivative, with its data."""
    if isinstance(function, Checked):
        function = function.function
    if isinstance(function, ResultOf):
        return {"item": function.k, "of": encoded_function(function.function, arrays)}
    if isinstance(function, HostFunction):
        return {"tapegrad": function.name, "data": encoded(tuple(function.data), arrays)}
    name = getattr(function, "__name__", "")
    if name in NUMPY and getattr(np, name, None) is function:
        return {"numpy": name}
    raise TapeFileError(f"{getattr(function, '__name__', function)} is not a function that a saved tape can name")


def decoded_function(thing, arrays, limit):
    """The function of `encoded_function`; raises TapeFileError for any other."""
    if type(thing) is dict:
        if set(thing) == {"item", "of"} and type(thing["item"]) is int and 0 <= thing["item"] < 4:
            return ResultOf(decoded_function(thing["of"], arrays, limit), thing["item"])
        if set(thing) == {"tapegrad", "data"} and type(thing["tapegrad"]) is str and thing["tapegrad"] in FUNCTIONS:
            data = decoded(thing["data"], arrays, limit)
            if type(data) is tuple and all(_small(d, limit) for d in data):
                return HostFunction(thing["tapegrad"], data)
        if set(thing) == {"numpy"} and type(thing["numpy"]) is str and thing["numpy"] in NUMPY:
            return getattr(np, thing["numpy"])
    raise TapeFileError("a function that no tape may name")


def _small(data, limit):
    """Whether this cannot make a function ask for more than `limit` elements."""
    if type(data) is tuple:
        size = 1
        for part in data:
            size *= max(1, abs(part)) if type(part) is int else 1
        return size <= limit and all(_small(part, limit) for part in data)
    return True
