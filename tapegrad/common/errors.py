"""The errors tapegrad raises.

Every class also inherits the builtin exception a NumPy or PyTorch user would expect, so existing ``except`` clauses keep working.  Messages
say, in this order: what happened, to which variable, and what to do now; printed, they end with the command that shows the paragraph of
docs/errors.md (which is in the wheel) about their class: ``[tapegrad explain GuardError]``.

`sections` has the paragraphs of that page, which lies beside this file (in the repository as a link), so an installed wheel explains itself.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Any

from .registry import registry
from .uninterrupted import from_handler


@functools.cache
def sections() -> dict[str, str]:
    """Heading -> text, of the page; what stands before the first class is that of their base."""
    text = Path(__file__).with_name("errors.md").read_text(encoding="utf-8")
    text = re.sub(r"^## .*\n+|[ ]+# doctest: .*$", "", text, flags=re.MULTILINE)
    first, *others = re.split(r"^### (\w+)\n", text, flags=re.MULTILINE)
    return {"TapegradError": first.strip(), **{name: f"### {name}\n{body}".strip() for name, body in zip(others[::2], others[1::2])}}


class TapegradError(Exception):
    """Base class of all errors raised on purpose by tapegrad.

    Attributes
    ----------
    message : str
        The text of the error, without the pointer to its explanation.

    Examples
    --------
    >>> import tapegrad as tg
    >>> try:
    ...     tg.tensor([1.0, 2.0], requires_grad=True).backward()
    ... except tg.errors.TapegradError as error:
    ...     type(error).__name__, isinstance(error, RuntimeError)
    ('NonScalarOutputError', True)
    """

    __module__ = "tapegrad.errors"
    #: The heading of docs/errors.md; a class of yours that is derived from one of these has that of its base.
    _heading = "TapegradError"

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.__module__ == __name__:
            cls._heading = cls.__name__
            cls.__module__ = "tapegrad.errors"  # the name that users import it by, and that tracebacks show

    @property
    def message(self) -> str:
        return super().__str__()

    def __str__(self) -> str:
        text = self.message
        return f"{text}{chr(10) if chr(10) in text else ' '}[tapegrad explain {self._heading}]" if text else text

    @classmethod
    def explain(cls) -> None:
        """Print what docs/errors.md says of the class: the cause, a program that raises it, and one that does not."""
        print(sections()[cls._heading])


def said_by(error: Exception) -> str:
    """The text of an error, to be part of another one."""
    return error.message if isinstance(error, TapegradError) else str(error)


def reason(error: Exception) -> str:
    """Class and text of an error that becomes part of another one, or is a reason; that of a signal's handler is raised again."""
    if from_handler(error):
        raise error
    return f"{type(error).__name__}: {said_by(error)}"


class noted:
    """Context manager that adds a note to whatever is raised inside: where in tapegrad a user's code was running."""

    def __init__(self, note: str) -> None:
        self.note = note

    def __enter__(self) -> noted:
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if error is not None:
            error.add_note(f"tapegrad: {self.note}")


class ClearedTapeError(TapegradError, RuntimeError):
    """A backward pass needs instructions that an earlier one has released.

    Examples
    --------
    >>> import tapegrad as tg
    >>> loss = tg.tensor(2.0, requires_grad=True) ** 2
    >>> loss.backward(retain_graph=True)  # keeps what the next pass needs
    >>> loss.backward()  # releases it
    >>> loss.backward()
    Traceback (most recent call last):
    tapegrad.errors.ClearedTapeError: Trying to backward through the graph a second time...
    """


class GradientError(TapegradError, RuntimeError):
    """A gradient was requested where none can exist.

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.tensor(1.0).backward()
    Traceback (most recent call last):
    tapegrad.errors.GradientError: element 0 of tensors does not require grad...
    >>> tg.tensor(1.0, requires_grad=True).backward()
    """


class NonScalarOutputError(GradientError):
    """``backward()`` was called without a seed on an output that is not a scalar.

    Examples
    --------
    >>> import tapegrad as tg
    >>> y = tg.tensor([1.0, 2.0], requires_grad=True) ** 2
    >>> y.backward()
    Traceback (most recent call last):
    tapegrad.errors.NonScalarOutputError: grad can be implicitly created only for scalar outputs; this output has shape (2,)...
    >>> y.sum().backward()
    """


