"""The adjoint, or the tangent, of one scalar instruction as a few scalar instructions, made from its row.

Instructions share a *template* (see `kernel.expand.scalars`) if they share the row, which
operands need an adjoint and which is the inline constant.  The partial derivatives of the
row, traced once with symbolic operands, say what the template is.  What depends on the inline
constant alone is computed for all instructions at once, with NumPy; where a rule chooses by
it (``select(y == 0, ...)`` in the derivative of ``x ** y``) the instructions are divided by the
outcome, and each part has a template of its own.  The adjoint of ``z = sin(x)``, whose partial is ``cos(x)``::

    instructions     5: cos 0             the cosine of the operand
                     6: multiply 3, 5     times the adjoint of z
    contributions    (0, 6, +)            is added to the adjoint of operand 0

A choice that depends on values becomes the rows of `rules.predicates`.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from ..array.recorded import ROW_OF, value_function
from ..common.errors import require
from ..rules import BY_NAME, by_opcode
from ..rules import lang as L
from ..tape.layout import FIRST_ARRAY, SCALAR_LEAF
from .reasons import NotLowered

#: Operands of a template's instructions.
CONSTANT, X, Y, Z, W, V, FIRST = -1, 0, 1, 2, 3, 4, 5
_LEAVES = {"x": X, "y": Y, "z": Z}
#: What makes a pattern: the operands that need an adjoint or have a tangent, and the one that is the inline constant.
WANT_X, WANT_Y, FIXED_X, FIXED_Y = 1, 2, 4, 8
#: Comparison -> row that gives it as a number, and whether its operands are swapped.
COMPARISONS = {
    "lt": ("is_less", False), "gt": ("is_less", True), "le": ("is_less_equal", False), "ge": ("is_less_equal", True),
    "eq": ("is_equal", False),
}  # fmt: skip


class Undecided(Exception):
    """A choice by the inline constant that has not been made."""

    def __init__(self, condition):
        self.condition = condition


def choice(condition, yes, no, emit):
    """Instructions, by `emit`, of one of two values; of these None is zero."""
    parts = [emit(row, condition, value) for row, value in (("if_true", yes), ("if_false", no)) if value is not None]
    return None if not parts else parts[0] if len(parts) == 1 else emit("add", *parts)


def condition(name, args, emit, one):
    """Instructions, by `emit`, of a condition, as a number that is 1 or 0; None if `name` is no condition.  `one` is the number 1."""
    if name in COMPARISONS:
        row, swapped = COMPARISONS[name]
        return emit(row, *(args[::-1] if swapped else args))
    if name == "ne" or name == "not":
        return emit("subtract", one, condition("eq", args, emit, one) if name == "ne" else args[0])
    if name == "or":
        return emit("add", args[0], emit("if_false", *args))
    row = {"and": "multiply", "isnan": "is_nan"}.get(name)
    return None if row is None else emit(row, *args)


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

    Attributes
    ----------
    instructions : list of (int, int, int, Expr or None)
        Opcode, operands, constant.
    contributions : list of (int, int, int)
        Operand, value, sign.
    """

    def __init__(self, row, pattern, decisions, forward, absolute):
        self.row, self.decisions, self.absolute = row, dict(decisions), absolute
        self.instructions, self.contributions = [], []
        self._known = {}
        for operand, partial in _partials(row, pattern):
            if pattern & (WANT_X, WANT_Y)[operand]:
                self._factor = V if forward and operand else W
                product = self.product(L.Expr.lift(partial))
                if product is not None:
                    self.contributions.append((operand, *product))

    # -- instructions ---------------------------------------------------------
    def emit(self, name, *operands):
        """The instruction of row `name`; operands are numbers of values or expressions of the constant."""
        refs = [o if isinstance(o, int) else CONSTANT for o in operands]
        constants = [o for o in operands if not isinstance(o, int)]
        require(len(constants) < 2 and len(refs) > len(constants), f"the rule of {self.row.name} calls {name} with constants only")
        constant = constants[0] if constants else None
        key = (name, *refs, None if constant is None else constant.key())
        if key not in self._known:
            self._known[key] = FIRST + len(self.instructions)
            left, right = refs if len(refs) == 2 else (refs[0], CONSTANT)
            self.instructions.append((BY_NAME[name].opcode, left, right, constant))
        return self._known[key]

    def value(self, expr):
        """`expr` as the number of a value, or as an expression of the constant; conditions are 1 or 0."""
        if expr.op == "arg" and expr.args[0] in _LEAVES:
            return _LEAVES[expr.args[0]]
        if expr.op == "select":
            chosen, *values = expr.args
            chosen = self.value(chosen)
            if isinstance(chosen, L.Expr):
                return self.value(values[0 if chosen.args[0] else 1])
            values = [None if v.is_const and v.args[0] == 0.0 else self.value(v) for v in values]
            result = choice(chosen, *values, self.emit)
            return L.Expr.lift(0.0) if result is None else result
        if set(expr.leaves()) <= {"c"}:
            return L.Expr.lift(float(self.decide(expr))) if expr.is_bool else expr
        name = "mul" if expr.op == "mul0" and not self.absolute else expr.op
        args = [self.value(a) for a in expr.args]
        if all(isinstance(a, L.Expr) for a in args):
            return self.value(L.simplify(name, tuple(args)))
        if name in ("and", "or") and any(isinstance(a, L.Expr) for a in args):
            # One of the two is known.
            known, other = args if isinstance(args[0], L.Expr) else args[::-1]
            return other if (known.args[0] == 1.0) == (name == "and") else known
        if expr.is_bool:
            return condition(name, args, self.emit, L.Expr.lift(1.0))
        if name == "pow" and isinstance(args[1], L.Expr):
            if self.decide(L.eq(args[1], 2.0)):
                return self.emit("multiply", args[0], args[0])
            if self.decide(L.eq(args[1], 1.0)):
                return args[0]
        row = BY_NAME.get(ROW_OF.get(name, name))
        if row is None or self.absolute and name in L.COMPILED:
            raise NotLowered(f"the derivative of {self.row.name} needs {name}, which has no {'derivative of its own' if row else 'row'}")
        return self.emit(row.name, *args)

    def decide(self, condition):
        """The truth of a condition on the constant."""
        if condition.key() not in self.decisions:
            raise Undecided(condition)
        return self.decisions[condition.key()]

    # -- products with the adjoint ------------------------------------------------
    def product(self, partial):
        """The adjoint, or the tangent, times a partial derivative as (value, sign), or None if it is zero."""
        sign = 1
        while partial.op == "neg":
            partial, sign = partial.args[0], -sign
        if _piecewise(partial):
            chosen, yes, no = partial.args
            chosen = self.value(chosen)
            if isinstance(chosen, L.Expr):
                product = self.product(yes if chosen.args[0] else no)
                return product and (product[0], sign * product[1])
            value = choice(chosen, self._signed(self.product(yes)), self._signed(self.product(no)), self.emit)
            return None if value is None else (value, sign)
        factor = self.value(partial)
        if isinstance(factor, L.Expr) and factor.is_const and factor.args[0] in (0.0, 1.0, -1.0):
            number = factor.args[0]
            return (self._factor, sign if number > 0 else -sign) if number else None
        plain = not self.absolute or isinstance(factor, L.Expr) and factor.is_const and np.isfinite(factor.args[0])
        return self.emit("multiply" if plain else "absolute_product", self._factor, factor), sign

    def _signed(self, product):
        if product is None:
            return None
        value, sign = product
        return value if sign > 0 else self.emit("negative", value)


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
def template(row, pattern, decisions, forward, absolute):
    """The template, made once; raises `Undecided`."""
    return Template(row, pattern, decisions, forward, absolute)


