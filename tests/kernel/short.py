"""The compiled way into a kernel (`kernel.entry.walk`) by itself: one float as value, and gradients."""

from __future__ import annotations

import numpy as np

from tapegrad.kernel.entry import walk as W
from tapegrad.program.walk import ARRAY, FLOAT, SAME

_DOUBLE = np.dtype("d")
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
    watched : list of int
        Address and content of words that have to be as they were.
    """

    __slots__ = ("held", "way", "pointer", "shapes", "one", "numbers")

    def __init__(self, kernel, args, shapes, watched=()):
        self.shapes = [() if s is None else s for s in shapes]
        self.one = self.shapes[0] if len(shapes) == 1 and shapes[0] is not None else None
        self.numbers = [s is None for s in shapes]
        spec, self.held, inputs = [], [], 0
        for thing in args:
            if type(thing) is float:
                spec += [FLOAT, id(float)]
            elif type(thing) is np.ndarray and thing.dtype is _DOUBLE:
                spec += [ARRAY, id(np.ndarray), id(_DOUBLE), thing.ndim, *thing.shape]
            else:
                spec += [SAME, id(thing)]
                self.held.append(thing)
                continue
            inputs += 1
        self.way = W.Way(kernel, inputs, 1 + len(shapes), [len(args), *spec], watched)
        self.pointer = self.way.pointer

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
