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
which they are linked by addresses (`link`); by that list a store finds what is alive on it (`_live`), and memory is bounded in
loops that forget.  A tensor leaves the list first of all when it ends, before anything is given back, so a walk over the list meets
living ones.  (But for those of a class made in Python, whose own attributes CPython gives back before; it no longer
tracks them then, by which they are told.)

References.  Arguments are borrowed, results are owned by who gets them.  What is taken out of a field is given back after the field
is empty.  Tensors in the free list have one reference, that of the list, are not tracked, and have no object in any field.

Threads.  Everything runs under the interpreter's lock and gives it back nowhere but in calls of CPython, about which see above.  A
free-threaded Python has no such lock; there the package refuses to be imported.

Where there is no native type, classes of Python have the same fields, and operators go the general way at once: slower, with the same
numbers.  `interpreter.fields` decides that, and is what others import.
"""

from ..codegen.compile import compiled_together, helper, inlined
from ..codegen.memory import allocate, c_function, load_double, load_int, release, store_double, store_int
from ..codegen.python_api import (
    EQUAL,
    append,
    as_double,
    as_int,
    attribute,
    call_with,
    clear_weak,
    compares,
    delete_object,
    dict_item,
    drop,
    forget,
    is_tracked,
    keep,
    new_float,
    new_list,
    new_object,
    no_memory,
    raised,
    tuple_item,
    tuple_size,
    type_of,
    untrack,
)  # fmt: skip
from ..common.native_types import BOOL, COLLECTED, INTEGER, OBJECT, copied, made, method_of
from . import tensor_memory as M
from .tensor_memory import (
    GENERALLY,
    boxed,
    called,
    integer_of,
    is_array,
    is_of,
    kind_of,
    link,
    new_result,
    of_arrays,
    offset_noted,
    set_free,
    shared_words,
    slot_on,
    store_of,
    words_of,
    words_under,
    written,
)  # fmt: skip

#: What the short way computes; of one operand are the negative and the absolute value.  A number that is given, an element of a
#: vector, and a choice between numbers, are recorded only.
_ADD, _SUBTRACT, _MULTIPLY, _DIVIDE, _POWER, _PRODUCT, _NEGATIVE, _ABSOLUTE, _SQUARE, _GIVEN, _ELEMENT, _CHOICE = range(12)

_visit = c_function(None, "int32", "int64", "int64")
_pow = c_function("pow", "float64", "float64", "float64")
_magnitude = c_function("fabs", "float64", "float64")


# ---- one tensor -------------------------------------------------------------------------------------


@helper
def unlink(t):
    """Take a tensor out of the list of its store."""
    if load_int(t + M.ON_WORDS) != 0:
        previous, after = load_int(t + M.PREVIOUS), load_int(t + M.NEXT)
        store_int(previous + 8, after)
        store_int(after, previous)
        store_int(t + M.ON_WORDS, 0)


@inlined
def give_back(t):
    """Give the objects of a tensor's fields back."""
    for field in range(M.BOXED, M.LEVEL + 8, 8):
        thing = load_int(t + field)
        if thing != 0:
            store_int(t + field, 0)
            drop(thing)
def _end(t):
    """What CPython calls when nothing refers to a tensor any more (``tp_dealloc``)."""
    untrack(t)
    unlink(t)
    if load_int(t + M.WEAK) != 0:
        clear_weak(t)
    give_back(t)
    shared = shared_words()
    kind = type_of(t)
    if kind == load_int(shared + M.CLASS) and load_int(shared + M.FREE_COUNT) < M.MOST_FREE:
        drop(kind)
        keep(t)
        store_int(t + M.KNOWN_ON, 0)
        store_int(t + M.REQUIRES, 0)
        set_free(t)
    else:
        delete_object(t)
        # The reference that we have asked for, and that of the tensor.
        drop(kind)
        drop(kind)
    return 0


def _traverse(t, visit, argument):
    """Show the collector what a tensor refers to (``tp_traverse``)."""
    for field in range(M.BOXED, M.LEVEL + 8, 8):
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
    unlink(t)
    give_back(t)
    return 0


def _value(t, _):
    """``t._v``."""
    return boxed(t)


