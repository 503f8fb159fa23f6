"""The contract: without `jit` a function runs at every call, under `jit` once for each kind of arguments and each path."""

import copy
import gc
import itertools
import pickle
import warnings
import weakref

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.codegen.code import COUNTS
from tapegrad.common.errors import OptionError
from tapegrad.transforms.replay import function as replaying
from tapegrad.transforms.replay import running as statistics
from tapegrad.transforms.replay.function import LIMIT
from tapegrad.transforms.replay.running import EARNED, GIVE_UP, WINDOW
from tests.every import every
from tests.transforms.replay.agreement import quiet
from tests.transforms.replay.test_paths import FUNCTIONS as PATHS

NUMBERS = itertools.count()
X = np.array([0.5, 1.0, 1.5])
V = np.array([1.0, -2.0, 0.5])


class Calls:
    """Runs of a function; an object of which a recorded function is looked at as one."""

    number = 0


def counted(function):
    """The function, and its `Calls`."""
    calls = Calls()

    def call(*args, **kwargs):
        calls.number += 1
        return function(*args, **kwargs)

    return call, calls


def loss(x):
    return np.sum(np.sin(x) * x) + x[0] * x[1] ** 3


def vector(x):
    return np.sin(x) * x[::-1] + x[0] * x[1]


#: Transformation -> (of what it is taken, what it is called with besides the point).
TRANSFORMATIONS = {
    "grad": (tg.grad, loss, ()),
    "value_and_grad": (tg.value_and_grad, loss, ()),
    "elementwise_grad": (tg.elementwise_grad, vector, ()),
    "jacobian": (tg.jacobian, vector, ()),
    "jacobian, forward": (lambda f: tg.jacobian(f, mode="forward"), vector, ()),
    "jacrev": (tg.jacrev, vector, ()),
    "hessian": (tg.hessian, loss, ()),
    "hessian_diag": (tg.hessian_diag, loss, ()),
    "laplacian": (tg.laplacian, loss, ()),
    "hvp": (tg.hvp, loss, (V,)),
    "gnvp": (tg.gnvp, vector, (V,)),
    "sparse_jacobian": (tg.sparse_jacobian, vector, ()),
    "sparse_hessian": (tg.sparse_hessian, loss, ()),
    "grad of grad": (lambda f: tg.grad(lambda x: np.sum(tg.grad(f)(x) * V)), loss, ()),
    "jacobian of grad": (lambda f: tg.jacobian(tg.grad(f)), loss, ()),
    "grad of the norm of a jacobian": (lambda f: tg.grad(lambda x: np.sum(tg.jacobian(f)(x) ** 2)), vector, ()),
    "grad of hvp": (lambda f: tg.grad(lambda x: np.sum(tg.hvp(f)(x, V))), loss, ()),
    "jacobian of jacobian": (lambda f: tg.jacobian(tg.jacobian(f)), vector, ()),
}
OF_A_LAMBDA = ("grad of grad", "grad of the norm of a jacobian", "grad of hvp")


def dense(answer):
    """An answer as one vector."""
    parts = answer if isinstance(answer, tuple) else (answer,)
    return np.concatenate([np.ravel(p.toarray() if hasattr(p, "toarray") else p) for p in parts])


def points(count):
    return [X + 0.1 * k for k in range(count)]


# -- once, and every time -----------------------------------------------------------------------
@pytest.mark.parametrize("kernel", ["auto", "always", "never"])
def test_two_thousand_calls_of_a_recorded_function_run_it_once(kernel):
    function, calls = counted(loss)
    g = tg.jit(tg.value_and_grad(function), kernel=kernel)
    for k in range(2000):
        value, slope = g(X + k / 1000)
    assert calls.number == g.stats().records == 1 and g.stats().runs == 0 and g.stats().replays == 1999
    np.testing.assert_allclose((value, *slope), (loss(X + 1.999), *tg.grad(loss)(X + 1.999)), rtol=1e-12)


def test_a_function_without_jit_runs_at_every_call():
    function, calls = counted(loss)
    g = tg.value_and_grad(function)
    for k in range(100):
        g(X)
        assert calls.number == k + 1
    stats = g.stats()
    assert stats.runs == 100 and stats.records == stats.replays == stats.tapes == stats.kernels == stats.bytes == 0


