"""What a functional recording notes beyond the records of its store.

In define-by-run a tape keeps what the adjoints read.  A recording that is to be
replayed at other points keeps what the *values* depend on: every operand of every
operation (`Entry`), results without a derivative (comparisons, positions), and
each time Python learned something from a value (`bool(t)`, `t.item()`, an index):
a *guard*, with what was seen.  A replay at a point where a guard sees something
else would follow the wrong path; it stops there.

Scalar instructions on float64 need no entry: their records say everything.  ``y = 2.0 * x[0] if x[0] > 1.0 else ...`` leaves::

    slot  record      entry
    1     leaf                                          x
    2     traced      row     select, operands (1,)     x[0]
    3     traced      host    greater, operands (2, -1) -1 is the constant 1.0
    4     traced      guard   bool, operands (3,)       seen: True
    5     multiply            none                      2.0 * %2: what was read is not read again

A `Trace` hangs on the store while `transforms.replay.running` calls the function.
"""

import sys
from _thread import get_ident

import numpy as np

from ..array.differentiable import below
from ..array.dual import Dual
from ..array.record import current_body, nesting_error, normalise, of_another_thread, plain, tracked
from ..array.record import live as live_tensor
from ..array.tensor import Tensor
from ..autograd.custom.calls import Call
from ..codegen.ufuncs import is_elementwise
from ..common.dtypes import check_class, readable
from ..common.errors import GradientError, GuardError, reason, require
from ..common.host_functions import HostFunction, host_function
from ..common.tree import mapped, parts_of
from ..interpreter.fields import place
from ..interpreter.planner import ITEMSIZE
from ..rules import BY_NAME
from ..tape.layout import ARRAY_LEAF, SCALAR, SCALAR_LEAF, TRACED, meta_of
from ..tape.modes import no_grad
from ..tape.places import PACKAGE, Place, caller_frame
from .handlers import ERRORS, catcher

#: Kinds of entries.
ROW, HOST, GUARD = "row", "host", "guard"
#: How a guard on the shape of a host function's result is named.
SHAPE = "shape"
#: How a guard is named that a row which may raise did not.
FAILS = "failure"
#: NumPy functions without derivative whose result has the same shape whatever the values are.
_FIXED_SHAPE = frozenset(
    "all any argmax argmin nanargmax nanargmin argsort argpartition lexsort digitize searchsorted isin isreal iscomplex "
    "isposinf isneginf count_nonzero array_equiv matrix_rank".split()
)
#: Guards that ask for less than the whole value: what may be looked at in a user's primitive that is recorded through.
DECISIONS = ("bool", FAILS, SHAPE)
#: Ways of reading a value that cut its derivative on purpose.
_CUTS = ("item()", "numpy()", "tolist()")
#: Modules whose functions detach for their callers.
_DETACHING = {f"tapegrad.{name}" for name in ("array.tensor", "array.complex", "autograd.custom")}


class Entry:
    """One thing a replay does that a scalar record cannot say.

    Attributes
    ----------
    kind : str
        ``"row"`` (a row of the rules table), ``"host"`` (a NumPy function without
        derivative) or ``"guard"``.
    function : Row or callable or str
        For a guard: how the value was read.
    attrs : tuple of (str, object)
        Attributes of the row, or keyword arguments of the function.
    operands : tuple of int
        Slots; negative numbers count the trace's constants from -1.
    differentiable : bool
        Whether the adjoint passes (not under ``no_grad``, through ``detach``, or for a host function).
    integer : int
        The dynamic attribute of the row.
    seen : bytes
        For a guard: the value that was seen.
    meta : Meta
        Description of the result.
    """

    __slots__ = ("kind", "function", "attrs", "operands", "differentiable", "integer", "seen", "meta")

    def __init__(self, kind, function, attrs, operands, differentiable, integer, meta, seen=None):
        self.kind, self.function, self.attrs, self.operands = kind, function, attrs, operands
        # Of a result only the description: a value kept here would be copied at each indexed assignment.
        self.differentiable, self.integer, self.meta, self.seen = differentiable, integer, meta, seen

    @property
    def name(self):
        """The word for it in listings."""
        if self.kind == ROW:
            return self.function.name
        return self.function if self.kind == GUARD else getattr(self.function, "__name__", str(self.function))


