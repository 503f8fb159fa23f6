"""Programs that compute the value of one array entry, run by `sweep.steps.run`.

They are planned from the rules table as the adjoints are (`sweep.plan`), but with
NumPy's own inner loops wherever the eager operation used them, in the order in
which NumPy calls them: so a replay at the recorded point gives the same bits.

=====================================  ==============================================
entry                                  program
=====================================  ==============================================
element-wise row, or ufunc             the ufunc's inner loop
element-wise row that is no ufunc      a loop made from its expression
linear row                             its JVP, applied to the operands
row with `forward`                     that, in the rules' language
anything else                          none: NumPy is called again (a *host* step)
=====================================  ==============================================
"""

from __future__ import annotations

import struct

import numpy as np

from ..native.ufuncs import inner_loop
from ..rules import lang as L
from ..sweep import program as P
from ..sweep.plan import Planner, _aligned_shape, _coalesce
from ..sweep.symbolic import ITEMSIZE, Atom, Sym
from ..tape.meta import c_strides

_REDUCE = {"add": (np.add, 0.0), "mul": (np.multiply, 1.0), "max": (np.maximum, -np.inf), "min": (np.minimum, np.inf)}


#: Rows that are one reduction, which may write straight to the result.
_ONE_STEP = ("max", "min", "prod")


class Unplanned(Exception):
    """There is no program for this entry."""


class ValuePlanner(Planner):
    """Collects the steps of one value program; register 0 is the result, operands have registers of their own."""

    def __init__(self, metas, out):
        super().__init__(metas, out)
        self.result = Atom(0, 0, out.shape, c_strides(out.shape, out.itemsize), out.char)
        self.operands = [self._operand(meta) for meta in metas]
        self.registers = [sym.atom.reg for sym in self.operands]

    def _operand(self, meta):
        if meta.char not in ITEMSIZE:
            raise Unplanned(meta.char)
        return self._sym(Atom(self._register(), 0, meta.shape, meta.strides, meta.char))

    # -- steps ------------------------------------------------------------------
    def ufunc(self, function, *syms, out=None):
        """One call of a ufunc's inner loop, over strided operands."""
        chars = "".join(s.char for s in syms)
        shape = np.broadcast_shapes(*(s.shape for s in syms))
        found = [t for t in function.types if t.split("->")[0] == chars]
        if not found or function.nout != 1:
            raise Unplanned(f"{function.__name__} of {chars}")
        char = found[0].split("->")[1]
        out = self.temporary(shape, char) if out is None else out
        if out.char != char or out.char not in ITEMSIZE:
            raise Unplanned(f"{function.__name__} gives {char}")
        if 0 not in shape:
            atoms = [*(s.window().atom for s in syms), out]
            self._loop(inner_loop(function, found[0]), atoms, *_coalesce(shape, [_aligned_shape(a.shape, a.strides, shape) for a in atoms]))
        return self._sym(out)

    def _loop(self, loop, atoms, dims, strides):
        """A GUFUNC step without core dimensions."""
        *outer, count = dims or [1]
        words = [*loop, len(atoms)]
        for a in atoms:
            words += [a.reg, a.offset]
        steps = [s[-1] if s else 0 for s in strides]
        words += [1, count, len(steps), *steps, len(outer)]
        for d, extent in enumerate(outer):
            words += [extent, *(s[d] for s in strides)]
        self.step(P.GUFUNC, *words)

    def reduce(self, sym, how, axes, keepdims):
        function, identity = _REDUCE[how]
        sym = sym.window()
        char = sym.char
        if char not in "df":
            raise Unplanned(f"{how} of {char}")
        kept = tuple(1 if k in axes else n for k, n in enumerate(sym.shape))
        shape = kept if keepdims else tuple(n for k, n in enumerate(sym.shape) if k not in axes)
        direct = shape == self.out.shape and char == self.out.char and self.direct
        atom = Atom(0, 0, kept, c_strides(kept, ITEMSIZE[char]), char) if direct else self.temporary(kept, char)
        bits = struct.unpack("q", struct.pack("d", identity))[0]
        self.step(P.FILL, atom.reg, max(1, int(np.prod(kept, dtype=np.int64))), bits, P.CHARS[char])
        if 0 in sym.shape:
            result = self._sym(atom)
            return result if keepdims else result.reshape(shape)
        # NumPy walks the axes of longest stride outermost.
        order = sorted(range(sym.ndim), key=lambda k: (-abs(sym.atom.strides[k]), k))
        extents = [sym.shape[k] for k in order]
        ins = [sym.atom.strides[k] for k in order]
        outs = [0 if k in axes else atom.strides[k] for k in order]
        dims, strides = _coalesce(extents, [outs, ins, outs])
        self._loop(inner_loop(function, f"{char}{char}->{char}"), [atom, sym.atom, atom], dims, strides)
        result = self._sym(atom)
        return result if keepdims else result.reshape(shape)

    #: The eager operations called NumPy for these; so does a replay.
    eager = frozenset(
        "exp exp2 expm1 log log2 log10 log1p cbrt sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh arccosh arctanh "
        "pow arctan2 hypot fmod".split()
    )

    def call(self, name, *args):
        """A function of the language on symbols and numbers, by NumPy's loop."""
        chars = {a.char for a in args if isinstance(a, Sym)}
        char = "f" if chars == {"f"} else "d"
        syms = [a if isinstance(a, Sym) and a.char == char else self._number(a, char) for a in args]
        return self.ufunc(np.power if name == "pow" else getattr(np, name), *syms)

    def _number(self, thing, char):
        return self._cast(thing, char) if isinstance(thing, Sym) else self.constant(np.asarray(float(thing)), char)

    #: Whether a step may write straight to the result.
    direct = False

    def deliver(self, sym):
        """Make `sym` the result."""
        out = self.out
        if not isinstance(sym, Sym):
            sym = self._sym(self.result)._apply("add", L.Expr.lift(float(sym)), 0.0)
        if sym.shape != out.shape:
            sym = sym.broadcast_to(out.shape)
        atom = sym.atom
        if (atom is None or atom.reg != 0) and 0 not in out.shape:
            if out.char not in "df?" or (atom is not None and atom.char not in "df?" and atom.char != out.char):
                raise Unplanned(f"{atom} to {out.char}")
            self.loop([sym.expr], [self.result], out.shape, [None])
        self.step(P.END)


