"""Changes to loop programs that make them faster and leave what they compute.

In the order in which `run_passes` runs them:

    simplifying   each value once, stores forwarded to loads, invariants out of loops; `prune`: only what outputs and guards need
    renaming      what is copied to an output is stored there; `contract`, last: a temporary of which every iteration uses a part
                  of its own is as large as that
    fusing        neighbouring loops of equal extent become one
    recomputing   a stored value that is cheap is computed again where it is used
    peel          in `fusing`: loops that differ by an iteration, in extent or in what they touch, become one but for that; `unroll`: short
                  loops over elements named by constants become straight statements

and, called by `kernel.TapeKernel`, which knows what the outputs are,

    halving       of a matrix that is known to be symmetric, half; `order`: in a small program, gradients before values

Each opens with a program before and after it, in the notation of `kernel.listing`, and each is there for a row of `benchmarks`
that takes longer without it:

    simplify, prune, fuse          most kernels: Rosenbrock from arrays 9 times as long, bundle adjustment twice
    rename                         Rosenbrock from arrays 2.7 times, the dense Hessian of a logistic regression 1.35 times
    recompute                      gradient descent inside compiled code 1.2 times, a Hessian times a vector 1.3 times
    peel                           Rosenbrock from arrays 1.5 times, with a penalty of all elements 2.8 times
    unroll                         Rosenbrock with Hessian at 10^5 points 1.13 times
    halve                          the dense Hessian of a logistic regression 1.3 times
    order                          gradient descent inside compiled code 1.2 times

What they share: `statements`, which elements one touches, and changes to them.  Read `kernel.ir` first.
"""

from .. import ir
from .fusing import ROUNDS, fuse, peel, unroll
from .recomputing import recompute
from .renaming import contract, rename
from .simplifying import prune, simplify


def run_passes(program):
    """Improve `program` in place, and return it."""
    _tidy(program)
    rename(program)
    loops = _loops(program)
    fuse(program)
    # In long straight code tidying is most of the work.
    if _loops(program) < loops:
        _tidy(program)
    new = recompute(program)
    if new:
        _tidy(program, new)
    for _ in range(ROUNDS):
        if not peel(program):
            break
        _tidy(program)
    new = unroll(program)
    if new:
        _tidy(program, new)
    return contract(program)


def _tidy(program, new=None):
    simplify(program, new)
    prune(program)


def _loops(program):
    return sum(isinstance(statement, ir.Loop) for statement in ir.walk(program.body))
