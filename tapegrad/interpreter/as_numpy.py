"""Steps that compute as NumPy does: its own inner loops, in its own order.

A planner that is an `AsNumPy` emits, for the functions and reductions of a rule,
calls of the loops inside NumPy's ufuncs.  What it computes then has the same bits
as the rule run on arrays (`tapegrad.array.eager`, `tapegrad.array.lifted`), where the loops of
`codegen.loops` may be some units in the last place away: they use other elementary
functions and add in another order.  Values and tangents are planned so, the
adjoints of the reverse sweep are not.
"""

from __future__ import annotations

import math
import struct

import numpy as np

from ..codegen.library import COMPOSED
from ..codegen.ufuncs import inner_loop
from ..common.errors import require
from ..rules.transposed import distinct, window_positions
from ..tape.meta import c_strides
from . import program as P
from .symbolic import ITEMSIZE, Atom, Sym, inside
from .windows import aligned_shape, coalesce, longest_inside

_REDUCE = {"add": (np.add, 0.0), "mul": (np.multiply, 1.0), "max": (np.maximum, -np.inf), "min": (np.minimum, np.inf)}

#: Functions with one correct result, which do not depend on where in a loop a number stands.
_EXACT = {
    np.add, np.subtract, np.multiply, np.divide, np.negative, np.positive, np.absolute, np.square, np.sqrt, np.equal, np.not_equal,
    np.less, np.less_equal, np.greater, np.greater_equal, np.logical_and, np.logical_or, np.logical_not,
}  # fmt: skip

#: Functions whose loops (of NumPy 2.4, at least) leave out elements of a result that does not lie in memory one after the other.
_IN_ONE_PIECE = {np.isnan, np.isinf, np.isfinite, np.signbit}


class Unplanned(Exception):
    """There is no program for this entry."""


class AsNumPy:
    """Mixed into a `interpreter.plan.Planner`."""

    #: Whether a reduction may write straight to the result, register 0.
    direct = False

    def ufunc(self, function, *syms, out=None):
        """One call of a ufunc's inner loop, over strided operands."""
        chars = "".join(s.char for s in syms)
        shape = np.broadcast_shapes(*(s.shape for s in syms))
        types = [t for t in function.types if t.split("->")[0] == chars]
        if not types or function.nout != 1:
            raise Unplanned(f"{function.__name__} of {chars}")
        char = types[0].split("->")[1]
        if out is None:
            syms = [self.window(s) for s in syms]
            out = self.like(shape, char, [s.atom for s in syms])
        if out.char != char or out.char not in ITEMSIZE:
            raise Unplanned(f"{function.__name__} gives {char}")
        require(out.shape == shape, f"{function.__name__} of {shape} into {out.shape}")
        if 0 not in shape:
            atoms = [*(s.window().atom for s in syms), out]
            aligned = [aligned_shape(a.shape, a.strides, shape) for a in atoms]
            if function in _IN_ONE_PIECE:
                # As NumPy's iterator walks: along the memory of the result.
                order = sorted(range(len(shape)), key=lambda k: -aligned[-1][k])
                shape, aligned = [shape[k] for k in order], [[s[k] for k in order] for s in aligned]
            dims, strides = coalesce(shape, aligned)
            if function in _IN_ONE_PIECE and dims and strides[-1][-1] != ITEMSIZE[char]:
                raise Unplanned(f"{function.__name__} into a result that is not in one piece")
            if function in _EXACT:
                dims, strides = longest_inside(dims, strides)
            self._loop(inner_loop(function, types[0]), atoms, dims, strides)
        return self._sym(out)

    def window(self, sym):
        """`sym` as a window, computed if it must be."""
        return sym.window()

    def like(self, shape, char, atoms):
        """A new buffer for the result of an element-wise operation on these windows."""
        return self.temporary(shape, char)

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
        sym = self.window(sym)
        char = sym.char
        if char not in "df":
            raise Unplanned(f"{how} of {char}")
        kept = tuple(1 if k in axes else n for k, n in enumerate(sym.shape))
        shape = kept if keepdims else tuple(n for k, n in enumerate(sym.shape) if k not in axes)
        direct = self.direct and shape == self.out.shape and char == self.out.char
        atom = Atom(0, 0, kept, c_strides(kept, ITEMSIZE[char]), char) if direct else self.like(kept, char, [sym.atom])
        bits = struct.unpack("q", struct.pack("d", identity))[0]
        self.step(P.FILL, atom.reg, max(1, int(np.prod(kept, dtype=np.int64))), bits, P.CHARS[char])
        rest = [k for k in range(sym.ndim) if keepdims or k not in axes]
        result = self._sym(Atom(atom.reg, 0, shape, [atom.strides[k] for k in rest], char))
        if 0 in sym.shape:
            return result
        # NumPy walks the axes of longest stride outermost.
        order = sorted(range(sym.ndim), key=lambda k: (-abs(sym.atom.strides[k]), k))
        extents = [sym.shape[k] for k in order]
        ins = [sym.atom.strides[k] for k in order]
        outs = [0 if k in axes else atom.strides[k] for k in order]
        dims, strides = coalesce(extents, [outs, ins, outs])
        if how == "add" and len(dims) > 1 and strides[0][-1] == strides[0][-2] == 0:
            raise Unplanned("NumPy copies what it adds together first, as much as its buffer holds")
        if how in ("add", "mul") and [s == 0 for s in strides[0]] == [False] * (len(dims) - 1) + [True]:
            # Of few numbers each, one after the other in both orders.
            dims, strides = longest_inside(dims, strides)
        self._loop(inner_loop(function, f"{char}{char}->{char}"), [atom, sym.atom, atom], dims, strides)
        return result

    def placed(self, sym, shape, strides, offset):
        """`Sym.placed`; where elements of the window coincide they are added one after the other, as in `place_value`."""
        if distinct(sym.shape, strides) or not sym.size:
            return super().placed(sym, shape, strides, offset)
        whole = self.temporary(shape, sym.char, zero=True)
        dynamic = offset is self.DYNAMIC
        if not dynamic:
            inside(math.prod(shape), sym.shape, strides, offset)
        reg = self.shifted(whole.reg, ITEMSIZE[sym.char]) if dynamic else whole.reg
        positions = window_positions(sym.shape, strides)
        self._add_at(sym, self.constant(positions if dynamic else positions + offset, "l"), reg, sym.char)
        return self._sym(whole)

    def _matrix(self, sym, char):
        """`sym` as it is: NumPy's loop takes any strides, and chooses its method by them."""
        return (sym if sym.char == char else self._cast(sym, char)).window()

    #: The eager operations called NumPy for these, or are made of such calls.
    eager = frozenset(
        "exp exp2 expm1 log log2 log10 log1p cbrt sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh arccosh arctanh "
        "pow arctan2 hypot fmod sigmoid softplus".split()
    )

    def call(self, name, *args):
        """A function of the language on symbols and numbers, by NumPy's loop."""
        if name in COMPOSED:
            return COMPOSED[name](*args)
        chars = {a.char for a in args if isinstance(a, Sym)}
        char = "f" if chars == {"f"} else "d"
        syms = [a if isinstance(a, Sym) and a.char == char else self._number(a, char) for a in args]
        return self.ufunc(np.power if name == "pow" else getattr(np, name), *syms)

    def _number(self, value, char):
        return self._cast(value, char) if isinstance(value, Sym) else self.constant(np.asarray(float(value)), char)
