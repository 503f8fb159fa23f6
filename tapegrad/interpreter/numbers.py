"""Numbers under recording as a native type: their memory, and the operators of numbers, in machine code.

A tensor is an object whose fields lie behind those of ``object``: a float64 in place, the store and the slot that it is the result
of, and some references that only few tensors have (`_FIELDS`).  CPython makes the types of a description (``PyType_FromSpec``); what
it calls for them, `_add` for ``+`` and so on, are the functions of this file, compiled as the walks are and shipped as they are.  They
read and write the fields that are ours, at offsets of our own, the words of a store (`tape.store`), and its records.  All else they
ask of CPython by functions of its C API: nothing here knows where CPython has what.

Short and general.  An operation takes the short way if each operand is a number, one of them lies on a store, the store is written
by this thread and recording is on (one comparison, `ident`), the others are on it, too, or known to it, or plain; and if there is
room.  Then a record is written, and a tensor is taken from the free list to stand for it.  Whatever else it is goes to a function of
Python (`set_general`), which asks again, from the beginning: nothing has happened yet then, so the short way may give up anywhere.

Other code.  A call of CPython may run any code: to make an object may start the collector, and finalizers that record.  So what may
run other code comes first (the frame, what a store is told of it, the object of the result), and what has been read before is read
again.  From there to the end nothing but these lines runs: numbers are read, the record is written, the tensor is put on its store.

Ownership.  A tensor owns its store and the objects of its fields.  A store owns no tensor: it heads a list of those that lie on it, in
which they are linked by addresses (`_link`); by that list a store finds what is alive on it (`live`), and memory is bounded in
loops that forget.  A tensor leaves the list first of all when it ends, before anything is given back, so whoever walks the list meets
living ones.  (But for those of a class made in Python, whose own attributes CPython gives back before; it no longer
tracks them then, by which they are told.)

References.  Arguments are borrowed, results are owned by who gets them.  What is taken out of a field is given back after the field
is empty.  Tensors in the free list have one reference, that of the list, are not tracked, and have no object in any field.

Threads.  Everything runs under the interpreter's lock and gives it back nowhere but in calls of CPython, about which see above.  A
free-threaded Python has no such lock; there the package refuses to be imported.

Where there is no native type (`config.native`, `config.portable`, a Python in which ``object`` has other fields), `Fields` is a
class of Python with the same names, and operators go the general way at once: slower, with the same numbers.
"""

from __future__ import annotations

import ctypes
import weakref
from typing import Any

import numpy as np

from ..codegen.code import at_hand
from ..codegen.compile import compiled_together, helper, intrinsic
from ..codegen.memory import (
    c_function,
    load_byte,
    load_double,
    load_int,
    store_double,
    store_int,
    store_int32,
)
from ..codegen.python_api import as_double, as_int, drop, forget, new_float, new_int, new_tuple, raised, set_tuple_item, type_of
from ..codegen.symbols import define
from ..common import config
from ..common.uninterrupted import Lazily
from ..tape.layout import CONSTANT, RECORD, VALUE
from ..tape.store import TapeStore

ir: Any = Lazily("llvmlite.ir")
numba: Any = Lazily("numba")

# ---- where things are -----------------------------------------------------------------------------
#: The bytes that an object of Python has for itself.
_HEAD = 16
#: Fields of a tensor: the number; references to objects; and words.
_NUMBER, _BOXED, _STORE, _META, _KEY, _EXTRAS, _TANGENT, _LANES, _LEVEL = range(_HEAD, _HEAD + 72, 8)
_REFERENCES = range(_BOXED, _LEVEL + 8, 8)
#: Whether it is a number; its slot; the words of its store, or 0; its neighbours on that; of a leaf, whether it requires a gradient,
#: and on which generation of a store, under which key, it is known by which slot; weak references.
_IS_NUMBER, _SLOT, _WORDS, _PREVIOUS, _NEXT, _REQUIRES, _KNOWN_ON, _KNOWN_KEY, _KNOWN_SLOT, _WEAK, _SIZE = range(_LEVEL + 8, _LEVEL + 96, 8)
#: Names of fields in Python.
_OBJECTS = {"_t": _STORE, "_m": _META, "_k": _KEY, "_x": _EXTRAS, "_d": _TANGENT, "_lanes": _LANES, "_level": _LEVEL}
_INTEGERS = {"_i": _SLOT, "_known_on": _KNOWN_ON, "_known_key": _KNOWN_KEY, "_known_slot": _KNOWN_SLOT}

