"""Integrals from samples, and Gauss-Legendre quadrature."""

import numpy as np

from ...array.functions import axis_index, part
from ...common.uninterrupted import Lazily
from ..mirrors import array, constant, mirror

_special = Lazily("scipy.special")


def _step(dx):
    """`dx`; a Python number leaves the dtype of the samples as it is."""
    return dx if isinstance(dx, (int, float)) else array(dx)


def _spacing(x, y, axis):
    """The distances of the points `x` along `axis`, in a shape that broadcasts with `y`."""
    x = array(x)
    if x.ndim == 1:
        x = np.reshape(x, (1,) * axis + (-1,) + (1,) * (y.ndim - axis - 1))
    elif x.ndim != y.ndim:
        raise ValueError("If given, shape of x must be 1-D or the same as y.")
    if x.shape[axis] != y.shape[axis]:
        raise ValueError("If given, length of x along axis must be the same as y.")
    return part(x, axis, 1, None) - part(x, axis, None, -1)


@mirror
def trapezoid(y, x=None, dx=1.0, axis=-1):
    """Integral by the trapezoidal rule; differentiable in `y`, `x` and `dx`."""
    y = array(y)
    axis = axis_index(axis, y.ndim)
    d = _step(dx) if x is None else _spacing(x, y, axis)
    return np.sum(d * (part(y, axis, 1, None) + part(y, axis, None, -1)) / 2.0, axis=axis)


@mirror
def cumulative_trapezoid(y, x=None, dx=1.0, axis=-1, initial=None):
    """Running integral by the trapezoidal rule; differentiable in `y`, `x` and `dx`.

    `initial` is None or 0: with 0, the result starts with a zero.
    """
    y = array(y)
    axis = axis_index(axis, y.ndim)
    if y.shape[axis] == 0:
        raise ValueError("At least one point is required along `axis`.")
    d = _step(dx) if x is None else _spacing(x, y, axis)
    sums = np.cumsum(d * (part(y, axis, 1, None) + part(y, axis, None, -1)) / 2.0, axis=axis)
    if initial is None:
        return sums
    if np.ndim(initial) or initial != 0:
        raise ValueError("`initial` must be `None` or `0`.")
    first = np.zeros([1 if k == axis else extent for k, extent in enumerate(sums.shape)], sums.dtype)
    return np.concatenate([first, sums], axis=axis)


@mirror
def simpson(y, x=None, *, dx=1.0, axis=-1):
    """Integral by the composite Simpson's rule; differentiable in `y`, `x` and `dx`.

    With an even number of points the last interval has Cartwright's correction,
    as in SciPy; points `x` along the axis must differ.
    """
    y = array(y)
    axis = axis_index(axis, y.ndim)
    count = y.shape[axis]
    if x is None:
        widths = np.ones([count - 1 if k == axis else 1 for k in range(y.ndim)], np.float32 if y.dtype.char in "fF" else np.float64) * _step(dx)
    else:
        widths = _spacing(x, y, axis)
        if not np.all(widths):
            raise ValueError("simpson: neighbouring points x are equal, where the rule is not differentiable")
    if count == 2:
        return 0.5 * np.take(widths, 0, axis) * (np.take(y, 0, axis) + np.take(y, 1, axis))
    even = count % 2 == 0
    stop = count - 1 - even
    h0, h1 = part(widths, axis, 0, stop, 2), part(widths, axis, 1, stop, 2)
    total = h0 + h1
    left, middle, right = (part(y, axis, k, stop - 1 + k, 2) for k in range(3))
    parts = left * (2.0 - h1 / h0) + middle * (total * total / (h0 * h1)) + right * (2.0 - h0 / h1)
    integral = np.sum(total / 6.0 * parts, axis=axis)
    if not even:
        return integral
    a, b = np.take(widths, -2, axis), np.take(widths, -1, axis)
    alpha = (2.0 * b * b + 3.0 * a * b) / (6.0 * (a + b))
    beta = (b * b + 3.0 * a * b) / (6.0 * a)
    eta = b * b * b / (6.0 * a * (a + b))
    return integral + alpha * np.take(y, -1, axis) + beta * np.take(y, -2, axis) - eta * np.take(y, -3, axis)


def fixed_quad(func, a, b, args=(), n=5):
    """Integral of `func` from `a` to `b` by Gauss-Legendre quadrature of order `n`.

    Parameters
    ----------
    func : callable
        ``func(x, *args)`` of a vector of points, giving their values along the last axis.
    a, b : float
        Finite ends; differentiable, as are `args` and what `func` itself holds.
    args : tuple
    n : int

    Returns
    -------
    (Tensor or ndarray, None)

    Examples
    --------
    >>> import numpy as np, tapegrad as tg
    >>> from tapegrad.scipy.integrate import fixed_quad
    >>> b = tg.tensor(2.0, requires_grad=True)
    >>> area, _ = fixed_quad(np.square, 0.0, b)
    >>> area.backward()
    >>> b.grad
    tensor(4.0000)
    """
    n = int(constant(n, "fixed_quad", "n", "the order is an integer"))
    # `mirrors` look at the arguments; `func` may hold tensors that these do not show.
    if np.isinf(a) or np.isinf(b):
        raise ValueError("Gaussian quadrature is only available for finite limits.")
    points, weights = _special.roots_legendre(n)
    return (b - a) / 2.0 * np.sum(weights * func((b - a) * (points + 1.0) / 2.0 + a, *args), -1), None
