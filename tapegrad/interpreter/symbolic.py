"""Symbolic arrays: what a rule is handed when its backward program is planned.

A `Sym` is an element-wise expression over `Atom` operands that has not been
computed yet; an `Atom` is a strided window on a buffer of the sweep.  Element-wise
work on a `Sym` only grows the expression, movement of data only changes windows,
and reductions, products and scatters ask the planner to emit steps.  So a rule
such as ``y * (g - (g * y).sum(axis, keepdims=True))`` becomes two loops and no
temporaries but the sum.

Steps look at no bounds, so every window is made by functions that do: of an array (`Sym.transpose`, `Sym.reshape`,
...), of what is written to (`inside`), of operands that are walked together (`Planner.loop`).  A tape from a file
(`transforms.saving.abstract`) rests on that.
"""

from __future__ import annotations

import math

import numpy as np

from ..common.errors import require
from ..rules import lang as L
from ..rules.shapes import axes_of
from ..tape.meta import c_strides
from .contributions import Scattered, Windowed
from .windows import fits

#: Bytes of each dtype a program may read, by NumPy's character.
ITEMSIZE = {char: np.dtype(char).itemsize for char in "df?bBhHiIlLqQ"}


class Atom:
    """A strided window: register, byte offset, shape, byte strides, dtype."""

    __slots__ = ("reg", "offset", "shape", "strides", "char")

    def __init__(self, reg, offset, shape, strides, char):
        self.reg = reg
        self.offset = offset
        self.shape = tuple(shape)
        self.strides = tuple(strides)
        self.char = char

    @property
    def whole(self):
        """Whether the window is contiguous from the start of its buffer."""
        return self.offset == 0 and contiguous(self.shape, self.strides, ITEMSIZE[self.char])

    def __repr__(self):
        return f"r{self.reg}+{self.offset}{list(self.shape)}"


def contiguous(shape, strides, itemsize):
    """Whether elements lie in C order without gaps (the strides of unit axes do not matter)."""
    expected = itemsize
    if 0 in shape:
        return True
    for extent, stride in zip(reversed(shape), reversed(strides)):
        if extent != 1:
            if stride != expected:
                return False
            expected *= extent
    return True


