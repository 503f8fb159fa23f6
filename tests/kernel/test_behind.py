"""Adjoints and tangents of numbers written by compiled code, wherever a derivative is itself differentiated: no rule is run, and they are the same."""

from functools import partial

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.array.record import apply
from tapegrad.autograd import nested, passes
from tapegrad.autograd.reading import Region
from tapegrad.kernel import behind
from tapegrad.kernel.lines import Lines
from tapegrad.rules import BY_NAME
from tests.rules.checker import generator
from tests.rules.examples_of_rows import DIFFERENTIABLE, examples_of

X, V = np.array([0.4, 0.9, 1.3, 0.2, 0.7]), np.array([1.0, -0.5, 0.25, 2.0, 0.1])

pytestmark = pytest.mark.usefixtures("fresh_store")


def loop(x, steps=40):
    """A number, by a loop over numbers with constants on either side, a choice, functions of one operand, and arrays at its ends."""
    a, b, c, d, e = np.sin(x) * x
    total = 0.5
    for k in range(steps):
        total = total + a * np.sin(b * k * 0.1) - c * total * 0.01 + d * d / (2.0 + e) - np.maximum(total, 1.0) * 0.02
        a, d = np.sqrt(a * a + 1.0), 0.3 ** np.tanh(d)
    return total + np.sum(np.exp(-x) * total)


def create_graph(x):
    t = tg.tensor(x, requires_grad=True)
    (slope,) = tg.autograd.grad(loop(t), t, create_graph=True)
    return tg.autograd.grad(slope, t, V)[0].numpy()


def accumulated(x):
    t = tg.tensor(x, requires_grad=True)
    loop(t).backward(create_graph=True)
    slope, t.grad = t.grad, None
    slope.backward(V)
    return t.grad.numpy()


def along(x, h=1e-5):
    return (tg.grad(loop)(x + h * V) - tg.grad(loop)(x - h * V)) / (2.0 * h)


