"""`tg.vmap` beside a Python loop over the lanes: values, both modes, second order; nesting, paths, axes and what is refused."""

import collections
import dataclasses
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import tapegrad as tg
from tapegrad import implicit
from tapegrad.program.iterations import S_CHUNKS, S_SHARE
from tapegrad.scipy.integrate import solve_ivp
from tests.transforms.loops.plainly import leaves_of, mapped, stacked
from tests.transforms.loops.test_counted import Counted

Pair = collections.namedtuple("Pair", "first second")
RNG = np.random.default_rng(20)
POINTS, MATRICES, NUMBERS = RNG.normal(size=(5, 3)), RNG.normal(size=(5, 3, 3)), np.array([0.4, -1.3, 2.1, -0.2, 0.9])
WEIGHTS = np.array([0.7, -0.4, 1.1])


@dataclasses.dataclass
class Body:
    place: object
    speed: object


def bisected(a):
    def step(both):
        low, high = both
        middle = 0.5 * (low + high)
        return (middle, high) if middle * middle < a else (low, middle)

    low, _ = tg.while_loop(lambda both: both[1] - both[0] > 1e-9, step, (0.0 * a, a + 1.0))
    return low - (low * low - a) / (2.0 * low)


def orbit(p):
    def step(state, force):
        place, speed = state
        place = place + 0.1 * speed
        return (place, speed + 0.1 * (force - p[0] * np.sin(place))), place

    (place, _), places = tg.scan(step, (p[1], 0.0), np.cos(np.arange(6.0)))
    return {"last": place, "all": places}


def by_kind(x):
    if x > 1.0:
        return x * x
    return -x if x < 0.0 else np.sin(x)


def decay(p):
    return solve_ivp(lambda t, y: -p[0] * p[0] * y + np.cos(p[1] * t), (0.0, 1.0), np.stack([p[2], 1.0 + 0.0 * p[2]]), rtol=1e-6, atol=1e-8).y[:, -1]


def root(p):
    return implicit.root(lambda x, p: x**3 + (1.0 + p[0] ** 2) * x - p[1], np.zeros(()), p)


#: Name -> function of lanes, arguments with lanes first.
CASES = {
    "number": (lambda x: np.sin(x) * x, (NUMBERS,)),
    "vector": (lambda x: np.sum(x[1:] * np.exp(x[:-1])), (POINTS,)),
    "vector to vector": (lambda x: np.tanh(x) * WEIGHTS, (POINTS,)),
    "matrix": (lambda a, x: a @ x + x, (MATRICES, POINTS)),
    "solved": (lambda a, x: np.linalg.solve(a + 4.0 * np.eye(3), x), (MATRICES, POINTS)),
    "several": (lambda x, s: (x * s, [np.sum(x), {"s": s}]), (POINTS, NUMBERS)),
    "dict": (lambda d: {"b": d["x"] * d["s"], "a": d["s"] ** 2}, ({"x": POINTS, "s": NUMBERS},)),
    "namedtuple": (lambda p: Pair(p.second, p.first * p.second), (Pair(NUMBERS, NUMBERS[::-1].copy()),)),
    "dataclass": (lambda b: Body(b.place + b.speed, b.speed * 2.0), (Body(POINTS, POINTS * 0.5),)),
    "constant": (lambda x: (x, 2.5, WEIGHTS), (NUMBERS,)),
    "passed through": (lambda x: x, (POINTS,)),
    "paths": (by_kind, (NUMBERS,)),
    "cond": (lambda x: tg.cond(x > 0.0, lambda x: x * x, lambda x: -x, x), (NUMBERS,)),
    "where": (lambda x: np.where(x > 0.0, x, 0.1 * x), (POINTS,)),
    "while": (bisected, (np.abs(NUMBERS) + 0.5,)),
    "scan": (orbit, (np.abs(POINTS[:, :2]) + 0.5,)),
    "solve_ivp": (decay, (POINTS,)),
    "root": (root, (POINTS,)),
}


