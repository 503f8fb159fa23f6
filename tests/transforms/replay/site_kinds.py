"""Calls with every kind of argument: functions, and what they are called with, for tests and the benchmark of sites."""

from __future__ import annotations

import dataclasses
from collections import namedtuple

import numpy as np

import tapegrad as tg
from tapegrad.transforms.replay.answers import of_gradients, sort_arguments
from tapegrad.transforms.replay.site import CallSite


@dataclasses.dataclass
class Fields:
    a: float
    b: object


@dataclasses.dataclass(frozen=True)
class Frozen:
    a: float
    b: object


Pair = namedtuple("Pair", "a b")
RNG = np.random.default_rng(5)


def of_two(x):
    return x[0] * x[0] * 3.0 + np.sin(x[1]) * x[0]


def of_plane(x):
    return np.sum(np.sin(x) * x)


def of_pair(p):
    return np.sum(p[0] * p[1]) + p[0]


def of_dict(p):
    return np.sum(p["w"] * p["w"]) * p["b"]


def of_fields(p):
    return p.a * np.sum(np.exp(p.b))


def of_mode(x, mode, n=2, flag=None):
    return np.sum(x**n) if mode == "sum" else np.prod(x)


def of_index(x, index):
    return np.sum(x[index])


def of_nested(p, q):
    return p["layers"][0][0] * q.a + np.sum(p["layers"][1][1] * q.b)


def of_many(p):
    total = 0.0
    for a in p:
        total = total + a * a
    return total


def of_array(x):
    return np.sum(x**2)[None]


def with_aux(x):
    return np.sum(x**2), {"twice": 2.0 * x, "name": "aux", "one": np.ones(2)}


#: Name -> function, arguments, keywords, what `value_and_grad` is given besides.
KINDS = {
    "an array of 2": (of_two, lambda: (RNG.random(2),), {}, {}),
    "float": (lambda x: x * x, lambda: (RNG.random(),), {}, {}),
    "int": (lambda x: x * 1.5, lambda: (3,), {}, {}),
    "np.float64": (lambda x: x * x, lambda: (np.float64(RNG.random()),), {}, {}),
    "np.float32": (lambda x: x * x, lambda: (np.float32(RNG.random()),), {}, {}),
    "0-d array": (lambda x: x * x, lambda: (np.array(RNG.random()),), {}, {}),
    "float32 array": (of_plane, lambda: (RNG.random(3).astype(np.float32),), {}, {}),
    "array of one": (of_array, lambda: (RNG.random(1),), {}, {}),
    "empty array": (of_plane, lambda: (np.empty((0, 3)),), {}, {}),
    "Fortran order": (of_plane, lambda: (np.asfortranarray(RNG.random((2, 3))),), {}, {}),
    "strided": (of_plane, lambda: (RNG.random((4, 6))[::2, ::-2],), {}, {}),
    "two arrays": (lambda x, y: np.sum(x * y), lambda: (RNG.random(2), RNG.random(2)), {}, {"argnums": (0, 1)}),
    "other order": (lambda x, y: np.sum(x * x * y), lambda: (RNG.random(2), RNG.random(2)), {}, {"argnums": (1, 0)}),
    "list": (of_pair, lambda: ([RNG.random(), RNG.random(2)],), {}, {}),
    "tuple": (of_pair, lambda: ((RNG.random(), RNG.random(2)),), {}, {}),
    "dict": (of_dict, lambda: ({"w": RNG.random(2), "b": RNG.random()},), {}, {}),
    "named tuple": (of_fields, lambda: (Pair(RNG.random(), RNG.random(2)),), {}, {}),
    "dataclass": (of_fields, lambda: (Fields(RNG.random(), RNG.random(2)),), {}, {}),
    "frozen dataclass": (of_fields, lambda: (Frozen(RNG.random(), RNG.random(2)),), {}, {}),
    "nested": (
        of_nested, lambda: ({"layers": [(RNG.random(),), (1.0, RNG.random(2))], "k": {}}, Fields(RNG.random(), RNG.random(2))), {},
        {"argnums": (0, 1)},
    ),
    "static": (of_mode, lambda: (RNG.random(2), "sum", 3, None), {}, {}),
    "keywords": (of_mode, lambda: (RNG.random(2),), {"mode": "sum", "n": 3}, {}),
    "array by keyword": (lambda x, *, y: np.sum(x * y), lambda: (RNG.random(2),), {"y": np.array([2.0, 5.0])}, {}),
    "integer array": (of_index, lambda: (RNG.random(3), np.array([0, 2, 2])), {}, {}),
    "20 floats": (of_many, lambda: ([float(a) for a in RNG.random(20)],), {}, {}),
    "10 arrays": (lambda p: sum(np.sum(a * a) for a in p), lambda: ([RNG.random(2) for _ in range(10)],), {}, {}),
    "several results": (with_aux, lambda: (RNG.random(2),), {}, {"has_aux": True}),
}  # fmt: skip


def site_of(g, args, kwargs=None, same=None):
    """A site for calls of the jitted `g` like this one."""
    kwargs = kwargs or {}
    if same is not None:
        # As of an `Environment`: what is asked, and the names in it.
        same.conditions, same.scope = ["same()"], {"same": same}
    kernel = g.kernel(*args, **kwargs)
    _, (structure, marks), _ = sort_arguments(args, kwargs, g._argnums)
    return CallSite(structure, marks, kernel, of_gradients(kernel.tape, structure, g._argnums, g._one), same)


def made(name):
    """The jitted `value_and_grad` of a kind, what makes arguments, keywords, and a site."""
    function, arguments, kwargs, options = KINDS[name]
    g = tg.value_and_grad(tg.jit(function), **options)
    return g, arguments, kwargs, site_of(g, arguments(), kwargs)
