"""The body of a loop, recorded: one iteration of it on live tensors becomes a path of `transforms.loops.loop`.

The body is called with a carry (and an element of the arrays that are gone along) whose leaves are parts of vectors of float64 that the
tape has as arguments.  What else it uses that has a derivative, or is computed in a recording outside of it, becomes a further
argument of the tape when it is first met: the tensor is then an operand of the loop.

A body may change something besides its carry: random generators, counters, lists, arrays that it captures.  But it is recorded
once for each path, and more often where a first recording did not do; in the Python loop it runs in every iteration.
That is the same as long as it changes nothing.  So what it reads is looked at before and after (`transforms.contents`).  If
something is another thing then, it is put back to what it was, and the loop runs as the Python loop that it stands for, iteration by iteration;
under `jit` each iteration is recorded.
"""

import math
import threading
import weakref
from itertools import groupby

import numpy as np

from ...array.differentiable import Differentiable, below, clarified
from ...array.dual import Dual, running
from ...array.functions import concatenate, reshape, stack
from ...array.record import record_nondiff, store_of, tracked
from ...array.views import root_of, views_of
from ...autograd.tape import Tape
from ...common.errors import GradientError, LeaveTapeError, NestingError, StructureError
from ...common.host_functions import HostFunction
from ...common.observers import LISTENERS
from ...common.tree import flatten, flatten_result, leaf_names, unflatten
from ...common.uninterrupted import from_handler
from ...interpreter.fields import constant, place
from ...program.finish import finish
from ...program.through import Rules
from ...program.trace import Trace
from ...tape.layout import meta_of
from ...tape.modes import enable_grad
from ...tape.places import function_name
from ...tape.store import thread_state
from ..contents import COPIED, OBJECTS, Contents
from . import plain

_DEPTH = threading.local()
#: Integers up to this are numbers of float64.
EXACT = 2**53


class Unrecordable(Exception):
    """The body cannot be recorded: the loop runs as the Python loop that it stands for."""


class LeafLayout:
    """Where the leaves of a container lie in a vector of float64.

    Attributes
    ----------
    structure : Structure
    leaves : list of (tuple, str)
        Shape and dtype of each.
    size : int
        Of the vector.
    weak : set of int
        Leaves of a carry that began as numbers whose dtype gives way, as that of Python's numbers does.
    """

    weak = frozenset()

    def __init__(self, leaves, structure):
        self.structure, self.leaves = structure, leaves
        self.size = sum(math.prod(shape) for shape, _ in leaves)

    def __str__(self):
        return f"{self.structure} of {', '.join(f'{shape} {np.dtype(char)}' for shape, char in self.leaves)}"

    @classmethod
    def of(cls, thing):
        """The layout of a container of numbers and arrays."""
        leaves, structure = flatten(thing)
        return cls([_described(leaf) for leaf in leaves], structure)

    @staticmethod
    def pack(leaves):
        """The vector of these leaves, of numbers, arrays and tensors."""
        if any(isinstance(leaf, Differentiable) for leaf in leaves):
            return _joined([as_float64(leaf) for leaf in leaves])
        return np.concatenate([np.reshape(as_float64(leaf), -1) for leaf in leaves] or [np.zeros(0)])

    def unpack(self, vector, rows=()):
        """The leaves out of a vector, or out of one that has all `rows` of each leaf one behind the other (a first axis in front of each leaf)."""
        leaves, at = [], 0
        for shape, char in self.leaves:
            shape = *rows, *shape
            count = math.prod(shape)
            leaf = vector[at] if not shape else vector if count == vector.size else vector[at : at + count]
            if leaf.shape != shape:
                leaf = np.reshape(leaf, shape)
            leaves.append(as_dtype(leaf, char))
            at += count
        return leaves


def _described(leaf):
    """Shape and dtype of a leaf; an integer of Python is one of 64 bits."""
    array = value_of(leaf)
    if array.dtype.kind not in "biuf" or array.dtype.char in "eg":
        # Something else that goes along: the Python loop knows what to do with it.
        raise Unrecordable
    return array.shape, array.dtype.char


