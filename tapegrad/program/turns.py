"""The turns of a loop whose body is a tape: forward with what reverse mode needs, and back.

The body is one or several *paths*, tapes of one form (`transforms.loops.loop.Path`): each takes the carry, the element of the arrays that
are gone along, and captured values, and gives the next carry and a result.  All of these are vectors of float64.  A turn runs on the
path whose guards hold; the one of the last turn is tried first.  A path that *stops* ends the loop.

On the way forward the carry is kept before every `stride`-th turn, and before each of the last turns, in so many rows as there is room
for; where the number of turns is not known, every second one is let go of when the rows are full, and the stride doubles (so that
it fits at the end, whatever the number).  The way back calls the adjoints of the paths in reverse order, from carries that were kept,
or that are computed again from one that was: a stretch of turns for which there is no room is divided, and so on.  What is computed
again is computed by the same machine code (the *generation*: interpreter or kernels), so it comes out the same.

Memory: the words of a loop (`S_*`) say what it is, and have tables of its paths; those of a run (`T_*`) are in a block of its own, with
what it needs besides.  Where tables hold addresses, each is a *base* (which of the vectors) and an offset in bytes.

Reference: A. Griewank, A. Walther: Algorithm 799: Revolve. ACM TOMS 26 (2000) 19-45.  Strides that double: P. Stumm, A. Walther: New
algorithms for optimal online checkpointing. SIAM J. Sci. Comput. 32 (2010) 836-854.
"""

from __future__ import annotations

from ..codegen.compile import compiled, helper
from ..codegen.memory import (
    acquire,
    allocate,
    c_function,
    call3_int,
    copy_bytes,
    double_at,
    load_byte,
    load_double,
    load_int,
    release,
    set_double_at,
    set_free,
    store_byte,
    store_double,
    store_int,
    yield_processor,
)
from ..interpreter.python_calls import ensure_interpreter, raise_in, release_interpreter, thread_ident
from ..rules.loops import (
    CAPTURED,
    CAPTURED_BAR,
    CARRY,
    CARRY_BAR,
    ELEMENT,
    ELEMENT_BAR,
    HEAD,
    NEXT,
    NEXT_BAR,
    RESULT,
    RESULT_BAR,
)
from .executable import B_ADDRESS, B_TAKEN, LINE, X_BLOCKS, X_CODE, X_COUNT, X_NBYTES
from .status import FINE

#: What a run ends with: so many turns as were asked for; a path that stops; no path's guards hold; something that compiled code does
#: not know; memory that there is not; an interruption.
MORE, STOPPED, NO_PATH, UNKNOWN, NO_MEMORY, INTERRUPTED = range(6)

#: Words of a loop: lengths of carry, captured values, element and result; rows (turns, 0 if these are not known), whether they are
#: known, whether it goes from the end; carries kept, the turn from which on all are, and how many are computed again at a
#: time; the generation, turns that were run, the
#: address of the class of interruptions; of independent turns (`program.lanes`) what shares chunks between threads (0: nothing), what
#: runs one, and how many there are.  Then tables of each generation, forward and back: number of paths, address of the addresses of
#: their words, words of the longest.
(
    S_CARRY, S_CAPTURED, S_ELEMENT, S_RESULT, S_ROWS, S_BOUNDED, S_REVERSE, S_CAPACITY, S_DENSE, S_ROOM, S_GENERATION, S_TURNS, S_INTERRUPT,
    S_SHARE, S_CHUNK, S_CHUNKS, S_TABLES,
) = range(17)  # fmt: skip
#: Words of a table.
TABLE = 3
LOOP_WORDS = S_TABLES + 4 * TABLE

