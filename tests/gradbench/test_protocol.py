"""The tool process of GradBench: messages in, messages out."""

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.gradbench import protocol

ROOT = Path(__file__).parents[2]


def replies(*messages):
    out = io.StringIO()
    protocol.serve([m if isinstance(m, str) else json.dumps(m) for m in messages], out)
    return [json.loads(line) for line in out.getvalue().splitlines()]


def test_start_define_and_anything_else():
    start, known, unknown, other = replies(
        {"id": 0, "kind": "start"}, {"id": 1, "kind": "define", "module": "hello"},
        {"id": 2, "kind": "define", "module": "protocol"}, {"id": 3, "kind": "analysis", "of": 2},
    )  # fmt: skip
    assert start == {"id": 0, "tool": "tapegrad"}
    assert known == {"id": 1, "success": True}
    assert unknown["success"] is False and "hello" in unknown["error"]
    assert other == {"id": 3}


def test_an_evaluation_is_timed_once_a_run():
    given = {"x": [0.0, 0.0, 1.0], "min_runs": 7, "min_seconds": 0.01}
    (reply,) = replies({"id": 5, "kind": "evaluate", "module": "lse", "function": "gradient", "input": given})
    assert reply["success"] is True
    assert sum(reply["output"]) == pytest.approx(1.0)
    assert len(reply["timings"]) >= 7
    assert sum(t["nanoseconds"] for t in reply["timings"]) >= 1e7
    assert {t["name"] for t in reply["timings"]} == {"evaluate"}


@pytest.mark.parametrize(
    ("message", "named"),
    [
        ({"module": "nothing", "function": "f", "input": 1}, "nothing"),
        ({"module": "hello", "function": "cube", "input": 1}, "cube"),
        ({"module": "lse", "function": "gradient", "input": {"x": "words"}}, "words"),
        ({"module": "lse", "function": "gradient", "input": {}}, "the input has no x"),
        ({"module": "lse", "function": "gradient"}, "the input is None: it must be an object with x"),
        ({"module": ["hello"], "function": "square", "input": 1}, "['hello']"),
        ({"module": "__init__", "function": "square", "input": 1}, "__init__"),
        ({"module": "hello", "function": {}, "input": 1}, "{}"),
        ({"module": "hello", "function": "square", "input": {"x": 1}}, "the input is {'x': 1}: it must be a number"),
        ({"module": "hello", "function": "square", "input": None}, "the input is None: it must be a number"),
        ({"module": "lse", "function": "gradient", "input": {"x": []}}, "x has shape (0,): it must be one or more"),
        ({"module": "lse", "function": "gradient", "input": {"x": [[1.0], [2.0, 3.0]]}}, "inhomogeneous"),
        ({"module": "lse", "function": "gradient", "input": {"x": [[1.0]]}}, "x is [[1.0]]: it must be numbers, one or more"),
        ({"module": "lse", "function": "gradient", "input": {"x": 1.0}}, "x is 1.0: it must be numbers"),
        ({"module": "lse", "function": "gradient", "input": {"x": ["1.0"]}}, "x is ['1.0']"),
        ({"module": "lse", "function": "gradient", "input": {"x": [None]}}, "x is [None]"),
        ({"module": "lse", "function": "gradient", "input": {"x": [True]}}, "x is [True]"),
        ({"module": "lse", "function": "gradient", "input": {"x": [10**400]}}, "too large"),
        ({"module": "hello", "function": "square", "input": "3"}, "the input is '3'"),
        ({"module": "hello", "function": "square", "input": True}, "the input is True"),
        ({"module": "hello", "function": "square", "input": "long" * 99}, "..."),
        ({"module": "llsq", "function": "gradient", "input": {"x": [1.0], "n": 2.5}}, "n is 2.5: it must be an integer"),
        ({"module": "llsq", "function": "gradient", "input": {"x": [1.0], "n": 1}}, "n is 1"),
        ({"module": "ode", "function": "primal", "input": {"x": [1.0], "s": 0}}, "s is 0"),
        ({"module": "ba", "function": "jacobian", "input": {"n": 1, "m": 1, "p": 1, "cam": [0.0]}}, "cam has shape (1,)"),
        ({"module": "ba", "function": "jacobian", "input": {"n": 1, "m": 1, "p": -1}}, "p is -1"),
        ({"module": "lse", "function": "gradient", "input": {"x": [1.0], "min_runs": None}}, "min_runs is None"),
        ({"module": "lse", "function": "gradient", "input": {"x": [1.0], "min_runs": "3"}}, "min_runs is '3'"),
        ({"module": "lse", "function": "gradient", "input": {"x": [1.0], "min_seconds": float("nan")}}, "min_seconds is nan"),
        ({"module": "lse", "function": "gradient", "input": {"x": [1.0], "min_seconds": float("inf")}}, "min_seconds is inf"),
        ({"module": "llsq", "function": "gradient", "input": {"x": [1.0] * 4096, "n": 10**15}}, "allocate"),
        ({"module": "lse", "function": "gradient", "input": {"x": [float("nan"), 1.0]}}, "NaN and infinity"),
        ({"module": "hello", "function": "square", "input": 1e308}, "NaN and infinity"),
        ({"module": "gmm", "function": "jacobian", "input": {"d": 2, "k": 1, "n": 1, "q": [1.0]}}, "the input has no mu"),
    ],
)
def test_errors_are_answered_and_the_process_goes_on(message, named):
    bad, good = replies({"id": 1, "kind": "evaluate"} | message, {"id": 2, "kind": "start"})
    assert bad["id"] == 1 and bad["success"] is False and named in bad["error"]
    assert good["tool"] == "tapegrad"