def value_of(x):
    """The value of a number, array, tensor or dual number, as an array."""
    x = below(x)
    return np.asarray(x._v if isinstance(x, Differentiable) else x)


def as_dtype(x, char):
    """`x`, of float64, in the dtype that it stands for."""
    if char == "d":
        return x
    if char == "f" or not isinstance(x, Differentiable):
        return x.astype(char)
    return record_nondiff(HostFunction("cast", (np.dtype(char).str,)), (x,), np.asarray(x._v).astype(char))


def as_float64(leaf):
    """A leaf as an array or tensor of float64; integers that are no such numbers go along in Python."""
    if not isinstance(leaf, Differentiable):
        leaf = np.asarray(leaf)
    small = leaf.dtype.kind not in "iu" or leaf.dtype.itemsize < 8 or np.abs(leaf) <= EXACT
    if not (small if leaf.ndim == 0 else np.all(small)):
        raise Unrecordable
    return leaf if isinstance(leaf, Differentiable) and leaf.dtype.char == "d" else leaf.astype(np.float64)


def _joined(parts):
    vectors = []
    for are_numbers, run in groupby([part for part in parts if part.size], lambda part: part.shape == ()):
        run = list(run)
        vectors += [stack(run)] if are_numbers and len(run) > 1 else [part if part.ndim == 1 else reshape(part, (-1,)) for part in run]
    return vectors[0] if len(vectors) == 1 else concatenate(vectors) if vectors else np.zeros(0)


def records_for_jit():
    """Whether this thread records for `jit`, which keeps what it records itself, and has a contract with bodies."""
    traces = [tape.store.trace for tape in thread_state().tapes]
    return any(trace is not None and not trace.depth and not trace.once for trace in traces)


def is_inside():
    """Whether this thread records a body."""
    return getattr(_DEPTH, "value", 0) > 0


class BodyTrace(Trace):
    """The trace of a body.

    Attributes
    ----------
    captures : list of (Tensor, int, Tensor)
        Tensors from outside, where each begins in the vector of captured values, and what the body has read, which may be another one by now.
    open : bool
        Whether the body is being run: a tensor of it that is used later has been kept by mistake.
    level : int
        Of the derivative that is being computed: dual numbers of higher levels are of derivatives inside.
    """

    def __init__(self, store, captures):
        super().__init__(store)
        self.captures, self.open, self.level = captures, True, running.level
        self.depth = _DEPTH.value = getattr(_DEPTH, "value", 0) + 1
        #: What was captured, as it is here; where it begins in the vector, in the order of the arguments.
        self._inner, self.places = {}, []
        #: Constants that the body changes in place, as they were: weak references, values and copies of these, descriptions and keys.
        self._constants = []
        state = thread_state()
        self._around = [state.anonymous, *(tape.store for tape in state.tapes if tape.store is not store)]

    def captured_slot(self, operand):
        if operand.__class__ is Dual:
            raise Unrecordable
        if operand._t is not None:
            other = store_of(operand).trace
            if other is not None and other.depth > self.depth:
                return other.captured_slot(operand)
        return self.here(operand)._i

    def is_outside(self, operand):
        """Whether an operand is a dual number of a derivative around the loop, of which nothing was computed here."""
        if operand.__class__ is not Dual or operand._level > self.level:
            return False
        store = getattr(below(operand), "_t", None)
        return store is None or any([store is other for other in self._around])

    def meets(self, operands):
        """Whether dual numbers from outside meet what the body has computed."""
        return any(map(self.is_outside, operands)) and any([getattr(o, "_t", None) is not None and o._t.trace is not None for o in operands])

    def inside(self, t):
        # By itself an operation on tensors from outside would be recorded there.
        return t if t._t is None or store_of(t) is self.store else self.here(t)

    def leaked(self, operand):
        """The error for a tensor of the body that is used outside of it."""
        return NestingError(
            f"a tensor of the body of a loop is used outside of it; it was computed at {self.store.place(operand._i)}. Return it from the body"
        )

    def here(self, operand):
        """A tensor from outside as one of the body."""
        key = id(operand) if operand.__class__ is Dual else operand._k if operand._t is None else (id(operand._t), operand._i)
        inner = self._inner.get(key)
        if inner is None:
            self.places.append(place_of(self.captures, operand))
            leaf = self.enter(as_float64(np.asarray(operand._v)))
            if not operand.requires_grad:
                self.still.add(leaf._i)
            inner = self._inner[key] = as_dtype(leaf, np.asarray(operand._v).dtype.char)
        return inner

    def parameters(self):
        """Let leaves that the body has used (tensors that require a gradient and were not computed) be arguments, too."""
        # Variables of derivatives that are taken inside are constants here.
        own = {*self.input_slots, *self.variables}
        for slot, reference, _ in self.store.leaf_list:
            leaf = reference()
            if slot not in own and leaf is not None:
                if np.asarray(leaf._v).dtype.char != "d":
                    raise Unrecordable
                self.places.append(place_of(self.captures, leaf))
                self.input_slots.append(slot)
                self.input_metas.append(meta_of(leaf._v))
                self.input_values.append(leaf._v)

    def about_to_change(self, t):
        """Remember a constant that the body changes in place, and what shares its memory, as they are."""
        root, _ = root_of(t)
        for one in (root, *[view for view, *_ in views_of(root)]):
            if one._t is None:
                self._constants.append((weakref.ref(one), one._v, np.copy(one._v), one._m, one._k))

    def put_back(self, results=()):
        """Let constants be what they were that are no `results`, and that the body does not end with; whether there are any."""
        own = {id(root_of(result)[0]) for result in results if isinstance(result, Differentiable)}
        changed = [(t, *before) for reference, *before in reversed(self._constants) if (t := reference()) is not None and id(root_of(t)[0]) not in own]
        self._constants = []
        for t, value, copy, t._m, t._k in changed:
            place(t, None, 0)
            t._v = value
            if isinstance(value, np.ndarray) and value.flags.writeable:
                value[...] = copy
        return bool(changed)

    def close(self):
        """The body has been run."""
        self.open = False
        _DEPTH.value -= 1


