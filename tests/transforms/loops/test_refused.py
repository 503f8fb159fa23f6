"""Errors of users in loops and choices: what, which leaf, what to do; and afterwards everything is usable."""

import inspect
import queue
import re
import signal
import time

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.common.errors import OptionError, ShapeError, StructureError, TapegradError

XS = np.array([1.0, 2.0, 3.0])


def by_numbers(f):
    return f(0.5)


def by_gradient(f):
    return tg.grad(lambda t: sum(np.sum(leaf) for leaf in np.atleast_1d(f(t))))(0.5)


def under_jit(f):
    return tg.jit(tg.grad(lambda t: f(t)))(0.5)


everywhere = pytest.mark.parametrize("run", [by_numbers, by_gradient, under_jit])


def scanned(step, init, **options):
    return tg.scan(lambda c, x: (step(c), None), init, XS, **options)[0]


@everywhere
@pytest.mark.parametrize("loop", ["scan", "while_loop", "fori_loop"])
def test_a_carry_of_another_shape(run, loop):
    def f(t):
        init = {"x": [t * np.ones(2), t]}
        body = lambda c: {"x": [t * np.ones((3, 1)), c["x"][1]]}
        if loop == "scan":
            return scanned(body, init)["x"][1]
        if loop == "fori_loop":
            return tg.fori_loop(0, 2, lambda i, c: body(c), init)["x"][1]
        return tg.while_loop(lambda c: True, body, init)["x"][1]

    with pytest.raises(StructureError, match=rf"body of the {loop.replace('_loop', '.loop')}.*\['x'\]\[0\].*\(2,\) float64.*\(3, 1\) float64"):
        run(f)


@everywhere
def test_a_carry_in_another_container(run):
    with pytest.raises(StructureError, match=r"\(\*, \*\).*\[\*, \*\]|\[\*, \*\].*\(\*, \*\)"):
        run(lambda t: scanned(lambda c: [c[0], c[1]], (t, t))[0])
    with pytest.raises(StructureError, match="'?b'?"):
        run(lambda t: tg.while_loop(lambda c: True, lambda c: {"b": c["a"]}, {"a": t})["a"])


@pytest.mark.parametrize("run", [by_gradient, under_jit])
def test_a_carry_of_another_dtype(run):
    with pytest.raises(StructureError, match=r"\['y'\].*\(2,\) float64.*\(2,\) float32"):
        run(lambda t: np.sum(scanned(lambda c: {"y": c["y"].astype(np.float32)}, {"y": t * np.ones(2)})["y"]))


@everywhere
@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda t: tg.scan(lambda c, x: (c, None), t, {"a": np.ones(3), "b": np.ones(4)}), r"\['b'\].* 4 .*3 iterations"),
        (lambda t: tg.scan(lambda c, x: (c, None), t, np.ones(3), length=5), "3 elements.*5 iterations"),
        (lambda t: tg.scan(lambda c, x: (c, None), t), "length="),
        (lambda t: tg.scan(lambda c, x: (c, None), t, (np.ones(3), 2.0)), r"xs\[1\] is a number"),
        (lambda t: tg.map(lambda x: x, t), "is a number"),
        (lambda t: tg.scan(lambda c, x: c, t, np.ones(3)), "a pair"),
        (lambda t: tg.scan(lambda c, x: [c, None], t, np.ones(3)), "a pair"),
        (lambda t: tg.scan(lambda c, x: (c, None, None), t, np.ones(3)), "a pair"),
        (lambda t: tg.switch(0, [], t), "at least one branch"),
        (lambda t: tg.associative_scan(lambda a, b: a, (np.ones(3) * t, np.ones(4))), r"one length.*3, 4"),
        (lambda t: tg.associative_scan(lambda a, b: a[:1], np.ones(6) * t), "shape"),
        (lambda t: tg.associative_scan(lambda a, b: (a, b), np.ones(6) * t), "container"),
    ],
    ids=["lengths", "length", "no length", "a number beside", "map of a number", "no pair", "a list", "three", "no branches", "lengths of elements",
         "elements change their shape", "elements change their container"],
)  # fmt: skip
def test_arguments_that_do_not_fit(run, call, text):
    with pytest.raises(StructureError, match=f"(?s){text}"):
        run(call)


@everywhere
def test_results_of_different_kinds(run):
    def body(c, x):
        c = c + 1.0
        return (c, (c, c)) if c > 2.0 else (c, c)

    with pytest.raises(StructureError, match=r"\(\*, \*\)"):
        run(lambda t: tg.scan(body, t, XS)[0])


@everywhere
@pytest.mark.parametrize(
    "call",
    [lambda t: tg.scan(lambda c, x: (c, None), t, None, length=-1)[0], lambda t: tg.scan(lambda c, x: (c, None), t, None, length=2.5)[0],
     lambda t: tg.fori_loop(0, 2.5, lambda i, c: c, t), lambda t: tg.fori_loop("0", 2, lambda i, c: c, t)],
    ids=["negative", "a float", "a float as bound", "a text"],
)  # fmt: skip
def test_what_is_no_number_of_iterations(run, call):
    with pytest.raises(TapegradError, match="length|upper|lower"):
        run(call)


