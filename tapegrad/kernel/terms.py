"""The rules' language (`interpreter.rule_array`) on values that do not exist yet: rules write derivative instructions.

Each operation on a `Term` is at once an instruction of a `Writer`: one on float64 scalars a scalar instruction, any other an
entry.  Nothing is computed, only shapes and dtypes are followed.  Products are plain, for what is
written answers only where every result is finite; where that would be too rarely, and in what will be differentiated again,
zero is absolute (`Writer.absolute`).
"""

import math

import numpy as np

from ..array.recorded import LOGICAL, row_of, value_function
from ..interpreter.rule_array import RuleArray
from ..rules import BY_NAME
from ..rules import lang as L
from ..rules.shapes import promoted
from ..tape.layout import SCALAR, c_strides
from .reasons import NotLowered

#: Condition -> row that gives it as a number; "gt" and "ge" swap their operands.
CONDITIONS = {
    "lt": "is_less", "gt": "is_less", "le": "is_less_equal", "ge": "is_less_equal", "eq": "is_equal", "and": "multiply", "isnan": "is_nan",
}  # fmt: skip


class Term(RuleArray):
    """A value that an instruction will give.

    Parameters
    ----------
    writer : Writer
    slot : int
        Slot, or the negative number of a constant.
    shape : tuple of int
    char : str
        dtype character.
    number : float or Expr, optional
        The value of every element, if it is a known number; in a template, an expression of the inline constant.
    like : str, optional
        Of a condition: the dtype of what it compared.
    """

    __slots__ = ("writer", "slot", "shape", "char", "number", "like")

    def __init__(self, writer, slot, shape, char, number=None, like=None):
        self.writer, self.slot, self.shape, self.char, self.number, self.like = writer, slot, tuple(shape), char, number, like

    @classmethod
    def of(cls, writer, slot):
        """The term of a slot or constant."""
        meta = writer.meta(slot)
        if meta is not SCALAR and meta.shape == () and meta.char == "d":
            # A constant that is an array without axes: instructions on scalars read numbers of the tape.
            return cls(writer, writer.entry(BY_NAME["clone"], (slot,)), (), "d")
        has_number = slot < 0 and (meta is SCALAR or meta.shape == () and meta.char == "?")
        number = float(writer.values[-1 - slot]) if has_number else None
        return cls(writer, slot, meta.shape, meta.char, number)

    @property
    def _PRODUCT(self):
        return "absolute_matmul" if self.writer.absolute else "matmul"

    @property
    def is_scalar(self):
        """Whether it is a float64 number, or a condition on such."""
        return self.shape == () and (self.char == "d" or self.char == "c")

    @property
    def weak(self):
        """Whether it promotes as a number of Python does, beside arrays."""
        return self.is_scalar or self.number is not None and self.char == "d"

    # -- writing ------------------------------------------------------------------
    def _call(self, name, operands, attrs=(), integer=0, compute=None):
        row, first = BY_NAME[name], operands[0]
        if first.number is not None and (row.effect == "view" or name == "sum" and first.char == "d"):
            # Elements that are all one number are so in another place, too.
            shape, char = row.shape(first, **row.keywords(attrs, integer))
            number = first.number if name != "sum" else first.number * (first.size // max(math.prod(shape), 1))
            return self._number(number, shape, char)
        window = first.slot, attrs, integer
        if name == "as_strided" and window in self.writer.placed:
            return self.writer.placed[window]
        slot = self.writer.entry(row, tuple([t.reference() for t in operands]), attrs, integer)
        meta = self.writer.meta(slot)
        if name == "place" and dict(attrs)["strides"] == c_strides(first.shape, 1):
            self.writer.placed[slot, (("shape", first.shape), *attrs[1:]), integer] = first
        return Term(self.writer, slot, meta.shape, meta.char)

    def reference(self):
        """The reference that an entry has to this operand."""
        if self.number is not None and self.slot == 0:
            uniform = self.number if self.is_scalar else np.broadcast_to(np.asarray(self.number, self.char), self.shape)
            self.slot = self.writer.values.add(uniform)
        return self.slot

    def _number(self, number, shape=(), char="d"):
        return Term(self.writer, 0, shape, char, float(number))

    def _lift(self, value):
        return value if isinstance(value, Term) else self._number(value)

    def cast(self, char):
        """This value in another dtype."""
        if self.char == char:
            return self
        if self.number is not None:
            return self._number(np.asarray(self.number, char), self.shape, char)
        return self._call("astype", (self,), (("dtype", char),))

    # -- element-wise ---------------------------------------------------------------
    def _apply(self, name, *args):
        args = [self._lift(a) for a in args]
        if name == "mul0" and (not self.writer.absolute or any(isinstance(a.number, float) and 0.0 < abs(a.number) < np.inf for a in args)):
            name = "mul"
        if name == "select" and args[0].number is not None:
            shape, char = _shape(args), _result(args[1:])
            return args[1 if args[0].number else 2].cast(char).broadcast_to(shape)
        if all(a.number is not None for a in args):
            return self._folded(name, args)
        simple = _simple(name, args)
        if simple is not None:
            return simple
        if all(a.is_scalar for a in args) and (len(args) < 3 or name == "select"):
            return self._scalar(name, args)
        return self._array(name, args)

    def _folded(self, name, args):
        """An operation on known numbers."""
        shape, char = _shape(args), _result(args)
        with np.errstate(all="ignore"):
            return self._number(value_function(name)(*[np.dtype(char).type(a.number) for a in args]), shape, char)

    def _scalar(self, name, args):
        """A scalar instruction, or two where there is a choice; conditions are 1 or 0."""
        emit = self._instruction
        if name == "select":
            chosen = self._choice(args[0], *[None if value.number == 0.0 else value for value in args[1:]])
            return self._number(0.0) if chosen is None else chosen
        if name in CONDITIONS:
            written = emit(CONDITIONS[name], *(args[::-1] if name in ("gt", "ge") else args))
        elif name == "ne" or name == "not":
            written = emit("subtract", self._number(1.0), self._scalar("eq", args) if name == "ne" else args[0])
        elif name == "or":
            written = emit("add", args[0], emit("if_false", *args))
        else:
            return emit(_row(name, self.writer.again).name, *args)
        return Term(self.writer, written.slot, (), "c")

    def _choice(self, condition, yes, no):
        """One of two scalars; of these None is zero."""
        parts = [self._instruction(row, condition, value) for row, value in (("if_true", yes), ("if_false", no)) if value is not None]
        return self._instruction("add", *parts) if len(parts) > 1 else parts[0] if parts else None

    def _instruction(self, name, *args):
        slots = [a.slot if a.number is None else 0 for a in args]
        constant = next((a.number for a in args if a.number is not None), 0.0)
        if len(args) == 2 and not any(slots):
            slots[0], constant = self.writer.fixed(args[0].number), args[1].number
        slot = self.writer.scalar(BY_NAME[name], *slots, *[0] * (2 - len(slots)), constant)
        return Term(self.writer, slot, (), "d")

    def _array(self, name, args):
        shape = _shape(args)
        args = [a._condition() if a.char == "c" else a for a in args]
        if any(a.number is not None and a.shape for a in args):
            # A number in many places is one number, if another operand has the shape.
            others = _shape([a for a in args if a.number is None])
            if others == shape:
                args = [self._number(a.number) if a.number is not None and a.char == "d" else a for a in args]
        slots = tuple(a.reference() for a in args)
        if name in LOGICAL:
            like = next((a.like for a in args if a.like), None) or _result(args)
            if name not in L.LOGIC:
                # Beside an array a number is weak.
                args = [a.cast(like) if a.is_scalar else a for a in args]
                slots = tuple(a.reference() for a in args)
            return Term(self.writer, self.writer.host(LOGICAL[name], slots, shape, "?"), shape, "?", like=like)
        if name == "select":
            condition, yes, no = args
            both = yes.number is not None and no.number is not None
            char = condition.like or "d" if both else _result([yes, no])
            return Term(self.writer, self.writer.entry(BY_NAME["where"], slots, result=(shape, char)), shape, char)
        char = _result(args)
        return Term(self.writer, self.writer.entry(_row(name, self.writer.again), slots, result=(shape, char)), shape, char)

    def _condition(self):
        """A condition on scalars as one bool."""
        zero = self.writer.values.add(0.0)
        return Term(self.writer, self.writer.host(np.not_equal, (self.slot, zero), (), "?"), (), "?", like="d")

    def constant(self, array):
        array = np.asarray(array, self.char if self.char in "df" else "d", order="C")
        return Term(self.writer, self.writer.values.add(array), array.shape, array.dtype.char)

    def own(self):
        # Then a write to this value's memory needs no copy of all of it.
        return self if self.is_scalar or self.number is not None else self._call("clone", (self,))


def _simple(name, args):
    """An operation that needs no instruction, or a cheaper one; None if there is none."""
    if name == "mul":
        for one, other in (args, args[::-1]):
            if one.number in (1.0, -1.0) and _decides(other, one):
                return other if one.number == 1.0 else other._apply("neg", other)
    elif (name == "div" and args[1].number == 1.0 or name == "sub" and args[1].number == 0.0) and _decides(*args):
        return args[0]
    elif name == "pow" and args[1].number in (1.0, 2.0) and _decides(*args):
        return args[0] if args[1].number == 1.0 else args[0] * args[0]
    elif name in ("and", "or"):
        for one, other in (args, args[::-1]):
            if one.number is not None and one.is_scalar and other.is_scalar:
                return other if (one.number == 1.0) == (name == "and") else one
    return None


def _decides(one, other):
    """Whether `one` alone has the shape and dtype of an operation with `other`."""
    return _shape((one, other)) == one.shape and _result([one, other]) == one.char


def _row(name, again):
    row = row_of(name)
    if row is None or again and name in L.COMPILED:
        raise NotLowered(f"a derivative needs {name}, which has no {'derivative of its own' if row else 'row'}")
    return row


def _result(terms):
    """The dtype of an element-wise result."""
    char = promoted(*terms)
    return char if char in "df" else "d"


def _shape(terms):
    """The shape of an element-wise result."""
    shapes = {t.shape for t in terms if t.shape}
    return np.broadcast_shapes(*shapes) if len(shapes) > 1 else shapes.pop() if shapes else ()
