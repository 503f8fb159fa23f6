"""Statements of Numba's IR: what they read, and copies of them.  The only place that looks inside of an expression.
And the walk over what follows from what (`reached`), of blocks and of names.

`Refused` stops the transformation at a statement that it does not follow.
"""

from ...codegen.numba_inside import contents, ir, renamed


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
