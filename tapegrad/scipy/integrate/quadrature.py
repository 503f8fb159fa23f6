"""`quad`: integrals over finite and infinite intervals by adaptive Gauss-Kronrod quadrature, differentiated through their sum.

An interval is a part of the unit interval, which is mapped to the whole one; so the ends are differentiated like
everything else in the integrand.  The worst part is halved until the estimates of the errors, detached, are small enough.

R. Piessens, E. de Doncker-Kapenga, C. Ueberhuber, D. Kahaner: QUADPACK (1983), whose QAG and QAGI these are; nodes and weights by
the polynomial of Stieltjes, see G. Monegato, "A note on extended Gaussian quadrature rules", Math. Comput. 30 (1976).
"""

import functools
import warnings

import numpy as np

from ...autograd.custom import stop_gradient
from ...common.errors import UnsupportedFunctionError
from ...common.uninterrupted import Lazily
from ...transforms.loops.api import while_loop
from ..mirrors import array, constant, differentiable, plainly
from .stepping import flag

_integrate = Lazily("scipy.integrate")


@functools.cache
def rule(n=10):
    """Nodes of the rule of Gauss with `n` points and of Kronrod's extension on [-1, 1]; weights of the two."""
    legendre = np.polynomial.legendre
    points, weights = legendre.leggauss(2 * n + 2)
    values = legendre.legvander(points, n + 1)
    # Stieltjes' polynomial of degree n + 1 is orthogonal to lower ones, with the Legendre polynomial of degree n as weight.
    products = np.einsum("i,i,ij,ik->kj", weights, values[:, n], values, values[:, : n + 1])
    stieltjes = np.append(np.linalg.lstsq(products[:, : n + 1], -products[:, n + 1], rcond=None)[0], 1.0)
    gauss, of_gauss = legendre.leggauss(n)
    nodes = np.concatenate([gauss, legendre.legroots(stieltjes).real])
    of_kronrod = np.linalg.solve(legendre.legvander(nodes, 2 * n).T, np.eye(2 * n + 1)[0] * 2.0)
    return nodes, np.concatenate([of_gauss, np.zeros(n + 1)]), of_kronrod


#: Options of SciPy's that are for plain numbers only, with their defaults.
OTHERS = dict(full_output=0, points=None, weight=None, wvar=None, wopts=None, maxp1=50, limlst=50, complex_func=False)


