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
        ({"module": "lse", "function": "gradient", "input": {}}, "x"),
        ({"module": "lse", "function": "gradient"}, "NoneType"),
    ],
)
def test_errors_are_answered_and_the_process_goes_on(message, named):
    bad, good = replies({"id": 1, "kind": "evaluate"} | message, {"id": 2, "kind": "start"})
    assert bad["id"] == 1 and bad["success"] is False and named in bad["error"]
    assert good["tool"] == "tapegrad"


def test_lines_that_are_no_messages():
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
