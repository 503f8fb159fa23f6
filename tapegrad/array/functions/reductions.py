"""Reductions over axes, scans along one, and what is normalised along one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ...common.typing import Axis, TensorLike
from ...rules import BY_NAME
from ..record import apply
from .arguments import axis_index, chosen_axes, lift
from .shapes import reshape

if TYPE_CHECKING:
    from ..tensor import Tensor

    class Reduction(Protocol):
        def __call__(
            self, x: TensorLike, axis: Axis = None, keepdims: bool = False, *, dim: Axis = None, keepdim: bool = False
        ) -> Tensor: ...

    class Moment(Protocol):
        def __call__(
            self, x: TensorLike, axis: Axis = None, ddof: int = 0, keepdims: bool = False, *, dim: Axis = None, keepdim: bool = False
        ) -> Tensor: ...

    class Along(Protocol):
        def __call__(self, x: TensorLike, axis: int = -1, *, dim: int | None = None) -> Tensor: ...


def _reduction(name: str, doc: str) -> Reduction:
    row = BY_NAME[name]

    def function(x: TensorLike, axis: Axis = None, keepdims: bool = False, *, dim: Axis = None, keepdim: bool = False) -> Tensor:
        x = lift(x)
        return apply(row, (x,), (("axis", chosen_axes(x, axis, dim)), ("keepdims", bool(keepdims or keepdim))))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""{doc}

    Parameters
    ----------
    x : Tensor or array-like
    axis : int or tuple of int, optional
        Axes to reduce; all by default.  `dim` is the same.
    keepdims : bool
        Keep reduced axes with extent 1.  `keepdim` is the same.

    Returns
    -------
    Tensor
    """
    return function


sum = _reduction("sum", "Sum over axes.")
mean = _reduction("mean", "Arithmetic mean over axes.")
prod = _reduction("prod", "Product over axes; its derivative is exact where factors are zero.")
amax = max = _reduction("max", "Maximum over axes; ties share the derivative evenly.")
amin = min = _reduction("min", "Minimum over axes; ties share the derivative evenly.")
norm = _reduction("norm", "Euclidean norm over axes; its derivative at 0 is 0.")
logsumexp = _reduction("logsumexp", "log(sum(exp(x))) over axes, without overflow.")


def _moment(name: str, doc: str) -> Moment:
    row = BY_NAME[name]

    def function(
        x: TensorLike, axis: Axis = None, ddof: int = 0, keepdims: bool = False, *, dim: Axis = None, keepdim: bool = False
    ) -> Tensor:
        x = lift(x)
        attrs = (("axis", chosen_axes(x, axis, dim)), ("ddof", ddof), ("keepdims", bool(keepdims or keepdim)))
        return apply(row, (x,), attrs)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc + " over axes, divided by ``n - ddof``; NumPy's default ``ddof=0``."
    return function


var = _moment("var", "Variance")
std = _moment("std", "Standard deviation (derivative 0 where it is 0)")


def cumsum(x: TensorLike, axis: int | None = None, *, dim: int | None = None) -> Tensor:
    """Cumulative sum along `axis` (of the flattened array by default)."""
    x = lift(x)
    axis = dim if axis is None else axis
    if axis is None or x.ndim == 0:
        x, axis = reshape(x, (-1,)), 0
    return apply("cumsum", (x,), (("axis", axis_index(axis, x.ndim)),))


def _along(name: str, doc: str) -> Along:
    row = BY_NAME[name]

    def function(x: TensorLike, axis: int = -1, *, dim: int | None = None) -> Tensor:
        x = lift(x)
        if x.ndim == 0:
            x = reshape(x, (1,))
            return reshape(function(x), ())
        return apply(row, (x,), (("axis", axis_index(axis if dim is None else dim, x.ndim)),))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


softmax = _along("softmax", "Exponentials normalised to sum 1 along `axis` (default: the last).")
log_softmax = _along("log_softmax", "Logarithm of `softmax` along `axis` (default: the last).")
