"""Define-by-run meaning: backward passes, gradients, tangents, hooks, retain and clear.

The pass itself is in `tapegrad.autograd.backward`.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import Any, Literal, TypeAlias, overload

import numpy as np

from ..array.complex import ComplexTensor, is_complex, split
from ..array.differentiable import Differentiable
from ..array.record import trace_of, tracked
from ..array.tensor import Tensor
from ..array.typing import TensorLike
from ..common.errors import DtypeError, GradientError, NonScalarOutputError, SeedShapeError
from ..tape.places import name_of
from ..tape.store import thread_state
from . import nested
from .adjoint import push
from .backward import accumulate, as_tensor, own_copy, sweep_back
from .passes import refuse_accumulating, sweep_behind, sweep_recorded

# ---- gradients into leaves --------------------------------------------------------

#: Adjoints of outputs: one, or one for each; None is 1.
Seeds: TypeAlias = TensorLike | Sequence[TensorLike | None] | None


def tensors_of(tensors, what):
    if isinstance(tensors, Tensor):
        return (tensors,)
    tensors = tuple(tensors) if isinstance(tensors, Iterable) and getattr(tensors, "ndim", 1) else (tensors,)
    for tensor in tensors:
        if not isinstance(tensor, Tensor):
            raise TypeError(f"{what} must be tensors, got {type(tensor).__name__}")
    return tensors


def _wanted(inputs):
    """Tensors that all require a gradient."""
    wanted = tensors_of(inputs, "inputs")
    for k, t in enumerate(wanted):
        if not t.requires_grad:
            name = name_of(t)
            raise GradientError(
                f"input {k}{f' ({name!r})' if name else ''} does not require grad; make it with requires_grad=True before computing the outputs"
            )
    return wanted


def _listed(grads):
    return (grads,) if isinstance(grads, (Differentiable, ComplexTensor, np.ndarray, float, int, complex)) else tuple(grads or ())


def _differentiated(grads):
    """Whether a seed depends on what is being differentiated or recorded around, from which a pass that gives constants would cut it off."""
    return any(map(tracked, _listed(grads))) and (nested.inside() or bool(thread_state().evaluating))


def _swept(roots, seeds, wanted, retain_graph, create_graph, recorded, allow_unused):
    if create_graph and (found := sweep_behind(roots, seeds, wanted, allow_unused)) is not None:
        return found
    if recorded:
        return sweep_recorded(roots, seeds, wanted, allow_unused, of_seeds=not create_graph)
    return sweep_back(roots, seeds, bool(retain_graph), wanted, allow_unused)


def _one_each(outputs, grads, what):
    grads = (None,) * len(outputs) if grads is None else _listed(grads)
    if len(grads) != len(outputs):
        raise SeedShapeError(f"{len(outputs)} outputs but {len(grads)} {what}; give one seed (or None) for each output")
    return grads


def seeds_of(outputs, grads, what, recorded=False):
    """The seeds as values; with `recorded` those that are on a tape stay tensors."""
    seeds = []
    for k, (output, grad) in enumerate(zip(outputs, _one_each(outputs, grads, what))):
        if not output.requires_grad:
            if (trace := trace_of((output,))) is not None:
                # In a plain run it may: a leaf that the function makes of a value is a constant of the recording.
                raise trace.refused("it runs a backward pass of its own")
            raise GradientError(
                f"element {k} of tensors does not require grad and does not have a grad_fn: nothing it was computed "
                f"from requires a gradient (shape {tuple(output.shape)}). Make its inputs with requires_grad=True, and "
                "check that it was not computed under no_grad() or from .detach()ed values"
            )
        if grad is None:
            if type(output._v) is float:
                seeds.append(1.0)
                continue
            if output.size != 1:
                raise NonScalarOutputError(
                    f"grad can be implicitly created only for scalar outputs; this output has shape {tuple(output.shape)}. Either "
                    "reduce it first (.sum() or .mean()), or pass a seed of that shape: .backward(np.ones_like(y.detach()))"
                )
            seed = np.ones(output.shape, output.dtype)
        else:
            grad = grad if isinstance(grad, (Differentiable, ComplexTensor)) else np.asarray(grad)
            if is_complex(grad):
                raise DtypeError(f"the seed of output {k} is complex and the output is real; give the real part of it")
            if recorded and tracked(grad) and grad.shape == output.shape:
                seeds.append(grad if grad.dtype == output.dtype else grad.astype(output.dtype))
                continue
            seed = np.asarray(grad._let_out("a seed")) if isinstance(grad, Differentiable) else grad
            if seed.shape != tuple(output.shape):
                raise SeedShapeError(
                    f"Mismatch in shape: grad_output[{k}] has a shape of {tuple(seed.shape)} and output[{k}] has a "
                    f"shape of {tuple(output.shape)}. A seed needs the shape of its output"
                )
            seed = np.array(seed, output.dtype, order="C")
        seeds.append(float(seed) if type(output._v) is float else seed)
    return seeds


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
        Record the gradient itself, so that it can be differentiated.  Nothing is cleared
        then, whatever `retain_graph` says; instructions that no tensor leads to any more
        are released automatically.
    grad_variables
        Deprecated name for `grad_tensors`.
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
    roots = tensors_of(tensors, "the roots of backward()")
    recorded = create_graph or _differentiated(grad_tensors)
    if recorded > create_graph and (trace := nested.current_trace()) is not None:
        raise refuse_accumulating(trace)
    seeds = seeds_of(roots, grad_tensors, "grad_tensors", recorded)
    wanted = None if inputs is None else _wanted([p for t in _listed(inputs) for p in split(t) or (t,)])
    result = _swept(roots, seeds, wanted, retain_graph, create_graph, recorded, True)
    for t, value in result.leaves if wanted is None else [(t, result.requested.pop(id(t))) for t in wanted if id(t) in result.requested]:
        # (A recorded pass gives what others hold, too.)
        accumulate(t, own_copy(value) if recorded else value)
    result.accumulate_retained()


@overload
def grad(
    outputs: Tensor | Sequence[Tensor], inputs: Tensor | Sequence[Tensor], grad_outputs: Seeds = None, retain_graph: bool | None = None,
    create_graph: bool = False, only_inputs: bool = True, allow_unused: Literal[False] = False, is_grads_batched: bool = False,
) -> tuple[Tensor, ...]: ...  # fmt: skip
@overload
def grad(
    outputs: Tensor | Sequence[Tensor], inputs: Tensor | Sequence[Tensor], grad_outputs: Seeds = None, retain_graph: bool | None = None,
    create_graph: bool = False, only_inputs: bool = True, *, allow_unused: bool, is_grads_batched: bool = False,
) -> tuple[Tensor | None, ...]: ...  # fmt: skip
def grad(
    outputs: Tensor | Sequence[Tensor], inputs: Tensor | Sequence[Tensor], grad_outputs: Seeds = None, retain_graph: bool | None = None,
    create_graph: bool = False, only_inputs: bool = True, allow_unused: bool = False, is_grads_batched: bool = False,
) -> tuple[Tensor | None, ...]:  # fmt: skip
    """Gradients of `outputs` with respect to `inputs`; no ``.grad`` is touched, but for tensors after ``retain_grad()``.

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
        Return None for an input that the outputs do not depend on, instead of raising.
    is_grads_batched : bool
        Whether each of `grad_outputs` holds several seeds along a leading axis, as do the gradients then.  The sweep runs once for each.

    Returns
    -------
    tuple of Tensor
        One per input; None with `allow_unused`, where there is none.

    Raises
    ------
    GradientError, NonScalarOutputError, SeedShapeError, ClearedTapeError, ModifiedInPlaceError

    Examples
    --------
    >>> import tapegrad as tg
    >>> x = tg.tensor(2.0, requires_grad=True)
    >>> tg.autograd.grad(x ** 2, x)
    (tensor(4.),)
    """
    if not only_inputs:
        raise ValueError("only_inputs=False is not supported; call .backward() to accumulate into all leaves")
    if any(isinstance(t, ComplexTensor) for t in (*_listed(outputs), *_listed(inputs))):
        return _of_parts(_listed(outputs), _listed(inputs), grad_outputs, allow_unused, retain_graph, create_graph, is_grads_batched)
    if is_grads_batched:
        return _batched(outputs, inputs, grad_outputs, retain_graph, create_graph, allow_unused)
    roots = tensors_of(outputs, "outputs")
    wanted = _wanted(inputs)
    recorded = create_graph or _differentiated(grad_outputs)
    seeds = seeds_of(roots, grad_outputs, "grad_outputs", recorded)
    result = _swept(roots, seeds, wanted, retain_graph, create_graph, recorded, allow_unused)
    result.accumulate_retained()
    return tuple(as_tensor(result.requested[id(t)]) if id(t) in result.requested else None for t in wanted)


def _of_parts(outputs, inputs, grad_outputs, allow_unused, retain_graph, create_graph, batched):
    """`grad` of complex tensors, or by them: of the real and imaginary parts that require a gradient."""
    roots = []
    for output, seed in zip(outputs, _one_each(outputs, grad_outputs, "grad_outputs")):
        if not isinstance(output, ComplexTensor):
            roots.append((output, seed))
        elif seed is None:
            raise NonScalarOutputError("a complex output has no gradient without a seed: take its .real, .imag or abs(), or pass grad_outputs")
        else:
            seed = seed if isinstance(seed, (Differentiable, ComplexTensor)) else np.asarray(seed)
            roots += [pair for pair in zip(split(output), split(seed) or (seed, np.zeros_like(seed))) if pair[0].requires_grad]
    parts = [[p for p in split(t) or (t,) if p.requires_grad] for t in inputs]
    given = [t for t, _ in roots], [p for some in parts for p in some], [s for _, s in roots]
    found = iter(grad(*given, retain_graph, create_graph, allow_unused=True, is_grads_batched=batched))
    gradients = []
    for k, (t, some) in enumerate(zip(inputs, parts)):
        by_part = {id(p): g for p, g in zip(some, found)}
        values = [by_part.get(id(p)) for p in split(t) or (t,)]
        if not allow_unused and all(g is None for g in values):
            raise GradientError(f"the outputs do not depend on input {k}, of shape {tuple(t.shape)}; allow_unused=True gives None for it")
        gradients.append(values[0] if len(values) == 1 else None if values == [None, None] else ComplexTensor(*values))
    return tuple(gradients)


def _batched(outputs, inputs, grad_outputs, retain_graph, create_graph, allow_unused):
    """`grad` for each of the seeds along their leading axis."""
    one = len(tensors_of(outputs, "outputs")) == 1 and not isinstance(grad_outputs, (list, tuple))
    seeds = [grad_outputs] if one else list(grad_outputs if grad_outputs is not None else ())
    lengths = {np.shape(s)[:1] for s in seeds}
    if len(lengths) != 1 or lengths <= {(), (0,)}:
        raise SeedShapeError(
            "with is_grads_batched=True each of grad_outputs needs a leading axis, of one length and not empty; their shapes are "
            f"{[tuple(np.shape(s)) for s in seeds]}"
        )
    ((count,),) = lengths
    rows = [
        grad(outputs, inputs, [s[k] for s in seeds], retain_graph or create_graph or k < count - 1, create_graph, allow_unused=allow_unused)
        for k in range(count)
    ]
    return tuple(None if parts[0] is None else as_tensor(np.stack(parts)) for parts in zip(*rows))


# ---- tangents ---------------------------------------------------------------------


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
            raise GradientError(f"output {k} (shape {tuple(t.shape)}) does not require grad: nothing it was computed from is on a tape")
    # An input that is itself computed counts as a leaf: nothing comes up from below it.
    found = nested.carried(wanted, roots, [np.asarray(seed)[None] for seed in seeds], lambda stretch, order, known: push(stretch, order, known, 1), plain=True)
    return tuple(as_tensor(np.zeros(t.shape, t.dtype) if part is None else np.reshape(part, t.shape) + 0.0) for t, part in zip(roots, found))
