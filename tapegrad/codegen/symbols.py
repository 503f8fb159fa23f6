"""Addresses of the functions outside that machine code calls.

Those of the C library, of its vectors of functions and of Python are found in the
process.  Others, loops of SciPy's ufuncs and compiled functions of our own, are
`define`d before code that names them is loaded.
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache

from ..common.errors import InternalError

#: File name of glibc's functions on vectors.
VECTORS = "libmvec.so.1"
#: Name -> address.
_DEFINED: dict[str, int] = {}
#: Names that LLVM has been told.
_TOLD: set[str] = set()


def define(name, address):
    """Let `name` stand for `address` in code that is loaded from now on."""
    _DEFINED[name] = address


def tell(add_symbol):
    """Tell LLVM, by its `add_symbol`, what has been defined; before it links anything."""
    for name in _DEFINED.keys() - _TOLD:
        add_symbol(name, _DEFINED[name])
        _TOLD.add(name)


@cache
def vector_library():
    """glibc's libmvec, or None."""
    if sys.platform != "linux":
        return None
    try:
        return ctypes.CDLL(VECTORS)
    except OSError:
        return None


@cache
def _libraries():
    # The process, and what some interpreters are not linked with.
    libraries = [ctypes.CDLL(None), ctypes.CDLL("libm.so.6")]
    return [*libraries, vector_library()] if vector_library() is not None else libraries


@cache
def _in_process(name):
    for library in _libraries():
        try:
            return ctypes.cast(getattr(library, name), ctypes.c_void_p).value
        except AttributeError:
            continue
    raise InternalError(f"machine code calls {name}, which nobody has")


def address(name):
    """The address that `name` stands for."""
    defined = _DEFINED.get(name)
    return _in_process(name) if defined is None else defined