def quad(
    func, a, b, args=(), full_output=0, epsabs=1.49e-8, epsrel=1.49e-8, limit=50, points=None, weight=None, wvar=None, wopts=None,
    maxp1=50, limlst=50, complex_func=False,
):
    """Integral of a function of one variable from `a` to `b`.

    Parameters
    ----------
    func : callable
        ``func(x, *args)``, a number.
    a, b : float
        Ends, which may be infinite; differentiable, as are `args` and what `func` itself holds.
    args : tuple
    epsabs, epsrel : float
        The error allowed, absolute and relative.
    limit : int
        How many parts the interval may be divided into.
    full_output, points, weight, wvar, wopts, maxp1, limlst, complex_func
        SciPy's others, for plain numbers only.

    Returns
    -------
    (Tensor or float, float)
        The integral, and an estimate of its error.

    Raises
    ------
    UnsupportedFunctionError
        For options that are for plain numbers only.

    Warns
    -----
    IntegrationWarning
        Of SciPy, if the error is not as small as it was to be.

    Notes
    -----
    The points are chosen on detached numbers: the derivative is that of the sum, and as good as the sum for the derivative of the
    integrand.  There is no extrapolation as in QUADPACK's QAGS: integrable singularities at the ends take more parts.

    Examples
    --------
    >>> import numpy as np, tapegrad as tg
    >>> from tapegrad.scipy.integrate import quad
    >>> gaussian = lambda width: quad(lambda x: np.exp(-((x / width) ** 2)), -np.inf, np.inf)[0]
    >>> print(f"{tg.grad(gaussian)(2.0):.6f} {np.pi**0.5:.6f}")
    1.772454 1.772454
    """
    args = args if isinstance(args, tuple) else (args,)
    others = dict(points=points, weight=weight, wvar=wvar, wopts=wopts, maxp1=maxp1, limlst=limlst, complex_func=complex_func)
    low, high = (end if differentiable(end) else float(end) for end in (a, b))
    if bool(low > high):
        integral, error = quad(func, b, a, args, full_output, epsabs, epsrel, limit, **others)
        return -integral, error
    integrand = _mapped(func, low, high, args)
    if not differentiable(a, b, args, integrand(0.5)):
        return _integrate.quad(func, a, b, args, full_output, epsabs, epsrel, limit, **others)
    given = [name for name, default in OTHERS.items() if (others | {"full_output": full_output})[name] != default]
    if given:
        names = ", ".join(f"{name}=" for name in given)
        raise UnsupportedFunctionError(f"quad of tensors has no {names}; it takes args, epsabs, epsrel and limit")
    limit, epsabs, epsrel = (constant(x, "quad", "limit, epsabs or epsrel", "it chooses the points") for x in (limit, epsabs, epsrel))
    numbers = np.arange(float(limit))

    def allowed(parts):
        return np.maximum(epsabs, epsrel * np.abs(np.sum(stop_gradient(parts["integrals"]))))

    def goes_on(parts):
        return np.logical_and(np.sum(parts["errors"]) > allowed(parts), parts["count"] < limit)

    def halved(parts):
        worst = flag(parts["errors"] >= np.max(parts["errors"]))
        worst, last = np.logical_and(worst > 0, np.cumsum(worst) < 2), numbers == parts["count"]
        start, width = np.sum(np.where(worst, parts["starts"], 0.0)), 0.5 * np.sum(np.where(worst, parts["widths"], 0.0))
        integrals, errors = _estimates(integrand, np.stack([start, start + width]), width)
        new = {"starts": (start, start + width), "widths": (width, width), "integrals": integrals, "errors": errors}
        new = {name: np.where(worst, pair[0], np.where(last, pair[1], parts[name])) for name, pair in new.items()}
        return new | {"count": parts["count"] + 1.0}

    integrals, errors = _estimates(integrand, np.zeros(1), 1.0)
    first = {"starts": 0.0, "widths": 1.0, "integrals": integrals[0], "errors": errors[0]}
    parts = {name: np.where(numbers == 0, number, 0.0) for name, number in first.items()} | {"count": 1.0}
    # Most integrands need no more, and then no loop is recorded.
    if goes_on(parts):
        parts = while_loop(goes_on, halved, parts)
    error = np.sum(parts["errors"])
    if error > allowed(parts):
        warnings.warn(
            f"The maximum number of subdivisions ({limit}) has been achieved, and the error is larger than epsabs and epsrel allow.",
            _integrate.IntegrationWarning, stacklevel=2,
        )  # fmt: skip
    return np.sum(parts["integrals"]), plainly(error)


def _mapped(func, low, high, args):
    """The integrand as a function on the unit interval."""
    below, above = bool(low == -np.inf), bool(high == np.inf)

    def integrand(u):
        if below or above:
            far, slope = (1.0 - u) / u, 1.0 / (u * u)
            if below and above:
                return (func(far, *args) + func(-far, *args)) * slope
            return func(high - far if below else low + far, *args) * slope
        return func(low + (high - low) * u, *args) * (high - low)

    return integrand


def _estimates(integrand, starts, width):
    """Integrals over parts of a width, and estimates of their errors."""
    nodes, of_gauss, of_kronrod = rule()
    points = np.expand_dims(starts, 1) + width * (0.5 + 0.5 * nodes)
    values = array([[np.reshape(integrand(points[i, k]), ()) for k in range(len(nodes))] for i in range(len(starts))])
    integrals = 0.5 * width * (values @ of_kronrod)
    whole = stop_gradient(values)
    mean = np.expand_dims(whole @ of_kronrod, 1) / 2
    spread, size = (0.5 * width * (np.abs(x) @ of_kronrod) for x in (whole - mean, whole))
    apart = np.abs(0.5 * width * (whole @ (of_kronrod - of_gauss)))
    ratio = 200.0 * apart / np.where(spread > 0, spread, 1.0)
    apart = np.where(spread > 0, spread * np.minimum(1.0, ratio**1.5), apart)
    return integrals, np.maximum(apart, 50 * np.finfo(float).eps * size)
