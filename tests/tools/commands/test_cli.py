"""The command line: ``python -m tapegrad``."""

import json
import subprocess
import sys

import pytest

import tapegrad as tg
from tapegrad.__main__ import main


def run(*arguments):
    return subprocess.run([sys.executable, "-m", "tapegrad", *arguments], capture_output=True, text=True)


@pytest.mark.parametrize("arguments", [(), ("--help",)])
def test_help_names_the_commands_and_shows_a_program(arguments):
    ended = run(*arguments)
    assert ended.returncode == 0 and ended.stderr == ""
    for word in ("demo", "compare", "bench", "warm", "clean", "info", "import tapegrad as tg", "backward()"):
        assert word in ended.stdout


def test_the_program_of_the_help_runs(capsys):
    import contextlib

    with contextlib.suppress(SystemExit):
        main(["--help"])
    text = capsys.readouterr().out
    program = text[text.index("    import numpy") : text.index("Every command")]
    exec(compile("\n".join(line[4:] for line in program.splitlines()), "help", "exec"), {})
    assert capsys.readouterr().out.startswith("tensor([")


def test_info_prints_what_tg_info_says(capsys):
    assert main(["info"]) == 0
    printed = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    info = {name: value.strip() for name, value in tg.info().items()}
    # Other processes may write to the same folder meanwhile.
    assert ("on_disk" in printed) == ("on_disk" in info)
    assert {**printed, "on_disk": ""} == {**info, "on_disk": ""}
    assert printed["tapegrad"] == tg.__version__
    assert {"python", "numpy", "numba", "llvmlite", "cpu", "cache_dir"} <= set(printed)


def test_unknown_command():
    ended = run("dance")
    assert ended.returncode == 2
    assert "dance" in ended.stderr


def test_version():
    ended = run("--version")
    assert ended.stdout == f"tapegrad {tg.__version__}\n"


@pytest.mark.parametrize("command", ["demo", "compare", "bench", "warm", "clean", "info", "supported"])
def test_help_of_every_command_has_examples_and_exit_codes(command, capsys):
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    text = capsys.readouterr().out
    assert ended.value.code == 0
    assert f"python -m tapegrad {command}" in text.split("examples:")[1] and "exit code" in text


@pytest.mark.long
def test_demo_fits_the_published_parameters():
    ended = run("demo")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stderr == "" and "\x1b" not in ended.stdout and "\r" not in ended.stdout
    rows = {line.split()[0]: line.split()[1:] for line in ended.stdout.splitlines() if len(line.split()) == 5}
    for name in ("alpha", "beta", "gamma", "delta"):
        fitted, error, published, deviation = map(float, rows[name])
        assert abs(fitted - published) <= deviation and 0.5 * deviation < error < deviation
    assert "forward, dual numbers" in ended.stdout and "reverse, sweep" in ended.stdout


def test_bench_measures_and_checks():
    ended = run("bench", "--seconds", "0.02", "--json", "-")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    found = json.loads(ended.stdout)
    assert len(found) == 3
    for row in found.values():
        assert row["disagreement"] < 1e-4
        assert all(row[k] > 0 for k in ("value", "plain", "sweep", "kernel", "differences"))


def test_bench_prints_a_table_and_fails_where_gradients_disagree(monkeypatch, capsys):
    import numpy as np

    from tapegrad.tools.commands import bench

    monkeypatch.setattr(bench, "functions", lambda: [("cubes", lambda x: np.sum(x**3), np.full(3, 0.7))])
    assert main(["bench", "--seconds", "0.01"]) == 0
    printed = capsys.readouterr().out
    assert "cubes" in printed and "by kernel" in printed
    monkeypatch.setattr(bench, "TOLERANCE", 0.0)
    assert main(["bench", "--seconds", "0.01"]) == 1


def test_a_reader_that_stops_early_is_no_error():
    command = f"{sys.executable} -m tapegrad supported | head -1; echo ${{PIPESTATUS[0]}}"
    ended = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert ended.stderr == "" and ended.stdout.split()[-1] in ("0", "141")


def test_clean_removes_what_is_kept_and_nothing_else(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("TAPEGRAD_CACHE_DIR", str(tmp_path))
    kept, other = tmp_path / "objects" / "3f" / "3f.x.o", tmp_path / "thesis.tex"
    kept.parent.mkdir(parents=True)
    kept.write_bytes(b"12345")
    other.write_text("mine")
    assert main(["clean"]) == 0
    assert capsys.readouterr().out == f"removed 1 files, 5 bytes: {tmp_path}\n"
    assert not kept.exists() and other.read_text() == "mine"
    assert main(["clean"]) == 0 and "removed 0 files" in capsys.readouterr().out