#: Each gives the Hessian at X, times V.
PRODUCTS = {
    "hvp": lambda x: tg.hvp(loop)(x, V),
    "hvp, recorded": lambda x: tg.jit(tg.hvp(loop), kernel="never")(x, V),
    "jvp of grad": lambda x: tg.jvp(tg.grad(loop), (x,), (V,))[1],
    "grad of jvp": lambda x: tg.grad(lambda x: tg.jvp(loop, (x,), (V,))[1])(x),
    "grad of derivative": lambda x: tg.grad(lambda x: tg.derivative(lambda t: loop(x + t * V))(0.0))(x),
    "grad of jvp, recorded": lambda x: tg.jit(tg.grad(lambda x: tg.jvp(loop, (x,), (V,))[1]), kernel="never")(x),
    "several directions": lambda x: tg.hvp(loop)(x, np.stack([X, V]))[1],
    "create_graph": create_graph,
    "accumulated": accumulated,
    "grad of grad": lambda x: tg.grad(lambda x: np.sum(tg.grad(loop)(x) * V))(x),
    "recorded": lambda x: tg.jit(tg.grad(lambda x: np.sum(tg.grad(loop)(x) * V)), kernel="never")(x),
    "in vmap": lambda x: tg.vmap(tg.grad(lambda x: np.sum(tg.grad(loop)(x) * V)))(np.stack([x, X]))[0],
    "in a scan": lambda x: tg.grad(lambda x: tg.scan(lambda c, e: (c + e * np.sum(tg.grad(loop)(x) * V), None), 0.0, np.array([0.25, 0.75]))[0])(x),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_second_derivatives_run_no_rules_for_numbers(name, monkeypatch):
    """... and are those that rules give, to rounding."""
    product = PRODUCTS[name]
    for x in (X, X + 0.1):
        found, read, once = product(x), [], Region.read
        np.testing.assert_allclose(found, along(x), rtol=1e-6)
        with monkeypatch.context() as patch:
            patch.setattr(Region, "read", lambda self, slot, read=read, once=once: (read.append(slot), once(self, slot))[1])
            product(x)
        # A loop has 40 iterations of some 16 operations.
        assert len(read) < 60
        with monkeypatch.context() as patch:
            patch.setattr(behind, "pulled", lambda *args: None)
            patch.setattr(behind, "pushed", lambda *args: None)
            patch.setattr(nested.TensorWalk, "_ends", lambda self, tangents: False)
            patch.setattr(Region, "read", lambda self, slot, read=read, once=once: (read.append(slot), once(self, slot))[1])
            read.clear()
            np.testing.assert_allclose(found, product(x), rtol=1e-12)
        assert len(read) > 600


def test_a_recording_decides_again_at_each_point():
    """A choice behind a gradient that compiled code has written is guarded by what it is computed from."""

    def f(x):
        slope = tg.grad(loop)(x)
        return np.sum(slope) if slope[0] > slope[1] else np.sum(slope * slope)

    g = tg.jit(tg.value_and_grad(f), kernel="never")
    for point in generator(3).uniform(0.1, 1.5, (12, 5)):
        for found, expected in zip(g(point), tg.value_and_grad(f)(point)):
            np.testing.assert_allclose(found, expected, rtol=1e-11)
    assert 2 <= g.stats().records <= 4


def test_numbers_that_arrays_and_functions_of_python_have_given(monkeypatch):
    """Entries of a recording are operands of what is written: their values are there."""
    monkeypatch.setattr(behind, "MIXED", 0)

    def f(x):
        y = np.linalg.norm(x) * x[0] + np.sort(x)[1] * np.sum(x * x)
        z = y * float(np.argmax(x) + 1)
        for k in range(5):
            z = z * x[k] + np.median(x) * np.dot(x, x) + np.floor(z)
        return z

    h = tg.hessian(f)
    for wrap in (tg.jit, lambda f: f):
        g = wrap(tg.jacobian(lambda x: tg.grad(f)(x), mode="reverse"))
        for x in (X, X[::-1].copy(), X + 0.05):
            np.testing.assert_allclose(g(x), h(x), rtol=1e-11)
    lanes = np.stack([X, X[::-1], X + 0.05])
    np.testing.assert_allclose(tg.vmap(tg.grad(f))(lanes), [tg.grad(f)(x) for x in lanes], rtol=1e-12)


def test_what_waits_on_the_way_is_seen():
    """Hooks, tensors that are asked for in between, leaves that are used twice or not at all, and what an earlier pass has let go."""
    x, other = tg.tensor(X, requires_grad=True), tg.tensor(2.0, requires_grad=True)
    y = loop(x)
    middle = y * y
    at_middle, at_y, at_x = tg.autograd.grad(middle * 3.0, [middle, y, x], create_graph=True)
    assert at_middle.item() == 3.0 and at_y.item() == pytest.approx(6.0 * y.item())
    np.testing.assert_allclose(at_x.numpy(), 6.0 * y.item() * tg.grad(loop)(X), rtol=1e-12)
    with pytest.raises(tg.errors.GradientError, match="not have been used"):
        tg.autograd.grad(y, [x, other], create_graph=True)
    assert tg.autograd.grad(y, [x, other], create_graph=True, allow_unused=True)[1] is None
    seen = []
    handle = y.register_hook(lambda g: seen.append(1) or g * 2.0)
    np.testing.assert_allclose(tg.autograd.grad(middle, x, create_graph=True)[0].numpy(), 2.0 * 2.0 * y.item() * tg.grad(loop)(X), rtol=1e-12)
    assert seen == [1]
    handle.remove()
    y.backward()
    with pytest.raises(tg.errors.ClearedTapeError):
        tg.autograd.grad(y, x, create_graph=True)
    y = loop(x)
    with tg.no_grad():
        x *= 2.0
    with pytest.raises(tg.errors.ModifiedInPlaceError):
        tg.autograd.grad(y, x, create_graph=True)


def test_a_pass_through_few_instructions_of_a_long_tape_does_not_go_over_all(monkeypatch):
    monkeypatch.setattr("tapegrad.common.registry.registry.later.behind", None)
    x = tg.tensor(0.5, requires_grad=True)
    with tg.Tape():
        for _ in range(4 * passes.SPARSE):
            last = x * 2.0
        (slope,) = tg.autograd.grad(last * x, x, create_graph=True)
    assert slope.item() == 2.0


def product_of(f, x, v):
    """The Hessian times v, by adjoints of adjoints and of tangents; or why there is none."""
    try:
        return np.stack([tg.grad(lambda x: np.sum(tg.grad(f)(x) * v))(x), tg.grad(lambda x: tg.jvp(f, (x,), (v,))[1])(x)])
    except tg.errors.TapegradError as error:
        return type(error).__name__


def test_element_wise_operations_on_arrays_run_no_rules_either(monkeypatch):
    def f(x):
        a = x
        for _ in range(20):
            a = np.sin(a) * x + 0.3 * a - a * a * 0.1 + np.sqrt(x) / (3.0 + a)
        return np.sum(a)

    read, once = [], Region.read
    monkeypatch.setattr(Region, "read", lambda self, slot: (read.append(slot), once(self, slot))[1])
    x, found = abs(X), product_of(f, abs(X), V)
    # Of two times 200 operations: sums, the ends, and the root of what has a constant tangent.
    assert 2 <= len(read) < 50
    np.testing.assert_allclose(found, [(tg.grad(f)(x + 1e-5 * V) - tg.grad(f)(x - 1e-5 * V)) / 2e-5] * 2, rtol=1e-7)
    monkeypatch.setattr(behind._Walk, "_by_lines", lambda *args: None)
    np.testing.assert_array_equal(found, product_of(f, x, V))


def test_structural_rows_have_the_same_second_derivatives_by_calls_of_rows_and_by_rules(monkeypatch):
    different, passed = [], 0
    for name in [row.name for row in DIFFERENTIABLE if not row.elementwise and row.primitive is None]:
        for row, operands, attrs, integer in examples_of(name)[:4]:
            arrays = [k for k in row.slots(len(operands)) if np.asarray(operands[k]).dtype.char == "d" and np.size(operands[k])]
            x = np.concatenate([np.ravel(operands[k]) for k in arrays]) if arrays else np.empty(0)
            if not 0 < x.size < 100 or len(arrays) < len(row.slots(len(operands))):
                continue
            ends = np.cumsum([np.size(operands[k]) for k in arrays])

            def f(x):
                given = list(operands)
                for k, end in zip(arrays, ends):
                    given[k] = (x[end - np.size(operands[k]) : end] * 1.0).reshape(np.shape(operands[k]))
                return np.sum(np.sin(apply(row, given, attrs, None, integer or 0))) + np.sum(x * x)

            v, lines, once = np.linspace(-1.0, 1.0, x.size), [], Lines.__call__
            with np.errstate(all="ignore"), monkeypatch.context() as patch:
                patch.setattr(Lines, "__call__", lambda self, *args, lines=lines, once=once: (lines.append(self), once(self, *args))[1])
                found = product_of(f, x, v)
                patch.setattr(behind._Walk, "_by_lines", lambda *args: None)
                expected = product_of(f, x, v)
            passed += bool(lines)
            same = found == expected if str in (type(found), type(expected)) else np.allclose(found, expected, rtol=1e-11, atol=1e-12, equal_nan=True)
            different += [] if same else [(name, attrs, found, expected)]
    assert not different and passed > 150


def test_arrays_have_the_same_second_derivatives_by_templates_and_by_rules(monkeypatch):
    rng, different = generator(11), []
    values = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-300]
    for row in [row for row in BY_NAME.values() if row.elementwise and row.arity < 3 and not row.constants]:
        x, y, v, w = rng.normal(size=(4, 5))
        x[:3], y[1:4], w[2:] = rng.choice(values, (3, 3))
        for operands in [(0, 1), (0, 0), (2, 0)] if row.arity == 2 else [(0,)]:
            f = lambda x, row=row, y=y, w=w, of=operands: np.sum(apply(row, [(x * w, y, 2.0)[k] for k in of]) * w + x * x)  # noqa: E731
            with np.errstate(all="ignore"), monkeypatch.context() as patch:
                found = product_of(f, x, v)
                patch.setattr(behind._Walk, "_by_lines", lambda *args: None)
                expected = product_of(f, x, v)
                # Both partial derivatives take digamma(a + b), or the size of a complex number, which the template computes once: the order
                # of a sum of second derivatives is another.
                equal = partial(np.allclose, rtol=1e-14, atol=0.0) if row.name in ("beta", "complex_sqrt_imag") else np.array_equal
                same = found == expected if str in (type(found), type(expected)) else equal(found, expected, equal_nan=True)
            different += [] if same else [(row.name, operands, found, expected)]
    assert not different