def by_lane(f):
    """What `vmap` means, of arguments with lanes first, plainly."""

    def looped(*args):
        return mapped(stacked, *[f(*mapped(lambda leaf: leaf[k], list(args))) for k in range(len(leaves_of(list(args))[0]))])

    return looped


def total(thing):
    """The floats of a container, each with a weight of its own, added up."""
    result = 0.0
    for k, leaf in enumerate(leaves_of(thing)):
        result = result + np.sum(leaf * np.cos(k + 0.7 * np.arange(np.size(leaf))).reshape(np.shape(leaf)))
    return result


def assert_same(found, expected, rtol=1e-11):
    assert type(found) is type(expected)
    found, expected = leaves_of(found), leaves_of(expected)
    assert len(found) == len(expected)
    for one, other in zip(found, expected):
        assert type(one) is type(other) and np.shape(one) == np.shape(other) and np.result_type(one) == np.result_type(other)
        np.testing.assert_allclose(one, other, rtol=rtol, atol=rtol)


@pytest.fixture(params=[1, 2, 3])
def threads(request, monkeypatch):
    monkeypatch.setattr(tg.config, "threads", request.param)
    return request.param


@pytest.fixture(scope="module")
def of_one_thread():
    """What the next test has found with one thread."""
    return {}


def many_lanes():
    """Enough to do for threads: lanes of two paths, with what they have in common, forward and back, by recordings and kernels."""
    rng = np.random.default_rng(3)
    xs, w = rng.normal(size=(30_001, 4)), np.array([0.3, -0.8, 0.5, 1.2])

    def f(w, x):
        s = np.sum(np.sin(x) * w)
        return s * s if s > 0.0 else np.exp(s) * x[0]

    mean = lambda w, xs: np.mean(tg.vmap(f, in_axes=(None, 0))(w, xs))
    recorded = tg.jit(tg.grad(mean, (0, 1)), kernel="always")
    recorded(w, xs)
    (program,) = {dict(item.entry.attrs)["program"] for item in recorded.tape(w, xs).items if getattr(item.entry.function, "name", "") == "loop"}
    assert program.words[S_SHARE] and program.words[S_CHUNKS] > 3
    every = tg.vmap(tg.value_and_grad(f), in_axes=(None, 0))
    return [*every(w, xs), *tg.jit(every)(w, xs), *tg.grad(mean, (0, 1))(w, xs), *recorded(w, xs)]


def test_the_number_of_threads_does_not_change_a_bit(threads, of_one_thread):
    found = many_lanes()
    for one, other in zip(found, of_one_thread.setdefault("found", found), strict=True):
        np.testing.assert_array_equal(one, other)
    value, gradient, by_kernel, gradient_by_kernel, of_w, of_xs, *recorded = found
    np.testing.assert_allclose(by_kernel, value, rtol=1e-12)
    np.testing.assert_allclose(gradient_by_kernel, gradient, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(of_w, np.mean(gradient, axis=0), rtol=1e-10)
    for one, other in zip(recorded, (of_w, of_xs)):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-18)


#: Cases of which kernels take seconds to compile are long.
EACH = [pytest.param(name, marks=[pytest.mark.long] if name == "solve_ivp" else []) for name in CASES]


@pytest.mark.parametrize("name", EACH)
def test_values_are_those_of_each_lane(name):
    f, args = CASES[name]
    expected = by_lane(f)(*args)
    assert_same(tg.vmap(f)(*args), expected)
    recorded = tg.jit(tg.vmap(f))
    for _ in range(3):
        assert_same(recorded(*args), expected)
    assert recorded.stats().records == 1


def test_every_lane_takes_its_own_steps():
    assert_same(tg.vmap(decay)(POINTS), by_lane(decay)(POINTS))


