"""The paragraphs of docs/errors.md by the class of error they explain: ``python -m tapegrad explain``.

The page is in the package as data/errors.md (in the repository a link to docs/), so an installed wheel
explains its errors by itself.
"""

from __future__ import annotations

import difflib
import functools
import re
from pathlib import Path

from ...common import errors

_PAGE = Path(__file__).parents[1] / "data" / "errors.md"


@functools.cache
def _sections() -> dict[str, str]:
    """Heading -> text, of the page; what stands before the first class is that of their base."""
    text = _PAGE.read_text(encoding="utf-8")
    text = re.sub(r"^## .*\n+", "", text, flags=re.MULTILINE)
    first, *others = re.split(r"^### (\w+)\n", text, flags=re.MULTILINE)
    return {"TapegradError": first.strip(), **{name: f"### {name}\n{body}".strip() for name, body in zip(others[::2], others[1::2])}}


def names() -> list[str]:
    """All classes that are explained."""
    return list(_sections())


def explanation(name: str) -> str:
    """What the page says of a class of errors.

    Parameters
    ----------
    name : str
        Upper and lower case, and ``Error`` at its end, do not matter.

    Returns
    -------
    str
        Markdown.

    Raises
    ------
    OptionError
        There is no such class; lists those that look like it, or all.

    Examples
    --------
    >>> from tapegrad.tools.commands.explanations import explanation
    >>> explanation("guard").splitlines()[0]
    '### GuardError'
    """
    known = {heading.lower().removesuffix("error"): heading for heading in _sections()}
    asked = name.rpartition(".")[2].lower().removesuffix("error")
    if asked not in known:
        close = [known[k] for k in difflib.get_close_matches(asked, known, cutoff=0.5)]
        raise errors.OptionError(f"{name!r} is no class of errors of tapegrad; {'perhaps ' if close else ''}{', '.join(close or names())}")
    return _sections()[known[asked]]
