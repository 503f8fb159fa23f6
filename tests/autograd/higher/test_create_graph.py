"""Gradients that are recorded: to any order, beside the loss, with hooks, and flat in memory."""

import gc
import itertools
import os
import sys

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.autograd import adjoint, passes
from tapegrad.common.errors import ClearedTapeError, GradientError, HigherOrderError
from tapegrad.tape.store import TapeStore, thread_state
from tests.every import every
from tests.rules.checker import generator, leaf, plain
from tests.threads import in_threads

grad = tg.autograd.grad


def derivatives(function, x, order):
    """Value and derivatives of a function of one number."""
    t = leaf(x)
    found = [function(t)]
    for _ in range(order):
        (g,) = grad(found[-1], t, create_graph=True)
        found.append(g)
    return [y.item() for y in found]


@pytest.mark.parametrize("x", [0.7, -1.3, 2.0])
def test_scalars_to_the_fourth_order(x):
    s, c, e = np.sin(x), np.cos(x), np.exp(x)
    assert derivatives(lambda t: t**5, x, 4) == pytest.approx([x**5, 5 * x**4, 20 * x**3, 60 * x**2, 120 * x], rel=1e-13)
    assert derivatives(np.sin, x, 4) == pytest.approx([s, c, -s, -c, s], rel=1e-14)
    expected = [e * s, e * (s + c), 2 * e * c, 2 * e * (c - s), -4 * e * s]
    assert derivatives(lambda t: np.exp(t) * np.sin(t), x, 4) == pytest.approx(expected, rel=1e-12)
    assert derivatives(lambda t: (t * t * t) * (t * t), x, 4) == pytest.approx(derivatives(lambda t: t**5, x, 4), rel=1e-13)


MATRIX = {
    "inv": lambda a: np.linalg.inv(a)[0, 1],
    "solve": lambda a: np.sum(np.linalg.solve(a, np.arange(3.0)) ** 2),
    "matmul": lambda a: np.sum((a @ a @ a) * np.arange(9.0).reshape(3, 3)) ** 2,
    "det": lambda a: np.linalg.det(a) ** 2,
    "slogdet": lambda a: np.linalg.slogdet(a)[1],
    "cholesky": lambda a: np.sum(np.linalg.cholesky(a @ a.T) * np.arange(9.0).reshape(3, 3)),
    "eigh": lambda a: np.linalg.eigh(a @ a.T)[0][0],
    "norm": lambda a: np.linalg.norm(a) ** 3,
}


@pytest.mark.parametrize("name", MATRIX)
def test_matrix_functions_to_the_fourth_order(name):
    """Along one line, against derivatives of one order less that are differenced."""
    f, rng = MATRIX[name], generator(3)
    a, d = rng.standard_normal((3, 3)) + 3.0 * np.eye(3), rng.standard_normal((3, 3))

    def along(s, order):
        t = leaf(s)
        y = f(a + t * d)
        for _ in range(order):
            (y,) = grad(y, t, create_graph=True)
        return y.item()

    h = 1e-4
    for order in range(1, 5):
        found = along(0.0, order)
        measured = (along(h, order - 1) - along(-h, order - 1)) / (2 * h)
        assert found == pytest.approx(measured, rel=1e-5, abs=1e-6), order


@pytest.mark.parametrize("matrix", [np.diag(s).astype(float) for s in ([1, 1, 1], [1, 2, 0], [2, 2, 1], [2, 2, 0], [1, 0, 0], [0, 0, 0])])
def test_second_derivative_of_det_at_special_matrices(matrix):
    """The second derivative of det is linear in a 3 x 3 matrix: the same at singular ones and at equal singular values."""
    rng = generator(4)
    u, v = rng.standard_normal((2, 3, 3))

    def second(a):
        t = leaf(a)
        (g,) = grad(np.linalg.det(t), t, create_graph=True)
        return np.sum(plain(grad(np.sum(g * u), t)[0]) * v)

    d = 0.3 * np.eye(3) + 0.1 * rng.standard_normal((3, 3))
    assert second(matrix) == pytest.approx((second(matrix + d) + second(matrix - d)) / 2, rel=1e-10)