@pytest.mark.parametrize("name", EACH)
def test_derivatives_of_what_is_mapped(name):
    """In reverse mode recorded and at once, and forward, beside the tape of the Python loop."""
    f, args = CASES[name]
    numbers = tuple(range(len(args)))
    many, each = (lambda *args: total(tg.vmap(f)(*args))), (lambda *args: total(by_lane(f)(*args)))
    expected = tg.grad(each, numbers)(*args)
    assert_same(tg.grad(many, numbers)(*args), expected, 1e-9)
    assert_same(tg.jit(tg.grad(many, numbers))(*args), expected, 1e-9)
    assert_same(tg.jvp(many, args, args)[1], tg.jvp(each, args, args)[1], 1e-9)


@pytest.mark.parametrize("name", [name for name in CASES if name not in ("solve_ivp", "dataclass", "namedtuple")])
def test_second_derivatives_of_what_is_mapped(name):
    f, args = CASES[name]
    many, each = (lambda *args: total(tg.vmap(f)(*args))), (lambda *args: total(by_lane(f)(*args)))
    directions = mapped(lambda leaf: np.cos(leaf), args[0])
    expected = tg.hvp(each)(*args, directions)
    assert_same(tg.hvp(many)(*args, directions), expected, 1e-8)
    assert_same(tg.jit(tg.hvp(many))(*args, directions), expected, 1e-8)


LOOPED = [
    pytest.param(case, t, marks=[pytest.mark.long] if t is tg.hessian_diag else [])
    for case in ("while", "root") for t in (tg.grad, tg.hessian, tg.jacrev, tg.hessian_diag)
]  # fmt: skip
SIMPLE = [(case, t) for case in ("number", "vector", "paths") for t in (tg.grad, tg.value_and_grad, tg.hessian, tg.jacfwd, tg.jacrev, tg.hessian_diag)]


@pytest.mark.parametrize(("name", "transformation"), [*SIMPLE, *LOOPED])
def test_derivatives_are_mapped(name, transformation):
    f, args = CASES[name]
    expected = by_lane(transformation(f))(*args)
    assert_same(tg.vmap(transformation(f))(*args), expected, 1e-8)
    assert_same(tg.jit(tg.vmap(transformation(f)))(*args), expected, 1e-8)
    assert_same(tg.vmap(tg.jit(transformation(f)))(*args), expected, 1e-8)


def test_jacobians_of_what_is_mapped_are_block_diagonal():
    f = lambda x: np.tanh(x) * np.sum(x)
    for jacobian in (tg.jacfwd, tg.jacrev):
        blocks = jacobian(tg.vmap(f))(POINTS)
        for k in range(5):
            np.testing.assert_allclose(blocks[k, :, k], tg.jacobian(f)(POINTS[k]), rtol=1e-12)
        assert np.all(blocks[0, :, 1:] == 0.0)


PER_SAMPLE = {
    "grad": tg.grad, "hessian": tg.hessian, "jacfwd": tg.jacfwd, "jacrev": tg.jacrev,
    "value_and_grad": tg.value_and_grad, "jvp": lambda f: lambda w, x: tg.jvp(lambda w: f(w, x), (w,), (WEIGHTS,))[1],
    "vjp": lambda f: lambda w, x: tg.vjp(lambda w: f(w, x), w)[1](2.0)[0],
}  # fmt: skip


@pytest.mark.parametrize("name", PER_SAMPLE)
def test_derivatives_by_what_the_lanes_have_in_common(name):
    """Per-sample derivatives: of each lane, by an argument that is not mapped."""
    each = PER_SAMPLE[name](lambda w, x: np.tanh(w @ x) * w[0])
    expected = mapped(stacked, *[each(WEIGHTS, x) for x in POINTS])
    many = tg.vmap(each, in_axes=(None, 0))
    for mapped_ in (many, tg.jit(many), tg.jit(lambda w, xs: tg.map(lambda x: each(w, x), xs))):
        assert_same(mapped_(WEIGHTS, POINTS), expected)
    squares = lambda f: lambda w: total(f(w))
    weighted = tg.grad(squares(lambda w: mapped(stacked, *[each(w, x) for x in POINTS])))(WEIGHTS)
    assert_same(tg.grad(squares(lambda w: many(w, POINTS)))(WEIGHTS), weighted, 1e-10)
    assert_same(tg.jit(tg.grad(squares(lambda w: many(w, POINTS))))(WEIGHTS), weighted, 1e-10)


