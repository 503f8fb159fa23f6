"""Inputs and outputs of a tape, and what a sweep is seeded with.

An argument may be on a tape as a whole, or element by element, or both: a `Port` says by which slots.  A *direction* of some
ports is what goes to these: slots and values of numbers, and pairs of a slot and an array.
"""

from __future__ import annotations

import numpy as np

from ..array.record import normalise
from ..tape.meta import SCALAR, meta_of


class Port:
    """An input or output.

    Parameters
    ----------
    value : float or ndarray
    slot : int
        0: it is not on the tape as a whole.
    interior : bool
        Whether it is a computed result.
    elements : sequence of (int, int)
        Flat position and slot of each element that the tape reads by itself.
    """

    def __init__(self, value, slot, interior=False, elements=()):
        self.value, self.slot, self.interior = value, slot, interior
        self.meta = SCALAR if type(value) is float else meta_of(value)
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


def prepared(ports, seeds):
    """One direction, from one seed per port: slots and values of the numbers that are not zero, and (slot, array) pairs."""
    by_slot = {}
    for p, seed in zip(ports, seeds):
        numbers = np.ravel(seed).tolist() if p.elements else [seed]
        for begin, _, slot, meta in p.pieces:
            part = float(numbers[begin]) if meta is SCALAR else seed
            by_slot[slot] = part if slot not in by_slot else by_slot[slot] + part
    numbers = [(slot, seed) for slot, seed in by_slot.items() if type(seed) is float and seed]
    arrays = [(slot, seed) for slot, seed in by_slot.items() if type(seed) is not float and seed.any()]
    return np.array([s for s, _ in numbers], np.int64), np.array([v for _, v in numbers]), arrays


def units(ports, start, stop, lanes):
    """For each port an array (lanes, *its shape): the unit vectors `start` to `stop` of all of them as one vector."""
    units, begin = [], 0
    for p in ports:
        seeds = np.zeros((lanes, p.size), p.char)
        first, last = max(start, begin), min(stop, begin + p.size)
        if first < last:
            at = np.arange(first, last)
            seeds[at - start, at - begin] = 1.0
        units.append(seeds.reshape(lanes, *p.shape))
        begin += p.size
    return units


def inputs_of(tape):
    """The arguments of a tape that are differentiated, as ports, in order."""
    elements = {}
    for k, position, slot in tape.elements:
        elements.setdefault(k, []).append((position, slot))
    return [
        Port(_like(meta), tape.leaves[k], elements=elements.get(k, ()))
        for k, meta in enumerate(tape.inputs)
        if tape.wanted[k]
    ]


def outputs_of(tape):
    """The results of a tape, as ports."""
    ports = []
    for slot, description in tape.outputs:
        value = _like(description) if slot else _constant(description)
        ports.append(Port(value, slot if slot and tape.active[slot] else 0))
    return ports


def _like(meta):
    """A value of this description, which nobody reads."""
    return 0.0 if meta is SCALAR else np.zeros(meta.shape, np.dtype(meta.char))


def _constant(value):
    array = np.asarray(getattr(value, "_v", value))
    return normalise(array) if array.dtype.kind in "biuf" else 0.0
