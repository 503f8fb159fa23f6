"""PyTorch's names beside PyTorch itself: values, gradients, dtypes, and where both raise."""

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.nn import names
from tests.rules.checker import generator

torch = pytest.importorskip("torch")

RNG = generator(7)
M, N, S, V, W = (RNG.normal(size=shape) for shape in ((3, 4), (4, 2), (3, 3), (4,), (3,)))
B, C, T = RNG.normal(size=(2, 3, 4)), RNG.normal(size=(2, 4, 5)), RNG.normal(size=(3, 4))
P = np.abs(M) + 0.3
D = S @ S.T + np.eye(3)
AT = np.array([[0, 2, 1, 0], [1, 1, 2, 2]])
IDX = np.array([2, 0, 2])
MASK = M > 0.2
CLASSES = np.array([1, 3, 0])

#: Name -> calls: operands and options. Float arrays are differentiated.
CALLS = {
    "view": [((M, 2, 6), {}), ((M, -1), {}), ((M, (4, 3)), {})], "view_as": [((M, T.reshape(4, 3)), {})], "reshape_as": [((M, T.reshape(2, 6)), {})],
    "contiguous": [((M,), {})], "movedim": [((B, 0, 2), {}), ((B, (0, 1), (1, 2)), {})], "unbind": [((M,), {}), ((M, 1), {}), ((B,), {"dim": -1})],
    "chunk": [((M, 2), {}), ((M, 3, 1), {}), ((V, 3), {"dim": 0}), ((M, 9), {})], "narrow": [((M, 1, 1, 2), {}), ((B, -1, 0, 3), {})], "select": [((M, 0, 1), {}), ((M, 1, -1), {})],
    "index_select": [((M, 0, IDX), {}), ((B, 2, IDX), {})], "repeat_interleave": [((V, 3), {}), ((M, 2), {"dim": 1}), ((M, 2), {})],
    "tril": [((S,), {}), ((M, 1), {}), ((B,), {"diagonal": -1})], "triu": [((S,), {}), ((M,), {"diagonal": 1})], "rot90": [((M,), {}), ((B, 2, (1, 2)), {}), ((B, 1), {"dims": (0, 2)})],
    "clamp": [((M, -0.5, 0.5), {}), ((M,), {"min": 0.1}), ((M,), {"max": 0.1}), ((M, T * 0 - 0.2, T * 0 + 0.3), {})], "clamp_min": [((M, 0.1), {})], "clamp_max": [((M, 0.1), {})],
    "rsqrt": [((P,), {})], "frac": [((M * 3,), {})], "sgn": [((M,), {})], "lerp": [((M, T, 0.3), {}), ((M, T, P), {})],
    "addcmul": [((M, T, P), {}), ((M, T, P), {"value": 0.5})], "addcdiv": [((M, T, P), {}), ((M, T, P), {"value": 2})],
    **{name: [((M, T), {}), ((M, M), {}), ((M, 0.0), {})] for name in ("eq", "ne", "lt", "le", "gt", "ge")},
    "masked_fill": [((M, MASK, 7.0), {}), ((M, MASK[:1], -np.inf), {})], "masked_select": [((M, MASK), {}), ((M, MASK[0]), {})],
    "gather": [((M, 0, AT), {}), ((M, 1, AT[:, :3]), {}), ((M, -1, AT), {}), ((V, 0, IDX), {})],
    "scatter": [((M, 0, np.array([[0, 2, 1, 0]]), T[:1]), {}), ((M, 1, np.array([[1, 0], [3, 2]]), T[:2, :2]), {}), ((M, 0, AT[:1], 2.5), {})],
    "scatter_add": [((M, 0, AT, T[:2]), {}), ((M, 1, AT[:, :3], T[:2, :3]), {}), ((V, 0, IDX, W), {})], "index_add": [((M, 0, IDX, T), {}), ((M, 0, IDX, T), {"alpha": 2.0}), ((M, 1, IDX, S), {})],
    "index_copy": [((M, 0, np.array([2, 0]), T[:2]), {}), ((M, 1, np.array([3, 1]), T[:, :2]), {})], "index_fill": [((M, 1, IDX, 2.0), {}), ((M, 0, IDX, -1.0), {})],
    "topk": [((V, 2), {}), ((M, 3), {"dim": 1}), ((M, 1, 0, False), {}), ((B, 2), {"largest": False})],
    "mm": [((M, N), {})], "bmm": [((B, C), {})], "mv": [((M, V), {})], "ger": [((V, W), {})], "addmm": [((RNG.normal(size=(3, 2)), M, N), {}), ((W[:2], M, N), {"beta": 0.5, "alpha": 2})],
    "baddbmm": [((RNG.normal(size=(2, 3, 5)), B, C), {"alpha": 2}), ((np.ones((2, 3, 5)), B, C), {"beta": 3})], "tensordot": [((B, C, ([0, 2], [0, 1])), {}), ((M, N), {"dims": 1})],
    "cross": [((S, D), {"dim": -1}), ((S, D), {"dim": 0})], "det": [((S,), {})], "logdet": [((D,), {}), ((1e-5 * np.eye(80),), {}), ((np.stack([D, 2.0 * D]),), {})], "inverse": [((D,), {})], "cholesky": [((D,), {})], "dist": [((M, T), {}), ((M, T, 1), {})],
    "norm": [((M,), {}), ((M, 1), {}), ((M, 3, 1), {}), ((M,), {"p": 1, "dim": 0}), ((B, 3, (0, 2), True), {}), ((M, np.inf), {}), ((M, "fro", -1), {"keepdim": True}), ((V, 0), {}), ((M, -1, 1), {})],
    "cpu": [((M,), {})], "type_as": [((M, T), {})], "nelement": [((B,), {})], "ndimension": [((B,), {})], "numel": [((B,), {})], "dim": [((B,), {})], "is_floating_point": [((B,), {})],
    "new_zeros": [((M, 2, 3), {}), ((M, (2,)), {})], "new_ones": [((M, 2, 3), {})], "new_full": [((M, (2, 2), 5.0), {})], "bool": [((M * MASK,), {})],
    "argmax": [((M,), {}), ((M,), {"dim": 1}), ((M,), {"dim": 0, "keepdim": True})], "argmin": [((M, 1), {}), ((M,), {"dim": -1})], "argsort": [((M,), {}), ((M,), {"dim": 0})], "argwhere": [((M * MASK,), {})],
    "any": [((MASK,), {}), ((M > 1,), {"dim": 1})], "all": [((MASK,), {"dim": 0, "keepdim": True})], **{name: [((M / (M > -1),), {})] for name in ("isnan", "isinf", "isfinite")},
    "isclose": [((M, M + 1e-9), {})], "allclose": [((M, M + 1e-9), {}), ((M, T), {})], "cumprod": [((M,), {"dim": 1}), ((M, 0), {})], "diff": [((M,), {}), ((M, 2), {}), ((M,), {"dim": 0})],
    "count_nonzero": [((M * MASK,), {}), ((M * MASK,), {"dim": 1})], "nansum": [((M,), {}), ((M,), {"dim": 1})], "nanmean": [((M,), {"dim": 0, "keepdim": True})], "kron": [((M, N), {})], "inner": [((V, V[::-1].copy()), {}), ((M, T), {})],
    "vdot": [((V, V[::-1].copy()), {})], "bincount": [((AT[0],), {}), ((AT[0],), {"minlength": 6})], "cov": [((M,), {})], "corrcoef": [((M,), {})], "searchsorted": [((np.sort(V), W), {}), ((np.sort(V), W), {"side": "right"})],
    "isin": [((M, M[0]), {})], "fliplr": [((M,), {})], "flipud": [((M,), {})], **{f"logical_{name}": [((MASK, M > 0), {})] for name in ("and", "or", "xor")}, "logical_not": [((MASK,), {})],
    "float_power": [((P, T), {})], "trapezoid": [((M,), {}), ((M, np.sort(V)), {}), ((M,), {"dx": 0.5, "dim": 0})],
    "einsum": [(("ij,jk->ik", M, N), {})], "hstack": [(([M, T],), {})], "vstack": [(([M, T],), {})], "dstack": [(([M, T],), {})], "column_stack": [(([M, W],), {})], "atleast_1d": [((M,), {})], "atleast_2d": [((V,), {})],
    "atleast_3d": [((V,), {})], "meshgrid": [((V, W), {"indexing": "ij"}), ((V, W), {"indexing": "xy"})], "broadcast_tensors": [((M, V), {})], "is_tensor": [((M,), {})],
    "where": [((M, MASK, T), {})], "flatten": [((B,), {}), ((B, 1), {}), ((B, 0, 1), {}), ((M,), {"start_dim": -1})],
}  # fmt: skip
#: What both refuse.
WRONG = {
    "view": (M, 5, 2), "mm": (B, N), "bmm": (M, N), "mv": (M, N), "ger": (M, V), "gather": (M, 0, np.full((3, 4), 3)), "scatter": (M, 0, np.array([[-1]]), T), "index_add": (M, 0, np.array([5]), T[:1]), "topk": (V, 9), "narrow": (M, 1, 3, 2),
    "select": (M, 0, 3), "index_select": (M, 0, np.array([3])), "chunk": (M, 2, 5), "unbind": (M, 4), "masked_fill": (M, MASK[:, :2], 0.0), "det": (M,), "addmm": (W, M, M), "einsum": ("ij,jk", M, M), "index_copy": (M, 0, np.array([7]), T[:1]),
    "scatter_add": (M, 0, np.array([0]), T), "to": (M, "cuda"), "argmax": (M, 5), "hstack": ([M, S[None]],), "flatten": (M, 3), "repeat_interleave": (M, 2, 4),
}  # fmt: skip


