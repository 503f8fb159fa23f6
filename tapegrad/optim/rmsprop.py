"""RMSprop: steps divided by a running mean of the gradient's square."""

from __future__ import annotations

import numpy as np

from .optimizer import Optimizer, Params


class RMSprop(Optimizer):
    """RMSprop (T. Tieleman and G. Hinton, "Lecture 6.5: RMSProp", 2012).

    Parameters
    ----------
    params : iterable of Tensor, or of dict
    lr : float
    alpha : float
        Decay rate of the running mean of the gradient's square.
    eps : float
    weight_decay : float
        Adds ``weight_decay * p`` to the gradient.
    momentum : float
    centered : bool
        Divide by the standard deviation instead.
    maximize : bool

    Examples
    --------
    >>> import tapegrad as tg
    >>> w = tg.Parameter([1.0])
    >>> optimizer = tg.optim.RMSprop([w], lr=0.01)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w.detach()
    tensor([0.9000])
    """

    def __init__(
        self, params: Params, lr: float = 1e-2, alpha: float = 0.99, eps: float = 1e-8, weight_decay: float = 0.0, momentum: float = 0.0,
        centered: bool = False, *, maximize: bool = False,
    ) -> None:  # fmt: skip
        options = {"lr": lr, "alpha": alpha, "eps": eps, "weight_decay": weight_decay, "momentum": momentum, "centered": centered}
        super().__init__(params, {**options, "maximize": maximize})

    def _changed(self, value, g, group, state):
        alpha = group["alpha"]
        square = state["square_avg"] = alpha * state.get("square_avg", 0.0) + (1.0 - alpha) * g * g
        if group["centered"]:
            mean = state["grad_avg"] = alpha * state.get("grad_avg", 0.0) + (1.0 - alpha) * g
            square = square - mean * mean
        g = g / (np.sqrt(square) + group["eps"])
        if group["momentum"]:
            g = state["momentum_buffer"] = group["momentum"] * state.get("momentum_buffer", 0.0) + g
        return value - group["lr"] * g
