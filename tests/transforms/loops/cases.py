"""Functions with loops and choices: of the forms that have them, of a NumPy, and of one 1-d array.

``CASES[name]`` is called as ``case.function(ops, np, p)``, where `ops` is `tapegrad`, `plainly` or `jax.lax` and `np` is the NumPy
that goes with it.  It returns a container; `total` makes one number of it that depends on each of its floats.
"""

import collections
import dataclasses

import numpy as np

from tests.transforms.loops import plainly

CASES = {}
State = collections.namedtuple("State", "place speed")


@dataclasses.dataclass
class Body:
    place: object
    speed: object


@dataclasses.dataclass(frozen=True)
class Case:
    """A function and where it is looked at.

    Attributes
    ----------
    point : ndarray
        None of the conditions is near to its edge there, nor at `other`.
    other : ndarray
        Where conditions go other ways, or loops take another number of iterations.
    jax : bool
        Whether `jax.lax` takes it: no `if` of Python, no dataclass.
    reverse : bool
        Whether JAX differentiates it in reverse mode: not `while_loop`.
    """

    function: object
    point: np.ndarray
    other: np.ndarray
    jax: bool
    reverse: bool


def case(point, other=None, jax=True, reverse=True):
    point = np.array(point)
    other = 0.9 * point + 0.05 if other is None else np.array(other)

    def register(function):
        CASES[function.__name__] = Case(function, point, other, jax, jax and reverse)
        return function

    return register


def is_float(leaf):
    dtype = getattr(leaf, "dtype", None)
    return isinstance(leaf, float) if dtype is None else "float" in str(dtype)


def total(numpy, thing):
    """The floats of a container, each times a weight of its own, added up."""
    result = 0.0
    for k, leaf in enumerate(leaf for leaf in plainly.leaves_of(thing) if leaf is not None):
        if is_float(leaf):
            weights = np.cos(k + 0.7 * np.arange(max(1, np.size(leaf)))).reshape(np.shape(leaf))
            result = result + numpy.sum(leaf * weights)
    return result


def of(name, ops, numpy=np):
    """The case as a function of an array and with one number as its result."""
    function = CASES[name].function
    return lambda p: total(numpy, function(ops, numpy, p))


# scan ---------------------------------------------------------------------------------------------------------------------

XS = np.array([0.3, -0.8, 1.1, 0.4, -0.2])
ROWS = np.linspace(-1.0, 1.0, 15).reshape(5, 3)


@case([0.4, 0.9])
def scan_of_a_number(ops, np, p):
    return ops.scan(lambda y, x: (y + 0.1 * np.sin(y) * x, y * x), p[0], p[1] * XS)


@case([0.4, 0.9])
def scan_without_xs(ops, np, p):
    return ops.scan(lambda y, _: (y + 0.1 * np.sin(p[1] * y), None), p[0], None, length=6)[0]


@case([0.4, 0.9])
def scan_with_length_and_xs(ops, np, p):
    return ops.scan(lambda y, x: (y * p[1] + x, np.exp(-y)), p[0], XS, length=5)


@case([0.4, 0.9])
def scan_backwards(ops, np, p):
    return ops.scan(lambda y, x: (y * p[1] + x, y * x), p[0], p[0] * XS, reverse=True)


@case([0.2, -0.5, 0.7, 1.2])
def scan_of_a_vector(ops, np, p):
    matrix = np.asarray(ROWS[:3] * 0.5)

    def body(h, row):
        h = np.tanh(matrix @ h + row * p[3])
        return h, np.sum(h * h)

    return ops.scan(body, p[:3], ROWS)


@case([0.2, -0.5, 0.7, 1.2, 0.3])
def scan_of_a_dict(ops, np, p):
    def body(carry, element):
        place = carry["place"] + 0.1 * carry["speed"]
        speed = carry["speed"] - 0.1 * (np.sin(place) * p[3] - element["force"] * element["size"])
        return {"place": place, "speed": speed}, (np.sum(place * speed), speed)

    return ops.scan(body, {"place": p[:3], "speed": p[1:4] * 0.5}, {"force": ROWS, "size": p[4] * XS})


