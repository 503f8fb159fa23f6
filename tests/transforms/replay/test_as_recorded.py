"""The first call of a function under `jit` has just computed its values: they are the answer, and nothing is planned for a replay yet."""

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.common import config
from tapegrad.program.workspace import Workspace

A = np.arange(6.0).reshape(2, 3)

FUNCTIONS = {
    "a number": lambda x: np.sum(np.sin(x) * x),
    "an array": lambda x: np.exp(x) * A,
    "the argument": lambda x: x,
    "a view": lambda x: x.T,
    "a window": lambda x: x[:, 1:],
    "a broadcast number": lambda x: np.broadcast_to(x[0, 1], (4,)),
    "the same array twice": lambda x: (lambda y: (y, y))(x * 2.0),
    "containers": lambda x: {"a": (x + 1.0, [np.sum(x)]), "b": x[0, 0] * x[1, 1]},
    "constants beside": lambda x: (np.mean(x), 2.0, A),
    "other constants": lambda x: (3, True, np.int8(2), np.float32(1.5), np.array(4), x),
    "by integers": lambda x: x[np.argmax(x, axis=0), np.argsort(x[0])] * np.sum(x > 0.5),
    "an assignment": lambda x: (lambda y: (y.__setitem__((0, slice(None)), 1.0), y)[1])(x.copy()),
    "a decision": lambda x: x * 2.0 if np.sum(x) > 0 else -x,
    "a single": lambda x: np.sum(x.astype(np.float32)),
    "an empty array": lambda x: x[:, :0],
    "not finite": lambda x: np.log(x * 0.0) / np.sum(x * 0.0),
}


@pytest.fixture
def production(monkeypatch):
    """The tests run with `strict`, in which the first answer is a replay's."""
    monkeypatch.setattr(config, "strict", False)


@pytest.fixture
def workspaces(monkeypatch):
    made, original = [], Workspace.__init__

    def counting(self, tape):
        made.append(tape)
        original(self, tape)

    monkeypatch.setattr(Workspace, "__init__", counting)
    return made


def same(first, second, kinds=True):
    """Whether two answers are of one kind, shape and dtype, with numbers that may differ in the last bits."""
    assert not kinds or type(first) is type(second)
    if isinstance(first, dict):
        assert first.keys() == second.keys()
        first, second = list(first.values()), list(second.values())
    if isinstance(first, (tuple, list)):
        assert len(first) == len(second)
        for a, b in zip(first, second):
            same(a, b, kinds)
        return
    assert np.shape(first) == np.shape(second) and np.asarray(first).dtype == np.asarray(second).dtype
    assert not kinds or np.asarray(first).flags.c_contiguous
    np.testing.assert_allclose(first, second, rtol=1e-12)


@pytest.mark.parametrize("kernel", ["never", "auto", "always"])
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_first_and_later_answers_are_alike(name, kernel, production):
    f, x = FUNCTIONS[name], np.linspace(-0.5, 2.0, 6).reshape(2, 3)
    g = tg.jit(f, kernel=kernel)
    first, second, third = g(x), g(x), g(x)
    same(first, second)
    same(second, third)
    same(first, f(x), kinds=False)
    stats = g.stats()
    assert stats.records == 1 and stats.runs == 0


def test_nothing_is_laid_out_before_the_second_call(production, workspaces):
    x = np.linspace(0.1, 1.0, 5)
    g = tg.jit(lambda x: np.sin(x) * x, kernel="never")
    first = g(x)
    assert not workspaces
    np.testing.assert_allclose(g(x), first, rtol=1e-15)
    assert len(workspaces) == 1
    g(x)
    assert len(workspaces) == 1


def test_gradients_are_swept_at_the_first_call(production, workspaces):
    slope = tg.jit(tg.grad(lambda x: np.sum(np.sin(x))), kernel="never")
    np.testing.assert_allclose(slope(A), np.cos(A))
    assert len(workspaces) == 1


def test_the_answer_is_the_callers_own(production):
    kept = np.array([1.0, 2.0])
    g = tg.jit(lambda x: (x, kept, x * kept), kernel="never")
    x = np.array([3.0, 4.0])
    for part in g(x):
        part[...] = -1.0
    assert x.tolist() == [3.0, 4.0] and kept.tolist() == [1.0, 2.0]
    assert [part.tolist() for part in g(x)] == [[3.0, 4.0], [1.0, 2.0], [3.0, 8.0]]


def test_a_second_path_is_recorded_and_answered_so_too(production, workspaces):
    g = tg.jit(lambda x: x * 2.0 if x[0] > 0.0 else x * 3.0, kernel="never")
    assert g(np.array([1.0])).tolist() == [2.0] and not workspaces
    assert g(np.array([-1.0])).tolist() == [-3.0] and len(workspaces) == 1
    assert g(np.array([-1.0])).tolist() == [-3.0] and len(workspaces) == 2
    assert g.stats().records == 2


