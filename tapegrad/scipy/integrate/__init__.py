"""Functions of `scipy.integrate` on tensors; every other name is SciPy's own."""

from ..mirrors import names_of
from .ivp import odeint, solve_ivp  # noqa: F401
from .quadrature import quad  # noqa: F401
from .samples import cumulative_trapezoid, fixed_quad, simpson, trapezoid  # noqa: F401

__all__, __dir__, __getattr__ = names_of(__name__)