@pytest.mark.parametrize("run", [by_gradient, under_jit])
def test_branches_that_differ(run):
    with pytest.raises((StructureError, ShapeError), match=r"\(\).*\(2,\)|\(2,\).*\(\)"):
        run(lambda t: np.sum(tg.cond(t > 0.0, lambda t: t, lambda t: t * np.ones(2), t)))
    with pytest.raises((StructureError, ShapeError)):
        run(lambda t: np.sum(tg.switch(t > 5.0, [lambda t: t, lambda t: (t, t)], t)))


def line_of(function, text):
    lines, first = inspect.getsourcelines(function)
    return first + next(k for k, line in enumerate(lines) if text in line)


@pytest.mark.parametrize(
    ("form", "run"),
    # What a choice does to tensors of define-by-run alone is on their tape.
    [("scan", by_gradient), ("while_loop", by_gradient), ("scan", under_jit), ("while_loop", under_jit), ("cond", under_jit)],
)
def test_a_tensor_of_a_body_outside_of_it_is_refused_with_its_line(form, run):
    # In a list it would be seen, and the loop run as the Python loop.
    kept = queue.LifoQueue()

    def body(y):
        kept.put(np.sin(y))  # here
        kept.put(np.sin(y))
        return y * kept.get()

    def f(t):
        if form == "scan":
            y = scanned(body, t)
        elif form == "while_loop":
            y = tg.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, body(s[1])), (0, t))[1]
        else:
            y = tg.cond(t > 0.0, body, lambda y: y, t)
        return y + kept.get()

    with pytest.raises(TapegradError, match=rf"test_refused\.py:{line_of(body, '# here')}\b"):
        run(f)


@pytest.mark.parametrize("run", [by_gradient, under_jit])
def test_too_many_paths_of_a_body_name_the_if_and_the_choice_that_is_one_instruction(run):
    def body(c, k):
        for edge in range(40):
            if k < edge:  # here
                return c * (1.0 + 0.01 * edge), None
        return c, None

    with pytest.raises(TapegradError, match=rf"(?s)test_refused\.py:{line_of(body, '# here')}\b.*tg\.cond"):
        run(lambda t: tg.scan(body, t, np.arange(40.0) - 0.5)[0])


@pytest.mark.parametrize("run", [by_gradient, under_jit])
def test_a_budget_that_cannot_be_met_says_what_is_the_least(run):
    with pytest.raises(OptionError, match=r"memory=1\b.*\d+"):
        run(lambda t: np.sum(tg.scan(lambda c, x: (np.sin(c) * x, None), t * np.ones(100), np.ones(1000), memory=1)[0]))


class Own(Exception):
    pass


@everywhere
@pytest.mark.parametrize("form", ["scan", "while_loop", "fori_loop", "cond", "switch", "map", "associative_scan"])
def test_an_exception_of_the_body_comes_through_from_its_line_and_all_is_usable(run, form):
    def raises(*args):
        raise Own("mine")  # here

    calls = {
        "scan": lambda t: tg.scan(raises, t, XS)[0],
        "while_loop": lambda t: tg.while_loop(lambda y: y < 3.0, raises, t),
        "fori_loop": lambda t: tg.fori_loop(0, 3, raises, t),
        "cond": lambda t: tg.cond(t > 0.0, raises, lambda t: t, t),
        "switch": lambda t: tg.switch(0, [raises, lambda t: t], t),
        "map": lambda t: tg.map(raises, t * XS),
        "associative_scan": lambda t: tg.associative_scan(raises, t * XS),
    }
    for _ in range(2):
        with pytest.raises(Own, match="mine") as caught:
            run(calls[form])
        assert caught.traceback[-1].lineno + 1 == line_of(raises, "# here")
    assert tg.grad(lambda t: tg.scan(lambda c, x: (c * t, None), t, XS)[0])(2.0) == 32.0


@everywhere
def test_a_condition_that_is_no_single_truth(run):
    with pytest.raises((ValueError, TapegradError), match="(?i)truth|single|one"):
        run(lambda t: np.sum(tg.while_loop(lambda c: c < 3.0, lambda c: c + 1.0, t * np.ones(2))))


@pytest.mark.parametrize("run", [by_numbers, by_gradient, under_jit, lambda f: tg.jit(f)(0.5), lambda f: tg.derivative(f)(0.5)],
                         ids=["numbers", "gradient", "jit", "value under jit", "derivative"])  # fmt: skip
def test_a_condition_that_never_ends_is_interrupted(run):
    f = lambda t: tg.while_loop(lambda c: c < 3.0, lambda c: 0.5 * c + 0.1 * t, t)
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    start = time.monotonic()
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(KeyboardInterrupt):
            run(f)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
    assert time.monotonic() - start < 60.0
    root = lambda a: tg.while_loop(lambda x: abs(x * x - a) > 1e-12, lambda x: 0.5 * (x + a / x), a)
    assert tg.grad(root)(4.0) == pytest.approx(0.25, rel=1e-9)
    assert tg.jit(tg.grad(root))(4.0) == pytest.approx(0.25, rel=1e-9)


def test_messages_have_no_braces_left():
    with pytest.raises(StructureError) as caught:
        scanned(lambda c: np.ones(3), np.ones(2))
    assert not re.search(r"[{}]", str(caught.value)) and "carry" in str(caught.value)
