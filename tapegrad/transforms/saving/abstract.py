"""The rows of a tape recorded without values: what each gives, from the descriptions of its operands.

The row says shape and dtype of its result, and refuses operands that do not fit (`Row.shape`).  Its rules are planned besides
(`interpreter.plan`), as they are for a replay and for the sweep, and the steps are dropped: the planner refuses
whatever would lie outside of its array (`interpreter.symbolic`), and sees how much memory they take.
"""

import math

import numpy as np

from ...interpreter.plan import Steps
from ...interpreter.symbolic import ITEMSIZE, Atom
from ...rules.shapes import of_scipy
from ...tape.meta import SCALAR, Meta
from .archive import need

#: A float64 without axes that promotes as one of NumPy.
_STRONG = Meta((), (), "d", 8)


class AbstractPlanner(Steps):
    """A planner whose programs are not run, and take at most `limit` bytes in between."""

    def __init__(self, metas, out, limit):
        super().__init__(metas, out)
        self.limit = limit

    def temporary(self, shape, char, zero=False):
        atom = super().temporary(shape, char, zero)
        self.limit -= math.prod(shape) * ITEMSIZE[char]
        need(self.limit >= 0, f"it takes an array of shape {tuple(shape)} in between, more than the limit; raise max_bytes")
        return atom

    def register(self):
        # There are as many as it takes.
        self.temporaries += 1
        return self.temporaries - 1

    def call(self, *_):
        """A step that is dropped; what it is told may be compiled first."""

    def values(self):
        """All operands, of which the program of a value reads each."""
        return [self.sym(Atom(self.register(), 0, m.shape, m.strides, m.char)) for m in self.metas]


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
    attrs = row.keywords(attrs, integer)
    # A number that is an operand may have been one of NumPy's, which is not weak.
    strong = [_STRONG if m is SCALAR else m for m in metas]
    ways = {row.shape(*metas, **attrs), row.shape(*strong, **attrs)}
    if of_scipy(row) and any(m is not SCALAR and np.can_cast(m.char, "f") for m in metas):
        # Some have loops for float32 that not every such operand takes.
        ways |= {(shape, char) for shape, _ in ways for char in "df"}
    need((out.shape, out.char) in ways, f"it gives {' or '.join(f'{char}{list(shape)}' for shape, char in ways)}, not {out}")
    if row.elementwise:
        return
    plan = AbstractPlanner(metas, out, limit)
    row.computed(plan.values(), plan.operand(-1), attrs)
    if differentiable and out.char in "df":
        plan, wanted = AbstractPlanner(metas, out, limit), [k for k in row.slots(len(metas)) if metas[k].char in "df"]
        operands = [plan.operand(k) for k in range(len(metas))]
        parts = row.contributions(plan.seed(), operands, plan.operand(-1), wanted, attrs)
        plan.deliver(parts, [metas[k] for k in row.slots(len(metas))])