def test_hessian_where_the_gradient_is_zero():
    x = leaf(1.0)
    (g,) = grad((x - 1) ** 2, x, create_graph=True)
    assert g.item() == 0.0
    assert grad(g, x)[0].item() == 2.0
    v = leaf(np.zeros(3))
    (g,) = grad(np.sum(v**3 + v * v[::-1]), v, create_graph=True)
    rows = [plain(grad(g[k], v, retain_graph=True)[0]) for k in range(3)]
    np.testing.assert_array_equal(rows, 2.0 * np.eye(3)[::-1])


def test_zero_is_absolute_at_second_order():
    x = leaf(np.array([0.0, 4.0]))
    y = np.sum(np.where(x > 0.0, np.sqrt(x), x * x))
    (g,) = grad(y, x, create_graph=True)
    np.testing.assert_allclose(plain(g), [0.0, 0.25])
    np.testing.assert_allclose(plain(grad(np.sum(g), x)[0]), [2.0, -1.0 / 32.0])


@pytest.mark.parametrize("retain", [None, True, False])
def test_loss_and_gradient_together(retain):
    """A gradient penalty, in the three ways to ask for the gradient."""
    a = np.array([[2.0, 0.5], [0.5, 1.0]])
    w = leaf(np.array([1.0, -2.0]))
    loss = 0.5 * np.sum(w * (a @ w))
    (g,) = grad(loss, w, create_graph=True, retain_graph=retain)
    (loss + np.sum(g * g)).backward()
    expected = a @ plain(w) + 2.0 * a @ a @ plain(w)
    np.testing.assert_allclose(plain(w.grad), expected, rtol=1e-14)
    with pytest.raises(ClearedTapeError):
        loss.backward()


def test_backward_accumulates_recorded_gradients():
    x = leaf(3.0)
    for k in (1, 2):
        (x**3).backward(create_graph=True)
        assert x.grad.item() == 27.0 * k and x.grad.requires_grad
    assert grad(x.grad, x)[0].item() == 36.0
    x.zero_grad()
    (x**3).backward(create_graph=True)
    recorded = x.grad
    (2.0 * x).backward()
    assert x.grad.item() == 29.0 and not x.grad.requires_grad and recorded.item() == 27.0


def test_seeds_may_be_on_the_tape():
    """The pull-back is linear in its seed: differentiated in it, it is the push-forward."""
    x = leaf(np.array([1.0, 2.0, 3.0]))
    v = leaf(np.zeros(3))
    (g,) = grad(np.sin(x) * x[0], x, v, create_graph=True)
    (tangent,) = grad(g, v, np.array([1.0, 0.0, 2.0]))
    expected = tg.jvp(lambda x: np.sin(x) * x[0], (plain(x),), (np.array([1.0, 0.0, 2.0]),))[1]
    np.testing.assert_allclose(plain(tangent), expected, rtol=1e-14)


def test_interior_inputs_and_unused_ones():
    x, unused = leaf(2.0), leaf(1.0)
    y = x * x
    z = y * y * x
    to_y, to_x, nothing = grad(z, [y, x, unused], create_graph=True, allow_unused=True)
    assert (to_y.item(), to_x.item(), nothing) == (16.0, 80.0, None)
    assert grad(to_y, x)[0].item() == 24.0
    with pytest.raises(GradientError, match="not have been used"):
        grad(x * x, unused, create_graph=True)


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("hooked", [False, True])
def test_an_input_that_is_asked_for_twice_has_its_gradient_twice(create_graph, hooked):
    x = leaf([1.0, 2.0])
    y = x * 2.0
    if hooked:
        y.register_hook(lambda g: g)
    gradients = tg.autograd.grad((y**3).sum(), [x, y, x, y], create_graph=create_graph, retain_graph=True)
    assert [g.tolist() for g in gradients] == 2 * [[24.0, 96.0], [12.0, 48.0]]
    (y**3).sum().backward(inputs=[x, x], create_graph=create_graph)
    assert x.grad.tolist() == [24.0, 96.0]


@pytest.mark.parametrize("hooked", [False, True])
@pytest.mark.parametrize("of", [np.sum, lambda h: np.sum(h * h), lambda h: np.sum(2.0 * h.reshape(-1))])
def test_a_gradient_is_changed_in_place_and_no_other_is(of, hooked):
    x, y = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    h = x + y
    if hooked:
        h.register_hook(lambda g: g)
    of(h).backward(create_graph=True)
    expected = y.grad.tolist()
    x.grad.mul_(3.0)
    assert (x.grad.tolist(), y.grad.tolist()) == ([3 * g for g in expected], expected)
    (x * 1.0).sum().backward()
    assert x.grad.tolist() == [3 * g + 1 for g in expected]


