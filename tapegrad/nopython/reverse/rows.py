"""Element-wise operations: which row of the table a statement is, and one loop for the adjoint of an array expression."""

import operator
import re
from functools import cache, lru_cache

import numba
import numpy as np
from numba import types

from ...codegen.numba_inside import INNER
from ...rules import lang as L
from ..scalars import ADDED, FUNCTIONS, OPERATORS, UFUNCS, partials
from ..types import defined
from .runtime import contribution
from .statements import is_expr

_ROWS = {**OPERATORS, **UFUNCS, **FUNCTIONS, max: "maximum", min: "minimum", float: "clone", np.float64: "clone", np.where: "where", np.clip: "clip"}
_UNARY = {"-": operator.neg, "+": operator.pos}
#: Notation of operations in generated code; others are calls.
_SYMBOLS = {
    operator.add: "{} + {}", operator.sub: "{} - {}", operator.mul: "{} * {}", operator.truediv: "{} / {}", operator.pow: "{} ** {}",
    operator.neg: "-{}", operator.pos: "{}", np.where: "{1} if {0} else {2}", np.clip: "min(max({}, {}), {})",
}  # fmt: skip
#: Rows that cost less to compute again than to keep.
CHEAP = {"add", "subtract", "multiply", "negative", "absolute", "maximum", "minimum", "clone", "power2", "where", "clip"}


def is_float(ty):
    return isinstance(ty, types.Float)


def is_array(ty):
    return isinstance(ty, types.Array) and isinstance(ty.dtype, types.Float)


def carries(ty):
    """Whether values of a type can have a derivative."""
    return is_float(ty) or is_array(ty)


class Elementwise:
    """An element-wise operation: its function, operands (names) and partial derivatives, None for those that are zero."""

    def __init__(self, function, row, operands, exprs):
        self.function, self.row, self.operands = function, row, operands
        self.exprs = [None if e is None or (e.is_const and e.args[0] == 0.0) else e for e in exprs]


def elementwise(program, s):
    """The element-wise operation that a statement is, or None."""
    e = s.value
    if is_expr(e, "binop"):
        function, operands = e.fn, [e.lhs.name, e.rhs.name]
    elif is_expr(e, "inplace_binop"):
        function, operands = e.immutable_fn, [e.lhs.name, e.rhs.name]
    elif is_expr(e, "unary"):
        function, operands = _UNARY.get(e.fn, e.fn), [e.value.name]
    elif is_expr(e, "cast"):
        function, operands = float, [e.value.name]
    elif is_expr(e, "call") and not e.kws and e.vararg is None:
        function, operands = program.callee(e), [v.name for v in e.args]
    else:
        return None
    row = None if isinstance(function, tuple) or function.__hash__ is None else _ROWS.get(function) or ADDED.get(function)
    if row is None or not all(_is_number(program.type_of(n)) for n in operands):
        return None
    exprs = partials(row)
    if row == "power":
        n = program.object_of(operands[1])
        if isinstance(n, (int, float)) and n == 2:
            row, exprs = "power2", [partials("power2")[0], None]
        elif isinstance(n, int) and 0 < abs(n) < 16:
            exprs = [_integer_power(n), None]
    return Elementwise(function, row, operands, exprs) if len(exprs) == len(operands) else None


def _is_number(ty):
    ty = getattr(ty, "dtype", ty) if isinstance(ty, types.Array) else ty
    return isinstance(ty, (types.Integer, types.Float, types.Boolean))


@cache
def _integer_power(n):
    """``n * x ** (n - 1)`` by multiplications."""
    square, power, m = L.arg(0), None, abs(n - 1)
    while m:
        if m & 1:
            power = square if power is None else power * square
        square, m = square * square, m >> 1
    power = L.Expr.lift(1.0) if power is None else power
    return (1.0 / power if n < 0 else power) * float(n)


