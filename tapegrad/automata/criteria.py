"""Losses of sequences: functions of scores, built from graphs.

A time for each row, a label for each column; nothing is normalised here.  What a loss compares is the log score of the paths that
spell the target with that of all paths, of the same scores.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..array import functions as F
from ..array.differentiable import Differentiable
from ..array.functions.arguments import lift
from ..array.typing import ArrayLike, TensorLike
from ..common.errors import GraphError, ShapeError
from .graph import Graph, as_weights, chain, made
from .operations import compose
from .scores import totals
from .topology import Topology, in_parallel


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

    def spelling(own, shape):
        spelt = np.full(2 * len(own) + 1, blank)
        spelt[1::2] = own
        states = np.arange(len(spelt))
        # Stay, go on, or leave out a blank between two labels that differ.
        skip = np.flatnonzero((states[2:] % 2 == 1) & (spelt[2:] != spelt[:-2]))
        source, goes = np.concatenate([states, states[:-1], skip]), np.concatenate([states, states[1:], skip + 2])
        return Topology(states == 0, states >= len(states) - 2, source, goes, spelt[goes], spelt[goes])

    return _losses(log_probs, target, spelling, lambda spelt, emissions: -F.concatenate(totals(compose(spelt, emissions))), blank)


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

    def spelling(own, shape):
        states = np.arange(len(own) + 1)
        source, goes = np.concatenate([states[1:], states[:-1]]), np.concatenate([states[1:], states[1:]])
        return Topology(states == 0, states == len(own), source, goes, own[goes - 1], own[goes - 1])

    return _against_all(emissions, target, spelling, transition_graph(transitions, start))


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

    def spelling(own, shape):
        if len(own) != shape[0]:
            raise ShapeError(f"crf_loss: a target of {len(own)} labels for {shape[0]} times; it has one for each")
        return chain(own, len(own))

    return _against_all(emissions, target, spelling, transition_graph(transitions, start))


def _against_all(scores, targets, spelling, bigrams):
    """The log scores of all sequences less those of the sequences that spell the targets."""

    labels = bigrams.num_nodes() - 1

    def checked(own, shape):
        if shape[1] != labels:
            raise ShapeError(f"emissions of shape {shape} for transitions between {labels} labels: a column for each label")
        return spelling(own, shape)

    def losses(spelt, emissions):
        count = len(spelt)
        both = F.concatenate(totals(compose([*emissions, *compose(spelt, bigrams)], [bigrams] * count + emissions)))
        return both[:count] - both[count:]

    return _losses(scores, targets, checked, losses)


def _losses(scores, targets, spelling, losses, blank=None):
    """The loss of scores and target, or of each of a batch, whose graphs are made on threads.

    ``spelling(labels, shape)`` is the topology of what spells a target with scores of this shape, ``losses(spelt, emissions)`` the losses of a batch of graphs.
    """
    if not isinstance(scores, (list, tuple)):
        scores = lift(scores)
        if scores.ndim == 2:
            return _losses([scores], [targets], spelling, losses, blank)[0]
        if scores.ndim != 3:
            raise ShapeError(f"scores of shape {tuple(scores.shape)}: they have two axes, times and labels, and of a batch one more in front")
    elif not scores or np.ndim(scores[0]) != 2:
        return _losses(np.asarray(scores) if not scores else F.stack([lift(s) for s in scores]), targets, spelling, losses, blank)
    if len(scores) != len(targets):
        raise ShapeError(f"{len(scores)} arrays of scores, and {len(targets)} targets")
    scores = [lift(s) for s in scores]
    labels = [np.asarray(t._let_out("a decision") if isinstance(t, Differentiable) else t) for t in targets]
    spelt = in_parallel(lambda k: spelling(_checked(labels[k], scores[k].shape[1], blank), scores[k].shape), len(scores))
    return losses([made(t, np.zeros(t.num_arcs)) for t in spelt], [_emissions(s) for s in scores])


def _emissions(scores):
    """The graph of all sequences of labels."""
    times, labels = scores.shape
    return made(chain(np.tile(np.arange(labels), times), times), as_weights(scores))


def _checked(target, count, blank):
    """The labels of a target."""
    if target.ndim != 1 or target.size and target.dtype.kind not in "iu":
        raise GraphError(f"a target is a sequence of labels, which are integers; not an array of shape {target.shape} and dtype {target.dtype}")
    if blank is not None and not 0 <= blank < count:
        raise GraphError(f"blank is {blank}, and there are {count} labels (the first is 0)")
    for place, label in enumerate(target.tolist()):
        if not 0 <= label < count or label == blank:
            said = "which is the blank" if label == blank else f"and there are {count} labels (the first is 0)"
            raise GraphError(f"label {place} of the target is {label}, {said}")
    return target.astype(np.int64)
