"""The mirror of `scipy.spatial`: `distance`; every other name is SciPy's own."""

from ...common.public import only_public
from ..mirrors import own_names
from . import distance  # noqa: F401

__all__ = ["distance"]
__dir__ = only_public(__name__)
__getattr__ = own_names("scipy.spatial")
