"""Folding runs of a text into single tokens.

Runs whose periods are rotations of each other are of one *class*: one loop,
entered at different phases.  A class gets one phase for all of its runs, so that
the same source loop always becomes the same token whatever stands around it.

`classes` tells the classes apart (by the least rotation of the period),
`phases` finds the best phase of each, `plan` cuts the runs accordingly and
`fold` writes the new text.  On the way `fold` also replaces executions of a
loop that are too short to be runs, where they stand between the same neighbours
as a run of that class: the executions of a loop with unequal numbers of
iterations.
"""

from ...codegen.array_functions import HIGH, compiled_on_arrays, mix
from ...codegen.compile import helper

_ints = "int64[::1]"
_rows = "int64[:, ::1]"

#: Runs of a class, and periods of each, that are looked at to find its phase.
SAMPLES = 8


@compiled_on_arrays(f"int64({_ints}, {_ints}, {_rows}, {_ints}, {_rows})")
def classes(text, weight, runs, table, bodies):
    """Classes of runs.

    The last two columns of `runs` are replaced by the class of each run and the position in it of the
    class's canonical first token; `bodies` gets, for each class, the position of one canonical period, its
    length, and the weight of all that would be saved.  `table` is scratch, a power of two and more than
    twice as long as `runs`.  Returns the number of classes.
    """
    table[:] = -1
    mask = table.size - 1
    count = 0
    for r in range(runs.shape[0]):
        first, period = runs[r, 0], runs[r, 2]
        # The least rotation: two candidates, the worse of which moves past what was compared.
        i, j, k = 0, 1, 0
        while i < period and j < period and k < period:
            a, b = text[first + i + k], text[first + j + k]
            if a == b:
                k += 1
                continue
            if a > b:
                i += k + 1
            else:
                j += k + 1
            if i == j:
                j += 1
            k = 0
        at = first + min(i, j)
        key = period
        for t in range(at, at + period):
            key = mix(key, text[t])
        slot = (key >> HIGH) & mask
        while table[slot] >= 0:
            c = table[slot]
            if bodies[c, 1] == period:
                other = bodies[c, 0]
                t = 0
                while t < period and text[at + t] == text[other + t]:
                    t += 1
                if t == period:
                    break
            slot = (slot + 1) & mask
        if table[slot] < 0:
            table[slot] = count
            bodies[count, 0] = at
            bodies[count, 1] = period
            bodies[count, 2] = 0
            count += 1
        runs[r, 3] = table[slot]
        runs[r, 4] = at
        bodies[table[slot], 2] += weight[runs[r, 1]] - weight[first + period]
    return count


@compiled_on_arrays(f"void({_ints}, int32[:, ::1], {_rows}, {_rows}, {_ints}, {_ints}, {_ints}, {_rows}, {_ints})")
def phases(starts, operands, runs, bodies, offsets, far, seen, score, phase):
    """The best `phase` of each class: few values cross, many runs begin there.

    Column 0 of `score` counts the values that would cross from one iteration to the next, column 1 the runs that begin in
    that phase; the rows of class c begin at ``offsets[c]``, one for each phase relative to the canonical one.  `far` is
    scratch with -1 for each instruction; `seen`, 0 for each class, counts the runs looked at for column 0.
    """
    score[:] = 0
    for r in range(runs.shape[0]):
        first, end, period = runs[r, 0], runs[r, 1], runs[r, 2]
        c, at = runs[r, 3], runs[r, 4]
        row = offsets[c]
        score[row + (first - at) % period, 1] += 1
        if operands.shape[0] == 0 or seen[c] >= SAMPLES:
            continue
        seen[c] += 1
        # The values of one period, and how far each is read within the next `period` tokens.
        low = first if end - first < 3 * period else first + period
        high = min(end, low + 2 * period)
        begin = starts[low]
        for t in range(low, high):
            for x in range(starts[t], starts[t + 1]):
                for k in range(2):
                    y = operands[x, k]
                    if y >= begin and y < starts[t] and y < starts[low + period]:
                        if t > far[y]:
                            far[y] = t
        for u in range(low, low + period):
            for y in range(starts[u], starts[u + 1]):
                # Boundaries between tokens u and t.
                if far[y] >= 0:
                    if far[y] - u < period:
                        length = far[y] - u
                        q = (u + 1 - at) % period
                        score[row + q, 0] += 1
                        if q + length < period:
                            score[row + q + length, 0] -= 1
                        elif q + length > period:
                            score[row, 0] += 1
                            score[row + q + length - period, 0] -= 1
                    far[y] = -1
    for c in range(offsets.size - 1):
        for row in range(offsets[c] + 1, offsets[c] + bodies[c, 1]):
            score[row, 0] += score[row - 1, 0]
        row = offsets[c]
        best = 0
        for q in range(1, bodies[c, 1]):
            if score[row + q, 0] < score[row + best, 0] or (
                score[row + q, 0] == score[row + best, 0] and score[row + q, 1] > score[row + best, 1]
            ):
                best = q
        phase[c] = best


