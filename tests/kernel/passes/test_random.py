"""Every pass, and all of them, on random loop programs."""

import pytest

from tapegrad.kernel.passes import fusing, run_passes
from tapegrad.kernel.passes.fusing import fuse, peel
from tapegrad.kernel.passes.renaming import rename
from tapegrad.kernel.passes.simplifying import prune, simplify
from tests.every import every
from tests.kernel.passes.generated import Generated, Rows, Windows, unchanged, unchanged_by_each


@every("seed", range(25))
def test_same_results(seed):
    unchanged_by_each(Generated(seed).program, [prune, simplify, fuse, rename, run_passes])


@pytest.fixture
def short_rows(monkeypatch):
    """Rows of a few elements count as long."""
    monkeypatch.setattr(fusing, "LONG", 4)


def peeled(program):
    peel(program)
    return program


@every("seed", range(20))
def test_same_results_on_rows(seed, short_rows):
    unchanged_by_each(Rows(seed).program, [simplify, fuse, peeled, run_passes])


@pytest.mark.long
def test_same_results_on_rows_many(short_rows):
    for seed in [*range(20, 40), *range(1000, 1160)]:
        unchanged(Rows(seed).program, run_passes)


@pytest.mark.long
def test_same_results_many():
    for seed in range(1000, 1160):
        unchanged(Generated(seed).program, run_passes)


@every("seed", range(40))
def test_same_results_on_windows(seed, short_rows):
    """A window and its neighbour, written in place, to several outputs."""
    unchanged_by_each(Windows(seed).program, [fuse, peeled, run_passes])


def test_peeling_finds_something_in_many_windows(short_rows):
    assert sum(peel(Windows(seed).program) for seed in range(40)) > 3


@pytest.mark.long
def test_same_results_on_windows_many(short_rows):
    for seed in range(1000, 1160):
        unchanged(Windows(seed).program, run_passes)
