"""What is compared by type and value, and what by identity."""

import dataclasses
import enum
import math

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.common.exact import exact
from tapegrad.common.tree import flatten


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class Level(enum.IntEnum):
    ONE = 1


@dataclasses.dataclass(frozen=True)
class Frozen:
    a: object
    b: object = 2


class Plain:
    def __eq__(self, other):
        return True

    def __hash__(self):
        return 1


DIFFERENT = [
    1, 1.0, True, 0.0, -0.0, 0, False, "1", b"1", None, ..., (1,), (True,), (1.0,), ((1,),), (0.0,), (-0.0,), (), frozenset({1}),
    frozenset({True}), frozenset(), frozenset({(0.0,)}), frozenset({(-0.0,)}), 1j, complex(0.0, -0.0), complex(-0.0, 0.0), np.int64(1),
    np.int32(1), np.bool_(True), np.float64(1.0), np.float32(1.0), np.float64(-0.0), np.float64(0.0), math.nan, np.float64("nan"), Colour.RED,
    Colour.BLUE, Level.ONE, Frozen(1), Frozen(True), Frozen(-0.0), Frozen(0.0), Frozen(Colour.RED), slice(1), slice(1.0), slice(0, 1),
    range(1), range(0, 1, 2), math.sin, math.cos, int, Plain(), Plain(), np.dtype("d"), np.array(["a"]), np.array(["b"]), np.array([["a"]]), np.array([1, None], object), np.array([True, None], object),
]  # fmt: skip


def test_what_a_function_can_tell_apart_is_not_equal():
    marks = [exact(v) for v in DIFFERENT]
    assert len(set(marks)) == len(marks)
    for k, one in enumerate(marks):
        assert [one == other for other in marks] == [j == k for j in range(len(marks))]


@pytest.mark.parametrize("make", [
    lambda: int("12345678901"), lambda: float("1.5"), lambda: float("nan"), lambda: "".join("ab"), lambda: (1, (2.0, "x")), lambda: Frozen((1, 2)),
    lambda: frozenset({"a"}), lambda: slice(int("3"), None), lambda: np.float64(2.0), lambda: np.array(["a"]), lambda: Colour.RED,
])  # fmt: skip
def test_the_same_value_made_again_is_equal(make):
    assert exact(make()) == exact(make()) and hash(exact(make())) == hash(exact(make()))


def test_what_has_more_than_its_fields_is_compared_by_identity():
    one, other = Frozen(1), Frozen(1)
    object.__setattr__(other, "c", 3)
    assert exact(one) != exact(other) and exact(other) == exact(other)


def test_keys_of_dicts():
    structures = [flatten(d)[1] for d in ({1: 0.0}, {True: 0.0}, {1.0: 0.0}, {"1": 0.0}, {(1, 2): 0.0}, {(True, 2): 0.0}, {0.0: 0.0}, {-0.0: 0.0})]
    assert len(set(structures)) == len(structures)
    assert flatten({"a": 1, 2: 3})[1] == flatten({"a": 5, 2: 7})[1]


def test_static_arguments_of_recordings():
    seen = [1, True, 1.0, np.int64(1), np.float32(1.0), "1", Level.ONE, frozenset({1}), frozenset({True}), slice(1), slice(True), range(1)]
    names = [f"{type(v).__name__} {v!r}" for v in seen]
    g = tg.value_and_grad(lambda x, option: x * (1 + names.index(f"{type(option).__name__} {option!r}")) if type(option) is not float else x, has_aux=False)
    for _ in range(3):
        for k, option in enumerate(seen):
            # A float is an input: the recording of it sees a tensor.
            if type(option) not in (float, np.float32):
                assert g(2.0, option) == (2.0 * (1 + k), 1.0 + k)


def test_zeros_with_signs():
    g = tg.grad(lambda x, options: x * math.copysign(1.0, next(iter(options))))
    for _ in range(3):
        assert g(1.0, frozenset({0.0})) == 1.0 and g(1.0, frozenset({-0.0})) == -1.0


def test_what_cannot_be_compared_is_refused():
    assert tg.grad(lambda x, s: x * len(s))(1.0, {1, 2}) == 2.0
    with pytest.raises(TypeError, match="hashable"):
        tg.jit(tg.grad(lambda x, s: x))(1.0, {1, 2})
