"""What an optimiser returns: SciPy's `OptimizeResult`, with counts, times and a picture."""

from __future__ import annotations

import os
import time
from html import escape
from typing import Any

import numpy as np
from scipy.optimize import OptimizeResult

from ..array.typing import Array
from ..common.errors import OptimizationError
from ..common.pictures import new_figure, saved
from ..common.registry import registry
from .layout import shaped
from .proof import DIFFERS, proved
from .state import State


class Result(OptimizeResult):
    """SciPy's `OptimizeResult`, and

    Attributes
    ----------
    x : as x0
        In the containers and shapes of the start; `jac` (the gradient) too.
    counts : dict of str to int
        ``evaluations`` of the objective with its gradient, ``records`` and ``runs`` (times that your Python
        function ran, to be recorded and plainly), ``replays`` (answers without it).
    seconds : dict of str to float
        ``total``, and of it ``recording``: evaluations by other than compiled code.
    history : ndarray of two columns
        Value and largest component of the gradient, one row an iteration (of SciPy's methods: an evaluation, or a Jacobian).
    state : State
        Of a compiled loop: what it is resumed from.

    Notes
    -----
    `covariance`, `stderr`, `correlation`, `confidence` and `undetermined` say how well the minimum is determined, as `tapegrad.fit` does: of `least_squares` by
    Gauss-Newton with the variance of the residuals; of any other minimum by the inverse Hessian, the objective being minus the logarithm of a
    likelihood.  They raise OptimizationError of a result that has not converged.
    """

    x: Any
    fun: Any
    jac: Any
    success: bool
    status: int
    message: str
    nit: int
    nfev: int
    counts: dict[str, int]
    seconds: dict[str, float]
    history: Array
    state: State

    def _fit(self):
        """The result as a `Fit`, made once."""
        found = vars(self).get("fit")
        if found is None:
            asked = vars(self).get("asked")
            if asked is None:
                raise OptimizationError(
                    "how well this result is determined is not known: it has constraints, is of another process, or is of equations; tg.fit and "
                    "tg.optimize.minimize without constraints say it"
                )
            found = vars(self)["fit"] = registry.later.determined(self, **asked)
        return found

    def __getstate__(self):
        # (A copy in another process has the numbers; not the function that they are of.)
        return None

    def covariance(self) -> Array:
        """The covariance of all numbers of `x`, in their order; NaN where they are not determined, or a bound holds them."""
        return self._fit().covariance

    def stderr(self) -> Any:
        """The standard errors, in the containers of `x`."""
        return self._fit().stderr

    def correlation(self) -> Array:
        """The correlations of all numbers of `x`."""
        return self._fit().correlation()

    def undetermined(self) -> list[dict[str, float]]:
        """Combinations of numbers of `x`, by name, along which the objective does not change."""
        return self._fit().undetermined

    def confidence(self, level: float = 0.95) -> tuple[Any, Any]:
        """Lower and upper ends of confidence intervals, each in the containers of `x`; as of `Fit.confidence`."""
        return self._fit().confidence(level)

    def plot(self, path: str | os.PathLike[str] | None = None, axes: Any = None) -> Any:
        """Draw how the value and the gradient converged.

        Parameters
        ----------
        path : str or path-like, optional
            Where to save the picture; by default nowhere.
        axes : pair of matplotlib Axes, optional
            To draw on.

        Returns
        -------
        matplotlib Figure

        Raises
        ------
        MissingPackageError
            Without matplotlib.
        OptimizationError
            If nothing was noted on the way.
        """
        if not len(self.get("history", ())):
            raise OptimizationError("nothing was noted on the way to this result: there is nothing to draw")
        axes = new_figure("result.plot()", (8.0, 3.2)).subplots(1, 2) if axes is None else axes
        value, norm = self.history[:, 0], self.history[:, 1]
        steps = np.arange(len(value))
        best = np.nanmin(np.minimum.accumulate(np.where(np.isnan(value), np.inf, value)))
        for ax, y, label in ((axes[0], value - best, f"value − {best:.8g}"), (axes[1], norm, "largest component of the gradient")):
            ax.plot(steps, np.where(y > 0, y, np.nan), linewidth=1.5)
            if np.any(y > 0):
                ax.set_yscale("log")
            ax.set_xlabel(self.get("unit", "iteration"))
            ax.set_title(label, fontsize=10)
            ax.grid(alpha=0.3)
        return saved(axes[0].figure, path)

    def _repr_html_(self):
        shown = ("message", "success", "fun", "x", "nit", "nfev", "counts", "seconds")
        with np.printoptions(precision=6, threshold=20):
            lines = [f"<tr><th align='left'>{name}</th><td><pre>{escape(str(self[name]))}</pre></td></tr>" for name in shown if name in self]
        return f"<table>{''.join(lines)}</table>{self._curve()}"

    def _curve(self):
        """The largest component of the gradient over the iterations, as a small picture."""
        norm = np.asarray(self.get("history", np.empty((0, 2))))[:, 1]
        norm = norm[np.isfinite(norm) & (norm > 0)]
        if len(norm) < 2:
            return ""
        logs = np.log10(norm)
        low, high = logs.min(), logs.max()
        x, y = np.linspace(4, 296, len(logs)), 56 - 48 * (logs - low) / max(high - low, 1e-9)
        points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y))
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="300" height="76" font-size="10"><polyline points="{points}" fill="none" '
            f'stroke="#1f5a99"/><text x="4" y="72">largest component of the gradient: {norm[0]:.2g} to {norm[-1]:.2g}</text></svg>'
        )


def finished(solution, layout, differs, shown, asked=None, **more):
    """SciPy's `solution` of an optimisation with this `Progress` as a `Result`; `differs` as of `Proof`, `asked` as of `fits.fitting.determined`."""
    result = Result(solution)
    vars(result)["asked"] = asked
    if differs:
        result.message = f"{result.message}; {DIFFERS}"
    result.update({"x": shaped(layout, solution["x"]), "history": np.array(shown.history).reshape(-1, 2), **more})
    result.seconds = {"total": time.perf_counter() - shown.start, **more.get("seconds", {})}
    return result


def ended(run, solve, functions, counts=(), asked=None):
    """The `Result` of ``solve(start)``, of a `SciPyRun` with these constraints, begun again where a recording does not stand for its function."""

    def begun(start):
        run.forget()
        return solve(start)

    objective, recorded = run.objective, (run.objective, *functions)
    try:
        solution = proved(begun, run.layout.vector, lambda x: all([one.stands(x) for one in recorded]))
        g = run.gradient(solution.x)
        if run.outside and not solution.success:
            solution.message = f"{solution.message}; a step was shortened because {run.outside()}"
    finally:
        run.shown.close()
    return finished(
        solution, run.layout, any(one.proof.differs for one in recorded), run.shown, asked, fun=float(solution.fun), jac=shaped(run.layout, g),
        counts={**objective.counts, **dict(counts), **{f.what: f.evaluations for f in functions}}, seconds={"recording": objective.seconds}, unit="evaluation",
    )  # fmt: skip
