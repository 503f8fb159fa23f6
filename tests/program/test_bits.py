"""A replay has the bits of what was recorded, so that no tape fails its own guards.

Every row at random points and at numbers with a meaning of their own, scalars and arrays;
reductions of arrays that lie in memory in all ways; and random programs that learn from
every value they compute.
"""

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.array.record import apply
from tapegrad.interpreter import steps
from tapegrad.program.values import ValueProgram
from tapegrad.rules import BY_NAME, ROWS
from tapegrad.tape.meta import meta_of
from tapegrad.transforms.replay.function import Replayed
from tests.interpreter.test_single import drawn
from tests.rules.checker import generator
from tests.rules.examples_of_rows import ELEMENTWISE, examples_of
from tests.transforms.replay.rows import result_of

pytestmark = pytest.mark.filterwarnings("ignore")

#: Zeros with both signs, what is not finite, the ends of the range, ties, integers and halves.
NUMBERS = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 5e-324, -5e-324, 1e308, -1e308, 0.5, -0.5, 2.0, -3.0, 1e16, 2.5, 7.0, -7.5]


def assert_bits(found, expected, where):
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.shape == expected.shape and found.dtype == expected.dtype, where
    same = (found == expected) & (np.signbit(found) == np.signbit(expected)) | np.isnan(found) & np.isnan(expected)
    assert same.all(), f"{where}: {found[~same][:3]} is not {expected[~same][:3]}"


def replayed(function, recorded_at, points):
    """The values of `function` replayed at each of `points`."""
    one = Replayed(function, (), scalar=False)
    for _ in range(2):
        one.call(recorded_at, {}, False)
    found = [one.call(point, {}, False).values[0] for point in points]
    assert one.stats.fallback == "" and one.stats.replays >= len(points) // 2
    return found


def eager(function, point):
    result = function(*[tg.tensor(x) for x in point])
    return result._v if isinstance(result, tg.Tensor) else result


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_random_points(name):
    row, rng = BY_NAME[name], generator(1)
    for dtype in "df":
        for far in (False, True):
            points = [tuple(drawn(row, dtype, far, rng)) for _ in range(3)]
            inputs = [k for k in range(row.arity) if points[0][k].dtype.kind == "f" and k not in row.refused]

            def function(*given, rest=points[0], inputs=inputs):
                return apply(row, [given[inputs.index(k)] if k in inputs else o for k, o in enumerate(rest)])

            points = [[p[k] for k in inputs] for p in points]
            for point, value in zip(points[1:], replayed(function, points[0], points[1:]), strict=True):
                assert_bits(value, eager(function, point), name)
            if dtype == "d" and name != "where":
                numbers = [[float(a[j]) for a in points[1]] for j in range(40)]

                def scalars(*given, rest=tuple(o[0].item() for o in drawn(row, dtype, far, rng)), inputs=inputs):
                    return apply(row, [given[inputs.index(k)] if k in inputs else o for k, o in enumerate(rest)])

                for point, value in zip(numbers, replayed(scalars, numbers[0], numbers), strict=True):
                    assert_bits(value, eager(scalars, point), f"{name}{point}")


#: An operation of rules, in which the sign of a zero does not count.
SIGNLESS = {"absolute_product"}


@pytest.mark.parametrize("name", [r.name for r in ROWS if r.elementwise and r.arity < 3 and not r.refused and r.name not in SIGNLESS])
def test_numbers_with_a_meaning(name):
    row = BY_NAME[name]
    points = [(a,) for a in NUMBERS] if row.arity == 1 else [(a, b) for a in NUMBERS for b in NUMBERS]

    def function(*operands):
        return apply(row, operands)

    for point, value in zip(points, replayed(function, (0.7,) * row.arity, points), strict=True):
        assert_bits(value, eager(function, point), f"{name}{point}")
    arrays = [np.array(column) for column in zip(*points)]
    (value,) = replayed(function, [np.full(len(points), 0.7)] * row.arity, [arrays])
    assert_bits(value, eager(function, arrays), name)


def by_program(name, attrs, x, out):
    """The value by the program of a replay into `out`, or None if NumPy is to be called."""
    program = ValueProgram.of_row(BY_NAME[name], attrs, (meta_of(x),), meta_of(out))
    if program is None:
        return None
    scratch = np.zeros(8192, np.uint8)
    registers = scratch[4096:].view(np.int64)
    registers[0], registers[program.registers[0]] = out.ctypes.data, x.ctypes.data
    steps.run(program.words.ctypes.data, registers.ctypes.data, 0, 0, 0, 0, scratch.ctypes.data)
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
            assert_bits(found, expected, f"{name} {x.shape} {x.strides} {attrs}")
    assert by_programs > 100


