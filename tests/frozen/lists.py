"""The public names, and which row is tested in which mode: what is written down of them, so that none is lost.

    python -m tests.frozen.lists

adds what is new to the files (and takes nothing out of them).
"""

import importlib
import json
from pathlib import Path

import tapegrad as tg
from tapegrad.tools.commands import reference

NAMES = Path(__file__).with_name("names.txt")
MATRIX = Path(__file__).with_name("matrix.json")

#: mode -> the tests that run every row in it, by the parameter that says which row
MODES = {
    "values and backward": "tests.rules.test_table test_elementwise_arrays test_structural_row",
    "numbers": "tests.rules.test_table test_elementwise_scalars",
    "broadcast": "tests.rules.test_table test_binary_broadcasting test_binary_constants_on_either_side",
    "float32": "tests.rules.test_table test_elementwise_arrays test_structural_row_float32",
    "nodes": "tests.rules.test_table test_nodes_agree_with_backward",
    "jvp": "tests.rules.test_jvp test_against_central_differences",
    "jvp and vjp": "tests.rules.test_jvp test_is_the_transpose_of_the_vjp",
    "programs of jvp": "tests.rules.test_jvp test_program_agrees_with_the_rule_on_arrays",
    "dual numbers": "tests.array.dual.test_every_row test_second_order",
    "dual numbers with lanes": "tests.array.dual.test_every_row test_lanes_inside_and_outside",
    "rules on tensors": "tests.array.test_rule_array test_vjp_on_tensors",
    "recorded gradients": "tests.autograd.higher.test_every_row test_recorded_gradient_is_right",
    "nestings": "tests.autograd.higher.test_every_row test_nestings_agree_and_replay",
    "second order": "tests.autograd.higher.test_every_row test_check_of_second_order",
    "tangent sweep": "tests.interpreter.test_tangent test_every_row_gives_the_tangents_of_dual_numbers",
    "tangent sweep and rule": "tests.interpreter.test_tangent test_every_row_agrees_with_its_rule_and_with_reverse_mode",
    "single sweep of arrays": "tests.interpreter.test_single test_arrays",
    "single sweep of numbers": "tests.interpreter.test_single test_numbers",
    "programs of values": "tests.program.test_values test_random_points",
    "replay": "tests.transforms.replay.test_rows test_row",
    "replay of what is not finite": "tests.transforms.replay.test_not_finite test_row",
    "files": "tests.transforms.saving.test_save_rows test_row",
    "sparsity": "tests.sparse.test_sparsity test_every_row",
    "adjoint tape": "tests.kernel.test_adjoint_rows test_row",
    "tangent tape": "tests.kernel.test_tangents test_row",
    "loop program": "tests.kernel.test_arrays test_row",
    "kernel": "tests.kernel.test_rows test_row",
    "kernel of every example": "tests.kernel.test_rows test_every_example",
}


def cases(mode):
    """``row -> how many cases``, those marked long not counted if there are others."""
    module, *tests = MODES[mode].split()
    counts = {}
    for test in tests:
        for mark in getattr(importlib.import_module(module), test).pytestmark:
            if mark.name == "parametrize" and mark.args[0] in ("name", "example"):
                every = mode == "kernel of every example"
                for value in mark.args[1]:
                    if every or not any(m.name == "long" for m in getattr(value, "marks", ())):
                        value = value.values[0] if hasattr(value, "values") else value
                        row = value if isinstance(value, str) else value.row.name
                        counts[row] = counts.get(row, 0) + 1
    return dict(sorted(counts.items()))


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
    matrix |= {mode: _more(matrix.get(mode, {}), cases(mode)) for mode in MODES}
    MATRIX.write_text("{\n" + ",\n".join(f"{json.dumps(mode)}: {json.dumps(counts)}" for mode, counts in matrix.items()) + "\n}\n")


if __name__ == "__main__":
    write()
