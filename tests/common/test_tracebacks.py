"""Printed tracebacks show the user's lines, and nothing of the package's."""

import os
import subprocess
import sys

import pytest

LOSS = "import math, threading, numpy as np, tapegrad as tg\ndef loss(x):\n    return math.sin(x) + 1.0\n"


def printed(program, tmp_path, **environment):
    """What a program that fails writes to standard error."""
    path = tmp_path / "program.py"
    path.write_text(program)
    ended = subprocess.run([sys.executable, str(path)], env=os.environ | {"TAPEGRAD_QUIET": "1"} | environment, capture_output=True, text=True)
    return ended.stderr


def files(text):
    return [line.split('"')[1] for line in text.splitlines() if line.startswith('  File "')]


@pytest.mark.parametrize("call", ["tg.grad(loss)(1.0)", "tg.jit(tg.hessian(loss))(1.0)", "tg.vmap(tg.grad(loss))(np.ones(2))", "tg.scan(lambda c, _: (loss(c), c), tg.tensor(1.0, requires_grad=True), length=3)"])
def test_only_the_lines_of_the_user_are_printed(tmp_path, call):
    text = printed(f"{LOSS}{call}\n", tmp_path)
    assert {os.path.basename(path) for path in files(text)} == {"program.py"} and "return math.sin(x) + 1.0" in text
    assert text.splitlines()[-1].startswith("tapegrad.errors.LeaveTapeError: write np.sin(t) for math.sin(t).")
    assert len(text.splitlines()) <= 12


def test_all_frames_are_there_on_request_and_where_an_exception_is_caught(tmp_path):
    assert any("tapegrad" in path for path in files(printed(f"{LOSS}tg.grad(loss)(1.0)\n", tmp_path, TAPEGRAD_FULL_TRACEBACK="1")))
    caught = f"{LOSS}import traceback\ntry:\n    tg.grad(loss)(1.0)\nexcept TypeError:\n    traceback.print_exc()\n"
    assert any("tapegrad" in path for path in files(printed(caught, tmp_path)))


def test_an_internal_error_keeps_its_frames(tmp_path):
    program = "from tapegrad.common.errors import require\nimport tapegrad\nrequire(False, 'never')\n"
    assert files(printed(program, tmp_path))[-1].endswith("errors.py")


def test_an_exception_of_the_user_and_the_chain_before_it(tmp_path):
    text = printed("import tapegrad as tg\ndef f(x):\n    try:\n        return {}[3] * x\n    except KeyError as error:\n        raise ValueError('no entry') from error\ntg.grad(f)(1.0)\n", tmp_path)
    assert "KeyError: 3" in text and "direct cause" in text and text.splitlines()[-1] == "ValueError: no entry"
    assert {os.path.basename(path) for path in files(text)} == {"program.py"}


def test_in_a_thread(tmp_path):
    text = printed(f"{LOSS}thread = threading.Thread(target=lambda: tg.grad(loss)(1.0))\nthread.start()\nthread.join()\n", tmp_path)
    assert {os.path.basename(path) for path in files(text)} == {"program.py", "threading.py"} and "LeaveTapeError: write np.sin(t)" in text


def test_frames_of_numpy_below_the_line_are_left_out_of_an_error_of_ours(tmp_path):
    text = printed("import numpy as np, tapegrad as tg\ntg.grad(lambda t: np.mean([t, t]))(1.0)\n", tmp_path)
    assert "program.py" in files(text)[-1] and not any(os.sep + "tapegrad" + os.sep in path for path in files(text)) and "write np.mean(tg.array(a))" in text


@pytest.mark.parametrize("call, cause", [
    ("tg.grad(lambda t: np.exp(np.array([t, 1.0])).sum())(1.0)", "TypeError"), ("tg.grad(numba.njit(lambda x: x * x))(1.0)", "NoneType"),
    ("tg.jit(tg.grad(lambda t: np.linalg.cholesky(np.array([[2.0, t], [t, 2.0]])).sum()))(1.0)", "UFuncTypeError"),
    ("tg.njit_grad(numba.njit(lambda x: np.float32(x)))(1.0)", "TypingError"),
])  # fmt: skip
def test_an_error_of_ours_is_printed_alone_with_the_line_of_the_user_and_keeps_its_cause(tmp_path, call, cause):
    start = "import atexit, numba, numpy as np, sys, tapegrad as tg\natexit.register(lambda: print(type(sys.last_value.__cause__).__name__, file=sys.stderr))\n"
    text = printed(f"{start}{call}\n", tmp_path)
    assert text.count("Traceback") == 1 and len(text.splitlines()) < 18 and "program.py" in files(text)[-1], text
    assert text.splitlines()[-1] == cause


def test_what_numpy_says_of_an_assignment_has_our_advice_below_it(tmp_path):
    text = printed("import numpy as np, tapegrad as tg\nx = tg.tensor(1.0, requires_grad=True)\na = np.eye(3)\na[0, 1] = x\n", tmp_path)
    first, last = text.splitlines()[-2:]
    assert first == "ValueError: setting an array element with a sequence." and last.startswith("a is a plain array, which cannot hold it: write a = tg.tensor(a)")


def test_the_debugger_stops_in_the_line_of_the_user(tmp_path):
    ended = subprocess.run(
        [sys.executable, "-u", "-i", "-c", f"{LOSS}tg.grad(loss)(1.0)"], input="import pdb\npdb.pm()\np x.item() + 41\nq\n", capture_output=True, text=True,
        env=os.environ | {"TAPEGRAD_QUIET": "1"},
    )  # fmt: skip
    assert "(3)loss()" in ended.stdout and "42.0" in ended.stdout, ended.stdout + ended.stderr


def test_in_ipython():
    pytest.importorskip("IPython")
    program = "from IPython.core.interactiveshell import InteractiveShell as S; s = S.instance(); s.colors = 'NoColor'\n" + "".join(
        f"s.run_cell({cell!r})\n" for cell in ("import math, tapegrad as tg", "def loss(x):\n    return math.sin(x)", "tg.grad(loss)(1.0)")
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=os.environ | {"TAPEGRAD_QUIET": "1", "NO_COLOR": "1"})
    assert "write np.sin(t) for math.sin(t)" in ended.stdout and "tapegrad/" not in ended.stdout, ended.stdout + ended.stderr
