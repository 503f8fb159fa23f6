"""The committed reference is the one that the docstrings give."""

import subprocess
import sys
from pathlib import Path

import tapegrad
from tapegrad.tools.commands.reference import page, public

COMMITTED = Path(__file__).parents[3] / "docs" / "reference.md"


def test_the_page_is_up_to_date():
    assert page(tapegrad) == COMMITTED.read_text(encoding="utf-8"), "run `python -m tapegrad reference > docs/reference.md`"


def test_every_public_name_is_on_it():
    text = page(tapegrad)
    for title, names in public(tapegrad):
        for name, _ in names:
            assert f"`{title}.{name}(" in text


def test_the_command_prints_it():
    found = subprocess.run([sys.executable, "-m", "tapegrad", "reference"], capture_output=True, text=True, check=True)
    assert found.stdout == page(tapegrad)


def test_help_explains_itself():
    """No public docstring sends its reader to another one for what a parameter is."""
    import re

    import tapegrad as tg

    sent = [name for name in tg.__all__ if re.search(r"^\s+As (?:of )?`\w+`\.?$", getattr(tg, name).__doc__ or "", re.MULTILINE)]
    assert not sent
