"""Functions whose path depends on values: right at every one of many points, and mostly replayed."""

import numpy as np
import pytest

import tapegrad as tg
from tests.transforms.replay.agreement import Pair, quiet


def newton(a):
    x = a
    while abs(x * x - a) > 1e-12 * a:
        x = 0.5 * (x + a / x)
    return x


def newton_of_a_system(p):
    """x with x^2 + y = p0, y^2 + x = p1, in x and y."""
    x, y = p[0] * 0.5, p[1] * 0.5
    for _ in range(50):
        f, g = x * x + y - p[0], y * y + x - p[1]
        if abs(f) + abs(g) < 1e-13:
            break
        det = 4 * x * y - 1
        x, y = x - (2 * y * f - g) / det, y - (2 * x * g - f) / det
    return x * y


def bisection(a):
    low, high = 0.0, 8.0
    while high - low > 0.25:
        middle = 0.5 * (low + high)
        if middle * middle < a:
            low = middle
        else:
            high = middle
    x = 0.5 * (low + high)
    # Two steps of Newton's method carry the derivative.
    x = 0.5 * (x + a / x)
    return 0.5 * (x + a / x)


def adaptive(p):
    """y' = -p0 y + p1 from 0 to 1, by Heun's method with steps chosen by the error estimate."""
    t, y, h = 0.0, 1.0 + 0.0 * p[0], 0.1
    while t < 1.0:
        h = min(h, 1.0 - t)
        k1 = -p[0] * y + p[1]
        k2 = -p[0] * (y + h * k1) + p[1]
        error = abs(h * (k2 - k1) / 2)
        if error < 1e-3:
            t, y = t + h, y + h * (k1 + k2) / 2
            if error < 1e-4:
                h *= 2
        else:
            h *= 0.5
        if h < 1e-14:
            break
    return y


def ball(p):
    """Height after two seconds of a ball that bounces; p: height, velocity."""
    h, v, left = p[0], p[1], 2.0
    for _ in range(20):
        # Time until the ground is hit.
        flight = (v + np.sqrt(v * v + 2 * 9.81 * h)) / 9.81
        if flight > left:
            break
        left = left - flight
        h, v = 0.0 * h, 0.8 * (9.81 * flight - v)
    return h + v * left - 0.5 * 9.81 * left * left


def recursion(x, depth=6):
    return x if depth == 0 or x > 40 else recursion(x * x * 0.5 + 1, depth - 1)


def collatz(x):
    """A path that follows rounded values."""
    y = x
    for _ in range(12):
        y = y * 0.5 if np.floor(y) % 2 == 0 else 0.3 * y + 1
    return y


def events(x):
    total, level = 0.0, 0.0
    for v in x:
        level = level + v
        if level > 1:
            total, level = total + level * level, 0.0 * level
        elif level < -1:
            break
    return total + level


FUNCTIONS = {
    newton: lambda rng: float(rng.uniform(0.5, 50)),
    newton_of_a_system: lambda rng: rng.uniform(3, 6, 2),
    bisection: lambda rng: float(rng.uniform(0.5, 50)),
    adaptive: lambda rng: rng.uniform(0.2, 4, 2),
    ball: lambda rng: np.array([rng.uniform(0.1, 2), rng.uniform(-1, 1)]),
    recursion: lambda rng: float(rng.uniform(0, 3)),
    collatz: lambda rng: float(rng.uniform(0, 20)),
    events: lambda rng: rng.standard_normal(4),
}


@pytest.mark.parametrize("function", [pytest.param(f, marks=[pytest.mark.long] if f is adaptive else []) for f in FUNCTIONS], ids=lambda f: f.__name__)
def test_thousand_points(function):
    rng = np.random.default_rng(0)
    pair = Pair(function)
    with quiet():
        for k in range(1000):
            x = FUNCTIONS[function](rng)
            _, (gradient,) = pair.check(x)
            if k % 50 == 0:
                way = rng.standard_normal(np.shape(x))
                step = 1e-7
                measured = (function(x + step * way) - function(x - step * way)) / (2 * step)
                exact = np.sum(gradient * way)
                assert abs(exact - measured) < 1e-5 * (1 + abs(exact)), (x, exact, measured)
    stats = pair.stats
    assert pair.calls == stats.records + stats.runs
    if function in (newton, ball, recursion, newton_of_a_system):
        assert stats.fallback == "" and stats.replays >= 950


