"""Sums over data: a file that is larger than memory should be, and workers in other processes.

Bits are compared, not numbers: workers, their number and what becomes of them change nothing in a result.
"""

from __future__ import annotations

import functools
import logging
import math
import multiprocessing
import os
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import numpy as np

import tapegrad as tg

from .lanes import with_threads
from .memory import MB, Sampler, rss
from .registry import Disagreement, Missing, Row, benchmark, each, peer, ratio
from .timing import measure, of, seconds

COLUMNS = 50
#: Chunks of the sums whose work is simulated, and how long each takes.
CHUNKS, WORK = 1000, 0.004

processes = functools.partial(ProcessPoolExecutor, mp_context=multiprocessing.get_context("spawn"))


def logistic(theta, rows):
    x, y = rows
    z = x @ theta
    return np.sum(np.logaddexp(0.0, z) - y * z)


def tiny(theta, rows):
    return np.sum((theta - rows) ** 2)


@tg.primitive
def slept(theta):
    """`theta`, after a while: what a chunk costs somewhere, whatever this machine is busy with."""
    time.sleep(WORK + 0.0 * math.sin(theta))  # of `math`, so that it is called each time
    return theta


slept.defvjp(lambda g, result, theta: g)


def slow(theta, rows):
    return np.sum((slept(theta) - rows) ** 2)


class Dying:
    """`tiny`, but the first process that is not the first one comes to its end in it."""

    def __init__(self, mark):
        self.mark, self.owner = str(mark), os.getpid()

    def __call__(self, theta, rows):
        if os.getpid() != self.owner and os.path.exists(self.mark):
            os.unlink(self.mark)
            os._exit(1)
        return tiny(theta, rows)


def nothing(*arguments):
    return None


def compiled(_):
    from tapegrad.kernel.kernel import COUNTS

    return os.getpid(), COUNTS["compiled"]


