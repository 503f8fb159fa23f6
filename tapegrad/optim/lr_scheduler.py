"""Schedules of learning rates, with the names of ``torch.optim.lr_scheduler``; `LRScheduler` is the base of those on the page of PyTorch's names."""

from __future__ import annotations

import inspect
import math
from functools import cache
from typing import Any

from ..array.tensor import Tensor
from ..common.errors import OptionError
from ..nn.names import absent, calls_of, function_of
from .optimizer import Optimizer


class LRScheduler:
    """Base class of the schedules: a subclass defines `rate`.

    Parameters
    ----------
    optimizer : Optimizer
    last_epoch : int
        The last step made; -1 at the beginning. Otherwise each group has ``"initial_lr"``, the rate that it began with.

    Raises
    ------
    OptionError
        `last_epoch` is not -1, and a group does not have the rate that it began with.

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

    #: Whether a rate that was changed since, by hand or by another schedule, is changed by the same factor as `rate`, as in PyTorch; else it is `rate`.
    chainable = False

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        self.optimizer, self.last_epoch = optimizer, last_epoch
        if last_epoch != -1 and not all("initial_lr" in group for group in optimizer.param_groups):
            raise OptionError(f'last_epoch={last_epoch}: put the rate of the beginning into each group of the optimizer, {{"params": ..., "initial_lr": ...}}')
        self.base_lrs = [group.setdefault("initial_lr", group["lr"]) for group in optimizer.param_groups]
        self.step()

    def rate(self, lr: float, t: int) -> float:
        """The rate at step `t` of a group that began with `lr`."""
        raise TypeError(f"{type(self).__name__} does not say its `rate`: write def rate(self, lr, t)")

    def step(self) -> None:
        """Make one step."""
        self.last_epoch += 1
        for group, lr in zip(self.optimizer.param_groups, self.base_lrs):
            before, now = self.rate(lr, self.last_epoch - 1) if self.last_epoch else lr, self.rate(lr, self.last_epoch)
            group["lr"] = self._onward(group["lr"], before, now) if self.chainable and group["lr"] != before else now
        self._note()

    def _onward(self, lr, before, now):
        """What becomes of another rate than `before` where `before` becomes `now`; of cosine annealing the distance from `eta_min` shrinks."""
        low = vars(self).get("eta_min", 0.0)
        return low + (lr - low) * (now - low) / (before - low) if before != low else lr + now - before

    def _note(self):
        self._last_lr = [group["lr"] for group in self.optimizer.param_groups]

    def get_last_lr(self) -> list[float]:
        """The rate of each group of parameters that the last step of this schedule left."""
        return self._last_lr

    def state_dict(self) -> dict[str, Any]:
        """What is kept from step to step, as plain data; functions are left out."""
        return {name: value for name, value in vars(self).items() if name != "optimizer" and not callable(value)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from a state."""
        vars(self).update(state_dict)


class ReduceLROnPlateau(LRScheduler):
    """Lower the rates where a measure has stopped falling.

    Parameters
    ----------
    optimizer : Optimizer
    mode : {"min", "max"}
        Whether the measure is to fall, or to rise.
    factor : float
        By which rates are multiplied.
    patience : int
        Steps without improvement that are waited for.
    threshold : float
    threshold_mode : {"rel", "abs"}
        How much counts as an improvement: a part of the best measure so far, or a difference.
    cooldown : int
        Steps after a change in which nothing is counted.
    min_lr : float, or list of float
        Rates do not fall below it, or that of their group.
    eps : float
        Nor do they fall by less.

    Raises
    ------
    OptionError
        An option is not one of these, or `factor` is not below 1.

    Examples
    --------
    >>> import tapegrad as tg
    >>> optimizer = tg.optim.SGD([tg.Parameter([1.0])], lr=1.0)
    >>> scheduler = tg.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=1)
    >>> for loss in (3.0, 2.0, 2.0, 2.0, 1.0):
    ...     scheduler.step(loss)
    >>> scheduler.get_last_lr()
    [0.5]
    """

    def __init__(
        self, optimizer: Optimizer, mode: str = "min", factor: float = 0.1, patience: int = 10, threshold: float = 1e-4, threshold_mode: str = "rel",
        cooldown: int = 0, min_lr: float | list[float] = 0.0, eps: float = 1e-8,
    ) -> None:  # fmt: skip
        if mode not in ("min", "max") or threshold_mode not in ("rel", "abs") or not 0.0 < factor < 1.0:
            raise OptionError(f'mode={mode!r}, threshold_mode={threshold_mode!r}, factor={factor!r}: give "min" or "max", "rel" or "abs", a number below 1')
        self.optimizer, self.mode, self.factor, self.patience, self.threshold = optimizer, mode, factor, patience, threshold
        self.threshold_mode, self.cooldown, self.min_lr, self.eps = threshold_mode, cooldown, min_lr, eps
        self._note()
        self.best, self.num_bad_epochs, self.cooldown_counter = math.inf if mode == "min" else -math.inf, 0, 0

    def step(self, metrics: Any) -> None:  # type: ignore[override]
        """Take in a measure, the loss of validation, say."""
        measure, sign = float(metrics.detach() if isinstance(metrics, Tensor) else metrics), 1.0 if self.mode == "min" else -1.0
        margin = self.threshold * (abs(self.best) if self.threshold_mode == "rel" else 1.0) if math.isfinite(self.best) else 0.0
        better = sign * measure < sign * self.best - margin
        self.best = measure if better else self.best
        self.num_bad_epochs = 0 if better or self.cooldown_counter else self.num_bad_epochs + 1
        self.cooldown_counter = max(self.cooldown_counter - 1, 0)
        if self.num_bad_epochs > self.patience:
            groups = self.optimizer.param_groups
            lowest = [self.min_lr] * len(groups) if isinstance(self.min_lr, (int, float)) else self.min_lr
            for group, least in zip(groups, lowest, strict=True):
                lower = max(group["lr"] * self.factor, least)
                if group["lr"] - lower > self.eps:
                    group["lr"] = lower
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
        self._note()


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

    # A function of the user's is the whole rate.
    made = {"chainable": name != "LambdaLR", "__init__": init, "rate": at, "__doc__": f"The rate is ``{rows[name][1]}``.", "__module__": __name__}
    return type(name, (LRScheduler,), made)
