"""What all distributions of one variable share: parameters, support, and the way to SciPy for plain numbers.

A distribution gives its log-density, and where they have a closed form its
distribution function and the inverse of that, in standard form (location 0, scale 1), as compositions
of NumPy's and SciPy's functions.  Outside the support the result is a constant,
so that its derivative is zero; where a parameter is not valid it is NaN, as in SciPy.
"""

import inspect
from functools import reduce

import numpy as np

from ...array import functions as F
from ...array.functions.arguments import named
from ...array.record import record_aux
from ...common.errors import UnsupportedFunctionError
from ...common.host_functions import host_function
from ...common.uninterrupted import Lazily
from ..mirrors import Beside, array, constant, of_theirs

special = Lazily("scipy.special")
stats = Lazily("scipy.stats")


class Named(Beside):
    """An object of `scipy.stats`: what is not mirrored (random variates, fits, moments) is SciPy's own."""

    name = ""

    theirs = property(lambda self: getattr(stats, self.name))

    def __repr__(self):
        return f"<tapegrad.scipy.stats.{self.name}>"

    def __call__(self, *args, **kwds):
        """The distribution with these parameters, as ``norm(loc, scale).logpdf(x)``."""
        return Frozen(self, args, kwds)


class Frozen:
    """A distribution with its parameters.

    Parameters
    ----------
    dist : Named
    args, kwds
        Its parameters.
    """

    def __init__(self, dist, args, kwds):
        self.dist, self.args, self.kwds = dist, args, kwds

    def __getattr__(self, attribute):
        if attribute.startswith("_"):
            raise AttributeError(attribute)
        if not hasattr(type(self.dist), attribute):
            # Its own methods take other arguments than those of the distribution, in another order.
            return getattr(self.dist.theirs(*self.args, **self.kwds), attribute)
        method = getattr(self.dist, attribute)
        return lambda *args, **kwds: method(*args, *self.args, **self.kwds, **kwds)


def positive(*shapes):
    """Where all parameters of the shape are."""
    return both(*(shape > 0 for shape in shapes))


