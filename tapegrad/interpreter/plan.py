"""From a row and the shapes of an operation to its backward program.

`Signature` is what two instructions must share to share a program: row,
attributes, descriptions of the operands, and which of them need an adjoint.
Building one traces the row's rule with symbolic arrays (`interpreter.symbolic`) and
so also finds out which values the rule reads: only those are kept on the tape.
The loop kernels a program calls are compiled when a backward pass first needs
them (`Signature.compile_pending`), not while recording.
"""

from __future__ import annotations

import math
import struct

import numpy as np

from ..codegen.matrices import CORES, MatrixLoop
from ..common.errors import InternalError, require
from ..rules import lang as L
from ..rules.shapes import inside
from ..tape.meta import SCALAR, c_strides
from . import program as P
from .contributions import Scattered, Windowed
from .registered import Registered
from .symbolic import ITEMSIZE, Atom, Sym
from .windows import aligned, aligned_shape, coalesce, fits, longest_inside, renumber

#: Saved values of at least this many bytes are let go during the sweep.
LARGE = 1 << 18


class Dynamic:
    """Stands for the integer attribute kept in each record."""

    def __repr__(self):
        return "DYNAMIC"


class Planner:
    """Collects the steps of one program."""

    DYNAMIC = Dynamic()
    #: Functions of the language that are computed at once, not in fused loops: the rule reads what they give more than once.
    eager = frozenset()

    def __init__(self, metas, out):
        self.metas, self.out = metas, out
        self.words = []
        self.kernels = []  # (position of the address word, LoopSpec or MatrixLoop)
        self.constants = []  # arrays whose addresses are in the words
        self.saved = []  # operand number or -1 for the result
        self.temporaries = P.FIRST_TEMPORARY
        self.targets = P.FIRST_TARGET
        #: Registers that point into the buffer of another one: they are not owned, so not freed or given away.
        self.inside = set()
        self._saved_atoms = {}

    # -- operands ---------------------------------------------------------------
    def seed(self):
        """The adjoint of the instruction, always C-contiguous."""
        shape, char = self.out.shape, self.out.char
        return self._sym(Atom(0, 0, shape, c_strides(shape, ITEMSIZE[char]), char))

    def operand(self, k):
        """The value of operand `k` (-1: the result), kept only if it is read."""
        return Operand(self, k, self.metas[k] if k >= 0 else self.out)

    def saved_atom(self, k):
        """The window of the saved value of operand `k` (-1: the result), which the tape keeps from now on."""
        atom = self._saved_atoms.get(k)
        if atom is None:
            meta = self.metas[k] if k >= 0 else self.out
            reg = P.FIRST_SAVED + len(self.saved)
            require(reg < P.FIRST_TARGET, "a rule reads too many values")
            self.saved.append(k)
            atom = self._saved_atoms[k] = Atom(reg, 0, meta.shape, meta.strides, meta.char)
        return atom

    def _sym(self, atom):
        return Sym(self, atom.shape, atom.char, L.arg(atom))

    # -- steps ------------------------------------------------------------------
    def step(self, code, *parameters):
        self.words += [code, len(parameters), *parameters]

    def _register(self):
        require(self.temporaries < P.REGISTERS, "a rule has too many temporaries")
        self.temporaries += 1
        return self.temporaries - 1

    def temporary(self, shape, char, zero=False):
        """A new contiguous buffer; returns its window."""
        reg = self._register()
        nbytes = max(1, int(math.prod(shape))) * ITEMSIZE[char]
        require(nbytes < 1 << 48 and min(shape, default=0) >= 0, f"an array of shape {tuple(shape)} in between")
        self.step(P.ALLOC, reg, nbytes, int(zero))
        return Atom(reg, 0, shape, c_strides(shape, ITEMSIZE[char]), char)

    def shifted(self, reg, itemsize):
        """A register that points into the buffer of `reg`, by the dynamic attribute times `itemsize`."""
        new = self._register()
        self.step(P.SHIFT, new, reg, itemsize)
        self.inside.add(new)
        return new

    def loop(self, exprs, outputs, shape, accumulate):
        """One fused loop over `shape`: expression j into window ``outputs[j]``."""
        from ..codegen.loops import LoopSpec

        if 0 in shape:
            return
        inputs = []
        for expr in exprs:
            inputs += [a for a in expr.leaves() if a not in inputs]
        args = inputs + list(outputs)
        require(all(fits(a.shape, shape) for a in args), f"windows {args} in a loop over {tuple(shape)}")
        dims, strides = longest_inside(*coalesce(shape, [aligned(a, shape) for a in args]))
        *outer, n = dims or [1]
        inner = [s[-1] if s else 0 for s in strides]
        chars = [a.char for a in args]
        pattern = "".join(
            "c" if n == 1 or s == ITEMSIZE[c] else "0" if s == 0 else "s" for s, c in zip(inner, chars)
        )
        numbers = {a: k for k, a in enumerate(inputs)}
        spec = LoopSpec(
            tuple(renumber(e, numbers) for e in exprs),
            "".join(chars[: len(inputs)]),
            "".join(chars[len(inputs) :]),
            pattern,
            tuple(accumulate),
        )
        self.kernels.append((len(self.words) + 2, spec))
        self.step(P.CALL, *call_words(0, 0, [(a.reg, a.offset) for a in args], [n], inner, outer, strides))

    def compute(self, sym, char=None):
        """`sym` in a buffer of its own."""
        return self._cast(sym, char or sym.char)

    def reduce(self, sym, how, axes, keepdims):
        from ..codegen.loops import IDENTITY

        char = sym.char if sym.char in "df" else "d"
        kept = [1 if k in axes else n for k, n in enumerate(sym.shape)]
        atom = self.temporary(kept, char, zero=how == "add")
        if how != "add":
            bits = struct.unpack("q", struct.pack("d", IDENTITY[how]))[0]
            self.step(P.FILL, atom.reg, max(1, int(np.prod(kept, dtype=np.int64))), bits, P.CHARS[char])
        window = Atom(atom.reg, 0, sym.shape, [0 if k in axes else s for k, s in enumerate(atom.strides)], char)
        self.accumulate(sym, window, how)
        result = self._sym(atom)
        return result if keepdims else result.reshape([n for k, n in enumerate(sym.shape) if k not in axes])

    def accumulate(self, sym, window, how):
        """Reduce `sym` into `window`, which has stride 0 along the axes that go."""
        self.loop([sym.expr], [window], sym.shape, [how])

    def matmul(self, a, b, absolute):
        """Matrix product with NumPy's broadcasting, through NumPy's own loop; `absolute`: zero times anything is zero."""
        if a.ndim == 1:
            return self._drop(self.matmul(a.expand_dims([0]), b, absolute), -2 if b.ndim > 1 else -1)
        if b.ndim == 1:
            return self._drop(self.matmul(a, b.expand_dims([1]), absolute), -1)
        char = "d" if "d" in (a.char, b.char) or a.char not in "df" or b.char not in "df" else "f"
        return self._matmul(a, b, char, absolute)

    def _matmul(self, a, b, char, absolute):
        """A product of stacks of matrices."""
        a, b = (self._matrix(s, char) for s in (a, b))
        (product,) = self.matrices("matmul", a, b)
        if absolute and 0 not in product.shape and a.shape[-1]:
            # BLAS knows no absolute zero; a result that is not finite is computed again.
            batch = product.shape[:-2]
            outer = [aligned_shape(s.atom.shape[:-2], s.atom.strides[:-2], batch) for s in (a, b)]
            words = [word for s in (a, b) for word in (s.atom.reg, s.atom.offset, *s.atom.strides[-2:])]
            words += [product.atom.reg, P.CHARS[char], *a.shape[-2:], product.shape[-1], len(batch)]
            for extent, *steps in zip(batch, *outer):
                words += [extent, *steps]
            self.step(P.REPAIR, *words)
        return product

    def matrices(self, name, *syms):
        """The results of a function of stacks of matrices (`codegen.matrices`)."""
        inputs, outputs = CORES[name]
        char = "d" if any(s.char != "f" for s in syms) else "f"
        syms = [self._in_memory(s if s.char == char else self._cast(s, char)) for s in syms]
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
        if name == "det" and extents["n"] == 0:
            return [self.constant(np.ones(batch), char)]
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
            addresses = self._call_places(atoms, len(syms))
            words = call_words(0, spec.data(), addresses, [count, *extents.values()], steps, outer, strides)
            self._call_step(spec, words, addresses, atoms, len(syms))
        return [self._sym(x) for x in results]

    def _in_memory(self, sym):
        """`sym` as a window on memory."""
        return sym.window()

    def _call_places(self, atoms, inputs):
        """Register and offset of each operand and result; of `atoms` the first are `inputs`."""
        return [(x.reg, x.offset) for x in atoms]

    def _call_step(self, spec, words, places, atoms, inputs):
        self.kernels.append((len(self.words) + 2, spec))
        self.step(P.CALL, *words)

    def constant(self, array, char):
        """A constant array, which lives as long as the program."""
        array = np.ascontiguousarray(array, char)
        self.constants.append(array)
        reg = self._register()
        self.step(P.CONST, reg, array.ctypes.data)
        return self._sym(Atom(reg, 0, array.shape, array.strides, char))

    def _drop(self, sym, axis):
        shape = list(sym.shape)
        del shape[axis]
        return sym.reshape(shape)

    def _matrix(self, sym, char):
        """`sym` as a window that BLAS takes: one unit stride, no negative or zero one."""
        if sym.char != char:
            sym = self._cast(sym, char)
        sym = sym.window()
        item = ITEMSIZE[char]
        (m, n), (row, col) = sym.shape[-2:], sym.atom.strides[-2:]
        good = (col == item and row >= n * item) or (row == item and col >= m * item)
        return sym if good and min(sym.atom.strides[:-2], default=0) >= 0 else sym.own()

    def _cast(self, sym, char):
        atom = self.temporary(sym.shape, char)
        self.loop([sym.expr], [atom], sym.shape, [None])
        return self._sym(atom)

    def scan(self, sym, axis, how, reverse, exclusive):
        if sym.char not in "df":
            sym = self._cast(sym, "d")
        if reverse:
            return self._scanned(sym.flip([axis]), axis % sym.ndim, how, exclusive).flip([axis])
        return self._scanned(sym, axis % sym.ndim, how, exclusive)

    def _scanned(self, sym, axis, how, exclusive):
        sym = sym.window()
        out = self.temporary(sym.shape, sym.char)
        if 0 not in sym.shape:
            source = sym.atom
            words = [source.reg, source.offset, out.reg, P.CHARS[sym.char], P.HOW[how], int(exclusive),
                     sym.shape[axis], source.strides[axis], out.strides[axis], sym.ndim - 1]
            for k, extent in enumerate(sym.shape):
                if k != axis:
                    words += [extent, source.strides[k], out.strides[k]]
            self.step(P.SCAN, *words)
        return self._sym(out)

    def recur(self, sym, factors, axis, reverse, lag, exclusive):
        shape = np.broadcast_shapes(sym.shape, factors.shape)
        char = "f" if sym.char == factors.char == "f" else "d"
        axis %= len(shape)
        sym, factors = (s.broadcast_to(shape) for s in (sym, factors))
        sym, factors = (s if s.char == char else self._cast(s, char) for s in (sym, factors))
        if reverse:
            return self._recurred(sym.flip([axis]), factors.flip([axis]), axis, lag, exclusive).flip([axis])
        return self._recurred(sym, factors, axis, lag, exclusive)

    def _recurred(self, sym, factors, axis, lag, exclusive):
        shape, char = sym.shape, sym.char
        out = self.temporary(shape, char)
        if 0 not in shape:
            atoms = [sym.window().atom, factors.window().atom, out]
            words = [atoms[0].reg, atoms[0].offset, atoms[1].reg, atoms[1].offset, out.reg, P.CHARS[char], int(lag),
                     int(exclusive), shape[axis], *(a.strides[axis] for a in atoms), len(shape) - 1]
            for k, extent in enumerate(shape):
                if k != axis:
                    words += [extent, *(a.strides[k] for a in atoms)]
            self.step(P.RECUR, *words)
        return self._sym(out)

    def gather(self, sym, index, shape):
        require(index.size == math.prod(shape), f"{index.size} positions for the shape {shape}")
        sym = sym.window()
        if not sym.atom.whole:
            sym = sym.own()
        out = self.temporary(shape, sym.char)
        if index.size:
            self.step(P.GATHER, sym.atom.reg, self._index(index), out.reg, index.size, P.CHARS[sym.char])
        return self._sym(out)

    def _index(self, index):
        atom = index.window().atom
        require(atom.whole and atom.char in "lq", f"an index map must be a contiguous int64 array, not {atom}")
        return atom.reg

    def assemble(self, char, shape, parts):
        """Zeros of `shape` with windows written in order (see `Sym.assemble`)."""
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
            target = self._window(whole.reg, size, window, c_strides(shape, 1) if strides is None else strides, offset, char)
            self.loop([value.expr if isinstance(value, Sym) else L.Expr.lift(value)], [target], window, [None])
        return self._sym(whole)

    def changed(self, sym):
        """A copy of `sym`, to be changed."""
        return sym.own()

    def strided(self, sym, shape, strides, offset):
        """The window on a window (see `Sym.strided`); where a dynamic one is, the recording has seen."""
        if not sym.atom.whole:
            sym = sym.own()
        return self._sym(self._window(sym.atom.reg, sym.size, shape, strides, offset, sym.char))

    def _window(self, reg, size, shape, strides, offset, char):
        """A window on the buffer of a register, which has `size` elements."""
        item = ITEMSIZE[char]
        if offset is self.DYNAMIC:
            reg, offset = self.shifted(reg, item), 0
        else:
            inside(size, shape, strides, offset)
        return Atom(reg, offset * item, shape, [s * item for s in strides], char)

    def put_at(self, sym, index, value):
        """A copy of `sym` with `value` at flat positions (see `Sym.put_at`)."""
        copy = self.changed(sym)
        self._write_at(value, index, copy.atom, False)
        return copy

    def added_window(self, sym, other, strides, offset):
        """A copy of `sym` with `other` added into a window (see `Sym.add_window`)."""
        copy = self.changed(sym)
        self._add_window(other, copy.atom.reg, copy.size, strides, offset, copy.char)
        return copy

    def added_at(self, sym, other, index):
        """A copy of `sym` with `other` added at flat positions (see `Sym.add_at`)."""
        copy = self.changed(sym)
        self._write_at(other, index, copy.atom, True)
        return copy

    def placed(self, sym, shape, strides, offset):
        """Zeros with `sym` added into a window (see `Sym.placed`)."""
        whole = self.temporary(shape, sym.char, zero=True)
        self._add_window(sym, whole.reg, math.prod(shape), strides, offset, sym.char)
        return self._sym(whole)

    def scattered(self, sym, index, shape):
        """Zeros with `sym` added at flat positions (see `Sym.scattered`)."""
        whole = self.temporary(shape, sym.char, zero=True)
        self._write_at(sym, index, whole, True)
        return self._sym(whole)

    def _add_window(self, source, reg, size, strides, offset, char):
        """Add `source` into a window of the buffer in `reg`, of `size` elements."""
        self.loop([source.expr], [self._window(reg, size, source.shape, strides, offset, char)], source.shape, ["add"])

    def _write_at(self, source, index, target, add):
        """Write `source` (None: zero) to flat positions of the C-contiguous window `target`, or add it there."""
        require(source is None or index.size == source.size, f"{index.size} positions for something else")
        if not index.size:
            return
        where = self._index(index), target.reg, index.size, P.CHARS[target.char]
        if not add:
            self.step(P.ZERO_AT, where[1], where[0], *where[2:])
        if source is None:
            return
        if source.char != target.char:
            source = self._cast(source, target.char)
        source = source.window()
        if not source.atom.whole:
            source = source.own()
        self.step(P.SCATTER, source.atom.reg, *where)

    def zeroed(self, sym, shape, strides, offset):
        window = sym.strided(shape, strides, offset)
        require(sym.atom.reg == 0 and sym.atom.whole, "only the adjoint itself is zeroed in part")
        self.loop([L.Expr.lift(0.0)], [window.atom], shape, [None])
        return sym

    def zeroed_at(self, sym, index):
        require(sym.atom.reg == 0 and sym.atom.whole, "only the adjoint itself is zeroed in part")
        self._write_at(None, index, sym.atom, False)
        return sym

    # -- the end ----------------------------------------------------------------
    def deliver(self, contributions, metas):
        """Add the contributions (None: none) to the adjoints of the operands."""
        fused, whole = {}, []
        listed = [
            (k, value, metas[k])
            for k, contribution in enumerate(contributions)
            for value in (contribution if isinstance(contribution, tuple) else (contribution,))
        ]
        for k, value, meta in listed:
            if value is None or meta.size == 0:
                continue
            if isinstance(value, (int, float)):
                if value == 0:
                    continue
                raise InternalError(f"a rule returned the number {value} as a contribution")
            if isinstance(value, Sym):
                # A rule may leave out axes along which its contribution is constant.
                value = value.broadcast_to(np.broadcast_shapes(value.shape, meta.shape))
            if isinstance(value, Windowed):
                self._place(k, value, meta)
            elif isinstance(value, Scattered):
                self._scatter(k, value, meta)
            else:
                lead = len(value.shape) - len(meta.shape)
                fits = lead >= 0 and all(m in (1, n) for m, n in zip(meta.shape, value.shape[lead:]))
                require(fits, f"a contribution of shape {value.shape} for an operand of shape {meta.shape}")
                atom = value.atom
                direct = atom is not None and atom.whole and value.shape == meta.shape and value.char == meta.char
                direct = direct and atom.reg not in self.inside
                if direct and meta is not SCALAR:
                    whole.append((k, atom, meta))
                else:
                    fused.setdefault(value.shape, []).append((k, value, meta))
        for shape, group in fused.items():
            self._deliver_fused(shape, group)
        registers = [atom.reg for _, atom, _ in whole]
        for j, (k, atom, meta) in enumerate(whole):
            last = atom.reg not in registers[j + 1 :]
            owned = atom.reg == 0 and self.out is not SCALAR or atom.reg >= P.FIRST_TEMPORARY and atom.reg not in self.inside
            self.step(P.MOVE if last and owned else P.ADD, k, atom.reg, meta.nbytes, P.CHARS[meta.char])

    def _deliver_fused(self, shape, group):
        windows, hows, buffers = [], [], []
        for _, _, meta in group:
            lead = len(shape) - len(meta.shape)
            reduced = [d < lead or (meta.shape[d - lead] == 1 and n != 1) for d, n in enumerate(shape)]
            how = "add" if any(reduced) else None
            char = meta.char if meta.char in "df" else "d"
            buffer = self.temporary(meta.shape, char, zero=how is not None or 0 in shape)
            strides = [0 if r else buffer.strides[d - lead] for d, r in enumerate(reduced)]
            windows.append(Atom(buffer.reg, 0, shape, strides, char))
            hows.append(how)
            buffers.append(buffer)
        self.loop([value.expr for _, value, _ in group], windows, shape, hows)
        for (k, _, meta), buffer in zip(group, buffers):
            if meta is SCALAR:
                self.step(P.SCALAR, k, buffer.reg)
            else:
                self.step(P.MOVE, k, buffer.reg, meta.nbytes, P.CHARS[meta.char])

    def _target(self, k, meta):
        reg = self.targets
        self.targets += 1
        require(reg < P.FIRST_TEMPORARY, "a rule scatters too many contributions")
        self.step(P.TARGET, k, reg, meta.nbytes)
        return reg

    def _place(self, k, part, meta):
        require(tuple(part.shape) == meta.shape, f"a contribution of shape {part.shape} for an operand of shape {meta.shape}")
        self._add_window(part.source, self._target(k, meta), meta.size, part.strides, part.offset, meta.char)

    def _scatter(self, k, scattered, meta):
        target = Atom(self._target(k, meta), 0, meta.shape, c_strides(meta.shape, meta.itemsize), meta.char)
        self._write_at(scattered.source, scattered.index, target, True)


