"""Loops on tensors: the body is recorded once for each path, and the loop is one instruction.

A plain call of a loop records its body each time.  If what comes out computes what came out before, to the last operand, attribute and
constant, the workspaces and kernels that were made then are taken, and the paths of its derivatives.
Blocks of memory come with them, which a run of a loop holds for its paths, all at once: what is shared is taken by one loop at a time only.
So neither of two paths of one loop nor a loop in the body of another one, which runs while that holds its own, shares any.
Nothing of the call itself is kept: neither arguments nor results, neither the function nor what it captures (but the constants on
the tape, of which there are few, in copies).  Where an instruction stands in the source, the new path says.
"""

import contextlib
import math
import threading
from collections import OrderedDict
from dataclasses import replace

import numpy as np

from ...array.differentiable import Differentiable
from ...array.dual import Dual
from ...array.record import apply, normalise, tracked
from ...common import config
from ...common.errors import (
    GradientError,
    GuardError,
    HigherOrderError,
    ModifiedInPlaceError,
    OptionError,
    StructureError,
    TapegradError,
    UnsupportedFunctionError,
)
from ...common.host_functions import HostFunction
from ...common.tree import flatten, flatten_result, unflatten
from ...kernel.reasons import NotLowered
from ...program.listing import advice
from ...program.trace import GUARD, ROW
from ...rules.loops import CAPTURED, CARRY, ELEMENT, NEXT, RESULT
from ...tape.layout import SCALAR, SCALAR_LEAF
from ..contents import OBJECTS, Contents
from .body import DtypeChanged, LeafLayout, Unrecordable, as_float64, is_inside, recorded, records_for_jit, state_of, value_of
from .loop import LoopPath, RecordedLoop


def loop(function, init, xs, iterations, reverse, memory, name, others=()):
    """The last carry, and the results of all iterations, of a loop on tensors.

    Parameters
    ----------
    function : callable
        ``function(carry, element) -> carry, result, stops``.
    init : object
    xs : (list, Structure) or None
        Leaves, and the container they are in.
    iterations : int or None
        None: until `function` says that it stops.
    reverse : bool
    memory : int or None
    name : str
    others : sequence of list
        Carries of which the paths are recorded, too, if they can be.

    Raises
    ------
    Unrecordable
        The body cannot be recorded.
    """
    leaves, structure = flatten(init)
    chars = {}
    while True:
        try:
            return _LoopRun(function, leaves, structure, chars, xs, iterations, reverse, memory, name).run(others)
        except DtypeChanged as promoted:
            chars |= promoted.args[0]
        except NotLowered:
            raise Unrecordable from None


def once(function, carry, name, others=()):
    """The result of one iteration, of which nothing is kept."""
    leaves, structure = flatten_result(loop(function, carry, None, 1, False, 0, name, others)[1])
    return unflatten(structure, [leaf[0] for leaf in leaves])


