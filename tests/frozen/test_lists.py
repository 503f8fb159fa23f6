"""No public name, and no row in any mode, is lost."""

import json

from tests.frozen.lists import MATRIX, NAMES, cases, modes, names

FROZEN = json.loads(MATRIX.read_text())
#: Rows that went on purpose: steps of integrators are bodies of loops; of the results of a loop the row `loop_results` has the derivative.
GONE = {"runge_kutta_stage", "loop"}


def test_every_public_name_is_still_there():
    assert not set(NAMES.read_text().split()) - names()


def test_every_mode_is_still_there():
    assert set(FROZEN) == modes()


def test_every_row_is_still_tested_in_every_mode():
    fewer = {
        (mode, row): (count, present.get(row, 0))
        for mode, counts in FROZEN.items()
        for present in [cases(mode)]
        for row, count in counts.items()
        if present.get(row, 0) < count and row not in GONE
    }
    assert not fewer, "cases (before, now)"
