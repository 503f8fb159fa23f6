"""Explicit tapes: counting, nesting, memory, clearing."""


import numpy as np
import pytest

import tapegrad as tg
from tests.rules.checker import leaf
from tests.threads import in_a_thread


def test_length_counts_instructions_not_leaves():
    x, y = leaf(2.0), leaf([1.0, 2.0])
    with tg.Tape() as tape:
        for k in range(1, 5):
            x * 2.0
            assert len(tape) == k
        y * x
        tg.concatenate([y] * 9)  # its further operands take records, but are no instructions
        tg.tensor(1.0) * 2.0  # constants alone
        with tg.no_grad():
            x * x
    assert len(tape) == 6
    assert len(tape.instructions) == 6


def test_outside_the_block_nothing_is_added():
    x = leaf(2.0)
    with tg.Tape() as tape:
        y = x * 2.0
    x * 3.0
    assert len(tape) == 1
    z = y * 5.0  # goes on where its operand is
    assert len(tape) == 2
    z.backward()
    assert x.grad.item() == 10.0


def test_nested_tapes_record_apart():
    x = leaf(2.0)
    with tg.Tape() as outer:
        a = x * x
        with tg.Tape() as inner:
            b = x * x * x
            with tg.Tape() as innermost:
                c = x * 5.0
            b = b + x
        a = a * x
    assert [len(t) for t in (outer, inner, innermost)] == [2, 3, 1]
    for y, slope in ((b, 13.0), (c, 5.0), (a, 12.0)):
        x.grad = None
        y.backward()
        assert x.grad.item() == slope


def test_operands_of_two_tapes_do_not_mix():
    x = leaf(2.0)
    with tg.Tape():
        a = x * 2.0
    with tg.Tape():
        b = x * 3.0
    with pytest.raises(RuntimeError, match="two different tapes"):
        a + b
    (a + b.detach()).backward()
    assert x.grad.item() == 2.0


def test_an_error_inside_the_block_leaves_the_tape_entered_before():
    x = leaf(2.0)
    with tg.Tape() as outer:
        with pytest.raises(ZeroDivisionError):
            with tg.Tape():
                1 / 0
        x * 2.0
    assert len(outer) == 1


def test_a_tape_can_be_entered_again_and_goes_on():
    x = leaf(2.0)
    tape = tg.Tape()
    for _ in range(3):
        with tape:
            x * x
    assert len(tape) == 3


@pytest.mark.parametrize("inside", [True, False])
def test_a_tape_used_up_by_backward_is_empty_and_can_be_used_again(inside):
    x = leaf(2.0)
    tape = tg.Tape()
    with tape:
        y = x * x
        if inside:
            y.backward()
    if not inside:
        y.backward()
    assert (len(tape), str(tape)) == (0, "an empty tape")
    with tape:
        z = x * 3.0
    assert len(tape) == 1
    z.backward()
    assert x.grad.item() == 7.0
    assert tape.memory()["saved"] == 0


def test_no_grad_reaches_explicit_tapes():
    x = leaf(2.0)
    with tg.no_grad():
        with tg.Tape() as tape:
            assert not (x * 2.0).requires_grad
            with tg.enable_grad():
                assert (x * 2.0).requires_grad
    assert len(tape) == 1
    with tape:
        assert (x * 2.0).requires_grad
    assert len(tape) == 2


def test_memory_reports_bytes():
    x = leaf(np.ones(1000))
    with tg.Tape() as tape:
        before = tape.memory()
        y = np.exp(x)
        z = np.sin(y)
    after = tape.memory()
    assert before["saved"] == 0
    assert after["saved"] == 8000  # the result of exp is the operand of sin, and counts once
    assert after["total"] == after["records"] + after["saved"]
    assert after["records"] >= 32 * len(tape)
    assert z.requires_grad


def test_clear_forgets_everything():
    x = leaf([1.0, 2.0])
    with tg.Tape() as tape:
        y = np.exp(x)
        assert tape.memory()["saved"] > 0
        tape.clear()
        assert (len(tape), tape.memory()["saved"]) == (0, 0)
        with pytest.raises(RuntimeError, match="cleared"):
            y.sum().backward()
        assert y.tolist() == np.exp([1.0, 2.0]).tolist()
        z = (x * 3.0).sum()
        z.backward()
    assert x.grad.tolist() == [3.0, 3.0]


def test_clear_after_the_block():
    x = leaf(2.0)
    with tg.Tape() as tape:
        x * x
    tape.clear()
    assert len(tape) == 0
    with tape:
        (x * 5.0).backward()
    assert x.grad.item() == 5.0


def test_a_tape_that_holds_instructions_stays_with_its_thread():
    x = leaf(2.0)
    with tg.Tape() as tape:
        x * x
    with pytest.raises(RuntimeError, match="thread"):
        in_a_thread(tape.__enter__)


def test_a_held_tape_forgets_nothing_by_itself():
    x = leaf(1.0)
    with tg.Tape() as tape:
        for _ in range(20_000):
            x * 2.0
    assert len(tape) == 20_000


@pytest.mark.parametrize(
    ("fill", "expected"),
    [
        (lambda x, y: tg.zeros(2).copy_(x), [2.0, 4.0]), (lambda x, y: tg.zeros(2).fill_(x[1]), [0.0, 8.0]), (lambda x, y: y.zero_() + x, [2.0, 4.0]),
        (lambda x, y: y.copy_(x * x), [4.0, 32.0]), (lambda x, y: (y[:1].fill_(3.0), y)[1], [0.0, 36.0]),
    ],
)  # fmt: skip
def test_filling_has_the_derivative_of_what_is_filled_in(fill, expected):
    x = tg.tensor([1.0, 2.0], requires_grad=True)
    filled = fill(x, x * 3.0)
    (filled * filled).sum().backward()
    assert x.grad.tolist() == expected


def test_what_data_gives_is_filled_without_derivative():
    x, w = (tg.tensor([a, 2.0], requires_grad=True) for a in (1.0, 5.0))
    w.data.copy_(x)
    assert w.tolist() == [1.0, 2.0] and w.requires_grad and w.grad_fn is None
    with pytest.raises(tg.errors.GradientError, match="leaf"):
        w.copy_(x)
