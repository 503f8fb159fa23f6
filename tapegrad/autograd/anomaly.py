"""Finding the operation from which a number is not finite.

Inside `detect_anomaly` every operation on tensors looks at its result, and a
backward pass goes instruction by instruction and looks at each adjoint.  What is
infinite or not a number although everything it was made from is finite is an error, raised at the
operation, so that a debugger lands on its line.

`tapegrad.autograd.backward` and `tapegrad.array.record` call the two methods that look, `result` and `adjoint`; the
optimisers call `first_anomaly`, to say where a start that is not finite comes from.

A loop and lanes of `vmap` run iteration by iteration then, so that an error names the iteration, or the lane.  What compiled code answers
(a function under `jit`, ``via="numba"``) is looked at as a whole: if something in it is not finite, the function is run again plainly, and raises
where that comes from (`detect_anomaly.again`).  ``tg.config.debug_nans = True`` is all this without a ``with``, for NaN.

Recording goes the long way then: the stores of the thread are marked as owned by no thread
(`ThreadState.checking`), so that the fast scalar operators leave every operation to
`record`, which looks.
"""

from __future__ import annotations

import bisect
import contextlib
from collections.abc import Callable, Iterator
from contextlib import ContextDecorator
from textwrap import shorten
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from ..array.tensor import Tensor, tensor
from ..common.errors import NonFiniteError
from ..common.tree import flatten, unflatten
from ..tape.places import Place, function_name
from ..tape.store import ThreadState, thread_state
from .custom.calls import is_float
from .tape import Tape, summary