def test_a_gradient_is_not_the_seed():
    x, seed = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    (x + 1.0).backward(seed, create_graph=True)
    with tg.no_grad():
        seed.zero_()
    assert x.grad.tolist() == [3.0, 4.0]


@every("hooked", [False, True])
def test_what_is_reached_and_handed_nothing_has_a_gradient_of_zero(hooked):
    """... as in a pass that records nothing; None is for what is not reached."""
    for create_graph in (False, True):
        x, w, unused = (tg.tensor(v, requires_grad=True) for v in ([1.0, 2.0], 0.3, 1.0))
        y = x * 1.0
        if hooked:
            y.register_hook(lambda g: None)
        loss = np.sum(np.sign(y)) + np.floor(w)
        found = tg.autograd.grad(loss, (x, y, w, unused), create_graph=create_graph, retain_graph=True, allow_unused=True)
        loss.backward(create_graph=create_graph)
        for gradients in (found, (x.grad, found[1], w.grad, unused.grad)):
            assert [None if g is None else g.tolist() for g in gradients] == [[0.0, 0.0], [0.0, 0.0], 0.0, None]


def test_hooks_see_tensors_and_may_answer_with_them():
    x, seen = leaf(2.0), []
    y = x * x
    y.register_hook(lambda g: seen.append(("y", g.item())))
    x.register_hook(lambda g: g * x)
    y.retain_grad()
    (y * x).backward(create_graph=True)
    assert seen == [("y", 2.0)] and y.grad.item() == 2.0
    # 3 x ** 2, times x by the hook
    assert x.grad.item() == 24.0
    assert grad(x.grad, x)[0].item() == 36.0 * 2.0


def test_hooks_on_nodes_see_tensors_and_may_answer_with_them():
    x, w, seen = leaf(2.0), leaf(3.0), []
    y = x * w
    y.grad_fn.register_hook(lambda inputs, outputs: seen.append((inputs, outputs)))
    # What goes to x is multiplied by x, what goes to w by 10.
    handle = y.grad_fn.register_hook(lambda inputs, outputs: (inputs[0] * x, inputs[1] * 10.0))
    found = grad(y**2, (x, w), create_graph=True)
    (inputs, outputs), = seen
    # y ** 2 is handed 2 x w, so x gets 2 x w ** 2 * x and w gets 20 x ** 2 w.
    assert [v.item() for v in (*inputs, *outputs)] == [36.0, 24.0, 12.0] and [g.item() for g in found] == [72.0, 240.0]
    # The hook is asked again where the node is passed again; as in PyTorch.
    again = [[g.item() for g in grad(t, (x, w), retain_graph=True)] for t in (inputs[0], *found)]
    assert again == [[36.0, 132.0], [108.0, 264.0], [360.0, 800.0]] and len(seen) == 4
    handle.remove()
    again = [[g.item() for g in grad(t, (x, w), retain_graph=True)] for t in (inputs[0], *found)]
    assert again == [[2.0 * 9.0, 4.0 * 6.0], [4.0 * 18.0, 4.0 * 12.0], [40.0 * 6.0, 20.0 * 4.0]]


def test_hooks_on_nodes_of_arrays_and_constants():
    """Constants have no gradient, an operand that is not asked for has one; elements read one by one; the wrong number of answers."""
    v, c, seen = leaf(np.arange(1.0, 7.0)), np.full(6, 2.0), []
    t = v * c
    t.grad_fn.register_hook(lambda inputs, outputs: seen.append(inputs))
    e = t[4]
    handle = e.grad_fn.register_hook(lambda inputs, outputs: (3.0 * inputs[0],))
    (g,) = grad(np.sum(t**3) + e**2, v, create_graph=True)
    expected = 2.0 * (3.0 * (2.0 * plain(v)) ** 2 + np.eye(6)[4] * 3.0 * 2.0 * 10.0)
    np.testing.assert_array_equal(plain(g), expected)
    assert seen[0][1] is None and isinstance(seen[0][0], tg.Tensor)
    handle.remove()
    (h,) = grad(np.sum(g), v)
    np.testing.assert_array_equal(plain(h), 2.0 * (24.0 * plain(v) + np.eye(6)[4] * 3.0 * 4.0))
    a, b, both = leaf(2.0), leaf(3.0), []
    y = a * b
    y.grad_fn.register_hook(lambda inputs, outputs: both.append(inputs))
    grad(y, a, create_graph=True)
    assert [g.item() for g in both[0]] == [3.0, 2.0]
    y.grad_fn.register_hook(lambda inputs, outputs: (inputs[0],))
    with pytest.raises(GradientError, match="1 gradients for 2"):
        grad(y, a, create_graph=True)


