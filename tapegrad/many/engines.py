"""Chunks computed by workers of an executor, of Dask or of joblib.

What is computed travels as one message (`_Message`): the function, pickled, what all chunks must be like, and the object code of the kernels
that one chunk has needed here.  It goes with the first tasks; later ones name it by its digest, and a worker that does not know it says
so, and is sent it.  A worker whose versions and processor are the same finds all kernels in it; others compile for themselves.

A task is a chunk, or, where its pieces are small, a branch of the tree in which chunks are summed (`chunkwise.Tree`).  Where there are branches
depends on the number of workers; what is added to what does not.
"""

import hashlib
import os
import pickle
import socket
import threading
from abc import ABC, abstractmethod
from collections import deque
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, ThreadPoolExecutor, wait
from itertools import count, islice

import numpy as np

from ..common import config
from ..common.errors import OptionError, StructureError, WorkerError, reason, said_by
from ..common.tree import flatten
from ..common.uninterrupted import imported, remade
from ..common.version import __version__
from ..transforms.environment import Environment
from .chunkwise import ChunkWork, PartialSum, laid_out
from .data import ChunkRows, class_of

#: How often workers may come to an end during one pass.
TRIES = 3
#: Tasks for each worker, and those that wait at each one, so that it need not wait for us.
TASKS, AHEAD = 8, 3
#: Bytes of rows in a task of several chunks, at most.
MESSAGE = 1 << 20
#: What a worker computes with, by the digest of its message; as many as are kept.
_KNOWN: dict = {}
_MOST = 16
_LOCK = remade(threading.Lock())
#: Numbers the messages that stay in this process, as no two of them may have one key.
_NUMBERS = count()


def answer(release, key, message, arguments, names, pieces):
    """On a worker: the sum over some pieces, what is strange, and who says so; None if it needs the message."""
    mine, worker = _release(), f"process {os.getpid()} on {socket.gethostname()}"
    if mine != release:
        raise WorkerError(
            f"{worker} has tapegrad {mine[0]} ({mine[1][:8]}), not {release[0]} ({release[1][:8]}) as the process that asks; install the same "
            "version for all workers"
        )
    with _LOCK:
        if key not in _KNOWN:
            if message is None:
                return None
            while len(_KNOWN) >= _MOST:
                del _KNOWN[next(iter(_KNOWN))]
            _KNOWN[key] = message if isinstance(message, ChunkWork) else _opened(message)
        work = _KNOWN[key]
    tree, strange, arguments = PartialSum(), [], laid_out(arguments)
    for k, (name, piece) in enumerate(zip(names, pieces)):
        # Rows that the cluster has put in the place of a piece are there already.
        part, is_strange = work.of(piece if isinstance(piece, ChunkRows) else ChunkRows(name, piece), arguments)
        tree.add(0, k, part)
        strange += [k] * is_strange
    return tree.total(), strange, worker


def _opened(message):
    from ..codegen.code import RECEIVED, makers  # machine code is loaded once there is something to compute

    work, made_by, codes = pickle.loads(message)
    if made_by == makers():
        RECEIVED.update(codes)
    return work


def _release():
    return __version__, config.package_hash()