@helper
def _hold(t, value):
    """Let a tensor that has no value have one."""
    keep(value)
    store_int(t + M.BOXED, value)
    if is_of(value, M.FLOAT):
        store_int(t + M.IS_NUMBER, 1)
        store_double(t + M.NUMBER, as_double(value))


def _set_value(t, value, _):
    """``t._v = value``."""
    old = load_int(t + M.BOXED)
    store_int(t + M.IS_NUMBER, 0)
    store_int(t + M.BOXED, value)
    if value != 0:
        _hold(t, value)
    drop(old)
    return 0


def _place(t, store, slot):
    """See `fields.place`."""
    shared, address = shared_words(), 0
    none = load_int(shared + M.NONE)
    if store != none:
        words = attribute(store, load_int(shared + M.WORDS_NAME))
        if words == 0:
            return 0
        address = as_int(words)
        drop(words)
    old = load_int(t + M.STORE)
    keep(store)
    unlink(t)
    store_int(t + M.STORE, store)
    store_int(t + M.SLOT, slot)
    if address != 0:
        link(t, address, store, slot)
    drop(old)
    keep(none)
    return none


def _constant(kind, value):
    """See `fields.constant`."""
    t = new_object(kind, 0)
    if t == 0:
        return 0
    none = load_int(shared_words() + M.NONE)
    for field in range(M.STORE, M.EXTRAS + 8, 8):
        keep(none)
        store_int(t + field, none)
    _hold(t, value)
    return t


def _live(words):
    """A list of the tensors on the store with these words."""
    found = new_list(0)
    if found != 0:
        ends = words + M.ENDS
        node = load_int(ends + 8)
        while node != ends:
            t = node - M.PREVIOUS
            # (One of a class made in Python may be at its end.)
            if is_tracked(t) != 0 and append(found, t) != 0:
                drop(found)
                return 0
            node = load_int(node + 8)
    return found


# ---- operators ----------------------------------------------------------------------------------------


@inlined
def slot_and_number(thing, kind, words):
    """The slot of a number (see `slot_on`), and the number."""
    if kind == M.PLAIN_NUMBER:
        number = as_double(thing)
        if number == -1.0 and raised() != 0:
            forget()
            return -1, number
        return 0, number
    if kind == M.PLAIN_ARRAY or load_int(thing + M.IS_NUMBER) == 0:
        return -1, 0.0
    return slot_on(thing, kind, words), load_double(thing + M.NUMBER)


@inlined
def _short(which, opcode, a, a_kind, b, b_kind, given, position):
    """The short way: the tensor of a result, 0 with an exception, or `GENERALLY`."""
    words = words_of(a, a_kind, b, b_kind)
    if words == 0:
        return GENERALLY
    thread, offset = load_int(words + M.IDENT), offset_noted(a, a_kind, b, b_kind, words)
    if offset < 0:
        return 0 if offset == -2 else GENERALLY
    running, t = load_int(words + M.RUNNING), new_result()
    if t == 0:
        return 0
    # From here on nothing else runs: is all still as it was (the offset is one in the code that runs), and is there room?
    still = words_under(a, a_kind, b, b_kind) == words and load_int(words + M.IDENT) == thread and load_int(words + M.RUNNING) == running
    if still and load_int(words + M.LENGTH) < load_int(words + M.LIMIT):
        left, x = slot_and_number(a, a_kind, words) if which != _ELEMENT else (slot_on(a, a_kind, words), 0.0)
        right, y = slot_and_number(b, b_kind, words) if b_kind != 0 else (0, 0.0)
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
        elif which == _POWER and b_kind == M.PLAIN_NUMBER and y == 2.0:
            number, constant, opcode = x * x, 0.0, load_int(shared_words() + M.OPCODES + 8 * _SQUARE)
        elif which == _POWER:
            # Where Python raises, NumPy's answer is infinite or not a number.
            number = _pow(x, y)
            good = good and number - number == 0.0
        elif which == _CHOICE:
            # The inline constant is the condition.
            constant, position = float(position), 0
        if good:
            return written(t, words, store_of(a, a_kind, b, b_kind, words), opcode, left, right, offset, number, constant, position)
    set_free(t)
    return GENERALLY


