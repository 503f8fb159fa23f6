"""Weighted finite-state automata whose weights are on the tape: graphs, operations on them, scores, criteria.

Imports: common, codegen, array, autograd.

`graph`        `Graph`, whose weights are one tensor; `topology` has what of it is no number on a tape.
`operations`   graphs from graphs; which arcs they have is found by `walks`, which are compiled.
`scores`       what paths weigh together, a primitive with derivatives of all orders, and the best path.
`criteria`     losses of sequences: CTC, ASG, conditional random fields.
`comparing`, `files`, `drawing`

``import tapegrad`` does not load it: ``from tapegrad import automata``.
"""

from ..common.public import only_public
from .comparing import equal, isomorphic, rand_equivalent
from .criteria import asg_loss, crf_loss, ctc_loss, transition_graph
from .drawing import dot, draw
from .files import load, save
from .graph import Arc, Graph, epsilon, linear_graph, scalar_graph
from .operations import (
    add,
    backward,
    clone,
    closure,
    compose,
    concat,
    intersect,
    negate,
    project_input,
    project_output,
    remove,
    subtract,
    union,
)
from .scores import forward_score, viterbi_path, viterbi_score

__all__ = [
    "Arc", "Graph", "add", "asg_loss", "backward", "clone", "closure", "compose", "concat", "crf_loss", "ctc_loss", "dot", "draw",
    "epsilon", "equal", "forward_score", "intersect", "isomorphic", "linear_graph", "load", "negate", "project_input",
    "project_output", "rand_equivalent", "remove", "save", "scalar_graph", "subtract", "transition_graph", "union",
    "viterbi_path", "viterbi_score",
]  # fmt: skip
__dir__ = only_public(__name__)
