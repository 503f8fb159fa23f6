"""`propagate`: the uncertainty of what is computed from uncertain numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..array.record import tracked
from ..array.typing import Pytree
from ..common.errors import HigherOrderError, OptimizationError, ShapeError
from ..common.tree import flatten
from ..optimize.layout import Layout
from ..transforms.hessians import hessian
from ..transforms.jacobians import jacobian


def propagate(g: Callable[..., Any], x: Pytree, covariance: Any = None, order: int = 1, samples: int = 0, seed: Any = 0) -> tuple[Any, Any]:
    """Compute the value and covariance of a function of uncertain parameters.

    Parameters
    ----------
    g : callable
        ``g(params)`` returns a number or an array.
    x : Fit, or float, array_like, containers of them
        The parameters.  A fit supplies its parameters and covariance.
    covariance : array, optional
        Covariance of the numbers in `x`, in their order, of shape ``(n, n)``.
    order : {1, 2}
        1: from the Jacobian.  2: also from second derivatives, which shift the value, as if `x` were normal.
    samples : int
        If above 0, call `g` with this many normal samples of `x` instead, and return the mean and covariance of its results.
    seed : int or numpy.random.Generator

    Returns
    -------
    value, covariance
        For an array, the covariance has shape ``(m, m)``, with the elements in order; for a number, it is the variance.

    Raises
    ------
    ShapeError
        If the covariance has another shape.
    HigherOrderError
        If `x` is being differentiated.
    OptimizationError
        If the covariance is not finite where `g` depends on `x`, or `order` is neither 1 nor 2.

    Notes
    -----
    With Jacobian J and Hessians H, the covariance C becomes ``J C J'``.  To second order, the value is ``g + tr(H C) / 2``, and the
    covariance gains ``tr(H_i C H_j C) / 2`` (JCGM 100:2008, 5.1.2).

    Examples
    --------
    >>> import numpy as np, tapegrad as tg
    >>> value, variance = tg.propagate(lambda p: p[0] * p[1], [3.0, 2.0], np.diag([0.01, 0.04]))
    >>> value, round(float(variance), 6)
    (6.0, 0.4)
    """
    if covariance is None:
        if not hasattr(x, "parameters"):
            raise OptimizationError("give the covariance of x, or a fit in its place")
        layout, x, covariance = x.parameters.layout, x.x, x.covariance
    else:
        if any(map(tracked, flatten(x)[0])):
            raise HigherOrderError("tg.propagate gives plain numbers, and x is being differentiated: pass its value (.detach())")
        layout = Layout(x, "x")
        x = layout.vector
    covariance = np.asarray(covariance, np.float64)
    if covariance.shape != (len(x), len(x)):
        raise ShapeError(f"covariance has shape {covariance.shape}, and x has {len(x)} numbers: give shape {(len(x), len(x))}")
    if order not in (1, 2):
        raise OptimizationError(f"order={order!r}: choose 1 or 2")
    function = lambda u: g(layout.traced(u))  # noqa: E731
    if samples:
        drawn = np.random.default_rng(seed).multivariate_normal(x, covariance, samples)
        values = np.array([np.asarray(g(layout.container(row)), np.float64) for row in drawn])
        spread = np.cov(values.reshape(samples, -1), rowvar=False)
        return _alike(values.mean(axis=0)), _alike(np.atleast_2d(spread) if values.ndim > 1 else spread)
    value = np.asarray(function(x), np.float64)
    rows = np.reshape(np.asarray(jacobian(function)(x)), (value.size, len(x)))
    curves = np.zeros((0, len(x), len(x)))
    if order == 2:
        curves = np.stack([np.reshape(hessian(lambda u, k=k: np.reshape(function(u), (-1,))[k])(x), (len(x), len(x))) for k in range(value.size)])
    # Where its slope is zero, `g` may still be curved.
    uses = np.any(rows != 0.0, axis=0) | np.any(curves != 0.0, axis=(0, 1))
    known = np.isfinite(covariance).all(axis=0) | ~uses
    if not known.all():
        raise OptimizationError(f"the covariance of {layout.name_of(int(np.argmin(known))).removeprefix('start')} is not finite, and g depends on it")
    covariance = np.where(np.outer(uses, uses), covariance, 0.0)
    spread = rows @ covariance @ rows.T
    if order == 2:
        curved = curves @ covariance
        value = value + 0.5 * np.trace(curved, axis1=1, axis2=2).reshape(value.shape)
        spread = spread + 0.5 * np.einsum("iab,jba->ij", curved, curved)
    return _alike(value), _alike(spread if value.ndim else spread.reshape(()))


def _alike(array):
    return array if array.ndim else float(array)
