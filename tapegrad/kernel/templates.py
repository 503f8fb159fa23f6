"""The adjoint, or the tangent, of one scalar instruction as a few scalar instructions, made from its row.

Instructions share a *template* if they share the row, which
operands need an adjoint and which is the inline constant.  The partial derivatives of the
row, traced once with symbolic operands and computed on `terms.Term`, say what the template is.  What depends on the inline
constant alone is computed for all instructions at once, with NumPy; where a rule chooses by
it (``select(y == 0, ...)`` in the derivative of ``x ** y``) the instructions are divided by the
outcome, and each part has a template of its own.  The adjoint of ``z = sin(x)``, whose partial is ``cos(x)``::

    instructions     6: cos 1             the cosine of the operand
                     7: multiply 4, 6     times the adjoint of z
    contributions    (0, 7, +)            is added to the adjoint of operand 0

A choice that depends on values becomes the rows of `rules.elementwise`.

A template is a few instructions over these operands::

    0              none: the constant stands in
    1, 2, 3        x, y, z: operands and result of the forward instruction
    4              its adjoint; or the tangent of x
    5              the tangent of y
    6 + k          the template's k-th instruction

and contributions ``(operand 0 or 1, value, sign)``, added in order.

`derive` writes them.  Records are those of a tape (`tape.layout`), but that in the place of where each was recorded stands the forward slot it was
made for: of its eight int32 numbers the first are opcode, two operands (0: the constant stands in), that slot; of its four doubles the last is the
constant.  It walks a run of forward instructions from the start to the end for tangents, from the end to the start for
adjoints; ``word[l, i]`` is the slot of tangent or adjoint l of slot i, 0 if there is none yet.

Those of a store are written right behind them, by compiled walks over records:

`write`     writes what the templates of the marked instructions say, with values and place: adjoints from the root
            down, or tangents from the lowest slot up.
`entry_of`  finds what was chosen for a constant.

An adjoint or tangent is a *reference*: the slot of a record, or ``-1 - k`` for the constant k of a pool; 0 is zero.  What is constant is
folded, so that the derivative of ``3 * x`` is the number 3, as if Python had multiplied.
"""

from functools import cache

import numpy as np

from ..array.recorded import value_function
from ..codegen.array_functions import compiled_on_arrays
from ..codegen.compile import compiled, helper, inlined
from ..codegen.memory import call4_int, double_at, int_at, load_byte, load_int32, set_double_at, set_int_at, store_int32
from ..common.errors import InternalError
from ..interpreter.calls import SIZE
from ..rules import by_opcode
from ..rules import lang as L
from ..tape.layout import CONSTANT, FIRST_ARRAY, OFFSET_AT, SCALAR_LEAF
from ..tape.store import WORDS as STORE_WORDS
from .reasons import NotLowered
from .terms import Term

#: Operands of a template's instructions; 0 is the constant.
X, Y, Z, W, V, FIRST = 1, 2, 3, 4, 5, 6
_LEAVES = {"x": X, "y": Y, "z": Z}
#: What makes a pattern: the operands that need an adjoint or have a tangent, and the one that is the inline constant.
WANT_X, WANT_Y, FIXED_X, FIXED_Y = 1, 2, 4, 8


class _Undecided(Exception):
    """A choice by the inline constant that has not been made."""

    def __init__(self, condition):
        self.condition = condition


class _Operand(Term):
    """A number of a template; what is known of it may be an expression of the inline constant."""

    __slots__ = ()

    def _folded(self, name, args):
        number = L.simplify(name, tuple(L.Expr.lift(a.number) for a in args))
        return self._known(self.writer.decide(number) if number.is_bool else number)

    def _apply(self, name, *args):
        exponent = args[1].number if name == "pow" and isinstance(args[1], Term) else None
        if isinstance(exponent, L.Expr):
            args = args[0], next((self._known(n) for n in (2.0, 1.0) if self.writer.decide(L.eq(exponent, n))), args[1])
        return super()._apply(name, *args)

    def _known(self, number):
        is_number = isinstance(number, L.Expr) and number.is_const
        return _Operand(self.writer, 0, (), "d", float(number.args[0]) if is_number else number)