@pytest.mark.parametrize("name", TRANSFORMATIONS)
def test_every_transformation_runs_at_every_call_and_once_under_jit(name):
    """As often at each call as at the first one, and no more at all; ``tg.grad(tg.jit(f))`` is ``tg.jit(tg.grad(f))``."""
    make, function, rest = TRANSFORMATIONS[name]
    plain, calls = counted(function)
    g = make(plain)
    expected, runs = [], []
    for x in points(4):
        expected.append(dense(g(x, *rest)))
        runs.append(calls.number - sum(runs))
    assert min(runs) >= 1 and len(set(runs)) == 1
    for kernel in ("never", "always"):
        outside, of_outside = counted(function)
        inside, of_inside = counted(function)
        for made, count in ((tg.jit(make(outside), kernel=kernel), of_outside), (make(tg.jit(inside, kernel=kernel)), of_inside)):
            at_once = dense(made(X, *rest)), count.number
            for x, wanted in zip(points(4), expected, strict=True):
                np.testing.assert_allclose(dense(made(x, *rest)), wanted, rtol=1e-9, atol=1e-11)
            np.testing.assert_allclose(at_once[0], expected[0], rtol=1e-9, atol=1e-11)
            # A lambda that is not under jit itself runs at every call, and what is under jit inside of it with it.
            again = 4 * at_once[1] if count is of_inside and name in OF_A_LAMBDA else 0
            assert count.number == at_once[1] + again, name


@pytest.mark.parametrize("make", [tg.jacfwd, tg.derivative], ids=lambda make: make.__name__)
def test_forward_mode_by_dual_numbers_is_recorded_as_a_whole(make):
    function, calls = counted(np.sin if make is tg.derivative else vector)
    j = tg.jit(make(function))
    for x in (0.5, 1.0, 1.5) if make is tg.derivative else points(4):
        np.testing.assert_allclose(j(x), np.cos(x) if make is tg.derivative else tg.jacobian(vector)(x), rtol=1e-12)
    assert calls.number == j.stats().records == 1


def test_a_function_under_jit_is_recorded_once_by_itself():
    function, calls = counted(vector)
    j = tg.jit(function)
    for x in points(9):
        np.testing.assert_allclose(j(x), vector(x), rtol=1e-14)
    assert calls.number == j.stats().records == 1


TEN = {
    **{function.__name__: (function, PATHS[function]) for function in PATHS},
    "loss": (loss, lambda rng: rng.uniform(0.5, 1.5, 3)),
    "sorted": (lambda x: np.sum(np.sort(x) * np.arange(4.0)), lambda rng: rng.normal(size=4)),
}


def test_calls_on_paths_met_before_record_and_compile_nothing():
    rng, made = np.random.default_rng(0), []
    assert len(TEN) == 10
    for name, (function, draw) in TEN.items():
        known = [draw(rng) for _ in range(4)]
        g, plain = tg.jit(tg.value_and_grad(function)), tg.value_and_grad(function)
        for _ in range(4):
            expected = [g(x) for x in known]
            [plain(x) for x in known]
        made.append((name, g, plain, known, expected))
    before = {name: (g.stats().records, g.stats().kernels, g.stats().runs, plain.stats().runs) for name, g, plain, *_ in made}
    compiled = dict(COUNTS)
    for _ in range(50):
        for name, g, plain, known, expected in made:
            for x, (value, slope) in zip(known, expected):
                for again, derivative in (g(x), plain(x)):
                    np.testing.assert_allclose(again, value, rtol=1e-10, atol=1e-12, err_msg=name)
                    np.testing.assert_allclose(derivative, slope, rtol=1e-8, atol=1e-10, err_msg=name)
    assert COUNTS["compiled"] == compiled["compiled"]
    for name, g, plain, known, _ in made:
        records, kernels, runs, plainly = before[name]
        assert (g.stats().records, g.stats().kernels, g.stats().runs) == (records, kernels, 0) == (records, kernels, runs)
        assert plain.stats().runs == plainly + 50 * len(known) and plain.stats().records == plain.stats().kernels == 0


# -- where jit may stand --------------------------------------------------------------------------
class Model:
    def __init__(self):
        self.weights, self.calls = np.ones(3), Calls()

    @tg.jit
    def loss(self, x):
        return np.sum(self.weights * x**2)

    def plain(self, x):
        self.calls.number += 1
        return np.sum(self.weights * x**2)


