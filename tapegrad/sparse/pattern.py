"""The pattern of a Jacobian, by bit sets that walk up the elements of a tape.

Each element has one bit for each of some columns: whether it may depend on it.  A pass
over the elements takes the union of those each depends on; 64 columns are one word,
and `WORDS` words are carried at once, so that a tape of E edges with n columns costs
E * n / 64 steps, without a memory that grows with the dependencies.
"""

from __future__ import annotations

import numpy as np

from .elements import Elements
from .walk import collect, spread_bits

#: Words that an element has in one pass, at most.
WORDS = 16
#: Bytes that the bits of all elements have in one pass, about, if a word each is not more.
MEMORY = 1 << 28


def pattern(tape, most=None):
    """Which result elements may depend on which argument elements, as a SciPy CSR array of bool.

    Rows count the elements of all outputs, columns those of all arguments that are differentiated.

    Parameters
    ----------
    tape : FinishedTape
    most : int, optional
        As of `Elements`.

    Raises
    ------
    TooLarge
    """
    from scipy.sparse import csr_array

    graph = Elements(tape, most)
    starts, sources = graph.edges()
    rows, columns = len(graph.results), graph.columns
    words = max(1, min(WORDS, -(-columns // 64), MEMORY // (8 * graph.count + 8)))
    bits = np.zeros((graph.count, words), np.int64)
    results = np.ascontiguousarray(graph.results)
    found_rows, found_columns = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for low in range(0, columns, 64 * words):
        bits[:] = 0
        # The first elements are those of the arguments, one for each column.
        at = np.arange(min(64 * words, columns - low))
        bits[low + at, at // 64] = np.left_shift(np.int64(1), at % 64)
        spread_bits(graph.count, words, starts.ctypes.data, sources.ctypes.data, bits.ctypes.data)
        count = collect(rows, words, results.ctypes.data, bits.ctypes.data, 0, 0)
        places = np.empty((2, count), np.int64)
        collect(rows, words, results.ctypes.data, bits.ctypes.data, places[0].ctypes.data, places[1].ctypes.data)
        found_rows.append(places[0])
        found_columns.append(places[1] + low)
    places = np.concatenate(found_rows), np.concatenate(found_columns)
    found = csr_array((np.ones(len(places[0]), bool), places), shape=(rows, columns))
    found.sort_indices()
    return found
