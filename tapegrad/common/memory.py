"""Giving freed memory back to the system, and when Python does not look for garbage.

glibc keeps freed blocks below one that is still in use; during a backward pass
that is the rule, because adjoints are allocated after the values.  So after
every `TRIMMED` bytes let go the allocator is asked to return what it can.
"""

import ctypes
import gc
import sys
from contextlib import contextmanager
from functools import cache

from .config import portable

#: Bytes let go between two requests (a request costs about a millisecond).
TRIMMED = 64 << 20


@cache
def _malloc_trim():
    """glibc's ``malloc_trim``, or None elsewhere."""
    return None if portable or sys.platform != "linux" else getattr(ctypes.CDLL(None), "malloc_trim", None)


@contextmanager
def without_collection():
    """Python's search for garbage in cycles put off: among the many objects of a compilation it takes much of the time."""
    was = gc.isenabled()
    try:
        gc.disable()
        yield
    finally:
        if was:
            gc.enable()


def trim():
    """Ask the C library to return freed memory to the system, where it can."""
    function = _malloc_trim()
    if function is not None:
        function(0)
