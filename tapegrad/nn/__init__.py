"""PyTorch's names: `Parameter`, layers, `functional`, `utils`, and `names`, the table of them.

Imports: common, tape, array, numpy_api.
"""

from ..array.tensor import Parameter
from . import functional, names, utils
from .modules import Dropout, Embedding, LayerNorm, Linear, Module, ModuleList, Sequential
from .modules import __getattr__ as __getattr__

__all__ = [
    "Dropout", "Embedding", "LayerNorm", "Linear", "Module", "ModuleList", "Parameter", "Sequential", "functional", "names", "utils",
]  # fmt: skip
