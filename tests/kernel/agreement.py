"""Tapes made from tapes, compared with the sweeps."""

import numpy as np

from tapegrad.functional import value_and_grad
from tapegrad.kernel.adjoint import adjoint
from tapegrad.replay.workspace import Workspace


def tape_of(function, *args):
    """The finished tape of a function whose result is a scalar."""
    return value_and_grad(function, tuple(range(len(args)))).tape(*args)


def arguments(args):
    """Arguments as a workspace takes them."""
    return [np.array(a, order="C") for a in args]


def replayed(tape, *args):
    """All outputs of a replay without a sweep."""
    workspace = Workspace(tape)
    assert workspace.run(arguments(args), False) == -1
    return [workspace.output(k) for k in range(len(tape.outputs))]


def swept(tape, *args):
    """Outputs and gradients by the sweep."""
    workspace = Workspace(tape)
    assert workspace.run(arguments(args), True) == -1
    values = [workspace.output(k) for k in range(len(tape.outputs))]
    return values, [np.array(g) for g in workspace.gradients if g is not None]


def close_in_ulps(found, wanted, ulps=4):
    """Whether two arrays differ by at most `ulps` of the largest entry."""
    found, wanted = np.asarray(found), np.asarray(wanted)
    assert found.shape == wanted.shape and found.dtype == wanted.dtype, (found.shape, wanted.shape, found.dtype, wanted.dtype)
    if not wanted.size:
        return
    unit = np.spacing(np.max(np.abs(wanted)))
    difference = np.max(np.abs(found - wanted))
    assert difference <= ulps * unit, f"{difference / unit} ulp: {found} is not {wanted}"


def check(function, *args, at=(), ulps=4):
    """Gradients by the adjoint tape and by the sweep, at the recorded point and at others; returns the adjoint tape."""
    tape = tape_of(function, *args)
    derived = adjoint(tape)
    for point in (args, *at):
        values, gradients = swept(tape, *point)
        found = replayed(derived, *point)
        assert np.array_equal(found[: len(values)], values, equal_nan=True)
        assert len(found) == len(values) + len(gradients)
        for f, g in zip(found[len(values) :], gradients):
            close_in_ulps(f, g, ulps)
    return derived
