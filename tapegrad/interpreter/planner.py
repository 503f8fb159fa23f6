"""The planner: what the rules' language does to symbolic arrays (`interpreter.symbolic`), in memory.

A program of a sweep or of a replay (`interpreter.plan`, `program.values`) and a kernel (`kernel.arrays_planner`) are planned by
the same operations.  These are written here once, over what differs, the abstract methods: where memory comes from, and how one
loop, one reduction, one scan, one indexed walk and one call of a matrix function are written down.
"""

import math
from abc import ABC, abstractmethod
from functools import cache, partial

import numpy as np

from ..codegen.ufuncs import CORES, MatrixLoop
from ..common.errors import require
from ..common.uninterrupted import uninterrupted
from ..rules import lang as L
from ..tape.layout import c_strides
from .program import MOST_ARGUMENTS, SIZES
from .symbolic import ITEMSIZE, Sym
from .windows import aligned_shape, coalesce


class Planner(ABC):
    """Collects what computes symbolic arrays."""

    #: Functions of the language that are computed at once, not in fused loops: the rule reads what they give more than once.
    eager = frozenset()
    #: Whether what is planned becomes a kernel.
    compiled = False

    # -- what differs ---------------------------------------------------------------
    @abstractmethod
    def temporary(self, shape, char, zero=False):
        """A new contiguous buffer; returns its window."""

    @abstractmethod
    def constant(self, array, char):
        """A constant array."""

    @abstractmethod
    def part(self, atom, shape, strides, offset):
        """The window on a window whose elements have these strides and offset in its C order, or None if it is none."""

    @abstractmethod
    def loop(self, exprs, outputs, shape, accumulate):
        """One fused loop over `shape`: expression j into window ``outputs[j]``, or accumulated there."""

    @abstractmethod
    def reduced(self, sym, how, axes, kept):
        """`sym` reduced over `axes`, which stay with extent 1 as in the shape `kept`."""

    @abstractmethod
    def scanned(self, sym, axis, how):
        """The cumulative sum or product along an axis."""

    @abstractmethod
    def recurred(self, sym, factors, axis, lag):
        """The recurrence of `RuleArray.recur`, of two arrays of one shape and dtype."""

    @abstractmethod
    def gather(self, sym, index, shape):
        """The elements at flat positions `index`, in `shape`."""

    @abstractmethod
    def write_at(self, source, index, target, add):
        """Write `source` to flat positions of the C-contiguous window `target`, or add it there."""

    @abstractmethod
    def call(self, spec, atoms, inputs, *around):
        """A call of a loop of NumPy's or LAPACK's; of the windows `atoms` the first `inputs` are read (`around`: see `call_words`)."""

    @abstractmethod
    def demanded(self, done):
        """Go no further, and say so, unless this number is 1: whether a call has filled its result."""

    @abstractmethod
    def product(self, a, b, char, absolute):
        """A product of stacks of matrices, of at least two axes each; `absolute`: zero times anything is zero."""

    @abstractmethod
    def ordered(self, sym):
        """`sym` in memory, in C order without gaps."""

    # -- memory ---------------------------------------------------------------------
    def sym(self, atom):
        """What a window holds."""
        return Sym(self, atom.shape, atom.char, L.arg(atom))

    def fresh(self, sym, char=None):
        """`sym` in a buffer of its own."""
        atom = self.temporary(sym.shape, char or sym.char)
        self.loop([sym.expr], [atom], sym.shape, [None])
        return self.sym(atom)

    def compute(self, sym, char=None):
        """`sym` computed, whatever becomes of the memory that it reads."""
        return self.fresh(sym, char)

    def in_memory(self, sym):
        """`sym` as a window on memory."""
        return sym.window()

    def changed(self, sym):
        """A copy of `sym` without gaps, to be changed."""
        return self.fresh(sym)

    # -- windows --------------------------------------------------------------------
    def strided(self, sym, shape, strides, offset):
        """The window on a window (see `RuleArray.strided`); where a dynamic one is, the recording has seen."""
        sym = self.in_memory(sym)
        return self.sym(self.part(sym.atom, shape, strides, offset) or self.part(self.fresh(sym).atom, shape, strides, offset))

    def assemble(self, char, shape, parts):
        """Zeros of `shape` with windows written in order (see `RuleArray.assemble`)."""
        size = math.prod(shape)
        first, window, strides, _ = parts[0] if parts else (None,) * 4
        if isinstance(first, Sym) and window == shape and strides is None and first.char == char:
            whole, parts = self.changed(first.broadcast_to(shape)).atom, parts[1:]
        else:
            # Windows with the strides of the whole stand side by side.
            boxes = sum(math.prod(window) for _, window, strides, _ in parts if strides is None)
            covered = boxes >= size or any(math.prod(window) == size for _, window, _, _ in parts)
            whole = self.temporary(shape, char, zero=not covered)
        for value, window, strides, offset in parts:
            target = self.part(whole, window, c_strides(shape, 1) if strides is None else strides, offset)
            self.loop([value.expr if isinstance(value, Sym) else L.Expr.lift(value)], [target], window, [None])
        return self.sym(whole)

    def placed(self, sym, shape, strides, offset):
        """Zeros with `sym` added into a window (see `RuleArray.placed`)."""
        return self.add_into(self.temporary(shape, sym.char, zero=True), sym, strides, offset)

    def added_window(self, sym, other, strides, offset):
        """A copy of `sym` with `other` added into a window (see `RuleArray.add_window`)."""
        if sym.nothing:
            return self.placed(other, sym.shape, strides, offset)
        return self.add_into(self.changed(sym).atom, other, strides, offset)

    def add_into(self, whole, source, strides, offset):
        """The C-contiguous window `whole`, with `source` added into a window on it."""
        self.loop([source.expr], [self.part(whole, source.shape, strides, offset)], source.shape, ["add"])
        return self.sym(whole)

    # -- positions ------------------------------------------------------------------
    def scattered(self, sym, index, shape):
        """Zeros with `sym` added at flat positions (see `RuleArray.scattered`)."""
        return self.written(self.temporary(shape, sym.char, zero=True), sym, index, True)

    def added_at(self, sym, other, index):
        """A copy of `sym` with `other` added at flat positions (see `RuleArray.add_at`)."""
        if sym.nothing:
            return self.scattered(other, index, sym.shape)
        return self.written(self.changed(sym).atom, other, index, True)

    def written(self, whole, source, index, add):
        """The C-contiguous window `whole`, with `source` written to flat positions, or added there."""
        self.write_at(source, index, whole, add)
        return self.sym(whole)

    # -- along axes -----------------------------------------------------------------
    def reduce(self, sym, how, axes, keepdims):
        """`sym` reduced over `axes` (see `RuleArray.reduce`)."""
        result = self.reduced(sym, how, axes, tuple(1 if k in axes else n for k, n in enumerate(sym.shape)))
        return result if keepdims else result.reshape([n for k, n in enumerate(sym.shape) if k not in axes])

    def scan(self, sym, axis, how):
        """The cumulative sum or product along an axis, in floating point."""
        return self.scanned(sym if sym.char in "df" else self.compute(sym, "d"), axis, how)

    def recur(self, sym, factors, axis, reverse, lag):
        """The recurrence of `RuleArray.recur`."""
        shape = np.broadcast_shapes(sym.shape, factors.shape)
        char = "f" if sym.char == factors.char == "f" else "d"
        sym, factors = (s.broadcast_to(shape).cast(char) for s in (sym, factors))
        if reverse:
            return self.recurred(sym.flip([axis]), factors.flip([axis]), axis, lag).flip([axis])
        return self.recurred(sym, factors, axis, lag)

    # -- matrices -------------------------------------------------------------------
    def matmul(self, a, b, absolute):
        """Matrix product with NumPy's broadcasting; `absolute`: zero times anything is zero."""
        if a.ndim == 1:
            product = self.matmul(a.expand_dims([0]), b, absolute)
            return product.reshape(np.delete(product.shape, -2 if b.ndim > 1 else -1))
        if b.ndim == 1:
            product = self.matmul(a, b.expand_dims([1]), absolute)
            return product.reshape(product.shape[:-1])
        char = "d" if "d" in (a.char, b.char) or a.char not in "df" or b.char not in "df" else "f"
        return self.product(a, b, char, absolute)

    def called_product(self, a, b, char):
        """A product of stacks of matrices by NumPy's loop, which calls BLAS: the factors as they are read, and the product."""
        factors = [_for_blas(s.cast(char).window()) for s in (a, b)]
        return *factors, self.matrices("matmul", *factors)[0]

    def matrices(self, name, *syms):
        """The results of a function of stacks of matrices (`codegen.ufuncs`)."""
        inputs, outputs = CORES[name]
        char = "d" if any(s.char != "f" for s in syms) else "f"
        syms = [self.in_memory(s.cast(char)) for s in syms]
        extents, batches = {}, []
        for sym, names in zip(syms, inputs):
            split = sym.ndim - len(names)
            require(split >= 0, f"{name} of a shape {sym.shape}")
            batches.append(sym.shape[:split])
            for letter, extent in zip(names, sym.shape[split:]):
                require(extents.setdefault(letter, extent) == extent, f"{name} of shapes {[s.shape for s in syms]}")
        if "p" in "".join(outputs):
            extents["p"] = min(extents.values())  # (m, n) -> p
        batch = np.broadcast_shapes(*batches)
        if name in ("det", "logabsdet") and extents["n"] == 0:
            return [self.constant(np.full(batch, float(name == "det")), char)]
        empty = 0 in batch or 0 in extents.values()
        results = [self.temporary((*batch, *(extents[letter] for letter in names)), char, zero=empty) for names in outputs]
        if not empty:
            spec = MatrixLoop(name, char)
            atoms = [*(s.atom for s in syms), *results]
            splits = [len(x.shape) - len(names) for x, names in zip(atoms, (*inputs, *outputs))]
            dims, strides = coalesce(
                batch, [aligned_shape(x.shape[:k], x.strides[:k], batch) for x, k in zip(atoms, splits)]
            )
            *outer, count = dims or [1]
            steps = [s[-1] if s else 0 for s in strides]
            for x, k in zip(atoms, splits):
                steps += x.strides[k:]
            self.call(spec, atoms, len(syms), [count, *extents.values()], steps, outer, strides)
        return [self.sym(x) for x in results]

    def filled_by(self, spec, syms, shape, char, result=None):
        """What a call (`calls.Called`, say) makes of arrays in order; the program does not go on if it has failed (`demanded`)."""
        result, done = result or self.temporary(shape, char), self.temporary((), "d")
        self.call(spec, [*(s.atom for s in syms), result, done], len(syms), [1], [], [], [])
        self.demanded(self.sym(done))
        return self.sym(result)

    def by_numpy(self, row, syms, attrs):
        """The result of a row by its value in NumPy."""
        syms = [self.ordered(s if k in row.constants else s.cast("f" if s.char == "f" else "d")) for k, s in enumerate(syms)]
        out = row.shape(*syms, **attrs)
        operands = tuple((s.shape, s.char) for s in syms)
        return self.filled_by(_by_numpy(row, tuple(attrs.items()), operands, out), syms, *out)

    def looped(self, row, syms, program, result=None):
        """The result of a row that runs a loop (`rules.loops`), in a place of its own unless one is given."""
        syms = [self.ordered(s.cast("d")) for s in syms]
        return self.filled_by(program.call(row.name, self.compiled), syms, *row.shape(*syms, program=program), result)