class Distribution(Named):
    """A distribution of one variable.

    Parameters
    ----------
    name : str
        Its name in `scipy.stats`.
    shapes : str
        Names of the parameters of the shape.
    ends : pair, or callable
        The support in standard form, or how it follows from the parameters.
    closed : bool
        Whether the ends belong to the support.
    valid : callable
        Where the parameters of the shape are valid; True for everywhere.
    integers : str
        Names of the arguments that have no derivative.
    **rules : callable
        ``rule(y, *shapes)`` in standard form: `density`, the log-density, and where there is a closed form `lower`, the
        distribution function, `upper`, one minus it, their logarithms `log_lower`, `log_upper`, and the inverses of the first two,
        `quantile` and `upper_quantile`.
    """

    first, last, kind = "x", (("loc", 0.0), ("scale", 1.0)), "pdf"

    def __init__(self, name, shapes="", *, ends=(-np.inf, np.inf), closed=True, valid=positive, integers="", **rules):
        self.name, self.ends, self.closed, self.valid, self.integers, self.rules = name, ends, closed, valid, integers.split(), _with_tails(rules)
        names = dict.fromkeys((self.first, *shapes.split()), inspect.Parameter.empty) | dict(self.last)
        self.signature = inspect.Signature(
            [inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default) for n, default in names.items()]
        )
        self.__doc__ = f"The distribution `scipy.stats.{name}`, with ``log{self.kind}{self.signature}`` and so on."

    def __call__(self, *args, **kwds):
        """The distribution with these parameters, as ``norm(loc, scale).logpdf(x)``."""
        self._bound(0.0, args, kwds)
        return super().__call__(*args, **kwds)

    def _bound(self, x, args, kwds):
        try:
            bound = self.signature.bind(x, *args, **kwds)
        except TypeError as error:
            raise TypeError(f"{self.name}: {error}") from None
        bound.apply_defaults()
        return bound.arguments

    def _evaluate(self, how, x, args, kwds):
        arguments = self._bound(x, args, kwds)
        for k, v in arguments.items():
            if k in self.integers and how not in _INVERSES:
                arguments[k] = constant(v, f"{self.name}.{how}", k, "it is an integer")
            else:
                # A Python number stays one: it promotes weakly.
                arguments[k] = float(v) if isinstance(v, (int, float)) else array(v)
        x, *parameters = arguments.values()
        shapes, (loc, *scale) = parameters[: -len(self.last)], parameters[-len(self.last) :]
        with np.errstate(all="ignore"):
            ends = self.ends(*shapes) if callable(self.ends) else self.ends
            if how in _INVERSES:
                return self._inverse(how, x, shapes, ends, loc, scale)
            if _WAYS[how][0] in self.rules:
                return self._bounded(how, x, shapes, ends, loc, scale)
        raise UnsupportedFunctionError(
            f"the distribution function of {self.name} has no closed form whose derivative tapegrad knows. Use "
            f"{self.name}.log{self.kind}, or leave the tape on purpose with .detach().numpy()"
        )

    def _bounded(self, how, x, shapes, ends, loc, scale):
        """The result inside the support, constants outside, NaN where something is not valid."""
        (rule, change, below, above), (low, high) = _WAYS[how], ends
        y = x if _is(loc, 0.0) else x - loc
        y = y if not scale or _is(scale[0], 1.0) else y / scale[0]
        mass = how in ("pmf", "logpmf")
        if not scale and not mass:
            y = np.floor(y)
        valid = both(self.valid(*shapes), *[s > 0 for s in scale], np.logical_not(np.isnan(y)))
        # An infinite end does not belong to the support; densities are right there without help.
        tail = not mass and rule != "density"
        under = tail and y <= low if _is(low, -np.inf) else y < low if self.closed else y <= low
        over = tail and y >= high if _is(high, np.inf) else y > high if self.closed and (scale or mass) else y >= high
        outside = either(under, over, np.floor(y) != y if mass else False)
        result = self.rules[rule](y, *shapes)
        result = change(result - np.log(scale[0]) if scale and how.endswith("pdf") else result)
        fill = np.where(valid, np.where(over, above, below), np.nan).astype(result.dtype)
        return np.where(np.logical_and(valid, np.logical_not(outside)), result, fill)

    def _inverse(self, how, q, shapes, ends, loc, scale):
        """The quantile of `q`, or the one that is exceeded with that probability; NaN where something is not valid."""
        if not scale:
            # It jumps between integers.
            return F.lift(record_aux(_of_scipy(self.name, how), q, *shapes, loc))
        if how == "isf" and "upper_quantile" in self.rules:
            y = self.rules["upper_quantile"](q, *shapes)
        else:
            y = self.rules["quantile"](q if how == "ppf" else 1.0 - q, *shapes) if "quantile" in self.rules else self._sought(how, q, *shapes)
        low, high = ends if how == "ppf" else ends[::-1]
        end = np.where(np.equal(q, 0.0), low, high).astype(getattr(y, "dtype", float))
        y = np.where(both(q > 0, q < 1), y, end)
        return np.where(both(self.valid(*shapes), scale[0] > 0, q >= 0, q <= 1), y * scale[0] + loc, np.nan)

    def _sought(self, how, q, *shapes):
        """The quantile as SciPy finds it, and two steps of Newton's method: the derivatives up to the third order are in them."""
        y = F.lift(record_aux(_of_scipy(self.name, how), q, *shapes))
        tail, sign = ("lower", 1.0) if how == "ppf" else ("upper", -1.0)
        for _ in range(2):
            y = y - sign * (self.rules[tail](y, *shapes) - q) / np.exp(self.rules["density"](y, *shapes))
        return y


@host_function
def _of_scipy(*operands):
    """What a method of a distribution of SciPy gives, by their names."""
    *values, name, how = operands
    return np.asarray(getattr(getattr(stats, name), how)(*values))


