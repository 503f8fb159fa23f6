"""Random programs with loops and choices as what `vmap` maps, beside dual numbers of Python's own at each point."""

import numpy as np
import pytest

import tapegrad as tg
from tests.transforms.loops.programs import MARGIN, SIZE, TOLERANCE, Oracle, programs

#: In how many parts the programs of the suite are run (one of them in every run), and how many each has.
PARTS, EACH = 12, 2


def points_of(program):
    """The program's points and some between and around them, and what the oracle has there; without those near to an edge."""
    first = program.points
    points = [*first, *(0.5 * (a + b) for a, b in zip(first, first[1:])), *(0.9 * p - 0.05 for p in first), 0.0 * first[0] + 0.3]
    pairs = [(p, Oracle(program, p)) for p in points]
    pairs = [(p, oracle) for p, oracle in pairs if oracle.margin >= MARGIN]
    return np.array([p for p, _ in pairs]).reshape(-1, SIZE), [oracle for _, oracle in pairs]


def assert_near(found, expected, program):
    scale = 1.0 + np.max(np.abs(expected), initial=0.0)
    assert np.shape(found) == np.shape(expected) and np.max(np.abs(found - expected), initial=0.0) <= TOLERANCE * scale, program.source


@pytest.mark.parametrize("part", [pytest.param(k, marks=[pytest.mark.long] if k != 1 else []) for k in range(PARTS)])
def test_programs_are_mapped(part):
    right = 0
    for program in programs(7, EACH, first=part * EACH):
        points, oracles = points_of(program)
        if not oracles:
            continue
        values, gradients, products = (np.array([getattr(o, what) for o in oracles]) for what in ("value", "gradient", "product"))
        f = program.function(tg)
        assert_near(tg.vmap(f)(points), values, program)
        for mapped in (tg.vmap(tg.value_and_grad(f)), tg.jit(tg.vmap(tg.value_and_grad(f)), kernel="never")):
            value, gradient = mapped(points)
            assert_near(value, values, program)
            assert_near(gradient, gradients, program)
        assert_near(tg.grad(lambda points: np.sum(tg.vmap(f)(points)))(points), gradients, program)
        product = tg.hvp(lambda points: np.sum(tg.vmap(f)(points)))(points, np.tile(oracles[0].direction, (len(points), 1)))
        assert_near(product, products, program)
        right += len(oracles)
    assert right > EACH