class Constants(list):
    """Floats, each of which is there once, and arrays; what refers to them names them by negative numbers, from -1."""

    def __init__(self, values=()):
        super().__init__(values)
        self._floats = {}

    def add(self, value):
        """Add a constant; returns its number."""
        if value.__class__ is not float:
            self.append(value)
            return -len(self)
        if value.hex() not in self._floats:
            self.append(value)
            self._floats[value.hex()] = -len(self)
        return self._floats[value.hex()]


class Trace:
    """The entries of one recording.

    Parameters
    ----------
    store : TapeStore
        Where the scalar instructions go.
    captured : dict of int to ndarray
        Arrays the function captured, by id: a replay reads them where they are.
    leaves : list of Tensor
        Leaves it met, kept until it is finished.
    cannot : str
        Why the recording cannot be replayed; empty if it can.
    """

    #: 0; of the body of a loop, how many bodies it is inside of, and 1: what it finds outside becomes an argument of its tape.
    depth = 0
    #: Whether it is for one call: loops raise what `np.errstate` says then.
    once = False
    #: Whether it is finished: values of its tensors are those of that call.
    done = False

    def __init__(self, store, captured=None):
        self.store = store
        store.trace, store.runs_at = self, 0
        self.entries, self.constants, self.captured = {}, Constants(), captured or {}
        self.cuts, self.cannot = [], ""
        self.input_slots, self.input_metas, self.input_values = [], [], []
        self._copies, self.leaves, self._carrying = {}, [], [False]
        #: Slots of arguments through which no derivative passes.
        self.still = set()
        #: While a derivative is recorded on this tape too (`tapegrad.higher`): operands and results of array entries.
        self.keeping, self.kept = 0, {}
        #: Whether one was asked for without them.
        self.unkept = False
        #: Tapes of rules of custom primitives that several calls have in common (`program.through`).
        self.shared = {}
        #: Slots of the variables of these derivatives.
        self.variables = set()
        #: Slot -> value, of entries whose result is a number.
        self.numbers = {}
        #: Slot of an array and position -> slot of that element.
        self.read = {}
        #: Whose frame the recorded function is called from; the code that has recorded last (`plain`, if it handles no exception),
        #: its caller, and where that stood.
        self._base = _caller_of_ours(sys._getframe(1))
        self._code = self.caller = self.plain = None
        self.offset = -1

    # -- inputs -----------------------------------------------------------------
    def enter(self, value):
        """A live tensor that stands for an argument; its slot is a leaf."""
        t = self._leaf(value)
        self.input_slots.append(t._i)
        # Replays are given it row by row.
        self.input_metas.append(meta_of(np.ascontiguousarray(t._v) if np.ndim(t._v) else t._v))
        self.input_values.append(t._v)
        return t

    def variable(self, value):
        """A live tensor for a constant with respect to which a derivative inside is taken."""
        t = self._leaf(value)
        self.variables.add(t._i)
        return t

    def inside(self, t):
        """A tensor with respect to which a derivative inside is taken, as one that is differentiated on this tape."""
        return t

    def _leaf(self, value):
        t = live_tensor(normalise(value))
        t._k = object()
        place(t, self.store, self.store.enter(t))
        if t._v.__class__ is not float:
            t._m = meta_of(t._v)
        return t

    def is_argument(self, t):
        """Whether `t` is an argument as it was given."""
        return t._t is self.store and t._i in self.input_slots

    def carries(self, slot):
        """Whether define-by-run would have the value of `slot` on its tape: it depends differentiably on an argument."""
        marks = self._carrying
        if slot >= len(marks):
            records = self.store.records()
            start, stop = len(marks), slot + 1
            ops, lefts, rights = (records[name][start:stop].tolist() for name in ("op", "a", "b"))
            whole = self.still.union(slot for slot, meta in zip(self.input_slots, self.input_metas) if meta.char not in "df")
            for i, op, a, b in zip(range(start, stop), ops, lefts, rights):
                entry = self.entries.get(i)
                if entry is not None:
                    own = entry.kind == ROW and entry.differentiable and entry.meta.char in "df"
                    slots = entry.function.slots(len(entry.operands)) if own else ()
                    marks.append(i in self.variables or any(entry.operands[k] > 0 and marks[entry.operands[k]] for k in slots))
                else:
                    leaf = op in (SCALAR_LEAF, ARRAY_LEAF) and i not in whole
                    marks.append(leaf or i in self.variables or marks[a] or marks[b])
        return marks[slot]

    def captured_leaves(self):
        """Tensors that require a gradient and are no arguments, if any were used; not those to which nothing else refers any more."""
        self.caller = None
        arguments, probe = self.variables.union(self.input_slots), [object()]
        alone = sys.getrefcount(probe[0])
        slots = [slot for slot, _, _ in self.store.leaf_list]
        # Asked in place: a name of it would be one more reference.
        held = [k for k, slot in enumerate(slots) if slot not in arguments and sys.getrefcount(self.leaves[k]) > alone]
        return [self.leaves[k] for k in held]

    # -- entries ------------------------------------------------------------------
    def note(self, row, attrs, operands, values, metas, integer, value):
        """Note an operation on rows that is about to be written to the next slot; returns the description of its result.

        Without descriptions `metas` of the operands no derivative passes through it.
        """
        if row.effect == "write" and not any([isinstance(o, Tensor) and o._t is self.store for o in (operands[0], *operands[2:])]):
            # The constant has been written to already: what was written is no part of it.  (Not at places that are computed.)
            values = [row.value(values[0], np.zeros_like(values[1]), *values[2:], **row.keywords(attrs, integer)), *values[1:]]
        if row.primitive is not None:
            if not row.primitive.replayed:
                self.cannot = f"it calls {row.name!r}, which keeps something of the recorded point"
            # The call itself is no operand with a slot; its first one stands for it.
            attrs = (*attrs, ("call", operands[0]))
            operands[0].recorded = [*values[1 : 1 + operands[0].count], value], self.captured, self.shared
        store = self.store
        references = tuple([
            o._i if o.__class__ is Tensor and o._t is store else 0 if o.__class__ is Call else self._reference(o, v)
            for o, v in zip(operands, values)
        ])  # fmt: skip
        slot = store.length
        meta = self._described(value)
        self.entries[slot] = Entry(ROW, row, attrs, references, metas is not None, integer, meta)
        if value.__class__ is float:
            self.numbers[slot] = value
        if self.keeping and metas is not None:
            # (Of an array that may be written to later, the recording has a copy.)
            self.kept[slot] = ([v if r >= 0 else self.constants[-1 - r] for v, r in zip(values, references)], metas, value)
        return meta

    def record(self, row, attrs, operands, values, integer, value):
        """Note and write an operation through which no derivative passes; returns its tensor."""
        self._room()
        return self._write(value, self.note(row, attrs, operands, values, None, integer, value))

    def host(self, function, args, kwargs, value):
        """Note a function without derivative; returns its result as a live tensor.

        What is no array of numbers is returned as it is: a bool behind a guard on itself, a string or a list behind one on the operands.
        """
        if isinstance(value, tuple):
            return tuple(self.host(ResultOf(function, k), args, kwargs, v) for k, v in enumerate(value))
        value = value._v if isinstance(value, Tensor) else value
        if isinstance(value, bool):
            return bool(self.host(function, args, kwargs, np.asarray(value)))
        if not isinstance(value, (np.ndarray, np.generic)) or np.asarray(value).dtype.kind not in "bifu":
            for operand in parts_of((args, kwargs), (Tensor, Dual)):
                self.exact(below(operand), getattr(function, "__name__", "a function"))
            return value
        live = []
        if is_elementwise(function) and not kwargs:
            args = _promoted(args)
        layout = tuple([_replaced(a, live) for a in args]), {k: _replaced(v, live) for k, v in kwargs.items()}
        if self.store.thread.ident != get_ident():
            raise of_another_thread(value)
        self._room()
        references = tuple([self._reference(t, t._v) for t in live])
        value = normalise(value)
        meta = self._described(value)
        if meta is SCALAR:
            self.numbers[self.store.length] = value
        self.entries[self.store.length] = Entry(HOST, HostCall(function, layout), (), references, False, 0, meta)
        t = self._write(value, meta)
        if not isinstance(function, np.ufunc) and _shape_may_change(function):
            self._guard(t, SHAPE, np.array(np.shape(value), np.int64).tobytes())
        return t

    def refused(self, why):
        """An error after which the function is run plainly."""
        self.cannot = self.cannot or why
        return GradientError(why)

    def _described(self, value):
        """The description of a result, of a dtype that instructions know."""
        meta = meta_of(value)
        if meta.char not in ITEMSIZE:
            raise self.refused(f"it computes in {meta.dtype}; convert its operands with .astype(float) (functions of integers of 8 bits give float16)")
        return meta

    def through(self, body, value):
        """`body()`, recorded without derivative, in a list, and "".  Or an empty one, and why it cannot be part of the recording."""
        start, before = self.store.length, (self.cannot, self.unkept, self.cuts)
        self.cannot, self.unkept, self.cuts = "", False, []
        try:
            with no_grad():
                result = body()
                if isinstance(result, Tensor) and result._i < start:
                    result = self.apart(result)
            why = self.cannot or not_in_instructions(self.entries, [result], [value], start)
        except Exception as error:
            why = reason(error)
        self.cannot, self.unkept, self.cuts = before
        # An element read here has no derivative.
        self.read = {key: slot for key, slot in self.read.items() if slot < start}
        if why:
            self.entries = {slot: e for slot, e in self.entries.items() if slot < start}
        return ([] if why else [result]), why

    def detached(self, t):
        """``t.detach()``: the same value, through which no derivative passes."""
        frame = sys._getframe(2)
        while frame.f_globals.get("__name__") in _DETACHING:
            frame = frame.f_back
        if not frame.f_code.co_filename.startswith(PACKAGE):
            self.cuts.append(("detach", Place(frame.f_code, frame.f_lasti)))
        return self.apart(t)

    def apart(self, t):
        """`t` as a value through which no derivative passes."""
        if not isinstance(t, Tensor) or t._t is not self.store or np.asarray(t._v).dtype.kind != "f":
            return t
        return self.record(BY_NAME["clone"], (), (t,), (t._v,), 0, t._v if t._v.__class__ is float else t._v.copy())

    def truth(self, t):
        """``bool(t)``: a guard on the truth value."""
        seen = bool(t._v)
        if self._is_open():
            self._guard(t, "bool", np.asarray(seen).tobytes())
        return seen

    def exact(self, t, how):
        """A guard on the whole value of `t`; returns the value."""
        if self._is_open() and t._t is self.store:
            self._guard(t, how, np.asarray(t._v).tobytes())
            if how in _CUTS and self.carries(t._i):
                self.cuts.append((how, self.store.place(self.store.length - 1)))
        return t._v

    def _is_open(self):
        if self.done and (not self.store.retired or current_body() is not None):
            raise GuardError("a value of an earlier call is needed: a body that is recorded during a replay branches on a number that is not its operand")
        return not self.store.retired

    def _guard(self, t, how, seen):
        self._room()
        self.entries[self.store.length] = Entry(GUARD, how, (), (t._i,), False, 0, None, seen)
        self._append()

    # -- exceptions -----------------------------------------------------------------
    def notice(self, frame):
        """An operation in `frame` is about to be recorded: look whether a floating-point error that it may raise could be caught."""
        code = frame.f_code
        if code is not self._code:
            self._code = code
            self.store.runs.append(self.store.length)
            self.store.codes.append(code)
        caller, guarded = frame.f_back, frame.f_code.co_exceptiontable
        # The outermost frame has no caller, nor has the place where a rule records, of which nothing raises.
        offset = -1 if caller is None else caller.f_lasti
        if self.cannot or caller is not None and caller is self.caller and offset == self.offset and not guarded:
            return
        self.caller, self.offset = caller, offset
        self.plain = None if caller is None or guarded else frame.f_code
        self.cannot = "" if frame.__class__ is Place else catcher(frame, self._base) or ""

    def succeeded(self, t):
        """A row that may raise has given `t`."""
        self._guard(t, FAILS, b"\0")

    def failed(self, error, row, operands, values, attrs=(), integer=0):
        """NumPy has raised `error`, which the function may catch: that it does is part of the path."""
        self.notice(caller_frame())
        if isinstance(error, ERRORS):
            return
        if row is not None and row.raises and isinstance(error, np.linalg.LinAlgError):
            test = fails(row.name, (*attrs, (row.dynamic, integer)) if row.dynamic else attrs)
            self.truth(self.host(test, [o if isinstance(o, Tensor) else np.asarray(v) for o, v in zip(operands, values)], {}, np.True_))
            return
        for operand in parts_of(operands, Tensor):
            self.exact(operand, "that it fails")

    # -- writing ------------------------------------------------------------------
    def _room(self):
        store = self.store
        if store.length + 4 >= store.limit:
            store.make_room()

    def _append(self, number=0.0):
        """Write the record of an entry, whose result may be a number; returns its slot."""
        store = self.store
        frame = store.calling or caller_frame()
        if id(frame.f_code) != store.running:
            store.note_code(frame)
        return store.append(TRACED, 0, 0, frame.f_lasti, number, 0)

    def _write(self, value, meta):
        t = live_tensor(value)
        if value.__class__ is not float:
            t._m = meta
        place(t, self.store, self._append(value if value.__class__ is float else 0.0))
        return t

    def _reference(self, operand, value):
        if isinstance(operand, Tensor) and operand._t is self.store:
            return operand._i
        if tracked(operand) and (operand._t is not None and not operand._t.retired or operand.__class__ is Dual or self.depth):
            return self.captured_slot(operand)
        return self.constants.add(value) if value.__class__ is float else self._array(value)

    def captured_slot(self, operand):
        """The slot of a number of another recording: there is none."""
        raise nesting_error("an operand of an operation")

    def _array(self, value):
        """The number of a constant: an array that the function captured, or a copy of any other one."""
        copy = self._copies.get(id(value))
        if copy is not None and copy[0] is value and _same(self.constants[-1 - copy[1]], value):
            return copy[1]
        self._copies[id(value)] = value, self.constants.add(self.own(value))
        return self._copies[id(value)][1]

    def own(self, value):
        """A constant array as replays read it: one that the function captured where it is, of any other one a copy."""
        owner = value
        while isinstance(owner.base, np.ndarray):
            owner = owner.base
        if id(owner) in self.captured or not owner.flags.writeable:
            return value
        if value.ndim and value.size and not any(value.strides):
            return np.broadcast_to(np.array(value[(0,) * value.ndim]), value.shape)
        return np.array(value, order="K")


