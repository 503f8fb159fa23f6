"""Calls of Python functions of arrays from compiled code, in the form of a ufunc's loop over one element.

The function is given arrays on the memory of the operands, and of the result, and fills that.  Beside the result there is a number,
1 if it has, and 0 if it has not or has raised: then a kernel does not answer.  An interruption is raised where Python goes on.
"""

from __future__ import annotations

import ctypes

import numpy as np

from ..codegen.compile import compiled, plain_address
from ..codegen.memory import c_function, call4_int, int_at, load_int, store_int

_CALLED = ctypes.CFUNCTYPE(ctypes.c_ssize_t, *[ctypes.c_ssize_t] * 4)

ensure_interpreter = c_function("PyGILState_Ensure", "int32")
release_interpreter = c_function("PyGILState_Release", "void", "int32")
thread_ident = c_function("PyThread_get_thread_ident", "int64")
raise_in = c_function("PyThreadState_SetAsyncExc", "int32", "int64", "int64")


@compiled("void(int64, int64, int64, int64)")
def loop(args, dims, steps, data):
    """Call the function whose address is at `data`; if that was interrupted, so is this thread when it is back in Python.

    Behind the address stands which of `args` is the number that says whether there is a result: there is none before the call, in which
    an interruption may come before anything else.
    """
    store_int(int_at(args, int_at(data, 1)), 0)
    exception = call4_int(load_int(data), args, dims, steps, data)
    if exception != 0:
        state = ensure_interpreter()
        raise_in(thread_ident(), exception)
        release_interpreter(state)


class Called:
    """A function as a loop over C-contiguous operands, its result, and the number that says whether there is one.

    Parameters
    ----------
    function : callable
        ``function(*operands, result)`` returns whether it has filled the result.
    name : str
    operands : sequence of (shape, char)
    out : (shape, char)
    """

    def __init__(self, function, name, operands, out):
        self.function, self.name = function, name
        self._arrays = [(shape, np.dtype(char), ctypes.c_char * (int(np.prod(shape)) * np.dtype(char).itemsize)) for shape, char in (*operands, out, ((), "d"))]
        self._called = _CALLED(self._call)
        self._block = np.array([ctypes.cast(self._called, ctypes.c_void_p).value, len(operands) + 1], np.int64)
        self._exception = None

    def address(self):
        """The address of the loop."""
        return plain_address(loop)

    def data(self):
        """The address of what the loop is told."""
        return self._block.ctypes.data

    def _call(self, args, *_):
        try:
            places = (ctypes.c_ssize_t * len(self._arrays)).from_address(args)
            *arrays, done = (
                np.frombuffer(room.from_address(place), dtype).reshape(shape) if room._length_ else np.empty(shape, dtype)
                for place, (shape, dtype, room) in zip(places, self._arrays)
            )
            done[...] = self.function(*arrays)
        except BaseException as error:
            if not isinstance(error, Exception):
                # An interruption, not of this function: it is raised again where Python goes on.
                self._exception = type(error)
                return id(self._exception)
        return 0
