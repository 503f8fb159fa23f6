"""Replays compared with plain runs: the answer may not depend on which of the two gave it."""

import warnings

import numpy as np

import tapegrad as tg
from tapegrad.transforms.functional import value_and_grad


def leaf(value):
    """A leaf that requires a gradient."""
    value = value if isinstance(value, float) else np.array(value)
    return tg.tensor(value, requires_grad=True) if isinstance(value, float) else tg.from_numpy(value).requires_grad_(True)


def define_by_run(function, args):
    """Value and gradients of `function` at `args`, by running it on tensors."""
    with tg.Tape():
        leaves = [leaf(a) for a in args]
        result = function(*leaves)
        if isinstance(result, tg.Tensor) and result.requires_grad:
            result.backward()
    value = result.detach().numpy().item() if isinstance(result, tg.Tensor) else float(result)
    return value, [np.zeros(np.shape(a)) if t.grad is None else t.grad.numpy() for a, t in zip(args, leaves)]


class Log(list):
    """A list that grows as a function runs; of its class, a recorded function is looked at as one object, not at the items."""


class _Count:
    """Calls that are counted; an object of which a recorded function is looked at as one, not at what is in it."""

    calls, on = 0, False


class Pair:
    """A function under `jit`, and run on tensors, side by side.

    Attributes
    ----------
    calls : int
        Runs of the function by the replayed side.
    replayed : callable
    """

    def __init__(self, function, count=1, kernel=None):
        self.function, self._count = function, _Count()
        counter = self._count

        def counted(*args):
            counter.calls += counter.on
            return function(*args)

        self.replayed = tg.jit(value_and_grad(counted, tuple(range(count))), kernel=kernel)

    @property
    def calls(self):
        return self._count.calls

    @property
    def stats(self):
        return self.replayed.stats()

    def check(self, *args, rtol=1e-11, atol=1e-12):
        """Both answers at `args`; they must agree.  Returns (value, gradients)."""
        self._count.on = True
        value, gradients = self.replayed(*args)
        self._count.on = False
        expected, wanted = define_by_run(self.function, args)
        np.testing.assert_allclose(value, expected, rtol=rtol, atol=atol)
        for g, w in zip(gradients, wanted):
            np.testing.assert_allclose(g, w, rtol=rtol * 10, atol=atol * 10)
        return value, gradients


def replays_only(pair):
    """The function was neither given up nor run plainly."""
    return pair.stats.fallback == "" and pair.stats.runs == 0


class quiet(warnings.catch_warnings):
    """Warnings collected in a list, every one of them."""

    def __init__(self):
        super().__init__(record=True)

    def __enter__(self):
        found = super().__enter__()
        warnings.simplefilter("always")
        return found
