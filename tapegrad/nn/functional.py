"""Functions of learning under PyTorch's names."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

import numpy as np

from ..array.differentiable import Differentiable
from ..array.functions import lift, log_softmax, logsumexp, relu, sigmoid, softmax, softplus, tanh
from ..array.record import apply, record_aux
from ..array.tensor import Tensor
from ..array.typing import TensorLike
from ..common.host_functions import host_function
from ..common.public import only_public
from .names import getter
from .pieces import check_reduction, reduced

__all__ = [
    "binary_cross_entropy_with_logits", "cross_entropy", "log_softmax", "logsumexp", "mse_loss", "relu", "sigmoid", "softmax",
    "softplus", "tanh",
]  # fmt: skip
__dir__ = only_public(__name__)

# PyTorch's other names, of a table.
__getattr__ = getter("tg.nn.functional")


def binary_cross_entropy_with_logits(input: TensorLike, target: TensorLike, reduction: Literal["mean", "sum", "none"] = "mean") -> Tensor:
    """Binary cross-entropy between logits and targets, computed without overflow.

    Parameters
    ----------
    input : Tensor
        Logits, any shape.
    target : array-like or Tensor
        Probabilities of the shape of `input`.
    reduction : {"mean", "sum", "none"}

    Returns
    -------
    Tensor
        A scalar, or the shape of `input` with ``"none"``.

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.nn.functional.binary_cross_entropy_with_logits(tg.tensor([0.0]), tg.tensor([1.0]))
    tensor(0.6931)
    """
    check_reduction(reduction)
    input, target = lift(input), lift(target)
    if input.shape != target.shape:
        raise ValueError(f"Target size {tuple(target.shape)} must be the same as input size {tuple(input.shape)}")
    return apply("binary_cross_entropy_with_logits", (input, target), (("reduction", reduction),))


@lru_cache(maxsize=16)
def _starts(lines, classes):
    """Flat position at which each line of scores starts."""
    return np.arange(0, lines * classes, classes)


def cross_entropy(input: TensorLike, target: TensorLike, reduction: Literal["mean", "sum", "none"] = "mean") -> Tensor:
    """Cross-entropy between scores and classes: the negative log-softmax at the class.

    Parameters
    ----------
    input : Tensor
        Scores, of shape ``(..., classes)``.
    target : int array-like
        Classes ``0 .. classes - 1``, of the shape of `input` without its last axis.
    reduction : {"mean", "sum", "none"}

    Returns
    -------
    Tensor
        A scalar, or the shape of `target` with ``"none"``.

    Raises
    ------
    IndexError
        If a class is out of range.

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.nn.functional.cross_entropy(tg.tensor([[0.0, 0.0]]), [1])
    tensor(0.6931)
    """
    check_reduction(reduction)
    input = lift(input)
    target = lift(target) if isinstance(target, Differentiable) else np.asarray(target)
    shape = input.shape
    if target.dtype.kind not in "iu" or target.shape != tuple(shape[:-1]):
        raise ValueError(f"target must hold integer classes and have shape {tuple(shape[:-1])}, got {target.dtype} of shape {target.shape}")
    classes = shape[-1]
    index = record_aux(_at_classes(classes), target) if isinstance(target, Differentiable) else _positions(target, classes)
    return apply("cross_entropy", (input, index), (("reduction", reduction),))


def _positions(target, classes):
    """Flat positions, in scores of so many classes, of the classes given."""
    flat = np.ascontiguousarray(target, np.int64).reshape(-1)
    # Negative classes are huge as unsigned numbers.
    if flat.size and np.maximum.reduce(flat.view(np.uint64)) >= classes:
        raise IndexError(f"target holds a class outside 0 .. {classes - 1}")
    index = _starts(flat.size, classes) + flat
    index.flags.writeable = False
    return index


@host_function
def _at_classes(target, classes):
    return _positions(target, classes)


def mse_loss(input: TensorLike, target: TensorLike, reduction: Literal["mean", "sum", "none"] = "mean") -> Tensor:
    """Mean (or sum) of squared differences.

    Parameters
    ----------
    input, target : Tensor or array-like
    reduction : {"mean", "sum", "none"}

    Returns
    -------
    Tensor
        A scalar, or the squared differences with ``"none"``.

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.nn.functional.mse_loss(tg.tensor([1.0, 2.0]), [1.0, 4.0])
    tensor(2.)
    """
    return reduced((lift(input) - target) ** 2, reduction)
