"""Adjoints of NumPy's functions of whole arrays, as text that Numba compiles.

In the lines `W` is the adjoint of the result and `Z` the result; `A`, `B`, `C` are the operands, `SA`, `SB`, `SC` the shadows of
those that are arrays, and `a`, `b`, `c` what is summed up for those that are numbers.
"""

import operator
import re

import numpy as np
from numba import types

from ..algebra import back_substituted, cofactors, log_abs_det, sign_of_det
from ..arrays import EMPTY
from ..loops import zeros_for
from .rows import compiled, is_array, is_float
from .statements import Refused, is_expr

#: Attributes and functions whose result is the memory of their operand, in another shape.
VIEW_ATTRIBUTES = {"T"}
VIEW_METHODS = {"reshape", "transpose"}
VIEW_FUNCTIONS = {np.reshape, np.transpose, np.expand_dims, np.flip, np.fliplr, np.flipud, np.swapaxes}
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


#: (functions, name of the method, parameters, lines for each operand); a parameter `axis` is a constant.
_ROWS = (
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
    ((np.full, np.full_like), None, "shape fill dtype", lambda dims, axis: {0: [], 1: ["b += np.sum(W)"]}),
    ((np.concatenate,), None, "*arrays", _joined(lambda dims, axis: (axis or 0) % dims[0], lambda ndim: False)),
    ((np.hstack,), None, "*arrays", _joined(lambda dims, axis: min(dims[0] - 1, 1), lambda ndim: False)),
    ((np.vstack,), None, "*arrays", _joined(lambda dims, axis: 0, lambda ndim: ndim == 1)),
    ((np.column_stack,), None, "*arrays", _joined(lambda dims, axis: 1, lambda ndim: ndim == 1)),
    ((np.stack,), None, "*arrays", _joined(lambda dims, axis: (axis or 0) % (dims[0] + 1), lambda ndim: True)),
    ((np.linalg.norm,), None, "a", lambda dims, axis: {0: ["if Z != 0.0:", "    for i in np.ndindex(A.shape):", "        SA[i] += W * A[i] / Z"]}),
    ((np.linalg.solve,), None, "a b", _solve),
    ((np.linalg.inv,), None, "a", lambda dims, axis: {0: ["SA -= np.dot(np.dot(Z.T, W), Z.T)"]}),
    ((np.linalg.det,), None, "a", lambda dims, axis: {0: ["G = cofactors(A)", "for i in np.ndindex(A.shape):", "    SA[i] += W * G[i]"]}),
    ((sign_of_det,), None, "a", lambda dims, axis: {0: []}),
    ((log_abs_det,), None, "a", lambda dims, axis: {0: ["G = np.linalg.inv(A)", "for i in range(len(G)):", "    for j in range(len(G)):",
                                                          "        SA[i, j] += W * G[j, i]"]}),
    ((np.linalg.cholesky,), None, "a", _cholesky),
)  # fmt: skip
_BY_FUNCTION = {function: row for row in _ROWS for function in row[0]}
_BY_METHOD = {row[1]: row for row in _ROWS if row[1]}


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
