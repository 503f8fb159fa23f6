"""From a finished tape to the loop program of its kernel."""

import time

import numpy as np

from . import ir, roll
from .build import build
from .columns import columns
from .cut import buffers
from .passes import run_passes
from .reasons import NotLowered, TooDear, compilation

#: Bytes that temporaries may take together.
MOST = 1 << 30
#: Instructions up to which a program is not rolled, if most are of arrays.
_SHORT = 300


def rolled(columns):
    """The structure of a tape's columns (`roll.find`)."""
    # In a short program of arrays every instruction stands for itself: each may then share a loop over elements with
    # others, which is worth more than a loop over a few instructions.
    alone = len(columns.code) <= min(_SHORT, 2 * np.count_nonzero(columns.item >= 0))
    return roll.find(np.arange(len(columns.code)) if alone else columns.code, columns.pairs())


class Stages(dict):
    """The seconds of each stage, by name; `done` ends one."""

    def __init__(self):
        self._clock = time.perf_counter()

    def done(self, stage):
        """The stage of this name began where the one before ended, and ends now."""
        now = time.perf_counter()
        self[stage], self._clock = now - self._clock, now


def lower(tape, seconds=None, limit=None, views=False):
    """The loop program of `tape`.

    Parameters
    ----------
    tape : FinishedTape
    seconds : Stages, optional
        Receives the time of each stage.
    limit : float, optional
        Of the steps that its kernel is predicted to cost, once the program is rolled.
    views : bool
        Whether outputs may be parts of others (`program.executable.Executable.views`).

    Returns
    -------
    LoopProgram

    Raises
    ------
    NotLowered
        Some instruction cannot be machine code; the message names it.
    TooDear
        It would cost more than `limit`.
    """
    seconds = Stages() if seconds is None else seconds
    flat = columns(tape)
    seconds.done("columns")
    structure = rolled(flat)
    seconds.done("roll")
    if limit is not None and (steps := compilation(flat, structure)) > limit:
        raise TooDear(steps)
    program = build(flat, structure, views)
    seconds.done("build")
    run_passes(program)
    seconds.done("passes")
    stored = sum(buffer.nbytes for buffer in buffers(program.body) if buffer.role == ir.TEMPORARY)
    if stored > MOST:
        raise NotLowered(f"values that are needed later take {stored >> 20} MiB")
    return program