@tg.jit(kernel="never")
def decorated(x):
    """Squares."""
    return np.sum(x * x)


def test_a_decorated_function():
    assert decorated.__name__ == "decorated" and decorated.__doc__ == "Squares."
    assert decorated(X) == pytest.approx(np.sum(X * X)) and tg.grad(decorated)(X).tolist() == (2.0 * X).tolist()
    g = tg.grad(decorated)
    for k in range(3):
        g(X + k)
    assert g.stats().records == 1 and g.stats().sweeps == 2 and g.stats().kernels == 0


def test_a_method_as_the_function():
    model = Model()
    g = tg.jit(tg.grad(model.plain))
    for k in range(5):
        np.testing.assert_allclose(g(X + k), 2.0 * (X + k))
    assert model.calls.number == 1
    model.weights[0] = 5.0
    np.testing.assert_allclose(g(X), 2.0 * model.weights * X)
    model.weights = np.full(3, 7.0)
    np.testing.assert_allclose(g(X), 14.0 * X)
    assert model.calls.number == 3


def test_a_decorated_method():
    one, other = Model(), Model()
    other.weights = np.full(3, 4.0)
    for _ in range(3):
        assert one.loss(X) == pytest.approx(np.sum(X**2)) and other.loss(X) == pytest.approx(4.0 * np.sum(X**2))
    assert one.loss.stats().records == other.loss.stats().records == 1 and one.loss is one.loss
    np.testing.assert_allclose(tg.grad(other.loss)(X), 8.0 * X)
    other.weights[1] = 0.0
    np.testing.assert_allclose(tg.grad(other.loss)(X), 2.0 * other.weights * X)
    assert other.loss(X) == pytest.approx(np.sum(other.weights * X**2)) and other.loss.stats().records == 2
    assert isinstance(Model.loss, type(one.loss)) and Model.loss.__name__ == "loss"


