"""The rules table: one `Row` per primitive, the only home of its derivative.

An *element-wise* row gives its value and its partial derivatives in the closed
language of `tapegrad.rules.lang`; the scalar switch of the sweep, the array
kernels, node calls and the printed form are all made from them.

A *structural* row (reductions, products, data movement) gives a NumPy value
function, and a VJP and a JVP written as calls of other primitives on whatever
they are handed: the sweep's planner hands them symbolic arrays once per
signature of shapes, a node call hands them arrays.  A VJP returns one
contribution per operand, in operand order (or a function that makes it, where
that costs a step that may not be needed); a JVP returns the tangent of the
result.  Neither may look at numbers, only at shapes, and a JVP reads no value
that the VJP does not read for the same operands (so a tape recorded for one
mode serves the other).

Opcodes are positions in the table, made when it is imported; a saved tape names its rows.

`scalar_rows` are those that have an instruction of their own for float64 scalars.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, lru_cache, wraps

import numpy as np

from ..common.errors import HigherOrderError, InternalError, UnsupportedFunctionError
from . import lang as L
from .lang import times
from .shapes import of_elements

#: Opcodes below FIRST_ROW are the tape's own entries, those from ROW_END on array instructions (see tape.layout).
FIRST_ROW, ROW_END = 8, 1024

ROWS: list[Row] = []
BY_NAME: dict[str, Row] = {}
BY_FUNCTION: dict[Callable, Row] = {}


def zero(*_):
    """The partial derivative of a function that is constant between jumps: who looks for such functions looks for it."""
    return 0.0


@cache
def _slots(constants, count):
    return tuple(k for k in range(count) if k not in constants)


@dataclass(eq=False)
class Row:
    """Everything tapegrad knows about one primitive.

    Attributes
    ----------
    name : str
        The field's (NumPy's) word for it; unique.
    arity : int
        Number of differentiable operands; -1 for any number.
    node : str
        Stem of the node's printed name: ``Mul`` prints ``MulBackward0``.
    value : callable
        ``value(*arrays, **attrs) -> array`` on plain NumPy data.
    doc : str
        One line for the list of supported functions.
    scalar : callable, optional
        The value on Python floats; falls back to `value` where it raises.
    expr : callable, optional
        The value in the closed language (element-wise rows).
    partials : tuple of callable, optional
        ``partial(*operands, z)`` for each operand (element-wise rows).
    vjp : callable, optional
        ``vjp(g, *operands, z, **attrs) -> tuple`` (structural rows).
    jvp : callable, optional
        ``jvp(tangents, *operands, z, **attrs) -> tangent of z`` (structural rows);
        `tangents` has one entry per differentiable operand, None where it is zero,
        and at least one that is not None.
    numpy : tuple
        The NumPy functions that record this row when called on a tensor.
    shape : callable
        ``shape(*operands, **attrs) -> shape, dtype character`` of the result, from descriptions of the operands
        (`rules.shapes`); element-wise rows have one in common.
    effect : str
        What the elements of the result are, as replays, kernels and patterns of sparsity need to know: ``"elementwise"``,
        each is computed from those in its place (operands are broadcast); ``"view"``, a window on the memory of the operand;
        ``"move"``, elements of the operands, or sums of them, in other places; ``"write"``, the first operand with some
        elements changed; ``"reduce"``, each is computed from those along the axes of the attribute ``axis``, where there is
        one; ``"scan"``, each from those before it along an axis; ``"product"``, each from a row of the first operand and a
        column of the second; ``"dense"``, of matrices: each depends on all.
    adds : bool
        Whether a row that moves or writes adds up elements that meet in one place, to what is there before.
    constants : tuple of int
        Positions of operands that never carry a derivative: conditions of an element-wise row,
        flat positions of one that moves, writes or reduces.
    dynamic : str, optional
        Name of the integer attribute that each instruction keeps for itself.
    calls_scipy : bool
        Whether its derivative calls a loop of a SciPy ufunc (imported when needed).
    refused : dict
        Position of a constant operand -> why it has no derivative; a tracked tensor
        there raises instead of losing its derivative.
    linear : bool
        Whether a structural row is linear in its differentiable operands; then its JVP, applied to
        them, is its value.
    forward : callable, optional
        ``forward(*operands, **attrs)``: the value of a structural row that is not linear, in the
        rules' language.  A row without it is computed by calling `value`, also in a replay.
    primitive : tapegrad.autograd.custom.Primitive, optional
        The user's function that this row stands for, whose rules run in Python; such
        a row is not in the table.
    raises : bool or "finite"
        Whether `value` raises ``LinAlgError`` at some values; its loop inside NumPy gives NaN there.  "finite": at finite ones, while NaN
        and infinities pass through.
    silent : str
        What it means, in words, if no derivative comes back to an operand, where the row can say more than that it is 0.
    example : str
        Operands, value and derivatives, as the docstrings of its functions show them: ``"0.5 -> 0.4794..., 0.8775..."``.
    opcode : int
        Position in the table, counted from `FIRST_ROW`.
    elementwise : bool
        Whether the row is element-wise: it has partial derivatives.
    scalar_instruction : bool
        Whether it has one: element-wise rows of one or two operands, and `where`, whose condition is the inline constant.
    on_floats : callable, optional
        `scalar`, where a number is recorded with that value and nothing else is to be looked at.
    """

    name: str
    arity: int
    node: str
    value: Callable
    doc: str
    scalar: Callable | None = None
    expr: Callable | None = None
    partials: tuple = ()
    vjp: Callable | None = None
    numpy: tuple = ()
    constants: tuple = ()
    dynamic: str | None = None
    calls_scipy: bool = False
    refused: dict = field(default_factory=dict)
    jvp: Callable | None = None
    linear: bool = False
    forward: Callable | None = None
    primitive: object = None
    raises: bool | str = False
    shape: Callable | None = None
    effect: str = "dense"
    adds: bool = False
    silent: str = ""
    example: str = ""
    opcode: int = field(default=0, init=False)
    elementwise: bool = field(init=False)
    scalar_instruction: bool = field(init=False)
    on_floats: Callable | None = field(init=False)

    def __post_init__(self):
        self.elementwise = bool(self.partials)
        self.scalar_instruction = self.elementwise and (self.arity <= 2 or self.name == "where")
        self.on_floats = self.scalar if self.scalar_instruction and not (self.constants or self.calls_scipy) else None

    @property
    def steps(self):
        """Whether it is constant between jumps: every partial derivative is the constant 0."""
        return self.elementwise and all(p is None or p is zero for p in self.partials)

    @property
    def index(self):
        """The position of the operand that holds flat positions, or None."""
        return self.constants[0] if self.constants and self.effect not in ("elementwise", "dense") else None

    def keywords(self, attrs, integer):
        """All attributes as a dict, with the one that each instruction keeps for itself."""
        attrs = dict(attrs)
        if self.dynamic:
            attrs[self.dynamic] = integer
        return attrs

    @property
    def node_name(self):
        """The name of its node in the backward graph, as PyTorch prints it."""
        return f"{self.node}Backward0"

    def slots(self, count):
        """Positions of the operands, out of `count`, that can carry a derivative."""
        return _slots(self.constants, count)

    def refuse(self, k):
        """Raise the error for an operand that carries a derivative, at a position where the row has none."""
        if self.name in L.COMPILED:
            raise HigherOrderError(f"{self.name}, the {self.doc.partition(',')[0]}, cannot be differentiated again in that")
        raise UnsupportedFunctionError(
            f"{self.name} has no derivative in its argument {k + 1}: {self.refused[k]}. Give it a plain number or array, or "
            "leave the tape on purpose with .detach()"
        )

    def computed(self, operands, result, attrs):
        """The value of the result by the rules of the row; None if they do not say it (only `value` does).

        Works on whatever it is given, as `contributions` does; of the `result` only shape and dtype are read.
        """
        if self.elementwise:
            return self.expr(*operands)
        if self.linear:
            return self.jvp([operands[k] for k in self.slots(len(operands))], *operands, result, **attrs)
        return None if self.forward is None else self.forward(*operands, **attrs)

    def contributions(self, g, operands, result, wanted, attrs):
        """The contributions of the adjoint `g` of the result to the adjoints of the operands.

        Works on whatever it is given: symbolic arrays of a planner, or tensors.

        Parameters
        ----------
        g : array-like
            Adjoint of the result.
        operands : sequence
            All operands.
        result : array-like
            The result.
        wanted : sequence of int
            Positions of the operands whose contribution is needed.
        attrs : dict

        Returns
        -------
        list
            One entry per differentiable operand; None where not wanted or zero.
            An entry may still have the broadcast shape of the result, and may be
            a tuple of parts to be added.
        """
        slots = self.slots(len(operands))
        if not self.elementwise:
            parts = self.vjp(g, *operands, result, **attrs)
            return [(c() if callable(c) else c) if s in wanted else None for s, c in zip(slots, parts)]
        parts = []
        for s in slots:
            partial = self.partials[s](*operands, result) if s in wanted else 0.0
            zero = isinstance(partial, (int, float)) and partial == 0.0
            parts.append(None if zero else times(g, partial))
        return parts

    def tangent(self, tangents, operands, result, attrs):
        """The tangent of the result, from the tangents of the operands.

        Works on whatever it is given, as `contributions` does.

        Parameters
        ----------
        tangents : sequence
            One per differentiable operand, of its shape; None where it is zero.
        operands : sequence
            All operands.
        result : array-like
            The result.
        attrs : dict

        Returns
        -------
        array-like or None
            The tangent, which may still have to be broadcast to the shape of the
            result and cast to its dtype, and may share memory with a tangent given;
            None if it is zero.
        """
        if all(t is None for t in tangents):
            return None
        if not self.elementwise:
            return self.jvp(tangents, *operands, result, **attrs)
        total = None
        for s, t in zip(self.slots(len(operands)), tangents):
            partial = 0.0 if t is None else self.partials[s](*operands, result)
            if not isinstance(partial, (int, float)) or partial != 0.0:
                part = times(t, partial)
                total = part if total is None else total + part
        return total

    def __str__(self):
        kind = "element-wise" if self.elementwise else "structural"
        return f"{self.name}/{self.arity} [{kind}, opcode {self.opcode}, {self.node_name}]: {self.doc}"


def register(row):
    """Append `row` to the table and return it."""
    if row.name in BY_NAME:
        raise InternalError(f"two rows are named {row.name!r}")
    row.opcode = FIRST_ROW + len(ROWS)
    if row.opcode >= ROW_END:
        raise InternalError(f"there is no opcode left for the row {row.name!r}: a table has at most {ROW_END - FIRST_ROW}")
    ROWS.append(row)
    BY_NAME[row.name] = row
    for function in row.numpy:
        if function in BY_FUNCTION:
            raise InternalError(f"{function} is served by {BY_FUNCTION[function].name} and {row.name}")
        BY_FUNCTION[function] = row
    return row


def elementwise(name, value, expr, partials, *, node, doc, **attributes):
    """Register an element-wise row, with further attributes of `Row`; its arity is the number of partials."""
    constants = tuple(k for k, partial in enumerate(partials) if partial is None)
    row = Row(
        name, len(partials), node, value, doc, expr=expr, partials=tuple(partials), constants=constants, effect="elementwise", **attributes
    )
    row.shape = lambda *operands: of_elements(row, operands)
    return register(row)


def structural(name, arity, value, vjp, *, node, doc, shape, jvp=None, **attributes):
    """Register a structural row, with further attributes of `Row`; a row of one operand has ``jvp(t, *operands, z, **attrs)``, `t` being its tangent."""
    of_all = (lambda tangents, *rest, **attrs: jvp(tangents[0], *rest, **attrs)) if jvp and arity == 1 else jvp
    return register(Row(name, arity, node, value, doc, vjp=vjp, jvp=of_all, shape=shape, **attributes))


def lasts(row, attrs):
    """Whether a cache may keep a row with these attributes: there is nothing in them but values, and no object of a user's function."""
    return row.primitive is None and all(_is_value(value) for _, value in attrs)


