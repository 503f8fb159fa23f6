"""The tool process: ``python -m benchmarks.gradbench``."""

from __future__ import annotations

import io
import sys
from contextlib import redirect_stdout

from .protocol import serve


def main() -> int:
    """Serve stdin; stdout is for answers alone, so what anything prints goes to stderr."""
    lines = io.TextIOWrapper(sys.stdin.buffer, encoding="utf-8", errors="replace")
    out = sys.stdout
    try:
        with redirect_stdout(sys.stderr):
            serve(lines, out)
    except BrokenPipeError:
        # Nobody reads the answers any more; nor may Python try to write what is left at its end.
        sys.stdout = None
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
