"""Numbers under recording as a native type: their memory, and the operators of numbers, in machine code.

A tensor is an object whose fields lie behind those of ``object``: a float64 in place, the store and the slot that it is the result
of, and some references that only few tensors have (`_FIELDS`).  CPython makes the types of a description (``PyType_FromSpec``); what
it calls for them, `_add` for ``+`` and so on, are the functions of this file, compiled as the walks are and shipped as they are.  They
read and write the fields that are ours, at offsets of our own, the words of a store (`tape.store`), and its records.  All else they
ask of CPython by functions of its C API: nothing here knows where CPython has what.

Short and general.  An operation takes the short way if each operand is a number, one of them lies on a store, the store is written
by this thread and recording is on (one comparison, `ident`), the others are on it, too, or known to it, or plain; and if there is
room.  Then a record is written, and a tensor is taken from the free list to stand for it.  Whatever else it is goes to a function of
Python (`share`), which asks again, from the beginning: nothing has happened yet then, so the short way may give up anywhere.

Other code.  A call of CPython may run any code: to make an object may start the collector, and finalizers that record.  So what may
run other code comes first (the frame, what a store is told of it, the object of the result), and what has been read before is read
again.  From there to the end nothing but these lines runs: numbers are read, the record is written, the tensor is put on its store.

Ownership.  A tensor owns its store and the objects of its fields.  A store owns no tensor: it heads a list of those that lie on it, in
which they are linked by addresses (`_link`); by that list a store finds what is alive on it (`_live`), and memory is bounded in
loops that forget.  A tensor leaves the list first of all when it ends, before anything is given back, so whoever walks the list meets
living ones.  (But for those of a class made in Python, whose own attributes CPython gives back before; it no longer
tracks them then, by which they are told.)

References.  Arguments are borrowed, results are owned by who gets them.  What is taken out of a field is given back after the field
is empty.  Tensors in the free list have one reference, that of the list, are not tracked, and have no object in any field.

Threads.  Everything runs under the interpreter's lock and gives it back nowhere but in calls of CPython, about which see above.  A
free-threaded Python has no such lock; there the package refuses to be imported.

Where there is no native type, classes of Python have the same fields, and operators go the general way at once: slower, with the same
numbers.  `interpreter.fields` decides that, and is what others import.
"""

import numpy as np

from ..codegen.compile import compiled_together, helper
from ..codegen.memory import address_named, c_function, load_byte, load_double, load_int, store_double, store_int, store_int32
from ..codegen.python_api import (
    append,
    as_double,
    as_int,
    attribute,
    call,
    caller_of,
    clear_weak,
    code_of,
    delete_object,
    drop,
    forget,
    is_tracked,
    keep,
    new_float,
    new_int,
    new_list,
    new_object,
    new_tuple,
    offset_of,
    raise_class,
    raised,
    running_frame,
    set_tuple_item,
    thread_ident,
    track,
    type_of,
    untrack,
)  # fmt: skip
from ..codegen.symbols import define
from ..common.native_types import BOOL, COLLECTED, INTEGER, OBJECT, copied, made
from ..tape.layout import CONSTANT, RECORD, VALUE
from ..tape.store import WORDS, TapeStore

_HEAD = object.__basicsize__
#: Fields of a tensor, behind what every object has: the number; references to objects; and words.
_NUMBER, _BOXED, _STORE, _META, _KEY, _EXTRAS, _TANGENT, _LANES, _LEVEL = range(_HEAD, _HEAD + 72, 8)
#: Whether it is a number; its slot; the words of its store, or 0; its neighbours on that; of a leaf, whether it requires a gradient,
#: and on which generation of a store, under which key, it is known by which slot; weak references.
_IS_NUMBER, _SLOT, _WORDS, _PREVIOUS, _NEXT, _REQUIRES, _KNOWN_ON, _KNOWN_KEY, _KNOWN_SLOT, _WEAK, _SIZE = range(_LEVEL + 8, _LEVEL + 96, 8)
#: Names of fields in Python.
_OBJECTS = {"_t": _STORE, "_m": _META, "_k": _KEY, "_x": _EXTRAS, "_d": _TANGENT, "_lanes": _LANES, "_level": _LEVEL}
_INTEGERS = {"_i": _SLOT, "_known_on": _KNOWN_ON, "_known_key": _KNOWN_KEY, "_known_slot": _KNOWN_SLOT}
#: Words of a store.
_IDENT, _LENGTH, _LIMIT, _ADDRESS, _RUNNING, _RUNS, _CODES, _GENERATION, _ENDS = (
    WORDS[name] for name in ("ident", "length", "limit", "address", "running", "runs_at", "codes_at", "generation", "last")
)

