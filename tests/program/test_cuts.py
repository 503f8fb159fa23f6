"""Where a recording is narrow: cuts by hand, and what goes around them."""

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.program.choosing import narrowest
from tapegrad.program.sweeps import StoreWalk


def width(f, *args):
    cut = narrowest(StoreWalk(f, args, tuple(range(len(args)))))
    return None if cut is None else cut.width


X = np.linspace(0.1, 0.9, 12)


def around(head, total, *others):
    """A result that reads `head` behind everything that is made of `total`."""
    return tg.concatenate([total * np.arange(9.0), *[total * other for other in others], head])


@pytest.mark.parametrize(
    "f, expected",
    [
        (lambda x: np.exp(-np.sum(x * x) * np.arange(9.0)), 1),
        (lambda x: np.exp(np.stack([np.sum(x), np.prod(x)])[:, None] * np.arange(5.0)), 2),
        (lambda x: np.ones((7, 3)) @ np.sin(np.ones((3, 12)) @ x), 3),
        # What goes around the waist is live there, whether it is an argument, a value or a result.
        (lambda x: np.exp(-np.sum(x * x)) * x, 12),
        (lambda x: np.sum(np.sin(x)) * np.cos(x), 12),
        (lambda x: (np.sin(x[:4]), np.sum(x) * np.arange(9.0)), 5),
        # An operand behind the second, and one behind the fourth.
        (lambda x: around(x[:2], np.sum(x), np.cos(X)), 3),
        (lambda x: around(x[:2], np.sum(x), np.cos(X), *[X * 2.0] * 5), 3),
        # Of a result that is returned twice.
        (lambda x: [np.sum(x)] * 12, 1),
        (lambda x: X, None),
    ],
)
def test_the_narrowest_cut(f, expected):
    assert width(f, X) == expected


def test_an_argument_that_is_read_behind_the_waist_goes_around_it():
    assert width(lambda x, y: np.sum(x) * np.exp(y * np.arange(9.0)), X, 2.0) == 2
    # Its leaf is on the tape from its first reader on.
    assert width(lambda x, y: np.sum(x) * np.exp(np.sum(y) * np.arange(9.0)), X, X[:3]) == 2


def test_numbers_in_a_loop():
    def f(*numbers):
        total = 0.0
        for number in numbers:
            total = total + number * number
        return [total * k for k in range(1, 9)]

    cut = narrowest(StoreWalk(f, tuple(X.tolist()), tuple(range(12))))
    assert cut.width == 1 and len(cut.values) == 1
