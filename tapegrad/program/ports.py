"""Inputs and outputs of a tape, what a sweep is seeded with, and what a call of an executable returns.

An argument may be on a tape as a whole, or element by element, or both: a `Port` says by which slots.  *Directions* of some
ports are a list with an array (directions, *shape) for each of them.
"""

import numpy as np

from ..array.record import normalise
from ..tape.layout import SCALAR, meta_of

#: What a call returns beside the number of a guard that failed (0 and up): all is well; a gradient is not finite; the arguments are of another kind; an
#: instruction that compiled code does not know.
FINE, NOT_FINITE, OTHER, BROKEN = -1, -2, -3, -4


class Port:
    """An input or output.

    Parameters
    ----------
    meta : Meta
        The description of its value.
    slot : int
        0: it is not on the tape as a whole.
    elements : sequence of (int, int)
        Flat position and slot of each element that the tape reads by itself.
    value : float or ndarray, optional
    """

    def __init__(self, meta, slot, elements=(), value=None):
        self.meta, self.slot, self.value = meta, slot, value
        self.shape, self.size = self.meta.shape, self.meta.size
        self.char = self.meta.char if self.meta.char in "df" else "d"
        self.elements = sorted(elements)
        #: What it is on the tape: (first element, size, slot, description).
        self.pieces = [(0, self.size, slot, self.meta)] if slot and self.size else []
        self.pieces += [(position, 1, element_slot, SCALAR) for position, element_slot in self.elements]


def pieces_of(ports):
    """The pieces of several ports, as if they were one vector, in its order."""
    pieces, at = [], 0
    for p in ports:
        pieces += [(at + begin, size, slot, meta) for begin, size, slot, meta in p.pieces]
        at += p.size
    return sorted(pieces, key=lambda piece: piece[0])


def count_of(ports, directions):
    """How many directions of `ports` there are; None stands for all unit vectors."""
    if directions is None:
        return sum(p.size for p in ports)
    return len(directions[0]) if directions else 1


def units(ports, start, stop, lanes):
    """For each port an array (lanes, *its shape): the unit vectors `start` to `stop` of all of them as one vector."""
    units, begin = [], 0
    for p in ports:
        seeds = np.eye(lanes, p.size, start - begin, p.char)
        seeds[stop - start :] = 0.0
        units.append(seeds.reshape(lanes, *p.shape))
        begin += p.size
    return units


def inputs_of(tape):
    """The arguments of a tape that are differentiated, as ports, in order."""
    elements = {}
    for k, position, slot in tape.elements:
        elements.setdefault(k, []).append((position, slot))
    return [Port(meta, tape.leaves[k], elements.get(k, ())) for k, meta in enumerate(tape.inputs) if tape.wanted[k]]


def outputs_of(tape):
    """The results of a tape, as ports."""
    ports = []
    for slot, description in tape.outputs:
        meta = description if slot else _constant(description)
        ports.append(Port(meta, slot if slot and tape.active[slot] else 0))
    return ports


def _constant(value):
    array = np.asarray(getattr(value, "_v", value))
    return meta_of(normalise(array)) if array.dtype.kind in "biuf" else SCALAR
