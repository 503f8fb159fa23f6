"""Every pass, and all of them, on random loop programs."""

import pytest

from tapegrad.kernel.passes import run_passes, splitting
from tapegrad.kernel.passes.filling import narrow
from tapegrad.kernel.passes.fusing import fuse
from tapegrad.kernel.passes.pruning import prune
from tapegrad.kernel.passes.renaming import rename
from tapegrad.kernel.passes.simplifying import simplify
from tapegrad.kernel.passes.splitting import split
from tests.kernel.passes.generated import Generated, Rows, unchanged


def split_and_simplified(program):
    """`split` with what has to follow it."""
    new = split(program)
    return program if new is None else simplify(program, new)


@pytest.mark.parametrize("change", [prune, simplify, narrow, fuse, rename, run_passes])
def test_same_results(change):
    for seed in range(25):
        unchanged(Generated(seed).program, change)


@pytest.mark.parametrize("change", [split_and_simplified, fuse, run_passes])
def test_same_results_on_rows(change, monkeypatch):
    monkeypatch.setattr(splitting, "LONG", 4)
    for seed in range(40):
        unchanged(Rows(seed).program, change)


@pytest.mark.long
def test_same_results_on_rows_many(monkeypatch):
    monkeypatch.setattr(splitting, "LONG", 4)
    for seed in range(1000, 2500):
        unchanged(Rows(seed).program, run_passes)


@pytest.mark.long
def test_same_results_many():
    for seed in range(1000, 2500):
        unchanged(Generated(seed).program, run_passes)
