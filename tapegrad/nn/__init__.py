"""A few names of ``torch.nn``: `Parameter` and `functional`."""

from ..array.tensor import Parameter
from . import functional

__all__ = ["Parameter", "functional"]
