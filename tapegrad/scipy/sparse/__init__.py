"""The mirror of `scipy.sparse`: `linalg`; every other name is SciPy's own. Products ``A @ t`` and ``t @ A`` need none."""

from ..mirrors import own_names
from . import linalg  # noqa: F401

__all__ = ["linalg"]
__getattr__ = own_names("scipy.sparse")
