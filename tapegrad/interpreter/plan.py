"""From a row and the shapes of an operation to its backward program: the row's rule is traced with symbolic arrays (`interpreter.planner`)."""

import math

import numpy as np

from ..common.errors import InternalError, require
from ..rules import lang as L
from ..rules.shapes import inside
from ..tape.layout import SCALAR, c_strides
from . import program as P
from .planner import ITEMSIZE, Atom, Planner, Sym, aligned, call_words, coalesce, fits, longest_inside, repair_words, within
from .rule_array import Scattered, Windowed


class Steps(Planner):
    """Collects the steps of one program."""

    #: Stands for the integer attribute kept in each record.
    DYNAMIC = "DYNAMIC"

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
        return self.sym(Atom(0, 0, shape, c_strides(shape, ITEMSIZE[char]), char))

    def operand(self, k):
        """The value of operand `k` (-1: the result), kept only if it is read."""
        return OperandValue(self, k, self.metas[k] if k >= 0 else self.out)

    def contributions(self, row, wanted, attrs):
        """What a row's rule adds to the adjoints of the operands in these places, from its seed."""
        return row.contributions(self.seed(), [*map(self.operand, range(len(self.metas)))], self.operand(-1), wanted, attrs)

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

    # -- memory -----------------------------------------------------------------
    def step(self, code, *parameters):
        self.words += [code, len(parameters), *parameters]

    def register(self):
        require(self.temporaries < P.REGISTERS, "a rule has too many temporaries")
        self.temporaries += 1
        return self.temporaries - 1

    def temporary(self, shape, char, zero=False):
        reg = self.register()
        nbytes = max(1, int(math.prod(shape))) * ITEMSIZE[char]
        require(nbytes < 1 << 48 and min(shape, default=0) >= 0, f"intermediate array of shape {tuple(shape)} is too large")
        self.step(P.ALLOC, reg, nbytes, int(zero))
        return Atom(reg, 0, shape, c_strides(shape, ITEMSIZE[char]), char)

    def constant(self, array, char):
        # It lives as long as the program.
        array = np.asarray(array, char, order="C")
        self.constants.append(array)
        reg = self.register()
        self.step(P.CONST, reg, array.ctypes.data)
        return self.sym(Atom(reg, 0, array.shape, array.strides, char))

    def part(self, atom, shape, strides, offset):
        item = ITEMSIZE[atom.char]
        if offset is self.DYNAMIC:
            if not atom.contiguous:
                return None
            # A register that points into the buffer of another one.
            reg = self.register()
            self.step(P.SHIFT, reg, atom.reg, item)
            self.inside.add(reg)
            return Atom(reg, atom.offset, shape, [s * item for s in strides], atom.char)
        inside(atom.size, shape, strides, offset)
        if atom.contiguous or 0 in shape:
            return Atom(atom.reg, atom.offset + offset * item, shape, [s * item for s in strides], atom.char)
        window = within(atom.shape, atom.strides, shape, strides, offset)
        return window and Atom(atom.reg, atom.offset + window[0], shape, window[1], atom.char)

    # -- steps ------------------------------------------------------------------
    def loop(self, exprs, outputs, shape, accumulate):
        from ..codegen.of_rows import LoopSpec

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
            tuple(L.rewritten(e, lambda atom: L.arg(numbers[atom]), L.Expr) for e in exprs),
            "".join(chars[: len(inputs)]),
            "".join(chars[len(inputs) :]),
            pattern,
            tuple(accumulate),
        )
        self.kernels.append((len(self.words) + 2, spec))
        self.step(P.CALL, *call_words(0, 0, [(a.reg, a.offset) for a in args], [n], inner, outer, strides))

    def reduced(self, sym, how, axes, kept):
        from ..codegen.of_rows import IDENTITY

        char = sym.char if sym.char in "df" else "d"
        atom = self.temporary(kept, char, zero=how == "add")
        if how != "add":
            self.loop([L.Expr.lift(IDENTITY[how])], [atom], kept, [None])
        self.accumulate(sym, Atom(atom.reg, 0, sym.shape, [0 if k in axes else s for k, s in enumerate(atom.strides)], char), how)
        return self.sym(atom)

    def accumulate(self, sym, window, how):
        """Reduce `sym` into `window`, which has stride 0 along the axes that go."""
        self.loop([sym.expr], [window], sym.shape, [how])

    def scanned(self, sym, axis, how):
        sym = sym.window()
        return self._lines(sym, sym, axis, P.PRODUCTS if how == "mul" else P.SUMS)

    def recurred(self, sym, factors, axis, lag):
        return self._lines(sym, factors, axis, P.LAGGED if lag else P.RECURRENCE)

    def _lines(self, sym, factors, axis, how):
        """A scan along one axis, for each position in the others."""
        atoms = [s.window().atom for s in (sym, factors)]
        shape, char = atoms[0].shape, atoms[0].char
        out = self.temporary(shape, char)
        if 0 not in shape:
            words = [word for a in atoms for word in (a.reg, a.offset)]
            atoms.append(out)
            words += [out.reg, P.SIZES[char], how, shape[axis], *(a.strides[axis] for a in atoms), len(shape) - 1]
            for k, extent in enumerate(shape):
                if k != axis:
                    words += [extent, *(a.strides[k] for a in atoms)]
            self.step(P.SCAN, *words)
        return self.sym(out)

    def call(self, spec, atoms, inputs, *around):
        self.kernels.append((len(self.words) + 2, spec))
        self.step(P.CALL, *call_words(0, spec.data(), [(x.reg, x.offset) for x in atoms], *around))

    def demanded(self, done):
        self.step(P.DEMAND, done.atom.reg)

    def product(self, a, b, char, absolute):
        a, b, product = self.called_product(a, b, char)
        if absolute and 0 not in product.shape and a.shape[-1]:
            # BLAS knows no absolute zero; a result that is not finite is computed again.
            self.step(P.REPAIR, *repair_words(a, b, product, [(s.atom.reg, s.atom.offset) for s in (a, b)], product.atom.reg))
        return product

    # -- positions --------------------------------------------------------------
    def ordered(self, sym):
        sym = sym.window()
        return sym if sym.atom.whole else sym.own()

    def _index(self, index):
        atom = index.window().atom
        require(atom.whole and atom.char in "lq", f"an index map must be a contiguous int64 array, not {atom}")
        return atom.reg

    def gather(self, sym, index, shape):
        require(index.size == math.prod(shape), f"{index.size} positions for the shape {shape}")
        sym = self.ordered(sym)
        out = self.temporary(shape, sym.char)
        if index.size:
            self.step(P.GATHER, sym.atom.reg, self._index(index), out.reg, index.size, ITEMSIZE[sym.char])
        return self.sym(out)

    def write_at(self, source, index, target, add):
        require(index.size == source.size or source.nothing, f"{index.size} positions for something else")
        require(target.offset == 0, f"the window {target}, written at positions")
        if not index.size:
            return
        where = self._index(index), target.reg, index.size, P.SIZES[target.char]
        if not add:
            self.step(P.ZERO_AT, where[1], where[0], *where[2:])
        if not source.nothing:
            self.step(P.SCATTER, self.ordered(source.cast(target.char)).atom.reg, *where)

    def zeroed(self, sym, shape, strides, offset):
        """The adjoint itself with a window set to zero (see `RuleArray.zeroed`)."""
        require(sym.atom.reg == 0 and sym.atom.whole, "only the adjoint itself is zeroed in part")
        self.loop([L.Expr.lift(0.0)], [self.part(sym.atom, shape, strides, offset)], shape, [None])
        return sym

    def zeroed_at(self, sym, index):
        """The adjoint itself with flat positions set to zero (see `RuleArray.zeroed_at`)."""
        require(sym.atom.reg == 0 and sym.atom.whole, "only the adjoint itself is zeroed in part")
        self.write_at(Sym(self, (), sym.char, L.Expr.lift(0.0)), index, sym.atom, False)
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
                require(value.shape == meta.shape, f"a contribution of shape {value.shape} for an operand of shape {meta.shape}")
                self.add_into(self._target(k, meta), value.source, value.strides, value.offset)
            elif isinstance(value, Scattered):
                self.write_at(value.source, value.index, self._target(k, meta), True)
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
            self.step(P.MOVE if last and owned else P.ADD, k, atom.reg, meta.nbytes, P.SIZES[meta.char])

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
                self.step(P.MOVE, k, buffer.reg, meta.nbytes, P.SIZES[meta.char])

    def _target(self, k, meta):
        reg = self.targets
        self.targets += 1
        require(reg < P.FIRST_TEMPORARY, "a rule scatters too many contributions")
        self.step(P.TARGET, k, reg, meta.nbytes)
        return Atom(reg, 0, meta.shape, c_strides(meta.shape, meta.itemsize), meta.char)


class OperandValue(Sym):
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