def _is_value(x):
    return all(map(_is_value, x)) if type(x) is tuple else x is None or isinstance(x, (int, float, str, bytes, np.dtype, np.generic))


def cached(most):
    """A decorator: the results of ``function(row, attrs, *others)``, of the last so many calls, are kept where that `lasts`."""

    def of(function):
        kept = lru_cache(most)(function)

        @wraps(function)
        def found(row, attrs, *others):
            return (kept if lasts(row, attrs) else function)(row, attrs, *others)

        return found

    return of


@cached(4096)
def described(row, attrs, operands, integer=0):
    """Shape and dtype character of what a row gives for operands of these descriptions (a tuple)."""
    return row.shape(*operands, **row.keywords(attrs, integer))


def by_opcode(opcode):
    """The row with this opcode."""
    if not 0 <= opcode - FIRST_ROW < len(ROWS):
        raise InternalError(f"no row has the opcode {opcode}")
    return ROWS[opcode - FIRST_ROW]


def scalar_rows(special):
    """The rows that have a scalar instruction (`Row.scalar_instruction`), with or without those that call SciPy."""
    return [row for row in ROWS if row.scalar_instruction and (special or not row.calls_scipy)]


def _operands(row):
    """The operands of a scalar row: 'x' and 'y', and before those of `where` its constant 'c'."""
    return "cxy" if row.name == "where" else "xy"[: row.arity]


def partials(row):
    """Partials of a scalar row over operands 'x', 'y', 'z' and constant 'c'."""
    names = _operands(row)
    operands = [*map(L.arg, names), L.arg("z")]
    return [(names[k], row.partials[k](*operands)) for k in row.slots(len(names))]


def value(row):
    """The value of a scalar row over operands 'x', 'y' and constant 'c'."""
    return L.Expr.lift(row.expr(*map(L.arg, _operands(row))))
