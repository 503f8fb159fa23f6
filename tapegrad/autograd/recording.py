"""What a function that is differentiated may take, use and return: numbers of its own tape, and its arguments."""

import contextlib
import functools

import numpy as np

from ..array.differentiable import Differentiable, value_below
from ..array.dual import Dual, as_float
from ..array.record import nesting_error, store_of, tracked
from ..common.dtypes import check_class, check_derivative, check_returned
from ..common.errors import DtypeError, HigherOrderError, NestingError, NonScalarOutputError, StructureError
from ..common.registry import registry
from ..tape.places import function_name, name_of
from ..tape.store import thread_state


def was_variable(leaf):
    """Whether a derivative that is finished was taken with respect to this leaf: for all else it is a constant."""
    return leaf._x is not None and leaf._x.past


def check_result(result, store, what, differentiated=True, plain=False):
    """Refuse results that carry no derivative where one is wanted, and those that lie on another tape than `store`.

    With `plain` nothing is differentiated: results may be of any dtype.
    """
    if isinstance(result, Differentiable):
        if result.__class__ is Dual:
            raise nesting_error(what)
        if result._t is None:
            # A tensor of outside that no instruction has used so far, or a constant.
            elsewhere = result._r and result._k not in store.leaves and not was_variable(result)
        else:
            elsewhere = result._t is not store and store_of(result) is not store
        if elsewhere:
            raise nesting_error(what)
        if differentiated and not plain:
            check_derivative(result, what)
    elif differentiated:
        check_returned(result, what, plain)


def as_plain(value):
    """A result as plain NumPy has it; scalars as ``numpy.float64``."""
    return np.float64(value) if type(value) is float else value


def differentiable(leaf, what):
    """An argument to be differentiated as a float, or as a new array of floats; an error if it is none."""
    if isinstance(leaf, Differentiable):
        if tracked(leaf):
            raise HigherOrderError(
                f"{what} is {'a dual number' if leaf.__class__ is Dual else 'a tensor that requires a gradient'}: the derivative of this "
                "function is computed by a sweep and would not be recorded, so derivatives of derivatives cannot be nested here. Pass its "
                "value (x.detach()), or use forward mode inside (tg.grad(tg.derivative(f)))"
            )
        leaf = leaf._v
    if not isinstance(leaf, (int, float, np.ndarray, np.generic)) or leaf is True or leaf is False:
        apart = "pass it apart, or declare it in its dataclass as field(metadata={'static': True})"
        instead = "give its numbers, .to_numpy()" if hasattr(leaf, "to_numpy") else apart
        raise StructureError(f"{what} is of type {type(leaf).__name__}, which cannot be differentiated: {instead}")
    if isinstance(leaf, (np.ndarray, np.generic)) and leaf.dtype.kind in "iub":
        kind, instead = ("an array", ".astype(float)") if leaf.ndim else ("a number", "float(...)")
        raise DtypeError(f"{what} is {kind} of {leaf.dtype}, which has no derivative; pass it as {instead}")
    check_class(leaf, what)
    if isinstance(leaf, np.ndarray) and type(leaf) not in (np.ndarray, np.memmap):
        raise DtypeError(f"{what} is an array of class {type(leaf).__name__}; pass np.asarray(a), a plain array")
    return as_float(leaf, what)


@contextlib.contextmanager
def differentiating(leaves):
    """While a function runs on `leaves`: functional derivatives inside may not take them for constants."""
    state = thread_state()
    before, state.variables = state.variables, (*state.variables, *leaves)
    try:
        yield
    finally:
        state.variables = before


def refuse_outer(store):
    """Raise if a leaf of a function that is being differentiated outside was used on `store`."""
    variables = thread_state().variables
    if variables:
        outer = {id(leaf) for leaf in variables}
        if any(id(reference()) in outer for _, reference, _ in store.leaf_list):
            raise nesting_error("a number that the function uses without having it as an argument")


def refuse_captured(store, own, function):
    """Raise if a leaf was used on `store` that requires a gradient, and is none of `own` (slots): it would count as a constant."""
    for slot, reference, _ in store.leaf_list:
        leaf = reference()
        if slot not in own and leaf is not None and leaf._r and not was_variable(leaf):
            raise NestingError(captured_message(leaf, function))


def captured_message(leaf, function):
    """What to say of a tensor that requires a gradient, and is used by a function without being one of its arguments."""
    name = name_of(leaf) or next((n for n, t in _closure(function) if t is leaf), None)
    which = f"{name!r}, a tensor" if name else "a tensor"
    return (
        f"{which} of shape {tuple(leaf.shape)} that requires a gradient, is used by {function_name(function)} without being one of "
        "its arguments: the result would not depend on it. Pass it as an argument; if it is to count as a constant, pass its "
        "value (.detach()) or call under tg.no_grad()"
    )


def _closure(function):
    """Names and values of the variables that a function has from outside."""
    code = getattr(function, "__code__", None)
    return [(name, cell.cell_contents) for name, cell in zip(code.co_freevars, function.__closure__ or ())] if code is not None else []


def refuse_complex(structure):
    """Raise the error for a result that is to be one real number, and is a complex one."""
    if structure.kind is complex:
        raise NonScalarOutputError(
            "the function must return one real number to be differentiated, it returned a complex one: return its .real or abs(), pass "
            "holomorphic=True for the derivative of a holomorphic function, or use tg.vjp"
        )


def check_number(results, structure):
    """Refuse results, of this structure, that are anything but one real number, or an array of one."""
    if structure.kind is None and value_below(results[0]).__class__ is float:
        return
    refuse_complex(structure)
    if len(results) != 1:
        raise NonScalarOutputError(
            f"the function must return one number to be differentiated, it returned {structure}; "
            "use tg.jacobian for several, or return (number, anything) and pass has_aux=True"
        )
    if np.size(value_below(results[0])) != 1:
        raise NonScalarOutputError(
            f"the function must return one number to be differentiated, it returned an array of shape {np.shape(results[0])}; sum it, or "
            "use tg.jacobian"
        )


class RealPart:
    """A function whose result, or the first part of it, is the real part of another one's, which has to be complex."""

    def __init__(self, function, has_aux=False):
        functools.update_wrapper(self, function, updated=())
        self.function, self.has_aux = function, has_aux

    def __call__(self, *args, **kwargs):
        result = self.function(*args, **kwargs)
        value, *aux = result if self.has_aux else (result,)
        parts = registry.objects.split(registry.objects.operand(value))
        if parts is None:
            raise DtypeError("with holomorphic=True the function must return a complex number or array, it returned a real one: leave it out")
        return (parts[0], *aux) if self.has_aux else parts[0]
