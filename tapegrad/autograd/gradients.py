"""Define-by-run meaning: backward passes, gradients, hooks, retain and clear.

The pass itself is in `tapegrad.autograd.backward`.
"""

from __future__ import annotations

import sys
import threading
import warnings
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, overload

import numpy as np

from ..array import tensor as _tensor
from ..array.record import normalise, plain, settle, tracked
from ..array.tensor import Tensor
from ..common.errors import GradientError, NonScalarOutputError, SeedShapeError
from ..common.typing import TensorLike
from ..tape.places import name_of
from ..uninterrupted import remade
from .backward import refuse_unused, second_backward_error, sweep_back
from .graph import RemovableHandle
from .passes import sweep_recorded

if TYPE_CHECKING:
    from .custom.function import Function  # set by the package: the two import each other

_ACCUMULATE = remade(threading.Lock())

# ---- gradients into leaves --------------------------------------------------------

#: Adjoints of outputs: one, or one for each; None is 1.
Seeds: TypeAlias = TensorLike | Sequence[TensorLike | None] | None


def _tensors(things, what):
    things = (things,) if isinstance(things, Tensor) else tuple(things)
    for thing in things:
        if not isinstance(thing, Tensor):
            raise TypeError(f"{what} must be tensors, got {type(thing).__name__}")
    return things


def _seeds(outputs, grads, what, recorded=False):
    """The seeds as values; with `recorded` those that are on a tape stay tensors."""
    if grads is None:
        grads = (None,) * len(outputs)
    elif isinstance(grads, (Tensor, np.ndarray, float, int)):
        grads = (grads,)
    grads = tuple(grads)
    if len(grads) != len(outputs):
        raise SeedShapeError(f"{len(outputs)} outputs but {len(grads)} {what}; give one seed (or None) for each output")
    found = []
    for k, (output, grad) in enumerate(zip(outputs, grads)):
        if grad is None and output._t is not None and type(output._v) is float:
            found.append(1.0)
            continue
        if not output.requires_grad:
            raise GradientError(
                f"element {k} of tensors does not require grad and does not have a grad_fn: nothing it was computed "
                f"from requires a gradient (shape {tuple(output.shape)}). Make its inputs with requires_grad=True, and "
                "check that it was not computed under no_grad() or from .detach()ed values"
            )
        if grad is None:
            if type(output._v) is float:
                found.append(1.0)
                continue
            if output.size != 1:
                raise NonScalarOutputError(
                    "grad can be implicitly created only for scalar outputs; this output has shape "
                    f"{tuple(output.shape)}. Either reduce it first (.sum() or .mean()), or pass a seed of that "
                    "shape: .backward(np.ones_like(y.detach()))"
                )
            seed = np.ones(output.shape, output.dtype)
        else:
            if recorded and tracked(grad) and grad.shape == output.shape:
                found.append(grad if grad.dtype == output.dtype else grad.astype(output.dtype))
                continue
            seed = np.asarray(grad._v if isinstance(grad, Tensor) else grad)
            if seed.shape != tuple(output.shape):
                raise SeedShapeError(
                    f"Mismatch in shape: grad_output[{k}] has a shape of {tuple(seed.shape)} and output[{k}] has a "
                    f"shape of {tuple(output.shape)}. A seed needs the shape of its output"
                )
            seed = np.array(seed, output.dtype, order="C")
        found.append(float(seed) if type(output._v) is float else seed)
    return found