def in_torch(x, char):
    if isinstance(x, list):
        return [in_torch(part, char) for part in x]
    if not isinstance(x, np.ndarray):
        return x
    return torch.tensor(x.astype(char) if x.dtype.kind == "f" else x, requires_grad=x.dtype.kind == "f")


def here(x, char):
    if isinstance(x, list):
        return [here(part, char) for part in x]
    return tg.tensor(x.astype(char), requires_grad=True) if isinstance(x, np.ndarray) and x.dtype.kind == "f" else x


def parts(result):
    return [part for one in result for part in parts(one)] if isinstance(result, (tuple, list)) else [result]


def compare(ours, theirs, args, kwargs, char="d"):
    """Call both, compare what they give and its gradients."""
    a, b = [here(x, char) for x in args], [in_torch(x, char) for x in args]
    found, expected = parts(ours(*a, **kwargs)), parts(theirs(*b, **kwargs))
    assert len(found) == len(expected)
    tolerance = dict(rtol=1e-10, atol=1e-12) if char == "d" else dict(rtol=2e-4, atol=2e-5)
    total, sums = 0.0, 0.0
    for f, e in zip(found, expected):
        if not isinstance(e, torch.Tensor):
            assert f == e
            continue
        value = np.asarray(f.detach() if isinstance(f, tg.Tensor) else f)
        np.testing.assert_allclose(value, e.detach().numpy(), **tolerance)
        assert value.shape == tuple(e.shape) and (value.dtype == e.detach().numpy().dtype)
        assert getattr(f, "requires_grad", False) == e.requires_grad
        if e.requires_grad:
            weights = generator(1).normal(size=value.shape).astype(value.dtype)
            total, sums = total + np.sum(f * weights), sums + torch.sum(e * torch.tensor(weights))
    if isinstance(sums, torch.Tensor):
        total.backward()
        sums.backward()
        for x, y in zip(parts(a), parts(b)):
            if isinstance(y, torch.Tensor) and y.requires_grad:
                gradient = np.zeros(y.shape) if y.grad is None else y.grad.numpy(force=True)
                np.testing.assert_allclose(np.zeros(x.shape) if x.grad is None else x.grad.numpy(), gradient, **tolerance)


