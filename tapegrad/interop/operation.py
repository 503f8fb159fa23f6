"""A function of arrays as an operation of another library, and the operations derived of it."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..array.typing import Array
from ..common.errors import DtypeError, MissingPackageError, StructureError
from ..common.public import signature_of
from ..common.tree import COMPLEX, Structure, flatten
from ..common.uninterrupted import imported
from ..transforms.functional import jit
from ..transforms.jacobians import linearize, vjp
from ..transforms.vmap import vmap


class Operation:
    """A function of several arrays, recorded when it is called.

    Parameters
    ----------
    function : callable
        Takes arrays, and whatever else it likes; returns an array or containers of them.
    name : str

    Notes
    -----
    What is derived is an operation again, made once: `pulled` of `pulled` is a second derivative.
    """

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        self.function, self.name = function, name
        self._recorded = jit(function)
        self._derived: dict[Any, Operation] = {}

    def __call__(self, arguments: Sequence[Any]) -> tuple[list[Array], Structure]:
        """The results at `arguments`, flat, as arrays of the caller's own; and what container they come in."""
        try:
            leaves, structure = flatten(self._recorded(*arguments))
        except Exception as error:
            error.add_note(f"{self.name} was called with {', '.join(f'argument {k} of shape {np.shape(a)}' for k, a in enumerate(arguments))}")
            raise
        self._real(structure)
        return [np.array(leaf) if not isinstance(leaf, np.ndarray) or not leaf.flags.writeable else leaf for leaf in leaves], structure

    def pulled(self, inputs: tuple[int, ...], results: int) -> Operation:
        """The VJP, as an operation of the arguments and the adjoints of its `results` floats: the adjoints of the arguments at the positions `inputs`."""
        return self._moved(("pulled", inputs, results), inputs, results, "VJP", lambda f, at, adjoints: vjp(f, *at)[1](adjoints))

    def pushed(self, inputs: tuple[int, ...]) -> Operation:
        """The JVP, as an operation of the arguments and the tangents of those at the positions `inputs`: the tangents of the results that are floats."""
        return self._moved(("pushed", inputs), inputs, len(inputs), "JVP", lambda f, at, tangents: linearize(f, *at)[1](*tangents))

    def mapped(self, axes: tuple[int | None, ...]) -> Operation:
        """The operation of each element along an axis of its arguments; all results have the axis in front."""
        return self._made(("mapped", axes), vmap(self.function, in_axes=axes), f"{self.name} of many points")

    def _made(self, key, function, name):
        # Two threads may make it twice: one of them is kept.
        return self._derived.get(key) or self._derived.setdefault(key, type(self)(function, name))

    def _moved(self, key, inputs, count, what, derivative):
        """The operation that gives the `derivative` of the function of the `inputs` alone, by `count` seeds behind the arguments."""

        def moved(*given):
            arguments, seeds = given[: len(given) - count], given[len(given) - count :]

            def of_inputs(*values):
                results = flatten(self.function(*(dict(enumerate(arguments)) | dict(zip(inputs, values))).values()))[0]
                return tuple([r for r in results if is_float(r)])

            return derivative(of_inputs, [arguments[k] for k in inputs], seeds)

        return self._made(key, moved, f"the {what} of {self.name}")

    def _real(self, structure):
        if structure == COMPLEX or any(map(self._real, structure.parts)):
            raise DtypeError(f"{self.name} returns complex numbers, which an operation of another library cannot; return their real and imaginary parts")

    def __repr__(self):
        return f"<{self.name}>"


def is_float(result: Any) -> bool:
    """Whether a result is a float: integers and booleans have no derivative."""
    return bool((result.dtype if hasattr(result, "dtype") else np.asarray(result).dtype).kind == "f")


def of_leaves(f: Callable[..., Any], structure: Any, unflatten: Callable[..., Any], name: str, kind: type = Operation) -> Any:
    """`f`, whose arguments are in containers, as an operation of their leaves."""
    return kind(lambda *leaves: f(*unflatten(structure, leaves)), name)


def by_position(f: Callable[..., Any], arguments: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[Any, ...]:
    """All arguments of a call, by position: an operation has no names."""
    bound = signature_of(f).bind(*arguments, **keywords)
    if bound.kwargs:
        # There are defaults between them.
        bound.apply_defaults()
    if bound.kwargs:
        raise StructureError(f"{name_of(f)} takes {', '.join(bound.kwargs)} by name alone, which an operation cannot: use functools.partial, or a lambda")
    return bound.args


def checked(dtype: Any, k: int, name: str) -> None:
    """Refuse an argument whose dtype has no derivatives here, and is no integer."""
    if dtype.kind not in "biu" and dtype not in (np.float64, np.float32):
        raise DtypeError(f"argument {k} of {name} is {dtype}: pass float64 or float32 (or integers, which have no derivative)")


def library(name: str) -> Any:
    """Another library.

    Raises
    ------
    MissingPackageError
        It is not installed.
    """
    if importlib.util.find_spec(name) is None:
        raise MissingPackageError(f"{name} is not installed: pip install {name}")
    return imported(name)


def name_of(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", type(function).__name__)
