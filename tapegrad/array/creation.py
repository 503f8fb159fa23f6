"""Functions that make tensors: zeros, ones, random numbers, and their ``*_like`` forms."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, overload

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ..common.dtypes import plain_array
from ..common.errors import ComplexOperandError
from ..common.registry import attach, registry
from ..tape.places import called
from ..tape.watch import expose
from .complex import ComplexTensor, made
from .differentiable import Differentiable, refused
from .functions import broadcast_to
from .functions.arguments import named
from .record import normalise
from .tensor import Tensor, rebuilt, tensor
from .typing import TensorLike

T = TypeVar("T", bound=Differentiable)

if TYPE_CHECKING:

    class ByShape(Protocol):
        def __call__(
            self, *size: int | tuple[int, ...] | list[int], requires_grad: bool = False, dtype: DTypeLike | None = None
        ) -> Tensor: ...

    class Like(Protocol):
        def __call__(self, x: TensorLike, *, requires_grad: bool = False, dtype: DTypeLike | None = None) -> Tensor: ...

#: The generator of `rand` and `randn`.
RANDOM = np.random.default_rng()


def manual_seed(seed: int) -> np.random.Generator:
    """Seed and return the `numpy.random.Generator` that `rand` and `randn` draw from.

    Parameters
    ----------
    seed : int

    Returns
    -------
    numpy.random.Generator

    Examples
    --------
    >>> import tapegrad as tg
    >>> type(tg.manual_seed(0)).__name__
    'Generator'
    """
    RANDOM.bit_generator.state = np.random.default_rng(seed).bit_generator.state
    return RANDOM


def _made(array, requires_grad, dtype=None):
    try:
        value = plain_array(array, "a tensor", dtype=dtype, copy=None)
    except ComplexOperandError:
        return made(array, requires_grad, dtype)
    return rebuilt(Tensor, normalise(value), requires_grad, None)


def _shape(size):
    return tuple(size[0]) if len(size) == 1 and isinstance(size[0], (tuple, list)) else size


def _by_shape(name: str, maker: Callable[[Any], Any], doc: str) -> ByShape:
    def function(*size: int | tuple[int, ...] | list[int], requires_grad: bool = False, dtype: DTypeLike | None = None) -> Tensor:
        """{doc}

        Parameters
        ----------
        *size : int, or one tuple
        requires_grad : bool
        dtype : dtype, optional
            float64 by default.

        Returns
        -------
        Tensor

        Examples
        --------
        >>> import tapegrad as tg
        >>> tg.{name}(2, 3).shape
        (2, 3)
        """
        return _made(maker(_shape(size)), requires_grad, dtype)

    return named(function, name, doc=doc)


zeros = _by_shape("zeros", np.zeros, "A tensor of zeros.")
ones = _by_shape("ones", np.ones, "A tensor of ones.")
empty = _by_shape("empty", np.empty, "A tensor of unspecified values.")
rand = _by_shape("rand", lambda s: RANDOM.random(s), "Uniform random numbers on [0, 1); see `manual_seed`.")
randn = _by_shape("randn", lambda s: RANDOM.standard_normal(s), "Standard normal random numbers; see `manual_seed`.")


def full(size: int | tuple[int, ...], fill_value: TensorLike, *, requires_grad: bool = False, dtype: DTypeLike | None = None) -> Tensor:
    """A tensor filled with `fill_value`; a tensor as `fill_value` is broadcast on the tape.

    Parameters
    ----------
    size : int or tuple of int
    fill_value : float or Tensor
    requires_grad : bool
        Whether the tensor is a leaf.
    dtype : dtype, optional
        float64 by default.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.full((2,), 7.0)
    tensor([7., 7.])
    """
    return _filled(size, fill_value, requires_grad, dtype or np.float64)


def eye(n: int, m: int | None = None, *, requires_grad: bool = False, dtype: DTypeLike | None = None) -> Tensor:
    """A matrix with ones on the diagonal.

    Parameters
    ----------
    n : int
        Number of rows.
    m : int, optional
        Number of columns; `n` by default.
    requires_grad : bool
        Whether the tensor is a leaf.
    dtype : dtype, optional
        float64 by default.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.eye(2)
    tensor([[1., 0.],
            [0., 1.]])
    """
    return _made(np.eye(n, m), requires_grad, dtype)


def arange(*args: float, requires_grad: bool = False, dtype: DTypeLike | None = None) -> Tensor:
    """Evenly spaced values, as from ``np.arange``.

    Parameters
    ----------
    *args : float
        ``start, stop, step``, as for ``np.arange``.
    requires_grad : bool
        Whether the tensor is a leaf.
    dtype : dtype, optional
        float64 by default.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.arange(3.0)
    tensor([0., 1., 2.])
    """
    array = np.arange(*args, dtype=dtype)
    return _made(array.astype(np.float64) if requires_grad and array.dtype.kind in "iu" else array, requires_grad)


def linspace(start: float, end: float, steps: int = 50, *, requires_grad: bool = False, dtype: DTypeLike | None = None) -> Tensor:
    """`steps` evenly spaced values from `start` to `end`, both included.

    Parameters
    ----------
    start : float
    end : float
    steps : int
    requires_grad : bool
        Whether the tensor is a leaf.
    dtype : dtype, optional
        float64 by default.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.linspace(0.0, 1.0, 3)
    tensor([0.0000, 0.5000, 1.0000])
    """
    return _made(np.linspace(start, end, steps), requires_grad, dtype)


def from_numpy(array: NDArray[Any]) -> Tensor:
    """A constant tensor that shares the memory of `array`.

    Parameters
    ----------
    array : ndarray

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.from_numpy(tg.ones(2).numpy())
    tensor([1., 1.])
    """
    made = _made(array, False)
    if made._v.__class__ is not float:
        # A read-only one may be what `Tensor.numpy` gives.
        expose(made._v, not made._v.flags.writeable)
    return made


def from_dlpack(x: Any, /, *, device: Literal["cpu"] | None = None, copy: bool | None = None) -> Tensor:
    """A constant tensor of an array of another library (PyTorch, JAX, CuPy), by DLPack; it shares memory where that is the processor's.

    Parameters
    ----------
    x : array of a library that offers DLPack
        It must not require a gradient.
    device : {"cpu", None}
        With "cpu" an array of another device is copied from there.
    copy : bool, optional
        True copies, False raises where the memory cannot be shared.

    Returns
    -------
    Tensor
        A `ComplexTensor`, with memory of its own, if `x` is complex.

    Raises
    ------
    TypeError
        `x` does not offer DLPack.
    BufferError, RuntimeError
        The other library does not give the memory away; NumPy has no such dtype (bfloat16).

    Examples
    --------
    >>> import numpy as np
    >>> import tapegrad as tg
    >>> a = np.zeros(2)
    >>> t = tg.from_dlpack(a)
    >>> a[0] = 5.0
    >>> t
    tensor([5., 0.])
    """
    if not hasattr(x, "__dlpack__"):
        raise TypeError(f"from_dlpack() takes an array of a library that offers DLPack, not {type(x).__name__}; for lists and numbers write tg.tensor(x)")
    return from_numpy(np.from_dlpack(x, device=device, copy=copy))


def _form(x):
    """Shape and dtype of `x`."""
    x = registry.objects.operand(x)
    array = x if isinstance(x, (Differentiable, registry.objects.Complex)) else np.asarray(x)
    return tuple(array.shape), array.dtype


def _like(name: str, maker: Callable[[Any], Any]) -> Like:
    def function(x: TensorLike, *, requires_grad: bool = False, dtype: DTypeLike | None = None) -> Tensor:
        """Like `{base}`, with the shape and dtype of `x`.

        Parameters
        ----------
        x : Tensor or array-like
        requires_grad : bool
            Whether the tensor is a leaf.
        dtype : dtype, optional
            That of `x` by default.

        Returns
        -------
        Tensor

        Examples
        --------
        >>> import tapegrad as tg
        >>> tg.{name}([1.0, 2.0]).shape
        (2,)
        """
        shape, kind = _form(x)
        return _made(maker(shape), requires_grad, dtype or kind)

    return named(function, name, base=name[:-5])


zeros_like = _like("zeros_like", np.zeros)
ones_like = _like("ones_like", np.ones)
empty_like = _like("empty_like", np.empty)
rand_like = _like("rand_like", lambda s: RANDOM.random(s))
randn_like = _like("randn_like", lambda s: RANDOM.standard_normal(s))


def full_like(x: TensorLike, fill_value: TensorLike, *, requires_grad: bool = False, dtype: DTypeLike | None = None) -> Tensor:
    """A tensor filled with `fill_value`, with the shape and dtype of `x`; a tensor as `fill_value` is broadcast on the tape.

    Parameters
    ----------
    x : Tensor or array-like
    fill_value : float or Tensor
    requires_grad : bool
        Whether the tensor is a leaf.
    dtype : dtype, optional
        That of `x` by default.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.full_like([1.0, 2.0], 3.0)
    tensor([3., 3.])
    """
    shape, kind = _form(x)
    return _filled(shape, fill_value, requires_grad, dtype or kind)


def _filled(shape, fill_value, requires_grad, dtype):
    fill_value = registry.objects.operand(fill_value)
    if isinstance(fill_value, registry.objects.Complex) or isinstance(fill_value, Differentiable) and fill_value.requires_grad:
        filled = broadcast_to(fill_value, shape)
        return filled.astype(dtype) if np.dtype(dtype).kind == filled.dtype.kind and filled.dtype != dtype else filled
    value = fill_value._let_out("a constant") if isinstance(fill_value, Differentiable) else fill_value
    return _made(np.full(shape, value, dtype), requires_grad)


@overload
def as_tensor(data: T, dtype: None = None) -> T: ...  # type: ignore[overload-overlap]
@overload
def as_tensor(data: TensorLike, dtype: DTypeLike | None = None) -> Tensor: ...
def as_tensor(data: Any, dtype: DTypeLike | None = None) -> Any:
    """Return `data` itself if it is a tensor, else a tensor made from it.

    Parameters
    ----------
    data : Tensor or array-like
    dtype : dtype, optional
        That of `data` by default.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.as_tensor([1.0, 2.0])
    tensor([1., 2.])
    """
    return data if isinstance(data, Differentiable) and dtype is None else tensor(data, dtype=dtype)


# ---- for other libraries -------------------------------------------------------------------------
def namespace(self, /, *, api_version: str | None = None) -> ModuleType:
    """`tapegrad.numpy`, which has the names of the array API standard up to version 2024.12."""
    return registry.later.namespace(api_version)


def dlpack(self, *, stream: Any = None, max_version: tuple[int, int] | None = None, dl_device: Any = None, copy: bool | None = None) -> Any:
    """The memory of a tensor that requires no gradient, for ``from_dlpack`` of another library."""
    if self.requires_grad:
        raise refused(
            f"write t.detach() for the value alone: DLPack would hand out the memory of {called(self, 'a tensor')}, which requires a gradient, "
            "and cut the derivative"
        )
    array = self.numpy()
    expose(array)
    return array.__dlpack__(stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)


def dlpack_device(self) -> tuple[int, int]:
    """DLPack's number of the processor, where all tensors are."""
    return np.empty(0).__dlpack_device__()


def to_device(self, device: Literal["cpu"], /, *, stream: Any = None) -> Any:
    """The tensor itself, for there is one device, "cpu"."""
    np.empty(0).to_device(device, stream=stream)
    return self


for _class in (Differentiable, ComplexTensor):
    attach(_class, {
        "__array_namespace__": namespace, "__dlpack__": dlpack, "__dlpack_device__": dlpack_device, "to_device": to_device,
        "device": property(lambda self: "cpu", doc="Where the tensor is: \"cpu\"."),
    })  # fmt: skip
