"""What is a container: classes of `collections` and attrs, fields that are static, and registered classes."""

import collections
import copy
import pickle
from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.common.tree import REGISTERED, flatten, unflatten
from tapegrad.errors import StructureError
from tests.every import every

X = np.array([1.0, 2.0])


@dataclass
class Layer:
    w: object
    act: str = field(default="sin", metadata={"static": True})
    power: int = field(default=2, metadata={"static": True})


class Pair:
    """A class of the user's own."""

    def __init__(self, first, second, name):
        self.first, self.second, self.name = first, second, name


@pytest.fixture(autouse=True)
def registered():
    before = dict(REGISTERED)
    tg.tree.register(Pair, lambda pair: ((pair.first, pair.second), pair.name), lambda name, parts: Pair(*parts, name))
    yield
    REGISTERED.clear()
    REGISTERED.update(before)


class Point:
    """As a class of attrs is: the package is not needed for it."""

    __attrs_attrs__ = (SimpleNamespace(name="a", metadata={}), SimpleNamespace(name="b", metadata={"static": True}))

    def __init__(self, a, b):
        self.a, self.b = a, b


CASES = {
    "OrderedDict": (lambda x: collections.OrderedDict(b=x, a=2.0 * x), lambda p: np.sum(p["b"] ** 2 * p["a"])),
    "defaultdict": (lambda x: collections.defaultdict(list, b=x, a=2.0 * x), lambda p: np.sum(p["b"] ** 2 * p["a"])),
    "static": (lambda x: Layer(x, "cos", 3), lambda p: np.sum(getattr(np, p.act)(p.w) ** p.power)),
    "attrs": (lambda x: Point(x, "fixed"), lambda p: np.sum(p.a**3) * (p.b == "fixed")),
    "registered": (lambda x: Pair(x, {"y": 2.0 * x}, "cos"), lambda p: np.sum(getattr(np, p.name)(p.first) * p.second["y"])),
}


def close(one, other):
    np.testing.assert_allclose(np.concatenate([np.ravel(v) for v in flatten(one)[0]]), np.concatenate([np.ravel(v) for v in flatten(other)[0]]), rtol=1e-12)


@every("name", sorted(CASES))
def test_derivatives_by_every_way(name):
    make, f = CASES[name]
    point = make(X)
    structure = flatten(point)[1]
    expected = tg.grad(f)(point)
    assert type(expected) is type(point) and flatten(expected)[1] == structure
    vector, unravel = tg.tree.ravel(point)
    close(expected, tg.grad(lambda v: f(unravel(v)))(vector))
    jitted = tg.jit(tg.grad(f))
    for _ in range(4):
        found = jitted(make(X))
        assert type(found) is type(point)
        close(found, expected)
    assert jitted.stats().records == 1
    close(tg.jacobian(f)(point), expected)
    assert type(tg.hessian(f)(point)) is type(point)
    np.testing.assert_allclose(tg.jvp(f, (point,), (point,))[1], sum(np.sum(a * b) for a, b in zip(flatten(expected)[0], flatten(point)[0])))
    mapped = tg.vmap(tg.grad(f))(make(np.stack([X, X])))
    close(mapped, tg.tree.map(lambda a: np.stack([a, a]), expected))
    # A result like it.
    double = tg.jit(lambda p: tg.tree.map(lambda v: 2.0 * v, p))
    for _ in range(3):
        assert type(double(point)) is type(point)
        close(double(point), tg.tree.map(lambda v: 2.0 * v, point))


def test_what_is_static_is_another_kind_of_argument():
    f = tg.jit(tg.grad(lambda p: np.sum(getattr(np, p.act)(p.w) ** p.power)))
    for _ in range(3):
        for act, power, slope in (("sin", 1, np.cos), ("cos", 1, lambda x: -np.sin(x)), ("sin", 2, lambda x: 2 * np.sin(x) * np.cos(x))):
            np.testing.assert_allclose(f(Layer(X, act, power)).w, slope(X))
    assert f.stats().records == 3


def test_structures_compare_print_and_travel():
    for name, (make, _) in CASES.items():
        leaves, structure = flatten(make(X))
        assert structure == flatten(make(2.0 * X))[1]
        assert str(structure) and hash(structure) == hash(flatten(make(X))[1])
        if name not in ("attrs", "registered"):
            assert pickle.loads(pickle.dumps(structure)) == structure and copy.deepcopy(structure) == structure
        close(unflatten(structure, leaves), make(X))
    assert str(flatten(Layer(1.0, "cos"))[1]) == "Layer(w: *, act: 'cos', power: 2)"
    assert flatten(Layer(1.0, "cos"))[1] != flatten(Layer(1.0, "sin"))[1] and flatten(Layer(1.0, power=1))[1] != flatten(Layer(1.0, power=True))[1]
    assert flatten(collections.OrderedDict(a=1.0))[1] != flatten({"a": 1.0})[1]


def test_what_is_no_container_is_said():
    cycle = [1.0]
    cycle.append(cycle)
    with pytest.raises(StructureError, match="a container holds itself"):
        tg.grad(lambda p: p[0])(cycle)
    with pytest.raises(StructureError, match="a Static holds .* which must be hashable"):
        tg.grad(lambda p: np.sum(p.w))(Layer(X, act=[1]))
    with pytest.raises(StructureError, match="cannot be registered as a container"):
        tg.tree.register(dict, None, None)
    with pytest.raises(StructureError, match="argument 0"):
        tg.grad(lambda x: x)(None)
    with pytest.raises(StructureError, match="None"):
        tg.grad(lambda x: None)(1.0)
    with pytest.raises(StructureError, match="of type SimpleNamespace"):
        tg.grad(lambda p: p.a)(SimpleNamespace(a=1.0))


def test_loops_carry_them():
    def body(carry, x):
        return Pair(carry.first * np.cos(x), carry.second + x, carry.name), None

    def f(x):
        out, _ = tg.scan(body, Pair(x[0], x[1], "name"), np.arange(4.0))
        return out.first * out.second

    expected = np.array([np.prod(np.cos(np.arange(4.0))) * (X[1] + 6.0), np.prod(np.cos(np.arange(4.0))) * X[0]])
    for derivative in (tg.grad(f), tg.jit(tg.grad(f))):
        np.testing.assert_allclose(derivative(X), expected, rtol=1e-13)


@every("way", (lambda f: f, tg.jit))
def test_named_tuples_of_what_numpy_takes(way):
    """As operands of functions without derivative, whose tensors are replaced by their values; and of complex ones."""
    Two = collections.namedtuple("Two", "a b")

    def sorted_by(x):
        return x[np.lexsort(Two(x, -x))][0] + x[np.ravel_multi_index(Two(np.argmax(x), 0), (2, 1))]

    def complex_parts(x):
        return np.sum(np.abs(np.concatenate(Two(x + 1j * x, x))) ** 2)

    np.testing.assert_array_equal(way(tg.grad(sorted_by))(X), [0.0, 2.0])
    np.testing.assert_allclose(way(tg.grad(complex_parts))(X), 6.0 * X)
