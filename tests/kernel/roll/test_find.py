"""Rolling: the same program, in few lines, the same every time."""

import numpy as np
import pytest

from tapegrad.kernel.roll import Line, Repeat, find
from tests.kernel.roll.nests import Nest, lines_of, order_of


def expands(structure, code):
    """Assert that the loops run the instructions in their order, each line always the same one."""
    code = np.asarray(code)
    assert np.array_equal(order_of(structure), np.arange(code.size))

    def check(nodes):
        for node in nodes:
            if isinstance(node, Line):
                assert (code[node.members] == code[node.members[0]]).all()
            else:
                assert np.min(node.extent) >= 1
                check(node.body)

    check(structure.nodes)


def loops(nodes):
    """Extents and bodies' lengths of all loops, in order."""
    found = []
    for node in nodes:
        if isinstance(node, Repeat):
            extent = node.extent if isinstance(node.extent, int) else node.extent.tolist()
            found.append((extent, len(node.body)))
            found += loops(node.body)
    return found


@pytest.mark.parametrize("first", [0, *(pytest.param(k, marks=pytest.mark.long) for k in (50, 100, 150))])
def test_random_nests_expand_to_themselves(first):
    for seed in range(first, first + 50):
        nest = Nest(seed, most=2000)
        expands(find(nest.code, lines=0), nest.code)
        expands(find(nest.code, nest.operands, lines=0 if seed % 3 else 128), nest.code)


def test_random_nests_are_found():
    """Most nests come back as short as their source; letters are few, so that some are ambiguous."""
    ratios = []
    for seed in range(200):
        nest = Nest(seed, alphabet=6 + seed % 10)
        ratios.append(lines_of(find(nest.code, lines=0)) / nest.lines)
    ratios = np.sort(ratios)
    assert ratios[140] <= 1.05 and ratios[180] <= 1.6


def test_nests_of_equal_extents_are_found_exactly():
    """Loops around loops around loops with distinct instructions: extents and bodies are those of the source."""
    code = []
    for _ in range(20):
        code += [0, 1]
        for _ in range(15):
            code += [2]
            for _ in range(30):
                code += [3, 4, 4, 5]
            code += [6, 7]
        code += [8]
    structure = find([9, 9] + code + [9])
    assert loops(structure.nodes) == [(20, 4), (15, 4), (30, 4)]
    expands(structure, [9, 9] + code + [9])


def test_unequal_trip_counts_become_a_table():
    code = []
    for i in range(30):
        code += [0, 1]
        for _ in range(i + 1):
            code += [2, 3, 2, 4]
        code += [5]
    structure = find(code)
    expands(structure, code)
    (outer,) = [node for node in structure.nodes if isinstance(node, Repeat)]
    (inner,) = [node for node in outer.body if isinstance(node, Repeat)]
    assert outer.extent >= 28
    assert inner.extent.tolist() == list(range(31 - outer.extent, 31))


def test_forward_and_adjoint_part():
    """A loop, then its instructions backwards, with the last iteration of one and the first of the other changed."""
    body = [1, 2, 2, 3, 1, 4, 2, 5, 1, 2]
    code = [0] * 5 + body * 500 + [6, 7] + body[:4:-1] + body[::-1] * 499 + [8]
    structure = find(code)
    expands(structure, code)
    assert [extent for extent, _ in loops(structure.nodes)] == [500, 499]
    assert lines_of(structure) < 2 * len(body) + 15


def test_long_periods():
    body = np.random.default_rng(0).integers(0, 12, 3000)
    code = np.concatenate([[20], np.tile(body, 40), [21, 22]])
    structure = find(code)
    assert loops(structure.nodes) == [(40, 3000)]
    expands(structure, code)


def test_few_equal_instructions_are_no_loop():
    """Three or eight equal instructions inside a longer body stay straight."""
    body = [1, 2, 2, 2, 3] + [4] * 8 + [5, 6, 5, 6, 5, 6, 7]
    structure = find(body * 100)
    assert loops(structure.nodes) == [(100, len(body))]


def test_what_does_not_repeat_stays_straight():
    code = np.random.default_rng(1).integers(0, 1000, 5000)
    structure = find(code)
    assert lines_of(structure) == 5000 and loops(structure.nodes) == []


@pytest.mark.parametrize("code", [[], [3], [1, 1], [1, 2, 3]])
def test_tiny(code):
    structure = find(code)
    expands(structure, code)
    assert lines_of(structure) == len(code)


def test_deterministic():
    nest = Nest(17)
    assert str(find(nest.code, nest.operands)) == str(find(nest.code, nest.operands))


def test_printing():
    text = str(find([5] + ([0] + [1, 2, 3] * 20) * 3 + ([0] + [1, 2, 3] * 25) * 9, lines=0))
    assert text.splitlines()[:3] == ["0", "repeat 12:", "    1, 62, 123, ..., 792"]
    assert "    repeat [20, 20, 20, ..., 25]:" in text.splitlines()


def test_wrong_arguments():
    with pytest.raises(ValueError, match="negative"):
        find([1, -1])
    with pytest.raises(ValueError, match="operands for 1"):
        find([1, 1], [[0, 0]])
