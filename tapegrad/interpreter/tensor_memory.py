"""The memory of a native tensor, and what the functions in its slots have in common (`interpreter.numbers`).

Fields are named by where they lie in a tensor, words by where they lie in a store (`tape.store`) or among what the functions share.
What is here is compiled into the functions that call it.
"""

import sys

import numpy as np

from ..codegen.compile import helper, inlined
from ..codegen.memory import address_named, load_byte, load_double, load_int, store_double, store_int, store_int32
from ..codegen.python_api import (
    append,
    as_int,
    attribute,
    call_with,
    caller_of,
    code_of,
    dict_item,
    drop,
    keep,
    new_float,
    new_int,
    new_object,
    of_this_thread,
    offset_of,
    raise_class,
    raised,
    running_frame,
    starts_with,
    ten_words,
    thread_ident,
    track,
    type_of,
    untrack,
)  # fmt: skip
from ..codegen.symbols import define
from ..common.dtypes import NUMBERS
from ..tape.layout import CONSTANT, RECORD, SCALAR, VALUE
from ..tape.places import PACKAGE
from ..tape.store import STATE_KEY, WORDS, TapeStore
from ..tape.watch import EXPOSED

HEAD = object.__basicsize__
#: Fields of a tensor, behind what every object has: the number; references to objects; and words.
NUMBER, BOXED, STORE, META, KEY, EXTRAS, TANGENT, LANES, LEVEL = range(HEAD, HEAD + 72, 8)
#: Whether it is a number; its slot; the words of its store, or 0; its neighbours on that; of a leaf, whether it requires a gradient,
#: and on which generation of a store, under which key, it is known by which slot; weak references.
IS_NUMBER, SLOT, ON_WORDS, PREVIOUS, NEXT, REQUIRES, KNOWN_ON, KNOWN_KEY, KNOWN_SLOT, WEAK, SIZE = range(LEVEL + 8, LEVEL + 96, 8)
#: Names of fields in Python.
OBJECT_FIELDS = {"_t": STORE, "_m": META, "_k": KEY, "_x": EXTRAS, "_d": TANGENT, "_lanes": LANES, "_level": LEVEL}
INTEGER_FIELDS = {"_i": SLOT, "_known_on": KNOWN_ON, "_known_key": KNOWN_KEY, "_known_slot": KNOWN_SLOT}
#: Words of a store.
IDENT, LENGTH, LIMIT, RECORDS, RUNNING, RUNS, CODES, GENERATION, NBYTES, BYTE_LIMIT, OFFSET, ENDS = map(
    WORDS.get, "ident length limit address running runs_at codes_at generation nbytes byte_limit offset last".split()
)