@pytest.mark.parametrize("function", [newton, bisection, ball], ids=lambda f: f.__name__)
def test_thousand_points_by_kernels(function):
    rng = np.random.default_rng(1)
    pair = Pair(function, kernel="always")
    with quiet():
        for _ in range(1000):
            pair.check(FUNCTIONS[function](rng))
    stats = pair.stats
    assert not stats.not_lowered and stats.kernels > 1 and stats.kernel_calls > 800
    assert pair.calls == stats.records + stats.runs and stats.fallback == ""


@pytest.mark.long
def test_solve_ivp_style_rk45():
    """Dormand and Prince's method with PI control of the step, on arrays."""
    a = np.array([[0, 0, 0, 0], [1 / 5, 0, 0, 0], [3 / 40, 9 / 40, 0, 0], [44 / 45, -56 / 15, 32 / 9, 0]])

    def function(p):
        y, t, h = np.array([1.0, 0.5]), 0.0, 0.2
        for _ in range(40):
            h = min(h, 1.0 - t)
            ks = []
            for row in a:
                stage = y + h * sum((w * k for w, k in zip(row, ks)), 0.0)
                ks.append(np.stack([stage[1] * p[0], -stage[0] * p[1]]))
            new = y + h * (ks[0] + 2 * ks[1] + 2 * ks[2] + ks[3]) / 6
            error = np.sqrt(np.mean((h * (ks[3] - ks[2])) ** 2))
            if error < 0.05:
                y, t = new, t + h
                h = h * (2.0 if error < 0.005 else 1.0)
            else:
                h = h * 0.5
            if t >= 1.0:
                break
        return np.sum(y)

    rng = np.random.default_rng(1)
    pair = Pair(function)
    with quiet():
        for _ in range(200):
            pair.check(rng.uniform(0.5, 4, 2))
    assert pair.calls == pair.stats.records + pair.stats.runs


def test_a_path_that_changes_at_every_call_is_given_up_once():
    def function(x):
        return x * x.item()

    pair = Pair(function)
    with quiet() as warned:
        for k in range(80):
            pair.check(float(k))
    assert [w.category for w in warned] == [tg.PathWarning] and warned[0].filename == pair.check.__code__.co_filename
    assert pair.stats.runs > 40 and "path" in pair.stats.fallback


def test_an_exception_leaves_everything_as_it_was():
    pair = Pair(lambda x: np.sqrt(x) if x > 0 else 1 / 0)
    pair.check(2.0)
    for _ in range(5):
        with pytest.raises(ZeroDivisionError):
            pair.replayed(-1.0)
        assert tg.is_grad_enabled()
        pair.check(3.0)
    assert pair.stats.tapes == 1 and pair.stats.fallback == ""


def test_under_no_grad_and_inside_a_tape():
    pair = Pair(lambda x: np.sum(np.sin(x) * x[0]))
    x = np.array([1.0, 2.0])
    expected = pair.check(x)[1][0]
    with tg.no_grad():
        np.testing.assert_array_equal(pair.replayed(x)[1][0], expected)
        fresh = Pair(pair.function)
        np.testing.assert_array_equal(fresh.replayed(x)[1][0], expected)
    with tg.Tape():
        t = tg.tensor(2.0, requires_grad=True)
        y = t * t
        np.testing.assert_array_equal(Pair(pair.function).replayed(x)[1][0], expected)
        y.backward()
    assert t.grad.item() == 4.0


def test_an_argument_changed_in_place_is_refused():
    x = np.array([1.0, 2.0])
    for change in (
        lambda x: x.__setitem__(0, 5.0), lambda x: x[1:].__setitem__(0, x[0]), lambda x: x.__iadd__(1.0),
        lambda x: x[:1].__imul__(2.0), lambda x: np.fill_diagonal(x, 0.0) if x.ndim > 1 else np.put(x, [0], 1.0),
    ):  # fmt: skip

        def function(x, change=change):
            change(x)
            return np.sum(x)

        with pytest.raises(tg.errors.GradientError, match="in place"):
            Pair(function).replayed(x)
    np.testing.assert_array_equal(x, [1.0, 2.0])


