"""Loops whose bodies are tapes: one instruction, whatever the number of iterations.

The row `loop` has three operands, a first carry, captured values, and arrays that are gone along (a row for each iteration), and an attribute,
the *program* (`tapegrad.transforms.loops.loop`), which runs it.  The result is one vector: the last carry, the results of all
iterations, and behind these what the way back needs (carries in between).  It has no derivative: the row `loop_results` takes carry and results
out of it and has those, so that there is never an adjoint as long as what is kept.

The row `loop_pull` is the way back: for adjoints of carry and results, those of the operands.  Both are closed under differentiation.
A tangent of the loop is the loop of the body's tangents (``program.tangent``), whose vectors are twice as long, values
first.  And what is linear in the adjoints, ``g @ J``, has the derivative along x' of the way back over the loop of tangents, at its
tangents, for the adjoints (g', g): that gives ``g' @ J + g @ J'``.

Reference: A. Griewank, A. Walther: Evaluating Derivatives (SIAM 2008), chapters 3 and 5.
"""

from ..common.errors import require
from .shapes import side_by_side, taken_apart
from .table import structural

#: Words at the head of what is kept in a result: iterations, stride, generation (`program.iterations`).
HEAD = 3
#: Vectors that bodies read and write: carry, element, captured, next carry, result; adjoints of next carry, result, carry, element, captured.
#: And no vector, but the number of the row of an iteration.
CARRY, ELEMENT, CAPTURED, NEXT, RESULT, NEXT_BAR, RESULT_BAR, CARRY_BAR, ELEMENT_BAR, CAPTURED_BAR, ROW_NUMBER = range(11)
#: Those that have, for each value that an iteration reads or writes, the rows of all iterations in sequence.
IN_ROWS = {ELEMENT, RESULT, RESULT_BAR, ELEMENT_BAR}
#: The rows that run a loop.
DRIVEN = {"loop", "loop_pull"}
#: What has the adjoints of a vector.
BARS = {NEXT: NEXT_BAR, RESULT: RESULT_BAR, CARRY: CARRY_BAR, ELEMENT: ELEMENT_BAR, CAPTURED: CAPTURED_BAR}
#: The place that an iteration writes for the next one to read, and the other way round.
PARTNER = {CARRY: NEXT, NEXT: CARRY, NEXT_BAR: CARRY_BAR, CARRY_BAR: NEXT_BAR}


def _beside(one, other):
    """Two arrays (None: zeros) one behind the other, as a vector."""
    like = one if one is not None else other
    parts = [None if part is None else part.reshape((like.size,)) for part in (one, other)]
    return side_by_side(like, (2 * like.size,), parts, (like.size,) * 2, 0)


def _twice(program, operands, tangents):
    """Operands of the loop of tangents."""
    carry, captured, xs = map(_beside, operands, tangents)
    return carry, captured, xs.reshape((program.rows, 2 * program.element))


