"""`tg.autograd.jvp`: tangents pushed upwards through what was recorded define-by-run."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..array.record import normalise, plain
from ..array.tensor import Tensor
from ..common.errors import GradientError
from .adjoint import between
from .backward import Pass, stores_of
from .gradients import seeds_of, tensors_of
from .reading import Region
from .tangents import push


def jvp(outputs: Any, inputs: Any, tangents: Any) -> Any:
    """Tangents of `outputs` along `tangents` of `inputs`: forward mode over the recorded tape.

    This is the counterpart of `grad`: the rules of the instructions run from the inputs upwards,
    with the saved values, and your Python code does not run again.  The tape stays
    as it is, and no ``.grad`` is touched.

    Parameters
    ----------
    outputs, inputs : Tensor or sequence of Tensor
        Inputs may be leaves, or computed tensors, which then count as independent.
    tangents : array-like or sequence
        One per input, of its shape; for a single tensor as `inputs`, its tangent.

    Returns
    -------
    tuple of Tensor
        One per output, of its shape; zeros where it does not depend on the inputs.

    Raises
    ------
    GradientError, SeedShapeError, ClearedTapeError, ModifiedInPlaceError

    Examples
    --------
    >>> import numpy as np, tapegrad as tg
    >>> x = tg.tensor([1.0, 2.0], requires_grad=True)
    >>> y = x * np.sum(x)
    >>> tg.autograd.jvp(y, x, [1.0, 0.0])
    (tensor([4., 2.]),)
    """
    roots, wanted = tensors_of(outputs, "outputs"), tensors_of(inputs, "inputs")
    if isinstance(inputs, Tensor):
        tangents = (tangents,)
    seeds = seeds_of(wanted, tangents, "tangents")
    for k, t in enumerate(roots):
        if not t.requires_grad:
            raise GradientError(
                f"output {k} (shape {tuple(t.shape)}) does not require grad: nothing it was computed from is on a tape"
            )
    return tuple(plain(normalise(np.array(value + 0.0))) for value in sweep_forward(roots, wanted, seeds))


def sweep_forward(outputs, inputs, seeds):
    """The tangents of tensors `outputs` for tangents `seeds` of tensors `inputs` (normalised values).

    One walk for each store that the outputs lie on.
    """
    tangents = [None] * len(outputs)
    for k, t in enumerate(outputs):
        same = [seed for x, seed in zip(inputs, seeds) if x is t]
        if same:
            tangents[k] = sum(same[1:], same[0])
    rest = [k for k, t in enumerate(outputs) if tangents[k] is None and t._t is not None]
    for store in stores_of([outputs[k] for k in rest]):
        roots = [outputs[k]._i for k in rest if outputs[k]._t is store]
        passed = Pass(store, [(slot, None) for slot in roots], inputs)
        passed.check()
        # An input that is itself computed counts as a leaf: nothing comes up from below it.
        carried = {}
        for slot, tensors in passed.wanted.items():
            parts = [seed for x, seed in zip(inputs, seeds) if any(x is t for t in tensors)]
            carried[slot] = np.asarray(sum(parts[1:], parts[0]))[None]
        stretch = Region(store, plain=True)
        tangent = push(stretch, between(stretch, roots, list(carried)), carried, 1)
        for k in rest:
            if outputs[k]._t is store:
                tangents[k] = tangent(outputs[k]._i)
    return [np.zeros(t.shape, t.dtype) if part is None else np.reshape(part, t.shape) for t, part in zip(outputs, tangents)]
