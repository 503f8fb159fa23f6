"""Rolling: the loops of a program that was written down instruction by instruction.

A Python loop leaves the same run of instructions on the tape again and again.
`find` looks for such runs in the opcodes alone, so that what it finds is right
whatever the operands are; those come later and decide only how fast the loops
will be.

It works like a compressor.  The instructions are a text of tokens.  In it,
stretches are sought that repeat a period several times at once
(`runs`), and each is replaced by one token (`folding`) whose identity is the
period and *not* how often it is repeated.  Loops around such loops then are runs
of the shorter text, also if the inner ones have unequal numbers of iterations,
and are found the same way, until nothing repeats any more.

What is worth folding is decided in stages (`STAGES`): what repeats often and
saves much comes first, so that three equal instructions in a row do not become a
loop inside what should have been a long straight body.  The last stage, and the
search for loops inside the bodies of those found, is for programs and bodies
that would otherwise stay longer than `LINES`.

Rounds on the text of ``for i: a; for j: b c`` with 3, 4 and 3 inner iterations::

    a b c b c b c a b c b c b c b c a b c b c b c       three runs of the period "b c"
    a X           a X               a X                 folded: X is the loop over "b c"; how often it runs is noted beside
    Y                                                   folded again: Y is the loop over "a X"

Reading order: `find` here, then `search` (`Search.fold` is one round), `runs` (where a text repeats itself),
`folding` (classes of runs, their phases, the new text).
"""

import numpy as np

from .search import LINES, Line, Repeat, RolledStructure, Search

__all__ = ["Line", "Repeat", "RolledStructure", "find"]


def find(code, operands=None, lines=LINES):
    """Find the loops of a sequence of instructions.

    Parameters
    ----------
    code : array_like of int, shape (n,)
        What each instruction does; equal numbers can be one instruction of a loop.
    operands : array_like of int, shape (n, 2), optional
        Positions of the instructions whose results each one reads; negative: none.  They decide where a
        loop's iteration begins: where the fewest values cross to the next one.
    lines : int
        A program or loop body of this many instructions may stay straight where little would be saved.

    Returns
    -------
    RolledStructure
        Its `nodes` are the rolled program, `str` of it shows it.

    Raises
    ------
    ValueError
        If `code` has a negative number or `operands` another length.

    Examples
    --------
    >>> print(find([9] + [1, 2, 3] * 100))
    0
    repeat 100:
        1, 4, 7, ..., 298
        2, 5, 8, ..., 299
        3, 6, 9, ..., 300
    """
    code = np.ascontiguousarray(code, np.int64)
    if operands is None:
        operands = np.empty((0, 2), np.int32)
    operands = np.ascontiguousarray(operands, np.int32)
    if code.size and code.min() < 0:
        raise ValueError("find(): code has negative numbers; opcodes count from 0.")
    if len(operands) not in (0, code.size):
        raise ValueError(f"find(): {code.size} instructions, but operands for {len(operands)}.")
    return Search(code, operands, lines).structure()
