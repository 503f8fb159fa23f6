"""PyTorch's names: `Parameter`, layers, `functional`, `utils`, and `names`, the table of them.

Imports: common, tape, array, numpy_api.
"""

from ..array.tensor import Parameter
from ..common.public import only_public
from . import functional, names, utils
from .modules import Dropout, LayerNorm, Linear, Module, ModuleList, Sequential
from .modules import __getattr__ as __getattr__

__all__ = ["Dropout", "LayerNorm", "Linear", "Module", "ModuleList", "Parameter", "Sequential", "functional", "names", "utils"]
__dir__ = only_public(__name__)
