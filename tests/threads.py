"""One function in several threads at a time."""

import threading


def in_threads(work, count):
    """Run ``work(k)`` for each k below `count`, each in a thread of its own, and wait for all."""
    threads = [threading.Thread(target=work, args=(k,)) for k in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
