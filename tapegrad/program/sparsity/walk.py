"""The compiled walks of patterns and colourings."""

from ...codegen.array_functions import compiled_on_arrays

_ints = "int64[::1]"


@compiled_on_arrays(f"int64(int64, {', '.join([_ints] * 5)})")
def spread_lists(columns, starts, sources, first, pool, mark):
    """The columns that each element depends on, as lists one after the other in `pool`.

    The first elements are the columns themselves; list `e` begins at ``first[e]``; `mark` has -1 for each
    column.  Returns how long all lists are, or -1 if the pool has no room for them.
    """
    for e in range(columns):
        first[e] = pool[e] = e
    used = first[columns] = columns
    for e in range(columns, starts.size - 1):
        for k in range(starts[e], starts[e + 1]):
            s = sources[k]
            for q in range(first[s], first[s + 1]):
                c = pool[q]
                if mark[c] != e:
                    if used == pool.size:
                        return -1
                    mark[c], pool[used] = e, c
                    used += 1
        first[e + 1] = used
    return used


@compiled_on_arrays(f"void({_ints}, {_ints}, int64[:, ::1])")
def spread_bits(starts, sources, bits):
    """The bits of each element, in a row of words: its own, and those of its sources."""
    for e in range(bits.shape[0]):
        for k in range(starts[e], starts[e + 1]):
            for w in range(bits.shape[1]):
                bits[e, w] |= bits[sources[k], w]


@compiled_on_arrays(f"void({', '.join([_ints] * 7)})")
def colour_columns(order, by_column, rows, by_row, columns, colour, taken):
    """Greedy colours such that columns of one colour share no row (Curtis, Powell and Reid).

    `colour` is -1 everywhere, and so is `taken`, with room for one more.
    """
    for k in range(order.size):
        j = order[k]
        for p in range(by_column[j], by_column[j + 1]):
            for q in range(by_row[rows[p]], by_row[rows[p] + 1]):
                c = colour[columns[q]]
                if c >= 0:
                    taken[c] = j
        c = 0
        while taken[c] == j:
            c += 1
        colour[j] = c


@compiled_on_arrays(f"void({', '.join([_ints] * 5)})")
def colour_star(order, starts, neighbours, colour, taken):
    """Greedy star colours of a graph: neighbours differ, and no path of four vertices has two colours only.

    A vertex that is its own neighbour asks for nothing more.
    (Gebremedhin, Manne and Pothen, "What color is your Jacobian?", SIAM Review 47 (2005), algorithm 4.1.)
    """
    for k in range(order.size):
        v = order[k]
        for p in range(starts[v], starts[v + 1]):
            w = neighbours[p]
            cw = colour[w]
            if cw >= 0:
                taken[cw] = v
            for q in range(starts[w], starts[w + 1]):
                x = neighbours[q]
                cx = colour[x]
                if x != v and cx >= 0 and (cw < 0 or cx < cw):
                    taken[cx] = v
        c = 0
        while taken[c] == v:
            c += 1
        colour[v] = c
