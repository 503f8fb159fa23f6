"""A functional derivative inside of another one.

``tg.grad(f)`` called while something else is being differentiated may not answer with
numbers.  Here the function is evaluated on the tensors that are there, beside the
tape of the derivative outside; what is differentiated is a copy of the argument (an
instruction of its own, so the number outside and the one inside cannot be confused:
``D(x -> x * D(y -> x + y, 1), 1)`` is 1); and the adjoint is recorded on the same tape.
So a decision that Python takes inside guards the recording outside, by itself.

A result may be a dual number (forward mode outside): its parts are differentiated one
by one, as the derivative is linear in them.
"""

import copy
from itertools import takewhile

import numpy as np

from ..array.differentiable import Differentiable, below, clarify, value_below
from ..array.dual import Dual, made, running, zeros_of
from ..array.objects import operand
from ..array.operators import argument_changed, restore
from ..array.record import apply, normalise, plain, tracked, with_room
from ..array.tensor import Tensor, tensor
from ..common.errors import DtypeError, TapeMismatchError
from ..common.registry import registry
from ..common.tree import Structure, flatten, leaf_names, unflatten
from ..interpreter.fields import place
from ..interpreter.signature import Signature
from ..rules import BY_NAME
from ..tape.layout import ARRAY_LEAF, CLEARED, CONTINUES, MARK, SCALAR_LEAF, TRACED
from ..tape.modes import enable_grad, recording
from ..tape.places import caller_frame
from ..tape.store import thread_state
from .adjoint import between, push
from .backward import Pass, own_copy, stores_of, sweep_back
from .passes import sweep_recorded, values_of
from .reading import Region, slots_on
from .recording import check_result, was_variable

_CLONE = BY_NAME["clone"].opcode


def inside():
    """Whether this thread is computing some derivative already."""
    return running.level > 0 or taped()


def taped():
    """Whether this thread is recording for some derivative."""
    state = thread_state()
    return bool(state.tapes) and (bool(state.variables) or current_trace() is not None)


def current_trace():
    """The functional recording that this thread is making, or None."""
    for tape in reversed(thread_state().tapes):
        if tape.store.trace is not None:
            return tape.store.trace
    return None


def is_nested(args, kwargs):
    """Whether a functional derivative called with these arguments has to be recorded itself."""
    if inside():
        return True
    for a in args:
        if not (type(a) is float or type(a) is np.ndarray and a.dtype.char != "O"):
            break
    else:
        if not kwargs:
            return False
    return any(map(tracked, flatten((args, kwargs))[0]))


def beside(ordinary, recorded, *arguments):
    """What `ordinary`, a call by a recording of its own, makes of `arguments`; `recorded`, if the function uses numbers on a tape outside.

    Such a number is found out when the function has used it: the function is called a second time then; or never, if `recorded` is None.
    """
    try:
        return ordinary(*arguments)
    except TapeMismatchError:
        return once_more(recorded, *arguments)


def once_more(recorded, *arguments, kept=()):
    """The second call of `beside`, where the first has raised the error that is being handled, on arrays that hold what they did (`kept`)."""
    if recorded is None:
        raise
    restore(kept)
    return recorded(*arguments)


def parts_of(value):
    """The numbers that a dual number is made of."""
    if value.__class__ is Dual:
        return parts_of(value.value) + ([] if value._d is None else parts_of(value._d))
    return [value]


def mapped(function, value):
    """`value` with `function` applied to the numbers that it is made of."""
    if value.__class__ is Dual:
        tangent = None if value._d is None else mapped(function, value._d)
        return made(mapped(function, value.value), tangent, value._lanes, value._level)
    return function(value)


