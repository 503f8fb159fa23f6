"""The public names, and which row is tested in which mode: what is written down of them, so that none is lost.

    python -m tests.frozen.lists

adds what is new to the files (and takes nothing out of them).
"""

import json
from pathlib import Path

import tapegrad as tg
from tapegrad.tools.commands import reference
from tests.matrix import MODES

NAMES = Path(__file__).with_name("names.txt")
MATRIX = Path(__file__).with_name("matrix.json")

#: The matrix counts them as a mode of their own: every example of every row, by kernels.
EVERY_EXAMPLE = "kernel of every example"


def modes():
    return {*MODES, EVERY_EXAMPLE}


def cases(title):
    """``row -> how many cases``, those marked long not counted if there are others."""
    every = title == EVERY_EXAMPLE
    mode = MODES["kernel" if every else title]
    counts = {name: len(mode.cases(name, every)) for name in sorted(mode.rows)}
    return {name: count for name, count in counts.items() if count}


def names():
    """What users may call: everything in the reference, in ``tg.__all__``, and the methods of the classes in it."""
    documented = {f"{title}.{name}" for title, group in reference.public(tg) for name, _ in group}
    classes = {f"tg.{name}": thing for name in tg.__all__ if isinstance(thing := getattr(tg, name), type)}
    methods = {f"{title}.{name}" for title, thing in classes.items() for name in dir(thing) if not name.startswith("_")}
    return documented | methods | {f"tg.{name}" for name in tg.__all__}


def _more(known, present):
    return {row: max(known.get(row, 0), present.get(row, 0)) for row in sorted({*known, *present})}


def write():
    """Add what is new to the files."""
    known = set(NAMES.read_text().split()) if NAMES.exists() else set()
    NAMES.write_text("\n".join(sorted(known | names())) + "\n")
    matrix = json.loads(MATRIX.read_text()) if MATRIX.exists() else {}
    matrix |= {mode: _more(matrix.get(mode, {}), cases(mode)) for mode in sorted(modes())}
    MATRIX.write_text("{\n" + ",\n".join(f"{json.dumps(mode)}: {json.dumps(counts)}" for mode, counts in matrix.items()) + "\n}\n")


if __name__ == "__main__":
    write()
