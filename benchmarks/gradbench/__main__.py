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


#: Bytes that the process may always have: compiled code and libraries take more addresses than memory.
LEAST = 4 * 2**30


def _limit_memory() -> None:
    """Let an input that is too large raise MemoryError, which is answered, rather than have the system end the process."""
    try:
        import resource

        with open("/proc/meminfo", encoding="ascii") as lines:
            free = next(1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))
        _, most = resource.getrlimit(resource.RLIMIT_AS)
        limit = max(free, LEAST)
        resource.setrlimit(resource.RLIMIT_AS, (limit if most == resource.RLIM_INFINITY else min(limit, most), most))
    except (ImportError, OSError, StopIteration, ValueError):
        pass  # not offered by this system


if __name__ == "__main__":
    sys.exit(main())