@cache
@uninterrupted
def _by_numpy(row, attrs, operands, out):
    """A row by its value in NumPy, as a loop."""
    from .calls import Called  # compiled code

    value = partial(row.value, **dict(attrs))

    def fill(*arrays):
        arrays[-1][...] = value(*arrays[:-1])
        return True

    return Called(fill, row.name, operands, out)


def call_words(loop, data, places, dims, steps, outer, strides):
    """The words of a call: loop and data, (register, offset) of each argument, what the loop is told, the dimensions around."""
    require(len(places) <= MOST_ARGUMENTS, f"a loop over {len(places)} arrays")
    words = [loop, data, len(places), *(word for place in places for word in place)]
    words += [len(dims), *dims, len(steps), *steps, len(outer)]
    for d, extent in enumerate(outer):
        words += [extent, *(s[d] for s in strides)]
    return words


def repair_words(a, b, product, places, target):
    """The words of `REPAIR`: the factors as they are read, at (register, offset) each, and the product, in a register."""
    batch = product.shape[:-2]
    outer = [aligned_shape(s.atom.shape[:-2], s.atom.strides[:-2], batch) for s in (a, b)]
    words = [word for s, place in zip((a, b), places) for word in (*place, *s.atom.strides[-2:])]
    words += [target, SIZES[product.char], *a.shape[-2:], product.shape[-1], len(batch)]
    for extent, *steps in zip(batch, *outer):
        words += [extent, *steps]
    return words


def _for_blas(sym):
    """A window that BLAS takes: one unit stride, no negative or zero one."""
    item = ITEMSIZE[sym.char]
    (m, n), (row, col) = sym.shape[-2:], sym.atom.strides[-2:]
    good = (col == item and row >= n * item) or (row == item and col >= m * item)
    return sym if good and min(sym.atom.strides[:-2], default=0) >= 0 else sym.own()