def _half(x, which):
    """Of a vector the first half, values (0), or the second one, tangents (1)."""
    return x.narrow(0, which * x.size // 2, (which + 1) * x.size // 2)


def _split(x, program, of_operands):
    """A vector as its parts: carry and results, or carry, captured values and elements."""
    counts = (program.carry, program.captured, program.rows * program.element) if of_operands else (program.carry, program.rows * program.result)
    return taken_apart(x, counts, 0)


def _run(program, name, *operands):
    return operands[0]._call(name, operands, (("program", program),))


def _looped(program, *operands):
    """The last carry and the results of a loop, and what it keeps for the way back."""
    z = _run(program, "loop", *operands)
    return _run(program, "loop_results", *operands, z), z


def _by_lane(rule):
    """A JVP that is called once for each lane of its tangents, or a VJP, for each of its seed."""

    def of_one(seeds, *operands, program):
        several = isinstance(seeds, (list, tuple))
        lanes = next((s.lanes for s in (seeds if several else [seeds]) if s is not None and s.lanes is not None), None)
        if lanes is None:
            return rule(seeds, *operands, program=program)
        of = [[None if s is None else s.of_lane(k) for s in seeds] if several else seeds.of_lane(k) for k in range(lanes)]
        each = [rule(one, *operands, program=program) for one in of]
        return each[0].in_lanes(each) if several else tuple(parts[0].in_lanes(parts) for parts in zip(*each))

    return of_one


@_by_lane
def _results_vjp(g, carry, captured, xs, z, result, program):
    parts = _split(_run(program, "loop_pull", g, carry, captured, xs, z), program, True)
    return parts[0], parts[1], parts[2].reshape((program.rows, program.element))


@_by_lane
def _results_jvp(tangents, carry, captured, xs, z, result, program):
    twice = program.tangent
    return _tangent_half(_looped(twice, *_twice(program, (carry, captured, xs), tangents))[0], twice)


def _tangent_half(outputs, twice):
    """Of what the loop of tangents gives, the tangents of carry and results."""
    return _joined([_half(x, 1) for x in _split(outputs, twice, False)])


def _pull_seeds(program, g, tangent):
    """Adjoints for the loop of tangents: (`tangent`, `g`), either may be None."""
    split = [_split(x, program, False) if x is not None else (None, None) for x in (tangent, g)]
    return _joined(list(map(_beside, *split)))


def _joined(parts):
    sizes = [part.size for part in parts]
    return side_by_side(parts[0], (sum(sizes),), parts, sizes, 0)


def _values_half(program, pulled):
    """Of adjoints of the operands of the loop of tangents those of the values."""
    return [_half(x, 0) for x in _split(pulled, program.tangent, True)]


@_by_lane
def _pull_vjp(g, seeds, carry, captured, xs, z, result, program):
    twice = program.tangent
    along = _split(g, program, True)
    operands = _twice(program, (carry, captured, xs), (along[0], along[1], along[2].reshape((program.rows, program.element))))
    outputs, kept = _looped(twice, *operands)
    parts = _values_half(program, _run(twice, "loop_pull", _pull_seeds(program, seeds, None), *operands, kept))
    return _tangent_half(outputs, twice), parts[0], parts[1], parts[2].reshape((program.rows, program.element))


@_by_lane
def _pull_jvp(tangents, seeds, carry, captured, xs, z, result, program):
    twice, (t_seeds, *along) = program.tangent, tangents
    if all(t is None for t in along):
        # As the VJP, this reads nothing of what was kept.
        z = _run(program, "loop", carry, captured, xs)
        return None if t_seeds is None else _run(program, "loop_pull", t_seeds, carry, captured, xs, z)
    operands = _twice(program, (carry, captured, xs), along)
    kept = _run(twice, "loop", *operands)
    return _joined(_values_half(program, _run(twice, "loop_pull", _pull_seeds(program, seeds, t_seeds), *operands, kept)))


def _loop_shape(carry, captured, xs, program):
    wanted = (program.carry,), (program.captured,), (program.rows, program.element)
    require((carry.shape, captured.shape, xs.shape) == wanted, "the operands of a loop do not fit its body")
    return (program.size,), "d"


def _results_shape(carry, captured, xs, z, program):
    _loop_shape(carry, captured, xs, program)
    require(z.shape == (program.size,), "what a loop has kept does not fit it")
    return (program.outputs,), "d"


def _pull_shape(seeds, carry, captured, xs, z, program):
    _loop_shape(carry, captured, xs, program)
    require(seeds.shape == (program.outputs,) and z.shape == (program.size,), "adjoints do not fit the loop")
    return (program.carry + program.captured + program.rows * program.element,), "d"


structural(
    "loop", 3, lambda carry, captured, xs, program: program.run(carry, captured, xs), lambda *_, program: (), constants=(0, 1, 2),
    node="Loop", doc="the iterations of a loop whose body is a tape: last carry, results of all iterations, and what is kept of them",
    shape=_loop_shape,
)
structural(
    "loop_results", 4, lambda carry, captured, xs, z, program: z[: program.outputs].astype("d"), _results_vjp, jvp=_results_jvp, constants=(3,),
    forward=lambda carry, captured, xs, z, program: z.narrow(0, 0, program.outputs), node="LoopResults",
    doc="last carry and results of all iterations, out of what `loop` gives", shape=_results_shape,
)
structural(
    "loop_pull", 4, lambda seeds, carry, captured, xs, z, program: program.pull(seeds, carry, captured, xs, z), _pull_vjp, jvp=_pull_jvp,
    constants=(4,), node="LoopPull", doc="the adjoints of the operands of a loop, from those of its results", shape=_pull_shape,
)
