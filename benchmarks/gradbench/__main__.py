"""The tool process: ``python -m benchmarks.gradbench``."""

from __future__ import annotations

import io
import os
import sys

from .protocol import serve


def main() -> int:
    """Serve stdin; stdout is for answers alone, so what anything prints goes to stderr."""
    _limit_memory()
    lines = io.TextIOWrapper(sys.stdin.buffer, encoding="utf-8", errors="replace")
    # Compiled code writes to the file below Python's stdout: that is stderr's from here on.
    out = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    try:
        serve(lines, out)
    except BrokenPipeError:
        # Nobody reads the answers any more; nor may Python try to write what is left at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), out.fileno())
        return 1
    return 0


def _limit_memory() -> None:
    """Let an input that is too large raise MemoryError, which is answered, rather than have the system end the process."""
    try:
        import resource

        size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        _, most = resource.getrlimit(resource.RLIMIT_AS)
        size = max(size, 2**33)
        resource.setrlimit(resource.RLIMIT_AS, (size if most == resource.RLIM_INFINITY else min(size, most), most))
    except (ImportError, AttributeError, OSError, ValueError):
        pass  # not offered by this system


if __name__ == "__main__":
    sys.exit(main())