def test_static_arguments_are_bounded_in_memory():
    from tapegrad.transforms.functional import grad
    from tapegrad.transforms.replay.function import KINDS

    g = tg.jit(grad(lambda x, n: x * n))
    for n in range(2 * KINDS):
        # New at every second call, which is not nearly every one.
        assert g(2.0, n) == g(2.0, n) == n
    assert len(g._replayed.kinds) <= KINDS and g.stats().tapes <= KINDS and not g.stats().fallback
    assert g(2.0, 5) == 5.0 and g.stats().records == 2 * KINDS + 1


@pytest.mark.parametrize("wrap", [lambda g: g, tg.jit], ids=["plainly", "jit"])
def test_integer_and_boolean_arrays_are_looked_at(wrap):
    from tapegrad.transforms.functional import grad

    g = wrap(grad(lambda x, index, mask: np.sum(x[index] * 2) + np.sum(x[mask])))
    x, index, mask = np.ones(3), np.array([0, 1]), np.array([True, False, True])
    np.testing.assert_array_equal(g(x, index, mask), [3, 2, 1])
    index[1] = 2
    np.testing.assert_array_equal(g(x, index, mask), [3, 0, 3])
    mask[0] = False
    np.testing.assert_array_equal(g(x, index, mask), [2, 0, 3])

    def changing(x, index):
        index[0] = 1
        return np.sum(x[index])

    with pytest.raises(tg.errors.GradientError, match="changed in place"):
        tg.jit(grad(changing))(x, index)


def test_primitives_with_results_that_are_no_floats_are_not_replayed():
    @tg.primitive
    def both(x, y):
        return np.outer(x, y), np.argsort(x)

    @both.defvjp
    def _(g, result, x, y):
        return g[0] @ y, g[0].T @ x

    def function(x):
        outer, order = both(x, x[::-1])
        return np.sum(outer[order] * np.arange(9.0).reshape(3, 3))

    pair = Pair(function)
    rng = np.random.default_rng(0)
    for _ in range(5):
        pair.check(rng.standard_normal(3))
    assert "primitive 'both'" in pair.stats.fallback and pair.stats.replays == 0