#: Words of a store.
_IDENT, _LENGTH, _LIMIT, _ADDRESS, _RUNNING, _RUNS, _GENERATION, _ENDS = (
    getattr(TapeStore, name).offset for name in ("ident", "length", "limit", "address", "running", "runs", "generation", "last")
)

#: Bytes of a record.
_RECORD = RECORD.size
#: Operators by number; negative and absolute take one operand.
ADD, SUBTRACT, MULTIPLY, DIVIDE, POWER, NEGATIVE, ABSOLUTE, SQUARE = range(8)
#: Words of what the functions share: addresses of classes, of constants, of functions; opcodes and general functions by operator;
#: the free list and its length.
_TENSOR, _PARAMETER, _FLOAT, _INT, _FLOAT64, _NONE, _NOT_IMPLEMENTED, _ATTRIBUTE_ERROR, _NOTE, _NAME, _WRAPPER, _FREE, _FREE_COUNT = range(0, 104, 8)
_OPCODES, _GENERAL = 104, 168
_SHARED = np.zeros(29, np.int64)
#: How many tensors wait in the free list at most.
_MOST_FREE = 1024

# ---- CPython ----------------------------------------------------------------------------------------
keep = c_function("Py_IncRef", "void", "int64")
_new = c_function("PyType_GenericAlloc", "int64", "int64", "int64")
_track = c_function("PyObject_GC_Track", "void", "int64")
_untrack = c_function("PyObject_GC_UnTrack", "void", "int64")
_is_tracked = c_function("PyObject_GC_IsTracked", "int32", "int64")
_delete = c_function("PyObject_GC_Del", "void", "int64")
_clear_weak = c_function("PyObject_ClearWeakRefs", "void", "int64")
_call = c_function("PyObject_CallObject", "int64", "int64", "int64")
_attribute = c_function("PyObject_GetAttr", "int64", "int64", "int64")
_set_none = c_function("PyErr_SetNone", "void", "int64")
_new_list = c_function("PyList_New", "int64", "int64")
_append = c_function("PyList_Append", "int32", "int64", "int64")
_frame = c_function("PyEval_GetFrame", "int64")
_code = c_function("PyFrame_GetCode", "int64", "int64")
_offset = c_function("PyFrame_GetLasti", "int32", "int64")
_caller = c_function("PyFrame_GetBack", "int64", "int64")
_thread = c_function("PyThread_get_thread_ident", "int64")
_visit = c_function(None, "int32", "int64", "int64")
_pow = c_function("pow", "float64", "float64", "float64")
_magnitude = c_function("fabs", "float64", "float64")


@intrinsic
def _shared(typingctx):
    """The address of what the functions share."""

    def codegen(context, builder, signature, args):
        place = builder.module.globals.get("tapegrad_numbers")
        if place is None:
            place = ir.GlobalVariable(builder.module, ir.IntType(64), "tapegrad_numbers")
        return builder.ptrtoint(place, ir.IntType(64))

    return numba.types.int64(), codegen


# ---- one tensor -------------------------------------------------------------------------------------
@helper
def _link(t, words, store, slot):
    """Put a tensor that is on no store on this one, which it owns from now on: that reference is given."""
    ends = words + _ENDS
    first = load_int(ends + 8)
    store_int(t + _STORE, store)
    store_int(t + _SLOT, slot)
    store_int(t + _WORDS, words)
    store_int(t + _PREVIOUS, ends)
    store_int(t + _NEXT, first)
    store_int(first, t + _PREVIOUS)
    store_int(ends + 8, t + _PREVIOUS)


