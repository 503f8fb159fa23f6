"""Compiled functions that index arrays given by their callers.

What `compile.compiled` makes takes numbers only.  Here each array argument becomes its
address and its extents, from which the compiled function makes an array again; it needs
nothing of Numba's runtime, so such functions load without Numba, too.  They may index
their arrays, and make none.
"""

import re
from functools import cache

import numpy as np

from ..common.errors import InternalError
from .compile import Deferred, compiled, helper, inside
from .memory import of_types
from .python_api import data_address

#: Numba's name of an element -> NumPy's dtype.
_DTYPES = {name: np.dtype(name if name != "boolean" else "?") for name in ("int64", "int32", "int8", "float64", "boolean")}


@cache
def _array(element, dimensions):
    """A function of compiled code: the C-contiguous array at an address."""

    def codegen(context, builder, signature, args):
        cgutils = inside().cgutils
        array = inside().make_array(signature.return_type)(context, builder)
        item = context.get_abi_sizeof(context.get_data_type(signature.return_type.dtype))
        strides, step = [], context.get_constant(signature.args[0], item)
        for extent in reversed(args[1:]):
            strides.insert(0, step)
            step = builder.mul(step, extent)
        inside().populate_array(
            array, data=builder.inttoptr(args[0], array.data.type), shape=cgutils.pack_array(builder, args[1:]),
            strides=cgutils.pack_array(builder, strides), itemsize=item, meminfo=None,
        )  # fmt: skip
        return array._getvalue()

    return of_types(codegen, f"{element}[{', '.join([':'] * (dimensions - 1) + ['::1'])}]", *["int64"] * (1 + dimensions))


def _parts(signature):
    """``"int64(int64, int32[::1], float64[:, ::1])"`` as the result and (element, dimensions) of each argument."""
    result, _, rest = signature.partition("(")
    return result, [(element, axes.count(",") + 1 if axes else 0) for element, axes in re.findall(r"(\w+)(\[[^]]*\])?", rest)]


class _OnArrays(Deferred):
    """A function made by `compiled_on_arrays`: for calls from Python, and from compiled functions."""

    def __init__(self, function, run, layouts):
        super().__init__(function, lambda function: helper(function).real)
        self._run, self._layouts = run, layouts
        self.__name__, self.__doc__ = function.__name__, function.__doc__

    def __call__(self, *args):
        flat = []
        for a, layout in zip(args, self._layouts, strict=True):
            if layout is None:
                flat.append(a)
            else:
                if a.dtype != layout[0] or a.ndim != layout[1] or not a.flags.c_contiguous:
                    raise InternalError(f"{self.__name__} was called with an array of {a.dtype} of shape {a.shape}")
                flat.append(data_address(a))
                flat += a.shape
        return self._run(*flat)


def compiled_on_arrays(signature):
    """Decorator: `compile.compiled` for functions of numbers and C-contiguous arrays.

    Parameters
    ----------
    signature : str
        A Numba signature of int64, float64 and C-contiguous arrays, e.g. ``"int64(int64, int32[:, ::1])"``.
    """
    result, parts = _parts(signature)

    def decorate(function):
        names, arguments, kinds = [], [], []
        scope = {"function": helper(function)}
        for k, (element, dimensions) in enumerate(parts):
            names.append(f"a{k}")
            kinds.append(element if not dimensions else "int64")
            if not dimensions:
                arguments.append(f"a{k}")
                continue
            scope[f"array_{element}_{dimensions}"] = _array(element, dimensions)
            extents = [f"n{k}_{axis}" for axis in range(dimensions)]
            names += extents
            kinds += ["int64"] * dimensions
            arguments.append(f"array_{element}_{dimensions}(a{k}, {', '.join(extents)})")
        exec(f"def by_address({', '.join(names)}):\n    return function({', '.join(arguments)})\n", scope)
        by_address = scope["by_address"]
        by_address.__module__, by_address.__qualname__, by_address.__name__ = function.__module__, function.__qualname__, function.__name__
        run = compiled(f"{result}({', '.join(kinds)})")(by_address)
        layouts = [(_DTYPES[element], dimensions) if dimensions else None for element, dimensions in parts]

        return _OnArrays(function, run, layouts)

    return decorate


#: Bits from which on those of a `mix` are good: the place in a hash table is made of them.
HIGH = 20


@helper
def mix(a, b):
    """An int64 that depends on `a`, on `b`, and on which is which.

    A step of a linear congruential generator (D. Knuth's MMIX), whose high bits are mixed into the low ones.
    """
    a = (a ^ b) * 0x5851F42D4C957F2D + 0x14057B7EF767814F
    return a ^ (a >> 29)
