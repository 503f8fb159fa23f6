"""Functions of `scipy.integrate` on tensors; every other name is SciPy's own."""

from ...common.public import only_public
from ..mirrors import MIRRORS, own_names
from .ivp import odeint, solve_ivp  # noqa: F401
from .quadrature import quad  # noqa: F401
from .samples import cumulative_trapezoid, fixed_quad, simpson, trapezoid  # noqa: F401

__all__ = list(MIRRORS["scipy.integrate"])
__dir__ = only_public(__name__)
__getattr__ = own_names("scipy.integrate")
