"""The base class of tensors and dual numbers: numbers that carry a derivative.

`Differentiable` holds the value and answers for it (shape, dtype, truth, length), and
refuses the conversions that would cut a derivative.  Operators, indexing,
functions and NumPy's protocols are put on it by the modules of those names, so
whatever can be done with a `Tensor` can be done with a `Dual`.

All fields are those of `interpreter.fields`: the two classes have one layout, so that a constant
tensor (``y = tg.zeros(n)``) can turn into a dual number when one is assigned to
an element of it.

First stands the advice where a number that carries a derivative would become a plain one, for the line of code that does it.
"""

from __future__ import annotations

import difflib
import math
import operator
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager
from traceback import walk_stack, walk_tb
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from ..common.errors import GradientError, LeaveTapeError, TapegradError, UnsupportedFunctionError
from ..common.observers import LISTENERS, notify
from ..common.printing import format_number
from ..common.registry import registry
from ..interpreter.fields import Fields
from ..tape.places import PACKAGE, caller_frame, name_of, running_text
from ..tape.watch import expose, sealed

if TYPE_CHECKING:
    from .typed_methods import Methods
else:
    Methods = object


# ---- advice where a number would leave the tape --------------------------------------------------
_HERE = __package__.partition(".")[0]
#: Messages of NumPy and Python for an operand that is an array of objects; for a float, of the missing method.
_OF_OBJECTS = re.compile(r"dtype\('O'\)|no callable \w+ method|not supported for the input types|'(?:float|int)' object has no attribute '(\w+)'")
#: Functions of NumPy that write into an array.
_FILLERS = ("full", "full_like", "put", "copyto", "place", "putmask", "fill_diagonal")
#: Objects of NumPy that make an array when they are called or indexed, by class.
_OBJECTS = {
    "vectorize": "write tg.vmap(f)(t) for np.vectorize(f)(t), or f(t) if f takes arrays", "RClass": "write np.concatenate([[a], t]) for np.r_[a, t]",
    "CClass": "write np.column_stack([t, u]) for np.c_[t, u]", "ndenumerate": "write ((i, t[i]) for i in np.ndindex(t.shape)) for np.ndenumerate(t)",
}  # fmt: skip
_HOLDS = "make the array with tg.zeros(shape), or np.zeros_like(t), which can hold a tensor"
_COEFFICIENTS = "write np.polyval(c[::-1], x) for polynomials, chebvander(x, len(c) - 1) @ c for chebval(x, c): np.polynomial has plain coefficients"
#: What is running, and what to write for it.
_ADVICE = (
    (r"((?!np\.|numpy\.)\w+|.*\))\.dot\(", "write {0} @ t for {0}.dot(t)"),
    (r"(?:[\w.]+|.*\bdefault_rng\(\w*\))\.(?:normal|gauss|uniform|exponential|laplace|logistic|lognormal|gamma|beta|chisquare|standard_t|poisson|binomial)\(",
     "write t + u * rng.standard_normal(n) for rng.normal(t, u), and tapegrad.scipy.stats.gamma.ppf(rng.random(n), t) for rng.gamma(t, size=n) and its like"),
    (r"(?:[\w.]+|.*\bdefault_rng\(\w*\))\.(?:choice|permutation|permuted)\(",
     "write t[rng.permutation(len(t))] for rng.permutation(t), t[rng.integers(len(t), size=n)] for rng.choice(t, n), and p=t.detach() for p=t"),
    (r"(?:[\w.]+|.*\bdefault_rng\(\w*\))\.multivariate_normal\(", "write m + np.linalg.cholesky(C) @ rng.standard_normal(n) for rng.multivariate_normal(m, C)"),
    (r"(float|complex)\(\w", "leave {} out: a tensor needs none"),
    (r"round\(", "write np.round(t) for round(t)"),
    (r"[rb]?['\"].*%", "write an f-string, or t.item() for the number in the text"),
    (r"(?:np|numpy)\.arange\(", "write start + step * np.arange(n) for np.arange(t, ...), or take it from tapegrad.numpy"),
    (r"(?:np|numpy)\.array\((?![\[(])", "write t.copy() for np.array(t), or tg.array(a) for np.array(a) of a list of tensors"),
    (r"(?:np|numpy)\.(asarray|asanyarray|ascontiguousarray|float64)\((?![\[(])",
     "leave np.{} out: a tensor needs none, and a list of tensors becomes one by tg.array"),
    (rf"(?:np|numpy)\.(?:{'|'.join(_FILLERS)})\(", _HOLDS),
    (r"(?:np|numpy)\.(array|asarray|asanyarray|ascontiguousarray|float64|float32|fromiter)\(", "write {stack}tg.array([t, ...]) for np.{0}([t, ...])"),
    (r"(?:np|numpy)\.([\w.]+)\(", "write np.{0}(tg.array(a)): np.{0} does not know arrays of tensors"),
    (r"(\w+)\.astype\(", "write tg.array({}), which makes an array of tensors one tensor"),
)  # fmt: skip
#: A statement that computes into an array in place.
_UPDATE = re.compile(r"([\w.]+)(?:\[.*\])? [^\s=]{1,2}= ")
#: Functions of `math` that NumPy does not have, and their names in `scipy.special`; names that are Python's own without ``math.``.
_SPECIAL = {name: f"scipy.special.{name}" for name in ("erf", "erfc", "gamma")} | {"lgamma": "scipy.special.gammaln"}
_BUILTIN = {"pow", "sum"}
#: The last refusal of each thread to a function of SciPy, whose compiled code may lose it and raise an error of its own: that function's frame, and
#: the message.
_LAST = threading.local()


