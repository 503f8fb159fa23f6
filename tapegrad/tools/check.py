"""`check`: is the value of a function right, and are its derivatives?

Each check compares two ways of computing one thing, of which one is independent
of tapegrad (NumPy on plain arrays, central differences) or is another mode.  They
are a table, `CHECKS`, to which each new way of differentiating adds a line.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice, product
from operator import itemgetter
from typing import Any

import numpy as np

from ..array.creation import as_tensor
from ..array.differentiable import Differentiable
from ..array.dual import Dual
from ..array.record import normalise
from ..array.tensor import Tensor
from ..autograd.gradients import grad
from ..autograd.tape import Tape
from ..common.errors import CheckError, GradientError, OptionError, StructureError, UnsupportedFunctionError, noted
from ..common.printing import Printed, table
from ..common.tree import flatten
from ..nopython.api import njit_jvp, njit_vjp
from ..transforms import functional
from ..transforms.forward import jvp
from ..transforms.jacobians import jacfwd, jacrev, linearize, vjp
from ..transforms.vmap import vmap
from .arguments import Arguments
from .explain_jumps import explain_jumps

#: dtype character -> relative tolerance of values, of derivatives by differences, of two exact derivatives.
TOLERANCES = {"d": (1e-12, 2e-6, 1e-10), "f": (2e-5, 2e-3, 1e-3)}
#: Step of the central differences, always made in float64.
STEP = 1e-5
#: Directions that share one pass of dual numbers.
LANES = 4
#: Coordinates that are looked at one by one to say where a derivative is wrong.
LOOKED_AT = 256


@dataclass
class Check:
    """The outcome of one check.

    Attributes
    ----------
    name, compared : str
    worst, tolerance : float
        The worst disagreement, and how large it may be.
    passed : bool
    where : str
        Of a failure: argument, index, direction, the two numbers.
    remark : str
        What was not compared, and why.
    """

    name: str
    compared: str
    worst: float = 0.0
    tolerance: float = 0.0
    passed: bool = True
    where: str = ""
    remark: str = ""

    def note(self, error, tolerance, where):
        """Take in one comparison; the failure that exceeds its tolerance most is kept."""
        ok = bool(error <= tolerance)
        ratio = error / tolerance if tolerance else float("inf") if error else 0.0
        worst = self.worst / self.tolerance if self.tolerance else 0.0
        if (self.passed and not ok) or (self.passed == ok and not ratio <= worst) or not self.tolerance:
            self.worst, self.tolerance = float(error), float(tolerance)
            self.where = "" if ok else where() if callable(where) else where
        self.passed = self.passed and ok


@dataclass(repr=False)
class Report(Printed):
    """The report of `check`; prints as a table.

    Attributes
    ----------
    checks : list of Check
    results : list of Tensor
        What the function returned for tensors, flattened.
    gradients : list of ndarray or float
        ``J^T w`` for each differentiable argument, with the random weights `w`.
    weights : list of ndarray
        The weights `w`, one array per result.
    """

    name: str
    checks: list[Check] = field(default_factory=list)
    results: list[Tensor] = field(default_factory=list)
    gradients: list[Any] = field(default_factory=list)
    weights: list[Any] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        return all(c.passed for c in self.checks)

    def __str__(self):
        rows = [(c.name, c.compared, f"{c.worst:.2g}", f"{c.tolerance:.2g}", c.remark or ("passed" if c.passed else "FAILED")) for c in self.checks]
        return table(("check", "compared", "worst", "tolerance", ""), rows)


class CheckedProblem(Arguments):
    """A function, a point, weights and directions: what every check is given."""

    def __init__(self, f, args, reference, seed, directions, rtol, atol):
        super().__init__("check", f, args)
        self.reference = reference or f
        self.single = any(np.asarray(p).dtype.char == "f" for p in self.points)
        value, derivative, exact = TOLERANCES["f" if self.single else "d"]
        self.value_rtol, self.value_atol = value, value if atol is None else atol
        self.rtol, self.exact = derivative if rtol is None else rtol, exact if rtol is None else max(exact, rtol)
        self.rng = np.random.default_rng(seed)
        self.results = self.on_tape(self.leaves)
        self.values = [_plain(r) for r in self.results]
        self.weights = [self.rng.standard_normal(v.shape) for v in self.values]
        self.ways = [[self.rng.standard_normal(np.shape(p)) for p in self.points] for _ in range(directions)]
        self.gradients, self.compose = None, 2

    def on_tape(self, points):
        """The results at `points`, tensors or dual numbers, on a tape of their own: what the function makes of arrays can be filled."""
        with Tape():
            return self.results_at(points)

    def expected(self, points):
        """The results of the reference at plain `points`."""
        return [_plain(r) for r in flatten(self.reference(*self.arguments_at(points)))[0]]

    def weighted_on(self, *points):
        """The sum of the results times the weights, at points of any kind."""
        results = self.results_at(points)
        return _contracted(results, [w.astype(getattr(r, "dtype", float)) for r, w in zip(results, self.weights)])

    def weighted(self, points):
        """The sum of the reference's results times the weights."""
        return _contracted(self.expected(points), self.weights)

    def difference(self, way, function=None):
        """The derivative of `weighted`, or of another function of the points, along `way`, by central differences in float64."""
        sides = []
        for sign in (1.0, -1.0):
            moved = [np.asarray(p, np.float64) + sign * STEP * d for p, d in zip(self.points, way)]
            moved = [float(m) if type(p) is float else m for m, p in zip(moved, self.points)]
            sides.append((function or self.weighted)(moved))
        return (sides[0] - sides[1]) / (2 * STEP)

    def reverse(self):
        """``J^T w`` for every point, computed once."""
        if self.gradients is None:
            live = [(r, w) for r, w in zip(self.results, self.weights) if isinstance(r, Tensor) and r.requires_grad]
            gradients = (None,) * len(self.leaves)
            if live:
                seeds = [w.astype(r.dtype) for r, w in live]
                gradients = grad([r for r, _ in live], self.leaves, seeds, retain_graph=True, allow_unused=True)
            self.gradients = [np.zeros_like(p) if g is None else _plain(g) for g, p in zip(gradients, self.points)]
        return self.gradients

    def forward(self, way):
        """``J v``, flat."""
        _, tangents = jvp(lambda *points: self.results_at(points), tuple(self.points), _fitted(way, self.points))
        return [np.asarray(t) for t in tangents]

    def nearby(self, step):
        """Points a random step of about this length away, of the same dtypes."""
        return _fitted([p + step * self.rng.standard_normal(np.shape(p)) for p in self.points], self.points)

    def scale(self, *numbers):
        """The scale of relative tolerances."""
        return 1.0 + max([abs(n) for n in numbers] + [float(np.max(np.abs(g), initial=0.0)) for g in self.reverse()])

    def located(self, derivative, d):
        """Where along direction `d` the wrong derivative comes from: the worst coordinate.

        `derivative` takes a direction; coordinates are tried one by one.
        """
        tried = []
        for k, p in enumerate(self.points):
            for at in islice(np.ndindex(np.shape(p)), LOOKED_AT):
                way = [np.zeros(np.shape(q)) for q in self.points]
                way[k][at] = 1.0
                ours, theirs = derivative(way), self.difference(way)
                error = abs(ours - theirs)
                index = f", index {at if len(at) != 1 else at[0]}" if at else ""
                tried.append((error if error == error else np.inf, f"argument {self.argnums[k]}{index}: {ours:.8g} instead of {theirs:.8g}"))
        return f"direction {d}; worst at {max(tried, key=itemgetter(0))[1]} by central differences"


