"""Threads inside of machine code: a function called for each chunk of some work, by several threads.

``void spread(ptr chunk, ptr inputs, ptr outputs, ptr workspace, int64 count)`` calls ``chunk(inputs, outputs, workspace, k)`` for each
k below `count`.  The threads are the system's (pthreads), made for this call and gone after it: some 20 microseconds, so what is
spread should take some hundred.  How many there are is `config.threads`; which thread does which chunk is chance, so each chunk writes
to places of its own.  What is spread while other work is, here or by another thread of Python, is done in order by the caller; so it is
where there are no pthreads.
"""

from __future__ import annotations

import ctypes
from functools import cache

from ..common import config
from .code import machine_code
from .symbols import define

#: Threads beside the caller, at most.
_MOST = 256

_TEXT = """
%job = type { ptr, ptr, ptr, ptr, i64, i64 }
@busy = internal global i64 0
@tapegrad_threads = external global i64
declare i32 @tapegrad_create(ptr, ptr, ptr, ptr)
declare i32 @tapegrad_join(i64, ptr)

define internal void @share(ptr %job) {
entry:
  %chunk.at = getelementptr %job, ptr %job, i32 0, i32 0
  %inputs.at = getelementptr %job, ptr %job, i32 0, i32 1
  %outputs.at = getelementptr %job, ptr %job, i32 0, i32 2
  %workspace.at = getelementptr %job, ptr %job, i32 0, i32 3
  %count.at = getelementptr %job, ptr %job, i32 0, i32 4
  %next.at = getelementptr %job, ptr %job, i32 0, i32 5
  %chunk = load ptr, ptr %chunk.at
  %inputs = load ptr, ptr %inputs.at
  %outputs = load ptr, ptr %outputs.at
  %workspace = load ptr, ptr %workspace.at
  %count = load i64, ptr %count.at
  br label %again
again:
  %k = atomicrmw add ptr %next.at, i64 1 seq_cst
  %more = icmp slt i64 %k, %count
  br i1 %more, label %one, label %done
one:
  call void %chunk(ptr %inputs, ptr %outputs, ptr %workspace, i64 %k)
  br label %again
done:
  ret void
}

define internal ptr @help(ptr %job) {
  call void @share(ptr %job)
  ret ptr null
}

define void @spread(ptr %chunk, ptr %inputs, ptr %outputs, ptr %workspace, i64 %count) {
entry:
  %job = alloca %job
  %handles = alloca [MOST x i64]
  %chunk.at = getelementptr %job, ptr %job, i32 0, i32 0
  %inputs.at = getelementptr %job, ptr %job, i32 0, i32 1
  %outputs.at = getelementptr %job, ptr %job, i32 0, i32 2
  %workspace.at = getelementptr %job, ptr %job, i32 0, i32 3
  %count.at = getelementptr %job, ptr %job, i32 0, i32 4
  %next.at = getelementptr %job, ptr %job, i32 0, i32 5
  store ptr %chunk, ptr %chunk.at
  store ptr %inputs, ptr %inputs.at
  store ptr %outputs, ptr %outputs.at
  store ptr %workspace, ptr %workspace.at
  store i64 %count, ptr %count.at
  store i64 0, ptr %next.at
  %threads = load atomic i64, ptr @tapegrad_threads monotonic, align 8
  %fewer = icmp slt i64 %threads, %count
  %wanted = select i1 %fewer, i64 %threads, i64 %count
  %others = sub i64 %wanted, 1
  %many = icmp sgt i64 %others, MOST
  %most = select i1 %many, i64 MOST, i64 %others
  %some = icmp sgt i64 %most, 0
  br i1 %some, label %ask, label %alone
ask:
  %was = atomicrmw xchg ptr @busy, i64 1 seq_cst
  %free = icmp eq i64 %was, 0
  br i1 %free, label %create, label %alone
create:
  %n = phi i64 [ 0, %ask ], [ %n.next, %created ]
  %enough = icmp sge i64 %n, %most
  br i1 %enough, label %work, label %one
one:
  %handle = getelementptr [MOST x i64], ptr %handles, i64 0, i64 %n
  %failed = call i32 @tapegrad_create(ptr %handle, ptr null, ptr @help, ptr %job)
  %made = icmp eq i32 %failed, 0
  br i1 %made, label %created, label %work
created:
  %n.next = add i64 %n, 1
  br label %create
work:
  %begun = phi i64 [ %n, %create ], [ %n, %one ]
  call void @share(ptr %job)
  br label %join
join:
  %m = phi i64 [ 0, %work ], [ %m.next, %joining ]
  %left = icmp slt i64 %m, %begun
  br i1 %left, label %joining, label %free.again
joining:
  %their = getelementptr [MOST x i64], ptr %handles, i64 0, i64 %m
  %handle.value = load i64, ptr %their
  %ignored = call i32 @tapegrad_join(i64 %handle.value, ptr null)
  %m.next = add i64 %m, 1
  br label %join
free.again:
  store atomic i64 0, ptr @busy seq_cst, align 8
  br label %end
alone:
  call void @share(ptr %job)
  br label %end
end:
  ret void
}
"""


def _unavailable(*_):
    """In the place of ``pthread_create`` where there is none: no thread could be made."""
    return 1


_Create = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 4)
_KEPT = []


def _system(name):
    """The address of a function of the C library; where there is none, that of one that says so."""
    try:
        return ctypes.cast(getattr(ctypes.CDLL(None), name), ctypes.c_void_p).value
    except (AttributeError, OSError, TypeError):
        _KEPT.append(_Create(_unavailable))
        return ctypes.cast(_KEPT[-1], ctypes.c_void_p).value


@cache
def spread_address():
    """The address of `spread`."""
    define("tapegrad_threads", config.threads_word.ctypes.data)
    define("tapegrad_create", _system("pthread_create"))
    define("tapegrad_join", _system("pthread_join"))
    return machine_code("threads of machine code", lambda: _TEXT.replace("MOST", str(_MOST)), ["spread"])[0]