def backward(
    tensors: Tensor | Sequence[Tensor], grad_tensors: Seeds = None, retain_graph: bool | None = None, create_graph: bool = False,
    grad_variables: Seeds = None, inputs: Tensor | Sequence[Tensor] | None = None,
) -> None:  # fmt: skip
    """Accumulate gradients of `tensors` into the leaves they depend on.

    Parameters
    ----------
    tensors : Tensor or sequence of Tensor
        The roots.
    grad_tensors : array-like or sequence, optional
        A seed for each root, of its shape; None for a scalar root means 1.
    retain_graph : bool, optional
        Keep the instructions; by default the same as `create_graph`.
    create_graph : bool
        Record the gradient itself, so that it can be differentiated.  Then nothing is
        cleared, whatever `retain_graph` says: what no tensor leads to any more is
        forgotten by itself.
    grad_variables
        Deprecated name of `grad_tensors`.
    inputs : Tensor or sequence, optional
        Accumulate into these tensors only.

    Returns
    -------
    None
        The gradients are in ``.grad``.

    Raises
    ------
    GradientError, NonScalarOutputError, SeedShapeError, ClearedTapeError, ModifiedInPlaceError

    Examples
    --------
    >>> import tapegrad as tg
    >>> x = tg.tensor([1.0, 2.0], requires_grad=True)
    >>> tg.autograd.backward(x * x, grad_tensors=tg.ones(2))
    >>> x.grad
    tensor([2., 4.])
    """
    if grad_variables is not None:
        warnings.warn("grad_variables is deprecated; use grad_tensors", DeprecationWarning, stacklevel=2)
        grad_tensors = grad_variables if grad_tensors is None else grad_tensors
    roots = _tensors(tensors, "the roots of backward()")
    seeds = _seeds(roots, grad_tensors, "grad_tensors", create_graph)
    wanted = None if inputs is None else _tensors(inputs, "inputs")
    if wanted is not None:
        for k, t in enumerate(wanted):
            if not t.requires_grad:
                raise GradientError(f"inputs[{k}] does not require grad")
    retain = bool(create_graph if retain_graph is None else retain_graph)
    found = _recorded(roots, seeds, wanted) if create_graph else sweep_back(roots, seeds, retain, wanted)
    if wanted is None:
        for leaf, value in found.leaves:
            accumulate(leaf, value)
    else:
        for t in wanted:
            if id(t) in found.requested:
                accumulate(t, found.requested[id(t)])
    for t, value in found.retained_alive():
        accumulate(t, value)


@overload
def grad(
    outputs: Tensor | Sequence[Tensor], inputs: Tensor | Sequence[Tensor], grad_outputs: Seeds = None, retain_graph: bool | None = None,
    create_graph: bool = False, only_inputs: bool = True, allow_unused: Literal[False] = False,
) -> tuple[Tensor, ...]: ...  # fmt: skip
@overload
def grad(
    outputs: Tensor | Sequence[Tensor], inputs: Tensor | Sequence[Tensor], grad_outputs: Seeds = None, retain_graph: bool | None = None,
    create_graph: bool = False, only_inputs: bool = True, *, allow_unused: bool,
) -> tuple[Tensor | None, ...]: ...  # fmt: skip
def grad(
    outputs: Tensor | Sequence[Tensor], inputs: Tensor | Sequence[Tensor], grad_outputs: Seeds = None, retain_graph: bool | None = None,
    create_graph: bool = False, only_inputs: bool = True, allow_unused: bool = False,
) -> tuple[Tensor | None, ...]:  # fmt: skip
    """Gradients of `outputs` with respect to `inputs`; no ``.grad`` is touched.

    Parameters
    ----------
    outputs, inputs : Tensor or sequence of Tensor
        Inputs may be leaves or computed tensors.
    grad_outputs : array-like or sequence, optional
        Seeds, as in `backward`.
    retain_graph, create_graph : bool
        As in `backward`.
    only_inputs : bool
        Deprecated in PyTorch; must be True.
    allow_unused : bool
        Give None for an input that the outputs do not depend on, instead of raising.

    Returns
    -------
    tuple of Tensor
        One per input.

    Examples
    --------
    >>> import tapegrad as tg
    >>> x = tg.tensor(2.0, requires_grad=True)
    >>> tg.autograd.grad(x ** 2, x)
    (tensor(4.),)
    """
    if not only_inputs:
        raise ValueError("only_inputs=False is not supported; call .backward() to accumulate into all leaves")
    roots = _tensors(outputs, "outputs")
    wanted = _tensors(inputs, "inputs")
    for k, t in enumerate(wanted):
        if not t.requires_grad:
            name = name_of(t)
            raise GradientError(
                f"input {k}{f' ({name!r})' if name else ''} does not require grad; make it with requires_grad=True "
                "before computing the outputs"
            )
    seeds = _seeds(roots, grad_outputs, "grad_outputs", create_graph)
    retain = bool(create_graph if retain_graph is None else retain_graph)
    if create_graph:
        found = _recorded(roots, seeds, wanted, allow_unused)
    else:
        found = sweep_back(roots, seeds, retain, wanted, allow_unused)
    for t, value in found.retained_alive():
        accumulate(t, value)
    return tuple(_given(found.requested[id(t)]) if id(t) in found.requested else None for t in wanted)


