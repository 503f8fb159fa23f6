"""The way back over a tape, laid out as words: from seeds of its results to gradients of its arguments (`walk.backward`)."""

import threading

import numpy as np

from ..interpreter import native
from ..interpreter import program as P
from ..tape.layout import SCALAR
from . import walk as W
from .ports import count_of

#: Slots that the sweeps of one compiled call pass at most, if there are several: between calls Python may be interrupted.
MOST_SLOTS = 1 << 24


class Backward(native.Sweep):
    """A sweep from seeds to gradients.

    Parameters
    ----------
    count : int
        How many slots there are.
    marks : ndarray
        A byte for each that is visited, and a few more.
    high, low : int
        The first and the last of these.
    inputs : list of Port
    others : sequence of int
        Leaves that are arrays and no inputs: what arrives there goes nowhere.

    Attributes
    ----------
    gradients : list of ndarray
        Of the inputs: each sweep writes them.
    """

    def __init__(self, count, marks, high, low, inputs, others=()):
        super().__init__(count, marks, W.PARAMETERS)
        address, p = native.data_address, self.parameters
        self.gradients, self._lock = [np.zeros(port.shape, port.char) for port in inputs], threading.Lock()
        whole, single = [(0, 0, slot) for slot in others], []
        for port, gradient in zip(inputs, self.gradients):
            whole.append((address(gradient), gradient.nbytes, 0 if port.meta is SCALAR else port.slot))
            single += [(address(gradient) + 8 * begin, slot) for begin, _, slot, meta in port.pieces if meta is SCALAR]
        self._leaves, self._delivered = [slot for _, _, slot in whole if slot], np.array(listed(whole) + listed(single), np.int64)
        p[W.P_GRADIENTS], p[W.P_HIGH], p[W.P_LOW] = address(self._delivered), high, low

    def rows(self, seeds, count):
        """For each input an array (count, its elements), for `count` lists of `seeds` (`seeds_of`), one after the other."""
        address, p = native.data_address, self.parameters
        matrices = [np.zeros((count, g.size), g.dtype) for g in self.gradients]
        copies = np.array(listed([(address(m), address(g), g.nbytes) for m, g in zip(matrices, self.gradients)]), np.int64)
        with self._lock:
            before, p[W.P_SEEDS], p[P.W_TABLE] = p[W.P_SEEDS], address(seeds), native.table_address()
            most = max(1, MOST_SLOTS // len(self.adjoint))
            for start in range(0, count, most):
                self.checked(W.rows(self.pointer, start, min(start + most, count), address(copies)))
            p[W.P_SEEDS] = before
        return matrices

    def checked(self, why):
        """Raise if compiled code has stopped at an instruction that it does not know, or that has failed: `why` it stopped."""
        if why in (W.UNKNOWN, W.FAILED):
            self.free_all()
            native.refuse_unknown(int(self.parameters[P.W_RECORDS]), P.UNKNOWN - int(self.parameters[W.P_STOPPED]))

    def free_all(self):
        """As of a `Sweep`, of which leaves may have no marks."""
        super().free_all()
        for slot in self._leaves:
            self.drop(slot)


def seeds_of(outputs, directions):
    """The words of seeds, for `directions` of the outputs, and the arrays to which they refer."""
    arrays = {}
    for port, seeds in zip(outputs, directions):
        if port.slot:
            # What is a result twice has the sum of both.
            seeds = np.array(seeds, port.char, order="C")
            arrays[port.slot] = port, (arrays[port.slot][1] + seeds if port.slot in arrays else seeds)
    parts = []
    for slot, (port, seeds) in arrays.items():
        nbytes = seeds.itemsize * port.size
        there = seeds.reshape(len(seeds), -1).any(axis=1).tolist()
        parts.append((slot, native.data_address(seeds), nbytes, 0 if port.meta is SCALAR else nbytes, there))
    words = []
    for k in range(count_of(outputs, directions)):
        words += listed([(slot, first + k * step, nbytes) for slot, first, step, nbytes, there in parts if there[k]])
    return np.array(words, np.int64), arrays


def seeds_of_units(outputs):
    """The same for the unit vectors of all outputs, and the arrays to which they refer."""
    words, ones = [np.zeros(0, np.int64)], []
    for port in outputs:
        # Every unit vector is a window of zeros around one 1.
        one = np.zeros(2 * port.size, port.char)
        one[port.size - 1 : port.size] = 1.0
        lists = np.zeros((port.size, 4 if port.slot else 1), np.int64)
        if port.slot:
            lists[:] = 1, port.slot, native.data_address(one), 0 if port.meta is SCALAR else one.nbytes // 2
            lists[:, 2] += np.arange(port.size)[::-1] * one.itemsize
        words.append(lists.reshape(-1))
        ones.append(one)
    return np.concatenate(words), ones


def listed(rows):
    """Rows of words, one after the other, behind their number."""
    return [len(rows), *(word for row in rows for word in row)]
