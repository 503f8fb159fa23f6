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
from .code import machine_code
from .symbols import define

#: Threads beside the caller, at most; how often one of them looks for work before it sleeps.
_MOST, _LOOKS = 256, 300

#: All reads and writes that are atomic are sequentially consistent: there are few.
_TEXT = """
@busy = internal global i64 0
@made = internal global i64 0
@wanted = internal global i64 0
@call = internal global i64 0
@open = internal global i64 0
@sleeping = internal global i64 0
@inside = internal global i64 0, align 64
@next = internal global i64 0, align 64
@chunk = internal global ptr null, align 64
@inputs = internal global ptr null
@outputs = internal global ptr null
@workspace = internal global ptr null
@count = internal global i64 0
@mutex = internal global [32 x i64] zeroinitializer, align 64
@woken = internal global [32 x i64] zeroinitializer, align 64
@tapegrad_threads = external global i64
declare i32 @tapegrad_pthread_create(ptr, ptr, ptr, ptr)
declare i32 @tapegrad_pthread_mutex_init(ptr, ptr)
declare i32 @tapegrad_pthread_mutex_lock(ptr)
declare i32 @tapegrad_pthread_mutex_unlock(ptr)
declare i32 @tapegrad_pthread_cond_init(ptr, ptr)
declare i32 @tapegrad_pthread_cond_wait(ptr, ptr)
declare i32 @tapegrad_pthread_cond_broadcast(ptr)
declare i32 @tapegrad_sched_yield()

define internal void @share() {
entry:
  %chunk = load ptr, ptr @chunk
  %inputs = load ptr, ptr @inputs
  %outputs = load ptr, ptr @outputs
  %workspace = load ptr, ptr @workspace
  %count = load i64, ptr @count
  br label %again
again:
  %k = atomicrmw add ptr @next, i64 1 seq_cst
  %more = icmp slt i64 %k, %count
  br i1 %more, label %one, label %done
one:
  call void %chunk(ptr %inputs, ptr %outputs, ptr %workspace, i64 %k)
  br label %again
done:
  ret void
}

define internal ptr @help(ptr %number) {
entry:
  %index = ptrtoint ptr %number to i64
  br label %look
look:
  %seen = phi i64 [ -1, %entry ], [ %new, %late ], [ %new, %work ]
  br label %spin
spin:
  %looks = phi i64 [ 0, %look ], [ %looks.next, %yield ]
  %now = load atomic i64, ptr @call seq_cst, align 8
  %changed = icmp ne i64 %now, %seen
  br i1 %changed, label %found, label %patience
patience:
  %enough = icmp sge i64 %looks, LOOKS
  br i1 %enough, label %lock, label %yield
yield:
  %yielded = call i32 @tapegrad_sched_yield()
  %looks.next = add i64 %looks, 1
  br label %spin
lock:
  %locked = call i32 @tapegrad_pthread_mutex_lock(ptr @mutex)
  %more.asleep = atomicrmw add ptr @sleeping, i64 1 seq_cst
  br label %sleep
sleep:
  %then = load atomic i64, ptr @call seq_cst, align 8
  %still = icmp eq i64 %then, %seen
  br i1 %still, label %wait, label %wake
wait:
  %waited = call i32 @tapegrad_pthread_cond_wait(ptr @woken, ptr @mutex)
  br label %sleep
wake:
  %fewer.asleep = atomicrmw sub ptr @sleeping, i64 1 seq_cst
  %unlocked = call i32 @tapegrad_pthread_mutex_unlock(ptr @mutex)
  br label %found
found:
  %new = load atomic i64, ptr @call seq_cst, align 8
  %in = atomicrmw add ptr @inside, i64 1 seq_cst
  %is.open = load atomic i64, ptr @open seq_cst, align 8
  %wanted = load atomic i64, ptr @wanted seq_cst, align 8
  %meant = icmp slt i64 %index, %wanted
  %opened = icmp ne i64 %is.open, 0
  %both = and i1 %meant, %opened
  br i1 %both, label %work, label %late
work:
  call void @share()
  %out = atomicrmw sub ptr @inside, i64 1 seq_cst
  br label %look
late:
  %out.again = atomicrmw sub ptr @inside, i64 1 seq_cst
  br label %look
}

define void @forget() {
  store atomic i64 0, ptr @busy seq_cst, align 8
  store atomic i64 0, ptr @made seq_cst, align 8
  store atomic i64 0, ptr @open seq_cst, align 8
  store atomic i64 0, ptr @sleeping seq_cst, align 8
  store atomic i64 0, ptr @inside seq_cst, align 8
  ret void
}

define void @spread(ptr %chunk, ptr %inputs, ptr %outputs, ptr %workspace, i64 %count) {
entry:
  %threads = load atomic i64, ptr @tapegrad_threads seq_cst, align 8
  %fewer = icmp slt i64 %threads, %count
  %all = select i1 %fewer, i64 %threads, i64 %count
  %others = sub i64 %all, 1
  %many = icmp sgt i64 %others, MOST
  %most = select i1 %many, i64 MOST, i64 %others
  %some = icmp sgt i64 %most, 0
  br i1 %some, label %ask, label %alone
ask:
  %was = atomicrmw xchg ptr @busy, i64 1 seq_cst
  %free = icmp eq i64 %was, 0
  br i1 %free, label %first, label %alone
first:
  %made = load atomic i64, ptr @made seq_cst, align 8
  %none = icmp eq i64 %made, 0
  br i1 %none, label %begin, label %create
begin:
  %m = call i32 @tapegrad_pthread_mutex_init(ptr @mutex, ptr null)
  %c = call i32 @tapegrad_pthread_cond_init(ptr @woken, ptr null)
  br label %create
create:
  %n = phi i64 [ %made, %first ], [ 0, %begin ], [ %n.next, %created ]
  %enough = icmp sge i64 %n, %most
  br i1 %enough, label %publish, label %one
one:
  %handle = alloca i64
  %number = inttoptr i64 %n to ptr
  %failed = call i32 @tapegrad_pthread_create(ptr %handle, ptr null, ptr @help, ptr %number)
  %fine = icmp eq i32 %failed, 0
  br i1 %fine, label %created, label %publish
created:
  %n.next = add i64 %n, 1
  store atomic i64 %n.next, ptr @made seq_cst, align 8
  br label %create
publish:
  store ptr %chunk, ptr @chunk
  store ptr %inputs, ptr @inputs
  store ptr %outputs, ptr @outputs
  store ptr %workspace, ptr @workspace
  store i64 %count, ptr @count
  store atomic i64 0, ptr @next seq_cst, align 8
  store atomic i64 %most, ptr @wanted seq_cst, align 8
  store atomic i64 1, ptr @open seq_cst, align 8
  %calls = atomicrmw add ptr @call, i64 1 seq_cst
  %asleep = load atomic i64, ptr @sleeping seq_cst, align 8
  %any = icmp sgt i64 %asleep, 0
  br i1 %any, label %rouse, label %work
rouse:
  %locked = call i32 @tapegrad_pthread_mutex_lock(ptr @mutex)
  %roused = call i32 @tapegrad_pthread_cond_broadcast(ptr @woken)
  %unlocked = call i32 @tapegrad_pthread_mutex_unlock(ptr @mutex)
  br label %work
work:
  call void @share()
  store atomic i64 0, ptr @open seq_cst, align 8
  br label %join
join:
  %inside = load atomic i64, ptr @inside seq_cst, align 8
  %left = icmp sgt i64 %inside, 0
  br i1 %left, label %yield, label %done
yield:
  %yielded = call i32 @tapegrad_sched_yield()
  br label %join
done:
  store atomic i64 0, ptr @busy seq_cst, align 8
  br label %end
alone:
  %k = phi i64 [ 0, %entry ], [ 0, %ask ], [ %k.next, %alone ]
  call void %chunk(ptr %inputs, ptr %outputs, ptr %workspace, i64 %k)
  %k.next = add i64 %k, 1
  %more = icmp slt i64 %k.next, %count
  br i1 %more, label %alone, label %end
end:
  ret void
}
"""
_NAMES = [*(f"pthread_{name}" for name in "create mutex_init mutex_lock mutex_unlock cond_init cond_wait cond_broadcast".split()), "sched_yield"]
#: In the place of the number of threads where there are none but Python's.
_ONE = np.ones(1, np.int64)


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
    define("tapegrad_threads", (_ONE if 1 in places or config.portable else config.threads_word).ctypes.data)
    text = _TEXT.replace("MOST", str(_MOST)).replace("LOOKS", str(_LOOKS))
    spread, forget = machine_code("threads of machine code", lambda: text, ["spread", "forget"])
    if hasattr(os, "register_at_fork"):
        # The child has none of the threads.
        os.register_at_fork(after_in_child=ctypes.CFUNCTYPE(None)(forget))
    return spread
