"""The rules of CONTRIBUTING.md that a program can check."""

import ast
import collections
import importlib
import re

import pytest

from tests.every import every
from tests.sources import PACKAGE, nodes_of, tree_of

FILES = sorted(PACKAGE.rglob("*.py"))
#: Lines of the longest file of the package.
LONGEST = 600


ROOT = PACKAGE.parent
#: People as agents of code, and words of leaflets: CONTRIBUTING.md says what to write.
NOT_WRITTEN = (
    "somebody nobody whoever whosoever utilize utilise leverage leverages seamless seamlessly effortless effortlessly blazing powerful cutting-edge "
    "thereof therein therewith whereof whereby hereby hitherto whatsoever"
).split() + ["in order to", "please note", "it is important to", "has it so", "no business of"]  # fmt: skip


def test_words_that_are_not_written():
    texts = [*FILES, *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "examples").rglob("*.py")), ROOT / "README.md", ROOT / "CHANGELOG.md"]
    words = re.compile(rf"\b({'|'.join(map(re.escape, NOT_WRITTEN))})\b", re.IGNORECASE)
    lines = ((path, n, line) for path in texts for n, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1))
    assert [f"{path.relative_to(ROOT)}:{n}: {line}" for path, n, line in lines if words.search(line)] == []


@every("path", FILES)
def test_a_module_says_what_it_is_for(path):
    assert len(ast.get_docstring(tree_of(path)) or "") > 20


def test_files_can_be_read_in_one_go():
    long = {str(path.relative_to(PACKAGE)): len(path.read_text(encoding="utf-8").splitlines()) for path in FILES}
    assert {name: count for name, count in long.items() if count > LONGEST} == {}


def test_a_private_name_stays_in_its_file():
    found = []
    for path in FILES:
        for node in nodes_of(path):
            if isinstance(node, ast.ImportFrom) and (node.level or (node.module or "").startswith("tapegrad")):
                found += [f"{path.relative_to(PACKAGE)}:{node.lineno} {a.name}" for a in node.names if a.name.startswith("_") and not a.name.endswith("__")]
    assert not found


def test_a_class_name_has_one_meaning():
    files = collections.defaultdict(set)
    for path in FILES:
        for node in nodes_of(path):
            if isinstance(node, ast.ClassDef):
                files[node.name.lstrip("_")].add(str(path.relative_to(PACKAGE)))
    assert {name: sorted(where) for name, where in files.items() if len(where) > 1} == {}


def test_a_file_imports_at_its_top_what_it_imports_there_and_inside_of_a_function_too():
    found = []
    for path in FILES:
        tree = tree_of(path)
        top = {(n.level, n.module, a.name) for n in tree.body if isinstance(n, ast.ImportFrom) for a in n.names}
        for function in ast.walk(tree):
            if isinstance(function, ast.FunctionDef):
                for n in ast.walk(function):
                    if isinstance(n, ast.ImportFrom):
                        found += [f"{path.relative_to(PACKAGE)}:{n.lineno} {a.name}" for a in n.names if (n.level, n.module, a.name) in top]
    assert not found


def test_an_invariant_is_no_assert():
    """``python -O`` leaves asserts out, and with them what they do and what they guard (`errors.require`)."""
    found = [f"{path.relative_to(PACKAGE)}:{node.lineno}" for path in FILES for node in nodes_of(path) if isinstance(node, ast.Assert)]
    assert not found
    assert not [path for path in FILES if "__debug__" in path.read_text(encoding="utf-8")]


def test_objects_are_read_by_functions_and_not_by_where_something_is_in_them():
    """NumPy has no function for the loops in a ufunc; `codegen.ufuncs` tries each that it takes out."""
    offsets = re.compile(r"from_address\(id\(|\bid\([^()]*\) \+ \w+\)\.value")
    files = {str(path.relative_to(PACKAGE)) for path in FILES if offsets.search(path.read_text(encoding="utf-8"))}
    assert files == {"codegen/ufuncs.py"}


def has_id(node):
    """Whether an expression is an ``id``, or a call or a tuple of one."""
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and (node.func.id == "id" or any(map(has_id, node.args)))
    return isinstance(node, ast.Tuple) and any(map(has_id, node.elts))


