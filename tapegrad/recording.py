"""A function run once on a tape of its own, and swept many times afterwards.

`Recording` is what `tg.vjp`, `tg.jacrev` and `tg.jacobian` work on: the tape of
one call, its inputs and outputs by slot.  `columns` and `rows` carry chunks of
unit seeds through it, up or down (`sweep.tangent`).
"""

from __future__ import annotations

import numpy as np

from .backward import Pass, load_native, second_backward_error
from .errors import HigherOrderError, TapeMismatchError
from .modes import enable_grad
from .record import normalise, settle, tracked
from .tape.meta import SCALAR, meta_of
from .tape.tape import Tape
from .tensor import Tensor, tensor

#: Words of the lanes of one sweep, at most (2**25 are 256 MB).
MOST_WORDS = 1 << 25


def flatten(tree):
    """The leaves of nested lists, tuples and dicts, and a function that puts others in their place."""
    if isinstance(tree, dict):
        keys, parts = list(tree), list(tree.values())
        build = lambda items: dict(zip(keys, items))  # noqa: E731
    elif isinstance(tree, (list, tuple)):
        parts = list(tree)
        build = (lambda items: type(tree)(*items)) if hasattr(tree, "_fields") else (lambda items: type(tree)(items))
    else:
        return [tree], lambda leaves: leaves[0]
    flat = [flatten(part) for part in parts]

    def rebuild(leaves):
        items, at = [], 0
        for found, inner in flat:
            items.append(inner(leaves[at : at + len(found)]))
            at += len(found)
        return build(items)

    return [leaf for found, _ in flat for leaf in found], rebuild


def as_plain(value):
    """A result as plain NumPy has it; scalars as ``numpy.float64``."""
    return np.float64(value) if type(value) is float else value


def input_of(value, what):
    """A leaf with a copy of `value`."""
    if tracked(value):
        raise HigherOrderError(
            f"{what} is a tensor that requires a gradient: the derivative of this function is computed by a sweep and "
            "would not be recorded. Pass its value (x.detach()), or use forward mode (tg.jvp, tg.jacfwd) outside"
        )
    return tensor(value, requires_grad=True)


class Recording:
    """One call of a function.

    Parameters
    ----------
    f : callable
    args : tuple
        All positional arguments.
    argnums : tuple of int
        Which of them are inputs to differentiate with respect to.
    kwargs : dict
        Passed on.

    Attributes
    ----------
    inputs, outputs : list of Port
    rebuild : callable
        Puts a list of leaves in the places of the outputs.
    """

    def __init__(self, f, args, argnums, kwargs=None):
        args = list(args)
        leaves = []
        for k in argnums:
            args[k] = input_of(args[k], f"argument {k}")
            leaves.append(args[k])
        with enable_grad(), Tape() as tape:
            result = f(*args, **(kwargs or {}))
        self.store = store = tape.store
        found, self.rebuild = flatten(result)
        # A leaf that was changed in place is another leaf to the store.
        self.inputs = [Port(leaf._v, store.enter(leaf)) for leaf in leaves]
        self.outputs = [self._output(thing) for thing in found]
        roots = sorted({p.slot for p in self.outputs if p.interior})
        if roots:
            swept = Pass(store, [(slot, None) for slot in roots], None)
            swept.check()
            self.marks, self.low = swept.marks, swept.low
        else:
            self.marks, self.low = load_native().new_marks(store), 1
        self.high = max([1, *(p.slot for p in self.inputs + self.outputs)])

    def _output(self, thing):
        if not isinstance(thing, Tensor):
            return Port(normalise(np.asarray(thing)), 0)
        if thing._t is not None:
            if settle(thing) is not self.store:
                raise TapeMismatchError(
                    "the function returned a tensor that lies on another tape: it uses a tensor computed outside that "
                    "requires a gradient. Pass it as an argument, or .detach() it"
                )
            return Port(thing._v, thing._i, True)
        return Port(thing._v, self.store.leaves.get(thing._k, 0) if thing._r else 0)

    # -- sweeps --------------------------------------------------------------------
    def lanes(self, seeds):
        """How many seeds to carry at once, out of `seeds`."""
        count = 1
        while count < min(seeds, 16) and (self.high + 1) * count * 2 <= MOST_WORDS:
            count *= 2
        return count

    def columns(self):
        """Forward mode: for each output an array (inputs, elements of the output)."""
        from .sweep.tangent import Tangents

        total = sum(p.size for p in self.inputs)
        found = [np.zeros((total, p.size), p.char) for p in self.outputs]
        lanes = self.lanes(total)
        kept = {p.slot for p in self.inputs + self.outputs if p.slot}
        sweep = Tangents(self.store, self.marks, self.low, self.high, lanes, kept)
        self._chunks(sweep, self.inputs, self.outputs, found, kept)
        return found

    def rows(self):
        """Reverse mode: for each input an array (outputs, elements of the input)."""
        from .sweep.tangent import Adjoints

        total = sum(p.size for p in self.outputs)
        found = [np.zeros((total, p.size), p.char) for p in self.inputs]
        sweep = Adjoints(self.store, self.marks, self.low, self.high, self.lanes(total))
        leaves = {slot for slot, _, _ in self.store.leaf_list if slot <= self.high}
        self._chunks(sweep, self.outputs, self.inputs, found, leaves)
        return found

    def _chunks(self, sweep, sources, targets, found, used):
        """Seed the elements of `sources`, chunk by chunk, and collect `targets` into `found`."""
        from .sweep.tangent import targets_of

        total = sum(p.size for p in sources)
        wanted = targets_of([(p.slot, p.meta, rows) for p, rows in zip(targets, found)])
        used = np.array(sorted(used), np.int64)
        pending, at = [], 0
        for p in reversed(sources):
            pending.append((p, total - at - p.size))
            at += p.size
        try:
            for start in range(0, total, sweep.count):
                stop = min(start + sweep.count, total)
                while pending:
                    p, begin = pending[-1]
                    first, last = max(start, begin), min(stop, begin + p.size)
                    if first < last and p.slot:
                        sweep.seed_units(p.slot, p.meta, first - start, last - first, first - begin)
                    if begin + p.size > stop:
                        break
                    pending.pop()
                sweep.run()
                sweep.collect(wanted, start, stop - start)
                sweep.forget(used)
        finally:
            sweep.close()

    def pull(self, cotangents):
        """The adjoints of the inputs for one adjoint of each output (normalised values)."""
        from .sweep.tangent import Adjoints, targets_of

        sweep = Adjoints(self.store, self.marks, self.low, self.high, 1)
        found = [np.zeros((1, p.size), p.char) for p in self.inputs]
        seeds = {}
        for p, value in zip(self.outputs, cotangents):
            if p.slot:
                seeds[p.slot] = value if p.slot not in seeds else seeds[p.slot] + value
        try:
            for slot, value in seeds.items():
                sweep.seed(slot, 0, value)
            sweep.run()
            sweep.collect(targets_of([(p.slot, p.meta, rows) for p, rows in zip(self.inputs, found)]), 0, 1)
        finally:
            sweep.close()
        return [as_plain(normalise(rows.reshape(p.shape))) for p, rows in zip(self.inputs, found)]