def test_custom_primitives_are_replayed_at_other_points():
    @tg.primitive
    def scaled(x, y, *, power):
        return x**power * y, np.sum(x)

    @scaled.defvjp
    def _(g, result, x, y, *, power):
        first, second = g
        return power * x ** (power - 1) * y * first + second, x**power * first

    class Swish(tg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            s = 1.0 / (1.0 + np.exp(-x))
            ctx.s = s
            ctx.save_for_backward(x)
            return x * s

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * (ctx.s + x * ctx.s * (1.0 - ctx.s))

    def function(x):
        product, total = scaled(x, np.sin(x), power=3)
        for _ in range(2):
            product = Swish.apply(product) + total * x
        return np.sum(product * product) + Swish.apply(x[0]) if total > 0 else np.sum(Swish.apply(x))

    pair = Pair(function)
    rng = np.random.default_rng(0)
    for _k in range(40):
        pair.check(rng.standard_normal(3))
    assert not pair.stats.fallback and pair.stats.replays >= 30


def test_an_error_in_a_rule_leaves_the_replay_usable():
    @tg.primitive
    def square(x):
        return x * x

    @square.defvjp
    def _(g, result, x):
        if x[0] > 10.0:
            raise RuntimeError("too large")
        return 2.0 * x * g

    g = tg.jit(tg.grad(lambda x: np.sum(square(np.sin(x) + x) * x)))
    x = np.array([1.0, 2.0])
    expected = g(x)
    g(x)
    with pytest.raises(RuntimeError, match="too large"):
        g(x + 20.0)
    np.testing.assert_array_equal(g(x), expected)


def test_a_backward_pass_inside_is_right_and_not_replayed():
    def function(x):
        y = tg.tensor(3.0, requires_grad=True)
        (y * y * 2).backward()
        return x * x * y.grad.item()

    pair = Pair(function)
    for k in range(3):
        assert pair.check(1.0 + k)[0] == 12 * (1.0 + k) ** 2
    assert "backward pass" in pair.stats.fallback


def test_leaves_made_inside_are_constants_of_the_gradient():
    pair = Pair(lambda x: x * tg.tensor(2.0, requires_grad=True) * tg.tensor(3.0, requires_grad=True))
    for k in range(3):
        pair.check(1.0 + k)
    assert pair.stats.replays >= 1


def test_a_tensor_copied_inside_is_a_constant_of_the_gradient():
    pair = Pair(lambda x: np.sum(x * tg.full_like(x, tg.tensor(x)[1])))
    for k in range(4):
        pair.check(np.array([1.0, 2.0 + k % 2]))
    assert pair.stats.fallback == ""


def test_the_memory_order_of_an_argument():
    def in_memory(x):
        return np.sum(np.ravel(x, "K") * np.arange(6.0))

    def in_order(x):
        return np.sum(np.ravel(x, "C") * np.arange(6.0))

    def written(x):
        y = x * 1.0
        y.reshape(-1)[2] = 10.0 * x[0, 0]
        z = x.T * x.T
        z[0, 0] = 3.0 * z[1, 1]
        row = z[1]
        row *= 2.0
        z.reshape(-1)[1] = 2.0
        return np.sum(y * y * np.arange(6.0).reshape(y.shape)) + np.sum(z * np.arange(6.0).reshape(z.shape))

    x = np.arange(1.0, 7.0).reshape(2, 3)
    for function in (in_memory, in_order, written):
        pair = Pair(function)
        for point in (x, np.asfortranarray(x), x[::-1], x.T.copy().T, x[:, ::-1], np.repeat(x, 2, axis=0)[::2]):
            pair.check(point)
            value, (slope,) = tg.value_and_grad(function, argnums=(0,))(point)
            assert value == function(point.copy("K"))
            np.testing.assert_allclose(tg.jacfwd(function)(point), slope)


def test_carries_lie_by_rows():
    def body(c, x):
        y = c * x
        y.reshape(-1)[2] = 2.0 * c[0, 0]
        return y, np.sum(y.ravel("K") * np.arange(6.0))

    def f(x):
        c, sums = tg.scan(body, x[0] * 1.0, x * 0.5)
        return np.sum(c * np.arange(6.0).reshape(3, 2)) + np.sum(sums)

    x = np.asfortranarray(np.arange(1.0, 13.0).reshape(2, 3, 2))
    value, slope = tg.value_and_grad(f)(x)
    assert f(x) == value == f(x.copy())
    np.testing.assert_allclose(tg.jit(tg.grad(f))(x), slope)
    np.testing.assert_allclose(tg.jacfwd(f)(x), slope)


def test_a_singular_matrix_raises_in_a_replay_too():
    g = tg.jit(tg.value_and_grad(lambda a: np.sum(np.linalg.inv(a)) + np.linalg.solve(a, np.ones(2))[0]))
    regular = np.array([[2.0, 1.0], [0.5, 3.0]])
    before = [g(regular), g(regular + 0.1), g(regular)]
    assert g.stats().replays
    with pytest.raises(np.linalg.LinAlgError):
        g(np.ones((2, 2)))
    np.testing.assert_array_equal(g(regular)[1], before[0][1])


def test_a_choice_between_a_value_and_a_constant():
    def function(x, y):
        return np.where(False, x, 3.0) * y + np.where(True, x, 5.0) * np.where(True, 2.0, y) + np.where(y > 1.0, 7.0, x)

    pair = Pair(function, 2)
    for point in ((2.0, 0.5), (3.0, 1.5), (4.0, 0.25), (5.0, 2.0)):
        value, gradients = pair.check(*point)
        x, y = point
        assert value == 3.0 * y + 2.0 * x + (7.0 if y > 1.0 else x)
        assert [float(g) for g in gradients] == [2.0 + (y <= 1.0), 3.0]


def test_the_calls_of_the_essay():
    """That of `transforms.replay.function`: what is recorded, and who answers."""
    g = tg.jit(tg.value_and_grad(lambda x: x if x > 9 else x * x if x > 0 else -x))
    points = [2.0, 3.0, -1.0, -2.0, 10.0, 4.0, np.float32(4.0)]
    seen = [(tuple(map(float, g(x))), g.stats().records, g.stats().kernel_calls) for x in points]
    assert [value for value, *_ in seen] == [(4.0, 4.0), (9.0, 6.0), (1.0, -1.0), (2.0, -1.0), (10.0, 1.0), (16.0, 8.0), (16.0, 8.0)]
    assert [records for _, records, _ in seen] == [1, 1, 2, 2, 3, 3, 4]
    assert [kernels for *_, kernels in seen] == [0, 1, 1, 1, 1, 2, 2]
    (floats, singles) = g._replayed.kinds.values()
    assert [len(kind.tapes) for kind in (floats, singles)] == [3, 1] and len({kept.seen[0] for kept in floats.tapes}) == 2