@case([0.2, -0.5, 0.7])
def scan_of_a_namedtuple_in_a_list(ops, np, p):
    def body(carry, x):
        state, count = carry
        return [State(state.place + 0.2 * state.speed, state.speed * p[2] - x), count + 1.0], State(count, state.place)

    return ops.scan(body, [State(p[0], p[1]), 0.0], XS)


@case([0.2, -0.5, 0.7], jax=False)
def scan_of_a_dataclass(ops, np, p):
    def body(carry, x):
        return Body(carry.place + 0.2 * carry.speed, carry.speed * p[2] - x), Body(x * carry.place, None)

    return ops.scan(body, Body(p[0], p[1]), XS)


@case([0.2, -0.5, 0.7])
def scan_with_integers_and_truths(ops, np, p):
    def body(carry, x):
        count, even, y = carry
        return (count + 1, even ^ True, y + p[1] * x * np.where(even, y, count * p[2])), count

    return ops.scan(body, (0, True, p[0]), XS)


@case([0.2, -0.5, 0.7, 1.2])
def scan_of_a_matrix_and_a_block(ops, np, p):
    def body(carry, x):
        matrix, block = carry
        return (matrix @ np.asarray(ROWS[:2, :2]) * 0.5 + block[0] * x, np.cos(block) * p[0]), matrix[0]

    start = np.reshape(p, (2, 2)), np.reshape(p, (1, 2, 2)) * np.ones((2, 1, 1))
    return ops.scan(body, start, XS)


@case([0.4, 0.9])
def scan_of_no_iterations(ops, np, p):
    return ops.scan(lambda y, _: (y * p[1], None), p[0] * p[0], None, length=0)[0]


@case([0.4, 0.9])
def scan_of_one_iteration(ops, np, p):
    return ops.scan(lambda y, x: (y * p[1] * x, y + x), p[0] * p[0], XS[:1])


@case([0.4, 0.9])
def scan_that_passes_its_carry_on(ops, np, p):
    return ops.scan(lambda c, x: ((c[1], c[0], c[2]), c[0] * x), (p[0], p[1], 2.5), XS)


@case([0.4, 0.9])
def scan_whose_carry_does_not_depend_on_what_is_differentiated_at_first(ops, np, p):
    return ops.scan(lambda y, x: (y * 0.5 + p[0] * x, y * p[1]), 1.5, XS)


@case([0.5, 0.9, 1.4])
def scan_over_tensors_captured_in_containers(ops, np, p):
    kept = {"list": [p[0], p[1] * p[2]], "array": np.sin(p)}

    def body(y, x):
        return y * kept["list"][0] + kept["array"][1] * x, kept["list"][1] * np.sum(kept["array"]) * y

    return ops.scan(body, 0.3, XS)


@case([0.5, 0.9, 1.4], [0.5, -0.9, 0.4], jax=False)
def scan_with_a_branch(ops, np, p):
    def body(y, x):
        if y * x > 0.1:
            return y * p[1] - x, np.sin(y)
        return y + p[2] * x, y * y * p[0]

    return ops.scan(body, p[0], XS)


@case([0.5, 0.9, 1.4], [0.5, -0.9, 0.4], jax=False)
def scan_with_two_branches_and_vectors(ops, np, p):
    def body(carry, row):
        h, scale = carry
        if np.sum(h) > 0.5:
            h = np.tanh(h) * p[2]
        elif scale > 0.6:
            h = h + row * scale
        else:
            h = -h * p[0]
        return (h, scale * p[1] + 0.3 if np.max(row) > 0.2 else scale), np.sum(h * row)

    return ops.scan(body, (p, p[1]), ROWS)


@case([0.5, 0.9, 1.4, 0.2, 0.3])
def scan_that_takes_elements_by_its_carry(ops, np, p):
    return ops.scan(lambda carry, x: ((carry[0] + 1, carry[1] * x + p[carry[0]]), p[carry[0]] ** 2), (0, p[1]), XS)


# fori_loop ----------------------------------------------------------------------------------------------------------------


@case([0.4, 0.9])
def fori_of_a_number(ops, np, p):
    return ops.fori_loop(2, 7, lambda i, y: y * p[1] + 0.1 * i, p[0])


@case([0.4, 0.9])
def fori_of_a_tuple(ops, np, p):
    return ops.fori_loop(0, 5, lambda i, ab: (ab[1], ab[0] * p[0] + ab[1] * p[1]), (p[0], 1.0))