def place_of(captures, tensor):
    """Where a captured tensor begins in the vector; at its end, if it is new."""
    at = 0
    for other, begin, _ in captures:
        if other is tensor or other._t is not None and other._t is tensor._t and other._i == tensor._i:
            return begin
        at = begin + np.size(other._v)
    captures.append((_as_it_is(tensor), at, tensor))
    return at


def _as_it_is(tensor):
    """A captured tensor that stays what it is when the body changes it in place.

    What a body computes from tensors outside alone may be recorded outside, and be the body's own variable.
    """
    if tensor._t is None:
        return tensor
    same = constant(type(tensor), tensor._v)
    same._become(tensor)
    return same


def recorded(function, carry, element, values, captures, what, keeping=0):
    """One iteration of a body, recorded.

    Parameters
    ----------
    function : callable
        ``function(carry, element) -> carry, result, stops``.
    carry, element : LeafLayout
        `element` is None where there are no arrays to go along.
    values : (ndarray, ndarray)
        The vectors of carry and element at this iteration.
    captures : list
        As of `BodyTrace`, which adds to it.
    what : str
        How the body is named in messages.

    Returns
    -------
    tape : FinishedTape
        Its arguments are the vectors of carry and element, as far as these have elements, then captured tensors; its outputs are
        the vector of the next carry, then the leaves of the result.
    places : list of int
        Where each captured one begins.
    results : LeafLayout
        Of the result.
    stops : bool
    """
    # Operations on tensors of the recordings around go the long way, which finds the body.
    around = [(tape.store, tape.store.ident) for tape in thread_state().tapes if tape.store.trace is not None]
    with Tape() as tape, enable_grad():
        trace = BodyTrace(tape.store, captures)
        trace.keeping = keeping
        try:
            for store, _ in around:
                store.ident = -1
            path = _iteration(trace, function, carry, element, values, what)
        finally:
            trace.close()
            for store, ident in around:
                store.ident = ident
    # Once more, with the values kept that derivatives inside of the body take, if there is none.
    return path or recorded(function, carry, element, values, captures, what, 1)


