"""The rules table: one row per primitive, a file per family.

Imports: common.

`table` says what a row is; `lang` is the language that rules are written in, `shapes` has what JVPs are written with besides.
Importing the families, in the order of this file, numbers the rows (their opcodes). Nothing that is kept may depend on the
numbers alone, for a program may add rows of its own: files name rows, and the keys of compiled code say which row has which
number (`codegen.of_rows`).

================================  ==========================================================================
elementwise, special              functions of each element: NumPy's and SciPy's, comparisons as numbers
reductions                        over axes, softmax and cross-entropy; products of elements and of matrices; scans along an axis
shaping                           other shapes and orders, parts, joints, assignment; transposed, and added into a part
linalg                            of matrices, with what derivatives of the determinant are made of
loops                             loops whose bodies are tapes
complex                           Fourier transforms and matrices of complex numbers, whose parts are an axis of real arrays
================================  ==========================================================================
"""

from . import elementwise, special, reductions, shaping, linalg, loops, complex  # noqa: F401
from .table import BY_FUNCTION, BY_NAME, ROWS, by_opcode  # noqa: F401

#: The rows of the package; others are a program's own.
OWN = frozenset(ROWS)
