"""The resident size of this process, now and sampled by a thread while work runs."""

from __future__ import annotations

import os
import sys
import threading
import time

from .registry import Missing

MB = 1e6
_STATM = "/proc/self/statm"


def rss() -> int:
    """Bytes of memory that this process holds at the moment.

    Raises
    ------
    Missing
        Where the system does not offer `/proc`.
    """
    if not sys.platform.startswith("linux"):
        raise Missing("the resident size is read from /proc, which only Linux has")
    with open(_STATM, "rb") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Sampler:
    """Record the resident size every `interval` seconds inside a ``with`` block.

    Attributes
    ----------
    times : list of float
        Seconds since the block was entered.
    sizes : list of int
        Resident bytes at those times; the first and last are taken by the
        block's own thread when it enters and leaves.
    """

    def __init__(self, interval: float = 0.0005) -> None:
        self.interval = interval
        self.times: list[float] = []
        self.sizes: list[int] = []

    def __enter__(self) -> Sampler:
        self._stop = threading.Event()
        self._start = time.perf_counter()
        self._sample()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stop.set()
        self._thread.join()
        self._sample()

    def _run(self) -> None:
        while not self._stop.wait(self.interval):
            self._sample()

    def _sample(self) -> None:
        self.times.append(time.perf_counter() - self._start)
        self.sizes.append(rss())
