"""`tg.check`: it passes what is right, and fails, with the place, what is wrong in any one way."""

import importlib.util

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.common.errors import CheckError
from tapegrad.tools.check import COMPOSED

X, Y = np.array([0.5, 1.5, -2.0]), np.array([[2.0], [0.3]])
forward_mode = pytest.mark.skipif(importlib.util.find_spec("tapegrad.transforms.forward") is None, reason="no forward mode yet")


def test_what_is_right_passes_and_prints():
    report = tg.check(lambda x, y: np.sin(x) * y, X, Y)
    assert report.passed and report.gradients[0].shape == (3,) and report.gradients[1].shape == (2, 1)
    lines = str(report).splitlines()
    assert lines[0].split()[:2] == ["check", "compared"]
    assert {line.split()[0] for line in lines[1:]} >= {"value", "reverse"}
    assert all(line.endswith("passed") for line in lines[1:])


def test_nested_results_and_other_arguments():
    def f(x, n, y, how="C"):
        return [np.sum(x) ** n, (np.exp(y), [x * 2])]

    assert len(tg.check(f, X, 3, 0.4).results) == 3
    assert tg.check(f, X, 3, 0.4).passed


@pytest.mark.parametrize("dtype, large", [("d", 1e-5), ("f", 1e-2)])
def test_the_tolerance_follows_the_dtype(dtype, large):
    def off_by(error):
        return tg.custom_vjp(lambda x: x**2, lambda g, r, x: (2 + error) * x * g)

    x = X.astype(dtype)
    assert tg.check(off_by(large / 100), x, modes="reverse").passed
    with pytest.raises(CheckError):
        tg.check(off_by(large), x, modes="reverse")
    assert tg.check(off_by(large), x, modes="reverse", rtol=10 * large).passed


def test_strides_and_float32_are_kept():
    seen = []

    def f(x):
        if isinstance(x, tg.Tensor):
            seen.append((x.dtype, x.detach().numpy().strides))
        return x * 2

    tg.check(f, np.arange(6, dtype="f")[::2], modes=["value", "reverse"])
    assert seen[0] == (np.float32, (8,))


def test_a_wrong_value_is_located():
    with pytest.raises(CheckError, match=r"'value'.*index \(1,\).*differ by 1") as caught:
        tg.check(lambda x: x * 2, X, reference=lambda x: x * 2 + np.array([0.0, 1.0, 0.0]))
    assert isinstance(caught.value, AssertionError)
    assert [c.name for c in caught.value.report.checks if not c.passed] == ["value"]
    with pytest.raises(CheckError, match="shape"):
        tg.check(lambda x: x, X, reference=lambda x: x[:2])
    with pytest.raises(CheckError, match="1 results on tensors, 2"):
        tg.check(lambda x: x, X, reference=lambda x: [x, x])


def test_nan_agrees_with_nan_only():
    assert tg.check(lambda x: [x, np.array(np.nan)], X, modes="value").passed
    with pytest.raises(CheckError, match="nan"):
        tg.check(lambda x: x * np.nan, X, reference=lambda x: x, modes="value")


def test_a_wrong_cotangent_is_located():
    def rule(g, result, x, y):
        wrong = g * y
        wrong[2] *= 1.5
        return wrong, g * x

    f = tg.custom_vjp(lambda x, y: x * y, rule)
    with pytest.raises(CheckError, match=r"'reverse' of .* argument 0, index 2: "):
        tg.check(f, X, X + 3.0)


def test_a_derivative_that_is_not_finite_fails():
    f = tg.custom_vjp(lambda x: x * 2, lambda g, r, x: g * np.nan)
    with pytest.raises(CheckError, match="nan"):
        tg.check(f, X)


def test_a_derivative_lost_on_the_way_fails():
    with pytest.raises(CheckError, match=r"'reverse'.*argument 0: 0 instead of"):
        tg.check(lambda x: tg.stop_gradient(x) * 2, 1.5, modes=["value", "reverse"])
    assert tg.check(lambda x: np.floor(x), 1.5).passed


@forward_mode
def test_a_wrong_tangent_and_modes_that_disagree():
    f = tg.custom_vjp(lambda x: x**2, lambda g, r, x: 2 * x * g)
    f.defjvp(lambda t, r, x: 3 * x * t[0])
    with pytest.raises(CheckError) as caught:
        tg.check(f, X)
    assert [c.name for c in caught.value.report.checks if not c.passed] == ["forward", "transpose", "lanes"]
    assert tg.check(f, X, modes=["value", "reverse"]).passed


def test_seed_and_directions():
    first, again, other = (tg.check(np.sin, X, seed=s, directions=3).gradients[0] for s in (0, 0, 1))
    assert np.array_equal(first, again) and not np.array_equal(first, other)


def test_misuse():
    with pytest.raises(TypeError, match="nothing to differentiate"):
        tg.check(lambda n: n, 3)
    with pytest.raises(ValueError, match="no check 'backward'"):
        tg.check(np.sin, X, modes="backward")


