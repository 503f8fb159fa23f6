"""Functions compiled for one shape, to be called from users' nopython code.

`compile` records a function at one point and keeps its tape, with a pool of
workspaces that code without the interpreter can take from (`program.replayed`).  What
such code needs to know of a function is one array of words, its handle (`program.handle`),
through which `Compiled` is called from Python too.
"""

from __future__ import annotations

import contextlib
import functools
import os
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from ..array.dual import as_float
from ..array.typing import Array
from ..common.errors import DtypeError, GradientError, GuardError, OptionError, ShapeError, UnsupportedFunctionError
from ..common.registry import registry
from ..common.tree import flatten
from ..common.uninterrupted import uninterrupted
from ..kernel.reasons import NotLowered, faults_are_reasons
from ..program.ports import NOT_FINITE
from .replay.kernels import JitOptions, agree, checked_policy

if TYPE_CHECKING:
    from ..program.finish import FinishedTape

#: Compiled functions by the address of their handle.
_ALIVE: weakref.WeakValueDictionary[int, CompiledCode] = weakref.WeakValueDictionary()


class CompiledCode:
    """A tape that nopython code calls by its handle: what is common to `Compiled` and `CompiledOutputs`."""

    shape: tuple[int, ...]
    data: list[tuple[int, ...] | None]
    tape: FinishedTape

    def __init__(self, function, x0, data, workspaces, policy):
        with uninterrupted:
            from ..interpreter.native import data_address
            from ..program import handle as H
            from ..program.replayed import Replay
            from .replay import entry as E

        E.register(Compiled, CompiledOutputs)
        self.shape, self.data = x0.shape, [None if type(d) is float else d.shape for d in data]
        self._evaluate, self._address_of, self._failed = H.evaluate, data_address, H.H_FAILED
        self.tape, self._environment = _recorded(function, x0, data)
        replay = self._replay = Replay(self.tape, True, workspaces)
        #: The kernel; None if the tape is replayed by sweep, for the reason in `not_lowered`.
        self.kernel, self.not_lowered = None, ""
        if policy != "never":
            self._compile(not replay.why)
        kernel, self.guards = self.kernel, self.tape.guards
        if replay.why and kernel is None:
            raise UnsupportedFunctionError(
                f"{replay.why}, which compiled code cannot call without a kernel{self.not_lowered and ': '}{self.not_lowered}; "
                + ("leave kernel='never' out" if policy == "never" else "write it with operations that have a program")
                + ", or use tg.value_and_grad, which calls it there"
            )
        if kernel is not None and not kernel.entry:
            kernel.keep(workspaces)
        if replay.why:
            # The kernel alone, which calls Python.
            self.guards = kernel.whole.guards
        self._handle = H.Handle(kernel if replay.why else replay, shape=self.shape, data=self.data)
        if kernel is not None and kernel.entry:
            self._handle.words[H.H_ENTRY] = kernel.entry
        elif kernel is not None and not replay.why:
            self._handle.prefer(kernel)
        self.handle_address = self._handle.pointer
        _ALIVE[self.handle_address] = self

    def _compile(self, entry):
        """Make a kernel of the tape, if there is one; with an `entry` of its own for what it leaves to the replay."""
        with uninterrupted:
            from ..kernel.emit import CompileOptions
            from ..kernel.kernel import TapeKernel

        try:
            with faults_are_reasons():
                self.kernel = TapeKernel(self.tape, True, CompileOptions(entry=entry))
        except NotLowered as why:
            self.not_lowered = str(why)

    def _called(self, x, g, data):
        """The value; the gradient goes into `g`.  What is given fits."""
        if not self._environment.same():
            before, self._environment = self._environment, self._environment.again()
            if (changed := before.difference(self._environment)) is not None:
                raise GuardError(f"{changed} has changed since the function was compiled; call tg.compile again")
        value = np.empty(1)
        address = self._address_of(x)
        if data:
            table = np.array([address, *(self._address_of(d) for d in data)], np.int64)
            address = self._address_of(table)
        status = self._evaluate(self.handle_address, address, self._address_of(g), self._address_of(value))
        if status:
            g[...] = np.nan
            self._handle.words[self._failed] = 0
            raise GuardError(status - 1, self.handle_address)
        return float(value[0])

    def _arguments(self, x, out, data, shape, shapes, name, what):
        """All arguments as float64 arrays, of these shapes; `out`, called `name`, takes `what`, and shares no memory with them."""
        _fits("x", x, shape, f" of the shape {shape}, as when the function was compiled")
        _fits(name, out, self.shape, f" of the shape {self.shape} that can be written to", "CARRAY")
        if len(data) != len(shapes):
            raise ShapeError(f"the function was compiled with {len(shapes)} arguments after x, got {len(data)} after x and {name}")
        arrays = [x]
        for k, (array, shape) in enumerate(zip(data, shapes), 2):
            if shape is None and isinstance(array, (int, float, np.integer, np.floating)):
                arrays.append(np.array(array, np.float64))
                continue
            if shape is None:
                raise DtypeError(f"argument {k} must be a number, as when the function was compiled")
            _fits(f"argument {k}", array, shape, f" of the shape {shape}, as when the function was compiled")
            arrays.append(array)
        for array in arrays:
            if np.may_share_memory(array, out) and out.size:
                raise ShapeError(f"{'x' if array is x else 'an argument'} and {name} share memory: the {what} would be written over it")
        return arrays

    def check(self) -> None:
        """Raise `GuardError` if a guard has failed since the last `check`: to be called after a ``prange``."""
        failed = int(self._handle.words[self._failed])
        if failed:
            self._handle.words[self._failed] = 0
            raise GuardError(failed - 1, self.handle_address)

    def __reduce__(self):
        raise TypeError("a compiled function holds addresses of this process: compile it again where it is needed")

    def __repr__(self):
        return f"{type(self).__name__}(shape={self.shape}, instructions={len(self.tape)})"