_RECORD = RECORD.size
#: What the short way computes; of one operand are the negative and the absolute value.  A number that is given, and an element of a
#: vector, are recorded only.
_ADD, _SUBTRACT, _MULTIPLY, _DIVIDE, _POWER, _NEGATIVE, _ABSOLUTE, _SQUARE, _GIVEN, _ELEMENT = range(10)
#: In the place of a tensor: the general way has to be taken.
_GENERALLY = 1
#: Words of what the functions share: addresses of classes, of constants, of functions; opcodes and general functions by operator;
#: the free list and its length.
_TENSOR, _PARAMETER, _FLOAT, _INT, _FLOAT64, _NONE, _NOT_IMPLEMENTED, _ATTRIBUTE_ERROR, _NOTE, _NAME, _WRAPPER, _FREE, _FREE_COUNT = range(0, 104, 8)
_OPCODES, _GENERAL = 104, 168
_SHARED = np.zeros(29, np.int64)
#: How many tensors wait in the free list at most.
_MOST_FREE = 1024

_visit = c_function(None, "int32", "int64", "int64")
_pow = c_function("pow", "float64", "float64", "float64")
_magnitude = c_function("fabs", "float64", "float64")
#: The address of what the functions share.
_shared = address_named("tapegrad_numbers")


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
    untrack(t)
    _unlink(t)
    if load_int(t + _WEAK) != 0:
        clear_weak(t)
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
        delete_object(t)
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
            raise_class(load_int(_shared() + _ATTRIBUTE_ERROR))
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
    """See `fields.place`."""
    shared, address = _shared(), 0
    none = load_int(shared + _NONE)
    if store != none:
        words = attribute(store, load_int(shared + _NAME))
        if words == 0:
            return 0
        address = as_int(words)
        drop(words)
    old = load_int(t + _STORE)
    keep(store)
    _unlink(t)
    store_int(t + _STORE, store)
    store_int(t + _SLOT, slot)
    if address != 0:
        _link(t, address, store, slot)
    if old != 0:
        drop(old)
    keep(none)
    return none


def _constant(kind, value):
    """See `fields.constant`."""
    t = new_object(kind, 0)
    if t == 0:
        return 0
    none = load_int(_shared() + _NONE)
    for field in range(_STORE, _EXTRAS + 8, 8):
        keep(none)
        store_int(t + field, none)
    _hold(t, value)
    return t


def _live(words):
    """A list of the tensors on the store with these words."""
    found = new_list(0)
    if found != 0:
        ends = words + _ENDS
        node = load_int(ends + 8)
        while node != ends:
            t = node - _PREVIOUS
            # (One of a class made in Python may be at its end.)
            if is_tracked(t) != 0 and append(found, t) != 0:
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
    if kind == load_int(shared + _FLOAT) or kind == load_int(shared + _INT) or kind == load_int(shared + _FLOAT64):
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
    if load_int(thing + _IS_NUMBER) == 0 or own != 0 and own != words:
        return -1, number
    if own == words:
        return load_int(thing + _SLOT), number
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
    return words if words != 0 and load_int(words + _IDENT) == thread_ident() else 0


@helper
def _store_of(a, a_kind, b, words):
    """The store with these words, which one of the operands lies on."""
    return load_int(a + _STORE) if a_kind == 1 and load_int(a + _WORDS) == words else load_int(b + _STORE)


@helper
def _called(function, a, b):
    """What a function of Python gives for two arguments; 0 with an exception."""
    pair = new_tuple(2)
    if pair == 0:
        return 0
    keep(a)
    keep(b)
    set_tuple_item(pair, 0, a)
    set_tuple_item(pair, 1, b)
    result = call(function, pair)
    drop(pair)
    return result


@helper
def _caller(frame):
    """The frame that called a running one, which keeps it; 0 if there is none, or with an exception."""
    frame = caller_of(frame)
    if frame != 0:
        drop(frame)
    return frame


@helper
def _code(frame):
    """The code of a running frame, which keeps it."""
    code = code_of(frame)
    drop(code)
    return code


@helper
def _noted(a, a_kind, b, words, back):
    """The offset of the code that runs, which the store is told of; -1 if there is none, -2 with an exception."""
    frame = running_frame()
    if frame == 0:
        return -1
    if back:
        # The operation was called by a function of ours, or by one in front of that: its caller's.
        frame = _caller(frame)
        if frame != 0 and _code(frame) == load_int(_shared() + _WRAPPER):
            frame = _caller(frame)
        if frame == 0:
            return -2 if raised() != 0 else -1
    code = _code(frame)
    if code == load_int(words + _RUNNING):
        return offset_of(frame)
    store = _store_of(a, a_kind, b, words)
    keep(store)
    good, runs = False, load_int(words + _RUNS)
    if runs != 0:
        # As `TapeStore.note_code` does, to which it is left if there is no memory for both.
        slot = new_int(load_int(words + _LENGTH))
        if slot != 0:
            good = append(load_int(words + _CODES), code) == 0 and append(runs, slot) == 0
            drop(slot)
        store_int(words + _RUNNING, code if good else 0)
        store_int(words + _RUNS, runs if good else 0)
    else:
        nothing = _called(load_int(_shared() + _NOTE), store, frame)
        good = nothing != 0
        if good:
            drop(nothing)
    drop(store)
    return offset_of(frame) if good else -2


