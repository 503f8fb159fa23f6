"""A replay as a `Recording`: what has been replayed is swept with many seeds, up or down.

A workspace has the records, saved values and marks that the sweeps of
`tapegrad.autograd.recording` walk over; an argument may be on the tape as a whole, or
element by element, or both.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from ..array.record import normalise
from ..autograd.recording import Port, Sweeps
from ..tape.layout import ARRAY_LEAF, ARRAY_RECORD, RECORD, SCALAR_LEAF, TRACED
from ..tape.meta import SCALAR
from . import walk as W

#: Elements that arguments or results have at least for the Jacobian to be worth compressing.
ENOUGH = 16


class _Store:
    """What the sweeps read of a store."""

    def __init__(self, workspace):
        self._records, self.address = workspace.records, workspace.address
        self._saved, self.special = workspace.saved, workspace.tape.special

    def flush(self):
        """Address of the records."""
        return self.address

    def records(self):
        """The records, as `tape.store.Store` gives them."""
        return self._records

    def saved(self, low, high):
        """As of `tape.store.Store`: all of it lies where it lay when the workspace was made."""
        return self._saved

    def read(self, slot, layout=ARRAY_RECORD):
        """The fields of one record."""
        return layout.unpack_from(self._records, RECORD.size * slot)


class ReplayedRecording(Sweeps):
    """The replay that a workspace holds.

    Parameters
    ----------
    workspace : Workspace

    Attributes
    ----------
    As of `Recording`; the inputs are the leaves of the wanted arguments, in order.
    """

    def __init__(self, workspace):
        tape = workspace.tape
        ops = workspace.records["op"]
        # Scalar instructions hand adjoints to all their operands; at these they stop, as at leaves.
        for item in tape.items:
            if not tape.active[item.slot] and tape.metas[item.slot] is SCALAR and ops[item.slot] == TRACED:
                ops[item.slot] = SCALAR_LEAF
        self.store = _Store(workspace)
        self.structure = tape.structure
        self.inputs, self.outputs = inputs_of(tape), outputs_of(tape)
        p = workspace.parameters
        self.marks, self.low = workspace.marks, int(p[W.P_LOW])
        self.high = max([1, int(p[W.P_HIGH]), *self._ports().tolist()])
        stops = np.flatnonzero((ops == SCALAR_LEAF) | (ops == ARRAY_LEAF))
        self._stops = stops[stops <= self.high].astype(np.int64)
        self.prediction = None
        self.tape = tape
        #: What has been asked: whether forward, the directions (None: all unit vectors), how many, and the answer.
        self.asked = []

    @classmethod
    def of(cls, workspace):
        """The recording of a workspace, made once."""
        if workspace.recording is None:
            workspace.recording = cls(workspace)
        return workspace.recording

    def compressed(self):
        """Compressions of its Jacobian by columns and by rows, or None."""
        return self._compressed

    @cached_property
    def _compressed(self):
        enough = min(sum(p.size for p in ports) for ports in (self.inputs, self.outputs)) >= ENOUGH
        return self.tape.compressions.worth if enough else None

    def columns(self):
        """As of `Recording`."""
        tangents = super().columns()
        self.asked.append((True, None, sum(p.size for p in self.inputs), tangents))
        return tangents

    def rows(self):
        """As of `Recording`."""
        adjoints = super().rows()
        self.asked.append((False, None, sum(p.size for p in self.outputs), adjoints))
        return adjoints

    def many(self, forward, directions):
        """As of `Recording`."""
        results = super().many(forward, directions)
        self.asked.append((forward, directions, len(directions), results))
        return results

    def _leaves(self):
        return self._stops


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
