"""What machine code depends on: the processor that it is made for, and the versions of what makes it."""

from __future__ import annotations

import os
import sys
from functools import cache
from importlib.util import find_spec

import llvmlite

from ..common.uninterrupted import imported, uninterrupted

#: Processors that stand for many: LLVM's name, and instruction sets that it has, and that are asked for when code is to run there.
#: ``TAPEGRAD_TARGET`` names one for which this process makes its code, instead of for the processor that it runs on.
LEVELS = {
    "x86-64-v3": "+cx16,+sahf,+popcnt,+sse,+sse2,+sse3,+ssse3,+sse4.1,+sse4.2,+avx,+avx2,+bmi,+bmi2,+f16c,+fma,+lzcnt,+movbe,+xsave",
    "x86-64": "+sse,+sse2",
    "generic": "",
}


@cache
@uninterrupted
def target():
    """What code is made for: processor and instruction sets by LLVM's names, and the system."""
    llvm = imported("llvmlite.binding")
    level = os.environ.get("TAPEGRAD_TARGET")
    features = llvm.get_host_cpu_features().flatten() if level is None else LEVELS[level]
    return llvm.get_host_cpu_name() if level is None else level, features, llvm.get_default_triple()


def levels_here():
    """The `LEVELS` that this system has and this processor can run, the best first."""
    x86 = target()[2].startswith("x86_64")
    return [name for name in LEVELS if name.startswith("x86-64") == x86 and enabled(LEVELS[name]) <= features()]


def versions():
    """The versions of all that makes code, as text."""
    # Numba's without importing it.
    with open(os.path.join(os.path.dirname(find_spec("numba").origin), "_version.py"), encoding="utf-8") as file:
        return f"{sys.version} {sys.platform} llvmlite {llvmlite.__version__} numba {file.read()}"


def cpu_name():
    """LLVM's name of the processor."""
    return target()[0]


def enabled(features):
    """The instruction sets that are on in a text that LLVM takes."""
    return frozenset(name[1:] for name in features.split(",") if name.startswith("+"))


@cache
def features():
    """The instruction sets of the processor, by LLVM's names."""
    return enabled(target()[1])