WRITTEN_WITHOUT_DERIVATIVE = {
    "item": lambda o, x: o.__setitem__(slice(None), x), "+=": lambda o, x: o.__iadd__(x), "copy_": lambda o, x: o.copy_(x),
    "fill_": lambda o, x: o[1:].fill_(x[0]), "np.copyto": np.copyto, "out=": lambda o, x: np.multiply(x, 2.0, out=o), ".data": lambda o, x: setattr(o, "data", x),
    "twice": lambda o, x: (o.copy_(x), o.__imul__(x), o.__setitem__(0, x[1])),
}  # fmt: skip


@pytest.mark.parametrize("write", WRITTEN_WITHOUT_DERIVATIVE.values(), ids=WRITTEN_WITHOUT_DERIVATIVE)
@pytest.mark.parametrize("made", [lambda x: tg.zeros(2), lambda x: x * 2.0, lambda x: (x * 2.0)[::-1]], ids=["a buffer", "computed", "a view"])
@pytest.mark.filterwarnings("ignore::tapegrad.errors.PathWarning")
def test_what_is_written_under_no_grad_is_that_of_each_call(write, made):
    def f(x):
        with tg.no_grad():
            work = made(x)
            write(work, x)
        return np.sum(work * x)

    g, xs = tg.jit(tg.value_and_grad(f)), np.array([[1.0, 2.0], [3.0, -1.0], [5.0, 6.0]])
    expected = [tg.value_and_grad(f)(x) for x in xs]
    for x, (value, gradient) in zip(xs, expected):
        assert g(x)[0] == value
        np.testing.assert_array_equal(g(x)[1], gradient)
    values, gradients = tg.vmap(tg.value_and_grad(f))(xs)
    np.testing.assert_array_equal(values, [value for value, _ in expected])
    np.testing.assert_array_equal(gradients, [gradient for _, gradient in expected])


@pytest.mark.filterwarnings("ignore::tapegrad.errors.PathWarning")
def test_averages_that_a_function_keeps_under_no_grad_run_on():
    def f(x, average):
        with tg.no_grad():
            average.mul_(0.5).add_(x)
        return np.sum(x * average)

    for transformed in (tg.grad, lambda f: tg.jit(tg.grad(f))):
        average = tg.zeros(2)
        g = transformed(lambda x: f(x, average))
        assert [g(np.array([k, 2.0])).tolist() for k in (1.0, 2.0, 3.0)] == [[1.0, 2.0], [2.5, 3.0], [4.25, 3.5]]
        assert average.tolist() == [4.25, 3.5] and not average.requires_grad


@pytest.mark.parametrize("leaf", [lambda x: tg.tensor(x, requires_grad=True), lambda x: tg.tensor([1.0, 2.0], requires_grad=True)], ids=["a value", "a constant"])
@pytest.mark.filterwarnings("ignore::tapegrad.errors.PathWarning")
def test_a_backward_pass_from_a_leaf_of_the_functions_own_runs_at_every_call(leaf):
    def f(x):
        y = leaf(x)
        (y**3).sum().backward()
        return np.sum(x * y.grad)

    g = tg.jit(tg.grad(f))
    for x in (np.array([1.0, 3.0]), np.array([2.0, 5.0])):
        np.testing.assert_array_equal(g(x), tg.grad(f)(x))
    assert "backward pass" in g.stats().fallback


HOOKED = {
    "a result": lambda y: y.register_hook(lambda g: 3.0 * g), "before a node": lambda y: y.grad_fn.register_prehook(lambda gradients: (3.0 * gradients[0],)),
    "a node": lambda y: y.grad_fn.register_hook(lambda ours, _: tuple([g if g is None else 3.0 * g for g in ours])),
}  # fmt: skip


@pytest.mark.parametrize("hooked", HOOKED.values(), ids=HOOKED)
@pytest.mark.filterwarnings("ignore::tapegrad.errors.PathWarning")
def test_functions_that_register_hooks_run_at_every_call(hooked):
    def f(x):
        y = x * 2.0
        hooked(y)
        return np.sum(y**2)

    g, xs = tg.jit(tg.grad(f)), np.array([[1.0, 2.0], [3.0, 4.0]])
    np.testing.assert_array_equal([g(x) for x in xs], 24.0 * xs)
    assert "registers a hook" in g.stats().fallback
    np.testing.assert_array_equal(tg.vmap(tg.grad(f))(xs), 24.0 * xs)
    np.testing.assert_array_equal(tg.grad(lambda xs: tg.scan(lambda c, x: (c + f(x), None), 0.0, xs)[0])(xs), 24.0 * xs)


@pytest.mark.parametrize("made", [lambda x: tg.Parameter(x * 2.0), lambda x: tg.Parameter(x.detach(), requires_grad=False)], ids=["leaf", "constant"])
def test_a_parameter_made_of_a_value_is_that_of_each_call(made):
    def f(x):
        return np.sum(x * made(x).detach())

    g, xs = tg.jit(tg.grad(f)), np.array([[1.0, 2.0], [3.0, 4.0]])
    expected = [tg.grad(f)(x) for x in xs]
    np.testing.assert_array_equal([g(x) for x in xs], expected)
    np.testing.assert_array_equal(tg.vmap(tg.grad(f))(xs), expected)
