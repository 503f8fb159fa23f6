"""What `str(tape)`, `tape.trace()` and `tape.paths()` print, to the letter."""

import sys
from pathlib import Path

import numpy as np
import pytest

import tapegrad as tg
from tests.rules.checker import leaf

FILE = Path(__file__).name


def line():
    return sys._getframe(1).f_lineno


def document_example():
    """S1.1: L = 1 - (w2 w1 x1 + w3 w1 x2)."""
    x1, x2, w1, w2, w3 = (leaf(v) for v in (1.0, 2.0, 1.0, 2.0, 3.0))
    with tg.Tape() as tape:
        x3 = w1 * x1
        x4 = w1 * x2
        x5 = w2 * x3 + w3 * x4
        L = 1 - x5
    return tape, L, (x1, x2, w1, w2, w3)


def test_listing_of_scalars():
    x, y = leaf(0.5), leaf(3.0)
    with tg.Tape() as tape:
        at = line() + 1
        a = x * y
        b = np.sin(a) - 2.0
        np.where(b > 0, a, y)
    assert str(tape) == f"""\
slot  primitive  operands       shape   value     recorded at
%1    leaf                      scalar  0.5
%2    leaf                      scalar  3
%3    multiply   %1, %2         scalar  1.5       {FILE}:{at}
%4    sin        %3             scalar  0.997495  {FILE}:{at + 1}
%5    subtract   %4, 2          scalar  -1.00251  {FILE}:{at + 1}
%6    where      False, %3, %2  scalar  3         {FILE}:{at + 2}"""


def test_listing_of_arrays_and_of_many_operands():
    w, s = leaf([0.5, -1.0, 2.0]), leaf(3.0)
    c = np.arange(3.0)
    with tg.Tape() as tape:
        at = line() + 1
        y = w * s
        z = y + c
        p = w[1] * 2.0
        q = tg.concatenate([y, z, w, y, z, w])
        np.sum(q * np.arange(18.0), axis=0) / p
        w[np.array([0, 0, 2])]
    assert str(tape) == f"""\
slot  primitive    operands                            shape   value             recorded at
%1    leaf                                             3       [ 0.5 -1.   2. ]
%2    leaf                                             scalar  3
%3    multiply     %1, %2                              3       [ 1.5 -3.   6. ]  {FILE}:{at}
%4    add          %3, const                           3       -                 {FILE}:{at + 1}
%5    select       %1, shape=(), strides=(), offset=1  scalar  -1                {FILE}:{at + 2}
%6    multiply     %5, 2                               scalar  -2                {FILE}:{at + 2}
%8    concatenate  %3, %4, %1, %3, %4, %1, axis=0      18      -                 {FILE}:{at + 3}
%9    multiply     %8, const                           18      -                 {FILE}:{at + 4}
%10   sum          %9, axis=(0,), keepdims=False       scalar  236.5             {FILE}:{at + 4}
%11   divide       %10, %6                             scalar  -118.25           {FILE}:{at + 4}
%12   gather       %1, const, shape=(3,)               3       [0.5 0.5 2. ]     {FILE}:{at + 5}"""


def test_large_arrays_are_summarised_and_empty_ones_named():
    x = leaf(np.linspace(-1.0, 2.0, 100))
    with tg.Tape() as tape:
        np.exp(x[:0]), np.exp(x)
    text = str(tape)
    assert "[-1 .. 2]" in text and "[0.3679 .. 7.389]" in text and "[]" in text


def test_an_empty_tape_says_so():
    assert str(tg.Tape()) == "an empty tape"
    assert tg.Tape().trace() == "an empty tape"
    assert repr(tg.Tape()) == "<Tape of 0 instructions>"


def test_cleared_instructions_are_marked():
    x = leaf(2.0)
    with tg.Tape() as tape:
        first, second = x * x, x * 3.0
        first.backward()
        text = str(tape).splitlines()
    assert [row.split()[1:3] for row in text[2:]] == [["multiply", "(cleared)"], ["multiply", "%1,"]]
    assert second.item() == 6.0


def test_a_leaf_changed_in_place_is_listed_with_the_value_that_was_used():
    x, s = leaf([1.0, 2.0]), leaf(3.0)
    with tg.Tape() as tape:
        y = np.exp(x + s)
        with tg.no_grad():
            x += 10.0
            s += 10.0
    rows = str(tape).splitlines()
    assert rows[1].split() == ["%1", "leaf", "2", "-"]
    assert rows[2].split() == ["%2", "leaf", "scalar", "3"]
    assert "[ 54.5982 148.4132]" in rows[-1]
    assert y.tolist() == np.exp([4.0, 5.0]).tolist()


def test_trace_is_the_textbook_table():
    tape, L, _ = document_example()
    assert tape.trace() == tape.trace(L) == """\
slot  instruction       primal  adjoint
%1    leaf              1       -8
%2    leaf              1       -2
%3    multiply(%1, %2)  1       -2
%4    leaf              2       -3
%5    multiply(%1, %4)  2       -3
%6    leaf              2       -1
%7    multiply(%6, %3)  2       -1
%8    leaf              3       -2
%9    multiply(%8, %5)  6       -1
%10   add(%7, %9)       8       -1
%11   subtract(1, %10)  -7      1"""


