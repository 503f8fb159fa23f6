"""The page of `tg.show`: data and four files of this folder in one HTML file, which needs nothing else."""

from __future__ import annotations

import json
import os
import re
import zlib
from base64 import b64encode
from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import Any

from .program import program


class Page:
    """A page that `tg.show` has made; a notebook shows it in the cell.

    Attributes
    ----------
    html : str
        The whole file.
    data : dict
        What is on it.
    """

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data
        parts = {"TITLE": escape(data["title"]), "DATA": b64encode(zlib.compress(json.dumps(data, allow_nan=False).encode())).decode()}
        self.html = re.sub("%(.+?)%", lambda part: parts.get(part[1]) or _file(part[1]), _file("page.html"))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the file."""
        Path(path).write_text(self.html, encoding="utf-8")

    def __repr__(self) -> str:
        count = sum(not row["guard"] for row in self.data["rows"])
        return f"Page({self.data['title']}: {count} instructions; page.save('sweep.html') and open it, or look at it in a notebook)"

    def _repr_html_(self) -> str:
        return f'<iframe srcdoc="{escape(self.html)}" style="width:100%;height:640px;border:0" title="{escape(self.data["title"])}"></iframe>'


def _file(name):
    return (Path(__file__).parent / name).read_text(encoding="utf-8")


def show(
    f: Callable[..., Any], *args: Any, path: str | os.PathLike[str] | None = None, output: int | None = None, direction: Any = None, replay: Any = None
) -> Page:
    """Show a sweep step by step in both modes: source, tape and graph.

    Parameters
    ----------
    f : callable
        Run once, at `args`. It may be a transformation: ``tg.show(tg.grad(f), x)`` shows the tape of the gradient.
    *args
        The point; floats and arrays of floats are differentiated.
    path : path-like, optional
        Where to write the page. In a notebook the page is shown in the cell.
    output : int, optional
        Which number of the results reverse mode starts from, counted through all of them; needed if there are several.
    direction : array_like or sequence of them, optional
        Tangents of the arguments in forward mode; by default one for the first number, and zero for the others.
    replay : tuple, optional
        Other arguments, at which the recording is replayed up to the first decision that comes out differently.

    Returns
    -------
    Page
        Has `save`, `html` and `data`.

    Raises
    ------
    NonScalarOutputError
        If `f` returns several numbers, and `output` does not say which.
    OptionError
        If there is no such output, or there are more than 100 000 instructions.
    StructureError
        If no argument is a number, or no result depends on one.
    SeedShapeError
        If `direction` does not have the shapes of the arguments.

    Notes
    -----
    The page is one file that needs no network. Loops of this library (`scan`, `vmap`, ...) run in Python; iterations with the same
    instructions form one box, which opens.  Beside each other both modes count their operations as `compare` does: operations on
    tangents or adjoints, one for each element of an instruction and each seed; those of the evaluation are the same in both.

    Examples
    --------
    >>> import numpy as np, tapegrad as tg
    >>> page = tg.show(lambda x, y: np.sin(x) * y + x, 0.5, 2.0)
    >>> page
    Page(<lambda> at 0.5, 2.0: 5 instructions; page.save('sweep.html') and open it, or look at it in a notebook)
    """
    page = Page(program(f, args, output, direction, replay))
    if path is not None:
        page.save(path)
    return page
