"""Symbolic arrays, what a rule is handed when a program or a kernel is planned, and the planner: what the rules' language does to them in memory.

A `Sym` is an element-wise expression over `Atom` operands that has not been
computed yet; an `Atom` is a strided window on a buffer.  Element-wise
work on a `Sym` only grows the expression, movement of data only changes windows,
and reductions, products and scatters ask the planner to emit steps (`STEPS`).  So a rule
such as ``y * (g - (g * y).sum(axis, keepdims=True))`` becomes two loops and no
temporaries but the sum.  Loops walk several windows at once: strides under broadcasting, dimensions merged.

Steps look at no bounds, so every window is made by functions that do: of an array (`_transposed`, `_reshaped`,
...), of what is written to (`Planner.part`), of operands that are walked together (`Planner.loop`).  A tape from a file
(`transforms.saving.recorder`) rests on that.

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
from ..rules import BY_NAME
from ..rules import lang as L
from ..rules import shapes as S
from ..rules.loops import DRIVEN
from ..tape.layout import c_strides
from .program import MOST_ARGUMENTS, SIZES
from .rule_array import REDUCTIONS, RuleArray

#: An innermost dimension shorter than this costs more in calls of its loop than in the loop.
SHORT = 8
#: Bytes that one operand may cover by a dimension that becomes the innermost: they are walked several times.
NEAR = 1 << 18


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


def within(own, strides, shape, steps, offset):
    """The window of an array that is not contiguous, if there is one, from that of one that is.

    Parameters
    ----------
    own, strides : sequence of int
        Of the array.
    shape, steps : sequence of int
        Of the window: `steps` and `offset` are in elements, in C order.
    offset : int

    Returns
    -------
    (int, list of int) or None
        Offset and steps of the window in the units of `strides`; None if it is no window.
    """
    # Each step in C order must be one step along the axes of the array, wherever it begins.
    start = np.unravel_index(offset, own)
    reach = [[int(s), int(s)] for s in start]
    jumps = []
    for n, step in zip(shape, steps):
        if n == 1:
            jumps.append(0)
            continue
        stop = np.unravel_index(offset + step * (n - 1), own)
        change = [int(b - a) for a, b in zip(start, stop)]
        if any(c % (n - 1) for c in change):
            return None
        for r, c in zip(reach, change):
            r[c > 0] += c
        jumps.append(sum(c // (n - 1) * s for c, s in zip(change, strides)))
    if any(low < 0 or high >= n for (low, high), n in zip(reach, own)):
        return None
    return sum(int(i) * s for i, s in zip(start, strides)), jumps


def fits(own, shape):
    """Whether an operand can be walked along `shape`: by broadcasting, and without axes of extent 1 that it has in front."""
    return all(n == 1 for n in own[: max(0, len(own) - len(shape))]) and all(n in (1, m) for n, m in zip(own[::-1], shape[::-1]))


def aligned(atom, shape):
    return aligned_shape(atom.shape, atom.strides, shape)


def aligned_shape(own, strides, shape):
    """Strides of an operand broadcast to `shape`."""
    lead = len(shape) - len(own)
    return [
        0 if d < lead or (own[d - lead] == 1 and n != 1) else strides[d - lead] for d, n in enumerate(shape)
    ]


def coalesce(shape, strides):
    """Merge neighbouring dimensions that all operands walk as one."""
    dims = [d for d, n in enumerate(shape) if n != 1]
    extents = []
    merged = [[] for _ in strides]
    for d in dims:
        n = shape[d]
        if extents and all(m[-1] == s[d] * n for m, s in zip(merged, strides)):
            extents[-1] *= n
            for m, s in zip(merged, strides):
                m[-1] = s[d]
        else:
            extents.append(n)
            for m, s in zip(merged, strides):
                m.append(s[d])
    return extents, merged


def longest_inside(dims, strides):
    """The dimensions in an order in which the innermost is long, if it is short: an array of points has few coordinates.

    Parameters
    ----------
    dims : list of int
    strides : list of list of int
        Of each operand, in bytes.

    Returns
    -------
    dims, strides
    """
    if len(dims) < 2 or dims[-1] >= SHORT:
        return dims, strides
    k = max(range(len(dims) - 1), key=dims.__getitem__)
    if dims[k] < 4 * dims[-1] or any(dims[k] * abs(s[k]) > NEAR for s in strides):
        return dims, strides
    order = [*(d for d in range(len(dims)) if d != k), k]
    return [dims[d] for d in order], [[s[d] for d in order] for s in strides]


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
