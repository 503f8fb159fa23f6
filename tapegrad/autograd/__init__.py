"""Define-by-run differentiation, as in PyTorch: run the code, then walk its tape back.

Imports: common, rules, tape, interpreter, array.

`gradients`    `backward`, `grad` and `jvp`; `backward` is one pass, with ``.grad``, hooks and ``retain_grad``; `graph` shows its nodes as PyTorch does.
`tape`         the tape a user may hold, its listings and tables; `draw`, pictures of it; `anomaly` finds where a number stopped being finite.
`recording`    one run of a function on a tape of its own.
`custom`       primitives with derivative rules of the user's own.

Derivatives that are themselves recorded, and so can be differentiated again:

`reading`      an instruction of a tape, read back, and with tensors for its operands.
`adjoint`      the reverse sweep with tensors: it writes the gradient on the tape it walks; the tangent sweep, forward mode over that.
`passes`       ``backward(create_graph=True)``: hooks, ``.grad``, requested inputs.
`nested`       a functional derivative inside of another one.
"""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from ..common.public import only_public
from ..common.registry import registry
from . import graph, tape
from .backward import register_hook, release_grad, retain_grad, retains_grad
from .custom.function import Function
from .gradients import backward, grad, jvp

__all__ = ["Function", "backward", "grad", "gradcheck", "jvp"]
__dir__ = only_public(__name__)

# What `array.tensor.Tensor` needs of this folder.
registry.engine = SimpleNamespace(
    backward=backward, changes_in_jumps=graph.changes_in_jumps, node_of=graph.node_of, register_hook=register_hook,
    release_grad=release_grad, retain_grad=retain_grad, retains_grad=retains_grad, tape_of=tape.Tape.of,
)


def gradcheck(func: Callable[..., Any], inputs: Any, eps: float = 1e-6, atol: float = 1e-5, rtol: float = 1e-3, raise_exception: bool = True) -> bool:
    """Compare gradients by ``backward()`` with differences, as ``torch.autograd.gradcheck``; `tapegrad.check` compares more.

    Parameters
    ----------
    func : callable
        Of tensors; returns one, or containers of them.
    inputs : Tensor or sequence of Tensor
        Those that require a gradient are moved.
    eps, atol
        PyTorch's step and absolute tolerance: taken, and not needed, for the step follows from the precision.
    rtol : float
        Tolerance relative to 1 plus the largest derivative.
    raise_exception : bool
        Whether a disagreement raises; else False is returned.

    Returns
    -------
    bool

    Raises
    ------
    CheckError
        They disagree: says where.
    StructureError
        No input requires a gradient.

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.autograd.gradcheck(lambda x: x.sin(), tg.tensor([1.0, 2.0], requires_grad=True))
    True
    """
    return registry.later.gradcheck(func, inputs, rtol, raise_exception)
