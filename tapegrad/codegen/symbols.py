"""Names of the functions outside that machine code calls.

Those of the C library, of its vectors of functions and of Python LLVM finds in the
process.  Others, loops of SciPy's ufuncs and compiled functions of our own, are
`define`d before code that names them is loaded.
"""

from __future__ import annotations

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
