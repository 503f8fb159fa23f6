"""Programs at random under stacks of transformations, and every program that ever failed: values and derivatives beside the reference.

    python -m tests.compositions 0 100000 --processes 2        more of them
"""

import datetime
from pathlib import Path

import pytest

from tests.compositions.features import FEATURES, LATER
from tests.compositions.generator import TRANSFORMS, program_of
from tests.compositions.mends import MENDS, ROOT
from tests.compositions.running import outcome
from tests.compositions.shrinking import as_text, of_text

FAILED = sorted(Path(__file__).with_name("failed").glob("*.txt"))
SEEDS, EACH = range(200), 20


def wrong_of(seeds):
    """What is wrong, by seed; that most programs compare something is asserted."""
    wrong, compared = {}, 0
    for seed in seeds:
        found = outcome(program_of(seed))
        compared += found["compared"]
        if found["wrong"]:
            wrong[seed] = found["wrong"][0]
    assert compared > len(seeds)
    return wrong


@pytest.mark.parametrize("first", range(0, len(SEEDS), EACH))
def test_programs_at_random(first):
    wrong = wrong_of(SEEDS[first : first + EACH])
    assert not wrong, f"python -m tests.compositions --shrink SEED: {wrong}"


@pytest.mark.long
def test_other_programs_every_day():
    first = 1000 * datetime.date.today().toordinal()
    wrong = wrong_of(range(first, first + 500))
    assert not wrong, f"python -m tests.compositions --shrink SEED: {wrong}"


@pytest.mark.parametrize("path", FAILED, ids=lambda path: path.stem)
def test_a_program_that_failed_once(path):
    assert not outcome(*of_text(path.read_text()))["wrong"]


def test_a_seed_is_always_the_same_program_which_has_what_it_says():
    programs = [program_of(seed) for seed in range(300)]
    assert [as_text(p) for p in programs] == [as_text(program_of(seed)) for seed in range(300)]
    assert {name for p in programs for name in p.features} == set(FEATURES)
    later = {name for seed in range(max(LATER), max(LATER) + 50) for name in program_of(seed).features}
    assert later > {name for features in LATER.values() for name in features}
    assert {name for p in programs for name in p.stack} == set(TRANSFORMS)
    assert sum(len(p.stack) > 2 for p in programs) > 120


def test_mends_can_be_taken_back():
    texts = [(name, file, (ROOT / "tapegrad" / file).read_text().count(old)) for name, mend in MENDS.items() for file, old, _ in mend.edits]
    assert not [fault for fault in texts if fault[-1] != 1]