@helper
def _unlink(t):
    """Take a tensor out of the list of its store."""
    if load_int(t + _WORDS) != 0:
        previous, after = load_int(t + _PREVIOUS), load_int(t + _NEXT)
        store_int(previous + 8, after)
        store_int(after, previous)
        store_int(t + _WORDS, 0)


@helper
def _empty(t):
    """Give the objects of a tensor's fields back."""
    for field in range(_BOXED, _LEVEL + 8, 8):
        thing = load_int(t + field)
        if thing != 0:
            store_int(t + field, 0)
            drop(thing)


@helper
def _set_free(t):
    """Put a tensor that has one reference, ours, is not tracked and has no objects in the free list."""
    shared = _shared()
    store_int(t + _NEXT, load_int(shared + _FREE))
    store_int(shared + _FREE, t)
    store_int(shared + _FREE_COUNT, load_int(shared + _FREE_COUNT) + 1)


def _end(t):
    """What CPython calls when nothing refers to a tensor any more (``tp_dealloc``)."""
    _untrack(t)
    _unlink(t)
    if load_int(t + _WEAK) != 0:
        _clear_weak(t)
    _empty(t)
    shared = _shared()
    kind = type_of(t)
    if kind == load_int(shared + _TENSOR) and load_int(shared + _FREE_COUNT) < _MOST_FREE:
        drop(kind)
        keep(t)
        store_int(t + _KNOWN_ON, 0)
        store_int(t + _REQUIRES, 0)
        _set_free(t)
    else:
        _delete(t)
        # The reference that we have asked for, and that of the tensor.
        drop(kind)
        drop(kind)
    return 0


def _traverse(t, visit, argument):
    """Show the collector what a tensor refers to (``tp_traverse``)."""
    for field in range(_BOXED, _LEVEL + 8, 8):
        thing = load_int(t + field)
        if thing != 0:
            stop = _visit(visit, thing, argument)
            if stop != 0:
                return stop
    kind = type_of(t)
    stop = _visit(visit, kind, argument)
    drop(kind)
    return stop


def _clear(t):
    """Break the circles that a tensor is part of (``tp_clear``)."""
    _unlink(t)
    _empty(t)
    return 0


def _value(t, _):
    """``t._v``: the float of a number is made when it is first asked for."""
    value = load_int(t + _BOXED)
    if value == 0:
        if load_int(t + _IS_NUMBER) == 0:
            _set_none(load_int(_shared() + _ATTRIBUTE_ERROR))
            return 0
        value = new_float(load_double(t + _NUMBER))
        if value == 0:
            return 0
        store_int(t + _BOXED, value)
    keep(value)
    return value


@helper
def _hold(t, value):
    """Let a tensor that has no value have one."""
    keep(value)
    store_int(t + _BOXED, value)
    kind = type_of(value)
    drop(kind)
    if kind == load_int(_shared() + _FLOAT):
        store_int(t + _IS_NUMBER, 1)
        store_double(t + _NUMBER, as_double(value))


def _set_value(t, value, _):
    """``t._v = value``."""
    old = load_int(t + _BOXED)
    store_int(t + _IS_NUMBER, 0)
    store_int(t + _BOXED, value)
    if value != 0:
        _hold(t, value)
    if old != 0:
        drop(old)
    return 0


def _place(t, store, slot):
    """See `place`."""
    shared, address = _shared(), 0
    none = load_int(shared + _NONE)
    if store != none:
        words = _attribute(store, load_int(shared + _NAME))
        if words == 0:
            return 0
        address = as_int(words)
        drop(words)
    old = load_int(t + _STORE)
    keep(store)
    _unlink(t)
    if address != 0:
        _link(t, address, store, slot)
    else:
        store_int(t + _STORE, store)
        store_int(t + _SLOT, slot)
    if old != 0:
        drop(old)
    keep(none)
    return none


