"""Directional derivatives through a finished tape: a Jacobian's columns or rows.

These are walks of an `Evaluation`.  A `ReplayWalk` has what a workspace has replayed, and answers for adjoints of the results by sweeps
back, for tangents of the arguments by running the tape of its tangents (`kernel.adjoint`).  A `KernelWalk` answers both by kernels
(`kernel.kernel`), several directions at a time.

Results are put together from what a kernel wrote by one indexing.  A Jacobian, a diagonal, the entries of a sparse Hessian are bodies of an `Evaluation`,
which ask it for directions and arrange what comes back.  How that is arranged does not depend on the numbers, so it is
found once: the body is run on a walk whose answers are *numbered*, 1, 2, 3, ..., and where a number comes out
that element goes.  Of ``x -> (x[0] * x[1], x[1])``, forward, two directions at once::

    what the kernel writes     element 1: dy0/dx0    2: dy1/dx0    3: dy0/dx1    4: dy1/dx1
    the Jacobian comes out as  [[1, 3], [2, 4]]
    so a call is               the kernel, into one array `o` with o[0] = 0; then o[[[1, 3], [2, 4]]]

Numbers of another kind are run through the same function to see that the indices are right; if they are not, there is no plan
(`gathered`), and calls go the long way.
"""

from dataclasses import replace

import numpy as np

from ...common.tree import LEAF, flatten
from ...common.uninterrupted import cached_property
from ...kernel.reasons import NotLowered, faults_are_reasons
from ...program.choosing import Cut
from ...program.ports import FINE, OTHER, count_of, inputs_of, outputs_of, units
from ...program.sweeps import NumberWalk
from .answers import CallPlan, GatherLeaf, MapLeaf, fitting, written

#: Elements that arguments or results have at least for the Jacobian to be worth compressing.
ENOUGH = 16

#: Directions that one call carries at most, and instructions of a kernel's tape from which on they are fewer.
MOST, LONG = 8, 1 << 19
#: Numbers that a cut has at most at which a Jacobian is multiplied out by a tape.
WIDEST = 16
#: Elements that are numbered, at most: what float32 counts.
MOST_NUMBERED = 1 << 24
#: Elements of an array from which on zeros are not picked one by one.
LARGE = 1 << 12


