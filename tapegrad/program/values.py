"""Programs that compute the value of one array entry, run by `interpreter.steps.run`.

They are planned from the rules table as the adjoints are (`interpreter.plan`):

=====================================  ==============================================
entry                                  program
=====================================  ==============================================
element-wise row, or ufunc             the ufunc's inner loop
cast to integers, or bool              a loop of ours
element-wise row that is no ufunc      a loop made from its expression
linear row                             its JVP, applied to the operands
row with `forward`                     that, in the rules' language
loop in the body of a loop             its compiled driver
anything else                          none: NumPy is called again (a *host* step)
=====================================  ==============================================

NumPy's own loops need no compilation, know all dtypes, and add in pairs, which loses few digits where many numbers are added.
"""

import math
from functools import lru_cache

import numpy as np

from ..codegen.python_api import data_address
from ..codegen.ufuncs import inner_loop
from ..common.uninterrupted import imported
from ..interpreter import program as P
from ..interpreter.plan import Steps
from ..interpreter.planner import ITEMSIZE, Atom, Sym, aligned, call_words, coalesce, longest_inside
from ..rules import lang as L
from ..rules.loops import DRIVEN
from ..rules.table import cached

#: Functions that a rule computes once, however often it reads the result.
ELEMENTARY = frozenset(
    "exp exp2 expm1 log log2 log10 log1p cbrt sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh arccosh arctanh "
    "pow arctan2 hypot fmod sigmoid softplus".split()
)
#: Functions of NumPy that reduce a whole array of integers or truth values.
REDUCTIONS = {np.sum: np.add, np.prod: np.multiply, np.all: np.logical_and, np.any: np.logical_or, np.count_nonzero: np.add}
_REDUCE = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


class Unplanned(Exception):
    """There is no program for this entry."""


class ValuePlanner(Steps):
    """Collects the steps of one value program; register 0 is the result, operands have registers of their own."""

    def __init__(self, metas, out):
        super().__init__(metas, out)
        self.result = Atom(0, 0, out.shape, out.strides, out.char)
        self.operands = [self._operand(meta) for meta in metas]
        self.registers = [sym.atom.reg for sym in self.operands]
        #: Of a row that changes a copy of its first operand: whether the result is that operand's memory. It is where the copy is made.
        self.reused = None

    def _operand(self, meta):
        if meta.char not in ITEMSIZE:
            raise Unplanned(meta.char)
        return self.sym(Atom(self.register(), 0, meta.shape, meta.strides, meta.char))

    def ufunc(self, function, *syms):
        """The result, by the inner loop of a ufunc."""
        out = self.out.char
        try:
            *chars, found = (dtype.char for dtype in function.resolve_dtypes((*(np.dtype(s.char) for s in syms), *[None] * function.nout)))
        except TypeError:
            raise Unplanned(function.__name__) from None
        types = f"{''.join(chars)}->{out}"
        if found != out or types not in function.types or function.nout != 1 or not self.result.whole:
            raise Unplanned(f"{function.__name__} of {chars}")
        syms = [self.converted(sym, char) for sym, char in zip(syms, chars)]
        self._elements(inner_loop(function, types), [*(s.window().atom for s in syms), self.result], self.out.shape)
        return self.sym(self.result)

    def changed(self, sym):
        if self.reused is None or not self.result.whole or (sym.shape, sym.char) != (self.result.shape, self.result.char):
            return super().changed(sym)
        if not self.reused:
            self.loop([sym.expr], [self.result], sym.shape, [None])
        return self.sym(self.result)

    def converted(self, sym, char, target=None):
        """`sym` in another dtype, as NumPy converts it."""
        if sym.char == char and target is None:
            return sym
        if char in "df" and target is None and sym.char not in "LQ":
            return sym.cast(char)
        if sym.char not in "dlqibB?" or char not in "lqibB?":
            raise Unplanned(f"a cast from {sym.char} to {char}")
        target = target or self.temporary(sym.shape, char)
        self.loop([sym.window().expr], [target], sym.shape, [None])
        return self.sym(target)

    def reduction(self, function, sym):
        """The result, by the inner loop of a ufunc over all elements behind the first."""
        char, count = self.out.char, math.prod(sym.shape)
        # (NumPy adds floats in pairs.)
        if not count or self.out.shape or char in "df" or f"{2 * char}->{char}" not in function.types:
            raise Unplanned(function.__name__)
        line = self.temporary(sym.shape, char)
        self.converted(sym, char, line)
        part = lambda first, n: Atom(line.reg, first * ITEMSIZE[char], (n,), (ITEMSIZE[char],), char)  # noqa: E731
        self.converted(self.sym(part(0, 1)), char, Atom(0, 0, (1,), (0,), char))
        total = Atom(0, 0, (count - 1,), (0,), char)
        self._elements(inner_loop(function, f"{2 * char}->{char}"), [total, part(1, count - 1), total], (count - 1,))
        return self.sym(self.result)

    def host(self, function):
        """The result of a plain call of `function`, one of NumPy's or ``"cast"``."""
        if function == "cast":
            return self.converted(*self.operands, self.out.char, self.result)
        if function not in REDUCTIONS:
            return self.ufunc(function, *self.operands)
        (operand,) = self.operands
        return self.reduction(REDUCTIONS[function], self.converted(operand, "?") if function is np.count_nonzero else operand)

    def accumulate(self, sym, window, how):
        atom = sym.cast(window.char).window().atom
        # The axes of longest stride outermost.
        order = sorted(range(sym.ndim), key=lambda k: (-abs(atom.strides[k]), k))
        turned = [self.sym(a).transpose(order).atom for a in (window, atom, window)]
        self._elements(inner_loop(_REDUCE[how], f"{2 * atom.char}->{atom.char}"), turned, turned[0].shape)

    def _elements(self, loop, atoms, shape):
        """A call without core dimensions; the last of `atoms` is the result."""
        if 0 in shape:
            return
        dims, strides = coalesce(shape, [aligned(a, shape) for a in atoms])
        if len(atoms) > 2:  # `isnan` and its like leave out elements of a result that is not in one piece
            dims, strides = longest_inside(dims, strides)
        *outer, count = dims or [1]
        steps = [s[-1] if s else 0 for s in strides]
        self.step(P.CALL, *call_words(*loop, [(a.reg, a.offset) for a in atoms], [count], steps, outer, strides))

    def deliver(self, sym):
        """Make `sym` the result."""
        out = self.out
        if not isinstance(sym, Sym):
            sym = Sym(self, (), out.char, L.Expr.lift(float(sym)))
        if sym.shape != out.shape:
            sym = sym.broadcast_to(out.shape)
        atom = sym.atom
        if (atom is None or atom.reg != 0) and 0 not in out.shape:
            if out.char not in "df?" or (atom is not None and atom.char not in "df?" and atom.char != out.char):
                raise Unplanned(f"{atom} to {out.char}")
            self.loop([sym.expr], [self.result], out.shape, [None])
        self.step(P.END)


