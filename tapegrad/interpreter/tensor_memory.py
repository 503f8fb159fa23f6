"""The memory of a native tensor, what the functions in its slots have in common, and the short way of arrays (`interpreter.numbers` has the essay).

Fields are named by where they lie in a tensor, words by where they lie in a store (`tape.store`) or among what the functions share.
What is here is compiled into the functions that call it.

An operation on one or two float64 arrays, and numbers, is computed by NumPy and recorded (`of_arrays`).  It is the way of numbers, but that the store has to
have the signature of the operation already: the general way makes it, the first time.  Whatever may run other code comes first here, too:
NumPy's function, which may warn, and the copies of constants.
"""

import sys

import numpy as np

from ..codegen.compile import helper, inlined
from ..codegen.memory import address_named, load_byte, load_double, load_int, store_double, store_int, store_int32
from ..codegen.python_api import (
    append,
    as_double,
    as_int,
    attribute,
    call_with,
    caller_of,
    code_of,
    dict_item,
    dict_size,
    drop,
    keep,
    list_size,
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
    tuple_of_four,
    tuple_of_one,
    tuple_of_three,
    tuple_of_two,
    type_of,
    untrack,
)  # fmt: skip
from ..codegen.symbols import define
from ..common.dtypes import NUMBERS
from ..tape.layout import CONSTANT, RECORD, SCALAR, VALUE
from ..tape.places import PACKAGE
from ..tape.store import STATE_KEY, WORDS, TapeStore
from ..tape.watch import EXPOSED
from .program import LOOKED_AT

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
THINGS += [sys.intern("__call__"), "words", "trace", "signatures", "objects", "savers", "opcode", "short", "out", "charge", "value", "base", "on_floats"]
CALL, WORDS_NAME, TRACE_NAME, SIGNATURES, OBJECTS, SAVERS, OPCODE, SHORT, OUT, CHARGE, ROW_VALUE, BASE, ON_FLOATS = range(136, 240, 8)
THINGS += [STATE_KEY, "store", "co_filename", PACKAGE]
THREAD, CURRENT, FILE_NAME, OURS = range(240, 272, 8)
CLASS, PARAMETER, DESCRIBE, COPY, APART, UFUNC, OF_ONE, OF_TWO, FREE, FREE_COUNT = range(272, 352, 8)
#: What `numbers.share` is told of, but for operators: the words.
TOLD = {"tensor": CLASS, "parameter": PARAMETER, "describe": DESCRIBE, "copy": COPY, "apart": APART, "ufunc": UFUNC, "of one": OF_ONE, "of two": OF_TWO}
OPCODES, GENERAL, ROWS, UPDATES = range(352, 352 + 4 * 72, 72)
CHANGED = UPDATES + 40
TOLD |= {"changed": CHANGED} | {f"update {name}": UPDATES + 8 * k for k, name in enumerate(("add", "subtract", "multiply", "divide", "power"))}
SHARED = np.zeros((352 + 4 * 72) // 8, np.int64)
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
        # (Solvers in C call a function again after it has raised: what is running then is that exception.)
        nothing = called(load_int(shared_words() + NOTE_CODE), store, frame) if raised() == 0 else 0
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


# ---- arrays -------------------------------------------------------------------------------------------
@helper
def _value_of(thing, kind):
    """What NumPy computes with, a new reference; 0 with an exception."""
    if kind == TENSOR:
        return boxed(thing)
    if kind == PLAIN_NUMBER and not is_of(thing, FLOAT):
        number = as_double(thing)
        return 0 if number == -1.0 and raised() != 0 else new_float(number)
    keep(thing)
    return thing


@helper
def _told(word, thing):
    """What a function that is shared by this word says of a thing, a new reference; 0, with or without an exception, for None."""
    answer = called(load_int(shared_words() + word), thing, 0)
    if answer != load_int(shared_words() + NONE):
        return answer
    drop(answer)
    return 0


@helper
def _meta_of(thing, kind):
    """The description of an operand, a new reference; 0, with or without an exception, where the general way finds it out."""
    if kind == PLAIN_ARRAY:
        return _told(DESCRIBE, thing)
    shared = shared_words()
    meta = load_int(thing + META) if is_array(thing, kind) else load_int(shared + SCALAR_META)
    if meta == load_int(shared + NONE):
        return 0
    keep(meta)
    return meta


@helper
def _signature(row, attrs, store, c, m, n, left, right):
    """The signature that the store has for operands of these descriptions, a new reference; 0, with or without an exception, if it has none."""
    shared, found = shared_words(), 0
    flags = load_int(shared + (SINGLE if n == 0 else ONLY_SECOND if left == 0 else ONLY_FIRST if right == 0 else BOTH))
    metas = tuple_of_three(3, c, m, n) if c != 0 else tuple_of_one(1, m) if n == 0 else tuple_of_two(2, m, n)
    key = tuple_of_four(4, row, attrs, metas, flags) if metas != 0 else 0
    signatures = attribute(store, load_int(shared + SIGNATURES)) if key != 0 else 0
    if signatures != 0:
        found = dict_item(signatures, key)
        keep(found)
    for thing in (metas, key, signatures):
        drop(thing)
    return found


@helper
def _watched(array):
    """Whether others may have the memory of an array, as far as can be seen here."""
    shared = shared_words()
    if dict_size(load_int(shared + EXPOSED_MEMORY)) == 0:
        return False
    key = new_int(array)
    watched = key == 0 or not has(array, load_int(shared + BASE), load_int(shared + NONE)) or dict_item(load_int(shared + EXPOSED_MEMORY), key) != 0
    drop(key)
    return watched


@helper
def _for_store(value, thing, kind, slot, short, code):
    """What the store may keep of an operand, a new reference: a copy of a constant, or of a small part; 0, with or without an exception: generally."""
    if is_array(thing, kind) and (short & 3 == code or short >> 2 & 3 == code or short >> 4 == code):
        if slot == 0:
            return _told(COPY, value)
        if _watched(value):
            return 0
        if not has(value, load_int(shared_words() + BASE), load_int(shared_words() + NONE)):
            return _told(APART, value)
    keep(value)
    return value


@helper
def _kept(store, words, signature, short, x, y, value):
    """Let the store keep what the way back reads; the position, or -1 with an exception."""
    shared = shared_words()
    objects, savers = attribute(store, load_int(shared + OBJECTS)), attribute(store, load_int(shared + SAVERS))
    slot, charge, position = new_int(load_int(words + LENGTH)), integer_of(signature, load_int(shared + CHARGE)), -1
    if objects != 0 and savers != 0 and slot != 0 and charge >= 0:
        position = list_size(objects)
        while short != 0 and position >= 0:
            code = short & 3
            short >>= 2
            if append(objects, x if code == 1 else y if code == 2 else value) != 0:
                position = -1
        if position >= 0 and append(savers, slot) != 0:
            position = -1
        if position >= 0:
            store_int(words + NBYTES, load_int(words + NBYTES) + charge)
    for thing in (objects, savers, slot):
        drop(thing)
    return position


@helper
def _room(words):
    """Whether the store takes a record, and what that keeps."""
    # (While rules are run the store is pinned: nothing is let go.)
    return load_int(words + LENGTH) < load_int(words + LIMIT) and (load_int(words + NBYTES) <= load_int(words + BYTE_LIMIT) or load_int(words + OFFSET) >= 0)


@helper
def _result(signature, known, given, x, y, out):
    """What an operation gives, a new reference: computed, if it is not there already; 0, with or without an exception, if it is not as described."""
    if given != 0:
        keep(given)
        value = given
    else:
        function = attribute(signature, load_int(shared_words() + ROW_VALUE))
        value = called(function, x, y) if function != 0 and function != load_int(shared_words() + NONE) else 0
        drop(function)
    if value != 0 and not known and is_of(value, ARRAY):
        meta = _told(DESCRIBE, value)
        drop(meta)
        if meta != out:
            drop(value)
            return 0
    if value == 0 or not is_of(value, FLOAT64):
        return value
    number = new_float(as_double(value))
    drop(value)
    return number


@helper
def _recorded(signature, short, known, given, integer, store, words, a, a_kind, x, m, kept_x, left, b, b_kind, y, kept_y, right):
    """Compute an operation and record it; see `of_arrays`, which raises what is raised here."""
    shared = shared_words()
    opcode, out = integer_of(signature, load_int(shared + OPCODE)), attribute(signature, load_int(shared + OUT))
    t = new_result() if opcode >= 0 and out != 0 else 0
    if t == 0:
        drop(out)
        return 0
    # (What lies in the memory of an operand is described as that is.)
    value = _result(signature, known or given == x and out == m, given, x, y, out)
    # (What NumPy raises, or a function that it calls, is raised; to compute it again might not raise.  That function may have recorded, too.)
    offset = offset_noted(a, a_kind, b, b_kind, words) if value != 0 else -1
    if value != 0:
        # From here on nothing else runs: is all still as it was, and is there room?
        number = as_double(value) if is_of(value, FLOAT) else 0.0
        good = offset >= 0 and words_of(a, a_kind, b, b_kind) == words and _room(words)
        good = good and is_of(value, FLOAT if out == load_int(shared + SCALAR_META) else ARRAY)
        if good and slot_on(a, a_kind, words) == left and slot_on(b, b_kind, words) == right:
            position = _kept(store, words, signature, short, kept_x, kept_y, value) if short != 0 else integer
            if position >= 0:
                if is_of(value, ARRAY):
                    # The references are the tensor's from now on.
                    none = load_int(shared + NONE)
                    keep(none)
                    keep(none)
                    store_int(t + BOXED, value)
                    store_int(t + META, out)
                    store_int(t + KEY, none)
                    store_int(t + EXTRAS, none)
                else:
                    drop(value)
                    drop(out)
                return written(t, words, store, opcode, left, right, offset, number, 0.0, position)
        drop(value)
    drop(out)
    set_free(t)
    return GENERALLY


@helper
def _slot_entered(thing, kind, words, store):
    """`slot_on` a store, which is told of a leaf that it does not know yet, if there is room for that."""
    slot = slot_on(thing, kind, words)
    if slot >= 0 or not is_leaf(thing, kind) or load_int(words + LENGTH) + 2 >= load_int(words + LIMIT):
        return slot
    entered = called(load_int(shared_words() + ENTER), store, thing)
    drop(entered)
    return slot_on(thing, kind, words) if entered != 0 else -1


@helper
def _known(row, attrs, given, integer, store, words, condition, c, a, a_kind, x, m, b, b_kind, y, n):
    """`_recorded` for operands with these values and descriptions, if the store has a signature for them that it knows."""
    shared = shared_words()
    # (What the general way has to make room for it computes, too, and NumPy warns each time.)
    if not _room(words) or not has(store, load_int(shared + TRACE_NAME), load_int(shared + NONE)):
        return GENERALLY
    left, right = _slot_entered(a, a_kind, words, store), _slot_entered(b, b_kind, words, store)
    if left < 0 or right < 0:
        return GENERALLY
    signature = _signature(row, attrs, store, c, m, n, left, right)
    if signature == 0:
        return GENERALLY
    t, short = GENERALLY, integer_of(signature, load_int(shared + SHORT))
    if short >= 0:
        known, short = short < LOOKED_AT, short % LOOKED_AT
        # (Of a choice the condition, its first operand, is kept.)
        kept_x = _told(COPY, condition) if condition != 0 else _for_store(x, a, a_kind, left, short, 1)
        kept_y = _for_store(y, b, b_kind, right, short, 2) if n != 0 else 0
        if kept_x != 0 and (kept_y != 0 or n == 0):
            t = _recorded(signature, short, known, given, integer, store, words, a, a_kind, x, m, kept_x, left, b, b_kind, y, kept_y, right)
        drop(kept_x)
        drop(kept_y)
    drop(signature)
    return t


@helper
def of_arrays(row, attrs, condition, a, a_kind, b, b_kind, given, integer):
    """An operation with these attributes of which an operand is an array; or, where `b_kind` is 0, of `a` alone; or a choice by a `condition` that is not 0.

    As the short way of numbers, but that the value is NumPy's, if it is not `given`, and that the store has to have a signature for the operation:
    the general way has made it the first time.  An `integer` is what the record says besides, if the signature keeps nothing.
    """
    words = words_of(a, a_kind, b, b_kind)
    if words == 0:
        return GENERALLY
    store, t = store_of(a, a_kind, b, b_kind, words), GENERALLY
    keep(store)
    x, m = _value_of(a, a_kind), _meta_of(a, a_kind)
    y, n = (_value_of(b, b_kind), _meta_of(b, b_kind)) if b_kind != 0 else (0, 0)
    c = _told(DESCRIBE, condition) if condition != 0 else 0
    if x != 0 and m != 0 and (b_kind == 0 or y != 0 and n != 0) and (condition == 0 or c != 0):
        t = _known(row, attrs, given, integer, store, words, condition, c, a, a_kind, x, m, b, b_kind, y, n)
    for thing in (store, x, m, y, n, c):
        drop(thing)
    return 0 if t == GENERALLY and raised() != 0 else t
