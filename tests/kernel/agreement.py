"""Tapes made from tapes, compared with the sweeps."""

import numpy as np

from tapegrad.kernel import reasons
from tapegrad.kernel.adjoint import adjoint
from tapegrad.program.workspace import Workspace
from tapegrad.transforms.functional import value_and_grad


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
    return values, [np.array(g) for g in workspace.gradients]


def close_in_ulps(found, wanted, ulps=4):
    """Whether two lists of arrays differ by at most `ulps` of the largest entry of all."""
    assert [f.shape for f in found] == [w.shape for w in wanted] and [f.dtype for f in found] == [w.dtype for w in wanted]
    largest = max((np.max(np.abs(w)) for w in wanted if w.size), default=0.0)
    for f, w in zip(found, wanted):
        difference, unit = np.max(np.abs(f - w), initial=0.0), np.spacing(np.asarray(largest, w.dtype))
        assert difference <= ulps * unit, f"{difference / unit} ulp: {f} is not {w}"


def check(function, *args, at=(), ulps=4):
    """Gradients by the adjoint tape and by the sweep, at the recorded point and at others; returns the adjoint tape."""
    tape = tape_of(function, *args)
    derived = adjoint(tape)
    for point in (args, *at):
        values, gradients = swept(tape, *point)
        found = replayed(derived, *point)
        assert np.array_equal(found[: len(values)], values, equal_nan=True)
        assert len(found) == len(values) + len(gradients)
        close_in_ulps([np.asarray(f) for f in found[len(values) :]], gradients, ulps)
    return derived


def kernels_cost(monkeypatch, calls):
    """Let every kernel cost as much as so many calls (or directions)."""
    for name, steps in (("sweep", 1), ("derivation", 0), ("compilation", calls)):
        monkeypatch.setattr(reasons, name, lambda *args, steps=steps: steps)
    monkeypatch.setattr(reasons, "KERNEL", 1)
