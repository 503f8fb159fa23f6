"""Colourings of a pattern: which columns, rows, or vertices can share one direction.

`columns`     columns of one colour share no row: one product of the Jacobian with the sum of
              their unit vectors gives the entries of all of them.
`symmetric`   of a symmetric pattern: of the entries (i, j) and (j, i) one is enough, so columns may
              meet where the other one of the two stands alone.

Greedy, once in the order given and once by falling degree, and the better one is kept:
a minimal colouring is NP-hard.

A. R. Curtis, M. J. D. Powell and J. K. Reid, "On the estimation of sparse Jacobian matrices", 1974.
T. F. Coleman and J. J. Moré, "Estimation of sparse Jacobian matrices and graph coloring problems", 1983,
and "Estimation of sparse Hessian matrices and graph coloring problems", 1984.
A. H. Gebremedhin, F. Manne and A. Pothen, "What color is your Jacobian?", SIAM Review 47 (2005) 629-705.
"""

import numpy as np

from .walk import colour_columns, colour_star


def _words(array):
    return np.ascontiguousarray(array, np.int64)


def _best(walk, degrees, arrays):
    """The colouring with fewer colours, of the given order and that of falling degree."""
    count, best = len(degrees), None
    arrays = [_words(a) for a in arrays]
    for order in (np.arange(count), np.argsort(-degrees, kind="stable")):
        colour, taken = np.full(count, -1, np.int64), np.full(count + 1, -1, np.int64)
        order = _words(order)
        walk(count, order.ctypes.data, *(a.ctypes.data for a in arrays), colour.ctypes.data, taken.ctypes.data)
        if best is None or colour.max(initial=-1) < best.max(initial=-1):
            best = colour
    return best


def columns(structure):
    """Colours of the columns of a CSR array, such that columns of one colour share no row."""
    by_column = structure.tocsc()
    return _best(
        colour_columns, np.diff(by_column.indptr), (by_column.indptr, by_column.indices, structure.indptr, structure.indices)
    )


def symmetric(structure):
    """Star colours of the vertices of the graph of a symmetric CSR array (the diagonal counts for nothing)."""
    return _best(colour_star, np.diff(structure.indptr), (structure.indptr, structure.indices))


def alone(structure, colour):
    """For each entry (i, j) of a CSR array: whether `j` is the only column of its colour in row `i`."""
    rows = np.repeat(np.arange(structure.shape[0]), np.diff(structure.indptr))
    keys = rows * (int(colour.max(initial=0)) + 1) + colour[structure.indices]
    _, which, counts = np.unique(keys, return_inverse=True, return_counts=True)
    return counts[which] == 1