def _value(problem, check):
    expected = problem.expected([p if type(p) is float else np.array(p) for p in problem.points])
    if len(expected) != len(problem.values):
        raise CheckError(f"check 'value': {len(problem.values)} results on tensors, {len(expected)} on plain arrays")
    for j, (ours, theirs) in enumerate(zip(problem.values, expected)):
        if ours.shape != theirs.shape:
            raise CheckError(f"check 'value': result {j} has shape {ours.shape} on tensors, {theirs.shape} on plain arrays")
        if not ours.size:
            continue
        error = _differences(ours, theirs)
        allowed = problem.value_atol + problem.value_rtol * np.where(np.isfinite(theirs), np.abs(theirs), 0.0)
        at = np.unravel_index(np.argmax(error / np.maximum(allowed, 1e-300)), error.shape)
        index = f", index {tuple(map(int, at))}" if at else ""
        check.note(error[at], allowed[at], f"result {j}{index}: {ours[at]!r} on tensors, {theirs[at]!r} on plain arrays")


def _by_differences(problem, check, derivative):
    for d, way in enumerate(problem.ways):
        ours, theirs = derivative(way), problem.difference(way)
        text = f"{ours:.10g} instead of {theirs:.10g} along "
        check.note(abs(ours - theirs), problem.rtol * problem.scale(ours, theirs), lambda d=d, text=text: text + problem.located(derivative, d))


