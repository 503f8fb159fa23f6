"""Every function that HIPS autograd differentiates: value, gradient, tangent and second derivative, beside HIPS itself."""

import importlib
import warnings

import numpy
import pytest

import tapegrad as tg
import tapegrad.numpy
from tests.rules.checker import generator, plain

autograd = pytest.importorskip("autograd")
core = importlib.import_module("autograd.core")

RNG = generator(11)
V, W, A, B, S = (RNG.normal(size=shape) for shape in ((4,), (4,), (3, 4), (4, 3), (3, 3)))
C, P, U, X = RNG.normal(size=(2, 3, 4)), numpy.abs(A) + 0.3, RNG.uniform(0.1, 0.9, size=(3, 4)), 0.7
D = S @ S.T + numpy.eye(3)
MASK = A > 0.0

#: Module and name -> calls: operands and options. Float arrays (and floats that stand first) are differentiated.
CALLS = {
    **{name: [((A,), {}), ((X,), {})] for name in "absolute arctan arcsinh cos cosh deg2rad degrees exp exp2 expm1 fabs negative rad2deg radians sin sinc sinh square tan tanh conjugate real".split()},
    **{name: [((P,), {})] for name in "log log10 log1p log2 sqrt reciprocal".split()}, **{name: [((U,), {})] for name in "arccos arcsin arctanh".split()}, "arccosh": [((P + 1.0,), {})],
    **{name: [((A, V), {}), ((A, P), {}), ((A, 0.3), {})] for name in "add subtract multiply maximum minimum fmax fmin logaddexp logaddexp2 arctan2 hypot".split()},
    "divide": [((A, P), {}), ((1.0, P), {})], "power": [((P, A), {}), ((A, 3), {}), ((P, 0.5), {})], "remainder": [((P, P.T.reshape(3, 4)), {}), ((A, 0.7), {})],
    "amax": [((A,), {}), ((A,), {"axis": 1}), ((C,), {"axis": (0, 2), "keepdims": True})], "amin": [((A,), {"axis": 0})], "max": [((A,), {"axis": -1})], "min": [((A,), {})],
    "sum": [((A,), {}), ((C,), {"axis": (0, 2)}), ((A, 1), {"keepdims": True})], "mean": [((A,), {}), ((C,), {"axis": 1})], "prod": [((A,), {}), ((A,), {"axis": 1})],
    "var": [((A,), {}), ((A,), {"axis": 0, "ddof": 1})], "std": [((A,), {}), ((A,), {"axis": 1, "keepdims": True})], "cumsum": [((A,), {}), ((A,), {"axis": 1})],
    "array_split": [((V, 3), {}), ((A, 2), {"axis": 1})], "split": [((V, 2), {}), ((A, [1, 3], 1), {})], "hsplit": [((A, 2), {})], "vsplit": [((A, 3), {})], "dsplit": [((C, 2), {})],
    "atleast_1d": [((X,), {})], "atleast_2d": [((V,), {})], "atleast_3d": [((A,), {})], "broadcast_to": [((V, (2, 4)), {})], "clip": [((A, -0.5, 0.5), {})],
    "cross": [((S, D), {})], "diag": [((V,), {}), ((A, 1), {})], "diagonal": [((S,), {}), ((C, 0, 1, 2), {})], "diff": [((A,), {}), ((A, 2), {}), ((A,), {"axis": 0})],
    "dot": [((A, B), {}), ((V, W), {}), ((C, B), {}), ((A, V), {}), ((0.5, A), {})], "einsum": [(("ij,jk->ik", A, B), {}), (("ij,ij->", A, P), {}), (("...i,i", C, V), {})],
    "expand_dims": [((A, 1), {})], "fliplr": [((A,), {})], "flipud": [((A,), {})], "full": [(((2, 3), X), {})], "gradient": [((V,), {}), ((A,), {"axis": 1})],
    "inner": [((A, C[0]), {}), ((V, W), {})], "kron": [((A, S), {})], "linspace": [((X, 2.0, 5), {})], "matmul": [((A, B), {}), ((C, B), {}), ((V, B), {})], "moveaxis": [((C, 0, 2), {})],
    "nan_to_num": [((A,), {})], "outer": [((V, W), {})], "pad": [((A, 1, "constant"), {}), ((A, ((0, 1), (2, 0)), "constant"), {})], "partition": [((V, 2), {})], "ravel": [((A,), {}), ((A, "F"), {})],
    "real_if_close": [((A,), {})], "repeat": [((V, 2), {}), ((A, 2), {"axis": 1})], "reshape": [((A, (4, 3)), {}), ((A, -1), {"order": "F"})], "roll": [((A, 1), {}), ((A, 2), {"axis": 1})],
    "rollaxis": [((C, 2), {}), ((C, 0, 3), {})], "rot90": [((A,), {}), ((A, 2), {})], "sort": [((V,), {})], "squeeze": [((A[None],), {}), ((A[:, None],), {"axis": 1})], "swapaxes": [((C, 0, 2), {})],
    "tensordot": [((C, A, 2), {}), ((C, B, ([2], [0])), {})], "tile": [((V, 2), {}), ((A, (2, 1)), {})], "trace": [((S,), {})], "transpose": [((A,), {}), ((C, (1, 2, 0)), {})],
    "tril": [((S,), {}), ((A, 1), {})], "triu": [((S,), {}), ((A, -1), {})], "where": [((MASK, A, P), {})], "imag": [((A,), {})], "angle": [((A,), {})],
    "linalg.cholesky": [((D,), {})], "linalg.det": [((S,), {})], "linalg.eigh": [((D,), {})], "linalg.inv": [((D,), {}), ((numpy.stack([D, D + 1]),), {})], "linalg.norm": [((A,), {}), ((V,), {}), ((V, 3), {}), ((A,), {"axis": 1}), ((A, "nuc"), {})],
    "linalg.pinv": [((A,), {})], "linalg.slogdet": [((S,), {})], "linalg.solve": [((D, V[:3]), {}), ((D, B.T[:3]), {})], "linalg.svd": [((A,), {"full_matrices": False})], "linalg.eig": [((D,), {})],
    **{f"fft.{name}": [((V,), {})] for name in "fft ifft rfft fftshift ifftshift".split()}, **{f"fft.{name}": [((C,), {})] for name in "fft2 ifft2 fftn ifftn rfft2 rfftn".split()},
    "fft.irfft": [((V,), {})], "fft.irfft2": [((A,), {})], "fft.irfftn": [((C,), {})],
    **{f"scipy.special.{name}": [((P,), {})] for name in "erf erfc expit gamma gammaln psi rgamma i0 i1 j0 j1 y0 y1".split()}, "scipy.special.erfinv": [((U,), {})], "scipy.special.erfcinv": [((U,), {})], "scipy.special.logit": [((U,), {})],
    "scipy.special.beta": [((P, U), {})], "scipy.special.betaln": [((P, U), {})], "scipy.special.gammainc": [((2, P), {})], "scipy.special.gammaincc": [((3, P), {})],
    **{f"scipy.special.{name}": [((2, P), {})] for name in ("iv", "ive", "jn", "yn", "polygamma")}, "scipy.special.betainc": [((2, 3, U), {})], "scipy.special.gammasgn": [((A,), {})], "scipy.special.multigammaln": [((P + 2.0, 2), {})],
    "scipy.special.logsumexp": [((A,), {}), ((A,), {"axis": 1, "keepdims": True})],
    "scipy.linalg.solve_triangular": [((D, V[:3]), {}), ((D, V[:3]), {"lower": True, "trans": 1})], "scipy.linalg.sqrtm": [((D,), {})], "scipy.linalg.solve_sylvester": [((D, D + 1, S), {})],
    "scipy.linalg.solve_banded": [(((1, 1), P[:, :3] + numpy.diag([0.0, 3.0, 0.0]) @ numpy.ones((3, 3)), V[:3]), {})], "scipy.signal.convolve": [((V, W[:2]), {})],
    "scipy.integrate.odeint": [((lambda y, t, a: -a * y, V[:2], numpy.array([0.0, 0.5]), (0.7,)), {"rtol": 1e-12, "atol": 1e-13})],
    **{f"scipy.stats.norm.{name}": [((A, V, 0.8), {}), ((A, 0.0, P), {})] for name in "pdf cdf sf logpdf logcdf logsf".split()}, **{f"scipy.stats.t.{name}": [((A, 3.5, 0.1, 0.8), {})] for name in "pdf logpdf cdf logcdf".split()},
    **{f"scipy.stats.beta.{name}": [((U, 1.5, P), {})] for name in "pdf logpdf".split()}, "scipy.stats.beta.cdf": [((U, 2, 3), {})], **{f"scipy.stats.chi2.{name}": [((P, 3), {})] for name in "pdf logpdf cdf".split()},
    **{f"scipy.stats.gamma.{name}": [((P, U + 1.0), {})] for name in "pdf logpdf".split()}, "scipy.stats.gamma.cdf": [((P, 2), {})], **{f"scipy.stats.poisson.{name}": [((numpy.arange(4), P), {})] for name in "pmf logpmf cdf".split()},
    **{f"scipy.stats.multivariate_normal.{name}": [((A[:, :3], V[:3], D), {})] for name in "pdf logpdf".split()}, "scipy.stats.multivariate_normal.entropy": [((V[:3], D), {})],
    **{f"scipy.stats.dirichlet.{name}": [((numpy.array([0.2, 0.5, 0.3]), P[0, :3]), {})] for name in "pdf logpdf".split()},
}  # fmt: skip
#: What HIPS has under names of its own, or inside; casts have no derivative of interest; and what NumPy no longer has.
APART = {"jv", "array_from_args", "concatenate_args", "make_diagonal", "astype", "_array_from_scalar_or_array"}
#: What gives several arrays, takes a symmetric matrix, and gives vectors whose signs are anybody's.
SEVERAL = {"array_split", "split", "hsplit", "vsplit", "dsplit", "linalg.slogdet", "linalg.svd", "linalg.eigh", "linalg.eig"}
SYMMETRIC = {"linalg.eigh", *(f"scipy.stats.multivariate_normal.{name}" for name in ("pdf", "logpdf", "entropy"))}
VECTORS = {"linalg.eigh", "linalg.svd", "linalg.eig"}
#: What HIPS refuses to differentiate in one of these calls: the derivatives are compared with differences instead.
ALONE = {"broadcast_to", "diag", "diagonal"}


