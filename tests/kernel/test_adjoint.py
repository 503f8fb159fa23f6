"""Adjoints of tapes as tapes: programs, seeds, adjoints of adjoints, what is refused and what is left out."""

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.kernel.adjoint import adjoint, gradient
from tapegrad.kernel.reasons import NotLowered
from tapegrad.program.trace import ROW
from tapegrad.rules import BY_NAME
from tests.kernel.adjoint_programs import PROGRAMS, prefix, rosenbrock
from tests.kernel.agreement import check, close_in_ulps, replayed, swept, tape_of


@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_of_programs(name):
    function, args = PROGRAMS[name]
    near = [a * 1.001 for a in args]
    # Sums over axes and matrix products add in another order.
    derived = check(function, *args, at=[near], ulps=16)
    assert "result: " in str(derived)


@pytest.mark.parametrize("name", PROGRAMS)
def test_hessians_by_the_adjoint_of_the_adjoint(name):
    function, args = PROGRAMS[name]
    first = adjoint(tape_of(function, *args))
    second = adjoint(first, lanes=1)
    count = len(first.outputs)
    base = replayed(first, *args)[1:]
    rng = np.random.default_rng(3)
    direction = [rng.standard_normal(np.shape(a)) for a in args]
    active = [bool(slot and first.active[slot]) for slot, _ in first.outputs]
    seeds = [np.array([s]) for s, on in zip([0.0, *direction], active) if on]
    found = replayed(second, *args, *seeds)
    found[count:] = [lanes[0] for lanes in found[count:]]
    for b, f in zip(base, found[1:count]):
        np.testing.assert_array_equal(b, f)
    # The Hessian is symmetric: its product with the direction is the change of the gradient along it.
    step = 1e-5
    ahead, behind = (
        replayed(first, *[np.asarray(a + sign * step * d) for a, d in zip(args, direction)])[1:] for sign in (1, -1)
    )
    scale = max(np.max(np.abs(f), initial=0.0) for f in found[count:])
    for f, p, m in zip(found[count:], ahead, behind, strict=True):
        np.testing.assert_allclose(f, (np.asarray(p) - m) / (2 * step), rtol=2e-6, atol=2e-7 * max(scale, 1.0))


def test_hessian_of_rosenbrock_in_closed_form():
    x = np.array([0.3, -0.7, 1.2])
    second = adjoint(adjoint(tape_of(rosenbrock, x)), lanes=1)
    rows = [replayed(second, x, np.zeros(1), e[None])[-1][0] for e in np.eye(3)]
    expected = np.array([
        [1200 * x[0] ** 2 - 400 * x[1] + 2, -400 * x[0], 0],
        [-400 * x[0], 202 + 1200 * x[1] ** 2 - 400 * x[2], -400 * x[1]],
        [0, -400 * x[1], 200],
    ])  # fmt: skip
    np.testing.assert_allclose(rows, expected, rtol=1e-13)


def test_pullbacks_take_their_seeds_as_arguments():
    def function(x, y):
        return np.sin(x) * y, np.sum(x * y), y

    x, y = np.array([0.2, 0.5]), 1.5
    tape = tg.value_and_grad(lambda x, y: function(x, y)[1], (0, 1)).tape(x, y)
    scaled = adjoint(tape, lanes=1)
    assert [m.shape for m in scaled.inputs] == [(2,), (), (1,)]
    value, to_x, to_y = replayed(scaled, x, y, np.array([3.0]))
    np.testing.assert_allclose(to_x, [[3 * y, 3 * y]], rtol=1e-15)
    assert to_y == pytest.approx(3 * x.sum())


def test_unneeded_arguments_have_constant_gradients():
    derived = check(lambda x, y, z: 2.0 * x + 0.0 * np.floor(y), 1.0, 2.5, np.ones(3))
    assert derived.outputs[-1][0] == 0 and derived.outputs[2][0] == 0
    # Nothing is made for what has no derivative.
    assert len(derived) == len(tape_of(lambda x, y, z: 2.0 * x + 0.0 * np.floor(y), 1.0, 2.5, np.ones(3)))


