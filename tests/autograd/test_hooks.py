"""``retain_grad`` and hooks beside changes in place: `.grad` is the tensor's, by the value that it has; a hook stays with the value it was put on."""

import gc

import numpy as np
import pytest

import tapegrad as tg

#: Changes of y = 2 x and its view v = y[:2]; w = x * x.  PyTorch's names of functions stand where NumPy's functions have none.
CHANGES = {
    "y += w": lambda lib, y, v, w: y.__iadd__(w),
    "y *= w": lambda lib, y, v, w: y.__imul__(w),
    "one element": lambda lib, y, v, w: y.__setitem__(0, w[1]),
    "all elements": lambda lib, y, v, w: y.__setitem__(..., w),
    "a number": lambda lib, y, v, w: y.__setitem__(..., 4.0),
    "a mask": lambda lib, y, v, w: y.__setitem__(y > 3.0, 1.0),
    "positions": lambda lib, y, v, w: y.__setitem__([0, 2], w[:2]),
    "beside the view": lambda lib, y, v, w: y.__setitem__(2, w[0]),
    "through the view": lambda lib, y, v, w: v.__imul__(3.0),
    "an element of the view": lambda lib, y, v, w: v.__setitem__(1, w[0]),
    "another view": lambda lib, y, v, w: y[1:].__imul__(w[1:]),
    "a shape": lambda lib, y, v, w: y.reshape(3, 1).__setitem__(1, w[2]),
    "methods": lambda lib, y, v, w: (y.mul_(w), v.add_(1.0)),
    "out": lambda lib, y, v, w: np.multiply(y, w, out=y) if lib is tg else y.mul_(w),
    "copyto": lambda lib, y, v, w: np.copyto(v, w[1:]) if lib is tg else v.copy_(w[1:]),
}


def gradients(lib, change, before, create_graph=False):
    """The gradients by x, y and v, of a loss of y and v as they are after a change; and y and v."""
    x = (tg.tensor([1.0, 2.0, 3.0]) if lib is tg else lib.tensor([1.0, 2.0, 3.0], dtype=lib.float64)).requires_grad_(True)
    y = x * 2.0
    v = y[:2]
    for t in (y, v) if before else ():
        t.retain_grad()
    change(lib, y, v, x * x)
    for t in () if before else (y, v):
        t.retain_grad()
    assert y.retains_grad and v.retains_grad
    (np.sum(y**2) + np.sum(v**3) if lib is tg else (y**2).sum() + (v**3).sum()).backward(create_graph=create_graph)
    return [np.array(t.detach()) for t in (x.grad, y.grad, v.grad, y, v)]


@pytest.mark.parametrize("name", CHANGES)
def test_a_retained_gradient_is_by_the_value_after_the_change(name):
    first = gradients(tg, CHANGES[name], False)
    for create_graph in (False, True):
        x, dy, dv, y, v = gradients(tg, CHANGES[name], True, create_graph)
        np.testing.assert_allclose(dv, 3.0 * v**2)
        np.testing.assert_allclose(dy, 2.0 * y + np.append(dv, 0.0))
        np.testing.assert_array_equal(x, first[0])
    torch = pytest.importorskip("torch")
    for ours, theirs in zip((x, dy, dv, y, v), gradients(torch, CHANGES[name], True)):
        np.testing.assert_allclose(ours, theirs)


def test_numbers_and_complex_numbers():
    x = tg.tensor(2.0, requires_grad=True)
    y = x * 2.0
    y.retain_grad()
    y *= 3.0
    y.mul_(x)
    (y * 5.0).backward()
    assert (y.grad.item(), x.grad.item()) == (5.0, 5.0 * 12.0 * 2.0)
    z = tg.tensor([1.0 + 2.0j, 3.0], requires_grad=True)
    w = z * 1j
    w.retain_grad()
    w[0] = w[1] * w[1]
    np.sum(np.abs(w) ** 2).backward()
    np.testing.assert_allclose(w.grad.numpy(), 2.0 * w.numpy())


def test_a_retained_gradient_after_instructions_were_reclaimed():
    x = tg.tensor([1.0, 2.0], requires_grad=True)
    y = x * 2.0
    y.retain_grad()
    for _ in range(3000):
        y *= 1.0
        x * 2.0
    gc.collect()
    np.sum(y * y).backward()
    np.testing.assert_array_equal(y.grad.numpy(), 2.0 * y.numpy())


