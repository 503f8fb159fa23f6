"""One whole training step of a 64-64-10 network, beside PyTorch.

Forward, backward and the update of the parameters by plain gradient descent,
on a batch of 128 in float64.  Both libraries run the same lines, and PyTorch
also with the fused loss function of its own, which is the time that counts.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import tapegrad as tg

from .registry import Missing, Row, benchmark, check_agreement, ratio, torch_pinned
from .timing import measure

BATCH, INPUTS, HIDDEN, OUTPUTS = 128, 64, 64, 10
RATE = 0.01


def data() -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
    """Images, labels and first parameters, the same for all."""
    rng = np.random.default_rng(0)
    images = rng.random((BATCH, INPUTS))
    labels = rng.integers(0, OUTPUTS, BATCH)
    parameters = [
        rng.normal(size=(INPUTS, HIDDEN)) / 8,
        np.zeros(HIDDEN),
        rng.normal(size=(HIDDEN, OUTPUTS)) / 8,
        np.zeros(OUTPUTS),
    ]
    return images, labels, parameters


def with_tapegrad(fused: bool = True):
    images, labels, start = data()
    parameters = [tg.Parameter(value) for value in start]
    w1, b1, w2, b2 = parameters
    rows = np.arange(BATCH)

    def step() -> float:
        scores = np.tanh(images @ w1 + b1) @ w2 + b2
        if fused:
            loss = tg.nn.functional.cross_entropy(scores, labels)
        else:
            loss = -tg.log_softmax(scores, axis=1)[rows, labels].mean()
        loss.backward()
        with tg.no_grad():
            for parameter in parameters:
                parameter -= RATE * parameter.grad
                parameter.grad = None
        return loss.item()

    return step


def with_torch(fused: bool):
    torch = torch_pinned()
    images, labels, start = data()
    images, labels = torch.tensor(images), torch.tensor(labels)
    parameters = [torch.tensor(value, requires_grad=True) for value in start]
    w1, b1, w2, b2 = parameters
    rows = torch.arange(BATCH)

    def step() -> float:
        scores = torch.tanh(images @ w1 + b1) @ w2 + b2
        if fused:
            loss = torch.nn.functional.cross_entropy(scores, labels)
        else:
            loss = -torch.log_softmax(scores, dim=1)[rows, labels].mean()
        loss.backward()
        with torch.no_grad():
            for parameter in parameters:
                parameter -= RATE * parameter.grad
                parameter.grad = None
        return loss.item()

    return step


@benchmark(name="train_step")
def train_step(quick: bool) -> Iterator[Row]:
    """Forward, backward and update of a small network, batch 128, float64."""
    what, promise = "one training step beside PyTorch", "at most PyTorch's time"
    calls = {"tapegrad": with_tapegrad()}
    try:
        calls["PyTorch"] = with_torch(fused=True)
        calls["PyTorch, same lines"] = with_torch(fused=False)
    except Missing as reason:
        time = measure(calls, budget=1.0)["tapegrad"]
        yield Row(what, promise, limit=1.0, skip=str(reason))
        yield Row("tapegrad alone", measured=time.minimum * 1e6, unit="us")
        return
    check_agreement(
        "losses of 20 steps",
        {name: [step() for _ in range(20)] for name, step in calls.items()},
    )
    times = measure(calls, budget=1.0 if quick else 6.0, at_least=20, at_most=20_000)
    yield ratio(what, promise, 1.0, times, "PyTorch")
    yield ratio("beside PyTorch with the same lines", "", None, times, "PyTorch, same lines")
