"""``torch.autograd.gradcheck`` by `tg.check`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from ..array.creation import as_tensor
from ..array.tensor import Tensor
from ..common.errors import CheckError, StructureError
from .check import check


def gradcheck(func: Callable[..., Any], inputs: Any, rtol: float, raise_exception: bool) -> bool:
    """See `tapegrad.autograd.gradcheck`."""
    inputs = inputs if isinstance(inputs, (tuple, list)) else (inputs,)
    wanted = [k for k, t in enumerate(inputs) if isinstance(t, Tensor) and t.requires_grad]
    if not wanted:
        raise StructureError("gradcheck: no input requires a gradient; make one with requires_grad=True")

    def of_wanted(*values):
        given = iter(values)
        return func(*(as_tensor(next(given)) if k in wanted else t for k, t in enumerate(inputs)))

    with contextlib.suppress(*() if raise_exception else (CheckError,)):
        return check(of_wanted, *[inputs[k] for k in wanted], modes=["reverse"], rtol=rtol).passed
    return False
