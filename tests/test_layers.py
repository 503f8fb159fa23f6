"""The plan of the house: every folder says what it is for and what it imports, and every import points downwards.

Seen are imports at any depth: at the top of a file, inside a function, under ``TYPE_CHECKING``; relative and absolute;
``importlib`` and ``sys.modules``; and names taken from `tapegrad` itself.
"""

import ast
import json
import re
from collections import defaultdict
from functools import cache

import pytest

from tapegrad.common.registry import OWNERS, Registry, attach, registry
from tapegrad.common.uninterrupted import imported
from tests.every import every
from tests.sources import PACKAGE, nodes_of, tree_of
from tests.test_import import fresh

#: The folders, from what everybody uses to what one does with it; a folder may import only those before it.
FOLDERS = (
    "common", "rules", "tape", "codegen", "interpreter", "array", "pandas", "numpy_api", "numpy", "autograd", "program", "kernel", "nopython",
    "transforms", "many", "nn", "scipy", "sparse", "optimize", "optim", "automata", "fits", "interop", "exporting", "tools", "hips", "utils",
)  # fmt: skip
#: What stands at the root: it may import everything, and nothing below may import it.
ROOT = "(root)"


def name_of(path):
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def folder_of(module):
    _, *rest = module.split(".")
    return rest[0] if rest and rest[0] in FOLDERS else ROOT


def nearest(name):
    """The module that a dotted name is, or is a part of."""
    while name not in MODULES:
        name = name.rpartition(".")[0]
    return name


def imports_of(module, source=None, is_package=None):
    """Each import of the package's own modules in a file: (module imported, line, whether it is inside a function)."""
    path = MODULES.get(module)
    tree = tree_of(path) if source is None else ast.parse(source)
    is_package = path.name == "__init__.py" if is_package is None else is_package
    package = module if is_package else module.rpartition(".")[0]

    def visit(node, late):
        for child in ast.iter_child_nodes(node):
            inside = late or isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
            if isinstance(child, ast.ImportFrom):
                base = package.split(".")
                start = ".".join(base[: len(base) - child.level + 1]) if child.level else ""
                full = ".".join(filter(None, (start, child.module)))
                if full.split(".")[0] == "tapegrad":
                    yield from ((nearest(f"{full}.{a.name}"), child.lineno, late) for a in child.names)
            elif isinstance(child, ast.Import):
                yield from ((nearest(a.name), child.lineno, late) for a in child.names if a.name.split(".")[0] == "tapegrad")
            elif isinstance(child, ast.Call) and called(child) in ("import_module", "__import__"):
                yield from ((nearest(a.value), child.lineno, late) for a in child.args[:1] if is_own_name(a))
            elif isinstance(child, ast.Subscript) and called(child) == "modules" and is_own_name(child.slice):
                yield nearest(child.slice.value), child.lineno, late
            yield from visit(child, inside)

    return [(target, line, late) for target, line, late in visit(tree, False) if target != module]


def called(node):
    function = node.func if isinstance(node, ast.Call) else node.value
    return getattr(function, "attr", getattr(function, "id", None))


def is_own_name(node):
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.split(".")[0] == "tapegrad"


@cache
def imports():
    """The imports of every module, read once, by the first test that asks: collecting the tests reads nothing."""
    return {module: imports_of(module) for module in MODULES}


def test_the_reader_of_imports_sees_them_all():
    source = """
import tapegrad as tg, numpy
from . import store
from ..rules.table import Row
def f():
    from tapegrad import grad
    from ..kernel import ir
    import importlib, sys
    importlib.import_module("tapegrad.optim.lbfgs")
    sys.modules["tapegrad.nn"]
if TYPE_CHECKING:
    from ..array.tensor import Tensor
class C:
    g = lambda: __import__("tapegrad.sparse.api")
"""
    found = imports_of("tapegrad.tape.place", source, False)
    assert [(target.removeprefix("tapegrad").lstrip("."), late) for target, _, late in found] == [
        ("", False), ("tape.store", False), ("rules.table", False), ("", True), ("kernel.ir", True), ("optim.lbfgs", True), ("nn", True),
        ("array.tensor", False), ("sparse.api", True),
    ]  # fmt: skip


def test_every_folder_has_its_place():
    assert {path.name for path in PACKAGE.iterdir() if path.is_dir() and path.name != "__pycache__"} == set(FOLDERS)