class Template:
    """Instructions and contributions.

    Parameters
    ----------
    row : Row
    pattern : int
    decisions : tuple of (str, bool)
        Choices by the inline constant.
    forward : bool
        Whether partials multiply the tangents of their operands (W of the first, V of the
        second), not the adjoint W of the result.
    again : bool
        As of `Writer`.

    Attributes
    ----------
    instructions : list of (int, int, int, Expr or float)
        Opcode, operands, constant.
    contributions : list of (int, int, int)
        Operand, value, sign.
    """

    def __init__(self, row, pattern, decisions, forward, again):
        self.row, self.decisions, self.again, self.absolute = row, dict(decisions), again, again
        self.instructions, self.contributions = [], []
        self._made = {}
        for operand, partial in _partials(row, pattern):
            if pattern & (WANT_X, WANT_Y)[operand]:
                self._factor = self._leaf(V if forward and operand else W)
                product = self.product(L.Expr.lift(partial))
                if product is not None:
                    self.contributions.append((operand, product[0].slot, product[1]))

    # -- what a writer does for terms ---------------------------------------------
    def scalar(self, row, left, right, constant):
        """An instruction; returns its number."""
        key = row.opcode, left, right, constant.key() if isinstance(constant, L.Expr) else float(constant).hex()
        if key not in self._made:
            self._made[key] = FIRST + len(self.instructions)
            self.instructions.append((row.opcode, left, right, constant))
        return self._made[key]

    def fixed(self, number):
        raise InternalError(f"the rule of {self.row.name} calls a row with constants only")

    def decide(self, condition):
        """The truth of a condition on the constant, as a number."""
        if condition.key() not in self.decisions:
            raise _Undecided(condition)
        return float(self.decisions[condition.key()])

    def _leaf(self, slot):
        return _Operand(self, slot, (), "d")

    def value(self, expr):
        """The number that an expression gives; of a choice that is made, one side."""
        if expr.op == "arg" and expr.args[0] in _LEAVES:
            return self._leaf(_LEAVES[expr.args[0]])
        if expr.op in ("arg", "const"):
            return self._leaf(0)._known(expr)
        first = self.value(expr.args[0])
        if expr.op == "select" and first.number is not None:
            return self.value(expr.args[1 if first.number else 2])
        return first._apply(expr.op, first, *map(self.value, expr.args[1:]))

    # -- products with the adjoint ------------------------------------------------
    def product(self, partial):
        """The adjoint, or the tangent, times a partial derivative as (value, sign), or None if it is zero."""
        sign = 1
        while partial.op == "neg":
            partial, sign = partial.args[0], -sign
        if _piecewise(partial):
            chosen, yes, no = partial.args
            chosen = self.value(chosen)
            if chosen.number is not None:
                product = self.product(yes if chosen.number else no)
                return product and (product[0], sign * product[1])
            value = self._factor._choice(chosen, self._signed(self.product(yes)), self._signed(self.product(no)))
            return None if value is None else (value, sign)
        factor = self.value(partial)
        if factor.number in (0.0, 1.0, -1.0):
            return (self._factor, sign if factor.number > 0 else -sign) if factor.number else None
        return self._factor._apply("mul0", self._factor, factor), sign

    def _signed(self, product):
        if product is None:
            return None
        value, sign = product
        return value if sign > 0 else -value


def _piecewise(expr):
    """Whether `expr` chooses between constants."""
    return expr.op == "select" and all(_piecewise(a) or set(a.leaves()) <= {"c"} for a in expr.args[1:])


def _partials(row, pattern):
    """(operand, partial derivative) over 'x', 'y', 'z' and the inline constant 'c'."""
    x, y, z, c = (L.arg(name) for name in "xyzc")
    if row.name == "where":
        return [(k, row.partials[k + 1](L.ne(c, 0.0), x, y, z)) for k in range(2)]
    operands = [c if pattern & FIXED_X else x, c if pattern & FIXED_Y else y][: row.arity]
    return [(k, partial(*operands, z)) for k, partial in enumerate(row.partials) if partial is not None]


