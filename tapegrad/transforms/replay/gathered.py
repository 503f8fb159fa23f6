"""Results that are put together from directional derivatives, as one indexing of what a kernel wrote.

A Jacobian, a diagonal, the entries of a sparse Hessian are bodies of an `Evaluation`,
which ask it for directions and arrange what comes back.  How that is arranged does not depend on the numbers, so it is
found once: the body is run on a walk whose answers are *numbered*, 1, 2, 3, ..., and where a number comes out
that element goes.  Of ``x -> (x[0] * x[1], x[1])``, forward, two directions at once::

    what the kernel writes     element 1: dy0/dx0    2: dy1/dx0    3: dy0/dx1    4: dy1/dx1
    the Jacobian comes out as  [[1, 3], [2, 4]]
    so a call is               the kernel, into one array `o` with o[0] = 0; then o[[[1, 3], [2, 4]]]

Numbers of another kind are run through the same function to see that the indices are right; if they are not, there is no plan
(`gathered`), and calls go the long way.
"""

import numpy as np

from ...common.tree import LEAF, flatten
from ...program.status import FINE, OTHER
from .answers import CallPlan, GatherLeaf, MapLeaf, fitting, written
from .directions import KernelWalk, Stopped

#: Elements that are numbered, at most: what float32 counts.
MOST = 1 << 24
#: Elements of an array from which on zeros are not picked one by one.
LARGE = 1 << 12


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
        return (FINE, parts) if self.size <= MOST else (OTHER, None)


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
