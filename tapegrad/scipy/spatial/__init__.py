"""The mirror of `scipy.spatial`: `distance`; every other name is SciPy's own."""

from ..mirrors import own_names
from . import distance  # noqa: F401

__all__ = ["distance"]
__getattr__ = own_names("scipy.spatial")
