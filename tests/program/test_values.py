"""The values of a replay are those of a plain run, but for rounding; what is exact passes its own guards.

Every row at random points and at numbers with a meaning of their own, scalars and arrays;
reductions of arrays that lie in memory in all ways.
"""

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.array.record import apply
from tapegrad.interpreter import steps
from tapegrad.program.values import ValueProgram
from tapegrad.rules import BY_NAME
from tapegrad.tape.layout import meta_of
from tapegrad.transforms.replay.function import Replayed
from tapegrad.transforms.replay.kernels import JitOptions
from tests.interpreter.test_single import drawn
from tests.near import near
from tests.rules.checker import generator

pytestmark = pytest.mark.filterwarnings("ignore")

#: Zeros with both signs, what is not finite, the ends of the range, ties, integers and halves.
NUMBERS = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 5e-324, -5e-324, 1e308, -1e308, 0.5, -0.5, 2.0, -3.0, 1e16, 2.5, 7.0, -7.5]


def replayed(function, recorded_at, points):
    """The values of `function` replayed at each of `points`."""
    one = Replayed(function, (), scalar=False, jit=JitOptions("never"))
    for _ in range(2):
        one.call(recorded_at, {}, False)
    found = [one.call(point, {}, False).values[0] for point in points]
    assert one.stats.fallback == "" and one.stats.replays >= len(points) // 2
    return found


def eager(function, point):
    result = function(*[tg.tensor(x) for x in point])
    return result._v if isinstance(result, tg.Tensor) else result


def values_at_random_points(name):
    row, rng = BY_NAME[name], generator(1)
    for dtype in "df":
        for far in (False, True):
            points = [tuple(drawn(row, dtype, far, rng)) for _ in range(3)]
            inputs = [k for k in range(row.arity) if points[0][k].dtype.kind == "f" and k not in row.refused]

            def function(*given, rest=points[0], inputs=inputs):
                return apply(row, [given[inputs.index(k)] if k in inputs else o for k, o in enumerate(rest)])

            points = [[p[k] for k in inputs] for p in points]
            for point, value in zip(points[1:], replayed(function, points[0], points[1:]), strict=True):
                near(value, eager(function, point), where=name)
            if dtype == "d" and name != "where":
                numbers = [[float(a[j]) for a in points[1]] for j in range(40)]

                def scalars(*given, rest=tuple(o[0].item() for o in drawn(row, dtype, far, rng)), inputs=inputs):
                    return apply(row, [given[inputs.index(k)] if k in inputs else o for k, o in enumerate(rest)])

                for point, value in zip(numbers, replayed(scalars, numbers[0], numbers), strict=True):
                    near(value, eager(scalars, point), where=f"{name}{point}")


def values_at_numbers_with_a_meaning(name):
    row = BY_NAME[name]
    points = [(a,) for a in NUMBERS] if row.arity == 1 else [(a, b) for a in NUMBERS for b in NUMBERS]

    def function(*operands):
        return apply(row, operands)

    for point, value in zip(points, replayed(function, (0.7,) * row.arity, points), strict=True):
        near(value, eager(function, point), where=f"{name}{point}")
    arrays = [np.array(column) for column in zip(*points)]
    (value,) = replayed(function, [np.full(len(points), 0.7)] * row.arity, [arrays])
    near(value, eager(function, arrays), where=name)


def by_program(name, attrs, x, out):
    """The value by the program of a replay into `out`, or None if NumPy is to be called."""
    program = ValueProgram.of_row(BY_NAME[name], attrs, (meta_of(x),), meta_of(out))
    if program is None:
        return None
    scratch = np.zeros(8192, np.uint8)
    registers = scratch[4096:].view(np.int64)
    registers[0], registers[program.registers[0]] = out.ctypes.data, x.ctypes.data
    steps.run(program.words.ctypes.data, registers.ctypes.data, 0, 0, 0, scratch.ctypes.data)
    return out


def anyhow(rng, count):
    """Arrays with axes in any order, turned around and with steps."""
    for k in range(count):
        x = rng.standard_normal([int(n) for n in rng.choice([1, 2, 3, 5, 8, 9, 17, 33, 130], rng.integers(1, 4))]).astype("df"[k % 4 == 3])
        if rng.random() < 0.6:
            x = x.transpose(rng.permutation(x.ndim))
        if rng.random() < 0.3:
            x = np.flip(x, tuple(np.flatnonzero(rng.random(x.ndim) < 0.5).tolist()))
        if rng.random() < 0.3:
            x = x[tuple(slice(None, None, int(rng.integers(1, 3))) for _ in range(x.ndim))]
        yield x


