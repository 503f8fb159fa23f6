"""How loops walk several windows of memory at once: strides under broadcasting, dimensions merged, atoms numbered."""

from __future__ import annotations

from ..rules import lang as L

#: An innermost dimension shorter than this costs more in calls of its loop than in the loop.
SHORT = 8
#: Bytes that one operand may cover by a dimension that becomes the innermost: they are walked several times.
NEAR = 1 << 18


def renumber(expr, numbers):
    """`expr` with its atoms replaced by argument numbers."""
    done = {}

    def visit(node):
        renumbered = done.get(id(node))
        if renumbered is None:
            if node.op == "arg":
                renumbered = L.arg(numbers[node.args[0]])
            elif node.op == "const":
                renumbered = node
            else:
                renumbered = L.Expr(node.op, tuple(visit(a) for a in node.args))
            done[id(node)] = renumbered
        return renumbered

    return visit(expr)


def fits(own, shape):
    """Whether an operand can be walked along `shape`: by broadcasting, and without axes of extent 1 that it has in front."""
    return all(n == 1 for n in own[: max(0, len(own) - len(shape))]) and all(n in (1, m) for n, m in zip(own[::-1], shape[::-1]))


def aligned(atom, shape):
    return aligned_shape(atom.shape, atom.strides, shape)


def aligned_shape(own, strides, shape):
    """Strides of an operand broadcast to `shape`."""
    lead = len(shape) - len(own)
    return [
        0 if d < lead or (own[d - lead] == 1 and n != 1) else strides[d - lead] for d, n in enumerate(shape)
    ]


def coalesce(shape, strides):
    """Merge neighbouring dimensions that all operands walk as one."""
    dims = [d for d, n in enumerate(shape) if n != 1]
    extents = []
    merged = [[] for _ in strides]
    for d in dims:
        n = shape[d]
        if extents and all(m[-1] == s[d] * n for m, s in zip(merged, strides)):
            extents[-1] *= n
            for m, s in zip(merged, strides):
                m[-1] = s[d]
        else:
            extents.append(n)
            for m, s in zip(merged, strides):
                m.append(s[d])
    return extents, merged


def longest_inside(dims, strides):
    """The dimensions in an order in which the innermost is long, if it is short: an array of points has few coordinates.

    Parameters
    ----------
    dims : list of int
    strides : list of list of int
        Of each operand, in bytes.

    Returns
    -------
    dims, strides
    """
    if len(dims) < 2 or dims[-1] >= SHORT:
        return dims, strides
    k = max(range(len(dims) - 1), key=dims.__getitem__)
    if dims[k] < 4 * dims[-1] or any(dims[k] * abs(s[k]) > NEAR for s in strides):
        return dims, strides
    order = [*(d for d in range(len(dims)) if d != k), k]
    return [dims[d] for d in order], [[s[d] for d in order] for s in strides]
