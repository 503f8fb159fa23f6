"""The adjoints, or the tangents, of scalar instructions of a store, written right behind them: compiled walks over records.

`write`     writes what the templates (`kernel.templates`) of the marked instructions say, with values and place: adjoints from the root
            down, or tangents from the lowest slot up.
`entry_of`  finds what was chosen for a constant.

An adjoint or tangent is a *reference*: the slot of a record, or ``-1 - k`` for the constant k of a pool; 0 is zero.  What is constant is
folded, so that the derivative of ``3 * x`` is the number 3, as if Python had multiplied.
"""

from ..codegen.compile import compiled, helper
from ..codegen.memory import call4_int, double_at, int_at, load_byte, load_int32, set_double_at, set_int_at, store_int32
from ..interpreter.calls import SIZE
from ..tape.layout import CONSTANT, FIRST_ARRAY, OFFSET_AT, SCALAR_LEAF
from ..tape.store import WORDS as STORE_WORDS
from .templates import FIRST, operand

#: The words of `write`.  (`STORE`: the address of the store's own words; `OFFSET`: where the gradient was asked for, or negative: what is
#: written stands where the instruction does that it belongs to; `LAST`: the slot at which it ends.)
LOW, AT, POOLED, MARKED, STORE, OFFSET, LAST, RECORDS, COUNT, MOST, MOST_POOLED, ADJOINTS, POOL = range(13)
#: Of templates, written as one; the address of what was chosen by constant, and of what templates compute of theirs.
TEMPLATES, STARTS, LINES, LITERALS, ENDS, SHARES, CHOSEN, OWN = range(13, 21)
#: Results of a template's lines; opcodes of sums and products; the switch of values (`codegen.of_rows`); 1 for tangents, upwards, -1 for
#: adjoints, downwards.
DONE, ARITHMETIC, VALUES, STEP = range(21, 25)
WORDS = 25
#: Words of a store.
_LENGTH, _ADDRESS = STORE_WORDS["length"] // 8, STORE_WORDS["address"] // 8
#: What `write` returns: it is through; the template of the instruction at hand is asked for; there is no more room; it has no template;
#: there is no value for the record at hand.
THROUGH, ASKS, FULL, CANNOT, UNKNOWN = range(5)
#: Words of a line of a template: opcode, operands (as of `kernel.templates`), which constant, number of operands.
LINE = 5
#: Lines of the longest template.
LONGEST = 64
#: Entries of what was chosen by constant, a power of 2; the words of one: opcode and pattern, bits of the constant, template, first of what is computed of it.
ENTRIES, ENTRY = 8192, 4


@helper
def _folded(op, x, y, arithmetic):
    """An operation on constants, and whether it is one that can be done here."""
    add, subtract, multiply = int_at(arithmetic, 0), int_at(arithmetic, 1), int_at(arithmetic, 2)
    negative, absolute, divide = int_at(arithmetic, 3), int_at(arithmetic, 4), int_at(arithmetic, 5)
    if op == multiply or op == absolute:
        product = x * y
        return 0.0 if op == absolute and product - product != 0.0 and (x == 0.0 or y == 0.0) else product, True
    if op == divide and y != 0.0:
        return x / y, True
    return x + y if op == add else x - y if op == subtract else -x, op == add or op == subtract or op == negative


@helper
def _pooled(words, value):
    """The reference of a new constant."""
    k = int_at(words, POOLED)
    set_double_at(int_at(words, POOL), k, value)
    set_int_at(words, POOLED, k + 1)
    return -1 - k


@helper
def _appended(words, op, a, b, constant):
    slot = int_at(words, COUNT)
    record = int_at(words, RECORDS) + SIZE * slot
    store_int32(record, op)
    store_int32(record + 4, a)
    store_int32(record + 8, b)
    store_int32(record + OFFSET_AT, load_int32(int_at(words, RECORDS) + SIZE * int_at(words, AT) + OFFSET_AT))
    set_double_at(record + CONSTANT, 0, constant)
    set_int_at(words, COUNT, slot + 1)
    return slot


@helper
def _made(words, op, operands, a, b, arithmetic):
    """The reference of an operation on references; 0 if its operands are constants, and it is none that can be done here."""
    pool = int_at(words, POOL)
    x = double_at(pool, -1 - a) if a < 0 else 0.0
    y = double_at(pool, -1 - b) if b < 0 else 0.0
    if a < 0 and (b < 0 or operands == 1):
        value, done = _folded(op, x, y, arithmetic)
        return _pooled(words, value) if done else 0
    if a > 0 and (b > 0 or operands == 1):
        return _appended(words, op, a, b, 0.0)
    number, other = (x, b) if a < 0 else (y, a)
    multiply, absolute = int_at(arithmetic, 2), int_at(arithmetic, 4)
    if (op == multiply or op == absolute) and number == 1.0:
        return other
    if op == absolute and number != 0.0 and number - number == 0.0:
        op = multiply
    return _appended(words, op, max(a, 0), max(b, 0), number)


@helper
def _entry(table, code, bits):
    k = (bits ^ (bits >> 31) ^ (bits >> 47) ^ (code << 3)) & (ENTRIES - 1)
    while True:
        at = table + 8 * ENTRY * k
        if int_at(at, 0) == 0 or int_at(at, 0) == code and int_at(at, 1) == bits:
            return k
        k = (k + 1) & (ENTRIES - 1)


