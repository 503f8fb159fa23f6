"""`export`: a function with its derivatives as a C header and object code; `to_python`: as the text of a NumPy program."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..common.errors import OptionError
from ..common.uninterrupted import uninterrupted


@dataclass(frozen=True)
class Exported:
    """What `export` has written.

    Attributes
    ----------
    header, object : Path
    shared : Path or None
        A shared library; None if there is no linker for the processor, for the reason in `not_linked`.
    not_linked : str
    symbols : tuple of str
        Functions that the object file has from outside, of the C library.
    guards : tuple of str
        What each status above 0 means.
    workspace : int
        Bytes that a caller gives.
    routines : tuple of str
        Functions of BLAS and LAPACK that the caller sets.
    """

    header: Path
    object: Path
    shared: Path | None
    not_linked: str
    symbols: tuple[str, ...]
    guards: tuple[str, ...]
    workspace: int
    routines: tuple[str, ...]

    def __str__(self):
        written = [str(path) for path in (self.header, self.object, self.shared) if path is not None]
        why = f"; no shared library: {self.not_linked}" if self.not_linked else ""
        return f"wrote {', '.join(written)}; {len(self.guards)} guards, a workspace of {self.workspace} bytes{why}"


def export(g: Callable[..., Any], x: Any, path: str | Path, *, cpu: str = "host", vector_math: bool = True) -> Exported:
    """Write a function, recorded at a point, as a C header and object code for programs without Python.

    Parameters
    ----------
    g : callable
        ``tg.value_and_grad(f)``, ``tg.grad(f)``, ``tg.hessian(f)``, ...; or a function of numbers and arrays, which may call these.
    x : float, array_like, containers of them, or a tuple of arguments
        The point at which `g` is recorded. Floats and arrays are arguments in C, too, with these shapes; everything else, and what `g`
        captures, is a constant of the code.
    path : str or Path
        ``"dir/name"``: `name` is the name of the function in C. The files are ``name.h``, ``name.o`` and, if a linker is found, ``name.so``.
    cpu : {"host", "x86-64", "x86-64-v3", "aarch64"}
        The target processor: this one, any x86-64 of a level, or any 64-bit ARM.
    vector_math : bool
        Whether loops may call the vector functions of glibc (libmvec), as they do here; False for any other C library.

    Returns
    -------
    Exported
        The paths of the files, and the external functions that the code calls.

    Raises
    ------
    UnsupportedFunctionError
        If something has no standalone code: a special function of SciPy, a sort, Python code. The message names it.
    OptionError
        If the name is not a C name, or the processor is unknown.

    Notes
    -----
    The code allocates nothing, may be called by any number of threads, and has one path: where a branch would go another way, the call writes
    nothing and returns the number of a guard, whose line is in the header.  For this processor it computes the same bits as a kernel of
    ``tg.jit(g)``, but for matrices: products go to the BLAS that the caller sets, or to loops; solves, determinants and factorisations go to
    the LAPACK that the caller sets, without which a call returns a status.

    Examples
    --------
    >>> import numpy as np, tapegrad as tg, tempfile
    >>> def f(x):
    ...     return np.sum(np.exp(x)) if x[0] > 0.0 else np.sum(x)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     made = tg.export(tg.value_and_grad(f), np.ones(3), f"{folder}/risk")
    ...     print(made.header.name, made.object.name, made.guards)  # doctest: +ELLIPSIS
    risk.h risk.o ('...went another way than when it was recorded',)
    """
    with uninterrupted:
        from .files import written  # loads compiled code

    path = Path(path)
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", path.name):
        raise OptionError(f"{path.name!r} is the name of the function in C: use letters, digits and underscores")
    return Exported(*written(g, x if isinstance(x, tuple) else (x,), path, cpu, vector_math))


def to_python(g: Callable[..., Any], x: Any) -> str:
    """Write a function, recorded at a point, as the text of a readable program that needs only NumPy.

    Parameters
    ----------
    g : callable
        As in `export`: ``tg.value_and_grad(f)``, ``tg.hessian(f)``, a function of numbers and arrays, ...
    x : float, array_like, containers of them, or a tuple of arguments
        As in `export`: floats and arrays are arguments, everything else is a constant of the program.

    Returns
    -------
    str
        A module with one function. Operations on array elements become loops, and loops of `g` stay loops; beside each line stands the line
        of `g` that it belongs to. The function returns values, then gradients.

    Raises
    ------
    UnsupportedFunctionError
        If something is computed by a library: a factorisation, a sort, Python code. The message names it.

    Notes
    -----
    The program has one path. Where a branch would go another way, it raises a ValueError that names the line; it raises one where a derivative
    is not finite, too (``tg.jit(g)`` then sweeps, where zero is absolute). Else it computes what ``tg.jit(g)`` computes, up to rounding. It
    is for reading, and as slow as plain Python; ``tg.jit(g)`` is for computing.

    Examples
    --------
    >>> import numpy as np, tapegrad as tg
    >>> text = tg.to_python(tg.value_and_grad(lambda x: np.sum(x**3)), np.ones(4))
    >>> exec(text)
    >>> value, gradient = derivative(np.array([1.0, 2.0, 3.0, 4.0]))
    >>> print(value, gradient)
    100.0 [ 3. 12. 27. 48.]
    """
    with uninterrupted:
        from .python import text_of  # loads compiled code

    return text_of(g, x if isinstance(x, tuple) else (x,))
