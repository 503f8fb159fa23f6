"""Every pass, and all of them, on random loop programs."""

import pytest

from tapegrad.kernel.passes import run_passes
from tapegrad.kernel.passes.filling import narrow
from tapegrad.kernel.passes.fusing import fuse
from tapegrad.kernel.passes.pruning import prune
from tapegrad.kernel.passes.renaming import rename
from tapegrad.kernel.passes.simplifying import simplify
from tests.kernel.passes.generated import Generated, unchanged


@pytest.mark.parametrize("change", [prune, simplify, narrow, fuse, rename, run_passes])
def test_same_results(change):
    for seed in range(25):
        unchanged(Generated(seed).program, change)


@pytest.mark.long
def test_same_results_many():
    for seed in range(1000, 2500):
        unchanged(Generated(seed).program, run_passes)
