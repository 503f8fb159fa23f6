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
"""

from functools import cache

import numpy as np

from ..array.recorded import value_function
from ..codegen.array_functions import compiled_on_arrays
from ..codegen.compile import inlined
from ..common.errors import InternalError
from ..rules import by_opcode
from ..rules import lang as L
from ..tape.layout import FIRST_ARRAY, SCALAR_LEAF
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
    """Templates one after the other, as compiled walks read them (`derive`, `kernel.scalars.write`); number 0 is none.

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