def _recorded(roots, seeds, wanted, allow_unused=True):
    """A pass that records what it computes (`tapegrad.higher`)."""
    return sweep_recorded(roots, seeds, wanted, (lambda *_: None) if allow_unused else refuse_unused)


def _given(gradient):
    return gradient if isinstance(gradient, Tensor) else plain(normalise(gradient))


def jvp(outputs: Any, inputs: Any, tangents: Any) -> Any:
    """Tangents of `outputs` along `tangents` of `inputs`: forward mode over the recorded tape.

    The counterpart of `grad`: a compiled sweep walks the instructions upwards
    with the values they saved, and runs no Python of yours again.  The tape stays
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
    from .recording import sweep_forward  # it imports this module

    roots, wanted = _tensors(outputs, "outputs"), _tensors(inputs, "inputs")
    if isinstance(inputs, Tensor):
        tangents = (tangents,)
    seeds = _seeds(wanted, tangents, "tangents")
    for k, t in enumerate(roots):
        if not t.requires_grad:
            raise GradientError(
                f"output {k} (shape {tuple(t.shape)}) does not require grad: nothing it was computed from is on a tape"
            )
    return tuple(plain(value) for value in sweep_forward(roots, wanted, seeds))


def accumulate(leaf, value):
    """Add `value` (as tensors hold it, given away; or a tensor on a tape) to ``leaf.grad``."""
    with _ACCUMULATE:
        extras = leaf._extras()
        known = extras.grad
        if isinstance(value, Tensor) or known is not None and known._t is not None:
            # A gradient on a tape is never changed: the sum is another tensor.
            if isinstance(value, Tensor):
                extras.grad = value if known is None else known + value
            else:
                extras.grad = plain(normalise(known._v + value))
        elif known is None:
            extras.grad = plain(value)
        elif type(value) is float:
            extras.grad._v = extras.grad._v + value
        else:
            extras.grad._v += value


# ---- hooks -------------------------------------------------------------------------


def _interior_slot(tensor):
    store = settle(tensor)
    if store.retired is not None:
        raise second_backward_error(store, tensor._i)
    return store, tensor._i


def register_hook(tensor, hook):
    """See `Tensor.register_hook`."""
    if not tensor.requires_grad:
        raise GradientError("cannot register a hook on a tensor that doesn't require gradient")
    if tensor._t is None:
        extras = tensor._extras()
        if extras.hooks is None:
            extras.hooks = {}
        return RemovableHandle(extras.hooks, hook)
    store, slot = _interior_slot(tensor)
    return RemovableHandle(store.hooks.setdefault(slot, {}), hook)


def retain_grad(tensor):
    """See `Tensor.retain_grad`."""
    if not tensor.requires_grad:
        raise GradientError("can't retain_grad on a tensor that does not require grad")
    if tensor._t is not None:
        store, slot = _interior_slot(tensor)
        store.retained[slot] = weakref.ref(tensor)


def retains_grad(tensor):
    """See `Tensor.retains_grad`."""
    return tensor._t is not None and tensor._i in settle(tensor).retained


_tensor._autograd = sys.modules[__name__]
