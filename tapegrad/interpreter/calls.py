"""Loops in the form of a ufunc's, called over the dimensions around them: the step `interpreter.program.CALL`."""

from __future__ import annotations

from ..codegen.compile import helper
from ..codegen.memory import call4, load_int, store_int


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
