"""Gradients as tapes that are swept and differentiated again, which recorded Hessians are made of."""

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.array.functions.shapes import JOIN
from tapegrad.autograd import nested
from tapegrad.common.tree import flatten
from tapegrad.kernel.adjoint import adjoint, gradient, tangents
from tapegrad.program.workspace import Workspace
from tapegrad.transforms.replay.directions import ReplayWalk
from tests.kernel.adjoint_programs import PROGRAMS, rosenbrock
from tests.kernel.agreement import arguments, close_in_ulps, replayed, tape_of


def hessians(tape, *args):
    """The Hessian by columns and by rows, each as one matrix, from sweeps over a gradient's tape."""
    workspace = Workspace(tape)
    assert workspace.run(arguments(args), False) == -1
    recording = ReplayWalk.of(workspace, arguments(args))
    return [np.concatenate(parts, axis=1) for parts in (recording.columns(), recording.rows())]


def differences(tape, args, step=1e-5):
    """The Hessian by central differences of the gradient, a row for each element of the arguments."""
    rows = []
    for k, a in enumerate(args):
        for place in range(np.size(a)):
            shift = np.zeros(np.size(a))
            shift[place] = step
            shift = shift.reshape(np.shape(a))
            ahead, behind = (
                np.concatenate([np.ravel(g) for g in replayed(tape, *[b + sign * shift if j == k else b for j, b in enumerate(args)])])
                for sign in (1, -1)
            )
            rows.append((ahead - behind) / (2 * step))
    return np.array(rows)


@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_and_hessians_of_programs(name):
    function, args = PROGRAMS[name]
    tape = tape_of(function, *args)
    made = gradient(tape)
    values = replayed(adjoint(tape), *args)[len(tape.outputs) :]
    close_in_ulps([np.asarray(g) for g in replayed(made, *args)], [np.asarray(v) for v in values], ulps=16)
    assert made.wanted == tape.wanted and len(made.guards) == len(tape.guards)
    columns, rows = hessians(made, *args)
    expected = differences(made, args)
    scale = max(np.max(np.abs(expected), initial=0.0), 1.0)
    np.testing.assert_allclose(columns, expected, rtol=1e-5, atol=1e-6 * scale)
    np.testing.assert_allclose(rows, columns, rtol=1e-9, atol=1e-11 * scale)


@pytest.mark.parametrize("n", [3, JOIN, JOIN + 1, 3 * JOIN + 5, JOIN * JOIN + 7])
def test_any_number_of_elements(n):
    """They are joined by instructions of few operands for the sweeps, and are one stack for a kernel."""
    x = np.linspace(0.2, 0.9, n)
    made = gradient(tape_of(rosenbrock, x))
    assert max(len(item.operands) for item in made.items) <= JOIN
    products = tangents(made, 2)
    assert max(len(item.operands) for item in products.items if item.entry.name == "stack") == n
    columns, rows = hessians(made, x)
    expected = np.diag(np.concatenate([2.0 + 1200.0 * x[:-1] ** 2 - 400.0 * x[1:], [0.0]]) + np.concatenate([[0.0], np.full(n - 1, 200.0)]))
    expected += np.diag(-400.0 * x[:-1], 1) + np.diag(-400.0 * x[:-1], -1)
    np.testing.assert_allclose(columns, expected, rtol=1e-12, atol=1e-10)
    np.testing.assert_allclose(rows, expected, rtol=1e-12, atol=1e-10)


def test_the_value_is_dropped_and_what_guards_look_at_is_kept():
    def function(x):
        total = np.sum(x)
        for k in range(50):
            total = total + x[0] * float(k)
        return total + (x[1] ** 3 if np.max(x) * 2.0 > 1.0 else 0.0)

    tape = tape_of(function, np.array([1.0, 2.0]))
    made = gradient(tape)
    assert len(tape) > 50 and len(made) < 25
    assert Workspace(made).run([np.array([0.1, 0.2])], False) == 0
    np.testing.assert_allclose(replayed(made, np.array([1.0, 3.0]))[0], [1.0 + 1225.0, 1.0 + 27.0])


def test_zero_is_absolute_in_derivatives_of_both_orders():
    def function(x, scale):
        root = np.sqrt(x[0]) * 0.0 + np.where(x[1] > 0.0, np.sqrt(x[1]), 0.0) * scale
        return root + np.sum(np.where(x > 0.0, np.log(x), x) * scale) + x[0] * x[1]

    for kernel in ("never", "always"):
        hessian = tg.jit(tg.hessian(function), kernel=kernel)
        for x in (np.array([1.0, 4.0]), np.array([0.0, 0.0]), np.array([0.0, 4.0])):
            for scale in (1.0, 0.0):
                with np.errstate(all="ignore"):
                    np.testing.assert_allclose(hessian(x, scale), tg.hessian(function)(x, scale), rtol=1e-13)
        assert hessian.stats().records == 1


SECOND = {
    "hessian": (tg.hessian, np.diag),
    "hessian_diag": (tg.hessian_diag, lambda d: d),
    "laplacian": (tg.laplacian, np.sum),
    "sparse_hessian": (tg.sparse_hessian, np.diag),
}


@pytest.mark.parametrize("name", SECOND)
@pytest.mark.parametrize("kernel", ["never", "always"])
def test_a_recording_runs_the_function_and_differentiates_nothing_in_python(name, kernel, monkeypatch):
    transformation, of = SECOND[name]
    h = tg.jit(transformation(lambda x, k: np.sum(x[:k] ** 3) + np.sum(x) ** 2 * 0.0), kernel=kernel)
    x = np.array([1.0, 2.0, 3.0])
    monkeypatch.setattr(nested.TensorWalk, "pulled", None)
    for k in (3, 2, 3):
        expected = of(np.where(np.arange(3) < k, 6.0 * x, 0.0))
        found = h(x, k)
        np.testing.assert_allclose(found.toarray() if name == "sparse_hessian" else found, expected)
    assert h.stats().records == 2 and not h.stats().fallback


def test_arguments_in_containers_and_of_several_positions():
    def function(m, y, w):
        return np.sum(m["a"] * m["b"][0] ** 2) * y + w * y**3

    args = {"a": np.array([1.0, 2.0]), "b": [3.0]}, 0.5, 2.0
    recorded, plain = (wrap(tg.hessian(function, (1, 0))) for wrap in (tg.jit, lambda made: made))
    for k in range(3):
        point = (*args[:2], args[2] + k)
        (found, structure), (expected, wanted) = flatten(recorded(*point)), flatten(plain(*point))
        assert structure == wanted and found[0] == 6.0 * (2.0 + k) * 0.5
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-14)
    assert recorded.stats().records == 1


def test_a_rule_is_differentiated_again():
    @tg.primitive
    def cube(x):
        return x**3

    cube.defvjp(lambda g, result, x: 3.0 * x**2 * g)

    def function(x):
        return np.sum(cube(x))

    h = tg.jit(tg.hessian(function))
    for x in np.array([[1.0, 2.0], [0.5, -2.0], [3.0, 1.0]]):
        np.testing.assert_allclose(h(x), np.diag(6.0 * x))
    assert h.stats().records == 1 and h.stats().kernel_calls and not h.stats().fallback


def test_more_than_one_number_is_refused_and_one_in_an_array_is_not():
    with pytest.raises(tg.errors.NonScalarOutputError):
        tg.jit(tg.hessian(lambda x: x**2))(np.ones(2))
    np.testing.assert_allclose(tg.jit(tg.hessian(lambda x: np.sum(x**3, keepdims=True)))(np.ones(2)), 6.0 * np.eye(2))
