"""Running a grammar: the tree of its loops, and which node each instruction is.

A grammar is a text and, for each token that is a loop, the text that it
repeats.  Token ``base + s`` is the loop over ``tokens[bodies[s] : bodies[s + 1]]``.
"""

from ...codegen.array_functions import compiled_on_arrays

_ints = "int64[::1]"


@compiled_on_arrays(f"int64({', '.join([_ints] * 3)}, int64, {_ints}, {_ints}, int64[:, ::1])")
def expand(top, bodies, tokens, base, symbols, ends, stack):
    """The tree of loops in preorder.

    Each node gets its token in `symbols` and in `ends` the node after its last descendant; `stack` is
    scratch, a row for each loop inside loops.  Returns how many nodes there are.
    """
    size = 0
    for t in range(top.size):
        depth = -1
        token = top[t]
        while True:
            node = size
            symbols[node] = token
            ends[node] = node + 1
            size += 1
            if token >= base:
                depth += 1
                stack[depth, 0] = node
                stack[depth, 1] = bodies[token - base]
                stack[depth, 2] = bodies[token - base + 1]
            while depth >= 0 and stack[depth, 1] == stack[depth, 2]:
                ends[stack[depth, 0]] = size
                depth -= 1
            if depth < 0:
                break
            token = tokens[stack[depth, 1]]
            stack[depth, 1] += 1
    return size


@compiled_on_arrays(f"int64({_ints}, {_ints}, int64, {', '.join([_ints] * 6)}, int64[:, ::1])")
def walk(symbols, ends, base, queues, counts, places, loops, numbers, heads, stack):
    """Run the tree.

    The loop ``base + s`` iterates ``counts[queues[s]]`` times when it is reached first, and so on up to
    ``queues[s + 1]``, then begins again (loops inside the body of another were counted in one iteration of
    that).  `places` gets the node of each instruction; `loops` and `numbers`, for each time a loop is
    reached, its node and iterations.  `heads` is scratch for one number for each loop, `stack` a row
    for each loop inside loops, and one.  Returns how many times loops were reached, which may be more than `loops` holds.
    """
    for s in range(heads.size):
        heads[s] = queues[s]
    reached = 0
    position = 0
    depth = 0
    node = 0
    stack[0, 0] = symbols.size
    while True:
        if node == stack[depth, 0]:
            if depth == 0:
                break
            stack[depth, 1] -= 1
            if stack[depth, 1] > 0:
                node = stack[depth, 2]
            else:
                depth -= 1
            continue
        if symbols[node] < base:
            places[position] = node
            position += 1
            node += 1
            continue
        s = symbols[node] - base
        count = counts[heads[s]]
        heads[s] += 1
        if heads[s] == queues[s + 1]:
            heads[s] = queues[s]
        if reached < loops.size:
            loops[reached] = node
            numbers[reached] = count
        reached += 1
        depth += 1
        stack[depth, 0] = ends[node]
        stack[depth, 1] = count
        stack[depth, 2] = node + 1
        node += 1
    return reached
