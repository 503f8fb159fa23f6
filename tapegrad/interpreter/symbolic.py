"""Symbolic arrays: what a rule is handed when a program or a kernel is planned.

A `Sym` is an element-wise expression over `Atom` operands that has not been
computed yet; an `Atom` is a strided window on a buffer.  Element-wise
work on a `Sym` only grows the expression, movement of data only changes windows,
and reductions, products and scatters ask the planner to emit steps (`STEPS`).  So a rule
such as ``y * (g - (g * y).sum(axis, keepdims=True))`` becomes two loops and no
temporaries but the sum.

Steps look at no bounds, so every window is made by functions that do: of an array (`_transposed`, `_reshaped`,
...), of what is written to (`Planner.part`), of operands that are walked together (`Planner.loop`).  A tape from a file
(`transforms.saving.recorder`) rests on that.
"""

import math

import numpy as np

from ..common.errors import require
from ..rules import BY_NAME
from ..rules import lang as L
from ..rules import shapes as S
from ..rules.loops import DRIVEN
from ..tape.layout import c_strides
from .rule_array import REDUCTIONS, RuleArray
from .windows import contiguous, fits

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
    def size(self):
        return math.prod(self.shape)

    @property
    def whole(self):
        """Whether the window is contiguous from the start of its buffer."""
        return self.offset == 0 and self.contiguous

    @property
    def contiguous(self):
        """Whether its elements lie in C order without gaps."""
        return contiguous(self.shape, self.strides, ITEMSIZE[self.char])

    def __repr__(self):
        return f"r{self.reg}+{self.offset}{list(self.shape)}"


class Sym(RuleArray):
    """A lazily computed array inside a plan."""

    __slots__ = ("plan", "shape", "char", "expr")

    def __init__(self, plan, shape, char, expr):
        self.plan = plan
        self.shape = tuple(shape)
        self.char = char
        self.expr = expr

    # -- what the language asks of a store ------------------------------------------
    def _apply(self, name, *args):
        syms = [a for a in args if isinstance(a, Sym)]
        shape = np.broadcast_shapes(*(s.shape for s in syms))
        exprs = [a.expr if isinstance(a, Sym) else L.Expr.lift(a) for a in args]
        expr = L.simplify(name, tuple(exprs))
        char = "?" if expr.is_bool else "d" if any(s.char == "d" for s in syms) else _result(syms)
        sym = Sym(self.plan, shape, char, expr)
        return sym.own() if expr.op in self.plan.eager else sym

    def _call(self, name, operands, attrs=(), integer=0, compute=None):
        row = BY_NAME[name]
        keywords, step = row.keywords(attrs, integer), STEPS.get(name)
        return self.plan.by_numpy(row, operands, keywords) if step is None else step(self.plan, *operands, **keywords)

    def _lift(self, number):
        return number if isinstance(number, Sym) else Sym(self.plan, (), self.char, L.Expr.lift(number))

    def constant(self, array):
        return self.plan.constant(array, "f" if self.char == "f" else "d")

    def cast(self, char):
        return self if self.char == char else self.plan.compute(self, char)

    def own(self):
        return self.plan.compute(self)

    def svd(self):
        return self.plan.matrices("svd", self)

    def assemble(self, shape, parts):
        return self.plan.assemble(self.char, shape, parts)

    def zeroed(self, shape, strides, offset):
        """Contribution: this array, which must be the seed, with a window set to zero."""
        return self.plan.zeroed(self, shape, strides, offset)

    def zeroed_at(self, index):
        """Contribution: this array, which must be the seed, with flat positions set to zero."""
        return self.plan.zeroed_at(self, index)

    # -- windows --------------------------------------------------------------------
    @property
    def atom(self):
        """The window this symbol reads directly, or None if it must be computed."""
        if self.expr.op == "arg":
            atom = self.expr.args[0]
            if atom.shape == self.shape and atom.char == self.char:
                return atom
        return None

    def window(self):
        """This symbol as a window, computed if it must be."""
        return self if self.atom is not None else self.own()

    def moved(self, shape, strides, offset=0):
        """Another window on the buffer of this one, `offset` bytes further."""
        a = self.atom
        return Sym(self.plan, shape, self.char, L.arg(Atom(a.reg, a.offset + offset, shape, strides, a.char)))

    @property
    def nothing(self):
        """Whether every element is known to be zero."""
        return self.expr.is_const and self.expr.args[0] == 0.0


