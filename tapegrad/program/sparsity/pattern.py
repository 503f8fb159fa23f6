"""The pattern of a Jacobian: the columns that each element of a tape depends on.

Two walks up the elements (`elements`) find them.  With *lists*, each element has the list of its
columns, the union of the lists of those it depends on: the time it takes grows with
the dependencies, which are few where the result is worth being called sparse.  If they are not few, *bit
sets* do it: 64 columns are one word of each element, and a tape of E edges with n columns
takes E * n / 64 steps, however dense it is.
"""

import numpy as np
from scipy.sparse import csr_array

from .elements import Elements, TooLarge
from .walk import spread_bits, spread_lists

#: Columns that an element has in its list, on average, at most.
LENGTH = 32
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
        As of `Elements`, and of entries.

    Raises
    ------
    TooLarge
    """
    graph = Elements(tape, most)
    starts, sources = graph.edges()
    entries = by_lists(graph, starts, sources)
    if entries is None:
        if most is not None and graph.count * graph.columns > 64 * most:
            raise TooLarge
        entries = by_bits(graph, starts, sources, most)
    rows, columns = entries
    made = csr_array((np.ones(len(rows), bool), (rows, columns)), shape=(len(graph.results), graph.columns))
    made.sort_indices()
    return made


def by_lists(graph, starts, sources):
    """Rows and columns of the pattern; None if lists would be too long."""
    columns, count = graph.columns, graph.count
    pool = np.empty(columns + LENGTH * (count - columns), np.int64)
    first, mark = np.empty(count + 1, np.int64), np.full(columns, -1, np.int64)
    if spread_lists(columns, starts, sources, first, pool, mark) < 0:
        return None
    rows = np.flatnonzero(graph.results >= 0)
    elements = graph.results[rows]
    lengths = first[elements + 1] - first[elements]
    ends = np.cumsum(lengths)
    # Position k of all lists together is at this position of the pool.
    at = np.arange(ends[-1] if len(ends) else 0) + np.repeat(first[elements] - (ends - lengths), lengths)
    return np.repeat(rows, lengths), pool[at]


def by_bits(graph, starts, sources, most=None):
    """Rows and columns of the pattern, by bit sets; more than `most` are `TooLarge`."""
    columns = graph.columns
    words = max(1, min(WORDS, -(-columns // 64), MEMORY // (8 * graph.count + 8)))
    bits, live = np.zeros((graph.count, words), np.int64), np.flatnonzero(graph.results >= 0)
    entries, total = [np.zeros((2, 0), np.int64)], 0
    for low in range(0, columns, 64 * words):
        bits[:] = 0
        # The first elements are those of the arguments, one for each column.
        at = np.arange(min(64 * words, columns - low))
        bits[low + at, at // 64] = np.left_shift(np.int64(1), at % 64)
        spread_bits(starts, sources, bits)
        of_results = bits[graph.results[live]]
        row, word = np.nonzero(of_results)
        which, bit = np.nonzero(np.unpackbits(of_results[row, word].astype("<i8").view(np.uint8).reshape(-1, 8), axis=1, bitorder="little"))
        entries.append(np.stack([live[row[which]], low + 64 * word[which] + bit]))
        total += len(which)
        if most is not None and total > most:
            raise TooLarge
    return np.concatenate(entries, axis=1)
