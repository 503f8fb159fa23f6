"""Records: how instructions are staged, packed and read back."""

import subprocess
import sys

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.tape.layout import ARRAY_RECORD, CONTINUATION, RECORD
from tapegrad.tape.store import RECORD_DTYPE

PROGRAM = """
import sys
import numpy as np
import tapegrad as tg

x, v = tg.tensor(0.5, requires_grad=True), tg.tensor([1.0, 2.0], requires_grad=True)

def record():
    with tg.Tape() as tape:
        a = 3.0 - x * 2.0
        b = np.where(a > 0, a / x, x)
        c = tg.stack([v, v * b, v, v * v, v, v, v])
        d = c[3, 1] ** 2.5 + abs(b)
    records = tape.store.records()
    lines = [tape.store.place(slot).line for slot in range(1, len(records))]
    # The interpreter may report the same call at another offset of its inline caches once it has specialised it.
    records["offset"] = 0
    return bytes(tape.store.buffer[: 32 * len(records)]), lines, [t for t in tape.store.tokens if type(t) is float]

assert "tapegrad.interpreter.native" not in sys.modules
by_python = record()
import tapegrad.interpreter.native
by_machine = record()
assert len(by_python[0]) > 32 * 10
assert by_python == by_machine
print("same")
"""


def test_python_and_machine_code_pack_the_same_records():
    ended = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert ended.stdout == "same\n", ended.stderr


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