def by_value(entry, operands):
    """A call of a custom primitive as the value that was recorded beside it, the last of its `operands`; None if there is none."""
    own = 1 + dict(entry.attrs)["call"].count
    return Entry(ROW, BY_NAME["clone"], (), operands[own:], False, 0, entry.meta) if len(operands) > own else None


def not_in_instructions(entries, results, values, start=0):
    """Why `results`, recorded on tensors by the `entries` from a slot on, are not what a function gives at other points; "" if they are."""
    for result, value in zip(results, values):
        if (result is None) is not (value is None) or result is not None and not _same(*(np.asarray(getattr(r, "_v", r)) for r in (result, value))):
            return "it does not compute the same on tensors"
    for slot, entry in entries.items():
        if slot >= start and entry.kind == GUARD and entry.function not in DECISIONS:
            what = entries.get(entry.operands[0])
            if what is None or (what.meta.char, what.meta.size) != ("?", 1):
                return f"it looks at a number ({entry.function})"
    return ""


def _caller_of_ours(frame):
    """The code of this package that makes a trace, which may be of a derived class."""
    while frame.f_code.co_name == "__init__" or not frame.f_code.co_filename.startswith(PACKAGE):
        frame = frame.f_back
    return frame.f_code


#: Functions of our own that raise at some values.
_RAISING = frozenset(("taken", "along_axis", "indexed", "at_classes"))


