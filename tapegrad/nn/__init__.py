"""A few names of ``torch.nn``: `Parameter` and `functional`."""

from ..tensor import Parameter
from . import functional

__all__ = ["Parameter", "functional"]