def test_in_one_another():
    outer = tg.vmap(tg.vmap(lambda a, b: np.sin(a) * b, in_axes=(None, 0)), in_axes=(0, None))
    expected = np.sin(NUMBERS)[:, None] * NUMBERS
    np.testing.assert_allclose(outer(NUMBERS, NUMBERS), expected, rtol=1e-14)
    gradient = tg.grad(lambda a: np.sum(outer(a, NUMBERS)))(NUMBERS)
    np.testing.assert_allclose(gradient, np.cos(NUMBERS) * np.sum(NUMBERS), rtol=1e-12)
    twice = tg.vmap(tg.grad(lambda x: np.sum(tg.vmap(tg.grad(lambda s: s**3))(x))))
    np.testing.assert_allclose(twice(POINTS), 6.0 * POINTS, rtol=1e-12)


def test_axes_of_arguments_and_results():
    f = lambda d, w, s: {"x": d["x"] * s, "w": w @ d["x"]}
    d, w = {"x": POINTS.T, "y": np.ones(2)}, MATRICES[0]
    expected = by_lane(lambda x, s: f({"x": x}, w, s))(POINTS, NUMBERS)
    found = tg.vmap(f, in_axes=({"y": None, "x": 1}, None, 0), out_axes={"w": -1, "x": 0})(d, w, NUMBERS)
    assert_same(found, {"x": expected["x"], "w": expected["w"].T})
    assert_same(tg.vmap(f, in_axes=[{"y": None, "x": -1}, None, 0], out_axes=1)(d, w, NUMBERS)["x"], expected["x"].T)
    assert_same(tg.vmap(lambda x, *, s: x * s, in_axes=1)(POINTS.T, s=NUMBERS), POINTS * NUMBERS[:, None])
    assert_same(tg.vmap(lambda x, how: getattr(np, how)(x), in_axes=(0, None))(NUMBERS, "sin"), np.sin(NUMBERS))


def test_results_that_lanes_have_in_common_are_returned_once():
    f = lambda x, w: (x * w, np.sum(w), 3.0, np.array([1.0, 2.0]))
    found = tg.vmap(f, in_axes=(0, None), out_axes=(0, None, None, None))(NUMBERS, WEIGHTS)
    assert found[1] == np.sum(WEIGHTS) and found[2] == 3.0
    np.testing.assert_array_equal(found[3], [1.0, 2.0])
    gradient = tg.grad(lambda w: tg.vmap(f, in_axes=(0, None), out_axes=(0, None, None, None))(NUMBERS, w)[1] ** 2)(WEIGHTS)
    np.testing.assert_allclose(gradient, 2.0 * np.sum(WEIGHTS), rtol=1e-14)


@pytest.mark.parametrize("f", [lambda x, w: np.sum(w) + x, lambda x, w: 1.0 if x > 0.0 else 2.0, lambda x, w: np.floor(x).astype(np.int64)])
def test_results_that_may_differ_have_an_axis(f):
    with pytest.raises(tg.errors.StructureError, match="the result may differ from lane to lane, and out_axes says None; give an axis"):
        tg.vmap(f, in_axes=(0, None), out_axes=None)(NUMBERS, WEIGHTS)


def test_dtypes_stay():
    for dtype in (np.float32, np.float64, np.int64, np.int32):
        values = np.arange(4).astype(dtype)
        assert_same(tg.vmap(lambda x: (x * x, x > 1))(values), (values * values, values > 1))


