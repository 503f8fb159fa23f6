"""Loops whose bodies are tapes: one instruction, whatever the number of turns.

The row `loop` has three operands, a first carry, captured values, and arrays that are gone along (a row for each turn), and an attribute,
the *program* (`tapegrad.transforms.loops.loop`), which runs it.  The result is one vector: the last carry, the results of all
turns, and behind these what the way back needs (carries in between), of which no derivative is asked for.

The row `loop_pull` is the way back: for adjoints of carry and results, those of the operands.  Both are closed under differentiation.
A tangent of the loop is the loop of the body's tangents (``program.tangent``), whose vectors are twice as long, values
first.  And what is linear in the adjoints, ``g @ J``, has the derivative along x' of the way back over the loop of tangents, at its
tangents, for the adjoints (g', g): that gives ``g' @ J + g @ J'``.

Reference: A. Griewank, A. Walther: Evaluating Derivatives (SIAM 2008), chapters 3 and 5.
"""

from __future__ import annotations

from ..common.errors import require
from .table import structural
from .tangents import side_by_side

#: Words at the head of what is kept in a result: turns, stride, generation (`program.turns`).
HEAD = 3
#: Vectors that bodies read and write: carry, element, captured, next carry, result; adjoints of next carry, result, carry, element, captured.
#: And no vector, but the number of the row of a turn.
CARRY, ELEMENT, CAPTURED, NEXT, RESULT, NEXT_BAR, RESULT_BAR, CARRY_BAR, ELEMENT_BAR, CAPTURED_BAR, ROW_NUMBER = range(11)
#: Those that have, for each thing that a turn reads or writes, the rows of all turns one behind the other.
IN_ROWS = {ELEMENT, RESULT, RESULT_BAR, ELEMENT_BAR}
#: What a turn writes where the turn after it reads, and the other way round.
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
    parts, before = [], 0
    for count in counts:
        parts.append(x.narrow(0, before, before + count))
        before += count
    return parts


def _run(program, name, *operands):
    return operands[0]._call(name, operands, (("program", program),))


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
def _loop_vjp(g, carry, captured, xs, z, program):
    outputs = program.carry + program.rows * program.result
    pulled = _run(program, "loop_pull", g.narrow(0, 0, outputs), carry, captured, xs, z)
    parts = _split(pulled, program, True)
    return parts[0], parts[1], parts[2].reshape((program.rows, program.element))


@_by_lane
def _loop_jvp(tangents, carry, captured, xs, z, program):
    twice = program.tangent
    both = _split(_run(twice, "loop", *_twice(program, (carry, captured, xs), tangents)), twice, False)
    parts = [_half(x, 1) for x in both]
    return side_by_side(both[0], (program.size,), parts, [part.size for part in parts], 0)


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
    both = _run(twice, "loop", *operands)
    outputs = _split(both, twice, False)
    of_seeds = _joined([_half(x, 1) for x in outputs])
    parts = _values_half(program, _run(twice, "loop_pull", _pull_seeds(program, seeds, None), *operands, both))
    return of_seeds, parts[0], parts[1], parts[2].reshape((program.rows, program.element))


@_by_lane
def _pull_jvp(tangents, seeds, carry, captured, xs, z, result, program):
    twice, (t_seeds, *along) = program.tangent, tangents
    if all(t is None for t in along):
        # As the VJP, this reads nothing of what was kept.
        z = _run(program, "loop", carry, captured, xs)
        return None if t_seeds is None else _run(program, "loop_pull", t_seeds, carry, captured, xs, z)
    operands = _twice(program, (carry, captured, xs), along)
    both = _run(twice, "loop", *operands)
    return _joined(_values_half(program, _run(twice, "loop_pull", _pull_seeds(program, seeds, t_seeds), *operands, both)))


def _loop_shape(carry, captured, xs, program):
    wanted = (program.carry,), (program.captured,), (program.rows, program.element)
    require((carry.shape, captured.shape, xs.shape) == wanted, "the operands of a loop do not fit its body")
    return (program.size,), "d"


def _pull_shape(seeds, carry, captured, xs, z, program):
    _loop_shape(carry, captured, xs, program)
    require(seeds.shape == (program.carry + program.rows * program.result,) and z.shape == (program.size,), "adjoints do not fit the loop")
    return (program.carry + program.captured + program.rows * program.element,), "d"


structural(
    "loop", 3, lambda carry, captured, xs, program: program.run(carry, captured, xs), _loop_vjp, jvp=_loop_jvp, node="Loop",
    doc="the turns of a loop whose body is a tape: last carry, results of all turns", shape=_loop_shape, effect="dense",
)
structural(
    "loop_pull", 4, lambda seeds, carry, captured, xs, z, program: program.pull(seeds, carry, captured, xs, z), _pull_vjp, jvp=_pull_jvp,
    constants=(4,), node="LoopPull", doc="the adjoints of the operands of a loop, from those of its results", shape=_pull_shape, effect="dense",
)