def methods_and_functions():
    for name in CALLS:
        method, function = hasattr(torch.Tensor, name) and hasattr(tg.Tensor, name), hasattr(torch, name) and name not in ("where", "cpu", "bool")
        for k in range(len(CALLS[name])):
            yield from ((name, k, "method", char) for char in ("df" if name not in ("cov", "corrcoef") else "d") if method)  # in float64, as NumPy
            yield from ((name, k, "function", "d") for _ in range(function))


@pytest.mark.parametrize("name, k, which, char", list(methods_and_functions()))
def test_as_in_pytorch(name, k, which, char):
    args, kwargs = CALLS[name][k]
    if which == "method":
        compare(lambda x, *a, **o: getattr(x if isinstance(x, tg.Tensor) else tg.tensor(x), name)(*a, **o), lambda x, *a, **o: getattr(x, name)(*a, **o), args, kwargs, char)
    else:
        compare(getattr(tg, name), getattr(torch, name), args, kwargs, char)


def test_every_row_of_the_page_is_compared():
    told = {name for section in ("Tensors", "Functions") for name in names.calls_of(section)} | {n for row in names.rows_of("NumPy's functions") for n in row[0].split(", ")}
    apart = {"to", "long", "int", "uniform_", "normal_", "tril_indices", "triu_indices"}  # below
    assert told - apart <= set(CALLS)
    assert {name for row in names.rows_of("tg.nn.functional") for name in names.calls_of("tg.nn.functional")} <= set(FUNCTIONAL)