class TensorWalk:
    """A function on variables of its own, beside the derivative outside, and derivatives that are recorded there: a walk of an `Evaluation`.

    A context: when it is entered the function runs.

    Parameters
    ----------
    function : callable
    args, kwargs
    argnums : sequence of int
        Which arguments are variables; ascending.

    Attributes
    ----------
    variables : list
        The leaves of these arguments: tensors, or dual numbers with a tensor at the bottom.
    bases : list
        These tensors, with respect to which is differentiated.
    structures : list of Structure
        Of each argument.
    results : list
        The leaves of the result.
    structure : Structure
    """

    recorded = True

    def __init__(self, function, args, argnums, kwargs):
        self.function, self.args, self.kwargs, self.argnums = function, list(args), kwargs, tuple(argnums)
        state = thread_state()
        self.enabled = state.enabled
        self.trace = current_trace()
        self.flattened = [flatten(args[k]) for k in self.argnums]
        self.structures = [structure for _, structure in self.flattened]
        self.variables, self.bases, self.results, self.structure = [], [], [], None
        #: The variables that stand for constants.
        self.own = []
        #: What `_alone` found, when results first left; False when a variable is a tensor of the derivative outside.
        self.alone = None
        #: The user's frame that asks for the derivative, while the context lasts.
        self.frame = None

    def __enter__(self):
        self.mode = None if self.enabled else enable_grad()
        if self.mode is not None:
            self.mode.__enter__()
        store = thread_state().store if self.trace is None else self.trace.store
        if not (store.explicit or store.pinned) and self.trace is None and (store.length >= store.limit or store.nbytes > store.byte_limit):
            # While a walk is under way nothing is forgotten: one after another, they would fill any memory.
            store = with_room(store, (), 0)
        self.store, self.start = store, store.length
        store.pinned += 1
        if self.trace is not None:
            self.trace.keeping += 1
        try:
            self._run()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exception):
        # Nothing is differentiated by its own variables any more: for what goes on outside they are constants.
        for base in self.own:
            base._extras().past = True
        self.store.unpin()
        if self.trace is not None:
            self.trace.keeping -= 1
        self.frame = None
        if self.mode is not None:
            self.mode.__exit__()

    # -- in ---------------------------------------------------------------------
    def _run(self):
        """Make the variables and evaluate the function."""
        args = list(self.args)
        self.store.calling = self.frame = caller_frame(3)
        try:
            for k, (leaves, structure) in zip(self.argnums, self.flattened):
                variables = [self._variable(leaf, k, name) for leaf, name in zip(leaves, leaf_names(structure))]
                self.variables += variables
                args[k] = unflatten(structure, variables)
        finally:
            self.store.calling = None
        self.bases = [below(x) for x in self.variables]
        given, state = [base._v for base in self.bases], thread_state()
        state.evaluating += 1
        try:
            self.results, self.structure = flatten(self.function(*args, **self.kwargs))
        except Exception as error:
            clarify(error)
            raise
        finally:
            state.evaluating -= 1
        for x, base, value in zip(self.variables, self.bases, given):
            if below(x) is not base or base._v is not value:
                raise argument_changed()

    def _variable(self, x, k, name):
        if x.__class__ is Dual:
            return made(self._variable(x.value, k, name), x._d, x._lanes, x._level)
        if tracked(x):
            self.alone = False
            if x._v.__class__ is not float and x._v.dtype.char not in "df":
                raise DtypeError(f"argument {k}{name} is a tensor of {x.dtype}, which has no derivative; pass it as .astype(float)")
            t = self._copied(x) if self.trace is None else apply("clone", (self.trace.inside(x),))
            if self.trace is not None and t._t is self.trace.store:
                self.trace.variables.add(t._i)
            return t
        if isinstance(x, Differentiable):
            x = x._v
        check_result(x, None, f"argument {k}{name}", plain=True)
        t = tensor(x, requires_grad=True)
        t = t if self.trace is None else self.trace.variable(t._v)
        self.own.append(t)
        return t

    def _copied(self, x):
        """An instruction of its own, behind a tensor: of a number it is written at once, where there is room."""
        store = self.store
        if x._t is not store or x._v.__class__ is not float or store.length + 1 >= store.limit or store.ident < 0:
            return apply("clone", (x,))
        if id(self.frame.f_code) != store.running:
            store.note_code(self.frame)
        t = plain(x._v)
        place(t, store, store.append(_CLONE, x._i, 0, self.frame.f_lasti, x._v, 0.0))
        return t

    def towards(self, results):
        """The walk from the same variables to other results, which were computed from them; of the structure of the variables."""
        walk = copy.copy(self)
        walk.results, walk.structure = results, together(self.structures)
        return walk

    # -- reverse mode ---------------------------------------------------------------
    def pull(self, seeds, lanes=None):
        """As of an `Evaluation`."""
        seeds = [None if s is None else _seed(s, r) for s, r in zip(seeds, self.results)]
        return recording(self.pulled, self.results[: len(seeds)], seeds, lanes)

    def pulled(self, results, seeds, lanes=None):
        """The adjoints of the variables; those of several seeds at once have a leading axis of extent `lanes`.

        Parameters
        ----------
        results, seeds : list
            Tensors, dual numbers or plain values; seeds as the results, after that axis.
        """
        return _filled(_through(self._swept, self.bases, results, seeds, lanes), self.bases, lanes)

    def _swept(self, results, seeds, lanes):
        roots, weights = [], []
        for result, seed in zip(results, seeds):
            if seed is not None and tracked(result):
                roots.append(result)
                weights.append(seed._v if isinstance(seed, Differentiable) and not tracked(seed) else seed)
        if lanes is None and roots and roots[0]._t is not None:
            found = registry.later.behind.pulled(roots, weights, self.bases, self.frame)
            if found is not None:
                return found
        requested = sweep_recorded(roots, weights, self.bases, lanes=lanes).requested
        return [requested.get(id(b)) for b in self.bases]

    # -- forward mode -----------------------------------------------------------------
    def push(self, tangents, lanes=None, symmetric=False):
        """As of an `Evaluation`; of the gradient of a number (`symmetric`) the same is pulled where that is less work."""
        outputs, bases = self.results, [below(t) for t in self.results]
        tangents = [t if t is None or isinstance(t, Differentiable) else normalise(np.asarray(t, order="C")) for t in map(operand, tangents)]
        ends = lanes != 0 and self._ends(tangents)
        if ends and symmetric and lanes is None and not self._may_contradict():
            return self._pulled_numbers(tangents)
        if ends and not self.store.in_python:
            rows = [t if t is None else np.reshape(t, (lanes or 1, *b.shape)).astype(b.dtype) for t, b in zip(tangents, self.bases)]
            found = carried(self.bases, outputs, rows, lambda *walk: push(*walk, lanes or 1), True)
            return _filled([f if f is None or lanes else normalise(f[0]) for f in found], bases, lanes)

        def pushed(outputs, tangents, lanes):
            return carried(self.bases, outputs, tangents, lambda *walk: push(*walk, lanes), behind=self.frame if lanes is None else None)

        return _filled(recording(_through, pushed, bases, outputs, tangents, lanes), bases, lanes)

    def _may_contradict(self):
        """Whether a primitive was called that has both rules, which may contradict each other."""
        ops = self.store.records()["op"][self.start :]
        called = [signature.row.primitive for signature in Signature.among(np.unique(ops))]
        return any(one is not None and one.has_rule("vjp") and one.has_rule("jvp") for one in called)

    def _pulled_numbers(self, seeds):
        """What compiled sweeps pull back from the results."""
        pairs = [(r, normalise(np.asarray(s, r.dtype))) for r, s in zip(self.results, seeds) if s is not None and tracked(r)]
        found = sweep_back(*zip(*pairs), True, self.bases).requested if pairs else {}
        return _filled([found.get(id(b)) for b in self.bases], self.bases, None)

    def _ends(self, tangents):
        """Whether what is pushed has no derivative: the tangents are plain, and nothing outside has a part in the results."""
        if self.trace is not None or taped() or any(r.__class__ is Dual for r in self.results):
            return False
        return not any(isinstance(t, Differentiable) for t in tangents) and self._alone()

    # -- out ----------------------------------------------------------------------------
    def out(self, values):
        """Values that were computed, as they leave: numbers if nothing outside has a part in them."""

        def one(part):
            if not isinstance(part, Differentiable):
                return part
            if self.alone is None:
                self.alone = self._alone()
            if self.alone or not tracked(part):
                return own_copy(part._v)
            return part if self.enabled else part.detach()

        return [mapped(one, value) for value in values]

    def _alone(self):
        """Whether nothing was used but constants: no tensor of the derivative outside, no other tensor on a tape."""
        if any(isinstance(p, Tensor) and tracked(p) for x in self.variables for p in parts_of(x)[1:]):
            return False
        own, store, start = {id(b) for b in self.bases}, self.store, self.start
        if store.forward is not None or store.retired is not None or any(b._t is not None and b._t is not store for b in self.bases):
            return False
        returned = [p for result in self.results for p in parts_of(result) if isinstance(p, Tensor)]
        if any(p._t is not None and (p._t is not store or p._i < start) for p in returned):
            return False
        leaves = [p for p in returned if p._t is None and p._r]
        for slot, reference, _ in reversed(store.leaf_list):
            if slot < start:
                break
            leaves.append(reference())
        if any(leaf is not None and id(leaf) not in own and not was_variable(leaf) for leaf in leaves):
            return False
        records = store.records()[start:]
        ops = records["op"]
        computed = records[(ops != SCALAR_LEAF) & (ops != ARRAY_LEAF) & (ops != TRACED)]
        continued = records[ops == CONTINUES].view(np.int64).reshape(-1, 4)[:, 2:]
        # (Records of a rule that could not be recorded have none.)
        met = () if store.trace is None else takewhile(lambda pair: pair[0] >= start, reversed(store.trace.entries.items()))
        entries = [entry.operands for _, entry in met]
        operands = np.concatenate([computed["a"], computed["b"], continued.ravel(), *entries])
        return not ((ops >= CLEARED).any() or ((operands > 0) & (operands < start)).any())