#: Words of a run: the next turn, how many there may be, and at which it began; the path taken last; the number of paths, their table; two
#: rows for carries (or adjoints of carries), and bytes of one; the first rows of elements and results, steps from turn to turn in
#: bytes; carries that are kept: capacity, number, stride, the turn from which on all are, place; the path of each turn from one
#: on, and for how many there is room.  Of the way back: first rows of adjoints of results and elements, and the sums of adjoints of captured values,
#: those of one turn, and how many.  Then the bases, and behind these the blocks of the paths, and tables of addresses.
(
    T_TURN, T_LIMIT, T_BEGIN, T_RECENT, T_PATHS, T_TABLE, T_ROWS, T_WIDTH, T_XS, T_XSTEP, T_YS, T_YSTEP, T_CAPACITY, T_KEPT, T_STRIDE,
    T_DENSE, T_STORE, T_LOG, T_FROM, T_LOGGED, T_YBAR, T_XBAR, T_SUMS, T_PART, T_COUNT, T_BLOCKS, T_SCRATCH, T_BASES,
) = range(28)  # fmt: skip
RUN_WORDS = T_BASES + 10
#: Words of a path: its executable, whether it stops; then lists, with their lengths: (base, offset) of inputs and of outputs, and
#: (base, offset, address, bytes) of constants.
P_EXECUTABLE, P_STOPS, P_LISTS = range(3)
#: Turns between two looks whether there was an interruption.
CHUNK = 4096
#: After all turns.
NEVER = 1 << 62
#: Levels of stretches that are divided again.
LEVELS = 64

check_signals = c_function("PyErr_CheckSignals", "int32")
clear_error = c_function("PyErr_Clear", "void")


# ---- one turn ---------------------------------------------------------------------------


@helper
def _table(p, words, at, table):
    """Write a table of addresses; returns where the list has ended."""
    count = load_int(words + 8 * at)
    at += 1
    for k in range(count):
        base, offset = load_int(words + 8 * at), load_int(words + 8 * at + 8)
        store_int(table + 8 * k, load_int(p + 8 * (T_BASES + base)) + offset)
        at += 2
    return at


@helper
def _turn(p, words, block):
    """One turn on a path; returns the status."""
    inputs = load_int(p + 8 * T_SCRATCH)
    outputs = inputs + 8 * load_int(words + 8 * P_LISTS)
    at = _table(p, words, P_LISTS, inputs)
    at = _table(p, words, at, outputs)
    count = load_int(words + 8 * at)
    at += 1
    for _ in range(count):
        target = load_int(p + 8 * (T_BASES + load_int(words + 8 * at))) + load_int(words + 8 * at + 8)
        copy_bytes(target, load_int(words + 8 * at + 16), load_int(words + 8 * at + 24))
        at += 4
    return call3_int(load_int(load_int(words + 8 * P_EXECUTABLE) + 8 * X_CODE), inputs, outputs, block)


@helper
def hold(p):
    """Take a block of each path, for as long as this run is in its turns: (address, what is to be given back) of each."""
    table, at = load_int(p + 8 * T_TABLE), load_int(p + 8 * T_BLOCKS)
    for k in range(load_int(p + 8 * T_PATHS)):
        executable = load_int(load_int(table + 8 * k) + 8 * P_EXECUTABLE)
        nbytes, count = load_int(executable + 8 * X_NBYTES), load_int(executable + 8 * X_COUNT)
        first = load_int(executable + 8 * X_BLOCKS)
        n, mine, spare = 0, first, 0
        while not acquire(mine + 8 * B_TAKEN):
            n += 1
            mine += LINE
            if n == count:
                if nbytes != 0:
                    spare = allocate(nbytes + LINE)
                    break
                n, mine = 0, first
                yield_processor()
        if spare != 0:
            store_int(at, (spare + LINE - 1) & -LINE)
            # Memory is told from a block of the executable's by its sign.
            store_int(at + 8, -spare)
        else:
            store_int(at, load_int(mine + 8 * B_ADDRESS))
            store_int(at + 8, mine)
        at += 16


@helper
def give_back(p):
    at = load_int(p + 8 * T_BLOCKS)
    for _ in range(load_int(p + 8 * T_PATHS)):
        mine = load_int(at + 8)
        if mine < 0:
            release(-mine)
        else:
            set_free(mine + 8 * B_TAKEN)
        at += 16


