"""The errors tapegrad raises.

Every class also inherits the builtin exception a NumPy or PyTorch user would
expect, so existing ``except`` clauses keep working.  Messages say, in this
order: what happened, to which variable, and what to do now; printed, they end with
the command that shows the paragraph of docs/errors.md (which is in the wheel) about
their class: ``[tapegrad explain GuardError]``.

`sections` has the paragraphs of that page.  It is in the package beside this file (in the repository a link to docs/), so an
installed wheel explains its errors by itself.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Any

from .registry import registry

_PAGE = Path(__file__).with_name("errors.md")


@functools.cache
def sections() -> dict[str, str]:
    """Heading -> text, of the page; what stands before the first class is that of their base."""
    text = _PAGE.read_text(encoding="utf-8")
    text = re.sub(r"^## .*\n+|[ ]+# doctest: .*$", "", text, flags=re.MULTILINE)
    first, *others = re.split(r"^### (\w+)\n", text, flags=re.MULTILINE)
    return {"TapegradError": first.strip(), **{name: f"### {name}\n{body}".strip() for name, body in zip(others[::2], others[1::2])}}


class TapegradError(Exception):
    """Base class of all errors raised on purpose by tapegrad.

    Attributes
    ----------
    message : str
        The text of the error, without the pointer to its explanation.
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
    """A backward pass needs instructions that an earlier one has released."""


class GradientError(TapegradError, RuntimeError):
    """A gradient was requested where none can exist."""


class NonScalarOutputError(GradientError):
    """``backward()`` was called without a seed on an output that is not a scalar."""


class SeedShapeError(TapegradError, RuntimeError, ValueError):
    """The seed of a backward pass does not have the shape of its output."""


class ModifiedInPlaceError(TapegradError, RuntimeError):
    """A value that the tape still needs was changed in place."""


class LeaveTapeError(TapegradError, TypeError, RuntimeError):
    """An implicit conversion would silently cut the derivative."""


class UnsupportedFunctionError(TapegradError, TypeError, NotImplementedError):
    """A NumPy function that has no rule was called on a tensor."""


class DtypeError(TapegradError, TypeError, RuntimeError):
    """A dtype cannot carry a derivative (integers, objects), or is complex where only real numbers are accepted."""


class ComplexOperandError(DtypeError):
    """Complex numbers were given where only real ones are accepted."""


class TapeMismatchError(TapegradError, RuntimeError):
    """Tensors of different tapes or threads met in one operation."""


class RuleError(TapegradError, RuntimeError, ValueError):
    """A custom rule returned something that is not a derivative of its operand."""


class MissingRuleError(RuleError, NotImplementedError):
    """A custom primitive has no rule for the mode in which it is differentiated."""


class GuardError(TapegradError, RuntimeError):
    """A compiled function was called where its recorded path does not hold.

    Code compiled by Numba raises it with two numbers, the guard and the handle of the
    `tapegrad.compiled.Compiled`; the message is looked up.
    """

    def __init__(self, message: Any, handle: int | None = None) -> None:
        if handle is not None:
            message = registry.guard_message(message, handle)
        super().__init__(message)


class ShapeError(TapegradError, ValueError):
    """An array does not have the required shape."""


class CheckError(TapegradError, AssertionError):
    """A function or its derivative failed a check of `tapegrad.check`.

    Attributes
    ----------
    report : tapegrad.check.Report
    """

    report: object = None


class InternalError(TapegradError, AssertionError):
    """An internal invariant does not hold: the fault lies in tapegrad, or in a row added to its table."""


#: The end of the message of a broken invariant.
REPORT = ". Nothing was computed from it. Please report it, with the program that does it"


def require(condition: Any, message: Any) -> None:
    """Raise `InternalError` unless a condition holds that memory or numbers depend on; unlike ``assert``, under ``python -O`` too."""
    if not condition:
        raise InternalError(f"{message}{REPORT}")


class HigherOrderError(TapegradError, NotImplementedError):
    """A derivative of a derivative was requested where there is no rule for it."""


class NestingError(HigherOrderError, TapeMismatchError):
    """A transformation met a number that is already being differentiated outside it."""


class StructureError(TapegradError, TypeError, ValueError):
    """Arguments, tangents or results of a differentiated function do not have the required structure."""


class UnsupportedInNumbaError(TapegradError, TypeError):
    """A function cannot be differentiated in nopython code."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        # Numba puts the names of its passes in front of the arguments of errors that go through it.
        self._message = message

    @property
    def message(self) -> str:
        return self._message


class TapeFileError(TapegradError, ValueError):
    """A tape cannot be saved, or a file does not hold a tape that can be loaded."""


class GraphError(TapegradError, ValueError):
    """A graph of `tapegrad.automata` does not suit its use: an arc leads to a node that does not exist, labels differ, or there is a cycle."""


class MissingPackageError(TapegradError, ImportError):
    """An optional package that the call needs is missing."""


class OptionError(TapegradError, ValueError):
    """An option has an invalid value; the message lists the valid ones."""


class OptimizationError(TapegradError, ValueError):
    """An optimiser cannot do what it is asked to do: the method is unknown, bounds do not fit, or a start is not a number."""


class NonFiniteError(TapegradError, FloatingPointError):
    """A value or a derivative is infinite or not a number; the message names the operation."""


class WorkerError(TapegradError, RuntimeError):
    """A worker of a cluster cannot do its part: it has no tapegrad, or another version, or terminates each time."""


class ConvergenceError(TapegradError, RuntimeError):
    """A solver found no solution: the residual is not small."""


class SingularJacobianError(TapegradError, ValueError):
    """A solution does not depend smoothly on its arguments: the Jacobian with respect to the unknowns is singular."""


class PathWarning(UserWarning):
    """A function under `jit` cannot be recorded, or would be recorded at nearly every call: it runs as without `jit`."""

    __module__ = "tapegrad.errors"


class PerformanceWarning(UserWarning):
    """Derivatives of a function without `jit` have taken a second; `jit` would record the function once."""

    __module__ = "tapegrad.errors"


__all__ = [name for name, thing in list(globals().items()) if isinstance(thing, type) and issubclass(thing, Exception)]