class Compiled(CompiledCode):
    """A function of one array, with its gradient, for one shape: what `compile` returns.

    ``c(x, g)`` returns the value at `x` and writes the gradient into `g`, both
    C-contiguous float64 arrays of the shape of `x0`; the same from Python and from
    functions compiled by Numba, to which it is best given as an argument.  What was
    compiled with `data` is called ``c(x, g, *data)``.

    Attributes
    ----------
    shape : tuple of int
    data : list of (tuple or None)
        Shapes of the further arguments; None: a float.
    tape : FinishedTape
        What is replayed.
    """

    def __call__(self, x: Array, g: Array, *data: Array | float) -> float:
        """The value at `x` (and `data`); the gradient goes into `g`.

        Raises
        ------
        GuardError
            If a guard sees something else than at `x0` (it names the line), or if
            something that the function captured has changed since.
        ShapeError, DtypeError
            If an array is not as `x0` was.
        """
        x, *arrays = self._arguments(x, g, data, self.shape, self.data, "g", "gradient")
        return self._called(x, g, arrays)


class CompiledOutputs(CompiledCode):
    """A function whose results are several numbers, for one shape of each argument: what `compile` returns for all that does not return one float.

    ``c(x, out, *data)`` writes the numbers of all results to `out`, a C-contiguous float64 array of `shape`.

    Attributes
    ----------
    shape : tuple of int
        Of `out`: that of the result, if that is one array; else of a vector with the numbers of all results, one after the other.
    results : list of tuple of int
        The shape of each result: ``()`` of a number.  (A complex one is two: real and imaginary parts.)
    pattern : csr_array or None
        Of what ``tg.sparse_jacobian`` or ``tg.sparse_hessian`` returned: `out` has the entries alone, and this says where each one is.
    """

    results: list[tuple[int, ...]]
    pattern: Any

    def __init__(self, function, arguments, results, pattern, workspaces, policy):
        self.results, self.pattern = [np.shape(r) for r in results], pattern
        shape = self.results[0] if len(results) == 1 and self.results[0] else (sum(int(np.prod(s)) for s in self.results),)
        # Its gradient by the weights is what the function returns: the results are the adjoints of a tape like any other.
        self._weights = np.ones(shape)
        super().__init__(_ByWeights(function), self._weights, arguments, workspaces, policy)

    def __call__(self, x: Array, out: Array, *data: Array | float) -> Array:
        """Write the results at `x` (and `data`) to `out`, which is returned.

        Raises
        ------
        GuardError
            As of `Compiled`.
        ShapeError, DtypeError
            If an argument is not as it was, or `out` not of `shape`.
        """
        self._called(self._weights, out, self._arguments(x, out, data, self.data[0], self.data[1:], "out", "results"))
        return out


class _ByWeights:
    """The results of a function, times weights, summed: a function of the weights, with the arguments of the function behind them."""

    def __init__(self, function):
        functools.update_wrapper(self, function, updated=())
        self.function = function

    def __call__(self, weights, *arguments):
        results = flatten(self.function(*arguments))[0]
        if len(results) == 1 and np.shape(results[0]):
            return np.sum(weights * results[0])
        total, at = 0.0, 0
        for result in results:
            size = int(np.prod(np.shape(result)))
            total = total + (np.sum(weights[at : at + size] * np.reshape(result, (-1,))) if np.shape(result) else weights[at] * result)
            at += size
        return total


