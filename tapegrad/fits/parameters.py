"""Parameters of a model: named by their place in a container; free, fixed or tied; bounded, and scaled to be near one.

An optimiser sees a vector of the free parameters, each divided by its scale.  The model sees the containers of the start.
`Parameters.container` goes from the one to the other, and may be differentiated.
"""

import copy
import re

import numpy as np

from ..array.functions import concatenate, exp, expit, log_expit, where
from ..array.trees import joined
from ..common.errors import OptimizationError, StructureError
from ..optimize.layout import Layout, as_bounds


class Parameters:
    """What is fitted.

    Parameters
    ----------
    start : float, array_like, or containers of them
    bounds : dict, pair of containers, or scipy.optimize.Bounds, optional
        A dict of names -> ``(lower, upper)``, either of which may be None; or what ``tg.optimize.least_squares`` takes.
    fixed : sequence of str
        Parameters that keep the value of the start.  The name of an array or container means all that is in it.
    ties : dict of str to callable, optional
        Parameters that are computed from the others, and from other tied ones: ``f(params)`` takes the containers of `start`, and returns a number,
        or as many as the name means.

    Attributes
    ----------
    names : list of str
        Of each number: ``"width"``, ``"peaks[0].center"``; of a plain vector ``"p[0]"``.
    start, lower, upper : ndarray
        One number each.
    free : ndarray of int
        Which are free.
    scale : ndarray
        By what each number is divided.

    Raises
    ------
    OptimizationError
        For a name that does not exist or is given twice, a start outside its bounds, no free parameter, or ties in a circle.
    """

    def __init__(self, start, bounds=None, fixed=(), ties=None):
        self.layout = layout = Layout(start, "start")
        self.names = [readable(layout.name_of(k)) for k in range(layout.size)]
        self.start = layout.vector.copy()
        self.lower, self.upper = self._bounds(bounds)
        self.state = np.full(layout.size, "free", "<U5")
        for what, named in (("fixed", [fixed] if isinstance(fixed, str) else fixed), ("tied", ties or {})):
            for name in named:
                at = self.at(name, what)
                for k in at[self.state[at] != "free"]:
                    raise OptimizationError(f"{self.names[k]} is {what} and {self.state[k]}; name it once")
                self.state[at] = what
        for name, function in (ties or {}).items():
            if not callable(function):
                raise StructureError(f"ties[{name!r}] is of type {type(function).__name__}; give a function of the parameters")
        self.ties = [(self.at(name), function) for name, function in (ties or {}).items()]
        self._arrange()
        if not len(self.free):
            raise OptimizationError("no parameter is free: there is nothing to fit")
        self._inside()
        span = self.upper - self.lower
        self.scale = np.where(self.start != 0.0, np.abs(self.start), np.where(np.isfinite(span), span, 1.0))
        # (What ties refuse, they refuse here.)
        self.full(self.start[self.free] / self.scale[self.free], *self.constants)

    def _arrange(self):
        """Where each number stands in (free ones, others)."""
        self.free, self._others = np.flatnonzero(self.state == "free"), np.flatnonzero(self.state != "free")
        self._order = np.argsort(np.concatenate([self.free, self._others]), kind="stable")

    def _bounds(self, bounds):
        lower, upper = np.full(self.layout.size, -np.inf), np.full(self.layout.size, np.inf)
        if bounds is None:
            return lower, upper
        if not isinstance(bounds, dict):
            return as_bounds(bounds, self.layout, two_sided=True)
        for name, pair in bounds.items():
            at = self.at(name, "bounds")
            if not isinstance(pair, (tuple, list)) or len(pair) != 2:
                raise OptimizationError(f"bounds[{name!r}] is {pair!r}; give (lower, upper), None where there is none")
            lower[at], upper[at] = [default if value is None else value for value, default in zip(pair, (-np.inf, np.inf))]
        return lower, upper

    def _inside(self):
        for k in np.flatnonzero((self.state == "tied") & (np.isfinite(self.lower) | np.isfinite(self.upper))):
            raise OptimizationError(f"{self.names[k]} is tied, and has bounds; bound the parameters that it is computed from")
        for k in self.free:
            name, low, high, value = self.names[k], self.lower[k], self.upper[k], self.start[k]
            if not low < high:
                raise OptimizationError(f"the bounds of {name}, {low:g} and {high:g}, leave no room; name it in fixed=")
            if not low <= value <= high:
                raise OptimizationError(f"{name} starts at {value:g}, outside of its bounds {low:g} to {high:g}")

    def at(self, name, what="name"):
        """The numbers that a name means, as an array of positions."""
        found = [k for k, own in enumerate(self.names) if own == name or own.startswith((f"{name}[", f"{name}."))]
        if not found:
            raise OptimizationError(f"{what}: there is no parameter {name!r}; there are {', '.join(self.names[:20])}{', ...' if len(self.names) > 20 else ''}")
        return np.array(found)

    def one(self, name):
        """The position of one number."""
        found = self.at(name)
        if len(found) != 1:
            raise OptimizationError(f"{name!r} names {len(found)} numbers; give one of {', '.join(self.names[k] for k in found[:5])}")
        return int(found[0])

    # -- between a vector of free parameters and the containers ---------------------
    @property
    def constants(self):
        """What `full` takes besides the vector: scales, and the values that are fixed."""
        return self.scale[self.free], self.start[self._others]

    def key(self):
        """What recordings of a model with these parameters have in common."""
        layout = self.layout
        ties = tuple([(tuple(at.tolist()), function) for at, function in self.ties])
        return layout.structure, tuple(layout.shapes), tuple(layout.dtypes), tuple(self._order.tolist()), len(self.free), ties

    def full(self, u, scale, others):
        """All numbers, of the scaled free ones; may be differentiated."""
        x = u * scale
        if len(self._order) > len(self.free):
            x = concatenate([x, others])[self._order]
        for again in range(len(self.ties) + 1):
            before, x = x, self._tied(x)
            # One may read another behind it: they are right once they give the same again.
            if len(self.ties) < 2 or again and np.array_equal(x, before, equal_nan=True):
                return x
        names = ", ".join(self.names[at[0]] for at, _ in self.ties)
        raise OptimizationError(f"the ties of {names} need each other; leave one of these free, and compute the others from it")

    def _tied(self, x):
        """All numbers, with those that are tied computed from the others."""
        for at, function in self.ties:
            values = joined(function(self.layout.traced(x)))
            if values.size not in (1, len(at)):
                raise OptimizationError(f"the tie of {self.names[at[0]]} returns {values.size} numbers for {len(at)}; return one, or one for each")
            mask, places = np.zeros(self.layout.size, bool), np.zeros(self.layout.size, int)
            mask[at] = True
            places[at] = np.arange(len(at)) % values.size
            x = where(mask, values[places], x)
        return x

    def container(self, u, scale, others):
        """The containers of the start, of the scaled free parameters; may be differentiated."""
        return self.layout.traced(self.full(u, scale, others))

    def unbounded(self):
        """The free parameters of the start without their bounds: logarithms of the distance to one bound, log odds between two.

        Raises
        ------
        OptimizationError
            For one that starts at its bound.
        """
        x, low, high = self.start[self.free], self.lower[self.free], self.upper[self.free]
        for k in np.flatnonzero((x <= low) | (x >= high)):
            raise OptimizationError(f"{self.names[self.free[k]]} starts at its bound, {x[k]:g}, where its density is not defined; start inside")
        with np.errstate(all="ignore"):
            above, below = np.log(x - low), np.log(high - x)
            return np.select([np.isinf(low) & np.isinf(high), np.isinf(high), np.isinf(low)], [x, above, below], above - below)

    def bounded(self, z):
        """The numbers that `unbounded` ones stand for (with those that are fixed or tied), and the logarithm of the transform's Jacobian.

        Both may be differentiated. (Stan Development Team, Stan Reference Manual, "Constraint transforms".)
        """
        low, high = self.lower[self.free], self.upper[self.free]
        above, below = np.isfinite(low), np.isfinite(high)
        both, one = above & below, above ^ below
        x, log_scale = z, 0.0
        if one.any():
            # (An exponential of what has two bounds or none is not wanted, and might overflow.)
            safe = where(one, z, 0.0)
            x = where(above & one, np.where(above, low, 0.0) + exp(safe), where(one, np.where(below, high, 0.0) - exp(safe), x))
            log_scale = log_scale + np.sum(safe)
        if both.any():
            span, chance = np.where(both, high - low, 1.0), expit(z)
            x = where(both, np.where(both, low, 0.0) + span * chance, x)
            log_scale = log_scale + np.sum(where(both, np.log(span) + log_expit(z) + log_expit(-z), 0.0))
        return self.full(x, 1.0, self.start[self._others]), log_scale

    def numbers(self, x):
        """Names and numbers, for a message."""
        return ", ".join(f"{name} = {value:.6g}" for name, value in zip(self.names, x))

    def replaced(self, start, fixed):
        """The same parameters from another start (all numbers), with other ones fixed (positions)."""
        other = copy.copy(self)
        other.start, other.state = np.array(start, np.float64), self.state.copy()
        other.state[fixed] = "fixed"
        other._arrange()
        return other


def readable(name):
    """A path in containers as a name: ``start['peaks'][0]['center']`` is ``peaks[0].center``."""
    name = re.sub(r"\['([^']+)'\]", r".\1", name.removeprefix("start")).removeprefix(".")
    return f"p{name}" if not name or name[0] == "[" else name
