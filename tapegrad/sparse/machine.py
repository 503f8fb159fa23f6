"""Compressed derivatives as machine code.

The tangents of a tape are a tape themselves (`kernel.tangents`), and so are its adjoints (`kernel.adjoint`), with a lane
for each colour; its kernel gives all entries in one call.  It is made when the sweeps of a tape
have worked long enough for it (`transforms.replay.function`), agrees with them at one point before it is
used, and leaves to them what it cannot answer: a guard that sees something else, an
entry that is not finite (where zero times infinity has to be zero).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..common.uninterrupted import uninterrupted
from ..tape.places import placed_name
from ..transforms.replay.function import Kernels
from ..transforms.replay.gathered import Filled


class _Lanes(Kernels):
    """When the tangents or adjoints of a tape for all colours become a kernel."""

    def __init__(self, tape, way, options, first):
        self._lanes, self._forward = way.count, way.forward
        super().__init__(tape, options, first)
        directions = way.lanes
        if not way.forward:
            # Where nothing is differentiated there is no adjoint either.
            directions = [seeds for seeds, (slot, _) in zip(way.lanes, tape.outputs) if slot and tape.active[slot]]
        self.directions = directions

    def _compiled(self, key, limit):
        with uninterrupted:
            # These import llvmlite, which a process without kernels does not load.
            from ..kernel.adjoint import adjoint
            from ..kernel.emit import Options
            from ..kernel.of_tape import TapeKernel
            from ..kernel.tangents import tangents

        made = tangents(self.tape, self._lanes) if self._forward else adjoint(self.tape, lanes=self._lanes)
        # The values themselves are not asked for.
        made = replace(made, outputs=made.outputs[len(self.tape.outputs) :])
        return TapeKernel(made, False, Options(fastmath=self.options.fastmath), limit, finite=True)


class ByColours:
    """What a replay is asked for: the entries of a derivative (`Replayed.call`).

    Parameters
    ----------
    choose : callable
        ``choose(compressions)`` gives the pattern as an array, a `Compressed`, and where the entries are in what comes back.
    unknown : callable
        ``unknown(recording)`` gives the answer where there is no tape.
    replayed : Replayed
    """

    def __init__(self, choose, unknown, replayed):
        self.choose, self.unknown, self.replayed = choose, unknown, replayed
        self.inputs, self.first = None, False

    def __call__(self, recording):
        """The answer by a sweep over what was replayed."""
        tape = getattr(recording, "_tape", None)
        if tape is None:
            return self.unknown(recording)
        template, way, positions = self.choose(tape.compressions)
        rows = recording.many(way.forward, way.seeds) if len(positions) else [np.zeros((0, 0))]
        if len(positions):
            promotion = self._promotion(tape, way)
            if promotion is not None and self.inputs is not None:
                inputs = [*self.inputs, *promotion.directions]
                if promotion.visited(False):
                    name = placed_name(self.replayed.function)
                    promotion.promote(False, lambda kernel: _run(kernel, inputs), _flat(rows), self.replayed.stats, name)
        return filled(template, _gathered(rows, positions))

    def by_kernel(self, kept, inputs):
        """The answer of a kernel, or None."""
        self.inputs, self.first = inputs, kept.kernels.first
        promotions = kept.tape.compressions.__dict__.get("promotions")
        if not promotions:
            return None
        template, way, positions = self.choose(kept.tape.compressions)
        promotion = promotions.get(way)
        kernel = promotion.get(False) if promotion is not None else None
        if kernel is None:
            return None
        _, matrices = _run(kernel, [*inputs, *promotion.directions])
        if matrices is None:
            return None
        return filled(template, _gathered(matrices, positions))

    def kernel_of(self, tape, forward, count):
        """The kernel for all colours of a tape, and how many these are (for `transforms.replay.gathered`); or None."""
        way = self.choose(tape.compressions)[1]
        promotion = tape.compressions.promotions.get(way)
        kernel = promotion.get(False) if promotion is not None and (way.forward, way.count) == (forward, count) else None
        return None if kernel is None else (kernel, count)

    def _promotion(self, tape, way):
        promotions = tape.compressions.promotions
        if way not in promotions:
            options = self.replayed.jit
            promotions[way] = _Lanes(tape, way, options, self.first) if options.kernel != "never" else None
        return promotions[way]


def _run(kernel, inputs):
    """What a kernel says, as `Executable.answer`: for each result a matrix, zeros where that goes past the kernel."""
    status, matrices = kernel.answer(inputs)
    if matrices is None:
        return status, None
    return status, _flat([f if slot else np.asarray(what) for f, (slot, what) in zip(matrices, kernel.tape.outputs)])


def _flat(rows):
    return [np.reshape(r, (len(r), -1)) for r in rows]


def _gathered(rows, positions):
    """Entries from what came back: for each result a matrix with a row for each direction."""
    if not len(positions):
        return np.zeros(0)
    flat = _flat(rows)
    return (flat[0] if len(flat) == 1 else np.concatenate(flat, axis=1)).reshape(-1)[positions]


def filled(template, data):
    """A SciPy array of the pattern of `template` with other data; it shares no memory with it."""
    return Filled(template)(data)