def test_empty_arrays():
    assert tg.check(lambda x: x * 2, np.empty((0, 2))).passed


def test_a_rule_that_keeps_a_value_of_the_recorded_point_fails_in_the_replay():
    kept = []

    @tg.primitive
    def square(x):
        kept.append(np.array(x))
        return x * x

    square.defvjp(lambda g, result, x: 2.0 * kept[0] * g)
    x = np.array([1.0, 2.0])
    assert tg.check(square, x, modes=["value", "reverse"]).passed
    with pytest.raises(CheckError, match="replay"):
        tg.check(lambda x: square(x) * 1.0, x, modes="replay")


def test_kernels_are_compared_with_sweeps():
    report = tg.check(lambda x, y: np.sum(np.sin(x) * y) if y > 0.0 else y, X, 2.0, modes="kernel")
    (only,) = report.checks
    assert only.name == "kernel" and only.passed and not only.remark and only.tolerance > 0.0


def test_a_function_without_kernel_is_said_to_have_none():
    square = tg.custom_vjp(lambda x, *others: x.__array__() ** 2, lambda g, result, x, *others: (2.0 * x * g, *[None] * 20))
    report = tg.check(lambda x: square(x, *[x] * 20), X, modes="kernel")
    (only,) = report.checks
    assert only.passed and only.remark.startswith("no kernel: <lambda> is called with 21 operands") and only.remark in str(report)


def test_a_kernel_that_computes_something_else_fails(monkeypatch):
    from tapegrad.kernel.kernel import TapeKernel
    from tapegrad.transforms.replay.answers import MISS

    run = TapeKernel.answer

    def wrong(self, arguments):
        status, found = run(self, arguments)
        found[-1][1] *= 1.0 + 1e-6
        return status, found

    monkeypatch.setattr(TapeKernel, "answer", wrong)
    monkeypatch.setattr("tapegrad.transforms.replay.function.Replayed.quick", lambda *args: MISS)
    with pytest.raises(CheckError, match="gradient of argument 0 by kernel"):
        tg.check(lambda x: np.sin(x) * x, X, modes="kernel")


def test_second_order():
    x, y = np.array([0.3, 1.2]), 0.7
    report = tg.check(lambda x, y: np.sin(x * y) * x[0], x, y, order=2)
    assert [c.name for c in report.checks][-1] == "second" and report.passed
    assert "second" not in [c.name for c in tg.check(lambda x: x * x, x).checks]
    with pytest.raises(ValueError, match="order"):
        tg.check(lambda x: x * x, x, order=3)


def test_stacks_of_transformations():
    f = lambda x, y: np.sin(x[0] * y) * x[1]  # noqa: E731
    report = tg.check(f, np.array([0.3, 1.2]), 0.7, modes=(), compose=1)
    assert [c.name for c in report.checks] == ["compose"] and report.passed
    assert tg.check(f, np.array([0.3, 1.2], "f"), np.float32(0.7), modes="compose", compose=1).passed
    assert "compose" not in [c.name for c in tg.check(f, np.array([0.3, 1.2]), 0.7, order=2).checks]
    for wrong in (-1, 5, 1.0, True, "2", None):
        with pytest.raises(tg.errors.OptionError, match="compose"):
            tg.check(f, np.array([0.3, 1.2]), 0.7, compose=wrong)


@pytest.mark.long
def test_stacks_of_two():
    for f, *args in ((lambda x: np.sin(x) ** 3, 0.5), (lambda x: tg.scan(lambda c, u: (np.sin(c) * u if u > 0.0 else c * u, None), x[0], x)[0], np.array([0.4, -0.7, 1.1]))):
        assert tg.check(f, *args, modes=(), compose=2).passed


def test_a_stack_is_wrong_where_only_two_together_are(monkeypatch):
    """A derivative under `vmap`, of which every lane is given the first one's."""
    in_lanes = COMPOSED["vmap"]
    monkeypatch.setitem(COMPOSED, "vmap", lambda f, way: (lambda *x: f(*[p + 0.1 * d for p, d in zip(x, way)])) if getattr(f, "derived", False) else in_lanes(f, way))
    through = COMPOSED["grad"]

    def derived(f, way):
        g = through(f, way)
        g.derived = True
        return g

    monkeypatch.setitem(COMPOSED, "grad", derived)
    f, x = lambda x: np.sum(x**3), np.array([0.4, 0.7])
    assert tg.check(f, x, compose=1, modes=()).passed
    with pytest.raises(CheckError, match="vmap of grad"):
        tg.check(f, x, compose=2, modes=())


def test_second_order_finds_a_rule_that_is_right_to_first_order_only():
    """The slope of the rule is kept from its call, through which no second derivative passes."""
    kept = {}

    def value(x):
        kept["slope"] = 3.0 * x**2
        return x**3

    cube = tg.custom_vjp(tg.primitive(value), lambda g, result, x: g * kept["slope"])
    x = np.array([0.3, 1.2])
    tg.check(cube, x, modes=["value", "reverse"])
    with pytest.raises(tg.errors.TapegradError):
        tg.check(cube, x, modes="second")
