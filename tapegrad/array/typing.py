"""Types for annotations, in programs that use tapegrad and in its own signatures.

A function to differentiate is annotated by what it is *called* with: ``x: float``,
``x: Array``, ``params: dict[str, Array]``.  The derivatives of `tapegrad.grad` and its
kin then have the type of that argument.  (While it is recorded the function is given
tensors in their place, which behave as the arrays they stand for.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, Protocol, TypeAlias, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

__all__ = [
    "Argnums", "Array", "ArrayLike", "Axis", "Between", "DTypeLike", "KernelPolicy", "Mode", "OfFirst", "OfFirstTwo", "OfJacobian", "OfSecond",
    "Pytree", "TensorLike",
]  # fmt: skip

#: An array of float64: what derivatives are, unless their arguments were float32.
Array: TypeAlias = NDArray[np.float64]

class CarriesDerivative(Protocol):
    """A tensor or a dual number."""

    @property
    def requires_grad(self) -> bool: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    def detach(self) -> Any: ...
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]: ...


#: Arguments accepted in place of a tensor: numbers, arrays, nested lists of numbers.
TensorLike: TypeAlias = CarriesDerivative | ArrayLike


class Extremes(NamedTuple):
    """Elements, and their positions along an axis: tensors."""

    values: Any
    indices: Any


#: Numbers and arrays in containers: tuples, lists, dicts, namedtuples, dataclasses.
Pytree: TypeAlias = Any

#: The positions of the arguments to differentiate, or their names; several give a tuple of derivatives.
Argnums: TypeAlias = int | str | tuple[int | str, ...]

#: Axes of a reduction.
Axis: TypeAlias = int | tuple[int, ...] | None

#: When recordings become machine code.
KernelPolicy: TypeAlias = Literal["auto", "always", "never"]

#: The modes of computing a Jacobian.
Mode: TypeAlias = Literal["auto", "forward", "reverse"]


# bound=Any: a lambda is then checked as if its argument could be anything.
_First = TypeVar("_First", bound=Any, contravariant=True)
_Second = TypeVar("_Second", bound=Any, contravariant=True)
_Result = TypeVar("_Result", bound=Any, covariant=True)


class OfFirst(Protocol[_First]):
    """A function whose first positional argument is of a known type."""

    def __call__(self, x: _First, /, *args: Any, **kwargs: Any) -> Any: ...


class OfSecond(Protocol[_Second]):
    """A function whose second positional argument is of a known type."""

    def __call__(self, x: Any, y: _Second, /, *args: Any, **kwargs: Any) -> Any: ...


class OfFirstTwo(Protocol[_First, _Second]):
    """A function of whose first two positional arguments the types are known."""

    def __call__(self, x: _First, y: _Second, /, *args: Any, **kwargs: Any) -> Any: ...


class Between(Protocol[_First, _Result]):
    """A function of which the types of the first positional argument and of the result are known."""

    def __call__(self, x: _First, /, *args: Any, **kwargs: Any) -> _Result: ...


class Unknown:
    """No type of anything: where overloads have it, `Any` is taken for it first, so that what is not known stays `Any`."""


_Argument = TypeVar("_Argument", bound=Any, covariant=True)
_Value = TypeVar("_Value", bound=Any, covariant=True)


class OfJacobian(Generic[_Argument, _Value]):
    """Functions that return Jacobians: arrays, or numbers, where argument and value of the function are known to be such."""

    if TYPE_CHECKING:

        @overload
        def __call__(self: OfJacobian[Unknown, Any], *args: Any, **kwargs: Any) -> Any: ...
        @overload
        def __call__(self: OfJacobian[Any, Unknown], *args: Any, **kwargs: Any) -> Any: ...
        @overload
        def __call__(self: OfJacobian[float, float], *args: Any, **kwargs: Any) -> float: ...
        @overload
        def __call__(self: OfJacobian[float, NDArray[Any]], *args: Any, **kwargs: Any) -> Array: ...
        @overload
        def __call__(self: OfJacobian[NDArray[Any], float | NDArray[Any]], *args: Any, **kwargs: Any) -> Array: ...
        @overload
        def __call__(self, *args: Any, **kwargs: Any) -> Any: ...
        def __call__(self, *args: Any, **kwargs: Any) -> Any: ...