@case([0.4, 0.9])
def fori_of_no_iterations(ops, np, p):
    return ops.fori_loop(4, 4, lambda i, y: y * p[1], p[0] * 2.0)


@case([0.4, 0.9, 1.3])
def fori_with_elements_by_number(ops, np, p):
    return ops.fori_loop(0, 3, lambda i, y: y * 0.5 + np.sin(p[i]), 0.2)


# while_loop ---------------------------------------------------------------------------------------------------------------


@case([2.0], [7.5], reverse=False)
def while_of_newton(ops, np, p):
    return ops.while_loop(lambda x: abs(x * x - p[0]) > 1e-12, lambda x: 0.5 * (x + p[0] / x), p[0])


@case([1.3, 0.2], [1.05, 0.4], reverse=False)
def while_that_grows(ops, np, p):
    return ops.while_loop(lambda s: s["y"] < 10.0, lambda s: {"y": s["y"] * p[0] + p[1], "t": s["t"] + 0.1}, {"y": 1.0, "t": p[1]})


@case([1.3, 0.2], reverse=False)
def while_of_no_iterations(ops, np, p):
    return ops.while_loop(lambda y: y < 0.0, lambda y: y * p[1], p[0])


@case([0.9, 0.2], [0.5, 0.7], reverse=False)
def while_with_a_count(ops, np, p):
    return ops.while_loop(lambda s: s[0] < 7, lambda s: (s[0] + 1, np.sin(s[1]) + p[1] * s[0]), (0, p[0]))


@case([10.0, 0.01, 0.02], [15.0, 0.02, 0.03], reverse=False)
def while_of_a_falling_body(ops, np, p):
    def body(state):
        t, place, speed = state
        return t + p[2], place + p[2] * speed, speed - p[2] * (9.81 + p[1] * speed * np.abs(speed))

    t, place, speed = ops.while_loop(lambda state: state[1] > 0.0, body, (0.0, p[0], 0.0 * p[0]))
    return t + place / speed


@case([2.3, 1.5, 0.7], [3.1, 0.6, 1.2], jax=False)
def while_with_a_branch(ops, np, p):
    def body(low_high):
        low, high = low_high
        middle = 0.5 * (low + high)
        if middle**3 + middle * p[1] < p[0]:
            return middle, high
        return low, middle

    low, high = ops.while_loop(lambda lh: lh[1] - lh[0] > 0.01, body, (0.0, p[2] + 2.0))
    return (p[0] - low**3 - low * p[1]) / (3.0 * high**2 + p[1])


@case([0.9, -0.4, 1.1], reverse=False)
def while_of_a_descent(ops, np, p):
    slope = lambda x: np.sinh(x - p) + 0.2 * x
    return ops.while_loop(lambda x: np.sum(slope(x) ** 2) > 1e-8, lambda x: x - 0.5 * slope(x), 0.0 * p)


# choices ------------------------------------------------------------------------------------------------------------------


@case([0.4, 0.9], [-0.4, 0.9])
def choice_by_a_number(ops, np, p):
    return ops.cond(p[0] > 0.0, lambda x: np.sin(x) * p[1], lambda x: x * x * x, p[0])


@case([0.4, 0.9], [0.9, 0.4])
def choice_of_containers(ops, np, p):
    smaller = lambda s, x: {"a": s["a"] * x, "b": (s["b"], p)}
    larger = lambda s, x: {"a": s["b"] + x, "b": (s["a"] * x, p * p)}
    return ops.cond(p[0] < p[1], smaller, larger, {"a": p[0], "b": p[1]}, np.sum(p))


@case([0.4, 0.9], [0.4, 0.2])
def choice_without_operands(ops, np, p):
    return ops.cond(p[0] + p[1] > 1.0, lambda: p[0] * p[1], lambda: p[0] / p[1])


@case([0.4, 0.9])
def choice_by_a_constant(ops, np, p):
    return ops.cond(True, lambda x: x * p[1], lambda x: x + p[1], p[0])


@case([0.4, 0.9])
def switch_by_number(ops, np, p):
    branches = [lambda x: x * p[1], lambda x: np.sin(x), lambda x: x / (1.0 + x * x)]
    return [ops.switch(k, branches, p[0] * (k + 2.0)) for k in (-1, 0, 1, 2, 5)]


