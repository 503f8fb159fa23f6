"""Values with infinities, NaN and zeros in the operands are NumPy's, however they are computed; only in derivatives zero is absolute."""

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.transforms.replay.function import Replayed
from tests.numpy_api.test_every_public_function import PUBLIC, calls_of, floats_of, parts, run
from tests.rules.checker import generator
from tests.rules.examples_of_rows import examples_of
from tests.transforms.replay.rows import result_of

pytestmark = pytest.mark.filterwarnings("ignore")

SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan]
#: NumPy's own singular values of infinities may never end; the rows that call LAPACK are given zeros only.
LAPACK = "inv solve det cofactors logabsdet cholesky eigh svd qr pinv solve_triangular linalg.cond".split()


def poisoned(arrays, rng, special):
    """The arrays, some of zeros only, others with special numbers among their elements."""
    found = []
    for a in arrays:
        zeros, mixed = np.zeros(np.shape(a)), np.where(rng.random(np.shape(a)) < 0.4, rng.choice(special, np.shape(a)), a)
        bad = (zeros if rng.random() < 0.25 else mixed).astype(np.asarray(a).dtype)
        found.append(float(bad) if isinstance(a, float) else bad)
    return found


def doors(f, at):
    """Name -> the values of `f` (a tuple of results) at a point, computed in one of the ways; recorded at `at`."""
    sweep, kernel = Replayed(f, (), scalar=False), tg.jit(f)
    for _ in range(2):
        sweep.call(at, {}, False), kernel(*at)
    return {
        "eager": lambda *x: [r._v if isinstance(r, tg.Tensor) else r for r in f(*[tg.tensor(a, requires_grad=True) for a in x])],
        "dual": lambda *x: tg.jvp(f, x, tuple(1.0 if isinstance(a, float) else np.ones_like(a) for a in x))[0],
        "sweep": lambda *x: sweep.call(x, {}, False).values,
        "kernel": kernel,
    }


def assert_same_everywhere(f, plain, at, count, special=SPECIAL):
    """`f` of tensors gives what `plain` gives of arrays, at `count` points around `at`."""
    rng, by_door = generator(3), doors(f, at)
    with np.errstate(all="ignore"):
        for point in [poisoned(at, rng, special) for _ in range(count)]:
            try:
                expected = plain(*[np.array(a) for a in point])
            except (np.linalg.LinAlgError, ZeroDivisionError):
                continue
            for name, door in by_door.items():
                for found, wanted in zip(door(*point), expected, strict=True):
                    single = np.asarray(wanted).dtype.char == "f"
                    np.testing.assert_allclose(found, wanted, *(2 * [1e-5 if single else 1e-11]), err_msg=f"{name} {point}")


def row_at_what_is_not_finite(name):
    seen = set()
    for example in examples_of(name):
        operands = [o if isinstance(o, float) else np.asarray(o) for o in example.operands]
        slots = [k for k in example.row.slots(len(operands)) if np.asarray(operands[k]).dtype.kind == "f"]
        kind = (*(np.ndim(o) for o in operands), name == "matmul" and example.value.shape)
        if not slots or kind in seen or example.row.dynamic or not example.value.size:
            continue
        seen.add(kind)

        def f(*given, of=result_of, example=example, operands=operands, slots=slots):
            given = iter(given)
            return (of(example, [next(given) if k in slots else o for k, o in enumerate(operands)]),)

        def on_arrays(example, operands):
            return example.row.value(*operands, **example.keywords)

        assert_same_everywhere(f, lambda *given, f=f: f(*given, of=on_arrays), [operands[k] for k in slots], 4, SPECIAL[: 2 if name in LAPACK else 5])


COMPOSED = (
    "convolve correlate dot inner outer vdot vecdot tensordot einsum kron cross matvec vecmat linalg.multi_dot linalg.matrix_power polyval "
    "interp modf unwrap linalg.cond trapezoid average cov gradient nansum nan_to_num cumulative_prod"
)


