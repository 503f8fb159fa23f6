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
free.  It waits, too, until no other thread imports a module of ours: `importlib` has a lock for each module, which the child could
never take, and a module that compiles while it is imported would be half made there.  Any import is seen by its lock, from before
the module is looked for until it is there, so no import statement has to know of it.
Other locks of ours are kept for so short a time, or guard so little, that the child just gets them anew: `remade`.
The end of the process waits, too: LLVM must not go while a thread is in it.
"""

import _frozen_importlib
import _imp
import atexit
import functools
import os
import signal
import sys
import threading
import time
import traceback
import types
import weakref

# Without the conversion to members of enumerations, which takes a microsecond a signal.
from _signal import getsignal
from _signal import signal as set_signal
from contextlib import ContextDecorator
from importlib import import_module
from threading import get_ident

#: The signals of this system.
_NUMBERS = tuple(sorted(map(int, signal.valid_signals())))
#: Thread -> how many times it is inside; changed by that thread, with `_GATE`, which a forking thread keeps closed.
_INSIDE: dict[int, int] = {}
_GATE = threading.RLock()


class _Uninterrupted(ContextDecorator):
    """Context manager and decorator; may be nested.

    What is written here holds if a finaliser that comes in here itself, or the handler of a signal, runs between any two lines.
    """

    def __init__(self):
        #: How many times the main thread is inside; signals and their handlers; those that came.
        self._depth, self._handlers, self._came = 0, {}, []

    def __enter__(self):
        me = get_ident()
        if me == threading.main_thread().ident:
            self._hold()
        with _GATE:
            _INSIDE[me] = _INSIDE.get(me, 0) + 1
        return self

    def __exit__(self, *exc):
        me = get_ident()
        _INSIDE[me] -= 1
        if not _INSIDE[me]:
            del _INSIDE[me]
        if self._depth and me == threading.main_thread().ident:
            self._let_go()

    @property
    def awaited(self):
        """Whether a signal has come, and waits for the end."""
        return bool(self._came)

    def listener(self):
        """A function that says whether a signal waits for the end of a block that begins now: within another block, none ever does."""
        return (lambda: False) if self._depth else lambda: self.awaited

    def _note(self, number, frame):
        # Not the frame: it would keep LLVM's objects alive after the end.
        if number not in self._came:
            self._came.append(number)

    def _hold(self):
        self._depth += 1
        if self._depth > 1:
            return
        # (Not in a loop here: CPython 3.13 may leave a loop's jump, at which a handler can raise, out of what `try` covers.)
        try:
            self._note_all()
        except BaseException:
            # From the handler of a signal that is not held back yet.
            self._let_go()
            raise

    def _note_all(self):
        for number, handler in zip(_NUMBERS, map(getsignal, _NUMBERS)):
            if type(handler) is not int and callable(handler):
                self._handlers[number] = handler
                set_signal(number, self._note)

    def _let_go(self):
        try:
            if self._depth == 1:
                self._restore()
        finally:
            self._depth -= 1
            if not self._depth:
                handlers, came = self._handlers, self._came
                self._handlers, self._came = {}, []
                _call([(handlers[number], number) for number in came])

    def _restore(self):
        """Give signals their handlers back, unless they were given others meanwhile."""
        try:
            self._restore_all()
        except BaseException:
            self._restore()
            raise

    def _restore_all(self):
        # Ctrl-C is among the lowest, and last: then nothing is left that it could break off.
        for number in sorted(self._handlers, reverse=True):
            if getsignal(number) == self._note:
                set_signal(number, self._handlers[number])


def _call(calls):
    """Call every handler, though each may raise."""
    if calls:
        handler, number = calls[0]
        try:
            handler(number, sys._getframe())
        finally:
            _call(calls[1:])


#: ``with uninterrupted: ...``, or a decorator of functions.
uninterrupted = _Uninterrupted()


def from_handler(error):
    """Whether the handler of a signal has raised an error: that is told to the user, whatever it has interrupted."""
    codes = set()
    for handler in map(getsignal, _NUMBERS):
        while isinstance(handler, functools.partial):
            handler = handler.func
        codes.add(getattr(handler, "__code__", None) or getattr(type(handler).__call__, "__code__", None))
    return any(frame.f_code in codes for frame, _ in traceback.walk_tb(error.__traceback__))


def imported(name):
    """The module `name`, of a library that is imported late; its import is not interrupted."""
    if name.partition(".")[0] == "tapegrad":
        raise ValueError(f"{name} is one of our own modules: import it by a statement, which tests/test_layers.py sees")
    if name in sys.modules:
        return import_module(name)
    with uninterrupted:
        return import_module(name)


class Lazily:
    """A module of another library that is imported when an attribute of it is first read.

    Parameters
    ----------
    name : str
    """

    def __init__(self, name):
        self._name = name

    def __getattr__(self, attribute):
        return getattr(imported(self._name), attribute)


# ---- forks --------------------------------------------------------------------------------
_REMADE: list[weakref.ref] = []
_ROOM = 64
#: Locks that a forking thread holds.
_KEPT: list = []


def remade(lock):
    """`lock`, made free in a child that is forked."""
    global _ROOM
    with _GATE:
        if len(_REMADE) >= _ROOM:
            # (A `WeakSet` would run Python whenever a lock goes, and a Ctrl-C that comes there is lost.)
            _REMADE[:] = [reference for reference in _REMADE if reference() is not None]
            _ROOM = 2 * len(_REMADE) + 64
        _REMADE.append(weakref.ref(lock))
    return lock


class cached_property(functools.cached_property):
    """As in Python from 3.12 on; before, it has a lock, which is held while the property is made."""

    def __init__(self, function):
        super().__init__(function)
        if hasattr(self, "lock"):
            remade(self.lock)


def _compiler_locks():
    """Locks of Numba and LLVM, if these are loaded."""
    numba, llvm = sys.modules.get("numba.core.compiler_lock"), sys.modules.get("llvmlite.binding.ffi")
    locks = []
    if numba is not None and hasattr(numba, "global_compiler_lock"):
        locks.append(numba.global_compiler_lock._lock)
    if llvm is not None and hasattr(llvm, "lib"):
        locks.append(llvm.lib._lock._lock)
    return locks


#: The lock without which no import begins; others hold it for moments.
_IMPORTS = types.SimpleNamespace(acquire=lambda blocking: _imp.acquire_lock() or True, release=_imp.release_lock)


def _own_imports():
    """The locks of modules of ours that are being imported."""
    locks = [reference() for name, reference in list(_frozen_importlib._module_locks.items()) if name.partition(".")[0] == "tapegrad"]
    return [lock for lock in locks if lock is not None]


def _locks(fork):
    yield from [_IMPORTS] * fork + [_GATE]
    yield from _compiler_locks()
    # While these are held, no import that is about to begin goes on.
    yield from [lock.lock for lock in _own_imports()] * fork


def _before_fork(fork=True):
    """Hold all locks; none is held while another one is waited for, so that the order in which other threads take them is free."""
    wait_for = None
    while True:
        if wait_for is not None:
            with wait_for:
                pass
        while _others(fork):
            time.sleep(0.001)
        held, wait_for = [], None
        for lock in _locks(fork):
            if not lock.acquire(blocking=False):
                wait_for = lock
                break
            held.append(lock)
        if wait_for is None and not _others(fork):
            _KEPT.append(held)
            return
        _release(held)


def _others(fork):
    """Whether another thread is inside, or imports a module of ours (and does not wait for one that this thread imports)."""
    imports = [lock.owner for lock in _own_imports() * fork if not lock.has_deadlock()]
    return not {*_INSIDE, *imports} <= {get_ident(), None}


def _release(locks):
    for lock in reversed(locks):
        lock.release()


def _after_fork():
    _release(_KEPT.pop())


def _in_child():
    # The thread that forked is the one that the child has, and holds these in both.
    _after_fork()
    for lock in (reference() for reference in _REMADE):
        if lock is not None:
            lock._at_fork_reinit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_in_child)

# The locks are not released: no thread may come in any more.
atexit.register(_before_fork, fork=False)
