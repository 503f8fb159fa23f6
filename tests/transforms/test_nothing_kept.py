"""Nothing that a function captures is alive after a call, or when what was made of the function is gone."""

import gc
import threading
import warnings
import weakref

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.common.errors import HigherOrderError

AT, V = np.array([0.5, 0.8]), np.array([1.0, -1.0])
BOTH = np.stack([AT, 2.0 * AT])


class Batch:
    def __init__(self):
        self.rows = np.arange(5.0)


def primitive(batch):
    @tg.primitive
    def f(x):
        return np.sin(x) * batch.rows[1]

    f.defvjp(lambda g, x, z=None: g * tg.cos(x) * batch.rows[1])
    return f


def functions(batch):
    def mean():
        return float(np.sum(batch.rows)) * 0.01

    rows = batch.rows
    return {
        "captured": lambda x: np.sum(np.sin(x[0]) * rows) + x[1] ** 3,
        "scan": lambda x: tg.scan(lambda c, v: (np.sin(c) * v + np.sum(rows * c), None), x[0], x)[0],
        "map": lambda x: np.sum(tg.map(lambda v: v * v * x[0] + mean(), x)),
        "vmap": lambda x: np.sum(tg.vmap(lambda v: np.sum(v * rows) ** 2 * x[0])(x)),
        "fori_loop": lambda x: tg.fori_loop(0, 3, lambda i, c: np.sin(c) * x[1] + mean(), x[0]),
        "while_loop": lambda x: tg.while_loop(
            lambda s: s[0] < 2.0, lambda s: (s[0] + 1.0, np.sin(s[1]) * x[1] + mean()), (0.0, x[0])
        )[1],
        "cond": lambda x: tg.cond(x[0] > 0.2, lambda z: np.sin(z) * mean(), lambda z: z * z, x[0]) * x[1],
        "nested": lambda x: tg.scan(lambda c, v: (tg.scan(lambda e, w: (np.sin(e) * w + mean(), None), c, x)[0], None), x[0], x)[0],
        "checkpoint": lambda x: tg.checkpoint(lambda y: np.sum(np.sin(y) * y) * mean())(x),
        "primitive": lambda x: primitive(batch)(x[0]) * x[1],
        "sum_over": lambda x: tg.sum_over(lambda t, r: np.sum(r * t[0] ** 2) * t[1], rows, chunk=2)(x),
    }


def backward(f):
    x = tg.tensor(AT, requires_grad=True)
    f(x).backward()


TRANSFORMATIONS = {
    "call": lambda f: f(AT), "grad": lambda f: tg.grad(f)(AT), "hessian": lambda f: tg.hessian(f)(AT), "jacfwd": lambda f: tg.jacfwd(f)(AT),
    "jacrev": lambda f: tg.jacrev(tg.grad(f))(AT), "hvp": lambda f: tg.hvp(f)(AT, V), "jvp": lambda f: tg.jvp(f, (AT,), (V,)),
    "vjp": lambda f: tg.vjp(f, AT)[1](1.0), "linearize": lambda f: tg.linearize(f, AT)[1](V), "jet": lambda f: tg.jet(f, (AT,), ((V, V),)),
    "laplacian": lambda f: tg.laplacian(f)(AT), "vmap": lambda f: tg.vmap(tg.grad(f))(BOTH), "sparse_hessian": lambda f: tg.sparse_hessian(f)(AT),
    "penalty": lambda f: tg.grad(lambda x: np.sum(tg.grad(f)(x) ** 2))(AT), "minimize": lambda f: tg.optimize.minimize(lambda x: f(x) ** 2, AT),
    "backward": backward, "tape": lambda f: str(tg.grad(f).tape(AT)),
    "jit": lambda f: [g(AT) for g in [tg.jit(tg.grad(f))] for _ in range(3)],
    "jit of hessian": lambda f: [g(AT) for g in [tg.jit(tg.hessian(f), kernel="never")] for _ in range(2)],
}  # fmt: skip
QUICK = "grad", "hessian", "linearize"


def called(way, name):
    """Weak references to what a function captures, after a call."""
    batch = Batch()
    f = functions(batch)[name]
    try:
        TRANSFORMATIONS[way](f)
    except HigherOrderError:
        pass
    return weakref.ref(batch), weakref.ref(batch.rows)


def alive(transformations):
    left = []
    for way in transformations:
        for name in functions(Batch()):
            with tg.Tape() if way == "backward" else warnings.catch_warnings():
                warnings.simplefilter("ignore")
                references = called(way, name)
            gc.collect()
            left += [(way, name)] if any(r() is not None for r in references) else []
    return left


def test_nothing_is_kept():
    assert alive(QUICK) == []


@pytest.mark.long
def test_nothing_is_kept_by_any():
    assert alive(TRANSFORMATIONS) == []


def test_steps_of_training_keep_few():
    """Also where other tensors of the same tape live on."""
    references = []

    def train():
        x = tg.tensor(AT, requires_grad=True)
        others = [x * 2.0, x * x]
        for _ in range(60):
            batch = Batch()
            references.append(weakref.ref(batch))
            functions(batch)["fori_loop"](x).backward()
        del batch
        gc.collect()
        kept.append(sum(r() is not None for r in references))
        assert others

    # A thread has a tape of its own: how many are kept grows with what else lives on it.
    kept = []
    thread = threading.Thread(target=train)
    thread.start()
    thread.join()
    assert len(references) == 60 and kept[0] <= 8
