"""`g.profile`: what it counts is counted again here; seconds are only added up."""

import numpy as np
import pytest

import tapegrad as tg
from tests.every import every

RNG = np.random.default_rng(0)
MATRIX = RNG.normal(size=(40, 40))


@tg.primitive
def cubed(x):
    return np.asarray(x) ** 3


cubed.defvjp(lambda g, ans, x: 3.0 * g * x**2)


def arrays(x):
    y = np.exp(x)
    z = y @ MATRIX
    return np.sum(np.tanh(z) * 2.0) + np.sum(np.sort(x))


def numbers(x):
    total = 0.0
    for k in range(50):
        r = x[0] * np.exp(-x[1] * 0.1 * k) - 0.3
        if r > 0.0:
            total = total + r * r
        else:
            total = total - r
    return total


def in_python(x):
    return np.sum(cubed(x)) + np.sum(np.sin(x))


def scanned(x):
    return np.sum(tg.scan(lambda y, t: (np.sin(y) + t * x, None), x, np.arange(20.0))[0])


PROGRAMS = {"arrays": (arrays, RNG.normal(size=40)), "numbers": (numbers, np.array([2.0, 1.0])), "in_python": (in_python, np.ones(5)), "scanned": (scanned, np.ones(3))}
TRANSFORMED = {
    "grad": tg.grad, "jit of value_and_grad": lambda f: tg.jit(tg.value_and_grad(f)), "jit": tg.jit, "hessian": tg.hessian,
    "jit of vmap": lambda f: tg.jit(tg.vmap(f)), "jacfwd": lambda f: tg.jacfwd(lambda x: f(x) * x),
}  # fmt: skip


@every("name, how", [(name, how) for name in PROGRAMS for how in TRANSFORMED])
def test_seconds_of_lines_are_those_of_the_call_and_nothing_is_changed(name, how, monkeypatch):
    monkeypatch.setattr("tapegrad.tools.profiling._PATIENCE", 0.02)
    f, x = PROGRAMS[name]
    g, x = TRANSFORMED[how](f), np.stack([x, 0.5 * x]) if how == "jit of vmap" else x
    before = g(x)
    report = g.profile(x)
    np.testing.assert_allclose(sum(line.seconds for line in report.lines), report.seconds, rtol=1e-9)
    assert report.lines == sorted(report.lines, key=lambda line: -line.seconds)
    assert (report.kernel is None) == bool(report.no_kernel)
    for one, two in zip(tg.tree.leaves(g(x)), tg.tree.leaves(before), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-13)


def by_text(report):
    return {line.text: line for line in report.lines if line.number}


def test_instructions_and_bytes_by_line(monkeypatch):
    monkeypatch.setattr("tapegrad.tools.profiling._PATIENCE", 0.02)
    lines = by_text(tg.grad(arrays).profile(PROGRAMS["arrays"][1]))
    assert {text: line.instructions for text, line in lines.items()} == {
        "y = np.exp(x)": 1, "z = y @ MATRIX": 1, "return np.sum(np.tanh(z) * 2.0) + np.sum(np.sort(x))": 7,
    }  # fmt: skip
    # The way back reads the exponentials, what `tanh` is of, and where the sorted stand.
    assert [line.nbytes for line in sorted(lines.values(), key=lambda line: line.number)] == [320, 320, 320 + 3 * 32]
    assert all(line.backward == 0.0 for line in by_text(tg.jit(arrays).profile(PROGRAMS["arrays"][1])).values())


def test_shares_of_the_kernel_and_guards_that_were_missed(monkeypatch):
    monkeypatch.setattr("tapegrad.tools.profiling._PATIENCE", 0.02)
    g = tg.jit(tg.value_and_grad(numbers))
    for x in ([2.0, 1.0], [0.1, 1.0], [2.0, 1.0]):
        g(np.array(x))
    report = g.profile(np.array([2.0, 1.0]))
    lines = by_text(report)
    assert [text for text, line in lines.items() if line.missed] == ["if r > 0.0:"] and report.records == 2
    assert lines["r = x[0] * np.exp(-x[1] * 0.1 * k) - 0.3"].in_kernel > 0.3
    assert 0.9 < sum(line.in_kernel for line in report.lines) <= 1.0 + 1e-9
    assert sum(share for share, _ in report.loops) > 0.5 and "iterations of what lines" in str(report)


def test_what_has_no_kernel_says_why(monkeypatch):
    monkeypatch.setattr("tapegrad.tools.profiling._PATIENCE", 0.02)
    def select(x, k):
        return np.sum(x * np.select([k == j for j in range(10)], [k * j for j in range(10)]))

    report = tg.grad(select).profile(np.ones(9), np.arange(9))
    assert report.kernel is None and "20 operands" in report.no_kernel and f"no kernel: {report.no_kernel}" in str(report)


def test_the_table_and_the_source():
    report = tg.grad(arrays).profile(PROGRAMS["arrays"][1])
    first, _, head, heaviest, *_ = str(report).splitlines()
    assert first.startswith("arrays: ") and "us by the interpreter" in first
    assert head.split() == ["line", "time", "us", "forward", "back", "instructions", "kept", "kernel", "missed"]
    assert report.lines[0].text in heaviest
    html = report._repr_html_()
    assert "test_profiling.py" in html and "y = np.exp(x)" in html and "rgba(255, 120, 0" in html


def test_wrong_arguments_are_refused_as_by_a_call():
    with pytest.raises(TypeError, match="numbers"):
        tg.grad(numbers).profile(np.ones(2), 3.0)


@pytest.mark.parametrize("how", ["hessian", "jacfwd"])
def test_a_derivative_stands_where_what_it_belongs_to_was_called(how):
    """What a rule records belongs to the line of the operation, not to the one that asks for the derivative."""
    report = TRANSFORMED[how](numbers).profile(np.array([2.0, 1.0]))
    first = numbers.__code__.co_firstlineno
    share = {line.number: line.seconds / report.seconds for line in report.lines}
    assert sum(v for line, v in share.items() if first <= line <= first + 8) > 0.8