def _reverse(problem, check):
    for k, (g, p) in enumerate(zip(problem.reverse(), problem.points)):
        if g.shape != np.shape(p) or g.dtype != np.asarray(p).dtype:
            raise CheckError(
                f"check 'reverse': the gradient of argument {problem.argnums[k]} is {g.dtype} of shape {g.shape}, the "
                f"argument {np.asarray(p).dtype} of shape {np.shape(p)}"
            )
    _by_differences(problem, check, lambda way: _contracted(problem.reverse(), way))


def _forward(problem, check):
    _by_differences(problem, check, lambda way: _contracted(problem.forward(way), problem.weights))


def _identity(problem, check):
    _same(problem, check, problem.ways, map(problem.forward, problem.ways))


def _lanes(problem, check):
    ways = [[problem.rng.standard_normal(np.shape(p)) for p in problem.points] for _ in range(LANES)]
    stacked = [np.stack(parts) for parts in zip(*ways)]
    results = problem.on_tape([Dual(p, s.astype(np.asarray(p).dtype), lanes=LANES) for p, s in zip(problem.points, stacked)])
    tangents = [np.asarray(r.tangent) if isinstance(r, Dual) else np.zeros((LANES, *v.shape)) for r, v in zip(results, problem.values)]
    _same(problem, check, ways, [[t[d] for t in tangents] for d in range(LANES)])


def _replay(problem, check):
    """Recorded at the point, replayed at two others, one of them in a thread: beside differences and a plain run there."""
    g = functional.jit(functional.grad(problem.weighted_on, tuple(range(len(problem.points)))), kernel="never")
    g(*problem.points)
    for number in range(2):
        moved = problem.nearby(2e-2 if problem.single else 1e-3)
        with ThreadPoolExecutor(1) as another:
            gradients = another.submit(g, *moved).result() if number else g(*moved)
        there = CheckedProblem(problem.f, problem.arguments_at(moved), problem.reference, number, 1, problem.rtol, None)
        there.weights = problem.weights
        _by_differences(there, check, lambda way, gradients=gradients: _contracted(gradients, way))
        how = f"replayed {'in another thread, ' if number else ''}at another point,"
        for k, ours, theirs in zip(problem.argnums, gradients, there.reverse()):
            _alike(problem, check, f"the gradient of argument {k}, {how}", ours, "that of a plain run there", theirs)


def _kernel(problem, check):
    """Value and gradients by machine code, here and nearby, beside those by sweep."""
    derivative = functional.value_and_grad(problem.weighted_on, tuple(range(len(problem.points))))
    swept, compiled = (functional.jit(derivative, kernel=kernel) for kernel in ("never", "always"))
    try:
        compiled.kernel(*problem.points)
    except (UnsupportedFunctionError, GradientError) as why:
        check.remark = f"no kernel: {why.message.partition(' has no kernel: ')[2] or why.message}"
        return
    for step in (0.0, 1e-2 if problem.single else 1e-3):
        moved = problem.nearby(step)
        (value, gradients), (expected, expected_gradients) = compiled(*moved), swept(*moved)
        names = ["value", *(f"gradient of argument {k}" for k in problem.argnums)]
        for what, ours, theirs in zip(names, (value, *gradients), (expected, *expected_gradients)):
            _alike(problem, check, f"the {what} by kernel", ours, "that by sweep", theirs)


def _alike(problem, check, what, ours, other, theirs):
    """Two ways to the same number or array."""
    size = float(np.max(np.abs(theirs), initial=0.0, where=np.isfinite(theirs)))
    worst = apart(ours, theirs)
    check.note(worst, problem.exact * (1.0 + size), f"{what} is {worst:.3g} from {other}")


