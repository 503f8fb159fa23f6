"""Functions run in threads of their own: one in several at a time, or once, apart from the test."""

import threading
from concurrent.futures import ThreadPoolExecutor


def in_threads(work, count, patience=120.0):
    """Run ``work(k)`` for each k below `count`, each in a thread of its own, and wait for all.

    What is raised in one of them is raised here; so is an AssertionError if one is not done in `patience` seconds.
    """
    errors = []

    def run(k):
        try:
            work(k)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(k,), daemon=True) for k in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=patience)
    if errors:
        raise errors[0]
    assert not any(thread.is_alive() for thread in threads), "a deadlock"


def in_a_thread(function, *args):
    """What `function` returns in another thread, or raises there; that thread has tapes of its own."""
    with ThreadPoolExecutor(1) as apart:
        return apart.submit(function, *args).result()