def _constant(kind, value):
    """See `constant`."""
    t = _new(kind, 0)
    if t == 0:
        return 0
    none = load_int(_shared() + _NONE)
    for field in range(_STORE, _EXTRAS + 8, 8):
        keep(none)
        store_int(t + field, none)
    _hold(t, value)
    return t


def _live(words):
    """See `live`."""
    found = _new_list(0)
    if found != 0:
        ends = words + _ENDS
        node = load_int(ends + 8)
        while node != ends:
            t = node - _PREVIOUS
            # (One of a class made in Python may be at its end.)
            if _is_tracked(t) != 0 and _append(found, t) != 0:
                drop(found)
                return 0
            node = load_int(node + 8)
    return found


# ---- operators ----------------------------------------------------------------------------------------
@helper
def _kind(thing):
    """1 for a tensor whose class is ours, 2 for a float, an int or a float64; else 0."""
    shared, kind = _shared(), type_of(thing)
    drop(kind)
    if kind == load_int(shared + _TENSOR):
        return 1
    if kind == load_int(shared + _FLOAT):
        return 2
    if kind == load_int(shared + _INT) or kind == load_int(shared + _FLOAT64):
        return 2
    return 1 if kind == load_int(shared + _PARAMETER) else 0


@helper
def _slot_and_number(thing, kind, words):
    """The slot of an operand on a store (0: it is a constant there; -1: the general way finds out), and the number."""
    if kind == 2:
        number = as_double(thing)
        if number == -1.0 and raised() != 0:
            forget()
            return -1, number
        return 0, number
    number, own = load_double(thing + _NUMBER), load_int(thing + _WORDS)
    if load_int(thing + _IS_NUMBER) == 0:
        return -1, number
    if own == words:
        return load_int(thing + _SLOT), number
    if own != 0:
        return -1, number
    if load_byte(thing + _REQUIRES) == 0:
        return 0, number
    if load_int(thing + _KNOWN_ON) == load_int(words + _GENERATION) and load_int(thing + _KNOWN_KEY) == load_int(thing + _KEY):
        return load_int(thing + _KNOWN_SLOT), number
    return -1, number


@helper
def _words_of(a, a_kind, b, b_kind):
    """The words of the store that an operand lies on and that this thread records on; or 0."""
    words = load_int(a + _WORDS) if a_kind == 1 else 0
    if words == 0 and b_kind == 1:
        words = load_int(b + _WORDS)
    return words if words != 0 and load_int(words + _IDENT) == _thread() else 0


@helper
def _ready(a, a_kind, b, b_kind, words):
    """Whether nothing has changed since `_words_of` has given these words, and there is room for a record."""
    own = load_int(a + _WORDS) if a_kind == 1 else 0
    if own == 0 and b_kind == 1:
        own = load_int(b + _WORDS)
    return own == words and load_int(words + _IDENT) != -1 and load_int(words + _LENGTH) < load_int(words + _LIMIT)


@helper
def _store_of(a, a_kind, b, words):
    """The store with these words, which one of the operands lies on."""
    return load_int(a + _STORE) if a_kind == 1 and load_int(a + _WORDS) == words else load_int(b + _STORE)


