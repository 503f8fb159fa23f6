"""The compiled replay: values and guards forward, adjoints backward, gradients out.

A replay is one call of `replay` with the address of its parameters (`P_*` below,
an int64 array that belongs to a workspace).  The forward part interprets the
workspace's *stream*, int64 words ``[code, parameters...]``; runs of scalar
instructions are one step of it (`codegen.of_rows`), the value of an array
entry is a program (`program.values`) run by `interpreter.steps.run`.  The backward part
is the reverse sweep of define-by-run (`interpreter.walk.reverse`).

It stops, and returns why, at a guard that sees something else than at recording,
and at a *host* step, which only NumPy can do; the caller does that step and goes
on from there.
"""

from ..codegen.compile import compiled
from ..codegen.memory import (
    call4_int,
    call6_int,
    copy_bytes,
    differ,
    double_at,
    fill,
    free_block,
    int_at,
    new_block,
    set_double_at,
    set_int_at,
)
from ..interpreter.calls import SIZE
from ..interpreter.program import KEPT_AT, REGISTERS_AT, W_ADJOINT, W_RECORDS, W_RUN, W_SCRATCH, W_SLOTS, WORDS
from ..interpreter.program import UNKNOWN as NOT_KNOWN
from ..interpreter.walk import reverse
from ..tape.layout import VALUE

# Steps of a stream.
END = 0
SCALARS = 1  # low, high
PROGRAM = 2  # words, slot, operands, (register, address)*; the first is the result
HOST = 3  # number
GUARD = 4  # number, address, nbytes, address of what was seen
COMPARE = 5  # number, comparison, address, address, outcome seen
COLLECT = 6  # address, count, addresses of doubles
#: Ufunc -> comparison of a COMPARE step.
COMPARISONS = {"less": 0, "less_equal": 1, "greater": 2, "greater_equal": 3, "equal": 4, "not_equal": 5}

# Parameters of a replay: behind the words of a sweep (`interpreter.program.W_RECORDS` ...) addresses, unless said otherwise.
#
# P_HIGH, P_LOW               the first and the last slot that the way back visits
# P_SEEDS                     (slot, address of the seed, bytes of an array or 0), after their number; of `rows` one list after another
# P_GRADIENTS                 (target, bytes, slot), after their number; then (target, slot) of elements, after theirs
# P_AT, P_STOPPED             the word of the stream to go on at; the number of the guard, host step or slot it stopped at
# P_STREAM, P_VALUES          the stream; the scalar switch of values (`codegen.of_rows`)
# P_INPUTS                    addresses of the arguments' data: written at each call
# P_ELEMENTS                  (argument, position, slot), after their number
# P_ARRAYS                    (argument, where it is copied to, bytes), after their number
# P_BACKWARD                  whether gradients are wanted
(
    P_HIGH, P_LOW, P_SEEDS, P_GRADIENTS, P_AT, P_STOPPED, P_STREAM, P_VALUES, P_INPUTS, P_ELEMENTS, P_ARRAYS, P_BACKWARD,
) = range(WORDS, WORDS + 12)  # fmt: skip
PARAMETERS = WORDS + 12

#: What `replay` returns; UNKNOWN: at a scalar instruction that the switch does not know; FAILED: where a call in a program has failed.
DONE, AT_HOST, AT_GUARD, FAILED, UNKNOWN = range(5)