def test_every_function_of_hips_is_compared():
    for module in ("numpy.linalg", "numpy.fft", "scipy.linalg", "scipy.signal", "scipy.special", "scipy.integrate", "scipy.stats"):
        importlib.import_module(f"autograd.{module}")
    inside = {
        "add", "covector", "inner_prod", "mut_add", "scalar_mul", "sparse_add", "container_take", "container_untake", "make_sequence", "sequence_extend_left", "sequence_extend_right", "_make_dict",
        "__getitem__", "untake", "dot_adjoint_0", "dot_adjoint_1", "tensordot_adjoint_0", "tensordot_adjoint_1", "truncate_pad", "fixed_point",
    }  # fmt: skip
    # (Programs of other tests may have added their own.)
    theirs = [f for f in core.primitive_vjps if str(getattr(getattr(f, "fun", f), "__module__", None)).partition(".")[0] in ("None", "autograd", "numpy", "scipy")]
    names = {getattr(function, "__name__", str(function)) for function in theirs}
    assert len(names) > 150
    assert names - {name.rpartition(".")[2] for name in CALLS} - inside - APART == set()


def functions(name):
    """The function of HIPS, and ours: NumPy's namespace, SciPy's own function where that takes tensors, else its mirror."""
    module, _, short = name.rpartition(".")
    theirs = importlib.import_module("autograd.scipy.stats") if "stats" in module else importlib.import_module(f"autograd.{module or 'numpy'}" if "scipy" in module else f"autograd.numpy{'.' * bool(module)}{module}")
    if "stats" in module:
        distribution = module.rpartition(".")[2]
        return getattr(getattr(theirs, distribution), short), getattr(getattr(importlib.import_module("tapegrad.scipy.stats"), distribution), short)
    ours = tapegrad.numpy
    if module:
        ours = getattr(tapegrad.numpy, module) if "scipy" not in module else importlib.import_module(f"tapegrad.{module}")
    if "scipy" in module and not hasattr(ours, short):
        ours = importlib.import_module(module)
    return getattr(theirs, short), getattr(ours, short)