def refused(message: str) -> LeaveTapeError:
    """The error for a number that would leave the tape."""
    frame = next((frame for frame, _ in walk_stack(caller_frame(2)) if package_of(frame) == "scipy"), None)
    _LAST.said = (id(frame), frame.f_code, message) if frame is not None else None
    return LeaveTapeError(message)


def instead(whole: bool = False) -> str:
    """What to write for the expression that is running, which asks a tensor for its number, or (`whole`) for its array: one advice, the one that fits."""
    frame = caller_frame(2)
    text, assigned = running_text(frame)
    package = package_of(frame)
    while package == "numpy" and not assigned and package_of(frame.f_back) == "numpy":
        frame = frame.f_back
    if package == "scipy" or package == "numpy" and not assigned and package_of(frame.f_back) == "scipy":
        return registry.later.advice()
    if package == "numpy" and not assigned:
        called = frame.f_code.co_name
        if called in _FILLERS:
            return _HOLDS
        if frame.f_globals.get("__name__", "").startswith("numpy.polynomial."):
            return _COEFFICIENTS
        if called[0] == "_" or not hasattr(np, called):
            return _OBJECTS.get(type(frame.f_locals.get("self")).__name__, "write it in functions of NumPy that take tensors, or import tapegrad.numpy as np")
        return f"write np.{called}(tg.array(a)): np.{called} takes numbers out of an array of tensors"
    if package != "numpy" and "site-packages" in frame.f_code.co_filename:
        return f"give {package} plain numbers: t.detach()"
    if assigned or re.match(r"\w+(\.fill\(| .=|\[.*\] .?= )", text):
        name = re.match(r"\w+", text) if package != "numpy" else None
        array = name.group() if name else "a"
        return f"{copied_first(array)}; or make the array with {array} = tg.zeros(shape), or np.zeros_like(t)"
    for pattern, advice in _ADVICE:
        if match := re.match(pattern, text):
            return advice.format(*match.groups(), stack="np.stack([t, ...]) or " if whole else "")
    call = re.match(r"((?:math\.)?(\w+))\(", text)
    if call and (call[1] != call[2] or hasattr(math, call[2]) and call[2] not in _BUILTIN):
        home = _SPECIAL.get(call[2], f"np.{call[2]}" if hasattr(np, call[2]) else "")
        return f"write {home}(t) for {call[1]}(t)" if home else f"write {call[1]}(t) in functions of NumPy"
    if whole:
        return "leave np.asarray(t) out, and write np.stack([t, u]) or tg.array([t, u]) for an array of tensors"
    return (
        "write np.sin(t) for math.sin(t), tg.array([t, ...]) for np.array([t, ...]), and make an array that is assigned to with tg.zeros; "
        "SciPy's functions that take tensors are in tapegrad.scipy"
    )


def in_sparse_product(frame: Any) -> bool:
    """Whether a sparse matrix of SciPy's asks for the array, to make a product with it."""
    return frame.f_globals.get("__name__", "").startswith("scipy.sparse.") and "matmul" in frame.f_code.co_name