def may_raise(entry):
    """Whether NumPy may raise, at some values, what the function could catch: then a replay has to compute it, needed or not."""
    if entry.kind == ROW:
        return entry.function.raises
    if entry.kind != HOST or entry.function.ufunc is not None:
        return False
    function = entry.function.function
    if isinstance(function, HostFunction):
        return function.name in _RAISING
    if isinstance(function, np.ufunc):
        return False
    return not (getattr(function, "__module__", None) == "numpy" and getattr(function, "__name__", "") in _FIXED_SHAPE)


def _shape_may_change(function):
    """Whether the shape of the result may depend on values."""
    if isinstance(function, ResultOf):
        function = function.function
    if isinstance(function, HostFunction):
        return function.name == "nonzero_along"
    name, module = getattr(function, "__name__", ""), getattr(function, "__module__", None) or ""
    return name not in _FIXED_SHAPE if module.startswith("numpy") else True


@host_function
def fails(*operands):
    """Whether the row of this name raises."""
    *values, name, attrs = operands
    require(BY_NAME[name].raises, f"{name} does not raise")
    try:
        BY_NAME[name].value(*values, **dict(attrs))
    except np.linalg.LinAlgError:
        return np.True_
    return np.False_


class HostCall:
    """A NumPy function without derivative, with its arguments; live operands stand as `HostOperand`."""

    def __init__(self, function, layout):
        self.function, self.layout = function, layout
        self.__name__ = getattr(function, "__name__", str(function))
        args, kwargs = layout
        #: Whether this is a call on its operands only, in order; and the function if it is an element-wise ufunc, else None.
        self.plain = not kwargs and all(isinstance(a, HostOperand) and a == k for k, a in enumerate(args))
        self.ufunc = function if self.plain and is_elementwise(function) else None

    def __call__(self, *values):
        args, kwargs = (values, {}) if self.plain else filled(self.layout, values)
        return np.asarray(self.function(*args, **kwargs))


