"""Why a tape has no kernel: an instruction that cannot be lowered, or what the kernel would cost, beside what it saves.

Both are predicted, in steps, from what is known of a tape before anything is compiled.

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
               to 1.4 M    matrices (14 ms), of those that are not iterations of a loop
`CALL`         50          a call: a sweep takes 0.5 us more than a kernel
`ITEM`         15          an instruction on arrays that is swept; and a step for four elements of its result
=============  ==========  ==================================================================

So code that rolls costs what its loops and their bodies do, and code that does not is
paid for instruction by instruction: a rolled program of 15 lines in 2 loops takes 1 262 500 steps, 13 ms.
"""

import math
import os
import traceback
from contextlib import contextmanager

from ..common import config
from ..common.uninterrupted import from_handler


class NotLowered(Exception):
    """A tape, or its derivative, cannot be lowered to machine code; the sweeps answer instead.

    Parameters
    ----------
    what : str
        The instruction and what it lacks.
    place : Place or None
        Where it was recorded.
    """

    def __init__(self, what, place=None):
        self.what, self.place = what, place
        super().__init__(what if place is None else f"{what}, recorded at {place}")


@contextmanager
def faults_are_reasons():
    """Inside, whatever fails of tapegrad itself is a reason not to have a kernel, not an error of who called a function.

    `NotLowered` then says what failed, and where.  With ``config.strict``, as in tapegrad's own tests, it is raised as it is.
    What is no fault, Ctrl-C, what the handler of a signal raises, or memory that has run out, is always raised.
    """
    try:
        yield
    except (NotLowered, TooDear, MemoryError):
        raise
    except Exception as fault:
        if config.strict or from_handler(fault):
            raise
        where = traceback.extract_tb(fault.__traceback__)[-1]
        source = f"{os.path.basename(os.path.dirname(where.filename))}/{os.path.basename(where.filename)}:{where.lineno}"
        what = f"{type(fault).__name__} ({fault})" if str(fault) else type(fault).__name__
        raise NotLowered(f"making its kernel failed inside of tapegrad, with {what} in {source}; please report this") from fault


#: Steps in a second.
STEPS_A_SECOND = 100_000_000
DERIVE, DERIVE_ARRAY = 130, 4000
KERNEL, LINE, LOOP = 800_000, 17_500, 100_000
ARRAY = {"elementwise": 50_000, "product": 1_400_000, "": 200_000}
CALL, ITEM, ELEMENTS = 50, 15, 4


class TooDear(Exception):
    """A kernel is predicted to cost `steps`, more than was allowed."""

    def __init__(self, steps):
        super().__init__(f"the kernel would cost {steps} steps")
        self.steps = steps


def saving(tape):
    """Steps that a call by kernel takes less than a sweep: the sweep's own, but for what both do."""
    sizes = [math.prod(item.entry.meta.shape) for item in tape.items if item.entry.meta is not None and item.entry.meta.shape]
    return CALL + len(tape.records) + ITEM * len(sizes) + sum(sizes) // ELEMENTS


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