RECORD_SIZE = RECORD.size
#: In the place of a tensor: the general way has to be taken.
GENERALLY = 1
#: What an operand may be: a tensor whose class is ours; a number (`NUMBERS`); an array of NumPy.
TENSOR, PLAIN_NUMBER, PLAIN_ARRAY = 1, 2, 3
#: What the functions share is at one address: things of Python, by their addresses, and names of attributes; what they are told later
#: (`numbers.share`); the free list and its length; by operator the opcode, the general way and the row; and the general ways in place.
THINGS = [float, int, np.float64, np.ndarray, None, NotImplemented, AttributeError, TapeStore.note_code, SCALAR, EXPOSED, (), TapeStore.enter, NUMBERS]
FLOAT, INT, FLOAT64, ARRAY, NONE, NOT_IMPLEMENTED, ATTRIBUTE_ERROR, NOTE_CODE, SCALAR_META, EXPOSED_MEMORY, EMPTY, ENTER, NUMBER_CLASSES = range(0, 104, 8)
#: By the operands that are on the tape: both, the first, the second.
THINGS += [(True, True), (True, False), (False, True), (True,)]
BOTH, ONLY_FIRST, ONLY_SECOND, SINGLE = range(104, 136, 8)
THINGS += [sys.intern("__call__"), "words", "trace", "signatures", "objects", "savers", "opcode", "short", "out", "charge", "value", "base"]
CALL, WORDS_NAME, TRACE_NAME, SIGNATURES, OBJECTS, SAVERS, OPCODE, SHORT, OUT, CHARGE, ROW_VALUE, BASE = range(136, 232, 8)
THINGS += [STATE_KEY, "store", "co_filename", PACKAGE]
THREAD, CURRENT, FILE_NAME, OURS = range(232, 264, 8)
CLASS, PARAMETER, DESCRIBE, COPY, APART, UFUNC, OF_ONE, OF_TWO, FREE, FREE_COUNT = range(264, 344, 8)
#: What `numbers.share` is told of, but for operators: the words.
TOLD = {"tensor": CLASS, "parameter": PARAMETER, "describe": DESCRIBE, "copy": COPY, "apart": APART, "ufunc": UFUNC, "of one": OF_ONE, "of two": OF_TWO}
OPCODES, GENERAL, ROWS, UPDATES = range(344, 344 + 4 * 72, 72)
CHANGED = UPDATES + 40
TOLD |= {"changed": CHANGED} | {f"update {name}": UPDATES + 8 * k for k, name in enumerate(("add", "subtract", "multiply", "divide", "power"))}
SHARED = np.zeros((344 + 4 * 72) // 8, np.int64)
SHARED[: len(THINGS)] = list(map(id, THINGS))
define("tapegrad_numbers", SHARED.ctypes.data)
#: How many tensors wait in the free list at most.
MOST_FREE = 1024

#: The address of what the functions share.
shared_words = address_named("tapegrad_numbers")


@helper
def link(t, words, store, slot):
    """Put a tensor that is on no store on this one, which it owns from now on: that reference is given."""
    ends = words + ENDS
    first = load_int(ends + 8)
    store_int(t + STORE, store)
    store_int(t + SLOT, slot)
    store_int(t + ON_WORDS, words)
    store_int(t + PREVIOUS, ends)
    store_int(t + NEXT, first)
    store_int(first, t + PREVIOUS)
    store_int(ends + 8, t + PREVIOUS)


@helper
def unlink(t):
    """Take a tensor out of the list of its store."""
    if load_int(t + ON_WORDS) != 0:
        previous, after = load_int(t + PREVIOUS), load_int(t + NEXT)
        store_int(previous + 8, after)
        store_int(after, previous)
        store_int(t + ON_WORDS, 0)


@inlined
def give_back(t):
    """Give the objects of a tensor's fields back."""
    for field in range(BOXED, LEVEL + 8, 8):
        thing = load_int(t + field)
        if thing != 0:
            store_int(t + field, 0)
            drop(thing)


@helper
def set_free(t):
    """Put a tensor that has one reference, ours, is not tracked and has no objects in the free list."""
    shared = shared_words()
    store_int(t + NEXT, load_int(shared + FREE))
    store_int(shared + FREE, t)
    store_int(shared + FREE_COUNT, load_int(shared + FREE_COUNT) + 1)


@helper
def is_of(thing, word):
    """Whether the class of a thing is the one that a word of what is shared has."""
    kind = type_of(thing)
    drop(kind)
    return kind == load_int(shared_words() + word)


@helper
def kind_of(thing):
    """`TENSOR`, `PLAIN_NUMBER` or `PLAIN_ARRAY`; 0 for what is none of them."""
    shared, kind = shared_words(), type_of(thing)
    drop(kind)
    if kind == load_int(shared + CLASS):
        return TENSOR
    if kind == load_int(shared + FLOAT):
        return PLAIN_NUMBER
    if kind == load_int(shared + ARRAY):
        return PLAIN_ARRAY
    if dict_item(load_int(shared + NUMBER_CLASSES), kind) != 0:
        return PLAIN_NUMBER
    return TENSOR if kind == load_int(shared + PARAMETER) else 0


@helper
def is_array(thing, kind):
    """Whether an operand is no number."""
    return kind == PLAIN_ARRAY or kind == TENSOR and load_int(thing + IS_NUMBER) == 0


@helper
def current_store():
    """The store on which this thread records what has only leaves for operands, not counted; or 0."""
    things = of_this_thread()
    state = dict_item(things, load_int(shared_words() + THREAD)) if things != 0 else 0
    store = attribute(state, load_int(shared_words() + CURRENT)) if state != 0 else 0
    if store != 0:
        drop(store)
    return store


@helper
def is_leaf(thing, kind):
    """Whether an operand is a tensor that requires a gradient and lies on no store."""
    return kind == TENSOR and load_int(thing + ON_WORDS) == 0 and load_byte(thing + REQUIRES) != 0


@helper
def slot_on(thing, kind, words):
    """The slot of an operand on a store (0: it is a constant there; -1: the general way finds out)."""
    if kind != TENSOR:
        return 0
    own = load_int(thing + ON_WORDS)
    if own == words:
        return load_int(thing + SLOT)
    if own != 0:
        return -1
    if load_byte(thing + REQUIRES) == 0:
        return 0
    if load_int(thing + KNOWN_ON) == load_int(words + GENERATION) and load_int(thing + KNOWN_KEY) == load_int(thing + KEY):
        return load_int(thing + KNOWN_SLOT)
    return -1


@helper
def words_under(a, a_kind, b, b_kind):
    """The words of the store that an operand lies on, or, of leaves alone, of the current one, if that knows them or is to be told (of arrays); or 0."""
    words = load_int(a + ON_WORDS) if a_kind == TENSOR else 0
    if words == 0 and b_kind == TENSOR:
        words = load_int(b + ON_WORDS)
    if words == 0 and (is_leaf(a, a_kind) or is_leaf(b, b_kind)):
        store = current_store()
        address = attribute(store, load_int(shared_words() + WORDS_NAME)) if store != 0 else 0
        if address != 0:
            words = as_int(address)
            drop(address)
            if not (is_array(a, a_kind) or is_array(b, b_kind)) and (slot_on(a, a_kind, words) < 0 or slot_on(b, b_kind, words) < 0):
                words = 0
    return words


@helper
def words_of(a, a_kind, b, b_kind):
    """The words of that store if this thread records on it; or 0."""
    words = words_under(a, a_kind, b, b_kind)
    return words if words != 0 and load_int(words + IDENT) == thread_ident() else 0


@helper
def store_of(a, a_kind, b, b_kind, words):
    """The store with these words, of `words_of`, not counted."""
    if a_kind == TENSOR and load_int(a + ON_WORDS) == words:
        return load_int(a + STORE)
    return load_int(b + STORE) if b_kind == TENSOR and load_int(b + ON_WORDS) == words else current_store()


@helper
def called(function, a, b):
    """What a function of Python gives for two arguments, or (0) for one; 0 with an exception."""
    arguments = ten_words()
    store_int(arguments, a)
    store_int(arguments + 8, b)
    return call_with(function, arguments, 1 if b == 0 else 2, 0)


@helper
def has(thing, name, wanted):
    """Whether an attribute of a thing is this one."""
    value = attribute(thing, name)
    drop(value)
    return value == wanted


@helper
def integer_of(thing, name):
    """An attribute that is an integer; -1 with an exception."""
    value = attribute(thing, name)
    if value == 0:
        return -1
    integer = as_int(value)
    drop(value)
    return integer


@helper
def caller_at(frame):
    """The frame that called a running one, which keeps it; 0 if there is none, or with an exception."""
    frame = caller_of(frame)
    drop(frame)
    return frame


@helper
def code_at(frame):
    """The code of a running frame, which keeps it."""
    code = code_of(frame)
    drop(code)
    return code


@helper
def _is_ours(code):
    """Whether a code is of this package: a function of ours stands between an operation and the code that asks for it."""
    shared = shared_words()
    file = attribute(code, load_int(shared + FILE_NAME))
    ours = file != 0 and starts_with(file, load_int(shared + OURS), 0, sys.maxsize, -1) == 1
    drop(file)
    return ours


@inlined
def offset_noted(a, a_kind, b, b_kind, words):
    """The offset of the user's code that runs, which the store is told of; -1 if there is none, -2 with an exception."""
    standing = load_int(words + OFFSET)
    if standing >= 0:
        return standing
    frame = running_frame()
    code = code_at(frame) if frame != 0 else 0
    while code != 0 and code != load_int(words + RUNNING) and _is_ours(code):
        frame = caller_at(frame)
        code = code_at(frame) if frame != 0 else 0
    if code == 0:
        return -2 if raised() != 0 else -1
    if code == load_int(words + RUNNING):
        return offset_of(frame)
    store = store_of(a, a_kind, b, b_kind, words)
    keep(store)
    good, runs = False, load_int(words + RUNS)
    if runs != 0:
        # As `TapeStore.note_code` does, to which it is left if there is no memory for both.
        slot = new_int(load_int(words + LENGTH))
        if slot != 0:
            good = append(load_int(words + CODES), code) == 0 and append(runs, slot) == 0
            drop(slot)
        store_int(words + RUNNING, code if good else 0)
        store_int(words + RUNS, runs if good else 0)
    else:
        nothing = called(load_int(shared_words() + NOTE_CODE), store, frame)
        good = nothing != 0
        if good:
            drop(nothing)
    drop(store)
    return offset_of(frame) if good else -2


@helper
def new_result():
    """A tensor of no value, with one reference, that is not tracked; 0 with an exception."""
    shared = shared_words()
    t = load_int(shared + FREE)
    if t != 0:
        store_int(shared + FREE, load_int(t + NEXT))
        store_int(shared + FREE_COUNT, load_int(shared + FREE_COUNT) - 1)
        return t
    t = new_object(load_int(shared + CLASS), 0)
    if t != 0:
        untrack(t)
    return t


@helper
def boxed(t):
    """The value of a tensor as an object of Python, a new reference; that of a number is made when it is first asked for."""
    value = load_int(t + BOXED)
    if value == 0:
        if load_int(t + IS_NUMBER) == 0:
            raise_class(load_int(shared_words() + ATTRIBUTE_ERROR))
            return 0
        value = new_float(load_double(t + NUMBER))
        if value == 0:
            return 0
        store_int(t + BOXED, value)
    keep(value)
    return value


@inlined
def written(t, words, store, opcode, a, b, offset, number, constant, position):
    """Write a record that there is room for, and let `t` be its result."""
    slot = load_int(words + LENGTH)
    record = load_int(words + RECORDS) + RECORD_SIZE * slot
    store_int32(record, opcode)
    store_int32(record + 4, a)
    store_int32(record + 8, b)
    store_int32(record + 12, offset)
    store_double(record + VALUE, number)
    if position != 0:
        store_int(record + CONSTANT, position)
    else:
        store_double(record + CONSTANT, constant)
    store_int(words + LENGTH, slot + 1)
    store_double(t + NUMBER, number)
    # (The result of `_array` has a value already.)
    store_int(t + IS_NUMBER, 1 if load_int(t + BOXED) == 0 else 0)
    keep(store)
    link(t, words, store, slot)
    track(t)
    return t
