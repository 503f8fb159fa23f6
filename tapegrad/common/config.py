"""Where compiled code is kept, and what this installation is made of.

The environment variable ``TAPEGRAD_CACHE_DIR`` names the cache directory; by
default it is the user's cache folder.  A directory that cannot be written is
reported once on the logger ``tapegrad`` and code is then kept in memory only.
``TAPEGRAD_KERNEL`` (and the variable `kernel`) says when tapes become machine code.
"""

from __future__ import annotations

import hashlib
import logging
import os
import sys
from functools import cache
from pathlib import Path

logger = logging.getLogger("tapegrad")

#: When replayed tapes become machine code, where a function is not told: "auto", "always" or "never" (`kernel.promotion`).
kernel = os.environ.get("TAPEGRAD_KERNEL", "auto")


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
    """A digest of the sources that compiled code depends on."""
    here = Path(__file__).parents[1]
    digest = hashlib.sha256(sys.version.encode())
    for folder in (
        "codegen", "interpreter", "kernel/entry", "kernel/expand", "kernel/roll", "nopython", "optimize", "program", "rules", "sparse", "tape",
        "transforms/choosing", "transforms/replay", "transforms/saving",
    ):  # fmt: skip
        with os.scandir(here / folder) as entries:
            paths = sorted(entry.path for entry in entries if entry.name.endswith(".py"))
        for path in paths:
            with open(path, "rb", buffering=0) as file:
                digest.update(file.read())
    return digest.hexdigest()[:16]


@cache
def warn_no_cache(directory, reason):
    """Say once per directory that compiled code will not be kept."""
    logger.warning(
        "cannot use the cache directory %s (%s); compiling in memory. "
        "Set TAPEGRAD_CACHE_DIR to a writable directory to keep compiled code.",
        directory,
        reason,
    )