@compiled_on_arrays(f"int64({_ints}, {_rows}, {_ints}, {_rows})")
def plan(exact, runs, phase, plans):
    """Rows ``first, iterations, period, class`` of `plans`; returns how many.

    A first or last iteration is left out if the numbers of iterations of loops in it differ from those in
    all the others, which are equal: a loop with fixed numbers is worth more.
    """
    filled = 0
    for r in range(runs.shape[0]):
        first, end, period = runs[r, 0], runs[r, 1], runs[r, 2]
        first += (runs[r, 4] + phase[runs[r, 3]] - first) % period
        count = (end - first) // period
        if count >= 6:
            # Whether iterations 1 .. count - 2 are equal, and the outer two equal to them.
            t = first + period
            last = first + (count - 2) * period
            while t < last and exact[t] == exact[t + period]:
                t += 1
            if t == last:
                for t in range(last, last + period):
                    if exact[t] != exact[t + period]:
                        count -= 1
                        break
                for t in range(first, first + period):
                    if exact[t] != exact[t + period]:
                        count -= 1
                        first += period
                        break
        if count >= 2:
            plans[filled, 0] = first
            plans[filled, 1] = count
            plans[filled, 2] = period
            plans[filled, 3] = runs[r, 3]
            filled += 1
    return filled


@helper
def _neighbours(text, plans, near):
    """Fill `near` with planned runs, by the token before them: one of each class between two tokens."""
    near[:] = -1
    mask = near.size - 1
    for p in range(plans.shape[0]):
        first, c = plans[p, 0], plans[p, 3]
        end = first + plans[p, 1] * plans[p, 2]
        if first > 0 and end < text.size:
            slot = (mix(text[first - 1], 1) >> HIGH) & mask
            while near[slot] >= 0:
                q = near[slot]
                after = plans[q, 0] + plans[q, 1] * plans[q, 2]
                if plans[q, 3] == c and text[plans[q, 0] - 1] == text[first - 1] and text[after] == text[end]:
                    break
                slot = (slot + 1) & mask
            if near[slot] < 0:
                near[slot] = p


@compiled_on_arrays(f"int64({', '.join([_ints] * 3)}, {_rows}, {_rows}, {', '.join([_ints] * 3)}, {_rows}, {', '.join([_ints] * 3)})")
def fold(text, starts, exact, plans, bodies, symbols, near, out, rows, ends, same, sizes):
    """Write the text in which planned runs, and short executions of the same loops, are single tokens.

    Parameters
    ----------
    text, starts, exact
        Tokens, positions of their first instructions (one more than tokens), and names that differ also
        where numbers of iterations differ.
    plans : rows of `plan` in order of position
    bodies, symbols
        For each class, the position and length of one period in its phase, and its new token.
    near
        Scratch, a power of two and more than twice as many as plans.
    out, ends, same
        The new `text`, `starts` and `exact`.
    rows
        Rows ``token, first token of `text`, iterations`` of all executions of loops that were made.
    sizes
        ``sizes[0]``: length of the new text.

    Returns
    -------
    int
        Number of `rows`.
    """
    _neighbours(text, plans, near)
    mask = near.size - 1
    made = 0
    length = 0
    t = 0
    p = 0
    while t < text.size:
        stop = plans[p, 0] if p < plans.shape[0] else text.size
        c = -1
        count = 0
        if t == stop:
            count = plans[p, 1]
            c = plans[p, 3]
            p += 1
        elif t > 0:
            slot = (mix(text[t - 1], 1) >> HIGH) & mask
            while near[slot] >= 0 and c < 0:
                first, d = plans[near[slot], 0], plans[near[slot], 3]
                after = first + plans[near[slot], 1] * plans[near[slot], 2]
                slot = (slot + 1) & mask
                if text[first - 1] != text[t - 1]:
                    continue
                body, period = bodies[d, 0], bodies[d, 1]
                u = t
                while u < stop and text[u] == text[body + (u - t) % period]:
                    u += 1
                count = (u - t) // period
                u = t + count * period
                if count > 0 and u < text.size and text[u] == text[after]:
                    c = d
        if c < 0:
            out[length] = text[t]
            same[length] = exact[t]
            ends[length] = starts[t]
            t += 1
        else:
            out[length] = symbols[c]
            ends[length] = starts[t]
            rows[made, 0] = symbols[c]
            rows[made, 1] = t
            rows[made, 2] = count
            made += 1
            key = symbols[c]
            end = t + count * bodies[c, 1]
            for u in range(t, end):
                key = mix(key, exact[u])
            same[length] = mix(key, count)
            t = end
        length += 1
    ends[length] = starts[text.size]
    sizes[0] = length
    return made
