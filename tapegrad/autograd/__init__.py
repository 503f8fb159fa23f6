"""Define-by-run differentiation, as in PyTorch: run the code, then walk its tape back.

Imports: common, rules, tape, interpreter, array.

`gradients`    `backward` and `grad`; `backward` is one pass, `graph` shows its nodes as PyTorch does.
`tape`         the tape a user may hold; `inspect` and `draw` show it, `anomaly` finds where a number stopped being finite.
`recording`    one run of a function on a tape of its own.
`custom`       primitives with derivative rules of the user's own.

Derivatives that are themselves recorded, and so can be differentiated again:

`reading`      an instruction of a tape with tensors for its operands.
`adjoint`      the reverse sweep with tensors: it writes the gradient on the tape it walks.
`tangents`     the tangent sweep with tensors: forward mode over a recorded gradient.
`passes`       ``backward(create_graph=True)``: hooks, ``.grad``, requested inputs.
`nested`       a functional derivative inside of another one.
"""

from . import engine  # noqa: F401  (sets registry.engine)
from .custom.function import Function
from .gradients import backward, grad
from .pushforward import jvp

__all__ = ["Function", "backward", "grad", "jvp"]