class SeedShapeError(TapegradError, RuntimeError, ValueError):
    """The seed of a backward pass does not have the shape of its output.

    Examples
    --------
    >>> import numpy as np, tapegrad as tg
    >>> y = tg.tensor([1.0, 2.0], requires_grad=True) ** 2
    >>> y.backward(np.ones(3))
    Traceback (most recent call last):
    tapegrad.errors.SeedShapeError: Mismatch in shape: grad_output[0] has a shape of (3,) and output[0] has a shape of (2,)...
    >>> y.backward(np.ones(y.shape))
    """


class ModifiedInPlaceError(TapegradError, RuntimeError):
    """A value that the tape still needs was changed in place.

    Examples
    --------
    >>> import numpy as np, tapegrad as tg
    >>> x, samples = tg.tensor(2.0, requires_grad=True), np.ones(1_000)
    >>> loss = (x * samples).sum()
    >>> samples[0] = 5.0
    >>> loss.backward()
    Traceback (most recent call last):
    tapegrad.errors.ModifiedInPlaceError: one of the variables needed for gradient computation has been modified by an inplace operation: 'samples'...
    >>> (x * samples.copy()).sum().backward()
    """


class LeaveTapeError(TapegradError, TypeError, RuntimeError):
    """An implicit conversion would silently cut the derivative.

    Examples
    --------
    >>> import math, numpy as np, tapegrad as tg
    >>> tg.grad(math.sin)(0.5)
    Traceback (most recent call last):
    tapegrad.errors.LeaveTapeError: write np.sin(t) for math.sin(t)...
    >>> tg.grad(np.sin)(0.5)
    0.8775...
    """


class UnsupportedFunctionError(TapegradError, TypeError, NotImplementedError):
    """A NumPy function that has no rule was called on a tensor.

    Examples
    --------
    >>> import numpy as np, tapegrad as tg
    >>> x = tg.tensor([1.0, 0.0], requires_grad=True)
    >>> np.packbits(x)
    Traceback (most recent call last):
    tapegrad.errors.UnsupportedFunctionError: numpy.packbits has no derivative rule in tapegrad...
    >>> np.packbits(x.detach().numpy() > 0.5)
    array([128], dtype=uint8)
    """


class DtypeError(TapegradError, TypeError, RuntimeError):
    """A dtype cannot carry a derivative (integers, objects), or is complex where only real numbers are accepted.

    Examples
    --------
    >>> import numpy as np, tapegrad as tg
    >>> counts = np.array([1, 2])
    >>> tg.tensor(counts, requires_grad=True)
    Traceback (most recent call last):
    tapegrad.errors.DtypeError: an integer tensor (dtype int64, shape (2,)) cannot require a gradient; convert with .astype(float)...
    >>> tg.tensor(counts.astype(float), requires_grad=True)
    tensor([1., 2.], requires_grad=True)
    """


class ComplexOperandError(DtypeError):
    """Complex numbers were given where only real ones are accepted.

    Examples
    --------
    >>> import tapegrad as tg
    >>> z = tg.tensor([1.0 + 2.0j], requires_grad=True)
    >>> t = tg.zeros(2)
    >>> t[0] = z[0]
    Traceback (most recent call last):
    tapegrad.errors.ComplexOperandError: assignment: complex numbers are not taken here; give real and imaginary parts (z.real, z.imag)...
    >>> t[0] = z[0].real
    """


class TapeMismatchError(TapegradError, RuntimeError):
    """Tensors of different tapes or threads met in one operation.

    Examples
    --------
    >>> import tapegrad as tg
    >>> x = tg.tensor(1.0, requires_grad=True)
    >>> with tg.Tape():
    ...     a = x * 2.0
    >>> with tg.Tape():
    ...     b = x * 3.0
    ...     total = x * 2.0 + b
    >>> a + b
    Traceback (most recent call last):
    tapegrad.errors.TapeMismatchError: the operands were recorded on two different tapes...
    """


