"""The paragraphs of docs/errors.md, by the class of error that they explain.

The page is in the package beside this file (in the repository a link to docs/), so an installed wheel
explains its errors by itself.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path

_PAGE = Path(__file__).with_name("errors.md")


@functools.cache
def sections() -> dict[str, str]:
    """Heading -> text, of the page; what stands before the first class is that of their base."""
    text = _PAGE.read_text(encoding="utf-8")
    text = re.sub(r"^## .*\n+", "", text, flags=re.MULTILINE)
    first, *others = re.split(r"^### (\w+)\n", text, flags=re.MULTILINE)
    return {"TapegradError": first.strip(), **{name: f"### {name}\n{body}".strip() for name, body in zip(others[::2], others[1::2])}}
