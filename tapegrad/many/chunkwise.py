"""What is computed of one chunk, and how results are added up: the same bits on any number of threads, in any process.

An answer by a kernel may differ from that of the sweep by rounding, and which of them a call gets depends on what was called before.
So what counts here is always the kernel's, where there is one: a call that had to record or to compile is made again.  The sum is a
binary tree whose shape is that of the number of chunks: a task of 2 ** m chunks sums a branch of it, and is a leaf of what is above.
"""

import threading
from functools import reduce

import numpy as np

from ..array.differentiable import Differentiable
from ..array.record import nesting_error
from ..common.errors import StructureError, noted
from ..common.tree import flatten, unflatten
from ..common.uninterrupted import remade
from ..transforms.functional import jit, value_and_grad
from ..transforms.hessians import hessian, hvp
from ..transforms.replay.answers import MISS
from ..transforms.transformed import not_under_jit, options_of
from .data import BUFFERS, rows_of

#: What can be asked of a function, by name: what is recorded, and the order in which its recording takes ``(theta, rows, ...)``.
KINDS = {
    "value": (lambda f: f, (0, 1)), "both": (value_and_grad, (0, 1)), "product": (hvp, (2, 0, 1)), "hessian": (hessian, (0, 1)),
}  # fmt: skip


class ChunkWork:
    """What is asked of each chunk: picklable, a copy records for itself.

    Parameters
    ----------
    function : callable
        ``function(theta, rows)``.
    kind : str
        One of `KINDS`.
    like : tuple, optional
        What each chunk must be like; by default as the first one.

    Attributes
    ----------
    structure : Structure
        Of the results, once there is one.
    program
        The transformation that is recorded.
    """

    def __init__(self, function, kind, like=None):
        self.function, self.kind, self.like = function, kind, like
        options, (transformation, self._order) = options_of(function), KINDS[kind]
        self.program = jit(transformation(not_under_jit(function)), kernel="always", fastmath=options is not None and options.fastmath)
        self.structure, self._lock = None, remade(threading.Lock())

    def __reduce__(self):
        return ChunkWork, (self.function, self.kind, self.like)

    def of(self, piece, arguments):
        """The sum over the rows of a piece: how many they are, and leaves; whether one is not a number."""
        with BUFFERS:
            rows, count = self._checked(piece.load(), piece.name)
            if not count:
                return [], False
            theta, *more = arguments
            with noted(f"raised in {piece.name} of the data"):
                leaves, structure = flatten(self._settled((theta, rows, *more)))
                if any(isinstance(leaf, Differentiable) for leaf in leaves):
                    raise nesting_error("a tensor that the function of a sum over data captures")
            self.structure = self.structure or structure
            # The results may be the rows themselves.
            leaves = [np.array(leaf, np.float64 if np.asarray(leaf).dtype.kind == "f" else None) for leaf in leaves]
        return [count, *leaves], any(np.isnan(leaf).any() for leaf in leaves)

    def _checked(self, rows, name):
        leaves, structure = flatten(rows)
        count = rows_of(leaves, structure, name)
        like = structure, [(leaf.shape[1:], leaf.dtype.str) for leaf in leaves]
        self.like = self.like or like
        if like != self.like:
            this, first = [f"{kind[0]} of " + " and ".join(f"{np.dtype(char)} rows of shape {shape}" for shape, char in kind[1]) for kind in (like, self.like)]
            raise StructureError(f"{name} is {this}, but the first chunk is {first}; all chunks need the same containers, columns and dtypes")
        return (rows if all([leaf.flags.aligned and leaf.flags.c_contiguous for leaf in leaves]) else laid_out(rows)), count

    def _settled(self, arguments):
        """The answer of the program, by its kernel if it has one."""
        answer = self.program._replayed.quick(tuple([arguments[k] for k in self._order]), {})
        if answer is MISS:
            # While one thread records and compiles, others wait for what it makes.
            with self._lock:
                before = None
                while before != (before := self._made()):
                    answer = self.program(*arguments)
        return answer

    def _replayed(self):
        return [vars(self.program)[name] for name in ("_replays", "_rows") if name in vars(self.program)]

    def kernels(self):
        """What was compiled."""
        tapes = [kept for part in self._replayed() for kind in part.kinds.values() for kept in kind.tapes]
        return [kernel for kept in tapes for kernel in kept.kernels.made.values()]

    def _made(self):
        # Not what was begun: a function that cannot be recorded is tried at every call.
        return [(part.stats.tapes, part.stats.kernels) for part in self._replayed()]


def laid_out(thing):
    """Containers with their arrays as kernels want them: of unaligned ones (some messages have them), or in another order, copies."""
    leaves, structure = flatten(thing)
    return unflatten(structure, [np.require(leaf, requirements="CA") if isinstance(leaf, np.ndarray) else leaf for leaf in leaves])


class PartialSum:
    """A sum of parts that come in any order: lists of numbers and arrays; one of nothing is zero."""

    def __init__(self):
        self._nodes, self._lock = {}, threading.Lock()

    def add(self, level, number, part):
        """Add what 2 ** `level` chunks gave, the first of which is `number` times as many (the last ones may be fewer)."""
        with self._lock:
            while (level, number ^ 1) in self._nodes:
                part = _plus(part, self._nodes.pop((level, number ^ 1)))
                level, number = level + 1, number >> 1
            self._nodes[level, number] = part

    def total(self):
        """The sum of all."""
        return reduce(_plus, [part for _, part in sorted(self._nodes.items(), key=lambda node: node[0])], [])


def _plus(one, other):
    if not one or not other:
        return one or other
    if list(map(np.shape, one)) != list(map(np.shape, other)):
        raise StructureError(
            f"the function gives results of shapes {list(map(np.shape, one[1:]))} for one chunk and {list(map(np.shape, other[1:]))} for another; "
            "a sum over its rows has one shape"
        )
    return [a + b for a, b in zip(one, other)]
