"""The sources of the package, each parsed once in a session."""

import ast
from functools import cache
from pathlib import Path

import tapegrad

PACKAGE = Path(tapegrad.__file__).parent


@cache
def tree_of(path):
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def nodes_of(path):
    """All nodes of a file."""
    return list(ast.walk(tree_of(path)))
