"""Directional derivatives through a finished tape: a Jacobian's columns or rows.

A `ReplayedRecording` has what a workspace has replayed, and answers for adjoints of the results by sweeps back, for tangents of
the arguments by running the tape of its tangents (`kernel.tangents`).  A `KernelRecording` answers both by kernels
(`kernel.of_tape`), several directions at a time.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...common.uninterrupted import cached_property
from ...kernel.reasons import NotLowered, faults_are_reasons
from ...program.cuts import Cut
from ...program.ports import count_of, inputs_of, outputs_of, units
from ...program.recording import Sweeps
from ...program.status import FINE, OTHER

#: Elements that arguments or results have at least for the Jacobian to be worth compressing.
ENOUGH = 16

#: Directions that one call carries at most, and instructions of a kernel's tape from which on they are fewer.
MOST, LONG = 8, 1 << 19
#: Numbers that a cut has at most at which a Jacobian is multiplied out by a tape.
WIDEST = 16


def key_of(tape, forward, count):
    """The key of the kernel for `count` directions: whether forward (or the cut), and how many it carries at once.

    They are as many in each of as few calls as may be.
    """
    most = count if isinstance(forward, Cut) else max(1, min(MOST, LONG // len(tape.records)))
    return forward, -(-count // -(-count // most)) if count else 1


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
        From `many`: there is no kernel for so many directions, a guard saw
        something else, or a derivative is not finite.
    """

    at_once = False

    def __init__(self, base, arguments, kernels=None):
        self.base, self.arguments, self.kernels = base, arguments, kernels
        self.inputs, self.outputs, self.structure = base.inputs, base.outputs, base.structure
        self.prediction, self.tape = base.prediction, base.tape
        self.asked = False

    def compressed(self):
        """Compressions of the Jacobian (`ReplayedRecording.compressed`)."""
        return self.base.compressed()

    def many(self, forward, directions, kernel=None):
        """As `ReplayedRecording.many`.  By `kernel`, or the one that there is."""
        sources, targets = (self.inputs, self.outputs) if forward is True else (self.outputs, self.inputs)
        count = count_of(sources, directions)
        if isinstance(forward, Cut):
            kernel = self._kernel(forward, count)[0] if kernel is None else kernel
            return [part.reshape(count, p.size) for p, part in zip(targets, self._run(kernel, [], targets, count))]
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
        key = key_of(self.kernels.tape, forward, count)
        kernel = self.kernels.get(key)
        if kernel is None:
            raise Stopped(OTHER)
        return kernel, key[1]

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


class ReplayedRecording(Sweeps):
    """The replay that a workspace holds.

    Parameters
    ----------
    workspace : Workspace
    arguments : list of ndarray
        At which it was replayed.
    """

    def __init__(self, workspace, arguments):
        self.tape = tape = workspace.tape
        self._workspace, self.arguments, self.structure = workspace, arguments, tape.structure
        self.inputs, self.outputs, self.high = inputs_of(tape), outputs_of(tape), len(tape.records) - 1
        #: What has been asked: whether forward or the cut, the directions (None: all unit vectors), how many, and the answer.
        self.asked, self._replays = [], {}

    @classmethod
    def of(cls, workspace, arguments):
        """The recording of a workspace, made once."""
        if workspace.recording is None:
            workspace.recording = cls(workspace, arguments)
        workspace.recording.arguments = arguments
        return workspace.recording

    def compressed(self):
        """Compressions of its Jacobian by columns and by rows, or None."""
        return self._compressed

    @cached_property
    def _compressed(self):
        enough = min(sum(p.size for p in ports) for ports in (self.inputs, self.outputs)) >= ENOUGH
        return self.tape.compressions.worth if enough else None

    @property
    def widest(self):
        """As of `Sweeps`: in the tape of a product there is a copy of each instruction for each number of the cut."""
        return min(WIDEST, LONG // len(self.tape.records))

    def records(self):
        return self._workspace.records

    def between(self):
        return np.flatnonzero(self._workspace.sweep.marks[: len(self._workspace.records)])

    @property
    def _backward(self):
        return self._workspace if self._workspace.in_python else self._workspace.sweep

    def many(self, forward, directions):
        """Arrays (directions, elements) of the outputs (`forward`) or inputs, for directions of the others, or all unit vectors."""
        answer = self._answered(forward, directions)
        sources = self.inputs if forward is True else self.outputs
        self.asked.append((forward, directions, count_of(sources, directions), answer))
        return answer

    def _answered(self, forward, directions):
        answer = self._derived(forward, directions) if forward else None
        if answer is not None:
            return answer
        return self._pushed_by_rows(directions) if forward is True else self._swept(directions)

    def _pushed(self, directions):
        return self._answered(True, directions)

    def _replay(self, forward):
        """The replay of the tape of its tangents, one direction at a time, or of its product at a cut; None if there is no such tape."""
        if forward not in self._replays:
            from ...kernel.tangents import product, tangents  # loads compiled code, which `import tapegrad` does without
            from ...program.replayed import Replay

            try:
                with faults_are_reasons():
                    made = product(self.tape, forward) if isinstance(forward, Cut) else tangents(self.tape)
            except NotLowered:
                self._replays[forward] = None
            else:
                replay = self._replays[forward] = Replay(replace(made, outputs=made.outputs[len(self.tape.outputs) :]), False)
                replay.values, replay.lanes = 0, 1
        return self._replays[forward]

    def _derived(self, forward, directions):
        """What the replay of a derived tape gives, or None: there is none, or it is not finite."""
        replay = self._replay(forward)
        if replay is None:
            return None
        try:
            answer = KernelRecording(self, self.arguments).many(forward, directions, replay)
        except Stopped:
            return None
        # What nothing arrives at is not -0.
        return [part + np.zeros((), part.dtype) for part in answer] if all(np.isfinite(part).all() for part in answer) else None


def seeds_of(ports, directions, start, stop, lanes):
    """Seeds for `ports`: directions `start` to `stop`, of all unit vectors if none are given, and zeros."""
    if directions is None:
        return units(ports, start, stop, lanes)
    return [np.concatenate([d[start:stop], np.zeros((lanes - stop + start, *p.shape), p.char)], dtype=p.char) for p, d in zip(ports, directions)]
