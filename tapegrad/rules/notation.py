"""Expressions of the rules' language (`rules.lang`) as text: what a reader of a kernel sees, and what Python or Numba compiles."""

from __future__ import annotations

from .lang import nodes

#: Sign and binding strength; a name or a call binds with 9.
_INFIX = {"add": (" + ", 4), "sub": (" - ", 4), "mul": (" * ", 5), "div": (" / ", 5), "lt": (" < ", 3), "le": (" <= ", 3),
          "gt": (" > ", 3), "ge": (" >= ", 3), "eq": (" == ", 3), "ne": (" != ", 3), "and": (" and ", 2), "or": (" or ", 1)}  # fmt: skip
_PREFIX = {"neg": ("-", 6), "not": ("not ", 2.5)}


def written(expr, leaf, spelled={}.get, bind=None):
    """An expression in Python's notation.

    Parameters
    ----------
    expr : Expr
    leaf : callable
        ``leaf(operand)``: the text of an operand.
    spelled : callable, optional
        ``spelled(op)``: the format string of a function; None for ``op(...)``.
    bind : callable, optional
        ``bind(text)``: the name of a value that is computed by itself, from which the text goes on.

    Returns
    -------
    str
        Constants that are not finite are ``inf`` and ``nan``.
    """
    done = {}
    for node in nodes(expr):
        if node.op == "const":
            text = repr(float(node.args[0])), 6 if node.args[0] < 0.0 else 9
        elif node.op == "arg":
            text = leaf(node.args[0]), 9
        else:
            text = _operation(node.op, [done[id(a)] for a in node.args], spelled)
            if bind is not None:
                text = bind(text[0]), 9
        done[id(node)] = text
    return done[id(expr)][0]


def _operation(op, args, spelled):
    """Text and binding strength of an operation."""
    if op in _INFIX:
        sign, strength = _INFIX[op]
        # A comparison of comparisons is not a chain.
        first = strength + 0.5 * (strength == 3)
        return _bound(args[0], first) + sign + _bound(args[1], strength + 1), strength
    if op in _PREFIX:
        sign, strength = _PREFIX[op]
        return sign + _bound(args[0], strength), strength
    texts, form = [text for text, _ in args], spelled(op)
    return (f"{op}({', '.join(texts)})" if form is None else form.format(*texts)), 9


def _bound(arg, strength):
    text, own = arg
    return text if own >= strength else f"({text})"