def test_a_decorated_method_of_a_copy_is_that_of_the_copy():
    model = Model()
    model.loss(X)
    for again in (copy.copy(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        again.weights = np.full(3, 4.0)
        for _ in range(2):
            assert again.loss(X) == pytest.approx(4.0 * np.sum(X**2)) and model.loss(X) == pytest.approx(np.sum(X**2))
        assert again.loss.stats().records == model.loss.stats().records == 1


def test_a_decorated_method_lives_no_longer_than_its_instance():
    model = Model()
    model.loss(X)
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None


def test_a_decorated_method_of_what_has_no_dict():
    class Slotted:
        __slots__ = ("k",)

        @tg.jit
        def loss(self, x):
            return self.k * x

    with pytest.raises(tg.errors.StructureError, match="loss is under tg.jit.*Slotted has none"):
        Slotted().loss(1.0)


@pytest.mark.parametrize("name", ["grad", "value_and_grad", "jacobian", "hessian", "hvp", "sparse_jacobian"])
def test_copies_are_under_jit_and_record_for_themselves(name):
    make, function, rest = TRANSFORMATIONS[name]
    for g in (tg.jit(make(function), kernel="never"), make(tg.jit(function, kernel="never"))):
        expected = dense(g(X, *rest))
        for again in (pickle.loads(pickle.dumps(g)), copy.deepcopy(g), copy.copy(g)):
            for _ in range(3):
                np.testing.assert_allclose(dense(again(X, *rest)), expected, rtol=1e-14)
            assert again.stats().records >= 1 and again.stats().runs == 0 and again.stats().kernels == 0
            assert again._replayed.jit == g._replayed.jit


ELSEWHERE = [tg.grad, tg.value_and_grad, tg.elementwise_grad, tg.jacobian, tg.jacrev, tg.hessian, tg.hessian_diag, tg.laplacian, tg.hvp,
             tg.gnvp, tg.sparse_jacobian, tg.sparse_hessian]  # fmt: skip


@every("transformation", ELSEWHERE)
@every("policy", ["always", "never", "auto", "sometimes"])
def test_kernel_is_an_option_of_jit_alone(transformation, policy):
    with pytest.raises(OptionError, match=rf"kernel='{policy}'.*tg\.jit\(\.\.\., kernel='{policy}'\)"):
        transformation(loss, kernel=policy)


# -- what cannot be kept --------------------------------------------------------------------------
def test_a_static_argument_that_is_new_at_every_call():
    function, calls = counted(lambda x, n: x * x * n)
    g = tg.jit(tg.grad(function))
    with quiet() as warned:
        for n in range(90):
            assert g(3.0, n) == 6.0 * n
    (warning,) = warned
    assert warning.category is tg.PathWarning and warning.filename == __file__
    assert "argument 1 is static and has a new value" in str(warning.message) and "pass it as a float or an array" in str(warning.message)
    assert g.stats().fallback in str(warning.message) and "argument 1" in str(g.stats())
    assert g.stats().records <= WINDOW + 2 and g.stats().records + g.stats().runs == calls.number == 90
    assert "np.array(64), which can be a position in a tensor" in str(warning.message)
    assert g.stats().tapes == g.stats().bytes == 0


def test_positions_that_the_function_computes_are_to_be_those_of_a_tensor():
    table = np.arange(100.0)
    same = tg.tensor(table)
    g, h = tg.jit(tg.grad(lambda x: table[np.floor(x).astype(int)] * x)), tg.jit(tg.grad(lambda x, i: same[np.floor(x).astype(int)] * x * same[i]))
    with quiet() as warned:
        for n in range(90):
            assert g(n + 0.5) == table[n] and h(n + 0.5, np.array(n)) == table[n] ** 2
    (warning,) = warned
    assert "a number that it computes is a position there; let it be one in a tensor (a = tg.tensor(a), outside)" in str(warning.message)
    assert h.stats().records == 1


@every("ask", [lambda x: np.allclose(x, 1.0, atol=0.2), lambda x: np.array_equal(x, np.ones(3)), lambda x: np.array_equiv(x, np.ones(3))])
@every("policy", ["always", "never"])
def test_what_is_asked_of_all_numbers_at_once_is_a_decision(ask, policy):
    def f(x):
        said = ask(x)
        assert type(said) is bool
        return np.sum(x**2) if said else np.sum(np.sin(x))

    g = tg.jit(tg.grad(f), kernel=policy)
    for k in (1.0, 1.5, 2.0, 2.5, 3.0, np.nan, 1.0):
        np.testing.assert_allclose(g(np.full(3, k)), tg.grad(f)(np.full(3, k)), rtol=1e-12)
    assert g.stats().records == 2


def test_a_path_that_is_new_at_every_call():
    def function(x):
        total = 0.0
        for _ in range(int(x.item())):  # the line
            total = total + x * x
        return total

    g = tg.jit(tg.grad(function))
    with quiet() as warned:
        for n in range(1, 90):
            assert g(float(n)) == 2.0 * n * n
    (warning,) = warned
    line = function.__code__.co_firstlineno + 2
    assert warning.category is tg.PathWarning and f"test_contract.py:{line}" in str(warning.message)
    assert g.stats().records <= WINDOW + 2 and g.stats().records + g.stats().runs == 89


def test_a_captured_variable_that_is_new_at_every_call():
    step = 0.0
    g = tg.jit(tg.grad(lambda x: x * x * step))
    with quiet() as warned:
        for n in range(90):
            step = float(n)
            assert g(3.0) == 6.0 * n
    (warning,) = warned
    assert warning.category is tg.PathWarning and "step changes; pass it as an argument" in str(warning.message)
    assert g.stats().records <= WINDOW + 2 and g.stats().records + g.stats().runs == 90


ORDERS = {"in a row": lambda rng, n: np.tile(n, 10), "backwards": lambda rng, n: np.tile(n[::-1], 10), "mixed": lambda rng, n: rng.permutation(np.tile(n, 10))}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("count", [WINDOW + 1, 40, 2 * WINDOW])
def test_paths_that_are_met_again_are_recorded_in_whatever_order_they_come(count, order):
    """Static arguments, paths and shapes: each is recorded once, and is answered by its tape in the end."""
    cases = (
        (lambda x, n: x * x * n, lambda n: (3.0, n), lambda n: 6.0 * n),
        (lambda x: x * x if int(x.item()) % 2 else np.sin(x), lambda n: (n + 0.5,), lambda n: 2 * n + 1.0 if n % 2 else np.cos(n + 0.5)),
        (lambda x: np.sum(x * x), lambda n: (np.ones(n),), lambda n: np.full(n, 2.0)),
    )
    for function, arguments, derivative in cases:
        g = tg.jit(tg.grad(function), kernel="never")
        with quiet() as warned:
            for n in ORDERS[order](np.random.default_rng(0), np.arange(1, count + 1)).tolist():
                np.testing.assert_allclose(g(*arguments(n)), derivative(n), rtol=1e-15)
        stats = g.stats()
        assert not warned and not stats.fallback and stats.records == stats.tapes == count and stats.runs <= WINDOW
        before = stats.records, stats.runs
        for n in range(1, count + 1):
            g(*arguments(n))
        assert (g.stats().records, g.stats().runs) == before


def test_who_asks_for_a_tape_is_given_that_of_this_path_while_nothing_more_is_recorded():
    g = tg.jit(tg.grad(lambda x, n: x * x * n), kernel="never")
    for n in range(40):
        g(3.0, n)
    assert g.stats().records == WINDOW and g.stats().runs == 40 - WINDOW and not g.stats().fallback
    assert g.tape(3.0, 39)(3.0) == 9.0 * 39 and g.stats().records == WINDOW + 1


def test_more_paths_than_are_kept_are_run():
    def f(x):
        y, k = x, 0
        while y < 1.0 and k < 400:
            y, k = y * 1.012, k + 1
        return y * x

    g, plain, points = tg.jit(tg.grad(f), kernel="never"), tg.grad(f), 1.0 - 0.99 * np.random.default_rng(0).beta(1.0, 3.0, 900)
    for x in points:
        assert g(x) == pytest.approx(plain(x), rel=1e-12)
    stats = g.stats()
    assert stats.tapes == LIMIT and not stats.fallback and stats.runs > 100
    # Each that takes the place of another has been paid for.
    assert stats.records <= LIMIT + stats.replays // EARNED


@pytest.mark.parametrize("new", [GIVE_UP - 2, GIVE_UP])
def test_nearly_every_call_is_so_many_of_the_last(new):
    """Static arguments of which some are met again."""
    g = tg.jit(tg.grad(lambda x, n: x * x * n))
    with quiet() as warned:
        numbers = iter(range(1, 10_000))
        for _ in range(WINDOW + 1):
            assert g(3.0, 0) == 0.0
        for _ in range(3):
            for k in range(WINDOW):
                # Those met before are spread evenly.
                again = (k * (WINDOW - new)) // WINDOW != ((k + 1) * (WINDOW - new)) // WINDOW
                n = 0 if again else next(numbers)
                assert g(3.0, n) == 6.0 * n
    assert bool(warned) == bool(g.stats().fallback) == (new >= GIVE_UP)


def test_what_cannot_be_recorded_is_run_plainly_and_said_once():
    def function(x):
        y = tg.tensor(3.0, requires_grad=True)
        (y * y * 2).backward()
        return x * x * y.grad.item()

    g = tg.jit(tg.grad(function))
    with quiet() as warned:
        assert [g(1.0 + k) for k in range(4)] == [24.0 * (1.0 + k) for k in range(4)]
    assert [w.category for w in warned] == [tg.PathWarning] and "backward pass" in str(warned[0].message)
    assert "was to be recorded once, but is run at every call" in str(warned[0].message) and warned[0].filename == __file__


def test_a_counter_of_its_own_is_noticed_and_named():
    """It changes at every run, so nothing that was recorded stands for the function."""
    history = []

    def f(x):
        history.append(len(history))
        return x * x * len(history)

    line = f.__code__.co_firstlineno + 1
    g = tg.jit(tg.grad(f))
    with quiet() as warned:
        for n in range(90):
            assert g(3.0) == 6.0 * (n + 1)
    assert [w.category for w in warned] == [tg.PathWarning] and f"history changes, and it is the function that changes it at {__file__}:{line}" in str(warned[0].message)
    assert len(history) == 90 and (g.stats().records, g.stats().runs) == (3, 87)


# -- what is said of slow functions ------------------------------------------------------------------
@pytest.fixture
def impatient(monkeypatch):
    """A function is named after its second call."""
    monkeypatch.setattr(statistics, "EAGER", 1e-9)
    monkeypatch.setattr(replaying, "NOTED", 0.0)
    tg.grad(loss)(X)


def slow_function():
    """A function of its own: functions are known by their code, and equal code is one."""
    names = {"np": np}
    exec(f"def slow(x):\n    return np.sum(np.sin(x) * x) + {next(NUMBERS)}.0", names)
    return names["slow"]


def test_a_slow_function_is_named_once(impatient):
    slow = slow_function()
    g, h = tg.grad(slow), tg.hessian(slow)
    with quiet() as warned:
        for _ in range(5):
            g(X), h(X), tg.value_and_grad(slow)(X)
    (warning,) = [w for w in warned if w.category is tg.PerformanceWarning]
    assert "slow has spent" in str(warning.message) and "tg.jit(tg.grad(f))" in str(warning.message)
    assert warning.filename == __file__ and warned == [warning]


def test_time_fails_nothing_unless_somebody_says_so_of_this_warning(impatient, caplog):
    g = tg.grad(slow_function())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(5):
            g(X)
    assert [r.name for r in caplog.records] == ["tapegrad"] and "slow has spent" in caplog.text
    g = tg.grad(slow_function())
    with warnings.catch_warnings(), pytest.raises(tg.PerformanceWarning, match="slow has spent"):
        warnings.simplefilter("error", tg.PerformanceWarning)
        for _ in range(5):
            g(X)


def test_a_lambda_that_is_made_anew_is_one_function(impatient):
    with quiet() as warned:
        for k in range(5):
            tg.grad(lambda x, k=k: np.sum(x) * k)(X)
    assert [w.category for w in warned] == [tg.PerformanceWarning]


def test_a_recorded_function_is_not_named(impatient):
    slow = slow_function()
    with quiet() as warned:
        for _ in range(5):
            tg.jit(tg.grad(slow))(X), tg.hessian(tg.jit(slow))(X), tg.jit(slow)(X)
        tg.optimize.lbfgs(lambda x: np.sum((x - 1.0) ** 2), np.zeros(3))
    assert not warned


def test_the_time_in_which_the_library_is_compiled_is_not_the_function_s(impatient, monkeypatch):
    slow = slow_function()
    g = tg.grad(slow)
    with quiet() as warned:
        for _ in range(5):
            monkeypatch.setitem(COUNTS, "compiled", COUNTS["compiled"] + 1)
            g(X)
        assert not warned
        g(X)
        # Of one call jit would save nothing.
        assert not warned
        g(X)
    assert [w.category for w in warned] == [tg.PerformanceWarning]


def test_a_second_it_is():
    assert statistics.EAGER == 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        g = tg.grad(slow_function())
        for _ in range(50):
            g(X)


def test_a_shape_that_is_new_at_every_call():
    function, calls = counted(lambda x: np.sum(x * x))
    g = tg.jit(tg.grad(function), kernel="never")
    with quiet() as warned:
        for n in range(1, 90):
            np.testing.assert_array_equal(g(np.ones(n)), np.full(n, 2.0))
    (warning,) = warned
    assert "argument 0 has a new shape" in str(warning.message) and g.stats().records <= WINDOW + 2 and calls.number == 89


@pytest.mark.parametrize(
    "transformation",
    [tg.jacfwd, lambda f: tg.jacfwd(f, (0,)), lambda f: tg.jacobian(tg.jacfwd(f)), lambda f: tg.jacfwd(tg.jacobian(f))],
    ids=["jacfwd", "a tuple", "inside", "outside"],
)
def test_forward_mode_of_a_recorded_function_is_recorded(transformation):
    function, calls = counted(vector)
    inside, outside = transformation(tg.jit(function)), tg.jit(transformation(function))
    for point in (X, 2.0 * X, X - 1.0):
        for a, b in zip(np.atleast_1d(inside(point)), np.atleast_1d(outside(point)), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12)
        np.testing.assert_allclose(np.asarray(inside(point)).reshape(-1), np.asarray(transformation(vector)(point)).reshape(-1), rtol=1e-12)
    assert inside.stats().records == outside.stats().records == 1 and calls.number == 2


def test_the_derivative_of_a_recorded_function_of_a_number_is_recorded():
    function, calls = counted(lambda x: np.sin(x) * x)
    slope = tg.derivative(tg.jit(function))
    for x in (0.5, 1.5, 2.5):
        assert slope(x) == pytest.approx(np.cos(x) * x + np.sin(x), rel=1e-12)
    assert slope.stats().records == calls.number == 1