class Sym(L.Operators):
    """A lazily computed array inside a plan."""

    __slots__ = ("plan", "shape", "char", "expr")
    __array_ufunc__ = None

    def __init__(self, plan, shape, char, expr):
        self.plan = plan
        self.shape = tuple(shape)
        self.char = char
        self.expr = expr

    @property
    def ndim(self):
        return len(self.shape)

    @property
    def size(self):
        return int(np.prod(self.shape, dtype=np.int64))

    # -- element-wise ---------------------------------------------------------
    def _apply(self, name, *args):
        syms = [a for a in args if isinstance(a, Sym)]
        shape = np.broadcast_shapes(*(s.shape for s in syms))
        exprs = [a.expr if isinstance(a, Sym) else L.Expr.lift(a) for a in args]
        expr = L.simplify(name, tuple(exprs))
        char = "?" if expr.is_bool else "d" if any(s.char == "d" for s in syms) else _result(syms)
        sym = Sym(self.plan, shape, char, expr)
        return sym.own() if expr.op in self.plan.eager else sym

    # -- windows --------------------------------------------------------------
    @property
    def atom(self):
        """The window this symbol reads directly, or None if it must be computed."""
        if self.expr.op == "arg":
            atom = self.expr.args[0]
            if atom.shape == self.shape and atom.char == self.char:
                return atom
        return None

    def own(self):
        """This symbol computed now (a copy if it is a plain window)."""
        return self.plan.compute(self)

    def window(self):
        """This symbol as a window, computed if it must be."""
        return self if self.atom is not None else self.own()

    def _moved(self, shape, strides, offset=0):
        a = self.atom
        atom = Atom(a.reg, a.offset + offset, shape, strides, a.char)
        return Sym(self.plan, shape, self.char, L.arg(atom))

    def transpose(self, axes):
        require(sorted(k % self.ndim for k in axes) == list(range(self.ndim)), f"the axes {axes} of {self.ndim}")
        s = self.window()
        return s._moved([s.shape[k] for k in axes], [s.atom.strides[k] for k in axes])

    def swapaxes(self, i, j):
        axes = list(range(self.ndim))
        axes[i], axes[j] = axes[j], axes[i]
        return self.transpose(axes)

    def reshape(self, shape):
        require(math.prod(shape) == math.prod(self.shape) and min(shape, default=0) >= 0, f"{self.shape} reshaped to {shape}")
        s = self.window()
        if contiguous(s.shape, s.atom.strides, ITEMSIZE[s.char]):
            return s._moved(shape, c_strides(shape, ITEMSIZE[s.char]))
        if [n for n in s.shape if n != 1] != [n for n in shape if n != 1]:
            return s.own().reshape(shape)
        # Unit axes come and go without a copy.
        strides = iter([step for n, step in zip(s.shape, s.atom.strides) if n != 1])
        return s._moved(shape, [0 if n == 1 else next(strides) for n in shape])

    def expand_dims(self, axes):
        """New axes of extent 1 at `axes` (positions in the result, sorted)."""
        shape = list(self.shape)
        for axis in axes:
            shape.insert(axis, 1)
        return self.reshape(shape)

    def flip(self, axes):
        s = self.window()
        strides = list(s.atom.strides)
        offset = 0
        for axis in axes:
            offset += strides[axis] * (s.shape[axis] - 1)
            strides[axis] = -strides[axis]
        return s._moved(s.shape, strides, offset)

    def broadcast_to(self, shape):
        require(fits(self.shape, shape), f"{self.shape} broadcast to {shape}")
        return Sym(self.plan, shape, self.char, self.expr)

    def narrow(self, axis, start, stop):
        """The part ``start:stop`` along `axis`."""
        require(0 <= start <= stop <= self.shape[axis], f"{start}:{stop} of {self.shape[axis]}")
        s = self.window()
        shape = list(s.shape)
        shape[axis] = stop - start
        return s._moved(shape, s.atom.strides, start * s.atom.strides[axis])

    def strided(self, shape, strides, offset):
        """The window of `shape` with strides in elements of the whole, C-ordered array.

        `offset` is in elements, or the plan's dynamic attribute.
        """
        return self.plan.strided(self.window(), shape, strides, offset)

    # -- steps ----------------------------------------------------------------
    def reduce(self, how, axis=None, keepdims=False):
        axes = axes_of(self, axis)
        return self.plan.reduce(self, how, axes, keepdims) if axes else self

    def sum(self, axis=None, keepdims=False):
        return self.reduce("add", axis, keepdims)

    def __matmul__(self, other):
        return self.plan.matmul(self, other, True)

    def product(self, other):
        """The matrix product as NumPy computes it: zero times infinity is NaN."""
        return self.plan.matmul(self, other, False)

    def constant(self, array):
        """A constant array in the dtype of this symbol."""
        return self.plan.constant(array, "f" if self.char == "f" else "d")

    def inv(self):
        """The inverses of matrices; NaN where one is singular."""
        return self.solve(self.constant(np.eye(self.shape[-1])))

    def det(self):
        """The determinants of matrices."""
        return self.plan.matrices("det", self)[0]

    def solve(self, other):
        """The solutions X of ``self @ X = other``; NaN where a matrix is singular."""
        return self.plan.matrices("solve", self, other)[0]

    def svd(self):
        """The reduced singular value decomposition ``U, s, Vh``."""
        return self.plan.matrices("svd", self)

    def scan(self, axis, how="add", reverse=False, exclusive=False):
        """Cumulative sum or product along `axis`."""
        return self.plan.scan(self, axis, how, reverse, exclusive)

    def recur(self, factors, axis, reverse=False, lag=False, exclusive=False):
        """First-order linear recurrence along `axis`; see `tapegrad.array.rule_array.RuleArray.recur`."""
        return self.plan.recur(self, factors, axis, reverse, lag, exclusive)

    def place(self, shape, strides, offset):
        """Contribution: this array added into a window of zeros of `shape`."""
        return Windowed(self, shape, strides, offset)

    def scatter(self, index, shape):
        """Contribution: this array added at flat positions `index` of zeros of `shape`."""
        return Scattered(self, index, shape)

    def placed(self, shape, strides, offset):
        """`place` as an array that the rule may go on with."""
        return self.plan.placed(self, shape, strides, offset)

    def scattered(self, index, shape):
        """`scatter` as an array that the rule may go on with."""
        return self.plan.scattered(self, index, shape)

    def add_window(self, other, strides, offset):
        """A copy with `other` added into a window."""
        return self.plan.added_window(self, other, strides, offset)

    def add_at(self, other, index):
        """A copy with `other` added at flat positions `index`."""
        return self.plan.added_at(self, other, index)

    def zeroed(self, shape, strides, offset):
        """Contribution: this array with a window set to zero (it must be the seed)."""
        return self.plan.zeroed(self, shape, strides, offset)

    def zeroed_at(self, index):
        """Contribution: this array with flat positions set to zero (it must be the seed)."""
        return self.plan.zeroed_at(self, index)

    def assemble(self, shape, parts):
        """An array of zeros, in the dtype of this symbol, with windows written in order.

        Parameters
        ----------
        shape : tuple of int
        parts : sequence of (Sym or float, tuple, tuple, int)
            What is written; shape, strides and offset (in elements of the whole,
            C-ordered array) of the window.  Strides None are those of the whole; the
            offset may be the plan's dynamic attribute.
        """
        return self.plan.assemble(self.char, shape, parts)

    def put_at(self, index, value):
        """A copy with `value` (None: zero) at the flat positions `index`, each of which occurs once."""
        return self.plan.put_at(self, index, value)

    def gather(self, index, shape):
        """The elements at flat positions `index` (a symbol), in `shape`."""
        return self.plan.gather(self, index, shape)


def _result(syms):
    chars = {s.char for s in syms if s.char in "df"}
    return chars.pop() if chars else "d"