def test_no_lanes_have_results_of_their_shapes():
    assert tg.vmap(tg.grad(lambda x: np.sum(np.log(x))))(np.ones((0, 3))).shape == (0, 3)
    first, second = tg.vmap(lambda x, s: (x.astype(np.float32), s), out_axes=(1, 0))(np.ones((0, 3)), np.ones(0))
    assert (first.shape, first.dtype, second.shape) == ((3, 0), np.float32, (0,))


def test_what_is_captured_has_its_derivative():
    w = tg.tensor(WEIGHTS, requires_grad=True)
    y = tg.vmap(lambda x: np.sum(w * x) ** 2)(POINTS)
    y.sum().backward()
    np.testing.assert_allclose(w.grad.numpy(), 2.0 * POINTS.T @ (POINTS @ WEIGHTS), rtol=1e-12)
    gradient = tg.grad(lambda w: np.mean(tg.vmap(lambda x: np.sum(w * x) ** 2)(POINTS)))(WEIGHTS)
    np.testing.assert_allclose(gradient, 0.4 * POINTS.T @ (POINTS @ WEIGHTS), rtol=1e-12)


def test_without_tensors_the_result_is_an_array_and_with_one_a_tensor():
    assert type(tg.vmap(np.sin)(NUMBERS)) is np.ndarray
    assert type(tg.vmap(tg.grad(lambda w, x: np.sum(w * x)), in_axes=(None, 0))(WEIGHTS, POINTS)) is np.ndarray
    assert isinstance(tg.vmap(np.sin)(tg.tensor(NUMBERS)), tg.Tensor)


def test_a_function_runs_once_a_path():
    lanes = np.linspace(-2.0, 2.0, 1000)
    for transformation, times in ((lambda f: f, 1), (tg.grad, 1), (tg.value_and_grad, 1)):
        counted = Counted(by_kind)
        found = tg.vmap(transformation(counted))(lanes)
        assert counted.runs == 3 * times
        assert_same(found, by_lane(transformation(by_kind))(lanes))
    counted = Counted(by_kind)
    recorded = tg.jit(tg.vmap(counted))
    recorded(lanes[:2])
    recorded(lanes)
    before = counted.runs
    for shift in (0.0, 0.1, 0.2):
        assert_same(recorded(lanes + shift), by_lane(by_kind)(lanes + shift))
    assert counted.runs == before


def test_a_path_that_is_met_later_is_recorded_then():
    counted = Counted(by_kind)
    recorded = tg.jit(tg.vmap(tg.grad(counted)))
    for lanes in (np.full(6, 0.5), np.linspace(0.1, 2.0, 6), np.linspace(-1.0, 2.0, 6)):
        assert_same(recorded(lanes), by_lane(tg.grad(by_kind))(lanes))


def test_too_many_paths():
    def f(x):
        k = 0
        while k < x:
            k += 1
        return k * x

    with pytest.raises(tg.errors.GradientError, match=r"vmap\(f\) has taken 16 paths, and takes another one in iteration 16"):
        tg.vmap(f)(np.arange(30.0))


def test_results_of_many_lanes_are_written_where_they_are_handed_out():
    xs = np.random.default_rng(3).normal(size=(4000, 10))
    of_one = {
        "all": lambda x: (x.sum(), 2.0 * x, 3.0),
        "rows": lambda x: {"a": np.outer(x, x), "b": x[::-1]},
    }
    for f in of_one.values():
        g = tg.jit(tg.vmap(f), kernel="always")
        g(xs), g(xs)
        first, second = leaves_of(g(xs)), leaves_of(g(-xs))
        # Parts of one array, which belongs to the call.
        assert len({id(part.base) for part in first}) == 1 and first[0].base is not None
        for part in first:
            part += 1.0
        for part, other, expected in zip(first, second, leaves_of(tg.vmap(f)(-xs))):
            assert part.flags.writeable and part.flags.c_contiguous and not np.shares_memory(part, other)
            np.testing.assert_allclose(other, expected, rtol=1e-12, atol=1e-12)
        assert not any(np.shares_memory(a, b) for k, a in enumerate(first) for b in first[:k])


