"""The optimisers that step along a gradient: SGD, RMSprop, Adam and AdamW."""

from __future__ import annotations

import math

import numpy as np

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