def _contracted(parts, others):
    """The sum of products of results with weights, or of gradients with a direction, of any kind."""
    return sum((np.sum(p * o) for p, o in zip(parts, others)), 0.0)


def _same(problem, check, ways, tangents):
    """<w, Jv> and <J^T w, v> for each v of `ways`, with its tangents Jv, compared relative to the terms of both sums."""
    gradients = problem.reverse()
    for d, (way, pushed) in enumerate(zip(ways, tangents, strict=True)):
        left, right = _contracted(pushed, problem.weights), _contracted(gradients, way)
        terms = sum(float(np.sum(np.abs(a * b))) for a, b in [*zip(pushed, problem.weights), *zip(gradients, way)])
        check.note(abs(left - right), problem.exact * (1.0 + terms), f"direction {d}: <w, Jv> = {left:.12g}, <J^T w, v> = {right:.12g}")


def _numba(problem, check):
    """Compiled by Numba and differentiated from its source: reverse mode and dual numbers, beside the recording and differences."""
    args = [a._v if isinstance(a, Tensor) else a for a in problem.arguments_at(problem.points)]
    result, chosen = problem.reference(*args), tuple(problem.argnums)
    seeds = tuple(w if w.ndim else float(w) for w in problem.weights)
    _, gradients = njit_vjp(problem.reference, chosen)(*args, seeds if isinstance(result, tuple) else seeds[0])
    for k, ours, theirs in zip(chosen, gradients, problem.reverse()):
        _alike(problem, check, f"the gradient of argument {k} inside Numba", ours, "the recorded one", theirs)
    _by_differences(problem, check, lambda way: _contracted(gradients, way))
    along = njit_jvp(problem.reference, chosen)
    tangents = [along(*args, *[v if v.ndim else float(v) for v in map(np.asarray, way)])[1] for way in problem.ways]
    _same(problem, check, problem.ways, tangents if isinstance(result, tuple) else zip(tangents))


def _fitted(way, points):
    """A direction, or a point, in the dtypes of these points: differences are made in float64 also of float32."""
    return tuple([float(d) if type(p) is float else np.asarray(d, p.dtype)[()] for d, p in zip(way, points)])


def _through(transform):
    """The derivative of one number along a direction, by a transformation that gives it for every argument."""
    return lambda f, way: lambda *x: _contracted(transform(f, tuple(range(len(x))))(*x), way)


#: Name -> a function of numbers and arrays that returns one number, and a direction -> its derivative along that; `vmap` gives the value, by the second lane.
COMPOSED = {
    "grad": _through(functional.grad),
    "jacfwd": _through(jacfwd),
    "jacrev": _through(jacrev),
    "jvp": lambda f, way: lambda *x: jvp(f, x, _fitted(way, x))[1],
    "vjp": lambda f, way: lambda *x: _contracted(vjp(f, *x)[1](1.0), way),
    "linearize": lambda f, way: lambda *x: linearize(f, *x)[1](*_fitted(way, x)),
    "vmap": lambda f, way: lambda *x: vmap(f)(*[np.stack([p + 0.1 * d, p]) for p, d in zip(x, _fitted(way, x))])[1],
}


def _composed(problem, check):
    """Every stack of transformations, plainly and by `jit` that recorded it elsewhere."""
    _stacked(problem, check, COMPOSED, range(problem.compose + 1), True)


def _second(problem, check):
    """Second derivatives by reverse and forward mode in each nesting, in several directions."""
    for _ in problem.ways:
        _stacked(problem, check, ("grad", "jvp"), [2], False)


