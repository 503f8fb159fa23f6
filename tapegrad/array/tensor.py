"""The tensor: a value, and where on the tape it came from.

A tensor is one of three things:

constant    not on a tape, needs no gradient;
leaf        made by the user with ``requires_grad=True``; belongs to no tape and
            may be shared by threads; each store that uses it enters it;
interior    the result of a recorded operation: slot `_i` of store `_t`.

Fields: `_v` value (Python float for float64 scalars, else ndarray), `_m` the
description of an ndarray, `_t`/`_i` store and slot (set by `interpreter.fields.place`), `_r` leaf that requires a gradient, `_k`
key (of a leaf: a new object after each change in place), `_x` rarely used extras.  A number that the short way of `interpreter.numbers`
has made has no `_m`, `_k` and `_x` yet.

Operators, indexing, functions and NumPy's protocols are added by the modules of
those names.  What is built upon tensors (`autograd`, `graph`, `operators`) is imported by the
methods that call it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import DTypeLike

from ..common.dtypes import plain_array
from ..common.errors import ComplexOperandError, DtypeError, GradientError, LeaveTapeError
from ..common.observers import LISTENERS, RemovableHandle, notify
from ..common.printing import format_tensor
from ..common.registry import registry
from ..interpreter.fields import constant, native, place, share
from ..tape.layout import meta_of
from ..tape.places import called
from ..tape.watch import sealed
from .assigning import assign_value
from .differentiable import Differentiable, refused
from .record import normalise, plain, trace_of
from .typing import TensorLike
from .views import note_leaf, source_of


@native
class Tensor(Differentiable):
    """A float array (or scalar) whose operations are recorded on a tape.

    Make one with `tapegrad.tensor`; see there for parameters.

    Attributes
    ----------
    shape, dtype, ndim, size
        As for a NumPy array.
    requires_grad : bool
    grad : Tensor or None
        Accumulated gradient of a leaf (or of a tensor after `retain_grad`).
    grad_fn : Node or None
        Node of the instruction that made this tensor.
    is_leaf : bool

    Examples
    --------
    >>> import tapegrad as tg
    >>> isinstance(tg.tensor(1.0), tg.Tensor)
    True
    """

    __slots__ = ()

    # -- leaving the tape -------------------------------------------------------
    def _refuse(self, how, instead):
        if self.requires_grad:
            raise refused(
                f"{instead}. {how} of {called(self, 'a tensor')}, which requires a gradient, would cut the derivative (.item() and .detach() cut it on purpose)"
            )

    def detach(self) -> Tensor:
        """The same value as a constant: no gradient flows through it.

        An array shares memory.  That of a leaf may be written to (it counts as a
        change of the leaf); that of a computed tensor is read-only, because the
        tape may need it: write to a ``.clone()``.
        """
        if LISTENERS:
            notify(".detach()", self)
        if trace_of((self,)) is not None:
            return self._t.trace.detached(self)
        if type(self._v) is float:
            return plain(self._v)
        if self._t is not None:
            return plain(sealed(self._v))
        constant = plain(self._v)
        # Not weakly: instructions may read the memory of a leaf that is gone.
        constant._extras().source = source_of(self)
        return constant

    def __repr__(self) -> str:
        leaf = self._t is None
        return format_tensor(self._v, grad_fn_name=None if leaf else self.grad_fn.name(), requires_grad=leaf and self._r)

    __str__ = __repr__

    def __reduce__(self):
        if self._t is not None:
            # A tape stays in its process: the value goes.
            return rebuilt, (Tensor, self._let_out("pickle.dumps()"), False, None)
        return rebuilt, (type(self), self._v, self._r, None if self._x is None else self._x.grad)

    def __copy__(self):
        return self.__deepcopy__({})

    def __deepcopy__(self, memo):
        if self._t is not None:
            copied = memo[id(self)] = self.clone()
            return copied
        rebuild, (kind, value, requires, grad) = self.__reduce__()
        value = value if type(value) is float else value.copy()
        copied = memo[id(self)] = rebuild(kind, value, requires, grad)
        return copied

    # -- gradients ----------------------------------------------------------------
    @property
    def tape(self) -> Any:
        """The `tapegrad.Tape` that the tensor was computed on, to be printed, traced and drawn; None for a leaf or a constant."""
        return registry.engine.tape_of(self)

    @property
    def requires_grad(self) -> bool:
        store = self._t
        if store is not None and store.trace is not None:
            # In a functional recording everything is on the tape, with a derivative or not.
            return store.trace.carries(self._i)
        return store is not None or self._r

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self.requires_grad_(value)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Set `requires_grad` in place; returns self."""
        if self._t is not None:
            if requires_grad:
                return self
            raise GradientError("requires_grad of a computed tensor cannot be switched off; use .detach() for its value")
        if requires_grad:
            _check_differentiable(self._v)
            if not self._r:
                # (One that was a leaf before is that again: its key changes with its value.)
                self._k = self._k or object()
                if self._x is not None and self._x.source is not None:
                    note_leaf(self._x.source, self)
        self._r = bool(requires_grad)
        return self

    @property
    def is_leaf(self) -> bool:
        return self._t is None

    @property
    def data(self) -> Tensor:
        """The value as a tensor outside the tape that shares memory."""
        return self.detach()

    @data.setter
    def data(self, value: Any) -> None:
        assign_value(self, value)

    @property
    def grad(self) -> Tensor | None:
        try:
            return self._x and self._x.grad
        except AttributeError:  # an interior tensor of the fast path
            return None

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is not None:
            if not isinstance(value, Tensor):
                raise TypeError(f"grad must be a Tensor or None, got {type(value).__name__}")
            if value.shape != self.shape:
                raise ValueError(f"grad must have the tensor's shape {tuple(self.shape)}, got {tuple(value.shape)}")
        self._extras().grad = value

    @grad.deleter
    def grad(self) -> None:
        self.grad = None

    def _become(self, other):
        """Point to the value and instruction of `other` from now on (or be the dual number it is)."""
        if other._is_dual:
            other._copy_to(self)
            return
        retains = self._t is not None and registry.engine.release_grad(self)
        self._v = other._v
        place(self, other._t, other._i)
        if retains:
            # `.grad` is the tensor's, by the value that it has now; hooks stay with the value they were put on.
            self.retain_grad()
        if type(other._v) is not float:
            self._m = other._m
        self._k = None if other._t is not None else other._k

    @property
    def grad_fn(self) -> Any:
        return None if self._t is None else registry.engine.node_of(self)

    def backward(
        self, gradient: TensorLike | None = None, retain_graph: bool | None = None, create_graph: bool = False,
        inputs: Tensor | Sequence[Tensor] | None = None, *, retain_variables: bool | None = None,
    ) -> None:  # fmt: skip
        """Accumulate the gradients of this tensor into the leaves it depends on.

        Parameters
        ----------
        gradient : array-like, optional
            Seed (the adjoint of this tensor), of its shape; 1 for a scalar.
        retain_graph : bool, optional
            Keep the instructions for another backward pass; by default they
            are released during this one.
        create_graph : bool
            Record the gradient itself (higher order).
        inputs : tensor or sequence, optional
            Accumulate into these only.

        Raises
        ------
        NonScalarOutputError
            No seed and more than one element.
        ClearedTapeError
            An earlier backward pass has released what this one needs.

        Examples
        --------
        >>> import tapegrad as tg
        >>> x = tg.tensor(2.0, requires_grad=True)
        >>> (x ** 2).backward()
        >>> x.grad
        tensor(4.)
        """
        if retain_variables is not None:
            warnings.warn("retain_variables is the old name of retain_graph; use retain_graph", DeprecationWarning, stacklevel=2)
            retain_graph = retain_variables
        registry.engine.backward(self, gradient, retain_graph, create_graph, inputs=inputs)

    def retain_grad(self) -> None:
        """Keep the gradient of this computed tensor in `.grad` after backward: by the value it then has, if it is changed in place."""
        registry.engine.retain_grad(self)

    @property
    def retains_grad(self) -> bool:
        """Whether `retain_grad` was called."""
        return registry.engine.retains_grad(self)

    def register_hook(self, hook: Callable[[Tensor], Tensor | None]) -> RemovableHandle:
        """Call ``hook(grad)`` whenever the gradient of this tensor is computed.

        A hook that returns a tensor replaces the gradient; None leaves it.

        Returns
        -------
        RemovableHandle
            Its ``remove()`` takes the hook away.
        """
        return registry.engine.register_hook(self, hook)

    def zero_grad(self) -> None:
        """Forget the accumulated gradient (sets `.grad` to None)."""
        if self._extras(False) is not None:
            self._x.grad = None