def test_trace_names_leaves_and_shows_tangents():
    tape, L, (x1, x2, w1, w2, w3) = document_example()
    assert tape.trace(L, tangents={w1: 1.0}) == """\
slot  instruction       primal  tangent  adjoint
%1    leaf w1           1       1        -8
%2    leaf x1           1       0        -2
%3    multiply(%1, %2)  1       1        -2
%4    leaf x2           2       0        -3
%5    multiply(%1, %4)  2       2        -3
%6    leaf w2           2       0        -1
%7    multiply(%6, %3)  2       2        -1
%8    leaf w3           3       0        -2
%9    multiply(%8, %5)  6       6        -1
%10   add(%7, %9)       8       8        -1
%11   subtract(1, %10)  -7      -8       1"""


def test_trace_of_arrays_agrees_with_backward():
    w = leaf([0.5, -1.0, 2.0])
    with tg.Tape() as tape:
        z = np.tanh(w) * w + 1.0
        text = tape.trace(z, seed=[1.0, 10.0, 100.0], tangents={w: [1.0, 0.0, 0.0]})
        z.backward(np.array([1.0, 10.0, 100.0]))
    grad = np.array2string(w.grad.numpy(), precision=4, separator=" ", suppress_small=True)
    assert text.splitlines()[1].endswith(grad)
    slope = np.tanh(0.5) + 0.5 * (1 - np.tanh(0.5) ** 2)
    assert f"[{slope:.4f} 0." in text.splitlines()[-1]


def test_trace_refuses_what_it_cannot_show():
    x = leaf([1.0, 2.0])
    with tg.Tape() as tape:
        y = np.exp(x)
        keep = x * 2.0
        with pytest.raises(ValueError, match="shape"):
            tape.trace(y, seed=[1.0, 2.0, 3.0])
        with pytest.raises(ValueError, match="not met"):
            tape.trace(leaf(1.0))
        with pytest.raises(TypeError, match="tensor"):
            tape.trace(3.0)
        y.sum().backward()
        with pytest.raises(RuntimeError, match="cleared"):
            tape.trace(y)
        assert "2" in tape.trace(keep)


def test_paths_reproduce_the_algebra_of_the_document():
    tape, L, (x1, x2, w1, w2, w3) = document_example()
    found = tape.paths(L, w1)
    assert [p.product for p in found] == [-2.0, -6.0]  # -w2 x1 and -w3 x2
    assert [list(p) for p in found] == [[-1.0, 1.0, 2.0, 1.0], [-1.0, 1.0, 3.0, 2.0]]
    assert [p.slots for p in found] == [(11, 10, 7, 3, 1), (11, 10, 9, 5, 1)]
    assert repr(found[0]) == (
        "%11 subtract --(-1)--> %10 add --(1)--> %7 multiply --(2)--> %3 multiply --(1)--> %1 leaf w1 : -2"
    )
    assert len(found[0]) == 4 and found[0][2] == 2.0
    L.backward()
    assert sum(p.product for p in found) == w1.grad.item() == -8.0


def test_paths_between_interior_tensors_and_to_unrelated_ones():
    x, y, stranger = leaf(2.0), leaf(3.0), leaf(1.0)
    with tg.Tape() as tape:
        array = tg.ones(2, requires_grad=True) * 2.0  # does not lie on any path
        a = x * x
        b = a * a
        c = y * stranger
    assert [p.product for p in tape.paths(a, x)] == [2.0, 2.0]
    assert sorted(p.product for p in tape.paths(b, a)) == [4.0, 4.0]
    assert len(tape.paths(b, x)) == 4
    assert tape.paths(a, b) == tape.paths(b, stranger) == tape.paths(c, leaf(0.0)) == []
    assert [p.product for p in tape.paths(a, a)] == [1.0]
    assert array.requires_grad


def test_paths_do_not_get_lost_in_dead_ends():
    x, y = leaf(1.0), leaf(1.0)
    with tg.Tape() as tape:
        a = y
        for _ in range(60):
            a = a * a  # 2 ** 60 paths, all of them to y
        z = a + x
    assert [p.product for p in tape.paths(z, x)] == [1.0]
    with pytest.raises(ValueError, match="more than"):
        tape.paths(z, y)


def test_paths_are_for_scalars():
    x = leaf([1.0, 2.0])
    with tg.Tape() as tape:
        y = (x * x).sum()
    with pytest.raises(ValueError, match="scalar"):
        tape.paths(y, x)


def test_leaves_of():
    x, y, z = leaf(1.0), leaf([1.0, 2.0]), leaf(3.0)
    with tg.Tape() as tape:
        z * 2.0
        a = x * 2.0 + y
        b = a * x
    assert [t is w for t, w in zip(tape.leaves_of(b), (x, y))] == [True, True]
    assert len(tape.leaves_of(b)) == 2
    assert tape.leaves_of(x)[0] is x
    assert tape.leaves_of(tg.tensor(1.0)) == []


def test_instructions_can_be_read():
    tape, L, _ = document_example()
    rows = [(i.slot, i.row.name, i.operands, i.value) for i in tape.instructions]
    assert rows[0] == (3, "multiply", (1, 2), 1.0)
    assert rows[-1] == (11, "subtract", (0, 10), -7.0)
    assert len(rows) == len(tape) == 6


def test_numbers_in_float32_have_their_values():
    x = tg.tensor(np.float32(0.5), requires_grad=True)
    with tg.Tape() as tape:
        y = np.sin(x) * x
    assert [line.split()[-2] for line in str(tape).splitlines()[2:]] == ["0.479426", "0.239713"]
    assert tape.trace(y).splitlines()[-1].split()[-2:] == ["0.239713", "1"]
