"""From a finished tape to the loop program of its kernel."""

from __future__ import annotations

import gc
import time
from contextlib import contextmanager

from . import roll
from .build import build
from .columns import columns
from .passes import run_passes


@contextmanager
def without_collection():
    """Python's search for garbage in cycles put off: among the many objects of a large program it takes most of the time."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def lower(tape, seconds=None):
    """The loop program of `tape`.

    Parameters
    ----------
    tape : FinishedTape
    seconds : dict, optional
        Receives the time of each stage, by name.

    Returns
    -------
    LoopProgram

    Raises
    ------
    NotLowered
        Some instruction cannot be machine code; the message names it.
    """
    seconds = {} if seconds is None else seconds
    clock = time.perf_counter()

    def done(stage):
        nonlocal clock
        now = time.perf_counter()
        seconds[stage], clock = now - clock, now

    with without_collection():
        flat = columns(tape)
        done("columns")
        structure = roll.find(flat.code, flat.pairs())
        done("roll")
        program = build(flat, structure)
        done("build")
        run_passes(program)
        done("passes")
    return program