class ResultOf:
    """The `k`-th result of a function."""

    def __init__(self, function, k):
        self.function, self.k = function, k
        self.__name__ = f"{getattr(function, '__name__', function)}[{k}]"

    def __call__(self, *args, **kwargs):
        return self.function(*args, **kwargs)[self.k]


class HostOperand(int):
    """Stands for the operand of this number in the arguments of a host function."""


def _promoted(args):
    """Operands of a ufunc with numbers made arrays of the dtype they take beside the others."""
    dtypes = [a.dtype for a in args if hasattr(a, "dtype")]
    if len(dtypes) < len(args):
        args = [_array_of(a, np.result_type(*dtypes, a)) if type(a) in (int, float, bool) else a for a in args]
    return [np.asarray(a) if isinstance(a, np.generic) else a for a in args]


def _array_of(number, dtype):
    try:
        # (Of numbers each is a constant of a recording once.)
        return plain(float(number)) if dtype == np.float64 else np.asarray(number, dtype)
    except OverflowError:
        # Only comparisons know numbers that do not fit.
        return np.asarray(number)


def _replaced(value, live):
    """`value` with its arrays and tensors, those below dual numbers too, replaced by `HostOperand`, which are collected in `live`."""
    value = below(value)
    if isinstance(value, Tensor):
        live.append(value)
        return HostOperand(len(live) - 1)
    if isinstance(value, np.ndarray) and value.dtype.kind in "bifu":
        check_class(value, "operand")
        live.append(plain(readable(value)))
        return HostOperand(len(live) - 1)
    return mapped(_replaced, value, live)


def filled(layout, values):
    """Arguments with the values of operands in place of each `HostOperand`."""
    return values[layout] if isinstance(layout, HostOperand) else mapped(filled, layout, values)


def _same(a, b):
    return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()
