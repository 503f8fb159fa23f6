"""What kernels cost, counted in steps, from what is known of a tape before anything is compiled.

A step is about 10 ns: the time in which a sweep makes one scalar instruction and its derivative
(7 to 20 ns), or five elements of an array (an element takes 0.5 ns in near memory, 2 ns in far, 3 ns if it is a sine).
Nothing here looks at a clock.  The constants are those of fitted lines
(processor time of one core, seconds of tapes from 16 to 200 000 instructions):

=============  ==========  ==================================================================
constant       steps       of
=============  ==========  ==================================================================
`DERIVE`       130         differentiating and rolling a scalar instruction (1.3 us)
`DERIVE_ARRAY` 4 000       the same of an instruction on arrays (40 us)
`KERNEL`       800 000     a kernel of nothing (8 ms)
`LINE`         17 500      an instruction of the rolled program (0.18 ms)
`LOOP`         100 000     a loop of the rolled program (1 ms)
`ARRAY`        50 000      an instruction on arrays that goes element by element (0.5 ms), another one (2 ms), a product of
               to 1.4 M    matrices (14 ms), of those that are not turns of a loop
=============  ==========  ==================================================================

So code that rolls costs what its loops and their bodies do, and code that does not is
paid for instruction by instruction: a rolled program of 15 lines in 2 loops takes 1 262 500 steps, 13 ms.
"""

from __future__ import annotations

#: Steps in a second.
STEPS_A_SECOND = 100_000_000
DERIVE, DERIVE_ARRAY = 130, 4000
KERNEL, LINE, LOOP = 800_000, 17_500, 100_000
ARRAY = {"elementwise": 50_000, "product": 1_400_000, "": 200_000}


class TooDear(Exception):
    """A kernel is predicted to cost `steps`, more than was allowed."""

    def __init__(self, steps):
        super().__init__(f"the kernel would cost {steps} steps")
        self.steps = steps


def derivation(tape):
    """Steps until the size of the kernel is known."""
    return DERIVE * len(tape) + DERIVE_ARRAY * len(tape.items)


def compilation(columns, structure):
    """Steps of a kernel of the rolled program."""
    steps = KERNEL
    stack = list(structure.nodes)
    while stack:
        node = stack.pop()
        body = getattr(node, "body", None)
        if body is None:
            item = columns.item[node.members[0]]
            function = columns.tape.items[item].entry.function if item >= 0 else None
            steps += LINE if item < 0 else ARRAY.get(getattr(function, "effect", ""), ARRAY[""])
        else:
            steps += LOOP
            stack += body
    return steps
