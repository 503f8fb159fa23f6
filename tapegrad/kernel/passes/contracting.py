"""A large temporary of which every iteration of a loop uses a part of its own is as large as that part.

::

    t0: float64[1000000]                             t0: float64[50]

    for i in range(20000):                           for i in range(20000):
        for j in range(50):                              for j in range(50):
            a0 = ...                                         a0 = ...
            t0[50*i + j] = a0                                t0[j] = a0
        for j in range(50):                              for j in range(50):
            a1 = t0[50*i - j + 49]                           a1 = t0[-j + 49]

So it stays in the cache.  A loop that is spread over threads has one for each chunk (`kernel.spreading`), for which it is small enough.
"""

from __future__ import annotations

from .. import ir
from .accesses import apart, span

#: Bytes from which on a temporary is large, and how many parts are still less than the whole: twice the chunks of a loop.
_LARGE, _PARTS = 1 << 16, 256


def contract(program):
    """Let temporaries be smaller, in place."""
    uses = {}
    for top in program.body:
        for statement in ir.walk([top]):
            for buffer, index, _ in ir.touched(statement):
                if buffer.role == ir.TEMPORARY and buffer.nbytes > _LARGE:
                    uses.setdefault(buffer, []).append((top, statement, index))
    for buffer, places in uses.items():
        loop, indices = places[0][0], [index for _, _, index in places]
        if not isinstance(loop, ir.Loop) or loop.ragged or any(top is not loop for top, _, _ in places) or not apart(indices, loop):
            continue
        spans = [span(index, (loop,)) for index in indices]
        low, high = min(s[0] for s in spans), max(s[1] for s in spans)
        if (high - low + 1) * min(loop.extent, _PARTS) < buffer.size:
            buffer.size, buffer.within = high - low + 1, loop
            for _, statement, index in places:
                statement.index = ir.Index(index.base - low, tuple(step for step in index.steps if step[0] is not loop))
    return program
