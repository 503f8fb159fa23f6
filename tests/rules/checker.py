"""Checks of a function of arrays: value against NumPy, gradient against differences, forward mode against both."""

import numpy as np

import tapegrad as tg

#: dtype character -> (relative tolerance of values, of gradients, step of the differences)
TOLERANCES = {"d": (1e-12, 2e-6, 1e-5), "f": (2e-5, 2e-3, None)}


def generator(seed=0):
    return np.random.default_rng(seed)


def leaf(value):
    return tg.tensor(value, requires_grad=True)


def plain(result):
    """The value of a tensor, or of a list of them joined flat."""
    if isinstance(result, (list, tuple)):
        return np.concatenate([np.ravel(plain(r)) for r in result])
    return np.asarray(result.detach().numpy() if isinstance(result, tg.Traced) else result)


def joined(result):
    if isinstance(result, (list, tuple)):
        return tg.concatenate([tg.reshape(r, (-1,)) for r in result])
    return result


def check(function, *arrays, reference=None, directions=2, rtol=None, atol=None, node=False, seed=0, forward_rtol=None):
    """Compare `function` on tensors with `reference` on arrays, and its gradient with differences.

    Parameters
    ----------
    function : callable
        Takes tensors, gives a tensor or a list of tensors.
    *arrays : float or ndarray
        Values of the leaves; kept as they are (strides included), Python floats
        as scalars.
    reference : callable, optional
        The same function on plain arrays; `function` itself by default.
    directions : int
        Random directions along which the gradient is compared.
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
    reference = reference or function
    rng = generator(seed)
    kinds = {np.asarray(a).dtype.char for a in arrays}
    char = "f" if "f" in kinds else "d"
    value_tolerance, gradient_tolerance, step = TOLERANCES[char]
    leaves = [wrap(a) for a in arrays]
    result = joined(function(*leaves))
    expected = plain(reference(*[a if isinstance(a, float) else np.array(a) for a in arrays]))
    assert result.shape == expected.shape, (result.shape, expected.shape)
    assert result.requires_grad
    if kinds == {"f"}:
        assert result.dtype == np.float32
    found = plain(result)
    np.testing.assert_allclose(found, expected, rtol=value_tolerance, atol=atol or value_tolerance)

    weights = rng.standard_normal(found.shape)
    if found.size:
        w = weights.astype(result.dtype)
        from_node = None
        if node:
            from_node = result.grad_fn(w)
            from_node = from_node if isinstance(from_node, tuple) else (from_node,)
        result.backward(w)
        gradients = [t.grad for t in leaves]
    else:
        result.backward(weights.astype(result.dtype))
        gradients = [t.grad if t.grad is not None else tg.zeros_like(t) for t in leaves]
    for t, g in zip(leaves, gradients):
        assert g is not None, "a leaf has no gradient"
        assert g.shape == t.shape and g.dtype == t.dtype, (g.shape, g.dtype, t.shape, t.dtype)
    arrays_of = [plain(g) for g in gradients]
    if found.size and node:
        tolerance = dict(rtol=1e-12, atol=1e-12) if char == "d" else dict(rtol=1e-3, atol=1e-4)
        for given, g in zip(from_node, arrays_of):
            np.testing.assert_allclose(plain(given), g, **tolerance)
    check_forward(function, arrays, found, weights, arrays_of, rng, forward_rtol)
    if not found.size:
        return arrays_of

    wide = [np.asarray(a, np.float64) for a in arrays]
    step = step or 1e-5
    for _ in range(directions):
        ways = [rng.standard_normal(a.shape) for a in wide]
        exact = sum(float(np.sum(g * d)) for g, d in zip(arrays_of, ways))
        sides = []
        for sign in (1, -1):
            moved = [a + sign * step * d for a, d in zip(wide, ways)]
            sides.append(float(np.sum(plain(reference(*moved)) * weights)))
        measured = (sides[0] - sides[1]) / (2 * step)
        scale = 1.0 + max(abs(exact), abs(measured), *(float(np.max(np.abs(g), initial=0.0)) for g in arrays_of))
        assert abs(exact - measured) <= (rtol or gradient_tolerance) * scale, (exact, measured)
    return arrays_of


#: Tangents of one pass of dual numbers.
LANES = 4


def check_forward(function, arrays, value, weights, gradients, rng, rtol=None):
    """Forward mode on dual numbers: the same value, and tangents that fit the gradients.

    For tangents u and the adjoint w, ``w . (J u) == (J^T w) . u``, with one tangent
    and with several in one pass.
    """
    several = [rng.standard_normal((LANES, *np.shape(a))).astype(np.asarray(a).dtype) for a in arrays]
    ways = [[u[0] for u in several], several]
    char = value.dtype.char
    for lanes, tangents in zip((None, LANES), ways):
        duals = [tg.Dual(a, u, lanes=lanes, level=1) for a, u in zip(arrays, tangents)]
        result = joined(function(*duals))
        assert isinstance(result, tg.Dual)
        np.testing.assert_allclose(np.asarray(result.value), value, rtol=1e-14 if char == "d" else 1e-6)
        tangent = np.asarray(result.tangent)
        assert tangent.shape == (value.shape if lanes is None else (lanes, *value.shape))
        assert tangent.dtype == value.dtype
        for k in range(lanes or 1):
            moved = tangent if lanes is None else tangent[k]
            ahead = float(np.sum(np.asarray(moved, float) * weights))
            terms = [float(np.sum(np.asarray(g, float) * u[k])) for g, u in zip(gradients, several)]
            sizes = [np.sum(np.abs(g * u[k])) for g, u in zip(gradients, several)]
            scale = 1.0 + np.sum(np.abs(moved * weights)) + sum(sizes)
            tolerance = rtol or (1e-10 if char == "d" else 1e-3)
            assert abs(ahead - sum(terms)) <= tolerance * scale, (lanes, k, ahead, sum(terms))


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
