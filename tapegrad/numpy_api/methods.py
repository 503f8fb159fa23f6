"""The methods and attributes of `numpy.ndarray` that are NumPy's functions under another spelling.

``x.argmax()`` is ``np.argmax(x)``, and so on; those that change the array in place
are assignments.  `tapegrad.array.functions` has the methods that are functions of this
library too.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..array.differentiable import Differentiable
from ..array.functions.arguments import named
from ..array.typing import Extremes
from ..common.registry import attach
from ..rules import BY_FUNCTION
from .dispatch import DIRECT, VALUES

_SAME = "all any argmax argmin argpartition argsort choose conj conjugate cumprod nonzero put searchsorted".split()


def method_of(name: str) -> Callable[..., Any]:
    """NumPy's function as a method, in which PyTorch's ``dim`` and ``keepdim`` are understood as well."""
    function = getattr(np, name)

    def method(self, *args, **kwargs):
        """``np.{name}`` of this tensor."""
        return function(self, *args, **{{"dim": "axis", "keepdim": "keepdims"}.get(key, key): value for key, value in kwargs.items()})

    return named(method, name)


def fill(self, value):
    """Set every element to `value`, as ``x[...] = value``."""
    self[...] = value


def compress(self, condition, axis=None, out=None):
    """Slices along `axis` where `condition` holds; see ``np.compress``."""
    return np.compress(condition, self, axis, out)


def sort(self, axis=-1, kind=None, order=None, *, stable=None, dim=None, descending=False):
    """Sort in place along `axis`; see ``np.sort``.  With `dim` or `descending` the pair ``(values, indices)`` of PyTorch, and nothing is changed."""
    if dim is None and not descending:
        self[...] = np.sort(self, axis, kind, order, stable=stable)
        return None
    dim = axis if dim is None else dim
    indices = np.argsort(-self if descending else self, dim, stable=stable)
    return Extremes(np.take_along_axis(self, indices, dim), indices)


def partition(self, kth, axis=-1, kind="introselect", order=None):
    """Partition in place along `axis`; see ``np.partition``."""
    self[...] = np.partition(self, kth, axis, kind, order)


def rounded(self, ndigits=None):
    """``round(x)`` leaves the tape as ``int(x)`` does; ``round(x, n)`` is ``np.round(x, n)``."""
    return round(float(self)) if ndigits is None else np.round(self, ndigits)


class FlatElements:
    """``x.flat``: the elements in C order, as `numpy.flatiter` has them, which is read and assigned to by one index."""

    def __init__(self, of):
        self._of = of

    def __len__(self):
        return self._of.size

    def __iter__(self):
        return iter(np.ravel(self._of))

    def __getitem__(self, key):
        part = np.ravel(self._of)[key]
        return part.copy() if part.ndim else part

    def __setitem__(self, key, value):
        np.put(self._of, np.arange(len(self))[key], value)


def _assign_flat(self, value):
    FlatElements(self)[:] = value


def _attribute(name):
    return property(lambda self: getattr(np.asarray(self._v), name), doc=f"As `numpy.ndarray.{name}`.")


attach(Differentiable, {name: method_of(name) for name in _SAME})
#: NumPy calls methods of these names on the elements of an array of objects (`tapegrad.array.objects`).
_OF_ELEMENTS = {f.__name__ for f in (*BY_FUNCTION, *VALUES, *DIRECT) if isinstance(f, np.ufunc) and hasattr(np, f.__name__) and f.nout == 1}
attach(Differentiable, {name: method_of(name) for name in _OF_ELEMENTS if not hasattr(Differentiable, name)})
attach(Differentiable, {function.__name__: function for function in (compress, fill, sort, partition)})
attach(Differentiable, {name: _attribute(name) for name in ("flags", "itemsize", "nbytes", "strides")})
attach(Differentiable, {
    "__round__": rounded, "real": property(np.real, doc="The tensor itself: it is real."), "imag": property(np.imag, doc="Zeros."),
    "flat": property(FlatElements, _assign_flat, doc=FlatElements.__doc__),
})  # fmt: skip
