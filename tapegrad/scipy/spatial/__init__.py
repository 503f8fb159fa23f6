"""The mirror of `scipy.spatial`: `distance`; every other name is SciPy's own."""

from ..mirrors import names_of
from . import distance  # noqa: F401

__all__, __dir__, __getattr__ = names_of(__name__, "distance")
