"""Every pass, and all of them, on random loop programs."""

import pytest

from tapegrad.kernel.passes import run_passes
from tapegrad.kernel.passes.fusing import fuse
from tapegrad.kernel.passes.pruning import prune
from tapegrad.kernel.passes.simplifying import simplify
from tests.kernel.passes.generated import Generated, unchanged


@pytest.mark.parametrize("change", [prune, simplify, fuse, run_passes])
def test_same_results(change):
    for seed in range(25):
        unchanged(Generated(seed).program, change)
