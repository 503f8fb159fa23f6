"""Lists of cases in one test (`tests.every`): no case is left out, and all faults are named; any two values meet in `pairs`."""

import itertools
import math

import pytest

from tests.every import every, pairs


def test_every_case_runs_and_each_fault_is_said_with_its_case():
    seen = []

    @every("a, b", [(1, 2), (3, 4), (5, 6), (7, 8)])
    def checked(a, b):
        seen.append(a)
        if a == 5:
            pytest.skip("not here")
        assert a != 3, "three"
        if a == 7:
            with pytest.raises(ValueError):
                pass

    with pytest.raises(AssertionError, match=r"2 of 4 cases fail\n3, 4\n(.|\n)*three(.|\n)*\n7, 8\n(.|\n)*DID NOT RAISE"):
        checked()
    assert seen == [1, 3, 5, 7]


def test_lists_are_multiplied_and_fixtures_stay():
    seen = []

    @every("a", [1, 2])
    @every("b", lambda: "xy")
    def checked(a, b, fixture):
        seen.append((a, b, fixture))
        assert b != "y" or a == 2

    with pytest.raises(AssertionError, match=r"1 of 2 cases fail\n1\n(.|\n)*1 of 2 cases fail\ny\n"):
        checked(fixture=0)
    assert seen == [(1, "x", 0), (1, "y", 0), (2, "x", 0), (2, "y", 0)]


def test_no_cases_are_a_fault():
    with pytest.raises(AssertionError):
        every("a", [])(lambda a: None)()


@pytest.mark.parametrize("sizes", [(3,), (2, 5), (10, 7, 9), (15, 3, 7), (9, 1, 10, 4), (4, 3, 2, 2, 2)])
def test_any_two_values_meet_in_few_cases(sizes):
    factors = [[f"{name}{k}" for k in range(size)] for name, size in zip("abcde", sizes)]
    cases = pairs(*factors)
    for two in itertools.combinations(range(len(sizes)), 2):
        assert {tuple(case[k] for k in two) for case in cases} == set(itertools.product(*(factors[k] for k in two)))
    assert len(cases) <= 1.15 * math.prod(sorted(sizes)[-2:]) + 1
    assert cases == pairs(*map(iter, factors))
