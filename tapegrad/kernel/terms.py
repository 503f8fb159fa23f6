"""Symbolic values on which rules write derivative instructions.

A `Term` offers a rule the operations of `interpreter.symbolic.Sym` and writes each at once as an
instruction of a `Writer`: one on float64 scalars as a scalar instruction, any other as an
entry.  Nothing is computed, only shapes and dtypes are followed.  Products are plain, for what is
written answers only where every result is finite; in what will be differentiated again (`Writer.again`) zero is absolute.
"""

from __future__ import annotations

import math

import numpy as np

from ..array.eager import ROW_OF, value_function
from ..interpreter.contributions import Scattered, Windowed, fills, once
from ..rules import BY_NAME
from ..rules import lang as L
from ..tape.meta import SCALAR, c_strides
from .reasons import NotLowered
from .templates import COMPARISONS

_UFUNCS = {
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal,
    "and": np.logical_and, "or": np.logical_or, "not": np.logical_not, "isnan": np.isnan,
}  # fmt: skip


class Term(L.Operators):
    """A value that an instruction will give.

    Parameters
    ----------
    writer : Writer
    slot : int
        Slot, or the negative number of a constant.
    shape : tuple of int
    char : str
        dtype character.
    number : float, optional
        The value of every element, if it is a known number.
    like : str, optional
        Of a condition: the dtype of what it compared.
    """

    __slots__ = ("writer", "slot", "shape", "char", "number", "like")
    __array_ufunc__ = None

    def __init__(self, writer, slot, shape, char, number=None, like=None):
        self.writer, self.slot, self.shape, self.char, self.number, self.like = writer, slot, tuple(shape), char, number, like

    @classmethod
    def of(cls, writer, slot):
        """The term of a slot or constant."""
        meta = writer.meta(slot)
        has_number = slot < 0 and (meta is SCALAR or meta.shape == () and meta.char == "?")
        number = float(writer.values[-1 - slot]) if has_number else None
        return cls(writer, slot, meta.shape, meta.char, number)

    @property
    def ndim(self):
        return len(self.shape)

    @property
    def size(self):
        return math.prod(self.shape)

    @property
    def is_scalar(self):
        """Whether it is a float64 number, or a condition on such."""
        return self.shape == () and (self.char == "d" or self.char == "c")

    # -- writing ------------------------------------------------------------------
    def _entry(self, name, shape, attrs=(), integer=0, others=(), char=None):
        operands = tuple(t.reference() for t in (self, *others))
        char = char or self.char
        return Term(self.writer, self.writer.entry(BY_NAME[name], operands, shape, char, attrs, integer), shape, char)

    def reference(self):
        """What an entry names as its operand."""
        if self.number is not None and self.slot == 0:
            uniform = self.number if self.is_scalar else np.broadcast_to(np.asarray(self.number, self.char), self.shape)
            self.slot = self.writer.constant(uniform)
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
        return self._entry("astype", self.shape, (("dtype", char),), char=char)

    # -- element-wise ---------------------------------------------------------------
    def _apply(self, name, *args):
        args = [self._lift(a) for a in args]
        if name == "mul0" and (not self.writer.again or any(a.number is not None and 0.0 < abs(a.number) < np.inf for a in args)):
            name = "mul"
        if all(a.number is not None for a in args):
            shape, char = np.broadcast_shapes(*(a.shape for a in args)), _result(args)
            with np.errstate(all="ignore"):
                return self._number(value_function(name)(*[np.dtype(char).type(a.number) for a in args]), shape, char)
        simple = _simple(name, args)
        if simple is not None:
            return simple
        if name == "select" and args[0].number is not None:
            shape, char = np.broadcast_shapes(*(a.shape for a in args)), _result(args[1:])
            return args[1 if args[0].number else 2].cast(char).broadcast_to(shape)
        if all(a.is_scalar for a in args):
            return self._scalar(name, args)
        return self._array(name, args)

    def _scalar(self, name, args):
        """A scalar instruction, or two where there is a choice; conditions are 1 or 0."""
        if name == "select":
            parts = [
                self._instruction(row, [args[0], value]) for row, value in (("if_true", args[1]), ("if_false", args[2]))
                if value.number != 0.0
            ]
            return self._number(0.0) if not parts else parts[0] if len(parts) == 1 else self._instruction("add", parts)
        if name in COMPARISONS:
            row, swapped = COMPARISONS[name]
            return self._instruction(row, args[::-1] if swapped else args, "c")
        if name == "ne" or name == "not":
            inner = self._scalar("eq", args) if name == "ne" else args[0]
            return self._instruction("subtract", [self._number(1.0), inner], "c")
        if name == "and":
            return self._instruction("multiply", args, "c")
        if name == "or":
            return self._instruction("add", [args[0], self._instruction("if_false", args)], "c")
        if name == "isnan":
            return self._instruction("is_nan", args, "c")
        return self._instruction(_row(name).name, args)

    def _instruction(self, name, args, char="d"):
        slots = [a.slot if a.number is None else 0 for a in args]
        constant = next((a.number for a in args if a.number is not None), 0.0)
        if len(args) == 2 and not any(slots):
            slots[0], constant = self.writer.fixed(args[0].number), args[1].number
        slot = self.writer.scalar(BY_NAME[name], *slots, *[0] * (2 - len(slots)), constant)
        return Term(self.writer, slot, (), char)

    def _array(self, name, args):
        shape = np.broadcast_shapes(*(a.shape for a in args))
        args = [a._condition() if a.char == "c" else a for a in args]
        if any(a.number is not None and a.shape for a in args):
            # A number in many places is one number, if another operand has the shape.
            others = np.broadcast_shapes(*(a.shape for a in args if a.number is None))
            if others == shape:
                args = [self._number(a.number) if a.number is not None and a.char == "d" else a for a in args]
        slots = tuple(a.reference() for a in args)
        if name in _UFUNCS:
            like = next((a.like for a in args if a.like), None) or _result(list(args))
            if name not in L.LOGIC:
                # Beside an array a number is weak.
                args = [a.cast(like) if a.is_scalar else a for a in args]
                slots = tuple(a.reference() for a in args)
            return Term(self.writer, self.writer.ufunc(_UFUNCS[name], slots, shape, "?"), shape, "?", like=like)
        if name == "select":
            condition, yes, no = args
            both = yes.number is not None and no.number is not None
            char = condition.like or "d" if both else _result([yes, no])
            return Term(self.writer, self.writer.entry(BY_NAME["where"], slots, shape, char), shape, char)
        char = _result(args)
        return Term(self.writer, self.writer.entry(_row(name), slots, shape, char), shape, char)

    def _condition(self):
        """A condition on scalars as one bool."""
        zero = self.writer.constant(0.0)
        return Term(self.writer, self.writer.ufunc(np.not_equal, (self.slot, zero), (), "?"), (), "?", like="d")

    # -- products -----------------------------------------------------------------
    def __matmul__(self, other):
        row, column = self.ndim == 1, other.ndim == 1
        a = (1, *self.shape) if row else self.shape
        b = (*other.shape, 1) if column else other.shape
        shape = (*np.broadcast_shapes(a[:-2], b[:-2]), *(() if row else a[-2:-1]), *(() if column else b[-1:]))
        name = "absolute_matmul" if self.writer.again else "matmul"
        return self._entry(name, shape, others=(other,), char=_result([self, other]))

    def constant(self, array):
        """A constant array in the dtype of this value."""
        array = np.ascontiguousarray(array, self.char if self.char in "df" else "d")
        return Term(self.writer, self.writer.constant(array), array.shape, array.dtype.char)

    def inv(self):
        return self._entry("inv", self.shape)

    def det(self):
        return self._entry("det", self.shape[:-2])

    def solve(self, other):
        batch = np.broadcast_shapes(self.shape[:-2], other.shape[:-2])
        return self._entry("solve", (*batch, *other.shape[-2:]), others=(other,), char=_result([self, other]))

    def svd(self):
        (m, n), axis = self.shape[-2:], self.ndim - 2
        k = min(m, n)
        packed = self._entry("svd", (*self.shape[:-2], m + 1 + n, k))
        values = packed.narrow(axis, m, m + 1).reshape((*self.shape[:-2], k))
        return [packed.narrow(axis, 0, m), values, packed.narrow(axis, m + 1, m + 1 + n).swapaxes(-1, -2)]

    # -- movement of data -----------------------------------------------------------
    def own(self):
        """A copy, which stays as it is when this value's memory is written to."""
        return self if self.is_scalar or self.number is not None else self._entry("clone", self.shape)

    def transpose(self, axes):
        axes = tuple(int(a) % self.ndim for a in axes)
        if axes == tuple(range(self.ndim)):
            return self
        shape = [self.shape[k] for k in axes]
        return self._uniform(shape) or self._entry("transpose", shape, (("axes", axes),))

    def swapaxes(self, i, j):
        axes = list(range(self.ndim))
        axes[i], axes[j] = axes[j], axes[i]
        return self.transpose(axes)

    def reshape(self, shape):
        shape = tuple(int(n) for n in shape)
        if shape == self.shape:
            return self
        return self._uniform(shape) or self._entry("reshape", shape, (("shape", shape),))

    def _uniform(self, shape):
        """The same number in another shape, or None if this is no number."""
        return None if self.number is None else self._number(self.number, shape, self.char)

    def expand_dims(self, axes):
        shape = list(self.shape)
        for axis in axes:
            shape.insert(axis, 1)
        return self.reshape(shape)

    def flip(self, axes):
        return self._uniform(self.shape) or self._entry("flip", self.shape, (("axes", tuple(int(a) % self.ndim for a in axes)),))

    def broadcast_to(self, shape):
        shape = tuple(shape)
        if shape == self.shape:
            return self
        lead = len(shape) - self.ndim
        own = (0,) * lead + tuple(0 if n == 1 else s for n, s in zip(self.shape, c_strides(self.shape, 1)))
        return self._uniform(shape) or self._entry("broadcast_to", shape, (("shape", shape), ("strides", own)))

    def narrow(self, axis, start, stop):
        shape, strides = list(self.shape), c_strides(self.shape, 1)
        axis %= self.ndim
        if start == 0 and stop == shape[axis]:
            return self
        shape[axis] = stop - start
        return self.strided(shape, strides, start * strides[axis])

    def strided(self, shape, strides, offset):
        shape, strides = tuple(shape), tuple(strides)
        if offset == 0 and shape == self.shape and strides == c_strides(shape, 1):
            return self
        name = "select" if shape == () else "as_strided"
        return self._uniform(shape) or self._entry(name, shape, (("shape", shape), ("strides", strides)), integer=int(offset))

    def gather(self, index, shape):
        return self._entry("gather", shape, (("shape", tuple(shape)),), others=(index,))

    def place(self, shape, strides, offset):
        """Contribution: this array added into a window of zeros of `shape`."""
        source, strides = once(self, strides)
        return source.reshape(shape) if fills(source, shape, strides, offset) else Windowed(source, shape, strides, int(offset))

    def scatter(self, index, shape):
        """Contribution: this array added at flat positions `index` of zeros of `shape`."""
        return Scattered(self, index, shape)

    def add_window(self, other, strides, offset):
        """This array with `other` added into a window."""
        return self._entry("add_window", self.shape, (("shape", other.shape), ("strides", tuple(strides))), offset, (other,))

    def add_at(self, other, index):
        """This array with `other` added at flat positions `index`."""
        return self._entry("add_at", self.shape, others=(other, index))

    def placed(self, shape, strides, offset):
        return self._entry("place", shape, (("shape", tuple(shape)), ("strides", tuple(strides))), integer=int(offset))

    def scattered(self, index, shape):
        return self._entry("scatter", shape, (("shape", tuple(shape)),), others=(index,))

    def zeroed(self, shape, strides, offset):
        return self._assigned(self._number(0.0), shape, strides, offset)

    def _assigned(self, value, shape, strides, offset):
        attrs = (("shape", tuple(shape)), ("strides", tuple(strides)))
        return self._entry("setitem", self.shape, attrs, int(offset), (value,))

    def zeroed_at(self, index):
        return self.put_at(index, None)

    def put_at(self, index, value):
        value = self._number(0.0) if value is None else value
        values = value if value.shape == () else value.reshape((index.size,))
        return self._entry("put", self.shape, (("shape", (index.size,)),), others=(values, index))

    def assemble(self, shape, parts):
        """Zeros, in the dtype of this value, with windows ``(value, shape, strides, offset)`` written in order."""
        whole = self.constant(np.zeros(shape))
        for value, extents, strides, offset in parts:
            if strides is None and isinstance(value, Term) and value.shape == whole.shape:
                whole = value
            elif 0 not in extents:
                whole = whole._assigned(self._lift(value), extents, c_strides(shape, 1) if strides is None else strides, offset)
        return whole

    # -- reductions and scans -----------------------------------------------------------
    def reduce(self, how, axis=None, keepdims=False):
        axes = range(self.ndim) if axis is None else (axis,) if isinstance(axis, (int, np.integer)) else axis
        axes = tuple(sorted(int(a) % self.ndim for a in axes))
        if not axes:
            return self
        count = math.prod(self.shape[k] for k in axes)
        kept = [1 if k in axes else n for k, n in enumerate(self.shape) if keepdims or k not in axes]
        if self.number is not None and how == "add" and self.char == "d":
            return self._number(self.number * count, kept)
        name = {"add": "sum", "mul": "prod"}.get(how, how)
        return self._entry(name, kept, (("axis", axes), ("keepdims", keepdims)), char="d" if self.char not in "df" else None)

    def sum(self, axis=None, keepdims=False):
        return self.reduce("add", axis, keepdims)

    def scan(self, axis, how="add", reverse=False, exclusive=False):
        axis = int(axis) % self.ndim
        result = self.flip([axis]) if reverse else self
        result = result._entry("cumsum" if how == "add" else "cumprod", self.shape, (("axis", axis),))
        if exclusive:
            result = result._delayed(axis, 0.0 if how == "add" else 1.0)
        return result.flip([axis]) if reverse else result

    def recur(self, factors, axis, reverse=False, lag=False, exclusive=False):
        shape = np.broadcast_shapes(self.shape, factors.shape)
        axis, char = int(axis) % len(shape), _result([self, factors])
        operands = [t.broadcast_to(shape) for t in (self, factors)]
        attrs = (("axis", axis), ("reverse", reverse), ("lag", lag))
        result = operands[0]._entry("recurrence", shape, attrs, others=operands[1:], char=char)
        if exclusive:
            result = L.absolute_product(operands[1], result) if lag else result
            result = result.flip([axis])._delayed(axis, 0.0).flip([axis]) if reverse else result._delayed(axis, 0.0)
        return result

    def _delayed(self, axis, first):
        """Moved on by one place along `axis`; the first place becomes `first`."""
        if not self.shape[axis]:
            return self
        shape = [1 if k == axis else n for k, n in enumerate(self.shape)]
        return self.constant(np.full(shape, first))._entry(
            "concatenate", self.shape, (("axis", axis),), others=(self.narrow(axis, 0, self.shape[axis] - 1),)
        )


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
    return None


def _decides(one, other):
    """Whether `one` alone has the shape and dtype of an operation with `other`."""
    return np.broadcast_shapes(one.shape, other.shape) == one.shape and _result([one, other]) == one.char


def _row(name):
    row = BY_NAME.get(ROW_OF.get(name, name))
    if row is None:
        raise NotLowered(f"a derivative needs {name}, which has no row")
    return row


def _result(terms):
    """The dtype of an element-wise result: numbers and scalars are weak beside arrays."""
    weak = [t.is_scalar or t.number is not None and t.char == "d" for t in terms]
    char = np.result_type(*(1.0 if w else np.dtype(t.char) for t, w in zip(terms, weak))).char
    return char if char in "df" else "d"
