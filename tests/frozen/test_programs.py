"""Random programs give what they gave when they were frozen: by define-by-run, by replay, by kernel."""

import pytest

from tests.frozen.programs import by_replay, by_tape, difference, frozen, made

#: How many are compiled in every run (those with arrays take seconds each); the others are marked long.
COMPILED = {"nest": 6, "arrays": 1, "views": 8}
BLOCKS = {f"{kind}-{start}": (kind, start) for kind, count in (("nest", 110), ("arrays", 70), ("views", 120)) for start in range(0, count, 10)}


def block(kind, start):
    """Ten programs, and what they should give."""
    return [key for key in frozen() if key[0] == kind][start : start + 10]


def close(key, numbers):
    assert difference(numbers, frozen()[key]) < 1e-12, key


def test_all_of_them_are_looked_at():
    assert sorted(key for name in BLOCKS.values() for key in block(*name)) == sorted(frozen()) and len(frozen()) == 300


@pytest.mark.parametrize("name", BLOCKS)
def test_by_define_by_run(name):
    for key in block(*BLOCKS[name]):
        close(key, by_tape(*made(*key)))


@pytest.mark.parametrize("name", [name if name.endswith("-0") else pytest.param(name, marks=pytest.mark.long) for name in BLOCKS])
def test_by_replay(name):
    for key in block(*BLOCKS[name]):
        numbers, stats = by_replay(*made(*key), "never")
        assert stats.replays and not stats.runs, key
        close(key, numbers)


def compiled(keys):
    for key in keys:
        numbers, stats = by_replay(*made(*key), "always")
        assert stats.kernels == stats.kernel_calls == 1, key
        close(key, numbers)


@pytest.mark.parametrize("kind", ["views", *(pytest.param(kind, marks=pytest.mark.long) for kind in ("nest", "arrays"))])
def test_by_kernel(kind):
    compiled(block(kind, 0)[: COMPILED[kind]])


@pytest.mark.long
@pytest.mark.parametrize("name", BLOCKS)
def test_every_one_by_kernel(name):
    compiled(block(*BLOCKS[name]))