def carried(bases, outputs, seeds, walk, plain=False, behind=None):
    """What a walk up the tape carries from `bases` to `outputs` (tensors and plain values): None where nothing arrives.

    Parameters
    ----------
    bases : list of Tensor
    outputs, seeds : list
        Seeds are of the bases; None is zero.
    walk : callable
        ``walk(stretch, order, carried)`` as `tangents.push`: `carried` has the seeds by slot; gives what any slot has.
    plain : bool
        As of a `Region`.
    behind : frame, optional
        The user's, where what is carried are tangents, which compiled code writes behind the tape if it can (`kernel.behind`).
    """
    seeds = [seed._v if isinstance(seed, Differentiable) and not tracked(seed) else seed for seed in seeds]
    # A variable that was returned without being used is no operand of anything.
    found = {}
    for base, seed in zip(bases, seeds):
        found[id(base)] = found[id(base)] + seed if id(base) in found else seed
    live = [t for t in outputs if tracked(t)]
    for store in stores_of([t for t in live if t._t is not None]):
        here, known = [t for t in live if t._t is store], {}
        for slots, seed in zip(slots_on(store, bases), seeds):
            for slot in slots if seed is not None else ():
                known[slot] = known[slot] + seed if slot in known else seed
        carried_to = _carry(store, [t._i for t in here], known, walk, plain, behind) if known or plain else known.get
        found.update((id(t), carried_to(t._i)) for t in here)
    return [found.get(id(t)) if tracked(t) else None for t in outputs]


