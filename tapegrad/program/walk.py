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
    fill_bytes,
    free_block,
    load_double,
    load_int,
    new_block,
    store_double,
    store_int,
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
    stream, records = load_int(p + 8 * P_STREAM), load_int(p + 8 * W_RECORDS)
    values, run, scratch = load_int(p + 8 * P_VALUES), load_int(p + 8 * W_RUN), load_int(p + 8 * W_SCRATCH)
    regs = scratch + REGISTERS_AT
    at = stream + 8 * load_int(p + 8 * P_AT)
    while True:
        code = load_int(at)
        if code == SCALARS:
            after = call4_int(values, records, 0, load_int(at + 8), load_int(at + 16))
            if after <= load_int(at + 16):
                store_int(p + 8 * P_STOPPED, after)
                return UNKNOWN
            at += 24
        elif code == PROGRAM:
            count = load_int(at + 24)
            for k in range(count):
                store_int(regs + 8 * load_int(at + 32 + 16 * k), load_int(at + 40 + 16 * k))
            if call6_int(run, load_int(at + 8), regs, records, 0, load_int(at + 16), scratch) != 0:
                store_int(p + 8 * P_STOPPED, load_int(at + 16))
                return FAILED
            at += 32 + 16 * count
        elif code == COMPARE:
            how, x, y = load_int(at + 16), load_double(load_int(at + 24)), load_double(load_int(at + 32))
            outcome = (
                x < y if how == 0 else x <= y if how == 1 else x > y if how == 2 else x >= y if how == 3
                else x == y if how == 4 else x != y
            )
            if outcome != (load_int(at + 40) != 0):
                store_int(p + 8 * P_STOPPED, load_int(at + 8))
                return AT_GUARD
            at += 48
        elif code == GUARD:
            if differ(load_int(at + 16), load_int(at + 32), load_int(at + 24)) != 0:
                store_int(p + 8 * P_STOPPED, load_int(at + 8))
                return AT_GUARD
            at += 40
        elif code == COLLECT:
            target, count = load_int(at + 8), load_int(at + 16)
            for k in range(count):
                store_double(target + 8 * k, load_double(load_int(at + 24 + 8 * k)))
            at += 24 + 8 * count
        elif code == HOST:
            store_int(p + 8 * P_STOPPED, load_int(at + 8))
            store_int(p + 8 * P_AT, (at + 16 - stream) // 8)
            return AT_HOST
        else:
            return DONE


@compiled("void(int64)")
def enter(p):
    """Bring the inputs to their slots."""
    records, inputs = load_int(p + 8 * W_RECORDS), load_int(p + 8 * P_INPUTS)
    at = load_int(p + 8 * P_ELEMENTS)
    count = load_int(at)
    at += 8
    for _ in range(count):
        value = load_double(load_int(inputs + 8 * load_int(at)) + 8 * load_int(at + 8))
        store_double(records + SIZE * load_int(at + 16) + VALUE, value)
        at += 24
    at = load_int(p + 8 * P_ARRAYS)
    count = load_int(at)
    at += 8
    for _ in range(count):
        copy_bytes(load_int(at + 8), load_int(inputs + 8 * load_int(at)), load_int(at + 16))
        at += 24
    store_int(p + 8 * P_AT, 0)


@compiled("int64(int64)")
def seed(p):
    """Zero the adjoints, but for the seeds; returns the highest slot of these, above which there is nothing to sweep."""
    adjoint, kept = load_int(p + 8 * W_ADJOINT), load_int(load_int(p + 8 * W_SCRATCH) + KEPT_AT)
    fill_bytes(adjoint, 0, 8 * load_int(p + 8 * W_SLOTS))
    # Seeds: (slot, address, nbytes of an array or 0); each slot once.
    at = load_int(p + 8 * P_SEEDS)
    count, highest = load_int(at), 0
    at += 8
    for _ in range(count):
        slot, seed, nbytes = load_int(at), load_int(at + 8), load_int(at + 16)
        word, highest = adjoint + 8 * slot, max(highest, slot)
        if nbytes == 0:
            store_double(word, load_double(word) + load_double(seed))
        else:
            store_int(word, new_block(kept, nbytes, 0))
            copy_bytes(load_int(word), seed, nbytes)
        at += 24
    return highest


@compiled("int64(int64, int64, int64)")
def sweep(p, high, low):
    """Sweep back from `high` to `low`; returns `DONE`, or `UNKNOWN`."""
    at = reverse(p, high, low, 0)
    if at < low - 1:
        store_int(p + 8 * P_STOPPED, NOT_KNOWN - at)
        return UNKNOWN
    return DONE


@compiled("void(int64)")
def deliver(p):
    """Bring the gradients out."""
    adjoint, kept = load_int(p + 8 * W_ADJOINT), load_int(load_int(p + 8 * W_SCRATCH) + KEPT_AT)
    # Gradients: (target, nbytes, slot of the array or 0), then elements (target, slot).
    at = load_int(p + 8 * P_GRADIENTS)
    count = load_int(at)
    at += 8
    for _ in range(count):
        target, nbytes, slot = load_int(at), load_int(at + 8), load_int(at + 16)
        gradient = load_int(adjoint + 8 * slot) if slot != 0 else 0
        if gradient != 0:
            copy_bytes(target, gradient, nbytes)
            free_block(kept, gradient)
            store_int(adjoint + 8 * slot, 0)
        else:
            fill_bytes(target, 0, nbytes)
        at += 24
    count = load_int(at)
    at += 8
    for _ in range(count):
        target = load_int(at)
        store_double(target, load_double(target) + load_double(adjoint + 8 * load_int(at + 8)))
        at += 16


@compiled("int64(int64)")
def backward(p):
    """Sweep back from the seeds, and bring the gradients out; returns what `sweep` does."""
    why = sweep(p, seed(p), load_int(p + 8 * P_LOW))
    if why == DONE:
        deliver(p)
    return why


@compiled("int64(int64, int64, int64, int64)")
def rows(p, start, stop, copies):
    """`backward` for lists of seeds that follow one another at ``p[P_SEEDS]``, which is moved on; returns what `sweep` does.

    The gradients become the rows from `start` to `stop` of matrices of zeros.  `copies`: (matrix, gradient, bytes), after their number.
    """
    for row in range(start, stop):
        seeds = load_int(p + 8 * P_SEEDS)
        if load_int(seeds) != 0:
            why = backward(p)
            if why != DONE:
                return why
            for k in range(load_int(copies)):
                at = copies + 8 + 24 * k
                copy_bytes(load_int(at) + row * load_int(at + 16), load_int(at + 8), load_int(at + 16))
        store_int(p + 8 * P_SEEDS, seeds + 8 + 24 * load_int(seeds))
    return DONE


@compiled("int64(int64)")
def resume(p):
    """Go on after a host step."""
    why = forward(p)
    if why != DONE:
        return why
    if load_int(p + 8 * P_BACKWARD) != 0:
        return backward(p)
    return DONE


@compiled("int64(int64)")
def replay(p):
    """Inputs, values and guards; then, with ``p[P_BACKWARD]``, the gradients."""
    enter(p)
    return resume(p)
