"""Three hundred random programs, and the file of what their values and gradients were when it was made.

    python -m tests.frozen.programs

writes the file anew, from plain define-by-run: only for programs that are new in it, never to make a test pass.

A program is a function of arrays that returns a number. Its seed is in the file, for seeds whose gradient depends much on rounding
are left out: what is frozen has to hold to a relative 1e-12 in whatever order sums are made.
"""

from functools import cache
from pathlib import Path

import numpy as np

import tapegrad as tg
from tapegrad.common.errors import ModifiedInPlaceError
from tests.array.test_views_at_random import run
from tests.kernel.nests import ArrayNest, Nest, program

FILE = Path(__file__).with_name("programs.npz")
COUNTS = {"nest": 110, "arrays": 70, "views": 120}
#: What a rounding of the arguments may be amplified to, for a program to be in the file.
STEADY = 100.0


def _nest(seed, kind):
    function, _ = program(seed, kind)
    return lambda x: sum(function(x)), (np.random.default_rng(seed).uniform(0.3, 0.9, Nest.SIZE),)


def _views(seed):
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=[(4,), (3, 3), (2, 3), (2, 3, 2)][seed % 4]), rng.normal(size=3)

    def function(x, y):
        weights = np.random.default_rng(seed)
        # The sine is for gradients that depend on the point.
        return sum((weights.normal(size=np.shape(held)) * np.sin(held)).sum() for held in run(seed, x, y))

    return function, (x, y)


def made(kind, seed):
    """A function and the arguments that it was frozen at."""
    return _views(seed) if kind == "views" else _nest(seed, {"nest": Nest, "arrays": ArrayNest}[kind])


def flat(value, gradients):
    """Value and gradients as one vector."""
    return np.concatenate([np.ravel(np.asarray(a, float)) for a in (value, *gradients)])


def by_tape(function, args):
    """Value and gradients by define-by-run."""
    leaves = [tg.tensor(a, requires_grad=True) for a in args]
    value = function(*leaves)
    value.backward()
    return flat(value.item(), [np.zeros(leaf.shape) if leaf.grad is None else leaf.grad.numpy() for leaf in leaves])


def by_replay(function, args, kernel):
    """Value and gradients by a replay of what was recorded at another point; by sweep with ``kernel="never"``."""
    g = tg.value_and_grad(tg.jit(function, kernel=kernel), argnums=tuple(range(len(args))))
    g(*[a + 0.01 for a in args])
    answer = flat(*g(*args))
    return answer, g.stats()


def difference(one, other):
    """The largest difference, by the largest entry."""
    return np.max(np.abs(one - other)) / max(np.max(np.abs(other)), 1e-300)


@cache
def frozen():
    """``(kind, seed) -> value and gradients``, from the file."""
    with np.load(FILE) as file:
        parts = np.split(file["numbers"], np.cumsum(file["sizes"])[:-1])
        return {(str(kind), int(seed)): part for kind, seed, part in zip(file["kinds"], file["seeds"], parts)}


def _steady(function, args, numbers):
    moved = by_tape(function, [a * (1.0 + 1e-10 * np.cos(np.arange(a.size).reshape(a.shape))) for a in args])
    return np.isfinite(numbers).all() and difference(moved, numbers) < STEADY * 1e-10


def write():
    """Make the file."""
    kinds, seeds, numbers = [], [], []
    for kind, count in COUNTS.items():
        seed = 0
        while kinds.count(kind) < count:
            try:
                function, args = made(kind, seed)
                vector = by_tape(function, args)
                if _steady(function, args, vector):
                    kinds.append(kind)
                    seeds.append(seed)
                    numbers.append(vector)
            except (ValueError, ModifiedInPlaceError):
                # A diagonal cannot be written to in NumPy, nor every reshaped view in tapegrad.
                pass
            seed += 1
    np.savez_compressed(FILE, kinds=kinds, seeds=seeds, sizes=[len(n) for n in numbers], numbers=np.concatenate(numbers))


if __name__ == "__main__":
    write()
