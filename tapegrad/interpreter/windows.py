"""How loops walk several windows of memory at once: strides under broadcasting, dimensions merged."""

import numpy as np

#: An innermost dimension shorter than this costs more in calls of its loop than in the loop.
SHORT = 8
#: Bytes that one operand may cover by a dimension that becomes the innermost: they are walked several times.
NEAR = 1 << 18


def contiguous(shape, strides, itemsize):
    """Whether elements lie in C order without gaps (the strides of unit axes do not matter)."""
    expected = itemsize
    if 0 in shape:
        return True
    for extent, stride in zip(reversed(shape), reversed(strides)):
        if extent != 1:
            if stride != expected:
                return False
            expected *= extent
    return True


def within(own, strides, shape, steps, offset):
    """The window of an array that is not contiguous, if there is one, from that of one that is.

    Parameters
    ----------
    own, strides : sequence of int
        Of the array.
    shape, steps : sequence of int
        Of the window: `steps` and `offset` are in elements, in C order.
    offset : int

    Returns
    -------
    (int, list of int) or None
        Offset and steps of the window in the units of `strides`; None if it is no window.
    """
    # Each step in C order must be one step along the axes of the array, wherever it begins.
    start = np.unravel_index(offset, own)
    reach = [[int(s), int(s)] for s in start]
    jumps = []
    for n, step in zip(shape, steps):
        if n == 1:
            jumps.append(0)
            continue
        stop = np.unravel_index(offset + step * (n - 1), own)
        change = [int(b - a) for a, b in zip(start, stop)]
        if any(c % (n - 1) for c in change):
            return None
        for r, c in zip(reach, change):
            r[c > 0] += c
        jumps.append(sum(c // (n - 1) * s for c, s in zip(change, strides)))
    if any(low < 0 or high >= n for (low, high), n in zip(reach, own)):
        return None
    return sum(int(i) * s for i, s in zip(start, strides)), jumps


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