def test_only_what_lies_between_arguments_and_outputs_is_made():
    def function(x, y):
        z = np.exp(y) * y
        return x * z

    whole = tg.value_and_grad(function, (0, 1)).tape(1.0, 2.0)
    part = tg.value_and_grad(function, 0).tape(1.0, 2.0)
    # The derivative in x is z, which is there already.
    assert len(adjoint(part)) == len(part) and len(adjoint(whole)) > len(whole)


def test_forward_instructions_are_shared_and_keep_their_places():
    tape = tape_of(lambda x: np.sin(x) * np.cos(x) + np.exp(x), 0.3)
    derived = adjoint(tape)
    names = [line.split()[1] for line in str(derived).splitlines()[1:-1]]
    assert [names.count(name) for name in ("sin", "cos", "exp")] == [1, 1, 1]
    assert names[: len(tape)] == [line.split()[1] for line in str(tape).splitlines()[1:-1]][: len(tape)]
    assert all(derived.place(s).line == derived.place(2).line for s in range(2, len(derived.records)))


def test_loops_over_elements_add_into_windows():
    n = 40
    derived = check(prefix, np.linspace(0.1, 0.9, n), ulps=8)
    made = [item.entry for item in derived.items if item.entry.kind == ROW and item.entry.function is BY_NAME["add_window"]]
    assert len(made) >= n - 1
    # No entry of the loop makes a whole array of zeros.
    assert sum(item.entry.name == "place" for item in derived.items) <= 2


def test_instructions_grow_linearly():
    sizes = [len(adjoint(tape_of(rosenbrock, np.linspace(0.0, 1.0, n)))) for n in (50, 100, 200)]
    assert sizes[2] - sizes[1] == 2 * (sizes[1] - sizes[0])


def test_guards_are_kept():
    tape = tape_of(lambda x: x * x if x > 0 else -x, 2.0)
    derived = adjoint(tape)
    assert len(derived.guards) == 1
    from tapegrad.program.workspace import Workspace

    workspace = Workspace(derived)
    assert workspace.run([np.array(3.0)], False) == -1
    assert workspace.run([np.array(-3.0)], False) == 0


def test_float32_is_kept():
    x = np.linspace(0.1, 1.0, 7, dtype=np.float32)
    derived = check(lambda x: np.sum(np.tanh(x) * x / np.max(x) + x**2), x, ulps=8)
    assert {item.entry.meta.char for item in derived.items if item.entry.meta and item.entry.meta.shape} <= {"f", "?"}


def test_a_rule_that_calls_python_gives_first_derivatives():
    @tg.primitive
    def twice(x):
        return 2.0 * x

    twice.defvjp(lambda g, result, x: 2.0 * float(g))
    tape = tape_of(lambda x: twice(x) * x, 1.5)
    assert "the VJP rule of 'twice' in Python" in str(adjoint(tape))
    with pytest.raises(NotLowered, match="twice.*first derivatives.*test_adjoint.py"):
        gradient(tape)


def test_a_tape_made_by_adjoint_is_not_swept():
    from tapegrad.program.workspace import Workspace

    derived = adjoint(tape_of(lambda x: x * x, 2.0))
    with pytest.raises(AssertionError):
        Workspace(derived).run([np.array(2.0)], True)


def test_long_loops_agree_with_the_sweep():
    def function(x, y):
        for k in range(3000):
            x, y = x * 0.999 + 1e-3 * np.sin(y), y / (1.0 + 1e-4 * x * x) + 1.0 / (k + 1.0)
        return x * y

    tape = tape_of(function, 0.4, 1.2)
    values, gradients = swept(tape, 0.4, 1.2)
    found = replayed(adjoint(tape), 0.4, 1.2)
    close_in_ulps([np.asarray(f) for f in found[1:]], gradients)


def test_a_product_with_a_finite_constant_is_a_plain_one_where_zero_is_absolute():
    tape = tg.grad(lambda x: 3.0 * np.sin(2.5 * x)).tape(0.3)
    printed = str(adjoint(tape, 1, True))
    # With the cosine, not with 2.5 and 3.
    assert printed.count("absolute_product") == 1 and printed.count("multiply") == 3
