"""Operands that come now from here, now from there: elements, numbers, whole arguments, constants, other loops."""

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.kernel.adjoint import adjoint, tangents
from tapegrad.kernel.kernel import lower
from tapegrad.transforms.functional import value_and_grad
from tests.kernel.lowered import agrees, interpreted, replayed, tape_of

RANDOM = np.random.default_rng(3)


def chain_of_products(t):
    r = tg.zeros((6, 4, 4))
    r[:, 0, 1] = np.sin(t)
    made = [r[0]]
    for k in range(1, 6):
        made.append(made[-1] @ r[k])
    return np.stack(made)


def elements_assigned_one_by_one(t):
    p = tg.zeros((6, 3))
    for k in range(6):
        p[k, 0] = t[k]
    return np.sin(p[:, 0]) * p[::-1, 0]


def floats_in_turn(a, b, c, t):
    s = t[0]
    for k, m in enumerate((a, b, c, b, a, c, c, a) * 3):
        s = s * m + t[k % 3]
    return s


def floats_and_elements(a, b, c, t):
    s = 0.5
    for m in (a, t[1], t[0], b, a, t[1], c, a) * 3:
        s = s * 0.5 + np.sin(m) * s
    return s


def elements_of_two_arguments(t, u):
    s = t[0] * 0.5
    for k in range(24):
        s = s * 0.5 + [t, u][k % 2][k % 5] * s
    return s


def matrices_in_turn(a, b, c, v):
    for m in (a, b, c, b, a, c, c, a) * 3:
        v = np.sin(m @ v)
    return v


def matrices_and_constants(a, v):
    constants = [np.full((3, 3), 0.1 * k) for k in range(3)]
    for k in range(24):
        v = np.sin((a if k % 3 == 0 else constants[k % 3]) @ v)
    return v


def rows_stacked(t, u):
    y = tg.zeros((3, 5))
    for k in range(3):
        y[k] = [t, u, np.sin(t)][k]
    return np.sum(y[::-1] * t[::-1], axis=0)


def numbers_stacked(t, u):
    turns = [np.stack([t[0], u[k], t[1] * 2.0]) * (0.5 + k) for k in range(5)]
    return np.concatenate([*turns, t[5:]])


def steps_backwards(t, u):
    y = t * 1.0
    for k in range(4):
        y[k:] = y[k:] * u[k]
        y[::-2] += u[::2]
    return y[::-1]


def outer_and_inner(t, u):
    m = np.outer(t, u[::-1])
    for k in range(5):
        m[k, ::-1] = t if k % 2 else u
    return m @ m.T


def more_constants_than_slots(t):
    return np.concatenate([np.full(2, float(k)) for k in range(30)] + [np.sin(t)])


def numbers(*shapes):
    return tuple(RANDOM.random(s) if s != () else float(RANDOM.random()) for s in shapes)


PROGRAMS = [
    (chain_of_products, (6,)), (elements_assigned_one_by_one, (6,)), (floats_in_turn, ((), (), (), 3)),
    (floats_and_elements, ((), (), (), 3)), (elements_of_two_arguments, (5, 5)), (matrices_in_turn, ((3, 3), (3, 3), (3, 3), 3)),
    (matrices_and_constants, ((3, 3), 3)), (rows_stacked, (5, 5)), (numbers_stacked, (5, 5)), (steps_backwards, (5, 5)),
    (outer_and_inner, (5, 5)), (more_constants_than_slots, (5,)),
]  # fmt: skip
WAYS = {
    "values": lambda tape: tape, "gradients": adjoint, "reverse": lambda tape: adjoint(tape, lanes=2),
    "forward": lambda tape: tangents(tape, 8),
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("function, shapes", PROGRAMS, ids=lambda value: getattr(value, "__name__", ""))
def test_programs_of_tapes_and_their_derivatives(function, shapes, way):
    tape = WAYS[way](tape_of(function, *numbers(*shapes)))
    program = lower(tape)
    for _ in range(2):
        args = [np.array(RANDOM.random(m.shape), m.char) for m in tape.inputs]
        (status, expected), (found, outputs) = replayed(tape, args), interpreted(program, args)
        assert found == status == -1
        for one, other in zip(outputs, expected):
            np.testing.assert_allclose(one, np.reshape(other, -1), rtol=1e-12, atol=1e-13)


def test_compiled_with_operands_from_outside_only():
    tape = adjoint(value_and_grad(floats_in_turn, (0, 1, 2, 3)).tape(*numbers((), (), (), 3)))
    agrees(lower(tape), tape, numbers(*[m.shape for m in tape.inputs]))
