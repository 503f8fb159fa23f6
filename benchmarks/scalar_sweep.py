"""The backward sweep alone, on a tape of a million scalar instructions of mixed kinds.

The tape is recorded once from a loop whose body holds twenty instructions with
ten different opcodes, as programs do; then `backward(retain_graph=True)` is
timed.  Its call from Python is part of the time, but small beside a million
instructions.
"""

from __future__ import annotations

from collections.abc import Iterator

import tapegrad as tg

from . import programs
from .registry import Row, benchmark, check_agreement
from .timing import measure

BODY = 20  # instructions in one turn of the loop


def mixed(x, y, turns: int):
    a, b = x, y
    for _ in range(turns):
        a, b = programs.mixed(a, b, x, y)
    return a + b


def instructions(turns: int) -> int:
    return BODY * turns + 1


@benchmark(name="scalar_sweep")
def scalar_sweep(quick: bool) -> Iterator[Row]:
    """One backward sweep over 10^6 scalar instructions (10^5 in quick mode)."""
    turns = (100_000 if quick else 1_000_000) // BODY
    x = tg.tensor(0.3, requires_grad=True)
    y = tg.tensor(0.6, requires_grad=True)

    few = 5
    with tg.Tape() as tape:
        result = mixed(x, y, few)
    assert len(tape) == instructions(few), (len(tape), instructions(few))
    result.backward()
    h = 1e-6
    by_difference = [
        (mixed(0.3 + h, 0.6, few) - mixed(0.3 - h, 0.6, few)) / (2 * h),
        (mixed(0.3, 0.6 + h, few) - mixed(0.3, 0.6 - h, few)) / (2 * h),
    ]
    check_agreement(
        "gradient of the loop",
        {"tapegrad": [x.grad.item(), y.grad.item()], "a difference": by_difference},
        rtol=1e-6,
    )

    with tg.Tape() as tape:
        result = mixed(x, y, turns)
    count = instructions(turns)
    assert len(tape) == count, (len(tape), count)

    def sweep() -> None:
        result.backward(retain_graph=True)

    time = measure({"sweep": sweep}, budget=1.0 if quick else 6.0, at_least=10)["sweep"]
    yield Row(
        f"sweep over {count:,} scalar instructions, each",
        "at most 5 ns per scalar instruction of mixed opcodes",
        time.per(count).minimum * 1e9,
        5.0,
        "ns",
        {"whole sweep": str(time), "repeats": time.repeats},
    )
