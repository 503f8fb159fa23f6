"""Make a program that fails smaller, as long as it fails in the same way.

What is made smaller is text: statements are left out, blocks and expressions replaced by their parts, a transformation
by the function below it.  Each try runs in a process of its own, so crashes and hangs can be made smaller, too.
"""

import ast
import copy
import json
import os
import select
import signal
import sys

from .running import class_of, outcome


def as_text(program):
    """A program with its points: text to be pasted, which `of_text` reads."""
    return str(program) + "".join(f"# at {json.dumps(point)}\n" for point in program.points)


def of_text(text):
    """``(text, points)`` of what `as_text` wrote."""
    return text, [json.loads(line.removeprefix("# at ")) for line in text.splitlines() if line.startswith("# at ")]


class Text:
    """A program that is text and points."""

    def __init__(self, text, points):
        self.text, self.points = text, points

    def __str__(self):
        return self.text


def kind_of(text, points, limit=20.0):
    """How a program fails: "crash", "hang", "value" or the class of what is raised; None if it does not."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.close(read)
        try:
            sys.stderr = open(os.devnull, "w")
            wrong = [w for _, w in outcome(text, points)["wrong"]]
            kind = "" if not wrong else wrong[0] if wrong[0].startswith(("raises", "Internal")) else wrong[0].split(" for ")[0].split(" [")[0][:8]
            os.write(write, kind.encode()[:500] or b"-")
        except BaseException as error:
            os.write(write, ("?" + class_of(error)).encode()[:500])
        finally:
            os._exit(0)
    os.close(write)
    ready = select.select([read], [], [], limit)[0]
    answer = os.read(read, 600).decode() if ready else None
    os.close(read)
    if answer is None:
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "hang" if answer is None else answer and (None if answer == "-" or answer[0] == "?" else answer) or (None if answer else "crash")


def smaller(tree):
    """Changes of a syntax tree, as functions that make them, the largest first; each works on a copy by number."""
    for number, node in enumerate(ast.walk(tree)):
        for field in ("body", "orelse", "handlers"):
            statements = getattr(node, field, None)
            if isinstance(statements, list):
                for j in range(len(statements)):
                    yield number, field, j, None
                    if isinstance(statements[j], (ast.If, ast.For, ast.Try)):
                        yield number, field, j, "body"
                        yield number, field, j, "orelse"
    for number, node in enumerate(ast.walk(tree)):
        for field, value in ast.iter_fields(node):
            if isinstance(value, ast.expr) and not isinstance(getattr(value, "ctx", None), ast.Store):
                parts = [p for p in ast.iter_child_nodes(value) if isinstance(p, ast.expr)]
                for part in range(len(parts)):
                    yield number, field, None, part
                if parts:
                    yield number, field, None, "one"
            elif isinstance(value, list):
                for j, item in enumerate(value):
                    if isinstance(item, ast.expr) and isinstance(node, (ast.Call, ast.BoolOp, ast.Tuple, ast.List)):
                        parts = [p for p in ast.iter_child_nodes(item) if isinstance(p, ast.expr)]
                        for part in [*range(len(parts)), *(["one"] if parts else [])]:
                            yield number, field, j, part


def changed(tree, change):
    number, field, j, part = change
    tree = copy.deepcopy(tree)
    node = next(n for k, n in enumerate(ast.walk(tree)) if k == number)
    value = getattr(node, field)
    if j is not None and field in ("body", "orelse", "handlers") and isinstance(value, list) and (not value or isinstance(value[0], (ast.stmt, ast.excepthandler))):
        value[j : j + 1] = [] if part is None else getattr(value[j], part)
        if not value and field == "body":
            value.append(ast.Pass())
    else:
        old = value if j is None else value[j]
        new = ast.Constant(1.0) if part == "one" else [p for p in ast.iter_child_nodes(old) if isinstance(p, ast.expr)][part]
        if isinstance(new, ast.Name) and new.id in ("np", "tg"):
            return None
        if j is None:
            setattr(node, field, new)
        else:
            value[j] = new
    return ast.unparse(ast.fix_missing_locations(tree))


def shrunk(program, limit=20.0, say=lambda text: print(text, file=sys.stderr)):
    """The smallest program that is found; a `Text`."""
    import numba  # noqa: F401  (what every child would load again)

    import tapegrad  # noqa: F401

    text, points = str(program), program.points
    kind = kind_of(text, points, limit)
    say(f"fails by: {kind}")
    if kind is None:
        return Text(text, points)

    def fails(text, points):
        return kind_of(text, points, limit) == kind

    for j in reversed(range(len(points))):
        if len(points) > 1 and fails(text, points[:j] + points[j + 1 :]):
            points = points[:j] + points[j + 1 :]
    levels = sum(line.startswith("def f") for line in text.splitlines())
    for level in range(levels - 1, 0, -1):  # the function below in place of this one
        lines = [line.replace(f"f{level}(", f"f{level - 1}(").replace(f"= f{level}", f"= f{level - 1}") if not line.startswith(f"def f{level}") else line for line in text.splitlines()]
        if fails("\n".join(lines), points):
            text = "\n".join(lines)
    progress = True
    while progress:
        progress, skip = False, 0
        tree = ast.parse(text)
        changes = list(smaller(tree))
        while skip < len(changes):
            try:
                attempt = changed(tree, changes[skip])
            except (ValueError, IndexError, AttributeError, StopIteration, TypeError):
                attempt = None
            if attempt and len(attempt) < len(text) and fails(attempt, points):
                text, progress = attempt, True
                tree = ast.parse(text)
                changes = list(smaller(tree))
                say(f"{len(text)} characters")
            else:
                skip += 1
    return Text(text + "\n", points)
