"""Settings, and the folder and key of compiled code.

The environment variable ``TAPEGRAD_CACHE_DIR`` names the cache directory; by
default it is the user's cache folder.  A directory that cannot be written is
reported once on the logger ``tapegrad`` and code is then kept in memory only.
``TAPEGRAD_CACHE_BYTES`` (and the variable `cache_bytes`) says how many bytes may be in it: what has not been used for longest is dropped.
``TAPEGRAD_KERNEL`` (and the variable `kernel`) says when tapes become machine code, ``TAPEGRAD_STRICT`` (and `strict`)
what becomes of faults of tapegrad itself while that is done, and ``TAPEGRAD_QUIET`` (and `quiet`) whether it is said what a call
waits for.  ``TAPEGRAD_THREADS`` (and `threads`) says how many threads share the work of one call (`common.pool`).
"""

import hashlib
import logging
import operator
import os
import sys
import types
from functools import cache
from pathlib import Path

import numpy as np

from .errors import OptionError
from .registry import registry

logger = logging.getLogger("tapegrad")

#: When replayed tapes become machine code, where a function is not told: "auto", "always" or "never" (`transforms.replay.function`).
kernel = os.environ.get("TAPEGRAD_KERNEL", "auto")

#: As tapegrad's own tests want it: a fault of its own while a kernel is made is raised, not just named in `stats()`, and
#: every result that is recorded is compared with its description (`tape.layout.checked`, from the import on).
strict = os.environ.get("TAPEGRAD_STRICT") == "1"

#: Whether nothing is written to standard error when a call waits long for tapegrad (`common.waiting`).
quiet = os.environ.get("TAPEGRAD_QUIET") == "1"

#: Paths that the body of a loop may take (`transforms.loops`), and bytes of carries that are kept for the way back where a loop is not told.
paths, memory = 16, 1 << 30


def _number(name, otherwise, what):
    """A whole number that the environment says."""
    try:
        return int(os.environ.get(name) or otherwise)
    except ValueError:
        raise ValueError(f"{name} is {os.environ[name]!r}; give a number of {what}") from None


def cores():
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


#: Bytes of compiled code on disk, at most (`codegen.disk`).
cache_bytes = _number("TAPEGRAD_CACHE_BYTES", 1 << 30, "bytes, as 1000000000")

#: Threads that `threads` may ask for, at most; and how many it asks for, where machine code finds it (`codegen.memory`).
MOST_THREADS, threads_word = 1024, np.zeros(1, np.int64)


class _Config(types.ModuleType):
    """This module: a number of threads that cannot be is refused where it is set, and who looks for NaN is told."""

    def __setattr__(self, name, value):
        if name == "threads":
            value = _set_threads("tg.config.threads", value)
        elif name == "debug_nans":
            if value not in (True, False):
                raise OptionError(f"tg.config.debug_nans is {value!r}; give True or False")
            value = bool(value)
            registry.later.debug_nans(value)
        super().__setattr__(name, value)


def _set_threads(name, count):
    try:
        number = operator.index(count)
    except TypeError:
        number = 0
    if not 1 <= number <= MOST_THREADS:
        raise OptionError(f"{name} is {count!r}; give a number of threads from 1 to {MOST_THREADS}: this process may use {cores()} cores")
    threads_word[0] = number
    return number


#: Threads that share the work of one call, the calling one among them (`common.pool`, `codegen.memory`).
threads = _set_threads("TAPEGRAD_THREADS", _number("TAPEGRAD_THREADS", min(cores(), MOST_THREADS), "threads, as 2"))
#: Whether NaN is looked for in all that is computed with derivatives (`autograd.anomaly`).
debug_nans = False
sys.modules[__name__].__class__ = _Config

#: As tapegrad's own tests want it, and for systems where something of that does not work: what only some systems have is not used.
#: These are libmvec (`codegen.host`), ``malloc_trim`` (`common.memory`) and locks on folders (`codegen.disk`).
portable = os.environ.get("TAPEGRAD_PORTABLE") == "1"


#: Whether numbers under recording are a native type (`interpreter.numbers`): "auto", if its code is at hand when the package is imported;
#: "always", compiled then if it has to be; or "never".
native = os.environ.get("TAPEGRAD_NATIVE", "auto")


def cache_dir():
    """The directory for compiled code (may not exist yet), as a `Path`."""
    chosen = os.environ.get("TAPEGRAD_CACHE_DIR")
    if chosen:
        return Path(chosen)
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or os.path.expanduser("~\\AppData\\Local")
    elif sys.platform == "darwin":
        base = os.path.expanduser("~/Library/Caches")
    else:
        base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(base) / "tapegrad"


@cache
def package_hash():
    """A digest of all sources of the package, by name and content."""
    here = str(Path(__file__).parents[1])
    folders, paths = [here], []
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.name.endswith(".py"):
                    paths.append(entry.path)
                elif entry.is_dir() and entry.name != "__pycache__":
                    folders.append(entry.path)
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(path[len(here) :].replace(os.sep, "/").encode() + b"\0")
        # Every first gradient waits for this: Python's own files would take longer.
        file = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        try:
            while part := os.read(file, 1 << 15):
                digest.update(part)
        finally:
            os.close(file)
        digest.update(b"\0")
    return digest.hexdigest()


@cache
def warn_no_cache(directory, reason):
    """Say once per directory that compiled code will not be kept."""
    logger.warning(
        "cannot use the cache directory %s (%s); compiling in memory. "
        "Set TAPEGRAD_CACHE_DIR to a writable directory to keep compiled code.",
        directory,
        reason,
    )
