"""`explain_zero`: in plain words, why a derivative is zero.

The function runs once on a tape of its own while a listener notes where values
leave it (comparisons, ``.item()``, ``no_grad``).  Then the adjoints of random
weights of the results are followed back, and each instruction that lets nothing
through on the way to an argument is a reason.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..array.record import tracked
from ..array.tensor import Tensor
from ..autograd.adjoint import pulled
from ..autograd.reading import slot_on
from ..autograd.tape import adjoints_of, entries_of
from ..common.printing import Printed
from ..rules.table import zero
from .arguments import WatchedRun


@dataclass
class Argument:
    """Why the derivative in one argument is zero.

    Attributes
    ----------
    index : int
    size, zeros : int
        Number of elements, and of those in which the derivative is zero.
    reasons : list of str
    """

    index: int
    size: int
    zeros: int
    reasons: list[str]

    def __str__(self):
        if not self.zeros:
            return f"argument {self.index}: the derivative is not zero"
        how = "is zero" if self.zeros == self.size else f"is zero in {self.zeros} of {self.size} elements"
        return "\n  - ".join([f"argument {self.index}: the derivative {how}", *self.reasons])


@dataclass(repr=False)
class Explanation(Printed):
    """The report of `explain_zero`; prints in plain words.

    Attributes
    ----------
    arguments : list of Argument
    """

    arguments: list[Argument]

    def __str__(self):
        return "\n".join(map(str, self.arguments))


def explain_zero(f: Callable[..., Any], *args: Any) -> Explanation:
    """Explain why the derivative of a function is zero at a point, or zero in some elements.

    Parameters
    ----------
    f : callable
        Returns a number, an array, or nested lists and tuples of them.
    *args
        The point; floats and arrays of floats are differentiated.

    Returns
    -------
    Explanation
        ``print`` it.  For each argument: whether the derivative is zero, and the
        reasons with file and line: the result does not depend on it; it depends
        on it only through a comparison, ``floor`` and the like, ``.item()``,
        ``.detach()`` or ``no_grad``; a branch that is not taken; saturation; a
        factor of zero.

    Raises
    ------
    StructureError
        If no argument is a float or an array of floats.

    Examples
    --------
    >>> import numpy as np
    >>> import tapegrad as tg
    >>> print(tg.explain_zero(lambda s, k: np.where(s > k, 1.0, 0.0), 1.2, 1.0))  # doctest: +ELLIPSIS
    argument 0: the derivative is zero
      - its value is used only in a comparison (greater) at ...:1: the result changes in steps, whose derivative is 0; smooth them, as ...
    argument 1: the derivative is zero
      - its value is used only in a comparison (greater) at ...:1: the result changes in steps, whose derivative is 0; smooth them, as ...
    """
    run = WatchedRun("explain_zero", f, args, lambda run, how, operands, _: (how, [t for t in operands if isinstance(t, Tensor) and tracked(t)]))
    store, entries, rng = run.store, entries_of(run.store), np.random.default_rng(0)
    # Random weights: what is zero for them is zero for all.
    seeds = {slot: rng.uniform(0.5, 1.5, np.shape(r._v)) for r in run.tracked() if (slot := slot_on(store, r)) is not None}
    adjoints = adjoints_of(entries, store.leaf_at(), seeds) if seeds else {}
    arguments = []
    for k, leaf in zip(run.argnums, run.leaves):
        slot = slot_on(store, leaf)
        g = np.asarray(adjoints.get(slot, np.zeros(np.shape(leaf._v))))
        zeros = int(np.sum(g == 0))
        arguments.append(Argument(k, g.size, zeros, _reasons(run, entries, leaf, slot, adjoints) if zeros else []))
    return Explanation(arguments)


def _reasons(run, entries, leaf, slot, adjoints):
    """Why nothing, or not all, comes back to the leaf in `slot` (None: it was never recorded)."""
    store, entered = run.store, {slot} - {None}
    for e in entries:
        if not entered.isdisjoint(e.operands):
            entered.add(e.slot)
    on_the_way = [e for e in entries if e.row is not None and e.slot in adjoints and not entered.isdisjoint(e.operands)]
    reasons = [reason for e in on_the_way for reason in _blocked(store, e, entered, adjoints[e.slot])]
    only = "" if on_the_way else "only "
    for _, place, (how, tensors) in run.events:
        if any(t is leaf or slot_on(store, t) in entered for t in tensors):
            reasons.append(f"its value is used {only}{_left(how, place)}")
    if not reasons:
        return ["several contributions to it cancel" if on_the_way else "the result does not depend on it"]
    return list(dict.fromkeys(reasons))


def _left(how, place):
    if how.startswith("comparison"):
        return f"in a {how} at {place}: the result changes in steps, whose derivative is 0; smooth them, as by tg.sigmoid((t - c) / width)"
    if how == "no_grad":
        return f"under no_grad at {place}: nothing is recorded there"
    if how.startswith("."):
        return f"through {how} at {place}: that leaves the tape on purpose"
    return f"in {how} at {place}, whose result has no derivative"


def _blocked(store, e, entered, g):
    """The part of an adjoint `g` that an instruction does not pass on to its operands."""
    if not np.any(g):
        return []
    reasons = []
    place = store.place(e.slot)
    slots = e.row.slots(e.row.arity if e.signature is None else len(e.signature.metas))
    for k, operand, c in zip(slots, e.operands, pulled(store, e.slot, np.asarray(g))):
        if operand not in entered or (c is not None and np.all(c)):
            continue
        size = 1 if c is None else c.size
        count = size if c is None else int(np.sum(np.asarray(c) == 0))
        of = "" if size == 1 else f" in {count} of {size} elements"
        if e.row.elementwise and e.row.partials[k] is zero:
            why = "it is constant between jumps, so its derivative is 0"
        elif e.row.primitive is not None:
            why = f"its rule gives 0{of}"
        elif e.row.silent:
            why = f"{e.row.silent}{of}"
        elif e.row.effect in ("view", "move"):
            why = f"{count} of {size} elements are not read"
        else:
            why = f"it is stationary, or saturated{of}: its derivative is 0, or underflows to 0"
        reasons.append(f"{e.row.name} at {place}: {why}")
    return reasons
