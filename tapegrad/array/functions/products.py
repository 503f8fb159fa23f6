"""Products of arrays: each is `matmul`, or a product of elements, and changes of shape around it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..differentiable import Differentiable
from ..record import apply
from ..typing import TensorLike
from .arguments import lift
from .reductions import sum
from .shapes import diagonal, moveaxis, reshape

if TYPE_CHECKING:
    from ..tensor import Tensor


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
    if np.ndim(a) == 0 or np.ndim(b) == 0:
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
        Diagonal: above the main one if positive, below if negative.
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
