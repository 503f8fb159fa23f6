"""Pieces of programs, and places in the workspace."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tapegrad.kernel import ir
from tapegrad.kernel.cut import CutLoop, assign_offsets, buffers, costs, crossings, cut, lives, plan
from tests.kernel.programs import Writer, a, at, rosenbrock, temporary


def pieces_of(program, limit, **options):
    return cut(program.body, costs(program.body), limit, **options)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 300), st.integers(0, 9), st.integers(0, 5)), max_size=25))
def test_no_two_that_live_together_overlap(wanted):
    wanted = sorted(((nbytes, first, first + length) for nbytes, first, length in wanted), key=lambda w: w[1])
    offsets, top = assign_offsets(wanted)
    for k, (nbytes, first, last) in enumerate(wanted):
        assert offsets[k] % 64 == 0 and offsets[k] + nbytes <= top
        for j in range(k):
            other, begin, end = wanted[j]
            if first <= end and begin <= last:
                assert offsets[k] + nbytes <= offsets[j] or offsets[j] + other <= offsets[k]


def test_memory_is_used_again_as_soon_as_it_is_free():
    offsets, top = assign_offsets([(64, 0, 1), (128, 0, 2), (64, 2, 2), (100, 3, 3)])
    assert offsets == [0, 64, 0, 0] and top == 192


def chain(count, n):
    """`count` loops over `n` elements, each reading what the one before has written."""
    w = Writer()
    last = w.input(n)
    for k in range(count):
        target = w.output(n) if k == count - 1 else temporary(n)
        with w.loop(n) as i:
            w.store(w.let(a(w.load(last, 0, (i, 1))) * 2.0), target, 0, (i, 1))
        last = target
    return w.program()


def test_a_chain_of_loops_needs_two_temporaries_if_cut_and_all_if_not():
    program = chain(6, 500)
    assert plan(pieces_of(program, 10**6, single_loops=True), program).nbytes == 64 + 2 * 4032
    assert plan(pieces_of(program, 10**6), program).nbytes == 64 + 5 * 4032


def test_pieces_hold_all_statements_in_order_within_the_limit():
    program = chain(20, 3)
    cost = costs(program.body)
    pieces = pieces_of(program, 30)
    assert [item for piece in pieces for item in piece.items] == program.body
    assert all(piece.cost == sum(cost[id(s)] for s in piece.items) <= 30 for piece in pieces) and len(pieces) > 1


def test_the_body_of_a_long_loop_is_cut():
    program = rosenbrock(9)
    pieces = pieces_of(program, 3)
    loops = [item for piece in pieces for item in piece.items if isinstance(item, CutLoop)]
    assert [item.loop for item in loops] == [s for s in program.body if isinstance(s, ir.Loop)]
    for item in loops:
        assert [s for piece in item.pieces for s in piece.items] == item.loop.body
    crossing = crossings(pieces)
    assert all(item.loop in crossing for item in loops) and loops[0].loop.carries[0].next in crossing
    assert len({id(thing) for thing in crossing}) == len(crossing)


def test_what_stays_in_one_piece_crosses_nothing():
    assert crossings(pieces_of(rosenbrock(9), 10**6)) == []


def test_temporaries_live_from_first_to_last_use():
    program = chain(4, 5)
    pieces = pieces_of(program, 1, single_loops=True)
    found = sorted((first, last) for _, first, last in lives(pieces).values())
    assert len(pieces) == 4 and found == [(0, 1), (1, 2), (2, 3)]
    assert [len(buffers(piece.body)) for piece in pieces] == [2, 2, 2, 2]


def test_ragged_counters_and_array_programs_have_memory():
    w = Writer()
    t = temporary(300)
    with w.loop(2) as i:
        with w.loop(np.array([1, 2]), which=at(0, (i, 1))):
            w.add(ir.Run(np.zeros(2, np.int64), [(0, t, at())]))
    found = plan(pieces_of(w.program(), 100), w.program())
    assert found.slots == {("ragged", id(w.top[0].body[0])): 8}
    assert 16 <= found.run and found.run + 8 * 256 <= found.scratch
    assert found.scratch + 4096 <= found.offsets[id(t)] and found.offsets[id(t)] + 2400 <= found.nbytes
