"""Threads inside of machine code: a function called for each chunk of some work, by several threads.

``void spread(ptr chunk, ptr inputs, ptr outputs, ptr workspace, int64 count)`` calls ``chunk(inputs, outputs, workspace, k)`` for each
k below `count`; the caller takes part, and `config.threads` says how many do.  The others are the system's threads (pthreads), which know
nothing of Python.  They are made when they are first wanted and stay.  Between calls they look for work for some 100 microseconds, letting others
run, and then sleep: to wake one takes 50, so what is spread should take some hundred.

Which thread does which chunk is chance, so each chunk writes to places of its own.  What is to be spread while other work is, by it or by another
thread of Python, is done in order by its caller; so is all where there are no pthreads, and in the child of a fork until it has threads of its own.

How they meet: `call` counts the calls, and a thread that finds a new one comes in (`inside` goes up), sees whether work is still `open`, and takes
chunks by counting `next` up.  The caller closes it when there are no more, and waits until no thread is inside.  So a late thread touches nothing.
"""

import ctypes
import os
from functools import cache

import numpy as np

from ..common import config
from .compile import compiled, helper, plain_address
from .memory import (
    address_named,
    atomic_add,
    atomic_load,
    atomic_store,
    atomic_swap,
    c_function,
    call4,
    load_int,
    set_int_at,
    store_int,
    yield_processor,
)
from .symbols import define

#: Threads beside the caller, at most; how often one of them looks for work before it sleeps.
_MOST, _LOOKS = 256, 300

#: Words of the state, by their offsets.  Those that threads change while others read them have lines of the cache for themselves.
_BUSY, _MADE, _WANTED, _CALL, _OPEN, _SLEEPING, _CHUNK, _INPUTS, _OUTPUTS, _WORKSPACE, _COUNT, _THREADS, _HELP, _HANDLE = range(0, 112, 8)
_INSIDE, _NEXT, _MUTEX, _WOKEN, _NUMBERS, _END = 128, 192, 256, 512, 768, 768 + 16 * _MOST

_NAMES = [f"pthread_{name}" for name in "create mutex_init mutex_lock mutex_unlock cond_init cond_wait cond_broadcast".split()]
_create, _mutex_init, _lock, _unlock, _cond_init, _wait, _broadcast = (
    c_function(f"tapegrad_{name}", "int32", *["int64"] * count) for name, count in zip(_NAMES, (4, 2, 1, 1, 2, 2, 1))
)
_MEMORY = np.zeros(_END // 8 + 8, np.int64)
_STATE = _MEMORY[-_MEMORY.ctypes.data % 64 // 8 :]
#: Its address, in machine code.
_state = address_named("tapegrad_spread_state")
#: In the place of the number of threads where there are none but Python's.
_ONE = np.ones(1, np.int64)


@helper
def _share(state):
    """Do chunks until there are no more."""
    chunk, inputs, outputs = load_int(state + _CHUNK), load_int(state + _INPUTS), load_int(state + _OUTPUTS)
    workspace, count = load_int(state + _WORKSPACE), load_int(state + _COUNT)
    k = atomic_add(state + _NEXT, 1)
    while k < count:
        call4(chunk, inputs, outputs, workspace, k)
        k = atomic_add(state + _NEXT, 1)


def _help(thread):
    """The life of a thread; `thread` is the address of the state's, and of the thread's number."""
    state, number, seen = load_int(thread), load_int(thread + 8), -1
    while number >= 0:
        looks = 0
        while atomic_load(state + _CALL) == seen and looks < _LOOKS:
            yield_processor()
            looks += 1
        if atomic_load(state + _CALL) == seen:
            _lock(state + _MUTEX)
            atomic_add(state + _SLEEPING, 1)
            while atomic_load(state + _CALL) == seen:
                _wait(state + _WOKEN, state + _MUTEX)
            atomic_add(state + _SLEEPING, -1)
            _unlock(state + _MUTEX)
        seen = atomic_load(state + _CALL)
        atomic_add(state + _INSIDE, 1)
        if atomic_load(state + _OPEN) != 0 and number < atomic_load(state + _WANTED):
            _share(state)
        atomic_add(state + _INSIDE, -1)
    return 0


def _spread(chunk, inputs, outputs, workspace, count):
    """`spread`."""
    state = _state()
    most = min(min(atomic_load(load_int(state + _THREADS)), count) - 1, _MOST)
    if most <= 0 or atomic_swap(state + _BUSY, 1) != 0:
        for k in range(count):
            call4(chunk, inputs, outputs, workspace, k)
        return
    made = atomic_load(state + _MADE)
    if made == 0:
        _mutex_init(state + _MUTEX, 0)
        _cond_init(state + _WOKEN, 0)
    while made < most:
        thread = state + _NUMBERS + 16 * made
        set_int_at(thread, 0, state, 1, made)
        if _create(state + _HANDLE, 0, load_int(state + _HELP), thread) != 0:
            break
        made += 1
        atomic_store(state + _MADE, made)
    store_int(state + _CHUNK, chunk)
    store_int(state + _INPUTS, inputs)
    store_int(state + _OUTPUTS, outputs)
    store_int(state + _WORKSPACE, workspace)
    store_int(state + _COUNT, count)
    atomic_store(state + _NEXT, 0)
    atomic_store(state + _WANTED, most)
    atomic_store(state + _OPEN, 1)
    atomic_add(state + _CALL, 1)
    if atomic_load(state + _SLEEPING) > 0:
        _lock(state + _MUTEX)
        _broadcast(state + _WOKEN)
        _unlock(state + _MUTEX)
    _share(state)
    atomic_store(state + _OPEN, 0)
    while atomic_load(state + _INSIDE) > 0:
        yield_processor()
    atomic_store(state + _BUSY, 0)


@cache
def spread_address():
    """The address of `spread`."""
    try:
        system = ctypes.CDLL(None)
        places = [ctypes.cast(getattr(system, name), ctypes.c_void_p).value for name in _NAMES]
    except (AttributeError, OSError, TypeError):
        # Not called then, but named.
        places = [1] * len(_NAMES)
    for name, place in zip(_NAMES, places):
        define(f"tapegrad_{name}", place)
    _STATE[_THREADS // 8] = (_ONE if 1 in places or config.portable else config.threads_word).ctypes.data
    _STATE[_HELP // 8] = plain_address(compiled("int64(int64)")(_help))
    define("tapegrad_spread_state", _STATE.ctypes.data)
    if hasattr(os, "register_at_fork"):
        # The child has none of the threads.
        os.register_at_fork(after_in_child=lambda: _STATE.put([word // 8 for word in (_BUSY, _MADE, _OPEN, _SLEEPING, _INSIDE)], 0))
    return plain_address(compiled(f"void({', '.join(['int64'] * 5)})")(_spread))
