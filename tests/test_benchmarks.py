"""The command ``python -m benchmarks``, on benchmarks made for the purpose: they miss, disagree, break, hang."""

import importlib.util
import json
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from benchmarks import compile_helpers, optimisation, plots, registry, report
from benchmarks.registry import Disagreement, Missing, Row, check_agreement, each, ratio
from benchmarks.timing import Time

ROOT = Path(__file__).parents[1]
HEAD = """
import os, subprocess, sys, time
from .registry import Row, benchmark, check_agreement, each, peer, ratio
from .timing import Time, of

def good(what="a promise"):
    yield Row(what, "at most twice", 1.5, 2.0)

"""
FAKES = {
    "held": """
@benchmark(name="held")
def held(quick):
    '''All is well.'''
    times = {"tapegrad": of([3e-6, 4e-6]), "by hand": of([2e-6, 2e-6])}
    yield ratio("beside by hand", "at most twice", 2.0, times, "by hand", quick=quick)
    yield Row("threads", measured=float(os.environ["OMP_NUM_THREADS"]), unit="")
""",
    "missed": """
@benchmark(name="missed")
def missed(quick):
    yield from good()
    yield Row("too | slow", "at most twice", 2.5, 2.0)
    yield Row("no number", "at most twice", float("nan"), 2.0)
""",
    "absent": """
@benchmark(name="absent")
def absent(quick):
    yield from good()
    peer("there_is_no_such_library")
""",
    "disagreeing": """
def first():
    check_agreement("sums", {"JAX": [1.0, 2.0], "tapegrad": [1.0, 2.1]})
    yield Row("never", measured=1.0)

@benchmark(name="disagreeing")
def disagreeing(quick):
    yield from each(("one", first), ("other", good))
""",
    "broken": """
@benchmark(name="broken")
def broken(quick):
    yield from good()
    raise RuntimeError("first line\\nsecond line")
""",
    "crashing": """
@benchmark(name="crashing")
def crashing(quick):
    yield from good()
    os.abort()
""",
    "hanging": """
@benchmark(name="hanging")
def hanging(quick):
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    yield Row("child", measured=float(child.pid), unit="")
    time.sleep(600)
""",
    "unloadable": "import there_is_no_such_thing\n",
}


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A tree with the package's own parts and the benchmarks above."""
    root = tmp_path_factory.mktemp("project")
    package = root / "benchmarks"
    package.mkdir()
    for name in ("__init__", "__main__", "machine", "plots", "registry", "report", "timing"):
        shutil.copy(ROOT / "benchmarks" / f"{name}.py", package)
    text = (package / "registry.py").read_text(encoding="utf-8")
    text, count = re.subn(r"^MODULES = \(.*?^\)$", f"MODULES = {tuple(FAKES)!r}", text, flags=re.DOTALL | re.MULTILINE)
    assert count == 1
    (package / "registry.py").write_text(text, encoding="utf-8")
    for name, body in FAKES.items():
        (package / f"{name}.py").write_text(HEAD + body, encoding="utf-8")
    return root


