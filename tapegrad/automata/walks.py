"""The compiled walks over graphs: sorting, searching, composing, and the recurrences of scores.

Arrays are passed by address, of int64 but weights, scores and tangents (float64).  What a walk finds and cannot know the length of is
written into arrays with room for so much; where that ends the walk comes back, and is called again with more.
"""

import math

from ..codegen.compile import compiled, helper
from ..codegen.memory import double_at, int_at, set_double_at, set_int_at

#: The label of an arc that reads, or writes, nothing; the smallest of all labels.
EPSILON = -1
#: Places of `search`'s numbers: nodes and arcs there are, the node that comes next, and the room for nodes and arcs.
NODES, ARCS, NEXT, NODE_ROOM, ARC_ROOM = range(5)


@compiled("void(int64, int64, int64, int64, int64)")
def bucket(count, arcs, ends, starts, order):
    """Arcs by the node at one end (a counting sort, stable): those of node v are ``order[starts[v]:starts[v + 1]]``."""
    for v in range(count + 2):
        set_int_at(starts, v, 0)
    for a in range(arcs):
        v = int_at(ends, a) + 2
        set_int_at(starts, v, int_at(starts, v) + 1)
    for v in range(count + 1):
        set_int_at(starts, v + 1, int_at(starts, v + 1) + int_at(starts, v))
    for a in range(arcs):
        v = int_at(ends, a) + 1
        set_int_at(order, int_at(starts, v), a)
        set_int_at(starts, v, int_at(starts, v) + 1)


@compiled("int64(int64, int64, int64, int64, int64, int64)")
def topological(count, starts, order, target, incoming, nodes):
    """Nodes in an order in which each comes after those that arcs to it come from; returns for how many there is one.

    `incoming` is how many arcs to each node have to come before it, used up: all, or one where the question is what can be reached.
    """
    known = 0
    for v in range(count):
        if int_at(incoming, v) == 0:
            set_int_at(nodes, known, v)
            known += 1
    done = 0
    while done < known:
        v = int_at(nodes, done)
        done += 1
        for k in range(int_at(starts, v), int_at(starts, v + 1)):
            w = int_at(target, int_at(order, k))
            left = int_at(incoming, w)
            if left > 0:
                set_int_at(incoming, w, left - 1)
                if left == 1:
                    set_int_at(nodes, known, w)
                    known += 1
    return known


# -- composition ----------------------------------------------------------------------------------


@helper
def place_of(table, mask, keys, key):
    """Where in the hash table `key` is, or would be; keys that follow each other share a line of memory."""
    place = ((key * -7046029254386353131) >> 20) & mask
    while int_at(table, place) >= 0 and int_at(keys, int_at(table, place)) != key:
        place = (place + 1) & mask
    return place


@helper
def emit(numbers, table, mask, keys, out, key, first, second):
    """Write an arc from the node that is looked at to the one of this key, made of two arcs (-1: none); False without room."""
    nodes, arcs, room = int_at(numbers, NODES), int_at(numbers, ARCS), int_at(numbers, ARC_ROOM)
    place = place_of(table, mask, keys, key)
    node = int_at(table, place)
    if arcs == room or node < 0 and nodes == int_at(numbers, NODE_ROOM):
        return False
    if node < 0:
        node = nodes
        set_int_at(table, place, node)
        set_int_at(keys, node, key)
        set_int_at(numbers, NODES, nodes + 1)
    set_int_at(out, arcs, int_at(numbers, NEXT))
    set_int_at(out, room + arcs, node)
    set_int_at(out, 2 * room + arcs, first)
    set_int_at(out, 3 * room + arcs, second)
    set_int_at(numbers, ARCS, arcs + 1)
    return True


@helper
def lower_bound(labels, low, high, label):
    """The first place from `low` on, where labels are sorted, that has at least `label`."""
    if low < high:
        # Where each label is there once, it is as far off as it is larger.
        guess = low + label - int_at(labels, low)
        if guess <= low:
            return low
        if guess < high and int_at(labels, guess) == label and int_at(labels, guess - 1) < label:
            return guess
    while low < high:
        middle = (low + high) >> 1
        if int_at(labels, middle) < label:
            low = middle + 1
        else:
            high = middle
    return low


