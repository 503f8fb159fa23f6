"""Functions run in threads of their own: one in several at a time, or once, apart from the test."""

import threading
from concurrent.futures import ThreadPoolExecutor

#: Seconds after which threads that have not ended count as waiting for each other.
PATIENCE = 120


def in_threads(work, count):
    """Run ``work(k)`` for each k below `count`, each in a thread of its own, and wait for all."""
    threads = [threading.Thread(target=work, args=(k,), daemon=True) for k in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert not any(thread.is_alive() for thread in threads), "a deadlock"


def in_a_thread(function, *args):
    """What `function` returns in another thread, or raises there; that thread has tapes of its own."""
    with ThreadPoolExecutor(1) as apart:
        return apart.submit(function, *args).result()
