"""What machine code depends on: the processor, the versions of what makes it, and the functions on vectors that libm has.

The functions on vectors are those of glibc's libmvec, where the platform has it.  LLVM vectorises a scalar call whose call site
says which vector functions stand for it (the attribute ``vector-function-abi-variant``, see LLVM's "Vector Function ABI").
libmvec is part of glibc on x86-64; its results are within 4 units in the last place.  Elsewhere the scalar call stays.
"""

import ctypes
import os
import re
import sys
from functools import cache
from importlib.util import find_spec

import llvmlite

from ..common.config import portable
from ..common.uninterrupted import imported, uninterrupted
from .symbols import VECTORS

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
    """The target of code: processor and instruction sets by LLVM's names, and the system."""
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


def enabled(features):
    """The instruction sets that are on in a text that LLVM takes."""
    return frozenset(name[1:] for name in features.split(",") if name.startswith("+"))


@cache
def features():
    """The instruction sets of the processor, by LLVM's names."""
    return enabled(target()[1])


#: C function -> number of arguments.
CANDIDATES = {
    "exp": 1, "log": 1, "sin": 1, "cos": 1, "tan": 1, "pow": 2, "exp2": 1, "expm1": 1, "log2": 1, "log10": 1,
    "log1p": 1, "cbrt": 1, "asin": 1, "acos": 1, "atan": 1, "sinh": 1, "cosh": 1, "asinh": 1, "acosh": 1, "atanh": 1,
    "tanh": 1, "atan2": 2, "hypot": 2, "erf": 1,
}  # fmt: skip
#: Instruction set -> letter in the vector name, lanes of float64.
_SETS = {"sse2": ("b", 2), "avx2": ("d", 4), "avx512f": ("e", 8)}


@cache
def available():
    """Vector variants per function: ``{"exp": [("_ZGVdN4v_exp", 4), ...]}``; empty without libmvec."""
    if portable or sys.platform != "linux" or os.uname().machine != "x86_64":
        return {}
    try:
        library = ctypes.CDLL(VECTORS)
    except OSError:
        return {}
    return vector_variants(features(), library)


def vector_variants(features, library=None):
    """Vector variants for some instruction sets, of those that a library has; by default of all that libmvec has had since glibc 2.35."""
    by_name = {}
    for name, nargs in CANDIDATES.items():
        variants = []
        for feature, (letter, lanes) in _SETS.items():
            symbol = f"_ZGV{letter}N{lanes}{'v' * nargs}_{name}"
            if feature in features and (library is None or hasattr(library, symbol)):
                variants.append((symbol, lanes))
        if variants:
            by_name[name] = variants
    return by_name


def vectorise_calls(text, variants=None):
    """Add the vector `variants`, by default those `available`, to the calls of C functions in the text of a module."""
    variants = available() if variants is None else variants
    used = {}

    def mark(match):
        name = match.group(2)
        if name not in variants:
            return match.group(0)
        number = used.setdefault(name, 100 + len(used))
        return f"{match.group(1)} #{number}"

    text = re.sub(r'(= call double @"(\w+)"\([^\n]*\))', mark, text)
    if not used:
        return text
    lines, symbols = [], []
    for name, number in used.items():
        nargs = CANDIDATES[name]
        mappings = []
        for symbol, lanes in variants[name]:
            vector = f"<{lanes} x double>"
            lines.append(f"declare {vector} @{symbol}({', '.join([vector] * nargs)})")
            symbols.append(f"ptr @{symbol}")
            mappings.append(f"_ZGV_LLVM_N{lanes}{'v' * nargs}_{name}({symbol})")
        lines.append(
            f'attributes #{number} = {{ nounwind willreturn readnone '
            f'"vector-function-abi-variant"="{",".join(mappings)}" }}'
        )
    lines.append(
        f'@llvm.compiler.used = appending global [{len(symbols)} x ptr] [{", ".join(symbols)}], '
        'section "llvm.metadata"'
    )
    return text + "\n" + "\n".join(lines) + "\n"
