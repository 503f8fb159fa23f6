"""Loops in tapes that are kept: saved and loaded, called in many threads, and from nopython code."""

import os
import pickle
import subprocess
import sys

import numba
import numpy as np
import pytest

import tapegrad as tg
from tapegrad.common.errors import GuardError, UnsupportedFunctionError
from tests.threads import in_threads
from tests.transforms.loops import plainly
from tests.transforms.loops.cases import CASES, of

EXACT = dict(rtol=1e-12, atol=1e-12)

#: At another point these take another number of iterations, or another of the branches that the instruction holds.
OTHER_TURNS = (
    "while_that_grows", "while_of_newton", "while_of_a_falling_body", "choice_by_a_number", "choice_of_containers",
    "choice_without_operands", "while_in_scan_in_choice", "choice_in_scan", "fori_in_while",
)  # fmt: skip
SAME_TURNS = ("scan_of_a_vector", "scan_of_a_dict", "scan_backwards", "scan_with_integers_and_truths", "fori_of_a_tuple", "switch_by_a_carry",
              "map_of_containers", "associative_recurrence", "scan_in_scan")  # fmt: skip


def expected(name, p):
    return of(name, plainly)(p), tg.grad(of(name, plainly))(p)


@pytest.mark.parametrize("name", CASES)
def test_saved_and_loaded(name, tmp_path):
    p = CASES[name].point
    tape = tg.value_and_grad(of(name, tg)).tape(p)
    tape.save(tmp_path / "f.npz")
    for loaded in (tg.load_tape(tmp_path / "f.npz"), pickle.loads(pickle.dumps(tape))):
        value, slope = loaded.value_and_grad(p)
        np.testing.assert_allclose(value, expected(name, p)[0], **EXACT)
        np.testing.assert_allclose(slope, expected(name, p)[1], **EXACT)
        assert str(loaded).count("\n") == str(tape).count("\n")


@pytest.mark.parametrize("name", [*SAME_TURNS, *OTHER_TURNS])
def test_a_loaded_tape_takes_as_many_turns_as_there_are(name, tmp_path):
    tg.value_and_grad(of(name, tg)).tape(CASES[name].point).save(tmp_path / "f.npz")
    loaded = tg.load_tape(tmp_path / "f.npz")
    for p in (CASES[name].other, CASES[name].point):
        value, slope = loaded.value_and_grad(p)
        np.testing.assert_allclose(value, expected(name, p)[0], **EXACT)
        np.testing.assert_allclose(slope, expected(name, p)[1], **EXACT)


def test_loaded_by_another_process(tmp_path):
    p = CASES["scan_of_a_dict"].point
    tg.value_and_grad(of("scan_of_a_dict", tg)).tape(p).save(tmp_path / "f.npz")
    program = f"import tapegrad as tg, numpy as np\nv, g = tg.load_tape({str(tmp_path / 'f.npz')!r}).value_and_grad(np.array({p.tolist()}))\nprint(repr(float(v)), repr(g.tolist()))"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}, timeout=120)
    assert ended.returncode == 0, ended.stderr
    value, slope = ended.stdout.split(" ", 1)
    np.testing.assert_allclose(float(value), expected("scan_of_a_dict", p)[0], **EXACT)
    np.testing.assert_allclose(np.fromstring(slope.strip("[]\n"), sep=","), expected("scan_of_a_dict", p)[1], **EXACT)


@pytest.mark.parametrize("name", [
    "scan_of_a_dict", "scan_with_a_branch", "while_that_grows", pytest.param("while_in_scan_in_choice", marks=pytest.mark.long),
    "map_of_containers",
])  # fmt: skip
def test_in_eight_threads(name):
    points = [w * CASES[name].point + (1.0 - w) * CASES[name].other for w in np.linspace(0.0, 1.0, 5)]
    wanted = [expected(name, p) for p in points]
    f = of(name, tg)
    together = tg.jit(tg.value_and_grad(f))

    def work(thread):
        for k in np.random.default_rng(thread).permutation(10) % 5:
            for call in (together, tg.value_and_grad(f)):
                value, slope = call(points[k])
                np.testing.assert_allclose(value, wanted[k][0], **EXACT)
                np.testing.assert_allclose(slope, wanted[k][1], **EXACT)

    in_threads(work, 8)


@numba.njit
def along(c, points, gradients):
    values = np.empty(len(points))
    for i in range(len(points)):
        values[i] = c(points[i], gradients[i])
    return values


@numba.njit(parallel=True)
def side_by_side(c, points, gradients):
    values = np.empty(len(points))
    for i in numba.prange(len(points)):
        values[i] = c(points[i], gradients[i])
    return values


def called(name, loops, kernel):
    points = np.array([CASES[name].point, CASES[name].other, CASES[name].point])
    wanted = [expected(name, p) for p in points]
    c = tg.compile(of(name, tg), points[0], kernel=kernel)
    assert c.not_lowered == ""
    for loop in loops:
        gradients = np.full(points.shape, np.nan)
        np.testing.assert_allclose(loop(c, points, gradients), [value for value, _ in wanted], **EXACT)
        np.testing.assert_allclose(gradients, [slope for _, slope in wanted], **EXACT)
        c.check()


