"""Directional derivatives by kernels: a Jacobian's columns or rows, several at a time.

A `KernelRecording` answers by kernels (`kernel.of_tape`) what `program.swept.ReplayedRecording`
answers by sweeps.
"""

from __future__ import annotations

import numpy as np

from ...program.status import FINE, OTHER

#: Directions that one call carries at most, and instructions of a kernel's tape from which on they are fewer.
MOST, LONG = 8, 1 << 19


def lanes_of(tape, count):
    """How many directions a kernel carries at once, out of `count`: as many in each of as few calls as may be."""
    most = max(1, min(MOST, LONG // len(tape.records)))
    return -(-count // -(-count // most)) if count else 1


class Stopped(Exception):
    """A kernel did not go through: `status` as of `Executable.answer`."""

    def __init__(self, status):
        super().__init__(f"status {status}")
        self.status = status


class KernelRecording:
    """What kernels answer at a point.

    Parameters
    ----------
    base : ReplayedRecording
        Which says what inputs and outputs there are.
    arguments : list of ndarray
        The point.
    kernels : Kernels, optional

    Attributes
    ----------
    asked : bool
        Whether a kernel has run.

    Raises
    ------
    Stopped
        From `columns`, `rows` and `many`: there is no kernel for so many directions, a guard saw
        something else, or a derivative is not finite.
    """

    primitive = ""

    def __init__(self, base, arguments, kernels=None):
        self.base, self.arguments, self.kernels = base, arguments, kernels
        self.inputs, self.outputs, self.structure = base.inputs, base.outputs, base.structure
        self.prediction, self.tape = base.prediction, base.tape
        self.asked = False

    def compressed(self):
        """Compressions of the Jacobian (`ReplayedRecording.compressed`)."""
        return self.base.compressed()

    def columns(self):
        """Forward mode: for each output an array (inputs, elements of the output)."""
        return self.many(True, None)

    def rows(self):
        """Reverse mode: for each input an array (outputs, elements of the input)."""
        return self.many(False, None)

    def many(self, forward, directions, kernel=None):
        """As `Recording.many`; without directions, for all unit vectors.  By `kernel`, or the one that there is."""
        sources, targets = (self.inputs, self.outputs) if forward else (self.outputs, self.inputs)
        count = sum(p.size for p in sources) if directions is None else len(directions)
        arrays = [np.zeros((count, p.size), p.char) for p in targets]
        if not count:
            return arrays
        kernel, lanes = self._kernel(forward, count) if kernel is None else (kernel, kernel.lanes)
        for start in range(0, count, lanes):
            stop = min(start + lanes, count)
            seeds = seeds_of(sources, directions, start, stop, lanes)
            # Results that do not depend on the inputs have no adjoints.
            parts = self._run(kernel, [s for p, s in zip(sources, seeds) if forward or p.slot], targets, lanes)
            for whole, part in zip(arrays, parts):
                whole[start:stop] = part.reshape(lanes, whole.shape[1])[: stop - start]
        return arrays

    def _kernel(self, forward, count):
        """What answers so many directions, and how many at once."""
        lanes = lanes_of(self.kernels.tape, count)
        kernel = self.kernels.get((forward, lanes))
        if kernel is None:
            raise Stopped(OTHER)
        return kernel, lanes

    def _run(self, kernel, seeds, targets, lanes):
        """The derivatives of `targets` along these seeds."""
        status, results = kernel.answer([*self.arguments, *seeds])
        if results is None:
            raise Stopped(status)
        self.asked = True
        return results

    def answer(self, kernel, forward, directions):
        """Status and results of a kernel, as `Executable.answer` gives them."""
        try:
            return FINE, self.many(forward, directions, kernel)
        except Stopped as stopped:
            return stopped.status, None


def seeds_of(ports, directions, start, stop, lanes):
    """Seeds for `ports`: directions `start` to `stop`, of all unit vectors if none are given."""
    return _units(ports, start, stop, lanes) if directions is None else _seeds(ports, directions[start:stop], lanes)


def _units(ports, start, stop, lanes):
    """Seeds for `ports`: the unit vectors `start` to `stop` of all of them as one vector."""
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


def _seeds(ports, directions, lanes):
    """Seeds for `ports` from directions by slot (`recording.prepared`)."""
    arrays_of_seeds = [np.zeros((lanes, p.size), p.char) for p in ports]
    for lane, (numbers, values, arrays) in enumerate(directions):
        by_slot = dict(zip(np.asarray(numbers).tolist(), np.asarray(values).tolist())) | dict(arrays)
        for p, seeds in zip(ports, arrays_of_seeds):
            # What is read as a whole and by elements has its seed in both places; what is a result twice, the sum of both.
            if p.slot:
                seeds[lane] = np.ravel(by_slot.pop(p.slot, 0.0))
            else:
                for position, slot in p.elements:
                    seeds[lane, position] = by_slot.get(slot, 0.0)
    return [seeds.reshape(lanes, *p.shape) for p, seeds in zip(ports, arrays_of_seeds)]
