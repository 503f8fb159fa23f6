"""L-BFGS with a closure, as PyTorch has it; `tapegrad.optimize.lbfgs` is the one for functions, in compiled code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from ..common.errors import OptimizationError
from ..tape.modes import enable_grad, no_grad
from .optimizer import L, Optimizer, Params, put, value_of


class LBFGS(Optimizer):
    """L-BFGS (J. Nocedal, 1980) for a closure that recomputes the loss.

    Parameters
    ----------
    params : iterable of Tensor
        One group only.
    lr : float
        The step along the direction; with a line search, the first step to try.  The very first one is at most ``lr`` long, in the sum of
        its absolute values.
    max_iter : int
        Limit on iterations in each `step`.
    max_eval : int
        Limit on calls of the closure in each `step`; by default a quarter more than `max_iter`.
    tolerance_grad : float
        Stop when no component of the gradient is larger than this.
    tolerance_change : float
        Stop when the loss or the parameters change by no more than this.
    history_size : int
        Number of pairs (change of point, change of gradient) to keep.
    line_search_fn : {None, "strong_wolfe"}
        "strong_wolfe" is the search of J. J. Moré and D. J. Thuente (1994).

    Examples
    --------
    >>> import numpy as np, tapegrad as tg
    >>> x = tg.Parameter([3.0, -2.0])
    >>> optimizer = tg.optim.LBFGS([x], line_search_fn="strong_wolfe")
    >>> def closure():
    ...     optimizer.zero_grad()
    ...     loss = (1.0 - x[0]) ** 2 + 100.0 * (x[1] - x[0] ** 2) ** 2
    ...     loss.backward()
    ...     return loss
    >>> for _ in range(3):
    ...     _ = optimizer.step(closure)
    >>> bool(np.allclose(x.detach().numpy(), 1.0, atol=1e-4))
    True
    """

    def __init__(
        self, params: Params, lr: float = 1.0, max_iter: int = 20, max_eval: int | None = None, tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9, history_size: int = 100, line_search_fn: Literal["strong_wolfe"] | None = None,
    ) -> None:  # fmt: skip
        if line_search_fn not in (None, "strong_wolfe"):
            raise OptimizationError(f'line_search_fn={line_search_fn!r}: choose None or "strong_wolfe"')
        options = {
            "lr": lr, "max_iter": max_iter, "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad, "tolerance_change": tolerance_change, "history_size": history_size,
            "line_search_fn": line_search_fn,
        }  # fmt: skip
        super().__init__(params, options)

    def add_param_group(self, group: dict[str, Any]) -> None:
        if self.param_groups:
            raise OptimizationError("LBFGS optimises one group of parameters")
        super().add_param_group(group)

    # -- parameters as one vector ---------------------------------------------------
    def _gradient(self):
        return np.concatenate([np.zeros(p.size) if p.grad is None else value_of(p.grad).reshape(-1) for p in self._params()])

    def _point(self):
        return np.concatenate([value_of(p).reshape(-1) for p in self._params()])

    def _go(self, x):
        params = self._params()
        with no_grad():
            for p, part in zip(params, np.split(x, np.cumsum([p.size for p in params])[:-1])):
                put(p, part.reshape(p.shape))

    def _evaluate(self, closure):
        """The loss and gradient at the present parameters."""
        with enable_grad():
            loss = closure()
        self._calls += 1
        return float(value_of(loss)) if hasattr(loss, "_v") else float(loss), self._gradient(), loss

    # -- steps ------------------------------------------------------------------------
    def step(self, closure: Callable[[], L]) -> L:  # type: ignore[override]
        """Do up to `max_iter` iterations.

        Parameters
        ----------
        closure : callable
            Clears the gradients, computes the loss, calls its ``backward()`` and returns it.

        Returns
        -------
        Tensor
            The loss at the beginning.
        """
        if not callable(closure):
            raise OptimizationError("LBFGS.step needs a closure that clears the gradients, computes the loss and calls backward()")
        group = self.param_groups[0]
        state = self.state.setdefault(group["params"][0], {"func_evals": 0, "n_iter": 0, "pairs": []})
        self._calls = 0
        loss, g, first = self._evaluate(closure)
        for iteration in range(group["max_iter"]):
            if np.max(np.abs(g), initial=0.0) <= group["tolerance_grad"]:
                break
            d = self._direction(g, group, state)
            state["n_iter"] += 1
            t = group["lr"] if state["n_iter"] > 1 else min(1.0, 1.0 / np.sum(np.abs(g))) * group["lr"]
            slope = float(g @ d)
            # Until a step is made its length is 0: the next direction takes no pair from it.
            state.update(d=d, g=g, t=0.0)
            if slope > -group["tolerance_change"]:
                break
            before, x = loss, self._point()
            # In a stochastic setting the loss after the last step would be of no use.
            last = iteration == group["max_iter"] - 1
            if group["line_search_fn"]:
                t, loss, g = self._search(closure, x, d, t, loss, g, slope, group["max_eval"])
            else:
                self._go(x + t * d)
                if not last:
                    loss, g, _ = self._evaluate(closure)
            state["t"] = t
            if last or self._calls >= group["max_eval"]:
                break
            if np.max(np.abs(t * d)) <= group["tolerance_change"] or abs(loss - before) < group["tolerance_change"]:
                break
        state["func_evals"] += self._calls
        return first

    def _direction(self, g, group, state):
        """Take the pair of the last step, and apply the inverse Hessian that the pairs stand for."""
        pairs = state["pairs"]
        if "d" in state:
            s, y = state["t"] * state["d"], g - state["g"]
            if y @ s > 1e-10:
                if len(pairs) == group["history_size"]:
                    del pairs[0]
                pairs.append((s, y))
                state["scale"] = (y @ s) / (y @ y)
        q, alphas = -g, []
        for s, y in reversed(pairs):
            alphas.append((s @ q) / (y @ s))
            q = q - alphas[-1] * y
        d = q * state.get("scale", 1.0)
        for (s, y), alpha in zip(pairs, reversed(alphas)):
            d = d + (alpha - (y @ d) / (y @ s)) * s
        return d

    def _search(self, closure, x, d, t, loss, g, slope, most):
        """A step for the strong Wolfe conditions; returns it with loss and gradient there."""
        from ..optimize import line_search as W

        row = np.zeros(W.WORDS)
        W.begin(row, loss, slope, t)
        best = (0.0, loss, g)
        outcome = W.GO_ON
        while outcome == W.GO_ON:
            t = float(row[W.L_STEP])
            self._go(x + t * d)
            value, gradient, _ = self._evaluate(closure)
            if value < best[1] and np.isfinite(gradient).all():
                best = (t, value, gradient)
            outcome = W.advance(row, value, float(gradient @ d))
            if outcome == W.FOUND:
                return t, value, gradient
            if self._calls >= most:
                break
        self._go(x + best[0] * d)
        return best
