"""Threads that share the work of a call: order, errors, interruptions, forks, and what `config.threads` may be."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

import tapegrad as tg
from tapegrad.common import config, pool


@pytest.fixture(params=[1, 2, 3])
def threads(request, monkeypatch):
    monkeypatch.setattr(config, "threads", request.param)
    return request.param


def test_each_chunk_is_done_once_and_results_are_in_order(threads):
    done = []

    def work(k):
        done.append(k)
        return k * k

    for chunks in (0, 1, 2, 100):
        done.clear()
        assert pool.run(work, chunks) == [k * k for k in range(chunks)]
        assert sorted(done) == list(range(chunks))


def test_as_many_threads_are_at_work_as_the_setting_says(threads):
    """Each waits for all others at a barrier, which breaks if there are fewer."""
    barrier = threading.Barrier(threads, timeout=30)
    pool.run(lambda k: barrier.wait(), threads)
    assert not barrier.broken
    names = set(pool.run(lambda k: threading.get_ident(), 50))
    assert len(names) <= threads


def test_a_call_inside_of_a_chunk_runs_in_its_thread(threads):
    def work(k):
        here = threading.get_ident()
        return all(one == here for one in pool.run(lambda j: threading.get_ident(), 5))

    assert all(pool.run(work, 8))


def test_an_error_ends_the_call_when_nothing_is_at_work_any_more(threads):
    at_work = []

    def work(k):
        at_work.append(k)
        try:
            if k == 3:
                raise KeyError(k)
            time.sleep(0.001)
        finally:
            at_work.remove(k)

    for _ in range(5):
        with pytest.raises(KeyError, match="3"):
            pool.run(work, 1000)
        assert not at_work
    assert pool.run(abs, 3) == [0, 1, 2]


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_an_interruption_waits_for_the_threads_and_another_signal_loses_nothing(threads, interruptible):
    def work(k):
        if k == 2:
            signal.raise_signal(signal.SIGINT) if threading.current_thread() is threading.main_thread() else os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.002)
        return k

    with pytest.raises(KeyboardInterrupt):
        pool.run(work, 500)
    came = []
    before = signal.signal(signal.SIGINT, lambda *_: came.append(True))
    try:
        assert pool.run(work, 50) == list(range(50))
        time.sleep(0.01)
    finally:
        signal.signal(signal.SIGINT, before)
    assert came


@pytest.mark.parametrize("threads", [0, -1, 2.5, "two", None, config.MOST_THREADS + 1])
def test_numbers_of_threads_that_cannot_be(threads):
    before = config.threads
    with pytest.raises(tg.errors.OptionError, match="tg.config.threads is .*; give a number of threads from 1 to 1024: this process may use"):
        config.threads = threads
    assert config.threads == before


def test_the_environment_says_how_many():
    program = "import tapegrad as tg; print(tg.config.threads, tg.config.cores() >= 1)"

    def run(**more):
        environment = {key: value for key, value in os.environ.items() if key != "TAPEGRAD_THREADS"} | more
        return subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)

    assert run(TAPEGRAD_THREADS="3").stdout.split() == ["3", "True"]
    assert run().stdout.split() == [str(config.cores()), "True"]
    assert run(TAPEGRAD_THREADS="two").stderr.endswith("ValueError: TAPEGRAD_THREADS is 'two'; give a number of threads, as 2\n")
    assert "OptionError: TAPEGRAD_THREADS is 0" in run(TAPEGRAD_THREADS="0").stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_child_that_is_forked_has_threads_of_its_own(threads):
    assert pool.run(abs, 4) == [0, 1, 2, 3]
    child = os.fork()
    if not child:
        barrier = threading.Barrier(threads, timeout=30)
        status = 1
        try:
            pool.run(lambda k: barrier.wait(), threads)
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
