"""The generator of programs that read more than their arguments: what it makes is sound, and what was always right stays so."""

import datetime

import numpy as np
import pytest

from tests.every import every
from tests.transforms.replay.impure_programs import (
    CALLED,
    KINDS,
    Oracle,
    by_differences,
    made,
    offsets,
    process_kept,
    programs,
    run,
)

#: What changes in these is not what the function reads, or not before it runs.
CHANGES_NOTHING = ("nothing changes", "string that is the name of a global", "memory written before the pullback")


def test_a_seed_makes_the_same_programs():
    once, again, other = (list(programs(seed, 2 * len(KINDS))) for seed in (0, 0, 1))
    assert [p.source for p in once] == [p.source for p in again]
    assert [p.transformations for p in once] == [p.transformations for p in again]
    assert all(np.array_equal(a, b) for p, q in zip(once, again) for a, b in zip(p.points, q.points))
    assert sum(p.source == q.source for p, q in zip(once, other)) == 0


def test_every_kind_and_every_transformation_occurs():
    many = list(programs(0, 3 * len(KINDS)))
    assert {p.kind.name for p in many} == set(KINDS)
    assert {t for p in many for t in p.transformations} == set(CALLED)
    assert {p.jit for p in many} == {True, False}


def test_every_fault_has_a_kind():
    assert {kind.fault for kind in KINDS.values()} == {None, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 18, 21, 27}


@every("name", [name for name, kind in KINDS.items() if "def change" in kind.text and name not in CHANGES_NOTHING])
def test_a_change_is_one_that_the_value_shows(name):
    for seed in range(3):
        program = made(KINDS[name], seed)
        with process_kept():
            names = program.instance()
            values = []
            for change in (0, 1):
                if change:
                    names["change"](change)
                values.append(names["f"](program.points[0], *(names["arguments"](0) if "arguments" in names else ())))
        assert not np.allclose(*values, rtol=1e-4), program.source


@pytest.mark.parametrize("transformation", ["grad", "elementwise_grad", "hessian", "hvp"])
def test_differences_of_a_known_function(transformation):
    x = np.array([0.5, 1.0, 1.5])
    values = [np.sum((x + shift) ** 3) + x[0] * x[1] * 0.0 for shift in offsets(transformation, x)]
    known = {"hessian": np.diag(6.0 * x), "hvp": 6.0 * x * np.cos(np.arange(3))}.get(transformation, 3.0 * x**2)
    np.testing.assert_allclose(by_differences(transformation, x, values), known, atol=1e-4)


@pytest.mark.parametrize("transformation", CALLED)
def test_a_function_that_does_not_change_is_right(transformation):
    for seed in range(4):
        program = made(KINDS["nothing changes"], seed, transformation)
        outcome = run(program)
        assert outcome.verdict == "right", f"{outcome.text}\n{program.source}"
        oracle = Oracle(program)
        once, again = (oracle.at("grad", program.points[0], 0) for _ in range(2))
        assert np.array_equal(once[1], again[1])


def test_what_was_always_right_is_right():
    plain = [name for name, kind in KINDS.items() if kind.fault is None]
    for program in programs(0, max(100, len(plain)), plain):
        outcome = run(program)
        assert outcome.verdict in program.expected, f"{outcome.verdict}: {outcome.text}\n{program.source}"


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2, "today"))])
def test_every_kind_is_right_without_jit_and_under_it_right_refused_or_unseen_as_is_said(name, seed):
    seed = datetime.date.today().toordinal() if seed == "today" else seed
    for jit in (False, True):
        program = made(KINDS[name], seed, jit=jit)
        outcome = run(program)
        assert outcome.verdict in program.expected, f"{outcome.verdict}: {outcome.text}\n{program.source}"