HOLDERS = {
    "view": lambda total, twice: twice.T[3, 5:], "buffer": lambda total, twice: memoryview(twice), "base": lambda total, twice: total.base,
    "list": lambda total, twice: [twice[5]],
}  # fmt: skip


@pytest.mark.parametrize("held", HOLDERS.values(), ids=HOLDERS)
def test_memory_of_many_results_is_used_again_when_nobody_has_them(held):
    xs = np.random.default_rng(3).normal(size=(4000, 10))
    g = tg.jit(tg.vmap(lambda x: (x.sum(), 2.0 * x)), kernel="always")
    place = lambda results: results[0].__array_interface__["data"][0]
    g(xs), g(xs)
    first = g(xs)
    # Whatever of them is held is enough to keep it.
    at, kept = place(first), held(*first)
    before = np.array(kept)
    del first
    for _ in range(3):
        results = g(-xs)
        assert place(results) != at
        np.testing.assert_array_equal(kept, before)
    del kept
    at = place(results)
    del results
    found = [g(scale * xs) for scale in (1.0, 2.0, 3.0)]
    assert [place(results) == at for results in found] == [True, False, False]
    for scale, (_, twice) in zip((1.0, 2.0, 3.0), found):
        np.testing.assert_array_equal(twice, 2.0 * (scale * xs))


def test_memory_of_many_results_is_of_one_thread():
    xs = np.random.default_rng(3).normal(size=(4000, 10))
    g = tg.jit(tg.vmap(lambda x: (x.sum(), 2.0 * x)), kernel="always")
    g(xs), g(xs)

    def run(scale):
        for _ in range(200):
            np.testing.assert_array_equal(g(scale * xs)[1], 2.0 * (scale * xs))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(run, (1.0, 2.0, 3.0, 4.0)))


@pytest.mark.parametrize("of_all", [lambda y, z: (y, y[5:]), lambda y, z: (y, y), lambda y, z: y[:, 0], lambda y, z: y], ids=["part", "twice", "column", "small"])
def test_results_that_overlap_or_are_a_small_part_are_copied(of_all):
    xs = np.random.default_rng(3).normal(size=(1000, 10))
    g = tg.jit(lambda xs: of_all(*tg.vmap(lambda x: (2.0 * x, np.outer(x, x)))(xs)), kernel="always")
    expected = leaves_of(of_all(2.0 * xs, None))
    for _ in range(3):
        found = leaves_of(g(xs))
        for part, other in zip(found, expected):
            assert part.base is None
            np.testing.assert_array_equal(part, other)
            part += 1.0


def test_integers_that_floats_do_not_hold_go_lane_by_lane():
    big = np.array([2**60 + 1, 3])
    found = tg.vmap(lambda n: n + 1)(big)
    assert found.dtype == np.int64 and found.tolist() == [2**60 + 2, 4]


