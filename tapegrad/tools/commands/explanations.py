"""The explanation of a class of errors by any spelling of its name: ``python -m tapegrad explain``."""

import difflib

from ...common import errors
from ...common.errors import sections


def names() -> list[str]:
    """All classes that are explained."""
    return list(sections())


def explanation(name: str) -> str:
    """The page's explanation of a class of errors.

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
        There is no such class; names those that look like it.

    Examples
    --------
    >>> from tapegrad.tools.commands.explanations import explanation
    >>> explanation("guard").splitlines()[0]
    '### GuardError'
    """
    headings = {heading.lower().removesuffix("error"): heading for heading in sections()}
    asked = name.rpartition(".")[2].lower().removesuffix("error")
    if asked not in headings:
        close = [headings[k] for k in difflib.get_close_matches(asked, headings, cutoff=0.5)]
        meant = f"; did you mean {' or '.join(close)}?" if close else ";"
        raise errors.OptionError(f"{name!r} is not an error class of tapegrad{meant} python -m tapegrad explain lists all")
    return sections()[headings[asked]]
