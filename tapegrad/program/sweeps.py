"""Numbers carried by compiled sweeps over what one call computed: the walks of an `Evaluation` that is not differentiated again.

A `NumberWalk` runs the reverse sweep (`program.walk`), once for each row, over what there is: the tape on which a
function ran (`StoreWalk`), or a workspace that has replayed one (`transforms.replay.directions`).
"""

import copy
import math
from abc import ABC, abstractmethod

import numpy as np

from ..array.differentiable import clarified
from ..array.record import normalise
from ..array.tensor import Tensor, tensor
from ..autograd.adjoint import push
from ..autograd.backward import Pass
from ..autograd.gradients import grad
from ..autograd.reading import Region
from ..autograd.recording import as_plain, check_result, differentiable, differentiating, refuse_captured, refuse_outer
from ..autograd.tape import Tape
from ..common.dtypes import readable
from ..common.errors import ModifiedInPlaceError
from ..common.tree import flatten, leaf_names, unflatten
from ..common.uninterrupted import cached_property
from ..interpreter.signature import Signature
from ..interpreter.walks import walks
from ..tape.layout import ARRAY_LEAF, MARK, meta_of
from ..tape.modes import enable_grad
from .ports import Port, count_of, units

#: Words of the tangents that one walk carries, at most (2**25 are 256 MB).
MOST_WORDS = 1 << 25


class NumberWalk(ABC):
    """Adjoints carried down and tangents carried up, as numbers.

    Attributes
    ----------
    inputs, outputs : list of Port
        The leaves of the arguments and of the result.
    structure : Structure
        Of the result.
    high : int
        The last slot of the tape that a sweep may read.
    at_once : bool
        Whether forward mode carries all seeds at once, from instruction to instruction in Python.
    hooked : bool
        Whether the function has registered hooks, which backward passes call.
    widest : float
        Numbers that a cut has at most at which the Jacobian may be multiplied out.
    prediction : Prediction or None
        What `choosing.predict` said, once it was asked.
    tape : FinishedTape or None
        What was replayed.
    """

    recorded, at_once, hooked, prediction, widest, tape = False, False, False, None, math.inf, None
    inputs: list
    outputs: list

    @abstractmethod
    def records(self):
        """The records of the tape, and more."""

    @abstractmethod
    def between(self):
        """The slots of the instructions between inputs and outputs, ascending."""

    def visited(self):
        """Opcodes of the instructions between inputs and outputs."""
        return self.records()["op"][self.between()]

    def check(self):  # noqa: B027  (a replay keeps what it reads)
        """Raise if something that a sweep reads has changed since."""

    def compressed(self):
        """What makes a sparse Jacobian cheaper (`tapegrad.program.sparsity.compressed`): nothing is known."""
        return None

    def out(self, leaves):
        """Numbers are what they are."""
        return leaves

    @property
    @abstractmethod
    def _backward(self):
        """The `Backward` of what has been computed."""

    def pull(self, seeds, lanes=None):
        """As of `Evaluation`."""
        return _shaped(self.inputs, self.rows(_seeds(self.outputs, seeds, lanes)), lanes)

    def push(self, tangents, lanes=None):
        """As of `Evaluation`."""
        return _shaped(self.outputs, self.columns(_seeds(self.inputs, tangents, lanes)), lanes)

    def along(self, compressed):
        """What comes back along the seeds of a `Compressed`."""
        return self.many(compressed.forward, compressed.seeds)

    def columns(self, directions=None):
        """For each output an array (directions, its elements), for directions of the inputs, or all unit vectors."""
        return self.many(True, directions)

    def rows(self, directions=None):
        """For each input an array (directions, its elements), for directions of the outputs (`ports`), or all unit vectors."""
        return self.many(False, directions)

    @abstractmethod
    def many(self, forward, directions):
        """`columns` (if `forward`) or `rows`; if it is a `Cut`, for all unit vectors multiplied out of the derivatives of its sides."""

    def columns_by_rows(self, directions):
        """The same by sweeps back: zero is absolute in these, of which nothing is made that could not be."""
        rows, ends = self.swept(None), np.cumsum([0, *(p.size for p in self.outputs)])
        whole = np.concatenate(rows, axis=1) if rows else np.zeros((ends[-1], 0))
        columns = [np.array(whole[begin:end].T, p.char) for p, begin, end in zip(self.outputs, ends, ends[1:])]
        if directions is None:
            return columns
        along = np.concatenate([d.reshape(len(d), -1) for d in directions], axis=1)
        # Zero times anything is zero.
        return [np.array([d[d != 0.0] @ c[d != 0.0] for d in along], c.dtype) for c in columns]

    def swept(self, directions):
        """`rows` by sweeps."""
        from .backward import seeds_of, seeds_of_units  # loads compiled code

        self.check()
        seeds, _arrays = seeds_of_units(self.outputs) if directions is None else seeds_of(self.outputs, directions)
        return self._backward.rows(seeds, count_of(self.outputs, directions))