def _result(syms):
    chars = {s.char for s in syms if s.char in "df"}
    return chars.pop() if chars else "d"


def _transposed(plan, x, axes):
    x = x.window()
    return x.moved(S.permuted(x, axes), [x.atom.strides[k] for k in axes])


def _reshaped(plan, x, shape):
    x, shape = x.window(), S.counted(x, shape)
    if x.atom.contiguous:
        return x.moved(shape, c_strides(shape, ITEMSIZE[x.char]))
    return plan.strided(x, shape, c_strides(shape, 1), 0)


def _flipped(plan, x, axes):
    x = x.window()
    strides, offset = list(x.atom.strides), 0
    for axis in axes:
        offset += strides[axis] * (x.shape[axis] - 1)
        strides[axis] = -strides[axis]
    return x.moved(x.shape, strides, offset)


def _broadcast(plan, x, shape, strides, offset):
    require(fits(x.shape, shape), f"{x.shape} broadcast to {shape}")
    return Sym(plan, shape, x.char, x.expr)


def _concatenated(plan, *parts, axis):
    extents = [p.shape[axis] for p in parts]
    shape = [sum(extents) if k == axis else n for k, n in enumerate(parts[0].shape)]
    step = math.prod(shape[axis + 1 :])
    return plan.assemble(parts[-1].char, tuple(shape), [(p, p.shape, None, sum(extents[:k]) * step) for k, p in enumerate(parts)])


#: A planner's method for each row of the language: ``(planner, *operands, **attributes)``.  NumPy computes any other.
STEPS = {
    "transpose": _transposed, "reshape": _reshaped, "flip": _flipped, "broadcast_to": _broadcast, "concatenate": _concatenated,
    **dict.fromkeys(("as_strided", "select"), lambda plan, x, shape, strides, offset: plan.strided(x, shape, strides, offset)),
    "place": lambda plan, x, shape, strides, offset: plan.placed(x, shape, strides, offset),
    "scatter": lambda plan, x, index, shape: plan.scattered(x, index, shape),
    "gather": lambda plan, x, index, shape: plan.gather(x, index, shape),
    "add_window": lambda plan, x, v, shape, strides, offset: plan.added_window(x, v.broadcast_to(shape), strides, offset),
    "add_at": lambda plan, x, v, index: plan.added_at(x, v, index),
    "put": lambda plan, x, v, index, shape: plan.written(plan.changed(x).atom, v.broadcast_to(shape), index, False),
    **{name: lambda plan, x, axis, keepdims, how=how: plan.reduce(x, how, axis, keepdims) for how, name in REDUCTIONS.items()},
    "cumsum": lambda plan, x, axis: plan.scan(x, axis, "add"),
    "cumprod": lambda plan, x, axis: plan.scan(x, axis, "mul"),
    "recurrence": lambda plan, b, f, axis, reverse, lag: plan.recur(b, f, axis, reverse, lag),
    "matmul": lambda plan, a, b: plan.matmul(a, b, False),
    "absolute_matmul": lambda plan, a, b: plan.matmul(a, b, True),
    "inv": lambda plan, a: a.solve(a.constant(np.eye(a.shape[-1]))),
    "cofactors": lambda plan, a: BY_NAME["cofactors"].forward(a),
    **{name: lambda plan, *syms, name=name: plan.matrices(name, *syms)[0] for name in ("det", "logabsdet", "solve")},
    "cholesky": lambda plan, a, upper: plan.matrices("cholesky", a.swapaxes(-1, -2))[0].swapaxes(-1, -2) if upper else plan.matrices("cholesky", a)[0],
    **{name: lambda plan, *syms, program, name=name: plan.looped(BY_NAME[name], syms, program) for name in DRIVEN},
    "loop_results": lambda plan, carry, captured, xs, z, program: z.narrow(0, 0, program.outputs),
}  # fmt: skip
