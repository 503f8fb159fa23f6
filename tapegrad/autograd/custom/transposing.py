"""The transpose of a linear function that is written in differentiable NumPy.

A JVP rule is linear in the tangents and a VJP rule in the cotangents; each is the
transpose of the other.  So the one is recorded at an arbitrary point on a tape of
its own, and a reverse sweep over that tape is the other.
"""

import numpy as np

from ...array.record import tracked
from ...array.tensor import Tensor, tensor
from ...common.errors import MissingRuleError, RuleError, reason
from ...tape.modes import enable_grad
from ..gradients import grad
from ..nested import current_trace
from ..passes import sweep_recorded
from ..tape import Tape


def transpose(linear, likes, cotangents, name, instead):
    """``J^T w`` for the linear function ``v -> J v``.

    Parameters
    ----------
    linear : callable
        Takes a list with an entry per input, gives a list with one per output;
        entries may be None (an input that does not vary, a zero output).
    likes : list
        Floats or float arrays of the shapes of the inputs; None for one that does
        not vary.
    cotangents : list
        One per output; None where it is zero.
    name : str
        What `linear` is, for errors.
    instead : str
        How to give the missing rule.

    Returns
    -------
    list
        One per input, None where zero.

    Raises
    ------
    RuleError
        `linear` is not linear.
    MissingRuleError
        It cannot be recorded.
    """
    rng = np.random.default_rng(0)
    with enable_grad(), Tape():
        leaves = [None if a is None else tensor(rng.standard_normal(np.shape(a)), dtype=getattr(a, "dtype", "d"), requires_grad=True) for a in likes]
        try:
            outputs = linear(leaves)
        except RuleError:
            raise
        except Exception as error:
            raise MissingRuleError(
                f"{name} was to be transposed, and cannot be recorded ({reason(error)}). Write it in "
                f"NumPy functions that tapegrad differentiates, or give the other rule: {instead}"
            ) from error
        for o, w in zip(outputs, cotangents):
            if o is not None and w is not None and not tracked(o) and np.any(np.asarray(o._v if isinstance(o, Tensor) else o)):
                raise RuleError(f"{name} is not linear: it returns a constant other than zero")
        pairs, varied = _asked(leaves, outputs, cotangents)
        if not pairs:
            return [None] * len(likes)
        gradients = grad([o for o, _ in pairs], varied, [w for _, w in pairs], allow_unused=True)
    left = sum(float(np.sum(np.asarray(o._v) * w)) for o, w in pairs)
    right = sum(float(np.sum(np.asarray(g._v) * t._v)) for g, t in zip(gradients, varied) if g is not None)
    size = sum(float(np.sum(np.abs(np.asarray(o._v) * w))) for o, w in pairs)
    single = any(t.dtype.char == "f" for t in (*varied, *(o for o, _ in pairs)))
    if abs(left - right) > (1e-3 if single else 1e-8) * (size + abs(right)):
        raise RuleError(f"{name} is not linear in its argument, so it cannot be a derivative: f(v) = {left:.6g}, but f'(v) v = {right:.6g}")
    found = {id(t): g._v for t, g in zip(varied, gradients) if g is not None}
    return [found.get(id(t)) for t in leaves]


def _asked(leaves, outputs, cotangents):
    """Outputs on the tape with their cotangents, and the inputs that vary."""
    return [(o, w) for o, w in zip(outputs, cotangents) if w is not None and tracked(o)], [t for t in leaves if t is not None]


def transposed_on_tape(linear, likes, cotangents):
    """`transpose` for cotangents, or a linear function, that depend on tensors: recorded beside these.

    Parameters
    ----------
    linear, likes, cotangents
        As of `transpose`; `linear` may use tensors that are on a tape.

    Returns
    -------
    list
        One per input, None where zero.
    """
    trace = current_trace()

    def zero(like):
        t = tensor(np.zeros(np.shape(like), getattr(like, "dtype", "d")), requires_grad=True)
        return t if trace is None else trace.variable(t._v)

    leaves = [None if a is None else zero(a) for a in likes]
    pairs, varied = _asked(leaves, linear(leaves), cotangents)
    if not pairs:
        return [None] * len(likes)
    gradients = sweep_recorded([o for o, _ in pairs], [w for _, w in pairs], varied).requested
    return [None if t is None else gradients.get(id(t)) for t in leaves]