@helper
def _result():
    """A tensor of no value, with one reference, that is not tracked; 0 with an exception."""
    shared = _shared()
    t = load_int(shared + _FREE)
    if t != 0:
        store_int(shared + _FREE, load_int(t + _NEXT))
        store_int(shared + _FREE_COUNT, load_int(shared + _FREE_COUNT) - 1)
        return t
    t = new_object(load_int(shared + _TENSOR), 0)
    if t != 0:
        untrack(t)
    return t


@helper
def _written(t, words, store, opcode, a, b, offset, number, constant, position):
    """Write a record that there is room for, and let `t` be its result."""
    slot = load_int(words + _LENGTH)
    record = load_int(words + _ADDRESS) + _RECORD * slot
    store_int32(record, opcode)
    store_int32(record + 4, a)
    store_int32(record + 8, b)
    store_int32(record + 12, offset)
    store_double(record + VALUE, number)
    if position != 0:
        store_int(record + CONSTANT, position)
    else:
        store_double(record + CONSTANT, constant)
    store_int(words + _LENGTH, slot + 1)
    store_double(t + _NUMBER, number)
    store_int(t + _IS_NUMBER, 1)
    keep(store)
    _link(t, words, store, slot)
    track(t)
    return t


@helper
def _short(which, opcode, a, a_kind, b, b_kind, given, position):
    """The short way: the tensor of a result, 0 with an exception, or `_GENERALLY`."""
    words = _words_of(a, a_kind, b, b_kind)
    if words == 0:
        return _GENERALLY
    offset = _noted(a, a_kind, b, words, which >= _GIVEN)
    if offset < 0:
        return 0 if offset == -2 else _GENERALLY
    t = _result()
    if t == 0:
        return 0
    # From here on nothing else runs: is all still as it was, and is there room?
    if _words_of(a, a_kind, b, b_kind) == words and load_int(words + _LENGTH) < load_int(words + _LIMIT):
        left, x = _slot_and_number(a, a_kind, words) if which != _ELEMENT else (load_int(a + _SLOT), 0.0)
        right, y = _slot_and_number(b, b_kind, words) if b_kind != 0 else (0, 0.0)
        good, number, constant = left >= 0 and right >= 0, given, x if left == 0 else y if right == 0 and b_kind != 0 else 0.0
        if which == _ADD:
            number = x + y
        elif which == _SUBTRACT:
            number = x - y
        elif which == _MULTIPLY:
            number = x * y
        elif which == _DIVIDE:
            good = good and y != 0.0
            number = x / y
        elif which == _NEGATIVE:
            number = -x
        elif which == _ABSOLUTE:
            number = _magnitude(x)
        elif which == _POWER and b_kind == 2 and y == 2.0:
            number, constant, opcode = x * x, 0.0, load_int(_shared() + _OPCODES + 8 * _SQUARE)
        elif which == _POWER:
            # Where Python raises, NumPy's answer is infinite or not a number.
            number = _pow(x, y)
            good = good and b_kind == 2 and number - number == 0.0
        if good:
            return _written(t, words, _store_of(a, a_kind, b, words), opcode, left, right, offset, number, constant, position)
    _set_free(t)
    return _GENERALLY


@helper
def _operator(which, a, b):
    """An operator of two operands, or, where both are the same and `which` says so, of one."""
    a_kind, b_kind = _kind(a), _kind(b) if which < _NEGATIVE else 0
    if a_kind != 0 and (b_kind != 0 or which >= _NEGATIVE):
        t = _short(which, load_int(_shared() + _OPCODES + 8 * which), a, a_kind, b, b_kind, 0.0, 0)
        if t != _GENERALLY:
            return t
    return _called(load_int(_shared() + _GENERAL + 8 * which), a, b)


def _of_two(name, which):
    def operate(a, b):
        return _operator(which, a, b)

    operate.__name__ = name
    return operate


_add, _subtract, _multiply, _divide = map(_of_two, ("add", "subtract", "multiply", "divide"), (_ADD, _SUBTRACT, _MULTIPLY, _DIVIDE))


