"""Random programs of loops and choices: what the generator makes, the oracle that it is compared with, and some hundred of them."""

import numpy as np
import pytest

from tests.transforms.loops.programs import WAYS, Oracle, made, main, programs, run

#: In how many parts the programs of the suite are run, and how many each has.
PARTS, EACH = 20, 10


def test_a_seed_makes_the_same_programs():
    once, again, other = (list(programs(seed, 20)) for seed in (0, 0, 1))
    assert [p.source for p in once] == [p.source for p in again]
    assert all(np.array_equal(a, b) for p, q in zip(once, again) for a, b in zip(p.points, q.points))
    assert not {p.source for p in once} & {p.source for p in other}


def test_every_form_occurs_in_every_other():
    forms = sum((p.forms for p in programs(0, 200)), start=made(0).forms)
    assert forms.keys() == {"scalar", "vector", "branch", "scan", "while_loop", "fori_loop", "cond", "switch", "map", "associative_scan"}
    assert min(forms.values()) >= 30
    assert any("if " in p.source and p.source.count("ops.scan") > 2 for p in programs(0, 50))


@pytest.mark.parametrize("seed", range(8))
def test_the_oracle_has_the_derivatives_that_differences_have(seed):
    program = made(seed)
    oracle = Oracle(program, program.points[0])
    values = [[Oracle(program, program.points[0] + sign * step, second=False) for sign in (1, -1)] for step in 1e-6 * np.eye(4)]
    slopes = [(up.value - down.value) / 2e-6 for up, down in values]
    np.testing.assert_allclose(oracle.gradient, slopes, rtol=1e-5, atol=1e-6 * (1.0 + np.max(np.abs(oracle.gradient))))
    along = [Oracle(program, program.points[0] + sign * 1e-6 * oracle.direction, second=False).gradient for sign in (1, -1)]
    np.testing.assert_allclose(oracle.product, (along[0] - along[1]) / 2e-6, rtol=1e-5, atol=1e-5 * (1.0 + np.max(np.abs(oracle.product))))


@pytest.mark.parametrize("part", [pytest.param(k, marks=[pytest.mark.long] if k != 1 else []) for k in range(PARTS)])
def test_programs_give_what_plain_python_gives(part):
    outcomes = []
    for program in programs(0, EACH, first=part * EACH):
        outcome = run(program)
        assert outcome.verdict in ("right", "edge"), f"{outcome.verdict}: {outcome.text}\n{program.source}"
        outcomes.append(outcome.verdict)
    assert outcomes.count("right") > EACH // 2


def test_the_command_says_how_many_are_right(capsys):
    assert main(["--seed", "3", "--count", "2", "--ways", "numbers"]) == 0
    assert "2 right" in capsys.readouterr().out and "numbers" in WAYS
