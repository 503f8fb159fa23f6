"""Gradient descent, with momentum."""

from __future__ import annotations

from ..common.errors import OptimizationError
from .optimizer import Optimizer, Params


class SGD(Optimizer):
    """Gradient descent: ``v = momentum * v + (1 - dampening) * g``, ``p = p - lr * v``.

    Parameters
    ----------
    params : iterable of Tensor, or of dict
    lr : float
    momentum, dampening : float
    weight_decay : float
        Adds ``weight_decay * p`` to the gradient.
    nesterov : bool
        Step along ``g + momentum * v``.
    maximize : bool

    Examples
    --------
    >>> import numpy as np, tapegrad as tg
    >>> x = tg.Parameter([3.0, -2.0])
    >>> optimizer = tg.optim.SGD([x], lr=0.1, momentum=0.5)
    >>> for _ in range(200):
    ...     optimizer.zero_grad()
    ...     np.sum((x - 1.0) ** 2).backward()
    ...     _ = optimizer.step()
    >>> bool(np.allclose(x.detach().numpy(), 1.0))
    True
    """

    def __init__(
        self, params: Params, lr: float = 1e-3, momentum: float = 0.0, dampening: float = 0.0, weight_decay: float = 0.0,
        nesterov: bool = False, *, maximize: bool = False,
    ) -> None:  # fmt: skip
        options = {
            "lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay, "nesterov": nesterov,
            "maximize": maximize,
        }  # fmt: skip
        super().__init__(params, options)

    def _check(self, group):
        super()._check(group)
        if group["nesterov"] and (group["momentum"] <= 0 or group["dampening"] != 0):
            raise OptimizationError("nesterov=True needs momentum above 0 and no dampening")

    def _changed(self, value, g, group, state):
        momentum = group["momentum"]
        if momentum:
            velocity = state.get("momentum_buffer")
            velocity = g.copy() if velocity is None else momentum * velocity + (1.0 - group["dampening"]) * g
            state["momentum_buffer"] = velocity
            g = g + momentum * velocity if group["nesterov"] else velocity
        return value - group["lr"] * g