@pytest.mark.parametrize("name", [row.name for row in ROWS if not row.elementwise and not row.dynamic])
def test_no_row_fails_its_own_guards(name):
    for example in examples_of(name):
        operands = [o if isinstance(o, float) else np.asarray(o) for o in example.operands]
        inputs = [k for k in example.row.slots(len(operands)) if np.asarray(operands[k]).dtype.kind == "f"]
        if not inputs:
            continue

        def function(*given):
            result = result_of(example, [given[inputs.index(k)] if k in inputs else o for k, o in enumerate(operands)])
            for number in np.ravel(result)[:20] if np.ndim(result) else [result]:
                number.item()
            tg.sum(result).item()
            return tg.sum(result)

        one = Replayed(function, (0,), scalar=True)
        one.call([operands[k] for k in inputs], {}, False)
        assert one.stats.fallback == "", str(example)


# ---- random programs ---------------------------------------------------------------------

ONE = [
    np.sin, np.cos, np.tanh, np.exp, np.arctan, np.arcsinh, np.cbrt, np.square, np.abs, np.expm1, np.sinc, tg.sigmoid, tg.softplus,
    lambda a: np.log1p(np.abs(a)), lambda a: np.sqrt(np.abs(a) + 0.1), lambda a: a**3, lambda a: np.power(np.abs(a) + 0.1, 1.7),
]  # fmt: skip
TWO = [
    np.add, np.multiply, np.subtract, np.maximum, np.hypot, np.arctan2, np.logaddexp, lambda a, b: a / (1.5 + np.abs(b)),
    lambda a, b: np.where(a > b, a, b * 2), lambda a, b: a @ b,
]  # fmt: skip
REDUCED = [
    np.sum, np.mean, np.prod, np.var, np.std, np.max, np.min, lambda a, axis: tg.logsumexp(a, axis),
    lambda a, axis: np.sqrt(np.sum(a * a, axis=axis)),
]  # fmt: skip
MOVED = [
    lambda a, k: a.T, lambda a, k: np.moveaxis(a, k, 0), lambda a, k: a[::-1], lambda a, k: np.flip(a), lambda a, k: a[..., ::2],
    lambda a, k: np.reshape(a, (-1,)), lambda a, k: np.cumsum(a, axis=k), lambda a, k: tg.softmax(a, axis=k), lambda a, k: np.sort(a, axis=-1),
]  # fmt: skip


def program(seed):
    """A function of two arrays that reads every value it computes."""

    def function(x, y):
        rng, arrays = np.random.default_rng(seed), [x, y]
        for _ in range(rng.integers(3, 12)):
            a, b = (arrays[rng.integers(len(arrays))] for _ in range(2))
            kind, k = rng.integers(4), int(rng.integers(a.ndim))
            axes = None if rng.random() < 0.3 else tuple(sorted(rng.choice(a.ndim, rng.integers(1, a.ndim + 1), replace=False).tolist()))
            one, two, reduced, moved = (of[rng.integers(len(of))] for of in (ONE, TWO, REDUCED, MOVED))
            try:
                r = one(a) if kind == 0 else two(a, b) if kind == 1 else reduced(a, axes) if kind == 2 else moved(a, k)
            except ValueError:
                continue  # shapes that do not fit
            if isinstance(r, tg.Tensor):
                np.sum(r).item()
            arrays.append(r if np.ndim(r) else r * a)
        return tg.sum(arrays[-1])

    return function


@pytest.mark.parametrize("start", [0, *(pytest.param(k, marks=pytest.mark.long) for k in range(60, 900, 60))])
def test_random_programs_pass_their_own_guards(start):
    for seed in range(start, start + 60):
        rng = generator(seed)
        shape = [(5,), (3, 4), (9, 17), (2, 3, 4), (3, 5, 7)][rng.integers(5)]
        arrays = [rng.standard_normal(shape).astype("df"[seed % 4 == 3]) for _ in range(2)]
        one = Replayed(program(seed), (0,), scalar=True)
        one.call(arrays, {}, False)
        assert one.stats.fallback == "" and one.stats.records == 1, seed


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_sum_of_one_zero_has_the_sign_that_numpy_gives_it(dtype):
    tiny = np.array([-1e-30, 1e-30, 1e-30] if dtype is np.float32 else [-1e-200, 1e-200, 1e-200], dtype)
    g = tg.jit(tg.value_and_grad(lambda x: np.sum(np.prod(x))), kernel="never")
    assert not any(np.signbit(g(tiny)[0]) for _ in range(4)) and not np.signbit(np.sum(np.prod(tiny))) and np.signbit(np.prod(tiny))


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
            assert_bits(found, whole(point), function.__name__)
    assert ValueProgram.of_ufunc(function, (meta_of(points[0]),), meta_of(np.empty((12, 34), bool)[:, ::2])) is None



def test_curvature_of_a_network_that_keeps_its_units_in_columns():
    """The rule of ``maximum`` asks which operands are NaN, also of a transposed array."""
    weights, x = generator(0).normal(size=(16, 9)), generator(1).normal(size=(2, 9))
    for products in (tg.jit(tg.hvp(lambda x: np.sum(np.maximum((weights @ x.T).T, 0.0) ** 2)), kernel=kernel) for kernel in ("never", "always")):
        for k in range(4):
            point = x * (1.0 - 0.6 * k)
            on = (weights @ point.T).T > 0.0
            np.testing.assert_allclose(products(point, np.ones_like(x)), 2.0 * (on * weights.sum(1)) @ weights, rtol=1e-12)