def evaluate(expr, constants):
    """An expression of the inline constant, for an array of them."""
    if expr.op == "const":
        return expr.args[0]
    if expr.op == "arg":
        return constants
    with np.errstate(all="ignore"):
        return value_function(expr.op)(*[evaluate(a, constants) for a in expr.args])


class Plan:
    """Templates of all scalar instructions of a tape.

    Parameters
    ----------
    tape : FinishedTape
        What is active in it needs an adjoint, or has a tangent.
    writer : Writer
        That holds it.  In what is differentiated again, zero times infinity is zero in products with adjoints or tangents.
    forward : bool
        Whether the templates are those of tangents.

    Attributes
    ----------
    template : ndarray of int32
        Of each slot, -1 if it has none.
    pools, pool : ndarray
        Where the constants of each slot's template are, and they.
    starts, instructions, literals, ends, contributions : ndarray
        The templates.
    room : ndarray of int64
        No more instructions than ``room[high + 1] - room[low]`` are made for the slots from low to high.

    Raises
    ------
    NotLowered
        Some derivative has no row; its instruction is named.
    """

    def __init__(self, tape, writer, forward):
        self.tape, self.constants, self.forward, self.absolute = tape, writer.constants, forward, writer.again
        ops, active = writer.ops[: writer.first], tape.active
        self.template = np.full(len(ops), -1, np.int32)
        self.pools = np.zeros(len(ops), np.int64)
        self._pool, self._filled = [], 0
        self._templates = []
        scalar = (ops > SCALAR_LEAF) & (ops < FIRST_ARRAY) & active
        slots = np.flatnonzero(scalar)
        a, b = writer.lefts[slots], writer.rights[slots]
        codes = (ops[slots] << 4) | active[a] * WANT_X | active[b] * WANT_Y | (a == 0) * FIXED_X | (b == 0) * FIXED_Y
        present = np.flatnonzero(np.bincount(codes)) if len(slots) else ()
        for code in present:
            self._group(by_opcode(int(code) >> 4), int(code) & 15, slots[codes == code], ())
        self._columns()

    def _group(self, row, pattern, slots, decisions):
        if row.arity < 2 or row.name == "where":
            pattern &= WANT_X | WANT_Y
        try:
            row_template = template(row, pattern, decisions, self.forward, self.absolute)
        except Undecided as needed:
            outcome = np.broadcast_to(evaluate(needed.condition, self.constants[slots]), slots.shape).astype(bool)
            for truth in (True, False):
                part = slots[outcome == truth]
                if len(part):
                    self._group(row, pattern, part, (*decisions, (needed.condition.key(), truth)))
            return
        except NotLowered as reason:
            raise NotLowered(reason.what, self.tape.place(int(slots[0]))) from None
        self.template[slots] = len(self._templates)
        self._templates.append(row_template)
        own = [c for *_, c in row_template.instructions if c is not None and not c.is_const]
        if own:
            constants = self.constants[slots]
            values = [np.broadcast_to(evaluate(c, constants), constants.shape) for c in own]
            self._pool.append(np.stack(values, 1).astype(float).reshape(-1))
            self.pools[slots] = self._filled + len(own) * np.arange(len(slots))
            self._filled += len(own) * len(slots)

    def _columns(self):
        starts, ends, rows, literals, contributions = [0], [0], [], [], []
        for template in self._templates:
            offset = 0
            for opcode, left, right, constant in template.instructions:
                own = constant is not None and not constant.is_const
                rows.append((opcode, left, right, offset if own else -1))
                literals.append(0.0 if constant is None or own else constant.args[0])
                offset += own
            contributions += template.contributions
            starts.append(len(rows))
            ends.append(len(contributions))
        self.starts, self.ends = np.array(starts), np.array(ends)
        # The last is that of slots without template.
        sizes = np.append(np.diff(self.starts) + np.diff(self.ends), 0)
        self.room = np.concatenate([[0], np.cumsum(sizes[self.template])])
        self.instructions = np.array(rows, np.int32).reshape(-1, 4)
        self.literals = np.array(literals, float)
        self.contributions = np.array(contributions, np.int32).reshape(-1, 3)
        self.pool = np.concatenate(self._pool) if self._pool else np.zeros(1)
