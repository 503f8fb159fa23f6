"""Adam and AdamW: steps by running means of the gradient and of its square."""

from __future__ import annotations

import math

import numpy as np

from ..common.errors import OptimizationError
from .optimizer import Optimizer, Params


class Adam(Optimizer):
    """Adam (D. P. Kingma and J. Ba, "Adam: a method for stochastic optimization", 2015).

    Parameters
    ----------
    params : iterable of Tensor, or of dict
    lr : float
    betas : pair of float
        Decay rates of the running means of the gradient and of its square.
    eps : float
    weight_decay : float
        Adds ``weight_decay * p`` to the gradient.
    amsgrad : bool
        Divide by the largest mean square so far (S. Reddi et al., 2018).
    maximize : bool

    Examples
    --------
    >>> import numpy as np, tapegrad as tg
    >>> x = tg.Parameter([3.0, -2.0])
    >>> optimizer = tg.optim.Adam([x], lr=0.1)
    >>> for _ in range(500):
    ...     optimizer.zero_grad()
    ...     np.sum((x - 1.0) ** 2).backward()
    ...     _ = optimizer.step()
    >>> bool(np.allclose(x.detach().numpy(), 1.0, atol=1e-4))
    True
    """

    def __init__(
        self, params: Params, lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 0.0, amsgrad: bool = False, *, maximize: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(
            params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad, "maximize": maximize}
        )

    def _check(self, group):
        super()._check(group)
        for k, beta in enumerate(group["betas"]):
            if not 0.0 <= beta < 1.0:
                raise OptimizationError(f"betas[{k}]={beta!r} must be from 0 to below 1")

    def _changed(self, value, g, group, state):
        beta1, beta2 = group["betas"]
        if not state:
            state.update(step=0, exp_avg=np.zeros_like(value), exp_avg_sq=np.zeros_like(value))
        state["step"] += 1
        mean = state["exp_avg"] = state["exp_avg"] + (1.0 - beta1) * (g - state["exp_avg"])
        square = state["exp_avg_sq"] = beta2 * state["exp_avg_sq"] + (1.0 - beta2) * g * g
        if group["amsgrad"]:
            square = state["max_exp_avg_sq"] = np.maximum(state.get("max_exp_avg_sq", 0.0), square)
        size = group["lr"] / (1.0 - beta1 ** state["step"])
        spread = np.sqrt(square) / math.sqrt(1.0 - beta2 ** state["step"]) + group["eps"]
        return value - size * (mean / spread)


class AdamW(Adam):
    """Adam with decoupled weight decay (I. Loshchilov and F. Hutter, 2019).

    Parameters
    ----------
    params, lr, betas, eps, amsgrad, maximize
        As in `Adam`.
    weight_decay : float
        Each step first multiplies the parameters by ``1 - lr * weight_decay``.

    Examples
    --------
    >>> import tapegrad as tg
    >>> w = tg.Parameter([1.0])
    >>> optimizer = tg.optim.AdamW([w], lr=0.1, weight_decay=0.0)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w.detach()
    tensor([0.9000])
    """

    decoupled = True

    def __init__(
        self, params: Params, lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 1e-2, amsgrad: bool = False, *, maximize: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, maximize=maximize)
