"""autograd's ``scipy.signal.convolve``: over some axes of two arrays, summed over some others, of all combinations of the rest."""

from __future__ import annotations

import numpy as np

from .. import numpy as tnp


def convolve(A, B, axes=None, dot_axes=((), ()), mode="full"):
    """Convolve two arrays.

    Parameters
    ----------
    A, B : array_like
    axes : pair of sequence of int, optional
        The axes of `A` and of `B` along which they are convolved, in pairs; all by default.
    dot_axes : pair of sequence of int
        Axes that are multiplied and summed over.
    mode : {"full", "valid"}

    Returns
    -------
    ndarray
        The axes of `A` that are in neither, those of `B`, then the convolved ones.
    """
    if mode not in ("full", "valid"):
        raise ValueError(f"mode={mode!r}: choose 'full' or 'valid'")
    a_axes, b_axes = (list(range(np.ndim(A))), list(range(np.ndim(B)))) if axes is None else map(list, axes)
    a_dot, b_dot = map(list, dot_axes)
    sizes = [(np.shape(A)[i], np.shape(B)[j]) for i, j in zip(a_axes, b_axes, strict=True)]
    if mode == "full":
        pad = [(0, 0)] * np.ndim(A)
        for i, (_, n) in zip(a_axes, sizes):
            pad[i] = (n - 1, n - 1)
        A = tnp.pad(A, pad)
    elif not all(m >= n for m, n in sizes):
        if not all(m <= n for m, n in sizes):
            raise ValueError("mode='valid': one of the arrays must be as long as the other along all axes")
        return _turned(convolve(B, A, (b_axes, a_axes), (b_dot, a_dot), mode), np.ndim(B) - len(b_axes) - len(b_dot), np.ndim(A) - len(a_axes) - len(a_dot))
    B = tnp.flip(B, b_axes)
    total = None
    # The products of `B`'s elements with the windows of `A`: as many as `B` has along the convolved axes.
    shape = [np.shape(A)[i] - n + 1 for i, (_, n) in zip(a_axes, sizes)]
    others = [k for k in range(np.ndim(A)) if k not in a_axes]
    for at in np.ndindex(*(n for _, n in sizes)):
        window, element = [slice(None)] * np.ndim(A), [slice(None)] * np.ndim(B)
        for i, j, start, extent in zip(a_axes, b_axes, at, shape):
            window[i], element[j] = slice(start, start + extent), start
        left = tnp.transpose(A[tuple(window)], [*[k for k in others if k not in a_dot], *a_axes, *a_dot])
        kept = [j for j in range(np.ndim(B)) if j not in b_axes]
        part = tnp.tensordot(left, B[tuple(element)], (range(left.ndim - len(a_dot), left.ndim), [kept.index(j) for j in b_dot]))
        total = part if total is None else total + part
    # The convolved axes stand between those of A and those of B.
    first = len(others) - len(a_dot)
    order = [*range(first), *range(first + len(a_axes), total.ndim), *range(first, first + len(a_axes))]
    return tnp.transpose(total, order)


def _turned(result, first, second):
    """The result of B and A as that of A and B: the axes of the one before those of the other."""
    return tnp.transpose(result, [*range(first, first + second), *range(first), *range(first + second, result.ndim)])
