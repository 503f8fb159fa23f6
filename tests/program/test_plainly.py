"""First gradients in plain Python: the bits of the compiled replay, or no answer."""

import numpy as np
import pytest

from tapegrad.array.closures import adjoints_on_floats
from tapegrad.array.record import apply
from tapegrad.autograd.custom import custom_vjp
from tapegrad.program.plainly import plain_answer
from tapegrad.rules.table import ROWS
from tapegrad.tape.store import SHORT
from tapegrad.transforms.functional import value_and_grad
from tests.test_import import fresh

#: Rows with a form on floats whose result on floats is one (those that only kernels use make float32).
PLAIN = [row for row in ROWS if adjoints_on_floats(row) is not None and type(apply(row, [0.5] * row.arity)._v) is float]
POINTS = [0.0, -0.0, 1.0, -1.0, 2.0, 0.5, -3.0, 1e-320, 1e200, -745.0, np.inf, np.nan]


def compiled(tape, *arguments):
    """Value and gradients by the compiled replay."""
    value, gradients = tape.value_and_grad(*arguments)
    return value, list(gradients) if isinstance(gradients, tuple) else [gradients]


def same(one, other):
    one, other = np.asarray(one), np.asarray(other)
    return np.array_equal(one, other, equal_nan=True) and np.array_equal(np.signbit(one)[one == one], np.signbit(other)[other == other])


def agrees(function, *arguments):
    """Whether there is a plain answer; if so, it is compared."""
    tape = value_and_grad(function, tuple(range(len(arguments)))).tape(*arguments)
    answer = plain_answer(tape)
    if answer is None:
        return False
    (value,), gradients = answer
    wanted, expected = compiled(tape, *arguments)
    assert same(value, wanted), f"{value!r} is not {wanted!r} at {arguments}"
    for got, other in zip(gradients, expected, strict=True):
        assert np.shape(got) == np.shape(other) and same(got, other), f"{got!r} is not {other!r} at {arguments}"
    return True


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("row", PLAIN, ids=lambda row: row.name)
def test_scalar_rows_have_the_bits_of_the_compiled_sweep(row):
    rng = np.random.default_rng(row.opcode)
    points = [*POINTS, *(rng.standard_normal(40) * 2).tolist(), *rng.random(40).tolist(), *(1.0 + rng.random(20)).tolist()]
    answered = 0
    for x in points:
        others = {j: float(rng.choice(points)) for j in range(1, row.arity)}
        fixed = {j: v for j, v in others.items() if j in row.constants}
        moved = [v for j, v in others.items() if j not in row.constants]

        def function(x, *rest, fixed=fixed):
            given = iter(rest)
            return apply(row, [x, *(fixed[j] if j in fixed else next(given) for j in range(1, row.arity))]) * 0.7

        answered += agrees(function, float(x), *moved)
        if row.arity == 2 and not row.constants:
            # A constant on either side.
            c = others[1]
            answered += agrees(lambda x, c=c: apply(row, [x, c]) * 0.7, float(x))
            answered += agrees(lambda x, c=c: apply(row, [c, x]) * 0.7, float(x))
    assert answered > 20


def test_most_scalar_rows_have_a_form():
    assert {"add", "subtract", "multiply", "divide", "power", "exp", "log", "sin", "tanh", "absolute", "maximum", "floor"} <= {r.name for r in PLAIN}


cubed = custom_vjp(lambda x: x**3, lambda g, result, x: 3.0 * x**2 * g)


def newton(x):
    r = x[0]
    while abs(r * r - 2.0) > 1e-9:
        r = r - (r * r - 2.0) / (2.0 * r)
    return r * x[1] ** 3 + np.exp(x[0] / x[1])


def test_guards_on_comparisons_are_compared():
    assert agrees(newton, np.array([1.3, 0.7]))
    tape = value_and_grad(newton).tape(np.array([1.3, 0.7]))
    tape.guards[1].seen, tape.items[3].entry.seen = b"\0", b"\0"
    assert plain_answer(tape) is None


def test_results_that_are_arguments_or_constants():
    assert agrees(lambda x: x, 2.0)
    assert agrees(lambda x, y: x[1] * 1.0, np.arange(3.0), 4.0)
    assert value_and_grad(lambda x: 3.0)(2.0) == (3.0, 0.0)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: np.sum(np.sin(x)),
        lambda x: x[0] * float(len(np.nonzero(x > 0)[0])) * np.sum(x),
        lambda x: sum((x[0] + k for k in range(SHORT)), 0.0),
        lambda x: cubed(x[0]),
        lambda x: np.sum(cubed(x)),
    ],
    ids=["arrays", "host functions", "long", "a primitive of one's own", "one on arrays"],
)
def test_everything_else_is_left_to_the_compiled_sweep(function):
    assert not agrees(function, np.array([0.3, 0.4]))


def test_the_first_gradient_of_a_short_function_loads_no_compiled_code_and_the_next_has_the_same_bits():
    program = """
import sys, numpy as np, tapegrad as tg
def f(x):
    total = x[0]
    for _ in range(100):
        total = np.sin(total) * x[1] if total > 0 else total + 1.0
    return total
g, x = tg.value_and_grad(f), np.array([0.3, 1.2])
first = g(x)
print("llvmlite" in sys.modules, g.stats().records)
again = g(x), g(x), g(x)
print("llvmlite" in sys.modules, g.stats().fallback == "", all(v == first[0] and d.tobytes() == first[1].tobytes() for v, d in again))
"""
    assert fresh(program).split() == "False 1 True True True".split()