def clearer(error: BaseException | None) -> Exception | None:
    """The error that says what to write, for what NumPy, SciPy or Python say of tensors; None if there is nothing to add."""
    if isinstance(error, ImportError):
        return _not_offered(error)
    if error is None or isinstance(error, TapegradError) or not isinstance(error, Exception):
        return None
    frames = [frame for frame, _ in walk_tb(error.__traceback__)]
    text, library, said = str(error), package_of(frames[-1]) in ("numpy", "scipy"), getattr(_LAST, "said", None)
    if library and said is not None and any(id(frame) == said[0] and frame.f_code is said[1] for frame in frames):
        # Compiled code of SciPy's has its own words for whatever its callback raised, or goes on with what was in memory.
        return LeaveTapeError(said[2])
    before = error.__cause__ or error.__context__
    if isinstance(before, LeaveTapeError) and (library or isinstance(error, SystemError) or text.startswith("setting an array element")):
        # NumPy and SciPy put words of their own in front of ours.
        return LeaveTapeError(before.message)
    if isinstance(error, AttributeError) and isinstance(error.obj, (registry.Tensor, registry.Dual)) and text.startswith("'"):
        close = difflib.get_close_matches(str(error.name), dir(error.obj), 1)
        error.args = (f"a tensor has no attribute {error.name!r}{f'; write t.{close[0]}' if close else ''}",)
        # Without the name: Python would go on to suggest one of its own.
        error.name = ""
    elif text == "'int' object is not callable" and (number := re.match(r"(.+?)\.size\(", running_text(frames[-1])[0])):
        return TypeError(f"{number[1]}.size is a number, as NumPy has it: write {number[1]}.shape, or {number[1]}.shape[0]")
    elif package_of(frames[-1]) == "scipy" and re.search(r"\btype\b", text) and _hold_tensors(frames[-1:]):
        return LeaveTapeError(f"{registry.later.advice(frames[-1])}; of an array of tensors SciPy says: {text.strip()}")
    elif "output from dtype('O')" in text and (update := _UPDATE.match(running_text(frames[-1])[0])):
        return LeaveTapeError(f"{copied_first(update[1])}; NumPy says: {text}")
    elif isinstance(error, (TypeError, ValueError, AttributeError)) and (said := _OF_OBJECTS.search(text)):
        if (not said[1] or isinstance(getattr(np, said[1], None), np.ufunc) or library) and _hold_tensors(frames):
            return UnsupportedFunctionError(
                "write tg.array([t, 1.0]) for np.array([t, 1.0]), or import tapegrad.numpy as np: where t carries a derivative NumPy makes an array of "
                f"objects of it, and says then: {text}"
            )
    return None


def _hold_tensors(frames):
    return any(registry.objects.holds_tensors(value) for frame in frames for value in list(frame.f_locals.values()))


def _not_offered(error):
    """What a module of ours says of a name that is imported from it: Python keeps that to itself."""
    imported = re.match(r"cannot import name '(\w+)'", str(error))
    module, _, name = f"{error.name}.{imported[1]}".rpartition(".") if imported else str(error.name).rpartition(".")
    if module.partition(".")[0] == _HERE:
        try:
            getattr(sys.modules[module], name)
        except AttributeError as absent:
            return ImportError(str(absent))
    return None


def clarify(error: Any) -> None:
    """Raise the `clearer` error, if there is one."""
    better = clearer(error)
    if better is not None:
        raise better.with_traceback(error.__traceback__) from error


class _Clarified(AbstractContextManager):
    """`clarify` as a context manager around a function that is differentiated."""

    def __exit__(self, kind, error, trace):
        clarify(error)


clarified = _Clarified()


def copied_first(array: str) -> str:
    """Advice for the array of this name, into which a tensor is written."""
    return f"{array} is a plain array, which cannot hold it: write {array} = tg.tensor({array}) first, a copy that can"


def into_plain(how: str, array: np.ndarray) -> LeaveTapeError:
    """The error for a tensor that is written into a plain array."""
    update = _UPDATE.match(running_text(caller_frame(2))[0])
    return LeaveTapeError(
        f"{copied_first(name_of(array) or (update[1] if update else 'array'))}; or write `result = a + t`, or make the array with tg.zeros. "
        f"{how} would write a tensor into a plain array and cut its derivative"
    )


def not_in_pandas(operands: tuple[Any, ...]) -> None:
    """Raise if a method of pandas asks for this calculation with the plain array of a table: it would hold a tensor without knowing."""
    if not any([operand.__class__ is np.ndarray and operand.ndim for operand in operands]):
        return
    frame = sys._getframe(2)
    # What `tapegrad.pandas` computes is its own affair, and so is what the user's functions do that pandas calls.
    while frame.f_code.co_filename.startswith(PACKAGE) and frame.f_back is not None and not frame.f_globals.get("__name__", "").startswith(f"{_HERE}.pandas."):
        frame = frame.f_back
    if package_of(frame) == "pandas":
        raise LeaveTapeError(
            f"a method of pandas ({frame.f_code.co_name}) computes with a tensor and the plain array of a table, whose missing values it would "
            "not see any more; write df * t for df.mul(t), np.where(mask, s, t) for s.where(mask, t) and s.fillna(t), np.clip(s, t, None) for s.clip(t)"
        )


def not_for_pandas() -> None:
    """Raise if pandas asks for the plain number, of which it holds an array of objects."""
    if package_of(caller_frame(2)) == "pandas":
        # What it would not take for a reason to try another way.
        raise GradientError(
            "pandas holds numbers on the tape as objects here, and asks for plain ones, which would cut the derivative (mean, std, median and rolling "
            "do): compute with the tensor, tg.array(s), by position; write df.to_numpy() @ v for df @ v"
        )


def package_of(frame):
    """The package whose code runs in a frame; empty for None."""
    return "" if frame is None else str(frame.f_globals.get("__name__", "")).partition(".")[0]


# ---- numbers that carry a derivative -------------------------------------------------------------
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
            raise ValueError(f"the truth value of a tensor of shape {tuple(self.shape)} is ambiguous; use np.any(t) or np.all(t)")
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
        if in_sparse_product(frame):
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
