"""Messages on standard error about what a call waits for; and background tasks, which no call waits for.

``with waiting(reason, text):`` stands around what can take long.  A thread looks on while it lasts: of a short wait nothing is said,
many short ones in a row are one long one, and named is what is being done when a second is over.  A wait that may be long says
more when it has lasted for some seconds itself.  A reason is named once in a process; ``TAPEGRAD_QUIET=1`` and
``tg.config.quiet`` silence all.

`BackgroundTask`: what another thread makes while calls go on.
"""

from __future__ import annotations

import math
import os
import sys
import threading
import time
from contextlib import contextmanager

from . import config
from .uninterrupted import remade, uninterrupted

#: Seconds after which a wait is named, between two looks at it, and of doing something else that end it.
PATIENCE, EVERY, PAUSE = 1.0, 0.05, 0.25
#: Reasons that were named already.
_SAID: set = set()
#: Held by the thread that runs a `BackgroundTask`: one at a time.
_TURN = remade(threading.Lock())


class _Wait(threading.local):
    """The wait of a thread: reasons with texts and when they are due by themselves, the innermost last, when it began and ended; and whether
    it runs a `BackgroundTask`."""

    def __init__(self):
        self.reasons, self.began, self.ended, self.nobody = [], 0.0, 0.0, False


_WAIT = _Wait()


def say(reason, text):
    """Write a line to standard error, if that was not said before."""
    if reason in _SAID or config.quiet or sys.stderr is None:
        return
    _SAID.add(reason)
    try:
        print(f"tapegrad: {text}", file=sys.stderr, flush=True)
    except (OSError, ValueError):
        # Nobody can read it, which is no reason for a call to fail.
        pass


@contextmanager
def waiting(reason, text, patience=math.inf):
    """Inside, the calling thread waits for what `text`, or what it returns, says; may be nested.

    The innermost one is named.  One with `patience` is named beside it, when it has lasted for so many seconds.
    """
    wait, over, start = _WAIT, threading.Event(), time.perf_counter()
    depth = len(wait.reasons)
    if start - wait.ended > PAUSE and not depth:
        wait.began = start
    try:
        wait.reasons.append((reason, text, start + patience))
        if not (depth or wait.nobody or config.quiet):
            _looked_at(wait.reasons, over, wait.began + PATIENCE)
        yield
    finally:
        over.set()
        del wait.reasons[depth:]
        wait.ended = time.perf_counter()


def _looked_at(reasons, over, due):
    """Let a thread name, from `due` on, the innermost of `reasons`, until it is over."""

    def look():
        while not over.wait(max(EVERY, due - time.perf_counter())):
            now, inside = time.perf_counter(), reasons[:]
            for reason, text, _ in [*[each for each in inside if each[2] == math.inf][-1:], *[each for each in inside if each[2] < now]]:
                say(reason, text() if callable(text) else text)

    try:
        threading.Thread(target=look, daemon=True).start()
    except RuntimeError:
        # There are no threads any more, at the end of the process: it is not told then.
        pass


def busy():
    """Whether a thread runs a `BackgroundTask`."""
    return _TURN.locked()


class BackgroundTask:
    """Something that another thread makes.

    Parameters
    ----------
    make : callable
    """

    def __init__(self, make):
        self._process, self._made, self._error, self._over = os.getpid(), None, None, False
        with uninterrupted:
            threading.Thread(target=self._run, args=(make,), daemon=True).start()

    def _run(self, make):
        _WAIT.nobody = True
        try:
            with _TURN:
                self._made = make()
        except BaseException as error:
            self._error = error
        self._over = True

    @property
    def working(self):
        """Whether the thread is still at it.  A child that was forked meanwhile does not have the thread."""
        return not self._over and self._process == os.getpid()

    def result(self):
        """The object made, or None if nothing was in this process; raises what making it has raised."""
        if self._error is not None:
            raise self._error
        return self._made