@helper
def _noted(a, a_kind, b, words, back):
    """The offset of the code that runs, which the store is told of; -1 if there is none, -2 with an exception."""
    frame = _frame()
    if frame == 0:
        return -1
    if back:
        # The operation was called by a function of ours: its caller's.
        frame = _caller(frame)
        if frame == 0:
            return -2 if raised() != 0 else -1
        drop(frame)
    code = _code(frame)
    drop(code)
    if back and code == load_int(_shared() + _WRAPPER):
        frame = _caller(frame)
        if frame == 0:
            return -2 if raised() != 0 else -1
        drop(frame)
        code = _code(frame)
        drop(code)
    if code == load_int(words + _RUNNING):
        return _offset(frame)
    shared, store = _shared(), _store_of(a, a_kind, b, words)
    keep(store)
    pair, good = new_tuple(2), False
    if pair != 0:
        runs, slot = load_int(words + _RUNS), new_int(load_int(words + _LENGTH))
        if slot == 0:
            good = False
        elif runs != 0:
            # As `TapeStore.note_code` does.
            keep(code)
            set_tuple_item(pair, 0, slot)
            set_tuple_item(pair, 1, code)
            good = _append(runs, pair) == 0
            store_int(words + _RUNNING, code if good else 0)
        else:
            drop(slot)
            keep(store)
            keep(frame)
            set_tuple_item(pair, 0, store)
            set_tuple_item(pair, 1, frame)
            nothing = _call(load_int(shared + _NOTE), pair)
            good = nothing != 0
            if good:
                drop(nothing)
        drop(pair)
    drop(store)
    return _offset(frame) if good else -2


@helper
def _result():
    """A tensor of no value, with one reference, that is not tracked; 0 with an exception."""
    shared = _shared()
    t = load_int(shared + _FREE)
    if t != 0:
        store_int(shared + _FREE, load_int(t + _NEXT))
        store_int(shared + _FREE_COUNT, load_int(shared + _FREE_COUNT) - 1)
        return t
    t = _new(load_int(shared + _TENSOR), 0)
    if t != 0:
        _untrack(t)
    return t


@helper
def _written(t, words, store, opcode, a, b, offset, number, constant):
    """Write a record that there is room for, and let `t` be its result."""
    slot = load_int(words + _LENGTH)
    record = load_int(words + _ADDRESS) + _RECORD * slot
    store_int32(record, opcode)
    store_int32(record + 4, a)
    store_int32(record + 8, b)
    store_int32(record + 12, offset)
    store_double(record + VALUE, number)
    store_double(record + CONSTANT, constant)
    store_int(words + _LENGTH, slot + 1)
    store_double(t + _NUMBER, number)
    store_int(t + _IS_NUMBER, 1)
    keep(store)
    _link(t, words, store, slot)
    _track(t)
    return t

@helper
def _general(which, a, b):
    """The same by the general way."""
    shared, pair = _shared(), new_tuple(2)
    if pair == 0:
        return 0
    keep(a)
    keep(b)
    set_tuple_item(pair, 0, a)
    set_tuple_item(pair, 1, b)
    result = _call(load_int(shared + _GENERAL + 8 * which), pair)
    drop(pair)
    return result


@helper
def _two(which, a, b):
    """An operator of two operands."""
    a_kind, b_kind = _kind(a), _kind(b)
    words = _words_of(a, a_kind, b, b_kind) if a_kind != 0 and b_kind != 0 else 0
    if words == 0:
        return _general(which, a, b)
    offset = _noted(a, a_kind, b, words, 0)
    if offset < 0:
        return 0 if offset == -2 else _general(which, a, b)
    t = _result()
    if t == 0:
        return 0
    # From here on nothing else runs.
    if _ready(a, a_kind, b, b_kind, words):
        left, x = _slot_and_number(a, a_kind, words)
        right, y = _slot_and_number(b, b_kind, words)
        if left >= 0 and right >= 0:
            good, number, opcode = True, 0.0, load_int(_shared() + _OPCODES + 8 * which)
            constant = x if left == 0 else y if right == 0 else 0.0
            if which == ADD:
                number = x + y
            elif which == SUBTRACT:
                number = x - y
            elif which == MULTIPLY:
                number = x * y
            elif which == DIVIDE:
                good = y != 0.0
                number = x / y
            elif b_kind == 2 and y == 2.0:
                number, constant, opcode = x * x, 0.0, load_int(_shared() + _OPCODES + 8 * SQUARE)
            else:
                # Where Python raises, NumPy's answer is infinite or not a number.
                number = _pow(x, y)
                good = b_kind == 2 and number - number == 0.0
            if good:
                return _written(t, words, _store_of(a, a_kind, b, words), opcode, left, right, offset, number, constant)
    _set_free(t)
    return _general(which, a, b)


