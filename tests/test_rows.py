"""Every row of the table in every mode, each on the row's examples: `tests.matrix` says what is compared."""

import pytest

from tests.every import faults
from tests.matrix import EVERY, MODES


def compared(name, cases):
    """Fails unless all modes pass; what does not is said mode by mode."""
    found = {}
    for title, mode in MODES.items():
        for case, text in faults(mode.compare, cases(mode)):
            found[f"{title}: {case}"] = text
    if found:
        raise AssertionError("\n".join([f"{name} fails in {len(found)} comparisons", *(f"{title}\n{text}" for title, text in found.items())]))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", EVERY)
def test_row(name):
    compared(name, lambda mode: mode.cases(name))


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", EVERY)
def test_row_on_all_examples(name):
    compared(name, lambda mode: mode.cases(name, every=True)[mode.few :] if mode.few else ())
