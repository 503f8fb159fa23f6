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

Iterations that are for themselves, those of a loop that carries nothing, run in chunks which threads may share (`codegen.memory`).  Chunks are
made by the number of iterations alone, each writes to places of its own, and the sums over iterations (adjoints of captured values) are added
up chunk by chunk, in their order: so the bits are the same whatever the number of threads is, and whichever does what.  The words of a *job* (`J_*`)
say what is run; behind them are, for each chunk, its next iteration and why it has ended (`program.stretch`).  A chunk that meets a path
which is not known ends there; the others go on, and it goes on when the path has been recorded.

Reference: A. Griewank, A. Walther: Algorithm 799: Revolve. ACM TOMS 26 (2000) 19-45.  Strides that double: P. Stumm, A. Walther: New
algorithms for optimal online checkpointing. SIAM J. Sci. Comput. 32 (2010) 836-854.
"""

from ..codegen.compile import compiled, helper
from ..codegen.memory import allocate, call5, call6_int, copy_bytes, double_at, fill, int_at, release, set_double_at, set_int_at
from ..codegen.python_api import check_signals, ensure_interpreter, forget, has_interpreter, raise_later, release_interpreter
from ..rules.loops import CAPTURED, CAPTURED_BAR, ELEMENT, ELEMENT_BAR, HEAD, RESULT, RESULT_BAR
from . import stretch as R
from .stretch import advance, hold, let_go, place, pull

#: Words of a loop: lengths of carry, captured values, element and result; rows (iterations, 0 if these are not known), whether they are
#: known, whether it goes from the end; carries kept, the iteration from which on all are, and how many are computed again at a
#: time; the generation, iterations that were run, the address of the class of interruptions, and of `back_between`, which calls itself;
#: of iterations that carry nothing what shares chunks between threads (0: nothing), what runs one, and how many there are.
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


@helper
def _ended(loop, z, iterations, stride, generation):
    """Write the head of what is kept."""
    head = kept_of(loop, z)
    set_double_at(head, 0, float(iterations))
    set_double_at(head, 1, float(stride))
    set_double_at(head, 2, float(generation))
    set_int_at(loop, S_ITERATIONS, int_at(loop, S_ITERATIONS) + iterations)


@compiled("void(int64, int64, int64, int64)")
def end(p, loop, generation, z):
    """Write what there is besides the results."""
    iteration, width = int_at(p, R.T_ITERATION), int_at(p, R.T_WIDTH)
    copy_bytes(z, int_at(p, R.T_ROWS) + (iteration & 1) * width, width)
    _ended(loop, z, iteration, int_at(p, R.T_STRIDE), generation)


@helper
def interrupted(loop):
    """Whether there was an interruption; if so, it is raised where Python goes on."""
    state = ensure_interpreter()
    found = check_signals()
    if found != 0:
        forget()
        raise_later(int_at(loop, S_INTERRUPT))
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
def carried_forward(loop, carry, captured, xs, z):
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
def carried_back(loop, seeds, carry, captured, xs, z, result):
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
    fill(rows, 0, 2 * width)
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


# ---- iterations that are for themselves -------------------------------------------------

#: Words of a job: the loop; the generation; addresses of captured values, elements, and of what a loop gives; on the way back those of adjoints
#: of results (else 0), of the adjoints of the operands, and of the sums of each chunk.
J_LOOP, J_GENERATION, J_CAPTURED, J_XS, J_Z, J_SEEDS, J_RESULT, J_SUMS, J_STATES = range(9)
#: Words of the state of a chunk.
STATE = 2
#: Chunks of a loop, at most, and iterations of one, at least; numbers that all sums over iterations take together, at most.
MOST, LEAST, ROOM = 32, 16, 1 << 22
#: Numbers that the iterations of a loop compute, all together, from which on threads share it.
WORK = 400_000


def chunks_of(rows, captured):
    """The number of chunks of so many iterations."""
    return max(1, min(MOST, -(-rows // LEAST), ROOM // max(1, captured)))


@helper
def _first(loop, k):
    """The first iteration of a chunk."""
    return k * int_at(loop, S_ROWS) // int_at(loop, S_CHUNKS)


@helper
def _forward(job, loop, iteration, last):
    """Iterations of a chunk forward; the next one, and why it has ended."""
    z = int_at(job, J_Z)
    p = prepared(loop, int_at(job, J_GENERATION), 0, int_at(job, J_CAPTURED), int_at(job, J_XS))
    if p == 0:
        return iteration, R.NO_MEMORY
    begin_run(p, loop, z, z)
    set_int_at(p, R.T_ITERATION, iteration)
    why = iterate(p, loop, last)
    iteration = int_at(p, R.T_ITERATION)
    release(p)
    return iteration, why


@helper
def _back(job, loop, k, first, last):
    """Iterations of a chunk back."""
    p = prepared(loop, int_at(job, J_GENERATION), 1, int_at(job, J_CAPTURED), int_at(job, J_XS))
    if p == 0:
        return R.NO_MEMORY
    captures, result = int_at(loop, S_CAPTURED), int_at(job, J_RESULT)
    place(p, RESULT_BAR, int_at(job, J_SEEDS), 0)
    place(p, ELEMENT_BAR, result + 8 * captures, 0)
    set_int_at(p, R.T_SUMS, int_at(job, J_SUMS) + 8 * captures * k)
    hold(p)
    why = pull(p, first, last, 0, kept_of(loop, int_at(job, J_Z)) + 8 * HEAD + first)
    let_go(p)
    release(p)
    return why


@compiled("void(int64, int64, int64, int64)")
def chunk(job, _, __, k):
    """Run what is left of a chunk."""
    loop, state = int_at(job, 0), job + 8 * (J_STATES + STATE * k)
    iteration, last = int_at(state, 0), _first(loop, k + 1)
    if int_at(job, J_SEEDS) != 0:
        set_int_at(state, 1, _back(job, loop, k, iteration, last))
    elif iteration < last:
        iteration, why = _forward(job, loop, iteration, last)
        set_int_at(state, 0, iteration, 1, why)


@compiled("void(int64)")
def begin_job(job):
    """Let each chunk begin."""
    loop = int_at(job, 0)
    for k in range(int_at(loop, S_CHUNKS)):
        state = job + 8 * (J_STATES + STATE * k)
        set_int_at(state, 0, _first(loop, k), 1, R.MORE)


@compiled("int64(int64)")
def run(job):
    """Run what is left of each chunk; returns why the worst has ended."""
    loop = int_at(job, 0)
    chunks, share, why = int_at(loop, S_CHUNKS), int_at(loop, S_SHARE), R.MORE
    # (Iterations may have to wait for the interpreter's lock: the thread that has it waits for no other.)
    if share != 0 and has_interpreter() == 0:
        call5(share, int_at(loop, S_CHUNK), job, 0, 0, chunks)
    else:
        for k in range(chunks):
            chunk(job, 0, 0, k)
    for k in range(chunks):
        why = max(why, int_at(job, 1 + J_STATES + STATE * k))
    return why


@helper
def _job(loop, generation, captured, xs, z, seeds, result):
    """The words of a job; 0 if there is no memory."""
    chunks, captures = int_at(loop, S_CHUNKS), int_at(loop, S_CAPTURED)
    words = J_STATES + STATE * chunks
    job = allocate(8 * (words + (chunks * captures if seeds != 0 else 0)))
    if job != 0:
        set_int_at(job, J_LOOP, loop, J_GENERATION, generation, J_CAPTURED, captured, J_XS, xs,
                        J_Z, z, J_SEEDS, seeds, J_RESULT, result, J_SUMS, job + 8 * words)  # fmt: skip
        begin_job(job)
    return job


@compiled("void(int64, int64)")
def end_job(job, z):
    """Write what there is besides the results."""
    loop = int_at(job, 0)
    _ended(loop, z, int_at(loop, S_ROWS), 1, int_at(job, J_GENERATION))


@compiled("int64(int64, int64, int64, int64, int64, int64, int64)")
def back(loop, seeds, carry, captured, xs, z, result):
    """As `carried_back`, of any loop."""
    if int_at(loop, S_CHUNKS) == 0:
        return carried_back(loop, seeds, carry, captured, xs, z, result)
    head, captures = kept_of(loop, z), int_at(loop, S_CAPTURED)
    generation = int(double_at(head, 2))
    # What is kept may come from a file.
    if int(double_at(head, 0)) != int_at(loop, S_ROWS) or generation < 0 or generation > 1:
        return R.UNKNOWN
    job = _job(loop, generation, captured, xs, z, seeds, result)
    if job == 0:
        return R.NO_MEMORY
    sums, chunks = int_at(job, J_SUMS), int_at(loop, S_CHUNKS)
    fill(sums, 0, 8 * chunks * captures)
    why = run(job)
    for k in range(chunks):
        for j in range(captures):
            set_double_at(result, j, double_at(result, j) + double_at(sums, k * captures + j))
    release(job)
    return why


@compiled("int64(int64, int64, int64, int64, int64)")
def forward(loop, carry, captured, xs, z):
    """As `carried_forward`, of any loop."""
    if int_at(loop, S_CHUNKS) == 0:
        return carried_forward(loop, carry, captured, xs, z)
    job = _job(loop, int_at(loop, S_GENERATION), captured, xs, z, 0, 0)
    if job == 0:
        return R.NO_MEMORY
    why = run(job)
    if why == R.MORE:
        end_job(job, z)
    release(job)
    return why


# ---- as the loop of a ufunc -------------------------------------------------------------


@compiled("void(int64, int64, int64, int64)")
def forward_call(args, dims, steps, loop):
    """`forward` of carry, captured values, rows, result, and a number: whether all is well."""
    why = forward(loop, int_at(args, 0), int_at(args, 1), int_at(args, 2), int_at(args, 3))
    set_double_at(int_at(args, 4), 0, 1.0 if why <= R.STOPPED else 0.0)


@compiled("void(int64, int64, int64, int64)")
def back_call(args, dims, steps, loop):
    """`back` of adjoints, carry, captured values, rows, what is kept, result, and a number: whether all is well."""
    result = int_at(args, 5)
    length = int_at(loop, S_CARRY) + int_at(loop, S_CAPTURED)
    # (Where nothing is carried, each iteration writes the adjoints of its element.)
    if int_at(loop, S_CHUNKS) == 0:
        length += int_at(loop, S_ROWS) * int_at(loop, S_ELEMENT)
    fill(result, 0, 8 * length)
    why = back(loop, int_at(args, 0), int_at(args, 1), int_at(args, 2), int_at(args, 3), int_at(args, 4), result)
    set_double_at(int_at(args, 6), 0, 1.0 if why == R.MORE else 0.0)