class detect_anomaly(ContextDecorator):
    """Context manager and decorator that raises at the operation whose result or derivative is not finite.

    Parameters
    ----------
    inf : bool
        Whether infinities count, or only NaN.  ``np.where(x > 0, np.log(x), 0.0)`` computes infinities
        on purpose and does not use them.

    Raises
    ------
    NonFiniteError
        Inside the block.  The forward pass raises it at the operation; in ``backward()`` it names the operation
        whose derivative is not finite, with file and line.

    Notes
    -----
    Only the thread that enters it is checked, and its operations are much slower.  Loops run in Python; results of compiled code are
    checked, and computed again in Python if they are not finite (not those of ``njit_grad``, which are Numba's functions).
    ``tg.config.debug_nans = True`` does the same for NaN, in the calling thread and in those that start later.

    Examples
    --------
    >>> import numpy as np, tapegrad as tg
    >>> x = tg.tensor([1.0, 0.0], requires_grad=True)
    >>> with tg.detect_anomaly():
    ...     y = np.sum(np.sqrt(x))
    ...     try:
    ...         y.backward()
    ...     except tg.errors.NonFiniteError as error:
    ...         print(str(error).partition(" at ")[0])
    the derivative of sqrt
    """

    def __init__(self, inf: bool = True) -> None:
        self.inf = inf
        self._before: list[Any] = []
        #: The iterations and lanes that are running, outermost first; and where on a store each of them began or ended.
        self._where: list[str] = []
        self._marks: WeakKeyDictionary[Any, list[tuple[int, str]]] = WeakKeyDictionary()

    def __enter__(self) -> detect_anomaly:
        state = thread_state()
        self._before.append(state.checking)
        state.set_checking(self)
        return self

    def __exit__(self, *exc: object) -> None:
        thread_state().set_checking(self._before.pop())

    def _recreate_cm(self) -> detect_anomaly:
        return detect_anomaly(self.inf)

    def bad(self, value: Any) -> bool:
        """Whether some number in `value` is one to be found."""
        if type(value) is float:
            return value != value or self.inf and value - value != 0.0
        return bool(self._which(np.asarray(value)).any())

    def _which(self, array):
        """Which elements are to be found."""
        if array.dtype.kind != "f":
            return np.zeros(array.shape, bool)
        return ~np.isfinite(array) if self.inf else np.isnan(array)

    def _example(self, value):
        """The value, or one bad element of it with its index."""
        array = np.asarray(value)
        if array.ndim == 0:
            return f"{float(array)}"
        at = np.argwhere(self._which(array))[0].tolist()
        return f"{array[tuple(at)]} at {at} of shape {array.shape}"

    # -- forward --------------------------------------------------------------------
    def result(self, name: str, values: Any, value: Any, frame: Any) -> None:
        """Look at the result of an operation."""
        if not self.bad(value) or any(self.bad(v) for v in values):
            return
        operands = ", ".join(summary(v) for v in values if np.asarray(v).dtype.kind in "fiub") or "no operands"
        raise NonFiniteError(f"{name} at {_at(Place(frame.f_code, frame.f_lasti))}{self._said()} gave {self._example(value)}, from {operands}")

    @contextlib.contextmanager
    def within(self, what: str) -> Iterator[None]:
        """For the time of an iteration, or of a lane, of that name."""
        store = thread_state().store
        self._where.append(what)
        self._mark(store)
        try:
            yield
        finally:
            self._where.pop()
            self._mark(store)

    def _said(self):
        return f", in {', '.join(self._where)}," if self._where else ""

    def _mark(self, store):
        marks = self._marks.setdefault(store, [])
        while marks and marks[-1][0] >= store.length:
            marks.pop()
        marks.append((store.length, self._said()))

    # -- backward -------------------------------------------------------------------
    def adjoint(self, name: str, store: Any, slot: int, adjoint: Any, gradient: Any, which: Any) -> None:
        """Raise for a derivative `gradient` that is not finite although `adjoint`, that of a slot, is."""
        marks = self._marks.get(store, [])
        found = bisect.bisect_right(marks, slot, key=lambda mark: mark[0])
        said = marks[found - 1][1] if found else self._said()
        what = "the operand" if which is None else f"operand {which + 1}"
        raise NonFiniteError(
            f"the derivative of {name} at {_at(store.place(slot))}{said} is not finite: the adjoint of {what} became "
            f"{self._example(gradient)} from an adjoint of the result of {summary(adjoint)}; keep away from this point "
            "(a kink or a pole), for instance by np.where on the operand"
        )

    # -- what compiled code has answered ---------------------------------------------
    def again(
        self, answer: Any, args: Any, kwargs: Any, plainly: Callable[..., Any], function: Callable[..., Any], ahead: int = 0, inside: Callable[[], str] = str
    ) -> None:
        """If compiled code has answered with a number that is not finite, compute it plainly, which raises where it comes from.

        Parameters
        ----------
        answer : container
            Of compiled code.
        args, kwargs
            What it was given.
        plainly : callable
            ``plainly(args, kwargs)`` computes it in Python.
        function : callable
            The user's.
        ahead : int
            How many of `args` are not the function's: they go ahead.
        inside : callable
            ``inside()`` says which statement of the compiled code it is, if that is known.

        Raises
        ------
        NonFiniteError
            From the operation; or, if the plain run is finite, about the compiled code.
        """
        if not self._any(answer) or self._any((args, kwargs)):
            return
        found, name = plainly(args, kwargs), function_name(function)
        if self._any(found):
            # A Jacobian, say, is swept by compiled code: one sweep of all results finds it.
            _sweep(function, args[ahead:], kwargs)
            why = "does, too, but no operation of it gives one"
        else:
            where = inside()
            why = f"is finite: compiled code alone gives it{where and f', first at {where}'} (is it fastmath?)"
        raise NonFiniteError(f"{name} under jit or Numba gives a number that is not finite, and run plainly it {why}")

    def _any(self, thing):
        return any(self.bad(leaf) for leaf in flatten(thing)[0] if is_float(leaf))


def _sweep(function, args, kwargs):
    """Run a function on a tape, and sweep back from all of its results."""
    leaves, structure = flatten((args, kwargs))
    with Tape():
        args, kwargs = unflatten(structure, [tensor(leaf, requires_grad=True) if is_float(leaf) else leaf for leaf in leaves])
        results = [np.sum(leaf) for leaf in flatten(function(*args, **kwargs))[0] if isinstance(leaf, Tensor) and leaf.requires_grad]
        if results:
            sum(results[1:], results[0]).backward()


def debug_nans(wanted: bool) -> None:
    """Look for NaN from now on, in this thread and those that start later, or do not."""
    ThreadState.looking = staticmethod(lambda: detect_anomaly(inf=False) if wanted else None)  # type: ignore[arg-type]
    thread_state().set_checking(ThreadState.looking())


def first_anomaly(function, args):
    """Run `function` at `args` by itself and say which operation first is not finite: a text, or an empty one.

    The leaves of the first argument are differentiated.
    """
    try:
        with np.errstate(all="ignore"), detect_anomaly():
            _sweep(lambda x: function(x, *args[1:]), args[:1], {})
    except NonFiniteError as error:
        return error.message
    return ""


def _at(place):
    text = shorten(place.text, 100, placeholder="...")
    return f"{place} (`{text}`)" if text else str(place)