class ValueProgram:
    """The planned value of an entry of one description.

    Attributes
    ----------
    words : ndarray of int64
    registers : list of int
        Of the operands, in order; the result is in register 0.
    """

    KNOWN: dict[tuple, "ValueProgram"] = {}

    def __init__(self, planner):
        from ..native.loops import loop_kernel

        self.words = np.array(planner.words, np.int64)
        self.constants = planner.constants
        self.registers = planner.registers
        for position, spec in planner.kernels:
            self.words[position] = loop_kernel(spec)

    @classmethod
    def of_row(cls, row, attrs, metas, out):
        """The program of a row, or None if NumPy has to be called."""
        key = (row, attrs, metas, out)
        if key not in cls.KNOWN:
            cls.KNOWN[key] = cls._planned(lambda plan: _row(plan, row, dict(attrs)), metas, out)
        return cls.KNOWN[key]

    @classmethod
    def of_ufunc(cls, function, metas, out):
        """The program of a plain call of a ufunc, or None."""
        key = (function, metas, out)
        if key not in cls.KNOWN:
            cls.KNOWN[key] = cls._planned(lambda plan: plan.ufunc(function, *plan.operands, out=plan.result), metas, out)
        return cls.KNOWN[key]

    @classmethod
    def _planned(cls, build, metas, out):
        try:
            planner = ValuePlanner(metas, out)
            planner.deliver(build(planner))
        except Unplanned:
            return None
        return cls(planner)


def _ufunc_of(row):
    """The ufunc that computes an element-wise row eagerly, or None."""
    name = getattr(row.value, "of_scipy", None)
    if name is not None:
        import scipy.special

        found = getattr(scipy.special, name)
        return found if isinstance(found, np.ufunc) else None
    return row.value if isinstance(row.value, np.ufunc) else None


def _row(plan, row, attrs):
    operands = plan.operands
    if row.elementwise:
        function = _ufunc_of(row)
        if function is not None:
            if plan.out.char not in "df":
                if any(s.char != plan.out.char for s in operands):
                    raise Unplanned(row.name)
                return plan.ufunc(function, *operands, out=plan.result)
            floats = [s if s.char in "df" else plan._cast(s, plan.out.char) for s in operands]
            wide = [s if s.char == plan.out.char else plan._cast(s, plan.out.char) for s in floats]
            return plan.ufunc(function, *wide, out=plan.result)
        if plan.out.char not in "df":
            raise Unplanned(row.name)
        return row.expr(*operands)
    if any(s.char not in "df" for k, s in enumerate(operands) if k not in row.constants):
        raise Unplanned(row.name)
    if row.dynamic:
        attrs[row.dynamic] = plan.DYNAMIC
    if row.linear:
        tangents = [operands[k] for k in row.slots(len(operands))]
        return row.jvp(tangents, *operands, plan._sym(plan.result), **attrs)
    if row.forward is None:
        raise Unplanned(row.name)
    plan.direct = row.name in _ONE_STEP
    return row.forward(*operands, **attrs)
