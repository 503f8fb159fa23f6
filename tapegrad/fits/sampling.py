"""`sample`: draws from a posterior, by nutpie.

The sampler sees a vector without bounds, in which the mode lies at zero and the curvature there is one: what a bounded parameter
becomes (`Parameters.unbounded`) counts with the Jacobian of its transform, and a linear map, which changes no distribution, does the rest.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from ..array.typing import Pytree
from ..common import errors
from ..common.uninterrupted import uninterrupted
from ..optimize import minimize
from ..optimize.progress import Progress
from ..transforms.compiled import compile as compiled_for
from ..transforms.functional import jit, value_and_grad
from ..transforms.hessians import hessian
from .parameters import Parameters, readable

#: With more parameters than that, the map leaves the directions as they are.
MOST_MAPPED = 200


def sample(
    logp: Callable[..., Any], start: Pytree, *data: Any, bounds: Any = None, fixed: Any = (), ties: dict[str, Callable[..., Any]] | None = None,
    draws: int = 1000, tune: int = 400, chains: int = 4, cores: int | None = None, seed: int | None = None, progress: bool | None = None,
    **options: Any,
) -> Any:  # fmt: skip
    """Draw samples from a distribution, such as a posterior, given its log density.

    Parameters
    ----------
    logp : callable
        ``logp(params, *data)`` returns one number, the log density up to a constant: log prior plus log-likelihood.
    start : float, array_like, or containers of them
        Where the search for the mode begins.  Parameters are named by their place in it, as in `fit`.
    *data
        Passed to `logp`.
    bounds : dict of str to (lower, upper), optional
        Limits, by name as in `fit`, of parameters that are positive or between two numbers.  `logp` is the density of the bounded parameters.
    fixed : sequence of str
        Names of parameters that keep their start value.
    ties : dict of str to callable, optional
        Parameters that are computed from the others.
    draws, tune : int
        Draws of each chain: those kept, and those before them, by which the sampler adapts.
    chains : int
    cores : int, optional
        Number of chains that run at the same time; by default the number of processors.
    seed : int, optional
        The same seed gives the same draws.  By default each call takes a new seed, which the result names.
    progress : bool, optional
        Whether to show a bar; by default only in a terminal.
    **options
        Options of ``nutpie.sample``: ``target_accept``, ``maxdepth``, ...

    Returns
    -------
    arviz.InferenceData
        ``posterior`` has an array ``(chain, draw, ...)`` for each array or number of `start`, by its name; ``sample_stats`` has the notes of
        the sampler on each draw.  ``posterior.attrs`` has the ``mode`` found before the first draw, ``seed`` and ``asked_python``.

    Raises
    ------
    MissingPackageError
        If nutpie is not installed: ``pip install "tapegrad[sample]"``.
    OptimizationError
        If the density at the start is zero or not a number, a parameter starts at its bound, or a name does not exist or is given twice.
    NonScalarOutputError
        If `logp` returns more than one number.

    Warns
    -----
    RuntimeWarning
        If draws diverge; the message says where, and what helps.

    Notes
    -----
    The no-U-turn sampler adapts step size and scales (nutpie, by A. Seyboldt et al.; M. Hoffman, A. Gelman, 2014).  It works in the
    coordinates in which the posterior is closest to a standard normal distribution at its mode (of more than 200 parameters, only the mode is
    moved to the origin; if none is found, the coordinates stay).  It calls the machine code of the gradient
    from its own threads; a path of `logp` other than that at the mode is recorded when it is met.

    Examples
    --------
    >>> import numpy as np, tapegrad as tg
    >>> y = np.array([4.9, 5.6, 5.1, 4.7])
    >>> def logp(p, y):
    ...     return np.sum(-0.5 * ((y - p["mean"]) / p["sd"]) ** 2 - np.log(p["sd"])) - p["sd"]
    >>> idata = tg.sample(logp, {"mean": 5.0, "sd": 1.0}, y, bounds={"sd": (0.0, None)}, seed=1)  # doctest: +SKIP
    >>> idata.posterior["mean"].shape  # doctest: +SKIP
    (4, 1000)
    """
    with uninterrupted:
        from .nuts import Target, nutpie  # loads compiled code

    package, parameters = nutpie(), Parameters(start, bounds, fixed, ties)
    for name, value in (("draws", draws), ("tune", tune), ("chains", chains)):
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
            raise errors.OptimizationError(f"{name}={value!r}: give a number of at least 1")
    seed = int(np.random.SeedSequence().entropy % 2**31) if seed is None else int(seed)
    z0, density = parameters.unbounded(), _density(logp, parameters, data)
    value = float(density(z0))
    if not np.isfinite(value):
        at = parameters.numbers(parameters.start)
        raise errors.OptimizationError(f"the log density is {value} at the start, {at}; start where it is finite, and look for nan in the data")
    centre, scales, found = _standard(density, z0)

    def standard(y):
        return density(centre + scales @ y)

    answer, zero = jit(value_and_grad(standard)), np.zeros(len(z0))
    try:
        code = compiled_for(standard, zero)
    except (errors.UnsupportedFunctionError, errors.GradientError, errors.DtypeError):
        # It calls what has no machine code: each value is computed by Python.
        code = None
    target = Target(
        len(z0), answer, code, lambda y: parameters.layout.leaves(np.asarray(parameters.bounded(centre + scales @ y)[0])),
        lambda seed: np.random.default_rng(seed).standard_normal(len(z0)),
        [readable(name) for name in parameters.layout.names], [shape or () for shape in parameters.layout.shapes],
    )  # fmt: skip
    try:
        idata = package.sample(
            target.model(), draws=int(draws), tune=int(tune), chains=int(chains), cores=cores, seed=seed, progress_bar=Progress(progress).wanted, **options
        )
    except Exception:
        if target.error is None:
            raise
    if target.error is not None:
        raise target.error
    numbers = np.asarray(parameters.bounded(centre)[0])
    idata.posterior.attrs.update(mode=parameters.numbers(numbers) if found else "not found", seed=seed, asked_python=target.asked)
    _warn(idata, target.names, parameters.names)
    return idata


def _density(logp, parameters, data):
    """The logarithm of the density of the numbers without bounds."""

    def density(z):
        x, log_scale = parameters.bounded(z)
        value = logp(parameters.layout.traced(x), *data)
        if np.size(value) != 1:
            raise errors.NonScalarOutputError(f"the log density has the shape {np.shape(value)}; return one number, np.sum(...) of the terms")
        return np.reshape(value, ()) + log_scale

    return density


def _standard(density, z0):
    """A point and a matrix, by which the posterior is near a standard normal distribution; and whether the point is the mode."""
    size = len(z0)
    negative = jit(lambda z: -density(z))
    try:
        result = minimize(negative, z0, progress=False)
    except (errors.OptimizationError, errors.NonFiniteError):
        # The density grows without bound, or is zero on the way.
        return z0, np.eye(size), False
    if not result.success or not np.isfinite(result.fun):
        return z0, np.eye(size), False
    if size > MOST_MAPPED:
        return result.x, np.eye(size), True
    curvature, directions = np.linalg.eigh(hessian(negative)(result.x))
    # Where the density is flat or bends upwards, the sampler has to find the scale.
    bent = curvature > 1e-12 * max(curvature[-1], 0.0)
    return result.x, directions / np.sqrt(np.where(bent, curvature, 1.0)), True


def _warn(idata, leaves, names):
    """Say where draws diverged."""
    diverging = np.asarray(idata.sample_stats["diverging"])
    count = int(diverging.sum())
    if not count:
        return
    values = np.concatenate([np.asarray(idata.posterior[name]).reshape(*diverging.shape, -1) for name in leaves], axis=-1)
    spread = values.std(axis=(0, 1))
    off = (values[diverging].mean(axis=0) - values.mean(axis=(0, 1))) / np.where(spread > 0.0, spread, 1.0)
    k = int(np.argmax(np.abs(off)))
    warnings.warn(
        f"{count} of {diverging.size} draws diverged, most where {names[k]} is {'large' if off[k] > 0.0 else 'small'}: there the posterior is too steep for "
        "the steps, and its draws are not to be relied on. Write the model in other parameters (x = mean + sd * z, with a standard normal z), or ask "
        "for smaller steps: target_accept=0.95",
        RuntimeWarning, stacklevel=3,
    )  # fmt: skip