def _iteration(trace, function, carry, element, values, what):
    """The path, or None: `trace` has not kept values that derivatives inside of the body take."""
    arguments = []
    for layout, value in zip((carry, element), values):
        # Without elements there is nothing to enter.
        vector = trace.enter(value) if layout is not None and layout.size else value
        arguments.append(None if layout is None else unflatten(layout.structure, layout.unpack(vector)))
    before, unkept = flatten(arguments[0]), not trace.keeping
    try:
        with clarified:
            after, result, stops = function(*arguments)
    except (GradientError, LeaveTapeError):
        if not (trace.cannot or trace.unkept and unkept):
            raise
    if trace.cannot or trace.unkept and unkept:
        trace.put_back()
    if trace.unkept and unkept:
        return None
    if trace.cannot:
        raise Unrecordable
    leaves = plain.fitting(before, after, what)
    results, shape = flatten_result(result)
    if trace.put_back((*leaves, *results)):
        raise Unrecordable
    if any([leaf.__class__ is Dual and not trace.is_outside(leaf) for leaf in (*leaves, *results)]):
        raise Unrecordable
    outer = [leaf for leaf in (*leaves, *results) if isinstance(leaf, Differentiable) and tracked(leaf) and leaf._t is not trace.store]
    # What only passes through is an argument as well.
    inner = {id(leaf): trace.here(leaf) for leaf in outer}
    leaves, results = ([inner.get(id(leaf), leaf) for leaf in part] for part in (leaves, results))
    _compare(carry, map(_described, leaves), what)
    layout = LeafLayout([_described(leaf) for leaf in results], shape)
    trace.parameters()
    # Results are written where they stay; a carry is short, and often read as one.
    outputs = [carry.pack(leaves), *map(as_float64, results)]
    finished = finish(trace, outputs, [True] * len(trace.input_slots))
    if trace.cannot or not Rules.closed(finished):
        raise Unrecordable
    return finished, trace.places, layout, bool(stops)


def _compare(carry, after, what):
    """Refuse a carry of other floats; what are integers, or numbers whose dtype gives way, may become other floats."""
    promoted = {}
    for k, (name, (shape, char), (_, before)) in enumerate(zip(leaf_names(carry.structure), after, carry.leaves)):
        if np.dtype(char).kind == "f" and (np.dtype(before).kind != "f" or k in carry.weak and (before, char) == ("d", "f")):
            promoted[k] = char
        elif char != before and np.dtype(char).kind == np.dtype(before).kind == "f":
            raise StructureError(
                f"{what} changes the dtype of the carry{name}: it was {shape} {np.dtype(before)} and is {shape} {np.dtype(char)}; a "
                "carry keeps its dtype"
            )
    if promoted:
        raise DtypeChanged(promoted)


class DtypeChanged(Exception):
    """Leaves of the carry become other floats: its argument is leaf -> dtype."""


def state_of(functions):
    """What functions read, to be put back."""
    return Contents(functions[0], OBJECTS, [(function_name(function), function) for function in functions[1:]], COPIED)


def restoring(functions, what, recorded, plainly, state=None):
    """``recorded()``, or what ``plainly()`` gives if that cannot be, or changes something that the functions read.

    Parameters
    ----------
    functions : sequence of callable
    what : str
        How they are named in messages.
    recorded, plainly : callable
    state : Contents, optional
        What they read before; by default, now.
    """
    jit = records_for_jit()
    # What the user has asked NumPy to raise or to report, compiled iterations do not; nor do replays, of which that is the contract.
    if thread_state().checking is not None or LISTENERS or not jit and not {"raise", "call"}.isdisjoint(np.geterr().values()):
        return plainly()
    state = state or state_of(functions)
    if not state.iterates:
        try:
            result = recorded()
            if not state.changed():
                return result
        except Unrecordable:
            pass
        except Exception as error:
            if not state.changed() or from_handler(error):
                raise
        state.put_back(what)
    return plainly()
