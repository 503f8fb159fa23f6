"""Directional derivatives through a finished tape: a Jacobian's columns or rows.

These are walks of an `Evaluation`.  A `ReplayWalk` has what a workspace has replayed, and answers for adjoints of the results by sweeps
back, for tangents of the arguments by running the tape of its tangents (`kernel.tangents`).  A `KernelWalk` answers both by kernels
(`kernel.of_tape`), several directions at a time.
"""

from dataclasses import replace

import numpy as np

from ...common.uninterrupted import cached_property
from ...kernel.reasons import NotLowered, faults_are_reasons
from ...program.choosing import Cut
from ...program.ports import count_of, inputs_of, outputs_of, units
from ...program.status import FINE, OTHER
from ...program.sweeps import NumberWalk

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


class KernelWalk(NumberWalk):
    """Over a tape at a point, by executables that stand for its derivatives in several directions.

    Parameters
    ----------
    base : ReplayWalk
        Which says what inputs and outputs there are.
    arguments : list of ndarray
        The point.
    executable : callable
        ``executable(forward, count)``: what answers so many directions (or a `Cut`), and how many at once.

    Attributes
    ----------
    asked : bool
        Whether an executable has run.

    Raises
    ------
    Stopped
        From `many`: there is no kernel for so many directions, a guard saw
        something else, or a derivative is not finite.
    """

    _backward = None

    def __init__(self, base, arguments, executable):
        self.arguments, self.executable, self.asked = arguments, executable, False
        self.inputs, self.outputs, self.structure = base.inputs, base.outputs, base.structure
        self.prediction, self.tape, self.compressed = base.prediction, base.tape, base.compressed

    def records(self):
        """Asked for where no mode has been chosen yet: that is not done here."""
        raise Stopped(OTHER)

    between = records

    def columns(self, directions=None):
        """As of `NumberWalk`."""
        return self.many(True, directions)

    def rows(self, directions=None):
        """As of `NumberWalk`."""
        return self.many(False, directions)

    def product(self, cut):
        """As of `NumberWalk`."""
        return self.many(cut, None)

    def many(self, forward, directions):
        """`columns` (if `forward`), `rows` or `product` (if it is a `Cut`)."""
        sources, targets = (self.inputs, self.outputs) if forward is True else (self.outputs, self.inputs)
        count = count_of(sources, directions)
        if isinstance(forward, Cut):
            return [part.reshape(count, p.size) for p, part in zip(targets, self._run(self.executable(forward, count)[0], []))]
        arrays = [np.zeros((count, p.size), p.char) for p in targets]
        if not count:
            return arrays
        executable, lanes = self.executable(forward, count)
        for start in range(0, count, lanes):
            stop = min(start + lanes, count)
            seeds = seeds_of(sources, directions, start, stop, lanes)
            # Results that do not depend on the inputs have no adjoints.
            parts = self._run(executable, [s for p, s in zip(sources, seeds) if forward or p.slot])
            for whole, part in zip(arrays, parts):
                whole[start:stop] = part.reshape(lanes, whole.shape[1])[: stop - start]
        return arrays

    def _run(self, executable, seeds):
        """What it gives along these seeds."""
        status, results = executable.answer([*self.arguments, *seeds])
        if results is None:
            raise Stopped(status)
        self.asked = True
        return results

    def answer(self, forward, directions):
        """Status and results, as `Executable.answer` gives them."""
        try:
            return FINE, self.many(forward, directions)
        except Stopped as stopped:
            return stopped.status, None


class ReplayWalk(NumberWalk):
    """Over the replay that a workspace holds: adjoints by sweeps, tangents by a replay of their tape.

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
        #: What has been asked, while that is noted: whether forward or the cut, the directions (None: all unit vectors), how many, the answer.
        self.asked, self._replays = None, {}

    @classmethod
    def of(cls, workspace, arguments):
        """The walk over a workspace, made once."""
        if workspace.walk is None:
            workspace.walk = cls(workspace, arguments)
        workspace.walk.arguments = arguments
        return workspace.walk

    def compressed(self):
        """Compressions of its Jacobian by columns and by rows, or None."""
        return self._compressed

    @cached_property
    def _compressed(self):
        enough = min(sum(p.size for p in ports) for ports in (self.inputs, self.outputs)) >= ENOUGH
        return self.tape.compressions.worth if enough else None

    @property
    def widest(self):
        """As of `NumberWalk`: in the tape of a product there is a copy of each instruction for each number of the cut."""
        return min(WIDEST, LONG // len(self.tape.records))

    def records(self):
        return self._workspace.records

    def between(self):
        return np.flatnonzero(self._workspace.sweep.marks[: len(self._workspace.records)])

    @property
    def _backward(self):
        return self._workspace if self._workspace.in_python else self._workspace.sweep

    def columns(self, directions=None):
        """As of `NumberWalk`."""
        return self._noted(True, directions, self._derived(True, directions) or self.columns_by_rows(directions))

    def rows(self, directions=None):
        """As of `NumberWalk`."""
        return self._noted(False, directions, self.swept(directions))

    def product(self, cut):
        """As of `NumberWalk`."""
        return self._noted(cut, None, self._derived(cut, None) or self.swept(None))

    def _noted(self, forward, directions, answer):
        if self.asked is not None:
            self.asked.append((forward, directions, count_of(self.inputs if forward is True else self.outputs, directions), answer))
        return answer

    def _replay(self, forward, count):
        """The replay of the tape of its tangents, one direction at a time, or of its product at a cut; stopped if there is no such tape."""
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
                replay.values = 0
        if self._replays[forward] is None:
            raise Stopped(OTHER)
        return self._replays[forward], 1

    def _derived(self, forward, directions):
        """What the replay of a derived tape gives, or None: there is none, or it is not finite."""
        try:
            answer = KernelWalk(self, self.arguments, self._replay).many(forward, directions)
        except Stopped:
            return None
        # What nothing arrives at is not -0.
        return [part + np.zeros((), part.dtype) for part in answer] if all(np.isfinite(part).all() for part in answer) else None


def seeds_of(ports, directions, start, stop, lanes):
    """Seeds for `ports`: directions `start` to `stop`, of all unit vectors if none are given, and zeros."""
    if directions is None:
        return units(ports, start, stop, lanes)
    return [np.concatenate([d[start:stop], np.zeros((lanes - stop + start, *p.shape), p.char)], dtype=p.char) for p, d in zip(ports, directions)]