# ---- what CPython and we call ---------------------------------------------------------------------------
@helper
def element_wise(row, a, a_kind, b, b_kind):
    """`of_arrays` of an element-wise operation, or a product of matrices."""
    return of_arrays(row, load_int(shared_words() + M.EMPTY), 0, a, a_kind, b, b_kind, 0, 0)


@helper
def is_square(exponent):
    """Whether an array to this power has an instruction of its own: numbers of NumPy have none."""
    number = as_double(exponent)
    if number == -1.0 and raised() != 0:
        forget()
    return number == 2.0 and (is_of(exponent, M.FLOAT) or is_of(exponent, M.INT))


@inlined
def _shortly(which, a, a_kind, b, b_kind):
    """The short way of an operator, if there is one; `b_kind` is 0 where it has one operand."""
    shared, t = shared_words(), GENERALLY
    if a_kind != 0 and (b_kind != 0 or which >= _NEGATIVE):
        if is_array(a, a_kind) or is_array(b, b_kind):
            kind, square = b_kind, which
            if which == _POWER and b_kind == M.PLAIN_NUMBER and is_square(b):
                kind, square = 0, _SQUARE
            t = element_wise(load_int(shared + M.ROWS + 8 * square), a, a_kind, b, kind)
        elif which != _PRODUCT:
            t = _short(which, load_int(shared + M.OPCODES + 8 * which), a, a_kind, b, b_kind, 0.0, 0)
    return t


@inlined
def _operator(which, a, b):
    """An operator of two operands, or, where both are the same and `which` says so, of one."""
    t = _shortly(which, a, kind_of(a), b, kind_of(b) if which < _NEGATIVE else 0)
    return called(load_int(shared_words() + M.GENERAL + 8 * which), a, b) if t == GENERALLY else t


@inlined
def _changed(which, a, b):
    """An operator in place.  A number is never changed: the name goes on with the result; a tensor that shares memory goes the general way."""
    shared, extras, t = shared_words(), load_int(a + M.EXTRAS), GENERALLY
    if kind_of(a) == M.TENSOR and load_int(a + M.ON_WORDS) != 0 and (extras == 0 or extras == load_int(shared + M.NONE)):
        t = _shortly(which, a, M.TENSOR, b, kind_of(b))
    if t == GENERALLY:
        return called(load_int(shared + M.UPDATES + 8 * which), a, b)
    if t == 0 or load_int(a + M.IS_NUMBER) != 0:
        return t
    answer = called(load_int(shared + M.CHANGED), a, t)
    drop(t)
    return answer


def _of_two(name, which):
    def operate(a, b):
        return _operator(which, a, b)

    operate.__name__ = name
    return operate


_add, _subtract, _multiply, _divide, _product = map(
    _of_two, ("add", "subtract", "multiply", "divide", "product"), (_ADD, _SUBTRACT, _MULTIPLY, _DIVIDE, _PRODUCT)
)


def _power(a, b, modulus):
    if modulus != load_int(shared_words() + M.NONE):
        answer = load_int(shared_words() + M.NOT_IMPLEMENTED)
        keep(answer)
        return answer
    return _operator(_POWER, a, b)


def _in_place(which):
    def change(a, b):
        return _changed(which, a, b)

    change.__name__ = f"change{which}"
    return change


_update_add, _update_subtract, _update_multiply, _update_divide = map(_in_place, range(_POWER))


def _update_power(a, b, _):
    return _changed(_POWER, a, b)


def _negative(a):
    return _operator(_NEGATIVE, a, a)


def _absolute(a):
    return _operator(_ABSOLUTE, a, a)


@helper
def _value_of_ufunc(function, a, a_kind, b, b_kind):
    """(whether there is one, value) of a ufunc of numbers, by a function of Python, or, where that is None, of a power."""
    _, x = slot_and_number(a, a_kind, 0)
    _, y = slot_and_number(b, b_kind, 0) if b_kind != 0 else (0, 0.0)
    if function == load_int(shared_words() + M.NONE):
        value = _pow(x, y)
        # Squares have an instruction of their own.
        return y != 2.0 and value - value == 0.0, value
    first, second = new_float(x), new_float(y) if b_kind != 0 else 0
    value = called(function, first, second) if first != 0 and (second != 0 or b_kind == 0) else 0
    for thing in (first, second):
        drop(thing)
    if value == 0:
        # Python has no value where NumPy has one.
        forget()
        return False, 0.0
    number = as_double(value)
    drop(value)
    return True, number


