"""A function run once on a tape of its own, and swept many times afterwards.

`Recording` is what `tg.vjp`, `tg.linearize` and `tg.compare` work on, and the base of what `tg.jacobian` replays
(`program.swept`): the tape of one call, its inputs and outputs by slot.  `columns` and `rows` carry chunks of
unit seeds through it, up or down (`interpreter.tangent`).
"""

from __future__ import annotations

import contextlib

import numpy as np

from ..array.differentiable import Differentiable
from ..array.dual import Dual
from ..array.record import follow_forwarding, nesting_error, normalise, tracked
from ..array.tensor import Tensor, tensor
from ..common.dtypes import check_derivative, check_dtype, readable
from ..common.errors import HigherOrderError, ModifiedInPlaceError, NestingError, StructureError
from ..common.tree import flatten, leaf_names, unflatten
from ..interpreter.plan import Signature
from ..interpreter.walks import walks
from ..tape.layout import ARRAY_LEAF, FIRST_ARRAY, MARK
from ..tape.meta import SCALAR, meta_of
from ..tape.modes import enable_grad
from ..tape.places import function_name, name_of
from ..tape.store import thread_state
from .backward import Pass
from .gradients import grad
from .tape import Tape

#: Seeds that one sweep carries, at most.
MOST_LANES = 16
#: Words of the lanes of one sweep, at most (2**25 are 256 MB).
MOST_WORDS = 1 << 25


def check_result(result, store, what, differentiated=True, plain=False):
    """Refuse results that carry no derivative where one is wanted, and those that lie on another tape than `store`.

    With `plain` results that depend on nothing may be of any dtype.
    """
    if isinstance(result, Differentiable):
        if result.__class__ is Dual:
            raise nesting_error(what)
        if result._t is not None and result._t is not store and follow_forwarding(result) is not store:
            raise nesting_error(what)
        if differentiated:
            check_derivative(result, what)
    elif differentiated:
        if result is None:
            raise StructureError(f"{what} is None: does the function return what it computes?")
        if isinstance(result, (str, bytes)) or callable(result):
            raise StructureError(
                f"{what} is not a number or an array but of type {type(result).__name__}; return numbers, arrays, or "
                "containers of them (with has_aux=True a pair of such, and anything else)"
            )
        array = np.asarray(result)
        if array.dtype.kind == "O":
            raise StructureError(f"{what} is of type {type(result).__name__}, which holds Python objects, not numbers")
        check_dtype(array, what)
        if not plain:
            check_derivative(result, what)


def as_plain(value):
    """A result as plain NumPy has it; scalars as ``numpy.float64``."""
    return np.float64(value) if type(value) is float else value


def input_of(value, what):
    """A leaf with a copy of `value`."""
    if tracked(value):
        raise HigherOrderError(
            f"{what} is a tensor that requires a gradient: the derivative of this function is computed by a sweep and "
            "would not be recorded. Pass its value (x.detach()), or use forward mode (tg.jvp, tg.jacfwd) outside"
        )
    return tensor(value, requires_grad=True)


@contextlib.contextmanager
def differentiating(leaves):
    """While a function runs on `leaves`: functional derivatives inside may not take them for constants."""
    state = thread_state()
    before, state.variables = state.variables, (*state.variables, *leaves)
    try:
        yield
    finally:
        state.variables = before


def refuse_outer(store):
    """Raise if a leaf of a function that is being differentiated outside was used on `store`."""
    variables = thread_state().variables
    if variables:
        outer = {id(leaf) for leaf in variables}
        if any(id(reference()) in outer for _, reference, _ in store.leaf_list):
            raise nesting_error("a number that the function uses without having it as an argument")


def refuse_captured(store, own, function):
    """Raise if a leaf was used on `store` that requires a gradient, and is none of `own` (slots): it would count as a constant."""
    for slot, reference, _ in store.leaf_list:
        leaf = reference()
        if slot not in own and leaf is not None and leaf._r and not (leaf._x is not None and leaf._x.past):
            raise NestingError(captured_message(leaf, function))


