"""Records: how instructions are staged, packed and read back."""

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.tape.layout import ARRAY_RECORD, CONTINUATION, RECORD
from tapegrad.tape.store import LOOKED_AFTER, RECORD_DTYPE

PROGRAM = """
import numpy as np
import tapegrad as tg
from tapegrad.interpreter.fields import numbers

x, v = tg.tensor(0.5, requires_grad=True), tg.tensor([1.0, 2.0], requires_grad=True)

def record():
    with tg.Tape() as tape:
        a = 3.0 - x * 2.0
        b = np.where(a > 0, a / x, x)
        c = tg.stack([v, v * b, v, v * v, v, v, v])
        d = c[3, 1] ** 2.5 + abs(b) - np.sin(-b) + a**2 + v[0] * c[0, 0] * v[1] * (a * 7) / np.float64(3.0)
    records = tape.store.records()
    lines = [tape.store.place(slot).line for slot in range(1, len(records))]
    # The interpreter may report the same call at another offset of its inline caches once it has specialised it.
    records["offset"] = 0
    return bytes(tape.store.buffer[: 32 * len(records)]).hex(), lines

record()
assert (numbers is not None) == native
print(record())
"""


def test_the_short_and_the_general_way_write_the_same_records():
    printed = []
    for way in ("always", "never"):
        environment = {**os.environ, "TAPEGRAD_NATIVE": way}
        program = f"native = {way == 'always'}{PROGRAM}"
        ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
        assert ended.returncode == 0, ended.stderr
        printed.append(ended.stdout)
    assert printed[0] == printed[1] and len(printed[0]) > 64 * 20


def test_the_general_way_serves_where_there_is_no_native_type():
    program = (
        "import tapegrad as tg\nfrom tapegrad.interpreter.fields import numbers\nassert numbers is None\n"
        "x = tg.tensor(2.0, requires_grad=True); y = x * x + 3.0 / x; y.backward(); print(y.item(), x.grad.item())"
    )
    for name in ("TAPEGRAD_NATIVE", "TAPEGRAD_PORTABLE"):
        environment = {**os.environ, name: {"TAPEGRAD_NATIVE": "never"}.get(name, "1")}
        ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
        assert ended.stdout.split() == ["5.5", "3.25"], ended.stderr


def test_the_layouts_overlay():
    assert RECORD.size == ARRAY_RECORD.size == CONTINUATION.size == RECORD_DTYPE.itemsize == 32


@pytest.mark.parametrize("count", [1, 31, 33, 5_000, 40_000])
def test_instructions_are_read_back_as_written(count):
    x = tg.tensor(2.0, requires_grad=True)
    with tg.Tape() as tape:
        for k in range(count):
            y = x * float(k)
    assert len(tape) == count
    records = tape.store.records()
    assert records["value"][-1] == y.item() == 2.0 * (count - 1)
    assert (records["constant"][2:] == np.arange(count)).all()
    assert (records["a"][2:] == 1).all() and (records["b"][2:] == 0).all()


def test_slots_count_up_and_refer_backwards():
    x, v = tg.tensor(2.0, requires_grad=True), tg.tensor([1.0, 2.0], requires_grad=True)
    with tg.Tape() as tape:
        y = v
        for _k in range(100):
            y = tg.concatenate([y[:2], v, y[-1:] * x, v, v])
    slots = [i.slot for i in tape.instructions]
    assert slots == sorted(set(slots))
    for i in tape.instructions:
        assert all(0 < s < i.slot for s in i.operands)


def test_a_scalar_instruction_takes_less_than_150_bytes():
    x = tg.tensor(1.0, requires_grad=True)
    with tg.Tape() as tape:
        y = x
        for _ in range(200_000):
            y = y * 0.999
    assert tape.memory()["total"] < 150 * len(tape)


# -- long recordings ---------------------------------------------------------------------------
@pytest.fixture
def clock(monkeypatch):
    """A clock that the test turns, and what was said first for each reason."""
    said, now = {}, [0.0]
    monkeypatch.setattr("tapegrad.tape.store.time", SimpleNamespace(thread_time=lambda: now[0] + 100.0))
    monkeypatch.setattr("tapegrad.tape.store.say", said.setdefault)
    return now, said


def loop(turns, now, each):
    """So many instructions, of so many seconds each."""
    x = y = tg.tensor(0.5, requires_grad=True)
    for _ in range(turns):
        now[0] += each
        y = y * x
    return y


def test_a_long_recording_says_how_long_it_is_after_two_seconds_and_after_four(clock):
    now, said = clock
    with tg.Tape():
        loop(200_000, now, 5.0 / 200_000)
    assert set(said) == {("recording", 2), ("recording", 3)}
    first, later = said.values()
    count = re.fullmatch(r"recording, ([\d,]+) instructions after 2 s; a long loop over numbers is compiled by tg.njit_grad", first)[1]
    assert 80_000 < int(count.replace(",", "")) <= 80_000 + 2 * LOOKED_AFTER
    assert re.fullmatch(r"recording, 1[\d,]+ instructions after [45] s", later)


def test_short_recordings_say_nothing_however_many_there_are(clock):
    now, said = clock

    def record():
        for _ in range(5):
            tg.grad(lambda x: loop(20_000, now, 1.0 / 20_000) * x)(1.0)
            loop(20_000, now, 1.0 / 20_000).backward()

    # A thread of its own has a store of its own: what was recorded before and is still alive is no part of it.
    with ThreadPoolExecutor(1) as pool:
        pool.submit(record).result()
    assert now[0] > 9.0 and not said


def test_to_look_at_the_clock_costs_nothing_an_instruction(clock, monkeypatch):
    looks = []
    monkeypatch.setattr("tapegrad.tape.store.time", SimpleNamespace(thread_time=lambda: looks.append(1) or 1.0))
    with tg.Tape():
        loop(200_000, [0.0], 0.0)
    assert len(looks) < 20