class Workers(ABC):
    """Computes chunks by workers."""

    #: Of Dask's, the client.
    client = None
    #: Tasks that wait at each worker.
    ahead = AHEAD

    def __init__(self):
        #: By what is asked: the message with its digest, which workers have it, and what the function read when it was made.
        self._messages = {}

    @property
    def workers(self):
        """How many there may be."""
        return config.cores()

    @abstractmethod
    def submit(self, *call):
        """Begin a call; returns its `Future`."""

    def done(self, futures):
        """Wait for some of them."""
        return wait(futures, return_when=FIRST_COMPLETED).done

    def sendable(self, work):
        """The message that is `work`, with its kernels."""
        from ..codegen.code import makers  # as in `_opened`

        return _pickled((work, makers(), dict(kernel.object_code() for kernel in work.kernels())))

    def renewed(self):
        """Whether there are workers again, after one has come to an end and taken the others with it."""
        return False

    def collect(self, work, arguments, source, ended):
        """As of `Threads`."""
        message, key, known = self._message(work, arguments, source)
        tree, notes, running, again, ends = PartialSum(), [], {}, deque(), 0
        together = min((source.count or 0) // (TASKS * self.workers), MESSAGE // (source.sent + 1))
        level = max(1, int(together)).bit_length() - 1
        tasks = _tasks(source, 1 << level)
        try:
            while not ended.is_set():
                try:
                    while len(running) < self.workers * (self.ahead if known else 1):
                        again.extend([] if again else islice(tasks, 1))
                        if not again:
                            break
                        running[self._begun(again[0], None if known and not again[0].asked else message, key, arguments)] = again[0]
                        again.popleft()
                    if not running:
                        break
                    for future in self.done(running):
                        task = running[future]
                        given = future.result()
                        del running[future]
                        if given is None:
                            task.asked = True
                            again.append(task)
                            continue
                        part, strange, worker = given
                        known.add(worker)
                        tree.add(level, task.number, part)
                        notes += [((task.number << level) + k, f"{task.names[k]} (by {worker})") for k in strange]
                except BrokenExecutor as error:
                    ends += 1
                    again.extend(running.values())
                    names = ", ".join(task.names[0] for task in again)
                    running.clear()
                    known.clear()
                    if ends > TRIES or not self.renewed():
                        raise WorkerError(
                            f"a worker came to an end, and with it its executor, at one of: {names}. Give a function that makes the executor, "
                            "client=lambda: ProcessPoolExecutor(...), and what was lost is computed again by a new one"
                            + (f"; that was done {TRIES} times" if ends > TRIES else "")
                        ) from error
                except ModuleNotFoundError as error:
                    if (error.name or "").partition(".")[0] != "tapegrad":
                        raise
                    raise WorkerError(f"a worker cannot import {error.name}; install tapegrad {__version__} for all workers") from error
                except Exception as error:
                    if not class_of(error, "distributed", "KilledWorker"):
                        raise
                    raise WorkerError(f"{task.names[0]} has ended each worker that was given it: {said_by(error)}") from error
        finally:
            for future in running:
                future.cancel()
        return tree.total(), [name for _, name in sorted(notes)]

    def _begun(self, task, message, key, arguments):
        return self.submit(answer, _release(), key, message, arguments, task.names, [piece.at(self.client) for piece in task.pieces])

    def _message(self, work, arguments, source):
        """What workers are sent, its digest, and the set of those that have it."""
        leaves, structure = flatten(arguments)
        asked = work, structure, tuple([(np.shape(leaf), np.asarray(leaf).dtype.str) for leaf in leaves])
        if asked not in self._messages or not self._messages[asked][-1].same():
            environment = Environment(work.function)
            for piece in source.samples():
                there = piece.at(self.client)
                # It is recorded and compiled for such rows.
                work.of(there if there is piece else ChunkRows(piece.name, there.result()), arguments)
            message = self.sendable(work)
            key = hashlib.sha256(message).hexdigest() if message is not work else f"in this process, {next(_NUMBERS)}"
            self._messages[asked] = message, key, set(), environment
        return self._messages[asked][:-1]


class _Task:
    """Pieces whose results are one branch of the tree."""

    def __init__(self, number, pieces):
        self.number, self.pieces, self.names = number, pieces, [piece.name for piece in pieces]
        #: Whether a worker has asked for the message.
        self.asked = False


def _tasks(source, size):
    pieces = iter(source.pieces())
    for number in count():
        some = list(islice(pieces, size))
        if not some:
            return
        yield _Task(number, some)


def _pickled(thing):
    try:
        dumps = imported("cloudpickle").dumps
    except ImportError:
        dumps = pickle.dumps
    try:
        return dumps(thing)
    except Exception as error:
        raise StructureError(f"the function cannot be sent to workers: {reason(error)}; define it in a module, or install cloudpickle") from error


class _Executors(Workers):
    """Workers of an executor of `concurrent.futures`, or of what makes one."""

    def __init__(self, executor, make=None):
        super().__init__()
        self._executor, self._make = executor, make

    def submit(self, *call):
        return self._executor.submit(*call)

    def sendable(self, work):
        return work if isinstance(self._executor, ThreadPoolExecutor) else super().sendable(work)

    def renewed(self):
        if self._make is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)
            self._executor = self._make()
        return self._make is not None


class _DaskWorkers(_Executors):
    """Workers of a `distributed.Client`, which repeats what was lost."""

    def __init__(self, client):
        super().__init__(client.get_executor())
        self.client = client

    workers = property(lambda self: max(1, sum(self.client.nthreads().values())))


class _Joblib(Workers):
    """Workers of a `joblib.Parallel`, called for many tasks at a time."""

    ahead = 2 * TASKS

    def __init__(self, parallel):
        super().__init__()
        self._parallel, self._waiting = parallel, {}

    workers = property(lambda self: imported("joblib").effective_n_jobs(self._parallel.n_jobs))

    def submit(self, *call):
        future = Future()
        self._waiting[future] = call
        return future

    def done(self, futures):
        calls, self._waiting = self._waiting, {}
        delayed = imported("joblib").delayed
        for future, given in zip(calls, self._parallel(delayed(function)(*arguments) for function, *arguments in calls.values())):
            future.set_result(given)
        return list(calls)

    def renewed(self):
        return True


def engine_of(client):
    """Who computes for a client, as of `distribute`."""
    if class_of(client, "distributed", "Client"):
        return _DaskWorkers(client)
    if class_of(client, "joblib", "Parallel"):
        return _Joblib(client)
    if isinstance(client, Executor):
        return _Executors(client)
    made = client() if callable(client) else None
    if not isinstance(made, Executor):
        raise OptionError(
            f"client is of type {type(client).__name__}; give a distributed.Client, an executor of concurrent.futures, a function that makes one, or a "
            "joblib.Parallel"
        )
    return _Executors(made, client)
