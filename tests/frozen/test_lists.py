"""No public name, and no row in any mode, is lost."""

import json

import pytest

from tests.frozen.lists import MATRIX, MODES, NAMES, cases, names

FROZEN = json.loads(MATRIX.read_text())
#: Rows that went on purpose: steps of integrators are bodies of loops.
GONE = {"runge_kutta_stage"}


def test_every_public_name_is_still_there():
    assert not set(NAMES.read_text().split()) - names()


def test_every_mode_is_still_there():
    assert set(FROZEN) == set(MODES)


@pytest.mark.parametrize("mode", FROZEN)
def test_every_row_is_still_tested_in_a_mode(mode):
    present = cases(mode)
    fewer = {row: (count, present.get(row, 0)) for row, count in FROZEN[mode].items() if present.get(row, 0) < count and row not in GONE}
    assert not fewer, "cases (before, now)"
