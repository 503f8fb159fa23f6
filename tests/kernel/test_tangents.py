"""Tangents of tapes as tapes: against dual numbers, for one lane and several, and differentiated again."""

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.kernel.adjoint import adjoint, tangents
from tests.kernel.adjoint_programs import PROGRAMS, rosenbrock
from tests.kernel.agreement import close_in_ulps, replayed, tape_of
from tests.transforms.replay.rows import weighted


def seeds_for(args, lanes, seed=5):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal((lanes, *np.shape(a))).astype(np.asarray(a).dtype) for a in args]


def by_dual_numbers(function, args, seeds):
    """Tangents of a scalar result, lane by lane."""
    found = []
    for lane in range(len(seeds[0])):
        directions = tuple(float(s[lane]) if np.ndim(a) == 0 and type(a) is float else np.asarray(s[lane]) for a, s in zip(args, seeds))
        found.append(tg.jvp(function, tuple(args), directions)[1])
    return np.array(found, float)


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("lanes", [1, 3])
def test_tangents_of_programs(name, lanes):
    function, args = PROGRAMS[name]
    tape = tape_of(function, *args)
    derived = tangents(tape, lanes)
    seeds = seeds_for(args, lanes)
    assert [m.shape for m in derived.inputs[len(args) :]] == [s.shape for s in seeds]
    value, found = replayed(derived, *args, *seeds)
    assert value == replayed(tape, *args)[0]
    np.testing.assert_allclose(found, by_dual_numbers(function, args, seeds), rtol=1e-11, atol=1e-12)


def tangents_against_adjoint(example):
    function, args = weighted(example)
    if function is None:
        return
    row = example.row
    tape = tape_of(function, *args)
    seeds = seeds_for(args, 2)
    value, found = replayed(tangents(tape, 2), *args, *seeds)
    # The same numbers by the adjoint: the seeds times the gradients.
    _, *gradients = replayed(adjoint(tape), *args)
    parts = np.array([[np.sum(np.multiply(s[lane], g, dtype=float)) for s, g in zip(seeds, gradients)] for lane in range(2)])
    single = any(np.asarray(a).dtype.char == "f" for a in (*args, example.value)) or row.name == "astype"
    scale = max(1.0, *(np.sum(np.abs(np.multiply(s, g, dtype=float))) for s, g in zip(seeds, gradients)))
    np.testing.assert_allclose(found, parts.sum(1), rtol=0, atol=(1e-5 if single else 1e-11) * scale)


def test_partials_are_shared_by_the_lanes():
    tape = tape_of(lambda x, y: np.sin(x) * np.exp(y), 0.3, 0.4)
    sizes = [len(tangents(tape, lanes)) for lanes in (1, 2, 3)]
    assert sizes[2] - sizes[1] == sizes[1] - sizes[0]
    assert str(tangents(tape, 3)).count(" cos ") == 1


def test_tangents_come_right_after_their_instructions():
    derived = tangents(tape_of(rosenbrock, np.linspace(0.1, 0.9, 30)), 2)
    ops, a, b = (derived.records[name] for name in ("op", "a", "b"))
    slots = np.arange(len(ops))
    assert (a < slots)[1:].all() and (b < slots)[1:].all()
    # What an iteration computes is read soon, not after the whole loop.
    inputs = sum(1 for _ in derived.elements)
    reach = np.maximum(slots - np.where(a > inputs, a, slots), slots - np.where(b > inputs, b, slots))
    assert reach[: len(ops) - 4].max() < 80


def test_hessian_by_the_tangents_of_the_adjoint():
    x = np.array([0.3, -0.7, 1.2])
    derived = tangents(adjoint(tape_of(rosenbrock, x)), 3)
    hessian = replayed(derived, x, np.eye(3))[-1]
    rows = [replayed(adjoint(adjoint(tape_of(rosenbrock, x)), lanes=1), x, np.zeros(1), e[None])[-1][0] for e in np.eye(3)]
    close_in_ulps([hessian], [np.array(rows)])
    np.testing.assert_array_equal(hessian, hessian.T)


def test_outputs_without_tangent_are_constant_zeros():
    tape = tape_of(lambda x, y: np.floor(x) * 2.0, 1.5, np.ones(2))
    derived = tangents(tape, 2)
    assert derived.outputs[1][0] == 0
    np.testing.assert_array_equal(derived.outputs[1][1], [0.0, 0.0])