@cache
def template(row, pattern, decisions, forward, again):
    """The template, made once; or the condition on the inline constant, an `Expr`, that has to be decided before."""
    if pattern > WANT_X | WANT_Y and (row.arity < 2 or row.name == "where"):
        return template(row, pattern & (WANT_X | WANT_Y), decisions, forward, again)
    try:
        return Template(row, pattern, decisions, forward, again)
    except _Undecided as needed:
        return needed.condition


def evaluate(expr, constants):
    """An expression of the inline constant, for an array of them."""
    if expr.op == "const":
        return expr.args[0]
    if expr.op == "arg":
        return constants
    with np.errstate(all="ignore"):
        return value_function(expr.op)(*[evaluate(a, constants) for a in expr.args])


class TemplateColumns:
    """Templates one after the other, as compiled walks read them (`derive`, `write`); number 0 is none.

    A line is (opcode, left, right, number among the template's expressions of the inline constant or -1 for a literal, arity).

    Attributes
    ----------
    own : list of list of Expr
        The expressions of the inline constant that each template has.
    """

    def __init__(self):
        self.starts, self.ends, self.lines, self.literals, self.contributions, self.own = [0, 0], [0, 0], [], [], [], [[]]

    def add(self, made):
        """Add a template; returns its number."""
        own = {c.key(): c for *_, c in made.instructions if isinstance(c, L.Expr)}
        numbers = {key: k for k, key in enumerate(own)}
        for opcode, left, right, constant in made.instructions:
            is_own = isinstance(constant, L.Expr)
            self.lines.append((opcode, left, right, numbers[constant.key()] if is_own else -1, by_opcode(opcode).arity))
            self.literals.append(0.0 if is_own else constant)
        self.contributions += made.contributions
        self.starts.append(len(self.lines))
        self.ends.append(len(self.contributions))
        self.own.append(list(own.values()))
        return len(self.own) - 1

    def arrays(self):
        """Starts of lines, lines, literals, starts of contributions, contributions."""
        lines, contributions = (np.array(rows, np.int64).reshape(-1, n) for rows, n in ((self.lines, 5), (self.contributions, 3)))
        return np.array(self.starts), lines, np.array(self.literals, float), np.array(self.ends), contributions


class TemplatePlan:
    """Templates of all scalar instructions of a tape.

    Parameters
    ----------
    tape : FinishedTape
        What is active in it needs an adjoint, or has a tangent.
    forward : bool
        Whether the templates are those of tangents.
    again : bool
        As of `Writer`: zero times infinity is zero in products with adjoints or tangents.

    Attributes
    ----------
    template : ndarray of int32
        The number of that of each slot.
    pools, pool : ndarray
        Where the constants of each slot's template are, and they.
    columns : tuple of ndarray
        The templates (`TemplateColumns.arrays`).
    room : ndarray of int64
        No more instructions than ``room[high + 1] - room[low]`` are made for the slots from low to high.

    Raises
    ------
    NotLowered
        Some derivative has no row; its instruction is named.
    """

    def __init__(self, tape, forward, again):
        self.tape, self.constants, self.forward, self.again = tape, tape.records["constant"], forward, again
        ops, active = tape.records["op"], tape.active
        self.template = np.zeros(len(ops), np.int32)
        self.pools = np.zeros(len(ops), np.int64)
        self._pool, self._filled, self._templates = [np.zeros(1)], 1, TemplateColumns()
        scalar = (ops > SCALAR_LEAF) & (ops < FIRST_ARRAY) & active
        slots = np.flatnonzero(scalar)
        a, b = tape.records["a"][slots], tape.records["b"][slots]
        codes = (ops[slots] << 4) | active[a] * WANT_X | active[b] * WANT_Y | (a == 0) * FIXED_X | (b == 0) * FIXED_Y
        present = np.flatnonzero(np.bincount(codes)) if len(slots) else ()
        for code in present:
            self._group(by_opcode(int(code) >> 4), int(code) & 15, slots[codes == code], ())
        self.columns = starts, _, _, ends, _ = self._templates.arrays()
        self.room = np.concatenate([[0], np.cumsum((np.diff(starts) + np.diff(ends))[self.template])])
        self.pool = np.concatenate(self._pool)

    def _group(self, row, pattern, slots, decisions):
        try:
            row_template = template(row, pattern, decisions, self.forward, self.again)
        except NotLowered as reason:
            raise NotLowered(f"{row.name}: {reason.what}", self.tape.place(int(slots[0]))) from None
        if isinstance(row_template, L.Expr):
            outcome = np.broadcast_to(evaluate(row_template, self.constants[slots]), slots.shape).astype(bool)
            for truth in (True, False):
                part = slots[outcome == truth]
                if len(part):
                    self._group(row, pattern, part, (*decisions, (row_template.key(), truth)))
            return
        self.template[slots] = number = self._templates.add(row_template)
        own = self._templates.own[number]
        if own:
            constants = self.constants[slots]
            values = [np.broadcast_to(evaluate(c, constants), constants.shape) for c in own]
            self._pool.append(np.stack(values, 1).astype(float).reshape(-1))
            self.pools[slots] = self._filled + len(own) * np.arange(len(slots))
            self._filled += len(own) * len(slots)