def captured_message(leaf, function):
    """What to say of a tensor that requires a gradient, and is used by a function without being one of its arguments."""
    name = name_of(leaf) or next((n for n, t in _closure(function) if t is leaf), None)
    which = f"{name!r}, a tensor" if name else "a tensor"
    return (
        f"{which} of shape {tuple(leaf.shape)} that requires a gradient, is used by {function_name(function)} without being one of "
        "its arguments: the result would not depend on it. Pass it as an argument; if it is to count as a constant, pass its "
        "value (.detach()) or call under tg.no_grad()"
    )


def _closure(function):
    """Names and values of the variables that a function has from outside."""
    code = getattr(function, "__code__", None)
    cells = zip(code.co_freevars, function.__closure__ or ()) if code is not None else ()
    return [(name, cell.cell_contents) for name, cell in cells]


class Sweeps:
    """A stretch of tape with its inputs and outputs, swept up or down with any number of seeds.

    Attributes
    ----------
    store : Store
    marks, low, high
        What a sweep visits (`interpreter.walks`).
    inputs, outputs : list of Port
    primitive : str
        The custom primitive whose rules run in Python, at which the compiled sweeps cannot stop; empty if there is none.
    """

    primitive = ""

    def __init__(self, store, marks, low, high, inputs, outputs):
        self.store, self.marks, self.low, self.high, self.inputs, self.outputs = store, marks, low, high, inputs, outputs

    def check(self):
        """Raise if something that a sweep reads has changed since."""

    def compressed(self):
        """What makes a sparse Jacobian cheaper (`tapegrad.program.sparsity.compressed`): nothing is known of one recording."""
        return None

    def lanes(self, seeds):
        """How many seeds to carry at once, out of `seeds`."""
        count = 1
        while count < min(seeds, MOST_LANES) and (self.high + 1) * count * 2 <= MOST_WORDS:
            count *= 2
        return count

    def columns(self):
        """Forward mode: for each output an array (inputs, elements of the output)."""
        if self.primitive:
            whole = np.concatenate(self.rows(), axis=1).T
            ends = np.cumsum([p.size for p in self.outputs])
            return [part.astype(p.char) for part, p in zip(np.split(whole, ends[:-1], axis=1), self.outputs)]
        return self._units(True)

    def rows(self):
        """Reverse mode: for each input an array (outputs, elements of the input)."""
        if self.primitive:
            units = np.eye(sum(p.size for p in self.outputs))
            rows = [self.pull(self._split(unit)) for unit in units]
            return [np.array([np.ravel(r[k]) for r in rows]).reshape(len(units), p.size).astype(p.char) for k, p in enumerate(self.inputs)]
        return self._units(False)

    def _split(self, vector):
        """A vector as one normalised value for each output."""
        ends = np.cumsum([p.size for p in self.outputs])
        parts = np.split(vector, ends[:-1])
        return [normalise(part.reshape(p.shape).astype(p.char)) for part, p in zip(parts, self.outputs)]

    def push(self, tangents):
        """The tangents of the outputs for one tangent of each input (normalised values)."""
        if self.primitive:
            vector = np.concatenate([np.ravel(t) for t in tangents])
            return self._shaped([vector @ matrix for matrix in self.columns()], self.outputs)
        return self._shaped(self.many(True, [prepared(self.inputs, tangents)]), self.outputs)

    def pull(self, cotangents):
        """The adjoints of the inputs for one adjoint of each output (normalised values)."""
        if not self.primitive:
            return self._shaped(self.many(False, [prepared(self.outputs, cotangents)]), self.inputs)
        # A rule runs in Python: an ordinary backward pass.
        leaves, results = self._tensors
        pairs = [(t, tensor(c)) for t, p, c in zip(results, self.outputs, cotangents) if p.slot]
        roots, seeds = zip(*pairs)
        gradients = grad(list(roots), leaves, list(seeds), retain_graph=True, allow_unused=True)
        return self._shaped([np.zeros(p.size) if g is None else np.asarray(g._v) for p, g in zip(self.inputs, gradients)], self.inputs)

    @staticmethod
    def _shaped(values, ports):
        return [as_plain(normalise(v.reshape(p.shape).astype(p.char))) for v, p in zip(values, ports)]

    def many(self, forward, directions):
        """Matrices (directions, elements) of the outputs (`forward`) or inputs, for several seeds of the others.

        Parameters
        ----------
        forward : bool
        directions : list
            Each as `prepared` makes it, of the inputs (`forward`) or outputs.
        """

        def seed(sweep, start, stop):
            for lane, (numbers, values, arrays) in enumerate(directions[start:stop]):
                sweep.seed_numbers(numbers, lane, values)
                for slot, value in arrays:
                    sweep.seed(slot, lane, value)

        return self._swept(forward, len(directions), seed)

    def _units(self, forward):
        """`many` for all unit vectors."""
        ports = self.inputs if forward else self.outputs
        pieces = pieces_of(ports)
        begins, ends = np.array([[begin, begin + size] for begin, size, *_ in pieces], np.int64).reshape(-1, 2).T

        def seed(sweep, start, stop):
            for k in np.flatnonzero((begins < stop) & (ends > start)).tolist():
                begin, size, slot, meta = pieces[k]
                first, last = max(start, begin), min(stop, begin + size)
                sweep.seed_units(slot, meta, first - start, last - first, first - begin)

        return self._swept(forward, sum(p.size for p in ports), seed)

    def _swept(self, forward, count, seed):
        """Sweep with `count` seeds, some at once: ``seed(sweep, start, stop)`` sets a few."""
        targets = self.outputs if forward else self.inputs
        matrices = [np.zeros((count, p.size), p.char) for p in targets]
        collected, sweep = _Collected(targets, matrices), self.sweep(forward, self.lanes(count))
        used = self._ports() if forward else self._leaves()
        try:
            for start in range(0, count, sweep.count):
                stop = min(start + sweep.count, count)
                seed(sweep, start, stop)
                sweep.run()
                sweep.collect(collected.targets, start, stop - start)
                sweep.forget(used)
        finally:
            sweep.close()
        collected.finish()
        return matrices

    def sweep(self, forward, lanes):
        """A sweep that carries so many seeds, up or down."""
        from ..interpreter.tangent import Adjoints, Tangents

        self.check()
        if forward:
            return Tangents(self.store, self.marks, self.low, self.high, lanes, self._ports().tolist())
        return Adjoints(self.store, self.marks, self.low, self.high, lanes)

    def _ports(self):
        """Slots of inputs and outputs."""
        return np.array(sorted({slot for p in self.inputs + self.outputs for _, _, slot, _ in p.pieces}), np.int64)

    def _leaves(self):
        """Slots at which adjoints arrive."""
        return np.array(sorted(slot for slot, _, _ in self.store.leaf_list if slot <= self.high), np.int64)


