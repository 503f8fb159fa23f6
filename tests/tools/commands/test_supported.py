"""The committed list of supported functions is the one that the tables give."""

import subprocess
import sys
from pathlib import Path

import numpy as np

from tapegrad.rules import BY_NAME, ROWS
from tapegrad.tools.commands.supported import page, zero_derivative

COMMITTED = Path(__file__).parents[2] / "docs" / "supported.md"


def test_the_page_is_up_to_date():
    committed = COMMITTED.read_text(encoding="utf-8")
    if f"with NumPy {'.'.join(np.__version__.split('.')[:2])};" in committed:
        assert page() == committed, "run `python -m tapegrad supported > docs/supported.md`"
    else:
        # Another NumPy has other functions, but says the same of those it shares.
        rows = {line.split("|")[1]: line for line in committed.splitlines() if line.startswith("| `")}
        assert all(rows.get(line.split("|")[1], line) == line for line in page().splitlines() if line.startswith("| `"))


def test_every_row_has_a_line():
    text = page()
    for row in ROWS:
        assert f"| `{row.name}` | {row.doc.replace('|', chr(92) + '|')} |" in text


def test_zero_derivatives():
    assert all(zero_derivative(BY_NAME[name]) for name in ("floor", "ceil", "rint", "trunc", "sign", "floor_divide", "is_less", "is_nan"))
    assert not any(zero_derivative(BY_NAME[name]) for name in ("absolute", "heaviside", "copysign", "sum", "relu"))


def test_command():
    found = subprocess.run([sys.executable, "-m", "tapegrad", "supported"], capture_output=True, text=True, check=True)
    assert found.stdout == page()
