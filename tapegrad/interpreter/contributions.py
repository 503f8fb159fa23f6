"""What a rule adds to part of its operand's adjoint: a window, or single positions.

A rule says `place` or `scatter`; whoever accumulates adjoints decides whether that becomes
zeros with the part in them, or an addition to what is known already.
"""

from __future__ import annotations

import math

from ..tape.meta import c_strides


class Windowed:
    """A contribution that is added into a window of its operand's adjoint."""

    def __init__(self, source, shape, strides, offset):
        self.source, self.shape, self.strides, self.offset = source, tuple(shape), tuple(strides), offset

    def joined(self, adjoint, source):
        """The `adjoint` (None: zero) with this contribution, whose array is by now `source`."""
        if adjoint is None:
            return source.placed(self.shape, self.strides, self.offset)
        return adjoint.add_window(source, self.strides, self.offset)


class Scattered:
    """A contribution that is added at positions of its operand's adjoint."""

    def __init__(self, source, index, shape):
        self.source, self.index, self.shape = source, index, tuple(shape)

    def joined(self, adjoint, source):
        """As `Windowed.joined`."""
        return source.scattered(self.index, self.shape) if adjoint is None else adjoint.add_at(source, self.index)


def once(x, strides):
    """`x` summed over the axes along which a window stays where it is, and the strides of the others."""
    repeated = [k for k, (n, s) in enumerate(zip(x.shape, strides)) if s == 0 and n != 1]
    if repeated and x.size:
        x, strides = x.reduce("add", repeated), [s for k, s in enumerate(strides) if k not in repeated]
    return x, tuple(strides)


def fills(x, shape, strides, offset):
    """Whether a window that `x` is written to is all of an array of `shape`, in order."""
    if offset or x.size != math.prod(shape):
        return False
    return all(s == c for n, s, c in zip(x.shape, strides, c_strides(x.shape, 1)) if n != 1)