class Discrete(Distribution):
    """A distribution of integers; `k` and `loc` have no derivative; `product` is the probability as a product of powers."""

    first, last, kind = "k", (("loc", 0.0),), "pmf"

    def __init__(self, name, shapes, *, ends=(0.0, np.inf), integers="", product=None, **rules):
        density = rules["density"]

        def mass(k, *shapes):
            # A probability of 0 has no logarithm, but a slope.
            log = density(k, *shapes)
            return np.exp(log) if product is None else np.where(np.isinf(log), product(k, *shapes), np.exp(log))

        super().__init__(name, shapes, ends=ends, integers=f"k loc {integers}", mass=mass, **rules)


def either(*conditions):
    """Where one of the conditions holds."""
    return reduce(np.logical_or, [c for c in conditions if c is not False], False)


def both(*conditions):
    """Where all conditions hold."""
    return reduce(np.logical_and, [c for c in conditions if c is not True], True)


def below_overflow(log):
    """``exp(log)``, finite: a factor of what may be 0."""
    return np.exp(np.minimum(log, 700.0))


def _is(thing, number):
    return isinstance(thing, float) and thing == number


def _same(x):
    return x


def _with_tails(given):
    """The rules, with those of both tails and of their logarithms that follow from them."""
    rules, tails = dict(given), (("lower", "upper"), ("upper", "lower"))
    for one, _ in tails:
        if f"log_{one}" in given:
            rules.setdefault(one, lambda y, *s, log=given[f"log_{one}"]: np.exp(log(y, *s)))
    known = [one for one, _ in tails if one in rules]
    for one, other in tails:
        if one in known:
            rules.setdefault(f"log_{one}", _logarithm(rules[one], rules[other] if other in known else None))
        elif other in known:
            rules[one] = lambda y, *s, rest=rules[other]: 1.0 - rest(y, *s)
            rules[f"log_{one}"] = lambda y, *s, rest=rules[other]: np.log1p(-rest(y, *s))
    return rules


def _logarithm(tail, rest):
    """The logarithm of a probability, of `rest` where this is nearly 1; what is not taken has no infinite derivative."""
    def rule(y, *shapes):
        p = tail(y, *shapes)
        return np.log(p) if rest is None else np.where(p < 0.5, np.log(p), np.log1p(-np.minimum(rest(y, *shapes), 0.75)))

    return rule


_INVERSES = ("ppf", "isf")
_DENSITY, _LOG_DENSITY = ("density", np.exp, 0.0, 0.0), ("density", _same, -np.inf, -np.inf)
#: Method -> the rule that it follows from, and how; its values below and above the support.
_WAYS = {
    "pdf": _DENSITY, "logpdf": _LOG_DENSITY, "pmf": ("mass", _same, 0.0, 0.0), "logpmf": _LOG_DENSITY,
    "cdf": ("lower", _same, 0.0, 1.0), "sf": ("upper", _same, 1.0, 0.0),
    "logcdf": ("log_lower", _same, -np.inf, 0.0), "logsf": ("log_upper", _same, 0.0, -np.inf),
}  # fmt: skip


def _method(how, what, scale):
    def method(self, x, *args, **kwds):
        """{what}.

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
        return self._evaluate(how, x, args, kwds)

    return of_theirs(named(method, how, what=what, scale=scale))


_TAILS = {
    "cdf": "Distribution function, the probability of at most x",
    "logcdf": "Logarithm of the distribution function",
    "sf": "Survival function, the probability of more than x",
    "logsf": "Logarithm of the survival function",
    "ppf": "Quantile, the inverse of the distribution function",
    "isf": "Inverse of the survival function",
}


class Continuous(Distribution):
    """A distribution with a density."""


for _kind, _scale, _what in (
    (Continuous, ", ``scale=1``", {"logpdf": "Logarithm of the density", "pdf": "Density", **_TAILS}),
    (Discrete, "", {"logpmf": "Logarithm of the probability", "pmf": "Probability", **_TAILS}),
):
    for _how, _text in _what.items():
        setattr(_kind, _how, _method(_how, _text, _scale))