class Port:
    """An input or output: its value, its slot (0: not on the tape), and its description."""

    def __init__(self, value, slot, interior=False):
        self.value, self.slot, self.interior = value, slot, interior
        self.meta = SCALAR if type(value) is float else meta_of(value)
        self.shape, self.size = self.meta.shape, self.meta.size
        self.char = self.meta.char if self.meta.char in "df" else "d"


def sweep_forward(outputs, inputs, seeds):
    """The tangents of tensors `outputs` for tangents `seeds` of tensors `inputs` (normalised values).

    One tangent sweep for each store that the outputs lie on.
    """
    from .sweep.tangent import Tangents, targets_of

    found = [None] * len(outputs)
    for k, t in enumerate(outputs):
        same = [seed for x, seed in zip(inputs, seeds) if x is t]
        if same:
            found[k] = sum(same[1:], same[0])
        elif t._t is None:
            found[k] = 0.0 if type(t._v) is float else np.zeros(t._v.shape, t._v.dtype)
    rest = [k for k, value in enumerate(found) if value is None]
    for k in rest:
        if settle(outputs[k]).retired is not None:
            raise second_backward_error(outputs[k]._t, outputs[k]._i)
    for store in {id(outputs[k]._t): outputs[k]._t for k in rest}.values():
        mine = [k for k in rest if outputs[k]._t is store]
        swept = Pass(store, [(outputs[k]._i, None) for k in mine], inputs)
        swept.check()
        slots = {}
        for slot, tensors in swept.wanted.items():
            given = [seed for x, seed in zip(inputs, seeds) if any(x is t for t in tensors)]
            slots[slot] = sum(given[1:], given[0])
            # An input that is itself computed: nothing comes up from below it.
            swept.marks[slot] = 2
        store.pinned += 1
        kept = [outputs[k]._i for k in mine]
        sweep = Tangents(store, swept.marks, swept.low, swept.high, 1, kept)
        try:
            for slot, seed in slots.items():
                sweep.seed(slot, 0, seed)
            sweep.run()
            for k in mine:
                port = Port(outputs[k]._v, outputs[k]._i)
                rows = np.zeros((1, port.size), port.char)
                sweep.collect(targets_of([(port.slot, port.meta, rows)]), 0, 1)
                found[k] = normalise(rows.reshape(port.shape))
        finally:
            store.pinned -= 1
            sweep.close()
    return found
