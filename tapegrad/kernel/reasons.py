"""Why a tape has no kernel."""

from __future__ import annotations

import os
import traceback
from contextlib import contextmanager

from ..common import config
from .prediction import TooDear


class NotLowered(Exception):
    """A tape, or its derivative, cannot be lowered to machine code; the sweeps answer instead.

    Parameters
    ----------
    what : str
        The instruction and what it lacks.
    place : Place or None
        Where it was recorded.
    """

    def __init__(self, what, place=None):
        self.what, self.place = what, place
        super().__init__(what if place is None else f"{what}, recorded at {place}")


@contextmanager
def faults_are_reasons():
    """Inside, whatever fails of tapegrad itself is a reason not to have a kernel, not an error of who called a function.

    `NotLowered` then says what failed, and where.  With ``config.strict``, as in tapegrad's own tests, it is raised as it is.
    What is no fault, Ctrl-C or memory that has run out, is always raised.
    """
    try:
        yield
    except (NotLowered, TooDear, MemoryError):
        raise
    except Exception as fault:
        if config.strict:
            raise
        where = traceback.extract_tb(fault.__traceback__)[-1]
        source = f"{os.path.basename(os.path.dirname(where.filename))}/{os.path.basename(where.filename)}:{where.lineno}"
        what = f"{type(fault).__name__} ({fault})" if str(fault) else type(fault).__name__
        raise NotLowered(f"making its kernel failed inside of tapegrad, with {what} in {source}; please report this") from fault
