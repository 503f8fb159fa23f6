"""The mirror of `scipy.optimize`: `rosen`; every other name is SciPy's own, and optimisers with derivatives are `tg.optimize`."""

from ..array import functions as F
from ..common.public import only_public
from .mirrors import MIRRORS, array, mirror, own_names

__all__ = list(MIRRORS["scipy.optimize"])
__dir__ = only_public(__name__)
__getattr__ = own_names("scipy.optimize")


@mirror("scipy.optimize")
def rosen(x):
    """Rosenbrock's function: the sum over the first axis of ``100 (x[i+1] - x[i]**2)**2 + (1 - x[i])**2``."""
    x = array(x)
    return F.sum(100.0 * (x[1:] - x[:-1] ** 2.0) ** 2.0 + (1.0 - x[:-1]) ** 2.0, axis=0)
