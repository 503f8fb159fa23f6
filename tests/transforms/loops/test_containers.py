"""What a carry, `xs` and `ys` may be, and that each comes back as it was given: containers, shapes and dtypes."""

import collections
import dataclasses

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.errors import StructureError
from tests.transforms.loops import plainly

Pair = collections.namedtuple("Pair", "a b")
XS = np.array([0.5, -1.0, 2.0, 0.25])


@dataclasses.dataclass(frozen=True)
class Frozen:
    a: object
    b: object


CARRIES = {
    "a number": lambda t: t,
    "an array": lambda t: t * np.ones((2, 3)),
    "an array of no axes": lambda t: np.reshape(t, ()),
    "an empty array": lambda t: (t, t * np.ones((0, 3))),
    "a dict": lambda t: {"b": t, "a": np.cos(t) * np.ones(2)},
    "a dict with keys of other kinds": lambda t: {1: t, (2, "x"): np.cos(t)},
    "a tuple": lambda t: (t, t * t),
    "a tuple of one": lambda t: (t,),
    "a list": lambda t: [t, t * t],
    "a namedtuple": lambda t: Pair(t, np.sin(t) * np.ones(3)),
    "a dataclass": lambda t: Frozen(t, np.sin(t) * np.ones(3)),
    "one in another": lambda t: {"one": [Pair(t, (t * t,))], "other": {"x": Frozen(t * np.ones((1, 2, 1)), t)}},
    "nothing beside": lambda t: (t, (), {}, []),
}


def turned(ops, start, **options):
    """A scan whose body changes each leaf."""
    return ops.scan(lambda carry, x: (plainly.mapped(lambda leaf: leaf * 0.5 + x, carry), plainly.mapped(lambda leaf: leaf * x, carry)), start, XS, **options)


def summed(thing):
    return sum((k + 1.0) * np.sum(leaf) for k, leaf in enumerate(plainly.leaves_of(thing)))


FORMS = {
    "scan": lambda ops, start: turned(ops, start),
    "scan backwards": lambda ops, start: turned(ops, start, reverse=True),
    "fori_loop": lambda ops, start: ops.fori_loop(0, 3, lambda i, value: plainly.mapped(lambda leaf: leaf * 0.5 + i, value), start),
    "while_loop": lambda ops, start: ops.while_loop(lambda s: s[0] < 2.5, lambda s: (s[0] + 1.0, plainly.mapped(lambda leaf: leaf * leaf - 0.3, s[1])), (0.0, start))[1],
    "cond": lambda ops, start: ops.cond(
        plainly.leaves_of(start)[0].sum() > 0.1 if np.ndim(plainly.leaves_of(start)[0]) else plainly.leaves_of(start)[0] > 0.1,
        lambda s: plainly.mapped(lambda leaf: leaf * 2.0, s), lambda s: plainly.mapped(lambda leaf: leaf * 3.0, s), start,
    ),
    "switch": lambda ops, start: ops.switch(1, [lambda s: s, lambda s: plainly.mapped(lambda leaf: leaf * 3.0, s)], start),
    "map": lambda ops, start: ops.map(lambda x: plainly.mapped(lambda leaf: leaf * x, start), XS),
}  # fmt: skip


@pytest.mark.parametrize("carry", CARRIES)
@pytest.mark.parametrize("form", FORMS)
def test_containers_of_a_carry(form, carry):
    function = lambda ops: lambda t: FORMS[form](ops, CARRIES[carry](t))
    value, expected = function(tg)(0.7), function(plainly)(0.7)
    # (NumPy's numbers are Python's, too.)
    assert all(plainly.leaves_of(plainly.mapped(lambda leaf, other: isinstance(leaf, type(other)) and np.shape(leaf) == np.shape(other), value, expected)))
    plainly.mapped(np.testing.assert_array_equal, value, expected)
    # By tensors the containers are the same, and so are the shapes.
    result = function(tg)(tg.tensor(0.7, requires_grad=True))
    plainly.mapped(lambda leaf, other: np.testing.assert_allclose(leaf.detach().numpy(), other, rtol=1e-14, strict=False), result, expected)
    assert plainly.mapped(np.shape, result) == plainly.mapped(np.shape, expected)
    slope = tg.grad(lambda t: summed(function(plainly)(t)))(0.7)
    for transformed in (tg.grad, lambda f: tg.jit(tg.grad(f), kernel="never"), tg.derivative):
        g = transformed(lambda t: summed(function(tg)(t)))
        for _ in range(2):
            assert g(0.7) == pytest.approx(slope, rel=1e-12)


