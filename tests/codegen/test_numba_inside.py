"""One file knows what Numba does not promise to keep."""

import ast
import re
import subprocess
import sys
import tomllib

import pytest

from tapegrad.codegen.numba_inside import VERSIONS, check_version
from tapegrad.common.errors import UnsupportedInNumbaError
from tests.sources import PACKAGE, nodes_of

INSIDE = PACKAGE / "codegen" / "numba_inside.py"
#: Modules of Numba that are documented; and of names, those that `numba` itself has and its manual names.
PUBLIC = {"numba", "numba.types", "numba.extending"}
NAMES = {"njit", "prange", "typeof", "cfunc", "carray", "types", "extending", "NumbaError", "TypingError", "__version__", "__file__"}
#: Attributes of dispatchers, of what the compiler makes, and of what it works with, that nothing outside of it is told of.
PRIVATE = {
    "overloads", "get_compile_result", "get_overload", "_compile_for_args", "targetdescr", "targetoptions", "targetctx", "target_context",
    "typing_context", "fndesc", "library", "add_linking_libs", "call_internal", "call_internal_no_propagate", "declare_function",
    "call_function", "return_status_propagate", "create_library", "add_ir_module", "llvm_func_name", "_definitions", "_kws",
    "refresh", "nopython_signatures", "inspect_llvm", "global_compiler_lock", "add_pass_after", "define_nopython_pipeline",
}  # fmt: skip


def uses(nodes):
    """(line, what) of everything in a file that Numba does not document, as it is written."""
    found = []
    for node in nodes:
        if isinstance(node, ast.Import):
            found += [(node.lineno, a.name) for a in node.names if a.name.split(".")[0] == "numba" and a.name not in PUBLIC]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "numba" and not node.level:
            whole = [f"{node.module}.{a.name}" for a in node.names]
            if node.module == "numba":
                found += [(node.lineno, name) for name in whole if name.removeprefix("numba.") not in NAMES]
            elif node.module not in PUBLIC:
                found += [(node.lineno, name) for name in whole]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and re.fullmatch(r"numba(\.\w+)+", node.value):
            found += [(node.lineno, node.value)] if node.value not in PUBLIC else []
        elif isinstance(node, ast.Attribute):
            if node.attr in PRIVATE or isinstance(node.value, ast.Name) and node.value.id == "numba" and node.attr not in NAMES:
                found.append((node.lineno, ast.unparse(node)))
    return found


def test_the_reader_sees_every_way():
    source = """
import numba, numba.types, numba.core.ir
from numba import njit, core
from numba.extending import overload
from numba.np.arrayobj import make_array
imported("numba.core.types"), Lazily("numba"), "numba is fast"
numba.njit, numba.core.types, f.overloads, f.py_func, made.fndesc
def g():
    from numba.core import types
"""
    assert [what for _, what in sorted(uses(ast.walk(ast.parse(source))))] == [
        "numba.core.ir", "numba.core", "numba.np.arrayobj.make_array", "numba.core.types", "f.overloads", "made.fndesc", "numba.core",
        "numba.core.types",
    ]  # fmt: skip


def test_one_file_has_what_numba_does_not_promise_to_keep():
    found = [
        f"{path.relative_to(PACKAGE)}:{line} {what}"
        for path in sorted(PACKAGE.rglob("*.py")) if path != INSIDE
        for line, what in uses(nodes_of(path))
    ]  # fmt: skip
    # A fork holds Numba's lock also where only the user has imported Numba: it is looked for, not imported.
    lock = [place for place in found if place.startswith("common/uninterrupted.py:")]
    assert [place.split()[1] for place in lock] == ["numba.core.compiler_lock", "numba.global_compiler_lock", "numba.global_compiler_lock"][: len(lock)]
    assert [place for place in found if place not in lock] == []


def test_all_that_it_takes_from_numba_is_used():
    tree = ast.parse(INSIDE.read_text(encoding="utf-8"))
    taken = {a.name for node in tree.body if isinstance(node, ast.ImportFrom) and node.module.startswith("numba.") for a in node.names}
    taken |= {node.name for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    for path in PACKAGE.rglob("*.py"):
        froms = [node for node in nodes_of(path) if isinstance(node, ast.ImportFrom) and (node.module or "").endswith("numba_inside")]
        used |= {a.name for node in froms for a in node.names}
        used |= {node.attr for node in nodes_of(path) if isinstance(node, ast.Attribute) and ast.unparse(node.value) in ("inside()", "numba_inside")}
    assert taken - used == set()


@pytest.mark.parametrize("version", ["0.63.1", "0.69.0", "1.0.0rc1"])
def test_another_version_is_refused_with_the_range(version):
    with pytest.raises(UnsupportedInNumbaError, match=rf"Numba 0\.64 to 0\.68; this is {re.escape(version)}: install one of these"):
        check_version(version)


@pytest.mark.parametrize("version", ["0.64.0", "0.68.1", "0.66.0rc1"])
def test_a_version_of_the_range_is_taken(version):
    check_version(version)


def test_another_version_raises_at_first_use_and_again():
    program = """
import numba
numba.__version__ = "0.99.0"
import tapegrad as tg
for _ in range(2):
    try:
        tg.njit_grad(lambda x: x * x)
    except tg.errors.UnsupportedInNumbaError as error:
        print("0.64 to 0.68" in str(error))
"""
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "True\nTrue\n"


def test_the_range_is_said_where_it_is_installed_tested_and_read():
    oldest, newest = VERSIONS
    root = PACKAGE.parent
    wanted = f"numba>={oldest[0]}.{oldest[1]},<{newest[0]}.{newest[1] + 1}"
    assert (root / "pyproject.toml").read_text(encoding="utf-8").count(f'"{wanted}"') == 2
    said = f"Numba {oldest[0]}.{oldest[1]} to {newest[0]}.{newest[1]}"
    assert said in (root / "docs" / "inside_numba.md").read_text(encoding="utf-8")
    tested = (root / ".ci" / "common").read_text(encoding="utf-8")
    between = " ".join(f"{oldest[0]}.{minor}" for minor in range(oldest[1] + 1, newest[1]))
    assert f"oldest=(numba=={oldest[0]}.{oldest[1]}.0 " in tested and f"between=({between})\n" in tested
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for requirement in project["dependencies"]:
        assert f"{re.split('[,<]', requirement)[0].replace('>=', '==')}.0" in tested
    assert project["requires-python"].replace(">=", "oldest_python=python") in tested


def test_the_quick_suite_is_there_and_has_what_is_called_from_nopython_code():
    root = PACKAGE.parent
    quick = [line for line in (root / "tests" / "quick.txt").read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    assert [path for path in quick if not (root / path).exists()] == []
    assert {"tests/codegen", "tests/transforms/test_compiled.py"} <= {*quick}