def test_hooks_stay_with_the_value_they_were_put_on():
    x = tg.tensor([1.0, 2.0], requires_grad=True)
    y, seen = x * 2.0, []
    y.register_hook(seen.append)
    y.grad_fn.register_prehook(lambda outer: seen.append(outer[0]))
    y *= 3.0
    y.register_hook(seen.append)
    np.sum(y).backward()
    assert [g.tolist() for g in seen] == [[1.0, 1.0], [3.0, 3.0], [3.0, 3.0]]


@pytest.mark.parametrize("create_graph", [False, True])
def test_the_hook_of_a_leaf_gets_the_sum_of_all_roots(create_graph):
    """Also of a leaf that is a root itself, and of roots on several tapes."""
    for through in (lambda x: (x, x * 2.0), lambda x: (x, x), lambda x: (apart(x, 1.0), apart(x, 2.0)), lambda x: (x, apart(x, 1.0), x * 1.0)):
        x, seen = tg.tensor([1.0, 2.0], requires_grad=True), []
        x.register_hook(lambda g, seen=seen: (seen.append(g.tolist()), g * g)[1])
        roots = through(x)
        (found,) = tg.autograd.grad(roots, [x], [np.ones(2)] * len(roots), retain_graph=True, create_graph=create_graph)
        tg.autograd.backward(roots, [np.ones(2)] * len(roots), create_graph=create_graph)
        total = 2.0 if roots[-1] is x else 3.0
        assert (seen, found.tolist(), x.grad.tolist()) == ([[total] * 2] * 2, [total**2] * 2, [total**2] * 2)


@pytest.mark.parametrize("create_graph", [False, True])
def test_a_gradient_by_some_tensors_meets_observers_on_the_way_to_them_only(create_graph):
    x, w, seen = tg.tensor([1.0, 2.0], requires_grad=True), tg.tensor(3.0, requires_grad=True), []
    on, off = x * 2.0, np.exp(w)
    for t in (on, off):
        t.retain_grad()
        t.register_hook(lambda g, t=t: seen.append(t is on))
        t.grad_fn.register_prehook(lambda outer, t=t: seen.append(t is on))
    y = np.sum(on) * off
    tg.autograd.grad(y, [x], retain_graph=True, create_graph=create_graph)
    assert seen == [True, True] and on.grad is not None and off.grad is None
    y.backward(inputs=[w], retain_graph=True, create_graph=create_graph)
    assert seen == [True, True, False, False] and off.grad.item() == 6.0
    x.register_hook(lambda g: seen.append(x))
    assert tg.autograd.grad([x, on], [w], [np.ones(2)] * 2, retain_graph=True, create_graph=create_graph, allow_unused=True) == (None,) and len(seen) == 4


def apart(x, factor):
    with tg.Tape():
        return x * factor


def test_hooks_are_called_wherever_adjoints_pass():
    def by_value(x):
        y = 2.0 * x
        y.register_hook(lambda g: 3.0 * g)
        return np.sum(y**2)

    def by_argument(x):
        x.register_hook(lambda g: 3.0 * g)
        return np.sum((2.0 * x) ** 2)

    def by_node(x):
        y = 2.0 * x
        y.grad_fn.register_hook(lambda inner, outer: tuple(g and 3.0 * g for g in inner))
        return np.sum(y**2)

    x, ones = np.array([1.0, 2.0]), np.ones(2)
    for f in (by_value, by_argument, lambda x: by_node(x[0]) + by_node(x[1])):
        expected = tg.grad(f)(x)
        np.testing.assert_array_equal(expected, 24.0 * x)
        for found in (tg.jacobian(f)(x), tg.jacrev(f)(x), tg.vjp(f, x)[1](1.0)[0], tg.grad(tg.checkpoint(f))(x), tg.jit(tg.jacobian(f))(x)):
            np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(tg.jacobian(lambda x, f=f: f(x) * ones)(x), [expected, expected])
        np.testing.assert_array_equal(tg.hessian(f)(x) @ ones, tg.hvp(f)(x, ones))

    def in_place(x):
        with tg.no_grad():
            x *= 2.0
        return by_value(x)

    with pytest.raises(tg.errors.ModifiedInPlaceError, match="registers a hook; let it change a copy"):
        tg.jacobian(in_place)(x)