@pytest.mark.parametrize("start", [0.0, 0, 0.5, {"a": 1, "b": [0.5]}], ids=str)
def test_a_number_of_python_in_the_carry_takes_the_dtype_that_it_gets(start):
    def f(x):
        y = tg.scan(lambda c, v: (tg.tree.map(lambda leaf: leaf * v + v, c), v), start, x)[0]
        return np.sum(tg.tree.ravel(y)[0]) * 2.0

    x = np.array([0.5, -1.0, 2.0], np.float32)
    slopes = tg.grad(f)(x.astype(float))
    for evaluated in (tg.value_and_grad(f), tg.jit(tg.value_and_grad(f)), lambda x: (f(x), tg.jacfwd(f)(x))):
        value, gradient = evaluated(x)
        assert np.asarray(value).dtype == gradient.dtype == np.float32
        np.testing.assert_allclose(value, f(x), rtol=1e-6)
        np.testing.assert_allclose(gradient, slopes, rtol=1e-5)


@pytest.mark.parametrize("kernel", ["never", "always"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dtypes_stay(dtype, kernel):
    def f(x, scale):
        carry, ys = tg.scan(lambda c, e: (np.tanh(c * e) + scale * x, c), x, np.asarray(XS, dtype)[:, None] * np.ones(3, dtype))
        assert carry.dtype == dtype and ys.dtype == dtype
        return np.sum(carry) + np.sum(ys * ys)

    def plain(x, scale):
        carry, ys = plainly.scan(lambda c, e: (np.tanh(c * e) + scale * x, c), x, np.asarray(XS, dtype)[:, None] * np.ones(3, dtype))
        return np.sum(carry) + np.sum(ys * ys)

    x = np.array([0.3, 0.6, -0.4], dtype)
    g = tg.jit(tg.grad(f), kernel=kernel)
    for _ in range(3):
        gradient = g(x, 0.5)
        assert gradient.dtype == dtype
        np.testing.assert_allclose(gradient, tg.grad(plain)(x, 0.5), rtol=1e-5 if dtype is np.float32 else 1e-12)


def test_whole_numbers_and_truths_are_carried_as_they_are():
    seen = []

    def f(t):
        def body(carry, x):
            count, odd, y, mask = carry
            return (count + 2, odd ^ True, y + t * count, ~mask), (count, odd, mask)

        carry, ys = tg.scan(body, (1, False, t, np.array([True, False])), XS)
        seen.append((carry, ys))
        return carry[2]

    slope = tg.grad(f)(0.5)
    assert slope == 1.0 + 1 + 3 + 5 + 7
    for count, odd, mask in (seen[0][0][0:2] + seen[0][0][3:],):
        assert int(count) == 9 and not odd and np.array_equal(np.asarray(mask), [True, False])
    counts, odds, masks = map(np.asarray, seen[0][1])
    np.testing.assert_array_equal(counts, [1, 3, 5, 7])
    np.testing.assert_array_equal(odds, [False, True, False, True])
    np.testing.assert_array_equal(masks, [[True, False], [False, True]] * 2)
    assert counts.dtype.kind == "i" and odds.dtype == masks.dtype == bool


@pytest.mark.parametrize("xs", [XS, {"x": XS}, [XS, (XS, XS)], Pair(XS, XS[:, None]), Frozen(XS, np.stack([XS, XS], axis=1))], ids=lambda xs: type(xs).__name__)
def test_containers_of_elements(xs):
    function = lambda ops: lambda t: ops.scan(lambda c, e: (c * 0.5 + sum(np.sum(leaf) for leaf in plainly.leaves_of(e)), e), t, plainly.mapped(lambda leaf: leaf * t, xs))
    value, expected = function(tg)(0.7), function(plainly)(0.7)
    assert type(value[1]) is type(xs)
    plainly.mapped(np.testing.assert_array_equal, value, expected)
    summing = lambda ops: lambda t: summed(function(ops)(t))
    assert tg.grad(summing(tg))(0.7) == pytest.approx(tg.grad(summing(plainly))(0.7), rel=1e-12)


def test_elements_may_be_a_list_of_tensors_in_a_container_and_may_be_nothing():
    def f(t):
        carry, ys = tg.scan(lambda c, x: (c * t, None), t, None, length=3)
        assert ys is None
        carry, ys = tg.scan(lambda c, x: (c + x["a"] * x["b"], {"none": None, "some": c}), carry, {"a": t * XS, "b": XS})
        assert ys["none"] is None
        return carry + np.sum(ys["some"])

    def plain(t):
        carry = t**4
        total = 0.0
        for x in XS:
            total = total + carry
            carry = carry + t * x * x
        return carry + total

    assert tg.grad(f)(0.7) == pytest.approx(tg.grad(plain)(0.7), rel=1e-12)
    assert tg.jit(tg.grad(f))(0.7) == pytest.approx(tg.grad(plain)(0.7), rel=1e-12)


@pytest.mark.parametrize("xs", [np.zeros((0,)), np.zeros((0, 3)), {"a": np.zeros((0, 2))}], ids=["numbers", "rows", "dict"])
def test_no_iterations(xs):
    def never(carry, x):
        return carry * 2.0, carry

    assert tg.scan(never, 3.0, xs)[0] == 3.0
    for reverse in (False, True):
        assert tg.grad(lambda t: tg.scan(never, t * t, xs, reverse=reverse)[0])(3.0) == 6.0
    assert tg.grad(lambda t: tg.while_loop(lambda y: y < 0.0, lambda y: y * t, t * t))(3.0) == 6.0
    for bounds in ((0, 0), (5, 2)):
        assert tg.grad(lambda t: tg.fori_loop(*bounds, lambda i, y: y * t, t * t))(3.0) == 6.0


def test_what_is_given_is_not_changed():
    init, xs = {"x": np.ones(3), "n": [1, 2.0]}, {"a": XS.copy()}
    before = plainly.mapped(np.copy, init)
    tg.scan(lambda c, e: ({"x": c["x"] * e["a"], "n": [c["n"][0] + 1, c["n"][1]]}, None), init, xs)
    plainly.mapped(np.testing.assert_array_equal, init, before)
    np.testing.assert_array_equal(xs["a"], XS)


def test_numbers_run_as_the_python_that_is_meant():
    """The body sees floats and arrays, on the user's own lines."""
    seen = []
    tg.scan(lambda c, x: (seen.append((type(c), type(x))) or c + x, None), 1.0, XS)
    tg.while_loop(lambda y: y < 3, lambda y: seen.append((type(y), None)) or y + 1, 1)
    tg.fori_loop(0, 1, lambda i, y: seen.append((type(y), None)) or y, np.ones(2))
    assert [kind for kind, _ in seen] == [float, *[np.float64] * 3, int, int, np.ndarray]


def test_the_number_of_a_turn_is_an_int():
    assert type(tg.fori_loop(0, 2, lambda i, y: y * i, 3)) is int


def test_integers_keep_all_their_bits():
    f = lambda ops, start=2**53 + 1: lambda t: ops.scan(lambda c, x: ((c[0] * 3 + 1, c[1] * t), None), (start, t), None, length=3)[0][0]
    assert int(f(tg)(tg.tensor(0.7, requires_grad=True))) == f(plainly)(0.7)
    # They grow to it on the way.
    assert int(f(tg, 2**52)(tg.tensor(0.7, requires_grad=True))) == f(plainly, 2**52)(0.7)


@pytest.mark.parametrize("beside", [None, "a text", np.uint8(3)], ids=["nothing", "text", "bytes"])
def test_what_a_carry_may_have_beside_its_numbers_does_not_depend_on_tensors(beside):
    f = lambda t: tg.scan(lambda c, x: ((c[0], c[1] * t), None), (beside, t), None, length=2)[0][1]
    assert f(0.5) == 0.125
    assert tg.grad(f)(0.5) == pytest.approx(0.75, rel=1e-14)


def inplace(ops, t):
    def body(c, x):
        c = c * 1.0
        c += t * x
        c[0] = c[1]
        return c, c[2]

    return ops.scan(body, t * np.ones(3), np.arange(3.0))


cube = tg.custom_vjp(lambda x: x**3, lambda g, result, x: 3.0 * x * x * g)
recorded = tg.jit(lambda x: np.sin(x) * x)

BODIES = {
    "changes in place": lambda ops, t: inplace(ops, t),
    "primitive": lambda ops, t: ops.scan(lambda c, x: (cube(c * t), None), t, None, length=2)[0],
    "jit": lambda ops, t: ops.scan(lambda c, x: (recorded(c) * t, None), t, None, length=3)[0],
    "gradient": lambda ops, t: ops.scan(lambda c, x: (tg.grad(lambda q: q**3 * t)(c) * 0.3, None), t, None, length=3)[0],
    "no derivative": lambda ops, t: ops.scan(lambda c, x: (c * tg.stop_gradient(t) + tg.stop_gradient(c), None), t, None, length=3)[0],
    "host function": lambda ops, t: ops.scan(lambda c, x: (c + np.sort(np.stack([c, t, 0.5]))[1] * x, None), t, XS)[0],
    "norm": lambda ops, t: ops.scan(lambda c, x: (c * np.linalg.norm(np.stack([c, t])), None), t, None, length=2)[0],
    "one tensor twice": lambda ops, t: ops.scan(lambda c, x: ((c[1], c[1]), c), (t, t), None, length=2),
    "constant in the end": lambda ops, t: ops.scan(lambda c, x: ((c[0] * t, 2.0), c[1]), (t, t), None, length=3),
    "integers become floats": lambda ops, t: ops.scan(lambda c, x: (c + t, c), 0, None, length=3),
}


@pytest.mark.parametrize("body", BODIES)
def test_bodies_of_all_kinds(body):
    f, plain = (lambda t, ops=ops: summed(BODIES[body](ops, t)) for ops in (tg, plainly))
    slope = tg.grad(plain)(0.7)
    assert tg.grad(f)(0.7) == pytest.approx(slope, rel=1e-12)
    g = tg.jit(tg.value_and_grad(f))
    for t in (0.7, 0.7, 0.72):
        assert g(t) == (pytest.approx(plain(t), rel=1e-12), pytest.approx(tg.grad(plain)(t), rel=1e-12))


@pytest.mark.parametrize("jit", [False, True])
def test_the_keys_of_a_carry_may_come_in_another_order(jit):
    def along(s, u):
        ((d, n),) = s["pair"]
        return {"pair": (({"y": d["y"] * u, "x": np.sin(d["x"]) * d["y"]}, n + 1),), "b": s["b"] * d["x"]}, d["x"]

    def f(x):
        carry, ys = tg.scan(along, {"b": x * x, "pair": (({"x": x * 1.0, "y": 2.0 * x}, 0),)}, np.array([0.5, 0.7, 0.9]))
        ((d, n),) = carry["pair"]
        last = tg.while_loop(lambda s: s["n"] < 3, lambda s: {"v": s["v"] * x, "n": s["n"] + 1}, {"n": 0, "v": d["x"]})
        return last["v"] + carry["b"] * n + np.sum(ys) + d["y"]

    x, size = 0.4, 1e-6
    g = tg.value_and_grad(f)
    value, slope = (tg.jit(g) if jit else g)(x)
    np.testing.assert_allclose(value, f(x), rtol=1e-14)
    np.testing.assert_allclose(slope, (f(x + size) - f(x - size)) / (2 * size), rtol=1e-7)


@pytest.mark.parametrize("kind", [Pair, Frozen])
def test_so_may_those_of_a_dict_in_a_container_of_its_own_class(kind):
    def f(x):
        start = kind({"u": x, "v": 2.0 * x}, 0.0)
        return tg.scan(lambda s, t: (kind({"v": s.a["v"] * t, "u": s.a["u"] + s.a["v"]}, s.b + t), None), start, np.arange(1.0, 4.0))[0].a["u"]

    assert tg.value_and_grad(f)(0.5) == tg.jit(tg.value_and_grad(f))(0.5) == (4.5, 9.0)


@pytest.mark.parametrize("other", [lambda s: {"a": s["a"]}, lambda s: {"a": s["a"], "c": s["b"]}, lambda s: [s["a"], s["b"]], lambda s: {"b": (s["b"],), "a": s["a"]}])
def test_other_keys_are_refused(other):
    with pytest.raises(StructureError, match="return a container like the one it was given"):
        tg.grad(lambda x: tg.scan(lambda s, u: (other(s), None), {"a": x, "b": x}, np.ones(2))[0]["a"])(1.0)