@pytest.mark.parametrize("name", [*SAME_TURNS, *OTHER_TURNS])
def test_from_nopython_code(name):
    called(name, (along, side_by_side), None)


def test_from_nopython_code_by_sweeps():
    called("associative_recurrence", (along,), "never")


@pytest.mark.parametrize("name", [name for name in (*SAME_TURNS, *OTHER_TURNS) if name != "associative_recurrence"])
def test_without_a_kernel_nopython_code_runs_no_loop(name):
    with pytest.raises(UnsupportedFunctionError, match="loop"):
        called(name, (along,), "never")


def test_data_of_a_compiled_loop():
    def f(ops):
        return lambda p, xs, scale: np.sum(ops.scan(lambda h, x: (np.tanh(h * p[:3] + x * scale), None), p[3:], xs)[0])

    rng = np.random.default_rng(0)
    c = tg.compile(f(tg), np.zeros(6), data=(np.zeros((5, 3)), 1.0))
    for _ in range(3):
        p, xs, scale, g = rng.normal(size=6), rng.normal(size=(5, 3)), rng.normal(), np.empty(6)
        assert c(p, g, xs, scale) == pytest.approx(f(plainly)(p, xs, scale), rel=1e-12)
        np.testing.assert_allclose(g, tg.grad(f(plainly))(p, xs, scale), **EXACT)


def test_a_new_path_in_nopython_code_is_an_error():
    def f(p):
        return tg.scan(lambda y, x: (y * p[1] if y * x < 5.0 else np.sin(y), None), p[0], np.ones(4))[0]

    c = tg.compile(f, np.array([0.4, 0.9]))
    gradients = np.zeros(2)
    with pytest.raises(GuardError):
        c(np.array([7.0, 0.9]), gradients)
    assert np.isnan(gradients).all()
    assert c(np.array([0.4, 0.9]), gradients) == pytest.approx(0.4 * 0.9**4, rel=1e-14)
    np.testing.assert_allclose(gradients, [0.9**4, 4 * 0.4 * 0.9**3], **EXACT)


@pytest.mark.parametrize("name", ["scan_of_a_dict", "while_of_newton", "scan_with_a_branch", "while_in_scan_in_choice"])
def test_under_checkpoint(name):
    f = of(name, tg)
    for p in (CASES[name].point, CASES[name].other):
        slope = expected(name, p)[1]
        for g in (tg.grad(tg.checkpoint(f)), tg.jit(tg.grad(tg.checkpoint(f)))):
            np.testing.assert_allclose(g(p), slope, **EXACT)
        np.testing.assert_allclose(tg.jvp(tg.checkpoint(f), (p,), (np.ones(len(p)),))[1], slope.sum(), **EXACT)


@pytest.mark.parametrize("memory", [2_000, 100_000])
def test_a_budget_of_memory_changes_no_derivative(memory):
    xs = np.sin(np.arange(300.0))

    def f(p):
        y, _ = tg.scan(lambda y, x: (y + 0.01 * np.sin(y * p[1]) * x, None), p[0], xs, memory=memory)
        return tg.while_loop(lambda s: s[0] < 3.0, lambda s: (s[0] + 0.02, np.sin(s[1]) + 0.3 * p[0]), (p[1], y), memory=memory)[1]

    def plain(p):
        y, _ = plainly.scan(lambda y, x: (y + 0.01 * np.sin(y * p[1]) * x, None), p[0], xs)
        return plainly.while_loop(lambda s: s[0] < 3.0, lambda s: (s[0] + 0.02, np.sin(s[1]) + 0.3 * p[0]), (p[1], y))[1]

    p = np.array([0.4, 0.9])
    expected = tg.grad(plain)(p)
    np.testing.assert_allclose(tg.grad(f)(p), expected, **EXACT)
    g = tg.jit(tg.grad(f))
    for _ in range(3):
        np.testing.assert_allclose(g(p), expected, **EXACT)
    np.testing.assert_allclose(tg.jacfwd(f)(p), expected, **EXACT)


@pytest.mark.parametrize("iterations", [1, 2, 7, 300, 9000])
def test_every_budget_gives_the_same_bits(iterations):
    """All carries kept; all of the last iterations, and some of the first; none at all."""
    xs = np.sin(np.arange(float(iterations)))

    def gradient(memory):
        def f(p):
            body = lambda c, x: ((c[0] + 0.01 * np.sin(c[1]) * x, c[1] * 0.999 + 0.001 * c[0]), c[0] * x)
            (y, z), ys = tg.scan(body, (p[0], p[1]), xs, memory=memory)
            return y + z + 0.01 * np.sum(ys)

        return tg.grad(f)(np.array([0.7, 1.3]))

    expected = gradient(None)
    for memory in (32, 48, 100, 500, 2000, 8000, 60_000, 140_000):
        np.testing.assert_array_equal(gradient(memory), expected)
