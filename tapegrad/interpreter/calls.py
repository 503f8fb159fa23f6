"""Loops in the form of a ufunc's, called over the dimensions around them: the step `interpreter.program.CALL`."""

from __future__ import annotations

from ..codegen.compile import compiled, helper
from ..codegen.memory import call4, load_byte, load_double, load_int, load_int32, store_byte, store_int, store_int32


@helper
def call_loop(regs, p, scratch):
    """Call the loop whose words are at `p`."""
    loop, data, nargs = load_int(p), load_int(p + 8), load_int(p + 16)
    args = p + 24
    ndims = load_int(args + 16 * nargs)
    dims = args + 16 * nargs + 8
    nsteps = load_int(dims + 8 * ndims)
    steps = dims + 8 * ndims + 8
    batch = steps + 8 * nsteps
    nbatch = load_int(batch)
    batch += 8
    counts = scratch + 8 * nargs
    # A loop may advance the pointers it is given: it gets a copy.
    passed = counts + 512
    for k in range(nargs):
        store_int(scratch + 8 * k, load_int(regs + 8 * load_int(args + 16 * k)) + load_int(args + 16 * k + 8))
    for d in range(nbatch):
        store_int(counts + 8 * d, 0)
    while True:
        for k in range(nargs):
            store_int(passed + 8 * k, load_int(scratch + 8 * k))
        call4(loop, passed, dims, steps, data)
        d = nbatch - 1
        while d >= 0:
            row = batch + 8 * d * (nargs + 1)
            n = load_int(row)
            count = load_int(counts + 8 * d) + 1
            for k in range(nargs):
                store_int(scratch + 8 * k, load_int(scratch + 8 * k) + load_int(row + 8 + 8 * k))
            store_int(counts + 8 * d, count)
            if count < n:
                break
            store_int(counts + 8 * d, 0)
            for k in range(nargs):
                store_int(scratch + 8 * k, load_int(scratch + 8 * k) - n * load_int(row + 8 + 8 * k))
            d -= 1
        if d < 0:
            return


@helper
def _whole(address, kind):
    """The number at an address as an integer; `kind` is its dtype's place in `program.CASTS`."""
    if kind == 0:
        return int(load_double(address))
    if kind == 1:
        return load_int(address)
    if kind == 2:
        return load_int32(address)
    if kind == 3:
        return (load_byte(address) ^ 128) - 128
    return load_byte(address)


@compiled("void(int64, int64, int64, int64)")
def cast(args, dims, steps, kinds):
    """The loop that converts numbers to integers or truth values, as NumPy does; `kinds` has those of the operand and of the result."""
    source, target, kind, other = load_int(args), load_int(args + 8), kinds // 8, kinds % 8
    for _ in range(load_int(dims)):
        if other == 5:
            store_byte(target, int(load_double(source) != 0.0 if kind == 0 else _whole(source, kind) != 0))
        elif other == 1:
            store_int(target, _whole(source, kind))
        elif other == 2:
            store_int32(target, _whole(source, kind))
        else:
            store_byte(target, _whole(source, kind))
        source += load_int(steps)
        target += load_int(steps + 8)