@helper
def expand(numbers, table, mask, keys, out, width, starts1, labels1, order1, target1, starts2, labels2, order2, target2):
    """Write the arcs from the next node; False without room for them.

    Paths of two graphs meet in one path of the composition, whatever arcs without label they have between two that match: these
    match each other first (state 0), and those left over are one graph's alone (state 1: the first one's, 2: the second one's).
    """
    key = int_at(keys, int_at(numbers, NEXT))
    state, pair = key % 3, key // 3
    a, b = pair // width, pair % width
    low1, high1, low2, high2 = int_at(starts1, a), int_at(starts1, a + 1), int_at(starts2, b), int_at(starts2, b + 1)
    labelled1, labelled2 = lower_bound(labels1, low1, high1, 0), lower_bound(labels2, low2, high2, 0)
    if state != 2:
        for i in range(low1, labelled1):
            first = int_at(order1, i)
            if not emit(numbers, table, mask, keys, out, (int_at(target1, first) * width + b) * 3 + 1, first, -1):
                return False
    if state != 1:
        for j in range(low2, labelled2):
            second = int_at(order2, j)
            if not emit(numbers, table, mask, keys, out, (a * width + int_at(target2, second)) * 3 + 2, -1, second):
                return False
    if state != 0:
        low1, low2 = labelled1, labelled2
    # For each arc of the node with fewer, those of the other one.
    if high1 - low1 <= high2 - low2:
        for i in range(low1, high1):
            label, first = int_at(labels1, i), int_at(order1, i)
            low2 = lower_bound(labels2, low2, high2, label)
            j = low2
            while j < high2 and int_at(labels2, j) == label:
                second = int_at(order2, j)
                key = (int_at(target1, first) * width + int_at(target2, second)) * 3
                if not emit(numbers, table, mask, keys, out, key, first, second):
                    return False
                j += 1
    else:
        for j in range(low2, high2):
            label, second = int_at(labels2, j), int_at(order2, j)
            low1 = lower_bound(labels1, low1, high1, label)
            i = low1
            while i < high1 and int_at(labels1, i) == label:
                first = int_at(order1, i)
                key = (int_at(target1, first) * width + int_at(target2, second)) * 3
                if not emit(numbers, table, mask, keys, out, key, first, second):
                    return False
                i += 1
    return True


