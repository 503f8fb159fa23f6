"""Statements of Numba's IR, and adjoints of the operations among them.

What statements read, and copies of them, come first: the only place that looks inside of an expression.  `Refused` stops the
transformation at a statement that it does not follow.

Of element-wise operations: which row of the table a statement is, and one loop for the adjoint of an array expression.

Of NumPy's functions of whole arrays: adjoints as text that Numba compiles.  In the lines `W` is the adjoint of the result and `Z` the result;
`A`, `B`, `C` are the operands, `SA`, `SB`, `SC` the shadows of those that are arrays, and `a`, `b`, `c` what is summed up for those that are
numbers.
"""

import operator
import re
from functools import cache, lru_cache

import numba
import numpy as np
from numba import types

from ...codegen.numba_inside import INNER, contents, ir, renamed
from ...rules import lang as L
from ..arrays import EMPTY, where
from ..loops import back_substituted, cofactors, log_abs_det, sign_of_det, zeros_for
from ..scalars import ADDED, FUNCTIONS, OPERATORS, UFUNCS, partials
from ..types import defined, element, is_real
from .runtime import contribution


# ---- statements ----------------------------------------------------------------------------------
class Refused(Exception):
    """No derivative of a statement; `loc` is where it stands in the user's source, `advice` what to do.

    `work` are the positions of arguments that have to be differentiated as well, as differentiated values are stored into them.
    """

    def __init__(self, reason, loc, advice="write this step in loops over numbers and arrays, or ask for mode=\"forward\"", work=()):
        super().__init__(reason)
        self.reason, self.loc, self.advice, self.work = reason, loc, advice, work


def is_expr(value, op=None):
    return isinstance(value, ir.Expr) and (op is None or value.op == op)


def is_phi(s):
    return isinstance(s, ir.Assign) and is_expr(s.value, "phi")


def let_come(phi, pairs):
    """Let a phi, which is returned, have these values: (block it comes from, variable)."""
    phi.incoming_blocks, phi.incoming_values = [b for b, _ in pairs], [v for _, v in pairs]
    return phi


def reads(s):
    """Names that a statement reads."""
    if isinstance(s, ir.Assign):
        if isinstance(s.value, ir.Var):
            return [s.value.name]
        return [v.name for v in s.value.list_vars()] if is_expr(s.value) else []
    return [v.name for v in s.list_vars()]


def details(expr):
    """What two expressions of the same operands may differ in."""
    held = contents(expr)
    return [expr.op, *(str(held[name]) for name in ("fn", "attr", "index", "immutable_fn") if name in held)]


def clone(value, table):
    """A copy of a right side, with variables exchanged: name -> Var."""
    if isinstance(value, ir.Var):
        return table.get(value.name, value)
    return renamed(value, {a: b for a, b in table.items() if a != b.name}) if is_expr(value) else value


# ---- element-wise operations ---------------------------------------------------------------------
_ROWS = {**OPERATORS, **UFUNCS, **FUNCTIONS, max: "maximum", min: "minimum", float: "clone", np.float64: "clone",
         np.where: "where", where: "where", np.clip: "clip"}  # fmt: skip
