"""SciPy's own functions on tensors: each gives value and derivative, or raises; none gives a number that has lost its derivative.

    python -m tests.scipy.plain_calls                        # what each call does, and how many there are of each kind
    SCIPY_ARRAY_API=1 python -m tests.scipy.plain_calls      # the same where SciPy asks arrays for their namespace
"""

import collections
import json
import sys
import warnings

import numpy as np
import scipy.cluster.vq as vq
import scipy.fft as fft
import scipy.integrate as integrate
import scipy.interpolate as interpolate
import scipy.linalg as linalg
import scipy.ndimage as ndimage
import scipy.optimize as optimize
import scipy.signal as signal
import scipy.spatial as spatial
import scipy.spatial.distance as distance
import scipy.special as special
import scipy.stats as stats

import tapegrad as tg

V = np.array([0.31, 0.72, 1.13, 0.55, 0.9])
W = np.array([0.2, 0.5, 0.11, 0.7, 0.4])
M = np.array([[4.0, 1.0, 0.5], [1.0, 3.0, 0.2], [0.5, 0.2, 2.0]])
R = np.array([[0.3, 1.2], [2.2, 0.4], [1.1, 1.9], [0.2, 0.25]])
B = np.array([1.0, 2.0, 0.5])
LONG = np.linspace(0.1, 3.0, 40) ** 1.3
TIMES = np.arange(5.0)


def _called(module, names, *rest, **options):
    return {f"{module.__name__}.{name}": (lambda x, f=getattr(module, name): f(x, *rest, **options)) for name in names.split() if hasattr(module, name)}


#: Point -> name of a function -> a call of it.
CALLS = [
    (V, _called(special, "erf gammaln expit entr i0 j0 ndtr log_ndtr sinc logsumexp softmax log_softmax factorial")),
    (V, _called(special, "xlogy rel_entr betaln beta huber comb", W)),
    (V, _called(stats, "zscore skew kurtosis moment variation gmean hmean gstd tvar tstd iqr circmean circvar differential_entropy rankdata sem median_abs_deviation kstat")),
    (V, _called(stats, "pmean boxcox yeojohnson expectile quantile trim_mean", 0.4)),
    (V, _called(stats, "zmap entropy wasserstein_distance", W)),
    (V, {
        "stats.pearsonr": lambda x: stats.pearsonr(x, W).statistic, "stats.spearmanr": lambda x: stats.spearmanr(x, W).statistic,
        "stats.linregress": lambda x: stats.linregress(x, W).slope, "stats.ttest_1samp": lambda x: stats.ttest_1samp(x, 0.2).pvalue,
        "stats.ttest_ind": lambda x: stats.ttest_ind(x, W).pvalue, "stats.f_oneway": lambda x: stats.f_oneway(x, W).statistic,
        "stats.describe": lambda x: stats.describe(x).variance, "stats.jarque_bera": lambda x: stats.jarque_bera(x).statistic,
        "stats.bartlett": lambda x: stats.bartlett(x, W).statistic, "stats.power_divergence": lambda x: stats.power_divergence(x, x[::-1], lambda_=1.5).statistic,
        "stats.boxcox_llf": lambda x: stats.boxcox_llf(0.4, x), "stats.combine_pvalues": lambda x: stats.combine_pvalues(x / 2.0).statistic,
        "stats.gaussian_kde": lambda x: stats.gaussian_kde(x)(0.5), "stats.sigmaclip": lambda x: stats.sigmaclip(x).clipped,
    }),
    (V, {f"stats.{d.name}.{name}": getattr(d, name) for d in (stats.norm, stats.expon) for name in ("pdf", "logpdf", "cdf", "fit")}),
    (M, _called(linalg, "inv det cholesky expm svdvals eigvals norm qr pinv logm sqrtm block_diag")),
    (B, _called(linalg, "toeplitz circulant hankel companion fiedler")),
    (M, {"linalg.solve": lambda x: linalg.solve(x, B), "linalg.lstsq": lambda x: linalg.lstsq(x, B)[0], "linalg.lu": lambda x: linalg.lu(x)[2]}),
    (V, _called(signal, "convolve fftconvolve oaconvolve correlate", W)),
    (V, _called(signal, "detrend hilbert medfilt wiener sawtooth gausspulse czt")),
    (LONG, {
        "signal.lfilter": lambda x: signal.lfilter([1.0, 0.5], [1.0, -0.2], x), "signal.filtfilt": lambda x: signal.filtfilt([1.0, 0.5], [1.0, -0.2], x),
        "signal.welch": lambda x: signal.welch(x, nperseg=8)[1], "signal.periodogram": lambda x: signal.periodogram(x)[1],
        "signal.savgol_filter": lambda x: signal.savgol_filter(x, 5, 2), "signal.resample": lambda x: signal.resample(x, 7),
        "signal.decimate": lambda x: signal.decimate(x, 2), "signal.vectorstrength": lambda x: signal.vectorstrength(x, 0.7)[0],
    }),
    (V, _called(integrate, "trapezoid simpson cumulative_trapezoid cumulative_simpson romb")),
    (V, {
        "integrate.quad": lambda x: integrate.quad(lambda t: x[0] * t, 0.0, 1.0)[0], "integrate.fixed_quad": lambda x: integrate.fixed_quad(lambda t: x[0] * t, 0.0, 1.0)[0],
        "integrate.quad_vec": lambda x: integrate.quad_vec(lambda t: x * t, 0.0, 1.0)[0], "integrate.cubature": lambda x: integrate.cubature(lambda t: x[0] * t[:, 0], [0.0], [1.0]).estimate,
        "integrate.solve_ivp": lambda x: integrate.solve_ivp(lambda t, y: -x[0] * y, (0.0, 1.0), x[:2]).y,
        "integrate.odeint": lambda x: integrate.odeint(lambda y, t: -x[0] * y, 1.0, [0.0, 1.0]), "integrate.tanhsinh": lambda x: integrate.tanhsinh(lambda t: t, x[0], 2.0).integral,
    }),
    (V, _called(optimize, "rosen rosen_der")),
    (V, {
        "optimize.minimize": lambda x: optimize.minimize(lambda z: np.sum((z - x) ** 2), np.zeros(5)).x,
        "optimize.minimize_scalar": lambda x: optimize.minimize_scalar(lambda z: (z - x[0]) ** 2).x, "optimize.brentq": lambda x: optimize.brentq(lambda z: z - x[0], 0.0, 2.0),
        "optimize.newton": lambda x: optimize.newton(lambda z: z * z - x[0], 1.0), "optimize.least_squares": lambda x: optimize.least_squares(lambda z: z - x, np.zeros(5)).x,
        "optimize.nnls": lambda x: optimize.nnls(M, x[:3])[0], "optimize.linprog": lambda x: optimize.linprog(x, bounds=(1, 2)).fun,
        "optimize.curve_fit": lambda x: optimize.curve_fit(lambda t, a: a * t, W, x)[0], "optimize.approx_fprime": lambda x: optimize.approx_fprime(x, optimize.rosen),
    }),
    (V, _called(ndimage, "gaussian_filter uniform_filter zoom median_filter", 3)),
    (V, _called(ndimage, "sobel center_of_mass sum_labels maximum variance")),
    (R, _called(distance, "pdist")), (R, _called(distance, "cdist", R + 1.0)),
    (V, _called(distance, "euclidean sqeuclidean cosine cityblock minkowski correlation braycurtis canberra chebyshev jensenshannon", W)),
    (R, {"spatial.KDTree": lambda x: spatial.KDTree(x).query(R + 0.1)[0], "spatial.ConvexHull": lambda x: spatial.ConvexHull(x).volume,
         "spatial.distance_matrix": lambda x: spatial.distance_matrix(x, R + 1.0), "cluster.whiten": vq.whiten, "cluster.vq": lambda x: vq.vq(x, R[:2] + 0.1)[1]}),
    (B, {"spatial.Rotation": lambda x: spatial.transform.Rotation.from_rotvec(x).as_matrix()}),
    (V, {f"interpolate.{name}": (lambda x, f=getattr(interpolate, name): f(TIMES, x)(1.3)) for name in "CubicSpline interp1d make_interp_spline Akima1DInterpolator".split()}),
    (V, _called(fft, "fft rfft irfft dct fftshift")),
]  # fmt: skip


