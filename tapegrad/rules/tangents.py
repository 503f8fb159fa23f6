"""What the JVPs of structural rows are written with, beside the rules' language.

The JVP of a linear row is the operation itself, applied to the tangent.
"""

from __future__ import annotations

import math


def of_one(rule):
    """The JVP of a row of one differentiable operand.

    Parameters
    ----------
    rule : callable
        ``rule(t, *operands, z, **attrs)``; `t` is the only entry of `tangents`, which has one for each differentiable operand, and
        never None.

    Returns
    -------
    callable
        As `Row.jvp`.
    """

    def jvp(tangents, *rest, **attrs):
        return rule(tangents[0], *rest, **attrs)

    return jvp


def added(*parts):
    """The sum of the parts that are not None (at least one)."""
    first, *rest = [p for p in parts if p is not None]
    for part in rest:
        first = first + part
    return first


def tangent_of_parts(z, parts, extents, axis):
    """The tangent of `z`, a result that joins arrays along `axis`.

    Parameters
    ----------
    z : array-like
        The result; only its shape and dtype are read.
    parts : sequence
        The tangents of what is joined; None where it is zero.
    extents : sequence of int
        How long each part is along `axis`.
    axis : int
    """
    return side_by_side(z, z.shape, parts, extents, axis)


def side_by_side(like, shape, parts, extents, axis):
    """An array of this shape, in the dtype of `like`, of parts along an axis, each so long there (None: zeros); zeros behind them."""
    windows, start, step = [], 0, math.prod(shape[axis + 1 :])
    for part, extent in zip(parts, extents):
        if part is not None:
            windows.append((part, (*shape[:axis], extent, *shape[axis + 1 :]), None, start * step))
        start += extent
    return like.assemble(shape, windows)
