"""The size of the core, counted: lines with code, and tokens."""

import io
import tokenize
from pathlib import Path

import tapegrad

PACKAGE = Path(tapegrad.__file__).parent
#: Folders, and modules beside them, that are made with the core, and no part of it.
CLIENTS = {"scipy", "optimize", "optim", "nn", "automata", "many", "tools", "pandas", "fits", "interop", "hips", "exporting", "sample", "show"}
#: Files that no program runs.
TEXTS = {".md", ".csv", ".typed", ".pyc"}
_SPACE = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING, tokenize.ENDMARKER,
}  # fmt: skip
_STARTS, _ENDS = ({getattr(tokenize, f"{kind}STRING_{end}", None) for kind in "FT"} for end in ("START", "END"))
_BEGINS = {tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}


def python(text):
    """(lines with code, tokens) of a Python program: without blank lines, comments and docstrings, but with any other text in it."""
    lines, tokens, begins, inside = set(), 0, True, 0
    for token in tokenize.tokenize(io.BytesIO(text).readline):
        if token.type in _SPACE:
            begins = begins or token.type in _BEGINS
            continue
        if not (token.type == tokenize.STRING and begins):
            lines.update(range(token.start[0], token.end[0] + 1))
            # Some Pythons take formatted text apart; it is one token.
            tokens += not inside
            inside += (token.type in _STARTS) - (token.type in _ENDS)
        begins = False
    return len(lines), tokens


def core(package=PACKAGE):
    """(lines, tokens) of the core; of a file in another language its lines that are not blank, and their words."""
    total = [0, 0]
    for path in sorted(package.rglob("*")):
        parts = path.relative_to(package).parts
        if not path.is_file() or parts[0].split(".")[0] in CLIENTS or path.suffix in TEXTS or "__pycache__" in parts:
            continue
        text = path.read_bytes()
        counted = python(text) if path.suffix == ".py" else (sum(map(bool, text.split(b"\n"))), len(text.split()))
        total = [a + b for a, b in zip(total, counted)]
    return tuple(total)