def _total(result):
    """A number of which all floats of a result are a part."""
    if isinstance(result, (tuple, list)):
        return sum(map(_total, result))
    if getattr(result, "dtype", np.dtype(object)).kind == "c":
        return _total(result.real) + 2.0 * _total(result.imag)
    if not np.shape(result):
        return result * 1.0
    return np.sum(result * np.cos(np.arange(float(np.size(result)))).reshape(np.shape(result)))


def _differences(f, x, step=1e-6):
    return np.array([(f(x + d) - f(x - d)) / (2.0 * step) for d in step * np.eye(x.size).reshape(x.size, *x.shape)]).reshape(x.shape)


def outcome(call, x):
    """``right``, or how the call raises; ``wrong`` otherwise: for all that carries derivatives, and for a constant tensor."""

    def f(x):
        return _total(call(x))

    ways = {"reverse": tg.grad(f), "forward": tg.jacfwd(f), "jit": tg.jit(tg.grad(f)), "define by run": lambda x: _by_backward(f, x)}
    said = {}
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        gradient, value = _differences(f, x), f(x)
        for name, derivative in ways.items():
            try:
                said[name] = "right" if np.allclose(derivative(x.copy()), gradient, rtol=2e-4, atol=2e-5) else "wrong"
            except Exception as error:
                said[name] = f"raises {type(error).__name__}"
        try:
            said["constant"] = "right" if np.isclose(_total(call(tg.tensor(x))), value, rtol=1e-9) else "wrong"
        except Exception as error:
            said["constant"] = f"raises {type(error).__name__}"
    return said


def _by_backward(f, x):
    leaf = tg.tensor(x, requires_grad=True)
    result = f(leaf)
    if not isinstance(result, tg.Tensor) or not result.requires_grad:
        return np.zeros(x.shape)
    result.backward()
    return leaf.grad.numpy()


def outcomes():
    """Name of a function -> what its call does in each mode."""
    return {name.removeprefix("scipy."): outcome(call, x) for x, calls in CALLS for name, call in calls.items()}


if __name__ == "__main__":
    found = outcomes()
    for mode in next(iter(found.values())):
        print(mode, dict(collections.Counter(said[mode].partition(" ")[0] for said in found.values())), file=sys.stderr)
    print(json.dumps(found, indent=1))