def ids_that_stay(source):
    """Lines with an ``id`` in text, but for that of ``__repr__``, or as a key of what stays as long as its module: objects come and go."""
    tree, lines = ast.parse(source), set()
    shown = {part for f in ast.walk(tree) if isinstance(f, ast.FunctionDef) and f.name in ("__repr__", "__missing__") for part in ast.walk(f)}
    stays = {name.id for s in tree.body if isinstance(s, (ast.Assign, ast.AnnAssign)) for name in ast.walk(s) if isinstance(name, ast.Name)}
    stays |= {a.name for s in tree.body if isinstance(s, ast.ImportFrom) for a in s.names if a.name.isupper()}
    for node in ast.walk(tree):
        if isinstance(node, ast.FormattedValue):
            container, keys = None, [node.value] * (node not in shown)
        elif isinstance(node, ast.Subscript):
            container, keys = node.value, [node.slice]
        elif isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.In, ast.NotIn)):
            container, keys = node.comparators[0], [node.left]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            container, keys = node.func.value, node.args
        else:
            continue
        if any(map(has_id, keys)) and (container is None or isinstance(container, ast.Name) and container.id in stays):
            lines.add(node.lineno)
    return lines


def test_no_address_is_a_key_of_what_outlives_the_object():
    source = """
from .watch import EXPOSED
CACHE = {}
def f(x, own):
    CACHE[id(x), 1] = own[id(x)] = f"{id(x)}"
    return CACHE.get((id(x), 2)) or id(x) in EXPOSED
class C:
    def __repr__(self):
        return f"<C at {id(self)}>"
"""
    assert ids_that_stay(source) == {5, 6}
    found = {str(path.relative_to(PACKAGE)) for path in FILES if ids_that_stay(path.read_text(encoding="utf-8"))}
    # An `Exposure` takes itself out of EXPOSED when the array goes.
    assert found == {"tape/watch.py", "array/record.py"}


@pytest.mark.parametrize("name", ["rules.checker", "kernel.agreement", "kernel.compare", "transforms.replay.agreement", "threads"])
def test_asserts_of_what_tests_have_in_common_are_kept_without_debugging(name):
    """`.ci/all` runs some tests under ``python -O``, where only asserts that pytest has rewritten do anything."""
    assert "@pytest_ar" in vars(importlib.import_module(f"tests.{name}"))


def test_no_private_module_of_another_library_is_imported_or_reached():
    private = re.compile(r"^\s*(from (numpy|scipy)[\w.]*\._\w|from (numpy|scipy)[\w.]* import _\w|import (numpy|scipy)[\w.]*\._\w)", re.MULTILINE)
    assert not [str(path.relative_to(PACKAGE)) for path in FILES if private.search(path.read_text(encoding="utf-8"))]
    reached = re.compile(r"(np|numpy|scipy)(\.\w+)*\._(?!_)\w+")
    found = [
        f"{path.relative_to(PACKAGE)}:{node.lineno}"
        for path in FILES
        for node in nodes_of(path)
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and reached.fullmatch(ast.unparse(node))
    ]
    assert not found


def test_ci_finds_the_files_that_need_another_library():
    """`.ci/run` runs them where everything is installed: elsewhere they are skipped, be it for what a test file or a fixture imports."""
    found = re.compile(re.search(r"grep -rlE '(.+?)' tests", (ROOT / ".ci" / "run").read_text(encoding="utf-8"))[1])
    texts = {path.relative_to(ROOT).with_suffix("").as_posix().replace("/", "."): path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py")}
    needs = re.compile(r"^(?:\w+ = )?pytest\.importorskip\(\"(?!numpy)", re.MULTILINE)
    of_others = {name for name, text in texts.items() if needs.search(text)}
    fixture = re.compile(r"^@pytest\.fixture\ndef (\w+)\(.*\n(?:    .*\n)*?    pytest\.importorskip", re.MULTILINE)
    fixtures = {each for name, text in texts.items() if name.endswith("conftest") for each in fixture.findall(text)}
    assert "tests.nn.test_names" in of_others and fixtures == {"picture"}
    asking = re.compile(rf"^def test_\w+\(.*\b({'|'.join(fixtures)})\b", re.MULTILINE)
    for name, text in texts.items():
        if of_others & {*re.findall(r"^from (tests[\w.]*) import", text, re.MULTILINE)} or asking.search(text):
            assert found.search(text), name


def test_nothing_was_left_beside_the_package():
    assert [path.name for path in ROOT.glob("*.py")] == []