def test_recorded_under_no_grad_too():
    x = leaf(2.0)
    y = x**3
    with tg.no_grad():
        (g,) = grad(y, x, create_graph=True)
    assert grad(g, x)[0].item() == 12.0


def test_assignments_and_views():
    def f(x):
        y = tg.zeros(4)
        y[1:3] = x**2
        y[0] = x[0] * x[1]
        z = y[::2]
        z *= 2.0
        return np.sum(y * y)

    x = leaf(np.array([1.5, -0.5]))
    (g,) = grad(f(x), x, create_graph=True)
    (hv,) = grad(np.sum(g * np.array([1.0, 2.0])), x)
    forward = tg.jvp(lambda x: tg.jvp(f, (x,), (np.array([1.0, 2.0]),))[1], (plain(x),), (np.array([1.0, 0.0]),))[1]
    assert plain(hv)[0] == pytest.approx(forward, rel=1e-13)


def test_float32_stays():
    x = leaf(np.array([1.0, 2.0], "f"))
    (g,) = grad(np.sum(np.exp(x) * x), x, create_graph=True)
    (h,) = grad(np.sum(g), x)
    assert g.dtype == h.dtype == np.float32


def test_long_tape_is_walked_without_recursion():
    x = leaf(0.5)
    y = x
    steps = 5 * sys.getrecursionlimit()
    for _ in range(steps):
        y = y + 1e-4 * np.sin(y)
    before = sys.getrecursionlimit()
    (g,) = grad(y, x, create_graph=True)
    (h,) = grad(g, x)
    assert sys.getrecursionlimit() == before
    value, first, second = 0.5, 1.0, 0.0
    for _ in range(steps):
        second = second + 1e-4 * (np.cos(value) * second - np.sin(value) * first**2)
        first, value = first + 1e-4 * np.cos(value) * first, value + 1e-4 * np.sin(value)
    assert g.item() == pytest.approx(first, rel=1e-12) and h.item() == pytest.approx(second, rel=1e-10)


def test_nothing_refers_to_itself():
    """What a second-order step leaves goes by counting references, without the collector."""
    penalty_step(leaf(np.ones(50)), leaf(np.ones((50, 50))))
    gc.collect()
    gc.disable()
    try:
        for _ in range(20):
            penalty_step(leaf(np.ones(50)), leaf(np.ones((50, 50))))
        assert gc.collect() == 0
    finally:
        gc.enable()


def penalty_step(x, w):
    loss = np.sum(np.tanh(w @ x) ** 2)
    (g,) = grad(loss, w, create_graph=True)
    (loss + 0.1 * np.sum(g * g)).backward()
    with tg.no_grad():
        w -= 0.01 * w.grad
    w.zero_grad()


def meta_step(w, data):
    """One step of MAML: a loss after a gradient step, differentiated through that step."""
    inner = np.sum((data @ w) ** 2)
    (g,) = grad(inner, w, create_graph=True)
    moved = w - 0.01 * g
    np.sum((data @ moved - 1.0) ** 2).backward()
    with tg.no_grad():
        w -= 0.01 * w.grad
    w.zero_grad()


def resident():
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_tape_does_not_grow():
    most = []

    def steps(_):
        x, w, v = leaf(np.ones(5)), leaf(np.ones((5, 5))), leaf(np.ones(5))
        data = generator(1).standard_normal((4, 5))
        for _ in range(300):
            penalty_step(x, w)
            x.zero_grad()
            meta_step(v, data)
            most.append(thread_state().store.length)

    # A thread of its own starts with an empty tape.
    in_threads(steps, 1)
    assert len(most) == 300 and max(most) < 4096


