"""The cofactors of a matrix, as a row: what the derivative of `det` is where it is differentiated again."""

from __future__ import annotations

import numpy as np

from . import lang as L
from . import shapes as S
from .minors import change, cofactors, transposed, whole
from .table import structural
from .tangents import of_one

#: Least singular value, relative to the greatest, from which on a third derivative goes by the inverse.
REGULAR = 1e-4


def _value(a):
    """`minors.cofactors` in NumPy."""
    u, s, vh = np.linalg.svd(a, full_matrices=False)
    one = np.ones_like(s[..., :1])
    before = np.cumprod(np.concatenate([one, s[..., :-1]], -1), -1)
    after = np.cumprod(np.concatenate([one, s[..., :0:-1]], -1), -1)[..., ::-1]
    orientation = np.sign(np.linalg.det(u) * np.linalg.det(vh))
    return u * (before * after)[..., None, :] * orientation[..., None, None] @ vh


def _change(a, t):
    """`minors.change`; where it is to be differentiated again that of a regular matrix by its inverse.

    Derivatives of singular vectors need values that differ, those of the inverse do not.
    """
    tangent = change(a, t)
    if not getattr(a, "recorded", False):
        return tangent
    n, s = a.shape[-1], a.svd()[1]
    axis = s.ndim - 1
    regular = (s.narrow(axis, n - 1, n) > s.narrow(axis, 0, 1) * REGULAR).expand_dims([axis])
    safe = L.select(regular, a, a.constant(np.eye(n)))
    back = transposed(safe.inv())
    along = (back * t).sum((back.ndim - 2, back.ndim - 1))
    return L.select(regular, whole(safe.det()) * (whole(along) * back - back @ transposed(t) @ back), tangent)


structural(
    "cofactors", 1, _value, lambda g, a, z: (_change(a, g),), jvp=of_one(lambda t, a, z: _change(a, t)), forward=cofactors,
    node="LinalgCofactors", doc="the cofactors of a matrix, the gradient of its determinant",
    shape=lambda a: (S.square(a), S.floating(a)), effect="dense",
)