class _LoopRun:
    def __init__(self, function, leaves, structure, chars, xs, iterations, reverse, memory, name):
        self.function, self.name, self.iterations, self.captures = function, name, iterations, []
        self.carry = LeafLayout.of(unflatten(structure, leaves))
        self.carry.leaves = [(shape, chars.get(k, char)) for k, (shape, char) in enumerate(self.carry.leaves)]
        self.carry.weak = {k for k, leaf in enumerate(leaves) if type(leaf) in (int, float) or isinstance(leaf, Differentiable) and not leaf.shape}
        self.start = self.carry.pack(leaves)
        self.element, rows = None, np.zeros((iterations or 0, 0))
        if xs is not None:
            elements = [leaf[0] if len(leaf) else np.zeros(leaf.shape[1:], leaf.dtype) for leaf in map(value_of, xs[0])]
            self.element = LeafLayout.of(unflatten(xs[1], elements))
            rows = _rows(xs[0], iterations)
        self.rows, self.results = rows, None
        self.reverse, self.memory = reverse, memory
        self.loop, self.inside = None, is_inside()
        #: What the body has read, where paths of it may be recorded later.
        self.read = None

    def run(self, others):
        operands, self.start, self.rows = (self.start, self.rows), None, None
        start, rows = map(value_of, operands)
        # Which path an iteration has taken is a byte.
        self.limit = min(255, max(config.paths, len(others)))
        self._meet(start, 0, rows)
        for other in others:
            if not np.array_equal(other, start.ravel()):
                # What it cannot compute here it may be able to where it is taken.
                try:
                    with np.errstate(all="ignore"):
                        self._meet(np.array(other, np.float64), 0, rows)
                except TapegradError:
                    raise
                except (ArithmeticError, ValueError, np.linalg.LinAlgError):
                    pass
        z = self.loop.run(start, self._captured(), rows, lambda carry, iteration, captured, xs: self._meet(carry, iteration, xs))
        self.loop.later = self._later
        if records_for_jit():
            self.read = Contents(self.function, OBJECTS)
        captured = LeafLayout.pack([tensor for tensor, *_ in self.captures])
        if any(map(tracked, (*operands, captured))):
            # Here a rule that is not written in instructions can still send the loop to Python; a derivative that is missing may not be asked for.
            with contextlib.suppress(HigherOrderError, UnsupportedFunctionError):
                self.loop.adjoints()
        loop, operands = self.loop, (operands[0], captured, operands[1])
        attrs = (("program", loop),)
        whole = apply("loop_results", (*operands, apply("loop", operands, attrs, value=z)), attrs)
        carry = unflatten(self.carry.structure, self.carry.unpack(whole[: loop.carry] if self.iterations and loop.carry else whole))
        if not self.iterations:
            return carry, None
        return carry, unflatten(self.results.structure, self.results.unpack(whole[loop.carry :], (loop.rows,)) if self.results.leaves else ())

    def _later(self, carry, iteration, captured, rows):
        """Record a path that is met in a replay; what the body uses from outside has other values there, for so long."""
        try:
            self.function = self.read.restored("since it was recorded") if self.read is not None else self.function
        except ModifiedInPlaceError as error:
            # What calls the loop is recorded once more.
            raise GuardError(str(error)) from None
        with self.loop.lock:
            outside = [(t, at) for tensor, at, read in self.captures for t in {id(t): t for t in (tensor, read)}.values() if _are_one(t, tensor)]
            before, state = [tensor._v for tensor, _ in outside], state_of([self.function])
            try:
                for tensor, at in outside:
                    value = captured[at : at + np.size(tensor._v)].reshape(np.shape(tensor._v))
                    if tensor._t is None or tensor.__class__ is Dual:
                        # It is the user's own.
                        if not np.array_equal(value, value_of(tensor), equal_nan=True):
                            raise GuardError(f"{self.name} uses a tensor that has changed since it was recorded")
                    else:
                        tensor._v = normalise(value.astype(np.asarray(tensor._v).dtype))
                self._meet(carry, iteration, rows, len(self.captures))
            finally:
                for (tensor, _), value in zip(outside, before):
                    tensor._v = value
            if name := state.changed():
                # What calls the loop is recorded once more, as it is where a body changes something on the paths that are recorded at first.
                del self.loop.paths[-1]
                state.put_back(self.name)
                raise GuardError(f"{self.name} changes {name} on a path that was not recorded")
        return captured

    def _captured(self):
        return np.concatenate([np.reshape(value_of(tensor).astype(np.float64), -1) for tensor, *_ in self.captures] or [np.zeros(0)])

    def _meet(self, carry, iteration, rows, known=None):
        """Record the path of this iteration, of `known` captured values if that is a number; returns these, which otherwise may be more now."""
        if self.loop is not None and len(self.loop.paths) == self.limit:
            before, last = (path.tape.guards for path in (self.loop.paths[-2:] * 2)[:2])
            guard = next((new for old, new in zip(before, last) if old.seen != new.seen), last[-1] if last else None)
            raise GradientError(
                f"{self.name} has taken {self.limit} paths, and takes another one in iteration {iteration}: it decides on values, the last time at "
                f"{guard.place}: {advice(guard.how)}. Or raise tg.config.paths" if guard else
                f"{self.name} fails in iteration {iteration}: a step of its derivative is NumPy's, which raises there (the second derivative of a determinant "
                "of numbers that are not finite)"
            )  # fmt: skip
        element = rows[len(rows) - 1 - iteration if self.reverse else iteration] if self.element is not None else np.zeros(0)
        tape, places, results, stops = recorded(
            self.function, self.carry, self.element, (np.array(carry), np.array(element)), self.captures, self.name
        )
        if known is not None and len(self.captures) > known:
            # Of the others it is not known what they are here.
            del self.captures[known:]
            raise GuardError(f"{self.name} takes a path in iteration {iteration} that uses more from outside than those that were recorded")
        if self.loop is None:
            self.results = results
            self._begin(results.size)
        before = self.results
        if results.structure != before.structure or [shape for shape, _ in results.leaves] != [shape for shape, _ in before.leaves]:
            raise StructureError(f"{self.name} returns {results} where it has returned {before}; return the same containers and shapes each time")
        # As those of arrays that are stacked.
        widened = [(shape, np.result_type(a, b).char) for (shape, a), (_, b) in zip(before.leaves, results.leaves)]
        if known is not None and widened != before.leaves:
            raise GuardError(f"{self.name} returns {results} in iteration {iteration} where it has returned {before} when it was recorded")
        before.leaves = widened
        inputs = [(base, 0) for base, layout in ((CARRY, self.carry), (ELEMENT, self.element)) if layout is not None and layout.size]
        inputs += [(CAPTURED, 8 * at) for at in places]
        shapes = [(self.carry.size,), *(shape for shape, _ in results.leaves)]
        at = 8 * self.loop.rows * np.cumsum([0, *map(math.prod, shapes[1:])])
        outputs = [(NEXT, 0), *((RESULT, int(offset)) for offset in at[:-1])]
        parts, paths = (tape, inputs, outputs, shapes, stops), self.loop.paths
        paths.append(LoopPath.of(*parts) if self.inside else path_of(*parts, paths))
        values = self._captured()
        self.loop.captured = len(values)
        return values

    def _begin(self, width):
        carry = self.carry.size
        rows = (config.memory if self.memory is None else self.memory) // (8 * carry) if carry else 0
        element, bounded, iterations = self.element.size if self.element is not None else 0, self.iterations is not None, self.iterations or 0
        if self.memory is not None and rows < 2 and carry and (not bounded or iterations > max(1, rows)):
            raise OptionError(
                f"memory={self.memory} is too little for {self.name}: two carries have to be kept at least, which are {16 * carry} bytes; "
                f"give memory={16 * carry} or more"
            )
        if not bounded:
            capacity, dense = min(rows // 2, UNKNOWN // max(1, carry)), 0
            room = rows - capacity
        elif iterations <= rows or not carry:
            capacity, dense, room = iterations, 0, 0
        else:
            # Of the first iterations every so many-th, of the last ones all that there is room for.
            room = min(rows // 2, math.isqrt(iterations) + 1)
            capacity, dense = (rows - room, iterations - (rows - 2 * room)) if room else (0, iterations)
        room = max(2, room if carry else UNKNOWN)
        self.loop = RecordedLoop(carry, 0, element, width, iterations, bounded, self.reverse, capacity, dense, room, self.name)


def _are_one(one, other):
    """Whether two tensors are the same result."""
    return one is other or one._t is not None and one._t is other._t and one._i == other._i


#: Numbers in carries that are kept where the number of iterations is not known: of more iterations, every second, fourth, ... one.
UNKNOWN = 2**16


def _rows(leaves, iterations):
    """The leaves side by side, a row for each iteration."""
    parts = [np.reshape(part, (iterations, part.size // iterations if iterations else 0)) for part in map(as_float64, leaves)]
    whole = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)
    return whole if isinstance(whole, Differentiable) else np.ascontiguousarray(whole)


# ---- bodies that are recorded again --------------------------------------------------------

#: Paths of which a thread keeps the layouts; numbers that one may hold in its arrays, and bytes of its constants.
PATHS, NUMBERS, BYTES = 32, 1 << 16, 1 << 16


_PLAIN = {type(None), bool, int, float, str, bytes}


#: Layouts of a thread, `by_key`: by what a path says, the one used last at the end.
_LAYOUTS = threading.local()


def path_of(tape, inputs, outputs, shapes, stops, others):
    """As `LoopPath.of`, with the `layouts` that there are of the same path; of a loop that has the paths `others`."""
    runs_loops = any([hasattr(value, "paths") for item in tape.items if item.entry.kind == ROW for _, value in item.entry.attrs])
    described = None if records_for_jit() or runs_loops else _computed(tape)
    key = described and (tuple(inputs), tuple(outputs), tuple(shapes), stops, *described)
    if key is None or any(other.key == key for other in others):
        return LoopPath.of(tape, inputs, outputs, shapes, stops)
    # (Also of a path that there was: what is laid out of it later is kept, too.)
    constants = [c.copy() if isinstance(c, np.ndarray) else c for c in tape.constants]
    path = LoopPath.of(replace(tape, constants=constants), inputs, outputs, shapes, stops)
    layouts = vars(_LAYOUTS).setdefault("by_key", OrderedDict())
    path.layouts = layouts.setdefault(key, path.layouts)
    if len(layouts) > PATHS:
        layouts.popitem(last=False)
    layouts.move_to_end(key)
    path.key = key
    return path


def _computed(tape):
    """All that a tape computes, hashable; None if it holds objects, or too much."""
    numbers = sum([meta.size for meta in tape.metas if meta is not SCALAR and meta is not None])
    if numbers > NUMBERS or sum([c.nbytes for c in tape.constants if isinstance(c, np.ndarray)]) > BYTES:
        return None
    items = []
    for item in tape.items:
        entry = item.entry
        function = entry.function
        if entry.kind == ROW:
            attrs = [(name, repr(value) if _is_plain(value) else None) for name, value in entry.attrs]
            if function.primitive is not None or any([value is None for _, value in attrs]):
                return None
        elif entry.kind != GUARD:
            function, attrs = function.ufunc or _host(function), ()
            if function is None or entry.attrs:
                return None
        else:
            attrs = ()
        items.append((item.slot, entry.kind, function, tuple(attrs), item.operands, entry.differentiable, entry.integer, item.number))
    constants = tuple(map(_value, tape.constants))
    outputs = tuple([(slot, what if slot else _value(what)) for slot, what in tape.outputs])
    if None in constants or any(what is None for _, what in outputs):
        return None
    records = tape.records
    leaves = records["op"] == SCALAR_LEAF
    # Those of arguments are written by who runs it.
    leaves[[slot for *_, slot in tape.elements]] = False
    words = b"".join([np.ascontiguousarray(records[name]).tobytes() for name in ("op", "a", "b", "integer")])
    guards = tuple([(g.slot, g.how, g.seen) for g in tape.guards])
    return (
        words, records["value"][leaves].tobytes(), tuple(items), constants, outputs, guards, tuple(tape.inputs), tuple(tape.leaves),
        tuple(tape.elements), tuple(tape.metas), tape.special, tape.wanted, tape.forward_only, tape.of_iteration,
    )  # fmt: skip


def _host(call):
    """A function of our own, called on its operands only, by its name; else None."""
    function = call.function
    return (function.name, repr(function.data)) if call.plain and isinstance(function, HostFunction) and _is_plain(function.data) else None


def _is_plain(value):
    """Whether an attribute is data, which is equal to what says the same."""
    return type(value) in _PLAIN or type(value) is tuple and (_PLAIN.issuperset(map(type, value)) or all(map(_is_plain, value)))


def _value(what):
    """A constant, to the last bit; None for one that is neither number nor array."""
    what = getattr(what, "_v", what)
    if what is None or isinstance(what, (str, bytes)):
        return None
    array = np.asarray(what)
    return None if array.dtype.hasobject else (type(what) is float, array.shape, array.strides, array.dtype.str, array.tobytes())
