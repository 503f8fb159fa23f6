"""What compiled walks share: the operands of a record, calls of loops, calls of Python.

`call_loop` is the step `interpreter.program.CALL`: it calls a loop in the form of a ufunc's over the dimensions around it. `loop`
has that form, too, over one element, and calls a Python function of arrays.  The function is given arrays on the memory of the
operands, and of the result, and fills that.  Beside the result there is a number, 1 if it has, and 0 if it has not or has
raised: then a kernel does not answer.  An interruption is raised where Python goes on.
"""

import ctypes

import numpy as np

from ..codegen.compile import compiled, helper, plain_address
from ..codegen.memory import call4, int_at, load_int, load_int32, store_int
from ..codegen.python_api import (
    as_int,
    call_with,
    drop,
    ensure_interpreter,
    forget,
    new_int,
    raise_later,
    raised,
    release_interpreter,
    ten_words,
)
from ..common.uninterrupted import from_handler
from ..tape.layout import RECORD

SIZE = RECORD.size


@helper
def operand_slot(records, i, k):
    """Slot of operand `k` of instruction `i`; those after the second are in continuations before it."""
    if k < 2:
        return load_int32(records + SIZE * i + 4 + 4 * k)
    k -= 2
    base = records + SIZE * (i - 1 - k // 4)
    k %= 4
    if k < 2:
        return load_int32(base + 4 + 4 * k)
    return load_int(base + 16 + 8 * (k - 2))


@helper
def call_loop(regs, p, scratch):
    """Call the loop whose words are at `p`."""
    loop, data, nargs = load_int(p), load_int(p + 8), load_int(p + 16)
    args = p + 24
    ndims = load_int(args + 16 * nargs)
    dims = args + 16 * nargs + 8
    nsteps = load_int(dims + 8 * ndims)
    steps = dims + 8 * ndims + 8
    batch = steps + 8 * nsteps
    nbatch = load_int(batch)
    batch += 8
    counts = scratch + 8 * nargs
    # A loop may advance the pointers it is given: it gets a copy.
    passed = counts + 512
    for k in range(nargs):
        store_int(scratch + 8 * k, load_int(regs + 8 * load_int(args + 16 * k)) + load_int(args + 16 * k + 8))
    for d in range(nbatch):
        store_int(counts + 8 * d, 0)
    while True:
        for k in range(nargs):
            store_int(passed + 8 * k, load_int(scratch + 8 * k))
        call4(loop, passed, dims, steps, data)
        d = nbatch - 1
        while d >= 0:
            row = batch + 8 * d * (nargs + 1)
            n = load_int(row)
            count = load_int(counts + 8 * d) + 1
            for k in range(nargs):
                store_int(scratch + 8 * k, load_int(scratch + 8 * k) + load_int(row + 8 + 8 * k))
            store_int(counts + 8 * d, count)
            if count < n:
                break
            store_int(counts + 8 * d, 0)
            for k in range(nargs):
                store_int(scratch + 8 * k, load_int(scratch + 8 * k) - n * load_int(row + 8 + 8 * k))
            d -= 1
        if d < 0:
            return


@compiled("void(int64, int64, int64, int64)")
def loop(args, dims, steps, data):
    """Call the function of Python whose address is at `data`; if that was interrupted, so is this thread when it is back in Python.

    Behind the address stands which of `args` is the number that says whether there is a result: there is none before the call, in which
    an interruption may come before anything else.
    """
    store_int(int_at(args, int_at(data, 1)), 0)
    state, given = ensure_interpreter(), ten_words()
    address = new_int(args)
    store_int(given, address)
    answer = call_with(load_int(data), given, 1, 0) if address != 0 else 0
    exception = as_int(answer) if answer != 0 else raised()
    if exception != 0:
        raise_later(exception)
    forget()
    for thing in (address, answer):
        drop(thing)
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
        self.arrays = [(shape, np.dtype(char), ctypes.c_char * (int(np.prod(shape)) * np.dtype(char).itemsize)) for shape, char in (*operands, out, ((), "d"))]
        self._called = self._call
        self._block = np.array([id(self._called), len(operands) + 1], np.int64)
        self._exception = None
        # Addresses, and the arrays there at the last call: to make them takes longer than a small function.
        self._places, self._last = ctypes.c_ssize_t * len(self.arrays), ([], [])

    def address(self):
        """The address of the loop."""
        return plain_address(loop)

    def data(self):
        """The address of what the loop is told."""
        return self._block.ctypes.data

    def _call(self, args):
        try:
            places = self._places.from_address(args)[:]
            if places != self._last[0]:
                self._last = places, [np.ndarray(shape, dtype, room.from_address(p)) for p, (shape, dtype, room) in zip(places, self.arrays)]
            *arrays, done = self._last[1]
            done[...], self._exception = self.function(*arrays), None
        except BaseException as error:
            if not isinstance(error, Exception) or from_handler(error):
                # An interruption, not of this function: it is raised again where Python goes on, by a class, as CPython wants it.
                self._exception = type(type(error).__name__, (type(error),), {"__new__": lambda *_, error=error: error})
                return id(self._exception)
        return 0
