"""Iterations that are for themselves: those of a loop that carries nothing, in chunks which threads may share (`codegen.memory`).

Chunks are made by the number of iterations alone, each writes to places of its own, and the sums over iterations (adjoints of captured values) are
added up chunk by chunk, in their order: so the bits are the same whatever the number of threads is, and whichever does what.

The words of a *job* (`J_*`) say what is run; behind them are, for each chunk, its next iteration and why it has ended (`program.stretch`).
A chunk that meets a path which is not known ends there; the others go on, and it goes on when the path has been recorded.
"""

from ..codegen.compile import compiled, helper
from ..codegen.memory import allocate, c_function, double_at, fill_bytes, int_at, release, set_double_at, set_int_at, store_double
from ..rules.loops import ELEMENT_BAR, HEAD, RESULT_BAR
from . import iterations as T
from . import stretch as R
from .iterations import back as carried_back
from .iterations import begin_run, iterate, kept_of, prepared
from .iterations import forward as carried_forward
from .stretch import hold, let_go, place, pull

#: Words of a job: the loop; the generation; addresses of captured values, elements, and of what a loop gives; on the way back those of adjoints
#: of results (else 0), of the adjoints of the operands, and of the sums of each chunk.
J_LOOP, J_GENERATION, J_CAPTURED, J_XS, J_Z, J_SEEDS, J_RESULT, J_SUMS, J_STATES = range(9)
#: Words of the state of a chunk.
STATE = 2
#: Chunks of a loop, at most, and iterations of one, at least; numbers that all sums over iterations take together, at most.
MOST, LEAST, ROOM = 32, 16, 1 << 22
#: Numbers that the iterations of a loop compute, all together, from which on threads share it.
WORK = 400_000

#: ``void spread(chunk, job, 0, 0, count)``; whether this thread has the interpreter's lock.
spread = c_function(None, "void", *["int64"] * 5)
has_interpreter = c_function("PyGILState_Check", "int32")


def chunks_of(rows, captured):
    """The number of chunks of so many iterations."""
    return max(1, min(MOST, -(-rows // LEAST), ROOM // max(1, captured)))


@helper
def _first(loop, k):
    """The first iteration of a chunk."""
    return k * int_at(loop, T.S_ROWS) // int_at(loop, T.S_CHUNKS)


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
    captures, result = int_at(loop, T.S_CAPTURED), int_at(job, J_RESULT)
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
    for k in range(int_at(loop, T.S_CHUNKS)):
        state = job + 8 * (J_STATES + STATE * k)
        set_int_at(state, 0, _first(loop, k), 1, R.MORE)


@compiled("int64(int64)")
def run(job):
    """Run what is left of each chunk; returns why the worst has ended."""
    loop = int_at(job, 0)
    chunks, share, why = int_at(loop, T.S_CHUNKS), int_at(loop, T.S_SHARE), R.MORE
    # (Iterations may have to wait for the interpreter's lock: the thread that has it waits for no other.)
    if share != 0 and has_interpreter() == 0:
        spread(share, int_at(loop, T.S_CHUNK), job, 0, 0, chunks)
    else:
        for k in range(chunks):
            chunk(job, 0, 0, k)
    for k in range(chunks):
        why = max(why, int_at(job, 1 + J_STATES + STATE * k))
    return why


@helper
def _job(loop, generation, captured, xs, z, seeds, result):
    """The words of a job; 0 if there is no memory."""
    chunks, captures = int_at(loop, T.S_CHUNKS), int_at(loop, T.S_CAPTURED)
    words = J_STATES + STATE * chunks
    job = allocate(8 * (words + (chunks * captures if seeds != 0 else 0)))
    if job != 0:
        set_int_at(job, J_LOOP, loop, J_GENERATION, generation, J_CAPTURED, captured, J_XS, xs,
                        J_Z, z, J_SEEDS, seeds, J_RESULT, result, J_SUMS, job + 8 * words)  # fmt: skip
        begin_job(job)
    return job


@compiled("void(int64, int64)")
def end(job, z):
    """Write what there is besides the results."""
    loop = int_at(job, 0)
    head, rows = kept_of(loop, z), int_at(loop, T.S_ROWS)
    set_double_at(head, 0, float(rows))
    set_double_at(head, 1, 1.0)
    set_double_at(head, 2, float(int_at(job, J_GENERATION)))
    set_int_at(loop, T.S_ITERATIONS, int_at(loop, T.S_ITERATIONS) + rows)


@compiled("int64(int64, int64, int64, int64, int64, int64, int64)")
def back(loop, seeds, carry, captured, xs, z, result):
    """As `iterations.back`, of any loop."""
    if int_at(loop, T.S_CHUNKS) == 0:
        return carried_back(loop, seeds, carry, captured, xs, z, result)
    head, captures = kept_of(loop, z), int_at(loop, T.S_CAPTURED)
    generation = int(double_at(head, 2))
    # What is kept may come from a file.
    if int(double_at(head, 0)) != int_at(loop, T.S_ROWS) or generation < 0 or generation > 1:
        return R.UNKNOWN
    job = _job(loop, generation, captured, xs, z, seeds, result)
    if job == 0:
        return R.NO_MEMORY
    sums, chunks = int_at(job, J_SUMS), int_at(loop, T.S_CHUNKS)
    fill_bytes(sums, 0, 8 * chunks * captures)
    why = run(job)
    for k in range(chunks):
        for j in range(captures):
            set_double_at(result, j, double_at(result, j) + double_at(sums, k * captures + j))
    release(job)
    return why


@compiled("int64(int64, int64, int64, int64, int64)")
def forward(loop, carry, captured, xs, z):
    """As `iterations.forward`, of any loop."""
    if int_at(loop, T.S_CHUNKS) == 0:
        return carried_forward(loop, carry, captured, xs, z)
    job = _job(loop, int_at(loop, T.S_GENERATION), captured, xs, z, 0, 0)
    if job == 0:
        return R.NO_MEMORY
    why = run(job)
    if why == R.MORE:
        end(job, z)
    release(job)
    return why


# ---- as the loop of a ufunc -------------------------------------------------------------


@compiled("void(int64, int64, int64, int64)")
def forward_call(args, dims, steps, loop):
    """`forward` of carry, captured values, rows, result, and a number: whether all is well."""
    why = forward(loop, int_at(args, 0), int_at(args, 1), int_at(args, 2), int_at(args, 3))
    store_double(int_at(args, 4), 1.0 if why <= R.STOPPED else 0.0)


@compiled("void(int64, int64, int64, int64)")
def back_call(args, dims, steps, loop):
    """`back` of adjoints, carry, captured values, rows, what is kept, result, and a number: whether all is well."""
    result = int_at(args, 5)
    length = int_at(loop, T.S_CARRY) + int_at(loop, T.S_CAPTURED)
    # (Where nothing is carried, each iteration writes the adjoints of its element.)
    if int_at(loop, T.S_CHUNKS) == 0:
        length += int_at(loop, T.S_ROWS) * int_at(loop, T.S_ELEMENT)
    fill_bytes(result, 0, 8 * length)
    why = back(loop, int_at(args, 0), int_at(args, 1), int_at(args, 2), int_at(args, 3), int_at(args, 4), result)
    store_double(int_at(args, 6), 1.0 if why == R.MORE else 0.0)