WRONG = {
    "is a number": (lambda: tg.vmap(np.sin)(3.0), r"vmap\(sin\): args\[0\] is a number, which has no axis 0; give None for it"),
    "lengths": (
        lambda: tg.vmap(lambda a, d: a, in_axes=(0, {"x": 1, "y": None}))(np.ones(3), {"x": np.ones((2, 4)), "y": 0.0}),
        r"the arrays have different lengths along the axes that are mapped: args\[0\] has 3 along axis 0, args\[1\]\['x'\] has 4 along axis 1",
    ),
    "keyword": (lambda: tg.vmap(lambda a, b: a)(np.ones(3), b=np.ones(2)), r"args\[0\] has 3 along axis 0, b has 2 along axis 0"),
    "no such axis": (lambda: tg.vmap(np.sin, in_axes=2)(POINTS), r"args\[0\] has no axis 2: it has 2 axes"),
    "nothing mapped": (lambda: tg.vmap(np.sin, in_axes=None)(POINTS), "in_axes=None maps none of the arguments"),
    "entries": (lambda: tg.vmap(np.sin, in_axes=(0, 0))(POINTS), "in_axes has 2 entries, and there are 1 positional arguments"),
    "other container": (lambda: tg.vmap(np.sin, in_axes=({"a": 0},))({"b": POINTS}), r"in_axes of args\[0\] has {'a': 0} for {b: \*}"),
    "no axis": (lambda: tg.vmap(np.sin, in_axes=(0.5,))(POINTS), r"in_axes of args\[0\] has 0.5 for \*; give one axis for all of it"),
    "text": (lambda: tg.vmap(np.sin)("abc"), r"args\[0\] is str, which has no axes; give None for it in in_axes"),
    "no such axis of a result": (lambda: tg.vmap(np.sin, out_axes=2)(POINTS), "the result has no axis 2: it has 2 axes"),
    "results": (lambda: tg.vmap(np.sin, out_axes=(0, 0))(POINTS), r"out_axes has \(0, 0\) for \*"),
    "no function": (lambda: tg.vmap(3), "expected a function for tg.vmap, got int"),
    "results that differ": (lambda: tg.vmap(lambda x: x if x > 0.0 else (x, x))(NUMBERS), r"vmap\(<lambda>\) returns .* where it has returned"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_does_not_fit_is_named(name):
    call, message = WRONG[name]
    with pytest.raises(tg.errors.StructureError, match=message):
        call()


@dataclasses.dataclass
class Scaled:
    value: object
    unit: str = dataclasses.field(default="m", metadata={"static": True})


def test_axes_in_containers_that_hold_more_than_leaves():
    at = np.arange(6.0).reshape(2, 3)
    doubled = tg.vmap(lambda s: Scaled(2.0 * s.value), in_axes=(Scaled(1),), out_axes=Scaled(1))(Scaled(at))
    assert doubled.value.tolist() == (2.0 * at).tolist() and doubled.unit == "m"
    ordered = collections.OrderedDict(a=at, b=1.0)
    mapped = tg.vmap(lambda d: d["a"].sum() + d["b"], in_axes=(collections.OrderedDict(a=0, b=None),))
    assert mapped(ordered).tolist() == [4.0, 13.0]
    with pytest.raises(tg.errors.StructureError, match="a container like it"):
        tg.vmap(lambda d: d["a"].sum() + d["b"], in_axes=(collections.OrderedDict(b=None, a=0),))(ordered)


@pytest.mark.parametrize("chosen", [np.argmax, lambda x: np.argsort(x)[0], lambda x: np.searchsorted(WEIGHTS[[1, 0, 2]], x[1]) - 1], ids=["argmax", "argsort", "searchsorted"])
def test_positions_among_dual_numbers_are_those_of_each_lane(chosen):
    slopes = tg.jacfwd(tg.grad(lambda x: x[chosen(x)] * x[1]))
    expected = np.stack([slopes(x) for x in POINTS])
    np.testing.assert_array_equal(tg.vmap(slopes)(POINTS), expected)
    recorded = tg.jit(tg.vmap(slopes))
    for k in range(4):
        np.testing.assert_array_equal(recorded(np.roll(POINTS, k, axis=0)), np.roll(expected, k, axis=0))
    assert recorded.stats().records == 1


def test_what_takes_many_paths_is_named_with_what_to_write():
    points, table = np.random.default_rng(0).normal(size=(60, 40)), np.arange(100.0)
    with pytest.raises(tg.errors.GradientError, match=r"a number that it computes is a position there; let it be one in a tensor"):
        tg.vmap(lambda x: table[np.argmax(x)] * x[0])(points)
    with pytest.raises(tg.errors.GradientError, match=r"item\(\) takes a value there, and each value is a path"):
        tg.vmap(lambda x: x[0] * x[1].item())(points)
    held = tg.tensor(table)
    np.testing.assert_array_equal(tg.vmap(lambda x: held[np.argmax(x)] * x[0])(points), table[np.argmax(points, axis=1)] * points[:, 0])
