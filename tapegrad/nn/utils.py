"""Gradients kept small between ``backward()`` and ``step()``; what of ``torch.nn.utils`` is not here says what to write."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ..array.complex import ComplexTensor, split
from ..array.tensor import Tensor, tensor
from ..common.errors import NonFiniteError
from ..tape.modes import no_grad
from .names import getter

__all__ = ["clip_grad_norm_"]
__getattr__ = getter("tg.nn.utils")


def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor], max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False
) -> Tensor:
    """Scale gradients, taken as one vector, down to a norm of at most `max_norm`.

    Parameters
    ----------
    parameters : Tensor, or iterable of Tensor
        Their ``.grad`` is changed in place.
    max_norm : float
    norm_type : float
        Order of the norm; ``inf`` for the largest element.
    error_if_nonfinite : bool
        Raise if the norm is not finite.

    Returns
    -------
    Tensor
        The norm before scaling.

    Raises
    ------
    NonFiniteError
        If the norm is not finite, and `error_if_nonfinite` is True.

    Examples
    --------
    >>> import tapegrad as tg
    >>> w = tg.Parameter([3.0, 4.0])
    >>> (w * w).sum().backward()
    >>> tg.nn.utils.clip_grad_norm_([w], 5.0), w.grad
    (tensor(10.), tensor([3.0000, 4.0000]))
    """
    given = [parameters] if isinstance(parameters, (Tensor, ComplexTensor)) else parameters
    gradients = [p.grad for p in given if p.grad is not None]
    norms = [np.linalg.norm(np.ravel(g.detach().numpy()), norm_type) for g in gradients]
    total = float(np.linalg.norm(norms, norm_type)) if norms else 0.0
    if error_if_nonfinite and not np.isfinite(total):
        raise NonFiniteError(f"the norm of the gradients is {total}; look at the .grad of each parameter, or use tg.detect_anomaly()")
    scale = max_norm / (total + 1e-6)
    with no_grad():
        for g in gradients if not scale >= 1.0 else ():
            for part in split(g) or (g,):
                part.mul_(scale)
    return tensor(total)