class StoreWalk(NumberWalk):
    """Over the tape of one call, which is run on a tape of its own.

    Parameters
    ----------
    f : callable
    args : tuple
        All positional arguments.
    argnums : tuple of int
        Which of them are inputs to differentiate with respect to: numbers, arrays, or containers of them.
    kwargs : dict
        Passed on.
    plain : bool
        Whether results that depend on nothing may be of any dtype.
    """

    at_once = True

    def __init__(self, f, args, argnums, kwargs=None, plain=False):
        args, leaves = list(args), []
        for k in argnums:
            parts, structure = flatten(args[k])
            values = [differentiable(p, f"argument {k}{name}") for p, name in zip(parts, leaf_names(structure))]
            parts = [tensor(value, requires_grad=True) for value in values]
            args[k] = unflatten(structure, parts)
            leaves += parts
        keys = [leaf._k for leaf in leaves]
        with enable_grad(), Tape() as tape, differentiating(leaves), clarified:
            result = f(*args, **(kwargs or {}))
        self.store = store = tape.store
        refuse_outer(store)
        results, self.structure = flatten(result)
        # A leaf that was changed in place is another leaf to the store.
        self.inputs = [Port(meta_of(leaf._v), store.enter(leaf)) for leaf in leaves]
        for output, name in zip(results, leaf_names(self.structure)):
            check_result(output, store, f"the result{name}", plain=plain)
        self.outputs = [self._output(output) for output in results]
        roots = sorted({result._i for result in results if getattr(result, "_t", None) is not None})
        if roots:
            swept = Pass(store, [(slot, None) for slot in roots], None)
            swept.check()
            self.check, self.marks, self.low = swept.check, swept.marks, swept.low
        else:
            self.marks, self.low = walks.native.new_marks(store), 1
        self.high = max([1, *(p.slot for p in self.inputs + self.outputs)])
        #: A custom primitive whose rules run in Python, at which the compiled sweeps cannot stop.
        self.primitive = next((s.row.name for s in self._signatures() if s.in_python), "")
        self.hooked = any((store.hooks, store.node_hooks, store.pre_hooks, *(leaf._x and leaf._x.hooks for leaf in leaves)))
        if self.primitive or self.hooked:
            if [leaf._k for leaf in leaves] != keys:
                what = f"calls the custom primitive {self.primitive!r}" if self.primitive else "registers a hook"
                raise ModifiedInPlaceError(f"the function changes an argument in place and {what}; let it change a copy")
            self._tensors = leaves, results

    def refuse_captured(self, function):
        """Raise if the function used a tensor that requires a gradient, and is no argument."""
        refuse_captured(self.store, {p.slot for p in self.inputs}, function)

    @property
    def results(self):
        """The values of the outputs, as plain NumPy has them."""
        return [as_plain(normalise(np.array(p.value))) for p in self.outputs]

    def records(self):
        return self.store.records()

    def between(self):
        return np.flatnonzero(self.marks[: self.high + 1] == MARK)

    def _signatures(self):
        return Signature.among(self.visited())

    def _output(self, result):
        if not isinstance(result, Tensor):
            value, slot = normalise(readable(np.asarray(result))), 0
        else:
            value, slot = result._v, result._i if result._t is not None else self.store.leaves.get(result._k, 0) if result._r else 0
        return Port(meta_of(value), slot, value=value)

    def many(self, forward, directions):
        """As of `NumberWalk`."""
        if forward is True:
            return self._columns(directions)
        product = self._product(forward) if forward and not (self.primitive or self.hooked) else None
        return self.swept(directions) if product is None else product

    # -- reverse mode --------------------------------------------------------------
    @cached_property
    def _backward(self):
        from .backward import Backward  # loads compiled code

        store, own = self.store, {p.slot for p in self.inputs}
        others = set(np.flatnonzero(store.records()["op"][: self.high + 1] == ARRAY_LEAF).tolist()) - own
        backward = Backward(self.high + 1, self.marks, self.high, self.low, self.inputs, others)
        backward.over_store(store).locate(self.high, self.low)
        return backward

    def swept(self, directions):
        """As of `NumberWalk`; where a rule runs in Python, or hooks are to be called, by ordinary backward passes."""
        if not (self.primitive or self.hooked):
            return super().swept(directions)
        (leaves, results), count = self._tensors, count_of(self.outputs, directions)
        matrices = [np.zeros((count, p.size), p.char) for p in self.inputs]
        for k in range(count):
            seeds = units(self.outputs, k, k + 1, 1) if directions is None else [d[k : k + 1] for d in directions]
            roots = [(t, tensor(s[0, ...])) for p, t, s in zip(self.outputs, results, seeds) if p.slot and s.any()]
            if roots:
                tensors, seeds = zip(*roots)
                gradients = grad(tensors, leaves, seeds, retain_graph=True, allow_unused=True)
                for rows, g in zip(matrices, gradients):
                    if g is not None:
                        rows[k] = np.ravel(g._v)
        return matrices

    def _product(self, cut):
        """Rows of the Jacobian from those of a cut and its columns, or None if some are not finite: zero is absolute."""
        ports = [Port(meta, slot) for slot, meta in cut.values]
        lower = copy.copy(self)
        lower.__dict__.pop("_backward", None)
        # A leaf has the slot of its first reader, or later.
        lower.outputs, lower.high = ports, max([cut.position, *(p.slot for p in self.inputs)])
        rows, columns = lower.swept(None), self._pushed_behind(cut.position, ports, units(ports, 0, cut.width, cut.width))
        if not all(np.isfinite(part).all() for part in (*rows, *columns)):
            return None
        left = np.concatenate(columns, axis=1).T
        # BLAS takes twice as long for a single row and column.
        return [np.asarray(left * part if cut.width == 1 else left @ part, part.dtype) for part in rows]

    # -- forward mode ----------------------------------------------------------------
    def _columns(self, directions):
        if self.primitive and any(s.in_python and not s.row.primitive.has_rule("jvp") for s in self._signatures()):
            return self.columns_by_rows(directions)
        if directions is not None:
            return self._pushed_behind(0, self.inputs, directions)
        total, most, parts = sum(p.size for p in self.inputs), self._lanes(), []
        for start in range(0, total, most):
            stop = min(start + most, total)
            parts.append(self._pushed_behind(0, self.inputs, units(self.inputs, start, stop, stop - start)))
        return [np.concatenate(rows) for rows in zip(*parts)] or [np.zeros((0, p.size), p.char) for p in self.outputs]

    def _lanes(self):
        """How many tangents one walk carries: those of all its results are kept until its end."""
        return max(1, MOST_WORDS // (sum(s.out.size for s in self._signatures()) + self.high))

    def _pushed_behind(self, position, sources, seeds):
        """The tangents of the outputs, as of `columns`, for directions of the `sources`, by the rules of the instructions behind `position`."""
        lanes = count_of(sources, seeds)
        self.check()
        stretch, carried = Region(self.store, plain=True), {p.slot: seed for p, seed in zip(sources, seeds)}
        between = self.between()
        tangent = push(stretch, between[between > position].tolist(), carried, lanes)
        tangents = [tangent(p.slot) for p in self.outputs]
        # What nothing arrives at is not -0.
        return [np.zeros((lanes, p.size), p.char) + (0.0 if t is None else np.reshape(t, (lanes, p.size))) for p, t in zip(self.outputs, tangents)]


def _seeds(ports, seeds, lanes):
    """Seeds as arrays (directions, *shape): None is zero."""
    count = lanes or 1
    seeds = [np.zeros((count, *p.shape), p.char) if s is None else np.asarray(s, order="C") for p, s in zip(ports, seeds)]
    return [s.reshape(count, *p.shape) for p, s in zip(ports, seeds)]


def _shaped(ports, parts, lanes):
    """What comes back for each port, in its shape: of one direction as a value by itself."""
    if lanes is not None:
        return [part.reshape(lanes, *p.shape) for p, part in zip(ports, parts)]
    return [as_plain(normalise(part.reshape(p.shape))) for p, part in zip(ports, parts)]