@pytest.mark.parametrize("mark", ["one", None, -3, 1.5, [1, {"a": None}], True])
def test_ids_come_back_as_they_were(mark):
    for message in ({"kind": "start"}, {"kind": "define", "module": "x"}, {"kind": "evaluate"}, {"kind": None}, {}):
        (reply,) = replies({"id": mark} | message)
        assert reply["id"] == mark and type(reply["id"]) is type(mark)


def test_an_id_that_is_no_json_is_not_sent():
    for kind in ("start", "evaluate", "other"):
        (reply,) = replies({"id": float("nan"), "kind": kind})
        assert reply["id"] is None and reply["success"] is False


def test_answers_are_json_by_the_standard():
    out = io.StringIO()
    protocol.serve([json.dumps({"id": 1, "kind": "evaluate", "module": "hello", "function": "square", "input": float("inf")})], out)
    refused = json.loads(out.getvalue(), parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert refused["success"] is False


def test_many_short_runs_take_no_longer_than_asked(monkeypatch):
    """The clock is a counter here: each run takes 1 us, and what is done between runs does not grow with their number."""
    ticks = iter(range(0, 10**12, 1000))
    monkeypatch.setattr(protocol.time, "perf_counter_ns", lambda: next(ticks))
    found = protocol.evaluate("lse", "primal", {"x": [0.5], "min_seconds": 0.1, "min_runs": 3})
    assert len(found["timings"]) == 100_000 and all(t["nanoseconds"] == 1000 for t in found["timings"])
    for given, count in (({"min_runs": 3}, 3), ({"min_runs": 0}, 1), ({"min_runs": -2, "min_seconds": -1.0}, 1), ({"min_seconds": 0}, 1)):
        assert len(protocol.evaluate("lse", "primal", {"x": [0.5]} | given)["timings"]) == count


def test_conversion_is_not_timed(monkeypatch):
    order = []
    monkeypatch.setattr(protocol.time, "perf_counter_ns", lambda: order.append("clock") or len(order))
    functions = protocol.module("hello").FUNCTIONS
    prepare = lambda given: (order.append("prepared"), (lambda: order.append("work"), lambda found: order.append("converted")))[1]
    monkeypatch.setitem(functions, "recorded", prepare)
    protocol.evaluate("hello", "recorded", {"min_runs": 2})
    assert order == ["prepared", *["clock", "work", "clock"] * 2, "converted"]


def test_another_module_is_one_file(tmp_path, monkeypatch):
    (tmp_path / "cubes.py").write_text(
        "import tapegrad as tg\n"
        "def objective(x): return x * x * x\n"
        "gradient = tg.grad(objective)\n"
        "FUNCTIONS = {'gradient': lambda given: (lambda: gradient(float(given['x'])), float)}\n"
    )
    (tmp_path / "broken.py").write_text("import there_is_no_such_thing\n")
    monkeypatch.setattr(protocol.modules, "__path__", [*protocol.modules.__path__, str(tmp_path)])
    evaluation = {"id": 2, "kind": "evaluate", "module": "cubes", "function": "gradient", "input": {"x": 2.0, "min_runs": 2}}
    defined, found, broken, old = replies(
        {"id": 1, "kind": "define", "module": "cubes"}, evaluation, {"id": 3, "kind": "define", "module": "broken"},
        {"id": 4, "kind": "define", "module": "gmm"},
    )  # fmt: skip
    assert defined == {"id": 1, "success": True} and old == {"id": 4, "success": True}
    assert found["output"] == 12.0 and len(found["timings"]) == 2
    assert broken["success"] is False and "there_is_no_such_thing" in broken["error"]


def test_lines_that_are_no_messages():
    deep, long = "[" * 100_000, '{"id": ' + "9" * 10_000 + "}"
    *odd, good = replies(deep, long, '"text"', "null", "", "  ", '{"id": 1, "kind": "sta', {"id": 2, "kind": "start"})
    assert [reply["id"] for reply in odd] == [None] * 5 and [reply.get("success") for reply in odd] == [False, False, None, None, False]
    assert good == {"id": 2, "tool": "tapegrad"}
    broken, listed, good = replies("{not json", "[1, 2]", {"id": 2, "kind": "start"})
    assert broken["success"] is False and "id" in broken
    assert listed == {"id": None}
    assert good["tool"] == "tapegrad"


def test_the_process_leaves_at_the_end_of_input():
    lines = [
        {"id": 0, "kind": "start"},
        {"id": 1, "kind": "evaluate", "module": "hello", "function": "double", "input": 1.5},
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    ended = subprocess.run(
        [sys.executable, "-m", "benchmarks.gradbench"], input=text, capture_output=True, text=True, cwd=ROOT, timeout=120
    )
    assert ended.returncode == 0, ended.stderr
    first, second = map(json.loads, ended.stdout.splitlines())
    assert first["tool"] == "tapegrad"
    assert second["output"] == 3.0


def test_bytes_that_are_no_text_prints_and_a_last_line_that_is_cut_short(tmp_path):
    """What a module prints does not come between the answers."""
    (tmp_path / "loud.py").write_text(
        "import os, sys\nprint('hello')\n"
        "FUNCTIONS = {'f': lambda given: (lambda: print('run') or os.write(1, b'below\\n'), lambda found: 1),\n"
        "             'leave': lambda given: (lambda: sys.exit('left'), lambda found: 1)}\n"
    )
    program = (
        "import sys; from benchmarks.gradbench import modules, __main__ as tool; "
        f"modules.__path__.append({str(tmp_path)!r}); sys.exit(tool.main())"
    )
    text = b'\xff\xfe{"id"\n{"id": "\xc3\xa9", "kind": "start"}\n{"id": 3, "kind": "evaluate", "module": "loud", "function": "f"}\n'
    text += b'{"id": 5, "kind": "evaluate", "module": "loud", "function": "leave"}\n{"id": 4, "ki'
    ended = subprocess.run([sys.executable, "-c", program], input=text, capture_output=True, cwd=ROOT, timeout=120)
    assert ended.returncode == 0, ended.stderr
    first, second, third, left, last = map(json.loads, ended.stdout.splitlines())
    assert first["success"] is False and last["success"] is False
    assert second == {"id": "\u00e9", "tool": "tapegrad"} and third["output"] == 1
    assert left["id"] == 5 and left["success"] is False and left["error"].startswith("SystemExit: left")
    assert sorted(ended.stderr.split()) == [b"below", b"hello", b"run"]


def test_nobody_reads_the_answers():
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.gradbench"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT
    )
    process.stdout.close()
    line = json.dumps({"id": 0, "kind": "start"}) + "\n"
    try:
        process.stdin.write(line.encode() * 3)
        process.stdin.close()
    except BrokenPipeError:
        pass
    assert process.stderr.read() == b"" and process.wait(60) == 1
    process.stderr.close()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the limit is set on Linux")
def test_an_input_larger_than_the_memory_is_an_error():
    # 32 TB are never there; the memory of the machine is the limit, not the addresses that there are.
    given = {"n": 1, "m": 1, "p": 4 * 10**12, "cam": [1.0] * 11, "x": [1.0] * 3, "w": 1.0, "feat": [1.0] * 2}
    lines = [{"id": 1, "kind": "evaluate", "module": "ba", "function": "jacobian", "input": given}, {"id": 2, "kind": "start"}]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    program = (
        "import resource, sys; from benchmarks.gradbench import __main__ as tool; code = tool.main(); "
        "print(resource.getrlimit(resource.RLIMIT_AS)[0], file=sys.stderr); sys.exit(code)"
    )
    ended = subprocess.run([sys.executable, "-c", program], input=text, capture_output=True, text=True, cwd=ROOT, timeout=120)
    assert ended.returncode == 0, ended.stderr
    first, second = map(json.loads, ended.stdout.splitlines())
    assert first["id"] == 1 and first["success"] is False and "MemoryError" in first["error"]
    assert second == {"id": 2, "tool": "tapegrad"}
    assert 2**30 < int(ended.stderr) < 2**44
