"""How much memory a long tape of scalars takes: 10^7 instructions within 1.5 GB."""

from __future__ import annotations

import time
from collections.abc import Iterator

import tapegrad as tg

from .memory import MB, Sampler, rss
from .registry import Row, benchmark
from .timing import seconds


@benchmark(name="tape_capacity")
def tape_capacity(quick: bool) -> Iterator[Row]:
    """Growth of resident memory while recording 10^7 scalar instructions."""
    count = 1_000_000 if quick else 10_000_000
    x = tg.tensor(0.5, requires_grad=True)
    (x * x + x).backward()  # compile, and import what is imported late
    before = rss()
    with Sampler(interval=0.01) as sampler:
        y = x
        for _ in range(count // 2):
            y = y * 0.999 + x
    grown = max(sampler.sizes) - before
    left = sampler.sizes[-1] - before
    x.grad = None
    start = time.perf_counter()
    y.backward()
    swept = time.perf_counter() - start
    exact = (1 - 0.999 ** (count // 2)) / 0.001 + 0.999 ** (count // 2)
    assert abs(x.grad.item() / exact - 1) < 1e-6, (x.grad.item(), exact)
    yield Row(
        f"highest RSS growth while recording {count:,} scalar instructions",
        f"10^7 within 1.5 GB, so {count:,} within {1500 * count // 10**7} MB",
        grown / MB,
        1500 * count / 1e7,
        "MB",
        {
            "bytes an instruction": f"{left / count:.0f}",
            "recorded in": seconds(sampler.times[-1]),
            "swept in": seconds(swept),
        },
    )