def start(project, *arguments):
    # The tree's own package is first on the path; tapegrad itself is not needed.
    command = [sys.executable, "-m", "benchmarks", *arguments]
    return subprocess.Popen(command, cwd=project, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run(project, *arguments):
    process = start(project, *arguments)
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


def test_promises_that_hold(project):
    code, out, _ = run(project, "held")
    assert code == 0
    assert "PASS  beside by hand: 1.5x  (limit <= 2x)\n        promise: at most twice\n" in out
    assert "tapegrad 3 us (median 4 us), by hand 2 us (median 2 us), quick False" in out
    assert "info  threads: 1\n" in out and "1 promises held, 0 missed, 0 rows skipped, 0 broken" in out
    assert out.startswith("processor ") and "numpy " in out.partition("\n")[0]


def test_a_promise_that_is_missed(project):
    code, out, _ = run(project, "missed", "held")
    assert code == 1
    assert "FAIL  too | slow: 2.5x" in out and "FAIL  no number: nanx" in out
    assert "2 promises held, 2 missed" in out and "  missed: too | slow: 2.5x (limit <= 2x)" in out


def test_a_library_that_is_not_there(project):
    code, out, _ = run(project, "absent")
    assert code == 0
    assert "PASS  a promise" in out and "SKIP  absent: there_is_no_such_library is not installed" in out
    assert "  skipped: there_is_no_such_library is not installed" in out


def test_libraries_that_disagree(project):
    code, out, _ = run(project, "disagreeing")
    assert code == 2
    assert "FAIL  one: the libraries disagree: sums: JAX and tapegrad differ by 0.1, at a size of 2" in out
    assert "PASS  a promise" in out and "never" not in out
    assert "  broken: one: the libraries disagree" in out


@pytest.mark.parametrize(
    ("name", "said"),
    [("broken", "RuntimeError: first line"), ("crashing", f"the process ended with code -{int(signal.SIGABRT)}"),
     ("unloadable", "ModuleNotFoundError: No module named 'there_is_no_such_thing'")],
)  # fmt: skip
def test_what_breaks_does_not_take_the_others_along(project, name, said):
    code, out, _ = run(project, name, "held")
    assert code == 2
    assert f"ERROR {said}\n" in out and f"  broken: {name}: {said}\n" in out
    assert "PASS  beside by hand" in out
    assert ("PASS  a promise" in out) == (name != "unloadable")


def alive(pid):
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    except FileNotFoundError:
        return False


def gone(pid):
    """Whether a process ends within some seconds."""
    until = time.monotonic() + 20
    while alive(pid) and time.monotonic() < until:
        time.sleep(0.05)
    return not alive(pid)


needs_proc = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")


@pytest.mark.long
@needs_proc
def test_what_hangs_is_stopped_with_all_it_started(project):
    code, out, _ = run(project, "hanging", "held", "--patience", "8")
    assert code == 2
    assert "  ERROR not done after 8 s, and stopped" in out and "PASS  beside by hand" in out
    assert gone(int(re.search(r"info  child: (\d+)", out).group(1)))


@needs_proc
@pytest.mark.parametrize(("number", "expected"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupted(project, number, expected, tmp_path, interruptible):
    process = start(project, "held", "hanging", "missed", "--output", str(tmp_path))
    line = ""
    while line.strip() != "hanging":
        line = process.stdout.readline()
        assert line or process.poll() is None
    # The benchmark is there once it has started its child.
    until, children = time.monotonic() + 60, []
    while not children and time.monotonic() < until:
        for pid in workers(process.pid):
            children = workers(pid)
        time.sleep(0.05)
    process.send_signal(number)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == expected
    assert children and all(map(gone, children))
    if number == signal.SIGINT:
        assert "ERROR interrupted" in out and "1 promises held" in out and "too | slow" not in out
        page = (tmp_path / "RESULTS.md").read_text(encoding="utf-8")
        assert "beside by hand" in page and "**Broken:** interrupted" in page and "## missed" not in page


def workers(pid):
    """The children of a process."""
    try:
        return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()]
    except FileNotFoundError:
        return []


def test_what_is_written(project, tmp_path):
    folder = tmp_path / "new" / "folder"
    code, _, _ = run(project, "held", "missed", "absent", "broken", "--quick", "--output", str(folder))
    assert code == 2
    page = (folder / "RESULTS.md").read_text(encoding="utf-8")
    assert "Written by `python -m benchmarks --quick held missed absent broken` on 20" in page
    assert "| beside by hand | at most twice (<= 2x) | 1.5x | PASS |" in page
    assert "| too \\| slow | at most twice (<= 2x) | 2.5x | FAIL |" in page
    assert "| absent |  | there_is_no_such_library is not installed | SKIP |" in page
    assert "| held: beside by hand | by hand | 1.5x |" in page, "where another is faster"
    assert "**Broken:** RuntimeError: first line" in page and "| python | " in page
    assert ("(peers.png)" in page) == (folder / "peers.png").exists() == (importlib.util.find_spec("matplotlib") is not None)
    data = report.read((folder / "results.json").read_text(encoding="utf-8"))
    assert report.markdown(data) == page
    assert [section.name for section in data.sections] == ["held", "missed", "absent", "broken"]
    assert not (project / "benchmarks" / "results").exists(), "a partial run writes nothing else"


def test_wrong_arguments(project, tmp_path):
    code, _, err = run(project, "held", "nonsense")
    assert code == 2 and "no benchmark is called nonsense; there are held, missed" in err
    file = tmp_path / "file"
    file.write_text("", encoding="utf-8")
    for folder in (file, file / "below"):
        code, out, err = run(project, "held", "--output", str(folder))
        assert code == 2 and f"cannot write to {folder}: " in err and "held" not in out
    code, _, err = run(project, "held", "--patience", "0")
    assert code == 2 and "--patience" in err
    code, out, _ = run(project, "--help")
    assert code == 0 and "--quick" in out and "held, missed" in out


# -- rows ------------------------------------------------------------------------------------
def test_status():
    assert Row("a", measured=1.0, limit=1.0).status == "PASS"
    assert Row("a", measured=1.1, limit=1.0).status == Row("a", measured=float("nan"), limit=1.0).status == "FAIL"
    assert Row("a", measured=1.1).status == "info" and Row("a", limit=1.0, skip="no").status == "SKIP"
    assert Row("a", error="crashed").status == "FAIL"


def test_rows_as_data():
    row = Row("a", "b", 1.0, 2.0, "s", {"c": 1}, times={"tapegrad": Time(1e-6, 2e-6, 5), "JAX": Time(1e-7, 2e-7, 5)})
    assert Row.of_dict(json.loads(json.dumps(row.as_dict()))) == row
    assert row.beside() == pytest.approx({"JAX": 10.0})
    ours = {"tapegrad, one way": Time(4.0, 4.0, 1), "tapegrad, another": Time(2.0, 2.0, 1), "JAX": Time(8.0, 8.0, 1)}
    assert Row("a", times=ours).beside() == {"JAX": 0.25}
    assert ratio("a", "b", 1.0, {"tapegrad": Time(1.0, 1.0, 1), "x": Time(2.0, 2.0, 1)}, "x").measured == 0.5


def test_agreement():
    check_agreement("a", {"one": [1.0, 2.0], "other": [1.0, 2.0 + 1e-12]})
    for other in ([1.0, 2.0 + 1e-6], [1.0], [1.0, float("nan")]):
        with pytest.raises(Disagreement, match="a: "):
            check_agreement("a", {"one": [1.0, 2.0], "other": other})


def test_one_case_after_another(capsys):
    def missing():
        raise Missing("JAX is not installed")
        yield

    def broken():
        yield Row("before", measured=1.0)
        raise ValueError("no")

    rows = list(each(("a", missing), ("b", broken), ("c", lambda: [Row("after", measured=1.0)])))
    assert [(row.what, row.status) for row in rows] == [("a", "SKIP"), ("before", "info"), ("b", "FAIL"), ("after", "info")]
    assert rows[2].error == "ValueError: no" and "Traceback" in capsys.readouterr().err


def test_competitors_of_an_optimisation(monkeypatch):
    monkeypatch.setattr(optimisation, "WARMING", (0.0, 1))
    solution = np.zeros(2)
    solver = lambda found: lambda: lambda: found

    def missing():
        raise Missing("JAX is not installed")

    ours = {"tapegrad, compiled loop": solver(solution), "tapegrad, SciPy's L-BFGS-B": solver(solution)}
    rows = list(optimisation.rows("p", {**ours, "JAX": missing, "JAX, arrays": missing}, solution, 3.0, 1))
    assert [row.status for row in rows] == ["SKIP"] * 3
    rows = list(optimisation.rows("p", {**ours, "CasADi": solver(solution), "CasADi, arrays": solver(solution)}, solution, 3.0, 1))
    assert [row.limit for row in rows] == [1 / 3, 1.0, None] * 2 and all(row.measured > 0.0 for row in rows)
    assert set(rows[0].times) == {*ours, "CasADi", "CasADi, arrays"} and rows[0].detail == {"fastest other": "CasADi"}
    with pytest.raises(Disagreement, match="CasADi ends 0.1 from the solution"):
        list(optimisation.rows("p", {**ours, "CasADi": solver(solution + 0.1)}, solution, 3.0, 1))


def test_numbers_as_text():
    text = report.number_text
    assert [text(0.106, "x"), text(1140.0, "MB"), text(0.00279, "s"), text(12.0, "s"), text(0.54, "")] == [
        "0.106x", "1140 MB", "2.79 ms", "12 s", "0.54",
    ]  # fmt: skip


def test_pictures(tmp_path):
    pytest.importorskip("matplotlib")
    rows = [Row("a, beside JAX", times={"tapegrad": Time(1.0, 1.0, 1), "JAX": Time(2.0, 2.0, 1)}), Row("b", measured=1.0)]
    assert plots.peers([report.Section("s", "", rows)], tmp_path / "peers.png") == "peers.png"
    assert (tmp_path / "peers.png").stat().st_size > 1000
    assert plots.peers([report.Section("s", "", rows[1:])], tmp_path / "none.png").startswith("none: ")
    names = {"JAX + SciPy": "JAX", "SciPy, differences": "SciPy", "CasADi in place": "CasADi", "new": "new"}
    assert {name: plots.library(name) for name in names} == names


def test_every_benchmark_has_a_summary_and_its_module_says_what_it_measures():
    for name in registry.MODULES:
        bench = registry.load(name)
        module = sys.modules[bench.function.__module__]
        assert bench.name == name and len(bench.summary) > 20
        assert len(module.__doc__) > 60, name


@pytest.mark.long
def test_what_a_compiled_function_costs_is_told_by_stage(capsys):
    compile_helpers.main(["tapegrad.codegen.python_api"])
    head, everything, *rows = capsys.readouterr().out.splitlines()
    assert head.split() == ["seconds", *compile_helpers.KINDS] and everything.endswith("all of them")
    costs = {row.split()[-1]: [float(cost) for cost in row.split()[:-1]] for row in rows}
    assert {"tapegrad.codegen.python_api.data_address", "tapegrad.codegen.python_api.address_of"} <= costs.keys()
    total, reading, typing, lowering, optimise, in_llvm = costs["tapegrad.codegen.python_api.data_address"]
    assert min(typing, lowering, in_llvm) > 0.0 and optimise <= in_llvm and total == pytest.approx(reading + typing + lowering + in_llvm, abs=0.005)
