"""Functions of learning under PyTorch's names."""

from __future__ import annotations

from ..functions import lift, log_softmax, logsumexp, relu, sigmoid, softmax, softplus
from ..functions import tanh as tanh
from ..record import apply

__all__ = [
    "binary_cross_entropy_with_logits", "log_softmax", "logsumexp", "mse_loss", "relu", "sigmoid", "softmax",
    "softplus", "tanh",
]  # fmt: skip


def binary_cross_entropy_with_logits(input, target, reduction="mean"):
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
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"reduction must be 'mean', 'sum' or 'none', not {reduction!r}")
    input, target = lift(input), lift(target)
    if input.shape != target.shape:
        raise ValueError(
            f"Target size {tuple(target.shape)} must be the same as input size {tuple(input.shape)}"
        )
    return apply("binary_cross_entropy_with_logits", (input, target), (("reduction", reduction),))


def mse_loss(input, target, reduction="mean"):
    """Mean (or sum) of squared differences."""
    squares = (lift(input) - target) ** 2
    return squares if reduction == "none" else squares.sum() if reduction == "sum" else squares.mean()
