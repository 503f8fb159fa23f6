"""What sets, dicts and Counters do with tensors: by value where nothing can be lost, else a leaf by identity, and a TypeError for the rest."""

import collections
import functools

import numpy as np
import pytest

import tapegrad as tg

POINTS = [np.array([1.0, 2.0, -1.0]), np.array([0.5, -2.0, 1.0]), np.array([1.0, -1.0, 3.0])]
#: Looked up are comparisons, integers, and what has left the tape.
BY_VALUE = {
    "a set of comparisons": lambda x: len({v > 0 for v in x}) * x[0],
    "a Counter": lambda x: collections.Counter(v > 0 for v in x)[True] * x[0],
    "a table": lambda x: {True: x[1], False: x[2] * 2}[x[0] > 0.7],
    "pairs": lambda x: {(True, False): x[1]}.get((x[0] > 0.7, x[1] > 3), x[2]),
    "fromkeys": lambda x: len(dict.fromkeys(x > 0)) * x[0],
    "an integer": lambda x: {1: x[1]}.get(np.floor(x[0]).astype(int), x[2] * 3),
    "a position": lambda x: {0: x[0], 1: x[1] * 2, 2: x[2]}[np.argmax(x)],
    "a count": lambda x: {0: 1.0, 1: 2.0, 2: 3.0}[(x > 0).sum()] * x[1],
    "detached": lambda x: {1.0: 2.0}.get(x[0].detach() if hasattr(x, "detach") else x[0], 3.0) * x[1],
    "item": lambda x: {1.0: 2.0}.get(x[0].item(), 3.0) * x[1],
    "a cache": lambda x: functools.lru_cache(lambda positive: 3.0 if positive else 2.0)(x[0] > 0.7) * x[1],
    "in a scan": lambda x: tg.scan(lambda c, v: (c + {True: v, False: 2 * v}[v > 0], None), x[0], x)[0],
    "in lanes": lambda x: np.sum(tg.vmap(lambda v: {True: v, False: 2 * v}[v > 0])(x)),
    "a counter of turns": lambda x: tg.fori_loop(0, 3, lambda i, c: c + {0: 1.0, 1: 2.0, 2: 5.0}[i] * x[0], x[1]),
}  # fmt: skip
#: Looked up is a number that is differentiated.
OF_NUMBERS = {
    "in a set": lambda x: x[1] * (10.0 if x[0] in {0.0, 1.0} else 1.0),
    "a set of signs": lambda x: len(set(np.sign(x))) * x[0],
    "floor": lambda x: {1.0: 5.0}.get(np.floor(x[0]), 0.0) * x[1],
    "a complex number": lambda x: {1 + 2j: 2.0}.get(x[0] + 1j * x[1], 3.0) * x[0],
    "in a scan": lambda x: tg.scan(lambda c, v: (c + {1.0: 3.0}.get(v, 1.0) * v, None), x[0], x)[0],
    "in lanes": lambda x: np.sum(tg.vmap(lambda v: {1.0: v * 3}.get(v, v))(x)),
}


def differences(f, x):
    return np.array([(f(x + h) - f(x - h)) / 2e-6 for h in 1e-6 * np.eye(x.size)])


@pytest.mark.parametrize("name", BY_VALUE)
def test_by_value(name):
    f = BY_VALUE[name]
    replayed = tg.jit(tg.value_and_grad(f), kernel="never"), tg.jit(f)
    for x in POINTS:
        if name in ("an integer", "detached", "item", "a position"):
            continue
        np.testing.assert_allclose(tg.grad(f)(x), differences(f, x), atol=1e-6)
    for x in POINTS:
        t = tg.tensor(x, requires_grad=True)
        values = tg.value_and_grad(f)(x)[0], f(t).item(), tg.jvp(f, (x,), (x,))[0], replayed[0](x)[0], replayed[1](x)
        np.testing.assert_allclose(np.array(values, float), float(f(x)))
        np.testing.assert_allclose(tg.jacfwd(f)(x), tg.grad(f)(x))
        np.testing.assert_allclose(replayed[0](x)[1], tg.grad(f)(x))


@pytest.mark.filterwarnings("ignore::tapegrad.errors.PathWarning")
@pytest.mark.parametrize("name", OF_NUMBERS)
def test_of_what_is_differentiated(name):
    f = OF_NUMBERS[name]
    alone = tg.jit(f)
    ways = (
        tg.grad(f), lambda x: tg.jvp(f, (x,), (x,)), tg.jacfwd(f), tg.hessian(f), tg.jit(tg.grad(f)), tg.grad(tg.jit(f)),
        lambda x: f(tg.tensor(x, requires_grad=True)),
    )  # fmt: skip
    for x in (*POINTS, POINTS[0]):
        for way in ways:
            with pytest.raises(TypeError, match=r"t\.item\(\).*id\(t\)"):
                way(x)
        # Where nothing is differentiated it is run plainly.
        assert alone(x) == f(x)


def test_constants_and_leaves():
    for number in (1.0, 2.5, True, 3, np.float32(0.5), np.int8(4), 1.5 + 2j):
        assert hash(tg.tensor(number)) == hash(number) and tg.tensor(number) in {number} and number in {tg.tensor(number)}
    leaves = [tg.tensor(v, requires_grad=True) for v in (1.0, 1.0, POINTS[0], 1.0 + 1j)] + [tg.Parameter(POINTS[0], False), tg.Parameter(1.0)]
    for leaf in leaves:
        assert hash(leaf) == hash(leaf) and {leaf: 1}[leaf] == 1
    assert len({leaves[0], leaves[1]}) == 2 and 1.0 not in {leaves[0]}
    stepped = tg.optim.Adam([leaves[2]], lr=0.1)
    for frozen in (False, True):
        leaves[2].grad = tg.ones(3)
        leaves[2].requires_grad_(not frozen)
        stepped.step()
    computed = [leaves[0] * 2, leaves[2] + 1, leaves[3] * 2, tg.tensor(POINTS[0]), leaves[2] > 0, tg.Dual(1.0, 1.0), tg.tensor([1j])]
    for thing in computed:
        with pytest.raises(TypeError, match=r"id\(t\)"):
            hash(thing)


def test_arrays_are_not_hashable():
    for f in (lambda x: x[0] * len({x}), lambda x: x[0] * len({x > 0}), lambda x: x[0] * len({np.argsort(x)})):
        for way in (f, tg.grad(f), tg.jit(f), tg.jacfwd(f), tg.jit(tg.grad(f))):
            with pytest.raises(TypeError, match="unhashable"):
                way(POINTS[0])
