"""The command line: ``python -m tapegrad``."""

import subprocess
import sys

import pytest

import tapegrad as tg
from tapegrad.__main__ import first_guess, main, misfit, read_pelts


def run(*arguments):
    return subprocess.run([sys.executable, "-m", "tapegrad", *arguments], capture_output=True, text=True)


@pytest.mark.parametrize("arguments", [(), ("--help",)])
def test_help_names_the_commands_and_shows_a_program(arguments):
    ended = run(*arguments)
    assert ended.returncode == 0 and ended.stderr == ""
    for word in ("demo", "info", "import tapegrad as tg", "backward()"):
        assert word in ended.stdout


def test_the_program_of_the_help_runs(capsys):
    import contextlib

    with contextlib.suppress(SystemExit):
        main(["--help"])
    text = capsys.readouterr().out
    program = text[text.index("    import numpy") :]
    exec(compile("\n".join(line[4:] for line in program.splitlines()), "help", "exec"), {})
    assert capsys.readouterr().out.startswith("tensor([")


def test_info_prints_what_tg_info_says(capsys):
    assert main(["info"]) == 0
    printed = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert printed == {name: value.strip() for name, value in tg.info().items()}
    assert printed["tapegrad"] == tg.__version__
    assert {"python", "numpy", "numba", "llvmlite", "cpu", "cache_dir"} <= set(printed)


def test_unknown_command():
    ended = run("dance")
    assert ended.returncode == 2
    assert "dance" in ended.stderr


def test_demo_fits_the_published_parameters():
    ended = run("demo")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "alpha" in ended.stdout and "0.550" in ended.stdout


def test_gradient_of_the_demo_by_differences():
    import numpy as np

    _, hares, lynxes = read_pelts()
    point = first_guess(hares, lynxes)
    theta = tg.tensor(point, requires_grad=True)
    misfit(theta, hares, lynxes).backward()
    for i, h in ((0, 1e-6), (4, 1e-6), (7, 1e-6)):
        step = np.eye(8)[i] * h
        slope = (misfit(point + step, hares, lynxes) - misfit(point - step, hares, lynxes)) / (2 * h)
        assert theta.grad[i].item() == pytest.approx(float(slope), rel=1e-5)