# ---- array expressions: one loop that computes again and accumulates -----------------------------
class _TreeAdjoint:
    """The text of the adjoint of an expression of several operations, for leaves of these numbers of dimensions (None: a scalar).

    A node is an `Elementwise`, or the name of a leaf; the operands of an operation that are `inside` are nodes for these.
    """

    def __init__(self, root, inside, leaves, dims, active, n):
        self.inside, self.index, self.active, self.dims = inside, {name: k for k, name in enumerate(leaves)}, active, dims
        self.scope, self.lines, self.values, self.reached = {"np": np}, [], {}, set()
        self.count = 0
        self.total = n is None
        self.n = max((d for d in dims if d is not None), default=0) if self.total else n
        self._adjoint(root, "w")
        self.arrays = [k for k, d in enumerate(dims) if d is not None]
        self.shadows = [k for k in self.arrays if active[k]]
        self.scalars = [k for k, d in enumerate(dims) if d is None and active[k]]

    def _name(self, prefix):
        self.count += 1
        return f"{prefix}{self.count}"

    def _constant(self, thing):
        name = next((name for name, known in self.scope.items() if known is thing), None) or self._name("f")
        self.scope[name] = thing
        return name

    def _value(self, node):
        if isinstance(node, str):
            return f"x{self.index[node]}"
        if node not in self.values:
            operands = [*map(self._value, operands_of(node, self.inside))]
            if node.row == "power2":
                text = f"{operands[0]} * {operands[0]}"
            elif node.function in _SYMBOLS:
                text = _SYMBOLS[node.function].format(*operands)
            else:
                text = f"{self._constant(node.function)}({', '.join(operands)})"
            self.values[node] = self._name("t")
            self.lines.append(f"{self.values[node]} = {text}")
        return self.values[node]

    def _varied(self, node):
        return self.active[self.index[node]] if isinstance(node, str) else any(map(self._varied, operands_of(node, self.inside)))

    def _adjoint(self, node, w):
        if isinstance(node, str):
            k = self.index[node]
            if self.active[k]:
                self.lines.append(f"d{k} = d{k} + {w}" if k in self.reached else f"d{k} = {w}")
                self.reached.add(k)
            return
        children = operands_of(node, self.inside)
        for expr, child in zip(node.exprs, children):
            if expr is not None and self._varied(child):
                leaves = expr.leaves()
                values = [self._value(node if leaf == "z" else children[leaf]) for leaf in leaves]
                name = self._name("w")
                self.lines.append(f"{name} = {self._constant(contribution(expr, leaves, False))}({', '.join([w, *values])})")
                self._adjoint(child, name)

    def _loops(self, given):
        """The text of the loops; they have steps of 0 along dimensions in which an operand is repeated."""
        n, text = self.n, " ".join(self.lines)
        at = {k: ", ".join(f"i{n - self.dims[k] + j} * m{k}_{j}" for j in range(self.dims[k])) or "()" for k in self.arrays}
        body = [] if self.total else [f"w = W[{', '.join(f'i{j}' for j in range(n)) or '()'}]"]
        body += [f"x{k} = A{k}[{at[k]}]" for k in self.arrays if f"x{k}" in text]
        body += self.lines
        body += [f"S{k}[{at[k]}] += d{k}" for k in self.shadows if k in self.reached]
        body += [f"s{k} += d{k}" for k in self.scalars if k in self.reached]
        lines = [f"s{k} = 0.0" for k in self.scalars] + [f"x{k} = A{k}" for k, d in enumerate(self.dims) if d is None]
        lines += ["w = W"] if self.total else []
        lines += [f"{'    ' * j}for i{j} in range(n{j}):" for j in range(n)]
        lines += ["    " * n + line for line in body or ["pass"]]
        result = f"({''.join(f's{k}, ' for k in self.scalars)})" if self.scalars else "0"
        return "\n    ".join([f"def loops({', '.join(given)}):", *lines, f"return {result}"])

    def made(self):
        """The function."""
        dims, n = self.dims, self.n
        leaves = ["W", *[f"A{k}" for k in range(len(dims))], *[f"S{k}" for k in self.shadows]]
        given, steps = [*leaves, *[f"n{j}" for j in range(n)]], [f"m{k}_{j}" for k in self.arrays for j in range(dims[k])]
        # (Inlined twice: where no operand is repeated all steps are known.)
        scope = {"np": np, "loops": compiled(self._loops([*given, *steps]), "loops", self.scope, forceinline=True)}
        body = ["one = np.int64(1)"]  # (A literal would have a type of its own.)
        for j in range(n):
            sizes = [f"A{k}.shape[{dims[k] - n + j}]" for k in self.arrays if dims[k] - n + j >= 0] if self.total else []
            body.append(f"n{j} = {''.join(f'{size} if {size} != 1 else ' for size in sizes)}{'1' if self.total else f'W.shape[{j}]'}")
        if all(dims[k] == n for k in self.arrays):
            same = [f"(A{k}.shape[{j}] == n{j})" for k in self.arrays for j in range(n)] or ["True"]
            body += [f"if {' & '.join(same)}:", f"    return loops({', '.join([*given, *['one'] * len(steps)])})"]
        body += [f"m{k}_{j} = 0 if A{k}.shape[{j}] == 1 else 1" for k in self.arrays for j in range(dims[k])]
        body.append(f"return loops({', '.join([*given, *steps])})")
        return compiled("\n    ".join([f"def kernel({', '.join(leaves)}):", *body]), "kernel", scope)


def operands_of(node, inside):
    """The operands of an operation, as nodes; a leaf has none."""
    return () if isinstance(node, str) else [inside.get(name, name) for name in node.operands]


def kernel(root, inside, leaves, tys, active, n=None):
    """Function ``(W, leaf..., shadow of each active array...) -> contributions to active scalars``.

    `tys` are the leaves' types, `active` says which have adjoints; W has `n` dimensions, or is the adjoint of the sum.
    Beside it the leaves whose shadows it takes, and those to which it contributes.
    """
    made = _TreeAdjoint(root, inside, leaves, [ty.ndim if isinstance(ty, types.Array) else None for ty in tys], active, n)
    return made.made(), [leaves[k] for k in made.shadows], [leaves[k] for k in made.scalars]


def compiled(text, name, scope, **options):
    """The function of a text, compiled; one for equal texts in equal scopes, of functions and modules."""
    return _compiled(text, name, frozenset(scope.items()), **options)


@lru_cache(maxsize=1024)
def _compiled(text, name, scope, **options):
    # (Numba compiles NumPy's functions anew for each error model: it is asked for only where something is divided.)
    return numba.njit(**{"error_model": "numpy"} if re.search("/|%", text) else {}, **INNER, **options)(defined(text, name, dict(scope)))
