"""autograd's ``scipy.signal.convolve``: over some axes of two arrays, summed over some others, of all combinations of the rest."""

from __future__ import annotations

import numpy as np

from .. import numpy as tnp

#: By mode: how many zeros stand before and behind the array that is convolved with n elements.
_ZEROS = {"full": lambda n: (n - 1, n - 1), "same": lambda n: (n // 2, (n - 1) // 2), "valid": lambda n: (0, 0)}


def convolve(A, B, axes=None, dot_axes=((), ()), mode="full"):
    """Convolve two arrays.

    Parameters
    ----------
    A, B : array_like
    axes : pair of sequence of int, optional
        The axes of `A` and of `B` along which they are convolved, in pairs; all by default.
    dot_axes : pair of sequence of int
        Axes that are multiplied and summed over.
    mode : {"full", "valid", "same"}

    Returns
    -------
    ndarray
        The axes of `A` that are in neither, those of `B`, then the convolved ones.
    """
    if mode not in _ZEROS:
        raise ValueError(f"mode={mode!r}: choose 'full', 'valid' or 'same'")
    m, n = np.ndim(A), np.ndim(B)
    a_axes, b_axes = axes or (range(m), range(n))
    # Axes by number, as `einsum` takes them: those of the result that are convolved, and those of the windows that are summed over, come last.
    a_labels, b_labels = list(range(m)), list(range(m, m + n))
    rest = [*(k for k in range(m) if k not in (*a_axes, *dot_axes[0])), *(m + k for k in range(n) if k not in (*b_axes, *dot_axes[1]))]
    for i, j in zip(*dot_axes, strict=True):
        b_labels[j] = a_labels[i]
    convolved = list(range(m + n, m + n + len(a_axes)))
    inside = [len(convolved) + k for k in convolved]
    longer, shorter = (A, a_axes, a_labels), (B, b_axes, b_labels)
    pairs = [(np.shape(A)[i], np.shape(B)[j]) for i, j in zip(a_axes, b_axes, strict=True)]
    if mode == "valid" and any(p < q for p, q in pairs):
        if any(p > q for p, q in pairs):
            raise ValueError("mode='valid': one of the arrays must be as long as the other along all axes")
        longer, shorter = shorter, longer
    (A, a_axes, a_labels), (B, b_axes, b_labels) = longer, shorter
    sizes, zeros = [np.shape(B)[j] for j in b_axes], [(0, 0)] * np.ndim(A)
    for k, (i, j) in enumerate(zip(a_axes, b_axes)):
        a_labels[i], b_labels[j], zeros[i] = convolved[k], inside[k], _ZEROS[mode](sizes[k])
    windows = np.lib.stride_tricks.sliding_window_view(tnp.pad(A, zeros), sizes, list(a_axes))
    return tnp.einsum(windows, [*a_labels, *inside], tnp.flip(B, list(b_axes)), b_labels, [*rest, *convolved])
