"""Tensors for other libraries: the array API standard, by which these compute with tensors, and DLPack, by which they share memory.

A library that knows the standard asks an array for its namespace and calls the functions of that. Ours is `tapegrad.numpy`: what such a library
computes is recorded as the user's own code is. (SciPy and scikit-learn ask where their users want it, xarray always.) What they do in compiled code
needs plain arrays, and raises.

DLPack hands out memory, and no derivative: a tensor that requires a gradient refuses. From then on the memory is watched (`tape.watch`), for some
libraries write to memory that is said to be read-only.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from ..common.registry import attach, registry
from ..tape.places import called
from ..tape.watch import expose
from .complex import ComplexTensor
from .differentiable import Differentiable
from .leaving import refused


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


def to_device(self, device: str, /, *, stream: Any = None) -> Any:
    """The tensor itself, for there is one device, "cpu"."""
    np.empty(0).to_device(device, stream=stream)
    return self


for _class in (Differentiable, ComplexTensor):
    attach(_class, {
        "__array_namespace__": namespace, "__dlpack__": dlpack, "__dlpack_device__": dlpack_device, "to_device": to_device,
        "device": property(lambda self: "cpu", doc="Where the tensor is: \"cpu\"."),
    })  # fmt: skip