def _fits(name, array, shape, words="", flag="C_CONTIGUOUS"):
    """Refuse what is no float64 array of `shape` whose memory is as `flag` says; `words` say what else it has to be."""
    if not isinstance(array, np.ndarray) or array.dtype != np.float64 or not array.flags[flag]:
        raise DtypeError(f"{name} must be a C-contiguous float64 array{words}")
    if array.shape != shape:
        raise ShapeError(f"{name} has the shape {array.shape}, the function was compiled for {shape}")


def _recorded(function, x0, data):
    """The tape of `function` at `x0` and `data`, and the environment of the function."""
    from .replay.function import Replayed

    replayed = Replayed(function, (0,), jit=JitOptions("never"))
    outcome, plain = (run((x0, *data), {}, True) for run in (replayed.call, replayed.run))
    if replayed.plain:
        raise GradientError(f"the function cannot be compiled: {replayed.plain}")
    if not all(map(agree, [*outcome.values, outcome.gradients[0]], [*plain.values, plain.gradients[0]])):
        raise GradientError(
            "the function cannot be compiled: run again it gives something else, so it depends on more than its arguments (a random "
            "number, a counter, a file); make that an argument"
        )
    (kind,) = replayed.kinds.values()
    kept = kind.recent
    slot, result = kept.tape.outputs[0]
    dtype = np.dtype(result.char if slot else np.asarray(getattr(result, "_v", result)).dtype)
    if dtype != np.float64:
        # Compiled code reads eight bytes as a float64.
        raise DtypeError(f"the function returns {dtype}, compiled code a float64: convert the result (`.astype(float)`, or `float` of a constant)")
    return kept.tape, replayed.environment


def _what_failed(number, handle):
    """The message for guard `number` of the compiled function with this handle."""
    if number + 1 == NOT_FINITE:
        return "a derivative is not finite here, and what it is only Python can compute: call tg.value_and_grad for it; the gradient was not computed"
    if number < 0:
        return "a compiled function did not come to an end: an error inside tapegrad, please report it with the program"
    compiled = _ALIVE.get(handle)
    if compiled is not None and number == len(compiled.guards):
        return (
            "an operation that NumPy may refuse (a solve, a factorisation) or Python code that is called has no finite result here; the "
            "gradient was not computed. tg.value_and_grad calls NumPy there, which says what is wrong"
        )
    if compiled is None or not 0 <= number < len(compiled.guards):
        return f"guard {number} of a compiled function saw something else than at recording"
    guard = compiled.guards[number]
    return (
        f"{guard.place}: `{guard.place.text}` went another way than at the x0 of tg.compile ({guard}); the gradient was not "
        "computed. Compile with an x0 on this path, or use tg.value_and_grad, which records each path"
    )


