"""A call without `jit`: the function runs once on a tape of its own, which is swept and let go."""

from __future__ import annotations

import numpy as np

from ..array.record import normalise
from ..array.tensor import Tensor, rebuilt
from ..autograd.gradients import grad
from ..autograd.recording import differentiating, refuse_captured, refuse_outer
from ..autograd.tape import Tape
from ..common.tree import flatten, unflatten
from ..tape.modes import enable_grad
from ..tape.store import thread_state


def value_and_gradients(function, args, kwargs, argnums, has_aux=False, scalar=True):
    """Values, their structure, and for each leaf of the arguments in `argnums` (ascending) its gradient."""
    from .replay.running import Running

    checker = Running()
    checker.function, checker.has_aux, checker.scalar = function, has_aux, scalar
    from .replay.arguments import as_inputs

    argnums = sorted(set(argnums))
    args, arrays = as_inputs(args, argnums)
    enabled = thread_state().enabled
    with Tape() as tape, enable_grad():
        variables = []
        for k, inputs in zip(argnums, arrays):
            mine = [rebuilt(Tensor, normalise(np.array(v)), True, None) for v in inputs]
            variables += mine
            args[k] = unflatten(flatten(args[k])[1], mine)
        with differentiating(variables):
            results, shape = flatten(function(*args, **kwargs))
        refuse_outer(tape.store)
        if enabled:
            refuse_captured(tape.store, {tape.store.leaves.get(t._k) for t in variables}, function)
        checker._check_results(results, shape, True, tape.store)
        gradients = _gradients(results[:1] if has_aux else results, variables)
    values = [r.detach()._v if isinstance(r, Tensor) else r for r in results]
    return values, shape, gradients


def _gradients(results, variables):
    remaining = iter([None] * len(variables))
    roots = [r for r in results if isinstance(r, Tensor) and r.requires_grad]
    if roots and variables:
        ones = [rebuilt(Tensor, normalise(np.ones(r.shape, r.dtype)), False, None) for r in roots]
        remaining = iter(grad(roots, variables, ones, allow_unused=True))
    gradients = []
    for t in variables:
        g = next(remaining)
        gradients.append(np.zeros(t.shape, t.dtype) if g is None else np.array(g._v, t.dtype))
    return gradients
