"""Compiled code is kept on disk, and a cache that cannot be used costs one log line."""

import json
import os
import shutil
import subprocess
import sys

import pytest

PROGRAM = """
import json, logging, sys
logging.basicConfig(format="%(name)s:%(levelname)s:%(message)s")
import numpy as np
import tapegrad as tg

x = tg.tensor(0.5, requires_grad=True)
(np.sin(x * x) / (x + 2.0)).backward()
grads = [x.grad.item()]
more = []
if "arrays" in sys.argv:
    x = np.linspace(0.1, 0.9, 20)
    value, slope = tg.value_and_grad(lambda x: np.sum(np.sin(x) * x) + np.log(x) @ x)(x)
    t = tg.tensor(x, requires_grad=True)
    (np.tanh(t).sum() * t[1] + tg.softmax(t, axis=0).max()).backward()
    more = [value.hex(), slope.tobytes().hex(), t.grad.numpy().tobytes().hex()]
    v = tg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    (np.exp(v) @ np.eye(3) * v).sum().backward()
    grads += v.grad.tolist()

from tapegrad.codegen import code, compile
print(json.dumps({
    "grads": grads, "more": more, "numba": "numba" in sys.modules,
    "compiled": [compile.COUNTS["compiled"], code.COUNTS["compiled"]],
    "loaded": [compile.COUNTS["loaded"], code.COUNTS["loaded"]],
}))
"""


def run(cache, *parts):
    """What the program prints, and its log lines; it computes with numbers, and with ``"arrays"`` too."""
    environment = os.environ | {"TAPEGRAD_CACHE_DIR": str(cache), "TAPEGRAD_QUIET": "1"}
    ended = subprocess.run([sys.executable, "-c", PROGRAM, *parts], env=environment, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout), [line for line in ended.stderr.splitlines() if line]


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """A cache filled by one process, and what that process said."""
    cache = tmp_path_factory.mktemp("cache")
    return cache, *run(cache, "arrays")


def right(said):
    import math

    x, e = 0.5, [math.exp(k) * (1 + k) for k in (1.0, 2.0, 3.0)]
    slope = 2 * x * math.cos(x * x) / (x + 2) - math.sin(x * x) / (x + 2) ** 2
    return said["grads"] == pytest.approx([slope, *e][: len(said["grads"])], rel=1e-14)


def test_the_first_process_compiles_and_keeps(first):
    cache, said, log = first
    assert right(said) and len(said["grads"]) == 4 and log == []
    assert min(said["compiled"]) > 0 and said["numba"]
    files = [p for p in cache.rglob("*") if p.is_file()]
    assert {p.suffix for p in files} == {".o"}


def test_a_second_process_compiles_nothing_and_gives_the_same_bits_without_numba(first):
    cache, before, _ = first
    said, log = run(cache, "arrays")
    assert said["compiled"] == [0, 0] and log == []
    assert said["loaded"] == before["compiled"]
    assert (said["grads"], said["more"]) == (before["grads"], before["more"]) and len(said["more"]) == 3
    assert not said["numba"]


def test_a_cache_that_cannot_be_written_costs_one_log_line(first, tmp_path):
    blocked = tmp_path / "file"  # a file, for whoever runs this may be allowed to write anywhere
    blocked.write_text("not a directory")
    said, log = run(blocked)
    assert right(said)
    assert said["grads"] == first[1]["grads"][:1]
    assert len(log) == 1
    assert log[0].startswith("tapegrad:WARNING:") and str(blocked) in log[0]
    assert blocked.read_text() == "not a directory"


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_cache_costs_one_log_line(tmp_path):
    cache = tmp_path / "cache"
    cache.mkdir(mode=0o500)
    said, log = run(cache)
    assert right(said) and len(log) == 1


def empty(data):
    return b""


def cut(data):
    return data[: len(data) // 2]


def altered(data):
    return data[:-100] + b"\xff" * 100


@pytest.mark.parametrize("damage", [cut, *(pytest.param(damage, marks=pytest.mark.long) for damage in (altered, empty))])
def test_damaged_files_are_ignored_and_written_again(first, tmp_path, damage):
    cache, before, _ = first
    copy = tmp_path / "cache"
    shutil.copytree(cache, copy)
    # Small ones, of which each is read by this program: what is compiled again is counted.
    damaged = sorted(copy.rglob("*.o"), key=lambda path: path.stat().st_size)[:5]
    for path in damaged:
        path.write_bytes(damage(path.read_bytes()))
    said, log = run(copy, "arrays")
    assert right(said) and log == []
    assert (said["grads"], said["more"]) == (before["grads"], before["more"])
    assert said["compiled"][1] == len(damaged) and said["loaded"][1] == before["compiled"][1] - len(damaged)
    again, log = run(copy, "arrays")
    assert again["compiled"] == [0, 0] and log == []
    assert right(again)
