"""Machine code for single rows of the rules table, made by LLVM.

`emit` lowers an expression of the rules' language, `scalars` has one switch over
all scalar rows made from it, `loops` strided array loops, `compile` functions written
for Numba.  `llvm` compiles, `code` keeps the results on disk, `images` loads them again
without LLVM, and `ufuncs` finds the inner loops of NumPy's and SciPy's own ufuncs.  Nothing here knows tapes or tensors.
"""
