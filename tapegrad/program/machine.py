"""Functions that are machine code already (Numba's, or C's by `ctypes`), called from machine code in the form of a ufunc's loop over one element.

Numba compiles the loop, which reads operands where they are, calls, and says beside the result whether there is one
(as `interpreter.calls` does): there is none if the function has raised.
"""

from ..common.exact import Identity, exact
from ..common.uninterrupted import imported

_LOOP = """
def loop(args, dims, steps, data):
    done = carray(args[{count} + 1], (1,), np.float64)
    done[0] = 0.0
    try:
        out = carray(args[{count}], ({size},), np.{dtype})
        {lines}
        done[0] = 1.0
    except Exception:
        pass
"""
#: Loops by the function that they call, their text, and the values of what that names.
_LOOPS: dict = {}


def is_machine_code(function):
    """Whether this is a dispatcher or a callback of Numba's, or a function of `ctypes` that says what it takes."""
    return hasattr(function, "py_func") or hasattr(function, "native_name") or getattr(function, "argtypes", None) is not None


def _copied(target, source, shape):
    """Lines that copy an array, element by element: of arrays Numba would compile much more."""
    counters = [f"i{d}" for d in range(len(shape))]
    flat = "0"
    for counter, extent in zip(counters, shape):
        flat = f"({flat} * {extent} + {counter})"
    lines = ["    " * d + f"for {counter} in range({extent}):" for d, (counter, extent) in enumerate(zip(counters, shape))]
    return [*lines, "    " * len(shape) + f"{target} = {source}".format(flat=flat, at=", ".join(counters))]


class MachineCall:
    """A call as a loop: `name`, `address` and `data` as of `calls.Called`.

    The loop is compiled once; `loop` is None if Numba cannot.

    Parameters
    ----------
    function : callable
    name : str
    metas : sequence of Meta
        Of the operands, which `call`, the text of the arguments, names ``{0}``, ``{1}`` ...
    parts : list of (str, Meta)
        What is made of what the function returns, ``r``: they stand one after the other in the result, of this `dtype`.
    scope : dict
        What else `call` names.
    """

    def __init__(self, function, name, metas, call, parts, dtype, scope):
        numba, np = imported("numba"), imported("numpy")
        types, self.name, stores, size = numba.types, name, [], 0
        for k, (text, meta) in enumerate(parts):
            if meta.shape:
                stores += [f"p{k} = {text}", f"if p{k}.shape != {meta.shape}:", "    raise ValueError"]
                stores += _copied(f"out[{size} + {{flat}}]", f"p{k}[{{at}}]", meta.shape)
            else:
                stores.append(f"out[{size}] = {text}")
            size += meta.size
        loads = []
        for k, meta in enumerate(metas):
            loads.append(f"a{k} = carray(args[{k}], ({meta.size},), np.{meta.dtype})")
            if meta.shape:
                # The function may write to what it is given.
                loads.append(f"x{k} = np.empty({meta.shape}, np.{meta.dtype})")
                loads += _copied(f"x{k}[{{at}}]", f"a{k}[{{flat}}]", meta.shape)
            else:
                loads.append(f"x{k} = a{k}[0]")
        lines = [*loads, f"r = f({call.format(*(f'x{k}' for k in range(len(metas))))})", *stores]
        text = _LOOP.format(count=len(metas), size=size, dtype=dtype, lines="\n        ".join(lines))
        key = Identity(function), text, *((name, exact(value)) for name, value in scope.items())
        if key not in _LOOPS:
            scope = {"f": function, "np": np, "carray": numba.carray, **scope}
            exec(text, scope)
            try:
                _LOOPS[key] = numba.cfunc(types.void(types.CPointer(types.voidptr), *[types.intp] * 3))(scope["loop"])
            except numba.NumbaError:
                _LOOPS[key] = None
        self.loop = _LOOPS[key]

    def address(self):
        return self.loop.address

    def data(self):
        return 0