def _carry(store, roots, known, walk, plain, behind):
    """`carried`, to slots of one store: what any of them has."""
    stretch, marks = Region(store, plain), None
    if plain or store.trace is None:
        passed = Pass(store, [(slot, None) for slot in roots], None)
        passed.check()
        marks = passed.marks[: max(roots) + 1]
    store.pinned += 1
    try:
        written = registry.later.behind.pushed(store, roots, known, behind) if behind is not None else None
        if written is not None:
            return written
        with values_of(store):
            if plain:
                low = min(known, default=max(roots))
                order = low + np.flatnonzero(marks[low:] == MARK)
            else:
                order = between(stretch, roots, [s for s in known if s <= max(roots)])
            return walk(stretch, order, known)
    finally:
        store.unpin()


def _through(linear, targets, operands, seeds, lanes):
    """``linear(operands, seeds, lanes)``, for which no dual number may be among these: linear in the seeds, one for each of `targets`.

    A dual number is taken apart: the tangent of what comes out is that of the operands' tangents, and that along the
    tangents of the seeds.  None is zero everywhere.
    """
    levels = [v._level for v in (*operands, *seeds) if v.__class__ is Dual]
    if not levels:
        return linear(operands, seeds, lanes)
    level = max(levels)
    primals, moved, counts = zip(*(split(o, level) for o in operands))
    straight, turned, others = zip(*(split(s, level) for s in seeds))
    count = next((c for c in (*counts, *others) if c is not None), None)

    def tangents(lane):
        moved_here, turned_here = ([p if p is None or lane is None else p[lane] for p in parts] for parts in (moved, turned))
        of_operands = _through(linear, targets, moved_here, straight, lanes)
        of_seeds = _through(linear, targets, primals, turned_here, lanes)
        return [a if b is None else b if a is None else a + b for a, b in zip(of_operands, of_seeds)]

    values = _through(linear, targets, primals, straight, lanes)
    if count is None:
        carried = tangents(None)
    else:
        rows = zip(*map(tangents, range(count)))
        carried = [None if all(p is None for p in parts) else np.stack(_filled(parts, [t] * count, lanes)) for parts, t in zip(rows, targets)]
    return [
        None if v is None and c is None else made(zeros_of(t, lanes) if v is None else v, c, count, level)
        for v, c, t in zip(values, carried, targets)
    ]


def split(value, level):
    """Primal and tangent at `level` (None: zero), and the lanes of the tangent."""
    if value.__class__ is Dual and value._level == level:
        return value.value, value._d, value._lanes
    return value, None, None


def _filled(values, targets, lanes):
    """`values` with zeros, in the shapes of `targets`, for None."""
    return [zeros_of(t, lanes) if v is None else v for v, t in zip(values, targets)]


def ones_of(result):
    """The seed of a sum over the elements of `result`."""
    value = value_below(result)
    return 1.0 if value.__class__ is float else normalise(np.ones(np.shape(value), getattr(value, "dtype", "d")))


def together(structures):
    """The structure of several things: of one that of itself, else of their tuple."""
    return structures[0] if len(structures) == 1 else Structure(tuple, (None,) * len(structures), tuple(structures))


def _seed(seed, result):
    """`seed` as a seed for `result`, in its dtype."""
    if seed.__class__ is float and value_below(result).__class__ is float:
        return seed
    seed = operand(seed)
    if isinstance(seed, Differentiable) and tracked(seed):
        return seed
    seed = seed._v if isinstance(seed, Differentiable) else seed
    return normalise(np.array(seed, getattr(below(result), "dtype", "d")))