class RuleError(TapegradError, RuntimeError, ValueError):
    """A custom rule returned something that is not a derivative of its operand.

    Examples
    --------
    >>> import numpy as np, tapegrad as tg
    >>> square = tg.custom_jvp(lambda x: x**2, lambda tangents, result, x: np.ones(3))
    >>> tg.derivative(square)(2.0)
    Traceback (most recent call last):
    tapegrad.errors.RuleError: the JVP rule of '<lambda>' returned a tangent of shape (3,) for the result of shape ()...
    >>> tg.derivative(tg.custom_jvp(lambda x: x**2, lambda tangents, result, x: 2.0 * x * tangents[0]))(2.0)
    4.0
    """


class MissingRuleError(RuleError, NotImplementedError):
    """A custom primitive has no rule for the mode in which it is differentiated.

    Examples
    --------
    >>> import tapegrad as tg
    >>> half = tg.primitive(lambda x: x / 2.0)
    >>> tg.derivative(half)(1.0)
    Traceback (most recent call last):
    tapegrad.errors.MissingRuleError: '<lambda>' has no derivative rule...
    >>> tg.grad(tg.custom_vjp(half, lambda g, result, x: g / 2.0))(1.0)
    0.5
    """


class GuardError(TapegradError, RuntimeError):
    """A compiled function was called where its recorded path does not hold.

    Code compiled by Numba raises it with two numbers, the guard and the handle of the
    `tapegrad.compiled.Compiled`; the message is looked up.

    Examples
    --------
    >>> import numpy as np, tapegrad as tg
    >>> kinked = lambda x: x[0] if x[0] > 0.0 else -x[0]
    >>> tg.compile(kinked, np.ones(1))(-np.ones(1), np.empty(1))
    Traceback (most recent call last):
    tapegrad.errors.GuardError: ...went another way than at the x0 of tg.compile...
    >>> tg.jit(tg.grad(kinked))(-np.ones(1))
    array([-1.])
    """

    def __init__(self, message: Any, handle: int | None = None) -> None:
        if handle is not None:
            message = registry.guard_message(message, handle)
        super().__init__(message)


class ShapeError(TapegradError, ValueError):
    """An array does not have the required shape.

    Examples
    --------
    >>> import numpy as np, tapegrad as tg
    >>> compiled = tg.compile(lambda x: np.sum(x * x), np.ones(2))
    >>> compiled(np.ones(3), np.empty(3))
    Traceback (most recent call last):
    tapegrad.errors.ShapeError: x has the shape (3,), the function was compiled for (2,)...
    >>> compiled(np.ones(2), np.empty(2))
    2.0
    """


class CheckError(TapegradError, AssertionError):
    """A function or its derivative failed a check of `tapegrad.check`.

    Attributes
    ----------
    report : tapegrad.check.Report

    Examples
    --------
    >>> import tapegrad as tg
    >>> wrong = tg.custom_vjp(lambda x: x**2, lambda g, result, x: x * g)
    >>> try:
    ...     tg.check(wrong, 2.0, modes="reverse")
    ... except tg.errors.CheckError as error:
    ...     error.report.passed
    False
    >>> tg.check(tg.custom_vjp(lambda x: x**2, lambda g, result, x: 2.0 * x * g), 2.0, modes="reverse").passed
    True
    """

    report: object = None


class InternalError(TapegradError, AssertionError):
    """An internal invariant does not hold: the fault lies in tapegrad, or in a row added to its table.

    Examples
    --------
    >>> from tapegrad.rules.table import elementwise
    >>> elementwise("sin", None, None, (), node="Sin", doc="another sine")
    Traceback (most recent call last):
    tapegrad.errors.InternalError: two rows are named 'sin'...
    """


#: The end of the message of a broken invariant.
REPORT = ". Nothing was computed from it. Please report it, with the program that does it"


def require(condition: Any, message: Any) -> None:
    """Raise `InternalError` unless a condition holds that memory or numbers depend on; unlike ``assert``, under ``python -O`` too."""
    if not condition:
        raise InternalError(f"{message}{REPORT}")


class HigherOrderError(TapegradError, NotImplementedError):
    """A derivative of a derivative was requested where there is no rule for it.

    Examples
    --------
    >>> import tapegrad as tg
    >>> cube = tg.custom_vjp(lambda x: x**3, lambda g, result, x: g * 3.0 * float(x) ** 2)
    >>> tg.grad(tg.grad(cube))(2.0)
    Traceback (most recent call last):
    tapegrad.errors.HigherOrderError: the VJP rule of '<lambda>', called at ..., is needed for a second derivative...
    >>> tg.grad(tg.grad(tg.custom_vjp(lambda x: x**3, lambda g, result, x: g * 3.0 * x**2)))(2.0)
    12.0
    """


