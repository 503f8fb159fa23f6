"""The live line of a long optimisation: rate, value, gradient norm, time.

It is written to stderr, over itself, if that is a terminal or a notebook, and only
when the work has taken a second.
"""

import math
import sys
import time
from contextlib import suppress
from datetime import timedelta

from ..common.errors import OptionError

#: Seconds before the first line, and between two.
PATIENCE, EVERY = 1.0, 0.1


class Progress:
    """The course of one optimisation: what was noted of its steps, and the line that shows it.

    Parameters
    ----------
    show : bool or None
        Whether to show it; None: if stderr is a terminal or a notebook, after a second.
    total : int, optional
        How many steps there will be, where that is known.
    unit : str
        What is counted.

    Attributes
    ----------
    start : float
        When it began.
    history : list of (float, float)
        Of each step that was noted the value, and the largest component of the gradient.
    """

    def __init__(self, show=None, total=None, unit="it"):
        if show not in (None, True, False):
            raise OptionError(f"progress={show!r}: give True, False or None (a line on terminals after one second)")
        self.stream = sys.stderr
        self.wanted = watched(self.stream) if show is None else show
        self.total, self.unit = total, unit
        self.start, self.history = time.perf_counter(), []
        self._next = self.start + (PATIENCE if show is None else 0.0)
        self._width = 0

    def note(self, value, norm):
        """Take in a step, and show it."""
        self.history.append((value, norm))
        self.update(len(self.history), value, norm)

    def update(self, steps, value, norm):
        """Show the line, if it is time."""
        if not self.wanted:
            return
        now = time.perf_counter()
        if now >= self._next:
            self._next = now + EVERY
            self._write(line(steps, value, norm, now - self.start, self.total, self.unit))

    def close(self, steps=None, value=math.nan, norm=math.nan):
        """Leave the last line standing (or none, if there was none); by default that of the last step that was noted."""
        if self._width:
            if steps is None and self.history:
                steps, (value, norm) = len(self.history), self.history[-1]
            self._write(line(steps or 0, value, norm, time.perf_counter() - self.start, None, self.unit))
            self.stream.write("\n")
            self.stream.flush()
            self._width = 0

    def _write(self, text):
        self.stream.write("\r" + text.ljust(self._width))
        self.stream.flush()
        self._width = len(text)


def watched(stream):
    """Whether a stream is being watched: it is a terminal, or that of a notebook."""
    with suppress(AttributeError, ValueError):
        return stream.isatty() or type(stream).__module__.startswith("ipykernel")
    return False


def line(steps, value, norm, elapsed, total, unit):
    """The text of the line."""
    rate = steps / elapsed if elapsed > 0 else 0.0
    speed = f"{rate:,.0f}" if rate >= 10 else f"{rate:.2g}"
    parts = [f"{steps:,}" + (f"/{total:,}" if total else "") + f" {unit}", f"{speed} {unit}/s"]
    parts += [f"f = {value:.8g}", f"|g| = {norm:.3g}", duration(elapsed)]
    if total and 0 < steps < total and rate:
        parts.append(f"{duration((total - steps) / rate)} left at most")
    return "  ".join(parts)


def duration(seconds):
    """A time as ``1:02:03``, ``4:05`` or ``6.7 s``."""
    return f"{seconds:.1f} s" if seconds < 60 else str(timedelta(seconds=int(seconds))).lstrip("0:")
