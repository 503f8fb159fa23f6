"""What machine code depends on: the processor, and the versions of what makes it."""

from __future__ import annotations

from functools import cache

import llvmlite

from ..common.uninterrupted import imported, uninterrupted


@cache
@uninterrupted
def _asked():
    """What LLVM says of the processor, and of the system."""
    llvm = imported("llvmlite.binding")
    return llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten(), llvm.get_default_triple()


def identity():
    """Text that is the same only where the same machine code is made and can run."""
    return "\n".join((f"llvmlite {llvmlite.__version__}", *_asked()))


def cpu_name():
    """LLVM's name of the processor."""
    return _asked()[0]


@cache
def features():
    """The instruction sets of the processor, by LLVM's names."""
    return frozenset(name[1:] for name in _asked()[1].split(",") if name.startswith("+"))