# ---- compiled -----------------------------------------------------------------------------


@inlined
def operand(ref, a, b, i, w, v, constant):
    """What an operand of a template stands for that is no instruction of its own: a constant, or one of 1 to 5."""
    return a if ref == 1 else b if ref == 2 else i if ref == 3 else w if ref == 4 else v if ref == 5 else constant


@compiled_on_arrays(
    "int64(int64, int64, int64, int32[::1], float64[::1], int64, int64[:, ::1], int32[::1], int64[::1], float64[::1], "
    "int64[::1], int64[:, ::1], float64[::1], int64[::1], int64[:, ::1], int64, int64, int64)"
)
def derive(
    forward, low, high, records, numbers, count, word, template, pools, pool,
    starts, instructions, literals, ends, contributions, add, subtract, negative,
):  # fmt: skip
    """Append the tangents, or the adjoints, of the instructions `low` to `high` to the records; returns the new `count`.

    Rows of `instructions` are lines (`TemplateColumns`), with the literal constant beside them; rows of `contributions`
    (operand, value, sign).  The expressions of its inline constant are in the pool from ``pools[i]`` on.
    A contribution to the tangent of the result is made of the tangent of the operand it names.
    """
    for n in range(high - low + 1):
        i = low + n if forward else high - n
        t = template[i]
        if t == 0:
            continue
        a, b = records[8 * i + 1], records[8 * i + 2]
        for lane in range(len(word)):
            w, v = (word[lane, a], word[lane, b]) if forward else (word[lane, i], 0)
            if w == 0 and v == 0:
                continue
            base = count
            for k in range(starts[t], starts[t + 1]):
                ref, other, where = instructions[k, 1], instructions[k, 2], instructions[k, 3]
                records[8 * count], records[8 * count + 3] = instructions[k, 0], i
                records[8 * count + 1] = operand(ref, a, b, i, w, v, 0) if ref < FIRST else base + ref - FIRST
                records[8 * count + 2] = operand(other, a, b, i, w, v, 0) if other < FIRST else base + other - FIRST
                numbers[4 * count + 3] = pool[pools[i] + where] if where >= 0 else literals[k]
                count += 1
            for k in range(ends[t], ends[t + 1]):
                left = contributions[k, 0] == 0
                if forward and (w if left else v) == 0:
                    # Made for nothing, and dropped with what is not needed.
                    continue
                target = i if forward else a if left else b
                ref = contributions[k, 1]
                value = operand(ref, 0, 0, 0, w, v, 0) if ref < FIRST else base + ref - FIRST
                positive = contributions[k, 2] > 0
                before = word[lane, target]
                if before == 0 and positive:
                    word[lane, target] = value
                    continue
                records[8 * count], records[8 * count + 3] = negative if before == 0 else add if positive else subtract, i
                records[8 * count + 1], records[8 * count + 2] = (value, 0) if before == 0 else (before, value)
                numbers[4 * count + 3] = 0.0
                word[lane, target] = count
                count += 1
    return count


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