class NestingError(HigherOrderError, TapeMismatchError):
    """A transformation met a number that is already being differentiated outside it.

    Examples
    --------
    >>> import tapegrad as tg
    >>> w = tg.tensor(3.0, requires_grad=True)
    >>> tg.optimize.lbfgs(lambda a: (a - w) ** 2, 1.0)
    Traceback (most recent call last):
    tapegrad.errors.NestingError: 'w', a tensor of shape () that requires a gradient, is used by <lambda> without being one...
    >>> best = tg.optimize.lbfgs(lambda a, w: (a - w) ** 2, 1.0, args=(w.item(),))
    """


class StructureError(TapegradError, TypeError, ValueError):
    """Arguments, tangents or results of a differentiated function do not have the required structure.

    Examples
    --------
    >>> import tapegrad as tg
    >>> def forgetful(x):
    ...     x * x
    >>> tg.grad(forgetful)(1.0)
    Traceback (most recent call last):
    tapegrad.errors.StructureError: the result of forgetful... is None: does the function return what it computes?...
    >>> tg.grad(lambda x: x * x)(1.0)
    2.0
    """


class UnsupportedInNumbaError(TapegradError, TypeError):
    """A function cannot be differentiated in nopython code.

    Examples
    --------
    >>> import math, numpy as np, tapegrad as tg
    >>> tg.njit_derivative(lambda x: np.int64(x) * x)(2.5)
    Traceback (most recent call last):
    tapegrad.errors.UnsupportedInNumbaError: ...a conversion to integers would cut the derivative...
    >>> tg.njit_derivative(lambda x: math.floor(x) * x)(2.5)
    2.0
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        # Numba puts the names of its passes in front of the arguments of errors that go through it.
        self._message = message

    @property
    def message(self) -> str:
        return self._message


class TapeFileError(TapegradError, ValueError):
    """A tape cannot be saved, or a file does not hold a tape that can be loaded.

    Examples
    --------
    >>> import io, tapegrad as tg
    >>> tg.load_tape(io.BytesIO(b"something else"))
    Traceback (most recent call last):
    tapegrad.errors.TapeFileError: this is not a tape that can be loaded...
    >>> file = io.BytesIO()
    >>> tg.grad(lambda x: x * x).tape(1.0).save(file)
    >>> tg.load_tape(io.BytesIO(file.getvalue()))(3.0)
    9.0
    """


class GraphError(TapegradError, ValueError):
    """A graph of `tapegrad.automata` does not suit its use: an arc leads to a node that does not exist, labels differ, or there is a cycle.

    Examples
    --------
    >>> from tapegrad import automata
    >>> loop = automata.Graph()
    >>> node = loop.add_node(start=True, accept=True)
    >>> arc = loop.add_arc(node, node, 0)
    >>> automata.forward_score(loop)
    Traceback (most recent call last):
    tapegrad.errors.GraphError: the graph has a cycle, so its paths have no end: 0 -> 0...
    >>> automata.forward_score(automata.compose(automata.linear_graph(3, 1), loop)).item()
    0.0
    """


class MissingPackageError(TapegradError, ImportError):
    """An optional package that the call needs is missing.

    Examples
    --------
    >>> import sys
    >>> from unittest import mock
    >>> import numpy as np, tapegrad as tg
    >>> line = tg.fit(lambda p, x: p * x, 1.0, np.arange(3.0), observed=[0.0, 2.0, 4.1])
    >>> with mock.patch.dict(sys.modules, {"matplotlib.figure": None}):  # as where it is not installed
    ...     line.plot()
    Traceback (most recent call last):
    tapegrad.errors.MissingPackageError: fit.plot() ...
    """


class OptionError(TapegradError, ValueError):
    """An option has an invalid value; the message lists the valid ones.

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.jit(tg.grad(lambda x: x * x), kernel="perhaps")
    Traceback (most recent call last):
    tapegrad.errors.OptionError: kernel='perhaps': choose one of 'auto', 'always', 'never'...
    >>> tg.jit(tg.grad(lambda x: x * x), kernel="never")(1.0)
    2.0
    """


class OptimizationError(TapegradError, ValueError):
    """An optimiser cannot do what it is asked to do: the method is unknown, bounds do not fit, or a start is not a number.

    Examples
    --------
    >>> import numpy as np, tapegrad as tg
    >>> tg.optimize.minimize(lambda x: np.sum(x * x), np.ones(2), method="best")
    Traceback (most recent call last):
    tapegrad.errors.OptimizationError: method='best' is not known; choose one of ...
    >>> tg.optimize.minimize(lambda x: np.sum(x * x), np.ones(2), method="lbfgs").success
    True
    """


class NonFiniteError(TapegradError, FloatingPointError):
    """A value or a derivative is infinite or not a number; the message names the operation.

    Examples
    --------
    >>> import numpy as np, tapegrad as tg
    >>> with tg.detect_anomaly():
    ...     np.sqrt(tg.tensor(0.0, requires_grad=True)).backward()
    Traceback (most recent call last):
    tapegrad.errors.NonFiniteError: the derivative of sqrt at ... is not finite...
    >>> with tg.detect_anomaly():
    ...     np.sqrt(tg.tensor(1e-8, requires_grad=True)).backward()
    """


class WorkerError(TapegradError, RuntimeError):
    """A worker of a cluster cannot do its part: it has no tapegrad, or another version, or terminates each time.

    Examples
    --------
    >>> from concurrent.futures import BrokenExecutor, ThreadPoolExecutor
    >>> import numpy as np, tapegrad as tg
    >>> class Ended(ThreadPoolExecutor):
    ...     def submit(self, function, *args):
    ...         raise BrokenExecutor("a process was killed")
    >>> total = tg.sum_over(lambda theta, x: np.sum((x - theta) ** 2), np.arange(5.0))
    >>> tg.distribute(total, Ended())(1.0)
    Traceback (most recent call last):
    tapegrad.errors.WorkerError: a worker came to an end, and with it its executor...
    >>> tg.distribute(total, lambda: ThreadPoolExecutor(2))(1.0)
    15.0
    """


class ConvergenceError(TapegradError, RuntimeError):
    """A solver found no solution: the residual is not small.

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.implicit.root(lambda x, a: x**2 + a, 1.0, 1.0)
    Traceback (most recent call last):
    tapegrad.errors.ConvergenceError: ...
    >>> round(tg.implicit.root(lambda x, a: x**2 - a, 1.0, 4.0), 6)
    2.0
    """


class SingularJacobianError(TapegradError, ValueError):
    """A solution does not depend smoothly on its arguments: the Jacobian with respect to the unknowns is singular.

    Examples
    --------
    >>> import tapegrad as tg
    >>> try:
    ...     tg.grad(lambda a: tg.implicit.root(lambda x, a: x**2 - a, 0.0, a))(0.0)
    ... except tg.errors.SingularJacobianError as error:
    ...     print(error.message.split(":")[1])
     the solution does not depend smoothly on the arguments there
    >>> tg.grad(lambda a: tg.implicit.root(lambda x, a: x**2 - a, 1.0, a))(4.0)
    0.25
    """


class PathWarning(UserWarning):
    """A function under `jit` cannot be recorded, or would be recorded at nearly every call: it runs as without `jit`.

    Examples
    --------
    >>> import warnings, numpy as np, tapegrad as tg
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     slope = tg.jit(tg.grad(lambda x: tg.nn.functional.dropout(x, 0.5).sum()))(np.ones(3))
    >>> [warning.category.__name__ for warning in caught]
    ['PathWarning']
    """

    __module__ = "tapegrad.errors"


class PerformanceWarning(UserWarning):
    """Derivatives of a function without `jit` have taken a second; `jit` would record the function once.

    Examples
    --------
    >>> import warnings, tapegrad as tg
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", tg.PerformanceWarning)  # a second of derivatives without jit raises
    ...     tg.grad(lambda x: x * x)(1.0)
    2.0
    """

    __module__ = "tapegrad.errors"


__all__ = [name for name, thing in list(globals().items()) if isinstance(thing, type) and issubclass(thing, Exception)]
