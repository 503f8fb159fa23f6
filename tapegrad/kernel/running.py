"""Compiled code that calls kernels: by a frame's address, and straight from a tuple of Python objects."""

from __future__ import annotations

from ..native.compile import compiled
from ..native.memory import call3_int, load_double, load_int, store_int
from ..replay.walk import DONE, read_arguments

#: Words of a frame: address of the machine code, of the inputs' and outputs' addresses, of the workspace; the status of
#: the last call; where the value is.
F_CODE, F_INPUTS, F_OUTPUTS, F_WORKSPACE, F_STATUS, F_VALUE = range(6)
FRAME = 6

#: Status of a frame whose arguments were of another kind, or whose surroundings have changed.
OTHER = -3


@compiled("int64(int64)")
def run_kernel(frame):
    """Call the kernel of `frame`; returns its status (`kernel.emit`)."""
    return call3_int(
        load_int(frame + 8 * F_CODE), load_int(frame + 8 * F_INPUTS), load_int(frame + 8 * F_OUTPUTS), load_int(frame + 8 * F_WORKSPACE)
    )


@compiled("float64(int64, int64, int64, int64)")
def quick_kernel(frame, spec, args, gradient):
    """Value of the kernel for a tuple of Python objects; NaN if anything is not as usual (see `F_STATUS`).

    `spec` is that of `replay.walk.read_arguments`, after a list of words that have
    to hold what they held: their number, then address and content of each.
    `gradient` is the address of an ndarray object that receives the gradient, or 0.
    """
    count = load_int(spec)
    at = spec + 8
    for _ in range(count):
        if load_int(load_int(at)) != load_int(at + 8):
            store_int(frame + 8 * F_STATUS, OTHER)
            return float("nan")
        at += 16
    if read_arguments(load_int(frame + 8 * F_INPUTS), at, args) != DONE:
        store_int(frame + 8 * F_STATUS, OTHER)
        return float("nan")
    if gradient != 0:
        store_int(load_int(frame + 8 * F_OUTPUTS) + 8, load_int(gradient + 16))
    status = run_kernel(frame)
    store_int(frame + 8 * F_STATUS, status)
    return load_double(load_int(frame + 8 * F_VALUE)) if status == -1 else float("nan")