@pytest.mark.long
@pytest.mark.parametrize("kind", ["penalty", "meta"])
def test_memory_over_ten_thousand_steps(kind):
    x, w = leaf(np.ones(16)), leaf(0.1 * np.ones((16, 16)))
    v, data = leaf(np.ones(16)), generator(1).standard_normal((8, 16))

    def step():
        if kind == "penalty":
            penalty_step(x, w)
            x.zero_grad()
        else:
            meta_step(v, data)

    for _ in range(1000):
        step()
    gc.collect()
    before = resident()
    for _ in range(10_000):
        step()
    assert resident() - before <= 5 << 20


def test_first_order_rule_is_named():
    import math

    @tg.primitive
    def cube(x):
        return x**3

    @cube.defvjp
    def _(g, result, x):
        return g * 3.0 * math.pow(x, 2)

    x = leaf(2.0)
    assert grad(cube(x), x)[0].item() == 12.0
    with pytest.raises(HigherOrderError, match="'cube'"):
        grad(cube(x), x, create_graph=True)


class Sliced(list):
    """A list of which only parts may be gone through."""

    def __iter__(self):
        raise AssertionError("all leaves are gone through")


def test_a_pass_looks_only_at_leaves_it_can_reach():
    kept = [tg.tensor(float(k), requires_grad=True) for k in range(200)]
    before = [x * 2.0 for x in kept]
    a = tg.tensor(1.5, requires_grad=True)
    b = kept[3]
    y = np.exp(a) * a
    store = y._t
    slots = [slot for slot, _, _ in store.leaf_list]
    assert slots == sorted(slots) and len(slots) >= 201
    assert [slot for slot, _, _ in store.leaves_from(slots[3], slots[6])] == slots[3:7]
    store.leaf_list = Sliced(store.leaf_list)
    (first,) = tg.autograd.grad(y, [a], create_graph=True)
    (second,) = tg.autograd.grad(first, [a], retain_graph=True)
    assert float(first.detach()) == pytest.approx(2.5 * np.exp(1.5)) and float(second.detach()) == pytest.approx(3.5 * np.exp(1.5))
    # A leaf below the part that is differentiated is found where it is used.
    (by_a,) = tg.autograd.grad(np.sin(a * b), [a], create_graph=True)
    (mixed,) = tg.autograd.grad(by_a, [b])
    assert float(mixed.detach()) == pytest.approx(np.cos(1.5 * 3.0) - 4.5 * np.sin(4.5))
    (a * b).backward()
    assert float(a.grad) == 3.0 and float(b.grad) == 1.5 and len(before) == 200
    store.leaf_list = store.leaf_list[:]


# ---------------------------------------------------------------- calls do not pay for earlier ones


def norm_of_a_gradient(x):
    (g,) = grad(np.sum(np.sin(x) ** 3), x, create_graph=True)
    return np.sqrt(np.sum(g * g))


def loop_of_scalars(x):
    y = x[0]
    for k in range(3):
        y = np.sin(y) * x[k]
    (g,) = grad(y, x, create_graph=True)
    return np.sum(g)


def accumulated(x):
    np.sum(x**3).backward(create_graph=True)
    found = np.sum(x.grad)
    x.grad = None
    return found


def hooked(x):
    y = np.exp(x)
    y.register_hook(lambda g: 2.0 * g)
    (g,) = grad(np.sum(y), x, create_graph=True)
    return np.sum(g)


def of_a_parameter_changed_elsewhere(x):
    other = leaf(np.ones(10))
    (g,) = grad(np.sum(np.cosh(x) * other), [x], create_graph=True)
    return np.sum(g * other)


#: One step each on a leaf that is never changed.
STEPS = {
    "gradient norm": norm_of_a_gradient,
    "scalars": loop_of_scalars,
    "accumulated": accumulated,
    "hook": hooked,
    "several leaves": of_a_parameter_changed_elsewhere,
    "third order": lambda x: np.sum(grad(norm_of_a_gradient(x), x, create_graph=True)[0]),
    "matrices": lambda x: np.sum(grad(np.sum(np.outer(x, x) @ x), x, create_graph=True)[0] ** 2),
}


def last_passes(loss, x):
    """The ways in which a step may end."""
    yield lambda: grad(loss, x)
    yield lambda: grad(loss, x, retain_graph=True)
    yield lambda: loss.backward(inputs=[x])
    yield lambda: None


