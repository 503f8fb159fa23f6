"""The entry from nopython code: value and gradient at a vector, by an executable.

What nopython code needs to know of a function is one array of words, its *handle*: users' compiled code has its address
(`transforms.replay.entry`), and so has the loop of optimisers (`optimize.run`).  They read the address of the code
that does the work from its first word, and call that, `entry` here.

The inputs of the executable are parts of the vector `x`, each a number of bytes into it, and after these what is fixed; or,
if each call gives *more* than `x`, what it gives: then `x` is the address of their addresses.  The outputs are the
value, and the gradient by each part.

A kernel may have an entry of its own (`kernel.emit`), which needs no memory but the stack; where it does not answer it
goes on to `entry`, at the handle's word H_SWEEP.
"""

import numpy as np

from ..codegen.compile import compiled, plain_address
from ..codegen.memory import allocate, call_entry, int_at, release, set_double_at, set_int_at
from ..interpreter.native import data_address
from .executable import run
from .ports import FINE

# Words of a handle, addresses unless said otherwise.
#
# H_ENTRY, H_VERSION         the code that calls use, as C calls it; what that and users' code expect of each other
# H_AXES, H_SHAPE            of `x`: how many, and their extents
# H_MORE, H_DATA             how many arguments each call gives after `x`; for each the number of its axes, then its extents (`NUMBER`: a float)
# H_FAILED                   what `entry` returned at the last failure
# H_SWEEP                    `entry`, for a kernel's own entry
# H_EXECUTABLE, H_SECOND     words of the executable; of the one that answers where that does not, or 0
# H_PARTS, H_OFFSETS         how many parts `x` has, and where they begin
# H_FIXED, H_ADDRESSES       how many inputs are fixed, and where they are
(
    H_ENTRY, H_VERSION, H_AXES, H_SHAPE, H_MORE, H_DATA, H_FAILED, H_SWEEP, H_EXECUTABLE, H_SECOND, H_PARTS, H_OFFSETS, H_FIXED,
    H_ADDRESSES,
) = range(14)  # fmt: skip
HANDLE = 14
#: What the code in users' functions expects of handles and `entry`.
VERSION = 5
#: In the place of the number of axes of a further argument: it is a float.
NUMBER = -1
#: What `entry` returns, beside ``1 + guard``.
DONE = 0


@compiled("int64(int64, int64, int64, int64)")
def entry(handle, x, g, value):
    """Value and gradient at `x`, written to `value` and `g` (addresses).

    Returns `DONE`, or 1 + the number of the guard that saw something else; less than 0: an error inside.
    """
    more, parts, fixed = int_at(handle, H_MORE), int_at(handle, H_PARTS), int_at(handle, H_FIXED)
    offsets, addresses = int_at(handle, H_OFFSETS), int_at(handle, H_ADDRESSES)
    outputs = allocate(8 * (1 + 2 * parts + fixed))
    inputs = outputs + 8 * (1 + parts)
    set_int_at(outputs, 0, value)
    for k in range(parts):
        offset = int_at(offsets, k)
        set_int_at(inputs, k, x + offset)
        set_int_at(outputs, k + 1, g + offset)
    for k in range(fixed):
        set_int_at(inputs, parts + k, int_at(addresses, k))
    place = inputs if more == 0 else x
    status = run(int_at(handle, H_EXECUTABLE), place, outputs)
    second = int_at(handle, H_SECOND)
    if status != FINE and second != 0:
        # A gradient that is not finite, or a guard: the sweep is right.
        status = run(second, place, outputs)
    release(outputs)
    if status == FINE:
        return DONE
    if status < 0:
        return status
    set_int_at(handle, H_FAILED, 1 + status)
    return 1 + status


@compiled("int64(int64, int64, int64, int64)")
def evaluate(handle, x, g, value):
    """What nopython code does with a handle, for calls from Python, by addresses."""
    status, number = call_entry(int_at(handle, H_ENTRY), handle, x, g)
    set_double_at(value, 0, number)
    return status


class Handle:
    """The words for compiled callers of an executable with a value and gradients.

    Parameters
    ----------
    executable : Executable
        That compiled code can call.
    offsets : sequence of int
        Where in the vector its first inputs begin, in bytes.
    fixed : list of ndarray
        Its further inputs, unless calls give them.
    shape : tuple of int
        Of `x`.
    data : sequence of (tuple or None)
        Shapes of what each call gives besides; None: a float.

    Attributes
    ----------
    pointer : int
    words : ndarray
    """

    def __init__(self, executable, offsets=(0,), fixed=(), shape=(), data=()):
        described = [w for one in data for w in ([NUMBER] if one is None else [len(one), *one])]
        self._held = [np.array(part, np.int64) for part in (shape, described, offsets, [data_address(a) for a in fixed])]
        self._fixed, self._executables = list(fixed), [executable]
        words = self.words = np.zeros(HANDLE, np.int64)
        words[H_ENTRY] = words[H_SWEEP] = plain_address(entry)
        words[H_VERSION], words[H_AXES], words[H_MORE] = VERSION, len(shape), len(data)
        words[H_PARTS], words[H_FIXED] = len(offsets), len(fixed)
        words[H_SHAPE], words[H_DATA], words[H_OFFSETS], words[H_ADDRESSES] = map(data_address, self._held)
        words[H_EXECUTABLE] = executable.pointer
        self.pointer = data_address(words)

    def prefer(self, executable):
        """Call another one from now on, and where that does not answer what was called before."""
        self._executables.append(executable)
        self.words[H_SECOND] = self.words[H_EXECUTABLE]
        self.words[H_EXECUTABLE] = executable.pointer
