"""What answers a call: machine code that reads inputs and writes outputs, by addresses.

All executables have one signature, that of C's ``int64 code(int64 *inputs, int64 *outputs, char *block)``: the tables hold
the addresses of the data of the inputs, and of where outputs go (values, then gradients); the block is memory that
nothing else uses meanwhile; what is returned is a status (`program.ports`).  A kernel is that by itself
(`kernel.kernel`), a replay is it by `program.replayed`, whose blocks are workspaces.

`run` calls one from compiled code: with a block out of those that it keeps, so that any number of threads may call.
A caller with objects of Python, an array of a user's nopython code or an optimiser's vector writes two tables and calls it.
"""

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from ..codegen.compile import compiled, inlined
from ..codegen.memory import allocate, atomic_release, atomic_swap, call3_int, int_at, release, yield_processor
from ..interpreter.native import data_address
from .ports import FINE, OTHER

#: Words of an executable: address of its code; bytes of a block, 0 if it has to be one of those kept (which are waited for
#: then); how many are kept; the address of the first one's words.
X_CODE, X_NBYTES, X_COUNT, X_BLOCKS = range(4)
#: Words of a kept block: whether it is taken, its address.  They fill a line of the cache, so that threads do not disturb each other.
B_TAKEN, B_ADDRESS = range(2)
#: Bytes of a line of the cache.
LINE = 64


@inlined
def taken(executable):
    """The address of a block that nothing else uses until it is given back, and what is given back then (`give_back`)."""
    nbytes, count, first = int_at(executable, X_NBYTES), int_at(executable, X_COUNT), int_at(executable, X_BLOCKS)
    k, mine = 0, first
    while atomic_swap(mine + 8 * B_TAKEN, 1) != 0:
        k += 1
        mine += LINE
        if k == count:
            # (If there is no memory, one of those is waited for, too.)
            spare = allocate(nbytes + LINE) if nbytes != 0 else 0
            if spare != 0:
                # Memory is told from a block of the executable's by its sign.
                return (spare + LINE - 1) & -LINE, -spare
            k, mine = 0, first
            yield_processor()
    return int_at(mine, B_ADDRESS), mine


@inlined
def give_back(mine):
    """Give a block back."""
    if mine < 0:
        release(-mine)
    else:
        atomic_release(mine + 8 * B_TAKEN, 0)


@compiled("int64(int64, int64, int64)")
def run(executable, inputs, outputs):
    """Run an executable by its words, with tables of addresses; returns its status."""
    block, mine = taken(executable)
    status = call3_int(int_at(executable, X_CODE), inputs, outputs, block)
    give_back(mine)
    return status


class Executable:
    """Machine code with the memory it runs in; may be called by several threads at a time.

    Attributes
    ----------
    inputs, outputs : list of (tuple, str)
        Shape and dtype of each.
    pointer : int
        Address of its words (`X_*`), for compiled code; 0 if only Python can call it, by `run`.
    views : dict
        Outputs that have no elements, since they are parts of another one: ``k: (number, part, shape)`` is output `number`,
        ``[part].reshape(shape)``.
    """

    inputs: list
    outputs: list
    pointer = 0
    views: Mapping = MappingProxyType({})

    def _publish(self, code, blocks, nbytes=0):
        """Let compiled code call it: the address of the code, and addresses of blocks, which the caller keeps."""
        lines = np.zeros((len(blocks) + 1) * LINE // 8, np.int64)
        at = data_address(lines)
        at += -at % LINE
        for k, block in enumerate(blocks):
            lines[(at - data_address(lines)) // 8 + k * LINE // 8 + B_ADDRESS] = block
        self._words = lines, np.array([code, nbytes, len(blocks), at], np.int64)
        self.pointer = data_address(self._words[1])

    def run(self, inputs, outputs):
        """Compute at `inputs`, into `outputs`: C-contiguous arrays as described; returns the status."""
        if not all(a.flags.aligned for a in inputs):
            return OTHER
        table = np.array([data_address(a) for a in (*inputs, *outputs)], np.int64)
        at = data_address(table)
        return run(self.pointer, at, at + 8 * len(inputs))

    def answer(self, inputs):
        """The status and, if all is fine, the outputs as a tuple of new arrays, else None."""
        outputs = [np.empty(shape, char) for shape, char in self.outputs]
        status = self.run(inputs, outputs)
        for k, (number, part, shape) in self.views.items():
            outputs[k] = outputs[number][part].reshape(shape)
        return status, (tuple(outputs) if status == FINE else None)


def described(output):
    """Shape and dtype of an output of a tape; what is neither computed nor a number has no elements."""
    slot, what = output
    if slot:
        return what.shape, what.char
    array = np.asarray(getattr(what, "_v", what))
    return (array.shape, array.dtype.char) if array.dtype.kind in "biuf" else ((0,), "d")
