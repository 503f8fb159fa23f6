"""What is assumed of CPython's bytecode, seen against the syntax trees of modules of the standard library: a new CPython fails here by name."""

import argparse
import ast
import concurrent.futures.process
import contextlib
import copy
import dis
import functools
import inspect
import json.decoder
import shutil
import subprocess
import tarfile
import tempfile
import types
from pathlib import Path

import tapegrad
from tapegrad.program import handlers
from tapegrad.tape.places import running_text
from tapegrad.transforms.environment import names_of

MODULES = (argparse, concurrent.futures.process, contextlib, copy, json.decoder, shutil, subprocess, tarfile, tempfile)
FILES = [*[Path(inspect.getsourcefile(m)) for m in MODULES], *sorted(Path(tapegrad.__file__).parent.rglob("*.py"))[::8]]


class _Run(ast.NodeTransformer):
    """Leaves of a module what its code does: no annotations."""

    def visit_AnnAssign(self, node):
        return ast.copy_location(ast.Assign([node.target], self.visit(node.value)), node) if node.value else ast.Pass()

    def visit_arg(self, node):
        node.annotation = None
        return node

    def visit_FunctionDef(self, node):
        node.returns = None
        return self.generic_visit(node)

    visit_AsyncFunctionDef = visit_FunctionDef


@functools.cache
def read(path):
    """The syntax tree of a file, and its code."""
    tree = _Run().visit(ast.parse(path.read_text(encoding="utf-8")))
    return tree, compile(ast.unparse(tree), str(path), "exec", dont_inherit=True)


def codes(code):
    """A code object, and all in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from codes(constant)


def test_every_name_that_code_reads_is_found():
    wrong = {}
    for path in FILES:
        tree, code = read(path)
        variables, attributes, imported = map(set, names_of(code))
        nodes = list(ast.walk(tree))
        # (Names with two lines in front are changed inside of classes.)
        named = {n.attr for n in nodes if isinstance(n, ast.Attribute) and not (n.attr.startswith("__") and not n.attr.endswith("__"))}
        modules = {a.name for n in nodes if isinstance(n, ast.Import) for a in n.names} | {n.module or "" for n in nodes if isinstance(n, ast.ImportFrom)}
        taken = {a.name for n in nodes if isinstance(n, ast.ImportFrom) for a in n.names} - {"*"}
        at_top = {n.name for n in tree.body if isinstance(n, (ast.FunctionDef, ast.ClassDef))}
        missed = (named | taken) - attributes, modules - imported, at_top - variables
        if any(missed):
            wrong[path.name] = missed
    assert wrong == {}


def dotted(node):
    """Names of classes in a handler: of ``(A, b.C)`` both; of what is computed ("...",)."""
    if isinstance(node, ast.Tuple):
        return {name for part in node.elts for name in dotted(part)}
    try:
        names = ast.unparse(node).split(".")
    except ValueError:
        names = ["..."]
    return {tuple(names) if all(map(str.isidentifier, names)) else ("...",)}


def test_every_handler_is_read_with_the_classes_that_it_catches(monkeypatch):
    asked = set()
    monkeypatch.setattr(handlers, "_resolved", lambda frame, name: asked.add(name))
    monkeypatch.setattr(handlers, "_could_catch", lambda classes: False)
    monkeypatch.setattr(handlers, "_raises_again", lambda instructions, position: None)
    wrong, all_of_them = {}, 0
    for path in FILES:
        tree, code = read(path)
        asked.clear()
        bare = 0
        for each in codes(code):
            instructions, entries = handlers._looked_at(each)
            targets = {target for *_, target in entries}
            bare += sum(handlers._handler(None, instructions, handlers._at(instructions, target))[0] == "except:" for target in targets)
        found = [n for n in ast.walk(tree) if isinstance(n, ast.ExceptHandler)]
        written = {name for n in found if n.type is not None for name in dotted(n.type)}
        all_of_them += len(found)
        if asked != written or (bare > 0) != any(n.type is None for n in found):
            wrong[path.name] = asked ^ written, bare
    assert wrong == {} and all_of_them > 100


def test_the_sets_of_instructions_are_those_of_this_python():
    """Instructions that load something, or call: one that is new may have to be read, too."""
    known = {*handlers._LOADS, *handlers._PAIRS, *handlers._ATTRIBUTES, *handlers._NOTHING}
    known |= {"LOAD_CONST", "LOAD_SMALL_INT", "LOAD_CLOSURE", "LOAD_BUILD_CLASS", "LOAD_ASSERTION_ERROR", "LOAD_COMMON_CONSTANT"}
    known |= {"LOAD_SUPER_ATTR", "LOAD_LOCALS", "LOAD_FROM_DICT_OR_DEREF", "LOAD_FROM_DICT_OR_GLOBALS", "LOAD_FAST_AND_CLEAR", "LOAD_SPECIAL"}
    known |= {"LOAD_FAST_BORROW_LOAD_FAST_BORROW", "LOAD_ZERO_SUPER_ATTR", "LOAD_SUPER_METHOD", "LOAD_ZERO_SUPER_METHOD"}
    assert {name for name in dis.opname if name.startswith("LOAD_") and dis.opmap[name] in dis.opmap.values()} - known == set()


class Watching:
    """Says of the line that stores into it, or reads it, what `running_text` says."""

    def __init__(self):
        self.seen = []

    def __setitem__(self, key, value):
        self.seen.append(running_text(inspect.currentframe().f_back))

    def __getitem__(self, key):
        self.seen.append(running_text(inspect.currentframe().f_back))
        return self


def test_the_target_of_an_assignment_is_told_from_an_expression():
    w = Watching()
    w[1]
    w[1] = 2.0
    w[1:2]
    w[1:2] = 2.0
    assert w.seen == [("w[1]", False), ("w[1]", True), ("w[1:2]", False), ("w[1:2]", True)]
