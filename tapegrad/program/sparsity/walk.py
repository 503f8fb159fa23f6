"""The compiled walks of patterns and colourings."""

from ...codegen import memory
from ...codegen.compile import compiled

int_at, set_int_at = memory.int_at, memory.set_int_at


@compiled("int64(int64, int64, int64, int64, int64, int64, int64, int64)")
def spread_lists(columns, count, starts, sources, first, pool, room, mark):
    """The columns that each of `count` elements depends on, as lists one after the other in `pool`.

    The first elements are the columns themselves; list `e` begins at ``first[e]``; `mark` has a word for each
    column, -1.  Returns how long all lists are, or -1 if that is more than `room`.
    """
    for e in range(columns):
        set_int_at(first, e, e)
        set_int_at(pool, e, e)
    used = columns
    set_int_at(first, columns, columns)
    for e in range(columns, count):
        for k in range(int_at(starts, e), int_at(starts, e + 1)):
            s = int_at(sources, k)
            for q in range(int_at(first, s), int_at(first, s + 1)):
                c = int_at(pool, q)
                if int_at(mark, c) != e:
                    if used == room:
                        return -1
                    set_int_at(mark, c, e)
                    set_int_at(pool, used, c)
                    used += 1
        set_int_at(first, e + 1, used)
    return used


@compiled("void(int64, int64, int64, int64, int64)")
def spread_bits(count, words, starts, sources, bits):
    """The bits of each of `count` elements, `words` words each: its own, and those of its sources."""
    for e in range(count):
        mine = bits + 8 * words * e
        for k in range(int_at(starts, e), int_at(starts, e + 1)):
            theirs = bits + 8 * words * int_at(sources, k)
            for w in range(words):
                set_int_at(mine, w, int_at(mine, w) | int_at(theirs, w))


@compiled("void(int64, int64, int64, int64, int64, int64, int64, int64)")
def colour_columns(count, order, by_column, rows, by_row, columns, colour, taken):
    """Greedy colours such that columns of one colour share no row (Curtis, Powell and Reid).

    `colour` is -1 everywhere; `taken` has room for `count` words, -1.
    """
    for k in range(count):
        j = int_at(order, k)
        for p in range(int_at(by_column, j), int_at(by_column, j + 1)):
            r = int_at(rows, p)
            for q in range(int_at(by_row, r), int_at(by_row, r + 1)):
                c = int_at(colour, int_at(columns, q))
                if c >= 0:
                    set_int_at(taken, c, j)
        c = 0
        while int_at(taken, c) == j:
            c += 1
        set_int_at(colour, j, c)


@compiled("void(int64, int64, int64, int64, int64, int64)")
def colour_star(count, order, starts, neighbours, colour, taken):
    """Greedy star colours of a graph: neighbours differ, and no path of four vertices has two colours only.

    A vertex that is its own neighbour asks for nothing more.
    (Gebremedhin, Manne and Pothen, "What color is your Jacobian?", SIAM Review 47 (2005), algorithm 4.1.)
    """
    for k in range(count):
        v = int_at(order, k)
        for p in range(int_at(starts, v), int_at(starts, v + 1)):
            w = int_at(neighbours, p)
            cw = int_at(colour, w)
            if cw >= 0:
                set_int_at(taken, cw, v)
            for q in range(int_at(starts, w), int_at(starts, w + 1)):
                x = int_at(neighbours, q)
                if x == v:
                    continue
                cx = int_at(colour, x)
                if cx < 0:
                    continue
                if cw < 0 or cx < cw:
                    set_int_at(taken, cx, v)
        c = 0
        while int_at(taken, c) == v:
            c += 1
        set_int_at(colour, v, c)
