"""``torch.autograd.gradcheck`` by `tg.check`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..array.tensor import Tensor, tensor
from ..common.errors import CheckError, StructureError
from ..common.tree import flatten, unflatten
from .check import check


def gradcheck(func: Callable[..., Any], inputs: Any, rtol: float, raise_exception: bool) -> bool:
    """See `tapegrad.autograd.gradcheck`."""
    inputs = inputs if isinstance(inputs, (tuple, list)) else (inputs,)
    wanted = [k for k, t in enumerate(inputs) if isinstance(t, Tensor) and t.requires_grad]
    if not wanted:
        raise StructureError("gradcheck: no input requires a gradient; make one with requires_grad=True")

    def of_wanted(*values):
        full = list(inputs)
        for k, value in zip(wanted, values):
            full[k] = value
        return func(*full)

    def on_arrays(*values):
        leaves, structure = flatten(of_wanted(*map(tensor, values)))
        return unflatten(structure, [leaf.detach().numpy() if isinstance(leaf, Tensor) else leaf for leaf in leaves])

    points = [inputs[k].detach().numpy() for k in wanted]
    try:
        check(of_wanted, *[point if point.ndim else float(point) for point in points], modes=["reverse"], rtol=rtol, reference=on_arrays)
    except CheckError:
        if raise_exception:
            raise
        return False
    return True
