"""Who runs the derivative rules of rows, and where a derivative is stated besides: tables, held to what the code says."""

import ast
import re

from tapegrad.rules import ROWS
from tests import derivatives
from tests.sources import PACKAGE, tree_of

#: What a row says of its derivative, and the three methods that ask it.
RULES = {"partials", "vjp", "jvp", "forward", "contributions", "tangent", "computed"}
#: How a row is called where it is asked.
CALLED = {"row", "function"}


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
            if isinstance(node, ast.Attribute) and node.attr in RULES and last(node.value) in CALLED:
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


# ---- derivatives that are written by hand --------------------------------------------------------
#: Rules of primitives: of functions that SciPy or a loop computes, and of those that run a function of the user's.
PRIMITIVES = {
    "automata/scores.py: flow", "automata/scores.py: log_scores", "scipy/linalg.py: _banded", "scipy/linalg.py: _complex_root",
    "scipy/linalg.py: _root", "scipy/linalg.py: _sylvester", "scipy/sparse/values.py: solution",
    "scipy/sparse/values.py: _log_determinant", "many/sums.py: Sum",
    "transforms/checkpoint.py: _Segment", "transforms/implicit.py: _Solution",
}  # fmt: skip
#: Adjoints inside of `@njit`, as text.
ADJOINTS = set(
    "astype cholesky column_stack concatenate copy det dot flatten full full_like hstack inv log_abs_det max min norm outer ravel "
    "sign_of_det solve stack sum vstack".split()
)
#: Tangents inside of `@njit`, lane by lane, with what they have in common.
TANGENTS = {f"nopython/loops.py: {name}" for name in "_of_determinant _of_matrix _solve _joined tangents".split()}
#: What makes and opens dual numbers without a derivative of its own: the number, operations by the row's rule, seeds and results.
AROUND = {f"nopython/{name}" for name in (
    "drivers.py: along", "drivers.py: collect", "drivers.py: seeds", "drivers.py: tangents", "reverse/runtime.py: times",
    "scalars.py: _comparison", "scalars.py: _print", "scalars.py: combine", "scalars.py: component", "scalars.py: lowering",
    "scalars.py: primal", "scalars.py: seeded", "types.py: _real_to_dual",
)}  # fmt: skip
#: Taylor coefficients of products and quotients.
SERIES = {"cauchy", "quotient"}


def test_every_row_states_its_derivative_for_both_modes():
    incomplete = [row.name for row in ROWS if row.slots(row.arity) and not (row.partials or row.vjp and row.jvp)]
    assert incomplete == []


def test_every_derivative_that_is_written_by_hand_is_in_the_table():
    assert derivatives.primitives() == PRIMITIVES
    assert derivatives.adjoints() == (ADJOINTS, {"nopython/reverse/rows.py"})
    assert derivatives.tangents() == TANGENTS | AROUND
    assert derivatives.series() == SERIES


def test_where_the_derivative_of_a_row_comes_from_inside_of_njit():
    """Of one that is element-wise from the row; in forward mode nothing but linear algebra is by hand."""
    table = derivatives.table()
    elementwise = {row.name for row in ROWS if row.elementwise}
    # (Arrays of choices, and of numbers between bounds, are loops over dual numbers.)
    assert {place for name, *both in table if name in elementwise - {"where", "clip"} for place in both} == {"the row", None}
    assert {name for name, forward, _ in table if (forward or "").startswith("by hand")} == {"cholesky", "det", "inv", "solve"}
    by_hand = {name for name, _, reverse in table if (reverse or "").startswith("by hand")}
    assert by_hand <= ADJOINTS | {"matmul"}


def test_the_reader_sees_derivatives_that_are_written_by_hand(tmp_path, monkeypatch):
    monkeypatch.setattr(derivatives, "PACKAGE", tmp_path)
    for file, text in {
        "scipy/more.py": "@primitive\ndef gamma(x): pass\n@gamma.defvjp\ndef _(g, z, x): pass\n",
        "nopython/more.py": (
            "def gamma(a):\n    return seeded(token, 1.0, 0, component(a, 0))\ndef rest(a): return gamma(a)\n"
            "def adjoint(): return ['    SA[i] += W * B[i]']\n"
        ),
        "array/series.py": "def series_of(row):\n    def rule(k): return row.tangent()\n    def own(k): return k\n",
    }.items():
        (tmp_path / file).parent.mkdir()
        (tmp_path / file).write_text(text)
    assert derivatives.primitives() == {"scipy/more.py: gamma"}
    assert derivatives.tangents() == {"nopython/more.py: gamma", "nopython/more.py: rest"}
    assert derivatives.adjoints()[1] == {"nopython/more.py"}
    assert derivatives.series() == {"own"}
