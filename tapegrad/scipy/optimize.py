"""The mirror of `scipy.optimize`: `rosen`; every other name is SciPy's own, and optimisers with derivatives are `tg.optimize`."""

from ..array import functions as F
from .mirrors import array, mirror, names_of

__all__, __dir__, __getattr__ = names_of(__name__)


@mirror
def rosen(x):
    """Rosenbrock's function: the sum over the first axis of ``100 (x[i+1] - x[i]**2)**2 + (1 - x[i])**2``."""
    x = array(x)
    return F.sum(100.0 * (x[1:] - x[:-1] ** 2.0) ** 2.0 + (1.0 - x[:-1]) ** 2.0, axis=0)
