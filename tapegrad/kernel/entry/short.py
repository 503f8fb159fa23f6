"""The short way into a kernel, for calls with arguments of the same kinds, one float as value, and gradients."""

from __future__ import annotations

import numpy as np

from ...sweep.native import data_address
from . import walk as W

_DOUBLE = np.dtype("d")
_WORD = 8
_empty = np.empty


class Short:
    """Calls of `kernel` with tuples of objects like `args`.

    Parameters
    ----------
    kernel : Kernel
        Its inputs are the floats and float64 arrays among `args`, in order; its first output is the value, one float64.
    args : tuple
        Floats, C-contiguous float64 arrays, and objects that stay the same.
    shapes : sequence of (tuple or None)
        Shapes of the other outputs, all float64; None: a float.
    """

    __slots__ = ("kernel", "held", "parameters", "block", "pointer", "shapes", "one", "numbers")

    def __init__(self, kernel, args, shapes):
        self.kernel, self.shapes = kernel, [() if s is None else s for s in shapes]
        self.one = self.shapes[0] if len(shapes) == 1 and shapes[0] is not None else None
        self.numbers = [s is None for s in shapes]
        spec, self.held, inputs = [], [], 0
        for thing in args:
            if type(thing) is float:
                spec += [W.FLOAT, id(float)]
            elif type(thing) is np.ndarray and thing.dtype is _DOUBLE:
                spec += [W.ARRAY, id(np.ndarray), id(_DOUBLE), thing.ndim, *thing.shape]
            else:
                spec += [W.SAME, id(thing)]
                self.held.append(thing)
                continue
            inputs += 1
        outputs = 1 + len(shapes)
        nbytes = 64 + kernel.nbytes + _WORD * (inputs + outputs + 1)
        nbytes += -nbytes % _WORD
        self.block = np.zeros(nbytes + 64, np.uint8)
        at = data_address(self.block)
        words = [kernel.address, nbytes, at + -at % 64, 0, inputs, outputs, len(args), *spec]
        self.parameters = np.array(words, np.int64)
        self.pointer = data_address(self.parameters)

    def call(self, args):
        """``(value, gradients)``; one array, or a tuple if there is more than one output or it is a float.

        None if some argument is of another kind, a guard failed, or the value is NaN.
        """
        shape = self.one
        if shape is not None:
            found = _empty(shape)
            outs = (found,)
            value = W.enter_value(self.pointer, id(args), id(outs))
            return (value, found) if value == value else None
        outs = tuple([_empty(shape) for shape in self.shapes])
        value = W.enter_value(self.pointer, id(args), id(outs))
        if value != value:
            return None
        return value, tuple([out.item() if number else out for out, number in zip(outs, self.numbers)])
