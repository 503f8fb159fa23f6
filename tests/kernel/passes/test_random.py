"""Every pass, and all of them, on random loop programs."""

import pytest

from tapegrad.kernel.passes import peeling, run_passes
from tapegrad.kernel.passes.fusing import fuse
from tapegrad.kernel.passes.peeling import peel
from tapegrad.kernel.passes.renaming import rename
from tapegrad.kernel.passes.simplifying import prune, simplify
from tests.kernel.passes.generated import Generated, Rows, Windows, unchanged


@pytest.mark.parametrize("change", [prune, simplify, fuse, rename, run_passes])
def test_same_results(change):
    for seed in range(25):
        unchanged(Generated(seed).program, change)


@pytest.fixture
def short_rows(monkeypatch):
    """Rows of a few elements count as long."""
    monkeypatch.setattr(peeling, "LONG", 4)


def peeled(program):
    peel(program)
    return program


@pytest.mark.parametrize("change", [simplify, fuse, peeled, run_passes])
def test_same_results_on_rows(change, short_rows):
    for seed in range(20):
        unchanged(Rows(seed).program, change)


@pytest.mark.long
def test_same_results_on_rows_many(short_rows):
    for seed in [*range(20, 40), *range(1000, 1160)]:
        unchanged(Rows(seed).program, run_passes)


@pytest.mark.long
def test_same_results_many():
    for seed in range(1000, 1160):
        unchanged(Generated(seed).program, run_passes)


@pytest.mark.parametrize("change", [fuse, peeled, run_passes])
def test_same_results_on_windows(change, short_rows):
    """A window and its neighbour, written in place, to several outputs; peeling finds something in many of them."""
    found = 0
    for seed in range(40):
        unchanged(Windows(seed).program, change)
        found += peel(Windows(seed).program)
    assert found > 3


@pytest.mark.long
def test_same_results_on_windows_many(short_rows):
    for seed in range(1000, 1160):
        unchanged(Windows(seed).program, run_passes)