@helper
def _keep(p, turn, row, width):
    """Keep the carry before this turn, counted from the first, if it is the turn of one that is kept."""
    if width == 0:
        return
    capacity, stride = load_int(p + 8 * T_CAPACITY), load_int(p + 8 * T_STRIDE)
    kept, store, dense = load_int(p + 8 * T_KEPT), load_int(p + 8 * T_STORE), load_int(p + 8 * T_DENSE)
    coarse = capacity if dense == NEVER else capacity - load_int(p + 8 * T_LOGGED)
    if turn >= dense:
        copy_bytes(store + (coarse + turn - dense) * width, row, width)
        return
    # A turn that met a new path begins again, and has been kept.
    if coarse == 0 or turn != kept * stride:
        return
    if kept == capacity:
        for k in range(1, (kept + 1) // 2):
            copy_bytes(store + k * width, store + 2 * k * width, width)
        kept = (kept + 1) // 2
        stride *= 2
        store_int(p + 8 * T_STRIDE, stride)
        store_int(p + 8 * T_KEPT, kept)
        if turn != kept * stride:
            return
    copy_bytes(store + kept * width, row, width)
    store_int(p + 8 * T_KEPT, kept + 1)


@compiled("int64(int64)")
def advance(p):
    """Run turns; returns why it has ended."""
    turn, limit, begin, width = load_int(p + 8 * T_TURN), load_int(p + 8 * T_LIMIT), load_int(p + 8 * T_BEGIN), load_int(p + 8 * T_WIDTH)
    paths, table, recent = load_int(p + 8 * T_PATHS), load_int(p + 8 * T_TABLE), load_int(p + 8 * T_RECENT)
    rows, bases, logged, blocks = load_int(p + 8 * T_ROWS), p + 8 * T_BASES, load_int(p + 8 * T_LOGGED), load_int(p + 8 * T_BLOCKS)
    first = begin + load_int(p + 8 * T_FROM)
    hold(p)
    why = MORE
    while turn < limit:
        row = rows + (turn & 1) * width
        store_int(bases + 8 * CARRY, row)
        store_int(bases + 8 * NEXT, rows + (1 - (turn & 1)) * width)
        store_int(bases + 8 * ELEMENT, load_int(p + 8 * T_XS) + turn * load_int(p + 8 * T_XSTEP))
        store_int(bases + 8 * RESULT, load_int(p + 8 * T_YS) + turn * load_int(p + 8 * T_YSTEP))
        tried, status, stops = 0, 0, 0
        while tried < paths:
            words = load_int(table + 8 * recent)
            status = _turn(p, words, load_int(blocks + 16 * recent))
            stops = load_int(words + 8 * P_STOPS)
            if status < 0:
                break
            tried += 1
            recent += 1
            if recent == paths:
                recent = 0
        if tried == paths or status != FINE:
            why = NO_PATH if tried == paths else UNKNOWN
            break
        # Not before a path is known: a turn that is begun again would be kept twice.
        _keep(p, turn - begin, row, width)
        if 0 <= turn - first < logged:
            store_byte(load_int(p + 8 * T_LOG) + turn - first, recent)
        turn += 1
        if stops != 0:
            why = STOPPED
            break
    give_back(p)
    store_int(p + 8 * T_TURN, turn)
    store_int(p + 8 * T_RECENT, recent)
    return why


@helper
def pull(p, low, turn, store, log):
    """The way back over turns whose carries are kept, from `turn` down to `low`, at which rows and log begin."""
    width, table, blocks = load_int(p + 8 * T_WIDTH), load_int(p + 8 * T_TABLE), load_int(p + 8 * T_BLOCKS)
    rows, bases, count = load_int(p + 8 * T_ROWS), p + 8 * T_BASES, load_int(p + 8 * T_COUNT)
    sums, part = load_int(p + 8 * T_SUMS), load_int(p + 8 * T_PART)
    while turn > low:
        turn -= 1
        store_int(bases + 8 * CARRY, store + (turn - low) * width)
        store_int(bases + 8 * NEXT_BAR, rows + (1 - (turn & 1)) * width)
        store_int(bases + 8 * CARRY_BAR, rows + (turn & 1) * width)
        store_int(bases + 8 * ELEMENT, load_int(p + 8 * T_XS) + turn * load_int(p + 8 * T_XSTEP))
        store_int(bases + 8 * ELEMENT_BAR, load_int(p + 8 * T_XBAR) + turn * load_int(p + 8 * T_XSTEP))
        store_int(bases + 8 * RESULT_BAR, load_int(p + 8 * T_YBAR) + turn * load_int(p + 8 * T_YSTEP))
        path = load_byte(log + turn - low)
        if path >= load_int(p + 8 * T_PATHS) or _turn(p, load_int(table + 8 * path), load_int(blocks + 16 * path)) != FINE:
            return UNKNOWN
        for k in range(count):
            set_double_at(sums, k, double_at(sums, k) + double_at(part, k))
            # Another path may not use it.
            set_double_at(part, k, 0.0)
    return MORE


# ---- a run ------------------------------------------------------------------------------


@helper
def run_words(loop, generation, back):
    """Words of the block of a run: its own, two rows, (address, what is to be given back) of each path, tables, adjoints of captured values."""
    table = loop + 8 * (S_TABLES + TABLE * (2 * generation + back))
    return RUN_WORDS + 2 * load_int(loop + 8 * S_CARRY) + 2 * load_int(table) + load_int(table + 16) + load_int(loop + 8 * S_CAPTURED) + 2


@helper
def prepare(p, loop, generation, back, captured, xs):
    """Begin the words of a run."""
    table, carry = loop + 8 * (S_TABLES + TABLE * (2 * generation + back)), load_int(loop + 8 * S_CARRY)
    paths, longest = load_int(table), load_int(table + 16)
    store_int(p + 8 * T_PATHS, paths)
    store_int(p + 8 * T_TABLE, load_int(table + 8))
    store_int(p + 8 * T_RECENT, 0)
    store_int(p + 8 * T_WIDTH, 8 * carry)
    room = p + 8 * RUN_WORDS
    store_int(p + 8 * T_ROWS, room)
    room += 16 * carry
    store_int(p + 8 * T_BLOCKS, room)
    room += 16 * paths
    store_int(p + 8 * T_SCRATCH, room)
    store_int(p + 8 * T_PART, room + 8 * longest)
    store_int(p + 8 * (T_BASES + CAPTURED), captured)
    xstep = 8 * load_int(loop + 8 * S_ELEMENT)
    if load_int(loop + 8 * S_REVERSE) != 0:
        xs += (load_int(loop + 8 * S_ROWS) - 1) * xstep
        xstep = -xstep
    store_int(p + 8 * T_XS, xs)
    store_int(p + 8 * T_XSTEP, xstep)


@helper
def results(p, loop, ys, word):
    """Let a word be the address of the first row of results (or of their adjoints)."""
    step = 8 * load_int(loop + 8 * S_RESULT)
    if load_int(loop + 8 * S_REVERSE) != 0:
        ys += (load_int(loop + 8 * S_ROWS) - 1) * step
        step = -step
    store_int(p + 8 * word, ys)
    store_int(p + 8 * T_YSTEP, step)


@helper
def _from(p, turn, carry, capacity, stride, dense, store, log):
    """Let a run begin with a carry before this turn; what it keeps goes to `store` and `log`: every `stride`-th, and all from `dense` on (-1: never)."""
    width = load_int(p + 8 * T_WIDTH)
    store_int(p + 8 * T_TURN, turn)
    store_int(p + 8 * T_BEGIN, turn)
    copy_bytes(load_int(p + 8 * T_ROWS) + (turn & 1) * width, carry, width)
    store_int(p + 8 * T_CAPACITY, capacity)
    store_int(p + 8 * T_KEPT, 0)
    store_int(p + 8 * T_STRIDE, stride)
    store_int(p + 8 * T_STORE, store)
    store_int(p + 8 * T_LOG, log)
    store_int(p + 8 * T_DENSE, NEVER if dense < 0 else dense)
    store_int(p + 8 * T_FROM, max(dense, 0))
    store_int(p + 8 * T_LOGGED, capacity)


@compiled("int64(int64, int64)")
def room(loop, generation):
    """Words that a run forward takes."""
    return run_words(loop, generation, 0)


@helper
def kept_of(loop, z):
    """Where a result has the head of what is kept."""
    outputs = load_int(loop + 8 * S_CARRY) + load_int(loop + 8 * S_ROWS) * load_int(loop + 8 * S_RESULT)
    return z + 8 * outputs


@helper
def _coarse(loop):
    """Carries that are kept of turns before those of which all are."""
    return load_int(loop + 8 * S_CAPACITY) - (load_int(loop + 8 * S_ROWS) - load_int(loop + 8 * S_DENSE))


@helper
def _stride(loop):
    """The stride that a run begins with."""
    if load_int(loop + 8 * S_BOUNDED) == 0:
        return 1
    coarse = _coarse(loop)
    return max(1, (load_int(loop + 8 * S_DENSE) + coarse - 1) // coarse) if coarse > 0 else 1


@helper
def logged(loop):
    """Words of the paths that are kept."""
    if load_int(loop + 8 * S_BOUNDED) != 0:
        return (load_int(loop + 8 * S_ROWS) - load_int(loop + 8 * S_DENSE) + 7) // 8
    return (load_int(loop + 8 * S_CAPACITY) + 7) // 8


@compiled("void(int64, int64, int64, int64, int64, int64, int64)")
def begin(p, loop, generation, carry, captured, xs, z):
    """Begin a run forward in a block."""
    prepare(p, loop, generation, 0, captured, xs)
    results(p, loop, z + 8 * load_int(loop + 8 * S_CARRY), T_YS)
    log = kept_of(loop, z) + 8 * HEAD
    dense = load_int(loop + 8 * S_DENSE) if load_int(loop + 8 * S_BOUNDED) != 0 else -1
    _from(p, 0, carry, load_int(loop + 8 * S_CAPACITY), _stride(loop), dense, log + 8 * logged(loop), log)
    if dense >= 0:
        store_int(p + 8 * T_LOGGED, load_int(loop + 8 * S_ROWS) - dense)


@compiled("void(int64, int64, int64, int64)")
def end(p, loop, generation, z):
    """Write what there is besides the results."""
    turn, width = load_int(p + 8 * T_TURN), load_int(p + 8 * T_WIDTH)
    copy_bytes(z, load_int(p + 8 * T_ROWS) + (turn & 1) * width, width)
    head = kept_of(loop, z)
    store_double(head, float(turn))
    store_double(head + 8, float(load_int(p + 8 * T_STRIDE)))
    store_double(head + 16, float(generation))
    store_int(loop + 8 * S_TURNS, load_int(loop + 8 * S_TURNS) + turn)


@helper
def interrupted(loop):
    """Whether there was an interruption; if so, it is raised where Python goes on."""
    state = ensure_interpreter()
    found = check_signals()
    if found != 0:
        clear_error()
        raise_in(thread_ident(), load_int(loop + 8 * S_INTERRUPT))
    release_interpreter(state)
    return found != 0


@compiled("int64(int64, int64, int64, int64, int64)")
def forward(loop, carry, captured, xs, z):
    """All turns; returns why it has ended: MORE or STOPPED if all is well."""
    generation = load_int(loop + 8 * S_GENERATION)
    p = allocate(8 * run_words(loop, generation, 0))
    if p == 0:
        return NO_MEMORY
    begin(p, loop, generation, carry, captured, xs, z)
    bounded, rows = load_int(loop + 8 * S_BOUNDED), load_int(loop + 8 * S_ROWS)
    why = MORE
    while why == MORE and (bounded == 0 or load_int(p + 8 * T_TURN) < rows):
        turn = load_int(p + 8 * T_TURN)
        if turn > 0 and interrupted(loop):
            why = INTERRUPTED
            break
        store_int(p + 8 * T_LIMIT, turn + CHUNK if bounded == 0 else min(rows, turn + CHUNK))
        why = advance(p)
    if why <= STOPPED:
        end(p, loop, generation, z)
    release(p)
    return why


@helper
def _back_between(p, q, low, high, carry, room):
    """The way back over turns whose carries are computed again; `q` are words of a run forward."""
    width = load_int(p + 8 * T_WIDTH)
    # Stretches to do, the last one first: (first and last turn, carry); and where their rows are, to be let go of.
    turns, entries = high - low, 1
    while turns > room:
        entries += room + 1
        turns = (turns + room - 1) // room
    stack, memory, log, level = allocate(24 * entries), allocate(8 * LEVELS), allocate(min(room, high - low)), 0
    why = NO_MEMORY if stack == 0 or memory == 0 or log == 0 else MORE
    depth = 0
    if why == MORE:
        store_int(stack, low)
        store_int(stack + 8, high)
        store_int(stack + 16, carry)
        depth = 1
    while depth > 0 and why == MORE:
        depth -= 1
        at = stack + 24 * depth
        low, high, carry = load_int(at), load_int(at + 8), load_int(at + 16)
        if low < 0:
            # All stretches of one level are done.
            level -= 1
            release(load_int(memory + 8 * level))
            continue
        stride = (high - low + room - 1) // room
        rows = (high - low + stride - 1) // stride
        store = allocate(rows * width + 8)
        if store == 0 or level == LEVELS:
            why = NO_MEMORY
            break
        _from(q, low, carry, rows, stride, -1, store, log)
        store_int(q + 8 * T_LIMIT, high)
        ended = advance(q)
        if ended > STOPPED or load_int(q + 8 * T_TURN) != high:
            why = UNKNOWN
        elif stride == 1:
            why = pull(p, low, high, store, log)
        if stride == 1 or why != MORE:
            release(store)
            continue
        store_int(memory + 8 * level, store)
        level += 1
        store_int(at, -1)
        depth += 1
        for k in range(rows):
            at = stack + 24 * depth
            store_int(at, low + k * stride)
            store_int(at + 8, min(high, low + (k + 1) * stride))
            store_int(at + 16, store + k * width)
            depth += 1
    while level > 0:
        level -= 1
        release(load_int(memory + 8 * level))
    release(log)
    release(memory)
    release(stack)
    return why


@compiled("int64(int64, int64, int64, int64, int64, int64, int64)")
def back(loop, seeds, carry, captured, xs, z, result):
    """The adjoints of carry, captured values and elements, into `result`, which is zero before."""
    head, capacity, room = kept_of(loop, z), load_int(loop + 8 * S_CAPACITY), load_int(loop + 8 * S_ROOM)
    count, stride, generation = int(load_double(head)), int(load_double(head + 8)), int(load_double(head + 16))
    bounded, turns, dense = load_int(loop + 8 * S_BOUNDED) != 0, load_int(loop + 8 * S_ROWS), load_int(loop + 8 * S_DENSE)
    # What is kept may come from a file: more turns, or more carries, than there can be.
    if count < 0 or stride < 1 or generation < 0 or generation > 1:
        return UNKNOWN
    if bounded and (count != turns or stride != _stride(loop)) or not bounded and capacity > 0 and count > capacity * stride:
        return UNKNOWN
    p = allocate(8 * run_words(loop, generation, 1))
    q = allocate(8 * run_words(loop, generation, 0))
    if p == 0 or q == 0:
        return NO_MEMORY
    length, captures, width = load_int(loop + 8 * S_CARRY), load_int(loop + 8 * S_CAPTURED), 8 * load_int(loop + 8 * S_CARRY)
    prepare(p, loop, generation, 1, captured, xs)
    prepare(q, loop, generation, 0, captured, xs)
    results(p, loop, seeds + width, T_YBAR)
    scratch = allocate(8 * load_int(loop + 8 * S_ROWS) * load_int(loop + 8 * S_RESULT) + 8) if bounded and dense > 0 else 0
    results(q, loop, scratch, T_YS)
    sums = result + width
    store_int(p + 8 * T_SUMS, sums)
    store_int(p + 8 * T_COUNT, captures)
    store_int(p + 8 * (T_BASES + CAPTURED_BAR), load_int(p + 8 * T_PART))
    xbar = sums + 8 * captures
    if load_int(loop + 8 * S_REVERSE) != 0:
        xbar += 8 * (load_int(loop + 8 * S_ROWS) - 1) * load_int(loop + 8 * S_ELEMENT)
    store_int(p + 8 * T_XBAR, xbar)
    rows = load_int(p + 8 * T_ROWS)
    for k in range(length):
        store_double(rows + 8 * k, 0.0)
        store_double(rows + width + 8 * k, 0.0)
    copy_bytes(rows + (count & 1) * width, seeds, width)
    for k in range(captures):
        store_double(load_int(p + 8 * T_PART) + 8 * k, 0.0)
    log = head + 8 * HEAD
    store = log + 8 * logged(loop)
    hold(p)
    why, coarse, last = MORE, (count + stride - 1) // stride, count
    if bounded:
        coarse, last = _coarse(loop), dense
        why = pull(p, dense, count, store + coarse * width, log)
    elif stride == 1 and capacity > 0:
        why, last = pull(p, 0, count, store, log), 0
    if capacity == 0 or coarse <= 0:
        if last > 0:
            why = _back_between(p, q, 0, last, carry, room)
    else:
        # From one kept carry over the next ones, as far as there is room: to begin costs as much as many turns.
        k, several = (last + stride - 1) // stride, max(1, room // stride)
        while k > 0 and why == MORE:
            first = max(0, k - several)
            why = _back_between(p, q, first * stride, min(last, k * stride), store + first * width, room)
            k = first
    give_back(p)
    copy_bytes(result, rows, width)
    if scratch != 0:
        release(scratch)
    release(q)
    release(p)
    return why