@overload
def compile(
    f: Callable[..., Array | tuple[Any, ...] | list[Any] | dict[Any, Any]], x0: Array, workspaces: int | None = None, kernel: str | None = None, *,
    data: Sequence[Any] = (),
) -> CompiledOutputs: ...
@overload
def compile(
    f: Callable[..., Any], x0: Array, workspaces: int | None = None, kernel: str | None = None, *, data: Sequence[Any] = ()
) -> Compiled: ...
def compile(f: Callable[..., Any], x0: Array, workspaces: int | None = None, kernel: str | None = None, *, data: Sequence[Any] = ()) -> Any:
    """Compile a function to be called from Numba's nopython code: it computes one number with its gradient, or whatever `f` returns.

    Parameters
    ----------
    f : callable
        Takes a float64 array, and `data`.  It returns a float, whose gradient is compiled with it; or an array, or containers of arrays and
        floats.  It may be ``tg.value_and_grad(g)``, ``tg.jacobian(g)``, ``tg.hessian(g)``, ``tg.hvp(g)``, ``tg.sparse_jacobian(g)`` or
        ``tg.sparse_hessian(g)`` of a function `g`, or a function that calls ``tg.jvp`` or ``tg.vjp``.
    x0 : array_like of float
        The point at which `f` is recorded; the result takes arrays of this shape, C-contiguous and float64.
    workspaces : int, optional
        Number of threads that can be inside at the same time (others wait); by default one per processor.
    kernel : str, optional
        "never" replays the tape by sweeps; otherwise it becomes machine code now, if all its instructions can
        (`Compiled.not_lowered` says which cannot). By default ``tg.config.kernel``.
    data : sequence of float and array_like of float, optional
        Further arguments of `f`, which are not differentiated.  Each call passes its own, of the same shapes
        (observations, a batch, a step size).  Integers, index arrays and other objects are part of the recording, not
        arguments of it: let `f` capture them.

    Returns
    -------
    Compiled or CompiledOutputs
        ``c(x, g)``, or ``c(x, g, *data)``, returns the value at `x` and writes the gradient into `g`.  If `f` does not return a
        float, ``c(x, out, *data)`` writes the numbers of all results, one after the other, into `out`, an array of the shape ``c.shape``.

    Raises
    ------
    ShapeError
        If `x0` is a number: give an array of one element.
    DtypeError
        If `x0` is no array of floats, or something in `data` neither such nor a float, or `f` returns numbers that are not float64.
    UnsupportedFunctionError
        If an instruction needs the interpreter; the message names it with its line.
    GradientError
        If `f` gives a different result each time.

    Notes
    -----
    Only the path that `f` took at `x0` is compiled.  Where a guard comes out differently,
    a `GuardError` names the line, and `g` is filled with nan.  Numba loses exceptions
    raised inside ``prange``, and skips the rest of that thread's iterations: call
    ``c.check()`` after the loop, which then raises.  Values that `f` captured stay as they
    were at compilation (arrays are read in place).  Calls from Python compare them; calls
    from nopython code cannot.

    Give the result to your function as an argument.  As a global it works too, but
    then Numba does not keep the function on disk.

    Examples
    --------
    >>> import numba, numpy as np, tapegrad as tg
    >>> c = tg.compile(lambda x: (x[0] - 1.0) ** 2 + (x[1] - x[0]) ** 2, np.zeros(2))
    >>> @numba.njit
    ... def descend(c, x, steps):
    ...     g = np.empty_like(x)
    ...     for _ in range(steps):
    ...         c(x, g)
    ...         x -= 0.2 * g
    ...     return c(x, g)
    >>> descend(c, np.zeros(2), 200) < 1e-20
    True

    With observations that change from call to call:

    >>> c = tg.compile(lambda x, a, b: np.sum((a @ x - b) ** 2), np.zeros(2), data=(np.eye(2), np.zeros(2)))
    >>> g = np.empty(2)
    >>> c(np.ones(2), g, np.array([[1.0, 2.0], [0.0, 1.0]]), np.array([1.0, 1.0])), g
    (4.0, array([4., 8.]))

    Newton's method, with gradient and Hessian of one recording:

    >>> f = lambda x: np.sum(np.cosh(x - 1.0)) + x[0] * x[1]
    >>> both = tg.compile(lambda x: (tg.grad(f)(x), tg.hessian(f)(x)), np.zeros(2))
    >>> both.results, both.shape
    ([(2,), (2, 2)], (6,))
    >>> @numba.njit
    ... def newton(both, x, steps):
    ...     out = np.empty(6)
    ...     for _ in range(steps):
    ...         both(x, out)
    ...         x = x - np.linalg.solve(out[2:].reshape(2, 2), out[:2])
    ...     return x
    >>> bool(np.allclose(tg.grad(f)(newton(both, np.zeros(2), 8)), 0.0, atol=1e-12))
    True
    """
    x0 = np.array(as_float(x0, "x0"), np.float64, order="C")
    if x0.ndim == 0:
        raise ShapeError("tg.compile needs an array: give a number as an array of one element")
    count = workspaces if workspaces is not None else os.cpu_count() or 1
    if count < 1:
        raise OptionError(f"workspaces must be at least 1, got {count}")
    data, policy, pattern = [_datum(k, d) for k, d in enumerate(data)], checked_policy(kernel), None
    if hasattr(f, "compressed"):
        f, pattern = f.compressed(x0, *data)
    results = _results_of(f, x0, data)
    if results is None:
        return Compiled(f, x0, data, int(count), policy)
    return CompiledOutputs(f, [x0, *data], results, pattern, int(count), policy)


def _results_of(function, x0, data):
    """What a function returns at a point, if that is something else than one number to be differentiated; else None."""
    # (What raises here raises where it is recorded, too, with more to say.)
    with contextlib.suppress(Exception):
        results = flatten(function(x0.copy(), *[np.array(d) if isinstance(d, np.ndarray) else d for d in data]))[0]
        return None if len(results) == 1 and np.size(getattr(results[0], "_v", results[0])) == 1 else results
    return None


def _datum(k, value):
    """One of the further arguments: a float, or a C-contiguous float64 array."""
    if type(value) is float or isinstance(value, np.floating):
        return float(value)
    array = np.asarray(value)
    if array.dtype.kind != "f" or not array.ndim:
        raise DtypeError(
            f"data[{k}] is {type(value).__name__ if not array.ndim else f'an array of {array.dtype}'}, not a float or an array of "
            "floats: let the function capture it, or convert it with float() or .astype(float)"
        )
    return np.array(array, np.float64, order="C")


registry.guard_message = _what_failed
