"""`tg.check` as the tests call it, and a few conveniences."""

import numpy as np

import tapegrad as tg
from tapegrad.tools.check import CHECKS


def generator(seed=0):
    return np.random.default_rng(seed)


def leaf(value):
    return tg.tensor(value, requires_grad=True)


def plain(result):
    """The value of a tensor, or of a list of them joined flat."""
    if isinstance(result, (list, tuple)):
        return np.concatenate([np.ravel(plain(r)) for r in result])
    return np.asarray(result.detach().numpy() if isinstance(result, tg.Differentiable) else result)


def check(function, *arrays, reference=None, node=False, rtol=None, forward_rtol=None, **options):
    """`tg.check`, and what every primitive does besides.

    Parameters
    ----------
    function, arrays, reference, options
        As of `tg.check`.
    node : bool
        Also compare ``result.grad_fn(seed)`` with the gradients of the leaves,
        which must be the operands of that node, in order.
    forward_rtol : float, optional
        Tolerance of tangents against gradients.

    Returns
    -------
    list of ndarray
        The gradients.
    """
    # Replays, kernels and second derivatives of every row are modes of their own (`tests.matrix`), stacks of transformations are in
    # tests/rules/test_stacks.py, what Numba compiles in tests/nopython.
    options.setdefault("modes", [name for name in CHECKS if name not in ("replay", "kernel", "second", "numba", "compose")])
    report = tg.check(function, *arrays, reference=reference, rtol=max(rtol or 0.0, forward_rtol or 0.0) or None, **options)
    assert any(r.requires_grad for r in report.results)
    if {np.asarray(a).dtype.char for a in arrays} == {"f"}:
        assert all(r.dtype == np.float32 for r in report.results)
    if node and report.results[0].size:
        (result,), (weights,) = report.results, report.weights
        given = result.grad_fn(weights.astype(result.dtype))
        tolerance = dict(rtol=1e-12, atol=1e-12) if result.dtype == np.float64 else dict(rtol=1e-3, atol=1e-4)
        for one, g in zip(given if isinstance(given, tuple) else (given,), report.gradients):
            np.testing.assert_allclose(plain(one), g, **tolerance)
    return report.gradients


def wrap(a):
    """A leaf that keeps the strides of `a` (``tg.tensor`` would copy it in C order)."""
    if isinstance(a, float):
        return leaf(a)
    a = np.asarray(a)
    t = tg.from_numpy(a)
    t.requires_grad_(True)
    assert t.shape == a.shape
    return t


def gradient(function, *arrays, seed=None):
    """The gradients of the sum (or seeded sum) of `function`, as arrays."""
    leaves = [wrap(a) for a in arrays]
    result = function(*leaves)
    result.backward(np.ones(result.shape, result.dtype) if seed is None else seed)
    found = [plain(t.grad) if t.grad is not None else None for t in leaves]
    return found[0] if len(found) == 1 else found
