"""The functions of the library's namespace, which are also tensor methods.

Each is a thin call of `tapegrad.array.record.apply`: it sorts out arguments (NumPy's
``axis``/``keepdims`` and PyTorch's ``dim``/``keepdim`` mean the same) and names
the row.  They are methods of tensors, too; NumPy's own functions reach
the same rows through `tapegrad.numpy_api.dispatch`.
"""

from typing import TYPE_CHECKING

import numpy as np

from ...common.registry import attach
from ..differentiable import Differentiable
from .arguments import as_method, axis_index, axis_tuple, chosen_axes, lift
from .elementwise import *
from .elementwise import ELEMENTWISE, power
from .gathers import *
from .gathers import along_axis, frozen, moved, moved_by, positions_of, segment_max, segment_mean, segment_min, segment_sum
from .reductions import *
from .reductions import scanned
from .shapes import *
from .shapes import copied, part, view

#: Names of this module that are also methods of tensors.
METHODS = [
    *ELEMENTWISE,
    *"clip sum mean prod max min amax amin norm logsumexp var std cumsum softmax log_softmax matmul dot outer trace "
    "reshape ravel flatten squeeze expand_dims unsqueeze transpose permute t swapaxes moveaxis flip broadcast_to "
    "expand diagonal diag split repeat tile roll take clone astype power".split(),
]


pow = power
#: Of these the ones that take the arguments of NumPy's methods as well.
_AS_NUMPY = "sum mean prod max min var std cumsum clip trace round".split()

attach(Differentiable, {name: as_method(globals()[name]) if name in _AS_NUMPY else globals()[name] for name in METHODS} | {
    "pow": power, "T": property(transpose), "mT": property(lambda self: swapaxes(self, -1, -2)),
    "double": lambda self: astype(self, np.float64), "float": lambda self: astype(self, np.float32),
    "copy": copied,
})  # fmt: skip

#: Rows that only derivatives and kernels use: no functions of the namespace.
INNER = {"absolute_product", "gammainc_da", "stdtr_ddf", "if_false", "if_true", "is_equal", "is_less", "is_less_equal", "is_nan"}

if not TYPE_CHECKING:  # type checkers take every name without an underscore
    __all__ = sorted({
        *METHODS, "array_split", "cat", "concatenate", "pow", "segment_max", "segment_mean", "segment_min", "segment_sum", "stack", "where",
    } - INNER)  # fmt: skip
