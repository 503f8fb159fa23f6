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
import platform
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
    """A digest of Python's version and platform, and of all sources of the package, by name and content."""
    here = str(Path(__file__).parent)
    folders, paths = [here], []
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.name.endswith(".py"):
                    paths.append(entry.path)
                elif entry.is_dir() and entry.name != "__pycache__":
                    folders.append(entry.path)
    digest = hashlib.sha256(f"{sys.version} {sys.platform}".encode())
    for path in sorted(paths):
        digest.update(path[len(here) :].encode() + b"\0")
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

    import llvmlite.binding as llvm

    from .. import __version__
    from ..codegen.vector_math import available

    return {
        "tapegrad": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpu": llvm.get_host_cpu_name(),
        "numpy": version("numpy"),
        "scipy": version("scipy"),
        "numba": version("numba"),
        "llvmlite": version("llvmlite"),
        "cache_dir": str(cache_dir()),
        "vector_math": f"libmvec, {len(available())} functions" if available() else "none: calls of libm",
    }
