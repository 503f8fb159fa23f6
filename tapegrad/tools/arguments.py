"""Arguments and results of a function that is looked at: which of them are numbers, and leaves of these."""

from __future__ import annotations

import numpy as np

from ..array.creation import from_numpy
from ..array.tensor import Tensor, tensor
from ..common.tree import flatten


def differentiable(a):
    """Whether an argument is a number or an array that derivatives are taken in."""
    return type(a) is float or isinstance(a, (np.ndarray, np.floating, Tensor)) and a.dtype.char in "df"


def leaf_of(p):
    """A leaf of the value, dtype and strides of `p`."""
    if not isinstance(p, np.ndarray):
        return tensor(p, requires_grad=True)
    return from_numpy(p).requires_grad_(True)


def flat(result):
    """The numbers and arrays of containers, in order."""
    return flatten(result)[0]
