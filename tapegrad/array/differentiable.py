"""The base class of tensors and dual numbers: numbers that carry a derivative.

`Differentiable` holds the value and answers for it (shape, dtype, truth, length), and
refuses the conversions that would cut a derivative.  Operators, indexing,
functions and NumPy's protocols are put on it by the modules of those names, so
whatever can be done with a `Tensor` can be done with a `Dual`.

All fields are those of `interpreter.fields`: the two classes have one layout, so that a constant
tensor (``y = tg.zeros(n)``) can turn into a dual number when one is assigned to
an element of it.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..common.errors import UnsupportedFunctionError
from ..common.observers import LISTENERS, notify
from ..common.printing import format_number
from ..common.registry import registry
from ..interpreter.fields import Fields
from ..tape.places import PACKAGE
from ..tape.watch import expose, sealed
from .leaving import instead, not_for_pandas

if TYPE_CHECKING:
    from typing import Self

    from .typed_methods import Methods
else:
    Methods = object

_frame = sys._getframe


def below(thing):
    """The number below dual numbers: what is computed with where no derivative passes."""
    while getattr(thing, "_is_dual", False):
        thing = thing.value
    return thing


def value_below(thing):
    """The value of that number: an array or a float, or what `thing` is if it carries no derivative."""
    thing = below(thing)
    return thing._v if isinstance(thing, Differentiable) else thing


class Extras:
    """Rare attributes of tensors: gradient, hooks, where it was changed in place (`changed`), the
    tensor whose memory it shares (`source`) and the leaves made of its memory (`leaves`), the tensor that it is a
    view of (`made`) and its own `views` (`tapegrad.array.views`); whether it was the variable of a derivative inside of another
    one that is done (`past`), and whether a tape watches its memory (`kept`)."""

    __slots__ = ("grad", "hooks", "changed", "source", "leaves", "made", "views", "past", "kept")

    def __init__(self):
        self.grad = self.hooks = self.changed = self.source = self.made = None
        self.leaves, self.views = (), {}
        self.past = self.kept = False


class Differentiable(Fields, Methods):
    """Base class of `Tensor` and `Dual`.

    Attributes
    ----------
    shape, dtype, ndim, size
        As of a NumPy array.
    """

    __slots__ = ()

    if TYPE_CHECKING:
        # The fields, and what both classes define.
        _v: Any
        _t: Any
        _i: int
        _m: Any
        _r: bool
        _k: Any
        _x: Any

        @property
        def requires_grad(self) -> bool: ...
        def detach(self) -> Any: ...
        def _refuse(self, how: str, instead: str) -> None: ...

    __array_priority__ = 1000.0
    #: The tables of pandas leave operators to what has more.
    __pandas_priority__ = 5000
    _is_dual = False

    # -- arithmetic: see tapegrad.array.operators ----------------------------------
    def __hash__(self) -> int:
        """Of a leaf of the user's by identity, of a constant number by value; computed numbers that carry a derivative, and arrays, have none."""
        if self._t is None and (self._r or self._x is not None and self._x.grad is not None):
            return object.__hash__(self)
        if self.shape:
            raise TypeError(f"unhashable: a tensor of shape {tuple(self.shape)}, as NumPy's arrays are; look it up by id(t)")
        if self.requires_grad:
            trace = getattr(getattr(below(self), "_t", None), "trace", None)
            if trace is not None:
                # The function is run plainly: where nothing is differentiated these are numbers.
                trace.cannot = trace.cannot or "it looks up a number that depends on its arguments in a set or dict"
            self._refuse("hash()", "write t.item() to look up its value in a set or dict, id(t) for the tensor itself")
        return hash(np.asarray(self._let_out("hash()"))[()])

    # -- leaving the tape -------------------------------------------------------
    def __float__(self) -> float:
        if self.requires_grad:
            not_for_pandas()
            self._refuse("float()", instead())
        return float(self._number("float()"))

    def __int__(self) -> int:
        if self.requires_grad and not registry.engine.changes_in_jumps(self):
            self._refuse("int()", "write int(np.floor(t)) for the integer below, or int(t.item())")
        self._let_out("int()")
        return int(self._only())

    def __trunc__(self) -> int:
        return int(self._number("math.trunc()", "write np.trunc(t) for math.trunc(t)"))

    def __complex__(self) -> complex:
        if self.requires_grad:
            not_for_pandas()
        return complex(self._number("complex()", "write t + 0j, a tensor of complex numbers"))

    def _number(self, how, instead=""):
        """The only element, which leaves the tape here; refused where it carries a derivative."""
        self._refuse(how, instead)
        self._let_out(how)
        return self._only()

    def _let_out(self, how):
        """The value, which leaves the tape here: a functional recording guards it."""
        base = below(self)
        store = base._t if isinstance(base, Differentiable) else None
        if store is not None and store.trace is not None:
            store.trace.exact(base, how)
        return self._v

    def __index__(self) -> int:
        if self.dtype.kind not in "iub":
            raise TypeError(f"only integer tensors can be an index, this one has dtype {self.dtype}; write int(t.item()) for its integer part")
        if self.shape:
            # NumPy then takes it for an array of positions, or for a mask.
            raise TypeError(f"a tensor of shape {tuple(self.shape)} is no number, which an index is; write t.item()")
        return operator.index(np.asarray(self._let_out("index")).item())

    def __bool__(self) -> bool:
        value = self._v
        if value.__class__ is not float and value.size != 1:
            raise ValueError(
                f"the truth value of a tensor of shape {tuple(self.shape)} is ambiguous; use np.any(t) or np.all(t)"
            )
        base = below(self)
        store = base._t if isinstance(base, Differentiable) else None
        if store is not None and store.trace is not None:
            return store.trace.truth(base)
        return bool(self._v)

    if TYPE_CHECKING:

        def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]: ...
    else:

        @property
        def __array__(self):
            value = self._v
            if value.__class__ is float or not value.shape and value.dtype.kind == "f":
                # NumPy puts it into an array as an object (`tapegrad.array.objects`), but SciPy's functions want plain numbers.
                if (self._t is not None or self._r or self._is_dual) and not _frame(1).f_globals.get("__name__", "").startswith("scipy."):
                    raise AttributeError("__array__")
            return self._as_array

    def _as_array(self, dtype=None, copy=None):
        frame = _frame(1)
        module = frame.f_globals.get("__name__", "")
        if module.startswith("scipy.sparse.") and "matmul" in frame.f_code.co_name:
            # An object, to which a sparse matrix leaves the product.
            return np.array(None)
        if self.requires_grad:
            if module.startswith("pandas."):
                return registry.objects.held_by_pandas(self, frame)
            self._refuse("np.asarray()", instead(whole=True))
        value = self._let_out("conversion to an ndarray")
        # Strides count in the memory that the tensor lies in, which may begin before it.
        return sealed(np.asarray(value)) if frame.f_code.co_name == "as_strided" else np.array(value, dtype=dtype)

    def _only(self):
        if self.shape and self.size != 1:
            raise ValueError(f"only a tensor with one element has a number as its value, this one has {self.size}")
        return np.asarray(self._v).reshape(-1)[0]

    def item(self, *position: Any) -> Any:
        """The only element as a Python number, or that at a position: an index of the flat array, or one for each axis; leaves the tape.

        Raises
        ------
        ValueError
            If the tensor does not have exactly one element.
        """
        if position:
            at = position[0] if len(position) == 1 else position
            return (self[at] if isinstance(at, tuple) else self.ravel()[at]).item()
        if LISTENERS:
            notify(".item()", self)
        self._let_out("item()")
        return self._v if type(self._v) is float else self._only().item()

    def tolist(self) -> Any:
        """The values as nested lists of Python numbers; leaves the tape."""
        if LISTENERS:
            notify(".tolist()", self)
        self._let_out("tolist()")
        return self._v if type(self._v) is float else self._v.tolist()

    def numpy(self) -> NDArray[Any]:
        """The values as an ndarray that shares memory; read-only if a gradient is required."""
        if LISTENERS:
            notify(".numpy()", self)
        array = np.asarray(self._let_out("numpy()"))
        if self.requires_grad:
            return sealed(array)
        if array.flags.writeable and self._v.__class__ is not float:
            # What no_grad has computed, and is no part of anything else, has never been recorded.
            expose(array, self._t is not None or self._k is not None or self._x is not None or array.base is not None)
        return array

    @property
    def _numba_type_(self):
        # Numba asks for this when a compiled function is called with a tensor; it is asked from machine code, so this is the caller.
        frame = _frame(1)
        while frame.f_globals.get("__name__", "").startswith(("numba.", "functools")):
            frame = frame.f_back
        ours = frame.f_code.co_filename.startswith(PACKAGE)
        advice = "give it to tg.njit_grad, or tg.njit_jacobian," if ours else "call the Python function that it was made of, f.py_func,"
        raise UnsupportedFunctionError(f"{advice} to differentiate a function compiled by Numba: called with a tensor it would compute on plain numbers")

    # -- description --------------------------------------------------------------
    @property
    def shape(self) -> tuple[int, ...]:
        return self._v.shape if type(self._v) is not float else ()

    @property
    def dtype(self) -> np.dtype[Any]:
        return self._v.dtype if type(self._v) is not float else np.dtype(np.float64)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return 1 if type(self._v) is float else self._v.size

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a 0-d tensor")
        return self.shape[0]

    def __iter__(self) -> Iterator[Self]:
        if not self.shape:
            raise TypeError("iteration over a 0-d tensor")
        return (self[i] for i in range(self.shape[0]))

    def __contains__(self, value: Any) -> bool:
        return bool(np.any(self == value))

    def __format__(self, spec: str) -> str:
        return format_number(self._v, spec) if spec or not self.shape else repr(self)

    def _extras(self, make=True):
        # Fast-path tensors leave the slot unset.
        try:
            extras = self._x
        except AttributeError:
            extras = self._x = None
        if extras is None and make:
            extras = self._x = Extras()
        return extras
