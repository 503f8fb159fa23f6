"""Copies on the tape: the same elements again, or in another dtype."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...common.errors import DtypeError
from ...common.host_functions import host_function
from ...common.registry import registry
from ..record import apply, record_nondiff
from ..typing import DTypeLike, TensorLike
from .arguments import lift

if TYPE_CHECKING:
    from ..tensor import Tensor


def clone(x: TensorLike) -> Tensor:
    """A copy that is recorded: the gradient passes through.

    Parameters
    ----------
    x : Tensor or array-like

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.clone(tg.tensor([1.0, 2.0]))
    tensor([1., 2.])
    """
    x = lift(x)
    if x.dtype.char == "?":  # NumPy has no positive truth values
        return record_nondiff(_cast("?"), (x,), x._v.copy())
    return apply("clone", (x,))


@host_function
def _cast(x, dtype):
    return np.asarray(x).astype(dtype)


def astype(x: TensorLike, dtype: DTypeLike, *, copy: bool = True) -> Tensor:
    """Convert `x` to another float dtype; the gradient comes back in the dtype of `x`.

    Parameters
    ----------
    x : Tensor or array-like
    dtype : dtype
        float32 or float64; of what requires no gradient, any.
    copy : bool
        If False, return `x` itself where it already has that dtype.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.astype(tg.tensor([1.0, 2.0]), "float32").dtype
    dtype('float32')
    """
    x, dtype = lift(x), np.dtype(dtype)
    if not copy and dtype == x.dtype:
        return x
    if dtype.kind != "f":
        if x.requires_grad and x.dtype.kind == "f" and not registry.engine.changes_in_jumps(x):
            raise DtypeError(
                f"a value that requires a gradient (shape {tuple(x.shape)}) would be rounded in a conversion to {dtype}, which has no "
                f"derivative; use a float dtype, .detach() first, or np.floor(x).astype({dtype})"
            )
        return record_nondiff(_cast(dtype.str), (x,), np.asarray(x._v).astype(dtype))
    if dtype.char not in "df":
        raise DtypeError(f"tensors that require a gradient are float64 or float32, not {dtype}")
    return apply("astype", (x,), (("dtype", dtype.char),))
