"""What all distributions of one variable share: parameters, support, and the way to SciPy for plain numbers.

A distribution gives its log-density, and where it has a closed form its
distribution function, in standard form (location 0, scale 1), as compositions
of NumPy's and SciPy's functions.  Outside the support the result is a constant,
so that its derivative is zero; where a parameter is not valid it is NaN, as in SciPy.
"""

from __future__ import annotations

import inspect

import numpy as np

from ...common.errors import UnsupportedFunctionError
from ...common.uninterrupted import Lazily
from ..mirrors import array, constant, differentiable

special = Lazily("scipy.special")
_stats = Lazily("scipy.stats")

_DENSITY = """

        Parameters
        ----------
        x : array-like
            Where.
        *args, **kwds : array-like
            The parameters as in SciPy: those of the shape, then ``loc=0``{scale}.
            Everything is broadcast together.

        Returns
        -------
        Tensor, or SciPy's result for plain arguments

        Raises
        ------
        TypeError
            If a parameter is missing, unknown, or given twice.
        UnsupportedFunctionError
            If the distribution has no closed form here for this function, or an
            integer argument asks for a derivative.
        """


class Distribution:
    """A distribution of one variable.

    Parameters
    ----------
    name : str
        Its name in `scipy.stats`.
    """

    #: Names of the parameters of the shape; those in `integers` have no derivative.
    shapes: tuple = ()
    integers: tuple = ()
    #: Names and defaults of the parameters after the shape.
    rest = (("loc", 0.0), ("scale", 1.0))
    first = "x"

    def __init__(self, name):
        self.name = name
        parameter = inspect.Parameter
        self.signature = inspect.Signature(
            [parameter(n, parameter.POSITIONAL_OR_KEYWORD) for n in (self.first, *self.shapes)]
            + [parameter(n, parameter.POSITIONAL_OR_KEYWORD, default=value) for n, value in self.rest]
        )
        self.__doc__ = f"The distribution `scipy.stats.{name}`, with ``log{self.density}{self.signature}`` and so on."

    def __repr__(self):
        return f"<tapegrad.scipy.stats.{self.name}>"

    def __call__(self, *args, **kwds):
        """The distribution with these parameters, as ``norm(loc, scale).logpdf(x)``."""
        self._bound(0.0, args, kwds)
        return Frozen(self, args, kwds)

    def __getattr__(self, attribute):
        # What is not mirrored (random variates, fits, moments) is SciPy's own.
        if attribute.startswith("_"):
            raise AttributeError(attribute)
        return getattr(getattr(_stats, self.name), attribute)

    def _bound(self, x, args, kwds):
        try:
            bound = self.signature.bind(x, *args, **kwds)
        except TypeError as error:
            raise TypeError(f"{self.name}: {error}") from None
        bound.apply_defaults()
        return bound.arguments

    def _evaluate(self, how, x, args, kwds):
        if not differentiable(x, args, kwds):
            return getattr(getattr(_stats, self.name), how)(x, *args, **kwds)
        arguments = self._bound(x, args, kwds)
        for k, v in arguments.items():
            if k in self.integers:
                arguments[k] = constant(v, f"{self.name}.{how}", k, "it is an integer")
            else:
                # A Python number stays one: it promotes weakly.
                arguments[k] = float(v) if isinstance(v, (int, float)) else array(v)
        with np.errstate(all="ignore"):
            return getattr(self, f"_{how}")(**self._standard(arguments))

    def _no_tails(self):
        return UnsupportedFunctionError(
            f"the distribution function of {self.name} has no closed form whose derivative tapegrad knows. Use "
            f"{self.name}.log{self.density}, or leave the tape on purpose with .detach().numpy()"
        )

    # -- to be given by each distribution ----------------------------------------------

    def _valid(self, *shapes):
        """Where the parameters of the shape are valid: positive, unless a distribution says otherwise; True for everywhere."""
        return both(*(shape > 0 for shape in shapes))


def either(*conditions):
    """Where one of the conditions holds."""
    return _fold(np.logical_or, False, conditions)


def both(*conditions):
    """Where all conditions hold; True is left out."""
    return _fold(np.logical_and, True, conditions)


def _fold(function, neutral, conditions):
    result = neutral
    for condition in conditions:
        if condition is neutral:
            continue
        result = condition if result is neutral else function(result, condition)
    return result


