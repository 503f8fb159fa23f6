"""`export`: a function with its derivatives as a C header and object code."""

from __future__ import annotations

import inspect
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..common.errors import OptionError, UnsupportedFunctionError
from ..common.tree import flatten, leaf_names
from ..common.uninterrupted import uninterrupted
from ..program.executable import described
from ..transforms.functional import Transformed, jit


@dataclass(frozen=True)
class Exported:
    """What `export` has written.

    Attributes
    ----------
    header, object : Path
    library : Path or None
        A shared library; None if there is no linker for the processor, for the reason in `not_linked`.
    not_linked : str
    symbols : tuple of str
        Functions that the object file has from outside, of the C library.
    guards : tuple of str
        What each status above 0 means.
    workspace : int
        Bytes that a caller gives.
    blas : bool
        Whether there are products of matrices, by loops unless the caller sets ``dgemm``.
    """

    header: Path
    object: Path
    library: Path | None
    not_linked: str
    symbols: tuple[str, ...]
    guards: tuple[str, ...]
    workspace: int
    blas: bool

    def __str__(self):
        written = [str(path) for path in (self.header, self.object, self.library) if path is not None]
        return f"wrote {', '.join(written)}; {len(self.guards)} guards, a workspace of {self.workspace} bytes" + (
            f"; no shared library: {self.not_linked}" if self.not_linked else ""
        )


