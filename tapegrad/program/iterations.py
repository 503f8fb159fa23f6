"""The iterations of a loop whose body is a tape: forward with what reverse mode needs, and back.

The body is one or several *paths*, tapes of one form (`transforms.loops.loop.LoopPath`): each takes the carry, the element of the arrays that
are gone along, and captured values, and gives the next carry and a result.  All of these are vectors of float64.  An iteration runs on the
path whose guards hold; the one of the last iteration is tried first, and runs as many iterations as it can by itself.  A path that *stops* ends
the loop.

On the way forward the carry is kept before every `stride`-th iteration, and before each of the last iterations, in so many rows as there is room
for; where the number of iterations is not known, every second one is let go of when the rows are full, and the stride doubles (so that
it fits at the end, whatever the number).  The way back calls the adjoints of the paths in reverse order, from carries that were kept,
or that are computed again from one that was: a stretch of iterations for which there is no room is divided, and so on.  What is computed
again is computed by the same machine code (the *generation*: interpreter or kernels), so it comes out the same.

Elements and results have a row for each iteration.  The rows of one result are one behind the other, and those of the next result behind them:
so each result of all iterations is an array in one piece.

Memory: the words of a loop (`S_*`) say what it is, and have tables of its paths; those of a run (`T_*`) are in a block of its own, with
what it needs besides.  A *place* is a *base* (which of the vectors), an offset in bytes, and a stride, from row to row.

Reference: A. Griewank, A. Walther: Algorithm 799: Revolve. ACM TOMS 26 (2000) 19-45.  Strides that double: P. Stumm, A. Walther: New
algorithms for optimal online checkpointing. SIAM J. Sci. Comput. 32 (2010) 836-854.
"""

from ..codegen.compile import compiled, helper
from ..codegen.memory import allocate, c_function, call6_int, copy_bytes, double_at, int_at, release, set_double_at, set_int_at
from ..codegen.python_api import ensure_interpreter, raise_in, release_interpreter, thread_ident
from ..rules.loops import CAPTURED, CAPTURED_BAR, ELEMENT, ELEMENT_BAR, HEAD, RESULT, RESULT_BAR
from . import stretch as R
from .stretch import advance, hold, let_go, place, pull

#: Words of a loop: lengths of carry, captured values, element and result; rows (iterations, 0 if these are not known), whether they are
#: known, whether it goes from the end; carries kept, the iteration from which on all are, and how many are computed again at a
#: time; the generation, iterations that were run, the address of the class of interruptions, and of `back_between`, which calls itself;
#: of iterations that carry nothing (`program.lanes`) what shares chunks between threads (0: nothing), what runs one, and how many there are.
#: Then tables of each generation, forward and back: number of paths, address of the addresses of their words,
#: words that the tables of one take, and adjoints of captured values, at most.
(
    S_CARRY, S_CAPTURED, S_ELEMENT, S_RESULT, S_ROWS, S_BOUNDED, S_REVERSE, S_CAPACITY, S_DENSE, S_ROOM, S_GENERATION, S_ITERATIONS, S_INTERRUPT,
    S_BETWEEN, S_SHARE, S_CHUNK, S_CHUNKS, S_TABLES,
) = range(18)  # fmt: skip
#: Words of a table.
TABLE = 3
LOOP_WORDS = S_TABLES + 4 * TABLE

#: Iterations between two looks whether there was an interruption.
CHUNK = 4096
check_signals = c_function("PyErr_CheckSignals", "int32")
clear_error = c_function("PyErr_Clear", "void")


# ---- a run ------------------------------------------------------------------------------


@helper
def run_words(loop, paths, longest):
    """Words of the block of a run: its own, two rows, (address, what is to be given back) of each path, tables, adjoints of captured values."""
    return R.RUN_WORDS + 2 * int_at(loop, S_CARRY) + 2 * paths + 2 * longest


@helper
def table_of(loop, generation, back):
    return loop + 8 * (S_TABLES + TABLE * (2 * generation + back))


@helper
def prepare(p, loop, table, paths, longest, captured, xs):
    """Begin the words of a run on so many paths; there may be more meanwhile, for which it has no room."""
    carry = int_at(loop, S_CARRY)
    rows = p + 8 * R.RUN_WORDS
    blocks = rows + 16 * carry
    room = blocks + 16 * paths
    set_int_at(p, R.T_PATHS, paths, R.T_TABLE, int_at(table, 1), R.T_RECENT, 0, R.T_WIDTH, 8 * carry,
                  R.T_ROWS, rows, R.T_BLOCKS, blocks, R.T_SCRATCH, room)  # fmt: skip
    for k in range(R.BASES):
        place(p, k, 0, 0)
    place(p, CAPTURED, captured, 0)
    place(p, CAPTURED_BAR, room + 8 * longest, 0)
    place(p, ELEMENT, xs, 0)
    reverse = int_at(loop, S_REVERSE) != 0
    set_int_at(p, R.T_FIRST, int_at(loop, S_ROWS) - 1 if reverse else 0, R.T_STEP, -1 if reverse else 1)