class Recording(Sweeps):
    """One call of a function.

    Parameters
    ----------
    f : callable
    args : tuple
        All positional arguments.
    argnums : tuple of int
        Which of them are inputs to differentiate with respect to: numbers, arrays, or containers of them.
    kwargs : dict
        Passed on.

    Attributes
    ----------
    inputs, outputs : list of Port
        The leaves of the arguments and of the result.
    structures : list of Structure
        Of each argument.
    structure : Structure
        Of the result.
    """

    def __init__(self, f, args, argnums, kwargs=None):
        args = list(args)
        leaves = []
        self.structures = []
        for k in argnums:
            parts, structure = flatten(args[k])
            parts = [input_of(p, f"argument {k}{name}") for p, name in zip(parts, leaf_names(structure))]
            args[k] = unflatten(structure, parts)
            self.structures.append(structure)
            leaves += parts
        keys = [leaf._k for leaf in leaves]
        with enable_grad(), Tape() as tape, differentiating(leaves):
            result = f(*args, **(kwargs or {}))
        self.store = store = tape.store
        refuse_outer(store)
        results, self.structure = flatten(result)
        for output, name in zip(results, leaf_names(self.structure)):
            check_result(output, tape.store, f"the result{name}")
        # A leaf that was changed in place is another leaf to the store.
        self.inputs = [Port(leaf._v, store.enter(leaf)) for leaf in leaves]
        self.outputs = [self._output(output) for output in results]
        roots = sorted({p.slot for p in self.outputs if p.interior})
        if roots:
            swept = Pass(store, [(slot, None) for slot in roots], None)
            swept.check()
            self.check, self.marks, self.low = swept.check, swept.marks, swept.low
        else:
            self.marks, self.low = walks.load().new_marks(store), 1
        self.high = max([1, *(p.slot for p in self.inputs + self.outputs)])
        self.primitive = self._primitive()
        if self.primitive:
            if [leaf._k for leaf in leaves] != keys:
                raise ModifiedInPlaceError(
                    f"the function changes an argument in place and calls the custom primitive {self.primitive!r}; "
                    "let it change a copy"
                )
            self._tensors = leaves, results
        #: What `costs.predict` found, once it was asked.
        self.prediction = None

    def refuse_captured(self, function):
        """Raise if the function used a tensor that requires a gradient, and is no argument."""
        refuse_captured(self.store, {p.slot for p in self.inputs}, function)

    def _primitive(self):
        records = self.store.records()
        ops = records["op"][self.marks[: len(records)] == MARK]
        numbers = np.unique(ops[(ops >= FIRST_ARRAY) & (ops < ARRAY_LEAF)]) - FIRST_ARRAY
        return next((Signature.ALL[k].row.name for k in numbers.tolist() if Signature.ALL[k].in_python), "")

    def _output(self, result):
        if not isinstance(result, Tensor):
            return Port(normalise(readable(np.asarray(result))), 0)
        if result._t is not None:
            return Port(result._v, result._i, True)
        return Port(result._v, self.store.leaves.get(result._k, 0) if result._r else 0)