def export(g: Callable[..., Any], x: Any, path: str | Path, *, cpu: str = "host", vector_math: bool = True) -> Exported:
    """Write a function, as it is recorded at a point, as a C header and object code, for programs without Python.

    Parameters
    ----------
    g : callable
        ``tg.value_and_grad(f)``, ``tg.grad(f)``, ``tg.hessian(f)``, ...; or a function of numbers and arrays, which may call these.
    x : float, array_like of float, containers of them, or a tuple of arguments
        Where `g` is recorded. Floats and float arrays are arguments in C, too, of these shapes; all else is a constant of the code, and so is what
        `g` has captured.
    path : str or Path
        ``"dir/name"``: `name` is that of the function in C. Written are ``name.h``, ``name.o`` and, where a linker is found, ``name.so``.
    cpu : {"host", "x86-64", "x86-64-v3", "aarch64"}
        The processor: this one, any of a level, or any ARM of 64 bits.
    vector_math : bool
        Whether loops may call the vectors of functions of glibc (libmvec), as they do here; False for any other C library.

    Returns
    -------
    Exported
        The paths of the files, and what the code calls from outside.

    Raises
    ------
    UnsupportedFunctionError
        Something has no code that stands alone: a special function of SciPy, a factorisation, Python code. It is named.
    OptionError
        The name is none in C, or the processor is not known.

    Notes
    -----
    The code allocates nothing, may be called by any number of threads, and has one path: where a branch would go another way, the call returns
    the number of a guard, whose line is in the header, and writes nothing.  For this processor it computes the bits that ``tg.jit(g)`` does
    with a kernel; but products of matrices go to the BLAS that the caller sets, or to loops.

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
        from .header import header
        from .module import Alone, meanings
        from .targets import named

    path = Path(path)
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", path.name):
        raise OptionError(f"{path.name!r} is the name of the function in C: use letters, digits and underscores")
    target, arguments = named(cpu), x if isinstance(x, tuple) else (x,)
    kernel, inputs, results = _described(g, arguments)
    guards = meanings(kernel)
    module = Alone(path.name, kernel, inputs, results, guards, target, vector_math)
    code, symbols = _compiled(module.text, target, kernel)
    text = header(path.name, module, inputs, results, guards, target, symbols)
    path.parent.mkdir(parents=True, exist_ok=True)
    of_header, of_object = path.with_name(path.name + ".h"), path.with_name(path.name + ".o")
    of_header.write_text(text, encoding="utf-8")
    of_object.write_bytes(code)
    library, why = _linked(of_object, path.with_name(path.name + ".so"), target, symbols)
    return Exported(of_header, of_object, library, why, tuple(symbols), tuple(guards), module.workspace, module.product)


def _described(g, arguments):
    """The kernel that computes `g`, and what its inputs and outputs are."""
    function = g if isinstance(g, Transformed) else jit(g)
    kernel = function.kernel(*arguments)
    names = _names(g, arguments)
    if len(kernel.inputs) != len(names):
        # It is given directions, too: recorded whole it has none.
        function = jit(lambda *given: g(*given))
        kernel = function.kernel(*arguments)
    return kernel, _inputs(kernel, names), _outputs(kernel, names)


def _names(g, arguments):
    """What each number or array among the arguments is."""
    try:
        parameters = [p.name for p in inspect.signature(g).parameters.values() if p.kind is not p.VAR_POSITIONAL]
    except (TypeError, ValueError):
        parameters = []
    found = []
    for k, argument in enumerate(arguments):
        leaves, structure = flatten(argument)
        name = parameters[k] if k < len(parameters) else f"x{k}"
        found += [f"{name}{inside}" for leaf, inside in zip(leaves, leaf_names(structure)) if _moves(leaf)]
    return found


def _moves(leaf):
    return isinstance(leaf, (float, np.floating)) or isinstance(leaf, np.ndarray) and leaf.dtype.kind == "f"


def _inputs(kernel, names):
    from .module import Argument

    if len(kernel.inputs) != len(names):
        raise UnsupportedFunctionError(f"the code takes {len(kernel.inputs)} arrays and the function {len(names)}: give floats and arrays of floats")
    return [Argument(c, name, shape, char) for c, name, (shape, char) in zip(_in_c(names), names, kernel.inputs)]


def _outputs(kernel, names):
    """The results: values of the function, then gradients."""
    from .module import Argument

    tape, whats, constants = kernel.tape, [], []
    inside = leaf_names(tape.structure) if tape.structure is not None else [""] * len(tape.outputs)
    for name, (slot, what) in zip(inside, tape.outputs):
        whats.append(f"value{name}")
        constants.append(None if slot else np.asarray(getattr(what, "_v", what)))
    whats += [f"gradient by {name}" for name, wanted in zip(names, tape.wanted) if wanted] if kernel.gradients else []
    constants += [None] * (len(whats) - len(constants))
    shapes = [described(output) for output in kernel.whole.outputs]
    taken = [*_in_c(names), "workspace", "size"]
    results = []
    for what, constant, (shape, char) in zip(whats, constants, shapes, strict=True):
        c = _in_c([*taken, what.replace("gradient by ", "gradient_")])[-1]
        taken.append(c)
        results.append(Argument(c, what, shape, char, constant))
    return results


def _in_c(names):
    """Names that C takes, no two alike."""
    found = []
    for name in names:
        plain = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_") or "x"
        plain = f"x{plain}" if plain[0].isdigit() else plain
        plain = f"{plain}_" if plain in _WORDS else plain
        count, one = 1, plain
        while one in found:
            count += 1
            one = f"{plain}{count}"
        found.append(one)
    return found


#: Words of C and C++ that are no names.
_WORDS = frozenset(
    "auto break case char const continue default do double else enum extern float for goto if inline int long register restrict return short signed sizeof "
    "static struct switch typedef union unsigned void volatile while bool class delete new private public this template throw try catch namespace operator".split()
)


def _compiled(text, target, kernel):
    """Object code, and the functions that it calls from outside."""
    from ..codegen.llvm import optimise

    level, last = kernel._levels
    machine = target.machine(last)
    module = optimise(text, machine, level, straight=False)
    called = set(re.findall(r'\bcall [^@\n]*@"?([\w.]+)"?\(', str(module)))
    symbols = [f.name for f in module.functions if f.is_declaration and f.name in called and not f.name.startswith("llvm.")]
    return machine.emit_object(module), sorted(symbols)


def _linked(of_object, to, target, symbols):
    """The shared library, or None and why there is none."""
    prefix = "" if target.here else f"{target.triple.split('-')[0]}-linux-gnu-"
    linker = next((found for name in ("cc", "gcc", "clang") if (found := shutil.which(f"{prefix}{name}"))), None)
    if linker is None:
        return None, f"there is no {prefix}cc"
    libraries = ["-lmvec"] * any(s.startswith("_ZGV") for s in symbols) + ["-lm"]
    done = subprocess.run([linker, "-shared", "-o", str(to), str(of_object), *libraries], capture_output=True, text=True)
    if done.returncode:
        return None, f"{linker} says: {(done.stderr.strip() or 'nothing').splitlines()[-1]}"
    return to, ""