def called(host):
    """What `ValueProgram.of_host` computes of a `program.trace.HostCall`: a ufunc, a reduction or ``"cast"``; None if NumPy has to be called."""
    function = host.function
    if getattr(function, "name", None) == "cast":
        return "cast"
    return host.ufunc or next((f for f in REDUCTIONS if host.plain and f is function), None)


#: Programs that are kept although no workspace has them, at most.
MOST = 512


class ValueProgram:
    """The planned value of an entry of one description.

    Attributes
    ----------
    words : ndarray of int64
    registers : list of int
        Of the operands, in order; the result is in register 0.
    """

    def __init__(self, planner):
        self.words = np.array(planner.words, np.int64)
        self.constants, self.registers = planner.constants, planner.registers
        for position, spec in planner.kernels:
            self.words[position] = spec.address()
        self.address = data_address(self.words)

    @staticmethod
    @cached(MOST)
    def of_row(row, attrs, metas, out, reused=False):
        """The program of a row, or None if NumPy has to be called; its result may be in the memory of its first operand, which is `reused`."""
        return ValueProgram._planned(lambda plan: _row(plan, row, attrs, reused), metas, out)

    @classmethod
    @lru_cache(MOST)
    def of_host(cls, function, metas, out):
        """The program of a plain call of a ufunc, a reduction or ``"cast"``, or None."""
        return cls._planned(lambda plan: plan.host(function), metas, out)

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
        ufunc = getattr(imported("scipy.special"), name)
        return ufunc if isinstance(ufunc, np.ufunc) else None
    return row.value if isinstance(row.value, np.ufunc) else None


def _row(plan, row, attrs, reused):
    operands = plan.operands
    if row.elementwise:
        function = _ufunc_of(row)
        if function is not None:
            char = plan.out.char
            if char not in "df" and any(s.char != char for s in operands):
                raise Unplanned(row.name)
            return plan.ufunc(function, *(s.cast(char) for s in operands))
        if plan.out.char not in "df":
            raise Unplanned(row.name)
    else:
        if plan.out.char in "df":
            # Truth values are numbers to it, but for masks; and a conversion is what it says.
            numbers = "?" if row.name != "astype" else "?bBhHiIlq"
            operands = [s.cast(plan.out.char) if s.char in numbers and k not in row.constants else s for k, s in enumerate(operands)]
        if any(s.char not in "df" for k, s in enumerate(operands) if k not in row.constants):
            raise Unplanned(row.name)
        plan.eager = ELEMENTARY
        if row.effect == "write":
            plan.reused = reused
        if row.name in DRIVEN:
            return plan.looped(row, operands, dict(attrs)["program"], plan.result)
    value = row.computed(operands, plan.sym(plan.result), row.keywords(attrs, plan.DYNAMIC))
    if value is None:
        raise Unplanned(row.name)
    return value