@helper
def _of_numbers(row, function, a, a_kind, b, b_kind):
    """The short way of a row of numbers, whose value a function of Python gives."""
    if words_of(a, a_kind, b, b_kind) == 0:
        return GENERALLY
    opcode, good, value = integer_of(row, load_int(shared_words() + M.OPCODE)), *_value_of_ufunc(function, a, a_kind, b, b_kind)
    return _short(_GIVEN, opcode, a, a_kind, b, b_kind, value, 0) if good and opcode >= 0 else GENERALLY


@helper
def _ufunc(ufunc, method, a, b):
    """The short way of a ufunc of one operand or (`b` not 0) two; see `array_ufunc`."""
    shared = shared_words()
    entry = dict_item(load_int(shared + (M.OF_ONE if b == 0 else M.OF_TWO)), ufunc)
    a_kind, b_kind = kind_of(a), kind_of(b) if b != 0 else 0
    # (Beside a call NumPy has no method of such an ufunc that takes one operand.)
    if entry == 0 or a_kind == 0 or b != 0 and (b_kind == 0 or compares(method, load_int(shared + M.CALL), EQUAL) != 1):
        return GENERALLY
    row, function = tuple_item(entry, 0), tuple_item(entry, 1)
    if is_array(a, a_kind) or is_array(b, b_kind):
        return element_wise(row, a, a_kind, b, b_kind) if function != load_int(shared + M.NONE) else GENERALLY
    return _of_numbers(row, function, a, a_kind, b, b_kind)


def _array_ufunc(t, args, count, names):
    """``Tensor.__array_ufunc__``, called with its arguments at an address: the ufunc, the method, and the operands."""
    if names == 0 and (count == 3 or count == 4):
        result = _ufunc(load_int(args), load_int(args + 8), load_int(args + 16), load_int(args + 24) if count == 4 else 0)
        if result != GENERALLY:
            return result
        if raised() != 0:
            return 0
    further = 0 if names == 0 else tuple_size(names)
    given = allocate(8 * (1 + count + further))
    if given == 0:
        return no_memory()
    store_int(given, t)
    for k in range(count + further):
        store_int(given + 8 * (k + 1), load_int(args + 8 * k))
    result = call_with(load_int(shared_words() + M.UFUNC), given, 1 + count, names)
    release(given)
    return result


def _record_element(opcode, a, position, number):
    """See `fields.record_element`."""
    a_kind = kind_of(a)
    t = _short(_ELEMENT, opcode, a, a_kind, a, 0, number, position) if a_kind == M.TENSOR else GENERALLY
    if t == GENERALLY:
        t = load_int(shared_words() + M.NONE)
        keep(t)
    return t


def _record_row(row, attrs, a, b, value, integer):
    """See `fields.record_row`."""
    shared, t = shared_words(), GENERALLY
    none = load_int(shared + M.NONE)
    a_kind, b_kind = kind_of(a), 0 if b == none else kind_of(b)
    if a_kind != 0 and (b == none or b_kind != 0):
        if is_array(a, a_kind) or is_array(b, b_kind):
            t = of_arrays(row, attrs, 0, a, a_kind, 0 if b == none else b, b_kind, 0 if value == none else value, integer)
        elif value == none:
            function = attribute(row, load_int(shared + M.ON_FLOATS))
            if function == 0:
                return 0
            t = _of_numbers(row, function, a, a_kind, b, b_kind) if function != none else GENERALLY
            drop(function)
    if t == GENERALLY:
        t = none
        keep(t)
    return t


def _record_choice(row, condition, a, b, value):
    """See `fields.record_choice`."""
    shared, t = shared_words(), GENERALLY
    a_kind, b_kind = kind_of(a), kind_of(b)
    if a_kind != 0 and b_kind != 0:
        if not is_of(value, M.FLOAT):
            t = of_arrays(row, load_int(shared + M.EMPTY), condition, a, a_kind, b, b_kind, value, 0)
        elif words_of(a, a_kind, b, b_kind) != 0:
            t = _short(_CHOICE, integer_of(row, load_int(shared + M.OPCODE)), a, a_kind, b, b_kind, as_double(value), as_int(condition))
    if t == GENERALLY:
        t = load_int(shared + M.NONE)
        keep(t)
    return t