_UNARY = {"-": operator.neg, "+": operator.pos}
#: Notation of operations in generated code; others are calls.
_SYMBOLS = {
    operator.add: "{} + {}", operator.sub: "{} - {}", operator.mul: "{} * {}", operator.truediv: "{} / {}", operator.pow: "{} ** {}",
    operator.neg: "-{}", operator.pos: "{}", np.where: "{1} if {0} else {2}", where: "{1} if {0} else {2}",
    np.clip: "{2} if ({0} > {2}) | ({1} > {2}) else {1} if {0} < {1} else {0}",  # (min and max of dual numbers share at a tie)
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
    if row is None or not all(is_real(element(program.type_of(n))) for n in operands):
        return None
    exprs = partials(row)
    if row == "power":
        n = program.object_of(operands[1])
        if isinstance(n, (int, float)) and n == 2:
            row, exprs = "power2", [partials("power2")[0], None]
        elif isinstance(n, int) and 0 < abs(n) < 16:
            exprs = [_integer_power(n), None]
    return Elementwise(function, row, operands, exprs) if len(exprs) == len(operands) else None


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
                self.lines.append(f"{name} = {self._constant(contribution(expr, leaves, False, True))}({', '.join([w, *values])})")
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


# ---- functions of whole arrays -------------------------------------------------------------------
#: Functions whose result depends on no element of their operands.
BLANK = {zeros_for, *EMPTY}


def _expanded(ndim, axis):
    return "W[" + ", ".join("None" if j == axis % ndim else ":" for j in range(ndim)) + "]" if ndim > 1 else "W"


def _sum(dims, axis):
    return {0: ["SA += W" if axis is None else f"SA += {_expanded(dims[0], axis)}"]}


def _extremum(dims, axis):
    return {0: ["n = 0", "for i in np.ndindex(A.shape):", "    n += A[i] == Z or A[i] != A[i]", "for i in np.ndindex(A.shape):",
                "    if A[i] == Z or A[i] != A[i]:", "        SA[i] += W / n"]}  # fmt: skip


def _dot(dims, axis):
    return {
        (1, 1): {0: ["for i in range(A.size):", "    SA[i] += W * B[i]"], 1: ["for i in range(A.size):", "    SB[i] += W * A[i]"]},
        (2, 1): {0: ["for i in range(A.shape[0]):", "    w = W[i]", "    for j in range(A.shape[1]):", "        SA[i, j] += w * B[j]"],
                 1: ["SB += np.dot(A.T, W)"]},
        (1, 2): {0: ["SA += np.dot(B, W)"],
                 1: ["for i in range(B.shape[0]):", "    v = A[i]", "    for j in range(B.shape[1]):", "        SB[i, j] += v * W[j]"]},
        (2, 2): {0: ["SA += np.dot(W, B.T)"], 1: ["SB += np.dot(A.T, W)"]},
    }.get(tuple(dims[:2]))  # fmt: skip


def _solve(dims, axis):
    first = ["SA -= np.dot(G, Z.T)"] if dims[1] == 2 else ["for i in range(G.size):", "    for j in range(G.size):", "        SA[i, j] -= G[i] * Z[j]"]
    # In the layout that most matrices have: Numba takes seconds to compile it for another one.
    solved = ["G = np.linalg.solve(np.ascontiguousarray(A.T), W)"]
    return {0: solved + first, 1: [*solved, "SB += G"]}


def _cholesky(dims, axis):
    return {0: ["P = np.dot(Z.T, W)", "for i in range(len(P)):", "    P[i, i] *= 0.5", "    P[i, i + 1:] = 0.0", "back_substituted(Z, P)",
                "P = back_substituted(Z, P.T.copy())", "SA += 0.5 * (P + P.T)"]}  # fmt: skip


def _joined(place, single):
    """Arrays put together along ``place(dims, axis)``, where those of which ``single(ndim)`` holds have no such axis."""

    def row(dims, axis):
        lines, start, axis = {}, "0", place(dims, axis)
        for k, name in enumerate("ABCDEFGH"[: len(dims)]):
            width = "1" if single(dims[k]) else f"{name}.shape[{axis}]"
            lines[k] = [f"S{name} += W[{':, ' * axis}{start if single(dims[k]) else f'{start}:{start} + {width}'}]"]
            start += f" + {width}"
        return lines

    return row


def _gathered(dims, axis):
    return {0: ["for k in range(B.size):", "    SA[B[k]] += W[k]"] if dims[1] == 1 else None}


def _masked(dims, axis):
    return {0: ["k = 0", "for i in np.ndindex(B.shape):", "    if B[i]:", "        SA[i] += W[k]", "        k += 1"]}


def _same(dims, axis):
    return {0: ["SA += W"]}


def _filled(dims, axis):
    return {0: [], 1: ["b += np.sum(W)"]}


#: (functions, name of the method, parameters, lines for each operand); a parameter `axis` is a constant.
_CALLS = (
    ((np.sum,), "sum", "a axis", _sum),
    ((sum,), None, "a", lambda dims, axis: _sum(dims, None) if dims == [1] else None),
    ((np.max, np.amax), "max", "a", _extremum),
    ((np.min, np.amin), "min", "a", _extremum),
    ((np.copy, np.ascontiguousarray), "copy", "a", _same),
    ((), "astype", "a dtype", _same),
    ((), "flatten", "a", lambda dims, axis: {0: ["SA += W.reshape(A.shape)"]}),
    ((np.ravel,), "ravel", "a", lambda dims, axis: {0: ["SA += W.reshape(A.shape)"]}),
    ((np.dot, operator.matmul), "dot", "a b", _dot),
    ((np.outer,), None, "a b", lambda dims, axis: {0: ["SA += np.dot(W, B)"], 1: ["SB += np.dot(A, W)"]} if dims == [1, 1] else None),
    ((np.full,), None, "shape fill_value dtype", _filled),
    ((np.full_like,), None, "a fill_value dtype", _filled),
    ((np.concatenate,), None, "*arrays", _joined(lambda dims, axis: (axis or 0) % dims[0], lambda ndim: False)),
    ((np.hstack,), None, "*arrays", _joined(lambda dims, axis: min(dims[0] - 1, 1), lambda ndim: False)),
    ((np.vstack,), None, "*arrays", _joined(lambda dims, axis: 0, lambda ndim: ndim == 1)),
    ((np.column_stack,), None, "*arrays", _joined(lambda dims, axis: 1, lambda ndim: ndim == 1)),
    ((np.stack,), None, "*arrays", _joined(lambda dims, axis: (axis or 0) % (dims[0] + 1), lambda ndim: True)),
    ((np.linalg.norm,), None, "x", lambda dims, axis: {0: ["if Z != 0.0:", "    for i in np.ndindex(A.shape):", "        SA[i] += W * A[i] / Z"]}),
    ((np.linalg.solve,), None, "a b", _solve),
    ((np.linalg.inv,), None, "a", lambda dims, axis: {0: ["SA -= np.dot(np.dot(Z.T, W), Z.T)"]}),
    ((np.linalg.det,), None, "a", lambda dims, axis: {0: ["G = cofactors(A)", "for i in np.ndindex(A.shape):", "    SA[i] += W * G[i]"]}),
    ((sign_of_det,), None, "a", lambda dims, axis: {0: []}),
    ((log_abs_det,), None, "a", lambda dims, axis: {0: ["G = np.linalg.inv(A)", "for i in range(len(G)):", "    for j in range(len(G)):",
                                                          "        SA[i, j] += W * G[j, i]"]}),
    ((np.linalg.cholesky,), None, "a", _cholesky),
)  # fmt: skip
_BY_FUNCTION = {function: row for row in _CALLS for function in row[0]}
_BY_METHOD = {row[1]: row for row in _CALLS if row[1]}


class ArrayCall:
    """A call of a function with a row in this file: its operands (names) and the lines of their adjoints."""

    def __init__(self, operands, lines, uses_axis):
        self.operands, self.lines, self.uses_axis = operands, lines, uses_axis

    def function(self, tys, active):
        """Function ``(W, operand..., shadow of each active array...) -> contributions to active numbers``, or None.

        Beside it, the positions of the operands that it takes (-1: the result), of the shadows, and of the contributions.
        """
        letters = "ABCDEFGH"[: len(tys)]
        shadows = [k for k, ty in enumerate(tys) if active[k] and is_array(ty)]
        numbers = [k for k, ty in enumerate(tys) if active[k] and is_float(ty)]
        body = [f"{letters[k].lower()} = 0.0" for k in numbers]
        for k in sorted({*shadows, *numbers}):
            if self.lines.get(k) is None:
                return None
            body += self.lines[k]
        body.append(f"return ({''.join(letters[k].lower() + ', ' for k in numbers)})" if numbers else "return 0")
        words = set(re.findall(r"\w+", " ".join(body)))
        used = [k for k, letter in [(-1, "Z"), *enumerate(letters)] if letter in words]
        names = ["W", *["Z" if k < 0 else letters[k] for k in used], *[f"S{letters[k]}" for k in shadows]]
        text = "\n    ".join([f"def adjoint({', '.join(names)}):", *body])
        return compiled(text, "adjoint", {"np": np, "cofactors": cofactors, "back_substituted": back_substituted}), used, shadows, numbers


def call_of(program, s):
    """The `ArrayCall` that a statement is, or None."""
    e = s.value
    if is_expr(e, "binop") and e.fn is operator.matmul:
        row, args, kws = _BY_FUNCTION[e.fn], [e.lhs.name, e.rhs.name], {}
    elif is_expr(e, "getitem") and isinstance(program.type_of(e.index.name), types.Array):
        mask = isinstance(program.type(e.index.name).dtype, types.Boolean)
        row, args, kws = ((), None, "a b", _masked if mask else _gathered), [e.value.name, e.index.name], {}
    elif is_expr(e, "call") and e.vararg is None:
        function, args, kws = program.callee(e), [v.name for v in e.args], {k: v.name for k, v in e.kws}
        if isinstance(function, tuple):
            owner, method = function
            row = _BY_METHOD.get(method) if isinstance(program.type_of(owner), types.Array) else None
            args = [owner, *args]
        else:
            row = _BY_FUNCTION.get(function) if function.__hash__ is not None else None
            if function is np.ascontiguousarray and getattr(program.type_of(args[0]), "layout", None) != "F":
                row = None  # (it may be the same memory)
    else:
        return None
    return None if row is None else _bound(program, row, args, kws, s)


def _bound(program, row, args, kws, s):
    parameters = row[2].split()
    if parameters[0] == "*arrays":
        axis = kws.pop("axis", args.pop(1) if len(args) == 2 else None)
        value = program.value_of(args[0]) if len(args) == 1 and not kws else None
        if not is_expr(value, "build_tuple") or len(value.items) > 8 or axis is not None and program.number_of(axis) is None:
            return None
        args = [v.name for v in value.items]
    else:
        given = dict(zip(parameters, args)) | kws
        axis = given.pop("axis", None)
        if axis is not None and (program.number_of(axis) is None or "axis" not in parameters):
            raise Refused("the axis must be a constant integer", s.loc)
        if len(args) > len(parameters) or given.keys() - {*parameters}:
            return None
        args = [given[name] for name in parameters if name in given]
    tys = [program.type_of(n) for n in args]
    lines = row[3]([ty.ndim if isinstance(ty, types.Array) else None for ty in tys], None if axis is None else program.number_of(axis))
    return None if lines is None else ArrayCall(args, lines, axis is not None)