@compiled("int64(int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def search(numbers, table, mask, keys, out, width, starts1, labels1, order1, target1, starts2, labels2, order2, target2):
    """Write nodes and arcs of a composition, from the nodes in `keys` on; 0 if there is no room left: call it again with more.

    The key of a node is ``(a * width + b) * 3 + state`` of nodes a and b.  `table` is -1 everywhere, `out` has sources, targets,
    arcs of the first and of the second graph.  Of each node arcs are in `order`, by their `labels`.
    """
    for node in range(int_at(numbers, NODES)):
        set_int_at(table, place_of(table, mask, keys, int_at(keys, node)), node)
    while int_at(numbers, NEXT) < int_at(numbers, NODES):
        arcs = int_at(numbers, ARCS)
        if not expand(numbers, table, mask, keys, out, width, starts1, labels1, order1, target1, starts2, labels2, order2, target2):
            # Nodes that were new stay; the arcs are written again.
            set_int_at(numbers, ARCS, arcs)
            return 0
        set_int_at(numbers, NEXT, int_at(numbers, NEXT) + 1)
    return 1


@compiled("int64(int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def pass_over(count, kept, gone, starts, order, target, accept, stack, ends, out, room):
    """For each node that is `kept`, the arcs that are not `gone` behind each path of those that are; -1 without room, else how many.

    `out` has the nodes and the arcs; ``ends[v]`` becomes the number of such paths that end in an accepting node.
    """
    found = 0
    for v in range(count):
        if int_at(kept, v) == 0:
            continue
        set_int_at(stack, 0, v)
        waiting = 1
        while waiting > 0:
            waiting -= 1
            u = int_at(stack, waiting)
            if int_at(accept, u) != 0:
                set_int_at(ends, v, int_at(ends, v) + 1)
            for k in range(int_at(starts, u), int_at(starts, u + 1)):
                a = int_at(order, k)
                if int_at(gone, a) == 0:
                    if found == room:
                        return -1
                    set_int_at(out, found, v)
                    set_int_at(out, room + found, a)
                    found += 1
                else:
                    set_int_at(stack, waiting, int_at(target, a))
                    waiting += 1
    return found


# -- recurrences over nodes in topological order, `nodes`, of arcs by target ---------------------------


@compiled("void(int64, int64, int64, int64, int64, int64, int64, int64)")
def forward(count, nodes, starts, order, source, initial, weight, score):
    """The logarithm of the sum of what all paths to each node weigh; ``initial[v]``: whether one begins there."""
    for p in range(count):
        v = int_at(nodes, p)
        low, high, begins = int_at(starts, v), int_at(starts, v + 1), int_at(initial, v)
        largest = 0.0 if begins != 0 else -math.inf
        for k in range(low, high):
            a = int_at(order, k)
            x = double_at(score, int_at(source, a)) + double_at(weight, a)
            # A NaN stays.
            if x > largest or x != x:
                largest = x
        if high - low + begins > 1 and largest - largest == 0.0:
            total = math.exp(-largest) if begins != 0 else 0.0
            for k in range(low, high):
                a = int_at(order, k)
                total += math.exp(double_at(score, int_at(source, a)) + double_at(weight, a) - largest)
            largest += math.log(total)
        set_double_at(score, v, largest)


@compiled("void(int64, int64, int64, int64, int64, int64, int64)")
def along(count, nodes, starts, order, source, share, x):
    """Add to each ``x[v]`` what reaches it along arcs, ``share`` times that of their sources."""
    for p in range(count):
        v = int_at(nodes, p)
        total = double_at(x, v)
        for k in range(int_at(starts, v), int_at(starts, v + 1)):
            a = int_at(order, k)
            total += double_at(share, a) * double_at(x, int_at(source, a))
        set_double_at(x, v, total)


@compiled("void(int64, int64, int64, int64, int64, int64, int64)")
def against(count, nodes, starts, order, source, share, x):
    """The transpose of `along`: each ``x[v]`` is added to the sources of its arcs."""
    for p in range(count - 1, -1, -1):
        v = int_at(nodes, p)
        here = double_at(x, v)
        if here != 0.0:
            for k in range(int_at(starts, v), int_at(starts, v + 1)):
                a = int_at(order, k)
                u = int_at(source, a)
                set_double_at(x, u, double_at(x, u) + double_at(share, a) * here)


@compiled("int64(int64, int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def best(count, nodes, starts, order, source, initial, weight, score, last, path):
    """The arcs of the best path to the last of `nodes`, the last one first; how many, or -1 if there is none (the first of equals)."""
    for p in range(count):
        v = int_at(nodes, p)
        largest, through = -math.inf, -2
        if int_at(initial, v) != 0:
            largest, through = 0.0, -1
        for k in range(int_at(starts, v), int_at(starts, v + 1)):
            a = int_at(order, k)
            if int_at(last, int_at(source, a)) == -2:
                continue
            x = double_at(score, int_at(source, a)) + double_at(weight, a)
            if through == -2 or x > largest or x != x:
                largest, through = x, a
        set_double_at(score, v, largest)
        set_int_at(last, v, through)
    v, length = int_at(nodes, count - 1), 0
    while int_at(last, v) >= 0:
        a = int_at(last, v)
        set_int_at(path, length, a)
        length += 1
        v = int_at(source, a)
    return length if int_at(last, v) == -1 else -1