def _stacked(problem, check, transformations, depths, recorded):
    """Stacks of transformations beside the first one of as many derivatives, and differences of a gradient, or of what is derived once less than they are."""
    points, elsewhere, first = tuple(problem.points), problem.nearby(1e-2 if problem.single else 1e-3), next(iter(transformations))
    ways = [_fitted([problem.rng.standard_normal(np.shape(p)) for p in points], points) for _ in range(depths[-1])]
    firsts, measured = [problem.weighted_on], [problem.weighted(points)]
    for way in ways:
        measured.append(problem.difference(way, lambda moved, f=firsts[-1]: float(_plain(f(*moved)))))
        firsts.append(COMPOSED[first](firsts[-1], way))
    expected = [float(_plain(f(*points))) for f in firsts]
    for names in (names for depth in depths for names in product(transformations, repeat=depth)):
        f, order, stack = problem.weighted_on, 0, " of ".join(names) or "value"
        for name in reversed(names):
            f, order = COMPOSED[name](f, ways[order]), order + (name != "vmap")
        values = {stack: float(_plain(f(*points)))}
        if recorded:
            g = functional.jit(f, kernel="never")
            g(*elsewhere)
            values[f"jit of {stack}, recorded at another point,"] = float(_plain(g(*points)))
        for how, value in values.items():
            size = problem.scale(value, measured[order])
            check.note(apart(value, expected[order]), problem.exact * size, f"{how} gives {value:.12g}, order {order} by {first} {expected[order]:.12g}")
            check.note(apart(value, measured[order]), problem.rtol * size, f"{how} gives {value:.10g}, differences of order {order} {measured[order]:.10g}")


#: Name -> what is compared, the check (problem, Check) -> None.
CHECKS = {
    "value": ("value on tensors, on plain arrays", _value),
    "reverse": ("reverse mode, central differences", _reverse),
    "forward": ("forward mode, central differences", _forward),
    "transpose": ("<w, Jv>, <J^T w, v>", _identity),
    "lanes": ("the same for several v in one pass", _lanes),
    "replay": ("replays at other points, differences", _replay),
    "kernel": ("machine code, sweeps", _kernel),
    "second": ("second derivatives in each nesting, differences", _second),
    "compose": ("stacks of transformations, also under jit; tangents, differences", _composed),
    "numba": ("compiled by Numba, in both modes; recorded; differences", _numba),
}
#: Checks of a higher order than the first; that of what Numba compiles, and that of stacks, are made where they are asked for only.
ORDERS = {"second": 2, "compose": 3, "numba": 3}


def check(
    f: Callable[..., Any], *args: Any, reference: Callable[..., Any] | None = None, seed: int = 0, directions: int = 2,
    rtol: float | None = None, atol: float | None = None, modes: Any = None, order: int = 1, compose: int = 0,
) -> Report:  # fmt: skip
    """Compare the value of a function with NumPy's and its derivatives with central differences.

    Parameters
    ----------
    f : callable
        Takes `args`; returns a number, an array, or containers of them.  It must work on plain arrays too, unless `reference` is given.
    *args
        The point.  Floats and arrays of float64 or float32 are differentiated, everything else is passed on unchanged.  Choose a point away
        from kinks.
    reference : callable, optional
        The same function on plain arrays, for value and differences; `f` itself
        by default.
    seed : int
        Seed of the random directions and of the weights of the results.
    directions : int
        Number of random directions.
    rtol : float, optional
        Tolerance of derivatives, relative to 1 plus the largest of those compared;
        2e-6 in float64 and 2e-3 if an argument is float32.
    atol : float, optional
        Absolute tolerance of values; 1e-12 in float64 and 2e-5 in float32.
    modes : str or sequence of str, optional
        Checks to run, of ``"value"``, ``"reverse"``, ``"forward"``, ``"transpose"`` (the identity <w, Jv> = <J^T w, v>), ``"lanes"`` (the
        same for several directions in one pass), ``"replay"`` (recorded here and replayed at two other points, once in another thread,
        against a plain run there), ``"kernel"`` (value and gradients by machine code, against sweeps; the report says if there is no machine
        code) and ``"second"`` (second derivatives by reverse and forward mode in each nesting, against differences of gradients); by default
        all that `order` includes.  ``"numba"``, only if named: the function, or `reference`, compiled by Numba and differentiated from its
        source in both modes (`njit_vjp`, `njit_jvp`), against the recording and differences.
    order : {1, 2}
        Highest order of derivatives to check.
    compose : int
        Depth to which stacks of transformations are checked, too (``"compose"`` among `modes`; 2 there by default): `grad`, `jacfwd`,
        `jacrev`, `jvp`, `vjp`, `linearize` and `vmap` of one another, each also under `jit` that recorded it at another point.  There are 56
        stacks of up to two, 399 of up to three; 0 checks none.

    Returns
    -------
    Report
        ``print`` shows each check with its worst disagreement.

    Raises
    ------
    CheckError
        If a check fails: it says which, where, and by how much; it is an AssertionError too, and its attribute `report` holds the report.

    Notes
    -----
    The differences are central, with step 1e-5, and computed in float64 also for float32 arguments: their own error is about 1e-10 times the
    third derivative.

    Examples
    --------
    >>> import numpy as np
    >>> import tapegrad as tg
    >>> report = tg.check(lambda x, y: np.sin(x) * y, np.array([1.0, 2.0]), 3.0)
    >>> report.passed
    True
    >>> tg.check(lambda x: np.sin(x) ** 3, 0.5, modes=(), compose=1).passed     # grad, vjp, ..., plainly and under jit
    True
    """
    if order not in (1, 2):
        raise OptionError(f"check: order={order!r} is not 1 or 2")
    if type(compose) is not int or not 0 <= compose <= 4:
        raise OptionError(f"check: compose={compose!r} is not a number of transformations from 0 to 4")
    names = [n for n in CHECKS if ORDERS.get(n, 1) <= order] if modes is None else [modes] if isinstance(modes, str) else list(modes)
    names += ["compose"] if compose and "compose" not in names else []
    for name in names:
        if name not in CHECKS:
            raise OptionError(f"check: there is no check {name!r}; there are {', '.join(CHECKS)}")
    name_of_f = getattr(f, "__name__", None) or getattr(f, "name", None) or type(f).__name__
    problem = CheckedProblem(f, args, reference, seed, directions, rtol, atol)
    problem.compose = compose or problem.compose
    report = Report(name_of_f, results=problem.results, weights=problem.weights)
    for name in names:
        compared, run = CHECKS[name]
        outcome = Check(name, compared)
        with noted(f"in the check {name!r} of {name_of_f}"):
            run(problem, outcome)
        report.checks.append(outcome)
    report.gradients = problem.reverse()
    failed = [c for c in report.checks if not c.passed]
    if failed:
        said = "check {!r} of {} failed ({}): {}; they differ by {:.3g}, allowed is {:.3g}"
        lines = [said.format(c.name, name_of_f, c.compared, c.where, c.worst, c.tolerance) for c in failed]
        error = CheckError("\n".join([*_jumps_nearby(f, args), *lines, str(report)]))
        error.report = report
        raise error
    return report