@pytest.mark.parametrize("end", range(4))
@pytest.mark.parametrize("step", STEPS)
def test_a_step_looks_at_its_own_instructions_only(step, end, monkeypatch):
    """Counted: slots read by the recorded pass.  Bounded: what the tape holds, though the leaf is never changed."""
    read, state = [0], thread_state()
    monkeypatch.setattr("tapegrad.tape.store.FIRST_CAPACITY", 512)
    state.store = state.anonymous = TapeStore(state)
    once = TapeStore.read
    monkeypatch.setattr(TapeStore, "read", lambda *args: (read.__setitem__(0, read[0] + 1), once(*args))[1])
    x = tg.Parameter(np.linspace(0.1, 1.0, 10))
    counts, held = [], []
    for _ in range(150):
        before = read[0]
        loss = STEPS[step](x)
        list(last_passes(loss, x))[end]()
        x.grad = None
        del loss
        counts.append(read[0] - before)
        store = state.store
        held.append((store.length, len(store.objects), len(store.clearings), len(store.leaf_list)))
    assert max(counts[5:]) <= 2 * counts[4]
    assert max(h[0] for h in held) < 600
    assert max(h[1] for h in held) < 1200
    assert max(h[2] for h in held) < 100


def test_a_pass_inside_of_a_recorded_function_looks_at_its_own_instructions_only(monkeypatch):
    """The argument is the first slot of the tape; each of its derivatives is taken far behind it."""
    seen = []
    once = adjoint.between
    monkeypatch.setattr(passes, "SPARSE", 0)
    monkeypatch.setattr(passes, "between", lambda stretch, *args: (once(stretch, *args), seen.append(len(stretch._instructions)))[0])

    def f(x):
        total = 0.0
        for _ in range(30):
            total = total + grad(np.sum(np.sin(x) ** 2), x, create_graph=True)[0]
        return np.sum(total)

    assert tg.grad(f)(np.ones(3)) == pytest.approx(60.0 * np.cos(2.0))
    assert max(seen) <= min(seen)


def test_the_node_of_a_leaf_is_found_where_it_stands(monkeypatch):
    """No list of all leaves is made for each of them."""
    monkeypatch.setattr(TapeStore, "leaf_at", None)
    leaves = [leaf(float(k)) for k in range(300)]
    node, found = sum([t * 2.0 for t in leaves], leaf(0.0) * 1.0).grad_fn, []
    for _ in leaves:
        node, other = (n for n, _ in node.next_functions)
        found.append(other.next_functions[0][0].variable)
    assert all(a is b for a, b in zip(found, reversed(leaves)))


@pytest.mark.parametrize("create_graph", [False, True])
def test_a_leaf_that_has_changed_since_is_the_same_leaf(create_graph):
    """As after a step of an optimiser: what was computed before counts, beside what is computed with the new value."""
    for value, again in itertools.product((1.0, [1.0, 2.0]), (False, True)):
        x, z = tg.tensor(value, requires_grad=True), tg.tensor(2.0, requires_grad=True)
        before = x * 3.0
        with tg.no_grad():
            x.mul_(0.5)
        y = np.sum(before + x * 5.0 if again else before) * z
        expected = np.full(x.shape, 2.0 * (8.0 if again else 3.0))
        by_x, by_z = tg.autograd.grad(y, [x, z], retain_graph=True, create_graph=create_graph)
        np.testing.assert_array_equal(by_x.detach(), expected)
        if create_graph:
            np.testing.assert_array_equal(tg.autograd.grad(np.sum(by_x), z, retain_graph=True)[0], x.size * expected.flat[0] / 2.0)
            np.testing.assert_array_equal(tg.autograd.grad(by_z, x, retain_graph=True)[0], expected / 2.0)
        np.testing.assert_array_equal(tg.autograd.jvp(y, x, np.ones(x.shape))[0], np.sum(expected))
        for inputs in (None, [x]):
            x.grad = None
            y.backward(inputs=inputs, retain_graph=True, create_graph=create_graph)
            np.testing.assert_array_equal(x.grad.detach(), expected)
    for slope, again in ((3.0, lambda t: 0.0), (8.0, lambda t: t * 5.0)):
        frozen = tg.tensor(1.0, requires_grad=True)
        y = frozen * 3.0
        frozen.requires_grad_(False)
        y = y + frozen * 100.0
        y = y + again(frozen.requires_grad_(True))
        y.backward(retain_graph=True, create_graph=create_graph)
        assert (frozen.grad.item(), tg.autograd.grad(y, frozen, create_graph=create_graph)[0].item()) == (slope, slope)
