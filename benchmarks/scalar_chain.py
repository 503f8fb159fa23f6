"""A chain of 1 000 scalar multiply-adds, recorded and swept, beside PyTorch and HIPS autograd.

This is the program that array libraries are worst at: a Python loop over
numbers.  Each library gets it in its natural form, the three inputs tracked,
and has to deliver the three derivatives.  The time is that of the loop and the
backward pass together.
"""

from __future__ import annotations

from collections.abc import Iterator

import tapegrad as tg

from .registry import Missing, Row, benchmark, check_agreement, peer, ratio, torch_pinned
from .timing import measure

LENGTH = 1000
POINT = (0.7, 0.999, 0.01)  # x, a, b


def chain(x, a, b):
    """Evaluate ``y = y * a + b`` again and again."""
    y = x
    for _ in range(LENGTH):
        y = y * a + b
    return y


def with_tapegrad():
    inputs = [tg.tensor(value, requires_grad=True) for value in POINT]
    chain(*inputs).backward()
    return [tensor.grad.item() for tensor in inputs]


def with_torch():
    torch = torch_pinned()

    def call():
        inputs = [torch.tensor(value, requires_grad=True) for value in POINT]
        chain(*inputs).backward()
        return [tensor.grad.item() for tensor in inputs]

    return call


def with_autograd():
    gradient = peer("autograd").grad(chain, (0, 1, 2))
    return lambda: [float(value) for value in gradient(*POINT)]


@benchmark(name="scalar_chain")
def scalar_chain(quick: bool) -> Iterator[Row]:
    """Recording and sweeping 1 000 scalar multiply-adds (2 000 instructions)."""
    peers = (
        ("PyTorch", with_torch, 1 / 8, "at most 1/8 of PyTorch's time"),
        ("HIPS autograd", with_autograd, 1 / 15, "at most 1/15 of HIPS autograd's time"),
    )
    calls = {"tapegrad": with_tapegrad, "the loop on floats": lambda: chain(*POINT)}
    missing = {}
    for name, prepare, _, _ in peers:
        try:
            calls[name] = prepare()
        except Missing as reason:
            missing[name] = str(reason)
    check_agreement(
        "gradient of the chain",
        {name: call() for name, call in calls.items() if name != "the loop on floats"},
    )
    times = measure(calls, budget=1.0 if quick else 8.0, at_least=10)
    for name, _, limit, promise in peers:
        what = f"1 000 multiply-adds beside {name}"
        if name in missing:
            yield Row(what, promise, limit=limit, skip=missing[name])
            continue
        yield ratio(what, promise, limit, times, name)
    yield Row(
        "tapegrad, per instruction recorded and swept",
        measured=times["tapegrad"].per(2 * LENGTH).minimum * 1e9,
        unit="ns",
        detail={"the loop on plain floats takes": str(times["the loop on floats"])},
    )
