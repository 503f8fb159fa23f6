"""The README's program prints what the README shows, and what it leads to is there."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")


PROGRAMS = re.findall(r"```python\n(.*?)```\n\n```\n(.*?)```", TEXT, re.DOTALL)


def test_every_program_has_its_output():
    assert len(PROGRAMS) == TEXT.count("```python") == 2


@pytest.mark.parametrize("program, shown", PROGRAMS, ids=["first", "ways"])
def test_the_programs_print_what_is_shown(program, shown):
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == shown


def test_everything_it_leads_to_exists():
    names = re.findall(r"\]\(([\w./]+\.(?:md|png))\)", TEXT) + [f"examples/{name}" for name in re.findall(r"`(\w+\.py)`", TEXT)]
    assert len(names) >= 15
    for name in names:
        assert (ROOT / name).exists(), name


def test_the_commands_that_are_named_exist():
    for module in set(re.findall(r"python -m (\w+)", TEXT)):
        assert module in ("pytest", "tapegrad", "benchmarks")