def call_words(loop, data, places, dims, steps, outer, strides):
    """The words of a call: loop and data, (register, offset) of each argument, what the loop is told, and the dimensions around it."""
    require(len(places) <= P.MOST_ARGUMENTS, f"a loop over {len(places)} arrays")
    words = [loop, data, len(places), *(word for place in places for word in place), len(dims), *dims, len(steps), *steps, len(outer)]
    for d, extent in enumerate(outer):
        words += [extent, *(s[d] for s in strides)]
    return words


class Operand(Sym):
    """The value of an operand: its shape is free, reading it makes the tape keep it."""

    __slots__ = ("k",)

    def __init__(self, plan, k, meta):
        self.plan = plan
        self.k = k
        self.shape = meta.shape
        self.char = meta.char

    @property
    def expr(self):
        return L.arg(self.plan.saved_atom(self.k))


class Signature(Registered):
    """One row applied to operands of one description: its program and what to keep.

    Parameters
    ----------
    key : tuple
        Row; attributes as a tuple of (name, value) pairs; descriptions of every operand, differentiable or not;
        which differentiable operands are on the tape; description of the result, whose place in memory the others do
        not say (of what is gathered, for one).

    Attributes
    ----------
    row : Row
    number : int
        ``opcode - FIRST_ARRAY`` of the instructions that have this signature.
    out : Meta
        Description of the result.
    saves : tuple of int
        Operands whose values the tape must keep (-1: the result).
    kept : tuple of (int, bool)
        The same, and whether that operand is a constant, which the user may change.
    """

    def __init__(self, key):
        self.key = key
        self.row, self.attrs, self.metas, self.mask, self.out = row, attrs, metas, mask, out = key
        planner = Planner(metas, out)
        slots = row.slots(len(metas))
        self.slots = slots
        self.in_python = row.primitive is not None
        if self.in_python:
            # No program: the sweep stops here, and the rule is called with what was kept.
            planner.saved = list(dict(attrs)["keeps"])
        else:
            self._plan(planner)
        planner.step(P.END)
        self.saves = tuple(planner.saved)
        on_tape = {s for s, on in zip(slots, mask) if on}
        self.kept = tuple((k, k >= 0 and k not in on_tape) for k in self.saves)
        self.words = np.array(planner.words, np.int64)
        self.kernels = planner.kernels
        self.constants = planner.constants
        self.saved_bytes = sum((metas[k] if k >= 0 else out).nbytes for k in self.saves)
        self.large = self.saved_bytes >= LARGE

    def _plan(self, planner):
        """Trace the row's rule into the steps of the program."""
        row, attrs, metas, mask, slots = self.row, self.attrs, self.metas, self.mask, self.slots
        operands = [planner.operand(k) for k in range(len(metas))]
        result = planner.operand(-1)
        g = planner.seed()
        kwargs = dict(attrs)
        if row.dynamic:
            kwargs[row.dynamic] = Planner.DYNAMIC
        contributions = row.contributions(g, operands, result, [s for s, m in zip(slots, mask) if m], kwargs)
        active = [c if m else None for c, m in zip(contributions, mask)]
        planner.deliver(active, [metas[s] for s in slots])

    def __str__(self):
        operands = ", ".join(f"{m.char}{list(m.shape)}" for m in self.metas)
        return f"{self.row.name}({operands}) -> {self.out.char}{list(self.out.shape)}, saves {self.saves}"