@compiled("int64(int64, int64, int64)")
def entry_of(table, code, bits):
    """The entry of an opcode with its pattern and the bits of a constant: where it is, or where it belongs."""
    return _entry(table, code, bits)


@helper
def _written(words):
    arithmetic = int_at(words, ARITHMETIC)
    add, subtract, negative = int_at(arithmetic, 0), int_at(arithmetic, 1), int_at(arithmetic, 3)
    records, low, adjoints, done = int_at(words, RECORDS), int_at(words, LOW), int_at(words, ADJOINTS), int_at(words, DONE)
    start, marked, step = int_at(words, AT), int_at(words, MARKED), int_at(words, STEP)
    many = max((int_at(words, LAST) - start) * step + 1, 0)
    for n in range(many):
        i = start + n * step
        set_int_at(words, AT, i)
        w, v = int_at(adjoints, i - low), 0
        record = records + SIZE * i
        op, a, b = load_int32(record), load_int32(record + 4), load_int32(record + 8)
        # An adjoint that is there passes on; where a tangent is there, it stays.
        if (w == 0) == (step < 0) or load_byte(marked + i - low) == 0 or op == SCALAR_LEAF:
            continue
        if op < SCALAR_LEAF or op >= FIRST_ARRAY:
            return CANNOT
        code = (op << 4) + (4 if a == 0 else 0) + (8 if b == 0 else 0)
        if step > 0:
            w, v = int_at(adjoints, a - low) if a >= low else 0, int_at(adjoints, b - low) if b >= low else 0
            code += (1 if w != 0 else 0) + (2 if v != 0 else 0)
            if w == 0 and v == 0:
                continue
        else:
            code += (1 if a >= low and load_byte(marked + a - low) != 0 else 0) + (2 if b >= low and load_byte(marked + b - low) != 0 else 0)
        # If that is the only expression of its constant that a template has, it is in the record.
        t, own = load_int32(int_at(words, TEMPLATES) + 4 * code), record + CONSTANT
        if t == 0:
            table = int_at(words, CHOSEN)
            entry = table + 8 * ENTRY * _entry(table, code, int_at(record + CONSTANT, 0))
            t, own = int_at(entry, 2), int_at(words, OWN) + 8 * int_at(entry, 3)
            if t == 0:
                return ASKS
        if t < 0:
            return CANNOT
        first, last = int_at(int_at(words, STARTS), t), int_at(int_at(words, STARTS), t + 1)
        if int_at(words, COUNT) + last - first + 4 > int_at(words, MOST) or int_at(words, POOLED) + 2 * (last - first) + 8 > int_at(words, MOST_POOLED):
            return FULL
        for k in range(first, last):
            line = int_at(words, LINES) + 8 * LINE * k
            ref, other, kind, operands = int_at(line, 1), int_at(line, 2), int_at(line, 3), int_at(line, 4)
            constant = 0
            if ref == 0 or operands > 1 and other == 0:
                constant = _pooled(words, double_at(own, kind) if kind >= 0 else double_at(int_at(words, LITERALS), k))
            left = operand(ref, a, b, i, w, v, constant) if ref < FIRST else int_at(done, ref - FIRST)
            right = operand(other, a, b, i, w, v, constant) if other < FIRST else int_at(done, other - FIRST)
            made = _made(words, int_at(line, 0), operands, left, right, arithmetic)
            if made == 0:
                return CANNOT
            set_int_at(done, k - first, made)
        for k in range(int_at(int_at(words, ENDS), t), int_at(int_at(words, ENDS), t + 1)):
            share = int_at(words, SHARES) + 24 * k
            target = (i if step > 0 else a if int_at(share, 0) == 0 else b) - low
            ref, positive = int_at(share, 1), int_at(share, 2) > 0
            value = operand(ref, 0, 0, 0, w, v, 0) if ref < FIRST else int_at(done, ref - FIRST)
            before = int_at(adjoints, target)
            if before == 0:
                after = value if positive else _made(words, negative, 1, value, 0, arithmetic)
            else:
                after = _made(words, add if positive else subtract, 2, before, value, arithmetic)
            set_int_at(adjoints, target, after)
    set_int_at(words, AT, start + many * step)
    return THROUGH


@compiled("int64(int64)")
def write(words):
    """Write behind what the store has, from the slot that the words say to another: `THROUGH`, or why it has stopped at a slot.

    The records that it has written are the store's when it returns, with their values: whatever is recorded from then on comes behind them.
    """
    store = int_at(words, STORE)
    start, records = int_at(store, _LENGTH), int_at(store, _ADDRESS)
    set_int_at(words, RECORDS, records)
    set_int_at(words, COUNT, start)
    status, count = _written(words), int_at(words, COUNT)
    set_int_at(store, _LENGTH, count)
    if int_at(words, OFFSET) >= 0:
        for i in range(start, count):
            store_int32(records + SIZE * i + OFFSET_AT, int_at(words, OFFSET))
    known = call4_int(int_at(words, VALUES), records, 0, start, count - 1) if start < count else count
    if known < count:
        set_int_at(words, AT, known)
        return UNKNOWN
    return status