class Parameter(Tensor):
    """A leaf that requires a gradient by default: a weight of a model.

    Parameters
    ----------
    data : array-like
        Values; a tensor's values are shared, anything else is copied.
    requires_grad : bool

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.Parameter([1.0, 2.0])
    Parameter containing:
    tensor([1., 2.], requires_grad=True)
    """

    __slots__ = ()
    __hash__ = object.__hash__

    def __new__(cls, data: TensorLike | None = None, requires_grad: bool = True) -> Self:
        if not isinstance(data, Tensor):
            return rebuilt(cls, tensor(() if data is None else data)._v, requires_grad, None)
        made = rebuilt(cls, data._let_out("tg.Parameter()"), requires_grad, None)
        note_leaf(data, made)
        return made

    def __init__(self, data: TensorLike | None = None, requires_grad: bool = True) -> None:
        """Nothing: a class derived from this may call it with what it was given."""

    def __repr__(self) -> str:
        return "Parameter containing:\n" + Tensor.__repr__(self)

    __str__ = __repr__


def _check_differentiable(value):
    if type(value) is float:
        return
    if value.dtype.kind in "iub":
        raise DtypeError(
            f"an integer tensor (dtype {value.dtype}, shape {value.shape}) cannot require a gradient; "
            "convert with .astype(float)"
        )
    if value.dtype.char not in "df":
        raise DtypeError(f"dtype {value.dtype} cannot require a gradient; use float64 or float32")


