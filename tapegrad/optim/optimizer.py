"""What all optimisers for define-by-run code have in common: parameter groups, `zero_grad`, state."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias, TypeVar

import numpy as np

from ..array import creation
from ..array.complex import ComplexTensor, split
from ..array.operators import assign_elements
from ..array.tensor import Tensor
from ..common.errors import OptimizationError
from ..tape.modes import enable_grad, no_grad
from ..tape.places import name_of

#: Leaves, or groups of them with options of their own.
Params: TypeAlias = Iterable[Tensor] | Iterable[dict[str, Any]]
L = TypeVar("L")


class Optimizer:
    """Base class of the optimisers.

    Parameters
    ----------
    params : iterable of Tensor, or of dict
        Leaves that require a gradient; or groups ``{"params": [...], "lr": ...}`` with their own options.
    defaults : dict
        Options for groups that do not set them.

    Attributes
    ----------
    param_groups : list of dict
        May be changed between steps (``optimizer.param_groups[0]["lr"] = 1e-4``).
    state : dict
        The state kept for each parameter, by parameter.

    Raises
    ------
    OptimizationError
        If a parameter is not a leaf that requires a gradient or is given twice, or an option is unknown or impossible.

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.optim.SGD([tg.Parameter([1.0])], lr=0.1).param_groups[0]["lr"]
    0.1
    """

    #: Whether weights decay by themselves, apart from the gradient.
    decoupled = False

    def __init__(self, params: Params, defaults: dict[str, Any]) -> None:
        self.defaults = defaults
        self.state: dict[Tensor, dict[str, Any]] = {}
        self.param_groups: list[dict[str, Any]] = []
        if isinstance(params, (Tensor, dict)):
            raise OptimizationError(f"params must be a list of tensors or of groups, got a {type(params).__name__}; write [x]")
        if callable(getattr(params, "parameters", None)):
            raise OptimizationError(f"params must be a list of tensors or of groups, got a {type(params).__name__}; write its .parameters()")
        groups: list[Any] = list(params)
        if not groups:
            raise OptimizationError("the optimizer got an empty list of parameters")
        for group in groups if isinstance(groups[0], dict) else [{"params": groups}]:
            self.add_param_group(group)

    def add_param_group(self, group: dict[str, Any]) -> None:
        """Optimise more parameters: a dict with ``params`` and options."""
        unknown = set(group) - {"params", "initial_lr", *self.defaults}
        if unknown:
            raise OptimizationError(f"{type(self).__name__} has no option {sorted(unknown)[0]!r}; it has {', '.join(self.defaults)}")
        params = group["params"]
        params = [params] if isinstance(params, (Tensor, ComplexTensor)) else params
        # Of a complex parameter each part is one.
        group = {**self.defaults, **group, "params": [part for p in params for part in (split(p) if isinstance(p, ComplexTensor) else (p,))]}
        ids = {id(p) for other in self.param_groups for p in other["params"]}
        for k, p in enumerate(group["params"]):
            what = f"parameter {k}"
            if not isinstance(p, Tensor):
                raise OptimizationError(f"{what} is of type {type(p).__name__}; make it tg.Parameter(value)")
            if id(p) in ids or not p.is_leaf or not p.requires_grad:
                name = name_of(p)
                what += f" ({name!r}, of shape {tuple(p.shape)})" if name else f" (of shape {tuple(p.shape)})"
                if p.is_leaf and p.requires_grad:
                    raise OptimizationError(f"{what} is given twice")
                how = "was computed from others" if not p.is_leaf else "does not require a gradient"
                raise OptimizationError(f"{what} {how}; optimise leaves made with requires_grad=True, or tg.Parameter(value)")
            ids.add(id(p))
        self._check(group)
        self.param_groups.append(group)

    def _check(self, group):
        """Raise for options that cannot be."""
        for name, value in group.items():
            if name in ("lr", "momentum", "weight_decay", "eps", "alpha") and not value >= 0:
                raise OptimizationError(f"{name}={value!r} must be at least 0")

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients (or fill them with zeros)."""
        for p in self._params():
            if p.grad is not None:
                p.grad = None if set_to_none else creation.zeros_like(p.grad)

    def step(self, closure: Callable[[], L] | None = None) -> L | None:
        """Change each parameter once, by its ``.grad``; parameters without one stay.

        Parameters
        ----------
        closure : callable, optional
            Clears the gradients, computes the loss, calls its ``backward()`` and returns it.

        Returns
        -------
        Tensor or None
            What `closure` returned.
        """
        loss: L | None = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        with no_grad():
            for group in self.param_groups:
                for p in group["params"]:
                    if p.grad is not None:
                        value, g, decay = value_of(p), value_of(p.grad), group.get("weight_decay")
                        g = -g if group.get("maximize") else g
                        if decay and self.decoupled:
                            value = value * (1.0 - group["lr"] * decay)
                        elif decay:
                            g = g + decay * value
                        put(p, self._changed(value, g, group, self.state.setdefault(p, {})))
        return loss

    def _changed(self, value, g, group, state):
        """What a parameter becomes; `g` points upwards, weights that decay by themselves have done so."""
        raise NotImplementedError(f"{type(self).__name__} does not say how it changes a parameter")

    # -- keeping ---------------------------------------------------------------------
    def state_dict(self) -> dict[str, Any]:
        """Options and state as plain data (arrays are copies), parameters by their position."""
        order = {id(p): k for k, p in enumerate(self._params())}
        groups = [{**group, "params": [order[id(p)] for p in group["params"]]} for group in self.param_groups]
        return {"state": {order[id(p)]: copy.deepcopy(s) for p, s in self.state.items()}, "param_groups": groups}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take options and state of an optimizer over parameters of the same shapes, in the same order."""
        groups, params = state_dict["param_groups"], self._params()
        theirs, ours = [len(g["params"]) for g in groups], [len(g["params"]) for g in self.param_groups]
        if theirs != ours:
            raise OptimizationError(f"the state is of groups of {theirs} parameters, this optimizer has {ours}")
        for group, saved in zip(self.param_groups, groups):
            group.update({name: value for name, value in saved.items() if name != "params"})
        self.state = {params[k]: copy.deepcopy(s) for k, s in state_dict["state"].items()}

    def _params(self):
        return [p for group in self.param_groups for p in group["params"]]

    def __repr__(self):
        lines = [f"{type(self).__name__} ("]
        for k, group in enumerate(self.param_groups):
            lines.append(f"Parameter Group {k}")
            lines += [f"    {name}: {value}" for name, value in sorted(group.items()) if name != "params"]
        return "\n".join([*lines, ")"])


def value_of(t):
    """The value of a tensor as an array of its own dtype (a number as an array without dimensions)."""
    return np.asarray(t._v)


def put(p, value):
    """Change a parameter in place."""
    assign_elements(p, Ellipsis, value)
