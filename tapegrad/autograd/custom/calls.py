"""One call of a primitive of the user's own: what its rules are handed, what they may return, and how results are packed."""

import numpy as np

from ...array.differentiable import Differentiable
from ...array.record import normalise, plain, tracked
from ...common.errors import LeaveTapeError, RuleError
from ...common.registry import registry
from ...common.tree import alike, flatten, mapped, rearranged, unflatten
from ...common.tree import parts_of as things_of
from ...tape.layout import SCALAR
from ...tape.watch import copy_of, sealed


class Call:
    """One call of a primitive: what its rules are handed besides the numbers on the tape.

    Attributes
    ----------
    template : tuple
        For each positional argument, or leaf of one: the number of the operand that holds it, or
        `Fixed` with the argument itself.
    static : dict
        Keyword arguments.
    form : Structure or None
        Of the tuple of positional arguments, if some are containers of tensors.
    outputs : tuple of Output
    several : Structure or None
        Of the results, if they are a container.
    context
        Context of the class form.
    nbytes : int
        What the context keeps besides operands and result.
    why : str
        In a functional recording: why Python is called for its value at each replay; empty if that is instructions.
    recorded : tuple
        There: the values of operands and result, and arrays that the function captured.
    rules : tapegrad.program.through.Rules or None
    shared : list of ndarray
        Large arrays among what is static: the user's own, which are not to change before a rule has read them.
    """

    __slots__ = ("template", "static", "form", "outputs", "several", "context", "nbytes", "why", "recorded", "rules", "shared")

    # What the tape's bookkeeping reads from an array.
    shape = strides = ()
    dtype = np.dtype(object)

    def __init__(self, template, static, form=None):
        self.template, self.static, self.form = template, static, form
        self.outputs, self.several, self.context, self.nbytes = (), None, None, 0
        self.why, self.recorded, self.rules, self.shared = "", None, None, []

    def settle(self, trace):
        """The function has run: let arrays in what is static stay what they are, for the rules; `trace` is that of a functional recording, or None."""
        own = self._own if trace is None else trace.own

        def settled(value):
            if isinstance(value, np.ndarray):
                return own(value)
            return mapped(settled, value) if any(True for _ in things_of(value, np.ndarray)) else value

        self.template = tuple([Fixed(settled(t.value)) if type(t) is Fixed else t for t in self.template])
        self.static = {key: settled(value) for key, value in self.static.items()}

    def _own(self, array):
        """A copy of an array, or itself, to be watched, if it is large."""
        copy = copy_of(array)
        if copy is None:
            self.shared.append(array)
        return array if copy is None else copy

    @property
    def count(self):
        """How many operands it has, besides this."""
        return max((t for t in self.template if type(t) is not Fixed), default=0)

    def arguments(self, values):
        """The leaves of the positional arguments, from the values of the operands (this call first)."""
        return [t.value if type(t) is Fixed else values[t] for t in self.template]

    def contained(self, leaves):
        """The positional arguments, or what there is for each of their leaves in their containers."""
        return leaves if self.form is None else unflatten(self.form, leaves)


class Fixed:
    """A positional argument that is on no tape and cannot change: a number, a string, an object."""

    __slots__ = ("value",)

    def __init__(self, value):
        self.value = value


class Output:
    """Shape, dtype and place (in the packed vector) of a result; `value` of one without derivative."""

    __slots__ = ("shape", "dtype", "start", "stop", "value")

    def __init__(self, array, start, differentiable):
        self.shape, self.dtype = array.shape, array.dtype
        self.start, self.stop = start, start + (array.size if differentiable else 0)
        self.value = None if differentiable else array


registry.Call = Call


def hidden(name, args, static, refused):
    """Positions of containers that hold tensors; these, if `refused`, and keyword arguments that do raise: their derivative would be lost."""
    for key, value in static.items():
        if any(map(tracked, things_of(value, Differentiable))):
            raise LeaveTapeError(
                f"{name}: the keyword argument {key!r} holds a tensor that requires a gradient; keyword arguments are "
                "static. Pass it by position"
            )
    found = [k for k, a in enumerate(args) if not isinstance(a, Differentiable) and any(map(tracked, things_of(a, Differentiable)))]
    if found and refused:
        raise LeaveTapeError(
            f"{name}: argument {found[0]} is a {type(args[found[0]]).__name__} that holds a tensor that requires a gradient; pass "
            "each tensor as an argument of its own, or join them with np.stack"
        )
    return found