def _by_slot(ports, seeds):
    """Slot -> its seed, from one seed per port."""
    by_slot = {}
    for p, seed in zip(ports, seeds):
        numbers = np.ravel(seed).tolist() if p.elements else [seed]
        for begin, _, slot, meta in p.pieces:
            part = float(numbers[begin]) if meta is SCALAR else seed
            by_slot[slot] = part if slot not in by_slot else by_slot[slot] + part
    return by_slot


def prepared(ports, seeds):
    """One direction: slots and values of the numbers that are not zero, and (slot, array) pairs."""
    by_slot = _by_slot(ports, seeds)
    numbers = [(slot, seed) for slot, seed in by_slot.items() if type(seed) is float and seed]
    arrays = [(slot, seed) for slot, seed in by_slot.items() if type(seed) is not float and seed.any()]
    return np.array([s for s, _ in numbers], np.int64), np.array([v for _, v in numbers]), arrays


class Port:
    """An input or output.

    Parameters
    ----------
    value : float or ndarray
    slot : int
        0: it is not on the tape as a whole.
    interior : bool
        Whether it is a computed result.
    elements : sequence of (int, int)
        Flat position and slot of each element that the tape reads by itself.
    """

    def __init__(self, value, slot, interior=False, elements=()):
        self.value, self.slot, self.interior = value, slot, interior
        self.meta = SCALAR if type(value) is float else meta_of(value)
        self.shape, self.size = self.meta.shape, self.meta.size
        self.char = self.meta.char if self.meta.char in "df" else "d"
        self.elements = sorted(elements)
        #: What it is on the tape: (first element, size, slot, description).
        self.pieces = [(0, self.size, slot, self.meta)] if slot and self.size else []
        self.pieces += [(position, 1, element_slot, SCALAR) for position, element_slot in self.elements]


def pieces_of(ports):
    """The pieces of several ports, as if they were one vector, in its order."""
    pieces, at = [], 0
    for p in ports:
        pieces += [(at + begin, size, slot, meta) for begin, size, slot, meta in p.pieces]
        at += p.size
    return sorted(pieces, key=lambda piece: piece[0])


class _Collected:
    """Where a sweep's results for `ports` go: to matrices of rows; elements by way of others, and are added."""

    def __init__(self, ports, rows):
        from ..interpreter.tangent import targets_of

        whole = targets_of([(p.slot, p.meta, r) for p, r in zip(ports, rows)])
        parts, self.apart = [whole], []
        for p, r in zip(ports, rows):
            if p.elements and r.size:
                positions, slots = np.array(p.elements, np.int64).T
                apart = np.zeros((len(r), len(slots)))
                words = np.zeros((len(slots), 4), np.int64)
                words[:, 0], words[:, 3] = slots, apart.strides[0]
                words[:, 2] = apart.ctypes.data + 8 * np.arange(len(slots))
                parts.append(words)
                self.apart.append((r, positions, apart))
        self.targets = np.concatenate(parts) if len(parts) > 1 else whole

    def finish(self):
        """Add what was collected by elements."""
        for rows, positions, apart in self.apart:
            rows[:, positions] += apart