def _jumps_nearby(f, args):
    """Lines on what jumps so near that differences meet it."""
    with contextlib.suppress(Exception):
        return [str(j) for j in explain_jumps(f, *args).jumps if j.kind != "harmless" and (j.many or j.distance <= 100.0 * STEP)]
    return []


def apart(ours, theirs):
    """The largest difference of two values; what is equal, or NaN in both, does not differ, and infinity where only one is finite."""
    return float(np.max(_differences(ours, theirs), initial=0.0))


def _differences(ours, theirs):
    ours, theirs = np.asarray(ours, np.float64), np.asarray(theirs, np.float64)
    with np.errstate(invalid="ignore"):
        difference = np.where((ours == theirs) | (np.isnan(ours) & np.isnan(theirs)), 0.0, np.abs(ours - theirs))
    return np.where(np.isfinite(difference), difference, np.inf)


def _plain(result):
    array = np.asarray(result._v if isinstance(result, Differentiable) else normalise(result))
    if array.dtype.kind not in "fiub":
        raise StructureError(f"check: a result is of type {type(result).__name__}, neither a number nor an array: does the function return what it computes?")
    return array


# -- PyTorch's ---------------------------------------------------------------------------------------


def gradcheck(func: Callable[..., Any], inputs: Any, rtol: float, raise_exception: bool) -> bool:
    """See `tapegrad.autograd.gradcheck`."""
    inputs = inputs if isinstance(inputs, (tuple, list)) else (inputs,)
    wanted = [k for k, t in enumerate(inputs) if isinstance(t, Tensor) and t.requires_grad]
    if not wanted:
        raise StructureError("gradcheck: no input requires a gradient; make one with requires_grad=True")

    def of_wanted(*values):
        given = iter(values)
        return func(*(as_tensor(next(given)) if k in wanted else t for k, t in enumerate(inputs)))

    with contextlib.suppress(*() if raise_exception else (CheckError,)):
        return check(of_wanted, *[inputs[k] for k in wanted], modes=["reverse"], rtol=rtol).passed
    return False
