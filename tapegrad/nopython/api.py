"""Derivatives for functions compiled by Numba: the public functions.

Each takes a function and returns a Numba dispatcher: it can be called from Python and
from the user's own ``@njit`` code, also under ``prange``.  Nothing is compiled before
the first call; the user's function is compiled again, for dual numbers, for each
combination of types.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Any, Literal, TypeVar, overload

from ..array.typing import Argnums, Array, OfFirst
from ..common.errors import HigherOrderError, OptionError, UnsupportedInNumbaError
from ..common.registry import registry
from ..common.tree import flatten
from ..common.uninterrupted import uninterrupted
from ..tape.store import thread_state

R = TypeVar("R")
X = TypeVar("X", bound=Any)

Mode = Literal["auto", "forward", "reverse"]
LANES = (1, 2, 4, 8, 16)


def njit_derivative(f: Callable[..., R], argnum: int = 0) -> Callable[..., R]:
    """Derivative of a function with respect to one number, in nopython code.

    Parameters
    ----------
    f : function or Numba dispatcher
        ``f(..., x, ...)``; returns a number, an array or a tuple of them.
    argnum : int
        Position of the argument, an int or float.

    Returns
    -------
    Numba dispatcher
        Takes the arguments of `f`; returns the derivative, shaped like the result of `f`.

    Raises
    ------
    UnsupportedInNumbaError
        On the first call, if `f` does something that has no derivative here.

    Examples
    --------
    >>> import math
    >>> import tapegrad as tg
    >>> def f(x, n):
    ...     y = 0.0
    ...     for k in range(n):
    ...         y += math.sin(k * x)
    ...     return y
    >>> tg.njit_derivative(f)(0.0, 4)
    6.0
    """
    return _dispatcher(f, "derivative", argnum, 1)


def njit_jvp(f: Callable[..., R], argnums: Argnums = 0) -> Callable[..., tuple[R, R]]:
    """Value and directional derivative (JVP) in nopython code.

    Parameters
    ----------
    f : function or Numba dispatcher
        Returns a number, an array or a tuple of them.
    argnums : int or tuple of int
        Positions of the differentiated arguments: numbers, and float64 or float32 arrays.

    Returns
    -------
    Numba dispatcher
        Takes the arguments of `f`, then one tangent for each differentiated argument,
        of its shape; returns ``(value, tangent)``.

    Raises
    ------
    UnsupportedInNumbaError
        On the first call, if `f` does something that has no derivative here.

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.njit_jvp(lambda x, y: x * y, argnums=(0, 1))(3.0, 5.0, 1.0, 10.0)
    (15.0, 35.0)
    """
    return _dispatcher(f, "jvp", argnums, 1)


@overload
def njit_value_and_grad(
    f: OfFirst[X], argnums: Literal[0] = 0, *, mode: Mode = "auto", lanes: int | None = None, memory: int | None = None
) -> Callable[..., tuple[float, X]]: ...
@overload
def njit_value_and_grad(
    f: Callable[..., Any], argnums: Argnums = 0, *, mode: Mode = "auto", lanes: int | None = None, out: bool = False, memory: int | None = None
) -> Callable[..., Any]: ...
def njit_value_and_grad(
    f: Callable[..., Any], argnums: Argnums = 0, *, mode: Mode = "auto", lanes: int | None = None, out: bool = False, memory: int | None = None
) -> Callable[..., Any]:
    """Value and gradient in nopython code.

    Parameters
    ----------
    f : function or Numba dispatcher
        Returns one number.
    argnums : int or tuple of int
        Positions of the differentiated arguments: numbers, float64 or float32 arrays and,
        in reverse mode, tuples of them.
    mode : {"auto", "forward", "reverse"}
        ``"reverse"`` takes both sweeps, at a cost that does not grow with the number of inputs.
        ``"forward"`` uses dual numbers and runs `f` once for every `lanes` inputs.  ``"auto"`` takes
        forward mode for up to four numbers, else reverse mode if it supports all that `f` does.
        ``dispatcher.modes()`` says which mode was taken, and why; in reverse mode, ``dispatcher.modes(*args)``
        also gives the largest size in bytes of the stack in this call.
    lanes : int, optional
        Number of directions in one pass of forward mode (which it selects): 1, 2, 4, 8 or 16.  By default
        the number of differentiated numbers, at most 8, or 8 if there is an array.
    out : bool
        Whether to write the gradients into arrays, which calls take after the arguments;
        they then return only the value.  In reverse mode.
    memory : int, optional
        Bytes that reverse mode (which it selects) may keep of the outermost loops.  If all
        iterations would take more, reverse mode keeps the state that an iteration starts from only at intervals, and runs the
        iterations in between once more on the way back.

    Returns
    -------
    Numba dispatcher
        Takes the arguments of `f`; returns ``(value, gradient)``, the gradient as a tuple
        if `argnums` is one.  Arrays that `f` stores into are copied first.

    Raises
    ------
    UnsupportedInNumbaError
        On the first call, if `f` does something that has no derivative here, or, with `memory`, if a loop does something that
        might not come out the same a second time.
    OptionError
        During a call, if `memory` is too small; the message says how much is enough.

    Examples
    --------
    >>> import numpy as np
    >>> import tapegrad as tg
    >>> def f(x):
    ...     y = np.empty_like(x)
    ...     for i in range(len(x)):
    ...         y[i] = x[i] ** 2
    ...     return np.sum(y)
    >>> tg.njit_value_and_grad(f)(np.array([1.0, 2.0]))
    (5.0, array([2., 4.]))
    """
    return _dispatcher(f, "value_and_grad", argnums, lanes, mode, out, memory)


@overload
def njit_grad(
    f: OfFirst[X], argnums: Literal[0] = 0, *, mode: Mode = "auto", lanes: int | None = None, memory: int | None = None
) -> Callable[..., X]: ...
@overload
def njit_grad(
    f: Callable[..., Any], argnums: Argnums, *, mode: Mode = "auto", lanes: int | None = None, memory: int | None = None
) -> Callable[..., Any]: ...
def njit_grad(
    f: Callable[..., Any], argnums: Argnums = 0, *, mode: Mode = "auto", lanes: int | None = None, memory: int | None = None
) -> Callable[..., Any]:
    """Gradient in nopython code; see `njit_value_and_grad`.

    Parameters
    ----------
    f : function or Numba dispatcher
        Returns one number.
    argnums : int or tuple of int
    mode : {"auto", "forward", "reverse"}
    lanes, memory : int, optional

    Returns
    -------
    Numba dispatcher
        Takes the arguments of `f`; returns the gradient, as a tuple if `argnums` is one.

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.njit_grad(lambda a, b: a * a * b, argnums=(0, 1))(3.0, 5.0)
    (30.0, 9.0)
    """
    return _dispatcher(f, "grad", argnums, lanes, mode, memory=memory)


def njit_jacobian(f: Callable[..., Any], argnum: int = 0, *, mode: Mode = "auto", lanes: int | None = None) -> Callable[..., Array]:
    """Jacobian of a 1-d array with respect to a 1-d array, in nopython code.

    Parameters
    ----------
    f : function or Numba dispatcher
        Returns a 1-d array.
    argnum : int
        Position of the differentiated argument, a 1-d array of floats.
    mode : {"auto", "forward", "reverse"}
        ``"reverse"`` takes two sweeps for each row, ``"forward"`` (and ``"auto"``) one run for every `lanes` columns.
    lanes : int, optional
        Number of columns in one pass: 1, 2, 4, 8 or 16; by default 8.

    Returns
    -------
    Numba dispatcher
        Takes the arguments of `f`; returns an array of shape ``(m, n)``.

    Raises
    ------
    UnsupportedInNumbaError
        On the first call, if `f` does something that has no derivative here.

    Examples
    --------
    >>> import numpy as np
    >>> import tapegrad as tg
    >>> tg.njit_jacobian(lambda x: x[:2] * x[2])(np.array([1.0, 2.0, 3.0]))
    array([[3., 0., 1.],
           [0., 3., 2.]])
    """
    return _dispatcher(f, "jacobian", argnum, lanes, mode)


def njit_vjp(f: Callable[..., R], argnums: Argnums = 0, *, memory: int | None = None) -> Callable[..., tuple[R, Any]]:
    """Value and vector-Jacobian product (VJP) in nopython code, in reverse mode.

    Parameters
    ----------
    f : function or Numba dispatcher
        Returns a number, an array or a tuple of them.
    argnums : int or tuple of int
        Positions of the differentiated arguments: numbers, float64 or float32 arrays, tuples of them.
    memory : int, optional
        See `njit_value_and_grad`.

    Returns
    -------
    Numba dispatcher
        Takes the arguments of `f`, then the seed, which has the form of the result; returns ``(value, product)``,
        the product as a tuple if `argnums` is one.

    Raises
    ------
    UnsupportedInNumbaError
        On the first call, if `f` does something that has no derivative here.

    Examples
    --------
    >>> import numpy as np
    >>> import tapegrad as tg
    >>> tg.njit_vjp(lambda x: (x[0] * x[1], x[1:] ** 2))(np.array([2.0, 3.0]), (10.0, np.array([1.0])))
    ((6.0, array([9.])), array([30., 26.]))
    """
    return _dispatcher(f, "vjp", argnums, None, memory=memory)


def njit_hvp(f: Callable[..., Any], argnums: Argnums = 0) -> Callable[..., Any]:
    """Product of the Hessian with a direction in nopython code, with dual numbers in both sweeps of reverse mode.

    Parameters
    ----------
    f : function or Numba dispatcher
        Returns one number.
    argnums : int or tuple of int
        Positions of the differentiated arguments: numbers, and float64 or float32 arrays.

    Returns
    -------
    Numba dispatcher
        Takes the arguments of `f`, then one direction for each differentiated argument, of its shape; returns the product,
        shaped like the direction, as a tuple if `argnums` is one.

    Raises
    ------
    UnsupportedInNumbaError
        On the first call, if `f` does something that has no second derivative here.

    Examples
    --------
    >>> import numpy as np
    >>> import tapegrad as tg
    >>> tg.njit_hvp(lambda x: x[0] ** 2 * x[1])(np.array([1.0, 3.0]), np.array([1.0, 0.0]))
    array([6., 2.])
    """
    return _dispatcher(f, "hvp", argnums, 1)


def njit_hessian(f: Callable[..., Any], argnum: int = 0, *, lanes: int | None = None) -> Callable[..., Any]:
    """Hessian with respect to one argument, in nopython code.

    Parameters
    ----------
    f : function or Numba dispatcher
        Returns one number.
    argnum : int
        Position of the differentiated argument, a number or an array of floats.
    lanes : int, optional
        Number of columns in one pass: 1, 2, 4, 8 or 16; by default 8.

    Returns
    -------
    Numba dispatcher
        Takes the arguments of `f`; returns an array of shape ``x.shape + x.shape`` (a number for a number), symmetric to the last bit.

    Raises
    ------
    UnsupportedInNumbaError
        On the first call, if `f` does something that has no second derivative here.

    Examples
    --------
    >>> import numpy as np
    >>> import tapegrad as tg
    >>> tg.njit_hessian(lambda x: x[0] ** 2 * x[1])(np.array([1.0, 3.0]))
    array([[6., 2.],
           [2., 0.]])
    """
    return _dispatcher(f, "hessian", argnum, lanes)


def by_numba(f, argnums, has_value, plainly):
    """Returned by `grad` and `value_and_grad` with ``via="numba"``; `plainly` is the same by recordings."""
    derivative = (njit_value_and_grad if has_value else njit_grad)(f, argnums)

    @functools.wraps(f)
    def gradient(*args, **kwargs):
        if any(isinstance(leaf, (registry.Tensor, registry.Dual)) for leaf in flatten((args, kwargs))[0]):
            raise HigherOrderError('via="numba" gives first derivatives, at floats and arrays; leave it out where these are themselves differentiated')
        checking = thread_state().checking
        try:
            answer = derivative(*args, **kwargs)
        except ZeroDivisionError:
            if checking is not None:
                plainly(*args, **kwargs)
            raise
        if checking is not None:
            checking.again(answer, args, kwargs, lambda args, kwargs: plainly(*args, **kwargs), plainly.__wrapped__)
        return answer

    gradient.modes = derivative.modes
    return gradient


def _dispatcher(f, kind, argnums, lanes, mode="forward", out=False, memory=None):
    """A dispatcher with the parameters of `f`."""
    with uninterrupted:
        import numba

        from .request import Request

    function = getattr(f, "py_func", f)
    if not inspect.isfunction(function):
        raise UnsupportedInNumbaError(f"njit_{kind} takes a Python function or one made by @njit, not {f!r}.")
    parameters = list(inspect.signature(function).parameters.values())
    if any(p.kind not in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters):
        raise UnsupportedInNumbaError(
            f"njit_{kind} of {function.__name__}: *args, **kwargs and keyword-only parameters have no fixed positions; "
            "give it a function with plain parameters."
        )
    if lanes is not None and lanes not in LANES:
        raise UnsupportedInNumbaError(f"lanes must be one of {LANES}, not {lanes!r}.")
    if mode not in ("auto", "forward", "reverse") or lanes is not None and mode == "reverse":
        raise UnsupportedInNumbaError(f"mode={mode!r}: it is \"auto\", \"forward\" or \"reverse\", and lanes are for forward mode.")
    if memory is not None:
        if not isinstance(memory, int) or memory < 1 or lanes is not None or mode == "forward" and kind != "vjp":
            raise OptionError(f"memory={memory!r}: it is a number of bytes, for reverse mode; leave lanes= and mode=\"forward\" out")
        mode = "reverse"
    chosen = _positions(argnums, len(parameters), function.__name__)
    if kind in ("derivative", "jacobian", "hessian") and not isinstance(argnums, int):
        raise UnsupportedInNumbaError(f"njit_{kind} takes one position, not {argnums!r}.")
    names = [p.name for p in parameters]
    tangents = [f"tangent_{names[k]}" for k in chosen]
    extra = {"jvp": tangents, "hvp": tangents, "vjp": ["seed"]}.get(kind, [f"out_{names[k]}" for k in chosen] if out else [])
    defaults = [] if extra else [p.default for p in parameters if p.default is not p.empty]
    request = Request(f, kind, chosen, isinstance(argnums, int), lanes, mode if lanes is None else "forward", out, memory)
    arguments = ", ".join([*names, *extra])

    def made_for(request, kind):
        name = f"{kind}_of_{function.__name__}" if function.__name__.isidentifier() else kind
        text = f"def {name}({arguments}):\n    return _raised(_driver(({arguments},)))\n"
        namespace = {"__name__": __name__}
        exec(text, namespace)
        made = namespace[name]
        made.__defaults__ = tuple(defaults) or None
        made.__qualname__ = f"{name}_{request.identity}"
        made.__doc__ = f"njit_{kind} of {function.__qualname__}, by the arguments {', '.join(names[k] for k in chosen)}."
        return request.dispatcher(made, _define, _register)

    measuring = functools.cache(lambda: made_for(dataclasses.replace(request, peak=True), "peak"))

    def modes(*args):
        """The mode chosen for each combination of types; with arguments, for theirs, with the peak of the stack in bytes."""
        if not args:
            return dict(request.taken)
        args = (*args, *defaults[len(defaults) - (len(names) + len(extra) - len(args)):])
        peak = measuring()(*args)
        taken = request.taken[str(tuple(map(numba.typeof, args[: len(args) - (kind == "vjp")])))]
        return {**taken, "peak of the stack, bytes": peak} if taken["mode"] == "reverse" else taken

    dispatcher = made_for(request, kind)
    dispatcher.modes = modes if kind in ("grad", "value_and_grad", "vjp", "jacobian") else request.taken.copy
    return dispatcher


@functools.cache
def _register():
    """Let Numba know all that derivatives are compiled of."""
    with uninterrupted:
        from . import drivers  # noqa: F401  (it registers operations)
        from .scalars import add_rows
    add_rows()


def _define(request, namespace):
    """Define what the function of a derivative calls."""
    with uninterrupted:
        from .drivers import driver_of
        from .reverse.runtime import raised
    if "_driver" not in namespace:
        namespace.update(_driver=driver_of(request), _raised=raised)


def _positions(argnums, count, name):
    wanted = argnums if isinstance(argnums, (tuple, list)) else (argnums,)
    if not wanted or not all(isinstance(k, int) and -count <= k < count for k in wanted):
        raise UnsupportedInNumbaError(f"argnums={argnums!r}: positions of arguments of {name}, which has {count}, are integers below that.")
    positions = tuple(k % count for k in wanted)
    if len(set(positions)) < len(positions):
        raise UnsupportedInNumbaError(f"argnums={argnums!r} names an argument of {name} twice.")
    return positions