# ---- types ------------------------------------------------------------------------------------------------
_TO_ONE, _TO_TWO, _TO_THREE = "object(object)", "object(object, object)", "object(object, object, object)"
#: The functions that are compiled, with their signatures.
_FUNCTIONS = {
    _end: "int64(int64)", _traverse: _TO_THREE, _clear: _TO_ONE, _value: _TO_TWO, _set_value: _TO_THREE, _add: _TO_TWO, _subtract: _TO_TWO,
    _multiply: _TO_TWO, _divide: _TO_TWO, _product: _TO_TWO, _power: _TO_THREE, _negative: _TO_ONE, _absolute: _TO_ONE, _place: "object(object, object, int64)",
    _constant: _TO_TWO, _live: "object(int64)", _record_element: "object(int64, object, int64, float64)",
    _update_add: _TO_TWO, _update_subtract: _TO_TWO, _update_multiply: _TO_TWO, _update_divide: _TO_TWO, _update_power: _TO_THREE,
    _array_ufunc: "object(object, int64, int64, int64)", _record_row: "object(object, object, object, object, object, int64)",
    _record_choice: "object(object, object, object, object, object)",
}  # fmt: skip
#: Operators by the name of their row.
_OPERATORS = {
    "add": (_ADD, _add), "subtract": (_SUBTRACT, _subtract), "multiply": (_MULTIPLY, _multiply), "divide": (_DIVIDE, _divide),
    "power": (_POWER, _power), "negative": (_NEGATIVE, _negative), "absolute": (_ABSOLUTE, _absolute), "matmul": (_PRODUCT, _product),
}  # fmt: skip
#: Functions by the name of their slot: operators, and those in place.
_SLOTS = {name: function for name, (_, function) in _OPERATORS.items()}
_SLOTS |= {
    "update add": _update_add, "update subtract": _update_subtract, "update multiply": _update_multiply, "update divide": _update_divide,
    "update power": _update_power,
}  # fmt: skip
_COMPILED = compiled_together("numbers", _FUNCTIONS)
place, constant, live_on, record_element, record_row, record_choice = (
    _COMPILED[function][0] for function in (_place, _constant, _live, _record_element, _record_row, _record_choice)
)

_MEMBERS = [(name, OBJECT, offset, name == "_t") for name, offset in M.OBJECT_FIELDS.items()]
_MEMBERS += [(name, INTEGER, offset, name == "_i") for name, offset in M.INTEGER_FIELDS.items()]
_MEMBERS += [("_r", BOOL, M.REQUIRES, False), ("__weaklistoffset__", INTEGER, M.WEAK, True)]
_END = {"dealloc": _COMPILED[_end][1]}
Fields = made(
    f"{__name__}.Fields", object, M.SIZE, _END | {"traverse": _COMPILED[_traverse][1], "clear": _COMPILED[_clear][1]}, COLLECTED, _MEMBERS,
    ("_v", _COMPILED[_value][1], _COMPILED[_set_value][1]),
)  # fmt: skip


def native(cls, operators=True):
    """Decorator: a class of Python, derived from `Fields` and without fields of its own, as a native type, with the operators of numbers.

    An object of one such class may become one of another (``t.__class__ = Dual``): CPython looks whether both end in the same way.
    """
    slots = {name: _COMPILED[function][1] for name, function in _SLOTS.items()} if operators else {}
    return copied(cls, M.SIZE, _END | slots)


def array_ufunc(cls):
    """``__array_ufunc__`` of a native type: numbers and arrays take the short way, all else goes to the function that is shared as "ufunc"."""
    return method_of(cls, "__array_ufunc__", _COMPILED[_array_ufunc][1])


def share(name, thing, row=None):
    """Tell the functions of a class, a code or a function, or of an operator's general way and row."""
    at = M.TOLD.get(name)
    if at is None:
        which = _SQUARE if name == "power2" else _OPERATORS[name][0]
        at = M.GENERAL + 8 * which
        M.SHARED[M.OPCODES // 8 + which], M.SHARED[M.ROWS // 8 + which] = row.opcode, id(row)
    M.THINGS.append((thing, row))
    M.SHARED[at // 8] = id(thing)
