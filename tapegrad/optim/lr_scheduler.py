"""Schedules of learning rates, with the names of ``torch.optim.lr_scheduler``; `LRScheduler` is the base of those on the page of PyTorch's names."""

from __future__ import annotations

import inspect
from functools import cache
from typing import Any

from ..nn.names import absent, calls_of, function_of
from .optimizer import Optimizer


class LRScheduler:
    """Base of the schedules: a subclass says `rate`.

    Parameters
    ----------
    optimizer : Optimizer
    last_epoch : int
        The step that was made last; -1 at the beginning.

    Examples
    --------
    >>> import tapegrad as tg
    >>> optimizer = tg.optim.SGD([tg.Parameter([1.0])], lr=1.0)
    >>> scheduler = tg.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
    >>> for _ in range(4):
    ...     optimizer.step()
    ...     scheduler.step()
    >>> scheduler.get_last_lr()
    [0.25]
    """

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        self.optimizer, self.last_epoch = optimizer, last_epoch
        self.base_lrs = [group.setdefault("initial_lr", group["lr"]) for group in optimizer.param_groups]
        self.step()

    def rate(self, lr: float, t: int) -> float:
        """The rate at step `t` of a group that began with `lr`."""
        raise TypeError(f"{type(self).__name__} does not say its `rate`: write def rate(self, lr, t)")

    def step(self) -> None:
        """Make one step."""
        self.last_epoch += 1
        for group, lr in zip(self.optimizer.param_groups, self.base_lrs):
            group["lr"] = self.rate(lr, self.last_epoch)

    def get_last_lr(self) -> list[float]:
        """The rate of each group of parameters."""
        return [group["lr"] for group in self.optimizer.param_groups]

    def state_dict(self) -> dict[str, Any]:
        """What is kept from step to step, as plain data; functions are left out."""
        return {name: value for name, value in vars(self).items() if name != "optimizer" and not callable(value)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from a state."""
        vars(self).update(state_dict)


@cache
def __getattr__(name: str) -> Any:
    if name not in (rows := calls_of("Schedules")):
        raise absent("tg.optim.lr_scheduler", name)
    rate = function_of(rows[name][0].replace("(", "(lr, t, ", 1), rows[name][1])
    signature = inspect.signature(rate)

    def init(self, optimizer, *args, last_epoch=-1, **kwargs):
        options = signature.bind(None, None, *args, **kwargs)
        options.apply_defaults()
        vars(self).update(options.arguments)
        LRScheduler.__init__(self, optimizer, last_epoch)

    def at(self, lr, t):
        return rate(lr, t, *[vars(self)[option] for option in [*signature.parameters][2:]])

    return type(name, (LRScheduler,), {"__init__": init, "rate": at, "__doc__": f"The rate is ``{rows[name][1]}``.", "__module__": __name__})
