"""Reductions over axes, scans along one, normalisation along one, and products.

Each product is `matmul`, or a product of elements, and changes of shape around it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ...rules import BY_NAME
from ..differentiable import Differentiable
from ..record import apply
from ..typing import Axis, Extremes, TensorLike
from .arguments import axis_index, chosen_axes, lift, named
from .shapes import diagonal, moveaxis, reshape

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


def _reduction(name: str, doc: str, example: str) -> Reduction:
    row = BY_NAME[name]

    def function(x: TensorLike, axis: Axis = None, keepdims: bool = False, *, dim: Axis = None, keepdim: bool = False) -> Tensor:
        """{doc}

        Parameters
        ----------
        x : Tensor or array-like
        axis : int or tuple of int, optional
            Axes to reduce; all by default.  `dim` is a synonym.
        keepdims : bool
            Keep reduced axes with extent 1.  `keepdim` is a synonym.

        Returns
        -------
        Tensor

        Examples
        --------
        >>> import tapegrad as tg
        >>> tg.{name}(tg.tensor([3.0, 4.0]))
        tensor({example})
        """
        x = lift(x)
        return apply(row, (x,), (("axis", chosen_axes(x, axis, dim)), ("keepdims", bool(keepdims or keepdim))))

    return named(function, name, doc=doc, example=example)


def _extreme(name, reduced, doc, example):
    """`reduced`, which with PyTorch's `dim` gives what PyTorch's function of that name does."""
    position = {"max": np.argmax, "min": np.argmin}[name]

    def function(x: TensorLike, axis: Axis = None, keepdims: bool = False, *, dim: int | None = None, keepdim: bool = False) -> Tensor | Extremes:
        """{doc} over axes; ties share the derivative evenly.

        Parameters
        ----------
        x : Tensor or array-like
        axis : int or tuple of int, optional
            Axes to reduce; all by default.
        keepdims : bool
            Keep reduced axes with extent 1.  `keepdim` is a synonym.
        dim : int, optional
            As in PyTorch: reduce along this axis and return a pair ``(values, indices)``; the derivative goes to the element at the index.
            (In `a{name}`, `dim` is a synonym for `axis`.)

        Returns
        -------
        Tensor, or Extremes

        Examples
        --------
        >>> import tapegrad as tg
        >>> tg.{name}(tg.tensor([3.0, 4.0]))
        tensor({example})
        >>> tg.tensor([[3.0, 4.0]]).{name}(dim=1).values
        tensor([{example}])
        """
        if axis is not None or not isinstance(dim, (int, np.integer)):
            return reduced(x, axis, keepdims, dim=dim, keepdim=keepdim)
        x = lift(x)
        indices = np.expand_dims(position(x, dim), dim)
        values: Any = np.take_along_axis(x, indices, dim)
        return Extremes(values, indices) if keepdim or keepdims else Extremes(np.squeeze(values, dim), np.squeeze(indices, dim))

    return named(function, name, doc=doc, example=example)


sum = _reduction("sum", "Sum over axes.", "7.")
mean = _reduction("mean", "Arithmetic mean over axes.", "3.5000")
prod = _reduction("prod", "Product over axes; its derivative is exact where factors are zero.", "12.")
amax = _reduction("max", "Maximum over axes; ties share the derivative evenly.", "4.")
amin = _reduction("min", "Minimum over axes; ties share the derivative evenly.", "3.")
max, min = _extreme("max", amax, "Maximum", "4."), _extreme("min", amin, "Minimum", "3.")
logsumexp = _reduction("logsumexp", "log(sum(exp(x))) over axes, without overflow.", "4.3133")


def norm(
    x: TensorLike, p: float | str | None = 2.0, axis: Axis = None, keepdims: bool = False, *, dim: Axis = None, keepdim: bool = False
) -> Tensor:  # fmt: skip
    """Norm over axes, of the numbers there as one vector; its derivative at 0 is 0.

    Parameters
    ----------
    x : Tensor or array-like
    p : float, or {"fro", None}
        The order, as in `numpy.linalg.norm`; by default, or with these, the Euclidean norm.
    axis : int or tuple of int, optional
        Axes to reduce; all by default.  `dim` is a synonym.
    keepdims : bool
        Keep reduced axes with extent 1.  `keepdim` is a synonym.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.norm(tg.tensor([3.0, 4.0])), tg.norm(tg.tensor([3.0, 4.0]), 1)
    (tensor(5.), tensor(7.))
    """
    x, kept = lift(x), bool(keepdims or keepdim)
    axes = chosen_axes(x, axis, dim)
    if p in (None, 2, "fro"):
        return apply("norm", (x,), (("axis", axes), ("keepdims", kept)))
    axes = tuple(range(x.ndim)) if axes is None else axes
    rest = [n for k, n in enumerate(x.shape) if k not in axes]
    vectors = reshape(moveaxis(x, axes, tuple(range(-len(axes), 0))), (*rest, math.prod(x.shape[k] for k in axes)))
    result: Any = np.linalg.norm(vectors, p, axis=-1)
    return np.expand_dims(result, axes) if kept else result


def _moment(name: str, doc: str, example: str) -> Moment:
    row = BY_NAME[name]

    def function(
        x: TensorLike, axis: Axis = None, ddof: int = 0, keepdims: bool = False, *, dim: Axis = None, keepdim: bool = False
    ) -> Tensor:
        """{doc} over axes, divided by ``n - ddof``; NumPy's default ``ddof=0``.

        Parameters
        ----------
        x : Tensor or array-like
        axis : int or tuple of int, optional
            `dim` is a synonym.
        ddof : int
        keepdims : bool
            Keep reduced axes with extent 1.  `keepdim` is a synonym.

        Returns
        -------
        Tensor

        Examples
        --------
        >>> import tapegrad as tg
        >>> tg.{name}(tg.tensor([3.0, 4.0]))
        tensor({example})
        """
        x = lift(x)
        attrs = (("axis", chosen_axes(x, axis, dim)), ("ddof", ddof), ("keepdims", bool(keepdims or keepdim)))
        return apply(row, (x,), attrs)

    return named(function, name, doc=doc, example=example)


var = _moment("var", "Variance", "0.2500")
std = _moment("std", "Standard deviation (derivative 0 where it is 0)", "0.5000")


def cumsum(x: TensorLike, axis: int | None = None, *, dim: int | None = None) -> Tensor:
    """Cumulative sum along `axis` (of the flattened array by default).

    Parameters
    ----------
    x : Tensor or array-like
    axis : int, optional
        `dim` is a synonym.
    dim : int, optional
        PyTorch's name for `axis`.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.cumsum(tg.tensor([1.0, 2.0, 3.0]))
    tensor([1., 3., 6.])
    """
    return scanned("cumsum", lift(x), dim if axis is None else axis)


def scanned(row, x, axis):
    """The row of a scan along an axis of a tensor, of the flattened one for None."""
    if axis is None or x.ndim == 0:
        x, axis = reshape(x, (-1,)), 0
    return apply(row, (x,), (("axis", axis_index(axis, x.ndim)),))


def _along(name: str, doc: str, example: str) -> Along:
    row = BY_NAME[name]

    def function(x: TensorLike, axis: int = -1, *, dim: int | None = None) -> Tensor:
        """{doc}

        Parameters
        ----------
        x : Tensor or array-like
        axis : int
            `dim` is a synonym.

        Returns
        -------
        Tensor

        Examples
        --------
        >>> import tapegrad as tg
        >>> tg.{name}(tg.tensor([3.0, 4.0]))
        tensor({example})
        """
        x = lift(x)
        if x.ndim == 0:
            x = reshape(x, (1,))
            return reshape(function(x), ())
        return apply(row, (x,), (("axis", axis_index(axis if dim is None else dim, x.ndim)),))

    return named(function, name, doc=doc, example=example)


softmax = _along("softmax", "Exponentials normalised to sum 1 along `axis` (default: the last).", "[0.2689, 0.7311]")
log_softmax = _along("log_softmax", "Logarithm of `softmax` along `axis` (default: the last).", "[-1.3133, -0.3133]")


def matmul(a: TensorLike, b: TensorLike) -> Tensor:
    """Matrix product with NumPy's rules for 1-d operands and stacks.

    Parameters
    ----------
    a : Tensor or array-like
    b : Tensor or array-like

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.matmul(tg.tensor([[1.0, 2.0]]), tg.tensor([3.0, 4.0]))
    tensor([11.])
    """
    return apply("matmul", (a, b))


def dot(a: TensorLike, b: TensorLike) -> Tensor:
    """``np.dot``: products of scalars, inner products, matrix products.

    Parameters
    ----------
    a : Tensor or array-like
    b : Tensor or array-like

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.dot(tg.tensor([1.0, 2.0]), [3.0, 4.0])
    tensor(11.)
    """
    if 0 in [x.ndim if isinstance(x, (Differentiable, np.ndarray)) else np.ndim(x) for x in (a, b)]:
        # Numbers are arrays here, as in NumPy.
        kinds = (float if type(x) is int else None for x in (a, b))
        return apply("multiply", [x if isinstance(x, Differentiable) else np.asarray(x, k) for x, k in zip((a, b), kinds)])
    a, b = lift(a), lift(b)
    if b.ndim <= 2:
        return apply("matmul", (a, b))
    # Sum over the last axis of a and the second-to-last of b.
    moved = reshape(moveaxis(b, -2, 0), (b.shape[-2], -1))
    return reshape(matmul(a, moved), (*a.shape[:-1], *b.shape[:-2], b.shape[-1]))


def outer(a: TensorLike, b: TensorLike) -> Tensor:
    """Outer product of two flattened operands.

    Parameters
    ----------
    a : Tensor or array-like
    b : Tensor or array-like

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.outer(tg.tensor([1.0, 2.0]), [3.0, 4.0])
    tensor([[3., 4.],
            [6., 8.]])
    """
    return apply("multiply", (reshape(a, (-1, 1)), reshape(b, (1, -1))))


def trace(x: TensorLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """Sum of a diagonal of a matrix, or of each matrix of a stack.

    Parameters
    ----------
    x : Tensor or array-like
    offset : int
        Which diagonal: above the main one if positive, below if negative.
    axis1 : int
    axis2 : int

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.trace(tg.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor(5.)
    """
    return sum(diagonal(x, offset, axis1, axis2), axis=-1)
