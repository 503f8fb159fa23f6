"""Losses of sequences: functions of scores, built from graphs.

A time for each row, a label for each column; nothing is normalised here.  What a loss compares is the log score of the paths that
spell the target with that of all paths, of the same scores.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..array import functions as F
from ..array.differentiable import Differentiable
from ..array.functions.arguments import lift
from ..array.record import guard_on
from ..array.typing import ArrayLike, TensorLike
from ..common.errors import GraphError, ShapeError
from ..common.host_functions import host_function
from .graph import Graph, as_weights, chain, made
from .operations import compose
from .scores import total
from .topology import Topology


def ctc_loss(log_probs: TensorLike | Sequence[TensorLike], target: ArrayLike | Sequence[ArrayLike], blank: int = 0) -> Any:
    """Connectionist temporal classification: the negative log probability that the target is spelt.

    Parameters
    ----------
    log_probs : array-like or Tensor, shape (times, labels)
        For a batch, a list of them, or an array with one more axis in front.
    target : sequence of int
        Labels, without blanks; for a batch, a list of them.
    blank : int
        The label that spells nothing; equal neighbours in the target are spelt with a blank between them.

    Returns
    -------
    Tensor
        A number, or for a batch one for each; ``inf``, with a gradient of 0, if there are too few times for the target.

    Raises
    ------
    GraphError
        If a label of the target is not among the columns, or is `blank`.
    ShapeError
        If scores do not have two axes, or the number of targets differs.

    Examples
    --------
    >>> import numpy as np
    >>> from tapegrad import automata
    >>> automata.ctc_loss(np.log([[0.6, 0.4], [0.5, 0.5]]), [1])
    tensor(0.3567)
    """

    def one(scores, labels):
        own = _labels(labels, scores.shape[1], blank)
        spelt = np.full(2 * len(own) + 1, blank)
        spelt[1::2] = own
        states = np.arange(len(spelt))
        # Stay, go on, or leave out a blank between two labels that differ.
        skip = np.flatnonzero((states[2:] % 2 == 1) & (spelt[2:] != spelt[:-2]))
        source, goes = np.concatenate([states, states[:-1], skip]), np.concatenate([states, states[1:], skip + 2])
        spelling = Topology(states == 0, states >= len(states) - 2, source, goes, spelt[goes], spelt[goes])
        return -_score(_constant(spelling), _emissions(scores))

    return _each(one, log_probs, target)


def transition_graph(transitions: TensorLike, start: TensorLike | None = None) -> Graph:
    """Make the graph that reads any sequence of labels, with a score for each transition.

    Parameters
    ----------
    transitions : array-like or Tensor, shape (labels, labels)
        ``transitions[i, j]`` is the score of j after i.
    start : array-like or Tensor, shape (labels,), optional
        Scores of the first label; 0 by default.

    Returns
    -------
    Graph
        Node 0, and a node for each label; the arcs to the first label come first.

    Examples
    --------
    >>> import numpy as np
    >>> from tapegrad import automata
    >>> automata.transition_graph(np.zeros((2, 2)))
    <Graph of 3 nodes and 6 arcs, calc_grad=False>
    """
    transitions = lift(transitions)
    labels = transitions.shape[0] if transitions.ndim else 0
    start = lift(np.zeros(labels) if start is None else start)
    if transitions.shape != (labels, labels) or start.shape != (labels,):
        raise ShapeError(f"transitions of shape {transitions.shape} and start of shape {start.shape}: with n labels these are (n, n) and (n,)")
    nodes, reads = np.arange(labels + 1), np.tile(np.arange(labels), labels + 1)
    source = np.repeat(nodes, labels)
    return made(Topology(nodes == 0, nodes >= 0, source, reads + 1, reads, reads), as_weights(F.concatenate([start, F.reshape(transitions, (-1,))])))


def asg_loss(
    emissions: TensorLike | Sequence[TensorLike], target: ArrayLike | Sequence[ArrayLike], transitions: TensorLike, start: TensorLike | None = None
) -> Any:
    """The auto segmentation criterion: the target, with each label read once or more in a row, against all sequences of labels.

    Parameters
    ----------
    emissions : array-like or Tensor, shape (times, labels)
        For a batch, a list of them, or an array with one more axis in front.
    target : sequence of int
        Labels; for a batch, a list of them.
    transitions, start : array-like or Tensor
        As in `transition_graph`.

    Returns
    -------
    Tensor
        A number, or for a batch one for each; ``inf``, with the gradient of the score of all sequences, if there are too few times.

    Raises
    ------
    GraphError, ShapeError
        As in `ctc_loss`.

    Examples
    --------
    >>> import numpy as np
    >>> from tapegrad import automata
    >>> automata.asg_loss(np.zeros((3, 2)), [0, 1], np.zeros((2, 2)))
    tensor(1.3863)
    """

    def one(scores, labels):
        own = _labels(labels, scores.shape[1])
        states = np.arange(len(own) + 1)
        source, goes = np.concatenate([states[1:], states[:-1]]), np.concatenate([states[1:], states[1:]])
        return _against_all(scores, Topology(states == 0, states == len(own), source, goes, own[goes - 1], own[goes - 1]), bigrams)

    bigrams = transition_graph(transitions, start)
    return _each(one, emissions, target)


def crf_loss(
    emissions: TensorLike | Sequence[TensorLike], target: ArrayLike | Sequence[ArrayLike], transitions: TensorLike, start: TensorLike | None = None
) -> Any:
    """The negative log probability of a sequence of labels in a conditional random field.

    Parameters
    ----------
    emissions : array-like or Tensor, shape (times, labels)
        For a batch, a list of them, or an array with one more axis in front.
    target : sequence of int, shape (times,)
        The label at each time; for a batch, a list of them.
    transitions, start : array-like or Tensor
        As in `transition_graph`.

    Returns
    -------
    Tensor
        A number, or for a batch one for each.

    Raises
    ------
    GraphError, ShapeError
        As in `ctc_loss`; also if the target does not have a label for each time.

    Examples
    --------
    >>> import numpy as np
    >>> from tapegrad import automata
    >>> automata.crf_loss(np.zeros((3, 2)), [0, 1, 1], np.zeros((2, 2)))
    tensor(2.0794)
    """

    def one(scores, labels):
        own = _labels(labels, scores.shape[1])
        if len(own) != len(scores):
            raise ShapeError(f"crf_loss: a target of {len(own)} labels for {len(scores)} times; it has one for each")
        return _against_all(scores, chain(own, len(own)), bigrams)

    bigrams = transition_graph(transitions, start)
    return _each(one, emissions, target)


def _against_all(scores, spelling, bigrams):
    """The log score of all sequences less that of those that spell the target."""
    labels = bigrams.num_nodes() - 1
    if scores.shape[1] != labels:
        raise ShapeError(f"emissions of shape {scores.shape} for transitions between {labels} labels: a column for each label")
    emissions = _emissions(scores)
    return _score(emissions, bigrams) - _score(compose(_constant(spelling), bigrams), emissions)


def _score(first, second):
    both = compose(first, second)
    return total(both.topology, both.weights())


def _constant(topology):
    return made(topology, np.zeros(topology.num_arcs))


def _emissions(scores):
    """The graph of all sequences of labels."""
    times, labels = scores.shape
    return made(chain(np.tile(np.arange(labels), times), times), as_weights(scores))


def _each(one: Callable[[Any, ArrayLike], Any], scores, targets):
    """A loss of scores and target, or of each of a batch."""
    if not isinstance(scores, (list, tuple)):
        scores = lift(scores)
        if scores.ndim == 2:
            return one(scores, targets)
        if scores.ndim != 3:
            raise ShapeError(f"scores of shape {tuple(scores.shape)}: they have two axes, times and labels, and of a batch one more in front")
    elif not scores or np.ndim(scores[0]) != 2:
        return _each(one, np.asarray(scores) if not scores else F.stack([lift(s) for s in scores]), targets)
    if len(scores) != len(targets):
        raise ShapeError(f"{len(scores)} arrays of scores, and {len(targets)} targets")
    return F.stack([one(lift(s), t) for s, t in zip(scores, targets)])


def _labels(target, count, blank=None):
    """The labels of a target as an array; what it is, is guarded in a recording."""
    found = np.asarray(guard_on(_as_it_is(), target) if isinstance(target, Differentiable) else target)
    if found.ndim != 1 or found.size and found.dtype.kind not in "iu":
        raise GraphError(f"a target is a sequence of labels, which are integers; not an array of shape {found.shape} and dtype {found.dtype}")
    if blank is not None and not 0 <= blank < count:
        raise GraphError(f"blank is {blank}, and there are {count} labels (the first is 0)")
    for place, label in enumerate(found.tolist()):
        if not 0 <= label < count or label == blank:
            said = "which is the blank" if label == blank else f"and there are {count} labels (the first is 0)"
            raise GraphError(f"label {place} of the target is {label}, {said}")
    return found.astype(np.int64)


@host_function
def _as_it_is(values):
    return values
