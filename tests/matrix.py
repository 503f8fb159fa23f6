"""The rows of the table times the modes in which each is computed: which comparison tests a row in a mode.

A comparison stands with the tests of the room that it is about.  It is a function of the name of a row, or of one of its examples
(`tests.rules.examples_of_rows`), that raises where two answers differ.
"""

from collections.abc import Callable, Collection
from functools import partial
from typing import NamedTuple

from tapegrad.rules import BY_NAME, ROWS
from tests.array import test_rule_array
from tests.array.dual import test_every_row as dual
from tests.autograd.higher import test_every_row as higher
from tests.interpreter import test_single, test_tangent
from tests.kernel import rows as kernel
from tests.kernel import test_arrays, test_tangents
from tests.program import test_values
from tests.rules import test_described, test_jvp, test_table
from tests.rules.examples_of_rows import DIFFERENTIABLE, DOMAINS, ELEMENTWISE, examples_of
from tests.sparse import test_sparsity
from tests.transforms import test_jet
from tests.transforms.replay import rows as replay
from tests.transforms.replay import test_not_finite
from tests.transforms.saving import rows as saving

EVERY = [row.name for row in DIFFERENTIABLE]
STRUCTURAL = [row.name for row in DIFFERENTIABLE if not row.elementwise]
#: Rows of two operands that both have a derivative.
BINARY = [name for name in ELEMENTWISE if len(DOMAINS[name]) == 2 and None not in DOMAINS[name]]


class Mode(NamedTuple):
    """How rows are tested in one mode.

    Attributes
    ----------
    compare : callable
        Of a name, or of an example.
    rows : collection of str
        The rows that are tested.
    few : int, optional
        So many examples of each row are compared by default, all by ``-m long``; None if `compare` takes a name.
    """

    compare: Callable
    rows: Collection = EVERY
    few: int | None = None

    def cases(self, name, every=False):
        """What is compared of a row: by default, or all."""
        if name not in self.rows:
            return ()
        return (name,) if self.few is None else examples_of(name)[: None if every else self.few]


def _table(of_arrays, of_cases):
    return lambda name: (of_arrays if BY_NAME[name].elementwise else of_cases)(name)


MODES = {
    "described": Mode(test_described.description_against_value),
    "values and backward": Mode(_table(partial(test_table.elementwise_arrays, char="d"), test_table.structural_cases)),
    # Loops compute in float64, whatever they carry (`tests/transforms/loops`).
    "float32": Mode(
        _table(partial(test_table.elementwise_arrays, char="f"), test_table.structural_case_in_float32),
        [name for name in EVERY if name not in ("loop_results", "loop_pull")],
    ),
    "numbers": Mode(test_table.elementwise_scalars, [name for name in ELEMENTWISE if name != "polygamma"]),
    "broadcast": Mode(test_table.binary_broadcasting, BINARY),
    "beside constants": Mode(test_table.binary_constants_on_either_side, BINARY),
    "nodes": Mode(test_table.nodes_against_backward, STRUCTURAL),
    # (The value of `loop_results` is read off what the loop has kept.)
    "jvp": Mode(test_jvp.tangents_against_differences, [name for name in EVERY if name != "loop_results"]),
    "jvp and vjp": Mode(test_jvp.jvp_against_vjp),
    "jvp of drawn shapes": Mode(test_jvp.elementwise_of_drawn_shapes, ELEMENTWISE),
    "what a jvp reads": Mode(test_jvp.jvp_reads_no_value_that_the_vjp_does_not_read),
    "dual numbers": Mode(dual.second_order_of_dual_numbers),
    "dual numbers with lanes": Mode(dual.lanes_inside_and_outside),
    "rules on tensors": Mode(test_rule_array.vjp_on_tensors),
    "recorded gradients": Mode(higher.recorded_gradient),
    "nestings": Mode(higher.nestings_and_their_replays, [name for name in EVERY if name != "complex_eig"]),
    "second order": Mode(higher.check_of_second_order),
    "series": Mode(test_jet.series_against_nested_derivatives),
    "tangent sweep": Mode(test_tangent.tangents_against_every_other_way),
    "single sweep of arrays": Mode(test_single.arrays_against_partials, ELEMENTWISE),
    "single sweep of numbers": Mode(test_single.numbers_against_partials, ELEMENTWISE),
    "programs of values": Mode(test_values.values_at_random_points, ELEMENTWISE),
    "programs of values at special numbers": Mode(
        test_values.values_at_numbers_with_a_meaning, [r.name for r in ROWS if r.elementwise and r.arity < 3 and not r.refused]
    ),
    "replay": Mode(replay.replays_against_runs, few=8),
    "replay of what is not finite": Mode(test_not_finite.row_at_what_is_not_finite, STRUCTURAL),
    "files": Mode(saving.loaded_tapes_against_saved_ones),
    "sparsity": Mode(test_sparsity.pattern_against_jacobian),
    "adjoint tape": Mode(kernel.adjoint_against_sweep, few=3),
    "adjoint tape beside constants": Mode(kernel.adjoint_beside_constants, BINARY),
    "tangent tape": Mode(test_tangents.tangents_against_adjoint, few=3),
    "loop program": Mode(test_arrays.loops_against_replay, few=3),
    "kernel": Mode(kernel.kernel_against_sweep, few=1),
}