@helper
def prepared(loop, generation, back, captured, xs):
    """The words of a run, in memory of its own, on the paths that there are; 0 if there is no memory."""
    table = table_of(loop, generation, back)
    paths, longest = int_at(table, 0), int_at(table, 2)
    p = allocate(8 * run_words(loop, paths, longest))
    if p != 0:
        prepare(p, loop, table, paths, longest, captured, xs)
    return p


@helper
def _from(p, iteration, carry, capacity, stride, dense, store, log):
    """Let a run begin with a carry before this iteration; what it keeps goes to `store` and `log`: every `stride`-th, and all from `dense` on (-1: never)."""
    width = int_at(p, R.T_WIDTH)
    copy_bytes(int_at(p, R.T_ROWS) + (iteration & 1) * width, carry, width)
    set_int_at(p, R.T_ITERATION, iteration, R.T_BEGIN, iteration, R.T_CAPACITY, capacity, R.T_LOGGED, capacity, R.T_KEPT, 0, R.T_STRIDE, stride,
                  R.T_STORE, store, R.T_LOG, log, R.T_DENSE, R.NEVER if dense < 0 else dense, R.T_FROM, max(dense, 0))  # fmt: skip


@compiled("int64(int64, int64)")
def room(loop, generation):
    """Words that a run forward takes."""
    table = table_of(loop, generation, 0)
    return run_words(loop, int_at(table, 0), int_at(table, 2))


@helper
def kept_of(loop, z):
    """Where a result has the head of what is kept."""
    outputs = int_at(loop, S_CARRY) + int_at(loop, S_ROWS) * int_at(loop, S_RESULT)
    return z + 8 * outputs


@helper
def _coarse(loop):
    """Carries that are kept of iterations before those of which all are."""
    return int_at(loop, S_CAPACITY) - (int_at(loop, S_ROWS) - int_at(loop, S_DENSE))


