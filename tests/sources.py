"""The sources of the package, each parsed once for the tests of one file."""

import ast
from functools import cache
from pathlib import Path

import tapegrad

PACKAGE = Path(tapegrad.__file__).parent


@cache
def tree_of(path):
    return ast.parse(path.read_text(encoding="utf-8"))