class Continuous(Distribution):
    """A distribution with a density.

    A subclass gives ``log_density(y, *shapes)`` and the ends of its support
    (`low`, `high`), and may give ``lower(y, *shapes)``, the distribution function,
    ``upper``, one minus it, and their logarithms ``log_lower``, ``log_upper``.
    """

    density = "pdf"
    low, high = -np.inf, np.inf
    #: Whether the ends belong to the support.
    closed = True

    def _standard(self, arguments):
        loc, scale = arguments.pop("loc"), arguments.pop("scale")
        x = arguments.pop("x")
        y = x if isinstance(loc, float) and loc == 0.0 else x - loc
        y = y if isinstance(scale, float) and scale == 1.0 else y / scale
        return {"y": y, "scale": scale, "shapes": tuple(arguments.values())}

    def ends(self, *shapes):
        """The support in standard form."""
        return self.low, self.high

    def _bounded(self, result, y, scale, shapes, below, above):
        """`result` inside the support, constants outside, NaN where something is not valid."""
        low, high = self.ends(*shapes)
        under = False if isinstance(low, float) and low == -np.inf else y < low if self.closed else y <= low
        over = False if isinstance(high, float) and high == np.inf else y > high if self.closed else y >= high
        valid = both(self._valid(*shapes), scale > 0, np.logical_not(np.isnan(y)))
        fill = np.where(valid, np.where(over, above, below), np.nan).astype(result.dtype)
        inside = np.logical_and(valid, np.logical_not(either(under, over)))
        return np.where(inside, result, fill)

    def _logpdf(self, y, scale, shapes):
        result = self.log_density(y, *shapes) - np.log(scale)
        return self._bounded(result, y, scale, shapes, -np.inf, -np.inf)

    def _pdf(self, y, scale, shapes):
        result = np.exp(self.log_density(y, *shapes)) / scale
        return self._bounded(result, y, scale, shapes, 0.0, 0.0)

    def _through(self, names, y, scale, shapes, below, above):
        for name, change in names:
            rule = getattr(self, name, None)
            if rule is not None:
                return self._bounded(change(rule(y, *shapes)), y, scale, shapes, below, above)
        raise self._no_tails()

    def _cdf(self, y, scale, shapes):
        names = (("lower", _same), ("upper", _complement), ("log_lower", np.exp))
        return self._through(names, y, scale, shapes, 0.0, 1.0)

    def _sf(self, y, scale, shapes):
        names = (("upper", _same), ("log_upper", np.exp), ("lower", _complement))
        return self._through(names, y, scale, shapes, 1.0, 0.0)

    def _logcdf(self, y, scale, shapes):
        names = (("log_lower", _same), ("lower", np.log), ("upper", _log_complement))
        return self._through(names, y, scale, shapes, -np.inf, 0.0)

    def _logsf(self, y, scale, shapes):
        names = (("log_upper", _same), ("upper", np.log), ("lower", _log_complement))
        return self._through(names, y, scale, shapes, 0.0, -np.inf)


class Discrete(Distribution):
    """A distribution of integers: `k` and `loc` have no derivative.

    A subclass gives ``log_mass(k, *shapes)`` and may give ``lower`` and ``upper`` as in `Continuous`.
    """

    density = "pmf"
    rest = (("loc", 0.0),)
    first = "k"
    low, high = 0.0, np.inf

    def _standard(self, arguments):
        k, loc = arguments.pop("k"), arguments.pop("loc")
        return {"k": k - loc, "shapes": tuple(arguments.values())}

    def ends(self, *shapes):
        """The first and the last integer."""
        return self.low, self.high

    def _logpmf(self, k, shapes):
        low, high = self.ends(*shapes)
        valid = both(self._valid(*shapes), np.logical_not(np.isnan(k)))
        inside = both(valid, k >= low, k <= high, np.floor(k) == k)
        return np.where(inside, self.log_mass(k, *shapes), np.where(valid, -np.inf, np.nan))

    def _pmf(self, k, shapes):
        return np.exp(self._logpmf(k, shapes))

    def _tail(self, name, k, shapes, below, above):
        rule = getattr(self, name, None)
        if rule is None:
            raise self._no_tails()
        k = np.floor(k)
        low, high = self.ends(*shapes)
        valid = both(self._valid(*shapes), np.logical_not(np.isnan(k)))
        fill = np.where(valid, np.where(k < low, below, above), np.nan)
        return np.where(both(valid, k >= low, k < high), rule(k, *shapes), fill)

    def _cdf(self, k, shapes):
        return self._tail("lower", k, shapes, 0.0, 1.0)

    def _sf(self, k, shapes):
        return self._tail("upper", k, shapes, 1.0, 0.0)

    def _logcdf(self, k, shapes):
        return np.log(self._cdf(k, shapes))

    def _logsf(self, k, shapes):
        return np.log(self._sf(k, shapes))


def _same(x):
    return x


def _complement(x):
    return 1.0 - x


def _log_complement(x):
    return np.log1p(-x)


class Frozen:
    """A distribution with its parameters.

    Parameters
    ----------
    dist : Distribution
    args, kwds
        Its parameters.
    """

    def __init__(self, dist, args, kwds):
        self.dist, self.args, self.kwds = dist, args, kwds

    def __getattr__(self, attribute):
        if attribute.startswith("_"):
            raise AttributeError(attribute)
        method = getattr(self.dist, attribute)
        return lambda x, *further: method(x, *further, *self.args, **self.kwds)


def _method(how, what, scale):
    def method(self, x, *args, **kwds):
        return self._evaluate(how, x, args, kwds)

    method.__name__ = method.__qualname__ = how
    method.__doc__ = what + "." + _DENSITY.format(scale=", ``scale=1``" if scale else "")
    return method


_TAILS = {
    "cdf": "Distribution function, the probability of at most x",
    "logcdf": "Logarithm of the distribution function",
    "sf": "Survival function, the probability of more than x",
    "logsf": "Logarithm of the survival function",
}
for _kind, _what in (
    (Continuous, {"logpdf": "Logarithm of the density", "pdf": "Density", **_TAILS}),
    (Discrete, {"logpmf": "Logarithm of the probability", "pmf": "Probability", **_TAILS}),
):
    for _how, _text in _what.items():
        setattr(_kind, _how, _method(_how, _text, _kind is Continuous))