def mapped(folder: str, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows in files, written a part at a time."""
    rng = np.random.default_rng(0)
    x = np.lib.format.open_memmap(Path(folder) / "x.npy", "w+", float, (rows, COLUMNS))
    y = np.lib.format.open_memmap(Path(folder) / "y.npy", "w+", float, (rows,))
    for k in range(0, rows, 100_000):
        x[k : k + 100_000] = rng.standard_normal((min(100_000, rows - k), COLUMNS))
        y[k : k + 100_000] = x[k : k + 100_000, 0] > 0.0
    x.flush()
    y.flush()
    del x, y
    return np.load(Path(folder) / "x.npy", mmap_mode="r"), np.load(Path(folder) / "y.npy", mmap_mode="r")


def same(what: str, one, other) -> None:
    if one[0] != other[0] or np.asarray(one[1]).tobytes() != np.asarray(other[1]).tobytes():
        raise Disagreement(f"{what}: other bits than in one process")


def files(quick: bool) -> Iterator[Row]:
    """Logistic regression on rows in a file: memory, time, and the same by two processes."""
    rows, theta = 10**5 if quick else 10**7, np.linspace(-0.1, 0.1, COLUMNS)
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        start = rss()
        data = mapped(folder, rows)
        both = tg.value_and_grad(tg.sum_over(logistic, data))
        before = rss()
        with Sampler() as sampler:
            here = both(theta)
        what = f"logistic regression on {rows:,} x {COLUMNS} rows in a file"
        peak = (max(sampler.sizes) - min(start, before)) / MB
        size = {"data": f"{rows * COLUMNS * 8 / MB:,.0f} MB"}
        yield Row(f"{what}: peak memory of value and gradient, over that at the start", "within 300 MB", peak, 300.0, " MB", size)

        chunk = 2500

        def multiplied():
            """What has to be done with each row at least: it is read where it is mapped, and multiplied twice."""
            total = np.zeros(COLUMNS)
            for k in range(0, rows, chunk):
                x = data[0][k : k + chunk]
                total += (x @ theta) @ x
            return total

        def read():
            """The same within memory that does not grow: a part of the file after the other is read."""
            total = np.zeros(COLUMNS)
            for k in range(0, rows, chunk):
                x = np.fromfile(Path(folder) / "x.npy", float, min(chunk, rows - k) * COLUMNS, offset=data[0].offset + 8 * COLUMNS * k).reshape(-1, COLUMNS)
                total += (x @ theta) @ x
            return total

        np.testing.assert_allclose(read(), multiplied())
        calls = {"tapegrad": lambda: both(theta), "2 threads": with_threads(2, lambda: both(theta)), "NumPy, reading": read, "NumPy, mapped": multiplied}
        times = measure(calls, budget=1.0 if quick else 10.0, at_least=3)
        yield ratio(f"{what}: value and gradient, over reading and two products by NumPy", "at most 1.25 times", 1.25, times, "NumPy, reading")
        on_two = {"tapegrad": times["2 threads"], "NumPy, mapped": times["NumPy, mapped"]}
        yield ratio(f"{what}: by two threads, over two products by NumPy of what stays mapped", "at most 1.25 times", 1.25, on_two, "NumPy, mapped")

        executor = stack.enter_context(processes(2))
        for name, client in (("2 processes", lambda: executor), ("2 processes of Dask", lambda: stack.enter_context(cluster(2)))):
            try:
                there = tg.distribute(both, client())
            except Missing as reason:
                yield Row(f"{what}: by {name}", skip=str(reason))
                continue
            same(name, here, there(theta))
            times = measure({name: lambda there=there: there(theta), "one process": lambda: both(theta)}, budget=1.0 if quick else 10.0, at_least=3)
            yield Row(f"{what}: by {name}, over one process", "", times[name].minimum / times["one process"].minimum, detail={"bits": "the same"}, times=times)
        counts = dict(executor.map(compiled, range(16)))
        yield Row("kernels compiled by workers", "none", float(sum(counts.values())), 0.0, "", {"processes": len(counts)})


def cluster(workers: int):
    """A client of processes of Dask on this machine, for a ``with``."""
    peer("distributed")
    import distributed

    logging.getLogger("distributed").setLevel(logging.ERROR)
    both = ExitStack()
    local = both.enter_context(distributed.LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=":0"))
    client = both.enter_context(distributed.Client(local))
    client.__exit__ = lambda *error: both.close()
    return client


def overheads(quick: bool) -> Iterator[Row]:
    """What a chunk costs that has next to no work, beside an empty task of the engine."""
    data, theta = np.arange(float(CHUNKS // (10 if quick else 1))), 0.5
    total = tg.sum_over(tiny, data, chunk=1)
    here = tg.value_and_grad(total)(theta)

    def engine(name, client, submit):
        there = tg.distribute(tg.value_and_grad(total), client)
        same(name, here, there(theta))

        def empty():
            for future in [submit(k) for k in range(len(data))]:
                future.result()

        times = measure({"tapegrad": lambda: there(theta), "empty tasks": empty}, budget=2.0 if quick else 10.0, at_least=3)
        times = {key: time.per(len(data)) for key, time in times.items()}
        return ratio(f"{len(data)} chunks of one row by {name}, over as many empty tasks", "at most twice", 2.0, times, "empty tasks")

    with processes(2) as executor:
        yield engine("2 processes", executor, lambda k: executor.submit(nothing, k))
    peer("distributed")
    with cluster(2) as client:
        yield engine("2 processes of Dask", client, lambda k: client.submit(nothing, k, pure=False))


def workers(quick: bool) -> Iterator[Row]:
    """Simulated work on 1, 2 and 4 workers."""
    data, theta = np.arange(float(CHUNKS // (10 if quick else 1))), 0.5
    both = tg.value_and_grad(tg.sum_over(slow, data, chunk=1))
    found, detail, times = None, {}, {}
    for count in (1, 2, 4):
        with processes(count) as executor:
            while len(dict(executor.map(compiled, range(16 * count)))) < count:
                # Not all have begun.
                time.sleep(0.1)
            there = tg.distribute(both, executor)
            first = there(theta)
            found = first if found is None else found
            same(f"{count} workers", found, first)
            times[count] = of([_timed(lambda: there(theta)) for _ in range(3)])
        detail[f"{count} workers"] = seconds(times[count].minimum)
    ideal = len(data) * WORK / 4
    yield Row(
        f"{len(data)} chunks of {seconds(WORK)} on 4 workers, over a quarter of their sum", "at most 1.25 times", times[4].minimum / ideal, 1.25, detail=detail,
        times={f"{count} workers": time for count, time in times.items()},
    )  # fmt: skip


def _timed(call) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def killed(quick: bool) -> Iterator[Row]:
    """One of two workers ends in the middle."""
    data, theta = np.arange(float(CHUNKS // (10 if quick else 1))), 0.5
    here = tg.value_and_grad(tg.sum_over(tiny, data, chunk=1))(theta)
    with tempfile.TemporaryDirectory() as folder:
        mark = Path(folder) / "mark"
        mark.touch()
        function = Dying(mark)
        there = tg.value_and_grad(tg.sum_over(function, data, chunk=1, client=lambda: processes(2)))
        taken = _timed(lambda: same("after a worker has ended", here, there(theta)))
        lost = float(mark.exists())
    what = f"{len(data)} chunks, of which one ends its process: chunks lost"
    yield Row(what, "none", lost, 0.0, "", {"with two new processes": seconds(taken)})


@benchmark(name="clusters")
def clusters(quick: bool) -> Iterator[Row]:
    """Sums over data that does not fit, by one process and by several."""
    yield from each(
        ("rows in a file", lambda: files(quick)),
        ("overhead of a chunk", lambda: overheads(quick)),
        ("workers", lambda: workers(quick)),
        ("a worker that ends", lambda: killed(quick)),
    )