@helper
def _stride(loop):
    """The stride that a run begins with."""
    if int_at(loop, S_BOUNDED) == 0:
        return 1
    coarse = _coarse(loop)
    return max(1, (int_at(loop, S_DENSE) + coarse - 1) // coarse) if coarse > 0 else 1


@helper
def logged(loop):
    """Words of the paths that are kept."""
    if int_at(loop, S_BOUNDED) != 0:
        return (int_at(loop, S_ROWS) - int_at(loop, S_DENSE) + 7) // 8
    return (int_at(loop, S_CAPACITY) + 7) // 8


@helper
def begin_run(p, loop, carry, z):
    place(p, RESULT, z + 8 * int_at(loop, S_CARRY), 0)
    log = kept_of(loop, z) + 8 * HEAD
    dense = int_at(loop, S_DENSE) if int_at(loop, S_BOUNDED) != 0 else -1
    _from(p, 0, carry, int_at(loop, S_CAPACITY), _stride(loop), dense, log + 8 * logged(loop), log)
    if dense >= 0:
        set_int_at(p, R.T_LOGGED, int_at(loop, S_ROWS) - dense)


@compiled("void(int64, int64, int64, int64, int64, int64, int64)")
def begin(p, loop, generation, carry, captured, xs, z):
    """Begin a run forward in a block of `room`; no path may be added in between."""
    table = table_of(loop, generation, 0)
    prepare(p, loop, table, int_at(table, 0), int_at(table, 2), captured, xs)
    begin_run(p, loop, carry, z)


@compiled("void(int64, int64, int64, int64)")
def end(p, loop, generation, z):
    """Write what there is besides the results."""
    iteration, width = int_at(p, R.T_ITERATION), int_at(p, R.T_WIDTH)
    copy_bytes(z, int_at(p, R.T_ROWS) + (iteration & 1) * width, width)
    head = kept_of(loop, z)
    set_double_at(head, 0, float(iteration))
    set_double_at(head, 1, float(int_at(p, R.T_STRIDE)))
    set_double_at(head, 2, float(generation))
    set_int_at(loop, S_ITERATIONS, int_at(loop, S_ITERATIONS) + iteration)


@helper
def interrupted(loop):
    """Whether there was an interruption; if so, it is raised where Python goes on."""
    state = ensure_interpreter()
    found = check_signals()
    if found != 0:
        clear_error()
        raise_in(thread_ident(), int_at(loop, S_INTERRUPT))
    release_interpreter(state)
    return found != 0


@helper
def iterate(p, loop, last):
    """Iterations up to the last one; returns why they have ended."""
    start, why = int_at(p, R.T_ITERATION), R.MORE
    iteration = start
    while why == R.MORE and iteration < last:
        if iteration > start and interrupted(loop):
            return R.INTERRUPTED
        set_int_at(p, R.T_LIMIT, min(last, iteration + CHUNK))
        why = advance(p)
        iteration = int_at(p, R.T_ITERATION)
    return why


@compiled("int64(int64, int64, int64, int64, int64)")
def forward(loop, carry, captured, xs, z):
    """All iterations; returns why it has ended: MORE or STOPPED if all is well."""
    generation = int_at(loop, S_GENERATION)
    p = prepared(loop, generation, 0, captured, xs)
    if p == 0:
        return R.NO_MEMORY
    begin_run(p, loop, carry, z)
    why = iterate(p, loop, int_at(loop, S_ROWS) if int_at(loop, S_BOUNDED) != 0 else R.NEVER)
    if why <= R.STOPPED:
        end(p, loop, generation, z)
    release(p)
    return why


@compiled("int64(int64, int64, int64, int64, int64, int64)")
def back_between(p, q, loop, low, high, carry):
    """The way back over iterations whose carries are computed again, of stretches if there is no room for all; `q` are words of a run forward."""
    width, room, why = int_at(p, R.T_WIDTH), int_at(loop, S_ROOM), R.NO_MEMORY
    stride = (high - low + room - 1) // room
    rows = (high - low + stride - 1) // stride
    store, log = allocate(rows * width + 8), allocate(rows)
    if store != 0 and log != 0:
        _from(q, low, carry, rows, stride, -1, store, log)
        set_int_at(q, R.T_LIMIT, high)
        ended = advance(q)
        if ended > R.STOPPED or int_at(q, R.T_ITERATION) != high:
            why = R.UNKNOWN
        elif stride == 1:
            why = pull(p, low, high, store, log)
        else:
            k, why = rows, R.MORE
            while k > 0 and why == R.MORE:
                k -= 1
                first, last = low + k * stride, min(high, low + (k + 1) * stride)
                why = call6_int(int_at(loop, S_BETWEEN), p, q, loop, first, last, store + k * width)
    release(log)
    release(store)
    return why


@compiled("int64(int64, int64, int64, int64, int64, int64, int64)")
def back(loop, seeds, carry, captured, xs, z, result):
    """The adjoints of carry, captured values and elements, into `result`, which is zero before."""
    head, capacity, room = kept_of(loop, z), int_at(loop, S_CAPACITY), int_at(loop, S_ROOM)
    count, stride, generation = int(double_at(head, 0)), int(double_at(head, 1)), int(double_at(head, 2))
    bounded, iterations, dense = int_at(loop, S_BOUNDED) != 0, int_at(loop, S_ROWS), int_at(loop, S_DENSE)
    # What is kept may come from a file: more iterations, or more carries, than there can be.
    if count < 0 or stride < 1 or generation < 0 or generation > 1:
        return R.UNKNOWN
    if bounded and (count != iterations or stride != _stride(loop)) or not bounded and capacity > 0 and count > capacity * stride:
        return R.UNKNOWN
    p, q = prepared(loop, generation, 1, captured, xs), prepared(loop, generation, 0, captured, xs)
    scratch = allocate(8 + (8 * int_at(loop, S_ROWS) * int_at(loop, S_RESULT) if bounded and dense > 0 else 0))
    if p == 0 or q == 0 or scratch == 0:
        release(scratch)
        release(q)
        release(p)
        return R.NO_MEMORY
    captures, width = int_at(loop, S_CAPTURED), 8 * int_at(loop, S_CARRY)
    place(p, RESULT_BAR, seeds + width, 0)
    place(q, RESULT, scratch, 0)
    sums = result + width
    set_int_at(p, R.T_SUMS, sums)
    place(p, ELEMENT_BAR, sums + 8 * captures, 0)
    rows = int_at(p, R.T_ROWS)
    for k in range(2 * int_at(loop, S_CARRY)):
        set_double_at(rows, k, 0.0)
    copy_bytes(rows + (count & 1) * width, seeds, width)
    log = head + 8 * HEAD
    store = log + 8 * logged(loop)
    hold(p)
    why, coarse, last = R.MORE, (count + stride - 1) // stride, count
    if bounded:
        coarse, last = _coarse(loop), dense
        why = pull(p, dense, count, store + coarse * width, log)
    elif stride == 1 and capacity > 0:
        why, last = pull(p, 0, count, store, log), 0
    if capacity == 0 or coarse <= 0:
        if last > 0:
            why = back_between(p, q, loop, 0, last, carry)
    else:
        # From one kept carry over the next ones, as far as there is room: to begin costs as much as many iterations.
        k, several = (last + stride - 1) // stride, max(1, room // stride)
        while k > 0 and why == R.MORE:
            first = max(0, k - several)
            why = back_between(p, q, loop, first * stride, min(last, k * stride), store + first * width)
            k = first
    let_go(p)
    copy_bytes(result, rows, width)
    release(scratch)
    release(q)
    release(p)
    return why
