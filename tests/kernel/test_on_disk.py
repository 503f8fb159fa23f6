"""Kernels are kept on disk by their text: any process that makes the same one, at any time, loads it."""

import random
import time

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.codegen import code
from tapegrad.common import config
from tapegrad.kernel import kernel
from tests.codegen.on_disk import KERNELS, ended, files, filled, kept_here, start  # noqa: F401


@pytest.mark.parametrize("seed", ["1", "2"])
def test_a_later_process_loads_what_an_earlier_one_has_compiled(filled, seed):  # noqa: F811
    # The order of sets and the addresses of arrays are others in each.
    cache, first = filled
    said = ended(start(KERNELS, cache, 0, 10, PYTHONHASHSEED=seed))
    assert said["values"] == first["values"] and first["kernels"] == {"compiled": 11, "loaded": 0}
    assert said["kernels"] == {"compiled": 0, "loaded": 11} and said["helpers"]["compiled"] == 0


def test_processes_that_begin_at_once_compile_each_kernel_once(filled):  # noqa: F811
    said = [ended(process) for process in [start(KERNELS, filled[0], 100, 110) for _ in range(4)]]
    assert all(each["values"] == said[0]["values"] for each in said)
    compiled = sum(each["kernels"]["compiled"] for each in said)
    # Without locks each may compile what it does not find.
    assert compiled == 11 or config.portable and 11 < compiled <= 44
    assert sum(each["helpers"]["compiled"] for each in said) == 0


def test_tables_are_not_in_the_code(kept_here):  # noqa: F811
    x, counts = np.linspace(0.1, 0.8, 6), dict(kernel.COUNTS)
    for seed in range(3):
        points = np.random.default_rng(seed).normal(size=(4, 6))
        made = tg.value_and_grad(lambda x, points=points: (points @ x) @ (points @ x)).kernel(x)
        status, (value, gradient) = made.answer([x])
        np.testing.assert_allclose(value, np.sum((points @ x) ** 2), rtol=1e-14)
        np.testing.assert_allclose(gradient, 2 * points.T @ (points @ x), rtol=1e-13)
    assert [kernel.COUNTS[what] - counts[what] for what in ("compiled", "loaded")] == [1, 2]


def test_another_processor_has_code_of_its_own(kept_here, monkeypatch):  # noqa: F811
    x, counts = np.linspace(0.1, 0.8, 6), dict(kernel.COUNTS)
    for processor in ("here", "elsewhere", "here"):
        monkeypatch.setattr(code, "makers", lambda processor=processor: processor)
        made = tg.value_and_grad(lambda x: np.sum(x * x * x)).kernel(x)
        np.testing.assert_allclose(made.answer([x])[1][1], 3 * x * x, rtol=1e-14)
    assert [kernel.COUNTS[what] - counts[what] for what in ("compiled", "loaded")] == [2, 1]


# ---- whatever happens; `python -m pytest -m long` does more of it -------------------------------------------------------
def flipped(count, folder):
    """Flip one byte of a file, and read it, `count` times; only what was made is read, and each loss is made up once."""
    rng = random.Random(count)
    contents = {f"file {k}": rng.randbytes(rng.randrange(0, 3000)) for k in range(20)}
    counts, places = {"compiled": 0, "loaded": 0}, {}
    for key, content in contents.items():
        before = set(files(folder))
        code.kept(key, lambda content=content: content, counts)
        (places[key],) = set(files(folder)) - before
    for _ in range(count):
        key = rng.choice(list(contents))
        data = bytearray(places[key].read_bytes())
        data[rng.randrange(len(data))] ^= rng.randrange(1, 256)
        places[key].write_bytes(data)
        for _ in range(2):
            assert code.kept(key, lambda key=key: contents[key], counts) == contents[key]
    assert counts == {"compiled": 20 + count, "loaded": count}


def killed(count, cache):
    """Kill so many processes that compile and write, at random times; what they leave is read."""
    rng, ready = random.Random(count), 0
    for turn in range(count // 2):
        # Two at a time, that want the same.
        first = 1000 * (turn + 1)
        both = [start(KERNELS, cache, first, first + 500) for _ in range(2)]
        # When so many kernels are there, and a little later: in the middle of the next one, or of its file.
        for process in both:
            process.stderr.read(rng.randrange(1, 10))
        time.sleep(0.02 * rng.random())
        for process in both:
            process.kill()
            process.communicate()
        said = ended(start(KERNELS, cache, first, first + 10))
        assert said["helpers"]["compiled"] == 0
        ready += said["kernels"]["loaded"]
    assert ready >= count // 2


def test_a_few_flipped_bytes(kept_here):  # noqa: F811
    flipped(200, kept_here)


@pytest.mark.long
def test_many_flipped_bytes(kept_here):  # noqa: F811
    flipped(1_000, kept_here)


def test_a_few_killed_writers(filled):  # noqa: F811
    killed(2, filled[0])


@pytest.mark.long
def test_many_killed_writers(filled):  # noqa: F811
    killed(40, filled[0])