def key_of(tape, forward, count):
    """The key of the kernel for `count` directions: whether forward (or the cut), and how many it carries at once.

    They are as many in each of as few calls as may be.
    """
    most = count if isinstance(forward, Cut) else max(1, min(MOST, LONG // len(tape.records)))
    return forward, -(-count // -(-count // most)) if count else 1


class Stopped(Exception):
    """A kernel did not go through: its argument is the status, as of `Executable.answer`."""


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

    def many(self, forward, directions):
        """As of `NumberWalk`."""
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
            return *stopped.args, None


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

    def many(self, forward, directions):
        """As of `NumberWalk`."""
        answer = self._derived(forward, directions) if forward else None
        answer = answer or (self.columns_by_rows if forward is True else self.swept)(directions)
        if self.asked is not None:
            self.asked.append((forward, directions, count_of(self.inputs if forward is True else self.outputs, directions), answer))
        return answer

    def _replay(self, forward, count):
        """The replay of the tape of its tangents, one direction at a time, or of its product at a cut; stopped if there is no such tape."""
        if forward not in self._replays:
            from ...kernel.adjoint import product, tangents  # loads compiled code, which `import tapegrad` does without
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


# ---- what a kernel wrote, indexed -------------------------------------------------------


def of_directions(kept, read, then=None):
    """How a call is answered by what is read off a walk: the executable, its plan and the answer; or None.

    ``read(walk)`` gives the result; ``then(leaf)`` is the answer, if it is not what is read, which is one leaf.
    """
    plan = None if kept.kernels.walk is None else gathered(kept.kernels, read)
    if plan is None or then is None:
        return plan
    executable, runs, (_, leaves) = plan
    return (executable, runs, (LEAF, [MapLeaf(then, leaves[0])])) if len(leaves) == 1 else None


class Numbering:
    """What stands for a kernel, and answers with the numbers of the elements that it would give.

    Parameters
    ----------
    kernels : Kernels
        With a walk.
    value : callable
        From an array of numbers of elements (from 1) to what stands for them.

    Attributes
    ----------
    runs : list of (list, list)
        As of `CallPlan`.
    used : list of (Executable, str)
        What was asked, and for which dtypes.
    """

    def __init__(self, kernels, value):
        self._find, self._walk, self._value = kernels.directional, kernels.walk, value
        self.runs, self.used, self.size = [], [], 1

    def __call__(self, forward, count):
        """As `KernelWalk` takes it."""
        self._kernel, lanes = self._find(forward, count)
        self._targets, self._lanes = self._walk.outputs if forward is True else self._walk.inputs, lanes
        return self, lanes

    def answer(self, seeds):
        """As of an `Executable`."""
        parts, places = [], []
        for port in self._targets:
            places.append((0, self.size))
            parts.append(self._value(np.arange(self.size, self.size + self._lanes * port.size)))
            self.size += self._lanes * port.size
            self.used.append((self._kernel, port.char))
        self.runs.append((seeds, places))
        return (FINE, parts) if self.size <= MOST_NUMBERED else (OTHER, None)


def gathered(kernels, read):
    """How a call of `read` is one of a kernel, and indexing.

    Parameters
    ----------
    kernels : Kernels
        With a walk.
    read : callable
        Given a walk, gives containers of arrays, numbers and SciPy's sparse arrays.

    Returns
    -------
    (Executable, CallPlan, (Structure, list)) or None
        What `CallSite` takes: the executable, its runs, and the answer.
    """
    try:
        numbered, leaves, structure = _answer(kernels, read, lambda n: n)
        if len(set(numbered.used)) != 1:
            return None
        executable, char = numbered.used[0]
        sines = _answer(kernels, read, np.sin)[1]
        found = [_leaf(*pair, numbered.size, char) for pair in zip(leaves, sines)]
    except Stopped:
        return None
    return executable, CallPlan([((numbered.size,), char)], numbered.runs), (structure, found)


def _answer(kernels, read, value):
    numbered = Numbering(kernels, value)
    leaves, structure = flatten(read(KernelWalk(kernels.walk, [], numbered)))
    return numbered, leaves, structure


def _leaf(numbers, sines, size, char):
    """What a leaf of the answer is, from what came out for two kinds of numbers."""
    if hasattr(numbers, "indptr"):
        return MapLeaf(SparseTemplate(numbers), _leaf(numbers.data, sines.data, size, char))
    kind = type(numbers)
    if kind is not float and getattr(numbers, "dtype", np.dtype("O")).char != char:
        raise Stopped(OTHER)
    index = np.asarray(numbers, np.float64)
    if not np.all((index >= 0) & (index < size) & (index == np.floor(index))):
        raise Stopped(OTHER)
    index = index.astype(np.intp) if index.ndim else int(index)
    if not np.array_equal(np.sin(np.arange(size)).astype(char)[index], np.asarray(sines, np.float64)):
        raise Stopped(OTHER)
    if np.size(index) <= LARGE:
        return GatherLeaf(0, index, kind is float)
    # Of a large array only those are picked that are not zero by themselves.
    where = np.flatnonzero(index)
    if 4 * len(where) > index.size:
        # To pick element by element costs more than what the long way adds.
        raise Stopped(OTHER)
    return MapLeaf(ScatterInto(index.shape, where, char), GatherLeaf(0, index.reshape(-1)[where]))


class ScatterInto:
    """Zeros, with data at some flat positions."""

    def __init__(self, shape, where, char):
        self.shape, self.where, self.dtype = shape, where, np.dtype(char)

    def __call__(self, data):
        whole = np.zeros(self.shape, self.dtype)
        whole.reshape(-1)[self.where] = data
        return whole

    def into(self, data, out):
        """The same in `out`."""
        fitting(out, self.shape, self.dtype).fill(0.0)
        out.reshape(-1)[self.where] = data
        return out


class SparseTemplate:
    """A SciPy array with the pattern of `template`, and other data; it shares no memory with it."""

    into = staticmethod(written)

    def __init__(self, template):
        self.kind, self.rest, self.indices, self.indptr = type(template), dict(vars(template)), template.indices, template.indptr

    def __call__(self, data):
        array = object.__new__(self.kind)
        array.__dict__ = {**self.rest, "data": data, "indices": self.indices.copy(), "indptr": self.indptr.copy()}
        return array