def loss_of(name, function, args, kwargs, np):
    """A number of the operands that are differentiated, and these; imaginary parts and signs of vectors do not count."""
    live = [k for k, a in enumerate(args) if isinstance(a, numpy.ndarray) and a.dtype.kind == "f" or isinstance(a, float) and k == 0 or a is X]

    def loss(*floats):
        operands = list(args)
        for k, x in zip(live, floats):
            # Of what takes a symmetric matrix, the derivative is that along symmetric ones.
            operands[k] = (x + x.T) / 2.0 if np.shape(x) == (3, 3) and name in SYMMETRIC else x
        result, total = function(*operands, **kwargs), 0.0
        for part in [result[i] for i in range(len(result))] if name in SEVERAL else [result]:
            weights = generator(5).normal(size=np.shape(part))
            part = np.abs(part) if "complex" in str(getattr(part, "dtype", "")) or name in VECTORS else part
            total = total + np.sum(weights * part) + 0.3 * np.sum(part * part)
        return total

    return loss, [args[k] for k in live]


def along(grad, loss, ways):
    """The derivative of `loss` along directions, as a function."""
    return lambda *xs: sum((g * d).sum() for g, d in zip(grad(loss, tuple(range(len(xs))))(*xs), ways))


@pytest.mark.parametrize("name, k", [(name, k) for name, calls in CALLS.items() for k in range(len(calls))])
@pytest.mark.filterwarnings("ignore")
def test_as_hips(name, k):
    args, kwargs = CALLS[name][k]
    theirs, ours = functions(name)
    loss, xs = loss_of(name, ours, args, kwargs, tapegrad.numpy)
    value, gradients = tg.value_and_grad(loss, tuple(range(len(xs))))(*xs)
    expected, _ = loss_of(name, theirs, args, kwargs, importlib.import_module("autograd.numpy"))
    ways = [RNG.normal(size=numpy.shape(x)) for x in xs]
    xs = [numpy.asarray(x) for x in xs]
    assert float(plain(value)) == pytest.approx(float(expected(*xs)), rel=1e-9)
    slope = float(along(tg.grad, loss, ways)(*xs))
    assert float(plain(tg.jvp(loss, tuple(xs), tuple(ways))[1])) == pytest.approx(slope, rel=1e-8, abs=1e-10)
    second = [plain(g) for g in tg.grad(along(tg.grad, loss, ways), tuple(range(len(xs))))(*xs)]
    if name in ALONE:
        step = 1e-5
        for grad, f in ((gradients, loss), (second, along(tg.grad, loss, ways))):
            up, down = (float(plain(f(*[x + s * d for x, d in zip(xs, ways)]))) for s in (step, -step))
            assert sum(float(numpy.sum(plain(g) * d)) for g, d in zip(grad, ways)) == pytest.approx((up - down) / (2 * step), rel=2e-5, abs=1e-6)
        return
    for found, hips in ((gradients, autograd.grad(expected, tuple(range(len(xs))))), (second, autograd.grad(along(autograd.grad, expected, ways), tuple(range(len(xs)))))):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            wanted = hips(*xs)
        for f, e in zip(found, wanted):
            numpy.testing.assert_allclose(plain(f), e, rtol=1e-7, atol=1e-9)