@pytest.mark.parametrize("name", "sum prod mean var std norm logsumexp max min".split())
def test_reductions_of_arrays_in_any_layout(name):
    rng, by_programs = generator(2), 0
    for x in anyhow(rng, 150):
        axes = rng.choice(x.ndim, rng.integers(1, x.ndim + 1), replace=False).tolist()
        attrs = [("axis", None if len(axes) == x.ndim and rng.random() < 0.7 else tuple(sorted(axes)))]
        attrs += [("ddof", 0)] * (name in ("var", "std")) + [("keepdims", bool(rng.random() < 0.3))]
        expected = np.asarray(BY_NAME[name].value(x, **dict(attrs)))
        found = by_program(name, tuple(attrs), x, np.empty_like(expected))
        if found is not None:
            by_programs += 1
            near(found, expected, x.size, where=f"{name} {x.shape} {x.strides} {attrs}")
    assert by_programs > 100


def _moved(x):
    return np.concatenate([np.flip(x), x.T[::2].reshape(-1)[:2][:, None] * np.ones((1, x.shape[1]))])


@pytest.mark.parametrize(
    "seen",
    [
        lambda x: [v.item() for v in x[0]], lambda x: [x[0, 0] > 0.4, np.all(x > 0.0), np.argmax(x) == 3, x.max() < 1.0],
        lambda x: np.sum(x).item(), lambda x: (x * 2.0 - x / 3.0).sum(axis=0)[0].item(), lambda x: np.mean(x, axis=1)[1].item(),
        lambda x: np.sqrt(np.sum(x * x)).item(), lambda x: (x @ x.T)[0, 1].item(), lambda x: np.max(x, axis=0)[1].item(),
        lambda x: np.exp(x)[0, 1].item(), lambda x: np.tanh(x[1, 2]).item(), lambda x: _moved(x)[3, 1].item(),
        lambda x: [int(k) for k in np.argsort(x[0] * x[1])], lambda x: np.sort(x, axis=1)[0, 1].item(),
    ],
)  # fmt: skip
def test_what_python_learns_of_values_is_guarded_and_holds_where_it_was_recorded(seen):
    x = generator(3).uniform(0.1, 0.9, (3, 5))

    def function(x):
        learnt = np.sum(np.asarray(seen(x), float))
        return np.sum(x * x) * learnt

    one = Replayed(function, (0,), scalar=True, jit=JitOptions("never"))
    for _ in range(4):
        near(one.call([x], {}, False).values[0], np.float64(function(x)))
    assert one.stats.fallback == "" and one.stats.replays > 0
    near(one.call([0.5 * x], {}, False).values[0], np.float64(function(0.5 * x)))


@pytest.mark.parametrize("function", [np.isnan, np.isinf, np.isfinite, np.signbit], ids=lambda f: f.__name__)
@pytest.mark.parametrize("char", "df")
def test_truth_values_of_arrays_in_any_layout(function, char):
    """Loops of NumPy leave out elements of a result that is not in one piece: whatever stood in that memory would be read."""
    layouts = [
        lambda x: x.T, lambda x: x[:, ::2], lambda x: x[::-1, ::-1], lambda x: x.reshape(3, 4, 17).transpose(2, 0, 1),
        lambda x: x.reshape(3, 4, 17).transpose(1, 0, 2), lambda x: np.broadcast_to(x[:1], (5, x.shape[1])).T, lambda x: x,
    ]  # fmt: skip
    points = [generator(k).normal(size=(12, 17)).astype(char) for k in range(3)]
    for k, p in enumerate(points):
        p[k::3, ::2] = [np.nan, np.inf, -np.inf][k]
    for layout in layouts:
        whole = lambda x: np.where(function(layout(x * 1.0)), 1.0, 2.0)  # noqa: B023, E731
        for found, point in zip(replayed(whole, [points[0]], [[p] for p in points]), points):
            np.testing.assert_array_equal(found, whole(point))
    assert ValueProgram.of_host(function, (meta_of(points[0]),), meta_of(np.empty((12, 34), bool)[:, ::2])) is None



def test_curvature_of_a_network_that_keeps_its_units_in_columns():
    """The rule of ``maximum`` asks which operands are NaN, also of a transposed array."""
    weights, x = generator(0).normal(size=(16, 9)), generator(1).normal(size=(2, 9))
    for products in (tg.jit(tg.hvp(lambda x: np.sum(np.maximum((weights @ x.T).T, 0.0) ** 2)), kernel=kernel) for kernel in ("never", "always")):
        for k in range(4):
            point = x * (1.0 - 0.6 * k)
            on = (weights @ point.T).T > 0.0
            np.testing.assert_allclose(products(point, np.ones_like(x)), 2.0 * (on * weights.sum(1)) @ weights, rtol=1e-12)