@pytest.mark.parametrize("name", WRONG)
def test_what_pytorch_refuses_is_refused(name):
    args = WRONG[name]
    for library, made in ((tg, here), (torch, in_torch)):
        operands = [made(x, "d") for x in args]
        with pytest.raises((ValueError, IndexError, RuntimeError, TypeError, AssertionError)):
            getattr(library, name)(*operands) if hasattr(library, name) and name != "scatter" else getattr(operands[0], name)(*operands[1:])


PROBABLE = RNG.uniform(0.1, 0.9, size=(3, 4))
FUNCTIONAL = {
    **{name: [((M * 2,), {})] for name in "elu selu celu gelu silu mish logsigmoid hardtanh relu6 softsign tanhshrink relu sigmoid tanh softplus leaky_relu".split() if name != "celu"},
    "softmin": [((M,), {"dim": 1})], "softmax": [((M,), {"dim": 0})], "log_softmax": [((M,), {"dim": -1})], "glu": [((M,), {}), ((N,), {"dim": 0})], "linear": [((M, T), {}), ((M, T, W), {}), ((B, T, W), {}), ((V, T, W), {})],
    "layer_norm": [((M, (4,)), {}), ((B, (3, 4), T, M), {}), ((M, [4], V), {"eps": 1e-3})], "normalize": [((M,), {}), ((M,), {"dim": 0, "p": 1.0}), ((B,), {"dim": -1}), ((B,), {"dim": (0, 2)}), ((B,), {"dim": (1, 2), "p": 3.0})],
    "cosine_similarity": [((M, T), {}), ((B, B[::-1].copy()), {"dim": 2}), ((B, M), {"dim": 1}), ((V, M), {"dim": -1})],
    "embedding": [((AT, RNG.normal(size=(5, 3))), {})], "one_hot": [((AT, 4), {}), ((CLASSES,), {})],
    "dropout": [((M, 0.5, False), {}), ((M,), {"p": 0.0})], "identity": [], "flatten": [],
    **{name: [((M, T), {}), ((M, T), {"reduction": "sum"}), ((M, T), {"reduction": "none"})] for name in ("l1_loss", "mse_loss", "smooth_l1_loss", "huber_loss")},
    "binary_cross_entropy": [((PROBABLE, PROBABLE[::-1].copy()), {}), ((PROBABLE, 1.0 * MASK), {"reduction": "sum"})], "nll_loss": [((M, CLASSES), {}), ((M, CLASSES), {"reduction": "none"})],
    "cross_entropy": [((M, CLASSES), {}), ((M, CLASSES), {"reduction": "sum"})], "binary_cross_entropy_with_logits": [((M, PROBABLE), {})], "kl_div": [((np.log(PROBABLE), PROBABLE[::-1].copy()), {"reduction": "sum"}), ((M, T), {"log_target": True, "reduction": "none"})],
    "gaussian_nll_loss": [((M, T, P), {}), ((M, T, P), {"eps": float(np.median(P))}), ((M, T, P), {"reduction": "sum"}), ((S, D, W**2), {}), ((B, B[::-1].copy(), P[:2, :3]), {})], "poisson_nll_loss": [((M, P), {}), ((P, P[::-1].copy()), {"log_input": False})],
}  # fmt: skip
FUNCTIONAL["smooth_l1_loss"].append(((M, T), {"beta": 0.3}))
FUNCTIONAL["huber_loss"].append(((M, T), {"delta": 0.3}))
FUNCTIONAL["gelu"].append(((M,), {"approximate": "tanh"}))
FUNCTIONAL["elu"].append(((M, 0.5), {}))
FUNCTIONAL["leaky_relu"].append(((M, 0.2), {}))
FUNCTIONAL["hardtanh"].append(((M, -0.1, 0.4), {}))


@pytest.mark.parametrize("char", "df")
@pytest.mark.parametrize("name, k", [(name, k) for name, calls in FUNCTIONAL.items() for k in range(len(calls))])
def test_functional_as_in_pytorch(name, k, char):
    args, kwargs = FUNCTIONAL[name][k]
    compare(getattr(tg.nn.functional, name), getattr(torch.nn.functional, name), args, kwargs, char)


@pytest.mark.parametrize("name", "relu leaky_relu elu selu gelu silu hardtanh relu6 softsign tanhshrink logsigmoid mish softplus".split())
def test_derivatives_at_kinks_are_those_of_pytorch(name):
    compare(getattr(tg.nn.functional, name), getattr(torch.nn.functional, name), (np.array([-1.0, 0.0, 1.0, 6.0, -40.0]),), {})
