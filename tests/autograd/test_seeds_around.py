"""Seeds of `autograd.grad` and `backward` that depend on what is being differentiated or recorded around."""

import numpy as np
import pytest

import tapegrad as tg

EYE, AT = np.eye(2), np.array([1.0, 2.0])
x = tg.tensor(AT, requires_grad=True)
y = x * x


def asked(s):
    return tg.autograd.grad(y, x, s, retain_graph=True)[0]


def asked_inside(s):
    z = tg.tensor(AT, requires_grad=True)
    return tg.autograd.grad(z * z, z, s)[0]


def several(s):
    return tg.autograd.grad([y, y.sum()], [x], [s, 0.0 * s[0]], retain_graph=True)[0]


def of_a_product(s):
    return tg.autograd.grad(y, x, np.sin(s) * s[0], retain_graph=True)[0]


def left(s):
    x.grad = None
    y.backward(s, retain_graph=True)
    return x.grad * 1.0


def from_a_hook(s):
    handle = y.register_hook(lambda g: g * s)
    try:
        return tg.autograd.grad(y, x, np.ones(2), retain_graph=True)[0]
    finally:
        handle.remove()


def from_a_node(s):
    return 2.0 * y.grad_fn(s)[0]


WAYS = {
    "vmap": lambda f: tg.vmap(f)(EYE),
    "vmap under jit": lambda f: [g(EYE) for g in [tg.jit(tg.vmap(f))] for _ in range(2)][1],
    "scan": lambda f: tg.scan(lambda c, s: (c, f(s)), 0.0, EYE)[1],
    "jit": lambda f: np.stack([g(s) for g in [tg.jit(f)] for s in (EYE[0] + 1.0, *EYE)][1:]),
    "jacrev": lambda f: tg.jacrev(f)(AT),
    "jacfwd": lambda f: tg.jacfwd(f)(AT),
    "jacobian under jit": lambda f: [g(s) for g in [tg.jit(tg.jacobian(f))] for s in (EYE[0], AT)][1],
    "grads": lambda f: np.stack([tg.grad(lambda s, k=k: f(s)[k])(AT) for k in range(2)]),
}


def test_the_derivative_by_a_seed():
    for f in (asked, asked_inside, several):
        for name, way in WAYS.items():
            if f is asked_inside and name.startswith(("vmap", "scan", "jit", "jacobian under")):
                continue
            np.testing.assert_allclose(way(f), 2.0 * np.diag(AT), err_msg=f"{f.__name__} {name}")
    s = np.array([0.3, -0.7])
    by_hand = 2.0 * AT[:, None] * (np.diag(np.cos(s) * s[0]) + np.outer(np.sin(s), [1.0, 0.0]))
    for jacobian in (tg.jacrev(of_a_product), tg.jacfwd(of_a_product), tg.jit(tg.jacobian(of_a_product))):
        np.testing.assert_allclose(jacobian(s), by_hand, rtol=1e-14)
    assert not asked(EYE[0]).requires_grad and not asked(tg.tensor(EYE[0], requires_grad=True)).requires_grad


def test_what_is_left_in_grad():
    np.testing.assert_array_equal(tg.jacrev(left)(AT), 2.0 * np.diag(AT))
    with pytest.warns(tg.PathWarning, match="accumulates gradients"):
        replayed = tg.jit(left)
        assert [replayed(s).tolist() for s in EYE] == [[2.0, 0.0], [0.0, 4.0]]
    # A loop over such a body is the Python loop.
    np.testing.assert_array_equal(tg.vmap(left)(EYE), 2.0 * np.diag(AT))
    np.testing.assert_array_equal(tg.vmap(left)(EYE + 1.0), 2.0 * AT * (EYE + 1.0))


@pytest.mark.parametrize("f", [from_a_hook, from_a_node])
def test_seeds_of_hooks_and_nodes(f):
    for name in ("vmap", "scan", "jit"):
        np.testing.assert_allclose(WAYS[name](f), np.diag(2.0 * AT), err_msg=name)