@compiled("int64(int64)")
def forward(p):
    """Go on with the stream at word ``p[P_AT]``; returns why it stopped, and at what in ``p[P_STOPPED]``."""
    stream, records = int_at(p, P_STREAM), int_at(p, W_RECORDS)
    values, run, scratch = int_at(p, P_VALUES), int_at(p, W_RUN), int_at(p, W_SCRATCH)
    regs = scratch + REGISTERS_AT
    at = stream + 8 * int_at(p, P_AT)
    while True:
        code = int_at(at, 0)
        if code == SCALARS:
            after = call4_int(values, records, 0, int_at(at, 1), int_at(at, 2))
            if after <= int_at(at, 2):
                set_int_at(p, P_STOPPED, after)
                return UNKNOWN
            at += 24
        elif code == PROGRAM:
            count = int_at(at, 3)
            for k in range(count):
                set_int_at(regs, int_at(at, 4 + 2 * k), int_at(at, 5 + 2 * k))
            if call6_int(run, int_at(at, 1), regs, records, 0, int_at(at, 2), scratch) != 0:
                set_int_at(p, P_STOPPED, int_at(at, 2))
                return FAILED
            at += 32 + 16 * count
        elif code == COMPARE:
            how, x, y = int_at(at, 2), double_at(int_at(at, 3), 0), double_at(int_at(at, 4), 0)
            outcome = (
                x < y if how == 0 else x <= y if how == 1 else x > y if how == 2 else x >= y if how == 3
                else x == y if how == 4 else x != y
            )
            if outcome != (int_at(at, 5) != 0):
                set_int_at(p, P_STOPPED, int_at(at, 1))
                return AT_GUARD
            at += 48
        elif code == GUARD:
            if differ(int_at(at, 2), int_at(at, 4), int_at(at, 3)) != 0:
                set_int_at(p, P_STOPPED, int_at(at, 1))
                return AT_GUARD
            at += 40
        elif code == COLLECT:
            target, count = int_at(at, 1), int_at(at, 2)
            for k in range(count):
                set_double_at(target, k, double_at(int_at(at, 3 + k), 0))
            at += 24 + 8 * count
        elif code == HOST:
            set_int_at(p, P_STOPPED, int_at(at, 1), P_AT, (at + 16 - stream) // 8)
            return AT_HOST
        else:
            return DONE


@compiled("void(int64)")
def enter(p):
    """Bring the inputs to their slots."""
    records, inputs = int_at(p, W_RECORDS), int_at(p, P_INPUTS)
    at = int_at(p, P_ELEMENTS)
    for row in range(at + 8, at + 8 + 24 * int_at(at, 0), 24):
        value = double_at(int_at(inputs, int_at(row, 0)), int_at(row, 1))
        set_double_at(records + SIZE * int_at(row, 2) + VALUE, 0, value)
    at = int_at(p, P_ARRAYS)
    for row in range(at + 8, at + 8 + 24 * int_at(at, 0), 24):
        copy_bytes(int_at(row, 1), int_at(inputs, int_at(row, 0)), int_at(row, 2))
    set_int_at(p, P_AT, 0)


@compiled("int64(int64)")
def seed(p):
    """Zero the adjoints, but for the seeds; returns the highest slot of these, above which there is nothing to sweep."""
    adjoint, kept = int_at(p, W_ADJOINT), int_at(int_at(p, W_SCRATCH) + KEPT_AT, 0)
    fill(adjoint, 0, 8 * int_at(p, W_SLOTS))
    # Seeds: (slot, address, nbytes of an array or 0); each slot once.
    at, highest = int_at(p, P_SEEDS), 0
    for row in range(at + 8, at + 8 + 24 * int_at(at, 0), 24):
        slot, seed, nbytes = int_at(row, 0), int_at(row, 1), int_at(row, 2)
        word, highest = adjoint + 8 * slot, max(highest, slot)
        if nbytes == 0:
            set_double_at(word, 0, double_at(word, 0) + double_at(seed, 0))
        else:
            set_int_at(word, 0, new_block(kept, nbytes, 0))
            copy_bytes(int_at(word, 0), seed, nbytes)
    return highest


@compiled("int64(int64, int64, int64)")
def sweep(p, high, low):
    """Sweep back from `high` to `low`; returns `DONE`, or `UNKNOWN`."""
    at = reverse(p, high, low, 0)
    if at < low - 1:
        set_int_at(p, P_STOPPED, NOT_KNOWN - at)
        return UNKNOWN
    return DONE


@compiled("void(int64)")
def deliver(p):
    """Bring the gradients out."""
    adjoint, kept = int_at(p, W_ADJOINT), int_at(int_at(p, W_SCRATCH) + KEPT_AT, 0)
    # Gradients: (target, nbytes, slot of the array or 0), then elements (target, slot).
    at = int_at(p, P_GRADIENTS)
    end = at + 8 + 24 * int_at(at, 0)
    for row in range(at + 8, end, 24):
        target, nbytes, slot = int_at(row, 0), int_at(row, 1), int_at(row, 2)
        gradient = int_at(adjoint, slot) if slot != 0 else 0
        if gradient != 0:
            copy_bytes(target, gradient, nbytes)
            free_block(kept, gradient)
            set_int_at(adjoint, slot, 0)
        else:
            fill(target, 0, nbytes)
    for row in range(end + 8, end + 8 + 16 * int_at(end, 0), 16):
        target = int_at(row, 0)
        set_double_at(target, 0, double_at(target, 0) + double_at(adjoint, int_at(row, 1)))


@compiled("int64(int64)")
def backward(p):
    """Sweep back from the seeds, and bring the gradients out; returns what `sweep` does."""
    why = sweep(p, seed(p), int_at(p, P_LOW))
    if why == DONE:
        deliver(p)
    return why


@compiled("int64(int64, int64, int64, int64)")
def rows(p, start, stop, copies):
    """`backward` for lists of seeds that follow one another at ``p[P_SEEDS]``, which is moved on; returns what `sweep` does.

    The gradients become the rows from `start` to `stop` of matrices of zeros.  `copies`: (matrix, gradient, bytes), after their number.
    """
    for row in range(start, stop):
        seeds = int_at(p, P_SEEDS)
        if int_at(seeds, 0) != 0:
            why = backward(p)
            if why != DONE:
                return why
            for k in range(int_at(copies, 0)):
                at = copies + 8 + 24 * k
                copy_bytes(int_at(at, 0) + row * int_at(at, 2), int_at(at, 1), int_at(at, 2))
        set_int_at(p, P_SEEDS, seeds + 8 + 24 * int_at(seeds, 0))
    return DONE


@compiled("int64(int64)")
def resume(p):
    """Go on after a host step."""
    why = forward(p)
    if why != DONE:
        return why
    return backward(p) if int_at(p, P_BACKWARD) != 0 else DONE


@compiled("int64(int64)")
def replay(p):
    """Inputs, values and guards; then, with ``p[P_BACKWARD]``, the gradients."""
    enter(p)
    return resume(p)
