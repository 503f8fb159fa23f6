"""`to_torch`: a function of ours inside a program of PyTorch."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from ..common.errors import DtypeError
from ..common.tree import Structure, flatten, unflatten
from .operation import Operation, by_position, library, name_of, of_leaves


def to_torch(f: Callable[..., Any]) -> Callable[..., Any]:
    """Make `f` a differentiable operation of PyTorch.

    Parameters
    ----------
    f : callable
        Takes and returns arrays and numbers, or containers of them.  It runs under `jit`, with the same contract.

    Returns
    -------
    callable
        Takes what `f` takes, with PyTorch tensors (on the CPU; float64, float32 or integers) in place of arrays, and returns tensors.
        ``backward()`` and ``torch.autograd.grad`` differentiate it, twice as well (``create_graph=True``); ``torch.func``'s ``grad``,
        ``jacrev``, ``jacfwd``, ``hessian`` and ``vmap`` take it.

    Raises
    ------
    DtypeError
        From the call: if a tensor has another dtype or is on another device.
    MissingPackageError
        If PyTorch is not installed.

    Notes
    -----
    PyTorch and tapegrad share memory in both directions; only numbers are copied.  An element of a result that does not depend on what
    requires a gradient still has a ``grad_fn``, with a zero gradient.

    Examples
    --------
    >>> import numpy as np
    >>> from tapegrad.interop import to_torch
    >>> def warm(rate, t):
    ...     return 20.0 + 70.0 * np.exp(-rate * t)
    >>> warm(0.0, 1.0)
    np.float64(90.0)
    >>> import torch  # doctest: +SKIP
    >>> cooled = to_torch(warm)  # doctest: +SKIP
    >>> rate = torch.tensor(0.5, dtype=torch.float64, requires_grad=True)  # doctest: +SKIP
    >>> cooled(rate, torch.arange(3.0, dtype=torch.float64)).sum().backward()  # doctest: +SKIP
    """
    torch = library("torch")
    called, name = _call(torch), name_of(f)
    operations: dict[Structure, Operation] = {}

    @functools.wraps(f)
    def call(*arguments: Any, **keywords: Any) -> Any:
        arguments = by_position(f, arguments, keywords) if keywords else arguments
        leaves, structure = flatten(arguments)
        for k, argument in enumerate(arguments):
            for leaf in flatten(argument)[0]:
                if isinstance(leaf, torch.Tensor):
                    _check(torch, leaf, k, name)
        operation = operations.get(structure) or operations.setdefault(structure, of_leaves(f, structure, unflatten, name))
        container = _Container()
        results = called.apply(operation, container, *leaves)
        return unflatten(container.structure, results)

    return call


class _Container:
    """What container the results of a call come in: for PyTorch, which looks into lists, an argument like any other."""

    structure: Structure


def _check(torch, tensor, k, name):
    if tensor.device.type != "cpu":
        raise DtypeError(f"argument {k} of {name} is on {tensor.device}: tapegrad computes on the CPU, so pass tensor.cpu()")
    if tensor.is_complex() or tensor.layout != torch.strided:
        raise DtypeError(f"argument {k} of {name} is {tensor.dtype} and {tensor.layout}: pass a dense tensor of real numbers")
    if tensor.dtype in (torch.float16, torch.bfloat16):
        raise DtypeError(f"argument {k} of {name} is {tensor.dtype}: pass float64 or float32 (tensor.float())")


@functools.cache
def _call(torch):
    """The `torch.autograd.Function` of all operations."""

    def array(thing):
        return thing.detach().numpy() if isinstance(thing, torch.Tensor) else thing

    class TorchCall(torch.autograd.Function):
        """``TorchCall.apply(operation, container, *arguments)``: flat results; the structure of the results is noted in `container`."""

        @staticmethod
        def forward(operation, container, *arguments):
            results, container.structure = operation([array(a) for a in arguments])
            return tuple(map(torch.from_numpy, results))

        @staticmethod
        def setup_context(ctx, inputs, results):
            ctx.operation, _, *arguments = inputs
            tensors = [a for a in arguments if isinstance(a, torch.Tensor)]
            ctx.arguments = [None if isinstance(a, torch.Tensor) else a for a in arguments]
            ctx.places = [k for k, a in enumerate(arguments) if isinstance(a, torch.Tensor)]
            ctx.save_for_backward(*tensors)
            ctx.save_for_forward(*tensors)
            ctx.count, ctx.floats = len(results), [k for k, r in enumerate(results) if r.is_floating_point()]
            ctx.mark_non_differentiable(*(r for r in results if not r.is_floating_point()))

        @staticmethod
        def given(ctx):
            saved = dict(zip(ctx.places, ctx.saved_tensors))
            return [saved.get(k, a) for k, a in enumerate(ctx.arguments)]

        @staticmethod
        def backward(ctx, *adjoints):
            inputs = tuple(k for k in range(len(ctx.arguments)) if ctx.needs_input_grad[2 + k])
            adjoints = [adjoints[k] for k in ctx.floats]
            found = TorchCall.apply(ctx.operation.pulled(inputs, len(adjoints)), _Container(), *TorchCall.given(ctx), *adjoints) if adjoints else ()
            answers = dict(zip(inputs, found))
            return None, None, *[answers.get(k) for k in range(len(ctx.arguments))]

        @staticmethod
        def jvp(ctx, _, __, *tangents):
            inputs = tuple(k for k, tangent in enumerate(tangents) if tangent is not None)
            found = TorchCall.apply(ctx.operation.pushed(inputs), _Container(), *TorchCall.given(ctx), *[tangents[k] for k in inputs])
            answers = dict(zip(ctx.floats, found))
            return tuple(answers.get(k) for k in range(ctx.count))

        @staticmethod
        def vmap(info, axes, operation, container, *arguments):
            moved = [a if axis is None else a.movedim(axis, 0) for axis, a in zip(axes[2:], arguments)]
            mapped = operation.mapped(tuple(None if axis is None else 0 for axis in axes[2:]))
            results = TorchCall.apply(mapped, container, *moved)
            return results, (0,) * len(results)

    # PyTorch asks for it at each call; to find it out takes longer than the call.
    TorchCall.forward.__signature__ = inspect.signature(TorchCall.forward)
    return TorchCall