def handed(arguments, function):
    """Arguments as a user's function gets them: it cannot change what the tape keeps.

    Arrays are read-only; a function compiled by Numba, which may have been
    compiled for arrays that are not, gets copies.
    """
    copies = hasattr(function, "py_func")

    def one(argument):
        if type(argument) is np.ndarray:
            return argument.copy() if copies else sealed(argument)
        return type(argument)(map(one, argument)) if type(argument) in (tuple, list) else argument

    return [one(argument) for argument in arguments]


def packed(parts):
    """Several results as one flat vector."""
    parts = [np.asarray(p) if not isinstance(p, Differentiable) else p for p in parts]
    dtype = np.result_type(*(p.dtype for p in parts))
    return np.concatenate([_cast(np.reshape(p, (-1,)), dtype) for p in parts])


def _cast(part, dtype):
    return part if part.dtype == dtype else part.astype(dtype)


def unpacked(whole, call):
    """The results, from the value of the instruction (an array, tensor or dual number); of None, where it was not kept, None."""
    return unflatten(call.several, parts_of(whole, call)) if call.several and whole is not None else whole


def leaves_like(thing, structure):
    """The leaves of a derivative of a container of this structure; None if it is another container.

    None is no leaf in the container, and zero in its derivative.
    """
    like, expected = flatten(unflatten(structure, [0.0] * structure.count), none=True)
    found, form = flatten(thing, none=True)
    found = found if alike(form, expected) else rearranged(found, form, expected)
    return None if found is None else [leaf for leaf, one in zip(found, like) if one is not None]


def parts_of(whole, call):
    if not call.several:
        return [whole]
    parts = []
    for o in call.outputs:
        if o.value is not None:
            parts.append(plain(normalise(o.value)) if isinstance(whole, Differentiable) else o.value)
            continue
        part = whole[o.start : o.stop] if o.shape else whole[o.start]
        part = _cast(np.reshape(part, o.shape) if len(o.shape) != 1 else part, o.dtype)
        parts.append(part if isinstance(part, Differentiable) else normalise(part))
    return parts


def is_float(thing):
    """Whether a thing is a float or an array of floats."""
    return isinstance(thing, float) or isinstance(thing, (np.ndarray, np.generic)) and thing.dtype.kind == "f"


def zero_tangent(argument):
    """Of a number or array of floats, or a container that has some, a tangent of zeros; of anything else None."""
    leaves, structure = flatten(argument)
    if structure.kind not in (None, complex):
        zeros = [zero_tangent(leaf) for leaf in leaves]
        return None if all(zero is None for zero in zeros) else unflatten(structure, zeros)
    if not (type(argument) is float or getattr(getattr(argument, "dtype", None), "kind", "") == "f"):
        return None
    return 0.0 if np.ndim(argument) == 0 else np.zeros(argument.shape, argument.dtype)


def like_of(meta):
    """Something of the shape and dtype of an operand that costs no memory."""
    return 0.0 if meta is SCALAR else np.broadcast_to(np.zeros((), meta.char), meta.shape)


def fitted(cotangent, like, what, recorded=False):
    """A cotangent as the adjoint of a value: its shape and dtype, in memory of its own; with `recorded` a tensor may stay one."""
    if isinstance(cotangent, Differentiable):
        if tracked(cotangent) and recorded and cotangent.shape == np.shape(like):
            return cotangent
        if tracked(cotangent) and not recorded:
            raise RuleError(f"{what} a tensor on the tape: the rule closes over a tensor that requires a gradient. A rule computes with what it is handed")
        cotangent = cotangent._v
    try:
        array = np.asarray(cotangent)
    except ValueError:
        array = None
    if array is None or array.dtype.kind not in "fiub":
        shown = type(cotangent).__name__ if array is None or array.dtype.kind == "O" else f"an array of dtype {array.dtype}"
        raise RuleError(f"{what} {shown}, which is not a cotangent; return an array of floats, or None for zero")
    if array.shape != np.shape(like):
        raise RuleError(f"{what} an array of shape {array.shape}; a cotangent has the shape of its argument, {np.shape(like)}")
    return normalise(np.array(array, np.float64 if type(like) is float else like.dtype, order="C"))
