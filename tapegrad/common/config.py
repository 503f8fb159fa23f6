"""Where compiled code is kept, and what this installation is made of.

The environment variable ``TAPEGRAD_CACHE_DIR`` names the cache directory; by
default it is the user's cache folder.  A directory that cannot be written is
reported once on the logger ``tapegrad`` and code is then kept in memory only.
``TAPEGRAD_KERNEL`` (and the variable `kernel`) says when tapes become machine code, ``TAPEGRAD_STRICT`` (and `strict`)
what becomes of faults of tapegrad itself while that is done.
"""

from __future__ import annotations

import hashlib
import logging
import os
import platform
import sys
from functools import cache
from pathlib import Path

logger = logging.getLogger("tapegrad")

#: When replayed tapes become machine code, where a function is not told: "auto", "always" or "never" (`kernel.promotion`).
kernel = os.environ.get("TAPEGRAD_KERNEL", "auto")

#: Whether a fault of tapegrad itself while a kernel is made is raised (its own tests want that), not just named in `stats()`.
strict = os.environ.get("TAPEGRAD_STRICT", "") == "1"


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
    here = Path(__file__).parent
    digest = hashlib.sha256(sys.version.encode())
    for folder in (
        "kernel/entry", "kernel/expand", "kernel/roll", "native", "nopython", "optimize", "replay", "rules", "sparse", "sweep", "tape",
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


def info() -> dict[str, str]:
    """Facts about this installation.

    Returns
    -------
    dict
        Versions, platform, CPU, cache directory, and where vectorised functions come from; strings only.

    Examples
    --------
    >>> import tapegrad as tg
    >>> sorted(tg.info())[:3]
    ['cache_dir', 'cpu', 'llvmlite']
    """
    from importlib.metadata import version

    from .. import __version__
    from ..codegen.host import cpu_name
    from ..codegen.vector_math import available

    return {
        "tapegrad": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpu": cpu_name(),
        "numpy": version("numpy"),
        "scipy": version("scipy"),
        "numba": version("numba"),
        "llvmlite": version("llvmlite"),
        "cache_dir": str(cache_dir()),
        "vector_math": f"libmvec, {len(available())} functions" if available() else "none: calls of libm",
    }
