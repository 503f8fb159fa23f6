"""Where a text repeats itself at once: its maximal runs.

A *run* of period P is a stretch ``[s, e)`` in which every token equals the one
P places before it, as long as that is so.  Candidates for P are the distances
between neighbouring occurrences of the same short piece (*gram*) of k tokens.
In a run, the pieces that occur once in a period recur exactly P later; pieces
that occur more often are told apart by a larger k.  Each candidate is extended
to both sides by comparing tokens, so a collision of hashes costs time only, and
no stretch is compared twice for one distance.
"""

import numpy as np

from ...codegen.array_functions import HIGH, compiled_on_arrays, mix

_ints = "int64[::1]"

#: Periods that a run has at least.
LEAST = 3

#: Lengths of grams.
GRAMS = (3, 12, 48, 192)


@compiled_on_arrays(f"int64({_ints}, {_ints}, int64, {_ints}, {_ints}, {_ints}, int64[:, ::1], {_ints})")
def recurring(text, weight, k, grams, table, reached, runs, steps):
    """Find the runs of `text` that show in grams of `k` tokens.

    `weight` holds sums of the tokens' weights.  `grams` (as long as the text), `table` (a power of two, more than
    twice that) and `reached` (one longer than the text) are scratch.  Rows as those of `find_runs` go to `runs`;
    returns how many.  ``steps[0]`` is increased by the number of tokens looked at.
    """
    size = text.size
    mask = table.size - 1
    table[:] = -1
    reached[:] = -1
    filled = 0
    work = size
    drop = 1
    for _ in range(k):
        drop *= 0x5851F42D4C957F2D
    gram = 0
    for last in range(size):
        gram = gram * 0x5851F42D4C957F2D + (text[last] + 1)
        if last >= k:
            gram -= drop * (text[last - k] + 1)
        t = last - k + 1
        if t < 0:
            continue
        grams[t] = gram
        slot = (mix(gram, k) >> HIGH) & mask
        while table[slot] >= 0 and grams[table[slot]] != gram:
            slot = (slot + 1) & mask
            work += 1
        before = table[slot]
        table[slot] = t
        if before < 0:
            continue
        period = t - before
        if t < reached[period]:
            continue
        first = before
        while first > 0 and text[first - 1] == text[first - 1 + period]:
            first -= 1
        end = t
        while end < size and text[end] == text[end - period]:
            end += 1
        work += end - t + before - first
        reached[period] = end
        count = (end - first) // period
        if count >= LEAST and filled < runs.shape[0]:
            runs[filled, 0] = first
            runs[filled, 1] = end
            runs[filled, 2] = period
            runs[filled, 3] = count
            runs[filled, 4] = (count - 1) * (weight[first + period] - weight[first])
            filled += 1
    steps[0] += work
    return filled


@compiled_on_arrays(f"int64({_ints}, {_ints}, int64, int64, int64, int64[:, ::1], int8[::1])")
def disjoint(text, weight, base, least, gain, runs, taken):
    """Keep runs that do not overlap, the earlier in the list before the later; the list is shortened in place.

    A run whose ends lie in others is cut back to what is free; one that has another in its middle is left
    for the time when that one is folded.  A loop repeated by itself is no new loop.
    """
    kept = 0
    for i in range(runs.shape[0]):
        first, end, period = runs[i, 0], runs[i, 1], runs[i, 2]
        if period == 1 and text[first] >= base:
            continue
        while first < end and taken[first]:
            first += 1
        while end > first and taken[end - 1]:
            end -= 1
        count = (end - first) // period
        if count < least or (count - 1) * (weight[first + period] - weight[first]) < gain:
            continue
        free = True
        for t in range(first, end):
            if taken[t]:
                free = False
                break
        if not free:
            continue
        taken[first:end] = 1
        runs[kept, 0] = first
        runs[kept, 1] = end
        runs[kept, 2] = period
        runs[kept, 3] = runs[i, 3]
        runs[kept, 4] = runs[i, 4]
        kept += 1
    return kept


def find_runs(text, weight, steps):
    """All runs, the shortest periods first.

    Parameters
    ----------
    text : ndarray of int64
    weight : ndarray of int64
        Sums of the weights of tokens, from 0.
    steps : ndarray of int64, shape (1,)
        Increased by the work done.

    Returns
    -------
    ndarray of int64, shape (runs, 5)
        Rows ``first, end, period``, how many periods there are, and the weight of all but one.
    """
    size = text.size
    grams = np.empty(size, np.int64)
    table = np.empty(1 << max(4, (2 * size).bit_length()), np.int64)
    reached = np.empty(size + 1, np.int64)
    parts = [np.empty((0, 5), np.int64)]
    for k in GRAMS:
        if k < size:
            rows = np.empty((size // LEAST + 1, 5), np.int64)
            parts.append(rows[: recurring(text, weight, k, grams, table, reached, rows, steps)])
    runs = np.concatenate(parts)
    if not len(runs):
        return runs
    runs = runs[np.lexsort((runs[:, 0], runs[:, 2]))]
    return runs[np.concatenate(([True], np.any(runs[1:] != runs[:-1], axis=1)))]
