"""Who runs the derivative rules of rows: the table of executors in CONTRIBUTING.md, held to what the code says."""

import ast
import re

from tests.sources import PACKAGE, tree_of

#: What a row says of its derivative, and the three methods that ask it.
RULES = {"partials", "vjp", "jvp", "forward", "contributions", "tangent", "computed"}
#: How a row is called where it is asked.
ROWS = {"row", "function"}


def last(node):
    """The last word of a dotted name."""
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", None)


def readers():
    """``file: function`` of every function outside of `rules/` that reads a rule of a row."""
    found = set()
    for path in PACKAGE.rglob("*.py"):
        file = path.relative_to(PACKAGE).as_posix()
        if file.startswith("rules/"):
            continue

        def visit(node, name, file=file):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                name = f"{name}.{node.name}" if name else node.name
            if isinstance(node, ast.Attribute) and node.attr in RULES and last(node.value) in ROWS:
                found.add(f"{file}: {name}")
            for child in ast.iter_child_nodes(node):
                visit(child, name)

        visit(tree_of(path), "")
    return found


def table():
    """Rows of the table: what it is, and the functions."""
    text = (PACKAGE.parent / "CONTRIBUTING.md").read_text()
    (lines,) = re.findall(r"\| executor \|.*?\n\|[-| ]+\n((?:\|.*\n)+)", text)
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines.splitlines()]


def test_every_reader_of_a_rule_is_in_the_table():
    listed = [name for row in table() for name in re.findall(r"`([^`]+: [^`]+)`", row[1])]
    assert len(listed) == len(set(listed))
    assert set(listed) == readers()


def test_there_are_few_executors_of_derivatives():
    assert sum(row[0].startswith("D") for row in table()) <= 7
