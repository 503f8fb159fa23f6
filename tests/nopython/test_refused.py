"""What reverse mode of compiled functions does not follow: refused, with the line, and never a constant without a word."""

import heapq

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.common.errors import UnsupportedInNumbaError

from .programs import AT, Holder

numba = pytest.importorskip("numba")
from numba.experimental import jitclass  # noqa: E402


def listed(x):
    t = [x[0], x[1] * x[2]]
    return t[0] * t[1]


def cut(x):
    return np.int64(x[0]) * x[1]


def full_of_integers(x):
    return np.full(3, x[0], np.int64)[0] * x[1]


def integers(x):
    return x.astype(np.int64)[0] * x[1]


def different(x):
    return np.unique(x)[0]


def parted(x):
    return np.partition(x, 3)[0]


def repeated_unevenly(x):
    return np.repeat(x, np.arange(8))[3]


def shuffled(x):
    y = x * 2.0
    np.random.shuffle(y)
    return y[0]


def twice_at_a_place(x):
    y = x.copy()
    y[np.array([0, 0])] = x[:2]
    return y[0]


def appended(x):
    t = []
    for v in x:
        t.append(v * v)
    return t[0] + t[1]


def comprehended(x):
    return sum([v * v for v in x])


def extended(x):
    t = [1.0]
    t.extend(x)
    return t[1] ** 2


def heaped(x):
    t = [9.0]
    heapq.heappush(t, x[0] * x[0])
    return t[0]


def added_to_a_set(x):
    t = {1.0}
    t.add(x[0])
    return max(t)


def in_a_list_of_arrays(x):
    t = [np.zeros(3), np.zeros(3)]
    t[1][0] = x[0]
    return t[1][0] ** 2


def in_a_tuple_of_arrays(x):
    t = (np.zeros(2), np.zeros(2))
    for i in range(2):
        t[i][0] = x[i]
    return t[0][0] * t[1][0]


def in_parts(x):
    y = np.zeros(4)
    np.split(y, 2)[0][0] = x[0]
    return y[0] ** 2


def in_halves(x):
    a, b = np.split(x, 2)
    return np.sum(a * b)


@jitclass([("values", numba.float64[:])])
class Box:
    def __init__(self):
        self.values = np.zeros(2)


def in_an_object(x):
    box = Box()
    box.values[0] = x[0]
    return box.values[0] ** 2


def chosen_or_none(x):
    y = np.zeros(3) if x[0] > 0.0 else None
    if y is not None:
        y[0] = x[0]
        return y[0] ** 2
    return 0.0


def into_a_holder(x):
    a = Holder()
    a.item(x[0])
    return a.get() ** 2


@pytest.mark.parametrize(
    "f, reason", [
        (listed, "list"), (cut, "integers"), (full_of_integers, "integers"), (integers, "integers"), (different, "No derivative"),
        (parted, r"np\.partition\(x"), (repeated_unevenly, r"np\.repeat"), (shuffled, "Unsupported call"), (twice_at_a_place, "twice"),
        (appended, "Unsupported call"), (comprehended, "Unsupported call"), (extended, "Unsupported call"), (heaped, "Unsupported call"), (added_to_a_set, "Unsupported call"),
        (in_a_list_of_arrays, "list"), (in_a_tuple_of_arrays, "UniTuple"), (in_parts, "Unsupported call"), (in_halves, "Unsupported call"), (in_an_object, "an object"),
        (chosen_or_none, "does not track"), (into_a_holder, "Unsupported call"),
    ],
)  # fmt: skip
def test_what_is_not_followed_is_refused_with_its_line(f, reason):
    assert np.isfinite(numba.njit(f)(AT))
    with pytest.raises(UnsupportedInNumbaError, match=reason) as refusal:
        tg.njit_grad(f, mode="reverse")(AT)
    lines = range(f.__code__.co_firstlineno, f.__code__.co_firstlineno + 5)
    assert any(f"test_refused.py:{line}:" in str(refusal.value) for line in lines)