@helper
def _one(which, a):
    """An operator of one operand."""
    a_kind = _kind(a)
    words = _words_of(a, a_kind, a, 0) if a_kind == 1 else 0
    if words == 0:
        return _general(which, a, a)
    offset = _noted(a, a_kind, a, words, 0)
    if offset < 0:
        return 0 if offset == -2 else _general(which, a, a)
    t = _result()
    if t == 0:
        return 0
    # From here on nothing else runs.
    if _ready(a, a_kind, a, 0, words):
        slot, x = _slot_and_number(a, 1, words)
        if slot > 0:
            number = -x if which == NEGATIVE else _magnitude(x)
            opcode = load_int(_shared() + _OPCODES + 8 * which)
            return _written(t, words, load_int(a + _STORE), opcode, slot, 0, offset, number, 0.0)
    _set_free(t)
    return _general(which, a, a)


def _add(a, b):
    return _two(ADD, a, b)


def _subtract(a, b):
    return _two(SUBTRACT, a, b)


def _multiply(a, b):
    return _two(MULTIPLY, a, b)


def _divide(a, b):
    return _two(DIVIDE, a, b)


def _power(a, b, modulus):
    if modulus != load_int(_shared() + _NONE):
        answer = load_int(_shared() + _NOT_IMPLEMENTED)
        keep(answer)
        return answer
    return _two(POWER, a, b)


def _negative(a):
    return _one(NEGATIVE, a)


def _absolute(a):
    return _one(ABSOLUTE, a)


def _record_number(opcode, a, b, number):
    """See `record_number`."""
    shared = _shared()
    none = load_int(shared + _NONE)
    a_kind, b_kind = _kind(a), _kind(b)
    words = _words_of(a, a_kind, b, b_kind) if a_kind != 0 and (b_kind != 0 or b == none) else 0
    if words != 0:
        offset = _noted(a, a_kind, b, words, 1)
        if offset == -2:
            return 0
        t = _result()
        if t == 0:
            return 0
        # From here on nothing else runs.
        if offset >= 0 and _ready(a, a_kind, b, b_kind, words):
            left, x = _slot_and_number(a, a_kind, words)
            right, y = _slot_and_number(b, b_kind, words) if b_kind != 0 else (0, 0.0)
            if left >= 0 and right >= 0:
                constant = x if left == 0 else y if right == 0 else 0.0
                return _written(t, words, _store_of(a, a_kind, b, words), opcode, left, right, offset, number, constant)
        _set_free(t)
    keep(none)
    return none


def _record_element(opcode, a, position, number):
    """See `record_element`."""
    a_kind, none = _kind(a), load_int(_shared() + _NONE)
    words = _words_of(a, a_kind, a, 0)
    if words != 0:
        offset = _noted(a, a_kind, a, words, 1)
        if offset == -2:
            return 0
        t = _result()
        if t == 0:
            return 0
        # From here on nothing else runs.
        if offset >= 0 and _ready(a, a_kind, a, 0, words):
            record = load_int(words + _ADDRESS) + _RECORD * load_int(words + _LENGTH)
            _written(t, words, load_int(a + _STORE), opcode, load_int(a + _SLOT), 0, offset, number, 0.0)
            store_int(record + CONSTANT, position)
            return t
        _set_free(t)
    keep(none)
    return none


# ---- types ----------------------------------------------------------------------------------------------
class _Slot(ctypes.Structure):
    _fields_ = [("slot", ctypes.c_int), ("function", ctypes.c_void_p)]


class _Spec(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p), ("size", ctypes.c_int), ("item", ctypes.c_int), ("flags", ctypes.c_uint), ("slots", ctypes.POINTER(_Slot)),
    ]  # fmt: skip


