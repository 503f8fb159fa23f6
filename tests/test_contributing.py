"""The worked examples of CONTRIBUTING.md run, and what it names exists."""

import re
import subprocess
import sys
from pathlib import Path

import tapegrad
from tests.test_layers import FOLDERS

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def test_the_whole_programs_print_what_is_shown():
    programs = re.findall(r"```python\n(import.*?)```\n\n```\n(.*?)```", TEXT, re.DOTALL)
    assert len(programs) == 2
    for program, shown in programs:
        # In a process of its own: a row stays in the table.
        ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        assert ended.returncode == 0, ended.stderr
        assert ended.stdout == shown


def test_files_that_are_named_exist():
    named = set(re.findall(r"`((?:[\w.]+/)+(?:\w+\.\w+)?)`", TEXT))
    assert len(named) >= 8
    for name in named:
        assert (ROOT / name).exists() or (Path(tapegrad.__file__).parent / name).exists(), name


def test_the_map_has_every_folder_in_the_order_of_the_layers():
    cells = re.findall(r"^\| ((?:`\w+/`(?:, )?)+) \|", TEXT, re.MULTILINE)
    assert [name for cell in cells for name in re.findall(r"`(\w+)/`", cell)] == list(FOLDERS)
