"""Arguments of the functions of this package: array-likes as tensors, axes by NumPy's and PyTorch's names."""

from operator import index as as_index
from typing import Any, TypeVar

import numpy as np

from ...common.errors import ComplexOperandError
from ...common.registry import registry
from ..differentiable import Differentiable
from ..record import as_operand, plain

F = TypeVar("F")


def named(function: F, name: str, **parts: str) -> F:
    """`function`, made for a row, under its name; `name` and `parts` are put into its docstring, which `python -OO` leaves out."""
    function.__name__ = function.__qualname__ = name  # type: ignore[attr-defined]
    function.__doc__ = function.__doc__ and function.__doc__.format(name=name, **parts)
    return function


def as_method(function: Any) -> Any:
    """A function as a method, which takes the arguments of NumPy's function of its name as well: those go there.

    They are NumPy's if there are more of them, or others by name, or if one behind the first is neither an integer nor a truth value: where
    PyTorch has ``keepdim``, NumPy has ``dtype``.
    """
    name, code, numpys = function.__name__, function.__code__, {"dim": "axis", "keepdim": "keepdims"}
    own = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        if len(args) < code.co_argcount and all([key in own for key in kwargs]) and all([isinstance(a, (int, np.integer, np.bool_)) for a in args[1:]]):
            return function(self, *args, **kwargs)
        return getattr(np, name)(self, *args, **{numpys.get(key, key): value for key, value in kwargs.items()})

    method.__name__, method.__qualname__, method.__doc__ = name, name, function.__doc__
    return method


def lift(x: Any) -> Any:
    """`x` as a tensor; complex numbers as a `ComplexTensor`, whose rows `array.complex.at_door` has."""
    if x is True or x is False:
        # Promotes as a boolean does, not as a float.
        return plain(np.asarray(x))
    try:
        x = x if isinstance(x, Differentiable) else as_operand(x)
    except ComplexOperandError:
        return registry.objects.lifted(x)
    return x if isinstance(x, Differentiable) else plain(x)


def axis_index(axis, ndim):
    """An axis counted from the front; an error as NumPy's if there is none of that number."""
    axis = as_index(axis)
    if not -ndim <= axis < ndim:
        raise np.exceptions.AxisError(axis, ndim)
    return axis % ndim


def axis_tuple(axes, ndim):
    """Axes, or one, counted from the front; each may be named once."""
    axes = tuple(axes) if np.iterable(axes) else (axes,)
    indices = tuple(axis_index(a, ndim) for a in axes)
    if len(set(indices)) != len(indices):
        raise ValueError(f"an axis is repeated in {axes}")
    return indices


def chosen_axes(x: Any, axis: Any, dim: Any) -> Any:
    """The axes that NumPy's `axis` or PyTorch's `dim` names, sorted; None for all."""
    axis = dim if axis is None else axis
    if axis is None:
        return None
    if x.ndim == 0 and axis in (0, -1):
        # NumPy and PyTorch take these for a scalar too.
        return ()
    return tuple(sorted(axis_tuple(axis, x.ndim)))
