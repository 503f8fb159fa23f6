"""The threads that share the work of one call.

`run` calls a function for each number of a chunk of work; what takes long in it is compiled code, which runs without the
interpreter's lock.  Which thread does which chunk is chance: so that results are the same to the last bit whatever the number of threads, code that
divides work makes chunks by the size of the work alone, lets each write to places of its own, and adds sums up in the order of the chunks.

The threads wait between calls, and end with the process.  A child that is forked begins without any.  Inside of a chunk there is
one thread: a call of `run` there does its chunks in order.
"""

import operator
import os
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor, wait
from functools import lru_cache

from . import config
from .uninterrupted import uninterrupted

_HERE = threading.local()


def run(work, chunks):
    """Call ``work(k)`` for each `k` below `chunks`, on up to `config.threads` threads, of which this one is the first.

    Parameters
    ----------
    work : callable
        May be called by several threads at a time, in any order.
    chunks : int

    Returns
    -------
    list
        What was returned for each.

    Raises
    ------
    Exception
        What `work` has raised, of the chunks begun the first one that did; no more are begun, and none is at work any more.
    """
    count = min(config.threads, chunks)
    if count < 2 or getattr(_HERE, "inside", False):
        return [work(k) for k in range(chunks)]
    shared = _Chunks(work, chunks)
    while shared.waiting and not shared.errors:
        # A handler of signals that raises does so when all threads have come to an end; after another one it goes on.
        with uninterrupted:
            shared.run(count - 1)
    # A thread that comes too late has the rest of `shared`, and keeps nothing of the user's.
    results, errors, shared.work, shared.results, shared.errors = shared.results, shared.errors, None, None, None
    if errors:
        raise min(errors, key=operator.itemgetter(0))[1]
    return results


class _Chunks:
    """The chunks of one call."""

    def __init__(self, work, chunks):
        self.work, self.waiting, self.results, self.errors = work, deque(range(chunks)), [None] * chunks, []
        self.awaited = uninterrupted.listener()

    def run(self, others):
        """Do what is waiting, with so many others, until nothing is, something was raised, or a signal has come."""
        executor, helping = _executor(others), []
        try:
            for _ in range(others):
                helping.append(executor.submit(self._share))
        except RuntimeError:
            # The interpreter comes to its end, or the system gives no more threads: there are fewer.
            pass
        try:
            self._share()
        finally:
            # One that has not begun does not begin any more.
            wait([each for each in helping if not each.cancel()])

    def _share(self):
        _HERE.inside = True
        try:
            while self.waiting and not self.errors and not self.awaited():
                try:
                    k = self.waiting.popleft()
                except IndexError:
                    return
                try:
                    self.results[k] = self.work(k)
                except BaseException as error:
                    self.errors.append((k, error))
        finally:
            _HERE.inside = False


@lru_cache(1)
def _executor(count):
    """The executor with so many threads; it starts one when there is something to do for it, and no other one is free.

    One of another number finishes its queue, and ends with its last call.
    """
    return ThreadPoolExecutor(count, "tapegrad")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_executor.cache_clear)