class _Member(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p), ("kind", ctypes.c_int), ("offset", ctypes.c_ssize_t), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p),
    ]  # fmt: skip


class _Property(ctypes.Structure):
    _fields_ = [(name, ctypes.c_char_p if name in ("name", "doc") else ctypes.c_void_p) for name in ("name", "get", "set", "doc", "closure")]


_from_spec = ctypes.pythonapi.PyType_FromSpecWithBases
_from_spec.argtypes, _from_spec.restype = [ctypes.POINTER(_Spec), ctypes.py_object], ctypes.py_object

#: CPython's numbers for the slots of types (``typeslots.h``, of the stable ABI), and for the kinds of members; flags.
_SLOTS = {
    _end: 52, _traverse: 71, _clear: 51, _add: 7, _subtract: 36, _multiply: 29, _divide: 37, _power: 33, _negative: 30, _absolute: 6,
}  # fmt: skip
_MEMBERS, _PROPERTIES, _DOC = 72, 73, 56
_OBJECT, _BOOL, _INTEGER, _READ_ONLY = 16, 14, 19, 1
_BASE_TYPE, _COLLECTED = 1 << 10, 1 << 14
#: What CPython goes on reading as long as the types live.
_KEPT: list[Any] = []


def _made(name, base, slots, functions, flags):
    """A type of CPython's."""
    table = (_Slot * (len(slots) + 1))(*[_Slot(number, functions[f][1] if callable(f) else f) for f, number in slots])
    spec = _Spec(name.encode(), _SIZE, 0, _BASE_TYPE | flags, table)
    _KEPT.extend((table, spec))
    return _from_spec(ctypes.byref(spec), (base,))


def _fields(functions):
    """The class `Fields`, native."""
    members = [_Member(name.encode(), _OBJECT, offset, _READ_ONLY * (name == "_t")) for name, offset in _OBJECTS.items()]
    members += [_Member(name.encode(), _INTEGER, offset, _READ_ONLY * (name == "_i")) for name, offset in _INTEGERS.items()]
    members += [_Member(b"_r", _BOOL, _REQUIRES, 0), _Member(b"__weaklistoffset__", _INTEGER, _WEAK, _READ_ONLY)]
    members = (_Member * (len(members) + 1))(*members)
    properties = (_Property * 2)(_Property(b"_v", functions[_value][1], functions[_set_value][1]))
    _KEPT.extend((members, properties))
    tables = [(ctypes.addressof(members), _MEMBERS), (ctypes.addressof(properties), _PROPERTIES)]
    return _made(f"{__name__}.Fields", object, [(f, _SLOTS[f]) for f in (_end, _traverse, _clear)] + tables, functions, _COLLECTED)


_ONE, _THREE = "object(object)", "object(object, object, object)"
_TWO = "object(object, object)"
#: The functions that are compiled, with their signatures.
_FUNCTIONS = {
    _end: "int64(int64)", _traverse: _THREE, _clear: _ONE, _value: _TWO, _set_value: _THREE, _add: _TWO, _subtract: _TWO, _multiply: _TWO,
    _divide: _TWO, _power: _THREE, _negative: _ONE, _absolute: _ONE, _place: "object(object, object, int64)", _constant: _TWO,
    _live: "object(int64)", _record_number: "object(int64, object, object, float64)", _record_element: "object(int64, object, int64, float64)",
}  # fmt: skip


def _load(only_if_at_hand):
    """The compiled functions, each as one of Python's and by its address; None if they would have to be compiled."""
    return compiled_together("numbers", _FUNCTIONS, at_hand if only_if_at_hand else None)


def make():
    """Compile what the next process has at hand."""
    if NATIVE is None and _possible():
        _load(False)


def _possible():
    return config.native != "never" and not config.portable and object.__basicsize__ == _HEAD


