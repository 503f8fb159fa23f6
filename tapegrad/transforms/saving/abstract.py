"""The rows of a tape recorded without values: what each gives, from the descriptions of its operands.

The row's own rule is planned (`interpreter.plan`), as it is for a replay and for the sweep, and the steps are
dropped: the planner refuses operands that do not fit, and whatever would lie outside of its array (`interpreter.symbolic`).
A row that has no such form is run by NumPy, whose result a replay compares with what the file says.
"""

from __future__ import annotations

import math

import numpy as np

from ...interpreter.plan import Planner
from ...interpreter.symbolic import ITEMSIZE, Atom
from ...rules import BY_NAME
from ...tape.meta import SCALAR
from .archive import need

#: Rows whose result has the dtype of the first operand: most look at its memory, or are written to it.
_SAME = frozenset(
    "getitem select broadcast_to diagonal as_strided reshape squeeze expand_dims transpose t flip gather roll repeat "
    "tile setitem put diag place scatter add_window add_at max min".split()
)
_RESHAPED = ("reshape", "squeeze", "expand_dims")
#: Rows of which the position of an operand that holds flat positions is known.
INDEX = {"gather": 1, "roll": 1, "repeat": 1, "tile": 1, "scatter": 1, "cross_entropy": 1, "put": 2, "add_at": 2}


class Dry(Planner):
    """A planner whose programs are not run, and take at most `limit` bytes in between."""

    def __init__(self, metas, out, limit):
        super().__init__(metas, out)
        self.limit = limit

    def temporary(self, shape, char, zero=False):
        atom = super().temporary(shape, char, zero)
        self.limit -= math.prod(shape) * ITEMSIZE[char]
        need(self.limit >= 0, f"it takes an array of shape {tuple(shape)} in between, more than the limit; raise max_bytes")
        return atom

    def _register(self):
        # There are as many as it takes.
        self.temporaries += 1
        return self.temporaries - 1

    def values(self):
        """All operands, of which the program of a value reads each."""
        return [self._sym(Atom(self._register(), 0, m.shape, m.strides, m.char)) for m in self.metas]


def planned(row, metas, attrs, integer, out, limit, differentiable):
    """Plan the value and the derivative of a row that gives `out`.

    Parameters
    ----------
    row : Row
    metas : list of Meta
        Of the operands.
    attrs : dict
    integer : int
        The dynamic attribute.
    out : Meta
        What the file says of the result.
    limit : int
        Bytes that either may take in between.
    differentiable : bool

    Raises
    ------
    Exception
        Of any class, if the row cannot take such operands, or gives something else.
    """
    count = row.arity + len([k for k in row.constants if k >= row.arity]) if row.arity >= 0 else None
    need(len(metas) == count if count is not None else len(metas) > 0, f"it has {len(metas)} operands")
    need(row.dynamic or not integer, "an integer attribute")
    if row.dynamic:
        attrs = attrs | {row.dynamic: integer}
    at = INDEX.get(row.name)
    if at is not None:
        need(metas[at].char == "l" and len(metas[at].shape) == 1, "positions that are no vector of int64")
    shape = _shape(row, metas, attrs, Dry(metas, out, limit))
    need(shape is None or shape == out.shape, f"its shape is {shape}, not {out.shape}")
    chars = _chars(row, metas, attrs)
    need(out.char in chars, f"its dtype is one of {sorted(chars)}, not {out.char}")
    if differentiable and out.char in "df" and not row.elementwise:
        plan, wanted = Dry(metas, out, limit), [k for k in row.slots(len(metas)) if metas[k].char in "df"]
        operands = [plan.operand(k) for k in range(len(metas))]
        parts = row.contributions(plan.seed(), operands, plan.operand(-1), wanted, attrs)
        plan.deliver(parts, [metas[k] for k in row.slots(len(metas))])


def _shape(row, metas, attrs, plan):
    """The shape of the result; None if only NumPy can say."""
    operands = plan.values()
    if row.elementwise:
        need(not attrs, f"it has no attributes {sorted(attrs)}")
        return np.broadcast_shapes(*(m.shape for m in metas))
    if row.name in _RESHAPED:
        return operands[0].reshape(attrs["shape"]).shape
    if row.linear:
        return row.jvp([operands[k] for k in row.slots(len(metas))], *operands, plan.operand(-1), **attrs).shape
    return None if row.forward is None else row.forward(*operands, **attrs).shape


def _chars(row, metas, attrs):
    """The dtypes that the result may have: a float that is an operand is weak, or was a NumPy scalar."""
    first = metas[0].char
    if row.elementwise:
        return _elementwise_chars(row, metas)
    if row.name == "astype":
        return {attrs["dtype"]} & {"d", "f"}
    if row.name in _SAME:
        return {first}
    if row.name in ("sum", "prod", "cumsum", "cumprod", "mean", "var", "std"):
        return {np.asarray(BY_NAME[row.name].value(np.ones((1, 1), first), axis=0)).dtype.char}
    numbers = [m for k, m in enumerate(metas) if k != INDEX.get(row.name)]
    strong = np.result_type(*(m.char for m in numbers))
    weak = np.result_type(*(1.0 if m is SCALAR else m.char for m in numbers))
    chars = {strong.char, weak.char}
    return chars if row.name in ("concatenate", "stack") else {c for c in chars if c in "df"} or {"d"}


def _elementwise_chars(row, metas):
    if row.calls_scipy or row.name == "erf":
        # To ask SciPy would import it; these have loops for float32 and float64, and some are made of several.
        return {"d", "f"} if any(m is not SCALAR and np.can_cast(m.char, "f") for m in metas) else {"d"}
    tiny = [1.0 if m is SCALAR else np.ones(1, m.char) for m in metas]
    strong = [np.ones(1, m.char) for m in metas]
    chars = set()
    with np.errstate(all="ignore"):
        for values in (tiny, strong):
            try:
                chars.add(np.asarray(row.value(*values)).dtype.char)
            except TypeError:
                continue
    return chars
