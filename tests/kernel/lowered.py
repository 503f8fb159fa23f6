"""Loop programs of functions, interpreted and compiled, compared with replays of the same tape."""

import numpy as np

from tapegrad.kernel import ir
from tapegrad.kernel.adjoint import adjoint
from tapegrad.kernel.kernel import Kernel, lower
from tapegrad.program.workspace import Workspace
from tapegrad.transforms.replay.function import Replayed
from tests.kernel.compare import call, waste
from tests.kernel.interpret import interpret


def tape_of(function, *args):
    """The finished tape of `function`, recorded at `args`."""
    return Replayed(function, tuple(range(len(args))), scalar=False).tape(args, {})


def replayed(tape, args):
    """Outcome and outputs of a replay by sweep."""
    workspace = Workspace(tape)
    outcome = workspace.run([np.array(a, m.char, order="C") for a, m in zip(args, tape.inputs)], False)
    return outcome, [workspace.output(k) for k in range(len(tape.outputs))]


def inputs_of(program, args):
    """The arguments as a kernel takes them."""
    return [np.array(a, np.dtype(b.char)).reshape(-1) for a, b in zip(args, program.inputs)]


def interpreted(program, args):
    """Outcome and outputs of the slow reference of `program`."""
    outputs = waste(program)
    return interpret(program, inputs_of(program, args), outputs), outputs


def agree(function, *points, rtol=1e-13, atol=1e-14):
    """Record `function` at the first of `points` (tuples of arguments); its loop program must give, at
    every point, what a replay gives.  Returns the program."""
    tape = tape_of(function, *points[0])
    program = lower(tape)
    agrees(program, tape, *points, rtol=rtol, atol=atol)
    return program


def agrees(program, tape, *points, rtol=1e-13, atol=1e-14):
    """Whether `program` gives what a replay of `tape` gives."""
    machine = Kernel(program)
    for args in points:
        expected, results = replayed(tape, args)
        found, outputs = interpreted(program, args)
        assert found == expected, (found, expected)
        compiled = waste(program)
        assert call(machine, inputs_of(program, args), compiled) == expected
        if found < 0:
            for one, two, three in zip(outputs, compiled, results):
                np.testing.assert_allclose(one, np.asarray(three).reshape(-1), rtol=rtol, atol=atol)
                np.testing.assert_allclose(two, np.asarray(three).reshape(-1), rtol=rtol, atol=atol)


def loops(program):
    """Extents of the loops in order; lists are nested as the loops are, a ragged loop is a tuple."""

    def of(body):
        found = []
        for statement in body:
            if isinstance(statement, ir.Loop):
                inner = of(statement.body)
                extent = tuple(statement.extent.tolist()) if statement.ragged else statement.extent
                found.append([extent, *inner] if inner else extent)
        return found

    return of(program.body)


def agree_with_adjoint(function, *points, rtol=1e-11, atol=1e-12):
    """`agree` for `function`, and for its values and gradients as one tape; returns both programs."""
    tape = tape_of(function, *points[0])
    programs = []
    for each in (tape, adjoint(tape)):
        programs.append(lower(each))
        agrees(programs[-1], each, *points, rtol=rtol, atol=atol)
    return programs


def temporaries(program):
    """Elements of all temporaries."""
    buffers = {}
    for statement in ir.walk(program.body):
        for buffer in [b for _, b, _ in statement.operands] if isinstance(statement, ir.Run) else [getattr(statement, "buffer", None)]:
            if buffer is not None and buffer.role == ir.TEMPORARY:
                buffers[id(buffer)] = buffer.size
    return sum(buffers.values())
