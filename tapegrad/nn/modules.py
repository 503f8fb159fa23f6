"""Layers: `Module`, which holds parameters by name, and what is built of it.

A parameter or a layer is found where it is: among the attributes of its layer, in the order in which they were set. So nothing has to be
registered, and nothing is kept twice.
"""

from __future__ import annotations

import inspect
import math
import operator
from collections import namedtuple
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any, Self, SupportsIndex

import numpy as np

from ..array import creation
from ..array.tensor import Parameter, Tensor
from ..array.typing import TensorLike
from ..common.errors import StructureError, noted
from ..common.observers import RemovableHandle
from ..tape.modes import no_grad
from . import functional
from .names import absent, rows_of
from .pieces import to

#: Names that a state did not have, and names that a model does not have.
Keys = namedtuple("Keys", "missing_keys unexpected_keys")


class Module:
    """A layer, or a model of layers: a class with `forward`, whose attributes are its parameters and submodules.

    Attributes
    ----------
    training : bool
        Set by `train` and `eval`; `Dropout` reads it.

    Examples
    --------
    >>> import tapegrad as tg
    >>> class Line(tg.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.slope = tg.nn.Parameter(2.0)
    ...     def forward(self, x):
    ...         return self.slope * x
    >>> line = Line()
    >>> line(3.0), list(line.state_dict())
    (tensor(6., grad_fn=<MulBackward0>), ['slope'])
    """

    training = True

    def forward(self, *inputs: Any, **options: Any) -> Any:
        """What the layer computes."""
        raise TypeError(f"{type(self).__name__} has no `forward`: write def forward(self, x), what the layer computes")

    def __call__(self, *inputs: Any, **options: Any) -> Any:
        for hook in tuple(vars(self).get("_forward_pre_hooks", {}).values()):
            changed = hook(self, inputs)
            inputs = inputs if changed is None else changed if isinstance(changed, tuple) else (changed,)
        output = self.forward(*inputs, **options)
        for hook in tuple(vars(self).get("_forward_hooks", {}).values()):
            changed = hook(self, inputs, output)
            output = output if changed is None else changed
        return output

    def register_forward_pre_hook(self, hook: Callable[[Module, tuple[Any, ...]], Any]) -> RemovableHandle:
        """Call ``hook(module, inputs)`` before each `forward`; what it returns, unless None, takes the place of the inputs."""
        return RemovableHandle(vars(self).setdefault("_forward_pre_hooks", {}), hook)

    def register_forward_hook(self, hook: Callable[[Module, tuple[Any, ...], Any], Any]) -> RemovableHandle:
        """Call ``hook(module, inputs, output)`` after each `forward`; what it returns, unless None, takes the place of the output.

        Examples
        --------
        >>> import tapegrad as tg
        >>> layer, seen = tg.nn.Linear(2, 3), []
        >>> handle = layer.register_forward_hook(lambda module, inputs, output: seen.append(output.shape))
        >>> _ = layer(tg.ones(4, 2))
        >>> handle.remove()
        >>> _ = layer(tg.ones(5, 2))
        >>> seen
        [(4, 3)]
        """
        return RemovableHandle(vars(self).setdefault("_forward_hooks", {}), hook)

    # -- what is in it ----------------------------------------------------------------
    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Names and layers that are attributes of this one."""
        return ((name, part) for name, part in vars(self).items() if isinstance(part, Module))

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, Module]]:
        """This layer and all below, each once, with dotted names."""
        seen, waiting = set(), [(prefix, self)]
        while waiting:
            name, module = waiting.pop()
            if id(module) not in seen:
                seen.add(id(module))
                yield name, module
                waiting += reversed([(f"{name}.{key}".lstrip("."), part) for key, part in module.named_children()])

    def _named(self, kinds, prefix=""):
        for name, module in self.named_modules(prefix):
            for kind in kinds:
                names = vars(module) if kind is Parameter else vars(module).get("_buffers", ())
                yield from ((f"{name}.{key}".lstrip("."), t) for key in names if isinstance(t := vars(module).get(key), kind))

    def named_parameters(self, prefix: str = "") -> Iterator[tuple[str, Parameter]]:
        """Dotted names and parameters, each parameter once, where it comes first."""
        once: dict[int, tuple[str, Parameter]] = {}
        for name, p in self._named((Parameter,), prefix):
            once.setdefault(id(p), (name, p))
        return iter(once.values())

    def children(self) -> Iterator[Module]:
        """Layers that are attributes of this one."""
        return (part for _, part in self.named_children())

    def modules(self) -> Iterator[Module]:
        """This layer and all below."""
        return (module for _, module in self.named_modules())

    def parameters(self) -> Iterator[Parameter]:
        """All parameters, for an optimiser."""
        return (p for _, p in self.named_parameters())

    def register_buffer(self, name: str, tensor: Tensor) -> None:
        """Make `tensor` an attribute that belongs to the state and is not learned."""
        vars(self).setdefault("_buffers", []).append(name)
        setattr(self, name, tensor)

    #: Both set an attribute.
    register_parameter = add_module = object.__setattr__

    # -- its state ---------------------------------------------------------------------
    def state_dict(self) -> dict[str, Tensor]:
        """Dotted names and values of parameters and buffers; a value shares memory."""
        return {name: t.detach() for name, t in self._named((Parameter, Tensor))}

    def load_state_dict(self, state_dict: dict[str, Any], strict: bool = True) -> Keys:
        """Set parameters and buffers to the values of a state; nothing is changed if something does not fit."""
        mine = dict(self._named((Parameter, Tensor)))
        keys = Keys([name for name in mine if name not in state_dict], [name for name in state_dict if name not in mine])
        wrong = [f"{what} {', '.join(names)}" for what, names in zip(("missing", "unexpected"), keys) if strict and names]
        both = [name for name in mine if name in state_dict]
        wrong += [f"{k} is {np.shape(state_dict[k])}, not {mine[k].shape}" for k in both if np.shape(state_dict[k]) != mine[k].shape]
        if wrong:
            raise StructureError(f"the state does not fit {type(self).__name__}: {'; '.join(wrong)}. Give strict=False for a part of a state")
        with no_grad():
            for name in both:
                mine[name].copy_(state_dict[name])
        return keys

    # -- all parts at once ---------------------------------------------------------------
    def train(self, mode: bool = True) -> Self:
        """Set `training` here and below."""
        for module in self.modules():
            module.training = mode
        return self

    def eval(self) -> Self:
        """``train(False)``."""
        return self.train(False)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients (or fill them with zeros)."""
        for p in self.parameters():
            p.grad = None if set_to_none or p.grad is None else creation.zeros_like(p.grad)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Whether the parameters are learned."""
        for p in self.parameters():
            p.requires_grad_(requires_grad)
        return self

    def to(self, *kind: Any, dtype: Any = None, device: Any = None) -> Self:
        """Parameters and buffers in another dtype."""
        for _, t in self._named((Parameter, Tensor)):
            t.data = to(t.detach(), *kind, dtype, device)
        return self

    def extra_repr(self) -> str:
        """What the printed layer shows of itself."""
        return ""

    def __repr__(self) -> str:
        lines = "".join(f"\n  ({name}): " + repr(part).replace("\n", "\n  ") for name, part in self.named_children())
        return f"{type(self).__name__}({self.extra_repr()}{lines}{chr(10) * bool(lines)})"


class Linear(Module):
    """``x @ weight.T + bias``, with initial weights and biases uniform within ``1 / sqrt(in_features)`` of zero.

    Parameters
    ----------
    in_features, out_features : int
    bias : bool
    dtype : dtype, optional

    Examples
    --------
    >>> import tapegrad as tg
    >>> layer = tg.nn.Linear(3, 2)
    >>> layer(tg.zeros(5, 3)).shape, layer
    ((5, 2), Linear(in_features=3, out_features=2, bias=True))
    """

    def __init__(self, in_features: int, out_features: int, bias: bool = True, *, dtype: Any = None) -> None:
        self.in_features, self.out_features = in_features, out_features
        bound = 1.0 / math.sqrt(in_features) if in_features else 0.0
        self.weight = Parameter(creation.empty(out_features, in_features, dtype=dtype).uniform_(-bound, bound))
        self.bias = Parameter(creation.empty(out_features, dtype=dtype).uniform_(-bound, bound)) if bias else None

    def forward(self, x: TensorLike) -> Tensor:
        return functional.linear(x, self.weight, self.bias)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class LayerNorm(Module):
    """Normalise to mean 0 and variance 1 over the last axes, then apply weights and biases.

    Parameters
    ----------
    normalized_shape : int or tuple of int
    eps : float
    elementwise_affine : bool
        Whether there are weights and biases.
    bias : bool
        Whether there are biases beside the weights.

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.nn.LayerNorm(2)([[1.0, 3.0]]).detach()
    tensor([[-1.0000,  1.0000]])
    """

    def __init__(self, normalized_shape: SupportsIndex | Iterable[int], eps: float = 1e-5, elementwise_affine: bool = True, bias: bool = True) -> None:
        self.normalized_shape = (operator.index(normalized_shape),) if isinstance(normalized_shape, SupportsIndex) else tuple(normalized_shape)
        self.eps = eps
        self.weight = Parameter(creation.ones(self.normalized_shape)) if elementwise_affine else None
        self.bias = Parameter(creation.zeros(self.normalized_shape)) if elementwise_affine and bias else None

    def forward(self, x: TensorLike) -> Tensor:
        return functional.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)


class Dropout(Module):
    """Replace elements by zero with probability `p`, and divide the others by ``1 - p``, while `training`.

    Parameters
    ----------
    p : float

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.nn.Dropout(0.5).eval()(tg.ones(2))
    tensor([1., 1.])
    """

    def __init__(self, p: float = 0.5) -> None:
        self.p = p

    def forward(self, x: TensorLike) -> Tensor:
        return functional.dropout(x, self.p, self.training)


class ModuleList(Module):
    """A list of layers.

    Parameters
    ----------
    modules : iterable of Module

    Examples
    --------
    >>> import tapegrad as tg
    >>> layers = tg.nn.ModuleList([tg.nn.Linear(2, 3), tg.nn.Linear(3, 1)])
    >>> len(layers), list(layers.state_dict())
    (2, ['0.weight', '0.bias', '1.weight', '1.bias'])
    """

    def __init__(self, modules: Iterable[Module] = ()) -> None:
        for module in modules:
            self.append(module)

    def append(self, module: Module) -> Self:
        """Add a layer at the end."""
        return self._add(str(len(self)), module)

    def _add(self, name, module):
        if not isinstance(module, Module):
            raise StructureError(
                f"layer {name} is of type {type(module).__name__}, which is no Module; give layers, as tg.nn.Tanh(), or a class of your own with `forward`"
            )
        setattr(self, name, module)
        return self

    def __len__(self) -> int:
        return len([*self.children()])

    def __getitem__(self, k: Any) -> Any:
        found = [*self.children()][k]
        return self._of(found) if isinstance(k, slice) else found

    def _of(self, modules):
        return type(self)(modules)

    def __iter__(self) -> Iterator[Module]:
        return self.children()


class Sequential(ModuleList):
    """Apply layers one after the other.

    Parameters
    ----------
    *modules : Module
        Or a dict of them by name.

    Examples
    --------
    >>> import tapegrad as tg
    >>> model = tg.nn.Sequential(tg.nn.Linear(4, 8), tg.nn.Tanh(), tg.nn.Linear(8, 1))
    >>> model(tg.zeros(5, 4)).shape
    (5, 1)
    """

    def __init__(self, *modules: Module | dict[str, Module]) -> None:
        named = modules[0] if len(modules) == 1 and isinstance(modules[0], dict) else {str(k): module for k, module in enumerate(modules)}
        for name, module in named.items():
            self._add(name, module)

    def _of(self, modules):
        return type(self)(*modules)

    def forward(self, x: Any) -> Any:
        for module in self:
            x = module(x)
        return x


class Of(Module):
    """A layer that is a function of `functional`, with the options it was made with."""

    name: str

    def __init__(self, *options: Any, **named: Any) -> None:
        signature = inspect.signature(getattr(functional, self.name))
        taken = [p for p in signature.parameters.values() if p.default is not p.empty or p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
        with noted(f"{type(self).__name__}() takes {', '.join(map(str, taken)) or 'no options'}"):
            self.options = signature.replace(parameters=taken).bind(*options, **named).arguments

    def forward(self, *inputs: Any) -> Any:
        return getattr(functional, self.name)(*inputs, **self.options)

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={value!r}" for name, value in self.options.items())


@cache
def __getattr__(name: str) -> Any:
    """The layers that are functions."""
    if name not in (layers := dict(rows_of("Layers"))):
        raise absent("tg.nn", name)
    return type(name, (Of,), {"name": layers[name], "__doc__": f"``tg.nn.functional.{layers[name]}`` as a layer.", "__module__": __name__})