@case([0.4, 0.9])
def switch_by_a_carry(ops, np, p):
    branches = [lambda x: x * p[1], lambda x: np.sin(x) + p[0], lambda x: x / (1.0 + x * x)]
    return ops.fori_loop(0, 4, lambda i, y: ops.switch(i, branches, y), p[0])


# map and associative_scan -------------------------------------------------------------------------------------------------


@case([0.4, 0.9, -0.3])
def map_of_numbers(ops, np, p):
    return ops.map(lambda x: np.sin(x) * p[0], p * p)


@case([0.4, 0.9, -0.3])
def map_of_containers(ops, np, p):
    return ops.map(lambda s: (s["row"] * s["x"], {"sum": np.sum(s["row"] * p)}), {"row": ROWS, "x": p[1] * XS})


@case([0.4, 0.9, -0.3, 1.2, 0.7])
def associative_sums(ops, np, p):
    return ops.associative_scan(lambda a, b: a + b, p * p)


@case([0.4, 0.9, -0.3, 1.2, 0.7])
def associative_products_from_the_end(ops, np, p):
    return ops.associative_scan(lambda a, b: a * b, p, reverse=True)


@case([0.4, 0.9, -0.3, 1.2, 0.7])
def associative_recurrence(ops, np, p):
    return ops.associative_scan(lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1]), (np.cos(p), np.sin(p)))


@case([0.4, 0.9, -0.3, 1.2, 0.7, 0.1])
def associative_along_another_axis(ops, np, p):
    return ops.associative_scan(lambda a, b: {"x": a["x"] * b["x"]}, {"x": np.reshape(p, (2, 3)) + 1.0}, axis=1)


@case([0.4, 0.9, -0.3, 1.2])
def associative_products_of_matrices(ops, np, p):
    whole = np.asarray(ROWS[:4, :2])[:, None, :] * np.reshape(p, (2, 2)) + np.eye(2)
    return ops.associative_scan(lambda a, b: a @ b, whole)


# one in another -----------------------------------------------------------------------------------------------------------


@case([1.4, 0.9, 0.6], [1.4, 0.3, 1.1], reverse=False)
def while_in_scan_in_choice(ops, np, p):
    def body(y, x):
        root = ops.while_loop(lambda r: abs(r * r - y) > 1e-10, lambda r: 0.5 * (r + y / r), y)
        return root + x * x * p[1], root * p[2]

    return ops.cond(p[1] > p[2], lambda y: ops.scan(body, y, XS), lambda y: (y * p[1], y * p[2] * XS), p[0])


@case([0.5, 0.9, 1.4], [0.5, -0.9, 0.4])
def choice_in_scan(ops, np, p):
    def body(y, x):
        return ops.cond(y * x > 0.1, lambda y: (y * p[1] - x, np.sin(y)), lambda y: (y + p[2] * x, y * y * p[0]), y)

    return ops.scan(body, p[0], XS)


@case([0.5, 0.9, 1.4])
def scan_in_scan(ops, np, p):
    def outer(h, row):
        last, parts = ops.scan(lambda c, x: (c * p[1] + x * np.sum(h), c * x), p[0], row)
        return np.tanh(h * last) + parts, last

    return ops.scan(outer, p, ROWS)


@case([0.5, 0.9, 1.4], [0.8, 0.5, 1.1], reverse=False)
def fori_in_while(ops, np, p):
    inner = lambda y: ops.fori_loop(0, 3, lambda i, v: v + 0.1 * p[1] * (2.0 + np.cos(v)) + 0.1 * i, y)
    return ops.while_loop(lambda s: s[0] < 4.0, lambda s: (inner(s[0]), s[1] * p[2]), (p[0], 1.0))


@case([0.5, 0.9, 1.4], reverse=False)
def map_of_while(ops, np, p):
    return ops.map(lambda a: ops.while_loop(lambda x: abs(x**3 - a) > 1e-12, lambda x: x - (x**3 - a) / (3.0 * x * x), a + 1.0), p)


@case([0.5, 0.9, 1.4])
def loop_after_loop(ops, np, p):
    y, parts = ops.scan(lambda y, x: (np.sin(y) + x * p[1], y), p[0], XS)
    return ops.scan(lambda z, x: (z * x + p[2], z), y, np.asarray(parts) if isinstance(parts, list) else parts)
