"""The short way of arrays, for the functions in the slots of a native tensor (`interpreter.numbers`, whose essay is of both).

An operation on one or two float64 arrays, and numbers, is computed by NumPy and recorded (`of_arrays`).  It is the way of numbers, but that the store has to
have the signature of the operation already: the general way makes it, the first time.  Whatever may run other code comes first here, too:
NumPy's function, which may warn, and the copies of constants.
"""

from ..codegen.compile import helper
from ..codegen.memory import load_int, store_int
from ..codegen.python_api import (
    append,
    as_double,
    attribute,
    dict_item,
    dict_size,
    drop,
    forget,
    keep,
    list_size,
    new_float,
    new_int,
    raised,
    tuple_of_four,
    tuple_of_one,
    tuple_of_three,
    tuple_of_two,
)  # fmt: skip
from .program import LOOKED_AT
from .tensor_memory import (
    APART,
    ARRAY,
    BASE,
    BOTH,
    BOXED,
    BYTE_LIMIT,
    CHARGE,
    COPY,
    DESCRIBE,
    EMPTY,
    ENTER,
    EXPOSED_MEMORY,
    EXTRAS,
    FLOAT,
    FLOAT64,
    GENERALLY,
    INT,
    KEY,
    LENGTH,
    LIMIT,
    META,
    NBYTES,
    NONE,
    OBJECTS,
    OFFSET,
    ONLY_FIRST,
    ONLY_SECOND,
    OPCODE,
    OUT,
    PLAIN_ARRAY,
    PLAIN_NUMBER,
    ROW_VALUE,
    SAVERS,
    SCALAR_META,
    SHORT,
    SIGNATURES,
    SINGLE,
    TENSOR,
    TRACE_NAME,
    boxed,
    called,
    has,
    integer_of,
    is_array,
    is_leaf,
    is_of,
    new_result,
    offset_noted,
    set_free,
    shared_words,
    slot_on,
    store_of,
    words_of,
    written,
)  # fmt: skip


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


@helper
def element_wise(row, a, a_kind, b, b_kind):
    """`of_arrays` of an element-wise operation, or a product of matrices."""
    return of_arrays(row, load_int(shared_words() + EMPTY), 0, a, a_kind, b, b_kind, 0, 0)


@helper
def is_square(exponent):
    """Whether an array to this power has an instruction of its own: numbers of NumPy have none."""
    number = as_double(exponent)
    if number == -1.0 and raised() != 0:
        forget()
    return number == 2.0 and (is_of(exponent, FLOAT) or is_of(exponent, INT))