def _power(a, b, modulus):
    if modulus != load_int(_shared() + _NONE):
        answer = load_int(_shared() + _NOT_IMPLEMENTED)
        keep(answer)
        return answer
    return _operator(_POWER, a, b)


def _negative(a):
    return _operator(_NEGATIVE, a, a)


def _absolute(a):
    return _operator(_ABSOLUTE, a, a)


@helper
def _or_none(t):
    """What a function of Python gets for a tensor, or for `_GENERALLY`."""
    if t == _GENERALLY:
        t = load_int(_shared() + _NONE)
        keep(t)
    return t


def _record_number(opcode, a, b, number):
    """See `fields.record_number`."""
    a_kind, b_kind = _kind(a), _kind(b)
    if a_kind == 0 or b_kind == 0 and b != load_int(_shared() + _NONE):
        return _or_none(_GENERALLY)
    return _or_none(_short(_GIVEN, opcode, a, a_kind, b, b_kind, number, 0))


def _record_element(opcode, a, position, number):
    """See `fields.record_element`."""
    a_kind = _kind(a)
    return _or_none(_short(_ELEMENT, opcode, a, a_kind, a, 0, number, position) if a_kind == 1 else _GENERALLY)


# ---- types ------------------------------------------------------------------------------------------------
_TO_ONE, _TO_TWO, _TO_THREE = "object(object)", "object(object, object)", "object(object, object, object)"
#: The functions that are compiled, with their signatures.
_FUNCTIONS = {
    _end: "int64(int64)", _traverse: _TO_THREE, _clear: _TO_ONE, _value: _TO_TWO, _set_value: _TO_THREE, _add: _TO_TWO, _subtract: _TO_TWO,
    _multiply: _TO_TWO, _divide: _TO_TWO, _power: _TO_THREE, _negative: _TO_ONE, _absolute: _TO_ONE, _place: "object(object, object, int64)",
    _constant: _TO_TWO, _live: "object(int64)", _record_number: "object(int64, object, object, float64)",
    _record_element: "object(int64, object, int64, float64)",
}  # fmt: skip
#: Operators by the name of their row.
_OPERATORS = {
    "add": (_ADD, _add), "subtract": (_SUBTRACT, _subtract), "multiply": (_MULTIPLY, _multiply), "divide": (_DIVIDE, _divide),
    "power": (_POWER, _power), "negative": (_NEGATIVE, _negative), "absolute": (_ABSOLUTE, _absolute),
}  # fmt: skip
_KEPT = [float, int, np.float64, None, NotImplemented, AttributeError, TapeStore.note_code, "words"]

_SHARED[_FLOAT // 8 : _FLOAT // 8 + len(_KEPT)] = list(map(id, _KEPT))
define("tapegrad_numbers", _SHARED.ctypes.data)
_COMPILED = compiled_together("numbers", _FUNCTIONS)
place, constant, live_on, record_number, record_element = (
    _COMPILED[function][0] for function in (_place, _constant, _live, _record_number, _record_element)
)

_MEMBERS = [(name, OBJECT, offset, name == "_t") for name, offset in _OBJECTS.items()]
_MEMBERS += [(name, INTEGER, offset, name == "_i") for name, offset in _INTEGERS.items()]
_MEMBERS += [("_r", BOOL, _REQUIRES, False), ("__weaklistoffset__", INTEGER, _WEAK, True)]
_END = {"dealloc": _COMPILED[_end][1]}
Fields = made(
    f"{__name__}.Fields", object, _SIZE, _END | {"traverse": _COMPILED[_traverse][1], "clear": _COMPILED[_clear][1]}, COLLECTED, _MEMBERS,
    ("_v", _COMPILED[_value][1], _COMPILED[_set_value][1]),
)  # fmt: skip


def native(cls, operators=True):
    """Decorator: a class of Python, derived from `Fields` and without fields of its own, as a native type, with the operators of numbers.

    An object of one such class may become one of another (``t.__class__ = Dual``): CPython looks whether both end in the same way.
    """
    slots = {name: _COMPILED[function][1] for name, (_, function) in _OPERATORS.items()} if operators else {}
    return copied(cls, _SIZE, _END | slots)


def share(name, thing, opcode=None):
    """Tell the functions of a class or a code, or of an operator's opcode and general way."""
    at = {"tensor": _TENSOR, "parameter": _PARAMETER, "wrapper": _WRAPPER}.get(name)
    if at is None:
        which = _SQUARE if name == "power2" else _OPERATORS[name][0]
        at = _GENERAL + 8 * which
        _SHARED[_OPCODES // 8 + which] = opcode
    _KEPT.append(thing)
    _SHARED[at // 8] = id(thing)
