"""Messages on standard error about what a call waits for; and background tasks, which no call waits for.

``with waiting(reason, text):`` stands around what can take long.  A thread looks on while it lasts: of a short wait nothing is said,
many short ones in a row are one long one, and named is what is being done when a second is over.  A wait that may be long says
more when it has lasted for some seconds itself.  A reason is named once in a process; ``TAPEGRAD_QUIET=1`` and
``tg.config.quiet`` silence all.

`BackgroundTask`: what another thread makes while calls go on, which it is not to slow: where threads have priorities its is a lower one,
and what runs in Python, which only one thread does at a time, stops for a while every now and then (`give_way`).
"""

import math
import os
import sys
import threading
import time
from contextlib import contextmanager, suppress

from . import config
from .uninterrupted import remade, uninterrupted

#: Seconds after which a wait is named, between two looks at it, and of doing something else that end it.
PATIENCE, EVERY, PAUSE = 1.0, 0.05, 0.25
#: Seconds for which a `BackgroundTask` runs in Python before it gives way, and for how long, at least; and how much nicer its thread is.
SLICE, REST, NICER = 0.0003, 0.003, 10
#: Reasons that were named already.
_SAID: set = set()
#: Held by the thread that runs a `BackgroundTask`: one at a time.  And those that are not over.
_TURN, _TASKS = remade(threading.Lock()), []


class _Wait(threading.local):
    """The wait of a thread: reasons with texts and when they are due by themselves, the innermost last, when it began and ended; whether
    it runs a `BackgroundTask`, and since when without giving way."""

    def __init__(self):
        self.reasons, self.began, self.ended, self.silent, self.since = [], 0.0, 0.0, False, 0.0


_WAIT = _Wait()


def say(reason, text):
    """Write a line to standard error, if that was not said before."""
    if reason in _SAID or config.quiet or sys.stderr is None:
        return
    _SAID.add(reason)
    try:
        print(f"tapegrad: {text}", file=sys.stderr, flush=True)
    except (OSError, ValueError):
        # The stream is closed, which is no reason for a call to fail.
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
        if not (depth or wait.silent or config.quiet):
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


def busy(short=True):
    """Whether there is a `BackgroundTask` that is not over; or one that is not `short`."""
    return any(task.working and (short or not task.short) for task in _TASKS)


def give_way():
    """In a `BackgroundTask`, let other threads run Python if it has done so for a while; nothing elsewhere.

    It stands where something is done piece by piece.  A thread that waits to run is given the interpreter at once then, not after the 5 ms for
    which Python lets a thread go on.
    """
    wait = _WAIT
    if wait.silent and (now := time.perf_counter()) - wait.since > SLICE:
        time.sleep(max(REST, 5.0 * min(now - wait.since, 0.01)))
        wait.since = time.perf_counter()


def _lower_priority():
    """Let this thread run where others leave the processor idle, and a tenth of the time where they do not."""
    if sys.platform == "linux":
        # Threads have priorities of their own there.
        with suppress(OSError):
            thread = threading.get_native_id()
            os.setpriority(os.PRIO_PROCESS, thread, os.getpriority(os.PRIO_PROCESS, thread) + NICER)


class BackgroundTask:
    """Something that another thread makes.

    Parameters
    ----------
    make : callable
    short : bool
        Whether it takes no longer than a call may wait.
    """

    def __init__(self, make, short=False):
        self._process, self._made, self._error, self._over, self.short = os.getpid(), None, None, False, short
        with uninterrupted:
            _TASKS.append(self)
            try:
                threading.Thread(target=self._run, args=(make,), daemon=True).start()
            except BaseException:
                _TASKS.remove(self)
                raise

    def _run(self, make):
        _WAIT.silent = True
        _lower_priority()
        try:
            with _TURN:
                self._made = make()
        except BaseException as error:
            self._error = error
        self._over = True
        _TASKS.remove(self)

    @property
    def working(self):
        """Whether the thread is still at it.  A child that was forked meanwhile does not have the thread."""
        return not self._over and self._process == os.getpid()

    def result(self):
        """The object made, or None if nothing was in this process; raises what making it has raised."""
        if self._error is not None:
            raise self._error
        return self._made