def rebuilt(kind, value, requires_grad, grad):
    """A constant or leaf of class `kind` around `value` (normalised already); what a pickled tensor is made again by."""
    t = constant(kind, value)
    if type(value) is not float:
        t._m = meta_of(value)
    t._k = object()
    if requires_grad:
        t.requires_grad_(True)
    if grad is not None:
        t.grad = grad
    return t


def tensor(data: TensorLike, requires_grad: bool = False, dtype: DTypeLike | None = None) -> Tensor:
    """A tensor with a copy of `data`.

    Parameters
    ----------
    data : number, array-like or Tensor
        Python floats become float64, Python ints int64 (float64 one that
        requires a gradient), arrays keep their dtype.
    requires_grad : bool
        Whether operations on it are recorded.
    dtype : dtype, optional
        ``float64`` or ``float32`` for tensors that require a gradient.

    Returns
    -------
    Tensor
        A `ComplexTensor` if `data` is complex.

    Raises
    ------
    DtypeError
        `data` holds objects, or is an integer array that would require a gradient.

    Examples
    --------
    >>> import tapegrad as tg
    >>> x = tg.tensor([1.0, 2.0], requires_grad=True)
    >>> y = (x * x).sum()
    >>> y.backward()
    >>> x.grad
    tensor([2., 4.])
    """
    if isinstance(data, Tensor):
        data = np.array(data._let_out("tg.tensor()"))
    elif isinstance(data, Differentiable):
        data._refuse("tg.tensor()", "to have a tensor with a tangent, write tg.Dual(tensor, tangent)")
    elif registry.objects.holds_tensors(data):
        whole = registry.objects.stacked(data)
        if whole.requires_grad:
            raise LeaveTapeError("tg.tensor() of tensors that require a gradient would cut the derivative; join them with tg.array([...])")
        data = np.array(whole._let_out("tg.tensor()"))
    if type(data) is int and requires_grad:
        data = float(data)
    try:
        value = plain_array(data, "tg.tensor", dtype=dtype)
    except ComplexOperandError:
        return registry.objects.complex_tensor(data, requires_grad, dtype)
    return rebuilt(Tensor, normalise(value), requires_grad, None)


registry.Tensor = Tensor
share("tensor", Tensor)
share("parameter", Parameter)