@pytest.mark.parametrize("name", COMPOSED.split())
def test_composed_function(name):
    name, special = f"numpy.{name}", SPECIAL[: 2 if name in LAPACK else 5]
    for call in calls_of(name, PUBLIC[name]):
        def f(*values, call=call):
            found = [p for p in parts(run(name, call, values)) if isinstance(p, (tg.Differentiable, np.ndarray, np.generic, float))]
            return tuple(p for p in found if getattr(p, "dtype", np.dtype(float)).kind == "f")

        assert_same_everywhere(f, f, [np.ascontiguousarray(a) for a in floats_of(call, [])], 8, special)


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("function", [np.convolve, np.correlate])
def test_nothing_beyond_the_ends_of_a_sequence_counts(function, mode):
    for n, m in ((5, 3), (3, 5), (4, 4), (1, 3)):
        x, y = generator(n).normal(size=n), generator(m).normal(size=m)
        assert_same_everywhere(lambda a, b: (function(a, b, mode),), lambda a, b: (function(a, b, mode),), [x, y], 10)


DATA = np.array([[1.0, 2.0], [np.inf, np.nan], [3.0, -np.inf]])


def masked(w):
    """The second and the third row of the data have no part in it."""
    return np.sum(np.where([True, False, False], (DATA @ w) ** 2, 0.0))


def running(w):
    return np.sum(np.where([True, True, False], np.cumprod(np.concatenate([w, [np.inf]])), 0.0) ** 2)


GRADIENTS = {
    masked: lambda w: 2 * (w[0] + 2 * w[1]) * np.array([1.0, 2.0]),
    running: lambda w: np.array([2 * w[0] + 2 * w[0] * w[1] ** 2, 2 * w[1] * w[0] ** 2]),
}
HESSIANS = {
    masked: lambda w: np.array([[2.0, 4.0], [4.0, 8.0]]),
    running: lambda w: np.array([[2 + 2 * w[1] ** 2, 4 * w[0] * w[1]], [4 * w[0] * w[1], 2 * w[0] ** 2]]),
}


@pytest.mark.parametrize("f", GRADIENTS, ids=lambda f: f.__name__)
def test_zero_is_absolute_in_derivatives_of_every_kind(f):
    w, v = np.array([1.5, -0.5]), np.array([1.0, 3.0])
    gradient, hessian = GRADIENTS[f](w), HESSIANS[f](w)
    squares = lambda w: np.sum(tg.grad(f)(w) ** 2)  # noqa: E731
    leaf = tg.tensor(w, requires_grad=True)
    f(leaf).backward(create_graph=True)
    once = leaf.grad
    np.testing.assert_allclose(once.detach().numpy(), gradient)
    leaf.grad = None
    np.sum(once * v).backward()
    np.testing.assert_allclose(leaf.grad.numpy(), hessian @ v)
    of_gradient, gradients = tg.jit(lambda w: tg.grad(f)(w)), [tg.jit(tg.grad(f), kernel=kernel) for kernel in ("never", "always")]
    products = [tg.jit(tg.grad(squares), kernel=kernel) for kernel in ("never", "always")]
    for _ in range(3):
        for g in (*gradients, of_gradient):
            np.testing.assert_allclose(g(w), gradient)
        for g in products:
            np.testing.assert_allclose(g(w), 2 * hessian @ gradient)
    np.testing.assert_allclose(tg.jvp(tg.grad(f), (w,), (v,))[1], hessian @ v)
    np.testing.assert_allclose(tg.grad(lambda w: tg.jvp(f, (w,), (v,))[1])(w), hessian @ v)
    for found in (tg.hessian(f), tg.jacfwd(tg.grad(f)), tg.jacrev(tg.grad(f))):
        np.testing.assert_allclose(found(w), hessian)


def test_a_bad_row_of_data_is_seen_at_the_first_call():
    f = lambda w: np.sum((DATA[:2] @ w - 1.0) ** 2)  # noqa: E731
    for kernel in ("never", "always"):
        g = tg.jit(tg.value_and_grad(f), kernel=kernel)
        assert [bool(np.isnan(g(w)[0])) for w in (np.zeros(2), np.ones(2), np.zeros(2), np.zeros(2))] == [True] * 4


@pytest.mark.parametrize("f", [np.linalg.inv, lambda a: np.linalg.solve(a, np.ones(2)), lambda a: np.linalg.cholesky(a)], ids="inv solve cholesky".split())
def test_a_kernel_without_other_guards_raises_for_a_singular_matrix(f):
    compiled = tg.jit(f)
    for _ in range(2):
        compiled(np.eye(2))
    with pytest.raises(np.linalg.LinAlgError):
        compiled(np.zeros((2, 2)))