@every("folder", FOLDERS)
def test_a_folder_imports_what_its_charter_says(folder):
    text = ast.get_docstring(tree_of(PACKAGE / folder / "__init__.py"))
    charter, said = text.split("\n\n")[:2]
    assert charter.endswith((".", "`")) and len(charter) > 40, "the first paragraph says what the folder is for"
    said = re.fullmatch(r"Imports: (.+)\.", said.strip()).group(1)
    said = set() if said == "nothing of the package" else set(said.split(", "))
    targets = {folder_of(target) for module in MODULES if folder_of(module) == folder for target, _, _ in imports()[module]}
    assert targets - {folder} == said


def test_every_import_points_downwards():
    height = {folder: k for k, folder in enumerate((*FOLDERS, ROOT))}
    upward = [
        f"{MODULES[module].relative_to(PACKAGE)}:{line} imports {target}"
        for module, found in imports().items() for target, line, _ in found if height[folder_of(target)] > height[folder_of(module)]
    ]  # fmt: skip
    assert not upward


def circles(edges):
    """Sets of modules that can reach each other (Tarjan's algorithm)."""
    number, low, stack, on_stack, found = {}, {}, [], set(), []

    def visit(module):
        number[module] = low[module] = len(number)
        stack.append(module)
        on_stack.add(module)
        for target in edges[module]:
            if target not in number:
                visit(target)
                low[module] = min(low[module], low[target])
            elif target in on_stack:
                low[module] = min(low[module], number[target])
        if low[module] == number[module]:
            circle = set()
            while module not in circle:
                circle.add(stack.pop())
            on_stack.difference_update(circle)
            if len(circle) > 1:
                found.append(sorted(circle))

    for module in list(edges):
        if module not in number:
            visit(module)
    return found


def test_circles_are_found():
    edges = defaultdict(set, {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": set()})
    assert circles(edges) == [["a", "b", "c"]]


def test_no_two_files_import_each_other():
    assert circles({module: {target for target, _, _ in found} for module, found in imports().items()}) == []


def test_an_import_inside_a_function_is_there_because_its_module_is_not_loaded_with_the_package():
    loaded = set(json.loads(fresh("import json, sys, tapegrad; print(json.dumps(sorted(sys.modules)))", TAPEGRAD_NATIVE="never")))
    needless = [
        f"{MODULES[module].relative_to(PACKAGE)}:{line} imports {target}"
        for module, found in imports().items() for target, line, late in found if late and target in loaded
    ]  # fmt: skip
    assert not needless


def test_modules_are_imported_by_a_computed_name_in_one_place_which_refuses_our_own():
    files = {
        module for module, path in MODULES.items()
        for node in nodes_of(path)
        if isinstance(node, ast.Call) and called(node) in ("import_module", "__import__")
    }  # fmt: skip
    assert files == {"tapegrad.common.uninterrupted"}
    with pytest.raises(ValueError, match="one of our own modules"):
        imported("tapegrad.array.tensor")


def test_the_root_has_the_command_line_and_public_names():
    files = sorted(path.name for path in PACKAGE.iterdir() if path.is_file() and path.name != "__init__.py")
    assert len(files) <= 8
    for name in set(files) - {"__main__.py", "py.typed"}:
        statements = tree_of(PACKAGE / name).body
        assert len(statements) == 2 and isinstance(statements[1], ast.ImportFrom), f"{name} is a docstring and one import"


def test_the_registry_is_small_and_each_name_is_set_once_by_its_owner():
    assert len(OWNERS) <= 11
    setters = defaultdict(list)
    for module, path in MODULES.items():
        for node in nodes_of(path):
            for target in node.targets if isinstance(node, ast.Assign) else ():
                if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id in ("registry", "_registry"):
                    setters[target.attr].append(module)
    assert dict(setters) == {name: [owner.home] for name, owner in OWNERS.items()}
    assert all(owner.kind and owner.purpose for owner in OWNERS.values())
    assert all(name in str(registry) for name in OWNERS)


def test_the_registry_refuses_a_second_value_and_unknown_names():
    fresh_one = Registry()
    fresh_one.engine = "first"
    with pytest.raises(AttributeError, match="set already, by tapegrad.autograd"):
        fresh_one.engine = "second"
    with pytest.raises(AttributeError):
        fresh_one.unknown = 1

    class Thing:
        pass

    attach(Thing, {"f": len})
    with pytest.raises(AttributeError, match="Thing.f is attached already"):
        attach(Thing, {"f": min})
