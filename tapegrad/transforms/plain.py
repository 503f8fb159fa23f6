"""One call of a transformation that is not under `jit`: the function runs on a tape of its own, which is swept and let go.

`value_and_gradients` is all of it.  The arguments that are differentiated become tensors that lie on that tape from the start,
so that every operation on them takes the short ways of `array.operators`; the backward pass is that of `Tensor.backward`,
which lets go of saved values as it passes them.  Nothing is kept of a call but an empty buffer for the next one.
"""

import sys

import numpy as np

from ..array.differentiable import clarify
from ..array.record import normalise
from ..array.tensor import Tensor
from ..autograd.backward import sweep_back, sweep_straight
from ..autograd.recording import check_number, check_result, differentiable, refuse_captured, refuse_outer
from ..common.errors import StructureError
from ..common.tree import LEAF, flatten, leaf_names, unflatten
from ..interpreter.fields import constant, place
from ..tape.layout import meta_of
from ..tape.places import placed_name
from ..tape.store import CALL_ENDED, LARGEST_REUSED, TapeStore, thread_state


def value_and_gradients(function, args, kwargs, argnums, has_aux=False, scalar=True):
    """The value of ``function(*args, **kwargs)`` and its gradients by some of the arguments.

    Parameters
    ----------
    function : callable
    args, kwargs
        Numbers, arrays and containers of them, and anything else.  What is not differentiated arrives as it was given.
    argnums : sequence of int
        Positions of the arguments that are differentiated.
    has_aux : bool
        Whether the function returns a pair of which only the first part is differentiated.
    scalar : bool
        Whether that is one number; else the gradients are those of the sum of all its elements.

    Returns
    -------
    values : list
        The leaves of the result: floats, arrays, and what else there is of an auxiliary part.
    structure : Structure
        Of the result.
    gradients : list of (float or ndarray)
        One for each leaf of the arguments in `argnums`, in the order of the arguments.
    """
    call = _EagerCall()
    try:
        answer = _answer(call, function, args, kwargs, argnums, has_aux, scalar)
    except BaseException:
        call.end(False)
        raise
    call.end(True)
    return answer


def _answer(call, function, args, kwargs, argnums, has_aux, scalar):
    variables, arguments = [], []
    for k, value in enumerate(args):
        arguments.append(call.argument(k, value, variables) if k in argnums else value)
    call.state.variables = (*call.outer, *variables)
    try:
        result = function(*arguments, **kwargs)
    except Exception as error:
        clarify(error)
        raise
    call.state.variables = call.outer
    if call.outer:
        refuse_outer(call.store)
    if call.enabled and len(call.store.leaf_list) > len(variables):
        refuse_captured(call.store, {t._i for t in variables}, function)
    if scalar and not has_aux and type(result) is Tensor and result._t is call.store and type(result._v) is float:
        # What most functions return: one number, computed here.
        return [result._v], LEAF, _gradients_of_one(result, variables)
    results, structure = flatten(result)
    differentiated = checked(results, structure, function, call.store, has_aux, scalar)
    gradients = _gradients(differentiated, variables)
    return [_let_out(r._v) if isinstance(r, Tensor) else r for r in results], structure, gradients


def _let_out(value):
    """The value of a result, which the function may have left somewhere, too."""
    return value if type(value) is float else value.copy()


class _EagerCall:
    """The tape of one call, current in this thread until its `end`.

    Attributes
    ----------
    store : TapeStore
    outer : tuple of Tensor
        The variables of the calls around this one.
    enabled : bool
        Whether the caller records.
    """

    __slots__ = ("state", "store", "outer", "enabled")

    def __init__(self):
        self.state = state = thread_state()
        self.outer, self.enabled = state.variables, state.enabled
        if not self.enabled:
            state.set_enabled(True)
        store, state.spare = state.spare, None
        if store is None:
            store = TapeStore(state, True)
            # A backward pass in the function clears what it has used, and leaves the store in its place.
            store.pinned = store.resting = 1
        store.ident = state.ident if state.checking is None else -1
        self.store = state.store = store
        state.tapes.append(self)

    def end(self, answered):
        """Let the tape go; tensors that the function has left somewhere can no longer be differentiated."""
        state = self.state
        state.variables = self.outer
        state.tapes.remove(self)
        state.store = state.tapes[-1].store if state.tapes else state.anonymous
        if not self.enabled:
            state.set_enabled(False)
        if answered and _references(self) == _ALONE and self.store.capacity <= LARGEST_REUSED:
            self.store.renew()
            state.spare = self.store
        else:
            self.store.retire(CALL_ENDED)

    def argument(self, k, value, variables):
        """What the function gets for argument `k`, which is differentiated; a variable, or several, are added to `variables`."""
        kind = type(value)
        if kind is float or kind is np.ndarray and value.dtype.char == "d" and value.dtype.isnative:
            variables.append(self._variable(value))
            return variables[-1]
        leaves, structure = flatten(value)
        for leaf, name in zip(leaves, leaf_names(structure)):
            variables.append(self._variable(differentiable(leaf, f"argument {k}{name}")))
        return unflatten(structure, variables[len(variables) - len(leaves) :])

    def _variable(self, value):
        """A tensor with a copy of `value` that lies on the tape."""
        if value.__class__ is not float:
            value = normalise(value.copy("K"))
        t = constant(Tensor, value)
        if value.__class__ is not float:
            t._m = meta_of(value)
        t._k = object()
        place(t, self.store, self.store.leaf(t))
        return t


def _references(call):
    """How many references there are to the store of a call, if no tensor is left that points to it: `_ALONE`."""
    return sys.getrefcount(call.store)


_probe = object.__new__(_EagerCall)
_probe.store = object()
_ALONE = _references(_probe)


def checked(results, structure, function, store, has_aux, scalar, plain=False):
    """Those of the results of a function that are differentiated; an error if they cannot be.

    With `plain` nothing is differentiated: results may be of any dtype.
    """
    first = len(results)
    if has_aux:
        if structure.kind is not tuple or len(structure.parts) != 2:
            raise StructureError("with has_aux=True the function must return a pair: the value to differentiate, and anything else")
        first = structure.parts[0].count
    for k, (result, name) in enumerate(zip(results, leaf_names(structure))):
        check_result(result, store, f"the result{name} of {placed_name(function)}", differentiated=k < first, plain=plain)
    if scalar:
        check_number(results[:first], structure.parts[0] if has_aux else structure)
    return results[:first]


def _gradients_of_one(root, variables):
    """The gradients of a number by each variable."""
    gradients = sweep_straight(root._t, root._i, [(t._i, t._v) for t in variables])
    if gradients is None:
        return _by_pass([root], variables)
    for k, gradient in enumerate(gradients):
        if gradient is None:
            gradients[k] = _zero(variables[k]._v)
    return gradients


def _gradients(results, variables):
    """The gradients of the sum of `results` by each variable."""
    roots = [t for t in results if type(t) is Tensor and t._t is not None]
    if not roots or not variables:
        return [_zero(t._v) for t in variables]
    return _gradients_of_one(roots[0], variables) if len(roots) == 1 and type(roots[0]._v) is float else _by_pass(roots, variables)


def _by_pass(roots, variables):
    """The same by a pass on whose way others may wait."""
    seeds = [1.0 if type(t._v) is float else np.ones(t.shape, t.dtype) for t in roots]
    swept = sweep_back(roots, seeds, False, variables)
    swept.accumulate_retained()
    return [swept.requested.get(id(t), _zero(t._v)) for t in variables]


def _zero(value):
    return 0.0 if type(value) is float else np.zeros(value.shape, value.dtype)