define("tapegrad_numbers", _SHARED.ctypes.data)
#: The compiled functions, or None.
NATIVE = _load(config.native != "always") if _possible() else None

if NATIVE is not None:
    Fields = _fields(NATIVE)
    #: Let a tensor lie in a slot of a store, or (None) on none, whatever it was before: ``place(t, store, slot)``.
    place = NATIVE[_place][0]
    #: A new object of a class of tensors with a value, which lies on no store: ``constant(kind, value)``.
    constant = NATIVE[_constant][0]

    #: The short way of a function of ours that has computed a number from `a`, and from `b` unless that is None, of a row with that
    #: opcode: ``record_number(opcode, a, b, number)``; None where it has to be the general way.
    record_number = NATIVE[_record_number][0]
    #: The same of an element of a vector, by the opcode of a signature: ``record_element(opcode, vector, position, number)``.
    record_element = NATIVE[_record_element][0]

    def live(store):
        """The tensors that lie on a store."""
        return NATIVE[_live][0](store.words)

    def native(cls, operators=True):
        """Decorator: a class of Python, derived from `Fields` and without fields of its own, as a native type, with the operators of numbers.

        An object of one such class may become one of another (``t.__class__ = Dual``): CPython looks whether both end in the same way.
        """
        slots = [(f, number) for f, number in _SLOTS.items() if f is _end or operators and f not in (_traverse, _clear)]
        doc = ctypes.c_char_p(cls.__doc__.encode())
        _KEPT.append(doc)
        slots.append((ctypes.cast(doc, ctypes.c_void_p).value, _DOC))
        made = _made(f"{cls.__module__}.{cls.__qualname__}", cls.__base__, slots, NATIVE, 0)
        for name, thing in vars(cls).items():
            if name not in ("__dict__", "__weakref__", "__slots__", "__doc__", "__module__"):
                setattr(made, name, thing)
        return made

else:

    class Fields:  # type: ignore[no-redef]
        """The fields of tensors and dual numbers."""

        __slots__ = ("_v", "_r", *_OBJECTS, *_INTEGERS, "__weakref__")

    def place(t, store, slot):
        """Let a tensor lie in a slot of a store, or (None) on none, whatever it was before."""
        t._t, t._i = store, slot
        if store is not None:
            store.seen.append(weakref.ref(t))

    def constant(kind, value):
        """A new object of a class of tensors with a value, which lies on no store."""
        t = object.__new__(kind)
        t._v = value
        t._t = t._m = t._k = t._x = None
        t._i, t._r = 0, False
        return t

    def record_number(opcode, a, b, number):
        """None: all go the general way."""

    record_element = record_number

    def live(store):
        """The tensors that lie on a store."""
        found = {id(t): t for t in (reference() for reference in store.seen) if t is not None and t._t is store}
        store.seen = [weakref.ref(t) for t in found.values()]
        return list(found.values())

    def native(cls, operators=True):
        """Decorator: where there are no native types a class stays what it is."""
        return cls


def _share(at, thing):
    _KEPT.append(thing)
    _SHARED[at // 8] = id(thing)


for _at, _thing in (
    (_FLOAT, float), (_INT, int), (_FLOAT64, np.float64), (_NONE, None), (_NOT_IMPLEMENTED, NotImplemented), (_ATTRIBUTE_ERROR, AttributeError),
    (_NOTE, TapeStore.note_code), (_NAME, "words"),
):  # fmt: skip
    _share(_at, _thing)


def set_classes(tensor, parameter):
    """The classes whose instances take the short way; results are of the first."""
    _share(_TENSOR, tensor)
    _share(_PARAMETER, parameter)


def set_wrapper(code):
    """The code of functions that stand between the user's and NumPy's."""
    _share(_WRAPPER, code)


def set_general(which, opcode, function):
    """The opcode of an operator, and the function of two operands that is the general way."""
    _SHARED[(_OPCODES + 8 * which) // 8] = opcode
    _share(_GENERAL + 8 * which, function)
