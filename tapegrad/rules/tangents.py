"""What the JVPs of structural rows are written with, beside the rules' language.

The JVP of a linear row is the operation itself, applied to the tangent.
"""

from __future__ import annotations


def of_one(rule):
    """The JVP of a row of one differentiable operand.

    Parameters
    ----------
    rule : callable
        ``rule(t, *operands, z, **attrs)``, with the tangent of that operand.

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


def element_strides(shape):
    """Strides, in elements, of a C-ordered array."""
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))


def joined(z, parts, extents, axis):
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
    strides, windows, start = element_strides(z.shape), [], 0
    for part, extent in zip(parts, extents):
        if part is not None:
            shape = (*z.shape[:axis], extent, *z.shape[axis + 1 :])
            windows.append((part, shape, strides, start * strides[axis]))
        start += extent
    return z.assemble(z.shape, windows)
