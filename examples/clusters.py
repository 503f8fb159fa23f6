"""Who computes a sum over data, and what that takes: the picture of docs/clusters.md
==================================================================================

The left half shows what travels; the right one the time of a pass over 1 000 chunks by processes of this machine, and what follows from it
for more of them.  Work is simulated (a chunk waits), so that it does not matter how many cores there are.

Run it with::

    python examples/clusters.py
    python examples/clusters.py --plot docs/clusters.png

It needs ``pip install .[examples]``.
"""
# sphinx_gallery_thumbnail_path = "gallery/clusters.png"

from __future__ import annotations

import argparse
import math
import time
from concurrent.futures import ProcessPoolExecutor

import numpy as np

import tapegrad as tg
from tapegrad.many.engines import TASKS


@tg.primitive
def waited(theta, seconds):
    """`theta`, after a while."""
    time.sleep(seconds + 0.0 * math.sin(theta))  # of `math`, so that it is called each time
    return theta


waited.defvjp(lambda g, result, theta, seconds: (g, None))


class Misfit:
    """Squares of differences, each chunk of which takes a while."""

    def __init__(self, seconds):
        self.seconds = seconds

    def __call__(self, theta, rows):
        return np.sum((waited(theta, self.seconds) - rows) ** 2)


def timed(chunks, seconds, workers, executor):
    """The shortest of three passes by so many workers, and what it gives."""
    total = tg.sum_over(Misfit(seconds), np.arange(float(chunks)), chunk=1)
    with executor(workers) as client:
        both = tg.distribute(tg.value_and_grad(total), client)
        found = both(0.5)
        taken = []
        for _ in range(3):
            start = time.perf_counter()
            found = both(0.5)
            taken.append(time.perf_counter() - start)
    return min(taken), found


def modelled(workers, chunks, seconds, task):
    """A pass: work that is shared, or `task` seconds for each task, which the process that asks does alone, if that takes longer."""
    return max(chunks * seconds / workers, min(chunks, TASKS * workers) * task)


def main(path, chunks=1000, seconds=0.004, counts=(1, 2, 4), executor=ProcessPoolExecutor):
    times = {}
    results = set()
    for workers in counts:
        times[workers], (value, gradient) = timed(chunks, seconds, workers, executor)
        results.add((value, gradient))
    # What a chunk takes, by one worker; and a task, by chunks of no work.
    chunk = times[counts[0]] * counts[0] / chunks
    task = timed(chunks, 0.0, counts[-1], executor)[0] / min(chunks, TASKS * counts[-1])
    for workers, taken in times.items():
        print(f"{workers} workers: {taken:.2f} s, modelled {modelled(workers, chunks, chunk, task):.2f} s")
    print(f"different results: {len(results)}")
    draw(path, times, lambda workers, factor: modelled(workers, factor * chunks, chunk, task), chunks)
    return results


def draw(path, times, model, chunks):
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2))
    left.set(xlim=(0, 10), ylim=(0, 6))
    left.axis("off")

    def box(x, y, text, color):
        left.text(x, y, text, ha="center", va="center", bbox={"boxstyle": "round,pad=0.5", "facecolor": color, "edgecolor": "0.4"}, fontsize=9)

    box(5, 5.4, "your process: theta, the optimiser,\nthe last additions", "#cfe2f3")
    for x in (1.8, 5, 8.2):
        box(x, 2.8, "worker:\nkernel of f and f'", "#d9ead3")
        box(x, 0.6, "rows: a file,\na partition", "#fff2cc")
        left.annotate("", (x, 2.2), (x, 1.15), arrowprops={"arrowstyle": "->", "color": "0.3"})
        left.annotate("", (x, 3.4), (x, 4.85), arrowprops={"arrowstyle": "<->", "color": "0.3"})
    left.text(1.95, 3.95, "once: the function and its kernels\neach task: theta, which chunks", fontsize=8, color="0.3")
    left.text(5.15, 3.95, "back: one sum a task (value,\ngradient, number of rows)", fontsize=8, color="0.3")
    left.text(5.1, 1.6, "a chunk at a time", fontsize=8, color="0.3")

    workers = np.unique(np.logspace(0, 3, 60).astype(int))
    for factor, style in ((1, "-"), (100, "--")):
        right.loglog(workers, [model(w, factor) for w in workers], style, color="tab:blue", label=f"{factor * chunks:,} chunks, modelled")
    right.loglog(list(times), list(times.values()), "o", color="tab:red", label=f"{chunks:,} chunks, measured")
    right.set(xlabel="workers", ylabel="seconds of a pass")
    right.grid(alpha=0.3)
    right.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--plot", metavar="FILE", default="clusters.png", help="where to save the picture (%(default)s)")
    main(parser.parse_args().plot)
