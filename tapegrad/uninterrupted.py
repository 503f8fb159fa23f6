"""Work that is either done or not begun: signals wait until it ends, and so does a fork in another thread.

Three kinds of work must not be left in the middle.  An import of Numba, LLVM or SciPy that Ctrl-C breaks off leaves modules
behind that are half made, for as long as the process lives.  LLVM's objects have owners, and an exception between a call of LLVM
and the note of who owns what frees one twice.  And a child that is forked while another thread compiles has the locks, and not
the thread that would release them.

Inside of ``with uninterrupted:`` every signal that has a handler in Python is noted; its handler is called at the end, so
Ctrl-C during a long compilation is answered when that is over.  Python calls handlers in the main thread only, in other
threads there is nothing to hold back.  (Exceptions that one thread sets in another, by ``PyThreadState_SetAsyncExc``, are not
held back: Python has no means for that.)

A fork waits until no other thread is inside, and holds the compiler locks of Numba and LLVM meanwhile, so the child has them
free.  Other locks of ours are kept for so short a time, or guard so little, that the child just gets them anew: `remade`.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import weakref
from contextlib import ContextDecorator
from importlib import import_module
from threading import get_ident

#: Thread -> how many times it is inside; changed by that thread, with `_GATE`, which a forking thread keeps closed.
_INSIDE: dict[int, int] = {}
_GATE = threading.RLock()


class _Uninterrupted(ContextDecorator):
    """Context manager and decorator; may be nested."""

    def __init__(self):
        #: Signal -> its handler; those that came, with the frame in which they did.
        self._handlers, self._came = {}, {}

    def __enter__(self):
        me = get_ident()
        if me not in _INSIDE and me == threading.main_thread().ident:
            self._hold()
        with _GATE:
            _INSIDE[me] = _INSIDE.get(me, 0) + 1
        return self

    def __exit__(self, *exc):
        me = get_ident()
        _INSIDE[me] -= 1
        if not _INSIDE[me]:
            del _INSIDE[me]
            if self._handlers and me == threading.main_thread().ident:
                self._let_go()

    def _note(self, number, frame):
        self._came.setdefault(number, frame)

    def _hold(self):
        try:
            for number in sorted(signal.valid_signals()):
                handler = signal.getsignal(number)
                if callable(handler):
                    self._handlers[number] = handler
                    signal.signal(number, self._note)
        except BaseException:
            # From the handler of a signal that is not held back yet.
            self._let_go()
            raise

    def _let_go(self):
        handlers, came = self._handlers, self._came
        self._handlers, self._came = {}, {}
        _restore(handlers, self._note)
        _call([(handlers[number], number, frame) for number, frame in came.items()])


def _restore(handlers, note):
    """Give signals their handlers back, unless somebody gave them others meanwhile."""
    try:
        # Ctrl-C is among the lowest, and last: then nothing is left that it could break off.
        for number in sorted(handlers, reverse=True):
            if signal.getsignal(number) == note:
                signal.signal(number, handlers[number])
    except BaseException:
        _restore(handlers, note)
        raise


def _call(calls):
    """Call every handler, though each may raise."""
    if calls:
        handler, number, frame = calls[0]
        try:
            handler(number, frame)
        finally:
            _call(calls[1:])


#: ``with uninterrupted: ...``, or a decorator of functions.
uninterrupted = _Uninterrupted()


def imported(name):
    """The module `name`, of a library that is imported late; its import is not interrupted."""
    if name in sys.modules:
        return import_module(name)
    with uninterrupted:
        return import_module(name)


# ---- forks --------------------------------------------------------------------------------
_REMADE: weakref.WeakSet = weakref.WeakSet()
#: Locks that a forking thread holds.
_KEPT: list = []


def remade(lock):
    """`lock`, which nobody holds in a child that is forked."""
    _REMADE.add(lock)
    return lock


def _compiler_locks():
    """Locks of Numba and LLVM, if these are loaded."""
    numba, llvm = sys.modules.get("numba.core.compiler_lock"), sys.modules.get("llvmlite.binding.ffi")
    found = []
    if numba is not None and hasattr(numba, "global_compiler_lock"):
        found.append(numba.global_compiler_lock._lock)
    if llvm is not None and hasattr(llvm, "lib"):
        found.append(llvm.lib._lock._lock)
    return found


def _before_fork():
    """Hold all locks; none is held while another one is waited for, so that the order in which other threads take them is free."""
    wait_for = None
    while True:
        if wait_for is not None:
            with wait_for:
                pass
        while _others():
            time.sleep(0.001)
        held, wait_for = [], None
        for lock in (_GATE, *_compiler_locks()):
            if not lock.acquire(blocking=False):
                wait_for = lock
                break
            held.append(lock)
        if wait_for is None and not _others():
            _KEPT.append(held)
            return
        _release(held)


def _others():
    """Whether another thread is inside."""
    me = get_ident()
    return any(thread != me for thread in list(_INSIDE))


def _release(locks):
    for lock in reversed(locks):
        lock.release()


def _after_fork():
    _release(_KEPT.pop())


def _in_child():
    # The thread that forked is the one that the child has, and holds these in both.
    _after_fork()
    for lock in list(_REMADE):
        lock._at_fork_reinit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_in_child)
