"""Functions of ours as operations of other libraries: `to_torch`, `to_jax`, `to_pytensor`.

Imports: common, codegen, array, transforms.

`operation`  a function of arrays with what is derived of it: its VJP, its JVP, itself along an axis; each recorded by itself.
`torch`      a `torch.autograd.Function` of an operation.
`jax`        two primitives: an operation, and its derivative, which is linear in the tangents.
`pytensor`   an `Op`, for PyMC, whose Numba code is our machine code.

Each library differentiates by the rules that it asks an operation for, and these rules are operations of ours again.  So its own
transformations hold, to any order.  `import tapegrad` loads none of it, and no library is loaded before its function is called.
"""

from ..common.public import only_public
from .jax import to_jax
from .pytensor import to_pytensor
from .torch import to_torch

__all__ = ["to_jax", "to_pytensor", "to_torch"]
__dir__ = only_public(__name__)
